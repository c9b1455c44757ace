//! `groupBitmap…`: aggregates of bitmaps, which are arrays of distinct members in ascending order.

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::ScalarValue;
use hashbrown::HashMap;

use super::collect::list;
use super::group_function::{GroupFunction, encoded};
use crate::error::{Error, Result, UNEXPECTED};

/// The bitmap of the values.
#[derive(Debug)]
pub(crate) struct Members {
    pub ty: DataType,
}

impl GroupFunction for Members {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        bitmap(&self.ty, &args[0], |_| true)
    }
}

/// The members of all bitmaps, of any or of an odd number: the bitmap of them, or how many they are.
#[derive(Debug)]
pub(crate) struct Combine {
    operation: Operation,
    ty: DataType,
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    And,
    Or,
    Xor,
}

impl Combine {
    pub(crate) fn named(name: &str, ty: DataType) -> Self {
        let operation = match name {
            "groupBitmapAnd" | "groupBitmapAndState" => Operation::And,
            "groupBitmapXor" | "groupBitmapXorState" => Operation::Xor,
            _ => Operation::Or,
        };
        Self { operation, ty }
    }
}

impl GroupFunction for Combine {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let Some(bitmaps) = args[0].as_list_opt::<i32>() else {
            return Err(Error::engine(UNEXPECTED, "a bitmap is no array"));
        };
        let offsets = bitmaps.value_offsets();
        let (from, to) = (offsets[0] as usize, offsets[bitmaps.len()] as usize);
        let members = bitmaps.values().slice(from, to - from);
        let all = bitmaps.len() as u64;
        let is_member = |count: u64| match self.operation {
            Operation::And => count == all,
            Operation::Or => true,
            Operation::Xor => count % 2 == 1,
        };
        if matches!(self.ty, DataType::List(_)) {
            return bitmap(&self.ty, &members, is_member);
        }
        let rows = encoded(std::slice::from_ref(&members))?;
        let mut counts: HashMap<&[u8], u64> = HashMap::new();
        rows.iter().for_each(|row| *counts.entry(row.data()).or_default() += 1);
        let count = counts.into_values().filter(|count| is_member(*count)).count();
        Ok(ScalarValue::UInt64(Some(count as u64)))
    }
}

/// The distinct values, sorted, that occur as often as wanted.
fn bitmap(ty: &DataType, values: &ArrayRef, wanted: impl Fn(u64) -> bool) -> Result<ScalarValue> {
    let rows = encoded(std::slice::from_ref(values))?;
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_unstable_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
    let equal = order.chunk_by(|a, b| rows.row(*a as usize) == rows.row(*b as usize));
    let members = equal.filter(|equal| wanted(equal.len() as u64)).map(|equal| equal[0]);
    list(ty, take(values, &UInt32Array::from_iter_values(members), None)?)
}
