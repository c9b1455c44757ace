//! JSON results of trends.

use serde_json::{Map, Value as Json, json};

use super::formula::Formula;
use super::lines::Line;
use super::{ComparedPeriod, DisplayMode, SeriesResult, math_name};
use crate::Result;
use crate::query::date_range::Period;
use crate::query::spec::Node;
use crate::scan::breakdown::BreakdownSegment;
use crate::scan::context::{QueryScope, json_number, node_id, node_type};

pub(crate) struct Shape<'a> {
    pub scope: &'a QueryScope<'a>,
    pub display_mode: DisplayMode,
    /// The query has several series, so labels must name them.
    pub several: bool,
}

impl Shape<'_> {
    pub fn series(&self, found: &[SeriesResult<'_>]) -> Result<Json> {
        let mut items = Vec::new();
        for series in found {
            let name = self.scope.name(series.node);
            let action = self.action(series.node, series.order, series.period)?;
            for line in &series.lines.lines {
                let label = match (&line.segment, self.several) {
                    (BreakdownSegment::Whole, _) => name.clone(),
                    (segment, false) => segment.label(),
                    (segment, true) => format!("{name} - {}", segment.label()),
                };
                let mut item = self.item(line, &label, series.period, series.side)?;
                item.insert("action".into(), action.clone());
                items.push(Json::Object(item));
            }
        }
        Ok(Json::Array(items))
    }

    /// Evaluates formulas over lines of the same segment and period; a series without such a line
    /// counts as 0.
    pub fn formulas(
        &self,
        found: &[SeriesResult<'_>],
        formulas: &[(Formula, String)],
        series: usize,
    ) -> Result<Json> {
        let data = |side: ComparedPeriod, segment: &BreakdownSegment, formula: usize| {
            let in_period: Vec<&SeriesResult<'_>> =
                found.iter().filter(|found| found.side == side).collect();
            Ok(self.combine(&in_period, segment, &formulas[formula].0, series))
        };
        self.formula_items(found, formulas, data)
    }

    /// `data` gives the numbers of a segment for the formula with this index.
    pub fn formula_items(
        &self,
        found: &[SeriesResult<'_>],
        formulas: &[(Formula, String)],
        data: impl Fn(ComparedPeriod, &BreakdownSegment, usize) -> Result<Vec<f64>>,
    ) -> Result<Json> {
        let mut items = Vec::new();
        for side in [ComparedPeriod::Single, ComparedPeriod::Current, ComparedPeriod::Previous] {
            let in_period: Vec<&SeriesResult<'_>> =
                found.iter().filter(|found| found.side == side).collect();
            let Some(period) = in_period.first().map(|found| found.period) else { continue };
            let segments = segments(&in_period);
            for (formula, (_, name)) in formulas.iter().enumerate() {
                let mut lines: Vec<Line> = Vec::new();
                for segment in &segments {
                    let data = data(side, segment, formula)?;
                    lines.push(Line { segment: segment.clone(), data });
                }
                let weight = |line: &Line| self.display_mode.weight(&line.data);
                lines.sort_by(|a, b| {
                    let by_rank = a.segment.rank().cmp(&b.segment.rank());
                    by_rank.then_with(|| weight(b).total_cmp(&weight(a)))
                });
                for line in lines {
                    let mut item = self.item(&line, name, period, side)?;
                    if self.display_mode == DisplayMode::Total {
                        item.insert("data".into(), Json::Null);
                    }
                    item.insert("action".into(), Json::Null);
                    items.push(Json::Object(item));
                }
            }
        }
        Ok(Json::Array(items))
    }

    fn combine(
        &self,
        own: &[&SeriesResult<'_>],
        segment: &BreakdownSegment,
        formula: &Formula,
        series: usize,
    ) -> Vec<f64> {
        let mut columns: Vec<Option<&[f64]>> = vec![None; series];
        for found in own {
            let line = found.lines.lines.iter().find(|line| line.segment == *segment);
            columns[found.order] = line.map(|line| line.data.as_slice());
        }
        let len = columns.iter().flatten().map(|data| data.len()).max().unwrap_or(0);
        let at = |bucket: usize| {
            let of = |data: &Option<&[f64]>| {
                data.and_then(|data| data.get(bucket)).copied().unwrap_or(0.0)
            };
            let numbers: Vec<f64> = columns.iter().map(of).collect();
            formula.of(&numbers)
        };
        (0..len).map(at).collect()
    }

    fn item(
        &self,
        line: &Line,
        label: &str,
        period: &Period,
        side: ComparedPeriod,
    ) -> Result<Map<String, Json>> {
        let calendar = &self.scope.dates.calendar;
        let interval = period.buckets.interval;
        let starts = &period.buckets.starts;
        let days: Vec<String> = starts
            .iter()
            .map(|start| calendar.day_text(*start, interval))
            .collect::<Result<_>>()?;
        let mut item = Map::new();
        if self.display_mode == DisplayMode::Total {
            let value = line.data.first().copied().unwrap_or(0.0);
            item.insert("data".into(), json!([]));
            item.insert("count".into(), json!(0));
            item.insert("aggregated_value".into(), json_number(value));
        } else {
            let labels: Vec<String> = starts
                .iter()
                .map(|start| calendar.label(*start, interval))
                .collect::<Result<_>>()?;
            let data: Vec<Json> = line.data.iter().copied().map(json_number).collect();
            item.insert("data".into(), data.into());
            item.insert("labels".into(), json!(labels));
            item.insert("count".into(), json_number(self.display_mode.weight(&line.data)));
        }
        item.insert("days".into(), json!(days));
        item.insert("label".into(), json!(label));
        let filter = json!({
            "insight": "TRENDS",
            "interval": interval.as_str(),
            "date_from": calendar.iso(period.from)?,
            "date_to": calendar.iso(period.to)?,
        });
        item.insert("filter".into(), filter);
        if line.segment != BreakdownSegment::Whole {
            item.insert("breakdown_value".into(), line.segment.json());
        }
        let compared = match side {
            ComparedPeriod::Single => return Ok(item),
            ComparedPeriod::Current => "current",
            ComparedPeriod::Previous => "previous",
        };
        item.insert("compare".into(), json!(true));
        item.insert("compare_label".into(), json!(compared));
        Ok(item)
    }

    fn action(&self, node: &Node, order: usize, period: &Period) -> Result<Json> {
        let calendar = &self.scope.dates.calendar;
        let starts = period.buckets.starts.iter();
        let days: Vec<String> = starts.map(|start| calendar.iso(*start)).collect::<Result<_>>()?;
        Ok(json!({
            "days": days,
            "id": node_id(node),
            "type": node_type(node),
            "order": order,
            "name": self.scope.name(node),
            "custom_name": node.custom_name,
            "math": math_name(node.math),
            "math_property": node.math_property,
            "math_hogql": node.math_hogql,
            "math_group_type_index": node.math_group_type_index,
            "properties": {},
        }))
    }
}

/// The distinct segments of all series, in order of first occurrence.
fn segments(found: &[&SeriesResult<'_>]) -> Vec<BreakdownSegment> {
    let mut segments: Vec<BreakdownSegment> = Vec::new();
    let mut known = hashbrown::HashSet::new();
    for line in found.iter().flat_map(|found| &found.lines.lines) {
        if known.insert(&line.segment) {
            segments.push(line.segment.clone());
        }
    }
    segments
}
