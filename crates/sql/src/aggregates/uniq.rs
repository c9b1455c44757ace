//! `uniq` and `uniqExact`: exact distinct counts.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, UInt32Array, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use facts::IdSet;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};

use super::custom::{GroupState, no_partial_aggregation, of_same_type};
use super::group_function::{GroupFunction, encoded};
use super::{counted_rows, filter_arrays};
use crate::error;

#[derive(Debug)]
pub(crate) struct Uniq;

impl GroupFunction for Uniq {
    fn evaluate(&self, args: &[ArrayRef]) -> error::Result<ScalarValue> {
        let rows = encoded(args)?;
        let counts: HashSet<&[u8]> = rows.iter().map(|row| row.data()).collect();
        Ok(ScalarValue::UInt64(Some(counts.len() as u64)))
    }
}

/// The distinct values of each group. Values are interned to dense codes: groups share most values,
/// and sets of small integers cost a fraction of sets of values.
pub(crate) struct DistinctCounts {
    codes: ValueCodes,
    groups: GroupSets,
}

/// The set of codes of each group. With very many groups most have one value, which needs no set.
#[derive(Default)]
struct GroupSets {
    /// For each group `EMPTY`, its only code, or `SETS` plus the index of its set.
    firsts: Vec<u32>,
    sets: Vec<IdSet>,
    measured_bytes: usize,
    /// Codes in all sets.
    measured_codes: usize,
    /// Rows added since the sets were measured.
    added: usize,
}

/// Separates codes from indexes of sets. No query has the memory for this many values or groups.
const SETS: u32 = 1 << 31;
const EMPTY: u32 = u32::MAX;

impl GroupSets {
    fn insert(&mut self, group: usize, code: u32) {
        let first = &mut self.firsts[group];
        if *first == EMPTY {
            *first = code;
        } else if *first >= SETS {
            self.sets[(*first - SETS) as usize].insert(code);
        } else if *first != code {
            let mut set = IdSet::default();
            set.insert(*first);
            set.insert(code);
            *first = SETS + self.sets.len() as u32;
            self.sets.push(set);
        }
    }

    /// The set of a group with several codes.
    fn set_mut(&mut self, group: usize) -> Option<&mut IdSet> {
        let first = self.firsts[group];
        let set = first.checked_sub(SETS).filter(|_| first != EMPTY)?;
        self.sets.get_mut(set as usize)
    }

    fn for_each(&self, first: u32, mut each: impl FnMut(u32)) {
        match first.checked_sub(SETS) {
            None => each(first),
            Some(_) if first == EMPTY => {}
            Some(set) => self.sets[set as usize].for_each(each),
        }
    }

    fn count(&self, first: u32) -> u64 {
        match first.checked_sub(SETS) {
            None => 1,
            Some(_) if first == EMPTY => 0,
            Some(set) => self.sets[set as usize].count(),
        }
    }

    /// Measuring all sets costs as much as filling them, so it happens only once as many rows were
    /// added as there are sets.
    fn measure(&mut self, rows: usize) {
        self.added += rows;
        if self.added >= self.sets.len() {
            self.added = 0;
            self.measured_bytes = self.sets.iter().map(IdSet::bytes).sum();
            self.measured_codes = self.sets.iter().map(|set| set.count() as usize).sum();
        }
    }

    fn bytes(&self) -> usize {
        let firsts = self.firsts.capacity() * size_of::<u32>();
        firsts + self.measured_bytes + self.sets.capacity() * size_of::<IdSet>()
    }
}

enum ValueCodes {
    /// Values of at most 64 bits.
    Words {
        ty: DataType,
        as_type: DataType,
        codes: HashMap<u64, u32>,
    },
    Uuids(Uuids),
    /// All other values, as encoded rows in one buffer.
    Rows(Box<EncodedRows>),
    /// The values are dense codes already.
    Codes,
}

