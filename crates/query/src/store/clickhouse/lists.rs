//! Lists of events, and values of their columns.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ::clickhouse::{EventKey, KeyOf, PrintedEvents, Reader, ValuesOf, print_matching};
use eval::QueryMemoryPool;
use hogql::ast::{BinaryOp, Body, Expr};
use hogql::plan::Plan;
use model::ProjectId;
use warehouse::{ColumnKey, Cursor, EventRow, ValueCount, Window};

use super::{ClickHouseView, pull};
use crate::conditions::{Conditions, Rows, all, binary, field, literal, timestamp};
use crate::store::{EventConditions, EventList, ValueSearch, embedded};
use crate::{Error, Result};

/// Limit plus offset of a list; a longer one is truncated, as the embedded engine truncates it.
const LIST_EVENTS_MAX: usize = 1 << 20;
/// Events that are read at once.
const CHUNK_ROWS: usize = 50;
/// Memory of the events that a list reads if its conditions cannot be printed.
const PULL_BYTES_MAX: usize = 256 << 20;

/// The keys of a list's events. They are read in chunks, of which the last one is kept.
#[derive(Debug)]
pub(crate) struct Selection {
    reader: Reader,
    project: ProjectId,
    keys: Vec<EventKey>,
    next: Option<Cursor>,
    /// Its number, and its events.
    chunk: Mutex<Option<(usize, Arc<Vec<EventRow>>)>>,
}

pub(in crate::store) fn list(
    view: &ClickHouseView,
    conditions: EventConditions,
    window: &Window,
) -> Result<EventList> {
    match printed_list(view, &conditions, window)? {
        Some(list) => Ok(list),
        None => embedded::list(&*pulled(view, &conditions)?, conditions, window),
    }
}

/// None if ClickHouse cannot find the events.
fn printed_list(
    view: &ClickHouseView,
    conditions: &EventConditions,
    window: &Window,
) -> Result<Option<EventList>> {
    let Some(events) = matching(view, conditions)? else { return Ok(None) };
    let limit = window.limit.min(LIST_EVENTS_MAX.saturating_sub(window.offset));
    let keys = view.reader.list_keys(&events, &Window { limit, ..window.clone() });
    let Some(mut keys) = unless_refused(keys)? else { return Ok(None) };
    let has_more = keys.len() > limit;
    keys.truncate(limit);
    let next = keys
        .last()
        .filter(|_| has_more)
        .map(|key| Cursor::new(key.timestamp, key.uuid, &key.event, key.distinct_no));
    let (reader, project) = (view.reader.clone(), events.project);
    let chunk = Mutex::default();
    Ok(Some(EventList::ClickHouse(Arc::new(Selection { reader, project, keys, next, chunk }))))
}

pub(in crate::store) fn values(
    view: &ClickHouseView,
    search: ValueSearch,
) -> Result<Vec<ValueCount>> {
    match printed_values(view, &search)? {
        Some(values) => Ok(values),
        None => embedded::values(&*pulled(view, &search.conditions)?, search),
    }
}

/// None if ClickHouse cannot count them.
fn printed_values(view: &ClickHouseView, search: &ValueSearch) -> Result<Option<Vec<ValueCount>>> {
    let Some(events) = matching(view, &search.conditions)? else { return Ok(None) };
    let key = match &search.key {
        ColumnKey::Event => KeyOf::Event,
        ColumnKey::DistinctId => KeyOf::DistinctId,
        ColumnKey::ElementsChain => KeyOf::ElementsChain,
        ColumnKey::Group(index) => KeyOf::Group(*index),
        ColumnKey::Property(name) => KeyOf::Property(name.clone()),
    };
    let (containing, limit) = (search.containing.clone(), search.limit);
    unless_refused(view.reader.values_of(&events, &ValuesOf { key, containing, limit }))
}

