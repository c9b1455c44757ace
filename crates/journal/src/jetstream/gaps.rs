//! Finds messages that were acknowledged and are not in the stream.
//!
//! Sequences have no gap when a stream lost its end and other messages got the same sequences. The
//! counters of the publishers show it: each message says up to where those before it were acknowledged.

use std::collections::{BTreeSet, VecDeque};

use crate::jetstream::message::Origin;
use crate::jetstream::publisher::WINDOW;

/// Series that are remembered: one for each start of a publisher, and for each message it gave up.
const SERIES_MAX: usize = 256;

pub(crate) struct Gaps {
    /// Whether the reader has seen the stream from its first message on.
    whole: bool,
    /// Oldest first.
    series: VecDeque<Series>,
}

struct Series {
    id: u64,
    /// Messages with a lower counter were seen, or may have come before the reader's start.
    floor: u64,
    /// Counters that were seen, from `floor` on.
    seen: BTreeSet<u64>,
}

impl Gaps {
    pub(crate) fn new(whole: bool) -> Gaps {
        Gaps { whole, series: VecDeque::new() }
    }

    /// Notes a message. The error says which one is missing before it; it stays until that one comes.
    pub(crate) fn check(&mut self, origin: Origin) -> Result<(), String> {
        let Origin { series: id, counter, settled } = origin;
        let at = match self.series.iter().rposition(|series| series.id == id) {
            Some(at) => at,
            None => {
                if self.series.len() == SERIES_MAX {
                    self.series.pop_front();
                    self.whole = false;
                }
                // Messages that were begun within a window of this one may have been stored before the
                // start. Later ones were begun when this one was acknowledged.
                let floor = if self.whole { 0 } else { counter + WINDOW };
                self.series.push_back(Series { id, floor, seen: BTreeSet::new() });
                self.series.len() - 1
            }
        };
        let series = &mut self.series[at];
        if counter >= series.floor {
            series.seen.insert(counter);
        }
        while series.floor < settled {
            if !series.seen.remove(&series.floor) {
                return Err(format!(
                    "message {} of publisher {id:016x} was acknowledged and is missing before its \
                     message {counter}",
                    series.floor
                ));
            }
            series.floor += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jetstream::publisher::Series as Publisher;

    fn check(gaps: &mut Gaps, series: u64, messages: &[(u64, u64)]) -> Result<(), String> {
        let mut origins =
            messages.iter().map(|&(counter, settled)| Origin { series, counter, settled });
        origins.try_for_each(|origin| gaps.check(origin))
    }

    #[test]
    fn messages_may_overtake_each_other_and_some_may_never_come() {
        let mut gaps = Gaps::new(true);
        // 4 was given up: its series ends, and another begins.
        check(&mut gaps, 1, &[(1, 0), (0, 0), (2, 1), (5, 3), (3, 0)]).unwrap();
        check(&mut gaps, 2, &[(0, 0), (1, 1)]).unwrap();
    }

    #[test]
    fn acknowledged_message_that_is_missing_is_found_again_and_again() {
        let mut gaps = Gaps::new(true);
        check(&mut gaps, 1, &[(0, 0), (1, 1)]).unwrap();
        let error = check(&mut gaps, 1, &[(3, 3)]).unwrap_err();
        assert!(error.starts_with("message 2 of publisher 0000000000000001"), "{error}");
        assert_eq!(check(&mut gaps, 1, &[(3, 3)]).unwrap_err(), error);
    }

    #[test]
    fn reader_that_begins_in_the_middle_misses_only_what_cannot_have_come_before() {
        let mut gaps = Gaps::new(false);
        check(&mut gaps, 1, &[(100, 90), (95, 90)]).unwrap();
        let floor = 100 + WINDOW;
        check(&mut gaps, 1, &[(floor + 1, floor)]).unwrap();
        let error = check(&mut gaps, 1, &[(floor + 2, floor + 1)]).unwrap_err();
        assert!(error.starts_with(&format!("message {floor} ")), "{error}");
    }

    #[test]
    fn reader_may_begin_at_any_message_of_a_series_that_waited_for_a_slow_one() {
        let mut publisher = Publisher::new();
        let slow = publisher.begin().unwrap();
        let mut stream = Vec::new();
        while let Some(origin) = publisher.begin() {
            stream.push(origin);
            publisher.acknowledge(origin);
        }
        assert_eq!(stream.len() as u64, WINDOW - 1);
        stream.push(slow);
        publisher.acknowledge(slow);
        for _ in 0..64 {
            let [early, late] = [(); 2].map(|()| publisher.begin().unwrap());
            stream.extend([late, early]);
            publisher.acknowledge(early);
            publisher.acknowledge(late);
        }
        for start in 0..stream.len() {
            let mut gaps = Gaps::new(false);
            let read = stream[start..].iter().try_for_each(|origin| gaps.check(*origin));
            assert_eq!(read, Ok(()), "from message {start} on");
        }
    }
}
