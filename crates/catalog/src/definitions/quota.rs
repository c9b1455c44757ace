//! How many more names of events and properties a project may have defined.
//!
//! Whoever knows the public key can send any names. Those past the bound are stored with their
//! events and can be asked for, but are not listed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::ProjectId;

use super::Definitions;

/// Projects whose room is remembered; of others it is counted again.
const PROJECTS_MAX: usize = 10_000;
/// Pairs of an event and a property it came with, for each property that may be defined.
const PAIRS_A_PROPERTY: i64 = 10;

/// How long a count holds. Somebody may delete definitions, which is noticed after it.
const COUNTED_FOR: Duration = Duration::from_secs(60);

/// Of one project; one that has more already keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefinitionLimits {
    pub events: i64,
    /// Of events, persons and groups together.
    pub properties: i64,
}

impl Default for DefinitionLimits {
    fn default() -> Self {
        Self { events: 10_000, properties: 20_000 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Defined {
    Event,
    Property,
    Pair,
}

/// Whether all that was taken of a room is in use, or some was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needed {
    All,
    Some,
}

#[derive(Debug, Default)]
pub(crate) struct DefinitionQuota {
    limits: Mutex<DefinitionLimits>,
    rooms: Mutex<HashMap<(ProjectId, Defined), Room>>,
    left_out: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Room {
    /// At least so many more fit, as far as is known.
    left: i64,
    /// When just so many did; none when there may be more.
    counted_at: Option<Instant>,
}

/// While a transaction may fail, and what it took of rooms with it: then they are counted again.
pub(crate) struct Unsettled<'r>(Option<&'r DefinitionQuota>);

impl Unsettled<'_> {
    pub fn settle(mut self) {
        self.0 = None;
    }
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if let Some(room) = self.0 {
            lock(&room.rooms).clear();
        }
    }
}

impl DefinitionQuota {
    pub fn max(&self, what: Defined) -> i64 {
        let limits = *lock(&self.limits);
        match what {
            Defined::Event => limits.events,
            Defined::Property => limits.properties,
            Defined::Pair => limits.properties.saturating_mul(PAIRS_A_PROPERTY),
        }
    }

    /// How many more fit, if there is no need to count: so many do, or it was counted lately.
    pub fn known(&self, project: ProjectId, what: Defined, wanted: i64) -> Option<i64> {
        let room = lock(&self.rooms).get(&(project, what)).copied()?;
        let is_counted = || room.counted_at.is_some_and(|at| at.elapsed() < COUNTED_FOR);
        (room.left >= wanted || is_counted()).then_some(room.left)
    }

    pub fn set_counted(&self, project: ProjectId, what: Defined, left: i64) {
        let mut rooms = lock(&self.rooms);
        if rooms.len() >= PROJECTS_MAX && !rooms.contains_key(&(project, what)) {
            rooms.clear();
        }
        let room = Room { left: left.max(0), counted_at: Some(Instant::now()) };
        rooms.insert((project, what), room);
    }

    /// What is left of a room after some was taken. It may be more unless all was needed.
    pub fn take(&self, project: ProjectId, what: Defined, left: i64, needed: Needed) {
        if let Some(room) = lock(&self.rooms).get_mut(&(project, what)) {
            room.left = left.max(0);
            room.counted_at = room.counted_at.filter(|_| needed == Needed::All);
        }
    }

    pub fn unsettled(&self) -> Unsettled<'_> {
        Unsettled(Some(self))
    }

    pub fn count_left_out(&self, names: u64) {
        self.left_out.fetch_add(names, Ordering::Relaxed);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Definitions<'_> {
    /// From now on; what is defined already stays.
    pub fn set_limits(self, limits: DefinitionLimits) {
        *lock(&self.quota.limits) = limits;
        lock(&self.quota.rooms).clear();
    }

    /// Names that were not defined since the start, because their projects have enough.
    pub fn names_skipped(self) -> u64 {
        self.quota.left_out.load(Ordering::Relaxed)
    }

    /// Differs after a definition was deleted: it comes back when its event is seen again.
    pub fn version(self) -> u64 {
        self.core.db.changes().definitions_version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_that_was_counted_lately_is_not_counted_again_even_when_it_is_full() {
        let (room, project) = (DefinitionQuota::default(), ProjectId(1));
        assert_eq!(room.known(project, Defined::Pair, 1), None);
        room.set_counted(project, Defined::Pair, -5);
        assert_eq!(room.known(project, Defined::Pair, 1), Some(0), "full");
        room.set_counted(project, Defined::Event, 4);
        room.take(project, Defined::Event, 0, Needed::All);
        assert_eq!(room.known(project, Defined::Event, 1), Some(0), "all of it was taken");
        // Names that were there already take no room, so nobody knows.
        room.set_counted(project, Defined::Property, 4);
        room.take(project, Defined::Property, 1, Needed::Some);
        assert_eq!(room.known(project, Defined::Property, 1), Some(1));
        assert_eq!(room.known(project, Defined::Property, 2), None);
        let mut rooms = lock(&room.rooms);
        let full = rooms.get_mut(&(project, Defined::Pair)).unwrap();
        full.counted_at = full.counted_at.and_then(|at| at.checked_sub(COUNTED_FOR));
        drop(rooms);
        assert_eq!(room.known(project, Defined::Pair, 1), None, "too long ago");
    }

    #[test]
    fn rooms_are_counted_again_after_a_transaction_that_failed() {
        let (room, project) = (DefinitionQuota::default(), ProjectId(1));
        room.set_counted(project, Defined::Event, 4);
        room.unsettled().settle();
        assert_eq!(room.known(project, Defined::Event, 1), Some(4));
        drop(room.unsettled());
        assert_eq!(room.known(project, Defined::Event, 1), None);
    }
}
