//! Columns of fields, built from batches of the warehouse.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{
    Array, ArrayRef, FixedSizeBinaryArray, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use facts::ReadView;
use hogql::tables::LazyJoin;
use warehouse::{ABSENT, Batch, Column, ColumnKey, Dictionary, Projection, SelectedRows, Value};

use super::codes::{CodeSource, CodedExpr};
use super::derived_entries::{DerivedField, TrackedEntries};
use super::dictionary_strings::{Missing, dictionary_string_type};
use super::persons::{PersonField, TIMESTAMP, UUID, string_list_type};
use super::{batch, never_empty, unsupported};
use crate::cancellation::Cancellation;
use crate::error::{Error, Result};
use crate::lower::global_codes::NULL_CODE;
use crate::lower::leaves::{Field, PathStep};
use crate::lower::{Lowering, schema_of};
use crate::memory::track_array;

/// A dictionary with this many times more entries than rows is compacted to those in use.
const SPARSE_FACTOR: usize = 2;

type CachedEntries = (Arc<Dictionary>, TrackedEntries);

/// Dictionaries whose entries are cached: parts of one row group follow each other, so partitions
/// mostly read the same row group or two neighboring ones.
const CACHED_DICTIONARIES_MAX: usize = 2;

/// How long before an event a person must exist for the event's `force_upgrade` mode.
const FORCE_UPGRADE_MICROS: i64 = 60_000_000;

/// Where a field's values come from.
pub(super) enum FieldSource {
    Timestamp,
    CreatedAt,
    Uuid,
    Properties,
    Project,
    Person(PersonField),
    PersonMode(usize),
    Derived(usize, DerivedField),
    /// A number for each row that stands for a value.
    Code(CodeSource),
    /// See [`RowIds`].
    RowId,
}

/// Builds columns of some fields of events.
pub(super) struct FieldReader {
    pub schema: SchemaRef,
    /// What it reads from the warehouse.
    pub columns: Projection,
    sources: Vec<FieldSource>,
    view: Arc<ReadView>,
    cancellation: Cancellation,
    /// Derived entries of the last dictionaries, for each field.
    entry_cache: Vec<Mutex<Vec<CachedEntries>>>,
}

/// A batch of the warehouse, prepared to be read in slices.
pub(super) struct PreparedBatch {
    read: Batch,
    /// For each field, its derived entries or the codes of its rows.
    fields: Vec<Prepared>,
}

enum Prepared {
    Plain,
    Entries(TrackedEntries),
    Codes(Vec<u32>),
}

/// The rows of a batch, numbered across the scan: the range's index in the upper half, the row in the
/// lower.
pub(super) type RowIds = Vec<u64>;

impl PreparedBatch {
    pub(super) fn rows(&self) -> usize {
        self.read.rows
    }
}

impl FieldReader {
    pub(super) fn new(
        lowering: &Lowering,
        fields: &[Field],
        codes: &[CodedExpr<'_>],
        row_ids: bool,
    ) -> Result<Self> {
        let mut columns = Projection::default();
        let mut sources = Vec::with_capacity(fields.len() + codes.len());
        for field in fields {
            sources.push(lowering.field_source(field, &mut columns)?);
        }
        for coded in codes {
            sources.push(FieldSource::Code(lowering.code_source(coded, &mut columns)?));
        }
        if row_ids {
            sources.push(FieldSource::RowId);
        }
        columns.timestamps = sources
            .iter()
            .any(|source| matches!(source, FieldSource::Timestamp | FieldSource::PersonMode(_)));
        columns.distinct_nos = sources.iter().any(|source| match source {
            FieldSource::Person(_) | FieldSource::PersonMode(_) => true,
            FieldSource::Code(code) => code.is_by_person(),
            _ => false,
        });
        Ok(Self {
            schema: schema_of(never_empty(sources.iter().map(FieldSource::ty).collect())),
            columns,
            entry_cache: sources.iter().map(|_| Mutex::default()).collect(),
            sources,
            view: lowering.view.clone(),
            cancellation: lowering.cancellation.clone(),
        })
    }

    pub(super) fn memory(&self) -> &eval::MemoryTracker {
        self.cancellation.memory()
    }

    /// The ids of some rows of a part; empty if nobody reads them.
    pub(super) fn row_ids(&self, part: usize, rows: &SelectedRows) -> RowIds {
        match self.sources.iter().any(|source| matches!(source, FieldSource::RowId)) {
            true => rows.rows().map(|row| (part as u64) << 32 | row as u64).collect(),
            false => Vec::new(),
        }
    }

    pub(super) fn prepare(&self, mut read: Batch) -> Result<PreparedBatch> {
        let mut fields: Vec<Prepared> = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            fields.push(match source {
                FieldSource::Code(code) => Prepared::Codes(code.rows(&read, &self.view)?),
                _ => Prepared::Plain,
            });
        }
        for (no, source) in self.sources.iter().enumerate() {
            if let FieldSource::Derived(key, derived) = source {
                compact_dictionary(&mut read.columns[*key], read.rows);
                let entries = self.entries(no, derived, &read.columns[*key].dictionary)?;
                fields[no] = Prepared::Entries(entries);
            }
        }
        Ok(PreparedBatch { read, fields })
    }

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

