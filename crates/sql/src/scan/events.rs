//! Events, part by part, on as many threads as there are partitions.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    Array, ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::Result as EngineResult;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use facts::ReadView;
use futures_util::stream;
use hogql::plan::Expr;
use hogql::tables::LazyJoin;
use warehouse::{ABSENT, Batch, Column, Columns, Dictionary, Filter, Key, Part, Value};

use super::coded::{Missing, text_type};
use super::entries::{Coded, Counted};
use super::persons::{MOMENT, PersonField, UUID, texts_type};
use super::{batch, never_empty, unsupported};
use crate::error::{Error, Result};
use crate::lower::leaves::{Field, Place};
use crate::lower::{Lower, schema_of};
use crate::memory::counted;
use crate::steps::{Step, StepExec};
use crate::stop::Stop;

/// A dictionary this many times the rows is cut down to what they use.
const SPARSE: usize = 2;

struct Events {
    schema: SchemaRef,
    gets: Vec<Get>,
    parts: Vec<Part>,
    next: AtomicUsize,
    filter: Filter,
    columns: Columns,
    world: Arc<ReadView>,
    stop: Stop,
    /// Of each field.
    made: Vec<Mutex<Vec<Made>>>,
}

type Made = (Arc<Dictionary>, Counted);

/// Dictionaries that are remembered: parts of one row group follow each other, so partitions are
/// mostly in the same or in two neighbouring ones.
const MADE_MAX: usize = 2;

/// How long somebody was known before an event without a person counts as theirs.
const KNOWN_MICROS: i64 = 60_000_000;

/// Where a field's values come from.
enum Get {
    Timestamp,
    CreatedAt,
    Uuid,
    Properties,
    Project,
    Person(PersonField),
    PersonMode(usize),
    Coded(usize, Coded),
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events({} parts)", self.parts.len())
    }
}

