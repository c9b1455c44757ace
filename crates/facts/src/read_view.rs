//! A project's data at one position.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use model::{ActionId, CohortId, ProjectId, Timestamp, Zone};
use serde_json::Value as Json;
use warehouse::{Predicate, Snapshot};

use crate::actions::ActionMatcher;
use crate::cohorts::Cohorts;
use crate::groups::Groups;
use crate::path_cleaning::PathCleaning;
use crate::person_index::PersonIndex;
use crate::sessions::SessionFacts;
use crate::{Filters, Result};

/// What a query reads. `persons` knows every `distinct_no` of `events`, because the caller takes the
/// snapshot of the events first.
#[derive(Clone, Debug)]
pub struct ReadView {
    pub project: ProjectId,
    pub events: Snapshot,
    pub persons: Arc<PersonIndex>,
    pub groups: Arc<Groups>,
    pub cohorts: Arc<Cohorts>,
    pub actions: Arc<HashMap<ActionId, ActionFacts>>,
    /// The session fields that filters reference, once they are computed.
    pub sessions: Arc<SessionFacts>,
    pub zone: Zone,
    pub now: Timestamp,
    pub week_starts_monday: bool,
    /// The project's setting: a list of property filters.
    pub test_account_filters: Json,
    pub path_cleaning: Arc<PathCleaning>,
    /// Restricts the events that HogQL statements see.
    pub event_filter: Option<Predicate>,
    /// Compiles filters of type `hogql`.
    pub expressions: Arc<dyn ConditionCompiler>,
}

/// An action: its name, and which events match it.
#[derive(Clone, Debug)]
pub struct ActionFacts {
    pub name: String,
    pub matcher: ActionMatcher,
}

/// The parts of a [`ReadView`] that a query needs. Events and persons are always loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub groups: bool,
    pub cohorts: BTreeSet<CohortId>,
    pub all_cohorts: bool,
    pub actions: BTreeSet<ActionId>,
    /// Session fields that filters reference.
    pub sessions: BTreeSet<String>,
    /// HogQL expressions in filters.
    pub expressions: BTreeSet<String>,
}

/// Compiles HogQL conditions. A trait, because this crate does not depend on `hogql`.
pub trait ConditionCompiler: fmt::Debug + Send + Sync {
    /// Compiles a boolean expression over events.
    fn condition(&self, view: &ReadView, text: &str) -> Result<Predicate>;
}

impl ReadView {
    /// The filters that exclude test accounts.
    pub fn test_accounts(&self) -> Result<Filters> {
        Filters::read(&self.test_account_filters, self.now, &self.zone)
    }
}
