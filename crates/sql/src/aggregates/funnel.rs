//! `windowFunnel`: the longest chain of conditions, each at or after the one before, within a window
//! that starts with the first.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, UInt8Array};
use arrow::datatypes::TimestampMicrosecondType;
use datafusion_common::{ScalarValue, not_impl_err};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::custom::{GroupState, no_partial_aggregation, of_same_type};
use super::group_function::GroupFunction;
use super::{counted_rows, sorted_by_group};
use crate::error::Result;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Funnel {
    pub seconds: i64,
}

const MICROS: i64 = 1_000_000;

impl GroupFunction for Funnel {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let times = args[0].as_primitive::<TimestampMicrosecondType>();
        let conditions: Vec<_> = args[1..].iter().map(|arg| arg.as_boolean()).collect();
        let mut hits: Vec<(i64, usize)> = Vec::new();
        for row in 0..times.len() {
            let steps = (0..conditions.len()).filter(|step| conditions[*step].value(row));
            hits.extend(steps.map(|step| (times.value(row), step)));
        }
        let level = self.level(&mut hits, conditions.len());
        Ok(ScalarValue::UInt8(Some(level)))
    }
}

impl Funnel {
    /// The longest chain among the times at which conditions hold.
    fn level(&self, hits: &mut [(i64, usize)], steps: usize) -> u8 {
        // Equal timestamps are sorted by step: one row may match several steps.
        hits.sort_unstable();
        let window = self.seconds.saturating_mul(MICROS);
        // For each step, the start of the latest chain that has reached it.
        let mut starts: Vec<Option<i64>> = vec![None; steps];
        for (time, step) in hits {
            if *step == 0 {
                starts[0] = Some(*time);
                continue;
            }
            let Some(start) = starts[*step - 1] else { continue };
            if *time <= start.saturating_add(window) {
                starts[*step] = Some(start);
            }
        }
        let level = starts.iter().rposition(Option::is_some).map_or(0, |step| step + 1);
        u8::try_from(level).unwrap_or(u8::MAX)
    }
}

/// The times at which conditions hold, of all groups.
pub(crate) struct FunnelHits {
    funnel: Funnel,
    steps: usize,
    total: usize,
    groups: Vec<u32>,
    times: Vec<i64>,
    /// The condition of each.
    conditions: Vec<u16>,
}

impl FunnelHits {
    pub(crate) fn new(funnel: Funnel, args: usize) -> Self {
        let (groups, times, conditions) = (Vec::new(), Vec::new(), Vec::new());
        Self { funnel, steps: args.saturating_sub(1), total: 0, groups, times, conditions }
    }
}

impl GroupState for FunnelHits {
    fn merge(
        &mut self,
        other: Box<dyn GroupState>,
        groups: &[usize],
        total: usize,
    ) -> datafusion_common::Result<()> {
        self.total = total;
        let Some(other) = of_same_type::<Self>(other) else { return Ok(()) };
        self.groups.extend(other.groups.iter().map(|group| groups[*group as usize] as u32));
        self.times.extend(other.times);
        self.conditions.extend(other.conditions);
        Ok(())
    }
}

impl GroupsAccumulator for FunnelHits {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> datafusion_common::Result<()> {
        self.total = total;
        let rows = counted_rows(values, filter)?;
        let times = values[0].as_primitive::<TimestampMicrosecondType>().values();
        for (step, condition) in values[1..].iter().enumerate() {
            for row in condition.as_boolean().values().set_indices() {
                if rows.as_ref().is_none_or(|rows| rows.value(row)) {
                    self.groups.push(groups[row] as u32);
                    self.times.push(times[row]);
                    self.conditions.push(step as u16);
                }
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> datafusion_common::Result<ArrayRef> {
        if let EmitTo::First(_) = emit_to {
            return not_impl_err!("the groups of a funnel are evaluated together");
        }
        let hit = |row: usize| (self.times[row], usize::from(self.conditions[row]));
        let (mut hits, starts) = sorted_by_group(&self.groups, self.total, hit);
        let level = |group: usize| {
            self.funnel.level(&mut hits[starts[group]..starts[group + 1]], self.steps)
        };
        Ok(Arc::new(UInt8Array::from_iter_values((0..self.total).map(level))))
    }

    fn size(&self) -> usize {
        // The hits, and their copy sorted by group.
        let hits = size_of::<u32>() + size_of::<u16>() + 3 * size_of::<i64>();
        self.groups.capacity() * hits + 2 * self.total * size_of::<usize>()
    }

    no_partial_aggregation!();
}
