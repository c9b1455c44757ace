//! The paths that SDKs call to send events and to evaluate flags, listed once: the router registers
//! them and the fast path serves POSTs to the busiest without it. No trailing slash: both spellings
//! are served.

/// Event batches in any encoding. The OpenAPI document names an operation after the first.
pub(crate) const EVENTS: [&str; 5] = ["/capture", "/batch", "/e", "/i/v0/e", "/track"];
/// Mixpanel-style person updates.
pub(crate) const ENGAGE: &str = "/engage";
/// Session recordings: acknowledged and dropped.
pub(crate) const RECORDINGS: &str = "/s";
/// LLM events, which are ordinary events.
pub(crate) const AI_EVENTS: &str = "/i/v0/ai/batch";
/// Capture v1, which reports a result for each event.
pub(crate) const EVENTS_V1: &str = "/i/v1/analytics/events";
pub(crate) const GENERAL_EVENTS_V1: &str = "/i/v1/general/events";
/// Data that this server does not take. A 404 that browsers may read stops an SDK from retrying.
pub(crate) const UNSUPPORTED: [&str; 6] =
    ["/i/v0/ai", "/i/v0/ai/otel", "/i/v1/logs", "/i/v1/metrics", "/i/v1/traces", "/report"];

pub(crate) const FLAGS: &str = "/flags";
/// The predecessor of `/flags`.
pub(crate) const DECIDE: &str = "/decide";
