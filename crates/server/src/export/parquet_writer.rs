//! Writes an export as Parquet, with the columns of PostHog's batch exports.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use model::person::Person;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Map, Value};
use warehouse::EventRow;

/// Bounds of a row group, which is buffered in memory.
const GROUP_ROWS_MAX: usize = 100_000;
const GROUP_BYTES_MAX: usize = 64 << 20;

const SCHEMA: &str = "message events {
    required binary uuid (STRING);
    required binary event (STRING);
    required binary distinct_id (STRING);
    optional binary person_id (STRING);
    required binary properties (STRING);
    required binary person_properties (STRING);
    required binary elements_chain (STRING);
    required int64 timestamp (TIMESTAMP(MICROS,true));
    required int64 created_at (TIMESTAMP(MICROS,true));
}";
const STRING_COLUMNS: usize = 7;
/// The nullable column.
const PERSON_ID: usize = 3;

pub(super) struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// In schema order.
    strings: [Vec<ByteArray>; STRING_COLUMNS],
    /// Definition levels of `person_id`: 1 for rows with a person, else 0.
    has_person: Vec<i16>,
    times: [Vec<i64>; 2],
    bytes: usize,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub fn new(out: W) -> Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let zstd = Compression::ZSTD(ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        let (strings, times) = Default::default();
        Ok(Self { writer, strings, has_person: Vec::new(), times, bytes: 0 })
    }

    pub fn add(&mut self, row: &EventRow, person: Option<&Person>) -> Result<()> {
        let empty = Map::<String, Value>::new();
        let person_properties = person.map_or(&empty, |person| &person.properties);
        let values = [
            Some(row.uuid.to_string()),
            Some(row.event.to_string()),
            Some(row.distinct_id.to_string()),
            person.map(|person| person.uuid.to_string()),
            Some(row.properties.clone()),
            Some(serde_json::to_string(person_properties)?),
            Some(row.elements_chain.clone()),
        ];
        for (column, value) in self.strings.iter_mut().zip(values) {
            self.bytes += value.as_ref().map_or(0, String::len);
            column.extend(value.map(|value| ByteArray::from(value.into_bytes())));
        }
        self.has_person.push(i16::from(person.is_some()));
        self.times[0].push(row.timestamp.as_micros());
        self.times[1].push(row.created_at.as_micros());
        if self.has_person.len() >= GROUP_ROWS_MAX || self.bytes >= GROUP_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.writer.into_inner()?.flush()?;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.has_person.is_empty() {
            return Ok(());
        }
        let columns = "the schema has as many columns as are written";
        let mut group = self.writer.next_row_group()?;
        for (index, strings) in self.strings.iter_mut().enumerate() {
            let mut column = group.next_column()?.context(columns)?;
            let levels = (index == PERSON_ID).then_some(self.has_person.as_slice());
            column.typed::<ByteArrayType>().write_batch(&std::mem::take(strings), levels, None)?;
            column.close()?;
        }
        for times in &mut self.times {
            let mut column = group.next_column()?.context(columns)?;
            column.typed::<Int64Type>().write_batch(&std::mem::take(times), None, None)?;
            column.close()?;
        }
        group.close()?;
        self.has_person.clear();
        self.bytes = 0;
        Ok(())
    }
}
