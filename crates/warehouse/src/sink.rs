//! The seam for writing: what ingestion needs of a warehouse, whatever engine stores the rows.

use std::fmt::Debug;

use model::ProjectId;

use crate::Result;
use crate::columns::NewRow;
use crate::manifest::DeleteSelection;
use crate::write::compact::CompactionKind;
use crate::write::delete::DeleteOutcome;
use crate::write::warehouse::{StoreSize, Warehouse};

/// Receives rows that became visible.
pub type AppendListener = Box<dyn Fn(&[&NewRow<'_>]) + Send + Sync>;

/// Stores the event rows of all projects. The owner appends them in journal order. A trait object:
/// it is called once per batch of rows, never per row.
///
/// The catalog commits a batch before its rows are appended. A store that joins persons, groups or
/// cohorts at the engine therefore finds their changes in the catalog when `append` is called, up to
/// the position that the rows reach.
///
/// All calls block; async callers use `spawn_blocking` or a thread of their own.
pub trait Sink: Debug + Send + Sync {
    /// Appends the rows of all journal records before `reach`, in the order of their positions.
    /// Idempotent: a replay of the journal stores no event twice. Of several rows of one event (equal
    /// uuid, name and `distinct_no`), one is stored; if their contents differ, it is the one with the
    /// latest position. The rows are visible once `applied_position` has passed them, and durable once
    /// `durable_position` has.
    ///
    /// Blocks while the store cannot take more (backpressure). Returns how many of the rows it found
    /// stored already; an engine that deduplicates later finds none.
    fn append(&self, rows: &[NewRow<'_>], reach: u64) -> Result<usize>;

    /// Deletes the project's events that match `selection` and have a journal position below
    /// `before`, also those that a replay appends later. When this returns, the delete is durable and
    /// reads do not see the events. Idempotent.
    fn delete(
        &self,
        project: ProjectId,
        selection: &DeleteSelection,
        before: u64,
    ) -> Result<DeleteOutcome>;

    /// The first journal position that a crash would lose: where a replay starts.
    fn durable_position(&self) -> u64;

    /// The first journal position whose rows are not visible.
    fn applied_position(&self) -> u64;

    /// Registers a listener for rows that became visible, including those that a replay appends
    /// again. It must return quickly. Only the first call has an effect.
    fn on_append(&self, listener: AppendListener);

    /// Makes all appended rows durable and visible.
    fn flush(&self) -> Result<()>;

    /// Flushes if anything has waited for the store's maximum age. Called every few seconds.
    fn flush_due(&self) -> Result<()>;

    /// Does one bounded piece of the work that keeps reads fast, at low priority. Returns whether
    /// more may be due.
    fn tidy(&self) -> Result<bool>;

    /// Drops the events that are older than the store keeps, or beyond its size.
    fn apply_retention(&self) -> Result<DeleteOutcome>;

    /// Frees what earlier writes replaced and no reader needs any more.
    fn sweep(&self) -> Result<()>;

    /// What the store holds, without I/O: metrics ask for it.
    fn size(&self) -> StoreSize;
}

impl Sink for Warehouse {
    fn append(&self, rows: &[NewRow<'_>], reach: u64) -> Result<usize> {
        Warehouse::append(self, rows, reach)
    }

    fn delete(
        &self,
        project: ProjectId,
        selection: &DeleteSelection,
        before: u64,
    ) -> Result<DeleteOutcome> {
        Warehouse::delete(self, project, selection, before)
    }

    fn durable_position(&self) -> u64 {
        Warehouse::durable_position(self)
    }

    fn applied_position(&self) -> u64 {
        Warehouse::applied_position(self)
    }

    fn on_append(&self, listener: AppendListener) {
        Warehouse::on_append(self, listener);
    }

    fn flush(&self) -> Result<()> {
        Warehouse::flush(self)
    }

    fn flush_due(&self) -> Result<()> {
        Warehouse::flush_due(self)
    }

    fn tidy(&self) -> Result<bool> {
        Ok(self.compact(CompactionKind::Minor)?.is_some())
    }

    fn apply_retention(&self) -> Result<DeleteOutcome> {
        Warehouse::apply_retention(self)
    }

    fn sweep(&self) -> Result<()> {
        Warehouse::sweep(self).map(drop)
    }

    fn size(&self) -> StoreSize {
        Warehouse::size(self)
    }
}
