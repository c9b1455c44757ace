//! Test harness: a journal, a catalog, a warehouse, and the pipeline between them.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use catalog::{BootstrapOptions, Catalog, Location, Secret, Vault};
use geoip::GeoIp;
use journal::{Batch, Journal, Position, Records};
use model::edit::{Edit, EditRecord};
use model::event::{AcceptedEvent, EventUuid};
use model::person::Person;
use model::{Clock, ProjectId, Timestamp};
use pipeline::{Parts, Pipeline};
use serde_json::{Value, json};
use tempfile::TempDir;
pub use testing::database::Database;
use uuid::Uuid;
use warehouse::{EventRow, Filter, Warehouse, Window};

/// A Friday in March 2024, on the hour.
pub const START_MICROS: i64 = 1_709_287_200_000_000;

/// Opens the catalog at a [`Database::location`].
pub async fn open(address: &str, clock: Clock) -> catalog::Result<Catalog> {
    let vault = Vault::new(&Secret::given("secret"));
    let location = match address.starts_with("postgres") {
        true => Location::Postgres(address),
        false => Location::Sqlite(address.as_ref()),
    };
    Catalog::open(location, vault, clock).await
}

/// Creates the first project, unless it exists.
pub async fn bootstrap(catalog: &Catalog) -> ProjectId {
    let first = BootstrapOptions {
        project_api_key: Some(Secret::given("phc_test")),
        personal_api_key: Some(Secret::given("phx_test")),
        admin_email: Some("admin@example.com".into()),
        admin_password: Some(Secret::given("correct horse battery")),
    };
    let made = catalog.bootstrap(first).await.unwrap();
    made.map_or(ProjectId(1), |made| made.project)
}

pub struct Harness {
    pub database: Database,
    pub catalog: Catalog,
    pub project: ProjectId,
    journal: Journal,
    stores: TempDir,
    clock: Clock,
    /// `None` while the pipeline is down.
    pub running: Option<Running>,
}

pub struct Running {
    pub pipeline: Pipeline,
    pub warehouse: Warehouse,
    position: Position,
}

/// A record to append to the journal.
#[derive(Clone, Debug)]
pub enum Sent {
    Event { name: String, distinct_id: String, uuid: Uuid, properties: Value },
    Edit(Edit),
    Bytes(Vec<u8>),
}

pub fn event(name: &str, distinct_id: &str, properties: Value) -> Sent {
    let (name, distinct_id) = (name.to_owned(), distinct_id.to_owned());
    Sent::Event { name, distinct_id, uuid: Uuid::new_v4(), properties }
}

pub fn numbered_uuid(number: u64) -> Uuid {
    uuid::Builder::from_random_bytes(u128::from(number).to_be_bytes()).into_uuid()
}

impl Sent {
    pub fn with_uuid(self, uuid: Uuid) -> Self {
        match self {
            Self::Event { name, distinct_id, properties, .. } => {
                Self::Event { name, distinct_id, uuid, properties }
            }
            other => other,
        }
    }

    /// Encodes it for the journal.
    pub fn record(&self, project: ProjectId, at: Timestamp) -> Vec<u8> {
        let mut record = Vec::new();
        match self {
            Self::Bytes(bytes) => record.clone_from(bytes),
            Self::Edit(edit) => {
                let edit = edit.clone();
                EditRecord { project, at, edit }.encode(&mut record);
            }
            Self::Event { name, distinct_id, uuid, properties } => AcceptedEvent {
                project,
                received_at: at,
                client_ip: None,
                sent_at: None,
                historical_migration: false,
                uuid: EventUuid::Given(*uuid),
                name,
                distinct_id,
                timestamp: None,
                offset_ms: None,
                properties: &properties.to_string(),
                set: None,
                set_once: None,
                unset: None,
                v1: None,
            }
            .encode(&mut record),
        }
        record
    }
}

impl Harness {
    pub async fn new(database: Database) -> Self {
        Self::at(database, tempfile::tempdir().unwrap()).await
    }

    /// Opens existing stores, or creates them.
    pub async fn at(database: Database, stores: TempDir) -> Self {
        let clock = Clock::at(Timestamp::from_micros(START_MICROS));
        let catalog = open(&database.location(), clock.clone()).await.unwrap();
        let project = bootstrap(&catalog).await;
        let settings = journal::Settings { segment_bytes: 1 << 20, ..Default::default() };
        let journal = Journal::open(stores.path().join("journal"), settings).await.unwrap();
        let mut harness =
            Self { database, catalog, project, journal, stores, clock, running: None };
        harness.start().await;
        harness
    }

    /// Reopens the warehouse and the pipeline from disk.
    pub async fn start(&mut self) {
        self.running = None;
        self.running = Some(self.try_start().await.unwrap());
    }

