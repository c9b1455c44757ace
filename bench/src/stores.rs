//! Journal, catalog and warehouse in this process, filled with the reference set.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use catalog::{BootstrapOptions, Catalog, Location, Secret, Vault};
use geoip::GeoIp;
use journal::{Batch, Journal, Reader};
use model::event::{AcceptedEvent, EventUuid, RawTime};
use model::{Clock, ProjectId, Timestamp};
use pipeline::{Parts, Pipeline};
use uuid::Uuid;
use warehouse::Warehouse;

use crate::reference::{DAYS, Reference, START_MICROS};

const BATCH_BYTES_MAX: usize = 16 << 20;
const DAY_MICROS: i64 = 86_400_000_000;
const TIME_CHARS: usize = 27;

pub struct Stores {
    pub catalog: Catalog,
    pub warehouse: Warehouse,
    pub clock: Clock,
    pipeline: Pipeline,
    reader: Reader,
    journal: Journal,
    events: PathBuf,
}

fn open_events(dir: &Path, journal: &Journal, clock: &Clock) -> Result<Warehouse> {
    let settings = warehouse::Settings::default();
    Ok(Warehouse::open(dir, journal.id().as_u128(), settings, clock.clone())?)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (own, copied) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy(&own, &copied)?,
            false => drop(fs::copy(own, copied)?),
        }
    }
    Ok(())
}

impl Stores {
    /// The events are in the journal only.
    pub async fn open(dir: &Path, events: u64) -> Result<Self> {
        let clock = Clock::at(Timestamp::from_micros(START_MICROS + (DAYS + 1) * DAY_MICROS));
        let vault = Vault::new(&Secret::given("secret"));
        let file = dir.join("catalog.sqlite");
        let catalog = Catalog::open(Location::Sqlite(&file), vault, clock.clone()).await?;
        let first = BootstrapOptions {
            project_api_key: Some(Secret::given("phc_test")),
            personal_api_key: Some(Secret::given("phx_test")),
            admin_email: Some("admin@example.com".into()),
            admin_password: Some(Secret::given("correct horse battery")),
        };
        catalog.bootstrap(first).await?;
        let settings = journal::Settings { disk_bytes_max: 64 << 30, ..Default::default() };
        let journal = Journal::open(dir.join("journal"), settings).await?;
        fill(&journal, events).await?;
        let events = dir.join("events");
        let warehouse = open_events(&events, &journal, &clock)?;
        let parts = Parts {
            catalog: catalog.clone(),
            warehouse: Arc::new(warehouse.clone()),
            journal: journal.id(),
            geoip: GeoIp::built_in()?,
            counters: Arc::default(),
        };
        let pipeline = Pipeline::open(parts).await?;
        let reader = journal.reader(pipeline.start())?;
        Ok(Self { catalog, warehouse, clock, pipeline, reader, journal, events })
    }

    /// Opens a second warehouse on copies of the current files.
    pub fn copy_events(&self, to: &Path) -> Result<Warehouse> {
        copy(&self.events, to)?;
        open_events(to, &self.journal, &self.clock)
    }

    /// Applies the next records and returns their number.
    pub async fn apply(&mut self, records_max: usize) -> Result<u64> {
        let records = self.reader.next_batch(records_max, BATCH_BYTES_MAX).await?;
        self.pipeline.apply(&records).await?;
        let applied = records.len() as u64;
        self.reader.reuse(records);
        Ok(applied)
    }
}

async fn fill(journal: &Journal, events: u64) -> Result<()> {
    let mut set = Reference::new(events);
    let mut json = String::new();
    let mut batch = Batch::new();
    let behind = |json: &str, name: &str| json.find(name).map(|at| at + name.len());
    while let Some(event) = set.next_event() {
        json.clear();
        set.json(&event, &mut json);
        let start = behind(&json, r#""properties":"#).context("no properties")?;
        let at = behind(&json, r#""timestamp":""#).context("no time")?;
        let accepted = AcceptedEvent {
            project: ProjectId(1),
            received_at: Timestamp::from_micros(START_MICROS + DAYS * DAY_MICROS),
            client_ip: Some([127, 0, 0, 1].into()),
            sent_at: None,
            historical_migration: false,
            uuid: EventUuid::Given(Uuid::from_u128(event.uuid)),
            name: &event.name,
            distinct_id: &event.distinct_id,
            timestamp: Some(RawTime::Text(json[at..at + TIME_CHARS].into())),
            offset_ms: None,
            properties: &json[start..json.len() - 1],
            set: None,
            set_once: None,
            unset: None,
            v1: None,
        };
        batch.push_with(|out| accepted.encode(out));
        if batch.len() == 1_000 {
            journal.append(std::mem::take(&mut batch)).await?;
        }
    }
    if !batch.is_empty() {
        journal.append(batch).await?;
    }
    Ok(())
}
