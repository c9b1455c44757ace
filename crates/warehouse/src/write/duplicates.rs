//! Compares duplicates with their stored rows: an unchanged one is not stored again.
//!
//! Values are compared with those of the columns. Only rows that differ there, or whose columns do not
//! hold every property, are read whole.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::Result;
use crate::columns::json::with_json_value;
use crate::columns::{ABSENT, Column, Field, GROUP_TYPES, IntColumn, NewRow, Value};
use crate::read::row_set::RowSet;
use crate::segment::{LiveSegment, Segment};
use crate::write::dedup::RowLocation;
use crate::write::warehouse::unless_corrupt;

/// A duplicate: its stored row in the row group, and the index of its new row.
type Duplicate = (usize, usize);

/// The indexes of the rows whose content equals their stored rows. A row in a corrupted segment does
/// not.
pub(crate) fn unchanged(
    segments: &[LiveSegment],
    rows: &[&NewRow<'_>],
    stored: &[Option<RowLocation>],
) -> Result<HashSet<usize>> {
    let mut by_group: BTreeMap<(usize, usize), Vec<Duplicate>> = BTreeMap::new();
    for (at, location) in stored.iter().enumerate() {
        let Some((index, row)) = *location else { continue };
        let segment = &segments[index].segment;
        let group = segment.group_of(row as usize)?;
        let row = row as usize - segment.group_rows(group)?.start;
        by_group.entry((index, group)).or_default().push((row, at));
    }
    let mut unchanged = HashSet::new();
    for ((index, group), mut duplicates) in by_group {
        duplicates.sort_unstable();
        let live = &segments[index];
        let compared =
            live.segment.catch_decoder_panics(|| compare(live, group, rows, &duplicates));
        if let Some(equal) = unless_corrupt(compared)? {
            unchanged.extend(equal);
        }
    }
    Ok(unchanged)
}

/// The indexes of the unchanged ones of the duplicates of a row group.
fn compare(
    live: &LiveSegment,
    group: usize,
    rows: &[&NewRow<'_>],
    duplicates: &[Duplicate],
) -> Result<Vec<usize>> {
    let rows_in_group: Vec<usize> = duplicates.iter().map(|(row, _)| *row).collect();
    let mut stored = StoredValues::read(&live.segment, group, &rows_in_group)?;
    let mut equal = Vec::new();
    let mut unclear: Vec<Duplicate> = Vec::new();
    for (at, duplicate) in duplicates.iter().enumerate() {
        match stored.equals(at, rows[duplicate.1]) {
            Some(true) => equal.push(duplicate.1),
            Some(false) => {}
            None => unclear.push(*duplicate),
        }
    }
    if unclear.is_empty() {
        return Ok(equal);
    }
    let row_set =
        RowSet::RowGroup { live: live.clone(), group, rows: live.segment.group_rows(group)? };
    let rows_in_group: Vec<usize> = unclear.iter().map(|(row, _)| *row).collect();
    let copies = row_set.event_rows(&rows_in_group)?;
    let same =
        copies.iter().zip(&unclear).filter(|(copy, (_, at))| copy.has_same_content(rows[*at]));
    equal.extend(same.map(|(_, (_, at))| *at));
    Ok(equal)
}

/// The content of some rows of a row group, by column.
struct StoredValues<'s> {
    timestamps: Vec<i64>,
    elements_chain: Option<Column>,
    groups: [Option<Column>; GROUP_TYPES],
    /// Rows with properties that have no column of their own.
    incomplete: Vec<bool>,
    properties: HashMap<&'s str, PropertyColumn>,
    /// How many property columns have a value in each row.
    present: Vec<usize>,
}

struct PropertyColumn {
    column: Column,
    /// The last row in which the property was compared.
    compared_at: Option<usize>,
}

impl<'s> StoredValues<'s> {
    fn read(segment: &'s Arc<Segment>, group: usize, rows: &[usize]) -> Result<Self> {
        let column = |field: &Field| segment.column_at(group, field, rows);
        let mut incomplete = vec![false; rows.len()];
        for field in [Field::Nulls, Field::Rest] {
            if let Some(column) = column(&field)? {
                for (mark, code) in incomplete.iter_mut().zip(&column.codes) {
                    *mark |= *code != ABSENT;
                }
            }
        }
        let mut groups: [Option<Column>; GROUP_TYPES] = Default::default();
        for (index, slot) in groups.iter_mut().enumerate() {
            *slot = column(&Field::Group(index))?;
        }
        let mut properties = HashMap::new();
        let mut present = vec![0; rows.len()];
        for (name, values) in segment.properties(group)? {
            let field = Field::Property(name.into());
            let Some(column) = (if values > 0 { column(&field)? } else { None }) else { continue };
            for (count, code) in present.iter_mut().zip(&column.codes) {
                *count += usize::from(*code != ABSENT);
            }
            properties.insert(name, PropertyColumn { column, compared_at: None });
        }
        Ok(Self {
            timestamps: segment.ints_at(group, IntColumn::Timestamp, rows)?,
            elements_chain: column(&Field::ElementsChain)?,
            groups,
            incomplete,
            properties,
            present,
        })
    }

    /// Whether the row at index `at` has the content of `new`; `None` if the columns alone do not
    /// tell.
    fn equals(&mut self, at: usize, new: &NewRow<'_>) -> Option<bool> {
        let chain = text_at(self.elements_chain.as_ref(), at).unwrap_or_default();
        let mut groups = self.groups.iter().zip(&new.groups);
        if self.timestamps[at] != new.timestamp.as_micros()
            || chain != new.elements_chain
            || groups.any(|(column, key)| text_at(column.as_ref(), at) != key.as_deref())
        {
            return Some(false);
        }
        if self.incomplete[at] {
            return None;
        }
        let (mut compared, mut same) = (0, true);
        new.properties.each(&mut |property| {
            let Some(stored) = self.properties.get_mut(property.name) else {
                same = false;
                return;
            };
            // Of a repeated name the last value counts.
            same &= stored.compared_at.replace(at) != Some(at);
            let code = stored.column.codes[at];
            let is_value = |value: Value<'_>| stored.column.dictionary.is(code, value);
            same &= code != ABSENT && with_json_value(property.json, is_value) == Some(true);
            compared += 1;
        });
        (same && compared == self.present[at]).then_some(true)
    }
}

fn text_at(column: Option<&Column>, at: usize) -> Option<&str> {
    column?.value(at).map(Value::text)
}