/// Uuids by code, and a hash table of the codes: a table of uuids would be mostly empty slots.
#[derive(Default)]
struct Uuids {
    uuids: Vec<u128>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// Distinct rows, encoded as bytes, by code.
pub(crate) struct EncodedRows {
    converter: RowConverter,
    bytes: Vec<u8>,
    /// Where each row's bytes end.
    ends: Vec<usize>,
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl std::fmt::Debug for EncodedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EncodedRows({})", self.ends.len())
    }
}

impl DistinctCounts {
    pub(crate) fn new(types: Vec<DataType>) -> Result<Self> {
        let codes = match &types[..] {
            [ty] if word_type(ty).is_some() => ValueCodes::Words {
                ty: ty.clone(),
                as_type: word_type(ty).unwrap_or(DataType::UInt64),
                codes: HashMap::new(),
            },
            [DataType::FixedSizeBinary(16)] => ValueCodes::Uuids(Uuids::default()),
            _ => {
                let fields = types.into_iter().map(SortField::new);
                let converter = RowConverter::new(fields.collect())?;
                ValueCodes::Rows(Box::new(EncodedRows::new(converter)))
            }
        };
        Ok(Self { codes, groups: GroupSets::default() })
    }

    /// Of values that are dense codes.
    pub(crate) fn of_codes() -> Self {
        Self { codes: ValueCodes::Codes, groups: GroupSets::default() }
    }

    /// The codes of the values of groups, one group after the other, and how many each group has.
    pub(crate) fn take_codes(&mut self, emit_to: EmitTo) -> (Vec<u32>, Vec<usize>) {
        let firsts = emit_to.take_needed(&mut self.groups.firsts);
        let (mut codes, mut lengths) = (Vec::new(), Vec::with_capacity(firsts.len()));
        for first in firsts {
            let before = codes.len();
            self.groups.for_each(first, |code| codes.push(code));
            lengths.push(codes.len() - before);
        }
        (codes, lengths)
    }

    /// How many values all groups have together.
    pub(crate) fn total(&self) -> usize {
        self.groups.firsts.len() + self.groups.measured_codes
    }

    /// The mean size of a value.
    pub(crate) fn mean_bytes(&self) -> usize {
        match &self.codes {
            ValueCodes::Words { .. } => size_of::<u64>(),
            ValueCodes::Uuids(_) => size_of::<u128>(),
            ValueCodes::Rows(rows) => rows.bytes.len() / rows.ends.len().max(1),
            ValueCodes::Codes => size_of::<u32>(),
        }
    }

    /// The values with these codes.
    pub(crate) fn values(&self, codes: &UInt32Array) -> Result<ArrayRef> {
        match &self.codes {
            ValueCodes::Words { ty, as_type, codes: known } => {
                let mut words = vec![0; known.len()];
                known.iter().for_each(|(word, code)| words[*code as usize] = *word);
                let words = codes.values().iter().map(|code| words[*code as usize]);
                let words = UInt64Array::from_iter_values(words);
                match ty {
                    DataType::Timestamp(..) => reinterpreted(&words, ty),
                    DataType::Date32 => {
                        let days = cast(&reinterpreted(&words, as_type)?, &DataType::Int32)?;
                        Ok(cast(&days, ty)?)
                    }
                    ty => Ok(cast(&reinterpreted(&words, as_type)?, ty)?),
                }
            }
            ValueCodes::Uuids(known) => {
                let uuids = codes.values().iter();
                let uuids = uuids.map(|code| Some(known.uuids[*code as usize].to_ne_bytes()));
                Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(uuids, 16)?))
            }
            ValueCodes::Rows(rows) => rows.values(codes.values()),
            ValueCodes::Codes => Ok(Arc::new(codes.clone())),
        }
    }
}

/// The 64-bit type that values of this type are cast to, and told apart by their bits.
fn word_type(ty: &DataType) -> Option<DataType> {
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
        DataType::Float64 => Some(DataType::Float64),
        _ => None,
    }
}

