//! Which of very many values may come before the limit: nobody can be there more often than there
//! are events, so of most values it is enough to know that they have too few.

use warehouse::{ABSENT, Column, Columns, Hashing, Value};

use super::{Breakdown, Dimension, NO_VALUE, Place};
use crate::Result;
use crate::limits::MemoryReservation;
use crate::scan::{Actors, Entries, Rows, Scan};

/// Stands for every value that comes behind the limit for sure.
pub(crate) const BEHIND: u32 = u32::MAX;

/// So many times the limit are looked at first.
const FIRST_TIMES: usize = 4;
/// Texts share places when there are more; half as many as rows are enough.
const PLACES_MIN: usize = 1 << 8;
const PLACES_MAX: usize = 1 << 20;
/// With a larger share of all places that may lead there is nothing to gain.
const SHARE_MAX: usize = 4;

pub(crate) struct Leading<'a> {
    dimension: &'a Dimension,
    hashing: Hashing,
    places: usize,
    /// By place, how many there are: of each of its texts at most so many.
    events: Vec<u32>,
    /// Places with fewer are behind.
    least: u32,
}

/// What a thread counts.
struct Own<'a> {
    events: Vec<u32>,
    by_code: Vec<u32>,
    reservation: MemoryReservation<'a>,
}

impl<'a> Leading<'a> {
    /// None if values are not plain texts of a column, or too few to gain anything.
    pub fn of(scan: &Scan<'_>, breakdown: &'a Breakdown) -> Result<Option<Self>> {
        let [dimension] = breakdown.dimensions.as_slice() else { return Ok(None) };
        let first = breakdown.limit.saturating_mul(FIRST_TIMES);
        let plain = matches!(dimension.place, Place::Event(_)) && dimension.bins.is_none();
        let rows = if plain { rows_if_wide(scan, breakdown, first)? } else { None };
        let Some(rows) = rows else { return Ok(None) };
        let places = (rows / 2).next_power_of_two().clamp(PLACES_MIN, PLACES_MAX);
        let (hashing, events) = (Hashing::default(), Vec::new());
        let mut all = Self { dimension, hashing, places, events, least: 1 };
        // Everything that happened is somebody's, unless they are known by a text.
        let actors = scan.actors.filter(|actors| !matches!(actors, Actors::Persons));
        let scan = Scan { actors, ..bare(scan, breakdown) };
        let new = || {
            let reservation = scan.limits.reserve();
            Own { events: vec![0; places], by_code: Vec::new(), reservation }
        };
        let each = |own: &mut Own<'_>, rows: &Rows<'_>| {
            all.count(own, &rows.columns[0]);
            own.reservation.resize((own.events.len() + own.by_code.capacity()) * size_of::<u32>())
        };
        let found = scan.fold(new, each)?.into_iter().map(|own| own.events);
        let add = |mut sum: Vec<u32>, more: Vec<u32>| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
            sum
        };
        all.events = found.reduce(add).unwrap_or_default();
        let mut met: Vec<u32> = all.events.iter().copied().filter(|events| *events > 0).collect();
        if met.len() > first {
            all.least = *met.select_nth_unstable_by(first - 1, |a, b| b.cmp(a)).1;
        }
        Ok(Some(all))
    }

    fn count(&self, own: &mut Own<'_>, column: &Column) {
        let dictionary = &column.dictionary;
        own.by_code.clear();
        own.by_code.resize(dictionary.len(), 0);
        for code in column.codes.iter().filter(|code| **code != ABSENT) {
            own.by_code[*code as usize] += 1;
        }
        for (code, events) in own.by_code.iter().enumerate().filter(|(_, events)| **events > 0) {
            if let Some(text) = self.dimension.text_in(dictionary.get(code as u32)) {
                let sum = &mut own.events[self.place(text)];
                *sum = sum.saturating_add(*events);
            }
        }
    }

    /// Numbers of a column's rows; [`BEHIND`] for those that are.
    pub fn numbers(&self, entries: &mut Entries<u32>, column: &Column) -> Vec<u32> {
        entries.each_row(column, NO_VALUE, |value| match self.dimension.text_in(value) {
            None => NO_VALUE,
            Some(text) if self.events[self.place(text)] < self.least => BEHIND,
            Some(text) => 1 + self.dimension.texts.number(text),
        })
    }

    fn place(&self, text: &str) -> usize {
        self.hashing.hash(Value::Text(text)) as usize & (self.places - 1)
    }

    /// No value behind has more events; none if there is none.
    pub fn most_behind(&self) -> Option<u32> {
        self.events.iter().copied().filter(|events| (1..self.least).contains(events)).max()
    }

    /// Also lets those lead that may have `enough`. False if that is not worth it.
    pub fn reach(&mut self, enough: impl Fn(u32) -> bool) -> bool {
        let met = || self.events.iter().copied().filter(|events| *events > 0);
        self.least = met().filter(|events| enough(*events)).min().unwrap_or(1).min(self.least);
        met().filter(|events| *events >= self.least).count() * SHARE_MAX <= met().count()
    }
}

/// The same events, with the breakdown's columns as they are.
pub(crate) fn bare<'a>(scan: &Scan<'a>, breakdown: &Breakdown) -> Scan<'a> {
    Scan { filter: scan.filter.clone(), breakdown: None, keys: breakdown.keys(), ..*scan }
}

/// At most so many events are read; none if there seem to be no more than `few` values.
fn rows_if_wide(scan: &Scan<'_>, breakdown: &Breakdown, few: usize) -> Result<Option<usize>> {
    let columns = Columns { keys: breakdown.keys(), ..Columns::default() };
    let parts = scan.view.events.parts(&scan.filter, &columns)?;
    // The largest part has the most to tell.
    let Some(part) = parts.iter().max_by_key(|part| part.rows_max()) else { return Ok(None) };
    let wide = part.read(&scan.filter, &columns)?.columns[0].dictionary.len() > few;
    Ok(wide.then(|| parts.iter().map(|part| part.rows_max()).sum()))
}
