//! A project's data at one position.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use model::ActionId;
use warehouse::{Predicate, Snapshot};

use crate::Result;
use crate::actions::ActionMatcher;
use crate::cohorts::Cohorts;
use crate::groups::Groups;
use crate::person_index::PersonIndex;
use crate::query_context::QueryContext;
use crate::sessions::SessionFacts;

/// What a query reads in the embedded warehouse: its context, and the facts. `persons` knows every
/// `distinct_no` of `events`, because the caller takes the snapshot of the events first.
#[derive(Clone, Debug)]
pub struct ReadView {
    pub context: Arc<QueryContext>,
    pub events: Snapshot,
    pub persons: Arc<PersonIndex>,
    pub groups: Arc<Groups>,
    pub cohorts: Arc<Cohorts>,
    /// The context's actions, compiled.
    pub actions: Arc<HashMap<ActionId, ActionMatcher>>,
    /// The session fields that filters reference, once they are computed.
    pub sessions: Arc<SessionFacts>,
    /// Restricts the events that HogQL statements see.
    pub event_filter: Option<Predicate>,
    /// Compiles filters of type `hogql`.
    pub expressions: Arc<dyn ConditionCompiler>,
}

/// Compiles HogQL conditions. A trait, because this crate does not depend on `hogql`.
pub trait ConditionCompiler: fmt::Debug + Send + Sync {
    /// Compiles a boolean expression over events.
    fn condition(&self, view: &ReadView, text: &str) -> Result<Predicate>;
}