impl Uuids {
    fn code(&mut self, uuid: u128) -> u32 {
        let Self { uuids, table, hasher } = self;
        let hash = hasher.hash_one(uuid);
        if let Some(code) = table.find(hash, |code| uuids[*code as usize] == uuid) {
            return *code;
        }
        let new = uuids.len() as u32;
        table.insert_unique(hash, new, |code| hasher.hash_one(uuids[*code as usize]));
        uuids.push(uuid);
        new
    }
}

impl EncodedRows {
    pub(crate) fn new(converter: RowConverter) -> Self {
        let (bytes, ends, table) = (Vec::new(), Vec::new(), HashTable::new());
        Self { converter, bytes, ends, table, hasher: DefaultHashBuilder::default() }
    }

    fn code(&mut self, row: &[u8]) -> u32 {
        let Self { bytes, ends, table, hasher, .. } = self;
        let start = |at: usize| if at == 0 { 0 } else { ends[at - 1] };
        let stored = |at: u32| &bytes[start(at as usize)..ends[at as usize]];
        let hash = hasher.hash_one(row);
        if let Some(code) = table.find(hash, |at| stored(*at) == row) {
            return *code;
        }
        let new = ends.len() as u32;
        table.insert_unique(hash, new, |at| hasher.hash_one(stored(*at)));
        bytes.extend_from_slice(row);
        ends.push(bytes.len());
        new
    }

