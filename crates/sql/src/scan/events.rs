//! The scan of `events`: partitions take the warehouse's parts one by one, in parallel.

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
use warehouse::{
    ABSENT, Batch, Column, ColumnKey, Dictionary, Filter, Projection, ScanRange, Value,
};

use super::derived_entries::{DerivedField, TrackedEntries};
use super::dictionary_strings::{Missing, dictionary_string_type};
use super::persons::{PersonField, TIMESTAMP, UUID, string_list_type};
use super::{batch, never_empty, unsupported};
use crate::cancellation::Cancellation;
use crate::error::{Error, Result};
use crate::lower::leaves::{Field, PathStep};
use crate::lower::{Lowering, schema_of};
use crate::memory::track_array;
use crate::operators::{Operator, OperatorExec};

/// A dictionary with this many times more entries than rows is compacted to those in use.
const SPARSE_FACTOR: usize = 2;

struct Events {
    schema: SchemaRef,
    sources: Vec<FieldSource>,
    parts: Vec<ScanRange>,
    next: AtomicUsize,
    filter: Filter,
    columns: Projection,
    view: Arc<ReadView>,
    cancellation: Cancellation,
    /// Derived entries of the last dictionaries, for each field.
    entry_cache: Vec<Mutex<Vec<CachedEntries>>>,
}

type CachedEntries = (Arc<Dictionary>, TrackedEntries);

/// Dictionaries whose entries are cached: parts of one row group follow each other, so partitions
/// mostly read the same row group or two neighboring ones.
const CACHED_DICTIONARIES_MAX: usize = 2;

/// How long before an event a person must exist for the event's `force_upgrade` mode.
const FORCE_UPGRADE_MICROS: i64 = 60_000_000;

/// Where a field's values come from.
enum FieldSource {
    Timestamp,
    CreatedAt,
    Uuid,
    Properties,
    Project,
    Person(PersonField),
    PersonMode(usize),
    Derived(usize, DerivedField),
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events({} parts)", self.parts.len())
    }
}

