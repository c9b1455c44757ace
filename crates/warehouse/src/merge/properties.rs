//! Property columns: each property gets a column, except the rare ones, which share
//! `properties_rest`. Every merge decides this anew, so it may promote or demote a property.

use std::collections::{BTreeSet, HashMap};

use crate::Result;
use crate::columns::json;
use crate::columns::{
    ABSENT, Field, Interner, PROPERTY_COLUMNS_MAX, RARE_ONE_IN, Value, rest_json,
};
use crate::merge::plan::Output;
use crate::merge::{ColumnMerger, MergedColumn, write_merged};
use crate::read::row_set::RowSet;
use crate::segment::write::SegmentWriter;

type JsonMembers = Vec<(String, String)>;

pub(super) fn write(
    row_sets: &[RowSet],
    outputs: &[Output],
    writers: &mut [SegmentWriter],
) -> Result<()> {
    let rests = Rests::read(row_sets)?;
    let counts = count(row_sets, &rests)?;
    let rows = outputs.iter().map(|output| output.order.len()).sum();
    let with_column = choose_columns(&counts, rows);
    let mut promoted = rests.promoted(&with_column);
    let mut demoted: HashMap<u32, JsonMembers> = HashMap::new();
    for (name, _) in counts {
        let field = Field::Property(name.as_str().into());
        if with_column.contains(&name) {
            let merged =
                merge_column(row_sets, &field, promoted.remove(&name).unwrap_or_default())?;
            write_merged(&merged, &field, outputs, writers)?;
        } else {
            demote(row_sets, &field, &name, &mut demoted)?;
        }
    }
    if rests.any() || !demoted.is_empty() {
        write_merged(&rests.without(&with_column, demoted), &Field::Rest, outputs, writers)?;
    }
    Ok(())
}

/// Rows per property, sorted by name.
fn count(row_sets: &[RowSet], rests: &Rests) -> Result<Vec<(String, usize)>> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for row_set in row_sets {
        for (name, rows) in row_set.properties()? {
            match counts.get_mut(name) {
                Some(count) => *count += rows,
                None => drop(counts.insert(name.to_owned(), rows)),
            }
        }
    }
    for (members, rows) in rests.entries() {
        for (name, _) in members {
            *counts.entry(name.clone()).or_default() += rows;
        }
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_unstable();
    Ok(counts)
}

fn choose_columns(counts: &[(String, usize)], rows: usize) -> BTreeSet<String> {
    let mut frequent: Vec<&(String, usize)> =
        counts.iter().filter(|(_, count)| count * RARE_ONE_IN >= rows).collect();
    frequent.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    frequent.into_iter().take(PROPERTY_COLUMNS_MAX).map(|(name, _)| name.clone()).collect()
}

/// The decoded `properties_rest` columns of all row sets.
struct Rests(Vec<Rest>);

struct Rest {
    first_row: u32,
    codes: Vec<u32>,
    entries: Vec<JsonMembers>,
}

impl Rests {
    fn read(row_sets: &[RowSet]) -> Result<Rests> {
        let mut rests = Vec::new();
        let mut first_row = 0;
        for row_set in row_sets {
            if let Some(column) = row_set.column(&Field::Rest, 0..row_set.rows())? {
                let members = |entry: Value<'_>| {
                    let mut members = Vec::new();
                    let each = |name: &str, value: Value<'_>| {
                        members.push((name.to_owned(), value.to_json()));
                    };
                    let _ = json::for_each_json_member(entry.text(), each);
                    members
                };
                let entries = column.dictionary.iter().map(members).collect();
                rests.push(Rest { first_row, codes: column.codes.clone(), entries });
            }
            first_row += row_set.rows() as u32;
        }
        // A sentinel that holds the total number of rows.
        rests.push(Rest { first_row, codes: Vec::new(), entries: Vec::new() });
        Ok(Rests(rests))
    }

    fn any(&self) -> bool {
        self.0.iter().any(|rest| !rest.entries.is_empty())
    }

    /// Entries with the number of rows that have them.
    fn entries(&self) -> impl Iterator<Item = (&JsonMembers, usize)> {
        self.0.iter().flat_map(|rest| {
            let mut rows = vec![0; rest.entries.len()];
            let present = rest.codes.iter().filter(|code| **code != ABSENT);
            present.for_each(|code| rows[*code as usize] += 1);
            rest.entries.iter().zip(rows)
        })
    }

    /// Rows with their entries.
    fn rows(&self) -> impl Iterator<Item = (u32, &JsonMembers)> {
        self.0.iter().flat_map(|rest| {
            let rows = (rest.first_row..).zip(&rest.codes);
            let present = rows.filter(|(_, code)| **code != ABSENT);
            present.map(|(row, code)| (row, &rest.entries[*code as usize]))
        })
    }

    /// Values of properties that get a column and were in `properties_rest`.
    fn promoted(&self, with_column: &BTreeSet<String>) -> HashMap<String, Vec<(u32, &str)>> {
        let mut promoted: HashMap<String, Vec<(u32, &str)>> = HashMap::new();
        for (row, members) in self.rows() {
            for (name, json) in members.iter().filter(|(name, _)| with_column.contains(name)) {
                promoted.entry(name.clone()).or_default().push((row, json));
            }
        }
        promoted
    }

    /// The new `properties_rest`: members without a column, and demoted ones.
    fn without(
        &self,
        with_column: &BTreeSet<String>,
        mut demoted: HashMap<u32, JsonMembers>,
    ) -> MergedColumn {
        let rows = self.0.last().map_or(0, |end| end.first_row as usize);
        let mut codes = vec![ABSENT; rows];
        let mut interner = Interner::default();
        for (row, members) in self.rows() {
            let stays = members.iter().filter(|(name, _)| !with_column.contains(name)).cloned();
            let mut members: JsonMembers = stays.collect();
            members.extend(demoted.remove(&row).unwrap_or_default());
            if !members.is_empty() {
                codes[row as usize] = interner.intern(Value::Json(&rest_json(&mut members)));
            }
        }
        for (row, mut members) in demoted {
            codes[row as usize] = interner.intern(Value::Json(&rest_json(&mut members)));
        }
        MergedColumn { codes, dictionary: interner.dictionary }
    }
}

fn merge_column(
    row_sets: &[RowSet],
    field: &Field,
    promoted: Vec<(u32, &str)>,
) -> Result<MergedColumn> {
    let mut merger = ColumnMerger::default();
    for row_set in row_sets {
        match row_set.column(field, 0..row_set.rows())? {
            Some(column) => merger.add(&column.codes, &column.dictionary),
            None => merger.skip(row_set.rows()),
        }
    }
    for (row, json) in promoted {
        let code = json::with_json_value(json, |value| merger.interner.intern(value));
        merger.codes[row as usize] = code.unwrap_or(ABSENT);
    }
    Ok(merger.finish())
}

fn demote(
    row_sets: &[RowSet],
    field: &Field,
    name: &str,
    demoted: &mut HashMap<u32, JsonMembers>,
) -> Result<()> {
    let mut first_row = 0;
    for row_set in row_sets {
        if let Some(column) = row_set.column(field, 0..row_set.rows())? {
            for (row, code) in (first_row..).zip(&column.codes) {
                if *code != ABSENT {
                    let json = column.dictionary.get(*code).to_json();
                    demoted.entry(row).or_default().push((name.to_owned(), json));
                }
            }
        }
        first_row += row_set.rows() as u32;
    }
    Ok(())
}
