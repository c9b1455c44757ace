//! The events of a project, oldest first, from files or from ClickHouse.

use anyhow::{Context as _, Result, bail};
use clickhouse::{Client, EventFilter, Reader, Schema, Writer};
use model::{ProjectId, Timestamp};
use warehouse::{Cursor, EventRow, Filter, Order, ReadOnlyWarehouse, Snapshot, Window};

use crate::clickhouse_store::{self, LANE};
use crate::data_dir::DataDir;
use crate::settings::Settings;

const FILE_EVENTS_AT_ONCE: usize = 1_000;
/// Each read sorts the events of a day.
const CLICKHOUSE_EVENTS_AT_ONCE: usize = 10_000;
const DAY_SECONDS: i64 = 86_400;

pub(super) enum Source {
    Files { snapshot: Box<Snapshot>, resume: Option<Cursor>, has_ended: bool },
    ClickHouse(ClickHouseEvents),
}

pub(super) struct ClickHouseEvents {
    reader: Reader,
    project: ProjectId,
    /// The time to go on at; none at the end.
    at: Option<Timestamp>,
    /// The last event that was read.
    after: Option<Cursor>,
    position: u64,
}

impl Source {
    pub(super) fn open(
        data_dir: &DataDir,
        settings: &Settings,
        project: ProjectId,
    ) -> Result<Self> {
        let Some(of) = clickhouse_store::settings_of(settings)? else {
            let snapshot = Box::new(archive(data_dir)?.snapshot(project));
            return Ok(Self::Files { snapshot, resume: None, has_ended: false });
        };
        let schema = Schema::join(Client::new(of.clone())?).context("cannot read ClickHouse")?;
        let Some(schema) = schema else {
            bail!("there are no events in ClickHouse at {}; start the server once", of.server);
        };
        let stored = Writer::stored_position(&schema, LANE)?;
        let position = stored.map_or(0, |stored| stored.position);
        let reader = clickhouse_store::reader(&schema, &of, settings)?;
        let at = reader.span(project)?.map(|(first, _)| first);
        Ok(Self::ClickHouse(ClickHouseEvents { reader, project, at, after: None, position }))
    }

    /// All events are before this position of the journal.
    pub(super) fn position(&self) -> u64 {
        match self {
            Self::Files { snapshot, .. } => snapshot.position(),
            Self::ClickHouse(events) => events.position,
        }
    }

    /// The next events; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<EventRow>>> {
        match self {
            Self::Files { has_ended: true, .. } => Ok(None),
            Self::Files { snapshot, resume, has_ended } => {
                let (order, limit) = (Order::OldestFirst, FILE_EVENTS_AT_ONCE);
                let window = Window { order, limit, offset: 0, resume: resume.take() };
                let listing = snapshot.list(&Filter::default(), &window)?;
                *has_ended = listing.next.is_none();
                *resume = listing.next;
                Ok(Some(listing.events))
            }
            Self::ClickHouse(events) => events.next(),
        }
    }
}

impl ClickHouseEvents {
    fn next(&mut self) -> Result<Option<Vec<EventRow>>> {
        while let Some(from) = self.at {
            // The server may give properties columns meanwhile.
            self.reader.schema().refresh()?;
            let to = from.plus_seconds(DAY_SECONDS);
            let of_day = EventFilter { from: Some(from), to: Some(to), ..EventFilter::default() };
            let events = self.list(of_day, CLICKHOUSE_EVENTS_AT_ONCE)?;
            let Some(last) = events.last() else {
                let later = EventFilter { from: Some(to), ..EventFilter::default() };
                self.at = self.list(later, 1)?.first().map(|event| event.timestamp);
                continue;
            };
            self.at = Some(last.timestamp);
            self.after =
                Some(Cursor::new(last.timestamp, last.uuid, &last.event, last.distinct_no));
            return Ok(Some(events));
        }
        Ok(None)
    }

    fn list(&self, filter: EventFilter, limit: usize) -> Result<Vec<EventRow>> {
        let (after, before_position) = (self.after.clone(), Some(self.position));
        let filter = EventFilter { after, before_position, ..filter };
        Ok(self.reader.list(self.project, &filter, Order::OldestFirst, limit, 0)?)
    }
}

pub(super) fn archive(data_dir: &DataDir) -> Result<ReadOnlyWarehouse> {
    let path = data_dir.warehouse();
    if !path.is_dir() {
        bail!("there are no events in {}; start the server once", path.display());
    }
    ReadOnlyWarehouse::open(&path)
        .with_context(|| format!("cannot read the events in {}", path.display()))
}
