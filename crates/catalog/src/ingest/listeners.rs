//! Subscribers to the batches that the pipeline commits.

use std::sync::{PoisonError, RwLock};

use super::ProjectChanges;

type Listener = Box<dyn Fn(IngestOutcome<'_>) + Send + Sync>;

/// The outcome of a batch, for caches of persons and groups.
#[derive(Clone, Copy, Debug)]
pub enum IngestOutcome<'a> {
    Committed(&'a [ProjectChanges]),
    /// The commit may or may not have happened: caches must be reloaded.
    Unknown,
}

#[derive(Default)]
pub(crate) struct Listeners(RwLock<Vec<Listener>>);

impl Listeners {
    pub(super) fn add(&self, listener: impl Fn(IngestOutcome<'_>) + Send + Sync + 'static) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    pub(super) fn notify(&self, ingested: IngestOutcome<'_>) {
        let listeners = self.0.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener(ingested));
    }
}
