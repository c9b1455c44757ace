//! Arrow types of the API, and the wide representation used during evaluation.
//!
//! During evaluation, integers of all widths (`UInt64` by its bit pattern), booleans, days and
//! microseconds are `Int64` arrays, so that a kernel is written once and not for nine widths. A kernel
//! wraps its results to the width of their type ([`wrap`]).

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Date32Array, Decimal128Array,
    FixedSizeBinaryArray, Float64Array, Int64Array, ListArray, NullArray, PrimitiveArray,
    StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{BooleanBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use hogql::types::{Kind, Type};

use crate::error::{Error, Result};

/// Decimal precision.
const DECIMAL_DIGITS: u8 = 38;

/// The Arrow type of inputs and results of this type. A map is a list of structs (`key`, `value`).
pub fn data_type(ty: &Type) -> DataType {
    match &ty.kind {
        Kind::Null => DataType::Null,
        Kind::Bool => DataType::Boolean,
        Kind::UInt(8) => DataType::UInt8,
        Kind::UInt(16) => DataType::UInt16,
        Kind::UInt(32) => DataType::UInt32,
        Kind::UInt(_) => DataType::UInt64,
        Kind::Int(8) => DataType::Int8,
        Kind::Int(16) => DataType::Int16,
        Kind::Int(32) => DataType::Int32,
        Kind::Int(_) | Kind::Interval(_) => DataType::Int64,
        Kind::Float => DataType::Float64,
        Kind::Decimal(scale) => DataType::Decimal128(DECIMAL_DIGITS, *scale as i8),
        Kind::String | Kind::Json(_) => DataType::Utf8,
        Kind::Uuid => DataType::FixedSizeBinary(16),
        Kind::Date => DataType::Date32,
        Kind::DateTime(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::Array(element) => DataType::List(Arc::new(field("item", element))),
        Kind::Tuple(items) => DataType::Struct(struct_fields(items)),
        Kind::Map(pair) => {
            let entry = Fields::from(vec![field("key", &pair.0), field("value", &pair.1)]);
            DataType::List(Arc::new(Field::new("item", DataType::Struct(entry), false)))
        }
    }
}

fn field(name: &str, ty: &Type) -> Field {
    Field::new(name, data_type(ty), ty.nullable || ty.kind == Kind::Null)
}

fn struct_fields(items: &[Type]) -> Fields {
    let fields = items.iter().enumerate().map(|(no, ty)| field(&(no + 1).to_string(), ty));
    fields.collect()
}

/// The type of a map's entries: a tuple of key and value.
pub(crate) fn entry(pair: &(Type, Type)) -> Type {
    Kind::Tuple(vec![pair.0.clone(), pair.1.clone()]).into()
}

/// The Arrow type of the wide representation.
pub(crate) fn wide_type(kind: &Kind) -> DataType {
    match kind {
        Kind::Float => DataType::Float64,
        Kind::Decimal(scale) => DataType::Decimal128(DECIMAL_DIGITS, *scale as i8),
        Kind::String | Kind::Json(_) => DataType::Utf8,
        Kind::Uuid => DataType::FixedSizeBinary(16),
        Kind::Array(element) => DataType::List(wide_field(element)),
        Kind::Tuple(items) => DataType::Struct(wide_fields(items)),
        Kind::Map(pair) => DataType::List(wide_field(&entry(pair))),
        _ => DataType::Int64,
    }
}

fn wide_field(element: &Type) -> Arc<Field> {
    Arc::new(Field::new("item", wide_type(&element.kind), true))
}

fn wide_fields(items: &[Type]) -> Fields {
    let fields = items.iter().enumerate();
    fields.map(|(no, ty)| Field::new((no + 1).to_string(), wide_type(&ty.kind), true)).collect()
}

/// A list in the wide representation.
pub(crate) fn wide_list(element: &Type, offsets: Vec<i32>, values: ArrayRef) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::try_new(wide_field(element), offsets, values, None)?))
}

/// A struct in the wide representation.
pub(crate) fn wide_struct(items: &[Type], columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
    let fields = wide_fields(items);
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, None, rows)?))
}

