//! Casts between types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Decimal128Array, Float64Array, Int64Array};
use hogql::Span;
use hogql::types::{DateTimeType, Kind, Type};

use crate::Context;
use crate::error::{Error, Result};
use crate::time::{SECOND, ZoneClock, floor_to, parse as time_parse, zone_of};
use crate::values::format::{Style, ValueFormatter};
use crate::values::{array_literals, parse};
use crate::vector::column::{StringWriter, uuid_array};
use crate::vector::types::{entry, wide_list, wide_struct, wide_type, wrap};

pub(crate) type Cast = Arc<dyn Fn(&ArrayRef) -> Result<ArrayRef> + Send + Sync>;

/// An integer above this, cast to a date, is seconds and not days since 1970, as in ClickHouse.
const DAYS_MAX: i64 = 65_535;

/// Whether the cast fails for some values.
pub(crate) fn may_fail(from: &Kind, to: &Kind) -> bool {
    match (from, to) {
        (Kind::Array(from), Kind::Array(to)) => may_fail(&from.kind, &to.kind),
        (Kind::Tuple(from), Kind::Tuple(to)) => {
            from.iter().zip(to).any(|(from, to)| may_fail(&from.kind, &to.kind))
        }
        (Kind::Map(from), Kind::Map(to)) => {
            may_fail(&from.0.kind, &to.0.kind) || may_fail(&from.1.kind, &to.1.kind)
        }
        (from, to) => (from.is_string() && !to.is_string()) || matches!(to, Kind::Decimal(_)),
    }
}

/// Compiles a cast; None if both types share a representation.
pub(crate) fn between(
    from: &Type,
    to: &Type,
    or_null: bool,
    span: Span,
    context: &Arc<Context>,
) -> Result<Option<Cast>> {
    let cast: Cast = match (&from.kind, &to.kind) {
        (a, b) if a == b => return Ok(None),
        (a, b) if a.is_string() && b.is_string() => return Ok(None),
        (Kind::Null, kind) => {
            let wide = wide_type(kind);
            Arc::new(move |array: &ArrayRef| Ok(arrow_array::new_null_array(&wide, array.len())))
        }
        (_, Kind::String | Kind::Json(_)) => to_string(from.clone(), span, context),
        (Kind::String | Kind::Json(_), _) => from_string(to.clone(), or_null, span, context)?,
        (Kind::Array(a), Kind::Array(b)) => {
            let Some(cast) = between(a, b, or_null, span, context)? else { return Ok(None) };
            let element = (**b).clone();
            Arc::new(move |array: &ArrayRef| cast_list(array, &element, &cast))
        }
        (Kind::Map(a), Kind::Map(b)) => {
            let (from, to) = (entry(a), entry(b));
            let Some(cast) = between(&from, &to, or_null, span, context)? else { return Ok(None) };
            Arc::new(move |array: &ArrayRef| cast_list(array, &to, &cast))
        }
        (Kind::Tuple(a), Kind::Tuple(b)) => {
            let casts = a.iter().zip(b).map(|(a, b)| between(a, b, or_null, span, context));
            let casts = casts.collect::<Result<Vec<_>>>()?;
            if casts.iter().all(Option::is_none) {
                return Ok(None);
            }
            let items = b.clone();
            Arc::new(move |array: &ArrayRef| {
                let columns = array.as_struct().columns().iter().zip(&casts);
                let columns = columns.map(|(column, cast)| match cast {
                    Some(cast) => cast(column),
                    None => Ok(Arc::clone(column)),
                });
                wide_struct(&items, columns.collect::<Result<_>>()?, array.len())
            })
        }
        (a, b) => match scalar(a, b, span, context) {
            Some(cast) => cast,
            None => {
                let message = format!("{from} cannot be cast to {to}");
                return Err(Error::invalid(message, span));
            }
        },
    };
    Ok(Some(cast))
}

fn cast_list(array: &ArrayRef, element: &Type, cast: &Cast) -> Result<ArrayRef> {
    let list = array.as_list::<i32>();
    wide_list(element, list.value_offsets().to_vec(), cast(list.values())?)
}

fn ints(f: impl Fn(i64) -> i64 + Send + Sync + 'static) -> Cast {
    Arc::new(move |array: &ArrayRef| {
        let ints: Int64Array = array.as_primitive::<Int64Type>().unary(&f);
        Ok(Arc::new(ints))
    })
}

/// Maps integers with a [`ZoneClock`] per array.
fn timed(
    zone: jiff::tz::TimeZone,
    f: impl Fn(i64, &mut ZoneClock) -> i64 + Send + Sync + 'static,
) -> Cast {
    Arc::new(move |array: &ArrayRef| {
        let mut clock = ZoneClock::new(&zone);
        let ints = array.as_primitive::<Int64Type>();
        let ints: Int64Array = ints.iter().map(|value| value.map(|v| f(v, &mut clock))).collect();
        Ok(Arc::new(ints))
    })
}

