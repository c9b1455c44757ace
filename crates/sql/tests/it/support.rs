//! A project in a temporary directory, and statements over it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use facts::{
    CohortFacts, Cohorts, ConditionCompiler, GroupFacts, Groups, PersonFacts, PersonIndex,
    QueryContext, ReadView, Zone,
};
use hogql::{Filters, PlaceholderValues, Project};
use model::definition::{PropertyOwner, PropertyType};
use model::person::{DistinctNo, PersonNo, person_uuid};
use model::{Clock, CohortId, ProjectId, Timestamp};
use serde_json::{Value as Json, json};
use sql::{Error, Limits, Paths, ResultSet};
use tempfile::TempDir;
use uuid::Uuid;
use warehouse::{EventRow, Predicate, Settings, Warehouse};

pub const PROJECT: ProjectId = ProjectId(1);
const START: &str = "2024-01-04T00:00:00Z";
pub const LIMITS: Limits = Limits {
    timeout: Duration::from_secs(60),
    memory_bytes: 256 << 20,
    threads: 2,
    paths: Paths::ALL,
    explain: false,
};

/// These tests have no HogQL filters.
#[derive(Debug)]
struct NoExpressions;

impl ConditionCompiler for NoExpressions {
    fn condition(&self, _: &ReadView, _: &str) -> facts::Result<Predicate> {
        Err(facts::Error::Invalid("no conditions here".to_owned()))
    }
}

pub struct Store {
    _dir: TempDir,
    pub warehouse: Warehouse,
    pub persons: PersonIndex,
    pub groups: Groups,
    pub cohorts: Vec<(CohortId, CohortFacts)>,
    pub project: Project,
    ids: HashMap<String, u32>,
    next: u128,
}

