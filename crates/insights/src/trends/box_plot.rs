//! Box plots: the distribution of a property's values in each interval.

use serde_json::{Value as Json, json};

use super::TrendsQuery;
use super::series::{DisplayMode, SeriesQuery};
use crate::aggregates::function::AggregateFn;
use crate::query::spec::{BreakdownFilter, Math, Node};
use crate::result::InsightResult;
use crate::scan::context::ScanContext;
use crate::{Error, Result};

/// The numbers of a box, by their keys.
const NUMBERS: [(&str, Math); 6] = [
    ("min", Math::Min),
    ("p25", Math::P25),
    ("median", Math::Median),
    ("p75", Math::P75),
    ("max", Math::Max),
    ("mean", Math::Avg),
];

impl TrendsQuery {
    /// A box for each interval and series, zeros where there are no values.
    pub(super) fn box_plot(&self, context: &ScanContext<'_>) -> Result<InsightResult> {
        let spec = &self.spec;
        if !spec.breakdown_filter.is_empty()
            || spec.compare_filter.compare
            || !self.formulas()?.is_empty()
        {
            let detail = "A box plot has no breakdown, no comparison and no formula.";
            return Err(Error::Invalid(detail.into()));
        }
        let period = context.scope.dates.period(&self.base.date_range, spec.interval)?;
        let calendar = &context.scope.dates.calendar;
        let mut boxes = Vec::new();
        for (order, node) in spec.series.iter().enumerate() {
            if AggregateFn::for_property(node.math).is_none() {
                let detail = "A series of a box plot needs the math of a property, such as avg.";
                return Err(Error::Invalid(detail.into()));
            }
            let mut numbers = Vec::new();
            for (key, math) in NUMBERS {
                let node = Node { math, ..node.clone() };
                let display_mode = DisplayMode::Series;
                let query = SeriesQuery { context, node: &node, period: &period, display_mode };
                let lines = query.lines(&BreakdownFilter::default())?;
                let line = lines.and_then(|lines| lines.lines.into_iter().next());
                numbers.push((key, line.map(|line| line.data).unwrap_or_default()));
            }
            for (bucket, start) in period.buckets.starts.iter().enumerate() {
                let mut plot = json!({
                    "day": calendar.day_text(*start, spec.interval)?,
                    "label": calendar.label(*start, spec.interval)?,
                    "series_index": order,
                    "series_label": context.scope.name(node),
                });
                for (key, data) in &numbers {
                    let value = data.get(bucket).copied().filter(|value| value.is_finite());
                    plot[*key] = json!(value.unwrap_or(0.0));
                }
                boxes.push(plot);
            }
        }
        let (from, to) = (period.from, period.to);
        InsightResult::new(Json::Array(boxes), calendar, from, to, spec.interval)
    }
}