/// None if ClickHouse does not run the statement.
fn unless_refused<T>(answer: ::clickhouse::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error @ ::clickhouse::Error::Refused { .. }) => {
            tracing::warn!(%error, "ClickHouse refuses printed conditions of events");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

impl Selection {
    pub fn next(&self) -> Option<&Cursor> {
        self.next.as_ref()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn read(&self, events: Range<usize>) -> Result<Vec<EventRow>> {
        let end = events.end.min(self.keys.len());
        let mut rows = Vec::new();
        for at in events.start.min(end)..end {
            let key = &self.keys[at];
            let chunk = self.chunk(at / CHUNK_ROWS)?;
            rows.extend(chunk.iter().find(|row| key.is_of(row)).cloned());
        }
        Ok(rows)
    }

    fn chunk(&self, number: usize) -> Result<Arc<Vec<EventRow>>> {
        let mut kept = self.chunk.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, rows)) = &*kept
            && *of == number
        {
            return Ok(rows.clone());
        }
        let from = number * CHUNK_ROWS;
        let keys = &self.keys[from..(from + CHUNK_ROWS).min(self.keys.len())];
        let rows = Arc::new(self.reader.read_keys(self.project, keys)?);
        *kept = Some((number, rows.clone()));
        Ok(rows)
    }
}

/// The events that the conditions select; none if they cannot be printed.
fn matching(view: &ClickHouseView, conditions: &EventConditions) -> Result<Option<PrintedEvents>> {
    let parts: Result<Vec<Expr>> = parts(view, conditions).into_iter().collect();
    // Conditions that HogQL cannot express, such as those on elements.
    let Ok(parts) = parts else { return Ok(None) };
    let plan = plan(view, parts)?;
    let printed = print_matching(&plan, &view.reader.schema().promoted(), &view.cohorts);
    match printed {
        Ok(mut events) => {
            of_ids(&mut events, conditions);
            Ok(Some(events))
        }
        Err(::clickhouse::Error::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads the events that may meet the conditions.
fn pulled(view: &ClickHouseView, conditions: &EventConditions) -> Result<Arc<facts::ReadView>> {
    let parts = parts(view, conditions).into_iter().flatten().collect();
    let plan = plan(view, parts)?;
    let memory = QueryMemoryPool::new(usize::MAX).tracker(PULL_BYTES_MAX);
    let change = |events: &mut PrintedEvents| of_ids(events, conditions);
    let (pulled, charge) = pull::read(view, &plan, change, None, &memory)?;
    drop(charge);
    Ok(pulled)
}

fn of_ids(events: &mut PrintedEvents, conditions: &EventConditions) {
    if let Some(ids) = &conditions.distinct_nos {
        let ids: Vec<i64> = ids.iter().map(i64::from).collect();
        events.keep_distinct_nos(&ids);
    }
}

/// The conditions in HogQL, apart from that on distinct ids.
fn parts(view: &ClickHouseView, conditions: &EventConditions) -> Vec<Result<Expr>> {
    let EventConditions { events, after, before, filters, action, .. } = conditions;
    let printer = Conditions::new(view.context(), Rows::Events);
    let mut parts = Vec::new();
    if let Some(events) = events {
        let names =
            events.iter().map(|name| binary(BinaryOp::Equal, field(&["event"]), literal(name)));
        parts.push(Ok(hogql::build::any(names.collect())));
    }
    let times = [(BinaryOp::Greater, after), (BinaryOp::Less, before)];
    for (operator, bound) in times {
        parts.extend(bound.map(|at| Ok(binary(operator, field(&["timestamp"]), timestamp(at)))));
    }
    match filters {
        model::filter_expr::FilterExpr::And(filters) => {
            parts.extend(filters.iter().map(|filter| printer.print(filter)));
        }
        filters if filters.keeps_all() => {}
        filters => parts.push(printer.print(filters)),
    }
    if let Some(action) = action {
        let steps = action.steps.iter().map(|(step, filters)| printer.of_step(step, filters));
        parts.push(steps.collect::<Result<Vec<_>>>().map(hogql::build::any));
    }
    parts
}

/// `SELECT * FROM events WHERE …`.
fn plan(view: &ClickHouseView, parts: Vec<Expr>) -> Result<Plan> {
    let mut query = hogql::parse("SELECT * FROM events")?;
    let Body::Select(select) = &mut query.body else {
        return Err(Error::Internal("a select is none".into()));
    };
    select.filter = (!parts.is_empty()).then(|| all(parts));
    Ok(hogql::resolve(&query, "", &view.schema, None)?)
}
