//! The contract of a warehouse on ClickHouse. Without a server every case is skipped.

use std::collections::BTreeMap;
use std::time::Duration;

use ::model::{Clock, ProjectId, Timestamp};
use clickhouse::{EventFilter, Reader, Schema, Writer, WriterSettings};
use testing::clickhouse::Database;
use uuid::Uuid;
use warehouse::{ColumnKey, Cursor, EventRow, Filter, Listing, Order, Sink, ValueCount, Window};

use crate::contract::Adapter;
use crate::support::{JOURNAL, client, time};

/// Of the lists of these tests.
const ALL: usize = 100_000;

struct ClickHouse {
    database: Database,
    clock: Clock,
    settings: WriterSettings,
    writer: Writer,
    reader: Reader,
}

impl ClickHouse {
    fn connect(database: Database, clock: Clock, settings: WriterSettings) -> Self {
        let schema = Schema::open(client(&database.url)).unwrap();
        let writer =
            Writer::open(schema.clone(), 0, JOURNAL, settings.clone(), clock.clone()).unwrap();
        Self { database, clock, settings, writer, reader: Reader::new(schema) }
    }

    /// All that the filter selects, without the bounds of a window.
    fn selected(&self, project: ProjectId, filter: &Filter, order: Order) -> Vec<EventRow> {
        let filter = EventFilter {
            events: filter.events.as_ref().map(|names| names.iter().cloned().collect()),
            from: filter.after.map(|time| Timestamp::from_micros(time.as_micros() + 1)),
            to: filter.before,
            distinct_nos: filter.distinct_nos.as_ref().map(|all| all.iter().collect()),
            ..EventFilter::default()
        };
        self.reader.list(project, &filter, order, ALL, 0).unwrap()
    }
}

impl Adapter for ClickHouse {
    fn open(age_max: Option<Duration>) -> Self {
        let clock = Clock::at(time("2024-03-01T10:00:00Z"));
        let settings = WriterSettings { events_age_max: age_max, ..WriterSettings::default() };
        Self::connect(Database::new().unwrap(), clock, settings)
    }

    fn restart(self) -> Self {
        let Self { database, clock, settings, .. } = self;
        Self::connect(database, clock, settings)
    }

    fn sink(&self) -> &dyn Sink {
        &self.writer
    }

    fn settle(&self) {
        self.writer.flush().unwrap();
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn list(&self, project: ProjectId, filter: &Filter, window: &Window) -> Listing {
        let rows = self.selected(project, filter, window.order);
        let after = window.resume.as_ref().map_or(0, |resume| {
            1 + rows.iter().position(|row| Cursor::of(row) == *resume).unwrap()
        });
        let rest = &rows[rows.len().min(after + window.offset)..];
        let events = rest[..window.limit.min(rest.len())].to_vec();
        let next = events.last().filter(|_| rest.len() > events.len()).map(Cursor::of);
        Listing { events, next }
    }

    fn get(&self, project: ProjectId, uuid: Uuid) -> Option<EventRow> {
        self.reader.get(project, uuid).unwrap()
    }

    fn values(
        &self,
        project: ProjectId,
        key: &ColumnKey,
        filter: &Filter,
        limit: usize,
    ) -> Vec<ValueCount> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for row in self.selected(project, filter, Order::OldestFirst) {
            let properties: BTreeMap<String, Box<serde_json::value::RawValue>> =
                serde_json::from_str(&row.properties).unwrap();
            let value = match key {
                ColumnKey::Event => Some(serde_json::json!(&*row.event).to_string()),
                ColumnKey::DistinctId => Some(serde_json::json!(&*row.distinct_id).to_string()),
                ColumnKey::Property(name) => {
                    properties.get(&**name).map(|value| value.get().to_owned())
                }
                other => panic!("no case counts {other:?}"),
            };
            if let Some(value) = value.filter(|value| value != "null") {
                *counts.entry(value).or_default() += 1;
            }
        }
        let count = |(json, events)| ValueCount { json, events };
        let mut counts: Vec<ValueCount> = counts.into_iter().map(count).collect();
        counts.sort_by_key(|count| std::cmp::Reverse(count.events));
        counts.truncate(limit);
        counts
    }
}

crate::contract::contract_of!(ClickHouse, testing::clickhouse::clickhouse_available());
