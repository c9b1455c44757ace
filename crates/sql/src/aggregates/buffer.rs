//! Buffers the rows of all groups until the groups are complete.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, resources_err};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::custom::{GroupState, no_partial_aggregation, of_same_type};
use super::group_function::GroupFunction;
use super::{counted_rows, filter_arrays};
use crate::error::Error;

pub(crate) struct RowBuffer {
    function: Arc<dyn GroupFunction>,
    ty: DataType,
    /// The batches of each argument.
    columns: Vec<Vec<ArrayRef>>,
    /// The group of each row, by batch.
    groups: Vec<Box<[u32]>>,
    groups_total: usize,
    rows: usize,
    bytes: usize,
}

/// Copies of the rows in memory: the batches, and their concatenation with the order.
const COPIES: usize = 2;
/// Rows that are gathered by group at a time, approximately.
const BLOCK_ROWS: usize = 64 << 10;

/// Rows sorted by group.
struct GroupedRows {
    columns: Vec<ArrayRef>,
    /// Rows of the first group, then of the second, and so on.
    order: UInt32Array,
    /// Group `g` is `order[offsets[g]..offsets[g + 1]]`.
    offsets: Vec<usize>,
}

impl RowBuffer {
    pub(crate) fn new(function: Arc<dyn GroupFunction>, ty: DataType) -> Self {
        let (columns, groups) = (Vec::new(), Vec::new());
        Self { function, ty, columns, groups, groups_total: 0, rows: 0, bytes: 0 }
    }

    /// Takes the rows of the first groups; the others stay.
    fn take_groups(&mut self, emitted: usize) -> Result<GroupedRows> {
        if u32::try_from(self.rows).is_err() {
            return resources_err!("a query may buffer at most 2^32 rows for an aggregate");
        }
        let join = |parts: Vec<ArrayRef>| {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
            Ok(concat(&parts)?)
        };
        // One by one, so that only one column is in memory twice.
        let columns = std::mem::take(&mut self.columns).into_iter().map(join);
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let groups = std::mem::take(&mut self.groups);
        let groups = || groups.iter().flat_map(|part| part.iter().map(|group| *group as usize));
        let mut offsets = vec![0usize; emitted + 1];
        for group in groups().filter(|group| *group < emitted) {
            offsets[group + 1] += 1;
        }
        for group in 0..emitted {
            offsets[group + 1] += offsets[group];
        }
        let mut next = offsets.clone();
        let mut order = vec![0u32; offsets[emitted]];
        let (mut rest, mut rest_groups) = (Vec::new(), Vec::new());
        for (row, group) in groups().enumerate() {
            if group < emitted {
                order[next[group]] = row as u32;
                next[group] += 1;
            } else {
                rest.push(row as u32);
                rest_groups.push((group - emitted) as u32);
            }
        }
        self.groups_total -= emitted;
        (self.rows, self.bytes) = (rest.len(), 0);
        if !rest.is_empty() {
            let rest = UInt32Array::from(rest);
            let remaining = columns.iter().map(|column| Ok(take(column, &rest, None)?));
            let remaining = remaining.collect::<Result<Vec<ArrayRef>>>()?;
            self.bytes = slice_bytes(&remaining)?;
            self.columns = remaining.into_iter().map(|column| vec![column]).collect();
            self.groups.push(rest_groups.into());
        }
        Ok(GroupedRows { columns, order: order.into(), offsets })
    }
}

impl GroupedRows {
    /// Evaluates the function for some groups.
    fn values(
        &self,
        groups: std::ops::Range<usize>,
        function: &dyn GroupFunction,
    ) -> Result<ArrayRef> {
        let (from, to) = (self.offsets[groups.start], self.offsets[groups.end]);
        let order = self.order.slice(from, to - from);
        let columns = self.columns.iter().map(|column| Ok(take(column, &order, None)?));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let values = groups.map(|group| {
            let (start, end) = (self.offsets[group], self.offsets[group + 1]);
            let args = columns.iter().map(|column| column.slice(start - from, end - start));
            function.evaluate(&args.collect::<Vec<ArrayRef>>())
        });
        ScalarValue::iter_to_array(values.collect::<Result<Vec<ScalarValue>, Error>>()?)
    }
}

