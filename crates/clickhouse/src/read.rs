//! Events as they were appended.

mod printed;
mod rows;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{StringArray, TimestampMicrosecondArray, UInt64Array};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{Cursor, EventRow, Order, Totals, ValueCount};

use crate::client::{Batches, Client, Parameter, Parameters, Statement};
use crate::error::{Error, Result};
use crate::schema::{Schema, column, column_of, table_of_rows};
use crate::values::decode;

use printed::{CURSOR_COLUMNS, cursor_values};
pub use printed::{EventKey, KeyOf, ValuesOf};

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
    /// At journal positions before this one.
    pub before_position: Option<u64>,
    /// After this one, oldest first.
    pub after: Option<Cursor>,
}

/// Reads the events of all projects.
#[derive(Clone, Debug)]
pub struct Reader {
    schema: Schema,
    pulls: Arc<AtomicU64>,
    limits: Option<ReadLimits>,
}

/// What ClickHouse spends on one statement of a reader at most.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    pub time: Duration,
    pub memory_bytes: usize,
}

impl Reader {
    pub fn new(schema: Schema) -> Self {
        Self { schema, pulls: Arc::default(), limits: None }
    }

    /// A reader whose statements have these limits.
    #[must_use]
    pub fn with_limits(self, limits: ReadLimits) -> Self {
        Self { limits: Some(limits), ..self }
    }

    fn select(&self, mut statement: Statement) -> Result<Batches> {
        if let Some(ReadLimits { time, memory_bytes }) = self.limits {
            statement.timeout = Some(time);
            statement.settings.push(("max_memory_usage", memory_bytes.to_string()));
        }
        self.client().select(&statement)
    }

    /// A reader whose statements fail as if ClickHouse was away, until [`Reader::unlock`]: nobody has
    /// checked whose events these are.
    #[must_use]
    pub fn locked(self) -> Self {
        Self { schema: self.schema.locked(), ..self }
    }

    pub fn unlock(&self) {
        self.client().unlock();
    }

    pub fn is_locked(&self) -> bool {
        self.client().is_locked()
    }

    /// How often events were read into memory because ClickHouse could not compute what was asked.
    /// Clones count together.
    pub fn pulls(&self) -> u64 {
        self.pulls.load(Ordering::Relaxed)
    }

    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub fn client(&self) -> &Client {
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
        for batch in self.select(statement(text, parameters))? {
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
        for batch in self.select(statement(text, parameters))? {
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
        for batch in self.select(text.into())? {
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
        for batch in self.select(statement(text, parameters))? {
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
    if let Some(position) = filter.before_position {
        all.push(format!("position < {}", parameters.add(Parameter::UInt(position))));
    }
    if let Some(cursor) = &filter.after {
        let values = cursor_values(cursor, parameters);
        all.push(format!("{CURSOR_COLUMNS} > ({values})"));
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
