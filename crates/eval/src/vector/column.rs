//! Columns during evaluation: how kernels read arguments and build results.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, Int64Array,
    StringArray, UInt32Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use hogql::Span;
use hogql::types::Type;

use crate::error::{Error, Result};
use crate::limits::meter::{self, GrowingBuffer};
use crate::vector::gather::take;
use crate::vector::types::wide_list;
use crate::{ELEMENTS_MAX, STRING_BYTES_MAX};

/// Values in the wide representation ([`crate::vector::types`]). A constant has one row, which stands
/// for all.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub array: ArrayRef,
    pub constant: bool,
}

impl Column {
    pub fn constant(array: ArrayRef) -> Self {
        Self { array, constant: true }
    }

    pub fn full(array: ArrayRef) -> Self {
        Self { array, constant: false }
    }

    pub fn expand(&self, rows: usize) -> Result<ArrayRef> {
        if !self.constant {
            return Ok(Arc::clone(&self.array));
        }
        take(&self.array, &UInt32Array::from(vec![0; rows]))
    }

    pub fn take(&self, indices: &UInt32Array) -> Result<Self> {
        if self.constant {
            return Ok(self.clone());
        }
        Ok(Self::full(take(&self.array, indices)?))
    }

    fn mask(&self) -> usize {
        if self.constant { 0 } else { usize::MAX }
    }
}

/// Values indexed by row. The mask maps every row of a constant to index 0, without a branch.
#[derive(Clone, Copy)]
pub(crate) struct Slice<'a, T> {
    values: &'a [T],
    mask: usize,
}

impl<T: Copy> Slice<'_, T> {
    #[inline]
    pub fn at(&self, row: usize) -> T {
        self.values[row & self.mask]
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Strings<'a> {
    array: &'a StringArray,
    mask: usize,
}

impl<'a> Strings<'a> {
    #[inline]
    pub fn at(&self, row: usize) -> &'a str {
        self.array.value(row & self.mask)
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Uuids<'a> {
    array: &'a FixedSizeBinaryArray,
    mask: usize,
}

impl Uuids<'_> {
    pub fn at(&self, row: usize) -> uuid::Uuid {
        uuid::Uuid::from_slice(self.array.value(row & self.mask)).unwrap_or_default()
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Lists<'a> {
    offsets: &'a [i32],
    pub values: &'a ArrayRef,
    mask: usize,
}

impl Lists<'_> {
    #[inline]
    pub fn at(&self, row: usize) -> Range<usize> {
        let row = row & self.mask;
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }
}

/// The arguments of a call for one batch.
pub(crate) struct Args<'a> {
    pub columns: &'a [Column],
    pub rows: usize,
    /// For strict functions: the rows that have a null argument. The kernel skips them.
    pub nulls: Option<NullBuffer>,
}

impl<'a> Args<'a> {
    /// The union of all arguments' nulls.
    pub fn any_null(columns: &[Column], rows: usize) -> Option<NullBuffer> {
        let mut all: Option<NullBuffer> = None;
        for column in columns {
            let nulls = column.array.nulls().filter(|nulls| nulls.null_count() > 0);
            let Some(nulls) = nulls else { continue };
            if column.constant && rows != 1 {
                return Some(NullBuffer::new_null(rows));
            }
            all = NullBuffer::union(all.as_ref(), Some(nulls));
        }
        all
    }

