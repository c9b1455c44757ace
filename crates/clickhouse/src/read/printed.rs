//! Events that the conditions of a plan select.

use std::sync::atomic::Ordering;

use arrow::array::{
    FixedSizeBinaryArray, StringArray, TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{Cursor, EventRow, Order, ValueCount, Window};

use super::{Reader, malformed, property_value, statement};
use crate::client::{Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::print::{PrintedEvents, settings};
use crate::schema::column;
use crate::values::decode;

/// What a cursor points behind, with the texts of uuids: ClickHouse orders uuids by their second half.
pub(super) const CURSOR_COLUMNS: &str = "(timestamp, toString(uuid), toString(event), distinct_no)";

/// The columns that tell the events of a list apart, and sort it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKey {
    pub timestamp: Timestamp,
    pub uuid: Uuid,
    pub event: String,
    pub distinct_no: u32,
}

/// What to count values of.
#[derive(Clone, Debug)]
pub enum KeyOf {
    Event,
    DistinctId,
    ElementsChain,
    Group(usize),
    Property(String),
}

#[derive(Clone, Debug)]
pub struct ValuesOf {
    pub key: KeyOf,
    /// Only values that contain this lower-case string, ignoring case.
    pub containing: Option<String>,
    pub limit: usize,
}

impl EventKey {
    /// Whether this is the key of an event.
    pub fn is_of(&self, row: &EventRow) -> bool {
        self.uuid == row.uuid
            && self.distinct_no == row.distinct_no
            && self.timestamp == row.timestamp
            && *self.event == *row.event
    }
}

impl Reader {
    /// A bound of the number of events: copies that were not merged yet count too.
    pub fn count_at_most(&self, events: &PrintedEvents, query_id: Option<String>) -> Result<u64> {
        let text = format!("SELECT count() FROM {}", events.unmerged());
        let mut count = 0;
        let mut statement = of(text, events.parameters.clone(), events);
        statement.query_id = query_id;
        for batch in self.select(statement)? {
            count += column::<UInt64Array>(self.client(), &batch?, 0)?.values().iter().sum::<u64>();
        }
        Ok(count)
    }

    /// Calls `each` with every event, with its columns and no other ones, until it fails.
    pub fn each_event<E: From<Error>>(
        &self,
        events: &PrintedEvents,
        query_id: Option<String>,
        mut each: impl FnMut(EventRow) -> Result<(), E>,
    ) -> Result<(), E> {
        self.pulls.fetch_add(1, Ordering::Relaxed);
        let mut parameters = events.parameters.clone();
        let selected = self.selected(&events.columns, &mut parameters);
        let text = format!("SELECT {} FROM {}", selected.text, events.from());
        let mut statement = of(text, parameters, events);
        statement.query_id = query_id;
        for batch in self.select(statement)? {
            self.decode_rows(events.project, &selected, &batch?, &mut each)?;
        }
        Ok(())
    }

    /// The keys of a page of the events, one more than its limit if there are more.
    pub fn list_keys(&self, events: &PrintedEvents, window: &Window) -> Result<Vec<EventKey>> {
        let mut parameters = events.parameters.clone();
        let (direction, operator) = match window.order {
            Order::NewestFirst => ("DESC", "<"),
            Order::OldestFirst => ("ASC", ">"),
        };
        let mut after = String::new();
        if let Some(cursor) = &window.resume {
            let values = cursor_values(cursor, &mut parameters);
            after = format!(" AND {CURSOR_COLUMNS} {operator} ({values})");
        }
        let limit = window.limit.saturating_add(1) as u64;
        let limit = parameters.add(Parameter::UInt(limit));
        let offset = parameters.add(Parameter::UInt(window.offset as u64));
        let text = format!(
            "SELECT timestamp, uuid, toString(event) AS name, distinct_no FROM {}{after} \
             ORDER BY timestamp {direction}, toString(uuid) {direction}, name {direction}, \
             distinct_no {direction} LIMIT {limit} OFFSET {offset}",
            events.from()
        );
        let mut keys = Vec::new();
        for batch in self.select(of(text, parameters, events))? {
            let batch = batch?;
            let timestamps = column::<TimestampMicrosecondArray>(self.client(), &batch, 0)?;
            let uuids = column::<FixedSizeBinaryArray>(self.client(), &batch, 1)?;
            let names = column::<StringArray>(self.client(), &batch, 2)?;
            let distinct_nos = column::<UInt32Array>(self.client(), &batch, 3)?;
            for row in 0..batch.num_rows() {
                let uuid = Uuid::from_slice(uuids.value(row));
                keys.push(EventKey {
                    timestamp: Timestamp::from_micros(timestamps.value(row)),
                    uuid: uuid.map_err(|_| malformed(self.client()))?,
                    event: names.value(row).to_owned(),
                    distinct_no: distinct_nos.value(row),
                });
            }
        }
        Ok(keys)
    }

    /// The events with these keys, in their order. One that was deleted meanwhile is left out.
    pub fn read_keys(&self, project: ProjectId, keys: &[EventKey]) -> Result<Vec<EventRow>> {
        let times = || keys.iter().map(|key| key.timestamp.as_micros());
        let (Some(from), Some(to)) = (times().min(), times().max()) else { return Ok(Vec::new()) };
        let mut parameters = Parameters::default();
        let uuids: Vec<Uuid> = keys.iter().map(|key| key.uuid).collect();
        let mut names: Vec<&str> = keys.iter().map(|key| &*key.event).collect();
        names.sort_unstable();
        names.dedup();
        let project_id = parameters.add(Parameter::Int(project.0));
        let uuids = parameters.add(Parameter::Uuids(&uuids));
        let names = parameters.add(Parameter::Strings(&names));
        let [from, to] = [from, to].map(|at| parameters.add(Parameter::Timestamp(at)));
        let tail = format!(
            "WHERE project_id = {project_id} AND event IN {names} AND timestamp >= {from} AND \
             timestamp <= {to} AND uuid IN {uuids}"
        );
        let mut found = self.rows(project, &tail, parameters)?;
        let mut rows = Vec::with_capacity(keys.len());
        for key in keys {
            if let Some(at) = found.iter().position(|row| key.is_of(row)) {
                rows.push(found.swap_remove(at));
            }
        }
        Ok(rows)
    }

    /// The most frequent values of a column among the events, without null and the empty string.
    pub fn values_of(&self, events: &PrintedEvents, search: &ValuesOf) -> Result<Vec<ValueCount>> {
        let mut parameters = events.parameters.clone();
        let text = |column: &str| format!("if({column} = '', '', concat('t', {column}))");
        let value = match &search.key {
            KeyOf::Event => text("toString(event)"),
            KeyOf::DistinctId => text("distinct_id"),
            KeyOf::ElementsChain => text("elements_chain"),
            KeyOf::Group(index @ 0..5) => text(&format!("group_{index}")),
            KeyOf::Group(_) => return Ok(Vec::new()),
            KeyOf::Property(name) => property_value(&self.schema.promoted(), name, &mut parameters),
        };
        let mut containing = String::new();
        if let Some(part) = &search.containing {
            let part = parameters.add(Parameter::String(part));
            containing = format!(
                " AND position(lowerUTF8(if(startsWith(value, 't'), \
                 toJSONString(substring(value, 2)), substring(value, 2))), {part}) > 0"
            );
        }
        let limit = parameters.add(Parameter::UInt(search.limit as u64));
        // Ties are in the order of JSON types, and then of texts.
        let text = format!(
            "SELECT {value} AS value, count() AS events FROM {} AND value NOT IN ('', 'z', \
             't'){containing} GROUP BY value ORDER BY events DESC, \
             indexOf(['b', 'n', 't', 'j'], substring(value, 1, 1)), value LIMIT {limit}",
            events.from()
        );
        let mut counts = Vec::new();
        for batch in self.select(of(text, parameters, events))? {
            let batch = batch?;
            let values = column::<StringArray>(self.client(), &batch, 0)?;
            let events = column::<UInt64Array>(self.client(), &batch, 1)?;
            for (value, events) in values.iter().flatten().zip(events.values()) {
                let value = decode(value).ok_or_else(|| malformed(self.client()))?;
                counts.push(ValueCount { json: value.to_json(), events: *events });
            }
        }
        Ok(counts)
    }
}

pub(super) fn cursor_values(cursor: &Cursor, parameters: &mut Parameters) -> String {
    let timestamp = parameters.add(Parameter::Timestamp(cursor.timestamp().as_micros()));
    let uuid = parameters.add(Parameter::String(&cursor.uuid().to_string()));
    let event = parameters.add(Parameter::String(cursor.event()));
    let distinct_no = parameters.add(Parameter::UInt(u64::from(cursor.distinct_no())));
    format!("{timestamp}, {uuid}, {event}, {distinct_no}")
}

/// A query of printed events.
fn of(text: String, parameters: Parameters, events: &PrintedEvents) -> Statement {
    let mut statement = statement(text, parameters);
    statement.settings.extend(settings(&events.zone));
    statement
}
