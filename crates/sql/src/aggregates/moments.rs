//! Aggregates of numbers that need all of a group's rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, StructArray};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion_common::ScalarValue;

use super::group_function::GroupFunction;
use crate::error::{Error, Result, UNEXPECTED};

#[derive(Debug)]
pub(crate) enum Moments {
    SkewPop,
    SkewSamp,
    KurtPop,
    KurtSamp,
}

impl GroupFunction for Moments {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let values = args[0].as_primitive::<Float64Type>().values();
        let count = values.len() as f64;
        if values.is_empty() {
            return Ok(ScalarValue::Float64(None));
        }
        let mean = values.iter().sum::<f64>() / count;
        let moment =
            |power: i32| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>();
        let rows = match self {
            Self::SkewPop | Self::KurtPop => count,
            Self::SkewSamp | Self::KurtSamp => count - 1.0,
        };
        let variance = moment(2) / rows;
        let result = match self {
            Self::SkewPop | Self::SkewSamp => moment(3) / count / variance.powf(1.5),
            Self::KurtPop | Self::KurtSamp => moment(4) / count / (variance * variance),
        };
        Ok(ScalarValue::Float64(Some(result)))
    }
}

/// The average of the first argument, each value as often as the second says.
#[derive(Debug)]
pub(crate) struct WeightedAverage;

impl GroupFunction for WeightedAverage {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let (values, weights) =
            (args[0].as_primitive::<Float64Type>(), args[1].as_primitive::<Float64Type>());
        if values.is_empty() {
            return Ok(ScalarValue::Float64(None));
        }
        let pairs = values.values().iter().zip(weights.values());
        let sum: f64 = pairs.map(|(value, weight)| value * weight).sum();
        Ok(ScalarValue::Float64(Some(sum / weights.values().iter().sum::<f64>())))
    }
}

/// Slope and intercept of the line through points that is nearest to them.
#[derive(Debug)]
pub(crate) struct LinearRegression {
    pub ty: DataType,
}

impl GroupFunction for LinearRegression {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let DataType::Struct(fields) = &self.ty else {
            return Err(Error::engine(UNEXPECTED, "a line is no pair"));
        };
        let (xs, ys) =
            (args[0].as_primitive::<Float64Type>(), args[1].as_primitive::<Float64Type>());
        let count = xs.len() as f64;
        let (sum_x, sum_y): (f64, f64) = (xs.values().iter().sum(), ys.values().iter().sum());
        let pairs = xs.values().iter().zip(ys.values());
        let sum_xy: f64 = pairs.map(|(x, y)| x * y).sum();
        let sum_xx: f64 = xs.values().iter().map(|x| x * x).sum();
        let divisor = sum_xx * count - sum_x * sum_x;
        let (slope, intercept) = match xs.is_empty() || divisor == 0.0 {
            true => (f64::NAN, f64::NAN),
            false => {
                let slope = (sum_xy * count - sum_x * sum_y) / divisor;
                (slope, (sum_y - slope * sum_x) / count)
            }
        };
        let columns =
            [slope, intercept].map(|value| Arc::new(Float64Array::from(vec![value])) as ArrayRef);
        let line = StructArray::try_new(fields.clone(), columns.to_vec(), None)?;
        Ok(ScalarValue::Struct(Arc::new(line)))
    }
}

/// The sum of the increases from one row to the next.
#[derive(Debug)]
pub(crate) struct DeltaSum {
    pub ty: DataType,
}

impl GroupFunction for DeltaSum {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        if args[0].is_empty() {
            return Ok(ScalarValue::try_from(&self.ty)?);
        }
        macro_rules! increases {
            ($of:ty, $zero:expr, $add:expr) => {{
                let values = args[0].as_primitive::<$of>().values();
                let pairs = values.windows(2).filter(|pair| pair[1] > pair[0]);
                pairs.fold($zero, |sum, pair| $add(sum, pair[1], pair[0]))
            }};
        }
        Ok(match &self.ty {
            DataType::Int64 => ScalarValue::Int64(Some(increases!(
                Int64Type,
                0i64,
                |sum: i64, after: i64, before: i64| sum.wrapping_add(after.wrapping_sub(before))
            ))),
            DataType::UInt64 => ScalarValue::UInt64(Some(increases!(
                UInt64Type,
                0u64,
                |sum: u64, after: u64, before: u64| sum.wrapping_add(after - before)
            ))),
            DataType::Float64 => ScalarValue::Float64(Some(increases!(
                Float64Type,
                0f64,
                |sum: f64, after: f64, before: f64| sum + (after - before)
            ))),
            DataType::Decimal128(precision, scale) => {
                let sum =
                    increases!(Decimal128Type, 0i128, |sum: i128, after: i128, before: i128| {
                        sum.wrapping_add(after.wrapping_sub(before))
                    });
                ScalarValue::Decimal128(Some(sum), *precision, *scale)
            }
            other => return Err(Error::engine(UNEXPECTED, format!("deltaSum cannot add {other}"))),
        })
    }
}