impl Lower {
    pub(super) fn events(
        &self,
        fields: Vec<Field>,
        filters: &[&Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut columns = Columns::default();
        let mut gets = Vec::with_capacity(fields.len());
        for field in &fields {
            gets.push(self.get(field, &mut columns)?);
        }
        let schema = schema_of(never_empty(gets.iter().map(Get::ty).collect()));
        let mut filter = self.pushed(filters);
        filter.predicate = self.world.event_filter.clone();
        let parts = self.world.events.parts(&filter, &columns)?;
        let partitions = self.threads.min(parts.len()).max(1);
        let step = Arc::new(Events {
            schema: schema.clone(),
            made: gets.iter().map(|_| Mutex::default()).collect(),
            gets,
            parts,
            next: AtomicUsize::new(0),
            filter,
            columns,
            world: self.world.clone(),
            stop: self.stop.clone(),
        });
        Ok(StepExec::plan(step, Vec::new(), schema, partitions))
    }

    fn get(&self, field: &Field, columns: &mut Columns) -> Result<Get> {
        let mut key = |key: Key| match columns.keys.iter().position(|own| *own == key) {
            Some(at) => at,
            None => {
                columns.keys.push(key);
                columns.keys.len() - 1
            }
        };
        // An event has one distinct id, so what lies behind it is the event's own.
        let via: Vec<LazyJoin> =
            field.via.iter().copied().filter(|link| *link != LazyJoin::DistinctId).collect();
        if field.via.iter().skip(1).any(|link| *link == LazyJoin::DistinctId) {
            return Err(unsupported(field));
        }
        let own = |name: &str| Key::Property(name.to_owned());
        let text = |key, missing| Get::Coded(key, Coded::Text(field.path.clone(), missing));
        Ok(match (&via[..], field.name, &field.path[..]) {
            ([], "properties", [Place::Key(name), ..]) => text(key(own(name)), Missing::Null),
            ([], "properties", _) => {
                columns.properties = true;
                Get::Properties
            }
            ([], "timestamp", _) => Get::Timestamp,
            ([], "created_at", _) => {
                columns.created_at = true;
                Get::CreatedAt
            }
            ([], "uuid", _) => {
                columns.uuids = true;
                Get::Uuid
            }
            (_, "team_id", _) => Get::Project,
            ([], "event", _) => text(key(Key::Event), Missing::Empty),
            ([], "distinct_id", _) => text(key(Key::DistinctId), Missing::Empty),
            ([], "elements_chain", _) => text(key(Key::ElementsChain), Missing::Empty),
            ([], "$session_id" | "$window_id", _) => text(key(own(field.name)), Missing::Null),
            ([], "person_mode", _) => Get::PersonMode(key(own("$process_person_profile"))),
            ([], "elements_chain_href", _) => Get::Coded(key(Key::ElementsChain), Coded::Href),
            ([], "elements_chain_texts", _) => {
                let text: fn(&facts::Element) -> Option<&str> = |element| element.text.as_deref();
                Get::Coded(key(Key::ElementsChain), Coded::Elements(text))
            }
            ([], "elements_chain_ids", _) => {
                let id: fn(&facts::Element) -> Option<&str> = |element| element.attr_id.as_deref();
                Get::Coded(key(Key::ElementsChain), Coded::Elements(id))
            }
            ([], "elements_chain_elements", _) => {
                let tag: fn(&facts::Element) -> Option<&str> =
                    |element| element.tag_name.as_deref();
                Get::Coded(key(Key::ElementsChain), Coded::Elements(tag))
            }
            ([], name, _) if name.starts_with("$group_") => {
                let Some(index) = group_index(name) else { return Err(unsupported(field)) };
                text(key(Key::Group(index)), Missing::Empty)
            }
            ([] | [LazyJoin::Person], _, _) => {
                let person = PersonField::new(field, &self.world);
                Get::Person(person.ok_or_else(|| unsupported(field))?)
            }
            ([LazyJoin::Group(index)], _, _) => {
                let index = usize::from(*index);
                Get::Coded(key(Key::Group(index)), Coded::Group(index, field.clone()))
            }
            ([LazyJoin::Session], _, _) => {
                let sessions = self.sessions()?;
                let Some(column) = sessions.column(field.name, self.world.project) else {
                    return Err(unsupported(field));
                };
                Get::Coded(key(own("$session_id")), Coded::Session(sessions, column))
            }
            _ => return Err(unsupported(field)),
        })
    }
}

fn group_index(name: &str) -> Option<usize> {
    name.strip_prefix("$group_")?.parse().ok()
}

impl Get {
    fn ty(&self) -> DataType {
        match self {
            Self::Timestamp | Self::CreatedAt => MOMENT,
            Self::Uuid => UUID,
            Self::Properties | Self::PersonMode(_) => DataType::Utf8,
            Self::Project => DataType::Int64,
            Self::Person(field) => field.ty(),
            Self::Coded(_, coded) => match coded {
                Coded::Text(..) => text_type(),
                Coded::Href => DataType::Utf8,
                Coded::Elements(_) => texts_type(),
                Coded::Group(_, field) => match field.name {
                    "index" => DataType::Int64,
                    "created_at" | "updated_at" => MOMENT,
                    _ => DataType::Utf8,
                },
                Coded::Session(_, column) => column.data_type().clone(),
            },
        }
    }
}

/// One partition's reading.
struct Reading {
    scan: Arc<Events>,
    /// Of each field, what the last dictionary gave: parts of one file share theirs.
    last: Vec<Option<Made>>,
    part: Option<(Batch, usize)>,
}

impl Reading {
    async fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((batch, from)) = &mut self.part
                && *from < batch.rows
            {
                let range = *from..batch.rows.min(*from + rows_max);
                *from = range.end;
                let found = self.scan.piece(batch, range, &self.last)?;
                return Ok(Some(found));
            }
            tokio::task::yield_now().await;
            self.scan.stop.check()?;
            let no = self.scan.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.scan.parts.get(no) else { return Ok(None) };
            let mut batch = part.read(&self.scan.filter, &self.scan.columns)?;
            let rows = batch.rows;
            batch.columns.iter_mut().for_each(|column| cut_down(column, rows));
            self.prepare(&batch)?;
            self.part = Some((batch, 0));
        }
    }

    fn prepare(&mut self, batch: &Batch) -> Result<()> {
        for (no, (get, last)) in self.scan.gets.iter().zip(&mut self.last).enumerate() {
            let Get::Coded(key, coded) = get else { continue };
            let dictionary = &batch.columns[*key].dictionary;
            if !last.as_ref().is_some_and(|(own, _)| Arc::ptr_eq(own, dictionary)) {
                let entries = self.scan.entries(no, coded, dictionary)?;
                *last = Some((dictionary.clone(), entries));
            }
        }
        Ok(())
    }
}

/// A few rows of a large file need a few of its texts.
fn cut_down(column: &mut Column, rows: usize) {
    if column.dictionary.len() <= rows * SPARSE {
        return;
    }
    let mut small = Dictionary::default();
    let mut codes: HashMap<u32, u32> = HashMap::new();
    for code in column.codes.iter_mut().filter(|code| **code != ABSENT) {
        let value = column.dictionary.get(*code);
        *code = *codes.entry(*code).or_insert_with(|| small.push(value));
    }
    column.dictionary = Arc::new(small);
}

