//! Filters: predicate evaluation over dictionary codes, and pruning by event and time.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use model::Timestamp;
use roaring::RoaringBitmap;

use crate::columns::{Column, Field, IntColumn, Value};
use crate::manifest::SegmentEntry;
use crate::read::memoized_predicate::{MemoizedPredicate, SubstringSearch};
use crate::read::row_set::RowSet;
use crate::read::scan::{Batch, RowPredicate, RowSelection};
use crate::{Error, Result};

/// Selects the events that pass every condition that is set.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub events: Option<BTreeSet<String>>,
    pub excluded_events: BTreeSet<String>,
    /// Dense ids of distinct ids.
    pub distinct_nos: Option<RoaringBitmap>,
    /// Timestamps after this, exclusive.
    pub after: Option<Timestamp>,
    /// Timestamps before this, exclusive.
    pub before: Option<Timestamp>,
    pub predicate: Option<Predicate>,
}

/// A column or property by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKey {
    Event,
    DistinctId,
    ElementsChain,
    /// The group key of the group type with this index.
    Group(usize),
    Property(String),
}

/// Whether a value, or its absence, passes.
pub type ValueTest = dyn Fn(Option<Value<'_>>) -> bool + Send + Sync;

/// A condition on columns. Value tests run once per dictionary entry, not once per event.
#[derive(Clone)]
pub enum Predicate {
    /// A test of one column. It gets `None` if the event has no value, and [`Value::Null`] for a
    /// property that is JSON null.
    Value(ColumnKey, Arc<MemoizedPredicate>),
    /// Events of these distinct ids, given as dense ids.
    DistinctNos(RoaringBitmap),
    /// A condition on several columns of a row.
    Rows(Arc<dyn RowPredicate>),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
}

impl Predicate {
    pub fn test(
        key: ColumnKey,
        test: impl Fn(Option<Value<'_>>) -> bool + Send + Sync + 'static,
    ) -> Predicate {
        Predicate::with_search(key, test, None)
    }

    /// A value test that is equivalent to a substring search, which is then used instead.
    pub fn with_search(
        key: ColumnKey,
        test: impl Fn(Option<Value<'_>>) -> bool + Send + Sync + 'static,
        search: Option<SubstringSearch>,
    ) -> Predicate {
        Predicate::Value(key, Arc::new(MemoizedPredicate::new(Box::new(test), search)))
    }

    fn mask(&self, row_set: &RowSet, rows: &Range<usize>) -> Result<Vec<bool>> {
        Ok(match self {
            Predicate::Value(key, test) => test.mask(&key.column(row_set, rows.clone())?),
            Predicate::DistinctNos(selected) => {
                let distinct_nos = row_set.distinct_nos(rows.clone())?;
                distinct_nos.iter().map(|distinct_no| selected.contains(*distinct_no)).collect()
            }
            Predicate::Rows(test) => {
                let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
                let batch = Batch::read(row_set, rows, test.columns(), &RowSelection::All, times)?;
                test.evaluate(&batch).map_err(Error::Condition)?
            }
            Predicate::All(parts) => combine(parts, row_set, rows, true, |a, b| a && b)?,
            Predicate::Any(parts) => combine(parts, row_set, rows, false, |a, b| a || b)?,
            Predicate::Not(part) => {
                part.mask(row_set, rows)?.into_iter().map(|mask| !mask).collect()
            }
        })
    }
}

fn combine(
    parts: &[Predicate],
    row_set: &RowSet,
    rows: &Range<usize>,
    start: bool,
    join: fn(bool, bool) -> bool,
) -> Result<Vec<bool>> {
    let mut mask = vec![start; rows.len()];
    for part in parts {
        let part = part.mask(row_set, rows)?;
        mask.iter_mut().zip(part).for_each(|(mask, part)| *mask = join(*mask, part));
    }
    Ok(mask)
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Predicate::Value(key, _) => write!(f, "Value({key:?})"),
            Predicate::DistinctNos(selected) => write!(f, "DistinctNos({} ids)", selected.len()),
            Predicate::Rows(test) => write!(f, "Rows({test:?})"),
            Predicate::All(parts) => f.debug_tuple("All").field(parts).finish(),
            Predicate::Any(parts) => f.debug_tuple("Any").field(parts).finish(),
            Predicate::Not(part) => f.debug_tuple("Not").field(part).finish(),
        }
    }
}

impl ColumnKey {
    pub(crate) fn column(&self, row_set: &RowSet, rows: Range<usize>) -> Result<Column> {
        match self.field() {
            Ok(field) => row_set.column_or_absent(&field, rows),
            Err(property) => row_set.property(property, rows),
        }
    }

    /// As [`ColumnKey::column`], of single rows.
    pub(crate) fn column_at(&self, row_set: &RowSet, rows: &[usize]) -> Result<Column> {
        match self.field() {
            Ok(field) => {
                let column = row_set.column_at(&field, rows)?;
                Ok(column.unwrap_or_else(|| Column::absent(rows.len())))
            }
            Err(property) => row_set.property_at(property, rows),
        }
    }

    /// The field, or the name of a property.
    fn field(&self) -> std::result::Result<Field, &str> {
        Ok(match self {
            ColumnKey::Event => Field::Event,
            ColumnKey::DistinctId => Field::DistinctId,
            ColumnKey::ElementsChain => Field::ElementsChain,
            ColumnKey::Group(index) => Field::Group(*index),
            ColumnKey::Property(name) => return Err(name),
        })
    }
}

impl Filter {
    pub(crate) fn matches_event(&self, event: &str) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(event))
            && !self.excluded_events.contains(event)
    }

    fn filters_events(&self) -> bool {
        self.events.is_some() || !self.excluded_events.is_empty()
    }

    pub(crate) fn matches_time(&self, time: i64) -> bool {
        self.after.is_none_or(|after| time > after.as_micros())
            && self.before.is_none_or(|before| time < before.as_micros())
    }

    /// Whether the time range `from..=to` overlaps the filter's.
    pub(crate) fn overlaps(&self, from: i64, to: i64) -> bool {
        self.after.is_none_or(|after| to > after.as_micros())
            && self.before.is_none_or(|before| from < before.as_micros())
    }

    pub(crate) fn may_hold(&self, entry: &SegmentEntry) -> bool {
        let events = &entry.events;
        self.overlaps(entry.from, entry.to)
            && (events.is_empty()
                || events.iter().any(|span| {
                    self.matches_event(&span.event) && self.overlaps(span.from, span.to)
                }))
    }

    /// Whether only event and time are filtered.
    pub(crate) fn is_event_and_time_only(&self) -> bool {
        self.distinct_nos.is_none() && self.predicate.is_none()
    }

    /// Whether all rows of a range pass, if their timestamps are within these bounds.
    pub(crate) fn keeps_every_row(
        &self,
        row_set: &RowSet,
        events_match: bool,
        (from, to): (i64, i64),
    ) -> bool {
        events_match
            && self.is_event_and_time_only()
            && !row_set.any_dead()
            && self.matches_time(from)
            && self.matches_time(to)
    }

    /// The selection mask of some rows: live rows that pass the filter.
    pub(crate) fn mask(
        &self,
        row_set: &RowSet,
        rows: Range<usize>,
        times: &[i64],
        events_match: bool,
    ) -> Result<Vec<bool>> {
        let any_dead = row_set.any_dead();
        let alive = rows.clone().zip(times);
        let mut mask: Vec<bool> = alive
            .map(|(row, time)| self.matches_time(*time) && !(any_dead && row_set.is_dead(row)))
            .collect();
        if !events_match && mask.contains(&true) {
            let events = row_set.column_or_absent(&Field::Event, rows.clone())?;
            let passes: Vec<bool> =
                events.dictionary.iter().map(|event| self.matches_event(event.text())).collect();
            and(&mut mask, events.codes.iter().map(|code| passes[*code as usize]));
        }
        if let Some(selected) = &self.distinct_nos
            && mask.contains(&true)
        {
            let distinct_nos = row_set.distinct_nos(rows.clone())?;
            and(&mut mask, distinct_nos.iter().map(|distinct_no| selected.contains(*distinct_no)));
        }
        if let Some(predicate) = &self.predicate
            && mask.contains(&true)
        {
            and(&mut mask, predicate.mask(row_set, &rows)?);
        }
        Ok(mask)
    }
}

