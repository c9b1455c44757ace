//! Quantiles, with linear interpolation between the two nearest values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::ScalarValue;

use super::collect::list;
use super::group_function::GroupFunction;
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
