//! Subscribers to the batches that the pipeline commits.

use std::sync::{PoisonError, RwLock};

use super::{IngestBatch, ProjectChanges};

type PrepareListener = Box<dyn Fn(&IngestBatch) + Send + Sync>;
type OutcomeListener = Box<dyn Fn(IngestOutcome<'_>) + Send + Sync>;

/// The outcome of a batch, for caches of persons and groups.
#[derive(Clone, Copy, Debug)]
pub enum IngestOutcome<'a> {
    Committed(&'a [ProjectChanges]),
    /// The commit may or may not have happened: caches must be reloaded.
    Unknown,
}

#[derive(Default)]
pub(crate) struct Listeners {
    prepare: RwLock<Vec<PrepareListener>>,
    outcome: RwLock<Vec<OutcomeListener>>,
}

impl Listeners {
    pub(super) fn add_prepare(&self, listener: impl Fn(&IngestBatch) + Send + Sync + 'static) {
        self.prepare.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    pub(super) fn prepare(&self, batch: &IngestBatch) {
        let listeners = self.prepare.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener(batch));
    }

    pub(super) fn add(&self, listener: impl Fn(IngestOutcome<'_>) + Send + Sync + 'static) {
        self.outcome.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    pub(super) fn notify(&self, ingested: IngestOutcome<'_>) {
        let listeners = self.outcome.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener(ingested));
    }
}