fn and(mask: &mut [bool], passes: impl IntoIterator<Item = bool>) {
    mask.iter_mut().zip(passes).for_each(|(mask, passes)| *mask &= passes);
}

/// A range of rows of one row set that is read together.
#[derive(Clone, Debug)]
pub(crate) struct RowRange {
    pub row_set: usize,
    pub rows: Range<usize>,
    pub from: i64,
    pub to: i64,
    /// Set if all rows have this event and are sorted by timestamp.
    pub event: Option<Arc<str>>,
    /// Whether the events of all rows pass the filter.
    pub events_match: bool,
}

/// As [`sorted_ranges`], for readers that need no order: runs that follow each other are one range, and
/// without a filter on events a row group is.
pub(crate) fn unordered_ranges(row_sets: &[RowSet], filter: &Filter) -> Result<Vec<RowRange>> {
    let runs = sorted_ranges(row_sets, filter)?;
    let merges_gaps = !filter.filters_events();
    let mut unordered_ranges: Vec<RowRange> = Vec::new();
    for run in runs {
        match unordered_ranges.last_mut() {
            Some(range)
                if range.row_set == run.row_set
                    && (merges_gaps || range.rows.end == run.rows.start) =>
            {
                if range.rows.end < run.rows.start {
                    // The runs in between have other times.
                    (range.from, range.to) = (i64::MIN, i64::MAX);
                }
                range.rows.end = run.rows.end;
                range.from = range.from.min(run.from);
                range.to = range.to.max(run.to);
                range.event = None;
            }
            _ => unordered_ranges.push(run),
        }
    }
    Ok(unordered_ranges)
}

/// Ranges that may have matching rows: a run of a row group, or a whole block.
pub(crate) fn sorted_ranges(row_sets: &[RowSet], filter: &Filter) -> Result<Vec<RowRange>> {
    let mut ranges = Vec::new();
    for (at, row_set) in row_sets.iter().enumerate() {
        match row_set.runs()? {
            Some(runs) => {
                let mut first = 0;
                for run in runs {
                    let rows = first..first + run.rows as usize;
                    first = rows.end;
                    if filter.matches_event(&run.event) && filter.overlaps(run.from, run.to) {
                        let (from, to) = (run.from, run.to);
                        let event = Some(Arc::from(&*run.event));
                        let events_match = true;
                        ranges.push(RowRange { row_set: at, rows, from, to, event, events_match });
                    }
                }
            }
            None => {
                let rows = 0..row_set.rows();
                let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
                let bounds = times.iter().min().zip(times.iter().max());
                let Some((&from, &to)) = bounds else { continue };
                if filter.overlaps(from, to) {
                    let (event, events_match) = (None, !filter.filters_events());
                    ranges.push(RowRange { row_set: at, rows, from, to, event, events_match });
                }
            }
        }
    }
    Ok(ranges)
}