    fn get(&self, code: u32) -> &[u8] {
        let at = code as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// The code of each row.
    pub(crate) fn codes(&mut self, columns: &[ArrayRef]) -> Result<Vec<u32>> {
        let rows = self.converter.convert_columns(columns)?;
        Ok(rows.iter().map(|row| self.code(row.data())).collect())
    }

    /// The first column of the rows with these codes.
    pub(crate) fn values(&self, codes: &[u32]) -> Result<ArrayRef> {
        let parser = self.converter.parser();
        let rows = codes.iter().map(|code| parser.parse(self.get(*code)));
        Ok(self.converter.convert_rows(rows)?.remove(0))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.table.allocation_size()
    }
}

impl ValueCodes {
    /// The codes here of another's values, which this gets.
    fn translate(&mut self, other: Self) -> Option<Vec<u32>> {
        match (self, other) {
            (Self::Words { codes, .. }, Self::Words { codes: others, .. }) => {
                let mut translation = vec![0; others.len()];
                for (word, code) in others {
                    let new = codes.len() as u32;
                    translation[code as usize] = *codes.entry(word).or_insert(new);
                }
                Some(translation)
            }
            (Self::Uuids(codes), Self::Uuids(others)) => {
                Some(others.uuids.into_iter().map(|uuid| codes.code(uuid)).collect())
            }
            (Self::Rows(codes), Self::Rows(others)) => {
                let all = 0..others.ends.len() as u32;
                Some(all.map(|code| codes.code(others.get(code))).collect())
            }
            // The same codes mean the same values.
            _ => None,
        }
    }
}

impl GroupState for DistinctCounts {
    fn merge(&mut self, other: Box<dyn GroupState>, groups: &[usize], total: usize) -> Result<()> {
        self.groups.firsts.resize(total, EMPTY);
        let Some(other) = of_same_type::<Self>(other) else { return Ok(()) };
        let translation = self.codes.translate(other.codes);
        let here = |code: u32| match &translation {
            Some(translation) => translation[code as usize],
            None => code,
        };
        let mut rows = 0;
        for (first, group) in other.groups.firsts.iter().zip(groups) {
            match first.checked_sub(SETS) {
                None => self.groups.insert(*group, here(*first)),
                Some(_) if *first == EMPTY => {}
                Some(set) => {
                    let set = &other.groups.sets[set as usize];
                    rows += set.count() as usize;
                    match (&translation, self.groups.set_mut(*group)) {
                        (None, Some(own)) => own.union(set),
                        _ => set.for_each(|code| self.groups.insert(*group, here(code))),
                    }
                }
            }
        }
        self.groups.measure(rows + groups.len());
        Ok(())
    }
}

impl GroupsAccumulator for DistinctCounts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        let Self { codes, groups: sets } = self;
        sets.firsts.resize(groups_total, EMPTY);
        let rows = counted_rows(values, filter)?;
        let counts = |row: usize| rows.as_ref().is_none_or(|rows| rows.value(row));
        let counted = groups.iter().enumerate().filter(|(row, _)| counts(*row));
        match codes {
            ValueCodes::Words { as_type, codes, .. } => {
                let words = reinterpreted(&cast(&values[0], as_type)?, &DataType::UInt64)?;
                let words = words.as_primitive::<UInt64Type>();
                for (row, group) in counted {
                    let new = codes.len() as u32;
                    sets.insert(*group, *codes.entry(words.value(row)).or_insert(new));
                }
            }
            ValueCodes::Uuids(codes) => {
                let uuids = values[0].as_fixed_size_binary();
                for (row, group) in counted {
                    let Ok(uuid) = uuids.value(row).try_into() else { continue };
                    sets.insert(*group, codes.code(u128::from_ne_bytes(uuid)));
                }
            }
            ValueCodes::Rows(codes) => {
                let codes = codes.codes(&filter_arrays(values, rows.as_ref())?)?;
                for ((_, group), code) in counted.zip(codes) {
                    sets.insert(*group, code);
                }
            }
            ValueCodes::Codes => {
                let codes = values[0].as_primitive::<UInt32Type>().values();
                match &rows {
                    None => {
                        for (group, code) in groups.iter().zip(codes) {
                            sets.insert(*group, *code);
                        }
                    }
                    Some(_) => counted.for_each(|(row, group)| sets.insert(*group, codes[row])),
                }
            }
        }
        sets.measure(groups.len());
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let firsts = emit_to.take_needed(&mut self.groups.firsts);
        let count = |first: &u32| self.groups.count(*first);
        Ok(Arc::new(firsts.iter().map(count).collect::<UInt64Array>()))
    }

    fn size(&self) -> usize {
        let codes = match &self.codes {
            ValueCodes::Words { codes, .. } => codes.allocation_size(),
            ValueCodes::Uuids(uuids) => {
                uuids.uuids.capacity() * size_of::<u128>() + uuids.table.allocation_size()
            }
            ValueCodes::Rows(rows) => rows.bytes(),
            ValueCodes::Codes => 0,
        };
        codes + self.groups.bytes()
    }

    no_partial_aggregation!();
}

/// The same bits as another type of 64 bits.
fn reinterpreted(array: &dyn Array, ty: &DataType) -> Result<ArrayRef> {
    let data = array.to_data().into_builder().data_type(ty.clone()).build()?;
    Ok(arrow::array::make_array(data))
}

#[cfg(test)]
mod tests {
    use arrow::array::{FixedSizeBinaryArray, Int32Array, StringArray};

    use super::*;

    /// Two batches of the same values; the second has one group more.
    fn check(values: ArrayRef, expected: [u64; 3]) {
        let mut counts = DistinctCounts::new(vec![values.data_type().clone()]).unwrap();
        counts.update_batch(std::slice::from_ref(&values), &[0, 0, 1, 1, 0], None, 2).unwrap();
        counts.update_batch(&[values], &[0, 2, 1, 2, 0], None, 3).unwrap();
        assert!(counts.size() > 0);
        let first = counts.evaluate(EmitTo::First(1)).unwrap();
        let rest = counts.evaluate(EmitTo::All).unwrap();
        let all = [first, rest].map(|part| part.as_primitive::<UInt64Type>().values().to_vec());
        assert_eq!(all.concat(), expected);
    }

    #[test]
    fn uniq_counts_distinct_values_of_each_group_for_every_type() {
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
