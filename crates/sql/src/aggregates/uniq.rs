//! How many kinds of values there are, exactly.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use facts::IdSet;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};

use super::own::never_in_parts;
use super::whole::{Whole, encoded};
use super::{counted, only};
use crate::error;

#[derive(Debug)]
pub(crate) struct Uniq;

impl Whole for Uniq {
    fn of(&self, args: &[ArrayRef]) -> error::Result<ScalarValue> {
        let rows = encoded(args)?;
        let kinds: HashSet<&[u8]> = rows.iter().map(|row| row.data()).collect();
        Ok(ScalarValue::UInt64(Some(kinds.len() as u64)))
    }
}

/// Which values each group has. Values get numbers, since groups share most of them, and sets of
/// small numbers cost a fraction of sets of values.
pub(crate) struct Kinds {
    numbers: Numbers,
    groups: Groups,
}

/// Numbers by group. Of very many groups most have one, which needs no set.
#[derive(Default)]
struct Groups {
    /// Nothing, a number, or where its set is.
    firsts: Vec<u32>,
    sets: Vec<IdSet>,
    measured_bytes: usize,
    /// Rows since.
    added: usize,
}

/// No group has as many values as this, nor are there as many groups: there is no memory for them.
const SETS: u32 = 1 << 31;
const NOTHING: u32 = u32::MAX;

impl Groups {
    fn insert(&mut self, group: usize, number: u32) {
        let first = &mut self.firsts[group];
        if *first == NOTHING {
            *first = number;
        } else if *first >= SETS {
            self.sets[(*first - SETS) as usize].insert(number);
        } else if *first != number {
            let mut set = IdSet::default();
            set.insert(*first);
            set.insert(number);
            *first = SETS + self.sets.len() as u32;
            self.sets.push(set);
        }
    }

    fn count(&self, first: u32) -> u64 {
        match first.checked_sub(SETS) {
            None => 1,
            Some(_) if first == NOTHING => 0,
            Some(set) => self.sets[set as usize].count(),
        }
    }

    /// Looking at every set costs as much as filling it, so it is done again only when as many may
    /// have grown.
    fn measure(&mut self, rows: usize) {
        self.added += rows;
        if self.added >= self.sets.len() {
            self.added = 0;
            self.measured_bytes = self.sets.iter().map(IdSet::bytes).sum();
        }
    }

    fn bytes(&self) -> usize {
        let firsts = self.firsts.capacity() * size_of::<u32>();
        firsts + self.measured_bytes + self.sets.capacity() * size_of::<IdSet>()
    }
}

enum Numbers {
    /// Values that fit into a word.
    Words {
        as_type: DataType,
        known: HashMap<u64, u32>,
    },
    Uuids(Uuids),
    /// Any other: the rows as bytes, one after the other.
    Rows(Box<Rows>),
}

/// In the order of their numbers, and a table of those: one of uuids would be mostly empty room.
#[derive(Default)]
struct Uuids {
    known: Vec<u128>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

struct Rows {
    converter: RowConverter,
    bytes: Vec<u8>,
    /// Where each one's bytes end.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Kinds {
    pub(crate) fn new(types: Vec<DataType>) -> Result<Self> {
        let numbers = match &types[..] {
            [ty] if word(ty).is_some() => Numbers::Words {
                as_type: word(ty).unwrap_or(DataType::UInt64),
                known: HashMap::new(),
            },
            [DataType::FixedSizeBinary(16)] => Numbers::Uuids(Uuids::default()),
            _ => Numbers::Rows(Box::new(Rows {
                converter: RowConverter::new(types.into_iter().map(SortField::new).collect())?,
                bytes: Vec::new(),
                ends: Vec::new(),
                table: HashTable::new(),
                hasher: DefaultHashBuilder::default(),
            })),
        };
        Ok(Self { numbers, groups: Groups::default() })
    }
}

/// The whole number of 64 bits that stands for a value of this type.
fn word(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Boolean
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64 => Some(DataType::UInt64),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Date32
        | DataType::Timestamp(..) => Some(DataType::Int64),
        _ => None,
    }
}

impl Uuids {
    fn number(&mut self, uuid: u128) -> u32 {
        let Self { known, table, hasher } = self;
        let hash = hasher.hash_one(uuid);
        if let Some(number) = table.find(hash, |number| known[*number as usize] == uuid) {
            return *number;
        }
        let new = known.len() as u32;
        table.insert_unique(hash, new, |number| hasher.hash_one(known[*number as usize]));
        known.push(uuid);
        new
    }
}

