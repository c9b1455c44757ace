//! Rate limits per personal key; off unless the operator switches them on.

use std::collections::HashMap;
use std::sync::Mutex;

use axum::extract::MatchedPath;
use axum::http::request::Parts;
use catalog::PersonalKey;
use model::Timestamp;

use crate::{Error, Result};

/// Windows counted at once; past it, those that have ended are dropped, and keys that are new
/// go uncounted until there is room.
const WINDOWS_MAX: usize = 50_000;

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

/// Upstream's published limits: (requests, seconds).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Bucket {
    Management,
    PersonDeletes,
}

impl Bucket {
    const fn limits(self) -> [(u32, i64); 2] {
        match self {
            Self::Management | Self::PersonDeletes => [(480, MINUTE), (4_800, HOUR)],
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
    counts: Mutex<HashMap<Window, (i64, u32)>>,
}

impl RateLimits {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, counts: Mutex::default() }
    }

    /// Counts one request of `key`, or refuses it with the seconds to wait.
    pub(crate) fn take(&self, parts: &Parts, key: &PersonalKey, now: Timestamp) -> Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let bucket = bucket(parts);
        let second = now.as_micros().div_euclid(1_000_000);
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if counts.len() >= WINDOWS_MAX {
            counts.retain(|window, (start, _)| start.saturating_add(window.seconds) > second);
        }
        for (max, seconds) in bucket.limits() {
            let start = second - second.rem_euclid(seconds);
            let window = Window { key: key.id.clone(), bucket, seconds };
            if counts.len() >= WINDOWS_MAX && !counts.contains_key(&window) {
                continue;
            }
            let count = counts.entry(window).or_insert((start, 0));
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
    if deletes && path.contains("/persons") { Bucket::PersonDeletes } else { Bucket::Management }
}