fn slice_bytes(arrays: &[ArrayRef]) -> Result<usize> {
    let each = arrays.iter().map(|array| Ok(array.to_data().get_slice_memory_size()?));
    each.sum()
}

impl GroupState for RowBuffer {
    fn merge(&mut self, other: Box<dyn GroupState>, groups: &[usize], total: usize) -> Result<()> {
        self.groups_total = total;
        let Some(other) = of_same_type::<Self>(other) else { return Ok(()) };
        self.columns.resize_with(other.columns.len(), Vec::new);
        for (own, others) in self.columns.iter_mut().zip(other.columns) {
            own.extend(others);
        }
        for mut chunk in other.groups {
            chunk.iter_mut().for_each(|group| *group = groups[*group as usize] as u32);
            self.groups.push(chunk);
        }
        self.rows += other.rows;
        self.bytes += other.bytes;
        Ok(())
    }
}

impl GroupsAccumulator for RowBuffer {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.groups_total = groups_total;
        let rows = counted_rows(values, filter)?;
        let chunk = filter_arrays(values, rows.as_ref())?;
        let chunk_groups: Box<[u32]> = match &rows {
            None => groups.iter().map(|group| *group as u32).collect(),
            Some(rows) => {
                let counted = groups.iter().zip(rows.values()).filter(|(_, counts)| *counts);
                counted.map(|(group, _)| *group as u32).collect()
            }
        };
        // The first chunk is added even if it is empty, since it has the columns' types.
        if self.columns.is_empty() || !chunk_groups.is_empty() {
            self.bytes += slice_bytes(&chunk)?;
            self.rows += chunk_groups.len();
            self.columns.resize_with(chunk.len(), Vec::new);
            self.columns.iter_mut().zip(chunk).for_each(|(column, part)| column.push(part));
            self.groups.push(chunk_groups);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let emitted = match emit_to {
            EmitTo::All => self.groups_total,
            EmitTo::First(groups) => groups,
        };
        let grouped = self.take_groups(emitted)?;
        let (mut arrays, mut start) = (Vec::new(), 0);
        while start < emitted {
            let enough = grouped.offsets[start] + BLOCK_ROWS;
            let end = grouped.offsets.partition_point(|end| *end <= enough) - 1;
            // A group is never split.
            let end = end.clamp(start + 1, emitted);
            arrays.push(grouped.values(start..end, &*self.function)?);
            start = end;
        }
        match &arrays[..] {
            [] => Ok(new_empty_array(&self.ty)),
            arrays => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
                Ok(concat(&arrays)?)
            }
        }
    }

    fn size(&self) -> usize {
        (self.bytes + self.rows * size_of::<u32>()) * COPIES
    }

    no_partial_aggregation!();
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Float64Array};
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::aggregates::quantile::Quantile;

    /// The maximum of each group, over two batches, emitted in two steps.
    #[test]
    fn row_buffer_evaluates_whole_groups_of_any_size_in_any_emission_order() {
        let rows = 3 * BLOCK_ROWS;
        let group = |row: usize| match row {
            row if row.is_multiple_of(2) => 1,
            row => row % 5_000 + 3,
        };
        let mut buffer = RowBuffer::new(Arc::new(Quantile(1.0)), DataType::Float64);
        let mut greatest = vec![None; 5_004];
        for from in [0, rows] {
            let groups: Vec<usize> = (from..from + rows).map(group).collect();
            let numbers = (from..from + rows).map(|row| (row * 7_919 % 100_003) as f64);
            let numbers: Float64Array = numbers.collect::<Vec<f64>>().into();
            for (group, number) in groups.iter().zip(numbers.values()) {
                greatest[*group] = Some(number.max(greatest[*group].unwrap_or(0.0)));
            }
            buffer.update_batch(&[Arc::new(numbers)], &groups, None, 5_004).unwrap();
        }
        assert_eq!(buffer.size(), 2 * rows * 12 * COPIES);
        let first = buffer.evaluate(EmitTo::First(2)).unwrap();
        let rest = buffer.evaluate(EmitTo::All).unwrap();
        let values = [&first, &rest].map(|part| part.as_primitive::<Float64Type>().iter());
        let values: Vec<Option<f64>> = values.into_iter().flatten().collect();
        assert_eq!((first.len(), values), (2, greatest));
        assert_eq!(buffer.size(), 0);
    }
}
