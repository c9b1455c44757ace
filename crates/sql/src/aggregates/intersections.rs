//! `maxIntersections`: how many intervals overlap at most, and where they begin to.

use arrow::array::{Array, ArrayRef};
use datafusion_common::ScalarValue;

use super::group_function::{GroupFunction, encoded};
use crate::error::Result;

#[derive(Debug)]
pub(crate) struct MaxIntersections;

impl GroupFunction for MaxIntersections {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        Ok(ScalarValue::UInt64(Some(most(args)?.0)))
    }
}

/// The start at which the most intervals overlap for the first time.
#[derive(Debug)]
pub(crate) struct MaxIntersectionsPosition;

impl GroupFunction for MaxIntersectionsPosition {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        match most(args)?.1 {
            Some(row) => Ok(ScalarValue::try_from_array(&args[0], row)?),
            None => Ok(ScalarValue::try_from(args[0].data_type())?),
        }
    }
}

/// An interval ends before others begin at the same value.
fn most(args: &[ArrayRef]) -> Result<(u64, Option<usize>)> {
    let (starts, ends) =
        (encoded(std::slice::from_ref(&args[0]))?, encoded(std::slice::from_ref(&args[1]))?);
    let begins = starts.iter().enumerate().map(|(row, at)| (at, true, row));
    let finishes = ends.iter().enumerate().map(|(row, at)| (at, false, row));
    let mut points: Vec<_> = begins.chain(finishes).collect();
    points.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut open, mut most, mut position) = (0i64, 0i64, None);
    for (_, begins, row) in points {
        open += if begins { 1 } else { -1 };
        if open > most {
            (most, position) = (open, Some(row));
        }
    }
    Ok((most.max(0) as u64, position))
}
