//! Column chunks: writes pages straight from dictionary codes, without hashing values again.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type, TypePtr};

use crate::columns::{ABSENT, Dictionary, Value};
use crate::segment::kind::Kind;
use crate::segment::rle;
use crate::{Error, Result};

/// Rows per page: a point read decompresses one page of every column.
pub(crate) const PAGE_ROWS: usize = 16_384;

/// A column with a larger share of distinct values is written PLAIN: a dictionary of nearly unique
/// values only adds codes.
const DICTIONARY_SHARE_MAX: (usize, usize) = (3, 4);
/// Up to this many entries a dictionary is cheap, whatever their share.
const DICTIONARY_ALWAYS: usize = 1_024;

/// Longer values are not stored as bounds.
const BOUND_BYTES_MAX: usize = 64;

pub(crate) type Bounds = Option<(Vec<u8>, Vec<u8>)>;

pub(crate) fn leaf(
    name: &str,
    physical: Physical,
    logical: Option<LogicalType>,
    required: bool,
    length: i32,
) -> TypePtr {
    let repetition = if required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
    let built = Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_length(length)
        .build();
    Arc::new(built.expect("the types of this crate's columns are valid"))
}

pub(crate) fn schema(fields: Vec<TypePtr>) -> TypePtr {
    let built = Type::group_type_builder("event").with_fields(fields).build();
    Arc::new(built.expect("a group of valid fields is valid"))
}

pub(crate) fn descriptor(leaf: &TypePtr) -> ColumnDescPtr {
    SchemaDescriptor::new(schema(vec![leaf.clone()])).column(0)
}

/// Writes the pages of one column chunk.
pub(crate) struct ChunkWriter<'a, W: Write + Send> {
    sink: &'a mut TrackedWrite<W>,
    file: &'a Path,
    zstd: &'a mut zstd::bulk::Compressor<'static>,
    descriptor: ColumnDescPtr,
    offsets: OffsetIndexBuilder,
    bounds: Option<ColumnIndexBuilder>,
    dictionary_at: Option<i64>,
    data_at: Option<i64>,
    bytes: u64,
    bytes_plain: u64,
    rows: usize,
    nulls: usize,
    encodings: Vec<Encoding>,
}

impl<'a, W: Write + Send> ChunkWriter<'a, W> {
    pub fn new(
        sink: &'a mut TrackedWrite<W>,
        file: &'a Path,
        zstd: &'a mut zstd::bulk::Compressor<'static>,
        leaf: &TypePtr,
    ) -> Self {
        ChunkWriter {
            sink,
            file,
            zstd,
            descriptor: descriptor(leaf),
            offsets: OffsetIndexBuilder::new(),
            bounds: None,
            dictionary_at: None,
            data_at: None,
            bytes: 0,
            bytes_plain: 0,
            rows: 0,
            nulls: 0,
            encodings: vec![Encoding::RLE],
        }
    }

