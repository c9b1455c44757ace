//! Which events a reader asks for.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use model::Timestamp;
use roaring::RoaringBitmap;

use crate::columns::Column;
use crate::columns::Value;
use crate::columns::{Field, IntColumn};
use crate::manifest::SegmentEntry;
use crate::read::memoized_predicate::{MemoizedPredicate, SubstringSearch};
use crate::read::row_set::RowSet;
use crate::read::scan::{Batch, RowPredicate, RowSelection};
use crate::{Error, Result};

/// Events must pass every part that is set.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub events: Option<BTreeSet<String>>,
    /// Numbers of distinct ids.
    pub distinct_nos: Option<RoaringBitmap>,
    /// Later than this.
    pub after: Option<Timestamp>,
    /// Earlier than this.
    pub before: Option<Timestamp>,
    pub predicate: Option<Predicate>,
}

/// A column or property by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKey {
    Event,
    DistinctId,
    ElementsChain,
    /// ColumnKey of the group with this type index.
    Group(usize),
    Property(String),
}

/// Says of a value, or of its absence, whether it passes.
pub type ValueTest = dyn Fn(Option<Value<'_>>) -> bool + Send + Sync;

/// A condition on columns. Tests run once for every different value, not for every event.
#[derive(Clone)]
pub enum Predicate {
    /// The test gets `None` where the event has no such value; a property that is null gives
    /// [`Value::Null`].
    Value(ColumnKey, Arc<MemoizedPredicate>),
    /// By the numbers of their distinct ids.
    DistinctNos(RoaringBitmap),
    /// Asked of rows as a whole.
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

    /// A test that may be a search.
    pub fn with_search(
        key: ColumnKey,
        test: impl Fn(Option<Value<'_>>) -> bool + Send + Sync + 'static,
        search: Option<SubstringSearch>,
    ) -> Predicate {
        Predicate::Value(key, Arc::new(MemoizedPredicate::new(Box::new(test), search)))
    }

    fn keep(&self, row_set: &RowSet, rows: &Range<usize>) -> Result<Vec<bool>> {
        Ok(match self {
            Predicate::Value(key, test) => test.keep(&key.column(row_set, rows.clone())?),
            Predicate::DistinctNos(numbers) => {
                let own = row_set.distinct_nos(rows.clone())?;
                own.iter().map(|number| numbers.contains(*number)).collect()
            }
            Predicate::Rows(test) => {
                let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
                let batch = Batch::read(row_set, rows, test.columns(), &RowSelection::All, times)?;
                test.keep(&batch).map_err(Error::Condition)?
            }
            Predicate::All(parts) => combine(parts, row_set, rows, true, |a, b| a && b)?,
            Predicate::Any(parts) => combine(parts, row_set, rows, false, |a, b| a || b)?,
            Predicate::Not(part) => {
                part.keep(row_set, rows)?.into_iter().map(|keep| !keep).collect()
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
    let mut kept = vec![start; rows.len()];
    for part in parts {
        let part = part.keep(row_set, rows)?;
        kept.iter_mut().zip(part).for_each(|(kept, part)| *kept = join(*kept, part));
    }
    Ok(kept)
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Predicate::Value(key, _) => write!(f, "Value({key:?})"),
            Predicate::DistinctNos(numbers) => write!(f, "DistinctNos({} numbers)", numbers.len()),
            Predicate::Rows(test) => write!(f, "Rows({test:?})"),
            Predicate::All(parts) => f.debug_tuple("All").field(parts).finish(),
            Predicate::Any(parts) => f.debug_tuple("Any").field(parts).finish(),
            Predicate::Not(part) => f.debug_tuple("Not").field(part).finish(),
        }
    }
}

impl ColumnKey {
    pub(crate) fn column(&self, row_set: &RowSet, rows: Range<usize>) -> Result<Column> {
        match self {
            ColumnKey::Event => row_set.texts(&Field::Event, rows),
            ColumnKey::DistinctId => row_set.texts(&Field::DistinctId, rows),
            ColumnKey::ElementsChain => row_set.texts(&Field::ElementsChain, rows),
            ColumnKey::Group(index) => row_set.texts(&Field::Group(*index), rows),
            ColumnKey::Property(name) => row_set.property(name, rows),
        }
    }
}

impl Filter {
    pub(crate) fn wants_event(&self, event: &str) -> bool {
        self.events.as_ref().is_none_or(|events| events.contains(event))
    }

    pub(crate) fn wants_time(&self, time: i64) -> bool {
        self.after.is_none_or(|after| time > after.as_micros())
            && self.before.is_none_or(|before| time < before.as_micros())
    }

    /// Whether any time between the two may be wanted.
    pub(crate) fn overlaps(&self, from: i64, to: i64) -> bool {
        self.after.is_none_or(|after| to > after.as_micros())
            && self.before.is_none_or(|before| from < before.as_micros())
    }

    pub(crate) fn may_hold(&self, entry: &SegmentEntry) -> bool {
        let events = &entry.events;
        self.overlaps(entry.from, entry.to)
            && (events.is_empty()
                || events
                    .iter()
                    .any(|span| self.wants_event(&span.event) && self.overlaps(span.from, span.to)))
    }

    /// Whether rows of a wanted event and time need no further look.
    pub(crate) fn is_about_event_and_time(&self) -> bool {
        self.distinct_nos.is_none() && self.predicate.is_none()
    }

    /// Whether that is plain from the ends: of one event, in the order of time, and all alive.
    pub(crate) fn keeps_every_row(
        &self,
        row_set: &RowSet,
        times: &[i64],
        event: Option<&str>,
    ) -> bool {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return false };
        event.is_some()
            && self.is_about_event_and_time()
            && !row_set.any_dead()
            && self.wants_time(*first)
            && self.wants_time(*last)
    }

    /// Which of the rows are alive and wanted.
    pub(crate) fn keep(
        &self,
        row_set: &RowSet,
        rows: Range<usize>,
        times: &[i64],
        event: Option<&str>,
    ) -> Result<Vec<bool>> {
        let any_dead = row_set.any_dead();
        let alive = rows.clone().zip(times);
        let mut keep: Vec<bool> = alive
            .map(|(row, time)| self.wants_time(*time) && !(any_dead && row_set.is_dead(row)))
            .collect();
        if event.is_none() && self.events.is_some() && keep.contains(&true) {
            let events = row_set.texts(&Field::Event, rows.clone())?;
            let wanted: Vec<bool> =
                events.dictionary.iter().map(|event| self.wants_event(event.text())).collect();
            and(&mut keep, events.codes.iter().map(|code| wanted[*code as usize]));
        }
        if let Some(wanted) = &self.distinct_nos
            && keep.contains(&true)
        {
            let numbers = row_set.distinct_nos(rows.clone())?;
            and(&mut keep, numbers.iter().map(|number| wanted.contains(*number)));
        }
        if let Some(predicate) = &self.predicate
            && keep.contains(&true)
        {
            and(&mut keep, predicate.keep(row_set, &rows)?);
        }
        Ok(keep)
    }
}

fn and(keep: &mut [bool], wanted: impl IntoIterator<Item = bool>) {
    keep.iter_mut().zip(wanted).for_each(|(keep, wanted)| *keep &= wanted);
}

/// Rows of one row_set that are looked at together.
#[derive(Clone, Debug)]
pub(crate) struct RowRange {
    pub row_set: usize,
    pub rows: Range<usize>,
    pub from: i64,
    pub to: i64,
    /// Set when all rows are of one event and in the order of time.
    pub event: Option<Arc<str>>,
}

/// As [`sorted_ranges`], for readers that need no order: where every event is wanted, a row group is
/// read in one range instead of run by run.
pub(crate) fn unordered_ranges(row_sets: &[RowSet], filter: &Filter) -> Result<Vec<RowRange>> {
    let runs = sorted_ranges(row_sets, filter)?;
    if filter.events.is_some() {
        return Ok(runs);
    }
    let mut unordered_ranges: Vec<RowRange> = Vec::new();
    for run in runs {
        match unordered_ranges.last_mut() {
            Some(range) if range.row_set == run.row_set => {
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

/// What may hold wanted rows: a run of an event in a row group, or a block.
pub(crate) fn sorted_ranges(row_sets: &[RowSet], filter: &Filter) -> Result<Vec<RowRange>> {
    let mut found = Vec::new();
    for (at, row_set) in row_sets.iter().enumerate() {
        match row_set.runs()? {
            Some(runs) => {
                let mut first = 0;
                for run in runs {
                    let rows = first..first + run.rows as usize;
                    first = rows.end;
                    if filter.wants_event(&run.event) && filter.overlaps(run.from, run.to) {
                        let (from, to) = (run.from, run.to);
                        let event = Some(Arc::from(&*run.event));
                        found.push(RowRange { row_set: at, rows, from, to, event });
                    }
                }
            }
            None => {
                let rows = 0..row_set.rows();
                let times = row_set.ints(IntColumn::Timestamp, rows.clone())?;
                let bounds = times.iter().min().zip(times.iter().max());
                let Some((&from, &to)) = bounds else { continue };
                if filter.overlaps(from, to) {
                    found.push(RowRange { row_set: at, rows, from, to, event: None });
                }
            }
        }
    }
    Ok(found)
}
