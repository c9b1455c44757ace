//! Writes a segment column by column. Parquet stores row groups one after the other, so columns go to
//! a spill file first and are reordered at the end. A merge then decodes every column once and holds
//! one at a time.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, TimeUnit, Type as Physical, ZstdLevel};
use parquet::bloom_filter::Sbbf;
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{ColumnPath, TypePtr};

use crate::columns::{Dictionary, Field, IntColumn};
use crate::faults::FaultPoint;
use crate::manifest::SegmentChecksums;
use crate::manifest::StoreDir;
use crate::segment::checksums::ChecksumWriter;
use crate::segment::chunk::{self, ChunkWriter, PAGE_ROWS};
use crate::segment::footer::{ColumnNote, FOOTER_KEY, Footer, Run};
use crate::segment::kind::Kind;
use crate::segment::source::Spill;
use crate::{Error, Result};

/// Bloom filter bits per uuid. About one false positive in 30,000 lookups, because each costs reading
/// uuids of the row group.
const FILTER_BITS_PER_ROW: usize = 30;

/// Bytes per block of Parquet's split-block bloom filter.
const FILTER_BLOCK_BYTES: usize = 32;

pub(crate) struct SegmentWriter {
    path: PathBuf,
    spill_path: PathBuf,
    spill: TrackedWrite<BufWriter<File>>,
    zstd: zstd::bulk::Compressor<'static>,
    level: i32,
    rows: usize,
    row_group_rows: usize,
    leaves: Vec<TypePtr>,
    /// By row group, then by column.
    chunks: Vec<Vec<ColumnCloseResult>>,
    notes: Vec<ColumnNote>,
    column_bytes_max: u64,
}

/// The finished file.
pub(crate) struct Written {
    pub bytes: u64,
    /// The uncompressed size of the largest column: what a merge needs memory for.
    pub column_bytes_max: u64,
    pub checks: SegmentChecksums,
}

impl SegmentWriter {
    pub fn create(path: PathBuf, rows: usize, row_group_rows: usize, level: i32) -> Result<Self> {
        let spill_path = path.with_extension("spill");
        let mut options = OpenOptions::new();
        let spill = options.read(true).write(true).create(true).truncate(true).open(&spill_path);
        let spill = spill.map_err(Error::io("create a spill file"))?;
        let zstd = zstd::bulk::Compressor::new(level).map_err(Error::io("prepare compression"))?;
        let groups = rows.div_ceil(row_group_rows);
        Ok(SegmentWriter {
            path,
            spill_path,
            spill: TrackedWrite::new(BufWriter::with_capacity(1 << 20, spill)),
            zstd,
            level,
            rows,
            row_group_rows,
            leaves: Vec::new(),
            chunks: (0..groups).map(|_| Vec::new()).collect(),
            notes: Vec::new(),
            column_bytes_max: 0,
        })
    }

    fn groups(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let (rows, size) = (self.rows, self.row_group_rows);
        (0..self.chunks.len()).map(move |group| (group, group * size..rows.min((group + 1) * size)))
    }

    fn add(&mut self, group: usize, chunk: ColumnCloseResult) {
        self.column_bytes_max =
            self.column_bytes_max.max(chunk.metadata.uncompressed_size().unsigned_abs());
        self.chunks[group].push(chunk);
    }

    pub fn coded(&mut self, field: &Field, codes: &[u32], dictionary: &Dictionary) -> Result<()> {
        let kind = match field {
            Field::Property(_) => Kind::of(dictionary),
            Field::Nulls | Field::Rest => Kind::Json,
            _ => Kind::Text,
        };
        let leaf = chunk::coded_leaf(&field.name(), kind, field.required());
        for (group, rows) in self.groups() {
            let writer = ChunkWriter::new(&mut self.spill, &self.path, &mut self.zstd, &leaf);
            let codes = &codes[rows];
            let done = chunk::write_coded(writer, codes, dictionary, kind, field.required())?;
            self.add(group, done);
        }
        self.leaves.push(leaf);
        self.notes.push(ColumnNote { field: field.name(), kind });
        Ok(())
    }

    pub fn ints(&mut self, number: IntColumn, values: &[i64]) -> Result<()> {
        let logical = match number {
            IntColumn::Timestamp | IntColumn::CreatedAt => {
                Some(LogicalType::timestamp(true, TimeUnit::MICROS))
            }
            IntColumn::Position => None,
        };
        let leaf = chunk::leaf(number.name(), Physical::INT64, logical, true, -1);
        let path = ColumnPath::from(number.name());
        let properties = WriterProperties::builder()
            .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled(path, false)
            .set_compression(Compression::ZSTD(self.zstd_level()))
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_statistics_enabled(EnabledStatistics::Page)
            .build();
        let properties = Arc::new(properties);
        for (group, rows) in self.groups() {
            let pages = Box::new(SerializedPageWriter::new(&mut self.spill));
            let writer = get_column_writer(chunk::descriptor(&leaf), properties.clone(), pages);
            let mut writer = get_typed_column_writer::<Int64Type>(writer);
            let written = writer.write_batch(&values[rows], None, None);
            written.map_err(Error::parquet(&self.path))?;
            let done = writer.close().map_err(Error::parquet(&self.path))?;
            self.add(group, done);
        }
        self.leaves.push(leaf);
        Ok(())
    }

    fn zstd_level(&self) -> ZstdLevel {
        ZstdLevel::try_new(self.level).unwrap_or_default()
    }

