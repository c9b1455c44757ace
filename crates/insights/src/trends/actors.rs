//! Drill-down of trends: to actors and to events.

use std::sync::Arc;

use facts::ReadView;
use hashbrown::{HashMap, HashSet};
use warehouse::{ABSENT, Column, ColumnKey, Predicate};

use super::TrendsQuery;
use super::series::{DIMENSIONS_MAX, DisplayMode, SeriesQuery};
use crate::Result;
use crate::actors::{Actor, DataPoint, InsightActors, count};
use crate::aggregates::function::AggregateFn;
use crate::columns::{number, text};
use crate::counted_events::{CountedEvents, RowColumns, RowTest};
use crate::hogql::HogqlCompiler;
use crate::limits::{MemoryReservation, QueryLimits};
use crate::query::calendar::{Buckets, Interval};
use crate::query::date_range::Period;
use crate::query::spec::{BreakdownFilter, Math, MathPropertyType};
use crate::scan::breakdown::{Breakdown, BreakdownPlan, BreakdownSegment, ValueSet};
use crate::scan::context::{EventSelection, ScanContext};
use crate::scan::sessions::Sessions;
use crate::scan::{ActorSource, Rows, Scan};

impl TrendsQuery {
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        self.with_series(&context, point, |series| series.actors(&self.breakdown_filter(), point))
    }

    pub(crate) fn events(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<CountedEvents> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        self.with_series(&context, point, |series| series.events(&self.breakdown_filter(), point))
    }

    /// Calls `run` with the series and the period of the data point.
    fn with_series<T>(
        &self,
        context: &ScanContext<'_>,
        point: &DataPoint,
        run: impl FnOnce(&SeriesQuery<'_>) -> Result<T>,
    ) -> Result<T> {
        let node = point.node(&self.spec.series)?;
        let period = point.period(context, self.spec.interval, &self.spec.compare_filter)?;
        let display_mode = self.spec.trends_filter.display.display_mode();
        run(&SeriesQuery { context, node, period: &period, display_mode })
    }
}

/// The events of a data point: a selection, the breakdown values that it includes, and the bucket; none
/// for all buckets.
struct PointSelection {
    selection: EventSelection,
    breakdown: Option<Breakdown>,
    values: ValueSet,
    bucket: Option<usize>,
}

