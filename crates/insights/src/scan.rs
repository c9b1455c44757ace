//! Parallel scan of a project's events, and the per-actor structures that scans fill.
//!
//! - [`context`]: which events a series selects, under the query's common filters.
//! - [`actor_source`], [`breakdown`], [`expression`], [`numbers`], [`sessions`]: what is read of each
//!   event.
//! - [`activity`], [`first_events`], [`actor_events`]: dense per-actor results.

pub(crate) mod activity;
pub(crate) mod actor_events;
pub(crate) mod actor_source;
pub(crate) mod breakdown;
pub(crate) mod context;
pub(crate) mod expression;
pub(crate) mod first_events;
pub(crate) mod numbers;
pub(crate) mod sessions;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use facts::ReadView;
use warehouse::{Batch, Column, ColumnKey, Filter, Projection, ScanRange};

pub(crate) use actor_source::ActorSource;

use crate::Result;
use crate::columns::memo::DictionaryMemo;
use crate::columns::{EventColumns, text};
use crate::limits::{QueryLimits, SCAN_THREADS};
use actor_source::NO_ACTOR;
use breakdown::{Breakdown, BreakdownReader};

/// One pass over the events that pass `filter`.
pub(crate) struct Scan<'a> {
    pub view: &'a ReadView,
    pub limits: &'a QueryLimits,
    pub filter: Filter,
    /// If set, events without an actor are dropped.
    pub actors: Option<&'a ActorSource>,
    pub breakdown: Option<&'a Breakdown>,
    /// Additional columns to read.
    pub keys: Vec<ColumnKey>,
    /// Whether to read the events' uuids.
    pub uuids: bool,
}

/// A batch of events that passed the filter.
pub(crate) struct Rows<'a> {
    /// Timestamps in microseconds.
    pub times: &'a [i64],
    /// Actor numbers; empty if the scan has no `actors`.
    pub actors: &'a [u32],
    /// Ids of breakdown values; empty if the scan has no `breakdown`.
    pub values: &'a [u32],
    /// One for each of the scan's `keys`.
    pub columns: &'a [Column],
    pub distinct_nos: &'a [u32],
    /// Empty unless the scan reads them.
    pub uuids: &'a [[u8; 16]],
}

impl Rows<'_> {
    pub fn len(&self) -> usize {
        self.times.len()
    }

    pub fn event_columns(&self) -> EventColumns<'_> {
        EventColumns { times: self.times, distinct_nos: self.distinct_nos, columns: self.columns }
    }

    pub fn actor(&self, row: usize) -> u32 {
        self.actors[row]
    }

    pub fn value(&self, row: usize) -> u32 {
        self.values.get(row).copied().unwrap_or(0)
    }
}

impl Scan<'_> {
    /// Folds all batches on [`SCAN_THREADS`] threads. Each thread folds into a state of its own;
    /// the caller merges the states.
    pub fn fold<S: Send>(
        &self,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &Rows<'_>) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let columns =
            Projection { keys: self.all_keys(), uuids: self.uuids, ..Projection::default() };
        let parts = self.view.events.scan_ranges(&self.filter)?;
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let work = || {
            let mut state = new();
            let mut memos = ThreadMemos::default();
            let mut fold_ranges = || -> Result<()> {
                while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if failed.load(Ordering::Relaxed) {
                        break;
                    }
                    self.limits.check()?;
                    self.fold_range(part, &columns, &mut memos, &mut state, &each)?;
                }
                Ok(())
            };
            let folded = fold_ranges();
            failed.fetch_or(folded.is_err(), Ordering::Relaxed);
            folded.map(|()| state)
        };
        if parts.len() < SCAN_THREADS {
            return Ok(vec![work()?]);
        }
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..SCAN_THREADS).map(|_| scope.spawn(work)).collect();
            let mut states = vec![work()];
            for other in others {
                states.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            states.into_iter().collect()
        })
    }

    /// Keys of the scan, then of the actor, then of the breakdown: `fold_range` slices by this
    /// order.
    fn all_keys(&self) -> Vec<ColumnKey> {
        let actor = self.actors.map(ActorSource::keys).unwrap_or_default();
        let breakdown = self.breakdown.map(Breakdown::keys).unwrap_or_default();
        self.keys.iter().chain(actor).cloned().chain(breakdown).collect()
    }

    fn fold_range<S>(
        &self,
        part: &ScanRange,
        columns: &Projection,
        memos: &mut ThreadMemos,
        state: &mut S,
        each: &impl Fn(&mut S, &Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut batch = part.read(&self.filter, columns)?;
        if batch.rows == 0 {
            return Ok(());
        }
        let reader = RowReader {
            view: self.view,
            keys: self.keys.len(),
            actors: self.actors,
            breakdown: self.breakdown,
        };
        let mut actors = reader.actors(&batch, memos)?;
        if actors.contains(&NO_ACTOR) {
            drop_without_actor(&mut batch, &mut actors);
        }
        let values = reader.values(&batch, memos)?;
        let rows = Rows {
            times: &batch.timestamps,
            actors: &actors,
            values: &values,
            columns: &batch.columns[..self.keys.len()],
            distinct_nos: &batch.distinct_nos,
            uuids: &batch.uuids,
        };
        each(state, &rows)
    }
}

