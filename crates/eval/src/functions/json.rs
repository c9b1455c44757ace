//! JSON functions. A missing value becomes the default of the result type.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, UInt32Array};
use hogql::Span;
use hogql::types::{Kind, Type};
use serde_json::value::RawValue;

use super::properties::{Follow, Name, find, unquoted};
use super::{CallSite, CompiledCall, call, predicate};
use crate::Context;
use crate::error::Result;
use crate::limits::memory::MemoryCharge;
use crate::limits::meter;
use crate::time::{ZoneClock, parse as time_parse, zone_of};
use crate::values::json::json_type;
use crate::values::{cast, parse};
use crate::vector::column::{Args, Slice, StringWriter, Strings, check_elements, uuid_array};
use crate::vector::gather::take;
use crate::vector::types::{null_or_default, wide_list, wide_struct, without_nulls};

pub(super) fn build(site: &mut CallSite) -> Result<Option<CompiledCall>> {
    let span = site.span;
    let element = site.element();
    Ok(Some(match site.name {
        "JSONExtractString" => strings(site, |raw, out| match unquoted(raw) {
            Some(text) => out.push_str(&text),
            None if raw == "null" => {}
            None => minify(raw, out),
        }),
        "JSONExtractRaw" => strings(site, minify),
        "JSONType" => strings_or(site, |raw, out| out.push_str(raw.map_or("Null", json_type))),
        "JSONExtractInt" => {
            ints(site, |raw| number_only(raw, |raw| integer_of(raw, true, 64)).unwrap_or(0))
        }
        "JSONExtractUInt" => {
            ints(site, |raw| number_only(raw, |raw| integer_of(raw, false, 64)).unwrap_or(0))
        }
        "JSONLength" => ints(site, length),
        "JSONExtractFloat" => {
            let path = Path::of(site);
            call(move |args| {
                let strings = args.strings(0);
                let path = path.bind(args);
                Ok(args.map_floats(|row| {
                    let raw = path.find(strings.at(row), row);
                    raw.and_then(|raw| number_only(raw, number)).unwrap_or(0.0)
                }))
            })
        }
        "JSONExtractBool" => bools(site, |raw| raw.and_then(flag).unwrap_or(false)),
        "JSONHas" => bools(site, |raw| raw.is_some()),
        "isValidJSON" => bools(site, |raw| raw.is_some()),
        "JSONExtractArrayRaw" => {
            let path = Path::of(site);
            call(move |args| {
                let strings = args.strings(0);
                let path = path.bind(args);
                args.string_lists(&element, span, |row, out| {
                    let raw = path.find(strings.at(row), row).unwrap_or_default();
                    let _charge = charge_parts(raw.len())?;
                    for one in elements(raw) {
                        minify(one, out.buffer());
                        out.end(true)?;
                    }
                    Ok(())
                })
            })
        }
        "JSONExtractKeys" => {
            let path = Path::of(site);
            call(move |args| {
                let strings = args.strings(0);
                let path = path.bind(args);
                args.string_lists(&element, span, |row, out| {
                    let raw = path.find(strings.at(row), row).unwrap_or_default();
                    let _charge = charge_parts(raw.len())?;
                    members(raw).iter().try_for_each(|(name, _)| out.push(name))
                })
            })
        }
        "JSONExtractKeysAndValuesRaw" => {
            let path = Path::of(site);
            call(move |args| {
                let strings = args.strings(0);
                let path = path.bind(args);
                let mut names = StringWriter::new(args.rows, span);
                let mut values = StringWriter::new(args.rows, span);
                let mut offsets = vec![0];
                for row in 0..args.rows {
                    if args.is_valid(row) {
                        let raw = path.find(strings.at(row), row).unwrap_or_default();
                        let _charge = charge_parts(raw.len())?;
                        for (name, value) in members(raw) {
                            names.push(&name)?;
                            minify(value, values.buffer());
                            values.end(true)?;
                        }
                    }
                    offsets.push(check_elements(names.len(), span)?);
                }
                let Kind::Tuple(items) = &element.kind else { return null_or_default(&element, 0) };
                let rows = names.len();
                let pairs = wide_struct(items, vec![names.finish(), values.finish()], rows)?;
                wide_list(&element, offsets, pairs)
            })
        }
        "JSONExtractKeysAndValues" => {
            // The last argument is the name of the values' type.
            site.args.pop();
            if site.kind(0) == &Kind::Null {
                let ty = site.ty.clone();
                return Ok(Some(call(move |args| null_or_default(&ty, args.rows))));
            }
            let path = Path::of(site);
            let context = Arc::clone(site.context);
            let Kind::Tuple(items) = element.kind.clone() else {
                return Err(site.invalid("JSONExtractKeysAndValues gives pairs"));
            };
            call(move |args| {
                let strings = args.strings(0);
                let path = path.bind(args);
                let any_null = |row: usize| (0..args.columns.len()).any(|no| args.is_null(no, row));
                let (mut raws, mut names, mut ends) = (Vec::new(), Vec::new(), vec![0]);
                for row in 0..args.rows {
                    if !any_null(row) {
                        let raw = path.find(strings.at(row), row).unwrap_or_default();
                        let _charge = charge_parts(raw.len())?;
                        for (name, value) in members(raw) {
                            names.push(name);
                            raws.push(Some(value));
                        }
                    }
                    ends.push(check_elements(raws.len(), span)?);
                }
                // Members that cannot be read as the type are left out.
                let read = values(&items[1].clone().or_null(true), &raws, &context, span)?;
                let kept: Vec<u32> =
                    (0..raws.len() as u32).filter(|at| read.is_valid(*at as usize)).collect();
                let mut kept_names = StringWriter::new(kept.len(), span);
                for at in &kept {
                    kept_names.push(&names[*at as usize])?;
                }
                let offsets = ends
                    .iter()
                    .map(|end| kept.partition_point(|at| i64::from(*at) < i64::from(*end)) as i32);
                let offsets = offsets.collect();
                let kept_values = take(&read, &UInt32Array::from(kept))?;
                let rows = kept_values.len();
                let pairs = wide_struct(&items, vec![kept_names.finish(), kept_values], rows)?;
                wide_list(&element, offsets, pairs)
            })
        }
        "JSONExtract" => {
            // The last argument is the name of the type, not a path step.
            site.args.pop();
            if site.kind(0) == &Kind::Null {
                let ty = site.ty.clone();
                return Ok(Some(call(move |args| null_or_default(&ty, args.rows))));
            }
            let path = Path::of(site);
            let (ty, context) = (site.ty.clone(), Arc::clone(site.context));
            call(move |args| {
                let strings = args.strings(0);
                let path = path.bind(args);
                let any_null = |row: usize| (0..args.columns.len()).any(|no| args.is_null(no, row));
                let raws: Vec<Option<&str>> = (0..args.rows)
                    .map(|row| if any_null(row) { None } else { path.find(strings.at(row), row) })
                    .collect();
                values(&ty, &raws, &context, span)
            })
        }
        _ => return Ok(None),
    }))
}

