//! Drill-down to events: which events a data point counts, as a condition on rows of the warehouse.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use eval::MemoryCharge;
use facts::ReadView;
use model::Timestamp;
use warehouse::{Batch, ColumnKey, Predicate, Projection, RowPredicate};

use crate::Result;
use crate::limits::MemoryReservation;
use crate::scan::actor_source::NO_ACTOR;
use crate::scan::breakdown::Breakdown;
use crate::scan::context::EventSelection;
use crate::scan::{ActorSource, RowReader, Rows, ThreadMemos};

/// The events that a data point counts.
#[derive(Clone, Debug)]
pub struct CountedEvents {
    /// The first and the last timestamp that an event may have.
    pub from: Timestamp,
    pub to: Timestamp,
    /// The names that an event may have; none for all.
    pub names: Option<BTreeSet<String>>,
    /// Whether an event is counted.
    pub predicate: Predicate,
}

impl CountedEvents {
    pub(crate) fn none() -> Self {
        let zero = Timestamp::from_micros(0);
        let predicate = Predicate::Any(Vec::new());
        Self { from: zero, to: zero, names: Some(BTreeSet::new()), predicate }
    }

    /// The selected events between two timestamps, inclusive, that pass the test.
    pub(crate) fn of(
        selection: &EventSelection,
        (from, to): (i64, i64),
        test: Option<RowTest>,
    ) -> Self {
        let range = Predicate::Rows(Arc::new(TimeRange { from, to, columns: Default::default() }));
        let test = test.map(|test| Predicate::Rows(Arc::new(test)));
        let parts = [range, selection.as_predicate()].into_iter().chain(test);
        Self {
            from: Timestamp::from_micros(from),
            to: Timestamp::from_micros(to),
            names: selection.names().cloned(),
            predicate: Predicate::All(parts.collect()),
        }
    }

    /// The events of any of the parts.
    pub(crate) fn any(parts: Vec<Self>) -> Self {
        let from = parts.iter().map(|part| part.from).min();
        let to = parts.iter().map(|part| part.to).max();
        let (Some(from), Some(to)) = (from, to) else { return Self::none() };
        let names: Option<Vec<_>> = parts.iter().map(|part| part.names.as_ref()).collect();
        let names = names.map(|names| names.into_iter().flatten().cloned().collect());
        let predicates = parts.into_iter().map(|part| part.predicate);
        Self { from, to, names, predicate: Predicate::Any(predicates.collect()) }
    }
}

#[derive(Debug)]
struct TimeRange {
    from: i64,
    to: i64,
    columns: Projection,
}

impl RowPredicate for TimeRange {
    fn columns(&self) -> &Projection {
        &self.columns
    }

    fn evaluate(&self, batch: &Batch) -> std::result::Result<Vec<bool>, String> {
        let within = self.from..=self.to;
        Ok(batch.timestamps.iter().map(|time| within.contains(time)).collect())
    }
}

/// What a [`RowTest`] reads of each event besides its timestamp.
#[derive(Default)]
pub(crate) struct RowColumns {
    /// Events without an actor never pass.
    pub actors: Option<Arc<ActorSource>>,
    pub breakdown: Option<Arc<Breakdown>>,
    pub keys: Vec<ColumnKey>,
    pub uuids: bool,
}

type Test = dyn Fn(&Rows<'_>) -> Result<Vec<bool>> + Send + Sync;

/// A test of events by actor, breakdown value and time.
pub(crate) struct RowTest {
    view: ReadView,
    actors: Option<Arc<ActorSource>>,
    breakdown: Option<Arc<Breakdown>>,
    keys: usize,
    columns: Projection,
    passes: Box<Test>,
    /// The memory of what `passes` looks up.
    _memory: Option<MemoryCharge>,
}

impl RowTest {
    /// `passes` returns one result per row.
    pub fn new(
        view: &ReadView,
        columns: RowColumns,
        passes: impl Fn(&Rows<'_>) -> Result<Vec<bool>> + Send + Sync + 'static,
    ) -> Self {
        let RowColumns { actors, breakdown, mut keys, uuids } = columns;
        let own = keys.len();
        keys.extend(actors.iter().flat_map(|actors| actors.keys().to_vec()));
        keys.extend(breakdown.iter().flat_map(|breakdown| breakdown.keys()));
        Self {
            view: view.clone(),
            actors,
            breakdown,
            keys: own,
            columns: Projection { keys, uuids, ..Projection::default() },
            passes: Box::new(passes),
            _memory: None,
        }
    }

    /// As [`RowTest::new`], with a test of one row.
    pub fn of_rows(
        view: &ReadView,
        columns: RowColumns,
        passes: impl Fn(&Rows<'_>, usize) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::new(view, columns, move |rows| {
            Ok((0..rows.len()).map(|row| passes(rows, row)).collect())
        })
    }

    /// Keeps the memory of what the test looks up charged to the query.
    pub fn charged(self, memory: MemoryReservation<'_>) -> Self {
        Self { _memory: Some(memory.into_charge()), ..self }
    }

    fn mask(&self, batch: &Batch) -> Result<Vec<bool>> {
        let reader = RowReader {
            view: &self.view,
            keys: self.keys,
            actors: self.actors.as_deref(),
            breakdown: self.breakdown.as_deref(),
        };
        let mut memos = ThreadMemos::default();
        let actors = reader.actors(batch, &mut memos)?;
        let values = reader.values(batch, &mut memos)?;
        let rows = Rows {
            times: &batch.timestamps,
            actors: &actors,
            values: &values,
            columns: &batch.columns[..self.keys],
            distinct_nos: &batch.distinct_nos,
            uuids: &batch.uuids,
        };
        let mut mask = (self.passes)(&rows)?;
        for (passes, actor) in mask.iter_mut().zip(&actors) {
            *passes &= *actor != NO_ACTOR;
        }
        Ok(mask)
    }
}

impl RowPredicate for RowTest {
    fn columns(&self) -> &Projection {
        &self.columns
    }

    fn evaluate(&self, batch: &Batch) -> std::result::Result<Vec<bool>, String> {
        self.mask(batch).map_err(|error| error.to_string())
    }
}

impl fmt::Debug for RowTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowTest({:?})", self.columns.keys)
    }
}
