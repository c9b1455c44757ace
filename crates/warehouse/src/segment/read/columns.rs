//! Reads of whole columns: page by page, each decoded once and cached.

use std::ops::Range;
use std::sync::Arc;

use parquet::column::reader::{get_column_reader, get_typed_column_reader};
use parquet::data_type::Int64Type;

use super::{Segment, skip_dictionary, trim};
use crate::columns::{Column, Dictionary, Field, IntColumn};
use crate::segment::cache::{CacheItem, Cached};
use crate::segment::decode;
use crate::segment::kind::Kind;
use crate::segment::packed_ints::{PackedInt, PackedInts};
use crate::{Error, Result};

/// Row groups up to this size, as flushes write them, have their PLAIN columns cached whole: in few
/// rows most strings are unique, so the writer chose no dictionary.
const PLAIN_COLUMN_ROWS_MAX: usize = 128 << 10;

/// Reads of more rows than this bypass the cache: they would evict the columns that queries need.
pub(crate) const CACHED_READ_ROWS_MAX: usize = 128 << 10;

impl Segment {
    /// A column of some rows of a row group; `None` if the segment has no such column.
    pub fn column(
        &self,
        group: usize,
        field: &Field,
        rows: Range<usize>,
    ) -> Result<Option<Column>> {
        let Some((column, kind)) = self.column_number(&field.name())? else { return Ok(None) };
        let required = field.required();
        if self.opened()?.chunk(group, column).dictionary_page_offset().is_some() {
            let dictionary = self.dictionary(group, column, kind)?;
            let codes = self.decoded(group, column, rows, |rows| {
                Ok(self.codes(group, column, kind, required, rows)?.0)
            })?;
            return Ok(Some(Column { codes, dictionary }));
        }
        // Without a dictionary page, codes are valid only together with the values decoded with them.
        let read = |rows: Range<usize>| {
            let (codes, plain_values) = self.codes(group, column, kind, required, rows)?;
            Ok::<_, Error>((codes, self.dictionary_of(group, column, kind, plain_values)?))
        };
        let size = self.opened()?.group_size(group);
        if size > PLAIN_COLUMN_ROWS_MAX || rows.len() > CACHED_READ_ROWS_MAX {
            let (codes, dictionary) = read(rows)?;
            return Ok(Some(Column { codes, dictionary }));
        }
        let load = || {
            let (codes, dictionary) = read(0..size)?;
            Ok(Cached::PlainColumn(Arc::new((PackedInts::pack(&codes), dictionary))))
        };
        let Cached::PlainColumn(cached) =
            self.cached(group, CacheItem::PlainColumn(column), load)?
        else {
            return Err(self.undecodable());
        };
        let mut codes = Vec::with_capacity(rows.len());
        cached.0.read(rows, &mut codes).ok_or_else(|| self.undecodable())?;
        Ok(Some(Column { codes, dictionary: cached.1.clone() }))
    }

    /// Decodes codes, and for a PLAIN column the values they refer to.
    fn codes(
        &self,
        group: usize,
        column: usize,
        kind: Kind,
        required: bool,
        rows: Range<usize>,
    ) -> Result<(Vec<u32>, Dictionary)> {
        let mut codes = Vec::with_capacity(rows.len());
        let mut plain_values = Dictionary::default();
        let first = self.pages(group, column, rows.clone(), |page| {
            decode::codes(&page, kind, required, &mut plain_values, &mut codes)
        })?;
        trim(&mut codes, first, &rows);
        Ok((codes, plain_values))
    }

