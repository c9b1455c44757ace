//! Quantiles, with linear interpolation between the two nearest values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use arrow::compute::{SortOptions, filter, sort};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::{ScalarValue, not_impl_err};
use datafusion_expr::{EmitTo, GroupsAccumulator};

use super::collect::list;
use super::custom::{GroupState, no_partial_aggregation, of_same_type};
use super::group_function::GroupFunction;
use super::{counted_rows, sorted_by_group};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct Quantile(pub f64);

impl GroupFunction for Quantile {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        // A group of NaNs is not empty: its quantile is NaN.
        let none = (!args[0].is_empty()).then_some(f64::NAN);
        Ok(ScalarValue::Float64(interpolate(&mut numbers(args), self.0).or(none)))
    }
}

#[derive(Debug)]
pub(crate) struct Quantiles {
    pub levels: Vec<f64>,
    pub ty: DataType,
}

impl GroupFunction for Quantiles {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let mut numbers = numbers(args);
        let values =
            self.levels.iter().map(|level| interpolate(&mut numbers, *level).unwrap_or(f64::NAN));
        list(&self.ty, Arc::new(values.collect::<Float64Array>()))
    }
}

/// One of the values, without interpolation.
#[derive(Debug)]
pub(crate) struct Exact {
    pub level: f64,
    /// Between two values, the median is the smaller.
    pub low: bool,
}

impl GroupFunction for Exact {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let options = SortOptions { descending: false, nulls_first: false };
        // NaN is no number that could be a quantile.
        let known = match args[0].as_primitive_opt::<Float64Type>() {
            Some(floats) => {
                let valid: BooleanArray =
                    floats.iter().map(|value| value.map(|v| !v.is_nan())).collect();
                filter(&args[0], &valid)?
            }
            None => args[0].clone(),
        };
        let Some(last) = known.len().checked_sub(1) else {
            return Ok(match args[0].is_empty() {
                true => ScalarValue::try_from(args[0].data_type())?,
                false => ScalarValue::try_from_array(&args[0], 0)?,
            });
        };
        let count = known.len();
        let at = match (self.low, self.level) {
            (true, 0.5) if count % 2 == 0 => count / 2 - 1,
            (true, 0.5) => count / 2,
            (_, level) if level < 1.0 => (level * count as f64) as usize,
            _ => last,
        };
        let sorted = sort(&known, Some(options))?;
        Ok(ScalarValue::try_from_array(&sorted, at.min(last))?)
    }
}

/// The numbers of all groups, for one quantile.
pub(crate) struct QuantileNumbers {
    level: f64,
    total: usize,
    groups: Vec<u32>,
    numbers: Vec<f64>,
}

impl QuantileNumbers {
    pub(crate) fn new(level: f64) -> Self {
        Self { level, total: 0, groups: Vec::new(), numbers: Vec::new() }
    }
}

impl GroupState for QuantileNumbers {
    fn merge(
        &mut self,
        other: Box<dyn GroupState>,
        groups: &[usize],
        total: usize,
    ) -> datafusion_common::Result<()> {
        self.total = total;
        let Some(other) = of_same_type::<Self>(other) else { return Ok(()) };
        self.groups.extend(other.groups.iter().map(|group| groups[*group as usize] as u32));
        self.numbers.extend(other.numbers);
        Ok(())
    }
}

impl GroupsAccumulator for QuantileNumbers {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> datafusion_common::Result<()> {
        self.total = total;
        let rows = counted_rows(values, filter)?;
        let numbers = values[0].as_primitive::<Float64Type>().values();
        for (row, group) in groups.iter().enumerate() {
            if rows.as_ref().is_none_or(|rows| rows.value(row)) {
                self.groups.push(*group as u32);
                self.numbers.push(numbers[row]);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> datafusion_common::Result<ArrayRef> {
        if let EmitTo::First(_) = emit_to {
            return not_impl_err!("the groups of a quantile are evaluated together");
        }
        let number = |row: usize| self.numbers[row];
        let (mut sorted, starts) = sorted_by_group(&self.groups, self.total, number);
        let level = |group: usize| {
            let all = &mut sorted[starts[group]..starts[group + 1]];
            // A group of NaNs is not empty: its quantile is NaN.
            let none = (!all.is_empty()).then_some(f64::NAN);
            let known = partition_known(all);
            interpolate(&mut all[..known], self.level).or(none)
        };
        Ok(Arc::new((0..self.total).map(level).collect::<Float64Array>()))
    }

    fn size(&self) -> usize {
        // The numbers, and their copy sorted by group.
        self.groups.capacity() * size_of::<u32>()
            + 2 * self.numbers.capacity() * size_of::<f64>()
            + 2 * self.total * size_of::<usize>()
    }

    no_partial_aggregation!();
}

/// Moves NaNs to the end; returns how many numbers are before them.
fn partition_known(numbers: &mut [f64]) -> usize {
    let mut known = 0;
    for at in 0..numbers.len() {
        if !numbers[at].is_nan() {
            numbers.swap(known, at);
            known += 1;
        }
    }
    known
}

fn numbers(args: &[ArrayRef]) -> Vec<f64> {
    let all = args[0].as_primitive::<Float64Type>().values().iter();
    all.copied().filter(|number| !number.is_nan()).collect()
}

fn interpolate(numbers: &mut [f64], level: f64) -> Option<f64> {
    let last = numbers.len().checked_sub(1)?;
    let position = level * last as f64;
    let below = (position.floor() as usize).min(last);
    let (_, low, above) = numbers.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    let share = position - below as f64;
    match above.iter().copied().min_by(f64::total_cmp) {
        Some(high) if share > 0.0 => Some(low + (high - low) * share),
        _ => Some(low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_interpolated_between_the_two_nearest_values() {
        assert_eq!(interpolate(&mut [4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
        assert_eq!(interpolate(&mut [4.0, 1.0, 3.0, 2.0], 0.0), Some(1.0));
        assert_eq!(interpolate(&mut [4.0, 1.0, 3.0, 2.0], 1.0), Some(4.0));
        assert_eq!(interpolate(&mut [7.0], 0.9), Some(7.0));
        assert_eq!(interpolate(&mut [], 0.5), None);
    }
}
