//! The numbers of one series in one period.

use facts::IdSet;
use hashbrown::HashMap;
use warehouse::{ABSENT, Column, Filter, Key, Value};

use super::lines::{Cells, Line, Lines, Share, rank};
use super::wide::Wide;
use crate::aggregate::AggregateFn;
use crate::bins::Bins;
use crate::breakdown::{Breakdown, NO_VALUE, Split};
use crate::calendar::{Buckets, Interval};
use crate::context::{EventSelection, QueryContext};
use crate::expression;
use crate::firsts::Firsts;
use crate::hogql::counting::{Counted, FirstError};
use crate::limits::MemoryReservation;
use crate::range::Period;
use crate::scan::{Actors, Entries, Rows, Scan, number};
use crate::sessions::Sessions;
use crate::spec::{BreakdownFilter, Math, Node, PropertyPlace};
use crate::tally::{Cell, Stat, Tally};
use crate::{Error, Result};

pub(super) const DIMENSIONS_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisplayMode {
    /// A number for each bucket.
    Series,
    /// Each bucket with all before it.
    Cumulative,
    /// One number for the whole period.
    Total,
}

impl DisplayMode {
    /// What a line is ranked by.
    pub fn weight(self, data: &[f64]) -> f64 {
        match self {
            Self::Cumulative => data.last().copied().unwrap_or(0.0),
            Self::Series | Self::Total => data.iter().sum(),
        }
    }
}

/// One series with all that decides its numbers.
pub(crate) struct Measure<'a> {
    pub context: &'a QueryContext<'a>,
    pub node: &'a Node,
    pub period: &'a Period,
    pub display_mode: DisplayMode,
}

