//! Reads events from Parquet with the columns of PostHog's batch exports: strings, two of them JSON,
//! and timestamps. Other columns are ignored.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use model::Timestamp;
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::exported::ExportedEvent;
use super::source::ReadItem;

const REQUIRED: [&str; 2] = ["event", "distinct_id"];
const OPTIONAL: [&str; 5] =
    ["uuid", "timestamp", "properties", "elements_chain", "person_properties"];
/// Larger values exceed the limit of an event.
const VALUE_BYTES_MAX: usize = 4 << 20;
const NANOS_PER_MICRO: i64 = 1_000;

pub(super) struct ParquetRows {
    rows: RowIter<'static>,
    /// Whether the timestamp column holds nanoseconds, which the reader returns as plain integers.
    in_nanos: bool,
    total: u64,
    number: u64,
}

impl ParquetRows {
    pub fn open(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let reader = SerializedFileReader::new(file).with_context(cannot)?;
        let about = reader.metadata().file_metadata();
        let total = u64::try_from(about.num_rows()).unwrap_or(0);
        let mut projected = Vec::new();
        for field in about.schema().get_fields() {
            if REQUIRED.iter().chain(&OPTIONAL).any(|name| *name == field.name()) {
                check(field).with_context(cannot)?;
                projected.push(Arc::clone(field));
            }
        }
        for name in REQUIRED {
            if !projected.iter().any(|field| field.name() == name) {
                bail!("{}: there is no column {name}", path.display());
            }
        }
        let in_nanos = projected.iter().any(|field| {
            field.name() == "timestamp" && unit(field).is_some_and(|unit| unit == TimeUnit::NANOS)
        });
        let schema =
            Type::group_type_builder(about.schema().name()).with_fields(projected).build()?;
        let rows =
            RowIter::from_file_into(Box::new(reader)).project(Some(schema)).with_context(cannot)?;
        Ok(Self { rows, in_nanos, total, number: 0 })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn percent(&self) -> u64 {
        100 * self.number / self.total.max(1)
    }

    pub fn skip(&mut self, rows: u64) -> Result<()> {
        while self.number < rows && self.row()?.is_some() {}
        Ok(())
    }

    pub fn next(&mut self) -> Result<ReadItem> {
        let Some(row) = self.row()? else { return Ok(ReadItem::End) };
        Ok(match self.event(&row) {
            Ok(event) => ReadItem::Event(event),
            Err(why) => ReadItem::Invalid(why.into()),
        })
    }

    fn row(&mut self) -> Result<Option<Row>> {
        let row = self.rows.next().transpose();
        let row = row.with_context(|| format!("cannot read the file after row {}", self.number))?;
        self.number += u64::from(row.is_some());
        Ok(row)
    }

    fn event(&self, row: &Row) -> Result<String, &'static str> {
        let mut columns = Texts::default();
        let mut uuid = None;
        for (name, field) in row.get_column_iter() {
            match name.as_str() {
                "uuid" => uuid = uuid_of(field)?,
                "event" => columns.event = text(field)?,
                "distinct_id" => columns.distinct_id = text(field)?,
                "timestamp" => columns.timestamp = self.time(field)?,
                "properties" => columns.properties = text(field)?,
                "elements_chain" => columns.elements_chain = text(field)?,
                "person_properties" => columns.person_properties = text(field)?,
                _ => {}
            }
        }
        let origin = format!("{}:{columns:?}", self.number);
        let exported = ExportedEvent {
            uuid,
            properties: object(columns.properties.as_deref())?,
            person_properties: object(columns.person_properties.as_deref())?,
            event: columns.event.ok_or("it has no event name")?,
            distinct_id: columns.distinct_id.ok_or("it has no distinct id")?,
            timestamp: columns.timestamp,
            elements_chain: columns.elements_chain,
        };
        exported.to_json(&origin)
    }

    fn time(&self, field: &Field) -> Result<Option<String>, &'static str> {
        let at = match field {
            Field::TimestampMillis(millis) => Timestamp::from_millis(*millis),
            Field::TimestampMicros(micros) => Timestamp::from_micros(*micros),
            Field::Long(nanos) if self.in_nanos => {
                Timestamp::from_micros(nanos.div_euclid(NANOS_PER_MICRO))
            }
            other => return text(other),
        };
        Ok(Some(at.to_string()))
    }
}

/// The string columns of a row. Its `Debug` output seeds the uuid of an event without one, so neither
/// the name nor the fields may change.
#[derive(Debug, Default)]
struct Texts {
    event: Option<String>,
    distinct_id: Option<String>,
    timestamp: Option<String>,
    properties: Option<String>,
    elements_chain: Option<String>,
    person_properties: Option<String>,
}

/// Fails for a column whose type does not fit its name.
fn check(field: &Type) -> Result<()> {
    let fits = field.is_primitive()
        && match (field.name(), field.get_physical_type()) {
            ("timestamp", Physical::INT64) => unit(field).is_some(),
            ("timestamp", Physical::INT96) => true,
            ("uuid", Physical::FIXED_LEN_BYTE_ARRAY) => true,
            (_, Physical::BYTE_ARRAY) => matches!(
                field.get_basic_info().converted_type(),
                ConvertedType::NONE
                    | ConvertedType::UTF8
                    | ConvertedType::JSON
                    | ConvertedType::ENUM
            ),
            _ => false,
        };
    if !fits {
        bail!("the column {} has an unsupported type", field.name());
    }
    Ok(())
}

fn unit(field: &Type) -> Option<TimeUnit> {
    let about = field.get_basic_info();
    match (about.logical_type_ref(), about.converted_type()) {
        (Some(LogicalType::Timestamp(about)), _) => Some(about.unit),
        (_, ConvertedType::TIMESTAMP_MILLIS) => Some(TimeUnit::MILLIS),
        (_, ConvertedType::TIMESTAMP_MICROS) => Some(TimeUnit::MICROS),
        _ => None,
    }
}

fn text(field: &Field) -> Result<Option<String>, &'static str> {
    let text = match field {
        Field::Null => return Ok(None),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => {
            str::from_utf8(bytes.data()).map_err(|_| "it is not valid UTF-8")?.to_owned()
        }
        _ => return Err("a column is neither a string nor a timestamp"),
    };
    if text.len() > VALUE_BYTES_MAX {
        return Err("it is too long");
    }
    Ok(Some(text))
}

/// From a string, or from sixteen bytes.
fn uuid_of(field: &Field) -> Result<Option<Uuid>, &'static str> {
    let wrong = "its uuid is invalid";
    if let Field::Bytes(bytes) = field
        && bytes.len() == 16
    {
        return Uuid::from_slice(bytes.data()).map(Some).map_err(|_| wrong);
    }
    text(field)?.map(|text| text.parse().map_err(|_| wrong)).transpose()
}

/// The raw JSON; an empty string counts as absent.
fn object(text: Option<&str>) -> Result<Option<&RawValue>, &'static str> {
    let text = text.filter(|text| !text.is_empty());
    text.map(serde_json::from_str).transpose().map_err(|_| "its properties are not a JSON object")
}