impl Lowering {
    pub(super) fn events(
        &self,
        fields: Vec<Field>,
        filters: &[&Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut columns = Projection::default();
        let mut sources = Vec::with_capacity(fields.len());
        for field in &fields {
            sources.push(self.field_source(field, &mut columns)?);
        }
        let schema = schema_of(never_empty(sources.iter().map(FieldSource::ty).collect()));
        let mut filter = self.pushdown_filter(filters);
        filter.predicate = self.view.event_filter.clone();
        let parts = self.view.events.scan_ranges(&filter, &columns)?;
        let partitions = self.threads.min(parts.len()).max(1);
        let operator = Arc::new(Events {
            schema: schema.clone(),
            entry_cache: sources.iter().map(|_| Mutex::default()).collect(),
            sources,
            parts,
            next: AtomicUsize::new(0),
            filter,
            columns,
            view: self.view.clone(),
            cancellation: self.cancellation.clone(),
        });
        Ok(OperatorExec::plan(operator, Vec::new(), schema, partitions))
    }

    fn field_source(&self, field: &Field, columns: &mut Projection) -> Result<FieldSource> {
        let mut key = |key: ColumnKey| match columns.keys.iter().position(|known| *known == key) {
            Some(at) => at,
            None => {
                columns.keys.push(key);
                columns.keys.len() - 1
            }
        };
        // An event has one distinct id, so the lazy join to it needs no lookup.
        let via: Vec<LazyJoin> =
            field.via.iter().copied().filter(|link| *link != LazyJoin::DistinctId).collect();
        if field.via.iter().skip(1).any(|link| *link == LazyJoin::DistinctId) {
            return Err(unsupported(field));
        }
        let property = |name: &str| ColumnKey::Property(name.to_owned());
        let text = |key, missing| {
            FieldSource::Derived(key, DerivedField::Text(field.path.clone(), missing))
        };
        Ok(match (&via[..], field.name, &field.path[..]) {
            ([], "properties", [PathStep::Key(name), ..]) => {
                text(key(property(name)), Missing::Null)
            }
            ([], "properties", _) => {
                columns.properties = true;
                FieldSource::Properties
            }
            ([], "timestamp", _) => FieldSource::Timestamp,
            ([], "created_at", _) => {
                columns.created_at = true;
                FieldSource::CreatedAt
            }
            ([], "uuid", _) => {
                columns.uuids = true;
                FieldSource::Uuid
            }
            (_, "team_id", _) => FieldSource::Project,
            ([], "event", _) => text(key(ColumnKey::Event), Missing::Empty),
            ([], "distinct_id", _) => text(key(ColumnKey::DistinctId), Missing::Empty),
            ([], "elements_chain", _) => text(key(ColumnKey::ElementsChain), Missing::Empty),
            ([], "$session_id" | "$window_id", _) => text(key(property(field.name)), Missing::Null),
            ([], "person_mode", _) => {
                FieldSource::PersonMode(key(property("$process_person_profile")))
            }
            ([], "elements_chain_href", _) => {
                FieldSource::Derived(key(ColumnKey::ElementsChain), DerivedField::Href)
            }
            ([], "elements_chain_texts", _) => {
                let text: fn(&facts::Element) -> Option<&str> = |element| element.text.as_deref();
                FieldSource::Derived(key(ColumnKey::ElementsChain), DerivedField::Elements(text))
            }
            ([], "elements_chain_ids", _) => {
                let id: fn(&facts::Element) -> Option<&str> = |element| element.attr_id.as_deref();
                FieldSource::Derived(key(ColumnKey::ElementsChain), DerivedField::Elements(id))
            }
            ([], "elements_chain_elements", _) => {
                let tag: fn(&facts::Element) -> Option<&str> =
                    |element| element.tag_name.as_deref();
                FieldSource::Derived(key(ColumnKey::ElementsChain), DerivedField::Elements(tag))
            }
            ([], name, _) if name.starts_with("$group_") => {
                let Some(index) = group_index(name) else { return Err(unsupported(field)) };
                text(key(ColumnKey::Group(index)), Missing::Empty)
            }
            ([] | [LazyJoin::Person], _, _) => {
                let person = PersonField::new(field, &self.view);
                FieldSource::Person(person.ok_or_else(|| unsupported(field))?)
            }
            ([LazyJoin::Group(index)], _, _) => {
                let index = usize::from(*index);
                FieldSource::Derived(
                    key(ColumnKey::Group(index)),
                    DerivedField::Group(index, field.clone()),
                )
            }
            ([LazyJoin::Session], _, _) => {
                let sessions = self.sessions()?;
                let Some(column) = sessions.column(field.name, self.view.project) else {
                    return Err(unsupported(field));
                };
                FieldSource::Derived(
                    key(property("$session_id")),
                    DerivedField::Session(sessions, column),
                )
            }
            _ => return Err(unsupported(field)),
        })
    }
}

fn group_index(name: &str) -> Option<usize> {
    name.strip_prefix("$group_")?.parse().ok()
}

impl FieldSource {
    fn ty(&self) -> DataType {
        match self {
            Self::Timestamp | Self::CreatedAt => TIMESTAMP,
            Self::Uuid => UUID,
            Self::Properties | Self::PersonMode(_) => DataType::Utf8,
            Self::Project => DataType::Int64,
            Self::Person(field) => field.ty(),
            Self::Derived(_, derived) => match derived {
                DerivedField::Text(..) => dictionary_string_type(),
                DerivedField::Href => DataType::Utf8,
                DerivedField::Elements(_) => string_list_type(),
                DerivedField::Group(_, field) => match field.name {
                    "index" => DataType::Int64,
                    "created_at" | "updated_at" => TIMESTAMP,
                    _ => DataType::Utf8,
                },
                DerivedField::Session(_, column) => column.data_type().clone(),
            },
        }
    }
}

/// Reads the parts of one partition.
struct PartitionReader {
    scan: Arc<Events>,
    /// The entries of the last dictionary, for each field: parts of one file share it.
    last: Vec<Option<CachedEntries>>,
    part: Option<(Batch, usize)>,
}

impl PartitionReader {
    async fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((batch, from)) = &mut self.part
                && *from < batch.rows
            {
                let range = *from..batch.rows.min(*from + rows_max);
                *from = range.end;
                return Ok(Some(self.scan.rows(batch, range, &self.last)?));
            }
            tokio::task::yield_now().await;
            self.scan.cancellation.check()?;
            let no = self.scan.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.scan.parts.get(no) else { return Ok(None) };
            let mut batch = part.read(&self.scan.filter, &self.scan.columns)?;
            let rows = batch.rows;
            batch.columns.iter_mut().for_each(|column| compact_dictionary(column, rows));
            self.derive_entries(&batch)?;
            self.part = Some((batch, 0));
        }
    }

    fn derive_entries(&mut self, batch: &Batch) -> Result<()> {
        for (no, (source, last)) in self.scan.sources.iter().zip(&mut self.last).enumerate() {
            let FieldSource::Derived(key, derived) = source else { continue };
            let dictionary = &batch.columns[*key].dictionary;
            if !last.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, dictionary)) {
                let entries = self.scan.entries(no, derived, dictionary)?;
                *last = Some((dictionary.clone(), entries));
            }
        }
        Ok(())
    }
}

