//! Computes one series in one period.

use facts::IdSet;
use hashbrown::HashMap;
use warehouse::{Filter, Value};

use super::distinct_by_value::DistinctByValue;
use super::lines::{Cells, Line, Lines, rank};
use crate::aggregates::function::AggregateFn;
use crate::aggregates::histogram::Bins;
use crate::aggregates::table::{AggregateTable, Cell, Summary};
use crate::columns::memo::DictionaryMemo;
use crate::columns::number;
use crate::hogql::aggregate_expr::{AggregateState, FirstError};
use crate::limits::MemoryReservation;
use crate::query::calendar::{Buckets, Interval};
use crate::query::date_range::Period;
use crate::query::spec::{BreakdownFilter, Math, MathPropertyType, Node};
use crate::scan::breakdown::{Breakdown, BreakdownPlan, BreakdownSegment, NO_VALUE};
use crate::scan::context::{EventSelection, ScanContext};
use crate::scan::expression;
use crate::scan::first_events::FirstEvents;
use crate::scan::numbers::PropertyNumbers;
use crate::scan::sessions::Sessions;
use crate::scan::{ActorSource, Rows, Scan};
use crate::{Error, Result};

pub(super) const DIMENSIONS_MAX: usize = 3;

/// What a chart shows of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisplayMode {
    /// One number per bucket.
    Series,
    /// Running total per bucket.
    Cumulative,
    /// One number for the whole period.
    Total,
}

impl DisplayMode {
    /// The ranking weight of a line.
    pub fn weight(self, data: &[f64]) -> f64 {
        match self {
            Self::Cumulative => data.last().copied().unwrap_or(0.0),
            Self::Series | Self::Total => data.iter().sum(),
        }
    }
}

/// One series with all that determines its numbers.
pub(crate) struct SeriesQuery<'a> {
    pub context: &'a ScanContext<'a>,
    pub node: &'a Node,
    pub period: &'a Period,
    pub display_mode: DisplayMode,
}

