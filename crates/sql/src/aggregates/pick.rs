//! `any`, `anyLast`, `argMin` and `argMax`: the value of one row of a group.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::custom::{GroupState, no_partial_aggregation, of_same_type};
use super::group_function::{GroupFunction, encoded};
use super::{counted_rows, filter_arrays};
use crate::error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    First,
    Last,
    /// By the second argument; ties go to the first row.
    Least,
    Greatest,
}

impl Pick {
    /// Whether a row with the key `new` replaces one with the key `old`.
    fn prefers(self, new: &[u8], old: &[u8]) -> bool {
        match self {
            Self::First => false,
            Self::Last => true,
            Self::Least => new.cmp(old) == Ordering::Less,
            Self::Greatest => new.cmp(old) == Ordering::Greater,
        }
    }

    const fn has_key(self) -> bool {
        matches!(self, Self::Least | Self::Greatest)
    }
}

impl GroupFunction for Pick {
    fn evaluate(&self, args: &[ArrayRef]) -> error::Result<ScalarValue> {
        if args[0].is_empty() {
            return Ok(ScalarValue::try_from(args[0].data_type())?);
        }
        let row = match self {
            Self::First => 0,
            Self::Last => args[0].len() - 1,
            Self::Least | Self::Greatest => {
                let keys = encoded(&args[1..])?;
                (1..keys.num_rows()).fold(0, |best, row| {
                    let better = self.prefers(keys.row(row).data(), keys.row(best).data());
                    if better { row } else { best }
                })
            }
        };
        Ok(ScalarValue::try_from_array(&args[0], row)?)
    }
}

/// The picked row of each group.
pub(crate) struct PickAccumulator {
    pick: Pick,
    ty: DataType,
    converter: Option<RowConverter>,
    /// Picked values, some of which were replaced since.
    chunks: Vec<ArrayRef>,
    rows: usize,
    locations: Vec<Option<(u32, u32)>>,
    keys: Vec<Box<[u8]>>,
    bytes: usize,
    key_bytes: usize,
}

/// How many times more values than groups are kept before replaced ones are dropped.
const SLACK: usize = 2;
const ROWS_MIN: usize = 16 * 1024;

impl PickAccumulator {
    pub(crate) fn new(pick: Pick, types: Vec<DataType>) -> Result<Self> {
        let keys: Vec<SortField> = types[1..].iter().cloned().map(SortField::new).collect();
        Ok(Self {
            pick,
            ty: types[0].clone(),
            converter: if pick.has_key() { Some(RowConverter::new(keys)?) } else { None },
            chunks: Vec::new(),
            rows: 0,
            locations: Vec::new(),
            keys: Vec::new(),
            bytes: 0,
            key_bytes: 0,
        })
    }

    fn values(&self, locations: &[Option<(u32, u32)>]) -> Result<ArrayRef> {
        if locations.is_empty() {
            return Ok(new_empty_array(&self.ty));
        }
        let none = new_null_array(&self.ty, 1);
        let mut chunks: Vec<&dyn Array> = self.chunks.iter().map(|chunk| &**chunk).collect();
        chunks.push(&none);
        let missing = (self.chunks.len(), 0);
        let locations: Vec<(usize, usize)> = locations
            .iter()
            .map(|location| location.map_or(missing, |(chunk, row)| (chunk as usize, row as usize)))
            .collect();
        Ok(interleave(&chunks, &locations)?)
    }

    fn add(&mut self, chunk: ArrayRef) -> Result<()> {
        self.rows += chunk.len();
        self.bytes += chunk.to_data().get_slice_memory_size()?;
        self.chunks.push(chunk);
        Ok(())
    }

    /// Drops replaced values once there are too many.
    fn compact(&mut self) -> Result<()> {
        if self.rows <= SLACK * self.locations.len() + ROWS_MIN {
            return Ok(());
        }
        let values = self.values(&self.locations)?;
        let locations = self.locations.iter_mut().enumerate();
        locations.for_each(|(row, location)| {
            *location = location.map(|_| (0, row as u32));
        });
        (self.rows, self.bytes) = (0, 0);
        self.chunks.clear();
        self.add(values)
    }
}

impl GroupState for PickAccumulator {
    fn merge(&mut self, other: Box<dyn GroupState>, groups: &[usize], total: usize) -> Result<()> {
        self.locations.resize(total, None);
        if self.pick.has_key() {
            self.keys.resize(total, Box::default());
        }
        let Some(mut other) = of_same_type::<Self>(other) else { return Ok(()) };
        let chunk = self.chunks.len() as u32;
        let mut picked: Vec<Option<(u32, u32)>> = Vec::new();
        for (there, group) in groups.iter().enumerate() {
            let Some(location) = other.locations.get(there).copied().flatten() else { continue };
            let key = other.keys.get_mut(there).map(std::mem::take).unwrap_or_default();
            let old = self.keys.get(*group).map_or(&[] as &[u8], |key| key);
            if self.locations[*group].is_some() && !self.pick.prefers(&key, old) {
                continue;
            }
            self.locations[*group] = Some((chunk, picked.len() as u32));
            picked.push(Some(location));
            if let Some(stored) = self.keys.get_mut(*group) {
                self.key_bytes = self.key_bytes + key.len() - stored.len();
                *stored = key;
            }
        }
        if !picked.is_empty() {
            self.add(other.values(&picked)?)?;
        }
        self.compact()
    }
}

impl GroupsAccumulator for PickAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.locations.resize(groups_total, None);
        if self.pick.has_key() {
            self.keys.resize(groups_total, Box::default());
        }
        let rows = counted_rows(values, filter)?;
        let values = filter_arrays(values, rows.as_ref())?;
        let counts = |row: usize| rows.as_ref().is_none_or(|rows| rows.value(row));
        let counted = groups.iter().enumerate().filter(|(row, _)| counts(*row));
        let keys = match &self.converter {
            Some(converter) => Some(converter.convert_columns(&values[1..])?),
            None => None,
        };
        let chunk = self.chunks.len() as u32;
        let mut picked: Vec<u32> = Vec::new();
        for (row, group) in counted.map(|(_, group)| *group).enumerate() {
            let key = keys.as_ref().map(|keys| keys.row(row));
            let key = key.as_ref().map_or(&[] as &[u8], |key| key.data());
            let location = &mut self.locations[group];
            let old = self.keys.get(group).map_or(&[] as &[u8], |key| key);
            if location.is_some() && !self.pick.prefers(key, old) {
                continue;
            }
            match location {
                // The group's row is from this batch: the new one replaces it.
                Some((of_chunk, at)) if *of_chunk == chunk => picked[*at as usize] = row as u32,
                _ => {
                    *location = Some((chunk, picked.len() as u32));
                    picked.push(row as u32);
                }
            }
            if let Some(stored) = self.keys.get_mut(group) {
                self.key_bytes = self.key_bytes + key.len() - stored.len();
                *stored = key.into();
            }
        }
        if !picked.is_empty() {
            self.add(take(&values[0], &UInt32Array::from(picked), None)?)?;
        }
        self.compact()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let locations = emit_to.take_needed(&mut self.locations);
        if self.pick.has_key() {
            emit_to.take_needed(&mut self.keys);
        }
        self.values(&locations)
    }

    fn size(&self) -> usize {
        let groups = self.locations.capacity() * size_of::<Option<(u32, u32)>>()
            + self.keys.capacity() * size_of::<Box<[u8]>>();
        self.bytes + self.key_bytes + groups
    }

    no_partial_aggregation!();
}
