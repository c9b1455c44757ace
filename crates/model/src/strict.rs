//! Strict deserialization of request bodies, with the path of the offending field in errors.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde_json::Value;

use crate::FieldError;

/// Deserializes a request body. Errors carry the field's path and Django REST framework's codes and
/// messages, which clients of upstream's API expect.
pub fn deserialize_strict<T: DeserializeOwned>(sent: &Value) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(Strict(sent)).map_err(|error| field_error(&error, sent))
}

/// Rejects arrays where a struct is expected: serde's derive would fill its fields by position.
struct Strict<'a>(&'a Value);

/// Scalars deserialize as usual.
macro_rules! forward {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
            self.0.$method(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Strict<'de> {
    type Error = serde_json::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Array(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
            single => single.deserialize_any(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let Value::Array(items) = self.0 else { return self.0.deserialize_seq(visitor) };
        let mut items = SeqDeserializer::new(items.iter().map(Strict));
        let read = visitor.visit_seq(&mut items)?;
        items.end().map(|()| read)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        let Value::Object(fields) = self.0 else { return self.0.deserialize_map(visitor) };
        let pairs = fields.iter().map(|(name, value)| (name.as_str(), Strict(value)));
        let mut pairs = MapDeserializer::new(pairs);
        let read = visitor.visit_map(&mut pairs)?;
        pairs.end().map(|()| read)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_unit(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    forward! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier deserialize_ignored_any
    }
}

impl<'de> IntoDeserializer<'de, serde_json::Error> for Strict<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn field_error(error: &serde_path_to_error::Error<serde_json::Error>, sent: &Value) -> FieldError {
    use serde_path_to_error::Segment;
    let mut names: Vec<String> = Vec::new();
    let mut at = Some(sent);
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => {
                at = at.and_then(|value| value.get(index));
                names.push(index.to_string());
            }
            Segment::Map { key } => {
                at = at.and_then(|value| value.get(key));
                names.push(key.clone());
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let why = error.inner().to_string();
    let missing = why.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let (code, detail) = match (missing, at) {
        (Some(field), _) => {
            names.push(field.to_owned());
            ("required", "This field is required.".into())
        }
        (None, Some(Value::Null)) => ("null", "This field may not be null.".into()),
        (None, Some(value)) => explain(&why, value),
        (None, None) => ("invalid_input", why),
    };
    FieldError { attr: names.join("__"), code, detail }
}

fn explain(why: &str, sent: &Value) -> (&'static str, String) {
    let expected = why.split_once("expected ").map_or("", |(_, expected)| expected);
    if expected.starts_with("a string") {
        ("invalid_input", "Not a valid string.".into())
    } else if expected.starts_with("a boolean") {
        ("invalid_input", "Must be a valid boolean.".into())
    } else if ["i64", "i32", "u64", "u32", "usize"].iter().any(|name| expected.starts_with(name)) {
        ("invalid_input", "A valid integer is required.".into())
    } else if expected.starts_with("a sequence") {
        (
            "not_a_list",
            format!("Expected a list of items but got type \"{}\".", json_type_name(sent)),
        )
    } else if expected.starts_with("a map") || expected.starts_with("struct") {
        (
            "invalid_input",
            format!("Expected a dictionary of items but got type \"{}\".", json_type_name(sent)),
        )
    } else if why.starts_with("UUID") || why.contains("UUID") {
        ("invalid_input", "Must be a valid UUID.".into())
    } else if why.contains("unknown variant")
        || why.contains("is not a valid choice")
        || expected.starts_with("string or map")
        || expected.starts_with("map with a single key")
    {
        let shown = sent.as_str().map_or_else(|| sent.to_string(), str::to_owned);
        ("invalid_choice", format!("\"{shown}\" is not a valid choice."))
    } else {
        ("invalid_input", why.to_owned())
    }
}

/// The name of a JSON type in error messages; Python's names, as upstream sends.
pub const fn json_type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Outer {
        id: i64,
        #[serde(default)]
        inner: Option<Inner>,
        #[serde(default)]
        all: Vec<Inner>,
        #[serde(default)]
        named: BTreeMap<String, Inner>,
        #[serde(default)]
        pair: Option<(i64, String)>,
        #[serde(default)]
        word: Word,
        #[serde(default)]
        any: Value,
        #[serde(default)]
        fields: serde_json::Map<String, Value>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Inner {
        #[serde(default)]
        id: Number,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Number(f64);

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        #[default]
        One,
        Two,
    }

    #[test]
    fn strict_deserialization_rejects_arrays_for_structs_and_names_the_field() {
        let dictionary = "Expected a dictionary of items but got type \"list\".";
        for (sent, attr, detail) in [
            (json!([1]), "", dictionary),
            (json!({ "id": 1, "inner": [2] }), "inner", dictionary),
            (json!({ "id": 1, "inner": [] }), "inner", dictionary),
            (json!({ "id": 1, "all": [{}, [2]] }), "all__1", dictionary),
            (json!({ "id": 1, "named": { "x": [2] } }), "named__x", dictionary),
            (json!({ "id": 1, "named": [] }), "named", dictionary),
            (json!({ "id": "1" }), "id", "A valid integer is required."),
            (json!({ "id": null }), "id", "This field may not be null."),
            (json!({}), "id", "This field is required."),
            (json!({ "id": 1, "word": "three" }), "word", "\"three\" is not a valid choice."),
            (json!({ "id": 1, "fields": null }), "fields", "This field may not be null."),
            (json!({ "id": 1, "pair": [1, "x", 2] }), "pair", "invalid length 3"),
        ] {
            let refused = deserialize_strict::<Outer>(&sent).unwrap_err();
            assert_eq!(refused.attr, attr, "{sent}");
            assert!(refused.detail.starts_with(detail), "{sent}: {}", refused.detail);
        }
        let sent = json!({
            "id": 1, "inner": { "id": 2 }, "all": [{ "id": 0.5 }], "named": { "x": {} },
            "pair": [1, "x"], "word": "two", "any": [{ "a": [null] }], "more": [],
            "fields": { "b": [1] },
        });
        let expected = Outer {
            id: 1,
            inner: Some(Inner { id: Number(2.0) }),
            all: vec![Inner { id: Number(0.5) }],
            named: BTreeMap::from([("x".into(), Inner { id: Number(0.0) })]),
            pair: Some((1, "x".into())),
            word: Word::Two,
            any: json!([{ "a": [null] }]),
            fields: serde_json::Map::from_iter([("b".into(), json!([1]))]),
        };
        assert_eq!(deserialize_strict::<Outer>(&sent).unwrap(), expected);
    }
}
