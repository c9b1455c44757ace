//! Properties get a column each, apart from the rare ones, which share a JSON column. A property
//! may change sides at every merge.

use std::collections::{BTreeSet, HashMap};

use crate::Result;
use crate::block::rest_json;
use crate::dictionary::{ABSENT, Interner};
use crate::fields::{Field, PROPERTY_COLUMNS_MAX, RARE_ONE_IN};
use crate::json;
use crate::merge::order::Output;
use crate::merge::{United, Uniting, write_united};
use crate::segment::write::SegmentWriter;
use crate::slab::Slab;
use crate::value::Value;

type JsonMembers = Vec<(String, String)>;

pub(super) fn write(
    slabs: &[Slab],
    outputs: &[Output],
    writers: &mut [SegmentWriter],
) -> Result<()> {
    let rests = Rests::read(slabs)?;
    let counts = count(slabs, &rests)?;
    let rows = outputs.iter().map(|output| output.order.len()).sum();
    let kept = choose(&counts, rows);
    let mut promoted = rests.promoted(&kept);
    let mut demoted: HashMap<u32, JsonMembers> = HashMap::new();
    for (name, _) in counts {
        let field = Field::Property(name.as_str().into());
        if kept.contains(&name) {
            let united = unite(slabs, &field, promoted.remove(&name).unwrap_or_default())?;
            write_united(&united, &field, outputs, writers)?;
        } else {
            demote(slabs, &field, &name, &mut demoted)?;
        }
    }
    if rests.any() || !demoted.is_empty() {
        write_united(&rests.without(&kept, demoted), &Field::Rest, outputs, writers)?;
    }
    Ok(())
}

/// Sorted by name.
fn count(slabs: &[Slab], rests: &Rests) -> Result<Vec<(String, usize)>> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for slab in slabs {
        for (name, rows) in slab.properties()? {
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

fn choose(counts: &[(String, usize)], rows: usize) -> BTreeSet<String> {
    let mut frequent: Vec<&(String, usize)> =
        counts.iter().filter(|(_, count)| count * RARE_ONE_IN >= rows).collect();
    frequent.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    frequent.into_iter().take(PROPERTY_COLUMNS_MAX).map(|(name, _)| name.clone()).collect()
}

/// The rest columns of all slabs, taken apart.
struct Rests(Vec<Rest>);

struct Rest {
    first_row: u32,
    codes: Vec<u32>,
    entries: Vec<JsonMembers>,
}

impl Rests {
    fn read(slabs: &[Slab]) -> Result<Rests> {
        let mut rests = Vec::new();
        let mut first_row = 0;
        for slab in slabs {
            if let Some(column) = slab.column(&Field::Rest, 0..slab.rows())? {
                let members = |entry: Value<'_>| {
                    let mut members = Vec::new();
                    let each = |name: &str, value: Value<'_>| {
                        members.push((name.to_owned(), value.to_json()));
                    };
                    let _ = json::members(entry.text(), each);
                    members
                };
                let entries = column.dictionary.iter().map(members).collect();
                rests.push(Rest { first_row, codes: column.codes.clone(), entries });
            }
            first_row += slab.rows() as u32;
        }
        // The end, so that the rows behind the last rest are known too.
        rests.push(Rest { first_row, codes: Vec::new(), entries: Vec::new() });
        Ok(Rests(rests))
    }

    fn any(&self) -> bool {
        self.0.iter().any(|rest| !rest.entries.is_empty())
    }

    /// Entries and on how many rows they are.
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

    /// Values of kept properties that have been in a rest until now.
    fn promoted(&self, kept: &BTreeSet<String>) -> HashMap<String, Vec<(u32, &str)>> {
        let mut promoted: HashMap<String, Vec<(u32, &str)>> = HashMap::new();
        for (row, members) in self.rows() {
            for (name, json) in members.iter().filter(|(name, _)| kept.contains(name)) {
                promoted.entry(name.clone()).or_default().push((row, json));
            }
        }
        promoted
    }

    /// The new rest: what is not kept, and what came from columns.
    fn without(&self, kept: &BTreeSet<String>, mut demoted: HashMap<u32, JsonMembers>) -> United {
        let rows = self.0.last().map_or(0, |end| end.first_row as usize);
        let mut codes = vec![ABSENT; rows];
        let mut interner = Interner::default();
        for (row, members) in self.rows() {
            let stays = members.iter().filter(|(name, _)| !kept.contains(name)).cloned();
            let mut members: JsonMembers = stays.collect();
            members.extend(demoted.remove(&row).unwrap_or_default());
            if !members.is_empty() {
                codes[row as usize] = interner.intern(Value::Json(&rest_json(&mut members)));
            }
        }
        for (row, mut members) in demoted {
            codes[row as usize] = interner.intern(Value::Json(&rest_json(&mut members)));
        }
        United { codes, dictionary: interner.dictionary }
    }
}

fn unite(slabs: &[Slab], field: &Field, promoted: Vec<(u32, &str)>) -> Result<United> {
    let mut uniting = Uniting::default();
    for slab in slabs {
        match slab.column(field, 0..slab.rows())? {
            Some(column) => uniting.add(&column.codes, &column.dictionary),
            None => uniting.skip(slab.rows()),
        }
    }
    for (row, json) in promoted {
        let code = json::with_value(json, |value| uniting.interner.intern(value));
        uniting.codes[row as usize] = code.unwrap_or(ABSENT);
    }
    Ok(uniting.finish())
}

fn demote(
    slabs: &[Slab],
    field: &Field,
    name: &str,
    demoted: &mut HashMap<u32, JsonMembers>,
) -> Result<()> {
    let mut first_row = 0;
    for slab in slabs {
        if let Some(column) = slab.column(field, 0..slab.rows())? {
            for (row, code) in (first_row..).zip(&column.codes) {
                if *code != ABSENT {
                    let json = column.dictionary.get(*code).to_json();
                    demoted.entry(row).or_default().push((name.to_owned(), json));
                }
            }
        }
        first_row += slab.rows() as u32;
    }
    Ok(())
}
