//! Limits of requests and events.

use std::time::Duration;

/// Configurable limits of one request and of all requests together. The limits of single events are
/// part of the contract and fixed below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compressed body.
    pub body_bytes_max: usize,
    /// Compressed body of capture v1.
    pub v1_body_bytes_max: usize,
    /// Decompressed body.
    pub text_bytes_max: usize,
    /// Journal records of one body. Tiny events are larger in the journal than in the body; must be
    /// below the journal's limit of one append.
    pub records_bytes_max: usize,
    /// Memory budget of all requests: bodies, decoded bodies and records.
    pub in_flight_bytes_max: usize,
    /// How long a request waits for a reservation.
    pub in_flight_wait_max: Duration,
}

const MIB: usize = 1_024 * 1_024;

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 20 * MIB,
            v1_body_bytes_max: 10 * MIB,
            text_bytes_max: 20 * MIB,
            records_bytes_max: 56 * MIB,
            in_flight_bytes_max: 128 * MIB,
            in_flight_wait_max: Duration::from_secs(5),
        }
    }
}

/// JSON of one event as sent; the pipeline checks again after enrichment.
pub(crate) const EVENT_BYTES_MAX: usize = 1_000_000;
/// `$ai_` events carry whole LLM conversations.
pub(crate) const AI_EVENT_BYTES_MAX: usize = 8 * MIB;
/// Longer names and distinct ids are truncated; capture v1 counts bytes and drops the event.
pub(crate) const NAME_CHARS_MAX: usize = 200;
pub(crate) const DISTINCT_ID_CHARS_MAX: usize = 200;
pub(crate) const TOKEN_BYTES_MAX: usize = 64;
/// Bound of each part of `PostHog-Sdk-Info`, which every record of a request repeats.
pub(crate) const SDK_INFO_BYTES_MAX: usize = 100;

pub(crate) fn event_bytes_max(name: &str) -> usize {
    if name.starts_with("$ai_") { AI_EVENT_BYTES_MAX } else { EVENT_BYTES_MAX }
}
