//! Converts the warehouse's dictionary columns to Arrow dictionaries of strings.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, StringBuilder, UInt32Array};
use arrow::datatypes::{DataType, UInt32Type};
use serde_json::Value as Json;
use warehouse::{ABSENT, Dictionary, Value};

use crate::error::Result;
use crate::lower::leaves::PathStep;

/// The type of a dictionary-encoded string column.
pub(crate) fn dictionary_string_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
}

/// The value of a row without a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Null,
    Empty,
}

/// A dictionary's entries as strings. Nulls, and entries without a value at the path, have absent.
#[derive(Clone, Debug)]
pub(super) struct DictionaryStrings {
    values: ArrayRef,
    /// Which entries have no string; empty if all have one.
    absent: Vec<bool>,
    missing: Missing,
    entries: u32,
}

impl DictionaryStrings {
    pub(super) fn of(dictionary: &Dictionary, path: &[PathStep], missing: Missing) -> Self {
        let texts = dictionary.iter().map(|value| text(value, path));
        let builder = StringBuilder::with_capacity(dictionary.len() + 1, dictionary.text_bytes());
        Self::from_strings(texts, builder, missing)
    }

    fn from_strings(
        texts: impl Iterator<Item = Option<impl AsRef<str>>>,
        mut builder: StringBuilder,
        missing: Missing,
    ) -> Self {
        let (mut absent, mut any_absent, mut entries) = (Vec::new(), false, 0);
        for text in texts {
            builder.append_value(text.as_ref().map_or("", AsRef::as_ref));
            any_absent |= text.is_none();
            absent.push(text.is_none());
            entries += 1;
        }
        if missing == Missing::Empty {
            // The entry of rows without a string.
            builder.append_value("");
        }
        if !any_absent {
            absent.clear();
        }
        Self { values: Arc::new(builder.finish()), absent, missing, entries }
    }

    pub(super) fn bytes(&self) -> usize {
        self.values.get_array_memory_size() + self.absent.len()
    }

    pub(super) fn rows(&self, codes: impl Iterator<Item = u32>) -> Result<ArrayRef> {
        let is_none = |code: u32| {
            code == ABSENT || self.absent.get(code as usize).is_some_and(|absent| *absent)
        };
        let keys: UInt32Array = match self.missing {
            Missing::Null => codes.map(|code| (!is_none(code)).then_some(code)).collect(),
            Missing::Empty => {
                let or_empty = |code| if is_none(code) { self.entries } else { code };
                UInt32Array::from_iter_values(codes.map(or_empty))
            }
        };
        let values = self.values.clone();
        Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, values)?))
    }
}

/// A property's value as a string, without quotes; none for null and for an empty string.
pub(super) fn text<'a>(value: Value<'a>, path: &[PathStep]) -> Option<std::borrow::Cow<'a, str>> {
    let within = path.get(1..).unwrap_or_default();
    match (value, within) {
        (value, [PathStep::JsonType]) => value_type(value).map(Into::into),
        (Value::Json(json), [_, ..]) => {
            let json: Json = serde_json::from_str(json).ok()?;
            json_text(walk(&json, within)?).map(Into::into)
        }
        (_, [_, ..]) | (Value::Null, _) => None,
        (Value::Bool(true), _) => Some("true".into()),
        (Value::Bool(false), _) => Some("false".into()),
        (Value::Number(text) | Value::Text(text) | Value::Json(text), _) => {
            (!text.is_empty()).then(|| text.into())
        }
    }
}

fn value_type(value: Value<'_>) -> Option<&'static str> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some("Bool"),
        Value::Text(_) => Some("String"),
        Value::Number(json) | Value::Json(json) => Some(eval::json_type(json)),
    }
}

fn walk<'a>(json: &'a Json, path: &[PathStep]) -> Option<&'a Json> {
    path.iter().try_fold(json, |json, place| match place {
        PathStep::Key(key) => json.get(key),
        PathStep::Index(index) => json.get(usize::try_from(index.checked_sub(1)?).ok()?),
        PathStep::JsonType => None,
    })
}

pub(super) fn json_text(json: &Json) -> Option<String> {
    match json {
        Json::Null => None,
        Json::String(text) => (!text.is_empty()).then(|| text.clone()),
        other => Some(other.to_string()),
    }
}

/// The property at a path of a JSON object, as a string.
pub(super) fn property(group: &facts::Group<'_>, path: &[PathStep]) -> Option<String> {
    let (PathStep::Key(first), within) = path.split_first()? else { return None };
    match (group.property(first)?, within) {
        (Json::Null, _) => None,
        (value, [PathStep::JsonType]) => Some(eval::json_type(&value.to_string()).to_owned()),
        (value, within) => json_text(walk(&value, within)?),
    }
}
