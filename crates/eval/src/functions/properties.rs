//! Extracts members of JSON objects and parses no more of the string than needed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use hogql::Span;
use hogql::plan::Step;
use hogql::types::{Kind, Type};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::Context;
use crate::error::Result;
use crate::run::node::Kernel;
use crate::values::cast;
use crate::values::json::json_type;
use crate::vector::column::{Args, Column};

/// A kernel that parses a property's string as the property's type; null where it cannot.
pub(crate) fn parse(ty: &Type, context: &Arc<Context>) -> Result<Kernel> {
    let cast = cast::between(&Kind::String.into(), ty, true, Span::default(), context)?;
    Ok(Arc::new(move |args: &Args| match &cast {
        Some(cast) => cast(&args.columns[0].array),
        None => Ok(Arc::clone(&args.columns[0].array)),
    }))
}

/// A kernel that extracts the property at a path: a string without quotes, null if missing or empty.
pub(crate) fn extract(
    path: &[Step],
    ty: &Type,
    span: Span,
    context: &Arc<Context>,
) -> Result<Kernel> {
    let path = path.to_vec();
    let parse = parse(ty, context)?;
    Ok(Arc::new(move |args: &Args| {
        let strings = args.strings(0);
        let (path, wants_type) = match path.split_last() {
            Some((Step::JsonType, path)) => (path, true),
            _ => (&path[..], false),
        };
        let properties = args.try_strings(span, |row, out| {
            let Some(value) = find(strings.at(row), path) else { return Ok(false) };
            if !wants_type {
                return Ok(write_string(value, out));
            }
            out.push_str(json_type(value));
            Ok(value != "null")
        })?;
        let columns = [Column::full(properties)];
        parse(&Args { columns: &columns, rows: args.rows, nulls: None })
    }))
}

/// Writes a JSON string without its quotes and anything else verbatim. False for null and empty.
fn write_string(raw: &str, out: &mut String) -> bool {
    match unquoted(raw) {
        Some(text) => {
            out.push_str(&text);
            !text.is_empty()
        }
        None if raw == "null" => false,
        None => {
            out.push_str(raw);
            true
        }
    }
}

/// Decodes a JSON string.
pub(super) fn unquoted(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        let text = serde_json::from_str(raw).unwrap_or_else(|_| unescaped(inner));
        return Some(Cow::Owned(text));
    }
    Some(Cow::Borrowed(inner))
}

/// Decodes a string with unpaired surrogates, which JSON permits: each becomes U+FFFD.
fn unescaped(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        // A surrogate pair, one `\uXXXX` escape, or a one-letter escape.
        let is_escapes = |part: &&str| {
            part.len() == 2 || part.as_bytes().chunks(6).all(|one| one.starts_with(b"\\u"))
        };
        let parts = [rest.get(..12), rest.get(..6), rest.get(..2)];
        let decoded = parts.into_iter().flatten().filter(is_escapes).find_map(|part| {
            let read = serde_json::from_str::<String>(&format!("\"{part}\"")).ok()?;
            Some((part.len(), read))
        });
        let (length, read) = decoded.unwrap_or_else(|| {
            let length = if rest.starts_with("\\u") { 6 } else { 2 };
            (length, char::REPLACEMENT_CHARACTER.to_string())
        });
        text.push_str(&read);
        rest = rest.get(length..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// A step into a JSON value.
pub(super) trait Follow {
    /// The member's name, if the step names a member.
    fn key(&self) -> Option<&str>;
    /// The index of an element, from 0, given the length.
    fn index(&self, count: usize) -> Option<usize>;
    /// Whether the length is needed (a step from the end).
    fn counts_back(&self) -> bool {
        false
    }
}

impl Follow for Step {
    fn key(&self) -> Option<&str> {
        match self {
            Self::Key(key) => Some(key),
            Self::Index(_) | Self::JsonType => None,
        }
    }

    fn index(&self, _: usize) -> Option<usize> {
        match self {
            Self::Index(index) => usize::try_from(index.checked_sub(1)?).ok(),
            // `items.1` and `items['1']` are the same path.
            Self::Key(key) => key.parse::<usize>().ok()?.checked_sub(1),
            Self::JsonType => None,
        }
    }
}

/// The raw JSON at a path. None if the string is not JSON.
pub(super) fn find<'t, S: Follow>(text: &'t str, path: &[S]) -> Option<&'t str> {
    let mut text = text;
    if path.is_empty() {
        return serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get);
    }
    for step in path {
        text = follow_step(text, step)?;
    }
    Some(text)
}

fn follow_step<'t, S: Follow>(text: &'t str, step: &S) -> Option<&'t str> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let raw = Member { step }.deserialize(&mut deserializer).ok()?;
    deserializer.end().ok()?;
    raw
}

struct Member<'s, S> {
    step: &'s S,
}

impl<'t, S: Follow> DeserializeSeed<'t> for Member<'_, S> {
    type Value = Option<&'t str>;

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t, S: Follow> Visitor<'t> for Member<'_, S> {
    type Value = Option<&'t str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut raw = None;
        let mut at = 0;
        while let Some(key) = map.next_key::<Name<'t>>()? {
            let here = match self.step.key() {
                Some(wanted) => key.0 == wanted,
                None => self.step.index(usize::MAX) == Some(at),
            };
            if here && raw.is_none() {
                raw = Some(map.next_value::<&RawValue>()?.get());
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            at += 1;
        }
        Ok(raw)
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        if self.step.counts_back() {
            let mut all = Vec::new();
            while let Some(element) = seq.next_element::<&RawValue>()? {
                all.push(element.get());
            }
            let index = self.step.index(all.len());
            return Ok(index.and_then(|index| all.get(index).copied()));
        }
        let wanted = self.step.index(0);
        let (mut raw, mut at) = (None, 0);
        loop {
            if Some(at) == wanted {
                let Some(element) = seq.next_element::<&RawValue>()? else { break };
                raw = Some(element.get());
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
            at += 1;
        }
        Ok(raw)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// A member's name, borrowed unless it has escapes.
pub(super) struct Name<'t>(pub Cow<'t, str>);

impl<'t> serde::Deserialize<'t> for Name<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'t> Visitor<'t> for Text {
            type Value = Name<'t>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'t str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
