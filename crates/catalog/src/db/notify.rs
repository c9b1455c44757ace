//! Cache invalidation: subscribers learn which projects each transaction may have changed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use model::ProjectId;
use tokio::sync::watch;

type Listener = Box<dyn Fn(ProjectId) + Send + Sync>;

/// Versions and subscribers, for the changes that this process makes.
#[derive(Default)]
pub(crate) struct ChangeFeed {
    version: AtomicU64,
    definitions: AtomicU64,
    listeners: RwLock<Vec<Listener>>,
    /// Whether a warehouse is told of changes of persons, groups and cohorts.
    is_fed: AtomicBool,
    /// Whether anything was recorded since it was last asked.
    is_recorded: AtomicBool,
    /// The last change that the warehouse knows.
    told: watch::Sender<i64>,
}

/// What a transaction invalidates. It notifies when it is dropped, because a commit that was
/// canceled or whose response was lost may have happened; a needless notification costs one lookup.
pub(crate) struct Invalidation {
    feed: Arc<ChangeFeed>,
    projects: Vec<ProjectId>,
    definitions: bool,
    is_fed: bool,
}

impl Invalidation {
    pub(crate) fn of(feed: Arc<ChangeFeed>) -> Self {
        Self { feed, projects: Vec::new(), definitions: false, is_fed: false }
    }

    pub(crate) fn has_feed(&self) -> bool {
        self.feed.is_fed.load(Ordering::Relaxed)
    }

    pub(crate) fn add_to_feed(&mut self) {
        self.is_fed = true;
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
        if self.is_fed {
            self.feed.is_recorded.store(true, Ordering::Release);
        }
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

    pub(crate) fn enable(&self) {
        self.is_fed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.is_fed.load(Ordering::Relaxed)
    }

    pub(crate) fn take_recorded(&self) -> bool {
        self.is_recorded.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn tell(&self, id: i64) {
        self.told.send_replace(id);
    }

    pub(crate) async fn wait_told(&self, id: i64) {
        // Cannot fail: the sender lives as long as the catalog.
        let _ = self.told.subscribe().wait_for(|told| *told >= id).await;
    }

    pub(crate) fn projects_version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    pub(crate) fn definitions_version(&self) -> u64 {
        self.definitions.load(Ordering::SeqCst)
    }
}
