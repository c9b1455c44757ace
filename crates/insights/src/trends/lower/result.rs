//! Reads the result of trends from the rows of their statement.

use facts::QueryContext;
use model::CohortId;
use serde_json::Value as Json;

use super::{ComparedPeriod, Plan, SeriesResult, TrendsQuery, Unit, side_text};
use crate::lower::breakdown::{BreakdownBy, cohort_text};
use crate::lower::rows::Row;
use crate::query::date_range::Period;
use crate::query::spec::Node;
use crate::result::InsightResult;
use crate::scan::breakdown::BreakdownSegment;
use crate::trends::lines::{Line, Lines};
use crate::trends::shape::Shape;
use crate::{Error, Result};

impl TrendsQuery {
    pub(crate) fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: &[Vec<Json>],
    ) -> Result<InsightResult> {
        let plan = self.lowering(context)?;
        let mut computed = Vec::new();
        for unit in plan.units()? {
            let lines = plan.lines(&unit, rows)?;
            match computed.last_mut() {
                // The cohorts of one series.
                Some(SeriesResult { order, side, lines: known, .. })
                    if *order == unit.order && *side == unit.side =>
                {
                    known.lines.extend(lines.lines);
                }
                _ => {
                    let Unit { order, node, side, .. } = unit;
                    let period = plan.periods.iter().find(|(own, _)| *own == side);
                    let period = &period.ok_or_else(|| Error::invalid("No such period."))?.1;
                    let node = &self.spec.series[node_index(&self.spec.series, node)];
                    computed.push(SeriesResult { order, node, side, period, lines });
                }
            }
        }
        if let BreakdownBy::Cohorts(_) = plan.by {
            let weight = |line: &Line| plan.display_mode.weight(&line.data);
            for series in &mut computed {
                series.lines.lines.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
            }
        }
        let shape = Shape {
            scope: &plan.lowering.scope,
            display_mode: plan.display_mode,
            several: self.spec.series.len() > 1,
        };
        let more = computed.iter().any(|series| series.lines.has_more);
        let results = match plan.formulas.is_empty() {
            true => shape.series(&computed)?,
            false => {
                let data = |side: ComparedPeriod, segment: &BreakdownSegment, formula: usize| {
                    plan.formula_data(rows, side, segment, formula)
                };
                shape.formula_items(&computed, &plan.formulas, data)?
            }
        };
        let Some((_, Period { from, to, .. })) = plan.periods.first() else {
            return Err(Error::invalid("The query has no period."));
        };
        let calendar = &plan.lowering.scope.dates.calendar;
        let mut result = InsightResult::new(results, calendar, *from, *to, self.spec.interval)?;
        result.has_more = Some(more);
        Ok(result)
    }
}

fn node_index(series: &[Node], node: &Node) -> usize {
    series.iter().position(|own| std::ptr::eq(own, node)).unwrap_or(0)
}

impl Plan<'_> {
    /// The lines of a unit.
    fn lines(&self, unit: &Unit<'_>, rows: &[Vec<Json>]) -> Result<Lines> {
        let buckets = if self.is_total() { 1 } else { unit.period.buckets.len() };
        let mut found: Vec<(Line, Option<f64>)> = Vec::new();
        let mut has_more = false;
        let whole = match unit.cohort {
            None => BreakdownSegment::Whole,
            Some(id) => {
                let cohort = id.and_then(|id| self.lowering.scope.context.cohorts.get(&id));
                let name = cohort.map_or("all users", String::as_str).to_owned();
                BreakdownSegment::Cohort(id.map(|id| id.0), name)
            }
        };
        if self.values().is_none() {
            found.push((Line { segment: whole.clone(), data: vec![0.0; buckets] }, None));
        }
        for row in rows {
            let mut row = Row::new(row);
            if !self.is_of(unit, &mut row)? {
                continue;
            }
            let segment = match self.values() {
                Some(values) => values.segment(&mut row)?,
                None => whole.clone(),
            };
            let bucket = match self.is_total() {
                true => 0,
                false => row.bucket(&unit.period.buckets)?,
            };
            let value = match self.formulas.is_empty() {
                true => Some(row.number()?.unwrap_or(0.0)),
                false => {
                    let mut own = None;
                    for at in 0..self.query.spec.series.len() {
                        let number = row.number()?;
                        own = if at == unit.order { number } else { own };
                    }
                    self.formulas.iter().try_for_each(|_| row.next().map(drop))?;
                    own
                }
            };
            // A series without this line.
            let Some(value) = value else { continue };
            let weight = match self.smoothing() > 1 && self.formulas.is_empty() {
                true => row.number()?,
                false => None,
            };
            has_more |= matches!(segment, BreakdownSegment::Other(..));
            if self.hides_others() {
                has_more |= row.truth()?;
            }
            let line = match found.iter_mut().position(|(line, _)| line.segment == segment) {
                Some(at) => &mut found[at],
                None => {
                    found.push((Line { segment, data: vec![0.0; buckets] }, None));
                    let last = found.len() - 1;
                    &mut found[last]
                }
            };
            line.0.data[bucket] = value;
            line.1 = weight;
        }
        let weight = |(line, weight): &(Line, Option<f64>)| {
            weight.unwrap_or_else(|| self.display_mode.weight(&line.data))
        };
        found.sort_by(|a, b| {
            let by_rank = a.0.segment.rank().cmp(&b.0.segment.rank());
            let by_weight = by_rank.then_with(|| weight(b).total_cmp(&weight(a)));
            by_weight.then_with(|| a.0.segment.label().cmp(&b.0.segment.label()))
        });
        Ok(Lines { lines: found.into_iter().map(|(line, _)| line).collect(), has_more })
    }

    /// Reads the constants of a row: whether it belongs to the unit.
    fn is_of(&self, unit: &Unit<'_>, row: &mut Row<'_>) -> Result<bool> {
        let mut is_of = true;
        for constant in self.constants() {
            is_of &= match constant {
                // Formulas combine the series.
                "series" if !self.formulas.is_empty() => true,
                "series" => row.count()? == unit.order as u64,
                "period" => row.text()? == side_text(unit.side),
                _ => row.text()? == cohort_text(unit.cohort.flatten()),
            };
        }
        Ok(is_of)
    }

    fn formula_data(
        &self,
        rows: &[Vec<Json>],
        side: ComparedPeriod,
        segment: &BreakdownSegment,
        formula: usize,
    ) -> Result<Vec<f64>> {
        let period = self.periods.iter().find(|(own, _)| *own == side);
        let buckets = &period.ok_or_else(|| Error::invalid("No such period."))?.1.buckets;
        let mut data = vec![0.0; if self.is_total() { 1 } else { buckets.len() }];
        for row in rows {
            let mut row = Row::new(row);
            if self.compares() && row.text()? != side_text(side) {
                continue;
            }
            if let (BreakdownBy::Cohorts(_), BreakdownSegment::Cohort(id, _)) = (&self.by, segment)
                && row.text()? != cohort_text(id.map(CohortId))
            {
                continue;
            }
            if let Some(values) = self.values()
                && values.segment(&mut row)? != *segment
            {
                continue;
            }
            let bucket = if self.is_total() { 0 } else { row.bucket(buckets)? };
            for _ in 0..self.query.spec.series.len() + formula {
                row.next()?;
            }
            data[bucket] = row.number()?.unwrap_or(0.0);
        }
        Ok(data)
    }
}
