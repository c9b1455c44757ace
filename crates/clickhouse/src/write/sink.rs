//! The writer behind the seam of a warehouse.

use model::ProjectId;
use warehouse::{AppendListener, DeleteOutcome, DeleteSelection, NewRow, Sink, StoreSize};

use super::writer::Writer;
use crate::error::Error;

impl Sink for Writer {
    fn append(&self, rows: &[NewRow<'_>], reach: u64) -> warehouse::Result<usize> {
        Ok(Writer::append(self, rows, reach)?)
    }

    fn delete(
        &self,
        project: ProjectId,
        selection: &DeleteSelection,
        before: u64,
    ) -> warehouse::Result<DeleteOutcome> {
        Ok(Writer::delete(self, project, selection, before)?)
    }

    fn durable_position(&self) -> u64 {
        Writer::durable_position(self)
    }

    fn applied_position(&self) -> u64 {
        Writer::applied_position(self)
    }

    fn on_append(&self, listener: AppendListener) {
        Writer::on_append(self, listener);
    }

    fn flush(&self) -> warehouse::Result<()> {
        Ok(Writer::flush(self)?)
    }

    fn flush_due(&self) -> warehouse::Result<()> {
        Ok(Writer::flush_due(self)?)
    }

    fn tidy(&self) -> warehouse::Result<bool> {
        Ok(Writer::tidy(self)?)
    }

    fn apply_retention(&self) -> warehouse::Result<DeleteOutcome> {
        Ok(Writer::apply_retention(self)?)
    }

    fn sweep(&self) -> warehouse::Result<()> {
        Ok(Writer::sweep(self)?)
    }

    fn size(&self) -> StoreSize {
        Writer::size(self)
    }
}

impl From<Error> for warehouse::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Journal { stored, given } => Self::Journal { stored, given },
            Error::Invalid { position, why } => Self::Invalid { position, why },
            error if error.is_transient() => Self::Away(Box::new(error)),
            error => Self::Engine(Box::new(error)),
        }
    }
}
