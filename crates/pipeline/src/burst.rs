//! Who goes first while more comes in than can be applied.

use std::time::Duration;

/// How many times as many records come in as are applied while it is a burst, and how many times as
/// long as a batch took the pipeline then rests.
const TIMES: usize = 2;
const RESTS: u32 = 9;
/// What lasts longer is no burst any more.
const LONGEST: Duration = Duration::from_secs(5);

/// Taking in goes first in a burst: what came is safe, and can be applied when it is over.
#[derive(Debug, Default)]
pub struct Burst {
    lasted: Duration,
}

impl Burst {
    /// How long to rest after a batch of so many records, while which others came.
    pub fn rest(&mut self, took: Duration, applied: usize, came: usize) -> Duration {
        if came < TIMES * applied {
            self.lasted = Duration::ZERO;
            return Duration::ZERO;
        }
        self.lasted += took;
        let rest = LONGEST.saturating_sub(self.lasted).min(took * RESTS);
        self.lasted += rest;
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_in_first_but_not_for_long() {
        let millis = Duration::from_millis;
        let mut burst = Burst::default();
        let mut rests = |came| burst.rest(millis(300), 2_000, came);
        assert_eq!(rests(3_999), Duration::ZERO);
        let long = millis(2_700);
        assert_eq!([4_000; 3].map(&mut rests), [long, millis(1_700), Duration::ZERO]);
        assert_eq!(rests(3_999), Duration::ZERO);
        assert_eq!(rests(9_000), long);
    }
}
