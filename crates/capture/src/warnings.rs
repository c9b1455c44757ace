//! Ingestion warnings on their way to whoever stores them: at most one an hour for a project,
//! kind and event name, through a queue that never makes capture wait.

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
            let warning = Warning { project, kind, timestamp: at, details };
            if !throttle.allows(&warning) {
                continue;
            }
            match self.queue.try_send(warning.clone()) {
                Ok(()) => throttle.record(&warning),
                Err(_) => counters.lose_warning(),
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
}
