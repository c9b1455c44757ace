//! What a query means, apart from the data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::filter_expr::{Field, FilterExpr};
use model::{ActionId, CohortId, ProjectId, Timestamp, Zone};
use serde_json::Value as Json;

use crate::Result;
use crate::actions::ActionExpr;
use crate::filters::read_filters;
use crate::path_cleaning::PathCleaning;

/// The settings and the objects that give a query its meaning, at one time. Plain data, so that every
/// engine can use it: predicates and members of cohorts are in a [`crate::ReadView`].
#[derive(Clone, Debug)]
pub struct QueryContext {
    pub project: ProjectId,
    pub zone: Zone,
    pub now: Timestamp,
    pub week_starts_monday: bool,
    /// The project's setting: a list of property filters.
    pub test_account_filters: Json,
    pub path_cleaning: Arc<PathCleaning>,
    /// The actions that the query references; one that is missing is deleted.
    pub actions: BTreeMap<ActionId, NamedAction>,
    /// Names of the cohorts that the query references.
    pub cohorts: BTreeMap<CohortId, String>,
    /// The time of the project's first event, for queries of [`Needs::earliest`].
    pub earliest: Option<Timestamp>,
}

/// An action: its name, and which events match it.
#[derive(Clone, Debug, Default)]
pub struct NamedAction {
    pub name: String,
    pub events: ActionExpr,
}

/// The parts of a [`QueryContext`] and a [`crate::ReadView`] that a query needs. Events and persons
/// are always loaded.
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
    /// The time of the first event.
    pub earliest: bool,
}

impl QueryContext {
    /// A context without settings and objects.
    pub fn new(project: ProjectId, zone: Zone, now: Timestamp) -> Self {
        Self {
            project,
            zone,
            now,
            week_starts_monday: false,
            test_account_filters: Json::Null,
            path_cleaning: Arc::default(),
            actions: BTreeMap::new(),
            cohorts: BTreeMap::new(),
            earliest: None,
        }
    }

    /// The filters that exclude test accounts.
    pub fn test_accounts(&self) -> Result<FilterExpr> {
        read_filters(&self.test_account_filters, self.now, &self.zone)
    }
}

impl Needs {
    /// Adds what filters need.
    pub fn add_filters(&mut self, filters: &FilterExpr) {
        match filters {
            FilterExpr::And(all) | FilterExpr::Or(all) => {
                all.iter().for_each(|part| self.add_filters(part));
            }
            FilterExpr::Not(part) => self.add_filters(part),
            FilterExpr::Test(Field::GroupProperty { .. }, _) => self.groups = true,
            FilterExpr::Test(Field::SessionField(field), _) => {
                self.sessions.insert(field.clone());
            }
            FilterExpr::InCohort(id) => drop(self.cohorts.insert(*id)),
            // Only the compiler knows what an expression references.
            FilterExpr::Hogql(text) => {
                (self.groups, self.all_cohorts) = (true, true);
                self.expressions.insert(text.clone());
            }
            FilterExpr::Test(
                Field::EventProperty(_)
                | Field::EventColumn(_)
                | Field::Element(_)
                | Field::PersonProperty(_)
                | Field::PersonId
                | Field::DistinctIds,
                _,
            ) => {}
        }
    }

    /// Adds what an action's filters need.
    pub fn add_action(&mut self, action: &ActionExpr) {
        action.steps.iter().for_each(|(_, filters)| self.add_filters(filters));
    }
}
