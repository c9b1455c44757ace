//! `groupArray`, `groupUniqArray`, `topK` and `string_agg`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use datafusion_common::ScalarValue;
use hashbrown::HashMap;

use super::group_function::{GroupFunction, encoded};
use crate::error::{Error, Result, UNEXPECTED};

#[derive(Debug)]
pub(crate) struct GroupArray {
    pub max: Option<usize>,
    pub ty: DataType,
}

impl GroupFunction for GroupArray {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let count = self.max.unwrap_or(usize::MAX).min(args[0].len());
        list(&self.ty, args[0].slice(0, count))
    }
}

/// Distinct values, in the order of their first occurrence.
#[derive(Debug)]
pub(crate) struct GroupUniqArray {
    pub max: Option<usize>,
    pub ty: DataType,
}

impl GroupFunction for GroupUniqArray {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let mut rows: Vec<u32> = counts(args)?.into_iter().map(|(row, _)| row).collect();
        rows.truncate(self.max.unwrap_or(usize::MAX));
        list(&self.ty, take(&args[0], &UInt32Array::from(rows), None)?)
    }
}

/// The most frequent values; ties are broken by first occurrence.
#[derive(Debug)]
pub(crate) struct TopK {
    pub count: usize,
    pub ty: DataType,
}

impl GroupFunction for TopK {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let mut values = counts(args)?;
        values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        values.truncate(self.count);
        let rows = values.into_iter().map(|(row, _)| row);
        list(&self.ty, take(&args[0], &UInt32Array::from_iter_values(rows), None)?)
    }
}

/// The last values, in their order.
#[derive(Debug)]
pub(crate) struct GroupArrayLast {
    pub count: usize,
    pub ty: DataType,
}

impl GroupFunction for GroupArrayLast {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let count = self.count.min(args[0].len());
        list(&self.ty, args[0].slice(args[0].len() - count, count))
    }
}

/// The smallest values, sorted.
#[derive(Debug)]
pub(crate) struct GroupArraySorted {
    pub count: usize,
    pub ty: DataType,
}

impl GroupFunction for GroupArraySorted {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let rows = encoded(&args[..1])?;
        let mut order: Vec<u32> = (0..args[0].len() as u32).collect();
        order.sort_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
        order.truncate(self.count);
        list(&self.ty, take(&args[0], &UInt32Array::from(order), None)?)
    }
}

/// The value that makes up more than half of the rows, if one does; otherwise some value.
#[derive(Debug)]
pub(crate) struct AnyHeavy;

impl GroupFunction for AnyHeavy {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let rows = encoded(&args[..1])?;
        let (mut candidate, mut lead) = (None, 0u64);
        for (no, row) in rows.iter().enumerate() {
            match candidate {
                Some(other) if lead > 0 && rows.row(other) == row => lead += 1,
                Some(_) if lead > 0 => lead -= 1,
                _ => (candidate, lead) = (Some(no), 1),
            }
        }
        match candidate {
            Some(no) => Ok(ScalarValue::try_from_array(&args[0], no)?),
            None => Ok(ScalarValue::try_from(args[0].data_type())?),
        }
    }
}

#[derive(Debug)]
pub(crate) struct StringAgg;

impl GroupFunction for StringAgg {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let (texts, separators) = (args[0].as_string::<i32>(), args[1].as_string::<i32>());
        if texts.is_empty() {
            return Ok(ScalarValue::Utf8(None));
        }
        let mut out = String::new();
        for row in 0..texts.len() {
            if row > 0 {
                out.push_str(separators.value(row));
            }
            out.push_str(texts.value(row));
        }
        Ok(ScalarValue::Utf8(Some(out)))
    }
}

/// The first row of each distinct value, and its number of occurrences.
fn counts(args: &[ArrayRef]) -> Result<Vec<(u32, u64)>> {
    let rows = encoded(&args[..1])?;
    let mut values: HashMap<&[u8], usize> = HashMap::new();
    let mut counts: Vec<(u32, u64)> = Vec::new();
    for (no, row) in rows.iter().enumerate() {
        let at = *values.entry(row.data()).or_insert(counts.len());
        match counts.get_mut(at) {
            Some((_, count)) => *count += 1,
            None => counts.push((no as u32, 1)),
        }
    }
    Ok(counts)
}

pub(crate) fn element(ty: &DataType) -> Result<&Arc<Field>> {
    match ty {
        DataType::List(field) => Ok(field),
        other => Err(Error::engine(UNEXPECTED, format!("{other} is no array"))),
    }
}

/// An array with these elements.
pub(crate) fn list(ty: &DataType, elements: ArrayRef) -> Result<ScalarValue> {
    let field = element(ty)?;
    let elements = match elements.data_type() == field.data_type() {
        true => elements,
        false => arrow::compute::cast(&elements, field.data_type())?,
    };
    let offsets = OffsetBuffer::from_lengths([elements.len()]);
    Ok(ScalarValue::List(Arc::new(ListArray::try_new(field.clone(), offsets, elements, None)?)))
}
