//! A segment and its metadata; reads of pages, dictionaries and bloom filters.

pub(crate) mod columns;

use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::columns::{Dictionary, PROPERTY_PREFIX, Value};
use crate::manifest::SegmentEntry;
use crate::segment::cache::{Cache, CacheItem, Cached};
use crate::segment::decode::{self, DataPage};
use crate::segment::footer::{FOOTER_KEY, Footer, Run};
use crate::segment::kind::Kind;
use crate::segment::source::Source;
use crate::{Error, Result};

/// A segment: its entry in the manifest, and its file, which is opened on first use.
#[derive(Debug)]
pub(crate) struct Segment {
    pub entry: SegmentEntry,
    pub path: PathBuf,
    opened: OnceLock<Opened>,
    pub cache: Arc<Cache>,
}

#[derive(Debug)]
struct Opened {
    file: Arc<Source>,
    metadata: ParquetMetaData,
    /// Column index and kind by column name.
    columns: HashMap<String, (usize, Kind)>,
    runs: Vec<Vec<Run>>,
    /// First row of every row group, followed by the total number of rows.
    starts: Vec<usize>,
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.cache.close_file(self.entry.id);
    }
}

impl Segment {
    pub fn new(entry: SegmentEntry, path: PathBuf, cache: Arc<Cache>) -> Segment {
        Segment { entry, path, opened: OnceLock::new(), cache }
    }

