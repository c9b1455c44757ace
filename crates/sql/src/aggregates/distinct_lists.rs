//! `groupUniqArray`: the distinct values of each group, in the order in which they were met first in any
//! group.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::collect::element;
use super::custom::{GroupState, no_partial_aggregation, of_same_type};
use super::uniq::DistinctCounts;
use crate::lower::codes::Codes;

pub(crate) struct DistinctLists {
    distinct: DistinctCounts,
    /// What the arguments stand for, if they are codes.
    codes: Option<Codes>,
    /// The type of a list.
    ty: DataType,
}

impl DistinctLists {
    pub(crate) fn new(types: Vec<DataType>, codes: Option<Codes>, ty: DataType) -> Result<Self> {
        let distinct = match codes {
            Some(_) => DistinctCounts::of_codes(),
            None => DistinctCounts::new(types)?,
        };
        Ok(Self { distinct, codes, ty })
    }
}

impl GroupState for DistinctLists {
    fn merge(&mut self, other: Box<dyn GroupState>, groups: &[usize], total: usize) -> Result<()> {
        let Some(other) = of_same_type::<Self>(other) else { return Ok(()) };
        self.distinct.merge(Box::new(other.distinct), groups, total)
    }
}

impl GroupsAccumulator for DistinctLists {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.distinct.update_batch(values, groups, filter, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (codes, lengths) = self.distinct.take_codes(emit_to);
        let codes = UInt32Array::from(codes);
        let values = match &self.codes {
            Some(stand_for) => stand_for.decode(&codes)?,
            None => self.distinct.values(&codes)?,
        };
        let field = element(&self.ty)?;
        let values = match values.data_type() == field.data_type() {
            true => values,
            false => cast(&values, field.data_type())?,
        };
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(field.clone(), offsets, values, None)?))
    }

    /// With the lists, which hold a value once for each group that has it: they are made before they can
    /// be counted.
    fn size(&self) -> usize {
        let value =
            self.codes.as_ref().map_or_else(|| self.distinct.mean_bytes(), Codes::mean_bytes);
        let listed = value + 2 * size_of::<u32>();
        self.distinct.size() + self.distinct.total() * listed
    }

    no_partial_aggregation!();
}