impl SeriesQuery<'_> {
    /// None if the result has no such data point.
    fn point(&self, filter: &BreakdownFilter, point: &DataPoint) -> Result<Option<PointSelection>> {
        let Some(selection) = self.context.selection(self.node)? else { return Ok(None) };
        let bucket = match self.display_mode {
            DisplayMode::Total => None,
            _ => point.bucket(self.context, &point.day, &self.period.buckets)?,
        };
        let whole = |selection| PointSelection {
            selection,
            breakdown: None,
            values: ValueSet::All,
            bucket,
        };
        let around = self.scanned_range()?;
        let plan = match point.value() {
            Some(_) => BreakdownPlan::new(filter, self.context, DIMENSIONS_MAX, around)?,
            None => BreakdownPlan::NoBreakdown,
        };
        Ok(match plan {
            BreakdownPlan::NoBreakdown => Some(whole(selection)),
            BreakdownPlan::Cohorts(slices) => {
                let named = |id: Option<i64>| BreakdownSegment::Cohort(id, String::new()).json();
                let slice = slices
                    .into_iter()
                    .find(|slice| point.is_value(&named(slice.id.map(|id| id.0))));
                slice.map(|slice| whole(selection.and(slice.predicate)))
            }
            BreakdownPlan::Values(mut breakdown) => {
                self.fill_bins(&selection, &mut breakdown)?;
                let lines = self.compute(&selection, Some(&breakdown))?.lines;
                let segments = || lines.iter().map(|line| &line.segment);
                let segment = segments().find(|segment| point.is_value(&segment.json()));
                segment.map(|segment| {
                    let values = breakdown.values_in(segment, segments());
                    PointSelection { selection, breakdown: Some(breakdown), values, bucket }
                })
            }
        })
    }

    fn actors(&self, filter: &BreakdownFilter, point: &DataPoint) -> Result<InsightActors> {
        let Some(point) = self.point(filter, point)? else { return Ok(InsightActors::default()) };
        let PointSelection { selection, breakdown, values, bucket } = point;
        let actors = match self.node.math {
            Math::UniqueGroup => ActorSource::groups(self.node.math_group_type_index.unwrap_or(0)),
            _ => ActorSource::of(self.context.scope.base.aggregation_group_type_index),
        };
        let (from, to) = self.time_range(bucket)?;
        if self.counts_first_events() {
            let firsts = self.first_events(&selection, breakdown.as_ref(), &actors)?;
            let fits = |(_, time, value): &&(u32, i64, u32)| {
                (from..=to).contains(time) && values.contains(*value)
            };
            let matching = firsts.iter().filter(fits).map(|(actor, ..)| Actor::of((*actor, 1)));
            return InsightActors::new(&actors, matching.collect::<Vec<_>>());
        }
        let scan = self.scan_filter(selection.filter(from, to), breakdown.as_ref());
        let scan = Scan { actors: Some(&actors), ..scan };
        let counts = count(&scan, |value| values.contains(value))?;
        InsightActors::new(&actors, counts.into_iter().map(Actor::of))
    }

    fn counts_first_events(&self) -> bool {
        matches!(self.node.math, Math::FirstTimeForUser | Math::FirstMatchingEventForUser)
    }

    fn events(&self, filter: &BreakdownFilter, point: &DataPoint) -> Result<CountedEvents> {
        let Some(point) = self.point(filter, point)? else { return Ok(CountedEvents::none()) };
        let PointSelection { selection, breakdown, values, bucket } = point;
        let view = self.context.view;
        let range = self.time_range(bucket)?;
        if self.counts_first_events() {
            let uuids = self.first_event_uuids(&selection, breakdown.as_ref(), &values, range)?;
            let mut memory = self.context.limits.reserve();
            memory.resize(uuids.allocation_size())?;
            let columns = RowColumns { uuids: true, ..RowColumns::default() };
            let test =
                RowTest::of_rows(view, columns, move |rows, row| uuids.contains(&rows.uuids[row]));
            return Ok(CountedEvents::of(&selection, range, Some(test.charged(memory))));
        }
        let selection = selection.and(self.number_predicate()?);
        let actors = self.counted_actors();
        if actors.is_none() && breakdown.is_none() {
            return Ok(CountedEvents::of(&selection, range, None));
        }
        let (actors, breakdown) = (actors.map(Arc::new), breakdown.map(Arc::new));
        let columns = RowColumns { actors, breakdown, ..RowColumns::default() };
        let test =
            RowTest::of_rows(view, columns, move |rows, row| values.contains(rows.value(row)));
        Ok(CountedEvents::of(&selection, range, Some(test)))
    }

    /// The actors that an event must have to be counted; none where every event counts.
    fn counted_actors(&self) -> Option<ActorSource> {
        match self.node.math {
            Math::UniqueSession => Some(ActorSource::sessions()),
            Math::UniqueGroup => {
                Some(ActorSource::groups(self.node.math_group_type_index.unwrap_or(0)))
            }
            Math::Total | Math::Hogql => None,
            math if AggregateFn::for_property(math).is_some() => None,
            _ => Some(ActorSource::of(self.context.scope.base.aggregation_group_type_index)),
        }
    }

    /// For maths over a property: events whose property is a number. Others are not counted.
    fn number_predicate(&self) -> Result<Option<Predicate>> {
        if AggregateFn::for_property(self.node.math).is_none() {
            return Ok(None);
        }
        let ScanContext { view, limits, .. } = self.context;
        let (name, source) = self.math_property()?;
        Ok(Some(match source {
            MathPropertyType::Event => {
                Predicate::test(ColumnKey::Property(name.to_owned()), |value| {
                    value.and_then(number).is_some()
                })
            }
            MathPropertyType::Person => {
                let Column { codes, dictionary } = &*view.persons.column(name);
                let is_number = |actor: u32| {
                    let code = codes.get(actor as usize).filter(|code| **code != ABSENT);
                    code.is_some_and(|code| number(dictionary.get(*code)).is_some())
                };
                Predicate::DistinctNos(view.persons.distinct_nos_of(is_number))
            }
            MathPropertyType::Session => {
                let Period { from, to, .. } = *self.period;
                let sessions = Sessions::read(view, limits, name, Some((from, to)))?;
                Predicate::test(ColumnKey::Property("$session_id".into()), move |value| {
                    let id = value.and_then(text);
                    id.is_some_and(|id| sessions.number(id).is_some())
                })
            }
        }))
    }

    /// One event for each actor that is counted: of several with the first timestamp, the one with the
    /// smallest uuid.
    fn first_event_uuids(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        values: &ValueSet,
        (from, to): (i64, i64),
    ) -> Result<HashSet<[u8; 16]>> {
        let actors = ActorSource::of(self.context.scope.base.aggregation_group_type_index);
        let firsts = self.first_events(selection, breakdown, &actors)?.into_iter();
        let firsts = firsts.filter(|(_, time, _)| (from..=to).contains(time));
        let firsts: HashMap<u32, (i64, u32)> =
            firsts.map(|(actor, time, value)| (actor, (time, value))).collect();
        let mut memory = self.context.limits.reserve();
        memory.resize(firsts.allocation_size())?;
        let scan = self.scan_filter(selection.filter(from, to), breakdown);
        let scan = Scan { actors: Some(&actors), uuids: true, ..scan };
        let new = || (HashMap::<u32, [u8; 16]>::new(), scan.limits.reserve());
        let each = |(uuids, memory): &mut (HashMap<u32, [u8; 16]>, MemoryReservation<'_>),
                    rows: &Rows<'_>| {
            for row in 0..rows.len() {
                let (actor, event) = (rows.actor(row), (rows.times[row], rows.value(row)));
                if firsts.get(&actor) == Some(&event) && values.contains(event.1) {
                    keep_smallest(uuids, actor, rows.uuids[row]);
                }
            }
            memory.resize(uuids.allocation_size())
        };
        let mut all = HashMap::new();
        for (actor, uuid) in scan.fold(new, each)?.into_iter().flat_map(|(uuids, _)| uuids) {
            keep_smallest(&mut all, actor, uuid);
        }
        Ok(all.into_values().collect())
    }

    /// The time range whose events count for a bucket, or for all buckets.
    fn time_range(&self, bucket: Option<usize>) -> Result<(i64, i64)> {
        let calendar = &self.context.scope.dates.calendar;
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
            return Ok((calendar.window_start(*to, days)?.min(*from), *to));
        };
        let last = last_day(self, buckets, bucket)?;
        Ok((calendar.window_start(last, days)?, last.min(*to)))
    }
}

fn keep_smallest(uuids: &mut HashMap<u32, [u8; 16]>, actor: u32, uuid: [u8; 16]) {
    let own = uuids.entry(actor).or_insert(uuid);
    *own = uuid.min(*own);
}

/// End of the last day of a bucket's rolling window.
fn last_day(query: &SeriesQuery<'_>, buckets: &Buckets, bucket: usize) -> Result<i64> {
    let calendar = &query.context.scope.dates.calendar;
    let end = match buckets.interval {
        Interval::Week | Interval::Month => buckets.end_of(bucket) - 1,
        _ => buckets.starts[bucket],
    };
    calendar.end(end.min(query.period.to), Interval::Day)
}
