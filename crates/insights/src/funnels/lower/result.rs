//! The result of a funnel, from the rows of its statement.

use serde_json::{Value as Json, json};

use super::Plan;
use crate::funnels::count::{FunnelCounts, FunnelOutput, FunnelResult, FunnelSegment};
use crate::funnels::shape::{self, COMPARED, StepSummary};
use crate::lower::breakdown::{BreakdownBy, cohort_text};
use crate::lower::rows::Row;
use crate::query::date_range::Period;
use crate::scan::context::json_number;
use crate::{Error, Result};

/// A segment with its steps, or for conversion over time with its intervals.
type FoundSegment = (FunnelSegment, Vec<StepSummary>, FunnelCounts);

impl Plan<'_> {
    /// The results, and whether a breakdown has values beyond its limit.
    pub(super) fn results(&self, rows: &[Vec<Json>]) -> Result<(Json, bool)> {
        let shape = shape::Shape {
            scope: &self.lowering.scope,
            series: &self.query.spec.series,
            rules: &self.rules,
        };
        let mut periods = Vec::new();
        for (period, word) in self.periods().zip(COMPARED) {
            // Of compared periods each row begins with that it belongs to.
            let own = |row: &'_ Vec<Json>| row.first().is_some_and(|first| first == word);
            let rows: Vec<&[Json]> = match self.previous {
                None => rows.iter().map(Vec::as_slice).collect(),
                Some(_) => rows.iter().filter(|row| own(row)).map(|row| &row[1..]).collect(),
            };
            periods.push((period, rows));
        }
        if let FunnelOutput::Times { .. } = self.output {
            if rows.is_empty() {
                return Ok((shape::no_times(periods.len()), false));
            }
            let each = periods.iter().map(|(_, rows)| times(rows));
            return Ok((shape::compared(each.collect::<Result<_>>()?), false));
        }
        let is_whole = matches!(self.by, BreakdownBy::Nothing);
        let hidden_after = self.query.hidden_after(&self.lowering.scope.dates);
        let (mut segments, mut trends, mut has_more) = (Vec::new(), Vec::new(), false);
        for (period, rows) in periods {
            let (found, more) = self.found(&rows, period)?;
            has_more |= more;
            if self.is_trend() {
                let segments = found.into_iter().map(|(segment, _, counts)| (segment, counts));
                let found = FunnelResult { segments: segments.collect(), has_more };
                trends.push(shape.trends(&found, period, hidden_after)?);
            } else {
                let steps = found.into_iter().map(|(segment, steps, _)| (segment, steps));
                segments.push(steps.collect());
            }
        }
        let results = match self.is_trend() {
            true => shape::compared(trends),
            false => shape.segments(segments, is_whole),
        };
        Ok((results, has_more))
    }

    /// The segments of a period, the largest first, and whether a breakdown has values beyond its
    /// limit.
    fn found(&self, rows: &[&[Json]], period: &Period) -> Result<(Vec<FoundSegment>, bool)> {
        let mut has_more = false;
        let mut segments: Vec<FoundSegment> = Vec::new();
        for row in rows {
            let mut row = Row::new(row);
            let segment = self.segment(&mut row)?;
            has_more |= segment == FunnelSegment::Other;
            if !segments.iter().any(|(known, ..)| *known == segment) {
                let empty = vec![(0, 0); period.buckets.len()];
                let counts = FunnelCounts { buckets: empty, ..FunnelCounts::default() };
                segments.push((segment.clone(), Vec::new(), counts));
            }
            let (_, steps, counts) = segments
                .iter_mut()
                .find(|(known, ..)| *known == segment)
                .ok_or_else(|| Error::invalid("No such segment."))?;
            if self.is_trend() {
                let bucket = row.bucket(&period.buckets)?;
                counts.buckets[bucket] = (row.count()?, row.count()?);
            } else {
                for step in 0..self.rules.steps {
                    let reached = row.count()?;
                    let mut seconds = || -> Result<Option<f64>> {
                        if step == 0 { Ok(None) } else { row.number() }
                    };
                    let (mean, median) = (seconds()?, seconds()?);
                    steps.push(StepSummary { reached, mean, median });
                }
            }
            if self.values().is_some_and(|values| values.hide_other) {
                has_more |= row.truth()?;
            }
        }
        if matches!(self.by, BreakdownBy::Nothing) {
            if self.is_trend() && segments.is_empty() {
                segments.push((FunnelSegment::Whole, Vec::new(), FunnelCounts::default()));
            }
            return Ok((segments, has_more));
        }
        let entered = |(_, steps, counts): &FoundSegment| {
            steps.first().map_or_else(|| counts.entered(), |first| first.reached)
        };
        segments.retain(|segment| entered(segment) > 0);
        segments.sort_by(|a, b| {
            let is_rest = |segment: &FunnelSegment| *segment == FunnelSegment::Other;
            let by_rest = is_rest(&a.0).cmp(&is_rest(&b.0));
            let by_entered = by_rest.then_with(|| entered(b).cmp(&entered(a)));
            by_entered.then_with(|| self.place(&a.0).cmp(&self.place(&b.0)))
        });
        Ok((segments, has_more))
    }

    fn segment(&self, row: &mut Row<'_>) -> Result<FunnelSegment> {
        Ok(match &self.by {
            BreakdownBy::Nothing => FunnelSegment::Whole,
            BreakdownBy::Cohorts(cohorts) => {
                let text = row.text()?;
                let id = cohorts.iter().find(|id| cohort_text(**id) == text).copied().flatten();
                let cohort = id.and_then(|id| self.lowering.scope.context.cohorts.get(&id));
                let name = cohort.map_or("all users", String::as_str).to_owned();
                FunnelSegment::Cohort(id.map(|id| id.0), name)
            }
            BreakdownBy::Values(_) => match (row.truth()?, row.text()?) {
                (true, _) => FunnelSegment::Other,
                (_, "") => FunnelSegment::Null,
                (_, text) => FunnelSegment::Value(text.to_owned()),
            },
        })
    }

    /// The order among segments of the same size: labels, or the place in the list of cohorts.
    fn place(&self, segment: &FunnelSegment) -> (usize, String) {
        match (segment, &self.by) {
            (FunnelSegment::Cohort(id, _), BreakdownBy::Cohorts(cohorts)) => {
                let at = cohorts.iter().position(|own| own.map(|own| own.0) == *id);
                (at.unwrap_or(0), String::new())
            }
            (FunnelSegment::Value(text), _) => (0, text.clone()),
            _ => (0, crate::scan::breakdown::NULL.to_owned()),
        }
    }
}

/// The histogram of conversion times.
fn times(rows: &[&[Json]]) -> Result<Json> {
    let mut bins = Vec::new();
    let (mut average, mut median) = (Json::Null, Json::Null);
    for row in rows {
        let mut row = Row::new(row);
        let start = row.number()?.unwrap_or(0.0);
        bins.push(json!([json_number(start), row.count()?]));
        average = row.number()?.map_or(Json::Null, json_number);
        median = row.number()?.map_or(Json::Null, json_number);
    }
    Ok(json!({
        "average_conversion_time": average,
        "median_conversion_time": median,
        "bins": bins,
    }))
}