    pub fn dictionary(&mut self, plain: &[u8], entries: usize) -> Result<()> {
        self.encodings.push(Encoding::PLAIN);
        let page = |buf| Page::DictionaryPage {
            buf,
            num_values: entries as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let (at, _) = self.write(plain, page)?;
        self.dictionary_at = Some(at);
        Ok(())
    }

    /// Writes a data page. `present` has a definition level for each row; `None` for required columns.
    pub fn page(
        &mut self,
        rows: usize,
        present: Option<&[u32]>,
        values: &[u8],
        encoding: Encoding,
        bounds: Bounds,
    ) -> Result<()> {
        let mut plain = Vec::with_capacity(values.len() + 64);
        let mut nulls = 0;
        if let Some(present) = present {
            plain.extend_from_slice(&[0; 4]);
            rle::encode(present, 1, &mut plain);
            let length = (plain.len() - 4) as u32;
            plain[..4].copy_from_slice(&length.to_le_bytes());
            nulls = present.iter().filter(|level| **level == 0).count();
        }
        plain.extend_from_slice(values);
        let page = |buf| Page::DataPage {
            buf,
            num_values: rows as u32,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let (at, size) = self.write(&plain, page)?;
        if !self.encodings.contains(&encoding) {
            self.encodings.push(encoding);
        }
        self.data_at.get_or_insert(at);
        self.offsets.append_offset_and_size(at, size as i32);
        self.offsets.append_row_count(rows as i64);
        if let Some((low, high)) = bounds {
            let physical = self.descriptor.physical_type();
            let index = self.bounds.get_or_insert_with(|| ColumnIndexBuilder::new(physical));
            index.append(false, low, high, nulls as i64);
        }
        self.rows += rows;
        self.nulls += nulls;
        Ok(())
    }

    fn write(&mut self, plain: &[u8], page: impl FnOnce(Bytes) -> Page) -> Result<(i64, usize)> {
        let packed = self.zstd.compress(plain).map_err(Error::io("compress a page"))?;
        let page = CompressedPage::new(page(packed.into()), plain.len());
        let mut pages = SerializedPageWriter::new(self.sink);
        let spec = pages.write_page(page).map_err(Error::parquet(self.file))?;
        self.bytes += spec.compressed_size as u64;
        self.bytes_plain += spec.uncompressed_size as u64;
        Ok((spec.offset as i64, spec.compressed_size))
    }

    pub fn finish(self, bounds: Bounds, bloom_filter: Option<Sbbf>) -> Result<ColumnCloseResult> {
        let physical = self.descriptor.physical_type();
        let mut chunk = ColumnChunkMetaData::builder(self.descriptor)
            .set_encodings(self.encodings)
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_total_compressed_size(self.bytes as i64)
            .set_total_uncompressed_size(self.bytes_plain as i64)
            .set_num_values(self.rows as i64)
            .set_data_page_offset(self.data_at.unwrap_or_default())
            .set_dictionary_page_offset(self.dictionary_at);
        if let Some(statistics) = statistics(physical, bounds, self.nulls) {
            chunk = chunk.set_statistics(statistics);
        }
        let column_index = self.bounds.map(ColumnIndexBuilder::build).transpose();
        Ok(ColumnCloseResult {
            bytes_written: self.bytes,
            rows_written: self.rows as u64,
            metadata: chunk.build().map_err(Error::parquet(self.file))?,
            bloom_filter,
            column_index: column_index.map_err(Error::parquet(self.file))?,
            offset_index: Some(self.offsets.build()),
        })
    }
}

fn statistics(physical: Physical, bounds: Bounds, nulls: usize) -> Option<Statistics> {
    let nulls = Some(nulls as u64);
    let (low, high) = bounds.unzip();
    Some(match physical {
        Physical::BYTE_ARRAY => {
            let (low, high) = (low.map(Into::into), high.map(Into::into));
            Statistics::ByteArray(ValueStatistics::new(low, high, None, nulls, false))
        }
        Physical::FIXED_LEN_BYTE_ARRAY => {
            let fixed = |bytes: Vec<u8>| parquet::data_type::ByteArray::from(bytes).into();
            let (low, high) = (low.map(fixed), high.map(fixed));
            Statistics::FixedLenByteArray(ValueStatistics::new(low, high, None, nulls, false))
        }
        Physical::INT64 => Statistics::Int64(ValueStatistics::new(None, None, None, nulls, false)),
        Physical::INT32 => Statistics::Int32(ValueStatistics::new(None, None, None, nulls, false)),
        Physical::DOUBLE => {
            Statistics::Double(ValueStatistics::new(None, None, None, nulls, false))
        }
        Physical::BOOLEAN => {
            Statistics::Boolean(ValueStatistics::new(None, None, None, nulls, false))
        }
        _ => return None,
    })
}

pub(crate) fn coded_leaf(name: &str, kind: Kind, required: bool) -> TypePtr {
    let (physical, logical) = match kind {
        Kind::Text | Kind::Json => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Kind::Int => (Physical::INT64, None),
        Kind::Float | Kind::Pointed => (Physical::DOUBLE, None),
        Kind::Bool => (Physical::BOOLEAN, None),
    };
    leaf(name, physical, logical, required, -1)
}

/// Writes one chunk of rows, given as codes into `dictionary`.
pub(crate) fn write_coded<W: Write + Send>(
    mut chunk: ChunkWriter<'_, W>,
    codes: &[u32],
    dictionary: &Dictionary,
    kind: Kind,
    required: bool,
) -> Result<ColumnCloseResult> {
    let (local, used) = localize(codes, dictionary.len());
    let present = local.iter().filter(|code| **code != ABSENT).count();
    let unique = used.len() * DICTIONARY_SHARE_MAX.1 > present * DICTIONARY_SHARE_MAX.0;
    let plain = kind == Kind::Bool || unique && used.len() > DICTIONARY_ALWAYS;
    if !plain {
        let mut entries = Vec::new();
        used.iter().for_each(|code| write_plain(dictionary.get(*code), kind, &mut entries));
        chunk.dictionary(&entries, used.len())?;
    }
    let width = rle::width_of((used.len() as u32).saturating_sub(1));
    let mut levels = Vec::new();
    let mut present = Vec::new();
    let mut values = Vec::new();
    for rows in local.chunks(PAGE_ROWS) {
        levels.clear();
        present.clear();
        values.clear();
        levels.extend(rows.iter().map(|code| u32::from(*code != ABSENT)));
        present.extend(rows.iter().copied().filter(|code| *code != ABSENT));
        let encoding = match (plain, kind) {
            (true, Kind::Bool) => {
                write_bools(&present, &used, dictionary, &mut values);
                Encoding::PLAIN
            }
            (true, _) => {
                let entry = |code: &u32| dictionary.get(used[*code as usize]);
                present.iter().for_each(|code| write_plain(entry(code), kind, &mut values));
                Encoding::PLAIN
            }
            (false, _) => {
                values.push(width as u8);
                rle::encode(&present, width, &mut values);
                Encoding::RLE_DICTIONARY
            }
        };
        let levels = (!required).then_some(levels.as_slice());
        chunk.page(rows.len(), levels, &values, encoding, None)?;
    }
    chunk.finish(if required { text_bounds(&used, dictionary) } else { None }, None)
}

fn text_bounds(used: &[u32], dictionary: &Dictionary) -> Bounds {
    let texts = || used.iter().map(|code| dictionary.get(*code).text());
    let (low, high) = (texts().min()?, texts().max()?);
    let short = low.len().max(high.len()) <= BOUND_BYTES_MAX;
    short.then(|| (low.as_bytes().to_vec(), high.as_bytes().to_vec()))
}

/// Renumbers codes in order of appearance; also returns the original code of every new one.
fn localize(codes: &[u32], entries: usize) -> (Vec<u32>, Vec<u32>) {
    let mut numbers = vec![ABSENT; entries];
    let mut used = Vec::new();
    let local = |code: &u32| {
        if *code == ABSENT {
            return ABSENT;
        }
        let number = &mut numbers[*code as usize];
        if *number == ABSENT {
            *number = used.len() as u32;
            used.push(*code);
        }
        *number
    };
    (codes.iter().map(local).collect(), used)
}

fn write_plain(value: Value<'_>, kind: Kind, out: &mut Vec<u8>) {
    // `Kind::of` chose the kind so that every literal parses.
    match kind {
        Kind::Int => {
            let int: i64 = value.text().parse().unwrap_or_default();
            out.extend_from_slice(&int.to_le_bytes());
        }
        Kind::Float | Kind::Pointed => {
            let float: f64 = value.text().parse().unwrap_or_default();
            out.extend_from_slice(&float.to_le_bytes());
        }
        Kind::Json if !matches!(value, Value::Json(_)) => write_text(&value.to_json(), out),
        _ => write_text(value.text(), out),
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn write_bools(present: &[u32], used: &[u32], dictionary: &Dictionary, out: &mut Vec<u8>) {
    let set = |code: &u32| dictionary.get(used[*code as usize]) == Value::Bool(true);
    for eight in present.chunks(8) {
        let byte = eight.iter().enumerate().map(|(bit, code)| u8::from(set(code)) << bit);
        out.push(byte.fold(0, |all, bit| all | bit));
    }
}
