//! Rows of all groups, kept until the groups are complete.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, resources_err};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::own::never_in_parts;
use super::whole::Whole;
use super::{counted, only};
use crate::error::Error;

pub(crate) struct Buffer {
    whole: Arc<dyn Whole>,
    ty: DataType,
    /// Of each argument, as they came.
    columns: Vec<Vec<ArrayRef>>,
    /// The group of each row, as they came.
    groups: Vec<Box<[u32]>>,
    groups_total: usize,
    rows: usize,
    bytes: usize,
}

/// Rows are held as they come, and once more as one piece with their order.
const COPIES: usize = 2;
/// Rows that are put side by side by group at a time, about.
const BLOCK_ROWS: usize = 64 << 10;

/// Rows by group.
struct Ordered {
    columns: Vec<ArrayRef>,
    /// Rows of the first group, then of the second, and so on.
    order: UInt32Array,
    /// Where groups begin, and where the last one ends.
    ends: Vec<usize>,
}

impl Buffer {
    pub(crate) fn new(whole: Arc<dyn Whole>, ty: DataType) -> Self {
        let (columns, groups) = (Vec::new(), Vec::new());
        Self { whole, ty, columns, groups, groups_total: 0, rows: 0, bytes: 0 }
    }

    /// The rows of the first groups; the others stay.
    fn ordered(&mut self, emitted: usize) -> Result<Ordered> {
        if u32::try_from(self.rows).is_err() {
            return resources_err!("there are too many rows");
        }
        let join = |parts: Vec<ArrayRef>| {
            let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
            Ok(concat(&parts)?)
        };
        // One after the other, so that only one is there twice.
        let columns = std::mem::take(&mut self.columns).into_iter().map(join);
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let groups = std::mem::take(&mut self.groups);
        let groups = || groups.iter().flat_map(|part| part.iter().map(|group| *group as usize));
        let mut ends = vec![0usize; emitted + 1];
        for group in groups().filter(|group| *group < emitted) {
            ends[group + 1] += 1;
        }
        for group in 0..emitted {
            ends[group + 1] += ends[group];
        }
        let mut next = ends.clone();
        let mut order = vec![0u32; ends[emitted]];
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
            let kept = columns.iter().map(|column| Ok(take(column, &rest, None)?));
            let kept = kept.collect::<Result<Vec<ArrayRef>>>()?;
            self.bytes = slice_bytes(&kept)?;
            self.columns = kept.into_iter().map(|column| vec![column]).collect();
            self.groups.push(rest_groups.into());
        }
        Ok(Ordered { columns, order: order.into(), ends })
    }
}

impl Ordered {
    /// What a whole makes of some groups.
    fn values(&self, groups: std::ops::Range<usize>, whole: &dyn Whole) -> Result<ArrayRef> {
        let (from, to) = (self.ends[groups.start], self.ends[groups.end]);
        let order = self.order.slice(from, to - from);
        let columns = self.columns.iter().map(|column| Ok(take(column, &order, None)?));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let values = groups.map(|group| {
            let (start, end) = (self.ends[group], self.ends[group + 1]);
            let own = columns.iter().map(|column| column.slice(start - from, end - start));
            whole.of(&own.collect::<Vec<ArrayRef>>())
        });
        ScalarValue::iter_to_array(values.collect::<Result<Vec<ScalarValue>, Error>>()?)
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
        let own: Box<[u32]> = match &rows {
            None => groups.iter().map(|group| *group as u32).collect(),
            Some(rows) => {
                let counted = groups.iter().zip(rows.values()).filter(|(_, counts)| *counts);
                counted.map(|(group, _)| *group as u32).collect()
            }
        };
        // Also an empty chunk, which tells the columns' types.
        if self.columns.is_empty() || !own.is_empty() {
            self.bytes += slice_bytes(&chunk)?;
            self.rows += own.len();
            self.columns.resize_with(chunk.len(), Vec::new);
            self.columns.iter_mut().zip(chunk).for_each(|(column, part)| column.push(part));
            self.groups.push(own);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let emitted = match emit_to {
            EmitTo::All => self.groups_total,
            EmitTo::First(groups) => groups,
        };
        let ordered = self.ordered(emitted)?;
        let (mut arrays, mut start) = (Vec::new(), 0);
        while start < emitted {
            let enough = ordered.ends[start] + BLOCK_ROWS;
            let end = ordered.ends.partition_point(|end| *end <= enough) - 1;
            // A group is not divided.
            let end = end.clamp(start + 1, emitted);
            arrays.push(ordered.values(start..end, &*self.whole)?);
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

    never_in_parts!();
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Float64Array};
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::aggregates::quantile::Quantile;

    /// The greatest of each group, in two batches, some groups before the others.
    #[test]
    fn groups_of_any_size_are_seen_whole_whenever_they_are_wanted() {
        let rows = 3 * BLOCK_ROWS;
        let group = |row: usize| match row {
            row if row.is_multiple_of(2) => 1,
            row => row % 5_000 + 3,
        };
        let mut buffer = Buffer::new(Arc::new(Quantile(1.0)), DataType::Float64);
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
        let found = [&first, &rest].map(|one| one.as_primitive::<Float64Type>().iter());
        let found: Vec<Option<f64>> = found.into_iter().flatten().collect();
        assert_eq!((first.len(), found), (2, greatest));
        assert_eq!(buffer.size(), 0);
    }
}
