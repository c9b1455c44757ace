//! How many kinds of values there are, exactly.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};

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

/// Which values each group has.
pub(crate) struct Kinds {
    set: Set,
    counts: Vec<u64>,
}

enum Set {
    /// Values that fit into a word.
    Words {
        numbers: DataType,
        set: HashSet<(u32, u64)>,
    },
    Uuids(HashSet<(u32, u128)>),
    /// Any other: the rows as bytes, one after the other.
    Rows(Box<ByteSet>),
}

struct ByteSet {
    converter: RowConverter,
    bytes: Vec<u8>,
    /// The group, and where its bytes end.
    entries: Vec<(u32, usize)>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Kinds {
    pub(crate) fn new(types: Vec<DataType>) -> Result<Self> {
        let set = match &types[..] {
            [ty] if word(ty).is_some() => {
                Set::Words { numbers: word(ty).unwrap_or(DataType::UInt64), set: HashSet::new() }
            }
            [DataType::FixedSizeBinary(16)] => Set::Uuids(HashSet::new()),
            _ => Set::Rows(Box::new(ByteSet {
                converter: RowConverter::new(types.into_iter().map(SortField::new).collect())?,
                bytes: Vec::new(),
                entries: Vec::new(),
                table: HashTable::new(),
                hasher: DefaultHashBuilder::default(),
            })),
        };
        Ok(Self { set, counts: Vec::new() })
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

impl ByteSet {
    fn entry(bytes: &[u8], entries: &[(u32, usize)], at: usize) -> (u32, std::ops::Range<usize>) {
        let start = if at == 0 { 0 } else { entries[at - 1].1 };
        debug_assert!(entries[at].1 <= bytes.len());
        (entries[at].0, start..entries[at].1)
    }

    /// Whether it is new.
    fn insert(&mut self, group: u32, row: &[u8]) -> bool {
        let Self { bytes, entries, table, hasher, .. } = self;
        let same = |at: &u32| {
            let (own, range) = Self::entry(bytes, entries, *at as usize);
            own == group && &bytes[range] == row
        };
        let hash = hasher.hash_one((group, row));
        if table.find(hash, same).is_some() {
            return false;
        }
        let at = entries.len() as u32;
        bytes.extend_from_slice(row);
        entries.push((group, bytes.len()));
        table.insert_unique(hash, at, |at| {
            let (group, range) = Self::entry(bytes, entries, *at as usize);
            hasher.hash_one((group, &bytes[range]))
        });
        true
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
        self.counts.resize(groups_total, 0);
        let rows = counted(values, filter)?;
        let counts = |row: usize| rows.as_ref().is_none_or(|rows| rows.value(row));
        match &mut self.set {
            Set::Words { numbers, set } => {
                let words = match numbers {
                    DataType::Int64 => reinterpreted(&cast(&values[0], &DataType::Int64)?)?,
                    _ => cast(&values[0], &DataType::UInt64)?,
                };
                let words = words.as_primitive::<UInt64Type>();
                for (row, group) in groups.iter().enumerate().filter(|(row, _)| counts(*row)) {
                    if set.insert((*group as u32, words.value(row))) {
                        self.counts[*group] += 1;
                    }
                }
            }
            Set::Uuids(set) => {
                let uuids = values[0].as_fixed_size_binary();
                for (row, group) in groups.iter().enumerate().filter(|(row, _)| counts(*row)) {
                    let uuid = uuids.value(row).try_into().map(u128::from_be_bytes);
                    if uuid.is_ok_and(|uuid| set.insert((*group as u32, uuid))) {
                        self.counts[*group] += 1;
                    }
                }
            }
            Set::Rows(set) => {
                let encoded = set.converter.convert_columns(&only(values, rows.as_ref())?)?;
                let counted = groups.iter().enumerate().filter(|(row, _)| counts(*row));
                for ((_, group), row) in counted.zip(encoded.iter()) {
                    if set.insert(*group as u32, row.data()) {
                        self.counts[*group] += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let counts = emit_to.take_needed(&mut self.counts);
        if let EmitTo::First(emitted) = emit_to {
            self.forget(emitted as u32);
        }
        Ok(Arc::new(UInt64Array::from(counts)))
    }

    fn size(&self) -> usize {
        let set = match &self.set {
            Set::Words { set, .. } => set.allocation_size(),
            Set::Uuids(set) => set.allocation_size(),
            Set::Rows(set) => {
                set.bytes.capacity()
                    + set.entries.capacity() * size_of::<(u32, usize)>()
                    + set.table.allocation_size()
            }
        };
        set + self.counts.capacity() * size_of::<u64>()
    }

    never_in_parts!();
}

impl Kinds {
    /// The first groups are done; the others move to the front.
    fn forget(&mut self, emitted: u32) {
        match &mut self.set {
            Set::Words { set, .. } => {
                let kept = set.drain().filter(|(group, _)| *group >= emitted);
                let kept: HashSet<_> = kept.map(|(group, word)| (group - emitted, word)).collect();
                *set = kept;
            }
            Set::Uuids(set) => {
                let kept = set.drain().filter(|(group, _)| *group >= emitted);
                let kept: HashSet<_> = kept.map(|(group, uuid)| (group - emitted, uuid)).collect();
                *set = kept;
            }
            Set::Rows(set) => {
                let (bytes, entries) =
                    (std::mem::take(&mut set.bytes), std::mem::take(&mut set.entries));
                set.table.clear();
                for at in 0..entries.len() {
                    let (group, range) = ByteSet::entry(&bytes, &entries, at);
                    if group >= emitted {
                        set.insert(group - emitted, &bytes[range]);
                    }
                }
            }
        }
    }
}

fn reinterpreted(array: &ArrayRef) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().data_type(DataType::UInt64).build()?;
    Ok(arrow::array::make_array(data))
}
