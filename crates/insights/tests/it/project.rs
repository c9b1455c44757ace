//! A project with events in a real warehouse.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use facts::{
    ActionExpr, ActionMatcher, CohortFacts, GroupFacts, Groups, NamedAction, PathCleaning,
    PersonFacts, PersonIndex, QueryContext, ReadView, Zone,
};
use insights::{
    DataPoint, Error, HogqlCompiler, Insight, InsightActors, InsightResult, QueryLimits, schema,
};
use model::definition::{PropertyOwner, PropertyType};
use model::person::{DistinctNo, PersonNo};
use model::{ActionId, Clock, CohortId, ProjectId, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use uuid::Uuid;
use warehouse::{
    ABSENT, Column, ColumnKey, EventRow, Filter, Projection, Settings, Value, Warehouse,
};

pub const PROJECT: ProjectId = ProjectId(1);
const MEMORY_BYTES_MAX: usize = 256 << 20;

pub struct Project {
    _dir: TempDir,
    pub warehouse: Warehouse,
    pub persons: PersonIndex,
    pub groups: Groups,
    pub cohorts: Vec<(CohortId, CohortFacts)>,
    pub actions: BTreeMap<ActionId, NamedAction>,
    pub zone: &'static str,
    pub now: &'static str,
    pub week_starts_monday: bool,
    pub test_account_filters: Json,
    pub path_cleaning: Json,
    ids: HashMap<String, u32>,
    person_count: u32,
}

pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub fn limits() -> QueryLimits {
    QueryLimits::new(None, Arc::default(), MEMORY_BYTES_MAX)
}

impl Project {
    pub fn empty() -> Self {
        Self::with(Settings::default())
    }

    pub fn with(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::at(at("2024-06-01"));
        let warehouse = Warehouse::open(dir.path(), 7, settings, clock).unwrap();
        Self {
            _dir: dir,
            warehouse,
            persons: PersonIndex::new(PROJECT),
            groups: Groups::default(),
            cohorts: Vec::new(),
            actions: BTreeMap::new(),
            zone: "UTC",
            now: "2024-01-03T18:00:00Z",
            week_starts_monday: false,
            test_account_filters: json!([]),
            path_cleaning: json!([]),
            ids: HashMap::new(),
            person_count: 0,
        }
    }

    /// The fixture of the contract's section 11.
    pub fn f1() -> Self {
        let mut project = Self::empty();
        for id in ["p1", "p2", "p3"] {
            project.person(
                &[id],
                "2024-01-01T08:00:00Z",
                json!({ "email": format!("{id}@me.com") }),
            );
        }
        let a = |browser: &str, amount: u64| json!({ "$browser": browser, "amount": amount });
        project.event("p1", "a", "2024-01-01T10:00:00Z", a("Chrome", 10));
        project.event("p2", "a", "2024-01-01T12:00:00Z", a("Safari", 20));
        project.event("p2", "b", "2024-01-01T13:00:00Z", json!({}));
        project.event("p3", "b", "2024-01-02T12:00:00Z", json!({}));
        project.event("p1", "a", "2024-01-03T09:00:00Z", a("Chrome", 30));
        project
    }

    /// The `distinct_no` of an id; a new one has no person.
    pub fn id(&mut self, id: &str) -> u32 {
        if let Some(no) = self.ids.get(id) {
            return *no;
        }
        let no = self.ids.len() as u32;
        self.ids.insert(id.to_owned(), no);
        self.persons.set_distinct_id(DistinctNo(no), id, None);
        no
    }

    /// Returns the `person_no`.
    pub fn person(&mut self, ids: &[&str], created_at: &str, properties: Json) -> u32 {
        let no = PersonNo(self.person_count);
        self.person_count += 1;
        let facts = PersonFacts {
            uuid: Uuid::from_u128(u128::from(no.0)),
            created_at: at(created_at),
            is_identified: true,
        };
        self.persons.set_person(no, facts, &properties.to_string());
        for id in ids {
            let own = DistinctNo(self.id(id));
            self.persons.set_distinct_id(own, id, Some(no));
        }
        no.0
    }

    pub fn group(&mut self, index: usize, key: &str, properties: Json) {
        let Json::Object(properties) = properties else { panic!("not an object") };
        self.groups.set(index, key, &GroupFacts { created_at: at("2024-01-01"), properties });
    }

    pub fn cohort(&mut self, id: i64, name: &str, members: &[u32]) {
        let members = members.iter().copied().collect();
        let facts = CohortFacts { name: name.to_owned(), is_static: true, members };
        self.cohorts.push((CohortId(id), facts));
    }

    pub fn action(&mut self, id: i64, name: &str, steps: Json) {
        let steps: Vec<model::ActionStep> = serde_json::from_value(steps).unwrap();
        let events = ActionExpr::parse(&steps, at(self.now), &Zone::named(self.zone)).unwrap();
        self.actions.insert(ActionId(id), NamedAction { name: name.to_owned(), events });
    }

    pub fn event(&mut self, id: &str, event: &str, time: &str, properties: Json) {
        self.row(id, event, at(time), properties, [const { None }; 5]);
    }

    pub fn row(
        &mut self,
        id: &str,
        event: &str,
        time: Timestamp,
        properties: Json,
        groups: [Option<String>; 5],
    ) {
        let position = self.warehouse.applied_position();
        let row = EventRow {
            project: PROJECT,
            uuid: Uuid::from_u128(1 << 64 | u128::from(position)),
            event: event.into(),
            distinct_id: id.into(),
            distinct_no: self.id(id),
            timestamp: time,
            created_at: time,
            elements_chain: String::new(),
            groups,
            properties: properties.to_string(),
            position,
            historical: false,
        };
        self.warehouse.append(&[row.as_new().unwrap()], position + 1).unwrap();
    }

    pub fn view(&self) -> ReadView {
        let events = self.warehouse.snapshot(PROJECT);
        let zone = Zone::named(self.zone);
        let compiled = |action: &NamedAction| ActionMatcher::compile(&action.events, &zone);
        let actions = self.actions.iter().map(|(id, action)| (*id, compiled(action).unwrap()));
        let actions = Arc::new(actions.collect());
        let cohorts = self.cohorts.iter().map(|(id, cohort)| (*id, cohort.name.clone()));
        let context = QueryContext {
            week_starts_monday: self.week_starts_monday,
            test_account_filters: self.test_account_filters.clone(),
            path_cleaning: Arc::new(PathCleaning::read(&self.path_cleaning)),
            actions: self.actions.clone(),
            cohorts: cohorts.collect(),
            earliest: events.time_range().map(|(from, _)| from),
            ..QueryContext::new(PROJECT, zone.clone(), at(self.now))
        };
        ReadView {
            context: Arc::new(context),
            events,
            persons: Arc::new(self.persons.clone()),
            groups: Arc::new(self.groups.clone()),
            cohorts: Arc::new(self.cohorts.iter().cloned().collect()),
            actions,
            sessions: Arc::default(),
            event_filter: None,
            expressions: Arc::new(self.hogql()),
        }
    }

    /// The schema defines `amount` as a number.
    fn hogql(&self) -> HogqlCompiler {
        let amount = (PropertyOwner::Event, "amount".to_owned());
        HogqlCompiler::new(hogql::Project {
            id: PROJECT,
            zone: self.zone.to_owned(),
            groups: [("company".to_owned(), 0)].into(),
            properties: [(amount, PropertyType::Numeric)].into(),
            cohorts: Default::default(),
            actions: Default::default(),
            objects: Default::default(),
        })
    }

    pub fn try_run(&self, query: &Json) -> Result<InsightResult, Error> {
        let kind = query["kind"].as_str().unwrap();
        let insight = Insight::parse(kind, query).unwrap()?;
        insight.run_with(&self.view(), &limits(), Some(&self.hogql()))
    }

    pub fn actors(&self, query: &Json, point: &Json) -> Result<InsightActors, Error> {
        let kind = query["kind"].as_str().unwrap();
        let insight = Insight::parse(kind, query).unwrap()?;
        let point = DataPoint::read(point.clone())?;
        insight.actors(&self.view(), &limits(), Some(&self.hogql()), &point)
    }

    /// The events of a data point, with `keys` as strings. Checks that the time range and the names leave
    /// out none of them.
    pub fn counted_events(
        &self,
        query: &Json,
        point: &Json,
        keys: &[ColumnKey],
    ) -> Result<Vec<CountedEvent>, Error> {
        let kind = query["kind"].as_str().unwrap();
        let insight = Insight::parse(kind, query).unwrap()?;
        let read = DataPoint::read(point.clone())?;
        let view = self.view();
        let counted = insight.events(&view, &limits(), Some(&self.hogql()), &read)?;
        let narrow = Filter {
            after: Some(Timestamp::from_micros(counted.from.as_micros() - 1)),
            before: Some(Timestamp::from_micros(counted.to.as_micros() + 1)),
            events: counted.names,
            predicate: Some(counted.predicate),
            ..Filter::default()
        };
        let wide = Filter { predicate: narrow.predicate.clone(), ..Filter::default() };
        let found = select(&view, &narrow, keys);
        assert_eq!(found, select(&view, &wide, keys), "{query} at {point}");
        Ok(found)
    }

    /// Runs twice, on rows in memory and on the same rows in segments, and compares.
    pub fn run(&self, query: Json) -> Json {
        let found = self.try_run(&query).unwrap_or_else(|error| panic!("{query}: {error}"));
        self.warehouse.flush().unwrap();
        let stored = self.try_run(&query).unwrap();
        assert_eq!(found.results, stored.results, "{query}");
        check_documented_shape(&query, &found.results);
        found.results
    }

    pub fn run_err(&self, query: Json) -> String {
        match self.try_run(&query) {
            Err(Error::Invalid(why)) => why,
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedEvent {
    pub uuid: [u8; 16],
    pub actor: u32,
    /// None where the event has no value, or an empty one.
    pub texts: Vec<Option<String>>,
}

fn select(view: &ReadView, filter: &Filter, keys: &[ColumnKey]) -> Vec<CountedEvent> {
    let columns = Projection { keys: keys.to_vec(), uuids: true, ..Projection::default() };
    let mut found = Vec::new();
    for range in view.events.scan_ranges(filter).unwrap() {
        let batch = range.read(filter, &columns).unwrap();
        let text = |column: &Column, row: usize| match column.codes[row] {
            ABSENT => None,
            code => match column.dictionary.get(code) {
                Value::Text(text) | Value::Number(text) if !text.is_empty() => {
                    Some(text.to_owned())
                }
                _ => None,
            },
        };
        found.extend((0..batch.rows).map(|row| CountedEvent {
            uuid: batch.uuids[row],
            actor: view.persons.actor(batch.distinct_nos[row]),
            texts: batch.columns.iter().map(|column| text(column, row)).collect(),
        }));
    }
    found.sort();
    found
}

/// Reads a result into the structures that document it, which reject unknown keys.
fn check_documented_shape(query: &Json, results: &Json) {
    fn read<T: DeserializeOwned>(results: &Json) -> serde_json::Result<()> {
        serde_json::from_value::<T>(results.clone()).map(drop)
    }
    let documented = match query["kind"].as_str().unwrap() {
        "TrendsQuery" => read::<Vec<schema::TrendsSeries>>(results),
        "FunnelsQuery" => read::<schema::FunnelsResult>(results),
        "RetentionQuery" => read::<Vec<schema::RetentionRow>>(results),
        "LifecycleQuery" => read::<Vec<schema::LifecycleSeries>>(results),
        "StickinessQuery" => read::<Vec<schema::StickinessSeries>>(results),
        _ => read::<Vec<schema::PathsEdge>>(results),
    };
    documented.unwrap_or_else(|why| panic!("{query}: {why} in {results}"));
}

/// The query with some keys replaced.
pub fn with(mut query: Json, changes: Json) -> Json {
    let Json::Object(changes) = changes else { panic!("not an object") };
    for (key, value) in changes {
        query[key] = value;
    }
    query
}

/// One member of every item.
pub fn each(results: &Json, member: &str) -> Vec<Json> {
    results.as_array().unwrap().iter().map(|item| item[member].clone()).collect()
}
