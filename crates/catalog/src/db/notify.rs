//! Who keeps something about projects in memory hears of every change at its commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use model::ProjectId;

type Listener = Box<dyn Fn(ProjectId) + Send + Sync>;

/// Changes of projects, as this process makes them.
#[derive(Default)]
pub(crate) struct Changes {
    version: AtomicU64,
    definitions: AtomicU64,
    listeners: RwLock<Vec<Listener>>,
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

impl Changes {
    pub(crate) fn subscribe(&self, listener: impl Fn(ProjectId) + Send + Sync + 'static) {
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Box::new(listener));
    }

    pub(crate) fn projects_version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    pub(crate) fn definitions_version(&self) -> u64 {
        self.definitions.load(Ordering::SeqCst)
    }
}
