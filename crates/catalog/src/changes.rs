//! Who keeps something about projects in memory hears of every change at its commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use model::ProjectId;

use crate::{Catalog, ProjectChanges};

type Listener = Box<dyn Fn(ProjectId) + Send + Sync>;
type IngestListener = Box<dyn Fn(Ingested<'_>) + Send + Sync>;

/// What the pipeline wrote about persons and groups.
#[derive(Clone, Copy, Debug)]
pub enum Ingested<'a> {
    Changes(&'a [ProjectChanges]),
    /// It may have been written or not: what is remembered must be read again.
    Unsure,
}

/// Changes of projects, as this process makes them.
#[derive(Default)]
pub(crate) struct Changes {
    version: AtomicU64,
    definitions: AtomicU64,
    listeners: RwLock<Vec<Listener>>,
    ingest: RwLock<Vec<IngestListener>>,
}

/// What a transaction will have changed. Told when it is dropped, since a commit whose caller went
/// away, or whose answer got lost, may have happened; telling too much costs one look-up.
pub(crate) struct Announcement {
    changes: Arc<Changes>,
    projects: Vec<ProjectId>,
    definitions: bool,
}

impl Announcement {
    pub(crate) fn of(changes: Arc<Changes>) -> Self {
        Self { changes, projects: Vec::new(), definitions: false }
    }

    pub(crate) fn add(&mut self, project: ProjectId) {
        self.projects.push(project);
    }

    pub(crate) fn add_definitions(&mut self) {
        self.definitions = true;
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if self.definitions {
            self.changes.definitions.fetch_add(1, Ordering::SeqCst);
        }
        if self.projects.is_empty() {
            return;
        }
        self.changes.version.fetch_add(1, Ordering::SeqCst);
        let listeners = self.changes.listeners.read().unwrap_or_else(PoisonError::into_inner);
        for listener in &*listeners {
            self.projects.iter().for_each(|project| listener(*project));
        }
    }
}

impl Catalog {
    /// `listener` is called, where the transaction ends, with every project whose row, token or
    /// settings may have changed; also with new ones.
    pub fn on_project_change(&self, listener: impl Fn(ProjectId) + Send + Sync + 'static) {
        let changes = self.db.changes();
        let mut listeners = changes.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    /// `listener` hears of every batch of the pipeline, in their order, before its events can be
    /// read.
    pub fn on_ingest(&self, listener: impl Fn(Ingested<'_>) + Send + Sync + 'static) {
        let mut listeners =
            self.db.changes().ingest.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    pub(crate) fn tell_ingested(&self, ingested: Ingested<'_>) {
        let changes = self.db.changes();
        let listeners = changes.ingest.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().for_each(|listener| listener(ingested));
    }

    /// Differs after a definition was deleted: it comes back when its event is seen again.
    pub fn definitions_version(&self) -> u64 {
        self.db.changes().definitions.load(Ordering::SeqCst)
    }

    /// Differs after every change: what was read under another version may be stale.
    pub fn projects_version(&self) -> u64 {
        self.db.changes().version.load(Ordering::SeqCst)
    }
}
