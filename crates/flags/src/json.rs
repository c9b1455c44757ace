//! Serializes results in the format of `/flags?v=2`. The constant parts of each flag are rendered
//! when it is compiled, as every request repeats them for all flags of the project.

use std::fmt::Write as _;

use model::flag::FlagDefinition;
use serde_json::Value;

use crate::result::{FlagResult, FlagResults};

/// Capacity per flag for the parts that are not prerendered.
const DETAIL_BYTES: usize = 160;
const NOT_EVALUATED: &str = "The flag could not be evaluated";

/// The constant parts of a flag's result.
#[derive(Clone, Debug)]
pub(crate) struct PrerenderedJson {
    /// Up to the value of `enabled`.
    opening: Box<str>,
    /// Between the reason and the payload.
    metadata: Box<str>,
    closing: &'static str,
}

impl PrerenderedJson {
    pub(crate) fn of(flag: &FlagDefinition) -> Self {
        let key = Value::String(flag.key.clone());
        let (id, version) = (flag.id, flag.version);
        Self {
            opening: format!(r#"{key}:{{"key":{key},"enabled":"#).into(),
            metadata: format!(
                r#","metadata":{{"id":{id},"version":{version},"description":null,"payload":"#
            )
            .into(),
            closing: match flag.has_experiment {
                true => r#","has_experiment":true}}"#,
                false => r#","has_experiment":false}}"#,
            },
        }
    }
}

impl FlagResults<'_> {
    /// Appends an object of all results by flag key to `json`.
    pub fn write_details(&self, json: &mut String) {
        let bytes = |result: &FlagResult<'_>| {
            let prerendered = &result.flag.prerendered;
            let payload = result.payload.map_or(0, str::len);
            DETAIL_BYTES + prerendered.opening.len() + prerendered.metadata.len() + payload
        };
        json.reserve(self.results.iter().map(bytes).sum());
        json.push('{');
        for (at, result) in self.results.iter().enumerate() {
            if at > 0 {
                json.push(',');
            }
            write_detail(result, json);
        }
        json.push('}');
    }
}

fn write_detail(result: &FlagResult<'_>, json: &mut String) {
    let prerendered = &result.flag.prerendered;
    json.push_str(&prerendered.opening);
    json.push_str(if result.enabled { r#"true,"variant":"# } else { r#"false,"variant":"# });
    write_text(result.variant, json);
    if result.failure.is_some() {
        json.push_str(r#","failed":true"#);
    }
    let code = match result.failure {
        Some(failure) => failure.as_str(),
        None => result.reason.code.as_str(),
    };
    json.push_str(r#","reason":{"code":""#);
    json.push_str(code);
    json.push_str(r#"","condition_index":"#);
    match result.reason.condition_index.filter(|_| result.failure.is_none()) {
        Some(index) => write_number(index, json),
        None => json.push_str("null"),
    }
    json.push_str(r#","description":""#);
    match result.failure {
        Some(_) => json.push_str(NOT_EVALUATED),
        None => {
            let (text, number) = result.reason.description_parts();
            json.push_str(text);
            if let Some(number) = number {
                json.push(' ');
                write_number(number, json);
            }
        }
    }
    json.push_str("\"}");
    json.push_str(&prerendered.metadata);
    write_text(result.payload, json);
    json.push_str(prerendered.closing);
}

fn write_number(number: usize, json: &mut String) {
    match u8::try_from(number) {
        // Fast path: condition indexes are nearly always a single digit.
        Ok(digit @ 0..10) => json.push(char::from(b'0' + digit)),
        _ => write!(json, "{number}").expect("a string takes every text"),
    }
}

/// A JSON string, or null.
fn write_text(text: Option<&str>, json: &mut String) {
    let Some(text) = text else { return json.push_str("null") };
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        json.push('"');
        json.push_str(text);
        json.push('"');
    } else {
        write!(json, "{}", Value::from(text)).expect("a string takes every text");
    }
}
