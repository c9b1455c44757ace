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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Funnel {
    pub seconds: i64,
    /// `strict_order`: a chain ends with an event that is not the next step.
    pub in_strict_order: bool,
    /// `strict_increase`: each step is later than the one before.
    pub at_later_times: bool,
}

/// The time of an event, and the number of a step that it matches, from 1; 0 where it matches none.
type Hit = (i64, u16);

const MICROS: i64 = 1_000_000;

impl GroupFunction for Funnel {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let times = args[0].as_primitive::<TimestampMicrosecondType>();
        let conditions: Vec<_> = args[1..].iter().map(|arg| arg.as_boolean()).collect();
        let mut hits: Vec<Hit> = Vec::new();
        for row in 0..times.len() {
            let before = hits.len();
            let steps = (0..conditions.len()).filter(|step| conditions[*step].value(row));
            hits.extend(steps.map(|step| (times.value(row), step as u16 + 1)));
            if self.in_strict_order && hits.len() == before {
                hits.push((times.value(row), 0));
            }
        }
        let level = self.level(&mut hits, conditions.len());
        Ok(ScalarValue::UInt8(Some(level)))
    }
}

impl Funnel {
    /// The longest chain among the times at which conditions hold.
    fn level(&self, hits: &mut [Hit], steps: usize) -> u8 {
        // Equal timestamps are sorted by step: one row may match several steps.
        hits.sort_unstable();
        let level = self.steps_of(hits, steps);
        u8::try_from(level).unwrap_or(u8::MAX)
    }

    fn steps_of(&self, hits: &[Hit], steps: usize) -> usize {
        let window = self.seconds.saturating_mul(MICROS);
        // For each step, the start of the latest chain that has reached it, and when it did.
        let mut reached: Vec<Option<(i64, i64)>> = vec![None; steps];
        for (time, number) in hits {
            let has_begun = reached.first().is_some_and(Option::is_some);
            let step = match usize::from(*number) {
                0 if has_begun => break,
                0 => continue,
                1 => {
                    reached[0] = Some((*time, *time));
                    continue;
                }
                number => number - 1,
            };
            let Some((start, before)) = reached[step - 1] else {
                if self.in_strict_order && has_begun {
                    return reached.iter().take_while(|step| step.is_some()).count();
                }
                continue;
            };
            let is_later = !self.at_later_times || before < *time;
            if *time <= start.saturating_add(window) && is_later {
                reached[step] = Some((start, *time));
                if step + 1 == steps {
                    return steps;
                }
            }
        }
        reached.iter().rposition(Option::is_some).map_or(0, |step| step + 1)
    }
}

/// The times at which conditions hold, of all groups.
pub(crate) struct FunnelHits {
    funnel: Funnel,
    steps: usize,
    total: usize,
    groups: Vec<u32>,
    times: Vec<i64>,
    /// The number of the step of each, as of a [`Hit`].
    numbers: Vec<u16>,
}

impl FunnelHits {
    pub(crate) fn new(funnel: Funnel, args: usize) -> Self {
        let (groups, times, numbers) = (Vec::new(), Vec::new(), Vec::new());
        Self { funnel, steps: args.saturating_sub(1), total: 0, groups, times, numbers }
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
        self.numbers.extend(other.numbers);
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
                    self.numbers.push(step as u16 + 1);
                }
            }
        }
        if self.funnel.in_strict_order {
            let conditions: Vec<_> = values[1..].iter().map(|values| values.as_boolean()).collect();
            let is_other = |row: &usize| {
                rows.as_ref().is_none_or(|rows| rows.value(*row))
                    && conditions.iter().all(|condition| !condition.value(*row))
            };
            for row in (0..times.len()).filter(is_other) {
                self.groups.push(groups[row] as u32);
                self.times.push(times[row]);
                self.numbers.push(0);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> datafusion_common::Result<ArrayRef> {
        if let EmitTo::First(_) = emit_to {
            return not_impl_err!("the groups of a funnel are evaluated together");
        }
        let hit = |row: usize| (self.times[row], self.numbers[row]);
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
