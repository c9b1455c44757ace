//! Prunes breakdown values that cannot reach the top before distinct actors are counted.
//!
//! A value has at most as many actors as events. A first pass counts events in an array indexed by
//! the value's hash (a count-min sketch with one row), which overestimates but never underestimates.
//! Values whose slot stays below a cutoff cannot be among the top ones.

use warehouse::{ABSENT, Column, Projection, Value, ValueHasher};

use super::{Breakdown, Dimension, NO_VALUE, ValueSource};
use crate::Result;
use crate::columns::memo::DictionaryMemo;
use crate::limits::MemoryReservation;
use crate::scan::{ActorSource, Rows, Scan};

/// Id of every value that is below the cutoff.
pub(crate) const BELOW_CUTOFF: u32 = u32::MAX;

/// The first cutoff admits this many times the breakdown limit.
const FIRST_TIMES: usize = 4;
/// Slots of the sketch: half the number of rows, within these bounds.
const SLOTS_MIN: usize = 1 << 8;
const SLOTS_MAX: usize = 1 << 20;
/// Pruning pays off only if at most one in this many slots is above the cutoff.
const SHARE_MAX: usize = 4;

pub(crate) struct TopValueSketch<'a> {
    dimension: &'a Dimension,
    hashing: ValueHasher,
    slots: usize,
    /// Events by slot: an upper bound for each value that hashes there.
    events: Vec<u32>,
    /// Values in slots with fewer events are pruned.
    cutoff: u32,
}

/// Counts of one thread.
struct ThreadState<'a> {
    events: Vec<u32>,
    by_code: Vec<u32>,
    reservation: MemoryReservation<'a>,
}

impl<'a> TopValueSketch<'a> {
    /// None if the breakdown is not one plain event column, or has too few values to prune.
    pub fn of(scan: &Scan<'_>, breakdown: &'a Breakdown) -> Result<Option<Self>> {
        let [dimension] = breakdown.dimensions.as_slice() else { return Ok(None) };
        let first = breakdown.limit.saturating_mul(FIRST_TIMES);
        let plain = matches!(dimension.source, ValueSource::Event(_)) && dimension.bins.is_none();
        let rows = if plain { rows_if_wide(scan, breakdown, first)? } else { None };
        let Some(rows) = rows else { return Ok(None) };
        let slots = (rows / 2).next_power_of_two().clamp(SLOTS_MIN, SLOTS_MAX);
        let (hashing, events) = (ValueHasher::default(), Vec::new());
        let mut all = Self { dimension, hashing, slots, events, cutoff: 1 };
        // Every event has a person, so the scan need not look persons up. Other actors may be absent.
        let actors = scan.actors.filter(|actors| !matches!(actors, ActorSource::Persons));
        let scan = Scan { actors, ..without_breakdown(scan, breakdown) };
        let new = || {
            let reservation = scan.limits.reserve();
            ThreadState { events: vec![0; slots], by_code: Vec::new(), reservation }
        };
        let each = |state: &mut ThreadState<'_>, rows: &Rows<'_>| {
            all.count(state, &rows.columns[0]);
            let counters = state.events.len() + state.by_code.capacity();
            state.reservation.resize(counters * size_of::<u32>())
        };
        let counts = scan.fold(new, each)?.into_iter().map(|state| state.events);
        let add = |mut sum: Vec<u32>, more: Vec<u32>| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
            sum
        };
        all.events = counts.reduce(add).unwrap_or_default();
        let mut used: Vec<u32> = all.events.iter().copied().filter(|events| *events > 0).collect();
        if used.len() > first {
            all.cutoff = *used.select_nth_unstable_by(first - 1, |a, b| b.cmp(a)).1;
        }
        Ok(Some(all))
    }

    fn count(&self, state: &mut ThreadState<'_>, column: &Column) {
        let dictionary = &column.dictionary;
        state.by_code.clear();
        state.by_code.resize(dictionary.len(), 0);
        for code in column.codes.iter().filter(|code| **code != ABSENT) {
            state.by_code[*code as usize] += 1;
        }
        for (code, events) in state.by_code.iter().enumerate().filter(|(_, events)| **events > 0) {
            if let Some(text) = self.dimension.text_in(dictionary.get(code as u32)) {
                let sum = &mut state.events[self.slot(text)];
                *sum = sum.saturating_add(*events);
            }
        }
    }

    /// Value ids of a column's rows; [`BELOW_CUTOFF`] for pruned ones.
    pub fn value_ids(&self, memo: &mut DictionaryMemo<u32>, column: &Column) -> Vec<u32> {
        memo.each_row(column, NO_VALUE, |value| match self.dimension.text_in(value) {
            None => NO_VALUE,
            Some(text) if self.events[self.slot(text)] < self.cutoff => BELOW_CUTOFF,
            Some(text) => 1 + self.dimension.interner.intern(text),
        })
    }

    fn slot(&self, text: &str) -> usize {
        self.hashing.hash(Value::Text(text)) as usize & (self.slots - 1)
    }

    /// Upper bound of the events of any pruned value; none if no value is pruned.
    pub fn max_below_cutoff(&self) -> Option<u32> {
        self.events.iter().copied().filter(|events| (1..self.cutoff).contains(events)).max()
    }

    /// Lowers the cutoff to admit slots whose event count is `enough`. False if too many slots would
    /// be admitted for pruning to pay off.
    pub fn lower_cutoff(&mut self, enough: impl Fn(u32) -> bool) -> bool {
        let used = || self.events.iter().copied().filter(|events| *events > 0);
        self.cutoff = used().filter(|events| enough(*events)).min().unwrap_or(1).min(self.cutoff);
        used().filter(|events| *events >= self.cutoff).count() * SHARE_MAX <= used().count()
    }
}

/// The same scan, with the breakdown's raw columns instead of its value ids.
pub(crate) fn without_breakdown<'a>(scan: &Scan<'a>, breakdown: &Breakdown) -> Scan<'a> {
    Scan { filter: scan.filter.clone(), breakdown: None, keys: breakdown.keys(), ..*scan }
}

/// Upper bound of the rows that the scan reads; none if the largest part has at most `few` values.
fn rows_if_wide(scan: &Scan<'_>, breakdown: &Breakdown, few: usize) -> Result<Option<usize>> {
    let columns = Projection { keys: breakdown.keys(), ..Projection::default() };
    let parts = scan.view.events.scan_ranges(&scan.filter)?;
    // The largest part is the best sample of the number of values.
    let Some(part) = parts.iter().max_by_key(|part| part.rows_max()) else { return Ok(None) };
    let wide = part.read(&scan.filter, &columns)?.columns[0].dictionary.len() > few;
    Ok(wide.then(|| parts.iter().map(|part| part.rows_max()).sum()))
}
