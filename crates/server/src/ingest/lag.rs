//! How far the stores are behind the journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::{Clock, Timestamp};

pub(super) const SECONDS_HELP: &str =
    "Age of the last applied record while others wait, at most the time for which any waited";

/// How far the stores are behind the journal.
#[derive(Debug, PartialEq)]
pub(crate) struct Lag {
    pub records: u64,
    /// Age of the last applied record while others wait, at most the time for which any waited.
    pub seconds: f64,
}

impl Lag {
    pub fn new(records: u64, last_applied: Timestamp, caught_up: &CaughtUp) -> Self {
        // After idle hours the last applied record is old, but the next one has not waited for long.
        let current_until = last_applied.as_micros().max(caught_up.at.load(Ordering::Relaxed));
        // Until the first batch is applied, the time lag is unknown.
        let is_known = records > 0 && current_until > 0;
        let lag_us = caught_up.clock.now().as_micros().saturating_sub(current_until).max(0);
        Self { records, seconds: if is_known { lag_us as f64 / 1e6 } else { 0.0 } }
    }
}

/// When the pipeline last had applied every record of the journal.
#[derive(Clone, Debug)]
pub(crate) struct CaughtUp {
    /// In microseconds; `i64::MAX` while the pipeline waits for records.
    at: Arc<AtomicI64>,
    clock: Clock,
}

impl CaughtUp {
    pub fn new(clock: Clock) -> Self {
        Self { at: Arc::default(), clock }
    }

    /// The pipeline waits for records.
    pub fn begin(&self) {
        self.at.store(i64::MAX, Ordering::Relaxed);
    }

    /// It has received some.
    pub fn end(&self) {
        self.at.store(self.clock.now().as_micros(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    fn seconds(records: u64, last_applied: i64, caught_up: &CaughtUp) -> f64 {
        Lag::new(records, at(last_applied), caught_up).seconds
    }

    #[test]
    fn first_record_after_idle_hours_is_not_late() {
        let clock = Clock::at(at(9_000));
        let caught_up = CaughtUp::new(clock.clone());
        caught_up.begin();
        assert_eq!(seconds(0, 100, &caught_up), 0.0);
        // Appended, and the pipeline has not woken up yet.
        assert_eq!(seconds(1, 100, &caught_up), 0.0);
        caught_up.end();
        clock.advance_seconds(60);
        assert_eq!(seconds(5, 100, &caught_up), 60.0);
        assert_eq!(seconds(5, 9_050, &caught_up), 10.0);
    }

    #[test]
    fn time_lag_is_unknown_until_a_record_is_applied() {
        let caught_up = CaughtUp::new(Clock::at(at(9_000)));
        assert_eq!(seconds(7, 0, &caught_up), 0.0);
        assert_eq!(seconds(7, 8_000, &caught_up), 1_000.0);
    }
}
