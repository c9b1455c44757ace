//! `groupArrayMovingSum` and `groupArrayMovingAvg`.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion_common::ScalarValue;

use super::collect::{element, list};
use super::group_function::GroupFunction;
use crate::error::{Error, Result, UNEXPECTED};

/// The sum of the last so many values, at each value; of all before it without a number.
#[derive(Debug)]
pub(crate) struct MovingSum {
    pub window: Option<usize>,
    pub ty: DataType,
}

impl GroupFunction for MovingSum {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        macro_rules! sums {
            ($of:ty, $add:expr, $subtract:expr) => {
                moving(args[0].as_primitive::<$of>().values(), self.window, $add, $subtract)
            };
        }
        let sums: ArrayRef = match element(&self.ty)?.data_type() {
            DataType::Int64 => {
                Arc::new(Int64Array::from(sums!(Int64Type, i64::wrapping_add, i64::wrapping_sub)))
            }
            DataType::UInt64 => {
                Arc::new(UInt64Array::from(sums!(UInt64Type, u64::wrapping_add, u64::wrapping_sub)))
            }
            DataType::Float64 => Arc::new(Float64Array::from(sums!(
                Float64Type,
                |a: f64, b: f64| a + b,
                |a: f64, b: f64| a - b
            ))),
            DataType::Decimal128(precision, scale) => {
                let sums = sums!(Decimal128Type, i128::wrapping_add, i128::wrapping_sub);
                Arc::new(Decimal128Array::from(sums).with_precision_and_scale(*precision, *scale)?)
            }
            other => {
                let message = format!("groupArrayMovingSum cannot add {other}");
                return Err(Error::engine(UNEXPECTED, message));
            }
        };
        list(&self.ty, sums)
    }
}

/// The same, divided by the length of the window, as in ClickHouse: also where fewer values precede.
#[derive(Debug)]
pub(crate) struct MovingAverage {
    pub window: Option<usize>,
    pub ty: DataType,
}

impl GroupFunction for MovingAverage {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let values = args[0].as_primitive::<Float64Type>().values();
        let length = self.window.unwrap_or(values.len()) as f64;
        let sums = moving(values, self.window, |a, b| a + b, |a, b| a - b);
        let averages = sums.into_iter().map(|sum| sum / length);
        list(&self.ty, Arc::new(averages.collect::<Float64Array>()))
    }
}

/// Running sums, from which those before the window are subtracted.
fn moving<T: Copy + Default>(
    values: &[T],
    window: Option<usize>,
    add: impl Fn(T, T) -> T,
    subtract: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut running = Vec::with_capacity(values.len());
    let mut sum = T::default();
    for value in values {
        sum = add(sum, *value);
        running.push(sum);
    }
    let Some(window) = window else { return running };
    let before = |at: usize| at.checked_sub(window).map(|before| running[before]);
    let windowed = running.iter().enumerate();
    windowed.map(|(at, sum)| before(at).map_or(*sum, |before| subtract(*sum, before))).collect()
}