/// The path arguments, which follow the JSON string.
#[derive(Clone, Debug)]
struct Path {
    /// Per argument: whether it is a member name (otherwise an index).
    names: Vec<bool>,
}

impl Path {
    fn of(site: &CallSite) -> Self {
        Self { names: site.args[1..].iter().map(|arg| arg.ty.kind.is_string()).collect() }
    }

    fn bind<'a>(&self, args: &Args<'a>) -> BoundPath<'a> {
        let steps = self.names.iter().enumerate().map(|(no, is_name)| {
            if *is_name {
                Steps::Names(args.strings(no + 1))
            } else {
                Steps::Indices(args.ints(no + 1))
            }
        });
        BoundPath { steps: steps.collect() }
    }
}

struct BoundPath<'a> {
    steps: Vec<Steps<'a>>,
}

enum Steps<'a> {
    Names(Strings<'a>),
    Indices(Slice<'a, i64>),
}

enum Step<'a> {
    Name(&'a str),
    /// An index from 1, or from the end if negative.
    Index(i64),
}

impl Follow for Step<'_> {
    fn key(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Index(_) => None,
        }
    }

    fn index(&self, count: usize) -> Option<usize> {
        match self {
            Self::Name(_) => None,
            Self::Index(index @ 1..) => usize::try_from(index - 1).ok(),
            Self::Index(index) => {
                let back = usize::try_from(index.unsigned_abs()).ok().filter(|back| *back > 0)?;
                count.checked_sub(back)
            }
        }
    }

    fn counts_back(&self) -> bool {
        matches!(self, Self::Index(..=-1))
    }
}

impl BoundPath<'_> {
    fn find<'t>(&self, text: &'t str, row: usize) -> Option<&'t str> {
        if self.steps.is_empty() {
            return find::<Step>(text, &[]);
        }
        let path: Vec<Step> = self
            .steps
            .iter()
            .map(|step| match step {
                Steps::Names(names) => Step::Name(names.at(row)),
                Steps::Indices(indices) => Step::Index(indices.at(row)),
            })
            .collect();
        find(text, &path)
    }
}

fn strings(
    site: &CallSite,
    write: impl Fn(&str, &mut String) + Send + Sync + 'static,
) -> CompiledCall {
    strings_or(site, move |raw, out| {
        if let Some(raw) = raw {
            write(raw, out);
        }
    })
}