    /// Values of `rows` from cached pages; decodes and caches missing ones. Reads of more than
    /// [`CACHED_READ_ROWS_MAX`] rows, by merges, bypass the cache.
    fn decoded<T: PackedInt>(
        &self,
        group: usize,
        column: usize,
        rows: Range<usize>,
        read: impl Fn(Range<usize>) -> Result<Vec<T>>,
    ) -> Result<Vec<T>> {
        if rows.len() > CACHED_READ_ROWS_MAX {
            return read(rows);
        }
        let opened = self.opened()?;
        let pages = opened.locations(group, column);
        let end_of = |page: usize| {
            let next = pages.get(page + 1).map(|page| page.first_row_index as usize);
            next.unwrap_or_else(|| opened.group_size(group))
        };
        let mut page = pages.partition_point(|page| page.first_row_index as usize <= rows.start);
        page = page.saturating_sub(1);
        let mut out = Vec::with_capacity(rows.len());
        while out.len() < rows.len() {
            let location = pages.get(page).ok_or_else(|| self.undecodable())?;
            let page_rows = location.first_row_index as usize..end_of(page);
            let load =
                || Ok(Cached::Decoded(Arc::new(PackedInts::pack(&read(page_rows.clone())?))));
            let Cached::Decoded(values) =
                self.cached(group, CacheItem::Decoded(column, page), load)?
            else {
                return Err(self.undecodable());
            };
            let from = rows.start + out.len() - page_rows.start;
            let to = rows.end.min(page_rows.end) - page_rows.start;
            values.read(from..to, &mut out).ok_or_else(|| self.undecodable())?;
            page += 1;
        }
        Ok(out)
    }

    pub fn ints(&self, group: usize, number: IntColumn, rows: Range<usize>) -> Result<Vec<i64>> {
        let column =
            self.opened()?.column_index(number.name()).ok_or_else(|| self.undecodable())?;
        self.decoded(group, column, rows, |rows| self.read_ints(group, column, rows))
    }

    fn read_ints(&self, group: usize, column: usize, rows: Range<usize>) -> Result<Vec<i64>> {
        let opened = self.opened()?;
        let (locations, first) = opened.locations_of(group, column, &rows);
        let count = opened.rows_of(&locations, group, column);
        let mut pages = self.page_reader(group, column, locations)?;
        skip_dictionary(&mut pages).map_err(|error| self.read_error(error))?;
        let descriptor = opened.chunk(group, column).column_descr_ptr();
        let reader = get_column_reader(descriptor, Box::new(pages));
        let mut reader = get_typed_column_reader::<Int64Type>(reader);
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            let left = count - values.len();
            let (read, ..) = reader
                .read_records(left, None, None, &mut values)
                .map_err(|error| self.read_error(error))?;
            if read == 0 {
                return Err(self.undecodable());
            }
        }
        trim(&mut values, first, &rows);
        Ok(values)
    }

    pub fn distinct_nos(&self, group: usize, rows: Range<usize>) -> Result<Vec<u32>> {
        let column =
            self.opened()?.column_index("distinct_no").ok_or_else(|| self.undecodable())?;
        self.decoded(group, column, rows, |rows| {
            let dictionary = self.distinct_dictionary(group)?;
            let (codes, _) = self.codes(group, column, Kind::Int, true, rows)?;
            let distinct_no = |code: &u32| dictionary.get(*code as usize).copied();
            codes.iter().map(distinct_no).collect::<Option<_>>().ok_or_else(|| self.undecodable())
        })
    }

    /// The dense ids of the distinct ids in a row group.
    pub fn distinct_dictionary(&self, group: usize) -> Result<Arc<Vec<u32>>> {
        let load = || {
            let column =
                self.opened()?.column_index("distinct_no").ok_or_else(|| self.undecodable())?;
            let (bytes, _) = self.dictionary_page(group, column)?;
            let number = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            Ok(Cached::DistinctNos(Arc::new(bytes.chunks_exact(4).map(number).collect())))
        };
        match self.cached(group, CacheItem::DistinctNos, load)? {
            Cached::DistinctNos(numbers) => Ok(numbers),
            _ => Err(self.undecodable()),
        }
    }

    pub fn historical(&self, group: usize, rows: Range<usize>) -> Result<Vec<bool>> {
        let column = self.opened()?.column_index("historical").ok_or_else(|| self.undecodable())?;
        let (codes, _) = self.codes(group, column, Kind::Bool, true, rows)?;
        Ok(codes.into_iter().map(|code| code == 1).collect())
    }
}
