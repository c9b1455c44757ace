//! Rows of events as columns of one insert.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, FixedSizeBinaryBuilder, Int64Builder, MapBuilder, MapFieldNames,
    RecordBatch, StringBuilder, TimestampMicrosecondBuilder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use warehouse::{GROUP_TYPES, NewRow, with_json_value};

use crate::schema::column_of;
use crate::values::encode;
use crate::write::usage::Usage;

/// Bytes of a row beside its strings.
const ROW_BYTES: usize = 96;

pub(super) type Maps = MapBuilder<StringBuilder, StringBuilder>;

/// A map column, with non-null values.
pub(super) fn map_builder() -> Maps {
    let names = MapFieldNames {
        entry: "entries".to_owned(),
        key: "key".to_owned(),
        value: "value".to_owned(),
    };
    MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new())
        .with_values_field(Field::new("value", DataType::Utf8, false))
}

/// Collects rows in the order of their positions.
pub(super) struct Block {
    promoted: Arc<BTreeSet<String>>,
    /// Their indexes.
    column_nos: HashMap<String, usize>,
    project_ids: Int64Builder,
    uuids: FixedSizeBinaryBuilder,
    events: StringBuilder,
    distinct_nos: UInt32Builder,
    distinct_ids: StringBuilder,
    timestamps: TimestampMicrosecondBuilder,
    created_at: TimestampMicrosecondBuilder,
    positions: UInt64Builder,
    elements: StringBuilder,
    groups: [StringBuilder; GROUP_TYPES],
    historical: BooleanBuilder,
    rest: Maps,
    /// In the order of `promoted`.
    properties: Vec<StringBuilder>,
    /// The properties of the row that is appended: those with a column by its index, the others by name.
    in_columns: Vec<(usize, String)>,
    in_rest: Vec<(String, String)>,
    pub usage: Usage,
    pub rows: usize,
    pub bytes: usize,
    /// Of the first and last row.
    pub positions_seen: Option<(u64, u64)>,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Block").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Block {
    pub fn new(promoted: Arc<BTreeSet<String>>) -> Self {
        Self {
            properties: promoted.iter().map(|_| StringBuilder::new()).collect(),
            column_nos: promoted.iter().cloned().zip(0..).collect(),
            promoted,
            project_ids: Int64Builder::new(),
            uuids: FixedSizeBinaryBuilder::new(16),
            events: StringBuilder::new(),
            distinct_nos: UInt32Builder::new(),
            distinct_ids: StringBuilder::new(),
            timestamps: TimestampMicrosecondBuilder::new(),
            created_at: TimestampMicrosecondBuilder::new(),
            positions: UInt64Builder::new(),
            elements: StringBuilder::new(),
            groups: std::array::from_fn(|_| StringBuilder::new()),
            historical: BooleanBuilder::new(),
            rest: map_builder(),
            in_columns: Vec::new(),
            in_rest: Vec::new(),
            usage: Usage::default(),
            rows: 0,
            bytes: 0,
            positions_seen: None,
        }
    }

    pub fn push(&mut self, row: &NewRow<'_>) -> Result<(), ArrowError> {
        self.collect_properties(row);
        self.uuids.append_value(row.uuid.as_bytes())?;
        self.project_ids.append_value(row.project.0);
        self.events.append_value(row.event);
        self.distinct_nos.append_value(row.distinct_no);
        self.distinct_ids.append_value(row.distinct_id);
        self.timestamps.append_value(row.timestamp.as_micros());
        self.created_at.append_value(row.created_at.as_micros());
        self.positions.append_value(row.position);
        self.elements.append_value(row.elements_chain);
        for (builder, key) in self.groups.iter_mut().zip(&row.groups) {
            builder.append_value(key.as_deref().unwrap_or_default());
        }
        self.historical.append_value(row.historical);
        let mut values = self.in_columns.drain(..).peekable();
        for (at, builder) in self.properties.iter_mut().enumerate() {
            match values.next_if(|(column, _)| *column == at) {
                Some((_, value)) => {
                    self.bytes += value.len();
                    builder.append_value(value);
                }
                None => builder.append_value(""),
            }
        }
        for (name, value) in self.in_rest.drain(..) {
            self.bytes += name.len() + value.len();
            self.rest.keys().append_value(name);
            self.rest.values().append_value(value);
        }
        self.rest.append(true)?;
        self.bytes +=
            ROW_BYTES + row.event.len() + row.distinct_id.len() + row.elements_chain.len();
        self.rows += 1;
        let first = self.positions_seen.map_or(row.position, |(first, _)| first);
        self.positions_seen = Some((first, row.position));
        Ok(())
    }

    /// Of a name that repeats, the last value counts.
    fn collect_properties(&mut self, row: &NewRow<'_>) {
        let Self { column_nos, in_columns, in_rest, usage, .. } = self;
        row.properties.each(&mut |property| {
            let mut encoded = String::with_capacity(property.json.len() + 1);
            if with_json_value(property.json, |value| encode(value, &mut encoded)).is_none() {
                return;
            }
            if let Some(column) = column_nos.get(property.name) {
                in_columns.push((*column, encoded));
            } else {
                usage.count(property.name);
                in_rest.push((property.name.to_owned(), encoded));
            }
        });
        keep_last(in_columns);
        keep_last(in_rest);
        usage.rows += 1;
    }

    /// The batch of an insert.
    pub fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let timestamps = self.timestamps.finish().with_timezone("UTC");
        let created_at = self.created_at.finish().with_timezone("UTC");
        let mut columns: Vec<(String, ArrayRef)> = vec![
            ("project_id".to_owned(), Arc::new(self.project_ids.finish())),
            ("uuid".to_owned(), Arc::new(self.uuids.finish())),
            ("event".to_owned(), Arc::new(self.events.finish())),
            ("distinct_no".to_owned(), Arc::new(self.distinct_nos.finish())),
            ("distinct_id".to_owned(), Arc::new(self.distinct_ids.finish())),
            ("timestamp".to_owned(), Arc::new(timestamps)),
            ("created_at".to_owned(), Arc::new(created_at)),
            ("position".to_owned(), Arc::new(self.positions.finish())),
            ("elements_chain".to_owned(), Arc::new(self.elements.finish())),
            ("historical".to_owned(), Arc::new(self.historical.finish())),
            ("rest".to_owned(), Arc::new(self.rest.finish())),
        ];
        for (index, mut group) in self.groups.into_iter().enumerate() {
            columns.push((format!("group_{index}"), Arc::new(group.finish())));
        }
        for (name, mut property) in self.promoted.iter().zip(self.properties) {
            let column = column_of(name).trim_matches('`').to_owned();
            columns.push((column, Arc::new(property.finish())));
        }
        record_batch(columns)
    }
}

/// A batch of non-null columns.
pub(super) fn record_batch(columns: Vec<(String, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let field =
        |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), false);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays)
}

/// Sorts by key, and of equal keys keeps the last value.
pub(super) fn keep_last<K: Ord>(values: &mut Vec<(K, String)>) {
    values.sort_by(|(a, _), (b, _)| a.cmp(b));
    values.dedup_by(|later, earlier| {
        let is_same = later.0 == earlier.0;
        if is_same {
            std::mem::swap(&mut later.1, &mut earlier.1);
        }
        is_same
    });
}