fn strings_or(
    site: &CallSite,
    write: impl Fn(Option<&str>, &mut String) + Send + Sync + 'static,
) -> CompiledCall {
    let (path, span) = (Path::of(site), site.span);
    call(move |args| {
        let strings = args.strings(0);
        let path = path.bind(args);
        args.map_strings(span, |row, out| write(path.find(strings.at(row), row), out))
    })
}

fn ints(site: &CallSite, read: impl Fn(&str) -> i64 + Send + Sync + 'static) -> CompiledCall {
    let path = Path::of(site);
    call(move |args| {
        let strings = args.strings(0);
        let path = path.bind(args);
        Ok(args.map_ints(|row| path.find(strings.at(row), row).map_or(0, &read)))
    })
}

fn bools(
    site: &CallSite,
    holds: impl Fn(Option<&str>) -> bool + Send + Sync + 'static,
) -> CompiledCall {
    let path = Path::of(site);
    predicate(move |args| {
        let strings = args.strings(0);
        let path = path.bind(args);
        Ok(args.map_bools(|row| holds(path.find(strings.at(row), row))))
    })
}

/// A number, a boolean as 0 or 1, or a string that contains a number.
fn number(raw: &str) -> Option<f64> {
    match raw.as_bytes().first()? {
        b't' => Some(1.0),
        b'f' => Some(0.0),
        b'"' => parse::float(&unquoted(raw)?),
        b'{' | b'[' | b'n' => None,
        _ => raw.parse().ok(),
    }
}

/// `JSONExtractInt` and similar functions reject booleans, unlike `JSONExtract`.
fn number_only<T>(raw: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    if matches!(raw, "true" | "false") { None } else { read(raw) }
}

fn integer_of(raw: &str, signed: bool, bits: u8) -> Option<i64> {
    let inner = unquoted(raw).unwrap_or(Cow::Borrowed(raw));
    if let Some(integer) = parse::integer(&inner, signed, bits) {
        return Some(integer);
    }
    let value = number(raw)?.trunc();
    let width = 2f64.powi(i32::from(bits));
    let range = if signed { -width / 2.0..width / 2.0 } else { 0.0..width };
    if !range.contains(&value) {
        return None;
    }
    Some(if signed { value as i64 } else { value as u64 as i64 })
}

fn flag(raw: &str) -> Option<bool> {
    match raw {
        "true" => Some(true),
        "false" => Some(false),
        _ if raw.starts_with(['{', '[', '"', 'n']) => None,
        // Only integral numbers.
        number => Some(number.parse::<i64>().is_ok_and(|number| number != 0)),
    }
}

fn length(raw: &str) -> i64 {
    match raw.as_bytes().first() {
        Some(b'[') => elements(raw).len() as i64,
        Some(b'{') => members(raw).len() as i64,
        _ => 0,
    }
}

/// Charges the parsed parts of a value: the shortest take a few bytes of JSON and about ten times as
/// much memory.
pub(super) fn charge_parts(bytes: usize) -> Result<Option<MemoryCharge>> {
    meter::charge_large(bytes.saturating_mul(16))
}

pub(super) fn elements(raw: &str) -> Vec<&str> {
    if !raw.starts_with('[') {
        return Vec::new();
    }
    let elements: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
    elements.into_iter().map(RawValue::get).collect()
}

fn members(raw: &str) -> Vec<(Cow<'_, str>, &str)> {
    struct Members<'t>(Vec<(Cow<'t, str>, &'t str)>);
    impl<'t> serde::Deserialize<'t> for Members<'t> {
        fn deserialize<D: serde::Deserializer<'t>>(from: D) -> Result<Self, D::Error> {
            struct Collect;
            impl<'t> serde::de::Visitor<'t> for Collect {
                type Value = Members<'t>;

                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: serde::de::MapAccess<'t>>(
                    self,
                    mut map: A,
                ) -> Result<Self::Value, A::Error> {
                    let mut all = Vec::new();
                    while let Some((name, value)) = map.next_entry::<Name<'t>, &RawValue>()? {
                        all.push((name.0, value.get()));
                    }
                    Ok(Members(all))
                }
            }
            from.deserialize_map(Collect)
        }
    }
    if !raw.starts_with('{') {
        return Vec::new();
    }
    serde_json::from_str::<Members>(raw).map(|members| members.0).unwrap_or_default()
}