    pub fn ints(&self, no: usize) -> Slice<'a, i64> {
        let column = &self.columns[no];
        Slice { values: column.array.as_primitive::<Int64Type>().values(), mask: column.mask() }
    }

    pub fn floats(&self, no: usize) -> Slice<'a, f64> {
        let column = &self.columns[no];
        Slice { values: column.array.as_primitive::<Float64Type>().values(), mask: column.mask() }
    }

    pub fn decimals(&self, no: usize) -> Slice<'a, i128> {
        let column = &self.columns[no];
        let values = column.array.as_primitive::<Decimal128Type>().values();
        Slice { values, mask: column.mask() }
    }

    pub fn strings(&self, no: usize) -> Strings<'a> {
        let column = &self.columns[no];
        Strings { array: column.array.as_string(), mask: column.mask() }
    }

    pub fn uuids(&self, no: usize) -> Uuids<'a> {
        let column = &self.columns[no];
        Uuids { array: column.array.as_fixed_size_binary(), mask: column.mask() }
    }

    pub fn lists(&self, no: usize) -> Lists<'a> {
        let column = &self.columns[no];
        let list = column.array.as_list::<i32>();
        Lists { offsets: list.value_offsets(), values: list.values(), mask: column.mask() }
    }

    /// The index into an argument's array for this row.
    #[inline]
    pub fn row_of(&self, no: usize, row: usize) -> usize {
        row & self.columns[no].mask()
    }

    #[inline]
    pub fn is_null(&self, no: usize, row: usize) -> bool {
        self.columns[no].array.is_null(self.row_of(no, row))
    }

    #[inline]
    pub fn is_valid(&self, row: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    }

    pub fn map_ints(&self, mut f: impl FnMut(usize) -> i64) -> ArrayRef {
        let values: ScalarBuffer<i64> = match &self.nulls {
            None => (0..self.rows).map(f).collect(),
            Some(nulls) => {
                let rows = (0..self.rows).map(|row| if nulls.is_valid(row) { f(row) } else { 0 });
                rows.collect()
            }
        };
        Arc::new(Int64Array::new(values, self.nulls.clone()))
    }

    pub fn map_floats(&self, mut f: impl FnMut(usize) -> f64) -> ArrayRef {
        let values: ScalarBuffer<f64> = match &self.nulls {
            None => (0..self.rows).map(f).collect(),
            Some(nulls) => {
                let rows = (0..self.rows).map(|row| if nulls.is_valid(row) { f(row) } else { 0.0 });
                rows.collect()
            }
        };
        Arc::new(Float64Array::new(values, self.nulls.clone()))
    }

    pub fn map_bools(&self, mut f: impl FnMut(usize) -> bool) -> BooleanArray {
        let bits = match &self.nulls {
            None => BooleanBuffer::collect_bool(self.rows, f),
            Some(nulls) => {
                BooleanBuffer::collect_bool(self.rows, |row| nulls.is_valid(row) && f(row))
            }
        };
        BooleanArray::new(bits, self.nulls.clone())
    }

    pub fn try_bools(&self, mut f: impl FnMut(usize) -> Result<bool>) -> Result<BooleanArray> {
        let mut values = Vec::with_capacity(self.rows);
        for row in 0..self.rows {
            values.push(self.is_valid(row) && f(row)?);
        }
        Ok(BooleanArray::new(BooleanBuffer::from(values), self.nulls.clone()))
    }

    pub fn try_ints(&self, mut f: impl FnMut(usize) -> Result<Option<i64>>) -> Result<ArrayRef> {
        let values = (0..self.rows).map(|row| if self.is_valid(row) { f(row) } else { Ok(None) });
        Ok(Arc::new(values.collect::<Result<Int64Array>>()?))
    }

    pub fn try_decimals(
        &self,
        scale: u8,
        mut f: impl FnMut(usize) -> Result<Option<i128>>,
    ) -> Result<ArrayRef> {
        let values = (0..self.rows).map(|row| if self.is_valid(row) { f(row) } else { Ok(None) });
        let decimals = values.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(decimals.with_precision_and_scale(38, scale as i8)?))
    }

    /// Strings that `f` appends to the buffer; null where it returns false.
    pub fn try_strings(
        &self,
        span: Span,
        mut f: impl FnMut(usize, &mut String) -> Result<bool>,
    ) -> Result<ArrayRef> {
        let mut strings = StringWriter::new(self.rows, span);
        for row in 0..self.rows {
            let written = self.is_valid(row) && f(row, strings.buffer())?;
            strings.end(written)?;
        }
        Ok(strings.finish())
    }

    pub fn map_strings(
        &self,
        span: Span,
        mut f: impl FnMut(usize, &mut String),
    ) -> Result<ArrayRef> {
        self.try_strings(span, |row, out| {
            f(row, out);
            Ok(true)
        })
    }

    /// Lists of the elements of `values` whose indices `f` pushes; empty where an argument is null.
    pub fn pick_lists(
        &self,
        element: &Type,
        values: &ArrayRef,
        span: Span,
        mut f: impl FnMut(usize, &mut Vec<u32>) -> Result<()>,
    ) -> Result<ArrayRef> {
        let (mut indices, mut charge) = (Vec::new(), GrowingBuffer::default());
        let mut offsets = Vec::with_capacity(self.rows + 1);
        offsets.push(0);
        for row in 0..self.rows {
            if self.is_valid(row) {
                f(row, &mut indices)?;
            }
            offsets.push(check_elements(indices.len(), span)?);
            charge.grow_to(indices.len() * size_of::<u32>())?;
        }
        let values = take(values, &UInt32Array::from(indices))?;
        wide_list(element, offsets, values)
    }

    /// Lists of the strings that `f` pushes; empty where an argument is null.
    pub fn string_lists(
        &self,
        element: &Type,
        span: Span,
        mut f: impl FnMut(usize, &mut StringWriter) -> Result<()>,
    ) -> Result<ArrayRef> {
        let mut strings = StringWriter::new(self.rows, span);
        let mut offsets = Vec::with_capacity(self.rows + 1);
        offsets.push(0);
        for row in 0..self.rows {
            if self.is_valid(row) {
                f(row, &mut strings)?;
            }
            offsets.push(check_elements(strings.len(), span)?);
        }
        wide_list(element, offsets, strings.finish())
    }
}

