//! Validates a query by a dry run on an empty project: what fails there fails on every project.
//!
//! References are not validated. The empty project has every action and cohort that the query
//! references, and unknown names in HogQL are accepted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use facts::{
    ActionExpr, ActionMatcher, CohortFacts, ConditionCompiler, NamedAction, Needs, PersonIndex,
    QueryContext, ReadView, Zone,
};
use model::{CohortId, ProjectId, Timestamp};
use serde_json::{Map, Value as Json, json};
use warehouse::{Predicate, Snapshot};

use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::spec::Overrides;
use crate::{Error, Insight, Result, StatementQuery, TrendsQuery};

const PROJECT: ProjectId = ProjectId(0);

impl Insight {
    /// Validates the query, but not its references.
    pub fn check(&self) -> Result<()> {
        // A dashboard may override the dates, so the query's own range must not decide; a short one
        // keeps the dry run cheap.
        let short = Overrides { date_from: Some("-1h".into()), ..Overrides::default() };
        let mut query = self.clone();
        query.apply_filters(&short);
        let view = empty_view(&query.needs())?;
        let limits = QueryLimits::new(None, Arc::default(), usize::MAX);
        match query.run_with(&view, &limits, Some(&HogqlCompiler::new(empty_schema()))) {
            Ok(_) | Err(Error::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl StatementQuery {
    /// Validates the query, but not its references.
    pub fn check(&self) -> Result<()> {
        match self.to_hogql(&empty_context(&self.needs())) {
            Ok(_) | Err(Error::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Overrides {
    /// Validates the overrides; an error comes with the name of the invalid part.
    pub fn check(&self) -> std::result::Result<(), (&'static str, Error)> {
        let properties = Self { properties: self.properties.clone(), ..Self::default() };
        let breakdown = Self { breakdown_filter: self.breakdown_filter.clone(), ..Self::default() };
        for (name, part) in [("properties", properties), ("breakdown_filter", breakdown)] {
            let checked = minimal_query(&part).and_then(|query| query.check());
            checked.map_err(|why| (name, why))?;
        }
        Ok(())
    }
}

/// Validates a property filter and returns the cohorts that it references.
pub fn check_filter(filter: &Map<String, Json>) -> Result<BTreeSet<CohortId>> {
    let query = minimal_query(&Overrides { properties: json!([filter]), ..Overrides::default() })?;
    query.check()?;
    Ok(query.needs().cohorts)
}

/// A trend of all events, with the overrides applied.
fn minimal_query(overrides: &Overrides) -> Result<Insight> {
    let mut query = Insight::Trends(TrendsQuery::parse(&json!({ "series": [{}] }))?);
    query.apply_filters(overrides);
    Ok(query)
}

fn empty_schema() -> ::hogql::Project {
    ::hogql::Project {
        id: PROJECT,
        zone: "UTC".into(),
        groups: BTreeMap::new(),
        properties: HashMap::new(),
        cohorts: BTreeMap::new(),
        actions: BTreeMap::new(),
        objects: BTreeMap::new(),
    }
}

fn empty_context(needs: &Needs) -> QueryContext {
    QueryContext {
        actions: needs.actions.iter().map(|id| (*id, NamedAction::default())).collect(),
        cohorts: needs.cohorts.iter().map(|id| (*id, String::new())).collect(),
        ..QueryContext::new(PROJECT, Zone::named("UTC"), Timestamp::from_micros(0))
    }
}

fn empty_view(needs: &Needs) -> Result<ReadView> {
    let context = empty_context(needs);
    let matcher = ActionMatcher::compile(&ActionExpr::default(), &context.zone)?;
    let actions = needs.actions.iter().map(|id| (*id, matcher.clone())).collect();
    let cohorts = needs.cohorts.iter().map(|id| (*id, CohortFacts::default())).collect();
    Ok(ReadView {
        context: Arc::new(context),
        events: Snapshot::empty(PROJECT),
        persons: Arc::new(PersonIndex::new(PROJECT)),
        groups: Arc::default(),
        cohorts: Arc::new(cohorts),
        actions: Arc::new(actions),
        sessions: Arc::default(),
        event_filter: None,
        expressions: Arc::new(LenientCompiler(HogqlCompiler::new(empty_schema()))),
    })
}

/// Accepts conditions with unknown names as true, so that the rest of the query is validated too.
#[derive(Debug)]
struct LenientCompiler(HogqlCompiler);

impl ConditionCompiler for LenientCompiler {
    fn condition(&self, view: &ReadView, text: &str) -> facts::Result<Predicate> {
        match self.0.predicate(view, text) {
            Ok(predicate) => Ok(predicate),
            Err(Error::Missing(_)) => Ok(Predicate::All(Vec::new())),
            Err(error) => Err(facts::Error::Invalid(error.to_string())),
        }
    }
}
