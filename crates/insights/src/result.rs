use serde_json::Value as Json;

use crate::calendar::Calendar;
use crate::{Interval, Result};

/// An answer.
#[derive(Clone, Debug)]
pub struct InsightResult {
    pub results: Json,
    /// Of breakdowns: whether there are values beyond the limit.
    pub has_more: Option<bool>,
    /// The moments the answer is about, in ISO 8601.
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