impl SeriesQuery<'_> {
    /// None if the series is a deleted action.
    pub fn lines(&self, filter: &BreakdownFilter) -> Result<Option<Lines>> {
        let Some(selection) = self.context.selection(self.node)? else { return Ok(None) };
        match BreakdownPlan::new(filter, self.context, DIMENSIONS_MAX, self.scanned_range()?)? {
            BreakdownPlan::NoBreakdown => self.compute(&selection, None).map(Some),
            BreakdownPlan::Values(mut breakdown) => {
                self.fill_bins(&selection, &mut breakdown)?;
                self.compute(&selection, Some(&breakdown)).map(Some)
            }
            BreakdownPlan::Cohorts(slices) => {
                let mut all = Lines::default();
                for slice in slices {
                    let in_cohort = selection.clone().and(slice.predicate.clone());
                    let lines = self.compute(&in_cohort, None)?;
                    let segment = BreakdownSegment::Cohort(slice.id.map(|id| id.0), slice.name);
                    let line = |line: Line| Line { segment: segment.clone(), ..line };
                    all.lines.extend(lines.lines.into_iter().map(line));
                }
                let weight = |line: &Line| self.display_mode.weight(&line.data);
                all.lines.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
                Ok(Some(all))
            }
        }
    }

    /// Computes histogram bins from the values that the series has.
    pub(super) fn fill_bins(
        &self,
        selection: &EventSelection,
        breakdown: &mut Breakdown,
    ) -> Result<()> {
        for dimension in &mut breakdown.dimensions {
            let Some(count) = dimension.bin_count else { continue };
            let plain = dimension.unbinned();
            let mut scan = self.context.scan(selection.filter(self.period.from, self.period.to));
            scan.breakdown = Some(&plain);
            let whole = whole(self.period);
            let table =
                aggregate_by_bucket(&scan, &whole, |(), rows| vec![(); rows.len()], add_one)?;
            let mut numbers = Vec::new();
            for value in table.values() {
                let texts = plain.texts(value);
                let read = texts.first().and_then(|text| number(Value::Text(text)));
                let Some(read) = read else { continue };
                table.show(value, &0, |cells| numbers.push((read, *cells[0])));
            }
            dimension.bins = Some(Bins::new(numbers, count)?);
        }
        Ok(())
    }

    pub(super) fn compute(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
    ) -> Result<Lines> {
        let math = self.node.math;
        let actors = ActorSource::of(self.context.scope.base.aggregation_group_type_index);
        match math {
            Math::Total => {
                let scan = self.scan(selection, breakdown);
                let table = aggregate_by_bucket(
                    &scan,
                    &self.buckets(),
                    |(), rows| vec![(); rows.len()],
                    add_one,
                )?;
                Ok(self.shape(table, breakdown, |count| *count as f64))
            }
            Math::Dau => self.distinct(selection, breakdown, &actors, true),
            Math::WeeklyActive => self.rolling(selection, breakdown, &actors, 7),
            Math::MonthlyActive => self.rolling(selection, breakdown, &actors, 30),
            Math::UniqueSession => {
                self.distinct(selection, breakdown, &ActorSource::sessions(), false)
            }
            Math::UniqueGroup => {
                let index = self.node.math_group_type_index.unwrap_or(0);
                self.distinct(selection, breakdown, &ActorSource::groups(index), false)
            }
            Math::FirstTimeForUser | Math::FirstMatchingEventForUser => {
                self.firsts(selection, breakdown, &actors)
            }
            Math::Hogql => self.hogql_math(selection, breakdown),
            _ => {
                if let Some(aggregate) = AggregateFn::for_count_per_actor(math) {
                    return self.per_actor(selection, breakdown, &actors, aggregate);
                }
                let aggregate = AggregateFn::for_property(math)
                    .ok_or_else(|| Error::invalid("This math is not supported here."))?;
                self.numbers(selection, breakdown, aggregate)
            }
        }
    }

    fn buckets(&self) -> Buckets {
        match self.display_mode {
            DisplayMode::Total => whole(self.period),
            DisplayMode::Series | DisplayMode::Cumulative => self.period.buckets.clone(),
        }
    }

    fn scan<'b>(
        &'b self,
        selection: &EventSelection,
        breakdown: Option<&'b Breakdown>,
    ) -> Scan<'b> {
        let filter = selection.filter(self.period.from, self.period.to);
        self.scan_filter(filter, breakdown)
    }

    pub(super) fn scan_filter<'b>(
        &'b self,
        filter: Filter,
        breakdown: Option<&'b Breakdown>,
    ) -> Scan<'b> {
        Scan { breakdown, ..self.context.scan(filter) }
    }

    /// Lines with one number per cell, accumulated for [`DisplayMode::Cumulative`].
    fn shape<C: Cell>(
        &self,
        table: AggregateTable<C>,
        breakdown: Option<&Breakdown>,
        of: impl Fn(&C) -> f64,
    ) -> Lines {
        self.shape_rows(table, breakdown, |cells| {
            self.accumulate(cells.iter().map(|cell| of(cell)).collect())
        })
    }

    /// Accumulates for [`DisplayMode::Cumulative`].
    fn accumulate(&self, mut data: Vec<f64>) -> Vec<f64> {
        if self.display_mode == DisplayMode::Cumulative {
            let mut sum = 0.0;
            data.iter_mut().for_each(|number| {
                sum += *number;
                *number = sum;
            });
        }
        data
    }

    fn factor(&self) -> f64 {
        self.node.math_multiplier.unwrap_or(1.0)
    }

    fn shape_rows<C: Cell>(
        &self,
        table: AggregateTable<C>,
        breakdown: Option<&Breakdown>,
        finish: impl Fn(&[&C]) -> Vec<f64>,
    ) -> Lines {
        let factor = self.factor();
        let finish = |cells: &[&C]| -> Vec<f64> {
            finish(cells).into_iter().map(|number| number * factor).collect()
        };
        match breakdown {
            Some(breakdown) => {
                let weight = |data: &[f64]| self.display_mode.weight(data);
                rank(Cells { table, finish, weight }, breakdown)
            }
            None => {
                let mut lines = Vec::new();
                table.show(0, &C::default(), |cells| {
                    lines.push(Line { segment: BreakdownSegment::Whole, data: finish(cells) });
                });
                Lines { lines, has_more: false }
            }
        }
    }

    fn distinct(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &ActorSource,
        running: bool,
    ) -> Result<Lines> {
        let scan = Scan { actors: Some(actors), ..self.scan(selection, breakdown) };
        if let (DisplayMode::Total, Some(breakdown)) = (self.display_mode, breakdown) {
            return Ok(rank(DistinctByValue::of(&scan, breakdown, self.factor())?, breakdown));
        }
        let table = aggregate_by_bucket(&scan, &self.buckets(), actor_numbers, IdSet::insert)?;
        if !(running && self.display_mode == DisplayMode::Cumulative) {
            return Ok(self.shape(table, breakdown, |set| set.count() as f64));
        }
        Ok(self.shape_rows(table, breakdown, |cells| {
            let mut so_far = IdSet::default();
            let count = |set: &&IdSet| {
                so_far.union(set);
                so_far.count() as f64
            };
            cells.iter().map(count).collect()
        }))
    }

    /// The time range of the events that the series counts: a rolling window begins before the
    /// period.
    pub(super) fn scanned_range(&self) -> Result<(i64, i64)> {
        let calendar = &self.context.scope.dates.calendar;
        let Period { from, to, buckets } = self.period;
        let days = match self.node.math {
            Math::WeeklyActive => 7,
            Math::MonthlyActive => 30,
            _ => return Ok((*from, *to)),
        };
        let first = buckets.starts.first().copied().unwrap_or(*from);
        Ok((calendar.window_start(first, days)?.min(*from), *to))
    }

    /// Distinct actors in a window of `days` days that ends with each bucket's last day.
    fn rolling(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &ActorSource,
        days: i64,
    ) -> Result<Lines> {
        let calendar = &self.context.scope.dates.calendar;
        let Period { from, to, buckets } = self.period;
        let back = |at: i64| calendar.window_start(at, days);
        if self.display_mode == DisplayMode::Total {
            let from = back(*to)?.min(*from);
            let period = Period { from, ..self.period.clone() };
            let query = SeriesQuery { period: &period, ..*self };
            return query.distinct(selection, breakdown, actors, false);
        }
        let first = buckets.starts.first().copied().unwrap_or(*from);
        let all = calendar.buckets(back(first)?, *to, Interval::Day)?;
        let scan = self.scan_filter(selection.filter(back(first)?, *to), breakdown);
        let scan = Scan { actors: Some(actors), ..scan };
        let table = aggregate_by_bucket(&scan, &all, actor_numbers, IdSet::insert)?;
        let last_day = |bucket: usize| match buckets.interval {
            Interval::Week | Interval::Month => all.of(buckets.end_of(bucket) - 1),
            _ => all.of(buckets.starts[bucket]),
        };
        let last = all.len().saturating_sub(1);
        let ends: Vec<usize> =
            (0..buckets.len()).map(|bucket| last_day(bucket).unwrap_or(last)).collect();
        Ok(self.shape_rows(table, breakdown, |cells| {
            let mut sum = 0.0;
            let count = |end: &usize| {
                let mut actors = IdSet::default();
                let start = (end + 1).saturating_sub(days as usize);
                cells[start..=*end].iter().for_each(|day| actors.union(day));
                let count = actors.count() as f64;
                sum += count;
                if self.display_mode == DisplayMode::Cumulative { sum } else { count }
            };
            ends.iter().map(count).collect()
        }))
    }

    /// Actor, timestamp and breakdown value of the first events that lie in the period.
    pub(super) fn first_events(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &ActorSource,
    ) -> Result<Vec<(u32, i64, u32)>> {
        let scan = self.scan_filter(selection.filter(i64::MIN, self.period.to), breakdown);
        let firsts = FirstEvents::scan(&Scan { actors: Some(actors), ..scan })?;
        let mut reservation = self.context.limits.reserve();
        reservation.resize(firsts.bytes())?;
        // `FirstTimeForUser` requires the actor's first event of this name to pass the filters; an
        // earlier one that fails them disqualifies the actor.
        let ever = match (self.node.math, self.context.unfiltered_selection(self.node)?) {
            (Math::FirstTimeForUser, Some(named)) => {
                let scan = self.scan_filter(named.filter(i64::MIN, self.period.to), None);
                Some(FirstEvents::scan(&Scan { actors: Some(actors), ..scan })?)
            }
            _ => None,
        };
        let is_first = |(actor, time, _): &(u32, i64, u32)| {
            *time >= self.period.from
                && ever.as_ref().is_none_or(|ever| ever.time(*actor) == Some(*time))
        };
        Ok(firsts.iter().filter(is_first).collect())
    }

    fn firsts(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &ActorSource,
    ) -> Result<Lines> {
        let buckets = self.buckets();
        let mut table: AggregateTable<u64> = AggregateTable::new(buckets.len());
        for (_, time, value) in self.first_events(selection, breakdown, actors)? {
            if let Some(bucket) = buckets.of(time) {
                *table.cell(value, bucket) += 1;
            }
        }
        Ok(self.shape(table, breakdown, |count| *count as f64))
    }

    /// Math written in HogQL.
    fn hogql_math(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
    ) -> Result<Lines> {
        let text = self.node.math_hogql.as_deref().unwrap_or_default();
        let hogql = self.context.hogql.ok_or_else(expression::unsupported)?;
        let aggregate_expr = hogql.aggregate_expr(self.context.view, text)?;
        let scan = Scan { keys: aggregate_expr.keys(), ..self.scan(selection, breakdown) };
        let buckets = self.buckets();
        let new = || (AggregateTable::<AggregateState>::new(buckets.len()), scan.limits.reserve());
        let each =
            |(table, reservation): &mut (AggregateTable<AggregateState>, MemoryReservation<'_>),
             rows: &Rows<'_>| {
                let read = aggregate_expr.read(rows.event_columns())?;
                let mut cursor = buckets.cursor();
                for (row, time) in rows.times.iter().enumerate() {
                    if let Some(bucket) = cursor.of(*time) {
                        aggregate_expr.add(table.cell(rows.value(row), bucket), &read, row);
                    }
                }
                reservation.resize(table.bytes())
            };
        let tables = scan.fold(new, each)?.into_iter().map(|(table, _)| table);
        let table = AggregateTable::join(buckets.len(), tables);
        let failed = FirstError::default();
        let lines = self.shape_rows(table, breakdown, |cells| {
            let mut data = failed.keep(aggregate_expr.finish(cells));
            data.resize(cells.len(), 0.0);
            self.accumulate(data)
        });
        failed.check().map(|()| lines)
    }

    fn per_actor(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &ActorSource,
        aggregate: AggregateFn,
    ) -> Result<Lines> {
        let scan = Scan { actors: Some(actors), ..self.scan(selection, breakdown) };
        let add = |counts: &mut HashMap<u32, u64>, actor: u32| {
            *counts.entry(actor).or_default() += 1;
        };
        let table = aggregate_by_bucket(&scan, &self.buckets(), actor_numbers, add)?;
        Ok(self.shape(table, breakdown, |counts| {
            aggregate.of_values(counts.values().map(|count| *count as f64).collect())
        }))
    }

    /// The property that the math aggregates, and what it is a property of.
    pub(super) fn math_property(&self) -> Result<(&str, MathPropertyType)> {
        let name = self.node.math_property.as_deref().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::invalid("This math needs a math_property."))?;
        Ok(match name {
            "$session_duration" => (name, MathPropertyType::Session),
            _ => (name, self.node.math_property_type),
        })
    }

    fn numbers(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        aggregate: AggregateFn,
    ) -> Result<Lines> {
        let (name, source) = self.math_property()?;
        let mut scan = self.scan(selection, breakdown);
        let numbers = match source {
            MathPropertyType::Event => PropertyNumbers::of_event(name),
            MathPropertyType::Person => PropertyNumbers::of_person(self.context.view, name),
            MathPropertyType::Session => {
                return self.of_sessions(selection, breakdown, aggregate, name);
            }
        };
        scan.keys = numbers.keys();
        let read = |memo: &mut DictionaryMemo<f64>, rows: &Rows<'_>| numbers.read(memo, rows);
        let buckets = self.buckets();
        if let AggregateFn::Quantile(_) = aggregate {
            let push = |all: &mut Vec<f64>, number: f64| {
                if !number.is_nan() {
                    all.push(number);
                }
            };
            let table = aggregate_by_bucket(&scan, &buckets, read, push)?;
            return Ok(
                self.shape(table, breakdown, |all: &Vec<f64>| aggregate.of_values(all.clone()))
            );
        }
        let add = |summary: &mut Summary, number: f64| {
            if !number.is_nan() {
                summary.add(number);
            }
        };
        let table = aggregate_by_bucket(&scan, &buckets, read, add)?;
        Ok(self.shape(table, breakdown, |summary| aggregate.of_summary(summary)))
    }

    /// Aggregates a session property; each session counts once.
    fn of_sessions(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        aggregate: AggregateFn,
        name: &str,
    ) -> Result<Lines> {
        let actors = ActorSource::sessions();
        let scan = Scan { actors: Some(&actors), ..self.scan(selection, breakdown) };
        let table = aggregate_by_bucket(&scan, &self.buckets(), actor_numbers, IdSet::insert)?;
        let Period { from, to, .. } = *self.period;
        let ScanContext { view, limits, .. } = self.context;
        let sessions = Sessions::read(view, limits, name, Some((from, to)))?;
        Ok(self.shape(table, breakdown, |there: &IdSet| {
            let mut numbers = Vec::new();
            there.for_each(|session| numbers.extend(sessions.number(&actors.text(session))));
            aggregate.of_values(numbers)
        }))
    }
}

