//! Point reads: single rows. Decompressed pages are cached, and only the requested values of a page
//! are decoded.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};

use crate::Result;
use crate::columns::{ABSENT, Column, Dictionary, Field, IntColumn};
use crate::segment::cache::{CacheItem, Cached};
use crate::segment::chunk::PAGE_ROWS;
use crate::segment::decode;
use crate::segment::kind::Kind;
use crate::segment::read::{Segment, skip_dictionary};
use crate::segment::rle::{Cursor, RankCursor};

/// A decompressed page.
#[derive(Debug)]
pub(crate) struct CachedPage {
    pub bytes: Bytes,
    first_row: usize,
    /// The first row of the next page.
    end_row: usize,
    encoding: Encoding,
}

impl Segment {
    /// The column of some rows of a row group; `None` when the segment has no such column.
    pub fn column_at(&self, group: usize, field: &Field, rows: &[usize]) -> Result<Option<Column>> {
        let Some((column, kind)) = self.column_number(&field.name())? else { return Ok(None) };
        let mut plain_values = Dictionary::default();
        let codes =
            self.codes_at(group, column, kind, field.required(), rows, &mut plain_values)?;
        let dictionary = self.dictionary_of(group, column, kind, plain_values)?;
        Ok(Some(Column { codes, dictionary }))
    }

    /// The codes of some rows. Reads each page once, from its start to the last of the rows in it.
    fn codes_at(
        &self,
        group: usize,
        column: usize,
        kind: Kind,
        required: bool,
        rows: &[usize],
        plain_values: &mut Dictionary,
    ) -> Result<Vec<u32>> {
        let mut by_row: Vec<usize> = (0..rows.len()).collect();
        by_row.sort_unstable_by_key(|at| rows[*at]);
        let mut codes = vec![ABSENT; rows.len()];
        let mut left = &by_row[..];
        while let Some(first) = left.first() {
            let page = self.page_at(group, column, rows[*first])?;
            let mut reader =
                page.reader(kind, required, plain_values).ok_or_else(|| self.undecodable())?;
            let end = left.partition_point(|at| rows[*at] < page.end_row);
            let (in_page, later) = left.split_at(end.max(1));
            for at in in_page {
                codes[*at] = reader.code(rows[*at]).ok_or_else(|| self.undecodable())?;
            }
            left = later;
        }
        Ok(codes)
    }

    pub fn uuids_at(&self, group: usize, rows: &[usize]) -> Result<Vec<[u8; 16]>> {
        let (column, _) = self.column_number("uuid")?.ok_or_else(|| self.undecodable())?;
        let uuid = |row: &usize| {
            let page = self.page_at(group, column, *row)?;
            let (uuids, _) = page.bytes.as_chunks();
            uuids.get(row - page.first_row).copied().ok_or_else(|| self.undecodable())
        };
        rows.iter().map(uuid).collect()
    }

    pub fn distinct_nos_at(&self, group: usize, rows: &[usize]) -> Result<Vec<u32>> {
        let codes = self.plain_codes(group, "distinct_no", Kind::Int, rows)?;
        let numbers = self.distinct_dictionary(group)?;
        let number = |code: u32| numbers.get(code as usize).copied();
        codes.into_iter().map(|code| number(code).ok_or_else(|| self.undecodable())).collect()
    }

    pub fn historical_at(&self, group: usize, rows: &[usize]) -> Result<Vec<bool>> {
        let codes = self.plain_codes(group, "historical", Kind::Bool, rows)?;
        Ok(codes.into_iter().map(|code| code == 1).collect())
    }

    fn plain_codes(
        &self,
        group: usize,
        name: &str,
        kind: Kind,
        rows: &[usize],
    ) -> Result<Vec<u32>> {
        let (column, _) = self.column_number(name)?.ok_or_else(|| self.undecodable())?;
        self.codes_at(group, column, kind, true, rows, &mut Dictionary::default())
    }

