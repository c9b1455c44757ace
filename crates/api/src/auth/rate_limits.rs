//! Rate limits per personal API key; off unless the operator enables them.

use std::collections::HashMap;
use std::sync::Mutex;

use axum::extract::MatchedPath;
use axum::http::request::Parts;
use catalog::PersonalKey;
use model::Timestamp;

use crate::{Error, Result};

/// Windows in memory. At this bound expired ones are evicted, and requests of new keys pass
/// uncounted until there is capacity.
const WINDOWS_MAX: usize = 50_000;

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

/// Upstream's published limits: (requests, seconds).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Bucket {
    Management,
    PersonDeletes,
    /// Reads of events.
    Analytics,
    EventValues,
}

impl Bucket {
    const fn limits(self) -> [(u32, i64); 2] {
        match self {
            Self::Management | Self::PersonDeletes => [(480, MINUTE), (4_800, HOUR)],
            Self::Analytics => [(240, MINUTE), (1_200, HOUR)],
            Self::EventValues => [(60, MINUTE), (300, HOUR)],
        }
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Window {
    key: String,
    bucket: Bucket,
    seconds: i64,
}

pub(crate) struct RateLimits {
    enabled: bool,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    windows: HashMap<Window, (i64, u32)>,
    /// When expired windows were last evicted, in seconds; at most once a second.
    pruned: i64,
}

impl Counts {
    fn has_room(&mut self, second: i64) -> bool {
        if self.windows.len() >= WINDOWS_MAX && self.pruned != second {
            self.pruned = second;
            self.windows.retain(|window, (start, _)| *start + window.seconds > second);
        }
        self.windows.len() < WINDOWS_MAX
    }
}

impl RateLimits {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, counts: Mutex::default() }
    }

    /// Counts one request of `key`, or rejects it (429) with the seconds to wait.
    pub(crate) fn take(&self, parts: &Parts, key: &PersonalKey, now: Timestamp) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        self.count(bucket(parts), &key.id, now)
    }

    fn count(&self, bucket: Bucket, key: &str, now: Timestamp) -> Result<()> {
        let second = now.as_micros().div_euclid(1_000_000);
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (max, seconds) in bucket.limits() {
            let start = second - second.rem_euclid(seconds);
            let window = Window { key: key.to_owned(), bucket, seconds };
            if !counts.windows.contains_key(&window) && !counts.has_room(second) {
                continue;
            }
            let count = counts.windows.entry(window).or_insert((start, 0));
            if count.0 != start {
                *count = (start, 0);
            }
            if count.1 >= max {
                return Err(Error::throttled((start + seconds - second).unsigned_abs()));
            }
            count.1 += 1;
        }
        Ok(())
    }
}

fn bucket(parts: &Parts) -> Bucket {
    let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let deletes = parts.method == axum::http::Method::DELETE || path.ends_with("/bulk_delete");
    if deletes && path.contains("/persons") {
        Bucket::PersonDeletes
    } else if path.ends_with("/events/values") {
        Bucket::EventValues
    } else if path.ends_with("/events") {
        Bucket::Analytics
    } else {
        Bucket::Management
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `calls` within one second are admitted.
    fn let_through(limits: &RateLimits, key: &str, second: i64, calls: usize) -> usize {
        let now = Timestamp::from_micros(second * 1_000_000);
        (0..calls).filter(|_| limits.count(Bucket::Management, key, now).is_ok()).count()
    }

    #[test]
    fn rate_limits_apply_per_minute_and_per_hour() {
        let limits = RateLimits::new(true);
        assert_eq!(let_through(&limits, "a", 0, 500), 480);
        assert_eq!(let_through(&limits, "b", 0, 10), 10);
        assert_eq!(let_through(&limits, "a", 59, 1), 0);
        for minute in 1..10 {
            assert_eq!(let_through(&limits, "a", 60 * minute, 481), 480);
        }
        assert_eq!(let_through(&limits, "a", 600, 1), 0, "4800 an hour");
        assert_eq!(let_through(&limits, "a", 3_600, 1), 1);
    }

    #[test]
    fn rate_limit_windows_are_bounded_and_survive_a_flood_of_keys() {
        let limits = RateLimits::new(true);
        assert_eq!(let_through(&limits, "a", 0, 481), 480);
        for number in 0..WINDOWS_MAX {
            assert_eq!(let_through(&limits, &number.to_string(), 1, 1), 1);
        }
        assert!(limits.counts.lock().unwrap().windows.len() <= WINDOWS_MAX);
        assert_eq!(let_through(&limits, "a", 2, 1), 0);
        // Expired windows free capacity.
        assert_eq!(let_through(&limits, "late", 60, 481), 480);
    }
}
