//! A project at one moment.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use model::{ActionId, CohortId, ProjectId, Timestamp};
use serde_json::Value as Json;
use warehouse::{Predicate, Snapshot};

use crate::actions::ActionMatcher;
use crate::cohorts::Cohorts;
use crate::dates::Zone;
use crate::groups::Groups;
use crate::path_cleaning::PathCleaning;
use crate::person_index::PersonIndex;
use crate::sessions::SessionFacts;
use crate::{Filters, Result};

/// Every distinct number of `events` is known to `people`: who fills a view takes them in this
/// order.
#[derive(Clone, Debug)]
pub struct ReadView {
    pub project: ProjectId,
    pub events: Snapshot,
    pub persons: Arc<PersonIndex>,
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
    pub event_filter: Option<Predicate>,
    /// How conditions in HogQL are read.
    pub expressions: Arc<dyn ConditionCompiler>,
}

#[derive(Clone, Debug)]
pub struct ActionFacts {
    pub name: String,
    pub matcher: ActionMatcher,
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
pub trait ConditionCompiler: fmt::Debug + Send + Sync {
    /// A boolean expression over events.
    fn condition(&self, view: &ReadView, text: &str) -> Result<Predicate>;
}

impl ReadView {
    pub fn test_accounts(&self) -> Result<Filters> {
        Filters::read(&self.test_account_filters, self.now, &self.zone)
    }
}
