//! Which events a reader asks for.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use model::Timestamp;
use roaring::RoaringBitmap;

use crate::dictionary::Column;
use crate::fields::{Field, Number};
use crate::manifest::SegmentEntry;
use crate::scan::{Batch, RowTest, Wanted};
use crate::slab::Slab;
use crate::tested::{Search, Tested};
use crate::value::Value;
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
pub enum Key {
    Event,
    DistinctId,
    ElementsChain,
    /// Key of the group with this type index.
    Group(usize),
    Property(String),
}

/// Says of a value, or of its absence, whether it passes.
pub type Test = dyn Fn(Option<Value<'_>>) -> bool + Send + Sync;

/// A condition on columns. Tests run once for every different value, not for every event.
#[derive(Clone)]
pub enum Predicate {
    /// The test gets `None` where the event has no such value; a property that is null gives
    /// [`Value::Null`].
    Test(Key, Arc<Tested>),
    /// By the numbers of their distinct ids.
    Among(RoaringBitmap),
    /// Asked of rows as a whole.
    Rows(Arc<dyn RowTest>),
    All(Vec<Predicate>),
    Any(Vec<Predicate>),
    Not(Box<Predicate>),
}

impl Predicate {
    pub fn test(
        key: Key,
        test: impl Fn(Option<Value<'_>>) -> bool + Send + Sync + 'static,
    ) -> Predicate {
        Predicate::searching(key, test, None)
    }

    /// A test that may be a search.
    pub fn searching(
        key: Key,
        test: impl Fn(Option<Value<'_>>) -> bool + Send + Sync + 'static,
        search: Option<Search>,
    ) -> Predicate {
        Predicate::Test(key, Arc::new(Tested::new(Box::new(test), search)))
    }

    fn keep(&self, slab: &Slab, rows: &Range<usize>) -> Result<Vec<bool>> {
        Ok(match self {
            Predicate::Test(key, test) => test.keep(&key.column(slab, rows.clone())?),
            Predicate::Among(numbers) => {
                let own = slab.distinct_nos(rows.clone())?;
                own.iter().map(|number| numbers.contains(*number)).collect()
            }
            Predicate::Rows(test) => {
                let times = slab.numbers(Number::Timestamp, rows.clone())?;
                let batch = Batch::read(slab, rows, test.columns(), &Wanted::All, times)?;
                test.keep(&batch).map_err(Error::Condition)?
            }
            Predicate::All(parts) => combine(parts, slab, rows, true, |a, b| a && b)?,
            Predicate::Any(parts) => combine(parts, slab, rows, false, |a, b| a || b)?,
            Predicate::Not(part) => part.keep(slab, rows)?.into_iter().map(|keep| !keep).collect(),
        })
    }
}

fn combine(
    parts: &[Predicate],
    slab: &Slab,
    rows: &Range<usize>,
    start: bool,
    join: fn(bool, bool) -> bool,
) -> Result<Vec<bool>> {
    let mut kept = vec![start; rows.len()];
    for part in parts {
        let part = part.keep(slab, rows)?;
        kept.iter_mut().zip(part).for_each(|(kept, part)| *kept = join(*kept, part));
    }
    Ok(kept)
}

impl fmt::Debug for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Predicate::Test(key, _) => write!(f, "Test({key:?})"),
            Predicate::Among(numbers) => write!(f, "Among({} numbers)", numbers.len()),
            Predicate::Rows(test) => write!(f, "Rows({test:?})"),
            Predicate::All(parts) => f.debug_tuple("All").field(parts).finish(),
            Predicate::Any(parts) => f.debug_tuple("Any").field(parts).finish(),
            Predicate::Not(part) => f.debug_tuple("Not").field(part).finish(),
        }
    }
}