/// Reads actors and breakdown values of batches that have `keys` columns, then the actor's, then the
/// breakdown's.
pub(crate) struct RowReader<'a> {
    pub view: &'a ReadView,
    pub keys: usize,
    pub actors: Option<&'a ActorSource>,
    pub breakdown: Option<&'a Breakdown>,
}

impl RowReader<'_> {
    fn breakdown_at(&self) -> usize {
        self.keys + self.actors.map_or(0, |actors| actors.keys().len())
    }

    /// The actor of each row, or [`NO_ACTOR`]; empty without an actor source.
    pub fn actors(&self, batch: &Batch, memos: &mut ThreadMemos) -> Result<Vec<u32>> {
        let Batch { timestamps, distinct_nos, columns, .. } = batch;
        Ok(match self.actors {
            None => Vec::new(),
            Some(ActorSource::Persons) => {
                distinct_nos.iter().map(|no| self.view.persons.actor(*no)).collect()
            }
            Some(ActorSource::Column(_, texts)) => {
                memos.actors.each_text(&columns[self.keys], NO_ACTOR, (texts, 0), text)
            }
            Some(ActorSource::Expression(scalar, texts)) => {
                let columns = &columns[self.keys..self.breakdown_at()];
                let events = EventColumns { times: timestamps, distinct_nos, columns };
                let mut actors = Vec::with_capacity(batch.rows);
                scalar.each_text(events, |text| {
                    actors.push(text.map_or(NO_ACTOR, |text| texts.intern(text)));
                })?;
                actors
            }
        })
    }

    /// The breakdown value of each row; empty without a breakdown.
    pub fn values(&self, batch: &Batch, memos: &mut ThreadMemos) -> Result<Vec<u32>> {
        let Some(breakdown) = self.breakdown else { return Ok(Vec::new()) };
        let Batch { timestamps, distinct_nos, columns, .. } = batch;
        let columns = &columns[self.breakdown_at()..];
        let events = EventColumns { times: timestamps, distinct_nos, columns };
        memos.breakdown.read(breakdown, self.view, events)
    }
}

/// Memos that a thread carries from part to part.
#[derive(Default)]
pub(crate) struct ThreadMemos {
    actors: DictionaryMemo<u32>,
    breakdown: BreakdownReader,
}

fn drop_without_actor(batch: &mut Batch, actors: &mut Vec<u32>) {
    let keep: Vec<bool> = actors.iter().map(|actor| *actor != NO_ACTOR).collect();
    fn retain<T: Copy>(items: &mut Vec<T>, keep: &[bool]) {
        let mut at = 0;
        items.retain(|_| {
            at += 1;
            keep[at - 1]
        });
    }
    retain(actors, &keep);
    retain(&mut batch.timestamps, &keep);
    retain(&mut batch.distinct_nos, &keep);
    if !batch.uuids.is_empty() {
        retain(&mut batch.uuids, &keep);
    }
    batch.columns.iter_mut().for_each(|column| retain(&mut column.codes, &keep));
    batch.rows = actors.len();
}