/// Casts between numbers and times.
fn scalar(from: &Kind, to: &Kind, span: Span, context: &Arc<Context>) -> Option<Cast> {
    let unsigned = *from == Kind::UInt(64);
    Some(match (from, to) {
        (Kind::Date, Kind::DateTime(date_time)) => {
            timed(zone_of(date_time, context), |day, clock| clock.start_of_day(day))
        }
        (Kind::DateTime(date_time), Kind::Date) => {
            timed(zone_of(date_time, context), |instant, clock| clock.day(instant))
        }
        (Kind::DateTime(_), Kind::DateTime(to)) => {
            let step = fraction_step(to);
            ints(move |instant| floor_to(instant, step))
        }
        (Kind::DateTime(_), to) if to.is_integer() => {
            let to = to.clone();
            ints(move |instant| wrap(&to, instant.div_euclid(SECOND)))
        }
        (Kind::DateTime(_), Kind::Float) => Arc::new(|array: &ArrayRef| {
            let floats: Float64Array =
                array.as_primitive::<Int64Type>().unary(|micros| micros as f64 / SECOND as f64);
            Ok(Arc::new(floats))
        }),
        (from, Kind::Date) if from.is_integer() => timed(context.zone.clone(), |value, clock| {
            if (0..=DAYS_MAX).contains(&value) {
                value
            } else {
                clock.day(value.saturating_mul(SECOND))
            }
        }),
        (from, Kind::DateTime(_)) if from.is_integer() => {
            ints(|value| value.saturating_mul(SECOND))
        }
        (Kind::Float, Kind::DateTime(to)) => {
            let step = fraction_step(to);
            from_floats(move |value| floor_to((value * SECOND as f64).round() as i64, step))
        }
        (Kind::Float, Kind::Date) => from_floats(|value| value as i64),
        (from, to) if (from.is_integer() || *from == Kind::Date) && to.is_integer() => {
            let to = to.clone();
            ints(move |value| wrap(&to, value))
        }
        (from, Kind::Float) if from.is_integer() || *from == Kind::Date => {
            Arc::new(move |array: &ArrayRef| {
                let ints = array.as_primitive::<Int64Type>();
                let floats: Float64Array = if unsigned {
                    ints.unary(|value| value as u64 as f64)
                } else {
                    ints.unary(|value| value as f64)
                };
                Ok(Arc::new(floats))
            })
        }
        (Kind::Float, Kind::UInt(64)) => {
            from_floats(|value| if value < 0.0 { value as i64 } else { value as u64 as i64 })
        }
        (Kind::Float, to) if to.is_integer() => {
            let to = to.clone();
            match to {
                Kind::Bool => from_floats(|value| i64::from(value != 0.0)),
                _ => from_floats(move |value| wrap(&to, value as i64)),
            }
        }
        (from, Kind::Decimal(scale)) => to_decimal(from.clone(), *scale, span)?,
        (Kind::Decimal(scale), to) => from_decimal(*scale, to.clone())?,
        _ => return None,
    })
}

fn from_floats(f: impl Fn(f64) -> i64 + Send + Sync + 'static) -> Cast {
    Arc::new(move |array: &ArrayRef| {
        let ints: Int64Array = array.as_primitive::<Float64Type>().unary(&f);
        Ok(Arc::new(ints))
    })
}

/// The resolution of a date-time type, in microseconds.
pub(crate) fn fraction_step(date_time: &DateTimeType) -> i64 {
    10i64.pow(6 - u32::from(date_time.precision.min(6)))
}

fn to_decimal(from: Kind, scale: u8, span: Span) -> Option<Cast> {
    let unit = 10i128.checked_pow(u32::from(scale))?;
    let fits = from.is_integer() || matches!(from, Kind::Float | Kind::Decimal(_));
    if !fits {
        return None;
    }
    Some(Arc::new(move |array: &ArrayRef| {
        let value = |row: usize| match &from {
            Kind::Float => parse::from_float(array.as_primitive::<Float64Type>().value(row), scale),
            Kind::Decimal(from_scale) => {
                let value = array.as_primitive::<Decimal128Type>().value(row);
                rescale(value, *from_scale, scale)
            }
            Kind::UInt(64) => {
                let value = array.as_primitive::<Int64Type>().value(row) as u64;
                i128::from(value).checked_mul(unit).and_then(parse::in_bounds)
            }
            _ => {
                let value = array.as_primitive::<Int64Type>().value(row);
                i128::from(value).checked_mul(unit).and_then(parse::in_bounds)
            }
        };
        let rows = (0..array.len()).map(|row| {
            if array.is_null(row) {
                return Ok(None);
            }
            let overflow = || Error::invalid("The number has too many digits for a decimal", span);
            value(row).map(Some).ok_or_else(overflow)
        });
        let decimals = rows.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(decimals.with_precision_and_scale(38, scale as i8)?))
    }))
}

pub(crate) fn rescale(value: i128, from: u8, to: u8) -> Option<i128> {
    if to >= from {
        value.checked_mul(10i128.checked_pow(u32::from(to - from))?).and_then(parse::in_bounds)
    } else {
        Some(value / 10i128.checked_pow(u32::from(from - to))?)
    }
}

