//! A JSON object that keeps the order of its keys and the literals of its numbers.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Result, Value};

/// The text as sent, next to its parsed fields. Insights store their query like this, so that
/// clients get back what they sent.
#[derive(Clone, Debug)]
pub struct VerbatimJson {
    text: Box<RawValue>,
    fields: Map<String, Value>,
}

impl VerbatimJson {
    /// Removes whitespace and unneeded escapes. If a key repeats, the last one wins and the object
    /// is serialized anew.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = Self::from_stored(compacted(text)?)?;
        let KeyCount(in_text) = serde_json::from_str(parsed.text())?;
        let distinct = parsed.fields.len() + parsed.fields.values().map(count_keys).sum::<usize>();
        if in_text == distinct { Ok(parsed) } else { Ok(parsed.fields.into()) }
    }

    /// For the text of a stored [`VerbatimJson`], which needs no compaction.
    pub fn from_stored(text: String) -> Result<Self> {
        Ok(Self { fields: serde_json::from_str(&text)?, text: RawValue::from_string(text)? })
    }

    pub fn text(&self) -> &str {
        self.text.get()
    }

    pub fn into_fields(self) -> Map<String, Value> {
        self.fields
    }

    /// Changes the fields. A change serializes the object anew, without the client's formatting.
    pub fn edit(&mut self, change: impl FnOnce(&mut Map<String, Value>)) {
        let mut fields = self.fields.clone();
        change(&mut fields);
        if fields != self.fields {
            *self = fields.into();
        }
    }
}

fn count_keys(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields.len() + fields.values().map(count_keys).sum::<usize>(),
        Value::Array(items) => items.iter().map(count_keys).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Keys in a JSON text at all depths, repeated ones counted each time.
struct KeyCount(usize);

impl<'de> Deserialize<'de> for KeyCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(KeyCounter).map(Self)
    }
}

struct KeyCounter;

macro_rules! no_keys {
    ($($method:ident: $type:ty),*) => {$(
        fn $method<E>(self, _: $type) -> std::result::Result<usize, E> {
            Ok(0)
        }
    )*};
}

impl<'de> Visitor<'de> for KeyCounter {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    no_keys!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E>(self) -> std::result::Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<usize, A::Error> {
        let mut count = 0;
        while let Some(KeyCount(below)) = items.next_element()? {
            count += below;
        }
        Ok(count)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<usize, A::Error> {
        let mut count = 0;
        while let Some((IgnoredAny, KeyCount(below))) = fields.next_entry()? {
            count += 1 + below;
        }
        Ok(count)
    }
}

fn compacted(text: &str) -> Result<String> {
    let mut compact = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let (plain, quoted) = rest.split_at(rest.find('"').unwrap_or(rest.len()));
        compact.extend(plain.chars().filter(|letter| !letter.is_ascii_whitespace()));
        let mut strings = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
        let Some(string) = strings.next() else { return Ok(compact) };
        compact += &serde_json::to_string(&string?)?;
        rest = &quoted[strings.byte_offset()..];
    }
}

impl From<Map<String, Value>> for VerbatimJson {
    fn from(fields: Map<String, Value>) -> Self {
        let text = serde_json::value::to_raw_value(&fields);
        Self { text: text.expect("keys are strings"), fields }
    }
}

impl Deref for VerbatimJson {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        &self.fields
    }
}

impl PartialEq for VerbatimJson {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for VerbatimJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VerbatimJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for VerbatimJson {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Map::<String, Value>::schema_name()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        Map::<String, Value>::json_schema(schemas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbatim_json_keeps_key_order_and_number_literals() {
        let text = " { \"z\" : 1.0,\n\"a\":[ 12345678901234567890123, 1E2 ], \"\\u00fc \\\"\\\\\": \"\\u0041 b\" } ";
        let parsed = VerbatimJson::parse(text).unwrap();
        let compact = r#"{"z":1.0,"a":[12345678901234567890123,1E2],"ü \"\\":"A b"}"#;
        assert_eq!(parsed.text(), compact);
        assert_eq!(serde_json::to_string(&Some(&parsed)).unwrap(), compact);
        assert_eq!(parsed["z"], 1.0);
        assert_eq!(VerbatimJson::from_stored(compact.to_owned()).unwrap(), parsed);
        for wrong in ["", "[]", "5", "{\"a\"", "{\"\\ud800\":1}"] {
            assert!(VerbatimJson::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn last_of_repeated_keys_wins() {
        for (text, expected) in [
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
            (
                r#"{"b":[null,{"x":{"k":1,"\u006b":[2]}}],"a":true}"#,
                r#"{"a":true,"b":[null,{"x":{"k":[2]}}]}"#,
            ),
            (r#"{"a":{"k":1},"b":{"k":1.50}}"#, r#"{"a":{"k":1},"b":{"k":1.50}}"#),
        ] {
            assert_eq!(VerbatimJson::parse(text).unwrap().text(), expected);
        }
    }
}
