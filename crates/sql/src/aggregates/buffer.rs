//! Rows of all groups, kept until the groups are complete.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::own::never_in_parts;
use super::whole::Whole;
use super::{counted, only};
use crate::error::Error;

pub(crate) struct Buffer {
    whole: Arc<dyn Whole>,
    ty: DataType,
    chunks: Vec<Vec<ArrayRef>>,
    groups: Vec<u32>,
    groups_total: usize,
    bytes: usize,
}

/// Rows are held as they come, joined into one piece, and sorted by group.
const COPIES: usize = 3;

impl Buffer {
    pub(crate) fn new(whole: Arc<dyn Whole>, ty: DataType) -> Self {
        Self { whole, ty, chunks: Vec::new(), groups: Vec::new(), groups_total: 0, bytes: 0 }
    }

    /// The arguments of the rows of the first groups, by group; the others stay.
    fn sorted(&mut self, emitted: usize) -> Result<(Vec<ArrayRef>, Vec<usize>)> {
        let chunks = std::mem::take(&mut self.chunks);
        let columns = chunks.first().map_or(0, Vec::len);
        let mut ends = vec![0usize; emitted + 1];
        for group in self.groups.iter().filter(|group| (**group as usize) < emitted) {
            ends[*group as usize + 1] += 1;
        }
        for group in 0..emitted {
            ends[group + 1] += ends[group];
        }
        let mut next = ends.clone();
        let mut order = vec![0u64; ends[emitted]];
        let mut rest = Vec::new();
        for (row, group) in self.groups.iter().enumerate() {
            match next.get_mut(*group as usize).filter(|_| (*group as usize) < emitted) {
                Some(place) => {
                    order[*place] = row as u64;
                    *place += 1;
                }
                None => rest.push(row as u64),
            }
        }
        let (order, rest_rows) = (UInt64Array::from(order), UInt64Array::from(rest));
        let mut sorted = Vec::with_capacity(columns);
        let mut kept = Vec::with_capacity(columns);
        for column in 0..columns {
            let parts: Vec<&dyn Array> = chunks.iter().map(|chunk| &*chunk[column]).collect();
            let joined = concat(&parts)?;
            sorted.push(take(&joined, &order, None)?);
            kept.push(take(&joined, &rest_rows, None)?);
        }
        self.groups = rest_rows.values().iter().map(|row| self.groups[*row as usize]).collect();
        self.groups.iter_mut().for_each(|group| *group -= emitted as u32);
        self.groups_total -= emitted;
        self.bytes = slice_bytes(&kept)?;
        if !self.groups.is_empty() {
            self.chunks.push(kept);
        }
        Ok((sorted, ends))
    }
}

fn slice_bytes(arrays: &[ArrayRef]) -> Result<usize> {
    let each = arrays.iter().map(|array| Ok(array.to_data().get_slice_memory_size()?));
    each.sum()
}

impl GroupsAccumulator for Buffer {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.groups_total = groups_total;
        let rows = counted(values, filter)?;
        let chunk = only(values, rows.as_ref())?;
        match &rows {
            None => self.groups.extend(groups.iter().map(|group| *group as u32)),
            Some(rows) => {
                let counted = groups.iter().zip(rows.values()).filter(|(_, counts)| *counts);
                self.groups.extend(counted.map(|(group, _)| *group as u32));
            }
        }
        // Also an empty chunk, which tells the columns' types.
        if self.chunks.is_empty() || chunk.first().is_some_and(|first| !first.is_empty()) {
            self.bytes += slice_bytes(&chunk)?;
            self.chunks.push(chunk);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let emitted = match emit_to {
            EmitTo::All => self.groups_total,
            EmitTo::First(groups) => groups,
        };
        let (columns, ends) = self.sorted(emitted)?;
        let values = (0..emitted).map(|group| {
            let (from, rows) = (ends[group], ends[group + 1] - ends[group]);
            let rows: Vec<ArrayRef> =
                columns.iter().map(|column| column.slice(from, rows)).collect();
            self.whole.of(&rows)
        });
        let values = values.collect::<Result<Vec<ScalarValue>, Error>>()?;
        if values.is_empty() {
            return Ok(new_empty_array(&self.ty));
        }
        ScalarValue::iter_to_array(values)
    }

    fn size(&self) -> usize {
        (self.bytes + self.groups.len() * size_of::<u32>()) * COPIES
    }

    never_in_parts!();
}
