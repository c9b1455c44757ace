//! Events as they were appended.

use std::collections::BTreeSet;

use arrow::array::{
    Array, BooleanArray, FixedSizeBinaryArray, MapArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{EventRow, GROUP_TYPES, Order, Totals, Value, ValueCount};

use crate::client::{Client, Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::schema::{Schema, column, column_of, table_of_rows};
use crate::values::{decode, write_object};

/// Columns of an event before those of its properties.
const EVENT_COLUMNS: &str = "uuid, event, distinct_no, distinct_id, timestamp, created_at, position, \
     elements_chain, historical, group_0, group_1, group_2, group_3, group_4, rest";
const FIRST_GROUP: usize = 9;
const REST: usize = FIRST_GROUP + GROUP_TYPES;

/// Which events of a project. The empty one selects all.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// With one of these names.
    pub events: Option<Vec<String>>,
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
    /// Of one of these distinct ids.
    pub distinct_nos: Option<Vec<u32>>,
}

/// Reads the events of all projects.
#[derive(Clone, Debug)]
pub struct Reader {
    schema: Schema,
}

impl Reader {
    pub fn new(schema: Schema) -> Self {
        Self { schema }
    }

    fn client(&self) -> &Client {
        self.schema.client()
    }

    /// The event with this uuid; if several have it, the one appended last.
    pub fn get(&self, project: ProjectId, uuid: Uuid) -> Result<Option<EventRow>> {
        let mut parameters = Parameters::default();
        let project_id = parameters.add(Parameter::Int(project.0));
        let uuid = parameters.add(Parameter::Uuid(uuid));
        let tail = format!(
            "WHERE project_id = {project_id} AND uuid = {uuid} ORDER BY position DESC LIMIT 1"
        );
        Ok(self.rows(project, &tail, parameters)?.pop())
    }

    /// Events in the order of their time; those of one time in the order of their uuid.
    pub fn list(
        &self,
        project: ProjectId,
        filter: &EventFilter,
        order: Order,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<EventRow>> {
        let mut parameters = Parameters::default();
        let condition = condition(project, filter, &mut parameters);
        let direction = match order {
            Order::NewestFirst => "DESC",
            Order::OldestFirst => "ASC",
        };
        let limit = parameters.add(Parameter::UInt(limit as u64));
        let offset = parameters.add(Parameter::UInt(offset as u64));
        // The texts of uuids: ClickHouse orders uuids by their second half.
        let tail = format!(
            "WHERE {condition} ORDER BY timestamp {direction}, toString(uuid) {direction}, \
             event {direction}, distinct_no {direction} LIMIT {limit} OFFSET {offset}"
        );
        self.rows(project, &tail, parameters)
    }

    pub fn count(&self, project: ProjectId, filter: &EventFilter) -> Result<u64> {
        let mut parameters = Parameters::default();
        let condition = condition(project, filter, &mut parameters);
        let text = format!("SELECT count() FROM events FINAL WHERE {condition}");
        let mut count = 0;
        for batch in self.client().select(&statement(text, parameters))? {
            count += column::<UInt64Array>(self.client(), &batch?, 0)?.values().iter().sum::<u64>();
        }
        Ok(count)
    }

    /// The most frequent values of a property among the events, as JSON. Events without a value are
    /// not counted.
    pub fn values(
        &self,
        project: ProjectId,
        filter: &EventFilter,
        property: &str,
        limit: usize,
    ) -> Result<Vec<ValueCount>> {
        let mut parameters = Parameters::default();
        let value = property_value(&self.schema.promoted(), property, &mut parameters);
        let condition = condition(project, filter, &mut parameters);
        let limit = parameters.add(Parameter::UInt(limit as u64));
        let text = format!(
            "SELECT {value} AS value, count() AS events FROM events FINAL WHERE {condition} AND \
             value NOT IN ('', 'z') GROUP BY value ORDER BY events DESC, value LIMIT {limit}"
        );
        let mut counts = Vec::new();
        for batch in self.client().select(&statement(text, parameters))? {
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

    pub fn totals(&self, project: ProjectId) -> Result<Totals> {
        let table = table_of_rows(&self.client().settings().topology);
        let text = format!(
            "SELECT sum(bytes_on_disk), count() FROM system.parts WHERE active AND \
             database = currentDatabase() AND table = '{table}'"
        );
        let mut totals =
            Totals { events: self.count(project, &EventFilter::default())?, ..Totals::default() };
        for batch in self.client().select(&text.into())? {
            let batch = batch?;
            let number = |at| {
                let column = column::<UInt64Array>(self.client(), &batch, at)?;
                Ok::<_, Error>(column.iter().flatten().next().unwrap_or_default())
            };
            (totals.disk_bytes, totals.files) = (number(0)?, number(1)?);
        }
        Ok(totals)
    }

    /// The minimum and maximum timestamp.
    pub fn span(&self, project: ProjectId) -> Result<Option<(Timestamp, Timestamp)>> {
        let mut parameters = Parameters::default();
        let condition = condition(project, &EventFilter::default(), &mut parameters);
        let text = format!(
            "SELECT min(timestamp), max(timestamp) FROM events FINAL WHERE {condition} \
             HAVING count() > 0"
        );
        let mut span = None;
        for batch in self.client().select(&statement(text, parameters))? {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let time = |at| {
                let times = column::<TimestampMicrosecondArray>(self.client(), &batch, at)?;
                Ok::<_, Error>(Timestamp::from_micros(times.value(0)))
            };
            span = Some((time(0)?, time(1)?));
        }
        Ok(span)
    }

    fn rows(
        &self,
        project: ProjectId,
        tail: &str,
        parameters: Parameters,
    ) -> Result<Vec<EventRow>> {
        let promoted = self.schema.promoted();
        let properties: String =
            promoted.iter().map(|name| format!(", {}", column_of(name))).collect();
        let text = format!("SELECT {EVENT_COLUMNS}{properties} FROM events FINAL {tail}");
        let mut rows = Vec::new();
        for batch in self.client().select(&statement(text, parameters))? {
            self.decode_rows(project, &promoted, &batch?, &mut rows)?;
        }
        Ok(rows)
    }

    fn decode_rows(
        &self,
        project: ProjectId,
        promoted: &BTreeSet<String>,
        batch: &RecordBatch,
        rows: &mut Vec<EventRow>,
    ) -> Result<()> {
        let client = self.client();
        let uuids = column::<FixedSizeBinaryArray>(client, batch, 0)?;
        let events = column::<StringArray>(client, batch, 1)?;
        let distinct_nos = column::<UInt32Array>(client, batch, 2)?;
        let distinct_ids = column::<StringArray>(client, batch, 3)?;
        let timestamps = column::<TimestampMicrosecondArray>(client, batch, 4)?;
        let created_at = column::<TimestampMicrosecondArray>(client, batch, 5)?;
        let positions = column::<UInt64Array>(client, batch, 6)?;
        let elements = column::<StringArray>(client, batch, 7)?;
        let historical = column::<BooleanArray>(client, batch, 8)?;
        let groups = (0..GROUP_TYPES)
            .map(|index| column::<StringArray>(client, batch, FIRST_GROUP + index))
            .collect::<Result<Vec<_>>>()?;
        let rest = column::<MapArray>(client, batch, REST)?;
        let properties = (0..promoted.len())
            .map(|index| column::<StringArray>(client, batch, REST + 1 + index))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let in_columns = promoted.iter().zip(&properties);
            let in_columns = in_columns.map(|(name, column)| (name.as_str(), column.value(row)));
            let entries = rest.value(row);
            let (Some(names), Some(values)) = (
                entries.column(0).as_any().downcast_ref::<StringArray>(),
                entries.column(1).as_any().downcast_ref::<StringArray>(),
            ) else {
                return Err(malformed(client));
            };
            let in_rest = (0..names.len()).map(|at| (names.value(at), values.value(at)));
            // What was stored before a property got its column is in both.
            let in_rest = in_rest.filter(|(name, _)| !promoted.contains(*name));
            let mut members: Vec<(&str, Value<'_>)> = Vec::new();
            for (name, encoded) in in_columns.chain(in_rest).filter(|(_, value)| !value.is_empty())
            {
                members.push((name, decode(encoded).ok_or_else(|| malformed(client))?));
            }
            members.sort_unstable_by_key(|(name, _)| *name);
            let uuid = Uuid::from_slice(uuids.value(row)).map_err(|_| malformed(client))?;
            let group = |index: usize| Some(groups[index].value(row)).filter(|key| !key.is_empty());
            rows.push(EventRow {
                project,
                uuid,
                event: events.value(row).into(),
                distinct_id: distinct_ids.value(row).into(),
                distinct_no: distinct_nos.value(row),
                timestamp: Timestamp::from_micros(timestamps.value(row)),
                created_at: Timestamp::from_micros(created_at.value(row)),
                elements_chain: elements.value(row).to_owned(),
                groups: std::array::from_fn(|index| group(index).map(str::to_owned)),
                properties: write_object(members.into_iter()),
                position: positions.value(row),
                historical: historical.value(row),
            });
        }
        Ok(())
    }
}

/// The encoded value of a property of an event.
pub(crate) fn property_value(
    promoted: &BTreeSet<String>,
    name: &str,
    parameters: &mut Parameters,
) -> String {
    match promoted.contains(name) {
        true => column_of(name),
        false => format!("rest[{}]", parameters.add(Parameter::String(name))),
    }
}

fn condition(project: ProjectId, filter: &EventFilter, parameters: &mut Parameters) -> String {
    let mut all = vec![format!("project_id = {}", parameters.add(Parameter::Int(project.0)))];
    if let Some(events) = &filter.events {
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        all.push(format!("event IN {}", parameters.add(Parameter::Strings(&events))));
    }
    for (bound, operator) in [(filter.from, ">="), (filter.to, "<")] {
        if let Some(time) = bound {
            let time = parameters.add(Parameter::Timestamp(time.as_micros()));
            all.push(format!("timestamp {operator} {time}"));
        }
    }
    if let Some(distinct_nos) = &filter.distinct_nos {
        let distinct_nos: Vec<i64> = distinct_nos.iter().map(|no| i64::from(*no)).collect();
        all.push(format!("distinct_no IN {}", parameters.add(Parameter::Ints(&distinct_nos))));
    }
    all.join(" AND ")
}

/// A query of events. Partitions never share an event, so each is deduplicated on its own.
pub(crate) fn statement(text: String, parameters: Parameters) -> Statement {
    let mut statement = Statement::new(text, parameters);
    let of_partitions = "do_not_merge_across_partitions_select_final";
    statement.settings.push((of_partitions, "1".to_owned()));
    statement
}

fn malformed(client: &Client) -> Error {
    let why = "a stored event is none that Hedgerow wrote".to_owned();
    Error::Protocol { server: client.settings().server.clone(), why }
}