    fn opened(&self) -> Result<&Opened> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let opened = Opened::open(&self.entry, &self.path, &self.cache)
            .inspect_err(|error| self.record(error))?;
        Ok(self.opened.get_or_init(|| opened))
    }

    pub fn groups(&self) -> Result<usize> {
        Ok(self.opened()?.starts.len() - 1)
    }

    /// Rows of a row group, as rows of the segment.
    pub fn group_rows(&self, group: usize) -> Result<Range<usize>> {
        let starts = &self.opened()?.starts;
        Ok(starts[group]..starts[group + 1])
    }

    /// The row group of a row of the segment.
    pub fn group_of(&self, row: usize) -> Result<usize> {
        Ok(self.opened()?.starts.partition_point(|start| *start <= row) - 1)
    }

    /// Runs of events of a row group in file order; empty if there are too many to list.
    pub fn runs(&self, group: usize) -> Result<&[Run]> {
        Ok(&self.opened()?.runs[group])
    }

    /// Properties that have a column, with the number of rows of the row group that have a value.
    pub fn properties(&self, group: usize) -> Result<Vec<(&str, usize)>> {
        let opened = self.opened()?;
        let present = |column: usize| {
            let chunk = opened.chunk(group, column);
            let nulls =
                chunk.statistics().and_then(|statistics| statistics.null_count_opt()).unwrap_or(0);
            chunk.num_values() as usize - nulls as usize
        };
        let names = opened.columns.iter().filter_map(|(name, (column, _))| {
            Some((name.strip_prefix(PROPERTY_PREFIX)?, present(*column)))
        });
        Ok(names.collect())
    }

    /// The chunk's dictionary, or for a chunk in PLAIN encoding the values from its pages.
    pub fn dictionary_of(
        &self,
        group: usize,
        column: usize,
        kind: Kind,
        plain_values: Dictionary,
    ) -> Result<Arc<Dictionary>> {
        match self.opened()?.chunk(group, column).dictionary_page_offset() {
            Some(_) => self.dictionary(group, column, kind),
            None if kind == Kind::Bool => Ok(Arc::new(both_bools())),
            None => Ok(Arc::new(plain_values)),
        }
    }

    pub fn column_number(&self, name: &str) -> Result<Option<(usize, Kind)>> {
        Ok(self.opened()?.columns.get(name).copied())
    }

    pub fn locations(&self, group: usize, column: usize) -> Result<&[PageLocation]> {
        Ok(self.opened()?.locations(group, column))
    }

    pub fn cached(
        &self,
        group: usize,
        part: CacheItem,
        load: impl FnOnce() -> Result<Cached>,
    ) -> Result<Cached> {
        self.cache.get(self.entry.id, group, part, load)
    }

    fn dictionary(&self, group: usize, column: usize, kind: Kind) -> Result<Arc<Dictionary>> {
        let load = || {
            let (bytes, entries) = self.dictionary_page(group, column)?;
            // Each string is preceded by its length in four bytes.
            let text_bytes = bytes.len().saturating_sub(4 * entries);
            let mut dictionary = Dictionary::with_capacity(entries.min(bytes.len()), text_bytes);
            decode::entries(&bytes, entries, kind, &mut dictionary)
                .ok_or_else(|| self.undecodable())?;
            Ok(Cached::Dictionary(Arc::new(dictionary)))
        };
        match self.cached(group, CacheItem::Dictionary(column), load)? {
            Cached::Dictionary(dictionary) => Ok(dictionary),
            _ => Err(self.undecodable()),
        }
    }

    fn dictionary_page(&self, group: usize, column: usize) -> Result<(Bytes, usize)> {
        let locations = self.opened()?.locations(group, column).to_vec();
        match self.page_reader(group, column, locations)?.get_next_page() {
            Ok(Some(Page::DictionaryPage { buf, num_values, .. })) => {
                Ok((buf, num_values as usize))
            }
            Ok(_) => Err(self.undecodable()),
            Err(error) => Err(self.read_error(error)),
        }
    }

    pub fn uuids(&self, group: usize, rows: Range<usize>) -> Result<Vec<[u8; 16]>> {
        let column = self.opened()?.column_index("uuid").ok_or_else(|| self.undecodable())?;
        let mut uuids = Vec::with_capacity(rows.len());
        let first = self.pages(group, column, rows.clone(), |page| {
            decode::uuids(page.bytes, page.rows, &mut uuids)
        })?;
        trim(&mut uuids, first, &rows);
        Ok(uuids)
    }

    /// The parts of `rows` in pages whose uuid bounds include one of `sorted`.
    pub fn uuid_pages(
        &self,
        group: usize,
        rows: Range<usize>,
        sorted: &[[u8; 16]],
    ) -> Result<Vec<Range<usize>>> {
        let opened = self.opened()?;
        let column = opened.column_index("uuid").ok_or_else(|| self.undecodable())?;
        let index = opened.metadata.column_index().map(|index| &index[group][column]);
        let may_hold = |page: usize| match index {
            Some(ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(index)) => {
                match (index.min_value(page), index.max_value(page)) {
                    (Some(low), Some(high)) => {
                        let at = sorted.partition_point(|uuid| uuid.as_slice() < low);
                        sorted.get(at).is_some_and(|uuid| uuid.as_slice() <= high)
                    }
                    _ => true,
                }
            }
            _ => true,
        };
        let starts =
            opened.locations(group, column).iter().map(|page| page.first_row_index as usize);
        let ends = starts.clone().skip(1).chain([opened.group_size(group)]);
        let parts = starts.zip(ends).map(|(start, end)| start.max(rows.start)..end.min(rows.end));
        let parts = parts.enumerate().filter(|(_, part)| !part.is_empty());
        Ok(parts.filter(|(page, _)| may_hold(*page)).map(|(_, part)| part).collect())
    }

    /// The bloom filter over the row group's uuids.
    pub fn filter(&self, group: usize) -> Result<Arc<Sbbf>> {
        let load = || {
            let opened = self.opened()?;
            let column = opened.column_index("uuid").ok_or_else(|| self.undecodable())?;
            let chunk = opened.chunk(group, column);
            let filter = Sbbf::read_from_column_chunk(chunk, &*opened.file)
                .map_err(|error| self.read_error(error))?;
            Ok(Cached::Filter(Arc::new(filter.ok_or_else(|| self.undecodable())?)))
        };
        match self.cached(group, CacheItem::Filter, load)? {
            Cached::Filter(filter) => Ok(filter),
            _ => Err(self.undecodable()),
        }
    }

    /// Calls `each` for the pages that overlap `rows`; returns the first row of the first page.
    fn pages(
        &self,
        group: usize,
        column: usize,
        rows: Range<usize>,
        mut each: impl FnMut(DataPage<'_>) -> Option<()>,
    ) -> Result<usize> {
        let (locations, first) = self.opened()?.locations_of(group, column, &rows);
        let mut pages = self.page_reader(group, column, locations)?;
        let mut read = || {
            skip_dictionary(&mut pages)?;
            while let Some(page) = pages.get_next_page()? {
                let Page::DataPage { buf, num_values, encoding, .. } = page else { continue };
                if each(DataPage { bytes: &buf, rows: num_values as usize, encoding }).is_none() {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        match read().map_err(|error| self.read_error(error))? {
            true => Ok(first),
            false => Err(self.undecodable()),
        }
    }

    pub fn page_reader(
        &self,
        group: usize,
        column: usize,
        locations: Vec<PageLocation>,
    ) -> Result<SerializedPageReader<Source>> {
        let opened = self.opened()?;
        let (chunk, rows) = (opened.chunk(group, column), opened.group_size(group));
        SerializedPageReader::new(opened.file.clone(), chunk, rows, Some(locations))
            .map_err(|error| self.read_error(error))
    }

    /// Access to the bytes of the file.
    pub fn source(&self) -> Result<&Source> {
        Ok(&self.opened()?.file)
    }

    /// Names the column and row group that a range of bytes belongs to, for error messages.
    pub fn column_over(&self, bytes: Range<u64>) -> Result<String> {
        let opened = self.opened()?;
        for (at, group) in opened.metadata.row_groups().iter().enumerate() {
            for chunk in group.columns() {
                let (start, length) = chunk.byte_range();
                if start < bytes.end && bytes.start < start + length {
                    return Ok(format!(
                        "column {} of row group {at}",
                        chunk.column_path().string()
                    ));
                }
            }
        }
        Ok("no column".into())
    }

    /// Records that the segment is corrupted; returns the error.
    pub fn mark_corrupt(&self, what: impl ToString) -> Error {
        let error = Error::corrupt(&self.path, what);
        self.cache.record_corruption(self.entry.id, &error);
        error
    }

    /// Converts an error of Parquet's reader and records it.
    pub fn read_error(&self, error: ParquetError) -> Error {
        let error = Error::parquet(&self.path)(error);
        self.record(&error);
        error
    }

    /// Records why the segment cannot be read. An I/O error may be transient, so it does not become
    /// [`Error::Corrupt`]; but merges skip a segment with media errors.
    fn record(&self, error: &Error) {
        match error {
            Error::Io { source, .. } if error.is_media_error() => {
                self.mark_corrupt(format!("it cannot be read: {source}"));
            }
            Error::Io { .. } => {
                tracing::warn!(file = %self.path.display(), %error, "a segment cannot be read");
            }
            _ => self.cache.record_corruption(self.entry.id, error),
        }
    }

    /// Runs `read` and turns a panic into an error. Parquet's reader panics on some corrupted files,
    /// which only segments without checksums let through.
    pub fn catch_decoder_panics<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.entry.checks.is_some() {
            return read();
        }
        catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(self.undecodable()))
    }

    /// The error for a column that does not decode.
    pub fn undecodable(&self) -> Error {
        self.mark_corrupt("a column does not decode")
    }
}

/// Skips the dictionary page: the page reader treats everything before the first page as one.
pub(crate) fn skip_dictionary(
    pages: &mut SerializedPageReader<Source>,
) -> parquet::errors::Result<()> {
    if pages.peek_next_page()?.is_some_and(|page| page.is_dict) {
        pages.skip_next_page()?;
    }
    Ok(())
}

fn trim<T>(values: &mut Vec<T>, first: usize, rows: &Range<usize>) {
    values.truncate(rows.end.saturating_sub(first));
    values.drain(..rows.start.saturating_sub(first).min(values.len()));
}

fn both_bools() -> Dictionary {
    let mut dictionary = Dictionary::default();
    dictionary.push(Value::Bool(false));
    dictionary.push(Value::Bool(true));
    dictionary
}

impl Opened {
    fn open(entry: &SegmentEntry, path: &Path, cache: &Arc<Cache>) -> Result<Opened> {
        let (file, metadata) = Source::open(entry, path, cache)?;
        let notes = metadata.file_metadata().key_value_metadata();
        let note = notes.and_then(|notes| notes.iter().find(|note| note.key == FOOTER_KEY));
        let note = note.and_then(|note| note.value.as_deref());
        let note = note.ok_or_else(|| Error::corrupt(path, "no footer of this product"))?;
        let footer: Footer =
            serde_json::from_str(note).map_err(|error| Error::corrupt(path, error))?;
        let schema = metadata.file_metadata().schema_descr();
        let kinds: HashMap<_, _> =
            footer.columns.into_iter().map(|note| (note.field, note.kind)).collect();
        let column = |(at, column): (usize, &parquet::schema::types::ColumnDescPtr)| {
            let kind = kinds.get(column.name()).copied().unwrap_or(Kind::Int);
            (column.name().to_owned(), (at, kind))
        };
        let columns = schema.columns().iter().enumerate().map(column).collect();
        let mut starts = vec![0];
        for group in metadata.row_groups() {
            starts.push(starts[starts.len() - 1] + group.num_rows().max(0) as usize);
        }
        if starts[starts.len() - 1] as u64 != entry.rows {
            return Err(Error::corrupt(path, "its row groups have other rows than were written"));
        }
        if footer.runs.len() != metadata.num_row_groups() || metadata.offset_index().is_none() {
            return Err(Error::corrupt(path, "the footer misses row groups"));
        }
        Ok(Opened { file: Arc::new(file), metadata, columns, runs: footer.runs, starts })
    }

    fn chunk(&self, group: usize, column: usize) -> &parquet::file::metadata::ColumnChunkMetaData {
        self.metadata.row_group(group).column(column)
    }

    fn group_size(&self, group: usize) -> usize {
        self.starts[group + 1] - self.starts[group]
    }

    fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.get(name).map(|(column, _)| *column)
    }

    fn locations(&self, group: usize, column: usize) -> &[PageLocation] {
        let index = self.metadata.offset_index();
        index.map_or(&[], |index| index[group][column].page_locations())
    }

    /// The pages that overlap `rows`, and the first row of the first page.
    fn locations_of(
        &self,
        group: usize,
        column: usize,
        rows: &Range<usize>,
    ) -> (Vec<PageLocation>, usize) {
        let all = self.locations(group, column);
        let from = all.partition_point(|page| page.first_row_index as usize <= rows.start);
        let to = all.partition_point(|page| (page.first_row_index as usize) < rows.end);
        let pages = &all[from.saturating_sub(1).min(to)..to];
        (pages.to_vec(), pages.first().map_or(0, |page| page.first_row_index as usize))
    }

    fn rows_of(&self, pages: &[PageLocation], group: usize, column: usize) -> usize {
        let Some(last) = pages.last() else { return 0 };
        let is_later = |page: &&PageLocation| page.first_row_index > last.first_row_index;
        let next = self.locations(group, column).iter().find(is_later);
        let end = next.map_or(self.group_size(group), |page| page.first_row_index as usize);
        end - pages[0].first_row_index as usize
    }
}