    pub async fn try_start(&self) -> pipeline::Result<Running> {
        let folder = self.stores.path().join("warehouse");
        let id = self.journal.id();
        let clock = self.clock.clone();
        let warehouse =
            Warehouse::open(&folder, id.as_u128(), warehouse::Settings::default(), clock)?;
        let parts = Parts {
            catalog: self.catalog.clone(),
            warehouse: Arc::new(warehouse.clone()),
            journal: id,
            geoip: GeoIp::disabled(),
            counters: Arc::default(),
        };
        let pipeline = Pipeline::open(parts).await?;
        let position = pipeline.start();
        Ok(Running { pipeline, warehouse, position })
    }

    /// Replaces the journal by a new one, as if its directory had been lost.
    pub async fn lose_journal(&mut self) {
        self.running = None;
        self.journal.close().await;
        std::fs::remove_dir_all(self.stores.path()).unwrap();
        let settings = journal::Settings { segment_bytes: 1 << 20, ..Default::default() };
        self.journal = Journal::open(self.stores.path().join("journal"), settings).await.unwrap();
    }

    /// Appends to the journal; each record is received a second after the previous one.
    pub async fn send(&self, all: &[Sent]) {
        let mut batch = Batch::new();
        for sent in all {
            let at = self.clock.now();
            self.clock.advance_seconds(1);
            let record = sent.record(self.project, at);
            batch.push(&record);
        }
        self.journal.append(batch).await.unwrap();
    }

    /// The next records; `None` if all are applied.
    async fn next(&self, records_max: usize) -> Option<Records> {
        let running = self.running.as_ref().unwrap();
        if running.position >= self.journal.stats().next {
            return None;
        }
        let mut reader = self.journal.reader(running.position).unwrap();
        Some(reader.next_batch(records_max, 1 << 20).await.unwrap())
    }

    /// Applies all pending records, in batches of at most `records_max`.
    pub async fn catch_up(&mut self, records_max: usize) {
        self.try_catch_up(records_max).await.unwrap();
    }

    /// Like [`Self::catch_up`], up to the first error.
    pub async fn try_catch_up(&mut self, records_max: usize) -> pipeline::Result<()> {
        while let Some(records) = self.next(records_max).await {
            let running = self.running.as_mut().unwrap();
            running.pipeline.apply(&records).await?;
            running.position = records.iter().last().unwrap().position.next();
        }
        Ok(())
    }

    /// Drops the future of one batch after `polls` polls, and restarts from disk. False if there was
    /// nothing to apply.
    pub async fn crash_within(&mut self, records_max: usize, mut polls: usize) -> bool {
        let Some(records) = self.next(records_max).await else { return false };
        let mut running = self.running.take().unwrap();
        {
            let mut applying = pin!(running.pipeline.apply(&records));
            poll_fn(|context| {
                if polls == 0 {
                    return Poll::Ready(());
                }
                polls -= 1;
                applying.as_mut().poll(context).map(|outcome| outcome.unwrap())
            })
            .await;
        }
        drop(running);
        self.start().await;
        true
    }

    pub fn flush(&self) {
        self.running.as_ref().unwrap().warehouse.flush().unwrap();
    }

    /// All stored events, oldest first.
    pub fn rows(&self) -> Vec<EventRow> {
        let snapshot = self.running.as_ref().unwrap().warehouse.snapshot(self.project);
        let window = Window { limit: 100_000, ..Window::default() };
        let mut events = snapshot.list(&Filter::default(), &window).unwrap().events;
        events.sort_by_key(|row| row.position);
        events
    }

    pub async fn person(&self, distinct_id: &str) -> Option<Person> {
        let (_, persons) =
            self.catalog.persons().identities(self.project, &[distinct_id]).await.unwrap();
        persons.into_iter().next()
    }

    /// A comparable dump of both stores.
    pub async fn facts(&self) -> BTreeMap<&'static str, Vec<String>> {
        let rows = self.rows().into_iter().map(|row| {
            let properties: Value = serde_json::from_str(&row.properties).unwrap();
            let properties = properties.to_string();
            format!("{:?}", EventRow { properties, ..row })
        });
        let mut facts = BTreeMap::from([("rows", rows.collect::<Vec<_>>())]);
        for (name, columns, from) in [
            ("ids", "no, distinct_id, person_no, version, version_floor", "distinct_ids"),
            ("persons", "no, uuid, properties, is_identified, version, created_at", "persons"),
            ("numbers", "next_distinct, next_person", "project_numbers"),
            ("types", "type_index, name", "group_types"),
            ("groups", "type_index, group_key, properties, version, created_at", "groups"),
            ("events", "name, created_at, last_seen_at", "event_definitions"),
            ("properties", "owner, type_index, name, property_type", "property_definitions"),
            ("pairs", "event, property", "event_properties"),
            ("volumes", "event, day, events", "event_volumes"),
            ("dead", "position, step, reason", "dead_letters"),
        ] {
            let shown: Vec<String> = columns
                .split(", ")
                .map(|column| format!("COALESCE(CAST({column} AS TEXT), '-')"))
                .collect();
            let sql = format!("SELECT {} FROM {from}", shown.join(" || ' | ' || "));
            let mut found = self.database.sql(&sql).await;
            found.sort();
            facts.insert(name, found);
        }
        facts
    }
}

pub fn set(properties: Value) -> Value {
    json!({ "$set": properties })
}
