//! JSON in texts. What is missing gives the type's default.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use hogql::Span;
use hogql::types::{Kind, Type};
use serde_json::value::RawValue;

use super::properties::{Follow, Name, find, unquoted};
use super::{Built, Site, call, test};
use crate::column::{Args, Slice, TextWriter, Texts, check_elements, uuid_array};
use crate::error::Result;
use crate::memory::MemoryCharge;
use crate::meter;
use crate::times::{Clockwork, read, zone_of};
use crate::types::{nothing, wide_list, wide_struct, without_nulls};
use crate::{Context, cast, text};

pub(super) fn build(site: &mut Site) -> Result<Option<Built>> {
    let span = site.span;
    let element = site.element();
    Ok(Some(match site.name {
        "JSONExtractString" => texts(site, |raw, out| match unquoted(raw) {
            Some(text) => out.push_str(&text),
            None if raw == "null" => {}
            None => minify(raw, out),
        }),
        "JSONExtractRaw" => texts(site, minify),
        "JSONType" => texts_or(site, |raw, out| out.push_str(raw.map_or("Null", type_name))),
        "JSONExtractInt" => {
            ints(site, |raw| number_only(raw, |raw| whole(raw, true, 64)).unwrap_or(0))
        }
        "JSONExtractUInt" => {
            ints(site, |raw| number_only(raw, |raw| whole(raw, false, 64)).unwrap_or(0))
        }
        "JSONLength" => ints(site, length),
        "JSONExtractFloat" => {
            let path = Path::of(site);
            call(move |args| {
                let texts = args.texts(0);
                let path = path.bind(args);
                Ok(args.map_floats(|row| {
                    let found = path.find(texts.at(row), row);
                    found.and_then(|raw| number_only(raw, number)).unwrap_or(0.0)
                }))
            })
        }
        "JSONExtractBool" => truths(site, |raw| raw.and_then(flag).unwrap_or(false)),
        "JSONHas" => truths(site, |raw| raw.is_some()),
        "isValidJSON" => truths(site, |raw| raw.is_some()),
        "JSONExtractArrayRaw" => {
            let path = Path::of(site);
            call(move |args| {
                let texts = args.texts(0);
                let path = path.bind(args);
                args.text_lists(&element, span, |row, out| {
                    let found = path.find(texts.at(row), row).unwrap_or_default();
                    let _room = room(found.len())?;
                    for one in elements(found) {
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
                let texts = args.texts(0);
                let path = path.bind(args);
                args.text_lists(&element, span, |row, out| {
                    let found = path.find(texts.at(row), row).unwrap_or_default();
                    let _room = room(found.len())?;
                    members(found).iter().try_for_each(|(name, _)| out.push(name))
                })
            })
        }
        "JSONExtractKeysAndValuesRaw" => {
            let path = Path::of(site);
            call(move |args| {
                let texts = args.texts(0);
                let path = path.bind(args);
                let mut names = TextWriter::new(args.rows, span);
                let mut values = TextWriter::new(args.rows, span);
                let mut offsets = vec![0];
                for row in 0..args.rows {
                    if args.is_valid(row) {
                        let found = path.find(texts.at(row), row).unwrap_or_default();
                        let _room = room(found.len())?;
                        for (name, value) in members(found) {
                            names.push(&name)?;
                            minify(value, values.buffer());
                            values.end(true)?;
                        }
                    }
                    offsets.push(check_elements(names.len(), span)?);
                }
                let Kind::Tuple(items) = &element.kind else { return nothing(&element, 0) };
                let rows = names.len();
                let pairs = wide_struct(items, vec![names.finish(), values.finish()], rows)?;
                wide_list(&element, offsets, pairs)
            })
        }
        "JSONExtract" => {
            // The last argument was the name of the type.
            site.args.pop();
            if site.kind(0) == &Kind::Null {
                let ty = site.ty.clone();
                return Ok(Some(call(move |args| nothing(&ty, args.rows))));
            }
            let path = Path::of(site);
            let (ty, context) = (site.ty.clone(), Arc::clone(site.context));
            call(move |args| {
                let texts = args.texts(0);
                let path = path.bind(args);
                let any_null = |row: usize| (0..args.columns.len()).any(|no| args.is_null(no, row));
                let found: Vec<Option<&str>> = (0..args.rows)
                    .map(|row| if any_null(row) { None } else { path.find(texts.at(row), row) })
                    .collect();
                values(&ty, &found, &context, span)
            })
        }
        _ => return Ok(None),
    }))
}

/// The arguments behind the text.
#[derive(Clone, Debug)]
struct Path {
    /// Whether each is a name.
    names: Vec<bool>,
}

impl Path {
    fn of(site: &Site) -> Self {
        Self { names: site.args[1..].iter().map(|arg| arg.ty.kind.is_string()).collect() }
    }

    fn bind<'a>(&self, args: &Args<'a>) -> BoundPath<'a> {
        let steps = self.names.iter().enumerate().map(|(no, is_name)| {
            if *is_name {
                Steps::Names(args.texts(no + 1))
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
    Names(Texts<'a>),
    Indices(Slice<'a, i64>),
}

enum Step<'a> {
    Name(&'a str),
    /// From 1, or from the end.
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

fn texts(site: &Site, write: impl Fn(&str, &mut String) + Send + Sync + 'static) -> Built {
    texts_or(site, move |raw, out| {
        if let Some(raw) = raw {
            write(raw, out);
        }
    })
}

fn texts_or(
    site: &Site,
    write: impl Fn(Option<&str>, &mut String) + Send + Sync + 'static,
) -> Built {
    let (path, span) = (Path::of(site), site.span);
    call(move |args| {
        let texts = args.texts(0);
        let path = path.bind(args);
        args.map_texts(span, |row, out| write(path.find(texts.at(row), row), out))
    })
}

fn ints(site: &Site, read: impl Fn(&str) -> i64 + Send + Sync + 'static) -> Built {
    let path = Path::of(site);
    call(move |args| {
        let texts = args.texts(0);
        let path = path.bind(args);
        Ok(args.map_ints(|row| path.find(texts.at(row), row).map_or(0, &read)))
    })
}

fn truths(site: &Site, holds: impl Fn(Option<&str>) -> bool + Send + Sync + 'static) -> Built {
    let path = Path::of(site);
    test(move |args| {
        let texts = args.texts(0);
        let path = path.bind(args);
        Ok(args.map_truth(|row| holds(path.find(texts.at(row), row))))
    })
}

fn type_name(raw: &str) -> &'static str {
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

/// A number, a flag as one, or a text that holds one.
fn number(raw: &str) -> Option<f64> {
    match raw.as_bytes().first()? {
        b't' => Some(1.0),
        b'f' => Some(0.0),
        b'"' => text::float(&unquoted(raw)?),
        b'{' | b'[' | b'n' => None,
        _ => raw.parse().ok(),
    }
}

/// `JSONExtractInt` and its kin take no flags, other than `JSONExtract`.
fn number_only<T>(raw: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    if matches!(raw, "true" | "false") { None } else { read(raw) }
}

fn whole(raw: &str, signed: bool, bits: u8) -> Option<i64> {
    let inner = unquoted(raw).unwrap_or(Cow::Borrowed(raw));
    if let Some(found) = text::integer(&inner, signed, bits) {
        return Some(found);
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
        // Of numbers only whole ones.
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

/// For the parts of a value, while they are read: the shortest take a few bytes of text and some
/// ten times as much memory.
fn room(bytes: usize) -> Result<Option<MemoryCharge>> {
    meter::keep_large(bytes.saturating_mul(16))
}

fn elements(raw: &str) -> Vec<&str> {
    if !raw.starts_with('[') {
        return Vec::new();
    }
    let found: Vec<&RawValue> = serde_json::from_str(raw).unwrap_or_default();
    found.into_iter().map(RawValue::get).collect()
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

/// Without the spaces between its parts.
fn minify(raw: &str, out: &mut String) {
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

/// JSON values as values of a type: null or its default where they are not.
fn values(
    ty: &Type,
    found: &[Option<&str>],
    context: &Arc<Context>,
    span: Span,
) -> Result<ArrayRef> {
    let present = || found.iter().map(|raw| raw.filter(|raw| *raw != "null"));
    let _room = match &ty.kind {
        Kind::Array(_) | Kind::Tuple(_) | Kind::Map(_) => {
            room(found.iter().flatten().map(|raw| raw.len()).sum())?
        }
        _ => None,
    };
    let array: ArrayRef = match &ty.kind {
        Kind::Bool => {
            let flags = present().map(|raw| raw.and_then(flag).map(i64::from));
            Arc::new(flags.collect::<Int64Array>())
        }
        Kind::UInt(bits) => {
            Arc::new(present().map(|raw| whole(raw?, false, *bits)).collect::<Int64Array>())
        }
        Kind::Int(bits) => {
            Arc::new(present().map(|raw| whole(raw?, true, *bits)).collect::<Int64Array>())
        }
        Kind::Float => Arc::new(present().map(|raw| number(raw?)).collect::<Float64Array>()),
        Kind::String | Kind::Json(_) => {
            let mut texts = TextWriter::new(found.len(), span);
            for raw in present() {
                match raw.map(|raw| (raw, unquoted(raw))) {
                    Some((_, Some(text))) => texts.buffer().push_str(&text),
                    Some((raw, None)) => minify(raw, texts.buffer()),
                    None => {}
                }
                texts.end(raw.is_some())?;
            }
            texts.finish()
        }
        Kind::Uuid => {
            let ids = present().map(|raw| uuid::Uuid::try_parse(&unquoted(raw?)?).ok());
            uuid_array(&ids.collect::<Vec<_>>())?
        }
        Kind::Date | Kind::DateTime(_) => {
            let zone = match &ty.kind {
                Kind::DateTime(moment) => zone_of(moment, context),
                _ => context.zone.clone(),
            };
            let (day, mut clock) = (ty.kind == Kind::Date, Clockwork::new(&zone));
            let times = present().map(|raw| {
                let raw = raw?;
                let text = unquoted(raw).unwrap_or(Cow::Borrowed(raw));
                if day {
                    read::day(&text, &mut clock)
                } else {
                    read::moment(&text, context.now, &mut clock)
                }
            });
            Arc::new(times.collect::<Int64Array>())
        }
        Kind::Decimal(_) => {
            let text = Type::from(Kind::String).or_null(true);
            let texts = values(&text, found, context, span)?;
            match cast::between(&text, ty, true, span, context)? {
                Some(cast) => cast(&texts)?,
                None => texts,
            }
        }
        Kind::Array(element) => {
            let (mut all, mut offsets) = (Vec::new(), vec![0]);
            for raw in found {
                all.extend(elements(raw.unwrap_or_default()).into_iter().map(Some));
                offsets.push(check_elements(all.len(), span)?);
            }
            wide_list(element, offsets, values(element, &all, context, span)?)?
        }
        Kind::Tuple(items) => {
            let rows: Vec<Vec<&str>> = found
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
            wide_struct(items, columns.collect::<Result<_>>()?, found.len())?
        }
        Kind::Map(pair) => {
            let (mut names, mut all, mut offsets) = (Vec::new(), Vec::new(), vec![0]);
            for raw in found {
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
            let entry = crate::types::entry(pair);
            let Kind::Tuple(items) = &entry.kind else { return nothing(ty, found.len()) };
            let entries = wide_struct(items, columns, names.len())?;
            wide_list(&entry, offsets, entries)?
        }
        Kind::Null | Kind::Interval(_) => return nothing(ty, found.len()),
    };
    if ty.nullable || array.null_count() == 0 { Ok(array) } else { without_nulls(&array) }
}