    pub fn uuids(&mut self, uuids: &[[u8; 16]]) -> Result<()> {
        let leaf =
            chunk::leaf("uuid", Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), true, 16);
        for (group, rows) in self.groups() {
            let uuids = &uuids[rows];
            let mut writer = ChunkWriter::new(&mut self.spill, &self.path, &mut self.zstd, &leaf);
            for page in uuids.chunks(PAGE_ROWS) {
                let bounds = uuid_bounds(page);
                // BYTE_STREAM_SPLIT would compress v7 uuids better, but not every reader of the open
                // format supports it.
                writer.page(page.len(), None, page.as_flattened(), Encoding::PLAIN, bounds)?;
            }
            let done = writer.finish(uuid_bounds(uuids), Some(filter_of(uuids)))?;
            self.add(group, done);
        }
        self.leaves.push(leaf);
        Ok(())
    }

    pub fn distinct_nos(&mut self, numbers: &[u32]) -> Result<()> {
        let logical = Some(LogicalType::integer(32, false));
        let leaf = chunk::leaf("distinct_no", Physical::INT32, logical, true, -1);
        for (group, rows) in self.groups() {
            let mut codes = HashMap::with_hasher(hashbrown::DefaultHashBuilder::default());
            let mut entries = Vec::new();
            let code = |number: &u32| {
                *codes.entry(*number).or_insert_with(|| {
                    entries.extend_from_slice(&number.to_le_bytes());
                    (entries.len() / 4 - 1) as u32
                })
            };
            let local: Vec<u32> = numbers[rows].iter().map(code).collect();
            let mut writer = ChunkWriter::new(&mut self.spill, &self.path, &mut self.zstd, &leaf);
            writer.dictionary(&entries, entries.len() / 4)?;
            let width = super::rle::width_of((entries.len() / 4) as u32 - 1);
            for page in local.chunks(PAGE_ROWS) {
                let mut values = vec![width as u8];
                super::rle::encode(page, width, &mut values);
                writer.page(page.len(), None, &values, Encoding::RLE_DICTIONARY, None)?;
            }
            let done = writer.finish(None, None)?;
            self.add(group, done);
        }
        self.leaves.push(leaf);
        Ok(())
    }

    pub fn historical(&mut self, flags: &[bool]) -> Result<()> {
        let leaf = chunk::leaf("historical", Physical::BOOLEAN, None, true, -1);
        for (group, rows) in self.groups() {
            let mut writer = ChunkWriter::new(&mut self.spill, &self.path, &mut self.zstd, &leaf);
            for page in flags[rows].chunks(PAGE_ROWS) {
                let byte = |eight: &[bool]| {
                    let bits = eight.iter().enumerate().map(|(bit, set)| u8::from(*set) << bit);
                    bits.fold(0, |all, bit| all | bit)
                };
                let values: Vec<u8> = page.chunks(8).map(byte).collect();
                writer.page(page.len(), None, &values, Encoding::PLAIN, None)?;
            }
            let done = writer.finish(None, None)?;
            self.add(group, done);
        }
        self.leaves.push(leaf);
        Ok(())
    }

    /// Reorders the columns into row groups and makes the file durable.
    pub fn finish(mut self, store_dir: &StoreDir, runs: Vec<Vec<Run>>) -> Result<Written> {
        let corrupt = Error::parquet(&self.path);
        self.spill.flush().map_err(Error::io("write a spill file"))?;
        store_dir.step(FaultPoint::SegmentSpilled)?;
        let footer = Footer { columns: std::mem::take(&mut self.notes), runs };
        let note = KeyValue::new(FOOTER_KEY.to_owned(), footer.to_json());
        let properties = WriterProperties::builder()
            .set_created_by("hedgerow".to_owned())
            .set_key_value_metadata(Some(vec![note]))
            .build();
        let file = File::create(&self.path).map_err(Error::io("create a segment"))?;
        let schema = chunk::schema(std::mem::take(&mut self.leaves));
        let out = ChecksumWriter::new(BufWriter::with_capacity(1 << 20, file));
        let mut writer =
            SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(&corrupt)?;
        let spill = Spill::open(&self.spill_path)?;
        for columns in std::mem::take(&mut self.chunks) {
            let mut group = writer.next_row_group().map_err(&corrupt)?;
            for column in columns {
                group.append_column(&spill, column).map_err(&corrupt)?;
            }
            group.close().map_err(&corrupt)?;
        }
        // All bytes before the tail must have passed through the checksum writer.
        writer.flush().map_err(Error::io("write a segment"))?;
        let tail_at = writer.bytes_written() as u64;
        let sums = writer.inner_mut().begin_tail();
        writer.write_all(&sums).map_err(Error::io("write a segment"))?;
        let (tail_crc, out) = writer.into_inner().map_err(&corrupt)?.finish();
        let file =
            out.into_inner().map_err(|error| Error::io("write a segment")(error.into_error()))?;
        store_dir.step(FaultPoint::SegmentWritten)?;
        file.sync_all().map_err(Error::io("sync a segment"))?;
        let bytes = file.metadata().map_err(Error::io("read the metadata of a segment"))?.len();
        let _ = fs::remove_file(&self.spill_path);
        store_dir.step(FaultPoint::SegmentSynced)?;
        let checks = SegmentChecksums { tail_at, tail_crc };
        Ok(Written { bytes, column_bytes_max: self.column_bytes_max, checks })
    }
}

fn uuid_bounds(uuids: &[[u8; 16]]) -> chunk::Bounds {
    let (low, high) = (uuids.iter().min()?, uuids.iter().max()?);
    Some((low.to_vec(), high.to_vec()))
}

fn filter_of(uuids: &[[u8; 16]]) -> Sbbf {
    let blocks = (uuids.len() * FILTER_BITS_PER_ROW).div_ceil(FILTER_BLOCK_BYTES * 8).max(1);
    let mut filter = Sbbf::new(&vec![0; blocks * FILTER_BLOCK_BYTES]);
    uuids.iter().for_each(|uuid| filter.insert(uuid.as_slice()));
    filter
}