/// Converts an input to the wide representation.
pub(crate) fn widen(array: &ArrayRef, ty: &Type) -> Result<ArrayRef> {
    let wrong = || Error::InputType {
        expected: data_type(ty).to_string(),
        found: array.data_type().to_string(),
    };
    Ok(match (&ty.kind, array.data_type()) {
        (kind, DataType::Null) => arrow_array::new_null_array(&wide_type(kind), array.len()),
        (Kind::Float, DataType::Float64)
        | (Kind::String | Kind::Json(_), DataType::Utf8)
        | (Kind::Uuid, DataType::FixedSizeBinary(16)) => Arc::clone(array),
        (Kind::Decimal(scale), DataType::Decimal128(_, actual)) if *actual == *scale as i8 => {
            let decimals = array.as_primitive::<Decimal128Type>().clone();
            Arc::new(decimals.with_precision_and_scale(DECIMAL_DIGITS, *scale as i8)?)
        }
        (Kind::String | Kind::Json(_), DataType::LargeUtf8) => {
            Arc::new(array.as_string::<i64>().iter().collect::<StringArray>())
        }
        (Kind::String | Kind::Json(_), DataType::Utf8View) => {
            Arc::new(array.as_string_view().iter().collect::<StringArray>())
        }
        (Kind::Float, DataType::Float32) => {
            let floats = array.as_primitive::<Float32Type>();
            Arc::new(floats.iter().map(|float| float.map(f64::from)).collect::<Float64Array>())
        }
        (Kind::Array(element), DataType::List(_)) => widen_list(array, element)?,
        (Kind::Map(pair), DataType::List(_)) => widen_list(array, &entry(pair))?,
        (Kind::Tuple(items), DataType::Struct(_)) => {
            let fields = array.as_struct();
            if fields.num_columns() != items.len() {
                return Err(wrong());
            }
            let columns = fields.columns().iter().zip(items).map(|(column, ty)| widen(column, ty));
            wide_struct(items, columns.collect::<Result<_>>()?, array.len())?
        }
        (Kind::DateTime(_), DataType::Timestamp(unit, _)) => widen_timestamps(array, *unit),
        (
            Kind::Null
            | Kind::Bool
            | Kind::UInt(_)
            | Kind::Int(_)
            | Kind::Date
            | Kind::DateTime(_)
            | Kind::Interval(_),
            _,
        ) => widen_integers(array).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    })
}

fn widen_integers(array: &ArrayRef) -> Option<ArrayRef> {
    Some(match array.data_type() {
        DataType::Int64 => Arc::clone(array),
        DataType::Boolean => bools_to_ints(array.as_boolean()),
        DataType::UInt8 => each::<UInt8Type>(array, i64::from),
        DataType::UInt16 => each::<UInt16Type>(array, i64::from),
        DataType::UInt32 => each::<UInt32Type>(array, i64::from),
        DataType::UInt64 => each::<UInt64Type>(array, |value| value as i64),
        DataType::Int8 => each::<Int8Type>(array, i64::from),
        DataType::Int16 => each::<Int16Type>(array, i64::from),
        DataType::Int32 => each::<Int32Type>(array, i64::from),
        DataType::Date32 => each::<Date32Type>(array, i64::from),
        DataType::Duration(TimeUnit::Microsecond) => {
            each::<DurationMicrosecondType>(array, |value| value)
        }
        _ => return None,
    })
}

fn widen_timestamps(array: &ArrayRef, unit: TimeUnit) -> ArrayRef {
    match unit {
        TimeUnit::Microsecond => {
            let instants = array.as_primitive::<TimestampMicrosecondType>();
            Arc::new(instants.reinterpret_cast::<Int64Type>())
        }
        TimeUnit::Second => {
            each::<TimestampSecondType>(array, |value| value.saturating_mul(1_000_000))
        }
        TimeUnit::Millisecond => {
            each::<TimestampMillisecondType>(array, |value| value.saturating_mul(1_000))
        }
        TimeUnit::Nanosecond => {
            each::<TimestampNanosecondType>(array, |value| value.div_euclid(1_000))
        }
    }
}