fn add_one(count: &mut u64, (): ()) {
    *count += 1;
}

fn actor_numbers(_: &mut (), rows: &Rows<'_>) -> Vec<u32> {
    rows.actors.to_vec()
}

/// The period as a single bucket.
pub(crate) fn whole(period: &Period) -> Buckets {
    let Period { from, to, buckets } = period;
    Buckets { interval: buckets.interval, starts: vec![*from], end: to.saturating_add(1) }
}

/// Scans, and adds what `read` returns for each row to the cell of its breakdown value and bucket.
pub(crate) fn aggregate_by_bucket<C: Cell, X: Default + Send, T: Copy>(
    scan: &Scan<'_>,
    buckets: &Buckets,
    read: impl Fn(&mut X, &Rows<'_>) -> Vec<T> + Sync,
    put: impl Fn(&mut C, T) + Sync,
) -> Result<AggregateTable<C>> {
    let new = || (AggregateTable::new(buckets.len()), X::default(), scan.limits.reserve());
    let each = |(table, own, reservation): &mut (AggregateTable<C>, X, MemoryReservation<'_>),
                rows: &Rows<'_>| {
        let mut cursor = buckets.cursor();
        let items = read(own, rows);
        let mut start = 0;
        while start < items.len() {
            let (bucket, len) = cursor.run(&rows.times[start..]);
            let run = start..start + len;
            start = run.end;
            let Some(bucket) = bucket else { continue };
            if rows.values.is_empty() {
                let cell = table.cell(NO_VALUE, bucket);
                items[run].iter().for_each(|item| put(cell, *item));
            } else {
                for (value, item) in rows.values[run.clone()].iter().zip(&items[run]) {
                    put(table.cell(*value, bucket), *item);
                }
            }
        }
        reservation.resize(table.bytes() + scan.breakdown.map_or(0, Breakdown::bytes))
    };
    let states = scan.fold(new, each)?;
    Ok(AggregateTable::join(buckets.len(), states.into_iter().map(|(table, _, _)| table)))
}
