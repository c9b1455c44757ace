//! Encodes values as JSON for results (contract, query 3.1).

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_schema::DataType;
use hogql::types::{Kind, Type};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Number, Value};

use crate::time::{SECOND, format, zone_named};
use crate::values::format as value_format;

/// The value in `row` of an array of `data_type(ty)`; `zone` is the project's time zone.
pub fn json_value(array: &dyn Array, ty: &Type, row: usize, zone: &TimeZone) -> Value {
    if array.is_null(row) || ty.kind == Kind::Null {
        return Value::Null;
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let key = dictionary.normalized_keys()[row];
        return json_value(dictionary.values(), ty, key, zone);
    }
    match &ty.kind {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(array.as_boolean().value(row)),
        Kind::UInt(_) | Kind::Int(_) | Kind::Interval(_) => integer(array, row),
        Kind::Float => float(array.as_primitive::<Float64Type>().value(row)),
        Kind::Decimal(scale) => {
            let mut text = String::new();
            value_format::decimal(
                array.as_primitive::<Decimal128Type>().value(row),
                *scale,
                &mut text,
            );
            text.parse().map_or(Value::Null, float)
        }
        Kind::String | Kind::Json(_) => Value::from(array.as_string::<i32>().value(row)),
        Kind::Uuid => {
            let bytes = array.as_fixed_size_binary().value(row);
            Value::from(uuid::Uuid::from_slice(bytes).unwrap_or_default().to_string())
        }
        Kind::Date => {
            let mut text = String::new();
            format::day(i64::from(array.as_primitive::<Date32Type>().value(row)), &mut text);
            Value::from(text)
        }
        Kind::DateTime(date_time) => {
            let instant = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let value_zone = date_time.zone.as_deref().map(zone_named);
            let zone = value_zone.as_ref().unwrap_or(zone);
            let at = Timestamp::from_microsecond(instant).unwrap_or_default();
            let offset = i64::from(zone.to_offset(at).seconds()) * SECOND;
            let mut text = String::new();
            format::iso(instant, offset, &mut text);
            Value::from(text)
        }
        Kind::Array(element) => {
            let elements = array.as_list::<i32>().value(row);
            let values = (0..elements.len()).map(|at| json_value(&elements, element, at, zone));
            Value::Array(values.collect())
        }
        Kind::Tuple(items) => {
            let parts = array.as_struct().columns().iter().zip(items);
            Value::Array(parts.map(|(part, ty)| json_value(part, ty, row, zone)).collect())
        }
        Kind::Map(pair) => {
            let entries = array.as_list::<i32>().value(row);
            let (keys, values) = (entries.as_struct().column(0), entries.as_struct().column(1));
            let mut object = Map::new();
            for at in 0..entries.len() {
                let key = match json_value(keys, &pair.0, at, zone) {
                    Value::String(text) => text,
                    // As text a float without a fraction is written without one.
                    Value::Number(number) if pair.0.kind == Kind::Float => {
                        let mut text = String::new();
                        value_format::float(number.as_f64().unwrap_or(f64::NAN), &mut text);
                        text
                    }
                    other => other.to_string(),
                };
                object.insert(key, json_value(values, &pair.1, at, zone));
            }
            Value::Object(object)
        }
    }
}

/// NaN and infinities become null, which JSON lacks.
fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

fn integer(array: &dyn Array, row: usize) -> Value {
    match array.data_type() {
        DataType::UInt8 => Value::from(array.as_primitive::<UInt8Type>().value(row)),
        DataType::UInt16 => Value::from(array.as_primitive::<UInt16Type>().value(row)),
        DataType::UInt32 => Value::from(array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => Value::from(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Int8 => Value::from(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => Value::from(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => Value::from(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => Value::from(array.as_primitive::<Int64Type>().value(row)),
        DataType::Boolean => Value::from(u8::from(array.as_boolean().value(row))),
        _ => Value::Null,
    }
}

/// The name of a JSON value's type, as ClickHouse's `JSONType` returns it.
pub fn json_type(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'{') => "Object",
        Some(b'[') => "Array",
        Some(b'"') => "String",
        Some(b't' | b'f') => "Bool",
        Some(b'n') | None => "Null",
        _ if raw.parse::<i64>().is_ok() => "Int64",
        _ if raw.parse::<u64>().is_ok() => "UInt64",
        _ => "Double",
    }
}
