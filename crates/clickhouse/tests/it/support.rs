//! A database of ClickHouse with the schema, and rows to write.

use clickhouse::{Client, EventFilter, Reader, Schema, Settings, Writer, WriterSettings};
use model::{Clock, ProjectId, Timestamp};
use serde_json::{Value as Json, json};
use testing::clickhouse::Database;
use uuid::Uuid;
use warehouse::{EventRow, Order};

pub const PROJECT: ProjectId = ProjectId(7);
pub const JOURNAL: u128 = 0xfeed;

pub struct Store {
    pub database: Database,
    pub schema: Schema,
    pub writer: Writer,
    pub reader: Reader,
}

impl Store {
    /// None if there is no ClickHouse.
    pub fn open() -> Option<Self> {
        let database = Database::new()?;
        let client = client(&database.url);
        let schema = Schema::open(client).unwrap();
        let writer = writer(&schema, JOURNAL);
        let reader = Reader::new(schema.clone());
        Some(Self { database, schema, writer, reader })
    }

    /// As after a restart.
    pub fn reopen(&mut self) {
        self.schema = Schema::open(self.schema.client().clone()).unwrap();
        self.writer = writer(&self.schema, JOURNAL);
        self.reader = Reader::new(self.schema.clone());
    }

    pub fn append(&self, rows: &[EventRow]) {
        append(&self.writer, rows);
    }

    pub fn all(&self) -> Vec<EventRow> {
        let filter = EventFilter::default();
        self.reader.list(PROJECT, &filter, Order::OldestFirst, 10_000, 0).unwrap()
    }

    /// Rows that ClickHouse stores, whether reads see them or not.
    pub fn stored_rows(&self) -> u64 {
        self.database.sql("SELECT count() FROM events").parse().unwrap()
    }
}

pub fn client(url: &str) -> Client {
    Client::new(Settings::from_url(url).unwrap()).unwrap()
}

pub fn writer(schema: &Schema, journal: u128) -> Writer {
    let clock = Clock::at(time("2024-03-01T00:00:00Z"));
    Writer::open(schema.clone(), 0, journal, WriterSettings::default(), clock).unwrap()
}

/// Appends rows, and the position after the last of them.
pub fn append(writer: &Writer, rows: &[EventRow]) {
    let new: Vec<_> = rows.iter().map(|row| row.as_new().unwrap()).collect();
    writer.append(&new, rows.last().unwrap().position + 1).unwrap();
}

pub fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub fn row(position: u64, properties: Json) -> EventRow {
    EventRow {
        project: PROJECT,
        uuid: Uuid::from_u128(position.into()),
        event: "opened".into(),
        distinct_id: "ann".into(),
        distinct_no: 3,
        timestamp: time("2024-03-01T10:00:00Z").plus_seconds(position as i64),
        created_at: time("2024-03-01T10:00:05.000001Z"),
        elements_chain: String::new(),
        groups: Default::default(),
        properties: properties.to_string(),
        position,
        historical: false,
    }
}

pub fn rows(positions: std::ops::Range<u64>) -> Vec<EventRow> {
    positions.map(|position| row(position, json!({"n": position}))).collect()
}

pub fn positions(rows: &[EventRow]) -> Vec<u64> {
    rows.iter().map(|row| row.position).collect()
}
