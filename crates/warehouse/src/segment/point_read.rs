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
use crate::segment::rle;

/// A decompressed page.
#[derive(Debug)]
pub(crate) struct CachedPage {
    pub bytes: Bytes,
    first_row: usize,
    encoding: Encoding,
}

impl Segment {
    /// The column of some rows of a row group; `None` when the segment has no such column.
    pub fn column_at(&self, group: usize, field: &Field, rows: &[usize]) -> Result<Option<Column>> {
        let Some((column, kind)) = self.column_number(&field.name())? else { return Ok(None) };
        let mut plain_values = Dictionary::default();
        let mut codes = Vec::with_capacity(rows.len());
        for row in rows {
            let page = self.page_at(group, column, *row)?;
            let code = page.code(*row, kind, field.required(), &mut plain_values);
            codes.push(code.ok_or_else(|| self.undecodable())?);
        }
        let dictionary = self.dictionary_of(group, column, kind, plain_values)?;
        Ok(Some(Column { codes, dictionary }))
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
        let mut plain_values = Dictionary::default();
        let mut codes = Vec::with_capacity(rows.len());
        for row in rows {
            let page = self.page_at(group, column, *row)?;
            let code = page.code(*row, kind, true, &mut plain_values);
            codes.push(code.ok_or_else(|| self.undecodable())?);
        }
        Ok(codes)
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

    fn page_at(&self, group: usize, column: usize, row: usize) -> Result<Arc<CachedPage>> {
        let locations = self.locations(group, column)?;
        let next_page = locations.partition_point(|page| page.first_row_index as usize <= row);
        let index = next_page.checked_sub(1).ok_or_else(|| self.undecodable())?;
        let load = || {
            let location = locations[index].clone();
            let first_row = location.first_row_index as usize;
            let mut pages = self.page_reader(group, column, vec![location])?;
            let mut next = || {
                skip_dictionary(&mut pages)?;
                pages.get_next_page()
            };
            match next().map_err(|error| self.read_error(error))? {
                Some(Page::DataPage { buf, encoding, .. }) => {
                    Ok(Cached::Page(Arc::new(CachedPage { bytes: buf, first_row, encoding })))
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
    fn code(
        &self,
        row: usize,
        kind: Kind,
        required: bool,
        plain_values: &mut Dictionary,
    ) -> Option<u32> {
        let row = row.checked_sub(self.first_row)?;
        let (values, index) = match required {
            true => (&self.bytes[..], row),
            false => {
                let length = u32::from_le_bytes(self.bytes.get(..4)?.try_into().ok()?) as usize;
                let (present, before) = rle::rank(self.bytes.get(4..4 + length)?, row)?;
                if !present {
                    return Some(ABSENT);
                }
                (&self.bytes[4 + length..], before)
            }
        };
        match (self.encoding, kind) {
            (Encoding::RLE_DICTIONARY, _) => {
                let (&width, packed) = values.split_first()?;
                rle::get(packed, u32::from(width).min(32), index)
            }
            (Encoding::PLAIN, Kind::Bool) => {
                Some(u32::from(values.get(index / 8)? >> (index % 8) & 1))
            }
            (Encoding::PLAIN, Kind::Text | Kind::Json) => {
                let mut rest = values;
                for _ in 0..index {
                    let length = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?) as usize;
                    rest = rest.get(4 + length..)?;
                }
                decode::entries(rest, 1, kind, plain_values)?;
                Some(plain_values.len() as u32 - 1)
            }
            (Encoding::PLAIN, _) => {
                decode::entries(values.get(index * 8..)?, 1, kind, plain_values)?;
                Some(plain_values.len() as u32 - 1)
            }
            _ => None,
        }
    }
}