impl Measure<'_> {
    /// None when the series means an action that is gone.
    pub fn lines(&self, split: &BreakdownFilter) -> Result<Option<Lines>> {
        let Some(selection) = self.context.selection(self.node)? else { return Ok(None) };
        match Split::plan(split, self.context, DIMENSIONS_MAX, (self.period.from, self.period.to))?
        {
            Split::Whole => self.measure(&selection, None).map(Some),
            Split::Values(mut breakdown) => {
                self.fill_bins(&selection, &mut breakdown)?;
                self.measure(&selection, Some(&breakdown)).map(Some)
            }
            Split::Cohorts(slices) => {
                let mut all = Lines::default();
                for slice in slices {
                    let own = selection.clone().and(slice.predicate.clone());
                    let lines = self.measure(&own, None)?;
                    let share = Share::Cohort(slice.id.map(|id| id.0), slice.name);
                    let line = |line: Line| Line { share: share.clone(), ..line };
                    all.lines.extend(lines.lines.into_iter().map(line));
                }
                let weight = |line: &Line| self.display_mode.weight(&line.data);
                all.lines.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
                Ok(Some(all))
            }
        }
    }

    /// Numbers are put into bins by those that the series has.
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
            let table = tally(&scan, &whole, |(), rows| vec![(); rows.len()], add_one)?;
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

    pub(super) fn measure(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
    ) -> Result<Lines> {
        let math = self.node.math;
        let actors = Actors::of(self.context.base.aggregation_group_type_index);
        match math {
            Math::Total => {
                let scan = self.scan(selection, breakdown);
                let table =
                    tally(&scan, &self.buckets(), |(), rows| vec![(); rows.len()], add_one)?;
                Ok(self.shape(table, breakdown, |count| *count as f64))
            }
            Math::Dau => self.distinct(selection, breakdown, &actors, true),
            Math::WeeklyActive => self.rolling(selection, breakdown, &actors, 7),
            Math::MonthlyActive => self.rolling(selection, breakdown, &actors, 30),
            Math::UniqueSession => self.distinct(selection, breakdown, &Actors::sessions(), false),
            Math::UniqueGroup => {
                let index = self.node.math_group_type_index.unwrap_or(0);
                self.distinct(selection, breakdown, &Actors::groups(index), false)
            }
            Math::FirstTimeForUser | Math::FirstMatchingEventForUser => {
                self.firsts(selection, breakdown, &actors)
            }
            Math::Hogql => self.counting(selection, breakdown),
            _ => {
                if let Some(aggregate) = AggregateFn::of_count_per_actor(math) {
                    return self.per_actor(selection, breakdown, &actors, aggregate);
                }
                let aggregate = AggregateFn::of_property(math)
                    .ok_or_else(|| Error::invalid("This way of counting is not supported here."))?;
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

    /// A number out of each cell, and the running total when that is asked for.
    fn shape<C: Cell>(
        &self,
        table: Tally<C>,
        breakdown: Option<&Breakdown>,
        of: impl Fn(&C) -> f64,
    ) -> Lines {
        self.shape_rows(table, breakdown, |cells| {
            self.run_up(cells.iter().map(|cell| of(cell)).collect())
        })
    }

    /// Each number with all before it, when that is asked for.
    fn run_up(&self, mut data: Vec<f64>) -> Vec<f64> {
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
        table: Tally<C>,
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
                rank(Cells { tally: table, finish, weight }, breakdown)
            }
            None => {
                let mut lines = Vec::new();
                table.show(0, &C::default(), |cells| {
                    lines.push(Line { share: Share::Whole, data: finish(cells) });
                });
                Lines { lines, more: false }
            }
        }
    }

    fn distinct(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &Actors,
        running: bool,
    ) -> Result<Lines> {
        let scan = Scan { actors: Some(actors), ..self.scan(selection, breakdown) };
        if let (DisplayMode::Total, Some(breakdown)) = (self.display_mode, breakdown) {
            return Ok(rank(Wide::of(&scan, breakdown, self.factor())?, breakdown));
        }
        let table = tally(&scan, &self.buckets(), who, IdSet::insert)?;
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

    /// The start of the first of so many days, of which the last is that of a moment.
    pub(super) fn back(&self, at: i64, days: i64) -> Result<i64> {
        let calendar = &self.context.dates.calendar;
        let day = calendar.start(at, Interval::Day)?;
        calendar.start(calendar.plus(day, Interval::Day, 1 - days)?, Interval::Day)
    }

    /// Who was there in the days that end with each bucket's last day.
    fn rolling(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &Actors,
        days: i64,
    ) -> Result<Lines> {
        let calendar = &self.context.dates.calendar;
        let Period { from, to, buckets } = self.period;
        let back = |at: i64| self.back(at, days);
        if self.display_mode == DisplayMode::Total {
            let from = back(*to)?.min(*from);
            let period = Period { from, ..self.period.clone() };
            let measure = Measure { period: &period, ..*self };
            return measure.distinct(selection, breakdown, actors, false);
        }
        let first = buckets.starts.first().copied().unwrap_or(*from);
        let all = calendar.buckets(back(first)?, *to, Interval::Day)?;
        let scan = self.scan_filter(selection.filter(back(first)?, *to), breakdown);
        let scan = Scan { actors: Some(actors), ..scan };
        let table = tally(&scan, &all, who, IdSet::insert)?;
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
                let mut there = IdSet::default();
                let start = (end + 1).saturating_sub(days as usize);
                cells[start..=*end].iter().for_each(|day| there.union(day));
                let count = there.count() as f64;
                sum += count;
                if self.display_mode == DisplayMode::Cumulative { sum } else { count }
            };
            ends.iter().map(count).collect()
        }))
    }

    /// Actors in whose first event the period has a part, when, and the breakdown value then.
    pub(super) fn first_events(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &Actors,
    ) -> Result<Vec<(u32, i64, u32)>> {
        let scan = self.scan_filter(selection.filter(i64::MIN, self.period.to), breakdown);
        let found = Firsts::of(&Scan { actors: Some(actors), ..scan })?;
        let mut reservation = self.context.limits.reserve();
        reservation.resize(found.bytes())?;
        // The filters are asked of the very first event, so an earlier one that fails them counts.
        let ever = match (self.node.math, self.context.named(self.node)?) {
            (Math::FirstTimeForUser, Some(named)) => {
                let scan = self.scan_filter(named.filter(i64::MIN, self.period.to), None);
                Some(Firsts::of(&Scan { actors: Some(actors), ..scan })?)
            }
            _ => None,
        };
        let is_first = |(actor, time, _): &(u32, i64, u32)| {
            *time >= self.period.from
                && ever.as_ref().is_none_or(|ever| ever.time(*actor) == Some(*time))
        };
        Ok(found.iter().filter(is_first).collect())
    }

    fn firsts(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &Actors,
    ) -> Result<Lines> {
        let buckets = self.buckets();
        let mut table: Tally<u64> = Tally::new(buckets.len());
        for (_, time, value) in self.first_events(selection, breakdown, actors)? {
            if let Some(bucket) = buckets.of(time) {
                *table.cell(value, bucket) += 1;
            }
        }
        Ok(self.shape(table, breakdown, |count| *count as f64))
    }

    /// As an expression over aggregates says.
    fn counting(&self, selection: &EventSelection, breakdown: Option<&Breakdown>) -> Result<Lines> {
        let text = self.node.math_hogql.as_deref().unwrap_or_default();
        let hogql = self.context.hogql.ok_or_else(expression::unsupported)?;
        let counting = hogql.counting(self.context.view, text)?;
        let scan = Scan { keys: counting.keys(), ..self.scan(selection, breakdown) };
        let buckets = self.buckets();
        let new = || (Tally::<Counted>::new(buckets.len()), scan.limits.reserve());
        let each = |(table, reservation): &mut (Tally<Counted>, MemoryReservation<'_>),
                    rows: &Rows<'_>| {
            let read = counting.read(rows.seen())?;
            let mut cursor = buckets.cursor();
            for (row, time) in rows.times.iter().enumerate() {
                if let Some(bucket) = cursor.of(*time) {
                    counting.add(table.cell(rows.value(row), bucket), &read, row);
                }
            }
            reservation.resize(table.bytes())
        };
        let found = scan.fold(new, each)?.into_iter().map(|(table, _)| table);
        let table = Tally::join(buckets.len(), found);
        let failed = FirstError::default();
        let lines = self.shape_rows(table, breakdown, |cells| {
            let mut data = failed.keep(counting.finish(cells));
            data.resize(cells.len(), 0.0);
            self.run_up(data)
        });
        failed.check().map(|()| lines)
    }

    fn per_actor(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        actors: &Actors,
        aggregate: AggregateFn,
    ) -> Result<Lines> {
        let scan = Scan { actors: Some(actors), ..self.scan(selection, breakdown) };
        let add = |counts: &mut HashMap<u32, u64>, actor: u32| {
            *counts.entry(actor).or_default() += 1;
        };
        let table = tally(&scan, &self.buckets(), who, add)?;
        Ok(self.shape(table, breakdown, |counts| {
            aggregate.of(counts.values().map(|count| *count as f64).collect())
        }))
    }

    fn numbers(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        aggregate: AggregateFn,
    ) -> Result<Lines> {
        let name = self.node.math_property.as_deref().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Error::invalid("This math needs a math_property."))?;
        let of_session = self.node.math_property_type == PropertyPlace::Session;
        if name == "$session_duration" || of_session {
            return self.of_sessions(selection, breakdown, aggregate, name);
        }
        let mut scan = self.scan(selection, breakdown);
        let persons = &self.context.view.persons;
        let person_column = match self.node.math_property_type {
            PropertyPlace::Event => {
                scan.keys = vec![Key::Property(name.to_owned())];
                None
            }
            PropertyPlace::Person => Some(persons.column(name)),
            PropertyPlace::Session => None,
        };
        let read = |entries: &mut Entries<f64>, rows: &Rows<'_>| {
            let of = |value: Value<'_>| number(value).unwrap_or(f64::NAN);
            let Some(person_column) = &person_column else {
                return entries.each_row(&rows.columns[0], f64::NAN, of);
            };
            let code = |no: &u32| {
                person_column.codes.get(persons.actor(*no) as usize).copied().unwrap_or(ABSENT)
            };
            let codes = rows.distinct_nos.iter().map(code).collect();
            let column = Column { codes, dictionary: person_column.dictionary.clone() };
            entries.each_row(&column, f64::NAN, of)
        };
        let buckets = self.buckets();
        if let AggregateFn::Quantile(_) = aggregate {
            let push = |all: &mut Vec<f64>, number: f64| {
                if !number.is_nan() {
                    all.push(number);
                }
            };
            let table = tally(&scan, &buckets, read, push)?;
            return Ok(self.shape(table, breakdown, |all: &Vec<f64>| aggregate.of(all.clone())));
        }
        let add = |stat: &mut Stat, number: f64| {
            if !number.is_nan() {
                stat.add(number);
            }
        };
        let table = tally(&scan, &buckets, read, add)?;
        Ok(self.shape(table, breakdown, |stat| aggregate.of_stat(stat)))
    }

    /// Each session that was there counts once, with its number.
    fn of_sessions(
        &self,
        selection: &EventSelection,
        breakdown: Option<&Breakdown>,
        aggregate: AggregateFn,
        name: &str,
    ) -> Result<Lines> {
        let actors = Actors::sessions();
        let scan = Scan { actors: Some(&actors), ..self.scan(selection, breakdown) };
        let table = tally(&scan, &self.buckets(), who, IdSet::insert)?;
        let Period { from, to, .. } = *self.period;
        let QueryContext { view, limits, .. } = self.context;
        let sessions = Sessions::read(view, limits, name, Some((from, to)))?;
        Ok(self.shape(table, breakdown, |there: &IdSet| {
            let mut numbers = Vec::new();
            there.for_each(|session| numbers.extend(sessions.number(&actors.text(session))));
            aggregate.of(numbers)
        }))
    }
}

fn add_one(count: &mut u64, (): ()) {
    *count += 1;
}

fn who(_: &mut (), rows: &Rows<'_>) -> Vec<u32> {
    rows.actors.to_vec()
}

/// The period as one bucket.
pub(crate) fn whole(period: &Period) -> Buckets {
    let Period { from, to, buckets } = period;
    Buckets { interval: buckets.interval, starts: vec![*from], end: to.saturating_add(1) }
}

/// Puts what is `read` of every row into the cell of its breakdown value and bucket.
pub(crate) fn tally<C: Cell, X: Default + Send, T: Copy>(
    scan: &Scan<'_>,
    buckets: &Buckets,
    read: impl Fn(&mut X, &Rows<'_>) -> Vec<T> + Sync,
    put: impl Fn(&mut C, T) + Sync,
) -> Result<Tally<C>> {
    let new = || (Tally::new(buckets.len()), X::default(), scan.limits.reserve());
    let each = |(table, own, reservation): &mut (Tally<C>, X, MemoryReservation<'_>),
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
    let found = scan.fold(new, each)?;
    Ok(Tally::join(buckets.len(), found.into_iter().map(|(table, _, _)| table)))
}
