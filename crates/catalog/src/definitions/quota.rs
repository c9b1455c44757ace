//! Quota of event and property definitions per project.
//!
//! Anybody with the public token can send arbitrary names. Names past the quota are stored with
//! their events and can be queried, but have no definition.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::ProjectId;

use super::Definitions;

/// Projects whose remaining quota is cached.
const PROJECTS_MAX: usize = 10_000;
/// Event-property pairs allowed per allowed property.
const PAIRS_PER_PROPERTY: i64 = 10;

/// How long a count is cached; deletions of definitions take effect after it.
const COUNTED_FOR: Duration = Duration::from_secs(60);

/// Limits per project. Existing definitions beyond a lowered limit stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionLimits {
    pub events: i64,
    /// Properties of events, persons and groups together.
    pub properties: i64,
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self { events: 10_000, properties: 20_000 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DefinitionKind {
    Event,
    Property,
    Pair,
}

/// Whether every definition charged to the quota was new, or some existed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charged {
    AllNew,
    SomeExisting,
}

#[derive(Debug, Default)]
pub(crate) struct DefinitionQuota {
    limits: Mutex<DefinitionLimits>,
    remaining: Mutex<HashMap<(ProjectId, DefinitionKind), Remaining>>,
    skipped: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Remaining {
    /// A lower bound of the remaining quota.
    left: i64,
    /// When `left` was exact; none if more may be left.
    counted_at: Option<Instant>,
}

/// Guards an open transaction: unless it is settled, the cached quotas are dropped, since the
/// transaction may have failed.
pub(crate) struct PendingQuota<'r>(Option<&'r DefinitionQuota>);

impl PendingQuota<'_> {
    pub fn settle(mut self) {
        self.0 = None;
    }
}

impl Drop for PendingQuota<'_> {
    fn drop(&mut self) {
        if let Some(quota) = self.0 {
            lock(&quota.remaining).clear();
        }
    }
}

impl DefinitionQuota {
    pub fn max(&self, what: DefinitionKind) -> i64 {
        let limits = *lock(&self.limits);
        match what {
            DefinitionKind::Event => limits.events,
            DefinitionKind::Property => limits.properties,
            DefinitionKind::Pair => limits.properties.saturating_mul(PAIRS_PER_PROPERTY),
        }
    }

    /// The remaining quota if it is cached: enough for `wanted`, or counted within [`COUNTED_FOR`].
    pub fn cached(&self, project: ProjectId, what: DefinitionKind, wanted: i64) -> Option<i64> {
        let quota = lock(&self.remaining).get(&(project, what)).copied()?;
        let is_counted = || quota.counted_at.is_some_and(|at| at.elapsed() < COUNTED_FOR);
        (quota.left >= wanted || is_counted()).then_some(quota.left)
    }

    pub fn set_counted(&self, project: ProjectId, what: DefinitionKind, left: i64) {
        let mut remaining = lock(&self.remaining);
        if remaining.len() >= PROJECTS_MAX && !remaining.contains_key(&(project, what)) {
            remaining.clear();
        }
        let quota = Remaining { left: left.max(0), counted_at: Some(Instant::now()) };
        remaining.insert((project, what), quota);
    }

    /// Records the remaining quota after definitions were written. It stays exact only if all of
    /// them were new.
    pub fn record_use(
        &self,
        project: ProjectId,
        what: DefinitionKind,
        left: i64,
        charged: Charged,
    ) {
        if let Some(quota) = lock(&self.remaining).get_mut(&(project, what)) {
            quota.left = left.max(0);
            quota.counted_at = quota.counted_at.filter(|_| charged == Charged::AllNew);
        }
    }

    pub fn begin(&self) -> PendingQuota<'_> {
        PendingQuota(Some(self))
    }

    pub fn count_skipped(&self, names: u64) {
        self.skipped.fetch_add(names, Ordering::Relaxed);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Definitions<'_> {
    /// Sets the limits for new definitions; existing ones stay.
    pub fn set_limits(self, limits: DefinitionLimits) {
        *lock(&self.quota.limits) = limits;
        lock(&self.quota.remaining).clear();
    }

    /// Names that got no definition since the start, because their project's quota is used up.
    pub fn names_skipped(self) -> u64 {
        self.quota.skipped.load(Ordering::Relaxed)
    }

    /// Changes when a definition is deleted, since its next observation must create it again.
    pub fn version(self) -> u64 {
        self.core.db.change_feed().definitions_version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recent_quota_count_is_cached_even_when_used_up() {
        let (quota, project) = (DefinitionQuota::default(), ProjectId(1));
        assert_eq!(quota.cached(project, DefinitionKind::Pair, 1), None);
        quota.set_counted(project, DefinitionKind::Pair, -5);
        assert_eq!(quota.cached(project, DefinitionKind::Pair, 1), Some(0), "full");
        quota.set_counted(project, DefinitionKind::Event, 4);
        quota.record_use(project, DefinitionKind::Event, 0, Charged::AllNew);
        assert_eq!(quota.cached(project, DefinitionKind::Event, 1), Some(0), "all of it was taken");
        // Existing names use no quota, so the exact rest is unknown.
        quota.set_counted(project, DefinitionKind::Property, 4);
        quota.record_use(project, DefinitionKind::Property, 1, Charged::SomeExisting);
        assert_eq!(quota.cached(project, DefinitionKind::Property, 1), Some(1));
        assert_eq!(quota.cached(project, DefinitionKind::Property, 2), None);
        let mut remaining = lock(&quota.remaining);
        let full = remaining.get_mut(&(project, DefinitionKind::Pair)).unwrap();
        full.counted_at = full.counted_at.and_then(|at| at.checked_sub(COUNTED_FOR));
        drop(remaining);
        assert_eq!(quota.cached(project, DefinitionKind::Pair, 1), None, "too long ago");
    }

    #[test]
    fn a_failed_transaction_drops_cached_quotas() {
        let (quota, project) = (DefinitionQuota::default(), ProjectId(1));
        quota.set_counted(project, DefinitionKind::Event, 4);
        quota.begin().settle();
        assert_eq!(quota.cached(project, DefinitionKind::Event, 1), Some(4));
        drop(quota.begin());
        assert_eq!(quota.cached(project, DefinitionKind::Event, 1), None);
    }
}