/// Drops unused entries: a few rows of a large file use a few of its strings.
fn compact_dictionary(column: &mut Column, rows: usize) {
    if column.dictionary.len() <= rows * SPARSE_FACTOR {
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
    /// The derived entries of a dictionary, shared by all partitions.
    fn entries(
        &self,
        no: usize,
        derived: &DerivedField,
        dictionary: &Arc<Dictionary>,
    ) -> Result<TrackedEntries> {
        let mut cache = self.entry_cache[no].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, entries)) = cache.iter().find(|(known, _)| Arc::ptr_eq(known, dictionary)) {
            return Ok(entries.clone());
        }
        let mut charge = self.cancellation.memory().charge();
        // An estimate: the entries are about as large as the dictionary.
        if !charge.set(dictionary.text_bytes()) {
            return Err(Error::MemoryLimit);
        }
        let entries = derived.entries(dictionary, &self.view)?;
        if !charge.set(entries.bytes()) {
            return Err(Error::MemoryLimit);
        }
        if cache.len() == CACHED_DICTIONARIES_MAX {
            cache.remove(0);
        }
        let entries = TrackedEntries { entries, _charge: Arc::new(charge) };
        cache.push((dictionary.clone(), entries.clone()));
        Ok(entries)
    }

    fn rows(
        &self,
        read: &Batch,
        range: Range<usize>,
        entries: &[Option<CachedEntries>],
    ) -> Result<RecordBatch> {
        let reads_person = |source: &FieldSource| {
            matches!(source, FieldSource::Person(_) | FieldSource::PersonMode(_))
        };
        let actors: Vec<u32> = match self.sources.iter().any(reads_person) {
            true => {
                let distinct_nos = read.distinct_nos[range.clone()].iter();
                distinct_nos.map(|distinct_no| self.view.persons.actor(*distinct_no)).collect()
            }
            false => Vec::new(),
        };
        let (rows, memory) = (range.len(), self.cancellation.memory());
        let columns =
            self.sources.iter().zip(entries).map(|(source, entries)| -> Result<ArrayRef> {
                let range = range.clone();
                let array: ArrayRef = match (source, entries) {
                    (FieldSource::Timestamp, _) => timestamps(&read.timestamps[range]),
                    (FieldSource::CreatedAt, _) => timestamps(&read.created_at[range]),
                    (FieldSource::Uuid, _) => {
                        let uuids = read.uuids[range].iter();
                        Arc::new(FixedSizeBinaryArray::try_from_iter(uuids)?)
                    }
                    (FieldSource::Properties, _) => {
                        Arc::new(StringArray::from_iter_values(&read.properties[range]))
                    }
                    (FieldSource::Project, _) => {
                        Arc::new(Int64Array::from(vec![self.view.project.0; rows]))
                    }
                    (FieldSource::Person(field), _) => field.rows(&self.view, &actors)?,
                    (FieldSource::PersonMode(key), _) => {
                        let times = &read.timestamps[range.clone()];
                        self.person_modes(&read.columns[*key], range, &actors, times)
                    }
                    (FieldSource::Derived(key, _), Some((_, entries))) => {
                        entries.entries.rows(&read.columns[*key].codes[range], memory)?
                    }
                    (FieldSource::Derived(..), None) => {
                        arrow::array::new_null_array(&source.ty(), rows)
                    }
                };
                // Dictionaries are charged where they are cached.
                match source {
                    FieldSource::Properties | FieldSource::Person(_)
                        if *array.data_type() == DataType::Utf8 =>
                    {
                        Ok(track_array(array, memory)?)
                    }
                    _ => Ok(array),
                }
            });
        batch(&self.schema, columns.collect::<Result<_>>()?, rows)
    }
}

impl Events {
    /// `person_mode`: `full` for events with person processing. Of the others, `force_upgrade` where
    /// the distinct id had a person before the event, else `propertyless`.
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
            match self.view.persons.person(*actor) {
                Some(person) if *time > person.created_at.as_micros() + FORCE_UPGRADE_MICROS => {
                    "force_upgrade"
                }
                _ => "propertyless",
            }
        });
        Arc::new(StringArray::from_iter_values(modes))
    }
}

fn timestamps(micros: &[i64]) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(micros.iter().copied()))
}

impl Operator for Arc<Events> {
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
        let last = self.sources.iter().map(|_| None).collect();
        let reader = PartitionReader { scan: self.clone(), last, part: None };
        let out = stream::try_unfold(reader, move |mut reader| async move {
            Ok(reader.next(rows_max).await?.map(|batch| (batch, reader)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}
