//! The states of the aggregates of all groups.

use std::any::Any;

use arrow::array::{ArrayRef, BooleanArray};
use datafusion_common::Result;
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;

use super::GroupCall;
use crate::aggregates::custom::{CustomAggregate, GroupState};
use crate::aggregates::filter_arrays;

pub(super) struct GroupStates(Vec<State>);

enum State {
    Engine(Box<dyn GroupsAccumulator>),
    /// Of the only group: a loop over a whole array, without looking up each row's group.
    One(Box<dyn Accumulator>),
    Own(Box<dyn GroupState>),
}

impl GroupStates {
    /// States of the groups, or of the only one.
    pub(super) fn new(calls: &[GroupCall], is_one: bool) -> Result<Self> {
        let state = |GroupCall { call, types, .. }: &GroupCall| {
            let function: &dyn Any = &**call.fun().inner();
            Ok(match function.downcast_ref::<CustomAggregate>() {
                Some(custom) => State::Own(custom.states(types.clone())?),
                None if is_one => State::One(call.create_accumulator()?),
                None if call.groups_accumulator_supported() => {
                    State::Engine(call.create_groups_accumulator()?)
                }
                None => {
                    let call = call.clone();
                    let each = GroupsAccumulatorAdapter::new(move || call.create_accumulator());
                    State::Engine(Box::new(each))
                }
            })
        };
        Ok(Self(calls.iter().map(state).collect::<Result<_>>()?))
    }

    pub(super) fn update(
        &mut self,
        call: usize,
        args: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        match &mut self.0[call] {
            State::Engine(state) => state.update_batch(args, groups, filter, total),
            State::One(state) => state.update_batch(&filter_arrays(args, filter)?),
            State::Own(state) => state.update_batch(args, groups, filter, total),
        }
    }

    /// Takes in the states of other groups; `groups` are theirs here.
    pub(super) fn merge(&mut self, other: Self, groups: &[usize], total: usize) -> Result<()> {
        for (state, other) in self.0.iter_mut().zip(other.0) {
            match (state, other) {
                (State::Engine(state), State::Engine(mut other)) => {
                    let partial = other.state(EmitTo::All)?;
                    state.merge_batch(&partial, groups, total)?;
                }
                (State::One(state), State::One(mut other)) => {
                    let partial = other.state()?.into_iter().map(|value| value.to_array());
                    state.merge_batch(&partial.collect::<Result<Vec<_>>>()?)?;
                }
                (State::Own(state), State::Own(other)) => state.merge(other, groups, total)?,
                // Both have the states of the same aggregates.
                (State::Engine(_) | State::One(_) | State::Own(_), _) => {}
            }
        }
        Ok(())
    }

    /// A value for each group.
    pub(super) fn evaluate(&mut self, total: usize) -> Result<Vec<ArrayRef>> {
        let evaluate = |state: &mut State| match state {
            State::Engine(state) => state.evaluate(EmitTo::All),
            State::One(state) => state.evaluate()?.to_array(),
            State::Own(state) => state.evaluate(EmitTo::All),
        };
        let columns = self.0.iter_mut().map(evaluate).collect::<Result<Vec<ArrayRef>>>()?;
        debug_assert!(columns.iter().all(|column| arrow::array::Array::len(column) == total));
        Ok(columns)
    }

    pub(super) fn bytes(&self) -> usize {
        let bytes = |state: &State| match state {
            State::Engine(state) => state.size(),
            State::One(state) => state.size(),
            State::Own(state) => state.size(),
        };
        self.0.iter().map(bytes).sum()
    }
}