fn from_decimal(scale: u8, to: Kind) -> Option<Cast> {
    let unit = 10i128.checked_pow(u32::from(scale))?;
    Some(match to {
        Kind::Float => Arc::new(move |array: &ArrayRef| {
            let floats: Float64Array =
                array.as_primitive::<Decimal128Type>().unary(|value| value as f64 / unit as f64);
            Ok(Arc::new(floats))
        }),
        Kind::Bool => Arc::new(move |array: &ArrayRef| {
            let flags: Int64Array =
                array.as_primitive::<Decimal128Type>().unary(|value| i64::from(value != 0));
            Ok(Arc::new(flags))
        }),
        to if to.is_integer() => Arc::new(move |array: &ArrayRef| {
            let ints: Int64Array = array
                .as_primitive::<Decimal128Type>()
                .unary(|value| wrap(&to, (value / unit) as i64));
            Ok(Arc::new(ints))
        }),
        _ => return None,
    })
}

fn to_string(from: Type, span: Span, context: &Arc<Context>) -> Cast {
    let context = Arc::clone(context);
    Arc::new(move |array: &ArrayRef| {
        let shown = ValueFormatter::new(&from, array, &context);
        let mut strings = StringWriter::new(array.len(), span);
        for row in 0..array.len() {
            let valid = !shown.is_null(row);
            if valid {
                shown.write(row, Style::Plain, strings.buffer());
            }
            strings.end(valid)?;
        }
        Ok(strings.finish())
    })
}

fn from_string(to: Type, or_null: bool, span: Span, context: &Arc<Context>) -> Result<Cast> {
    let context = Arc::clone(context);
    let zone = match &to.kind {
        Kind::DateTime(date_time) => zone_of(date_time, &context),
        _ => context.zone.clone(),
    };
    if let Kind::Array(element) = &to.kind {
        let cast = between(&Kind::String.into(), element, or_null, span, &context)?;
        let element = (**element).clone();
        return Ok(Arc::new(move |array: &ArrayRef| {
            array_literals::arrays(array, &element, cast.as_ref(), or_null, span)
        }));
    }
    Ok(Arc::new(move |array: &ArrayRef| {
        let strings = array.as_string::<i32>();
        let mut clock = ZoneClock::new(&zone);
        let refuse = |text: &str| {
            if or_null {
                return Ok(());
            }
            Err(Error::invalid(format!("'{text}' cannot be read as {to}"), span))
        };
        let numbers = |read: &mut dyn FnMut(&str) -> Option<i64>| -> Result<ArrayRef> {
            let rows = strings.iter().map(|text| match text.map(|text| (text, read(text))) {
                None => Ok(None),
                Some((text, None)) => refuse(text).map(|()| None),
                Some((_, parsed)) => Ok(parsed),
            });
            Ok(Arc::new(rows.collect::<Result<Int64Array>>()?))
        };
        match &to.kind {
            Kind::Bool => numbers(&mut |text| parse::boolean(text).map(i64::from)),
            Kind::UInt(bits) => numbers(&mut |text| parse::integer(text, false, *bits)),
            Kind::Int(bits) => numbers(&mut |text| parse::integer(text, true, *bits)),
            Kind::Date => numbers(&mut |text| time_parse::day(text, &mut clock)),
            Kind::DateTime(date_time) => {
                let step = fraction_step(date_time);
                numbers(&mut |text| {
                    let instant = time_parse::instant(text, context.now, &mut clock)?;
                    Some(floor_to(instant, step))
                })
            }
            Kind::Float => {
                let rows =
                    strings.iter().map(|text| match text.map(|text| (text, parse::float(text))) {
                        None => Ok(None),
                        Some((text, None)) => refuse(text).map(|()| None),
                        Some((_, parsed)) => Ok(parsed),
                    });
                Ok(Arc::new(rows.collect::<Result<Float64Array>>()?))
            }
            Kind::Decimal(scale) => {
                let rows = strings.iter().map(|text| {
                    match text.map(|text| (text, parse::decimal(text, *scale))) {
                        None => Ok(None),
                        Some((text, None)) => refuse(text).map(|()| None),
                        Some((_, parsed)) => Ok(parsed),
                    }
                });
                let decimals = rows.collect::<Result<Decimal128Array>>()?;
                Ok(Arc::new(decimals.with_precision_and_scale(38, *scale as i8)?))
            }
            Kind::Uuid => {
                let rows = strings.iter().map(|text| {
                    match text.map(|text| (text, uuid::Uuid::try_parse(text).ok())) {
                        None => Ok(None),
                        Some((text, None)) => refuse(text).map(|()| None),
                        Some((_, parsed)) => Ok(parsed),
                    }
                });
                uuid_array(&rows.collect::<Result<Vec<_>>>()?)
            }
            _ => {
                let message = format!("String cannot be cast to {to}");
                Err(Error::invalid(message, span))
            }
        }
    }))
}
