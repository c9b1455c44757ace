//! `aggregationType` `sum` and `avg`: the amounts of the events by which actors start and return.
//!
//! A breakdown divides the actors, not their events: the amounts of an actor in a cell are those of
//! all its events in the interval.

use std::cmp::Ordering;

use super::count::Counter;
use super::{AggregationType, AmountOwner, RetentionQuery, TimeWindowMode};
use crate::columns::memo::DictionaryMemo;
use crate::limits::MemoryReservation;
use crate::scan::activity::ActivityBitmap;
use crate::scan::context::EventSelection;
use crate::scan::numbers::PropertyNumbers;
use crate::scan::{Rows, Scan};
use crate::{Error, Result};

/// What a query aggregates over the actors of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Aggregation<'a> {
    pub property: &'a str,
    pub is_of_person: bool,
    /// Of each actor, in place of the sum.
    pub is_average: bool,
    /// In the interval of the start, the events that start an actor count if they are the same as
    /// those by which it returns. Otherwise those returns count that are later than the first start.
    pub starts_are_returns: bool,
}

/// An event; an event whose property is no number has the amount 0.
#[derive(Clone, Copy, Debug)]
struct Amount {
    actor: u32,
    time: i64,
    amount: f64,
}

impl Amount {
    fn order(&self, other: &Self) -> Ordering {
        let key = |own: &Self| (own.actor, own.time);
        key(self).cmp(&key(other)).then_with(|| self.amount.total_cmp(&other.amount))
    }
}

/// The events that start actors and those by which they return, by actor and time.
pub(super) struct Amounts<'a> {
    starts: Vec<Amount>,
    returns: Vec<Amount>,
    starts_are_returns: bool,
    _memory: [MemoryReservation<'a>; 2],
}

impl<'a> Amounts<'a> {
    pub fn read(counter: &Counter<'a>, aggregation: &Aggregation<'_>) -> Result<Self> {
        let target = counter.selection(counter.target)?;
        let (starts, starts_memory) = scan(counter, &target, aggregation)?;
        let returning = counter.selection(counter.returning)?;
        let (returns, returns_memory) = scan(counter, &returning, aggregation)?;
        let starts_are_returns = aggregation.starts_are_returns;
        Ok(Self { starts, returns, starts_are_returns, _memory: [starts_memory, returns_memory] })
    }

    /// The sum of an actor that starts in `row` and is counted in the column `at`.
    pub fn sum(
        &self,
        counter: &Counter<'_>,
        returned: &ActivityBitmap,
        (actor, row, at): (u32, usize, usize),
    ) -> f64 {
        let of = |events: &[Amount]| events.iter().map(|event| event.amount).sum::<f64>();
        let within = |events: &'_ [Amount], row: usize| {
            let (from, end) = (counter.rows.starts[row], counter.rows.end_of(row));
            let first = events.partition_point(|event| (event.actor, event.time) < (actor, from));
            let last = events.partition_point(|event| (event.actor, event.time) < (actor, end));
            first..last
        };
        if at > 0 {
            let last_row = counter.rows.len() - 1;
            let span = counter.span(row, at);
            let rows = *span.start()..=last_row.min(*span.end());
            let counted = rows.filter(|row| returned.has(actor, *row));
            return counted.map(|row| of(&self.returns[within(&self.returns, row)])).sum();
        }
        let starts = &self.starts[within(&self.starts, row)];
        if self.starts_are_returns {
            return of(starts);
        }
        let later = self.returns[within(&self.returns, row)]
            .iter()
            .filter(|event| starts.first().is_some_and(|start| event.time > start.time));
        later.map(|event| event.amount).sum()
    }
}

fn scan<'a>(
    counter: &Counter<'a>,
    selection: &EventSelection,
    aggregation: &Aggregation<'_>,
) -> Result<(Vec<Amount>, MemoryReservation<'a>)> {
    let context = counter.context;
    let numbers = match aggregation.is_of_person {
        true => PropertyNumbers::of_person(context.view, aggregation.property),
        false => PropertyNumbers::of_event(aggregation.property),
    };
    let scan = Scan { keys: numbers.keys(), ..counter.scan(selection, counter.first_row(), None) };
    type State<'a> = (Vec<Amount>, DictionaryMemo<f64>, MemoryReservation<'a>);
    let new = || (Vec::new(), DictionaryMemo::default(), context.limits.reserve());
    let each = |(amounts, memo, memory): &mut State<'_>, rows: &Rows<'_>| {
        let read = numbers.read(memo, rows);
        amounts.extend(read.into_iter().enumerate().map(|(row, number)| Amount {
            actor: rows.actor(row),
            time: rows.times[row],
            amount: if number.is_nan() { 0.0 } else { number },
        }));
        memory.resize(amounts.capacity() * size_of::<Amount>())
    };
    let mut memory = context.limits.reserve();
    let mut all: Vec<Amount> = Vec::new();
    for (mut amounts, _, own_memory) in scan.fold(new, each)? {
        memory.resize((all.len() + amounts.len()) * size_of::<Amount>())?;
        all.append(&mut amounts);
        drop(own_memory);
    }
    // Sums do not depend on which thread read what.
    all.sort_unstable_by(Amount::order);
    Ok((all, memory))
}

impl RetentionQuery {
    pub(super) fn aggregation(&self) -> Result<Option<Aggregation<'_>>> {
        let filter = &self.spec.retention_filter;
        let is_average = match filter.aggregation_type {
            AggregationType::Count => return Ok(None),
            AggregationType::Sum => false,
            AggregationType::Avg => true,
        };
        let property = filter.aggregation_property.as_deref().filter(|name| !name.is_empty());
        let Some(property) = property else {
            return Err(Error::invalid(
                "An aggregationType of sum or avg needs an aggregationProperty.",
            ));
        };
        if filter.time_window_mode == TimeWindowMode::Rolling {
            let detail = "Sum and average aggregation are not supported for 24 hour windows.";
            return Err(Error::invalid(detail));
        }
        if filter.cumulative {
            let detail = "Sum and average aggregation are not supported for cumulative retention.";
            return Err(Error::invalid(detail));
        }
        let is_of_person = filter.aggregation_property_type == AmountOwner::Person;
        let starts_are_returns = self.target.selects_as(&self.returning);
        Ok(Some(Aggregation { property, is_of_person, is_average, starts_are_returns }))
    }
}
