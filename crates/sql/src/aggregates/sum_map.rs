//! `sumMap`: sums by key, of maps (lists of entries) or of pairs of arrays.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, StructArray, UInt32Array,
    UInt64Array, new_empty_array,
};
use arrow::compute::{cast, filter, take};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion_common::ScalarValue;
use hashbrown::HashMap;

use super::collect::{element, list};
use super::group_function::{GroupFunction, encoded};
use crate::error::{Error, Result, UNEXPECTED};

#[derive(Debug)]
pub(crate) struct SumMap {
    pub ty: DataType,
}

impl GroupFunction for SumMap {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        match &self.ty {
            DataType::List(_) => self.maps(&args[0]),
            DataType::Struct(fields) if fields.len() == 2 => self.pairs(&args[0]),
            other => Err(Error::engine(UNEXPECTED, format!("sumMap cannot give {other}"))),
        }
    }
}

impl SumMap {
    fn maps(&self, arg: &ArrayRef) -> Result<ScalarValue> {
        let entries = element(&self.ty)?;
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(Error::engine(UNEXPECTED, "a map without entries"));
        };
        let maps = arg.as_list::<i32>();
        let offsets = maps.value_offsets();
        let (from, to) = (offsets[0] as usize, offsets[maps.len()] as usize);
        let entries = maps.values().slice(from, to - from);
        let entries = entries.as_struct();
        let (keys, sums) = sums(entries.column(0), entries.column(1), fields[1].data_type())?;
        list(&self.ty, Arc::new(StructArray::try_new(fields.clone(), vec![keys, sums], None)?))
    }

    fn pairs(&self, arg: &ArrayRef) -> Result<ScalarValue> {
        let DataType::Struct(fields) = &self.ty else {
            return Err(Error::engine(UNEXPECTED, "sumMap of no pair"));
        };
        let pairs = arg.as_struct();
        let flat = |column: usize| -> Result<(ArrayRef, Vec<i32>)> {
            let list = pairs.column(column).as_list::<i32>();
            let offsets = list.value_offsets();
            let (from, to) = (offsets[0], offsets[list.len()]);
            let lengths = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
            Ok((list.values().slice(from as usize, (to - from) as usize), lengths))
        };
        let ((keys, key_lengths), (values, value_lengths)) = (flat(0)?, flat(1)?);
        if key_lengths != value_lengths {
            let message = "sumMap needs as many values as keys";
            return Err(Error::engine("sizes_of_arrays_dont_match", message));
        }
        let sum_type = element(fields[1].data_type())?.data_type();
        let (keys, sums) = sums(&keys, &values, sum_type)?;
        // Of arrays, unlike of maps, ClickHouse drops keys whose sum is zero.
        let zero = ScalarValue::new_zero(sum_type)?.to_scalar()?;
        let some = arrow::compute::kernels::cmp::neq(&sums, &zero)?;
        let (keys, sums) = (filter(&keys, &some)?, filter(&sums, &some)?);
        let lists = [list(fields[0].data_type(), keys)?, list(fields[1].data_type(), sums)?];
        let lists = lists.iter().map(|list| list.to_array()).collect::<Result<Vec<_>, _>>()?;
        Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(fields.clone(), lists, None)?)))
    }
}

/// The distinct keys, sorted, and the sum of the values of each.
fn sums(keys: &ArrayRef, values: &ArrayRef, ty: &DataType) -> Result<(ArrayRef, ArrayRef)> {
    if keys.is_empty() {
        return Ok((keys.clone(), new_empty_array(ty)));
    }
    let values = cast(values, ty)?;
    let rows = encoded(std::slice::from_ref(keys))?;
    let mut key_indexes: HashMap<&[u8], usize> = HashMap::new();
    let mut first: Vec<u32> = Vec::new();
    let mut index_of_row = Vec::with_capacity(rows.num_rows());
    for (no, row) in rows.iter().enumerate() {
        let index = *key_indexes.entry(row.data()).or_insert(first.len());
        if index == first.len() {
            first.push(no as u32);
        }
        index_of_row.push(index);
    }
    let mut order: Vec<u32> = (0..first.len() as u32).collect();
    order.sort_by(|a, b| {
        let row = |index: &u32| rows.row(first[*index as usize] as usize);
        row(a).cmp(&row(b))
    });
    let order = UInt32Array::from(order);
    macro_rules! summed {
        ($of:ty, $array:ty, $add:expr) => {{
            let values = values.as_primitive::<$of>();
            let mut sums = vec![Default::default(); first.len()];
            for (row, index) in
                index_of_row.iter().enumerate().filter(|(row, _)| values.is_valid(*row))
            {
                sums[*index] = $add(sums[*index], values.value(row));
            }
            Arc::new(<$array>::from(sums)) as ArrayRef
        }};
    }
    let sums = match ty {
        DataType::Float64 => summed!(Float64Type, Float64Array, |a: f64, b: f64| a + b),
        DataType::Int64 => summed!(Int64Type, Int64Array, i64::wrapping_add),
        DataType::UInt64 => summed!(UInt64Type, UInt64Array, u64::wrapping_add),
        DataType::Decimal128(precision, scale) => {
            let values = values.as_primitive::<Decimal128Type>();
            let mut sums = vec![0i128; first.len()];
            for (row, index) in
                index_of_row.iter().enumerate().filter(|(row, _)| values.is_valid(*row))
            {
                sums[*index] = sums[*index].wrapping_add(values.value(row));
            }
            let sums = Decimal128Array::from(sums).with_precision_and_scale(*precision, *scale)?;
            Arc::new(sums) as ArrayRef
        }
        other => return Err(Error::engine(UNEXPECTED, format!("sumMap cannot add {other}"))),
    };
    let first = take(&UInt32Array::from(first), &order, None)?;
    Ok((take(keys, &first, None)?, take(&sums, &order, None)?))
}
