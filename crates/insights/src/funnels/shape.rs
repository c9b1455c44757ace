//! JSON results of funnels.

use serde_json::{Map, Value as Json, json};

use super::count::{FunnelCounts, FunnelResult, FunnelSegment};
use super::step_matcher::{Order, Rules};
use crate::Result;
use crate::aggregates::function::quantile;
use crate::query::date_range::Period;
use crate::query::spec::Node;
use crate::scan::context::{QueryScope, json_number, node_id, node_type};

/// Largest automatic number of bins.
pub(super) const BINS_MAX: usize = 60;
/// Bin width in seconds when all conversion times are equal.
pub(super) const WIDTH: i64 = 60;

pub(crate) struct Shape<'a> {
    pub scope: &'a QueryScope<'a>,
    pub series: &'a [Node],
    pub rules: &'a Rules,
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

fn number(number: Option<f64>) -> Json {
    number.map_or(Json::Null, json_number)
}

/// One step of a funnel: how many actors reached it, and how long they took from the step before, in
/// seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepSummary {
    pub reached: u64,
    pub mean: Option<f64>,
    pub median: Option<f64>,
}

impl FunnelCounts {
    pub fn summaries(&self, steps: usize) -> Vec<StepSummary> {
        let summary = |step: usize| {
            let seconds = self.seconds.get(step).filter(|_| step > 0);
            let seconds = seconds.map(Vec::as_slice).unwrap_or_default();
            let reached = self.levels.iter().skip(step).sum();
            StepSummary { reached, mean: mean(seconds), median: median(seconds) }
        };
        (0..steps).map(summary).collect()
    }
}

impl FunnelResult {
    /// The counts of a result that is not broken down.
    pub fn whole(&self) -> FunnelCounts {
        self.segments.first().map(|(_, counts)| counts.clone()).unwrap_or_default()
    }

    pub fn summaries(&self, steps: usize) -> Vec<(FunnelSegment, Vec<StepSummary>)> {
        let of = |(segment, counts): &(FunnelSegment, FunnelCounts)| {
            (segment.clone(), counts.summaries(steps))
        };
        self.segments.iter().map(of).collect()
    }
}

impl Shape<'_> {
    /// A step without a summary was reached by nobody.
    pub fn steps(&self, summaries: &[StepSummary]) -> Json {
        Json::Array(self.funnel(summaries).into_iter().map(Json::Object).collect())
    }

    pub fn broken_down(&self, segments: &[(FunnelSegment, Vec<StepSummary>)]) -> Json {
        let funnel = |(segment, summaries): &(FunnelSegment, Vec<StepSummary>)| {
            let (name, value) = names(segment);
            let with = |mut step: Map<String, Json>| {
                step.insert("breakdown".into(), name.clone());
                step.insert("breakdown_value".into(), value.clone());
                Json::Object(step)
            };
            Json::Array(self.funnel(summaries).into_iter().map(with).collect())
        };
        Json::Array(segments.iter().map(funnel).collect())
    }

    fn funnel(&self, summaries: &[StepSummary]) -> Vec<Map<String, Json>> {
        let step = |(order, node): (usize, &Node)| {
            let summary = summaries.get(order).copied().unwrap_or_default();
            let unordered = self.rules.order == Order::Unordered;
            let name = match (unordered, order) {
                (false, _) => self.scope.name(node),
                (true, 0) => "Completed 1 step".to_owned(),
                (true, _) => format!("Completed {} steps", order + 1),
            };
            let mut step = Map::new();
            let id = if unordered { Json::Null } else { node_id(node) };
            step.insert("action_id".into(), id);
            step.insert("name".into(), json!(name));
            let custom = node.custom_name.as_ref().filter(|_| !unordered);
            step.insert("custom_name".into(), json!(custom));
            step.insert("order".into(), json!(order));
            step.insert("people".into(), json!([]));
            step.insert("count".into(), json!(summary.reached));
            step.insert("type".into(), json!(node_type(node)));
            step.insert("average_conversion_time".into(), number(summary.mean));
            step.insert("median_conversion_time".into(), number(summary.median));
            step.insert("converted_people_url".into(), Json::Null);
            step.insert("dropped_people_url".into(), Json::Null);
            step
        };
        self.series.iter().enumerate().map(step).collect()
    }

    /// Histogram of conversion times.
    pub fn times(&self, found: &FunnelResult, bins: Option<usize>) -> Json {
        let all = found.segments.first().and_then(|(_, counts)| counts.seconds.first());
        let seconds = all.map(Vec::as_slice).unwrap_or_default();
        let low = seconds.iter().copied().reduce(f64::min);
        let high = seconds.iter().copied().reduce(f64::max);
        let (Some(low), Some(high)) = (low, high) else {
            return json!({
                "average_conversion_time": null,
                "median_conversion_time": null,
                "bins": [[0, 0], [1, 0]],
            });
        };
        let (low, high) = (low.floor() as i64, high.ceil() as i64);
        let auto = (seconds.len() as f64).cbrt().ceil() as usize;
        let count = bins.unwrap_or(auto.clamp(1, BINS_MAX));
        let width = match (high - low + count as i64 - 1) / count as i64 {
            0 => WIDTH,
            width => width,
        };
        let mut bins = vec![0u64; count + 1];
        for second in seconds {
            let at = (*second as i64 - low) / width;
            bins[(at as usize).min(count)] += 1;
        }
        let bin = |(at, count): (usize, u64)| json!([low + at as i64 * width, count]);
        let bins: Vec<Json> = bins.into_iter().enumerate().map(bin).collect();
        json!({
            "average_conversion_time": number(mean(seconds)),
            "median_conversion_time": number(median(seconds)),
            "bins": bins,
        })
    }

    /// Conversion rate over time, in percent.
    pub fn trends(&self, found: &FunnelResult, period: &Period) -> Result<Json> {
        let calendar = &self.scope.dates.calendar;
        let interval = period.buckets.interval;
        let starts = &period.buckets.starts;
        let days: Vec<String> = starts
            .iter()
            .map(|start| calendar.day_text(*start, interval))
            .collect::<Result<_>>()?;
        let labels: Vec<String> =
            starts.iter().map(|start| calendar.label(*start, interval)).collect::<Result<_>>()?;
        let item = |(segment, counts): &(FunnelSegment, FunnelCounts)| {
            let part = |at: usize| match counts.buckets.get(at) {
                Some((entered, converted)) if *entered > 0 => {
                    let percent = *converted as f64 / *entered as f64 * 100.0;
                    json_number((percent * 100.0).round() / 100.0)
                }
                _ => json!(0),
            };
            let data: Vec<Json> = (0..starts.len()).map(part).collect();
            let mut item = json!({
                "count": starts.len(), "data": data, "days": days, "labels": labels,
            });
            if *segment != FunnelSegment::Whole {
                item["breakdown_value"] = names(segment).1;
            }
            item
        };
        Ok(Json::Array(found.segments.iter().map(item).collect()))
    }
}

/// A segment as `breakdown` and as `breakdown_value`.
pub(crate) fn names(segment: &FunnelSegment) -> (Json, Json) {
    let same = |texts: Json| (texts.clone(), texts);
    match segment {
        FunnelSegment::Whole => same(Json::Null),
        FunnelSegment::Value(text) => same(json!([text])),
        FunnelSegment::Null => same(json!([""])),
        FunnelSegment::Other => same(json!(["Other"])),
        FunnelSegment::Cohort(None, name) => (json!(name), json!("all")),
        FunnelSegment::Cohort(Some(id), name) => (json!(name), json!(id)),
    }
}
