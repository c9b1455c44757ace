//! Copies of values, bounded: a constant array of a million elements must not be written out for
//! each row.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;

use crate::error::{Error, Result};
use crate::meter;
use crate::{ELEMENTS_MAX, TEXT_BYTES_MAX};

/// Bytes of text that count as much as an element.
const ELEMENT_BYTES: usize = TEXT_BYTES_MAX / ELEMENTS_MAX;

/// The values at these numbers; null at a null.
pub(crate) fn take(array: &ArrayRef, indices: &UInt32Array) -> Result<ArrayRef> {
    if is_large(array) {
        let rows = indices.iter().flatten().map(|at| (&**array, at as usize));
        meter::room_for(check(rows)?)?;
    }
    Ok(arrow_select::take::take(array, indices, None)?)
}

/// The values at these numbers of these arrays.
pub(crate) fn interleave(arrays: &[ArrayRef], places: &[(usize, usize)]) -> Result<ArrayRef> {
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
    if arrays.iter().any(|array| is_large(*array)) {
        meter::room_for(check(places.iter().map(|(no, at)| (arrays[*no], *at)))?)?;
    }
    Ok(arrow_select::interleave::interleave(&arrays, places)?)
}

/// One array of several, within the same bounds as if it had been given at once.
pub(crate) fn joined(mut parts: Vec<ArrayRef>) -> Result<ArrayRef> {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return Ok(only);
    }
    let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
    let sizes = parts.iter().map(|part| size(*part, 0, part.len()));
    let (elements, bytes) = sizes.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
    let span = hogql::Span::default();
    if elements > ELEMENTS_MAX {
        return Err(Error::TooLarge { what: "elements", max: ELEMENTS_MAX, span });
    }
    if bytes > TEXT_BYTES_MAX {
        return Err(Error::TooLarge { what: "bytes of text", max: TEXT_BYTES_MAX, span });
    }
    meter::room_for(elements * ELEMENT_BYTES + bytes)?;
    Ok(arrow_select::concat::concat(&parts)?)
}

/// Roughly the bytes of texts and of arrays' elements.
pub(crate) fn size_of_values(array: &ArrayRef) -> usize {
    let (elements, bytes) = size(array, 0, array.len());
    elements * ELEMENT_BYTES + bytes
}

/// Whether its values differ in size.
fn is_large(array: &dyn Array) -> bool {
    matches!(array.data_type(), DataType::List(_) | DataType::Struct(_) | DataType::Utf8)
}

/// Roughly the bytes of copies of these.
fn check<'a>(values: impl Iterator<Item = (&'a dyn Array, usize)>) -> Result<usize> {
    let (mut elements, mut bytes) = (0, 0);
    for (array, at) in values {
        let size = size(array, at, at + 1);
        elements += size.0;
        bytes += size.1;
        if elements + bytes / ELEMENT_BYTES > ELEMENTS_MAX {
            let span = hogql::Span::default();
            return Err(Error::TooLarge { what: "elements", max: ELEMENTS_MAX, span });
        }
    }
    Ok(elements * ELEMENT_BYTES + bytes)
}

/// Elements and bytes of the values from one number up to another.
fn size(array: &dyn Array, from: usize, to: usize) -> (usize, usize) {
    match array.data_type() {
        DataType::Utf8 => {
            let offsets = array.as_string::<i32>().value_offsets();
            (0, (offsets[to] - offsets[from]) as usize)
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let offsets = list.value_offsets();
            let (from, to) = (offsets[from] as usize, offsets[to] as usize);
            let (elements, bytes) = size(list.values(), from, to);
            (elements + to - from, bytes)
        }
        DataType::Struct(_) => {
            let parts = array.as_struct().columns().iter().map(|part| size(part, from, to));
            parts.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
        }
        _ => (0, 0),
    }
}
