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
/// `compare_label` of the query's own period, and of the one that it is compared with.
pub(super) const COMPARED: [&str; 2] = ["current", "previous"];
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
            let reached = self.reached.get(step).copied().unwrap_or_default();
            StepSummary { reached, mean: mean(seconds), median: median(seconds) }
        };
        (0..steps).map(summary).collect()
    }
}

impl FunnelResult {
    pub fn summaries(&self, steps: usize) -> Segments {
        let of = |(segment, counts): &(FunnelSegment, FunnelCounts)| {
            (segment.clone(), counts.summaries(steps))
        };
        self.segments.iter().map(of).collect()
    }
}

/// The steps of each segment.
pub(crate) type Segments = Vec<(FunnelSegment, Vec<StepSummary>)>;

/// The result of one period, or those of two with `compare_label` in each item.
pub(crate) fn compared(mut periods: Vec<Json>) -> Json {
    if periods.len() == 1 {
        return periods.remove(0);
    }
    fn label(item: &mut Json, word: &str) {
        match item {
            Json::Array(items) => items.iter_mut().for_each(|item| label(item, word)),
            item => item["compare_label"] = json!(word),
        }
    }
    let mut all = Vec::new();
    for (mut result, word) in periods.into_iter().zip(COMPARED) {
        label(&mut result, word);
        match result {
            Json::Array(items) => all.extend(items),
            item => all.push(item),
        }
    }
    Json::Array(all)
}

/// Gives all periods the same segments in the same order, so that each has its counterpart: those of
/// the current period, then others of the previous one.
fn align(periods: &mut [Segments]) {
    let mut names: Vec<FunnelSegment> = Vec::new();
    for (segment, _) in periods.iter().flatten() {
        if !names.contains(segment) {
            names.push(segment.clone());
        }
    }
    for period in periods {
        let own = |name: &FunnelSegment| {
            let steps = period.iter().find(|(segment, _)| segment == name);
            (name.clone(), steps.map(|(_, steps)| steps.clone()).unwrap_or_default())
        };
        *period = names.iter().map(own).collect();
    }
}

impl Shape<'_> {
    /// The steps of each period.
    pub fn segments(&self, mut periods: Vec<Segments>, is_whole: bool) -> Json {
        let none: &[StepSummary] = &[];
        if is_whole {
            let steps = |segments: &Segments| {
                self.steps(segments.first().map_or(none, |(_, steps)| steps.as_slice()))
            };
            return compared(periods.iter().map(steps).collect());
        }
        if periods.len() > 1 {
            align(&mut periods);
        }
        compared(periods.iter().map(|segments| self.broken_down(segments)).collect())
    }

    /// A step without a summary was reached by nobody.
    fn steps(&self, summaries: &[StepSummary]) -> Json {
        Json::Array(self.funnel(summaries).into_iter().map(Json::Object).collect())
    }

    fn broken_down(&self, segments: &[(FunnelSegment, Vec<StepSummary>)]) -> Json {
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

    /// Histogram of conversion times; those of two periods have the same bins.
    pub fn times(&self, periods: &[&FunnelResult], bins: Option<usize>) -> Json {
        let seconds = |found: &&FunnelResult| {
            let all = found.segments.first().and_then(|(_, counts)| counts.seconds.first());
            all.cloned().unwrap_or_default()
        };
        let periods: Vec<Vec<f64>> = periods.iter().map(seconds).collect();
        let all = || periods.iter().flatten().copied();
        let (Some(low), Some(high)) = (all().reduce(f64::min), all().reduce(f64::max)) else {
            return no_times(periods.len());
        };
        let (low, high) = (low.floor() as i64, high.ceil() as i64);
        let auto = (all().count() as f64).cbrt().ceil() as usize;
        let count = bins.unwrap_or(auto.clamp(1, BINS_MAX));
        let width = match (high - low + count as i64 - 1) / count as i64 {
            0 => WIDTH,
            width => width,
        };
        let histogram = |seconds: &Vec<f64>| {
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
        };
        compared(periods.iter().map(histogram).collect())
    }

    /// Conversion rate over time, in percent, of the intervals that end by `hidden_after`.
    pub fn trends(
        &self,
        found: &FunnelResult,
        period: &Period,
        hidden_after: Option<i64>,
    ) -> Result<Json> {
        let calendar = &self.scope.dates.calendar;
        let interval = period.buckets.interval;
        let is_hidden = |at: &usize| {
            hidden_after.is_some_and(|hidden_after| period.buckets.end_of(*at) > hidden_after)
        };
        let shown = (0..period.buckets.len()).take_while(|at| !is_hidden(at)).count();
        let starts = &period.buckets.starts[..shown];
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

/// The histogram of one or two periods in which nobody converted.
pub(crate) fn no_times(periods: usize) -> Json {
    let bins = if periods == 1 { json!([[0, 0], [1, 0]]) } else { json!([]) };
    let none = json!({
        "average_conversion_time": null, "median_conversion_time": null, "bins": bins,
    });
    compared(vec![none; periods])
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
