//! Lines as clients read them.

use serde_json::{Map, Value as Json, json};

use super::lines::{Line, Share};
use super::{DisplayMode, Found, Side, math_name};
use crate::Result;
use crate::context::{QueryContext, json_number, node_id, node_type};
use crate::formula::Formula;
use crate::range::Period;
use crate::spec::Node;

pub(crate) struct Shape<'a> {
    pub context: &'a QueryContext<'a>,
    pub display_mode: DisplayMode,
    /// Whether labels must say which series they are about.
    pub several: bool,
}

impl Shape<'_> {
    pub fn series(&self, found: &[Found<'_>]) -> Result<Json> {
        let mut items = Vec::new();
        for series in found {
            let name = self.context.name(series.node);
            let action = self.action(series.node, series.order, series.period)?;
            for line in &series.lines.lines {
                let label = match (&line.share, self.several) {
                    (Share::Whole, _) => name.clone(),
                    (share, false) => share.label(),
                    (share, true) => format!("{name} - {}", share.label()),
                };
                let mut item = self.item(line, &label, series.period, series.side)?;
                item.insert("action".into(), action.clone());
                items.push(Json::Object(item));
            }
        }
        Ok(Json::Array(items))
    }

    /// Combines lines of equal shares and periods; a series without one counts as 0.
    pub fn formulas(
        &self,
        found: &[Found<'_>],
        formulas: &[(Formula, String)],
        series: usize,
    ) -> Result<Json> {
        let mut items = Vec::new();
        for side in [Side::Alone, Side::Current, Side::Previous] {
            let own: Vec<&Found<'_>> = found.iter().filter(|found| found.side == side).collect();
            let Some(period) = own.first().map(|found| found.period) else { continue };
            let shares = shares(&own);
            for (formula, name) in formulas {
                let mut lines: Vec<Line> = Vec::new();
                for share in &shares {
                    let data = self.combine(&own, share, formula, series);
                    lines.push(Line { share: share.clone(), data });
                }
                let weight = |line: &Line| self.display_mode.weight(&line.data);
                lines.sort_by(|a, b| {
                    let by_rank = a.share.rank().cmp(&b.share.rank());
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
        own: &[&Found<'_>],
        share: &Share,
        formula: &Formula,
        series: usize,
    ) -> Vec<f64> {
        let mut columns: Vec<Option<&[f64]>> = vec![None; series];
        for found in own {
            let line = found.lines.lines.iter().find(|line| line.share == *share);
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
        side: Side,
    ) -> Result<Map<String, Json>> {
        let calendar = &self.context.dates.calendar;
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
        if line.share != Share::Whole {
            item.insert("breakdown_value".into(), line.share.json());
        }
        let compared = match side {
            Side::Alone => return Ok(item),
            Side::Current => "current",
            Side::Previous => "previous",
        };
        item.insert("compare".into(), json!(true));
        item.insert("compare_label".into(), json!(compared));
        Ok(item)
    }

    fn action(&self, node: &Node, order: usize, period: &Period) -> Result<Json> {
        let calendar = &self.context.dates.calendar;
        let starts = period.buckets.starts.iter();
        let days: Vec<String> = starts.map(|start| calendar.iso(*start)).collect::<Result<_>>()?;
        Ok(json!({
            "days": days,
            "id": node_id(node),
            "type": node_type(node),
            "order": order,
            "name": self.context.name(node),
            "custom_name": node.custom_name,
            "math": math_name(node.math),
            "math_property": node.math_property,
            "math_hogql": node.math_hogql,
            "math_group_type_index": node.math_group_type_index,
            "properties": {},
        }))
    }
}

/// Every share of any series, in the order they are first met.
fn shares(found: &[&Found<'_>]) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    let mut known = hashbrown::HashSet::new();
    for line in found.iter().flat_map(|found| &found.lines.lines) {
        if known.insert(&line.share) {
            shares.push(line.share.clone());
        }
    }
    shares
}
