//! Who is behind a number of a trend.

use facts::ReadView;
use hashbrown::HashSet;

use super::measure::{DIMENSIONS_MAX, DisplayMode, Measure};
use super::{Share, TrendsQuery};
use crate::Result;
use crate::actors::{Actor, DataPoint, InsightActors, count};
use crate::breakdown::{Breakdown, Split};
use crate::calendar::{Buckets, Interval};
use crate::context::{EventSelection, QueryContext};
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::range::Period;
use crate::scan::{Actors, Scan};
use crate::spec::{BreakdownFilter, Math};

/// Values of a breakdown that count.
type Wanted<'a> = (&'a Breakdown, &'a (dyn Fn(u32) -> bool + Sync));

impl TrendsQuery {
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let node = point.node(&self.own.series)?;
        let period = point.period(&context, self.own.interval, &self.own.compare_filter)?;
        let display_mode = self.own.trends_filter.display.display_mode();
        let measure = Measure { context: &context, node, period: &period, display_mode };
        measure.actors(&self.breakdown_filter(), point)
    }
}

impl Measure<'_> {
    fn actors(&self, split: &BreakdownFilter, point: &DataPoint) -> Result<InsightActors> {
        let Some(selection) = self.context.selection(self.node)? else {
            return Ok(InsightActors::default());
        };
        let bucket = match self.display_mode {
            DisplayMode::Total => None,
            _ => point.bucket(self.context, &point.day, &self.period.buckets)?,
        };
        let around = (self.period.from, self.period.to);
        let split = match point.value() {
            Some(_) => Split::plan(split, self.context, DIMENSIONS_MAX, around)?,
            None => Split::Whole,
        };
        match split {
            Split::Whole => self.who(&selection, None, bucket),
            Split::Cohorts(slices) => {
                let named = |id: Option<i64>| Share::Cohort(id, String::new()).json();
                let slice =
                    slices.iter().find(|slice| point.is_value(&named(slice.id.map(|id| id.0))));
                let Some(slice) = slice else { return Ok(InsightActors::default()) };
                self.who(&selection.and(slice.predicate.clone()), None, bucket)
            }
            Split::Values(mut breakdown) => {
                self.fill_bins(&selection, &mut breakdown)?;
                let lines = self.measure(&selection, Some(&breakdown))?.lines;
                let line = lines.iter().find(|line| point.is_value(&line.share.json()));
                let Some(line) = line else { return Ok(InsightActors::default()) };
                // Which they are is found out once, not for every event.
                let values = |share: &Share| match share {
                    Share::Values(texts, _) | Share::Null(texts, _) => breakdown.values_of(texts),
                    _ => Vec::new(),
                };
                match &line.share {
                    own @ (Share::Values(..) | Share::Null(..)) => {
                        let own = values(own);
                        self.who(
                            &selection,
                            Some((&breakdown, &|value| own.contains(&value))),
                            bucket,
                        )
                    }
                    _ => {
                        let ranked = lines.iter().flat_map(|line| values(&line.share));
                        let ranked: HashSet<u32> = ranked.collect();
                        let rest = |value: u32| !ranked.contains(&value);
                        self.who(&selection, Some((&breakdown, &rest)), bucket)
                    }
                }
            }
        }
    }

    fn who(
        &self,
        selection: &EventSelection,
        wanted: Option<Wanted<'_>>,
        bucket: Option<usize>,
    ) -> Result<InsightActors> {
        let actors = match self.node.math {
            Math::UniqueGroup => Actors::groups(self.node.math_group_type_index.unwrap_or(0)),
            _ => Actors::of(self.context.base.aggregation_group_type_index),
        };
        let is_wanted = |value: u32| wanted.is_none_or(|(_, is_wanted)| is_wanted(value));
        let breakdown = wanted.map(|(breakdown, _)| breakdown);
        let (from, to) = self.reach(bucket)?;
        if matches!(self.node.math, Math::FirstTimeForUser | Math::FirstMatchingEventForUser) {
            let firsts = self.first_events(selection, breakdown, &actors)?;
            let fits = |(_, time, value): &&(u32, i64, u32)| {
                (from..=to).contains(time) && is_wanted(*value)
            };
            let found = firsts.iter().filter(fits).map(|(actor, ..)| Actor::of((*actor, 1)));
            return InsightActors::new(&actors, found.collect::<Vec<_>>());
        }
        let scan = self.scan_filter(selection.filter(from, to), breakdown);
        let counts = count(&Scan { actors: Some(&actors), ..scan }, is_wanted)?;
        InsightActors::new(&actors, counts.into_iter().map(Actor::of))
    }

    /// The moments whose events count for a bucket, or for all.
    fn reach(&self, bucket: Option<usize>) -> Result<(i64, i64)> {
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
        let Some(bucket) = bucket else { return Ok((self.back(*to, days)?.min(*from), *to)) };
        let last = last_day(self, buckets, bucket)?;
        Ok((self.back(last, days)?, last.min(*to)))
    }
}

/// The last moment of the day that a rolling window ends with.
fn last_day(measure: &Measure<'_>, buckets: &Buckets, bucket: usize) -> Result<i64> {
    let calendar = &measure.context.dates.calendar;
    let end = match buckets.interval {
        Interval::Week | Interval::Month => buckets.end_of(bucket) - 1,
        _ => buckets.starts[bucket],
    };
    calendar.end(end.min(measure.period.to), Interval::Day)
}