pub(crate) fn check_elements(count: usize, span: Span) -> Result<i32> {
    if count > ELEMENTS_MAX {
        return Err(Error::TooLarge { what: "elements", max: ELEMENTS_MAX, span });
    }
    Ok(count as i32)
}

/// Fails if `more` bytes would exceed the limit of a string column or of the query's memory.
pub(crate) fn check_string_bytes(out: &str, more: usize, span: Span) -> Result<()> {
    if out.len().saturating_add(more) > STRING_BYTES_MAX {
        return Err(Error::TooLarge { what: "bytes of text", max: STRING_BYTES_MAX, span });
    }
    meter::check_headroom(more)
}

pub(crate) fn uuid_array(values: &[Option<uuid::Uuid>]) -> Result<ArrayRef> {
    let nulls: NullBuffer = values.iter().map(Option::is_some).collect();
    let bytes: Vec<u8> =
        values.iter().flat_map(|value| value.unwrap_or_default().into_bytes()).collect();
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    Ok(Arc::new(FixedSizeBinaryArray::try_new(16, Buffer::from_vec(bytes), nulls)?))
}

/// Builds a string column: one buffer, offsets and a null mask.
pub(crate) struct StringWriter {
    bytes: String,
    offsets: Vec<i32>,
    valid: Vec<bool>,
    span: Span,
    charge: GrowingBuffer,
}

/// Bytes per string besides its content: the offset and the validity flag.
const TEXT_BYTES: usize = size_of::<i32>() + size_of::<bool>();

impl StringWriter {
    pub fn new(rows: usize, span: Span) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let (bytes, charge) = (String::new(), GrowingBuffer::default());
        Self { bytes, offsets, valid: Vec::with_capacity(rows), span, charge }
    }

    /// The buffer to which the next string is appended.
    pub fn buffer(&mut self) -> &mut String {
        &mut self.bytes
    }

    pub fn end(&mut self, valid: bool) -> Result<()> {
        if !valid {
            self.bytes.truncate(self.offsets[self.offsets.len() - 1] as usize);
        }
        if self.bytes.len() > STRING_BYTES_MAX {
            let what = "bytes of text";
            return Err(Error::TooLarge { what, max: STRING_BYTES_MAX, span: self.span });
        }
        self.offsets.push(self.bytes.len() as i32);
        self.valid.push(valid);
        self.charge.grow_to(self.bytes.capacity() + self.valid.len() * TEXT_BYTES)
    }

    /// Appends a string; for functions that return lists of strings.
    pub fn push(&mut self, text: &str) -> Result<()> {
        check_elements(self.valid.len() + 1, self.span)?;
        self.bytes.push_str(text);
        self.end(true)
    }

    pub fn len(&self) -> usize {
        self.valid.len()
    }

    pub fn finish(mut self) -> ArrayRef {
        // The spare capacity would not be charged.
        if self.bytes.capacity() > self.bytes.len() + self.bytes.len() / 4 {
            self.bytes.shrink_to_fit();
        }
        let nulls = NullBuffer::from(self.valid);
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        Arc::new(StringArray::new(offsets, Buffer::from_vec(self.bytes.into_bytes()), nulls))
    }
}

/// Which numbers are not zero.
pub(crate) fn is_true(array: &ArrayRef) -> BooleanArray {
    let nulls = array.nulls().cloned();
    let bits = match array.data_type() {
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>().values();
            BooleanBuffer::collect_bool(values.len(), |row| values[row] != 0.0)
        }
        DataType::Int64 => {
            let values = array.as_primitive::<Int64Type>().values();
            BooleanBuffer::collect_bool(values.len(), |row| values[row] != 0)
        }
        _ => BooleanBuffer::new_unset(array.len()),
    };
    BooleanArray::new(bits, nulls)
}