fn each<T: ArrowPrimitiveType>(array: &ArrayRef, widen: impl Fn(T::Native) -> i64) -> ArrayRef {
    let wide: Int64Array = array.as_primitive::<T>().unary(widen);
    Arc::new(wide)
}

/// A null list becomes an empty list.
fn widen_list(array: &ArrayRef, element: &Type) -> Result<ArrayRef> {
    let list = array.as_list::<i32>();
    let values = widen(list.values(), element)?;
    if list.null_count() == 0 {
        return wide_list(element, list.value_offsets().to_vec(), values);
    }
    let (mut offsets, mut indices) = (vec![0i32], Vec::new());
    for row in 0..list.len() {
        if list.is_valid(row) {
            let range = list.value_offsets()[row] as u32..list.value_offsets()[row + 1] as u32;
            indices.extend(range);
        }
        offsets.push(indices.len() as i32);
    }
    let values = arrow_select::take::take(&values, &arrow_array::UInt32Array::from(indices), None)?;
    wide_list(element, offsets, values)
}

pub(crate) fn bools_to_ints(bools: &BooleanArray) -> ArrayRef {
    let values: ScalarBuffer<i64> = bools.values().iter().map(i64::from).collect();
    Arc::new(Int64Array::new(values, bools.nulls().cloned()))
}

/// Converts a result from the wide representation to `data_type(ty)`.
pub(crate) fn narrow(array: &ArrayRef, ty: &Type) -> Result<ArrayRef> {
    let whole;
    let array = if ty.nullable {
        array
    } else {
        whole = without_nulls(array)?;
        &whole
    };
    Ok(match &ty.kind {
        Kind::Null => Arc::new(NullArray::new(array.len())),
        Kind::Bool => {
            let ints = array.as_primitive::<Int64Type>();
            let bits = BooleanBuffer::from_iter(ints.values().iter().map(|value| *value != 0));
            Arc::new(BooleanArray::new(bits, ints.nulls().cloned()))
        }
        Kind::UInt(8) => wrap_to::<UInt8Type>(array, |value| value as u8),
        Kind::UInt(16) => wrap_to::<UInt16Type>(array, |value| value as u16),
        Kind::UInt(32) => wrap_to::<UInt32Type>(array, |value| value as u32),
        Kind::UInt(_) => wrap_to::<UInt64Type>(array, |value| value as u64),
        Kind::Int(8) => wrap_to::<Int8Type>(array, |value| value as i8),
        Kind::Int(16) => wrap_to::<Int16Type>(array, |value| value as i16),
        Kind::Int(32) => wrap_to::<Int32Type>(array, |value| value as i32),
        Kind::Date => {
            let days = array.as_primitive::<Int64Type>();
            let days: Date32Array = days.unary(|day| day as i32);
            Arc::new(days)
        }
        Kind::DateTime(_) => {
            let instants = array.as_primitive::<Int64Type>();
            let instants: TimestampMicrosecondArray = instants.reinterpret_cast();
            Arc::new(instants)
        }
        Kind::Int(_)
        | Kind::Interval(_)
        | Kind::Float
        | Kind::Decimal(_)
        | Kind::String
        | Kind::Json(_)
        | Kind::Uuid => Arc::clone(array),
        Kind::Array(element) => {
            let list = array.as_list::<i32>();
            let values = narrow(list.values(), element)?;
            let item = Arc::new(field("item", element));
            Arc::new(ListArray::try_new(item, list.offsets().clone(), values, None)?)
        }
        Kind::Map(_) => {
            let DataType::List(item) = data_type(ty) else {
                return Ok(Arc::clone(array));
            };
            let list = array.as_list::<i32>();
            let (Kind::Map(pair), DataType::Struct(fields)) = (&ty.kind, item.data_type()) else {
                return Ok(Arc::clone(array));
            };
            let entries = list.values().as_struct();
            let columns =
                vec![narrow(entries.column(0), &pair.0)?, narrow(entries.column(1), &pair.1)?];
            let rows = entries.len();
            let values = StructArray::try_new_with_length(fields.clone(), columns, None, rows)?;
            let offsets = list.offsets().clone();
            Arc::new(ListArray::try_new(item, offsets, Arc::new(values), None)?)
        }
        Kind::Tuple(items) => {
            let parts = array.as_struct();
            let columns = parts.columns().iter().zip(items).map(|(part, ty)| narrow(part, ty));
            let columns = columns.collect::<Result<_>>()?;
            let fields = struct_fields(items);
            Arc::new(StructArray::try_new_with_length(fields, columns, None, array.len())?)
        }
    })
}

