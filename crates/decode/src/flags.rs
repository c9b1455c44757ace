//! Parses the bodies of `/flags` and `/decide`.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::outline::walk_object;
use crate::{Error, JsonText, Result, value};

/// Upstream's limit of a distinct id; longer ones are truncated.
pub const DISTINCT_ID_CHARS_MAX: usize = 200;

/// A flag evaluation request. Null and values of another type count as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlagsBody {
    pub token: Option<String>,
    pub distinct_id: Option<String>,
    /// Group type and group key.
    pub groups: Vec<(String, String)>,
    pub person_properties: Map<String, Value>,
    pub group_properties: Map<String, Value>,
    pub anon_distinct_id: Option<String>,
    pub device_id: Option<String>,
    pub geoip_disable: bool,
    pub disable_flags: bool,
    pub flag_keys: Option<Vec<String>>,
    pub evaluation_contexts: Vec<String>,
    pub evaluation_runtime: Option<String>,
}

/// Finds the token without building values, so that a request with an unknown token costs no memory.
/// Fails on the same shapes as [`parse_flags`].
pub fn flags_token<'t>(text: &'t JsonText<'_>) -> Result<Option<Cow<'t, str>>> {
    const NAMES: [&str; 3] = ["token", "api_key", "$token"];
    let json = text.as_str();
    let start = json.find(|letter: char| !letter.is_ascii_whitespace()).unwrap_or_default();
    if !json[start..].starts_with('{') {
        return match serde_json::from_str::<IgnoredAny>(json) {
            Ok(_) => Err(Error::Shape),
            Err(_) => Err(Error::Json),
        };
    }
    let mut values = [None; NAMES.len()];
    walk_object(json, start, |key, range| {
        if let Some(index) = NAMES.iter().position(|name| *name == key) {
            values[index] = Some(&json[range]);
        }
    })?;
    let raw = values.into_iter().flatten().find(|raw| *raw != "null");
    Ok(raw.and_then(value::string))
}

/// Validates the grammar without allocating.
pub fn validate_json(text: &JsonText<'_>) -> Result<()> {
    serde_json::from_str::<IgnoredAny>(text.as_str()).map(drop).map_err(|_| Error::Json)
}

pub fn parse_flags(text: &JsonText<'_>) -> Result<FlagsBody> {
    let Ok(value) = serde_json::from_str(text.as_str()) else { return Err(Error::Json) };
    let Value::Object(mut fields) = value else { return Err(Error::Shape) };
    let mut take = |names: &[&str]| {
        names.iter().find_map(|name| fields.remove(*name).filter(|value| !value.is_null()))
    };
    let is_on = |value: Option<Value>| value.and_then(|value| value.as_bool()).unwrap_or(false);
    let person_properties = object(take(&["person_properties", "$properties"]));
    let device = take(&["$device_id", "device_id"]).and_then(text_of);
    let device = device.or_else(|| person_properties.get("$device_id").cloned().and_then(text_of));
    Ok(FlagsBody {
        token: take(&["token", "api_key", "$token"]).and_then(string),
        distinct_id: take(&["distinct_id", "$distinct_id"]).and_then(text_of).map(cut),
        groups: object(take(&["groups", "$groups"]))
            .into_iter()
            .filter_map(|(kind, key)| Some((kind, text_of(key).filter(|key| !key.is_empty())?)))
            .collect(),
        group_properties: object(take(&["group_properties", "$group_properties"])),
        anon_distinct_id: take(&["$anon_distinct_id", "anon_distinct_id"])
            .and_then(text_of)
            .filter(|id| !id.is_empty())
            .map(cut),
        device_id: device.filter(|id| !id.is_empty()),
        geoip_disable: is_on(take(&["geoip_disable"])),
        disable_flags: is_on(take(&["disable_flags"])),
        flag_keys: take(&["flag_keys", "flag_keys_to_evaluate"])
            .map(strings)
            .filter(|keys| !keys.is_empty()),
        evaluation_contexts: take(&["evaluation_contexts", "evaluation_environments"])
            .map(strings)
            .unwrap_or_default(),
        evaluation_runtime: take(&["evaluation_runtime"]).and_then(string),
        person_properties,
    })
}

fn string(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// A string, or a number as a string.
fn text_of(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn strings(value: Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.into_iter().filter_map(string).collect(),
        _ => Vec::new(),
    }
}

fn cut(mut id: String) -> String {
    if let Some((end, _)) = id.char_indices().nth(DISTINCT_ID_CHARS_MAX) {
        id.truncate(end);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parts, Strictness, decode_text};

    fn parsed(body: &str) -> Result<FlagsBody> {
        let parts = Parts { body: body.as_bytes(), ..Parts::default() };
        parse_flags(&decode_text(&parts, Strictness::Lenient, 1 << 20)?)
    }

    #[test]
    fn flags_body_reads_every_alias_and_treats_null_as_absent() {
        let body = parsed(
            r#"{"$token": "t", "$distinct_id": 5, "$groups": {"company": 7, "team": null, "x": ""},
                "$properties": {"a": NaN}, "$group_properties": {"company": {"b": 1}},
                "anon_distinct_id": "x", "device_id": null, "flag_keys_to_evaluate": ["f", 3],
                "evaluation_environments": ["web"], "geoip_disable": true, "disable_flags": "yes"}"#,
        )
        .unwrap();
        assert_eq!(body.token.as_deref(), Some("t"));
        assert_eq!(body.distinct_id.as_deref(), Some("5"));
        assert_eq!(body.groups, [("company".to_owned(), "7".to_owned())]);
        assert_eq!(body.person_properties.get("a"), Some(&Value::Null));
        assert_eq!(body.anon_distinct_id.as_deref(), Some("x"));
        assert_eq!((body.device_id, body.flag_keys), (None, Some(vec!["f".to_owned()])));
        assert_eq!(body.evaluation_contexts, ["web"]);
        assert!(body.geoip_disable && !body.disable_flags);
    }

    #[test]
    fn flags_token_agrees_with_parse_flags() {
        for body in [
            r#"{"token": "t", "api_key": "u"}"#,
            r#"{"api_key": "u", "token": null}"#,
            r#"{"token": "a", "token": "b"}"#,
            r#"{"person_properties": {"token": "x"}, "$token": "t\u0041"}"#,
            r#"{"token": 5, "api_key": "u"}"#,
            r#" {"distinct_id": "d"} "#,
            "{}",
            "[]",
            r#"[{"token": "t"}]"#,
            "[",
            r#"{"a" 1}"#,
        ] {
            let parts = Parts { body: body.as_bytes(), ..Parts::default() };
            let text = decode_text(&parts, Strictness::Lenient, 1 << 20);
            let token = text
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|text| Ok(flags_token(text)?.map(Cow::into_owned)));
            assert_eq!(token, parsed(body).map(|body| body.token), "{body}");
        }
    }

    #[test]
    fn distinct_ids_are_truncated_by_characters_and_arrays_are_rejected() {
        let long = "é".repeat(250);
        let body = parsed(&format!(r#"{{"distinct_id": "{long}"}}"#)).unwrap();
        assert_eq!(body.distinct_id, Some("é".repeat(DISTINCT_ID_CHARS_MAX)));
        assert_eq!(parsed("[]"), Err(Error::Shape));
        assert_eq!(parsed("{"), Err(Error::Json));
        let device = parsed(r#"{"person_properties": {"$device_id": "d"}, "$device_id": null}"#);
        assert_eq!(device.unwrap().device_id.as_deref(), Some("d"));
    }
}
