//! Answers as JSON, in the shape of `/flags?v=2`. What is the same in every answer about a flag
//! is written when the flag is compiled: a request repeats it for each flag of the project.

use std::fmt::Write as _;

use model::flag::FlagDefinition;
use serde_json::Value;

use crate::answer::{Answer, Answers};

/// Room for what stands between the parts that are written already.
const DETAIL_BYTES: usize = 160;
const NOT_EVALUATED: &str = "The flag could not be evaluated";

/// The parts of an answer that never change.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// Up to whether it is enabled.
    opening: Box<str>,
    /// From the reason to the payload.
    metadata: Box<str>,
    closing: &'static str,
}

impl Written {
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

impl Answers<'_> {
    /// Adds a map of all answers by key to `json`.
    pub fn write_details(&self, json: &mut String) {
        let bytes = |answer: &Answer<'_>| {
            let written = &answer.flag.written;
            let payload = answer.payload.map_or(0, str::len);
            DETAIL_BYTES + written.opening.len() + written.metadata.len() + payload
        };
        json.reserve(self.answers.iter().map(bytes).sum());
        json.push('{');
        for (at, answer) in self.answers.iter().enumerate() {
            if at > 0 {
                json.push(',');
            }
            write_detail(answer, json);
        }
        json.push('}');
    }
}

fn write_detail(answer: &Answer<'_>, json: &mut String) {
    let written = &answer.flag.written;
    json.push_str(&written.opening);
    json.push_str(if answer.enabled { r#"true,"variant":"# } else { r#"false,"variant":"# });
    write_text(answer.variant, json);
    if answer.failure.is_some() {
        json.push_str(r#","failed":true"#);
    }
    let code = match answer.failure {
        Some(failure) => failure.as_str(),
        None => answer.reason.code.as_str(),
    };
    json.push_str(r#","reason":{"code":""#);
    json.push_str(code);
    json.push_str(r#"","condition_index":"#);
    match answer.reason.condition_index.filter(|_| answer.failure.is_none()) {
        Some(index) => write_number(index, json),
        None => json.push_str("null"),
    }
    json.push_str(r#","description":""#);
    match answer.failure {
        Some(_) => json.push_str(NOT_EVALUATED),
        None => {
            let (text, number) = answer.reason.told();
            json.push_str(text);
            if let Some(number) = number {
                json.push(' ');
                write_number(number, json);
            }
        }
    }
    json.push_str("\"}");
    json.push_str(&written.metadata);
    write_text(answer.payload, json);
    json.push_str(written.closing);
}

fn write_number(number: usize, json: &mut String) {
    match u8::try_from(number) {
        // Nearly always, and a fraction of what formatting costs.
        Ok(digit @ 0..10) => json.push(char::from(b'0' + digit)),
        _ => write!(json, "{number}").expect("a string takes every text"),
    }
}

/// Text in quotation marks, or null.
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