fn wrap_to<T: ArrowPrimitiveType>(array: &ArrayRef, cut: impl Fn(i64) -> T::Native) -> ArrayRef {
    let narrow: PrimitiveArray<T> = array.as_primitive::<Int64Type>().unary(cut);
    Arc::new(narrow)
}

/// Wraps an integer to the width of its type, as ClickHouse does on overflow.
pub(crate) fn wrap(kind: &Kind, value: i64) -> i64 {
    match kind {
        Kind::UInt(8) => i64::from(value as u8),
        Kind::UInt(16) => i64::from(value as u16),
        Kind::UInt(32) => i64::from(value as u32),
        Kind::Int(8) => i64::from(value as i8),
        Kind::Int(16) => i64::from(value as i16),
        Kind::Int(32) => i64::from(value as i32),
        Kind::Bool => i64::from(value != 0),
        _ => value,
    }
}

/// Replaces nulls by the default of the type: zero, an empty string or an empty list.
pub(crate) fn without_nulls(array: &ArrayRef) -> Result<ArrayRef> {
    let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else {
        return Ok(Arc::clone(array));
    };
    Ok(match array.data_type() {
        DataType::Int64 => {
            let ints = array.as_primitive::<Int64Type>();
            Arc::new(ints.iter().map(Option::unwrap_or_default).collect::<Int64Array>())
        }
        DataType::Float64 => {
            let floats = array.as_primitive::<arrow_array::types::Float64Type>();
            Arc::new(floats.iter().map(Option::unwrap_or_default).collect::<Float64Array>())
        }
        DataType::Decimal128(precision, scale) => {
            let decimals = array.as_primitive::<Decimal128Type>();
            let decimals: Decimal128Array =
                decimals.iter().map(Option::unwrap_or_default).collect();
            Arc::new(decimals.with_precision_and_scale(*precision, *scale)?)
        }
        DataType::Utf8 => {
            let strings = array.as_string::<i32>();
            let strings = strings.iter().map(|text| Some(text.unwrap_or_default()));
            Arc::new(strings.collect::<StringArray>())
        }
        DataType::FixedSizeBinary(size) => {
            let binary = array.as_fixed_size_binary();
            let zero = vec![0u8; *size as usize];
            let values = (0..binary.len())
                .map(|row| if nulls.is_valid(row) { binary.value(row) } else { &zero[..] });
            Arc::new(FixedSizeBinaryArray::try_from_iter(values)?)
        }
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let (mut offsets, mut indices) = (vec![0i32], Vec::new());
            for row in 0..list.len() {
                if list.is_valid(row) {
                    let at = list.value_offsets();
                    indices.extend(at[row] as u32..at[row + 1] as u32);
                }
                offsets.push(indices.len() as i32);
            }
            let indices = arrow_array::UInt32Array::from(indices);
            let values = arrow_select::take::take(list.values(), &indices, None)?;
            let DataType::List(item) = array.data_type() else { return Ok(Arc::clone(array)) };
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, None)?)
        }
        DataType::Struct(fields) => {
            let parts = array.as_struct();
            let columns = parts.columns().iter().map(|part| {
                let nulls = arrow_buffer::NullBuffer::union(part.nulls(), Some(nulls));
                let data = part.to_data().into_builder().nulls(nulls).build()?;
                without_nulls(&arrow_array::make_array(data))
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            let fields = fields.clone();
            Arc::new(StructArray::try_new_with_length(fields, columns, None, array.len())?)
        }
        _ => Arc::clone(array),
    })
}

/// Nulls if the type is nullable, otherwise its defaults.
pub(crate) fn null_or_default(ty: &Type, rows: usize) -> Result<ArrayRef> {
    let nulls = arrow_array::new_null_array(&wide_type(&ty.kind), rows);
    if ty.nullable { Ok(nulls) } else { without_nulls(&nulls) }
}