    pub fn ints_at(&self, group: usize, number: IntColumn, rows: &[usize]) -> Result<Vec<i64>> {
        let end = self.group_rows(group)?.len();
        let mut pages: HashMap<usize, Vec<i64>> = HashMap::new();
        let mut values = Vec::with_capacity(rows.len());
        for row in rows {
            let first = row / PAGE_ROWS * PAGE_ROWS;
            let page = match pages.entry(first) {
                std::collections::hash_map::Entry::Occupied(cached) => cached.into_mut(),
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(self.ints(group, number, first..end.min(first + PAGE_ROWS))?)
                }
            };
            values.push(*page.get(row - first).ok_or_else(|| self.undecodable())?);
        }
        Ok(values)
    }

    pub fn page_at(&self, group: usize, column: usize, row: usize) -> Result<Arc<CachedPage>> {
        let locations = self.locations(group, column)?;
        let next_page = locations.partition_point(|page| page.first_row_index as usize <= row);
        let index = next_page.checked_sub(1).ok_or_else(|| self.undecodable())?;
        let load = || {
            let location = locations[index].clone();
            let first_row = location.first_row_index as usize;
            let next = locations.get(next_page).map(|page| page.first_row_index as usize);
            let end_row = next.unwrap_or(usize::MAX);
            let mut pages = self.page_reader(group, column, vec![location])?;
            let mut next = || {
                skip_dictionary(&mut pages)?;
                pages.get_next_page()
            };
            match next().map_err(|error| self.read_error(error))? {
                Some(Page::DataPage { buf, encoding, .. }) => {
                    Ok(Cached::Page(Arc::new(CachedPage {
                        bytes: buf,
                        first_row,
                        end_row,
                        encoding,
                    })))
                }
                _ => Err(self.undecodable()),
            }
        };
        match self.cached(group, CacheItem::Page(column, index), load)? {
            Cached::Page(page) => Ok(page),
            _ => Err(self.undecodable()),
        }
    }
}

impl CachedPage {
    /// The uuids of a page of that column, and the row of the first.
    pub fn uuids(&self) -> (&[[u8; 16]], usize) {
        (self.bytes.as_chunks().0, self.first_row)
    }

    fn reader<'p>(
        &'p self,
        kind: Kind,
        required: bool,
        plain_values: &'p mut Dictionary,
    ) -> Option<PageCodes<'p>> {
        let (levels, values) = match required {
            true => (None, &self.bytes[..]),
            false => {
                let length = u32::from_le_bytes(self.bytes.get(..4)?.try_into().ok()?) as usize;
                let levels = RankCursor::new(self.bytes.get(4..4 + length)?);
                (Some(levels), &self.bytes[4 + length..])
            }
        };
        let values = match (self.encoding, kind) {
            // Without a value there is no width either.
            (Encoding::RLE_DICTIONARY, _) => PageValues::Codes(match values.split_first() {
                Some((&width, packed)) => Cursor::new(packed, u32::from(width).min(32)),
                None => Cursor::new(&[], 0),
            }),
            (Encoding::PLAIN, Kind::Bool) => PageValues::Bits(values),
            (Encoding::PLAIN, Kind::Text | Kind::Json) => {
                PageValues::Texts { rest: values, next: 0 }
            }
            (Encoding::PLAIN, _) => PageValues::Numbers(values),
            _ => return None,
        };
        Some(PageCodes { first_row: self.first_row, levels, values, kind, plain_values })
    }
}

/// Reads codes of a page at ascending rows.
struct PageCodes<'p> {
    first_row: usize,
    /// Which rows have a value; `None` if all have.
    levels: Option<RankCursor<'p>>,
    values: PageValues<'p>,
    kind: Kind,
    plain_values: &'p mut Dictionary,
}

enum PageValues<'p> {
    Codes(Cursor<'p>),
    Bits(&'p [u8]),
    /// Strings after their lengths, from the one with index `next` on.
    Texts {
        rest: &'p [u8],
        next: usize,
    },
    /// Eight bytes each.
    Numbers(&'p [u8]),
}

impl PageCodes<'_> {
    fn code(&mut self, row: usize) -> Option<u32> {
        let row = row.checked_sub(self.first_row)?;
        let index = match &mut self.levels {
            None => row,
            Some(levels) => match levels.get(row)? {
                (false, _) => return Some(ABSENT),
                (true, before) => before,
            },
        };
        let plain_value = match &mut self.values {
            PageValues::Codes(codes) => return codes.get(index),
            PageValues::Bits(bits) => {
                return Some(u32::from(bits.get(index / 8)? >> (index % 8) & 1));
            }
            PageValues::Texts { rest, next } => {
                while *next < index {
                    let length = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
                    *rest = rest.get(4 + length..)?;
                    *next += 1;
                }
                *rest
            }
            PageValues::Numbers(numbers) => numbers.get(index * 8..)?,
        };
        decode::entries(plain_value, 1, self.kind, self.plain_values)?;
        Some(self.plain_values.len() as u32 - 1)
    }
}
