//! Bounded copies (take, interleave, concat): a constant array of a million elements must not be
//! copied for each row.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;

use crate::error::{Error, Result};
use crate::limits::meter;
use crate::{ELEMENTS_MAX, STRING_BYTES_MAX};

/// Bytes of strings that count as one element.
const ELEMENT_BYTES: usize = STRING_BYTES_MAX / ELEMENTS_MAX;

/// The values at these indices; null at a null index.
pub(crate) fn take(array: &ArrayRef, indices: &UInt32Array) -> Result<ArrayRef> {
    if is_large(array) {
        let rows = indices.iter().flatten().map(|at| (&**array, at as usize));
        meter::check_headroom(check(rows)?)?;
    }
    Ok(arrow_select::take::take(array, indices, None)?)
}

/// The values at these (array, index) positions.
pub(crate) fn interleave(arrays: &[ArrayRef], positions: &[(usize, usize)]) -> Result<ArrayRef> {
    let arrays: Vec<&dyn Array> = arrays.iter().map(|array| &**array).collect();
    if arrays.iter().any(|array| is_large(*array)) {
        meter::check_headroom(check(positions.iter().map(|(no, at)| (arrays[*no], *at)))?)?;
    }
    Ok(arrow_select::interleave::interleave(&arrays, positions)?)
}

/// Concatenates chunks, within the limits of a single call.
pub(crate) fn concat(mut parts: Vec<ArrayRef>) -> Result<ArrayRef> {
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
    if bytes > STRING_BYTES_MAX {
        return Err(Error::TooLarge { what: "bytes of text", max: STRING_BYTES_MAX, span });
    }
    meter::check_headroom(elements * ELEMENT_BYTES + bytes)?;
    Ok(arrow_select::concat::concat(&parts)?)
}

/// Approximate bytes of strings and array elements.
pub(crate) fn size_of_values(array: &ArrayRef) -> usize {
    let (elements, bytes) = size(array, 0, array.len());
    elements * ELEMENT_BYTES + bytes
}

/// Whether its values vary in size.
fn is_large(array: &dyn Array) -> bool {
    matches!(array.data_type(), DataType::List(_) | DataType::Struct(_) | DataType::Utf8)
}

/// Approximate bytes of copies of these values; fails past the element limit.
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

/// Elements and bytes of the values in `from..to`.
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

/// Bytes of the array's own slice, without the rest of shared buffers.
pub(crate) fn bytes_of(array: &ArrayRef) -> Result<usize> {
    Ok(array.to_data().get_slice_memory_size()?)
}
