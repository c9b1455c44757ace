//! Our aggregates as DataFusion UDAFs.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, not_impl_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::buffer::RowBuffer;
use super::distinct_lists::DistinctLists;
use super::funnel::{Funnel, FunnelHits};
use super::group_function::GroupFunction;
use super::pick::{Pick, PickAccumulator};
use super::quantile::QuantileNumbers;
use super::uniq::DistinctCounts;
use crate::lower::codes::Codes;

/// The state that an aggregate keeps for each group.
#[derive(Clone, Debug)]
pub(crate) enum AggregateState {
    /// All rows.
    Rows(Arc<dyn GroupFunction>),
    /// The set of distinct values.
    Distinct,
    /// The same of values that are dense codes.
    DistinctCodes,
    /// The same as a list, and what the arguments stand for if they are codes.
    DistinctLists(Option<Codes>),
    /// One row.
    Picked(Pick),
    /// The times at which conditions hold.
    Funnel(Funnel),
    /// The numbers for the quantile of this level.
    Quantile(f64),
}

pub(crate) struct CustomAggregate {
    name: &'static str,
    state: AggregateState,
    ty: DataType,
    signature: Signature,
}

impl CustomAggregate {
    pub(crate) fn udaf(
        name: &'static str,
        state: AggregateState,
        ty: DataType,
    ) -> Arc<AggregateUDF> {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Arc::new(AggregateUDF::from(Self { name, state, ty, signature }))
    }

    /// The states of all groups, for arguments of these types.
    pub(crate) fn states(&self, types: Vec<DataType>) -> Result<Box<dyn GroupState>> {
        Ok(match &self.state {
            AggregateState::Rows(function) => {
                Box::new(RowBuffer::new(function.clone(), self.ty.clone()))
            }
            AggregateState::Distinct => Box::new(DistinctCounts::new(types)?),
            AggregateState::DistinctCodes => Box::new(DistinctCounts::of_codes()),
            AggregateState::DistinctLists(codes) => {
                Box::new(DistinctLists::new(types, codes.clone(), self.ty.clone())?)
            }
            AggregateState::Picked(pick) => Box::new(PickAccumulator::new(*pick, types)?),
            AggregateState::Quantile(level) => Box::new(QuantileNumbers::new(*level)),
            AggregateState::Funnel(funnel) => Box::new(FunnelHits::new(*funnel, types.len())),
        })
    }
}

fn types(args: &AccumulatorArgs<'_>) -> Vec<DataType> {
    args.expr_fields.iter().map(|field| field.data_type().clone()).collect()
}

/// The states of an aggregate of ours, by group.
pub(crate) trait GroupState: GroupsAccumulator + Sync + Any {
    /// Takes in the states of another partition, whose groups are `groups` here.
    fn merge(&mut self, other: Box<dyn GroupState>, groups: &[usize], total: usize) -> Result<()>;
}

/// The states of the same aggregate over another partition.
pub(crate) fn of_same_type<T: GroupState>(states: Box<dyn GroupState>) -> Option<Box<T>> {
    let states: Box<dyn Any> = states;
    states.downcast().ok()
}

impl Debug for CustomAggregate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Compares by identity, since parameters cannot be compared.
impl PartialEq for CustomAggregate {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CustomAggregate {}

impl Hash for CustomAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl AggregateUDFImpl for CustomAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let mut groups = self.states(types(&args))?;
        let empty = args.expr_fields.iter();
        let empty: Vec<ArrayRef> =
            empty.map(|field| arrow::array::new_empty_array(field.data_type())).collect();
        groups.update_batch(&empty, &[], None, 1)?;
        Ok(Box::new(SingleGroup { groups, zeros: Vec::new() }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let groups = self.states(types(&args))?;
        Ok(Box::new(BoxedGroups(groups)))
    }
}

/// An aggregate without `GROUP BY`: all rows are one group.
struct SingleGroup {
    groups: Box<dyn GroupState>,
    zeros: Vec<usize>,
}

impl Debug for SingleGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SingleGroup")
    }
}

impl Accumulator for SingleGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.first().map_or(0, |array| array.len());
        self.zeros.resize(rows, 0);
        self.groups.update_batch(values, &self.zeros, None, 1)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.groups.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        self.groups.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("this aggregate is not computed in parts")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("this aggregate is not computed in parts")
    }
}

struct BoxedGroups(Box<dyn GroupState>);

impl GroupsAccumulator for BoxedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.0.update_batch(values, groups, filter, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Partitions merge our states as they are ([`GroupState`]), so none of this is called.
macro_rules! no_partial_aggregation {
    () => {
        fn state(
            &mut self,
            _: datafusion_expr::EmitTo,
        ) -> datafusion_common::Result<Vec<arrow::array::ArrayRef>> {
            datafusion_common::not_impl_err!("this aggregate is not computed in parts")
        }

        fn merge_batch(
            &mut self,
            _: &[arrow::array::ArrayRef],
            _: &[usize],
            _: usize,
        ) -> datafusion_common::Result<()> {
            datafusion_common::not_impl_err!("this aggregate is not computed in parts")
        }

        fn convert_to_state(
            &self,
            _: &[arrow::array::ArrayRef],
            _: Option<&arrow::array::BooleanArray>,
        ) -> datafusion_common::Result<Vec<arrow::array::ArrayRef>> {
            datafusion_common::not_impl_err!("this aggregate is not computed in parts")
        }
    };
}
pub(crate) use no_partial_aggregation;