impl Key {
    pub(crate) fn column(&self, slab: &Slab, rows: Range<usize>) -> Result<Column> {
        match self {
            Key::Event => slab.texts(&Field::Event, rows),
            Key::DistinctId => slab.texts(&Field::DistinctId, rows),
            Key::ElementsChain => slab.texts(&Field::ElementsChain, rows),
            Key::Group(index) => slab.texts(&Field::Group(*index), rows),
            Key::Property(name) => slab.property(name, rows),
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
    pub(crate) fn keeps_all(&self, slab: &Slab, times: &[i64], event: Option<&str>) -> bool {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return false };
        event.is_some()
            && self.is_about_event_and_time()
            && !slab.any_dead()
            && self.wants_time(*first)
            && self.wants_time(*last)
    }

    /// Which of the rows are alive and wanted.
    pub(crate) fn keep(
        &self,
        slab: &Slab,
        rows: Range<usize>,
        times: &[i64],
        event: Option<&str>,
    ) -> Result<Vec<bool>> {
        let any_dead = slab.any_dead();
        let alive = rows.clone().zip(times);
        let mut keep: Vec<bool> = alive
            .map(|(row, time)| self.wants_time(*time) && !(any_dead && slab.is_dead(row)))
            .collect();
        if event.is_none() && self.events.is_some() && keep.contains(&true) {
            let events = slab.texts(&Field::Event, rows.clone())?;
            let wanted: Vec<bool> =
                events.dictionary.iter().map(|event| self.wants_event(event.text())).collect();
            and(&mut keep, events.codes.iter().map(|code| wanted[*code as usize]));
        }
        if let Some(wanted) = &self.distinct_nos
            && keep.contains(&true)
        {
            let numbers = slab.distinct_nos(rows.clone())?;
            and(&mut keep, numbers.iter().map(|number| wanted.contains(*number)));
        }
        if let Some(predicate) = &self.predicate
            && keep.contains(&true)
        {
            and(&mut keep, predicate.keep(slab, &rows)?);
        }
        Ok(keep)
    }
}

fn and(keep: &mut [bool], wanted: impl IntoIterator<Item = bool>) {
    keep.iter_mut().zip(wanted).for_each(|(keep, wanted)| *keep &= wanted);
}

/// Rows of one slab that are looked at together.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub slab: usize,
    pub rows: Range<usize>,
    pub from: i64,
    pub to: i64,
    /// Set when all rows are of one event and in the order of time.
    pub event: Option<Arc<str>>,
}

/// As [`stretches`], for readers that need no order: where every event is wanted, a row group is
/// read in one piece instead of run by run.
pub(crate) fn pieces(slabs: &[Slab], filter: &Filter) -> Result<Vec<Stretch>> {
    let runs = stretches(slabs, filter)?;
    if filter.events.is_some() {
        return Ok(runs);
    }
    let mut pieces: Vec<Stretch> = Vec::new();
    for run in runs {
        match pieces.last_mut() {
            Some(piece) if piece.slab == run.slab => {
                piece.rows.end = run.rows.end;
                piece.from = piece.from.min(run.from);
                piece.to = piece.to.max(run.to);
                piece.event = None;
            }
            _ => pieces.push(run),
        }
    }
    Ok(pieces)
}

/// What may hold wanted rows: a run of an event in a row group, or a block.
pub(crate) fn stretches(slabs: &[Slab], filter: &Filter) -> Result<Vec<Stretch>> {
    let mut found = Vec::new();
    for (at, slab) in slabs.iter().enumerate() {
        match slab.runs()? {
            Some(runs) => {
                let mut first = 0;
                for run in runs {
                    let rows = first..first + run.rows as usize;
                    first = rows.end;
                    if filter.wants_event(&run.event) && filter.overlaps(run.from, run.to) {
                        let (from, to) = (run.from, run.to);
                        let event = Some(Arc::from(&*run.event));
                        found.push(Stretch { slab: at, rows, from, to, event });
                    }
                }
            }
            None => {
                let rows = 0..slab.rows();
                let times = slab.numbers(Number::Timestamp, rows.clone())?;
                let bounds = times.iter().min().zip(times.iter().max());
                let Some((&from, &to)) = bounds else { continue };
                if filter.overlaps(from, to) {
                    found.push(Stretch { slab: at, rows, from, to, event: None });
                }
            }
        }
    }
    Ok(found)
}
