//! Whether a question can be answered: it is asked of a project where nothing happened, so that
//! whatever refuses it there would always refuse it.
//!
//! What it names may still be missing. Actions and cohorts are taken to be there; of names in HogQL
//! nothing is known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use facts::{
    ActionFacts, ActionMatcher, CohortFacts, ConditionCompiler, Needs, PathCleaning, PersonIndex,
    ReadView, Zone,
};
use model::{CohortId, ProjectId, Timestamp};
use serde_json::{Map, Value as Json, json};
use warehouse::{Predicate, Snapshot};

use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::spec::Overrides;
use crate::{Error, Insight, Result, TrendsQuery};

const PROJECT: ProjectId = ProjectId(0);

impl Insight {
    /// Whether it can be answered; what it names may still be missing.
    pub fn check(&self) -> Result<()> {
        // Other dates may be put on top of its own.
        let soon = Overrides { date_from: Some("-1h".into()), ..Overrides::default() };
        let mut asked = self.clone();
        asked.apply_filters(&soon);
        let view = nothing(&asked.needs())?;
        let limits = QueryLimits::new(None, Arc::default(), usize::MAX);
        match asked.run_with(&view, &limits, Some(&HogqlCompiler::new(unknown()))) {
            Ok(_) | Err(Error::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Overrides {
    /// The part that no question can be asked with, and why.
    pub fn check(&self) -> std::result::Result<(), (&'static str, Error)> {
        let properties = Self { properties: self.properties.clone(), ..Self::default() };
        let breakdown = Self { breakdown_filter: self.breakdown_filter.clone(), ..Self::default() };
        for (name, part) in [("properties", properties), ("breakdown_filter", breakdown)] {
            let checked = plain(&part).and_then(|asked| asked.check());
            checked.map_err(|why| (name, why))?;
        }
        Ok(())
    }
}

/// Whether events can be held against a filter; answers the cohorts that it names.
pub fn check_filter(filter: &Map<String, Json>) -> Result<BTreeSet<CohortId>> {
    let asked = plain(&Overrides { properties: json!([filter]), ..Overrides::default() })?;
    asked.check()?;
    Ok(asked.needs().cohorts)
}

/// The plainest question, with this on top.
fn plain(on_top: &Overrides) -> Result<Insight> {
    let mut asked = Insight::Trends(TrendsQuery::parse(&json!({ "series": [{}] }))?);
    asked.apply_filters(on_top);
    Ok(asked)
}

fn unknown() -> ::hogql::Project {
    ::hogql::Project {
        id: PROJECT,
        zone: "UTC".into(),
        groups: BTreeMap::new(),
        properties: HashMap::new(),
        cohorts: BTreeMap::new(),
    }
}

fn nothing(needs: &Needs) -> Result<ReadView> {
    let (now, zone) = (Timestamp::from_micros(0), Zone::named("UTC"));
    let matcher = ActionMatcher::new(&[], now, &zone)?;
    let action = || ActionFacts { name: String::new(), matcher: matcher.clone() };
    let actions = needs.actions.iter().map(|id| (*id, action())).collect();
    let cohorts = needs.cohorts.iter().map(|id| (*id, CohortFacts::default())).collect();
    Ok(ReadView {
        project: PROJECT,
        events: Snapshot::empty(PROJECT),
        persons: Arc::new(PersonIndex::new(PROJECT)),
        groups: Arc::default(),
        cohorts: Arc::new(cohorts),
        actions: Arc::new(actions),
        sessions: Arc::default(),
        zone,
        now,
        week_starts_monday: false,
        test_account_filters: Json::Null,
        path_cleaning: Arc::new(PathCleaning::default()),
        event_filter: None,
        expressions: Arc::new(Conditions(HogqlCompiler::new(unknown()))),
    })
}

/// Conditions that name what is missing hold, so that those behind them are read as well.
#[derive(Debug)]
struct Conditions(HogqlCompiler);

impl ConditionCompiler for Conditions {
    fn condition(&self, view: &ReadView, text: &str) -> facts::Result<Predicate> {
        match self.0.test(view, text) {
            Ok(predicate) => Ok(predicate),
            Err(Error::Missing(_)) => Ok(Predicate::All(Vec::new())),
            Err(error) => Err(facts::Error::Invalid(error.to_string())),
        }
    }
}
