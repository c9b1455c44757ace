//! Formats values as strings, in ClickHouse's notation.

use std::cell::RefCell;
use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, ListArray, StringArray};
use hogql::types::{Kind, Type};

use crate::Context;
use crate::time::{ZoneClock, format, zone_of};
use crate::vector::types::entry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// A top-level value.
    Plain,
    /// A value nested in an array, tuple or map.
    Quoted,
    Json,
}

/// Formats the values of one array.
pub(crate) struct ValueFormatter<'a> {
    array: &'a ArrayRef,
    parts: Parts<'a>,
}

enum Parts<'a> {
    Null,
    Bools(&'a [i64]),
    Signed(&'a [i64]),
    Unsigned(&'a [i64]),
    Floats(&'a [f64]),
    Decimals(&'a [i128], u8),
    Strings(&'a StringArray),
    Uuids(&'a FixedSizeBinaryArray),
    Days(&'a [i64]),
    Instants(&'a [i64], u8, RefCell<ZoneClock>),
    List(&'a ListArray, Box<ValueFormatter<'a>>),
    Tuple(Vec<ValueFormatter<'a>>),
    Map(&'a ListArray, Box<[ValueFormatter<'a>; 2]>),
}

impl<'a> ValueFormatter<'a> {
    pub fn new(ty: &Type, array: &'a ArrayRef, context: &Context) -> Self {
        let ints = || &array.as_primitive::<Int64Type>().values()[..];
        let parts = match &ty.kind {
            Kind::Null => Parts::Null,
            Kind::Bool => Parts::Bools(ints()),
            Kind::UInt(_) => Parts::Unsigned(ints()),
            Kind::Int(_) | Kind::Interval(_) => Parts::Signed(ints()),
            Kind::Float => Parts::Floats(array.as_primitive::<Float64Type>().values()),
            Kind::Decimal(scale) => {
                Parts::Decimals(array.as_primitive::<Decimal128Type>().values(), *scale)
            }
            Kind::String | Kind::Json(_) => Parts::Strings(array.as_string()),
            Kind::Uuid => Parts::Uuids(array.as_fixed_size_binary()),
            Kind::Date => Parts::Days(ints()),
            Kind::DateTime(date_time) => {
                let clock = ZoneClock::new(&zone_of(date_time, context));
                Parts::Instants(ints(), date_time.precision, RefCell::new(clock))
            }
            Kind::Array(element) => {
                let list = array.as_list::<i32>();
                Parts::List(list, Box::new(ValueFormatter::new(element, list.values(), context)))
            }
            Kind::Tuple(items) => {
                let columns = items.iter().zip(array.as_struct().columns());
                Parts::Tuple(
                    columns.map(|(ty, part)| ValueFormatter::new(ty, part, context)).collect(),
                )
            }
            Kind::Map(pair) => {
                let list = array.as_list::<i32>();
                let entries = list.values().as_struct();
                let Kind::Tuple(items) = entry(pair).kind else {
                    return Self { array, parts: Parts::Null };
                };
                let part = |no: usize| ValueFormatter::new(&items[no], entries.column(no), context);
                Parts::Map(list, Box::new([part(0), part(1)]))
            }
        };
        Self { array, parts }
    }

    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.parts, Parts::Null) || self.array.is_null(row)
    }

    pub fn write(&self, row: usize, style: Style, out: &mut String) {
        if self.is_null(row) {
            out.push_str(if style == Style::Json { "null" } else { "NULL" });
            return;
        }
        match &self.parts {
            Parts::Null => {}
            Parts::Bools(values) => {
                out.push_str(if values[row] == 0 { "false" } else { "true" });
            }
            Parts::Signed(values) => push(out, format_args!("{}", values[row])),
            Parts::Unsigned(values) => push(out, format_args!("{}", values[row] as u64)),
            Parts::Floats(values) if style == Style::Json && !values[row].is_finite() => {
                out.push_str("null");
            }
            Parts::Floats(values) => float(values[row], out),
            Parts::Decimals(values, scale) => decimal(values[row], *scale, out),
            Parts::Strings(strings) => quoted(strings.value(row), style, out),
            Parts::Uuids(values) => {
                let id = uuid::Uuid::from_slice(values.value(row)).unwrap_or_default();
                within(style, out, |out| push(out, format_args!("{id}")));
            }
            Parts::Days(values) => within(style, out, |out| format::day(values[row], out)),
            Parts::Instants(values, precision, clock) => {
                let local = clock.borrow_mut().local(values[row]);
                within(style, out, |out| format::date_time(local, *precision, out));
            }
            Parts::List(list, elements) => {
                let range = range(list, row);
                between(out, '[', ']', range, |at, out| elements.write(at, inner(style), out));
            }
            Parts::Tuple(parts) => {
                let (open, close) = if style == Style::Json { ('[', ']') } else { ('(', ')') };
                let numbers = 0..parts.len();
                between(out, open, close, numbers, |no, out| {
                    parts[no].write(row, inner(style), out);
                });
            }
            Parts::Map(list, parts) => {
                between(out, '{', '}', range(list, row), |at, out| {
                    let [keys, values] = &**parts;
                    if style == Style::Json && !matches!(keys.parts, Parts::Strings(_)) {
                        out.push('"');
                        keys.write(at, Style::Plain, out);
                        out.push('"');
                    } else {
                        keys.write(at, inner(style), out);
                    }
                    out.push(':');
                    values.write(at, inner(style), out);
                });
            }
        }
    }
}

fn inner(style: Style) -> Style {
    if style == Style::Plain { Style::Quoted } else { style }
}

fn range(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = list.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

fn between(
    out: &mut String,
    open: char,
    close: char,
    parts: std::ops::Range<usize>,
    mut write: impl FnMut(usize, &mut String),
) {
    out.push(open);
    for (no, at) in parts.enumerate() {
        if no > 0 {
            out.push(',');
        }
        write(at, out);
    }
    out.push(close);
}

fn within(style: Style, out: &mut String, write: impl FnOnce(&mut String)) {
    let quote = match style {
        Style::Plain => return write(out),
        Style::Quoted => '\'',
        Style::Json => '"',
    };
    out.push(quote);
    write(out);
    out.push(quote);
}

fn quoted(text: &str, style: Style, out: &mut String) {
    match style {
        Style::Plain => out.push_str(text),
        Style::Quoted => {
            out.push('\'');
            for one in text.chars() {
                match one {
                    '\'' | '\\' => {
                        out.push('\\');
                        out.push(one);
                    }
                    '\n' => out.push_str("\\n"),
                    '\t' => out.push_str("\\t"),
                    '\r' => out.push_str("\\r"),
                    '\0' => out.push_str("\\0"),
                    '\u{8}' => out.push_str("\\b"),
                    '\u{c}' => out.push_str("\\f"),
                    other => out.push(other),
                }
            }
            out.push('\'');
        }
        Style::Json => {
            let quoted = serde_json::Value::from(text).to_string();
            out.push_str(&quoted.replace('/', "\\/"));
        }
    }
}

pub(crate) fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a string takes everything");
}

/// The shortest representation that round-trips, with an exponent below 1e-6 and from 1e21 on.
pub(crate) fn float(value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("nan");
    } else if value.is_infinite() {
        out.push_str(if value < 0.0 { "-inf" } else { "inf" });
    } else if value != 0.0 && !(1e-6..1e21).contains(&value.abs()) {
        push(out, format_args!("{value:e}"));
    } else {
        push(out, format_args!("{value}"));
    }
}

pub(crate) fn decimal(value: i128, scale: u8, out: &mut String) {
    if value < 0 {
        out.push('-');
    }
    let digits = value.unsigned_abs();
    let unit = 10u128.pow(u32::from(scale.min(38)));
    push(out, format_args!("{}", digits / unit));
    let fraction = digits % unit;
    if fraction != 0 {
        let digits = format!("{fraction:0width$}", width = usize::from(scale));
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}
