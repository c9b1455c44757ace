//! Writes the data of a read view to ClickHouse, as ingestion and the feed do.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use ::clickhouse::{
    Client, PrintContext, Reader, Schema, Settings, Told, ToldCohortMember, ToldDistinctId,
    ToldGroup, ToldPerson, Writer, WriterSettings,
};
use facts::ReadView;
use hogql::Project;
use model::{Clock, CohortId};
use testing::clickhouse::Database;
use warehouse::{Filter, GROUP_TYPES, Order, Snapshot, Window};

use crate::read_views::action_schemas;
use crate::store::View;
use crate::store::clickhouse::ClickHouseView;

/// The version of calculated cohorts.
const VERSION: i64 = 3;

/// A view twice: of the embedded engine, and of ClickHouse.
pub struct Twins {
    pub embedded: View,
    pub clickhouse: View,
    pub reader: Reader,
    pub project: Project,
    /// Dropped last.
    _database: Database,
}

impl Twins {
    /// None if there is no ClickHouse.
    pub fn new(view: &ReadView, project: &Project) -> Option<Self> {
        let database = Database::new()?;
        let client = Client::new(Settings::from_url(&database.url).unwrap()).unwrap();
        let schema = Schema::open(client).unwrap();
        let clock = Clock::at(view.context.now);
        let writer = Writer::open(schema.clone(), 0, 7, WriterSettings::default(), clock).unwrap();
        writer.tell(&told(view)).unwrap();
        let (order, resume) = (Order::OldestFirst, None);
        let everything = Window { order, limit: 1 << 20, offset: 0, resume };
        let mut rows = view.events.list(&Filter::default(), &everything).unwrap().events;
        for (position, row) in (0..).zip(&mut rows) {
            row.position = position;
        }
        let new: Vec<_> = rows.iter().map(|row| row.as_new().unwrap()).collect();
        writer.append(&new, new.len() as u64).unwrap();
        writer.flush().unwrap();
        let reader = Reader::new(schema);
        let calculated = view.cohorts.iter().filter(|(_, cohort)| !cohort.is_static);
        let fixed = view.cohorts.iter().filter(|(_, cohort)| cohort.is_static);
        let cohorts = PrintContext {
            now: view.context.now,
            week_starts_monday: view.context.week_starts_monday,
            cohorts: calculated.map(|(id, _)| (id, VERSION)).collect::<HashMap<CohortId, i64>>(),
            static_cohorts: fixed.map(|(id, _)| id).collect::<BTreeSet<CohortId>>(),
        };
        let facts = ReadView { events: Snapshot::empty(view.events.project()), ..view.clone() };
        let actions = action_schemas(&view.context).unwrap();
        let project = Project { actions, ..project.clone() };
        let clickhouse =
            ClickHouseView::new(reader.clone(), facts, cohorts, Arc::new(project.clone()));
        Some(Self {
            embedded: View::Embedded(Arc::new(view.clone())),
            clickhouse: View::ClickHouse(clickhouse),
            reader,
            project,
            _database: database,
        })
    }
}

fn told(view: &ReadView) -> Told {
    let (project, position) = (view.events.project(), 0);
    let mut told = Told::default();
    for (no, person) in view.persons.iter() {
        let mut properties = String::new();
        view.persons.properties(&[no], |json| properties = json.unwrap_or("{}").to_owned());
        told.persons.push(ToldPerson {
            project,
            person_no: no,
            person_id: person.uuid,
            created_at: person.created_at,
            is_identified: person.is_identified,
            is_deleted: false,
            properties,
            position,
        });
    }
    for (distinct_no, text, actor) in view.persons.distinct_ids() {
        told.distinct_ids.push(ToldDistinctId {
            project,
            distinct_no,
            distinct_id: text.to_owned(),
            person_no: view.persons.person(actor).map(|_| actor),
            person_id: view.persons.uuid(actor),
            position,
        });
    }
    for index in 0..GROUP_TYPES {
        for group in view.groups.of_type(index) {
            told.groups.push(ToldGroup {
                project,
                group_type: index as u8,
                key: group.key().to_owned(),
                created_at: group.created_at(),
                is_deleted: false,
                properties: serde_json::Value::Object(group.properties()).to_string(),
                position,
            });
        }
    }
    for (cohort, facts) in view.cohorts.iter() {
        let version = if facts.is_static { 0 } else { VERSION };
        for person_no in &facts.members {
            let is_deleted = false;
            let member =
                ToldCohortMember { project, cohort, version, person_no, is_deleted, position };
            told.cohort_members.push(member);
        }
    }
    told
}
