//! Drill-down of trends.

use facts::ReadView;
use hashbrown::HashSet;

use super::TrendsQuery;
use super::series::{DIMENSIONS_MAX, DisplayMode, SeriesQuery};
use crate::Result;
use crate::actors::{Actor, DataPoint, InsightActors, count};
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::calendar::{Buckets, Interval};
use crate::query::date_range::Period;
use crate::query::spec::{BreakdownFilter, Math};
use crate::scan::breakdown::{Breakdown, BreakdownPlan, BreakdownSegment};
use crate::scan::context::{EventSelection, QueryContext};
use crate::scan::{ActorSource, Scan};

/// A breakdown, and which of its values are included.
type ValueFilter<'a> = (&'a Breakdown, &'a (dyn Fn(u32) -> bool + Sync));

impl TrendsQuery {
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let node = point.node(&self.spec.series)?;
        let period = point.period(&context, self.spec.interval, &self.spec.compare_filter)?;
        let display_mode = self.spec.trends_filter.display.display_mode();
        let query = SeriesQuery { context: &context, node, period: &period, display_mode };
        query.actors(&self.breakdown_filter(), point)
    }
}

impl SeriesQuery<'_> {
    fn actors(&self, filter: &BreakdownFilter, point: &DataPoint) -> Result<InsightActors> {
        let Some(selection) = self.context.selection(self.node)? else {
            return Ok(InsightActors::default());
        };
        let bucket = match self.display_mode {
            DisplayMode::Total => None,
            _ => point.bucket(self.context, &point.day, &self.period.buckets)?,
        };
        let around = self.scanned_range()?;
        let plan = match point.value() {
            Some(_) => BreakdownPlan::new(filter, self.context, DIMENSIONS_MAX, around)?,
            None => BreakdownPlan::NoBreakdown,
        };
        match plan {
            BreakdownPlan::NoBreakdown => self.matching_actors(&selection, None, bucket),
            BreakdownPlan::Cohorts(slices) => {
                let named = |id: Option<i64>| BreakdownSegment::Cohort(id, String::new()).json();
                let slice =
                    slices.iter().find(|slice| point.is_value(&named(slice.id.map(|id| id.0))));
                let Some(slice) = slice else { return Ok(InsightActors::default()) };
                self.matching_actors(&selection.and(slice.predicate.clone()), None, bucket)
            }
            BreakdownPlan::Values(mut breakdown) => {
                self.fill_bins(&selection, &mut breakdown)?;
                let lines = self.compute(&selection, Some(&breakdown))?.lines;
                let line = lines.iter().find(|line| point.is_value(&line.segment.json()));
                let Some(line) = line else { return Ok(InsightActors::default()) };
                // Resolve labels to value ids once, not per event.
                let values = |segment: &BreakdownSegment| match segment {
                    BreakdownSegment::Values(texts, _) | BreakdownSegment::Null(texts, _) => {
                        breakdown.values_of(texts)
                    }
                    _ => Vec::new(),
                };
                match &line.segment {
                    own @ (BreakdownSegment::Values(..) | BreakdownSegment::Null(..)) => {
                        let own = values(own);
                        self.matching_actors(
                            &selection,
                            Some((&breakdown, &|value| own.contains(&value))),
                            bucket,
                        )
                    }
                    _ => {
                        let ranked = lines.iter().flat_map(|line| values(&line.segment));
                        let ranked: HashSet<u32> = ranked.collect();
                        let rest = |value: u32| !ranked.contains(&value);
                        self.matching_actors(&selection, Some((&breakdown, &rest)), bucket)
                    }
                }
            }
        }
    }

    fn matching_actors(
        &self,
        selection: &EventSelection,
        values: Option<ValueFilter<'_>>,
        bucket: Option<usize>,
    ) -> Result<InsightActors> {
        let actors = match self.node.math {
            Math::UniqueGroup => ActorSource::groups(self.node.math_group_type_index.unwrap_or(0)),
            _ => ActorSource::of(self.context.base.aggregation_group_type_index),
        };
        let is_included = |value: u32| values.is_none_or(|(_, includes)| includes(value));
        let breakdown = values.map(|(breakdown, _)| breakdown);
        let (from, to) = self.time_range(bucket)?;
        if matches!(self.node.math, Math::FirstTimeForUser | Math::FirstMatchingEventForUser) {
            let firsts = self.first_events(selection, breakdown, &actors)?;
            let fits = |(_, time, value): &&(u32, i64, u32)| {
                (from..=to).contains(time) && is_included(*value)
            };
            let matching = firsts.iter().filter(fits).map(|(actor, ..)| Actor::of((*actor, 1)));
            return InsightActors::new(&actors, matching.collect::<Vec<_>>());
        }
        let scan = self.scan_filter(selection.filter(from, to), breakdown);
        let counts = count(&Scan { actors: Some(&actors), ..scan }, is_included)?;
        InsightActors::new(&actors, counts.into_iter().map(Actor::of))
    }

    /// The time range whose events count for a bucket, or for all buckets.
    fn time_range(&self, bucket: Option<usize>) -> Result<(i64, i64)> {
        let Period { from, to, buckets } = self.period;
        let days = match self.node.math {
            Math::WeeklyActive => 7,
            Math::MonthlyActive => 30,
            _ => {
                let Some(bucket) = bucket else { return Ok((*from, *to)) };
                let start = match self.display_mode {
                    DisplayMode::Cumulative => *from,
                    _ => buckets.starts[bucket].max(*from),
                };
                return Ok((start, (buckets.end_of(bucket) - 1).min(*to)));
            }
        };
        let Some(bucket) = bucket else {
            return Ok((self.window_start(*to, days)?.min(*from), *to));
        };
        let last = last_day(self, buckets, bucket)?;
        Ok((self.window_start(last, days)?, last.min(*to)))
    }
}

/// End of the last day of a bucket's rolling window.
fn last_day(query: &SeriesQuery<'_>, buckets: &Buckets, bucket: usize) -> Result<i64> {
    let calendar = &query.context.dates.calendar;
    let end = match buckets.interval {
        Interval::Week | Interval::Month => buckets.end_of(bucket) - 1,
        _ => buckets.starts[bucket],
    };
    calendar.end(end.min(query.period.to), Interval::Day)
}
