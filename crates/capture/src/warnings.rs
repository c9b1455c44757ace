//! Ingestion warnings on their way to whoever stores them: at most one an hour for a project,
//! kind and event name, through a queue that never makes capture wait.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use model::{ProjectId, Timestamp, Warning, WarningDetails, WarningKind};
use tokio::sync::mpsc::Sender;

use crate::counters::Counters;

const PERIOD_SECONDS: i64 = 3_600;
/// About 300 kB. When it is full the oldest key is forgotten, and may warn again early.
const KEYS_MAX: usize = 10_000;

pub(crate) struct Warnings {
    queue: Sender<Warning>,
    hasher: RandomState,
    throttle: Mutex<Throttle>,
}

impl Warnings {
    pub(crate) fn new(queue: Sender<Warning>) -> Self {
        Self { queue, hasher: RandomState::new(), throttle: Mutex::default() }
    }

    pub(crate) fn tell(
        &self,
        project: ProjectId,
        at: Timestamp,
        warnings: Vec<(WarningKind, WarningDetails)>,
        counters: &Counters,
    ) {
        if warnings.is_empty() {
            return;
        }
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, details) in warnings {
            let key = self.hasher.hash_one((project, kind, &details.event));
            if !throttle.allows(key, at) {
                continue;
            }
            let warning = Warning { project, kind, timestamp: at, details };
            match self.queue.try_send(warning) {
                Ok(()) => throttle.remember(key, at),
                Err(_) => counters.lose_warning(),
            }
        }
    }
}

/// When each key last warned, by the hash of the key.
#[derive(Default)]
struct Throttle {
    last: HashMap<u64, Timestamp>,
    order: VecDeque<u64>,
}

impl Throttle {
    fn allows(&self, key: u64, at: Timestamp) -> bool {
        self.last.get(&key).is_none_or(|last| at.seconds_since(*last) >= PERIOD_SECONDS)
    }

    fn remember(&mut self, key: u64, at: Timestamp) {
        if self.last.insert(key, at).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.last.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::channel;

    use super::*;

    fn details(event: &str) -> WarningDetails {
        WarningDetails { event: Some(event.to_owned()), ..WarningDetails::default() }
    }

    #[test]
    fn a_key_warns_once_an_hour_and_a_full_queue_loses_without_waiting() {
        let (queue, mut stored) = channel(2);
        let (warnings, counters) = (Warnings::new(queue), Counters::default());
        let tell = |project, seconds, event: &str| {
            let at = Timestamp::from_micros(0).plus_seconds(seconds);
            let noted = vec![(WarningKind::InvalidEvent, details(event))];
            warnings.tell(ProjectId(project), at, noted, &counters);
        };
        tell(1, 0, "a");
        tell(1, 3_599, "a");
        tell(2, 0, "a");
        assert_eq!(counters.snapshot().warnings_lost, 0);
        tell(1, 0, "b");
        assert_eq!(counters.snapshot().warnings_lost, 1);

        assert_eq!(stored.try_recv().unwrap().project, ProjectId(1));
        assert_eq!(stored.try_recv().unwrap().project, ProjectId(2));
        tell(1, 1, "b");
        tell(1, 3_600, "a");
        assert_eq!(stored.try_recv().unwrap().details, details("b"));
        assert_eq!(stored.try_recv().unwrap().details, details("a"));
        assert!(stored.try_recv().is_err());
    }

    #[test]
    fn the_throttle_never_outgrows_its_bound() {
        let mut throttle = Throttle::default();
        let at = Timestamp::from_micros(0);
        for key in 0..=KEYS_MAX as u64 {
            throttle.remember(key, at);
            throttle.remember(key, at);
        }
        assert_eq!((throttle.last.len(), throttle.order.len()), (KEYS_MAX, KEYS_MAX));
        assert!(throttle.allows(0, at));
        assert!(!throttle.allows(1, at));
    }
}
