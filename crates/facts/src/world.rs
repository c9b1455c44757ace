//! A project at one moment.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use model::{ActionId, CohortId, ProjectId, Timestamp};
use serde_json::Value as Json;
use warehouse::{Predicate, Snapshot};

use crate::actions::ActionTest;
use crate::cleaning::PathCleaning;
use crate::cohorts::Cohorts;
use crate::dates::Zone;
use crate::groups::Groups;
use crate::people::People;
use crate::sessions::SessionFacts;
use crate::{Filters, Result};

/// Every distinct number of `events` is known to `people`: who fills a world takes them in this
/// order.
#[derive(Clone, Debug)]
pub struct World {
    pub project: ProjectId,
    pub events: Snapshot,
    pub people: Arc<People>,
    pub groups: Arc<Groups>,
    pub cohorts: Arc<Cohorts>,
    pub actions: Arc<HashMap<ActionId, ActionFacts>>,
    /// Of the fields that filters name, once they are read.
    pub sessions: Arc<SessionFacts>,
    pub zone: Zone,
    pub now: Timestamp,
    pub week_starts_monday: bool,
    /// As the project has them: a list of property filters.
    pub test_account_filters: Json,
    pub path_cleaning: Arc<PathCleaning>,
    /// What the events of statements must pass.
    pub only: Option<Predicate>,
    /// How conditions in HogQL are read.
    pub expressions: Arc<dyn Expressions>,
}

#[derive(Clone, Debug)]
pub struct ActionFacts {
    pub name: String,
    pub test: ActionTest,
}

/// What of a project a question needs; events and who is who always are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub groups: bool,
    pub cohorts: BTreeSet<CohortId>,
    pub all_cohorts: bool,
    pub actions: BTreeSet<ActionId>,
    /// Fields of sessions.
    pub sessions: BTreeSet<String>,
    /// HogQL in filters.
    pub expressions: BTreeSet<String>,
}

/// HogQL is another room's knowledge.
pub trait Expressions: fmt::Debug + Send + Sync {
    /// A boolean expression over events.
    fn condition(&self, world: &World, text: &str) -> Result<Predicate>;
}

impl World {
    pub fn test_accounts(&self) -> Result<Filters> {
        Filters::read(&self.test_account_filters, self.now, &self.zone)
    }
}