impl Store {
    pub fn new() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::at(time(START));
        let warehouse = Warehouse::open(dir.path(), 7, settings, clock).unwrap();
        let project = Project {
            id: PROJECT,
            zone: "UTC".to_owned(),
            groups: Default::default(),
            properties: HashMap::new(),
            cohorts: Default::default(),
            actions: Default::default(),
            objects: Default::default(),
        };
        Self {
            _dir: dir,
            warehouse,
            persons: PersonIndex::new(PROJECT),
            groups: Groups::default(),
            cohorts: Vec::new(),
            project,
            ids: HashMap::new(),
            next: 1,
        }
    }

    /// Adds a person with this dense id and these distinct ids.
    pub fn person(&mut self, no: u32, ids: &[&str], properties: Json) {
        self.person_since(time("2024-01-01T00:00:00Z"), no, ids, properties);
    }

    pub fn person_since(&mut self, created_at: Timestamp, no: u32, ids: &[&str], properties: Json) {
        let uuid = person_uuid(PROJECT, ids[0]);
        let facts = PersonFacts { uuid, created_at, is_identified: true };
        self.persons.set_person(PersonNo(no), facts, &properties.to_string());
        for id in ids {
            let known = self.ids.len() as u32;
            let distinct_no = *self.ids.entry((*id).to_owned()).or_insert(known);
            self.persons.set_distinct_id(DistinctNo(distinct_no), id, Some(PersonNo(no)));
        }
    }

    pub fn event(&mut self, name: &str, id: &str, at: &str, properties: Json) {
        self.event_of(PROJECT, name, id, at, properties, Default::default());
    }

    pub fn event_of(
        &mut self,
        project: ProjectId,
        name: &str,
        id: &str,
        at: &str,
        properties: Json,
        groups: [Option<String>; 5],
    ) {
        let row = self.row(project, name, id, time(at), properties, groups);
        self.append(vec![row]);
    }

    pub fn row(
        &mut self,
        project: ProjectId,
        name: &str,
        id: &str,
        at: Timestamp,
        properties: Json,
        groups: [Option<String>; 5],
    ) -> EventRow {
        let known = self.ids.len() as u32;
        let distinct_no = *self.ids.entry(id.to_owned()).or_insert(known);
        if distinct_no == known {
            self.persons.set_distinct_id(DistinctNo(distinct_no), id, None);
        }
        self.next += 1;
        EventRow {
            project,
            uuid: Uuid::from_u128(self.next),
            event: name.into(),
            distinct_id: id.into(),
            distinct_no,
            timestamp: at,
            created_at: at.plus_seconds(5),
            elements_chain: String::new(),
            groups,
            properties: properties.to_string(),
            position: 0,
            historical: false,
        }
    }

    pub fn append(&self, mut rows: Vec<EventRow>) {
        let first = self.warehouse.applied_position();
        for (at, row) in rows.iter_mut().enumerate() {
            row.position = first + at as u64;
        }
        let new: Vec<_> = rows.iter().map(|row| row.as_new().unwrap()).collect();
        self.warehouse.append(&new, first + rows.len() as u64).unwrap();
    }

    pub fn group(&mut self, index: usize, key: &str, properties: Json) {
        let Json::Object(properties) = properties else { panic!("an object") };
        let created_at = time("2024-01-01T00:00:00Z");
        self.groups.set(index, key, &GroupFacts { created_at, properties });
    }

    pub fn cohort(&mut self, id: i64, name: &str, members: &[u32]) {
        let facts = CohortFacts {
            name: name.to_owned(),
            is_static: false,
            members: members.iter().copied().collect(),
        };
        self.cohorts.push((CohortId(id), facts));
        self.project.cohorts.insert(CohortId(id), name.to_owned());
    }

    pub fn define(&mut self, name: &str, ty: PropertyType) {
        self.project.properties.insert((PropertyOwner::Event, name.to_owned()), ty);
    }

    pub fn zone(&mut self, zone: &str) {
        self.project.zone = zone.to_owned();
    }

    pub fn view(&self) -> Arc<ReadView> {
        self.view_of(PROJECT)
    }

    pub fn view_of(&self, project: ProjectId) -> Arc<ReadView> {
        let events = self.warehouse.snapshot(project);
        let context = QueryContext {
            cohorts: self.cohorts.iter().map(|(id, facts)| (*id, facts.name.clone())).collect(),
            earliest: events.time_range().map(|(from, _)| from),
            ..QueryContext::new(project, Zone::named(&self.project.zone), time(START))
        };
        Arc::new(ReadView {
            context: Arc::new(context),
            events,
            persons: Arc::new(self.persons.clone()),
            groups: Arc::new(self.groups.clone()),
            cohorts: Arc::new(self.cohorts.iter().cloned().collect::<Cohorts>()),
            sessions: Arc::default(),
            event_filter: None,
            actions: Arc::default(),
            expressions: Arc::new(NoExpressions),
        })
    }

    pub fn run(&self, text: &str) -> Result<ResultSet, Error> {
        self.run_with(text, &PlaceholderValues::default(), None, &LIMITS)
    }

    pub fn run_with(
        &self,
        text: &str,
        values: &PlaceholderValues,
        filters: Option<&Filters>,
        limits: &Limits,
    ) -> Result<ResultSet, Error> {
        let plan = hogql::plan(text, values, &self.project, filters);
        let plan =
            plan.map_err(|error| Error::Invalid { message: error.to_string(), span: None })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(sql::run(&plan, &self.view(), limits))
    }

    pub fn rows(&self, text: &str) -> Json {
        let result = self.run(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        json!(result.rows)
    }

    pub fn check(&self, text: &str, expected: Json) {
        assert_eq!(self.rows(text), expected, "{text}");
    }
}

pub fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// Fixture F1 of the contract.
pub fn f1() -> Store {
    let mut store = Store::new();
    store.person(0, &["p1"], json!({"email": "ann@example.com", "age": 30}));
    store.person(
        1,
        &["p2"],
        json!({"email": "bob@example.com", "age": 40, "plan": {"name": "pro"}}),
    );
    store.person(2, &["p3"], json!({}));
    store.event("a", "p1", "2024-01-01T10:00:00Z", json!({"$browser": "Chrome", "amount": 10}));
    store.event("a", "p2", "2024-01-01T12:00:00Z", json!({"$browser": "Safari", "amount": 20}));
    store.event("b", "p2", "2024-01-01T13:00:00Z", json!({}));
    store.event(
        "b",
        "p3",
        "2024-01-02T08:00:00Z",
        json!({"cart": {"total": 7, "items": [{"id": "x"}]}}),
    );
    store.event("a", "p1", "2024-01-03T09:00:00Z", json!({"$browser": "Chrome", "amount": 30}));
    store.define("amount", PropertyType::Numeric);
    store
}
