//! Ingestion pacing: under a burst of writes, the pipeline yields CPU to capture.

use std::time::Duration;

/// A batch during which at least this many times its records arrived is part of a burst.
const BURST_FACTOR: usize = 2;
/// In a burst, the pipeline pauses this many times as long as the batch took.
const PAUSE_FACTOR: u32 = 9;
/// A burst that lasts longer is sustained load, and the pipeline stops yielding to it.
const BURST_MAX: Duration = Duration::from_secs(5);

/// Decides how long to pause between batches. In a burst, capture goes first: accepted events are
/// durable in the journal and can be applied later.
#[derive(Debug, Default)]
pub struct IngestPacer {
    burst_lasted: Duration,
}

impl IngestPacer {
    /// The pause after a batch that took `elapsed`, applied `applied` records, and during which
    /// `arrived` others were appended to the journal.
    pub fn pause_after(&mut self, elapsed: Duration, applied: usize, arrived: usize) -> Duration {
        if arrived < BURST_FACTOR * applied {
            self.burst_lasted = Duration::ZERO;
            return Duration::ZERO;
        }
        self.burst_lasted += elapsed;
        let pause = BURST_MAX.saturating_sub(self.burst_lasted).min(elapsed * PAUSE_FACTOR);
        self.burst_lasted += pause;
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacer_pauses_in_a_burst_for_at_most_five_seconds() {
        let millis = Duration::from_millis;
        let mut pacer = IngestPacer::default();
        let mut pause = |arrived| pacer.pause_after(millis(300), 2_000, arrived);
        assert_eq!(pause(3_999), Duration::ZERO);
        let long = millis(2_700);
        assert_eq!([4_000; 3].map(&mut pause), [long, millis(1_700), Duration::ZERO]);
        assert_eq!(pause(3_999), Duration::ZERO);
        assert_eq!(pause(9_000), long);
    }
}
