//! Cache invalidation: subscribers learn which projects each transaction may have changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use model::ProjectId;

type Listener = Box<dyn Fn(ProjectId) + Send + Sync>;

/// Versions and subscribers, for the changes that this process makes.
#[derive(Default)]
pub(crate) struct ChangeFeed {
    version: AtomicU64,
    definitions: AtomicU64,
    listeners: RwLock<Vec<Listener>>,
}

/// What a transaction invalidates. It notifies when it is dropped, because a commit that was
/// canceled or whose response was lost may have happened; a needless notification costs one lookup.
pub(crate) struct Invalidation {
    feed: Arc<ChangeFeed>,
    projects: Vec<ProjectId>,
    definitions: bool,
}

impl Invalidation {
    pub(crate) fn of(feed: Arc<ChangeFeed>) -> Self {
        Self { feed, projects: Vec::new(), definitions: false }
    }

    pub(crate) fn add(&mut self, project: ProjectId) {
        self.projects.push(project);
    }

    pub(crate) fn add_definitions(&mut self) {
        self.definitions = true;
    }
}

impl Drop for Invalidation {
    fn drop(&mut self) {
        if self.definitions {
            self.feed.definitions.fetch_add(1, Ordering::SeqCst);
        }
        if self.projects.is_empty() {
            return;
        }
        self.feed.version.fetch_add(1, Ordering::SeqCst);
        let listeners = self.feed.listeners.read().unwrap_or_else(PoisonError::into_inner);
        for listener in &*listeners {
            self.projects.iter().for_each(|project| listener(*project));
        }
    }
}

impl ChangeFeed {
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