/// Removes insignificant whitespace.
pub(super) fn minify(raw: &str, out: &mut String) {
    let (mut quoted, mut escaped) = (false, false);
    for one in raw.chars() {
        if !quoted && one.is_ascii_whitespace() {
            continue;
        }
        out.push(one);
        match one {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
    }
}

/// Converts JSON values to a type; null or the type's default where that fails.
fn values(
    ty: &Type,
    raws: &[Option<&str>],
    context: &Arc<Context>,
    span: Span,
) -> Result<ArrayRef> {
    let present = || raws.iter().map(|raw| raw.filter(|raw| *raw != "null"));
    let _charge = match &ty.kind {
        Kind::Array(_) | Kind::Tuple(_) | Kind::Map(_) => {
            charge_parts(raws.iter().flatten().map(|raw| raw.len()).sum())?
        }
        _ => None,
    };
    let array: ArrayRef = match &ty.kind {
        Kind::Bool => {
            let flags = present().map(|raw| raw.and_then(flag).map(i64::from));
            Arc::new(flags.collect::<Int64Array>())
        }
        Kind::UInt(bits) => {
            Arc::new(present().map(|raw| integer_of(raw?, false, *bits)).collect::<Int64Array>())
        }
        Kind::Int(bits) => {
            Arc::new(present().map(|raw| integer_of(raw?, true, *bits)).collect::<Int64Array>())
        }
        Kind::Float => Arc::new(present().map(|raw| number(raw?)).collect::<Float64Array>()),
        Kind::String | Kind::Json(_) => {
            let mut strings = StringWriter::new(raws.len(), span);
            for raw in present() {
                match raw.map(|raw| (raw, unquoted(raw))) {
                    Some((_, Some(text))) => strings.buffer().push_str(&text),
                    Some((raw, None)) => minify(raw, strings.buffer()),
                    None => {}
                }
                strings.end(raw.is_some())?;
            }
            strings.finish()
        }
        Kind::Uuid => {
            let ids = present().map(|raw| uuid::Uuid::try_parse(&unquoted(raw?)?).ok());
            uuid_array(&ids.collect::<Vec<_>>())?
        }
        Kind::Date | Kind::DateTime(_) => {
            let zone = match &ty.kind {
                Kind::DateTime(date_time) => zone_of(date_time, context),
                _ => context.zone.clone(),
            };
            let (day, mut clock) = (ty.kind == Kind::Date, ZoneClock::new(&zone));
            let times = present().map(|raw| {
                let raw = raw?;
                let text = unquoted(raw).unwrap_or(Cow::Borrowed(raw));
                if day {
                    time_parse::day(&text, &mut clock)
                } else {
                    time_parse::instant(&text, context.now, &mut clock)
                }
            });
            Arc::new(times.collect::<Int64Array>())
        }
        Kind::Decimal(_) => {
            let text = Type::from(Kind::String).or_null(true);
            let strings = values(&text, raws, context, span)?;
            match cast::between(&text, ty, true, span, context)? {
                Some(cast) => cast(&strings)?,
                None => strings,
            }
        }
        Kind::Array(element) => {
            let (mut all, mut offsets) = (Vec::new(), vec![0]);
            for raw in raws {
                all.extend(elements(raw.unwrap_or_default()).into_iter().map(Some));
                offsets.push(check_elements(all.len(), span)?);
            }
            wide_list(element, offsets, values(element, &all, context, span)?)?
        }
        Kind::Tuple(items) => {
            let rows: Vec<Vec<&str>> = raws
                .iter()
                .map(|raw| {
                    let raw = raw.unwrap_or_default();
                    let of_object = members(raw).into_iter().map(|(_, value)| value);
                    elements(raw).into_iter().chain(of_object).collect()
                })
                .collect();
            let columns = items.iter().enumerate().map(|(no, ty)| {
                let column: Vec<Option<&str>> =
                    rows.iter().map(|row| row.get(no).copied()).collect();
                values(ty, &column, context, span)
            });
            wide_struct(items, columns.collect::<Result<_>>()?, raws.len())?
        }
        Kind::Map(pair) => {
            let (mut names, mut all, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
            for raw in raws {
                for (name, value) in members(raw.unwrap_or_default()) {
                    names.push(serde_json::Value::from(name.as_ref()).to_string());
                    all.push(Some(value));
                }
                offsets.push(check_elements(all.len(), span)?);
            }
            let names: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
            let columns = vec![
                values(&pair.0, &names, context, span)?,
                values(&pair.1, &all, context, span)?,
            ];
            let entry = crate::vector::types::entry(pair);
            let Kind::Tuple(items) = &entry.kind else { return null_or_default(ty, raws.len()) };
            let entries = wide_struct(items, columns, names.len())?;
            wide_list(&entry, offsets, entries)?
        }
        Kind::Null | Kind::Interval(_) => return null_or_default(ty, raws.len()),
    };
    if ty.nullable || array.null_count() == 0 { Ok(array) } else { without_nulls(&array) }
}
