//! Sends ingestion warnings to the task that stores them: at most one an hour per project, kind and
//! event name, through a bounded queue that never blocks capture.

use std::sync::{Mutex, PoisonError};

use model::{ProjectId, Throttle, Timestamp, Warning, WarningDetails, WarningKind};
use tokio::sync::mpsc::Sender;

use crate::counters::Counters;

pub(crate) struct Warnings {
    queue: Sender<Warning>,
    throttle: Mutex<Throttle>,
}

impl Warnings {
    pub(crate) fn new(queue: Sender<Warning>) -> Self {
        Self { queue, throttle: Mutex::default() }
    }

    pub(crate) fn send(
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
            let warning = Warning { project, kind, timestamp: at, details };
            if !throttle.allows(&warning) {
                continue;
            }
            match self.queue.try_send(warning.clone()) {
                Ok(()) => throttle.record(&warning),
                Err(_) => counters.count_lost_warning(),
            }
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
    fn warnings_are_throttled_hourly_and_a_full_queue_drops_without_blocking() {
        let (queue, mut stored) = channel(2);
        let (warnings, counters) = (Warnings::new(queue), Counters::default());
        let send = |project, seconds, event: &str| {
            let at = Timestamp::from_micros(0).plus_seconds(seconds);
            let batch = vec![(WarningKind::InvalidEvent, details(event))];
            warnings.send(ProjectId(project), at, batch, &counters);
        };
        send(1, 0, "a");
        send(1, 3_599, "a");
        send(2, 0, "a");
        assert_eq!(counters.snapshot().warnings_lost, 0);
        send(1, 0, "b");
        assert_eq!(counters.snapshot().warnings_lost, 1);

        assert_eq!(stored.try_recv().unwrap().project, ProjectId(1));
        assert_eq!(stored.try_recv().unwrap().project, ProjectId(2));
        send(1, 1, "b");
        send(1, 3_600, "a");
        assert_eq!(stored.try_recv().unwrap().details, details("b"));
        assert_eq!(stored.try_recv().unwrap().details, details("a"));
        assert!(stored.try_recv().is_err());
    }
}
