//! The result of an insight query.

use serde_json::Value as Json;

use crate::query::calendar::Calendar;
use crate::{Interval, Result};

/// Results as JSON, with the metadata of the response.
#[derive(Clone, Debug)]
pub struct InsightResult {
    pub results: Json,
    /// Whether a breakdown has values beyond its limit.
    pub has_more: Option<bool>,
    /// First and last instant of the resolved date range, in ISO 8601.
    pub resolved: Option<(String, String)>,
    pub interval: Interval,
}

impl InsightResult {
    pub(crate) fn new(
        results: Json,
        calendar: &Calendar,
        from: i64,
        to: i64,
        interval: Interval,
    ) -> Result<Self> {
        let resolved = Some((calendar.iso(from)?, calendar.iso(to)?));
        Ok(Self { results, has_more: None, resolved, interval })
    }
}