impl Rows {
    fn number(&mut self, row: &[u8]) -> u32 {
        let Self { bytes, ends, table, hasher, .. } = self;
        let start = |at: usize| if at == 0 { 0 } else { ends[at - 1] };
        let own = |at: u32| &bytes[start(at as usize)..ends[at as usize]];
        let hash = hasher.hash_one(row);
        if let Some(known) = table.find(hash, |at| own(*at) == row) {
            return *known;
        }
        let new = ends.len() as u32;
        table.insert_unique(hash, new, |at| hasher.hash_one(own(*at)));
        bytes.extend_from_slice(row);
        ends.push(bytes.len());
        new
    }
}

impl GroupsAccumulator for Kinds {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        let Self { numbers, groups: own } = self;
        own.firsts.resize(groups_total, NOTHING);
        let rows = counted(values, filter)?;
        let counts = |row: usize| rows.as_ref().is_none_or(|rows| rows.value(row));
        let counted = groups.iter().enumerate().filter(|(row, _)| counts(*row));
        match numbers {
            Numbers::Words { as_type, known } => {
                let words = match as_type {
                    DataType::Int64 => reinterpreted(&cast(&values[0], &DataType::Int64)?)?,
                    _ => cast(&values[0], &DataType::UInt64)?,
                };
                let words = words.as_primitive::<UInt64Type>();
                for (row, group) in counted {
                    let new = known.len() as u32;
                    own.insert(*group, *known.entry(words.value(row)).or_insert(new));
                }
            }
            Numbers::Uuids(known) => {
                let uuids = values[0].as_fixed_size_binary();
                for (row, group) in counted {
                    let Ok(uuid) = uuids.value(row).try_into() else { continue };
                    own.insert(*group, known.number(u128::from_ne_bytes(uuid)));
                }
            }
            Numbers::Rows(known) => {
                let encoded = known.converter.convert_columns(&only(values, rows.as_ref())?)?;
                for ((_, group), row) in counted.zip(encoded.iter()) {
                    own.insert(*group, known.number(row.data()));
                }
            }
        }
        own.measure(groups.len());
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let firsts = emit_to.take_needed(&mut self.groups.firsts);
        let count = |first: &u32| self.groups.count(*first);
        Ok(Arc::new(firsts.iter().map(count).collect::<UInt64Array>()))
    }

    fn size(&self) -> usize {
        let numbers = match &self.numbers {
            Numbers::Words { known, .. } => known.allocation_size(),
            Numbers::Uuids(own) => {
                own.known.capacity() * size_of::<u128>() + own.table.allocation_size()
            }
            Numbers::Rows(known) => {
                known.bytes.capacity()
                    + known.ends.capacity() * size_of::<usize>()
                    + known.table.allocation_size()
            }
        };
        numbers + self.groups.bytes()
    }

    never_in_parts!();
}

fn reinterpreted(array: &ArrayRef) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().data_type(DataType::UInt64).build()?;
    Ok(arrow::array::make_array(data))
}

#[cfg(test)]
mod tests {
    use arrow::array::{FixedSizeBinaryArray, Int32Array, StringArray};

    use super::*;

    /// Two batches of the same values; the second has one group more.
    fn check(values: ArrayRef, expected: [u64; 3]) {
        let mut kinds = Kinds::new(vec![values.data_type().clone()]).unwrap();
        kinds.update_batch(std::slice::from_ref(&values), &[0, 0, 1, 1, 0], None, 2).unwrap();
        kinds.update_batch(&[values], &[0, 2, 1, 2, 0], None, 3).unwrap();
        assert!(kinds.size() > 0);
        let first = kinds.evaluate(EmitTo::First(1)).unwrap();
        let rest = kinds.evaluate(EmitTo::All).unwrap();
        let all = [first, rest].map(|one| one.as_primitive::<UInt64Type>().values().to_vec());
        assert_eq!(all.concat(), expected);
    }

    #[test]
    fn kinds_are_counted_for_each_group_whatever_their_type() {
        check(Arc::new(StringArray::from(vec!["a", "b", "a", "b", ""])), [3, 2, 1]);
        check(
            Arc::new(Int32Array::from(vec![Some(-1), Some(7), Some(-1), None, Some(7)])),
            [2, 1, 1],
        );
        let uuids = [[1u8; 16], [2; 16], [1; 16], [3; 16], [2; 16]];
        let uuids = FixedSizeBinaryArray::try_from_iter(uuids.iter()).unwrap();
        check(Arc::new(uuids), [2, 2, 2]);
    }
}
