//! How many more names of events and properties a project may have defined.
//!
//! Whoever knows the public key can send any names. Those past the bound are stored with their
//! events and can be asked for, but are not listed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::ProjectId;

use crate::Catalog;

/// Projects whose room is remembered; of others it is counted again.
const PROJECTS_MAX: usize = 10_000;
/// Pairs of an event and a property it came with, for each property that may be defined.
const PAIRS_A_PROPERTY: i64 = 10;

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

#[derive(Debug, Default)]
pub(crate) struct DefinitionRoom {
    limits: Mutex<DefinitionLimits>,
    /// At least so many more fit, as far as is known.
    rooms: Mutex<HashMap<(ProjectId, Defined), i64>>,
    left_out: AtomicU64,
}

impl DefinitionRoom {
    pub fn max(&self, what: Defined) -> i64 {
        let limits = *lock(&self.limits);
        match what {
            Defined::Event => limits.events,
            Defined::Property => limits.properties,
            Defined::Pair => limits.properties.saturating_mul(PAIRS_A_PROPERTY),
        }
    }

    pub fn known(&self, project: ProjectId, what: Defined) -> Option<i64> {
        lock(&self.rooms).get(&(project, what)).copied()
    }

    pub fn set(&self, project: ProjectId, what: Defined, room: i64) {
        let mut rooms = lock(&self.rooms);
        if rooms.len() >= PROJECTS_MAX && !rooms.contains_key(&(project, what)) {
            rooms.clear();
        }
        rooms.insert((project, what), room.max(0));
    }

    pub fn count_left_out(&self, names: u64) {
        self.left_out.fetch_add(names, Ordering::Relaxed);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Catalog {
    /// From now on; what is defined already stays.
    pub fn set_definition_limits(&self, limits: DefinitionLimits) {
        *lock(&self.definitions.limits) = limits;
        lock(&self.definitions.rooms).clear();
    }

    /// Names that were not defined since the start, because their projects have enough.
    pub fn definitions_left_out(&self) -> u64 {
        self.definitions.left_out.load(Ordering::Relaxed)
    }
}