impl Events {
    /// What one partition makes of a dictionary, and what is worked out of that later, is not done
    /// by each.
    fn entries(&self, no: usize, coded: &Coded, dictionary: &Arc<Dictionary>) -> Result<Counted> {
        let mut made = self.made[no].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, entries)) = made.iter().find(|(own, _)| Arc::ptr_eq(own, dictionary)) {
            return Ok(entries.clone());
        }
        let mut charge = self.stop.account().charge();
        // They are about as large as the dictionary.
        if !charge.set(dictionary.text_bytes()) {
            return Err(Error::MemoryLimit);
        }
        let entries = coded.entries(dictionary, &self.world)?;
        if !charge.set(entries.bytes()) {
            return Err(Error::MemoryLimit);
        }
        if made.len() == MADE_MAX {
            made.remove(0);
        }
        let entries = Counted { entries, _charge: Arc::new(charge) };
        made.push((dictionary.clone(), entries.clone()));
        Ok(entries)
    }

    fn piece(
        &self,
        read: &Batch,
        range: Range<usize>,
        entries: &[Option<Made>],
    ) -> Result<RecordBatch> {
        let asks = |get: &Get| matches!(get, Get::Person(_) | Get::PersonMode(_));
        let actors: Vec<u32> = match self.gets.iter().any(asks) {
            true => {
                let numbers = read.distinct_nos[range.clone()].iter();
                numbers.map(|number| self.world.persons.actor(*number)).collect()
            }
            false => Vec::new(),
        };
        let (rows, account) = (range.len(), self.stop.account());
        let columns = self.gets.iter().zip(entries).map(|(get, entries)| -> Result<ArrayRef> {
            let range = range.clone();
            let made: ArrayRef = match (get, entries) {
                (Get::Timestamp, _) => moments(&read.timestamps[range]),
                (Get::CreatedAt, _) => moments(&read.created_at[range]),
                (Get::Uuid, _) => {
                    let uuids = read.uuids[range].iter();
                    Arc::new(FixedSizeBinaryArray::try_from_iter(uuids)?)
                }
                (Get::Properties, _) => {
                    Arc::new(StringArray::from_iter_values(&read.properties[range]))
                }
                (Get::Project, _) => Arc::new(Int64Array::from(vec![self.world.project.0; rows])),
                (Get::Person(field), _) => field.rows(&self.world, &actors)?,
                (Get::PersonMode(key), _) => {
                    let times = &read.timestamps[range.clone()];
                    self.person_modes(&read.columns[*key], range, &actors, times)
                }
                (Get::Coded(key, _), Some((_, entries))) => {
                    entries.entries.rows(&read.columns[*key].codes[range], account)?
                }
                (Get::Coded(..), None) => arrow::array::new_null_array(&get.ty(), rows),
            };
            // Texts behind codes share a dictionary, which is counted where it is kept.
            match get {
                Get::Properties | Get::Person(_) if *made.data_type() == DataType::Utf8 => {
                    Ok(counted(made, account)?)
                }
                _ => Ok(made),
            }
        });
        batch(&self.schema, columns.collect::<Result<_>>()?, rows)
    }
}

impl Events {
    /// Whether events had a person. Of those that asked for none: whether somebody was known by their
    /// id for a while.
    fn person_modes(
        &self,
        sent: &Column,
        rows: Range<usize>,
        actors: &[u32],
        times: &[i64],
    ) -> ArrayRef {
        let off: Vec<bool> =
            sent.dictionary.iter().map(|value| value == Value::Bool(false)).collect();
        let modes = rows.zip(actors.iter().zip(times)).map(|(row, (actor, time))| {
            if !off.get(sent.codes[row] as usize).copied().unwrap_or(false) {
                return "full";
            }
            match self.world.persons.person(*actor) {
                Some(person) if *time > person.created_at.as_micros() + KNOWN_MICROS => {
                    "force_upgrade"
                }
                _ => "propertyless",
            }
        });
        Arc::new(StringArray::from_iter_values(modes))
    }
}

fn moments(micros: &[i64]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(micros.iter().copied()))
}

impl Step for Arc<Events> {
    fn name(&self) -> &'static str {
        "events"
    }

    fn start(
        &self,
        _: usize,
        _: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> EngineResult<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size();
        let last = self.gets.iter().map(|_| None).collect();
        let reading = Reading { scan: self.clone(), last, part: None };
        let out = stream::try_unfold(reading, move |mut reading| async move {
            Ok(reading.next(rows_max).await?.map(|batch| (batch, reading)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}
