use std::time::Duration;

/// Bounds of what one request may bring and of what all of them may hold. Those of single
/// events are part of the contract and not settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Body on the wire.
    pub body_bytes_max: usize,
    /// Body on the wire, capture v1.
    pub v1_body_bytes_max: usize,
    /// Body after decompression.
    pub text_bytes_max: usize,
    /// Records made of one body. Many tiny events take more room in the journal than on the
    /// wire; this is below what the journal takes at once.
    pub records_bytes_max: usize,
    /// Bytes of bodies, texts and records held by all requests together.
    pub in_flight_bytes_max: usize,
    /// How long a request waits for its part of them.
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

/// One event's JSON, as sent; the pipeline measures again after enrichment.
pub(crate) const EVENT_BYTES_MAX: usize = 1_000_000;
/// Traces of language models carry whole conversations.
pub(crate) const AI_EVENT_BYTES_MAX: usize = 8 * MIB;
/// Characters of an event name and of a distinct id that are kept; bytes in capture v1.
pub(crate) const NAME_CHARS_MAX: usize = 200;
pub(crate) const DISTINCT_ID_CHARS_MAX: usize = 200;
pub(crate) const TOKEN_BYTES_MAX: usize = 64;
/// Each part of `PostHog-Sdk-Info`, which every record of a request repeats.
pub(crate) const SDK_INFO_BYTES_MAX: usize = 100;

pub(crate) fn event_bytes_max(name: &str) -> usize {
    if name.starts_with("$ai_") { AI_EVENT_BYTES_MAX } else { EVENT_BYTES_MAX }
}