    /// The columns of some rows. `ids` are the row ids of the whole batch; empty if nobody reads them.
    pub(super) fn slice(
        &self,
        prepared: &PreparedBatch,
        range: Range<usize>,
        ids: &RowIds,
    ) -> Result<RecordBatch> {
        let read = &prepared.read;
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
        let fields = self.sources.iter().zip(&prepared.fields);
        let columns = fields.map(|(source, prepared)| -> Result<ArrayRef> {
            let range = range.clone();
            let array: ArrayRef = match (source, prepared) {
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
                    Arc::new(Int64Array::from(vec![self.view.context.project.0; rows]))
                }
                (FieldSource::Person(field), _) => field.rows(&self.view, &actors)?,
                (FieldSource::PersonMode(key), _) => {
                    let times = &read.timestamps[range.clone()];
                    self.person_modes(&read.columns[*key], range, &actors, times)
                }
                (FieldSource::Derived(key, _), Prepared::Entries(entries)) => {
                    entries.entries.rows(&read.columns[*key].codes[range], memory)?
                }
                (FieldSource::Code(_), Prepared::Codes(codes)) => coded(&codes[range]),
                (FieldSource::RowId, _) => Arc::new(UInt64Array::from(ids[range].to_vec())),
                (FieldSource::Derived(..) | FieldSource::Code(_), _) => {
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

impl Lowering {
    pub(super) fn field_source(
        &self,
        field: &Field,
        columns: &mut Projection,
    ) -> Result<FieldSource> {
        let mut key = |key: ColumnKey| column_index(key, columns);
        let via = links(field)?;
        if let Some((column, missing)) = text_column(&via, field) {
            let derived = DerivedField::Text(field.path.clone(), missing);
            return Ok(FieldSource::Derived(key(column), derived));
        }
        Ok(match (&via[..], field.name, &field.path[..]) {
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
            ([], "person_mode", _) => {
                let sent = ColumnKey::Property("$process_person_profile".to_owned());
                FieldSource::PersonMode(key(sent))
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
                let Some(column) = sessions.column(field.name, &self.view)? else {
                    return Err(unsupported(field));
                };
                FieldSource::Derived(
                    key(ColumnKey::Property("$session_id".to_owned())),
                    DerivedField::Session(sessions, column),
                )
            }
            _ => return Err(unsupported(field)),
        })
    }
}

/// The index of a column in the projection, which gets it if it is new.
pub(super) fn column_index(key: ColumnKey, columns: &mut Projection) -> usize {
    columns.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
        columns.keys.push(key);
        columns.keys.len() - 1
    })
}

/// The lazy joins that need a lookup: an event has one distinct id, so the one to it needs none.
pub(super) fn links(field: &Field) -> Result<Vec<LazyJoin>> {
    if field.via.iter().skip(1).any(|link| *link == LazyJoin::DistinctId) {
        return Err(unsupported(field));
    }
    Ok(field.via.iter().copied().filter(|link| *link != LazyJoin::DistinctId).collect())
}

/// The dictionary column of an event whose strings a field has.
pub(super) fn text_column(via: &[LazyJoin], field: &Field) -> Option<(ColumnKey, Missing)> {
    if !via.is_empty() {
        return None;
    }
    let property = |name: &str| (ColumnKey::Property(name.to_owned()), Missing::Null);
    Some(match (field.name, &field.path[..]) {
        ("properties", [PathStep::Key(name), ..]) => property(name),
        ("event", _) => (ColumnKey::Event, Missing::Empty),
        ("distinct_id", _) => (ColumnKey::DistinctId, Missing::Empty),
        ("elements_chain", _) => (ColumnKey::ElementsChain, Missing::Empty),
        ("$session_id" | "$window_id", _) => property(field.name),
        (name, _) => (ColumnKey::Group(group_index(name)?), Missing::Empty),
    })
}

fn group_index(name: &str) -> Option<usize> {
    name.strip_prefix("$group_")?.parse().ok()
}

impl FieldSource {
    pub(super) fn ty(&self) -> DataType {
        match self {
            Self::Timestamp | Self::CreatedAt => TIMESTAMP,
            Self::Uuid => UUID,
            Self::Properties | Self::PersonMode(_) => DataType::Utf8,
            Self::Project => DataType::Int64,
            Self::Code(_) => DataType::UInt32,
            Self::RowId => DataType::UInt64,
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

fn coded(codes: &[u32]) -> ArrayRef {
    let nulls = codes
        .contains(&NULL_CODE)
        .then(|| NullBuffer::from_iter(codes.iter().map(|code| *code != NULL_CODE)));
    Arc::new(UInt32Array::new(codes.to_vec().into(), nulls))
}

/// Drops unused entries: a few rows of a large file use a few of its strings.
fn compact_dictionary(column: &mut Column, rows: usize) {
    if column.dictionary.len() <= rows * SPARSE_FACTOR {
        return;
    }
    let mut small = Dictionary::default();
    let mut codes = vec![ABSENT; column.dictionary.len()];
    for code in column.codes.iter_mut().filter(|code| **code != ABSENT) {
        let new = &mut codes[*code as usize];
        if *new == ABSENT {
            *new = small.push(column.dictionary.get(*code));
        }
        *code = *new;
    }
    column.dictionary = Arc::new(small);
}
