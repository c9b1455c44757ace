//! Known divergences of the SDKs' property matching from the contract: each is named, with the
//! result that the SDK must then give.

use std::cmp::Ordering;

use model::property::{Dialect, Operator, PropertyFilter};
use serde_json::{Value, json};

use crate::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sdk {
    Python,
    Node,
}

/// The result of an SDK for a property that it matches differently.
#[derive(Debug, PartialEq)]
pub struct Reading {
    pub name: &'static str,
    pub result: bool,
}

/// The result by the contract's table.
pub fn ours(operator: &str, wanted: &Value, held: &Value) -> bool {
    let operator = Operator::parse(operator).unwrap();
    PropertyFilter::compile("p", operator, wanted, &Dialect::default()).accepts(Some(held), now())
}

/// The SDK's divergence, if there is one. `dates` maps strings to JavaScript's milliseconds.
pub fn reading(
    sdk: Sdk,
    operator: &str,
    wanted: &Value,
    held: &Value,
    dates: &Value,
) -> Option<Reading> {
    let text = match sdk {
        Sdk::Python => python_text(held),
        Sdk::Node => js_text(held),
    };
    let said = |name, result| Some(Reading { name, result });
    match (sdk, operator) {
        // contract: flags 2.3, "Known divergence"; posthog-node does the same.
        (_, word) if word.starts_with("semver") => {
            let (wanted, held) = (json!(release(&text_of(wanted))), json!(release(&text)));
            let name = "SDKs drop pre-release parts of versions, and spaces around them";
            said(name, ours(operator, &wanted, &held))
        }
        // The rest is contract: flags 8, "node either defers to the server or is more lenient".
        (Sdk::Node, "gt" | "gte" | "lt" | "lte") => {
            let order = match (js_number(wanted), js_number(held)) {
                (Some(wanted), Some(held)) => held.partial_cmp(&wanted)?,
                _ if held.is_null() => return None,
                _ => text.encode_utf16().cmp(js_text(wanted).encode_utf16()),
            };
            let name = "node compares what is no number as text, or by the digits it begins with";
            said(
                name,
                match operator {
                    "gt" => order == Ordering::Greater,
                    "gte" => order != Ordering::Less,
                    "lt" => order == Ordering::Less,
                    _ => order != Ordering::Greater,
                },
            )
        }
        (Sdk::Node, "is_date_before" | "is_date_after") => {
            let (name, milliseconds) = match held {
                Value::String(text) => ("node reads almost any text as a date", &dates[text]),
                _ => ("node reads numbers as milliseconds", held),
            };
            let seconds = milliseconds.as_f64()? / 1_000.0;
            said(name, ours(operator, wanted, &json!(seconds)))
        }
        (Sdk::Node, word) if held.is_null() && UNKNOWN_TO_SDKS.contains(&word) => said(
            "node calls null no match before it sees that it does not know the operator",
            false,
        ),
        (_, "regex" | "not_regex") if !held.is_string() => {
            let name = "SDKs write what is no text in the words of their language for patterns";
            said(name, ours(operator, wanted, &json!(text)))
        }
        (Sdk::Node, word) if TEXTUAL.iter().any(|known| word.ends_with(known)) => {
            let name = "node writes lists without brackets, and 5.0 as 5";
            said(name, ours(operator, wanted, &json!(text)))
        }
        _ => None,
    }
}

const UNKNOWN_TO_SDKS: [&str; 5] =
    ["between", "not_between", "icontains_multi", "not_icontains_multi", "is_date_exact"];
const TEXTUAL: [&str; 3] = ["icontains", "starts_with", "ends_with"];

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn release(version: &str) -> String {
    let text = version.trim().trim_start_matches(['v', 'V']);
    text.split(['-', '+']).next().unwrap_or_default().to_owned()
}

/// `String(value)`.
fn js_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
        }
        Value::Array(items) => {
            let item = |item: &Value| if item.is_null() { String::new() } else { js_text(item) };
            items.iter().map(item).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    }
}

/// A number, or the result of `parseFloat`, if it is finite.
fn js_number(value: &Value) -> Option<f64> {
    if let Value::Number(number) = value {
        return number.as_f64();
    }
    let text = js_text(value);
    let text = text.trim_start();
    let fits = |end: &usize| {
        let part = &text[..*end];
        // Rust also parses "inf" and "nan"; JavaScript does not.
        !part.contains(|letter: char| letter.is_alphabetic() && !matches!(letter, 'e' | 'E'))
            && part.parse::<f64>().is_ok()
    };
    let ends = (1..=text.len()).rev().filter(|end| text.is_char_boundary(*end));
    let end = ends.into_iter().find(fits)?;
    text[..end].parse().ok().filter(|number: &f64| number.is_finite())
}

/// `str(value)`, except null, which posthog-python formats as JSON.
fn python_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "null".into(),
        other => python_form(other),
    }
}

/// `repr(value)`.
fn python_form(value: &Value) -> String {
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::String(text) => format!("'{}'", text.replace('\n', "\\n")),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(python_form).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn values_are_formatted_as_in_javascript_and_python() {
    let list = json!(["x\ny", 5, 5.0, true, null]);
    assert_eq!(python_text(&list), "['x\\ny', 5, 5.0, True, None]");
    assert_eq!(js_text(&list), "x\ny,5,5,true,");
    for (value, expected) in [
        (json!("1e2"), Some(100.0)),
        (json!("5.0.1"), Some(5.0)),
        (json!(" 5x"), Some(5.0)),
        (json!("-7"), Some(-7.0)),
        (json!("1e"), Some(1.0)),
        (json!("NaN"), None),
        (json!("inf"), None),
        (json!(""), None),
        (json!(["7", 1]), Some(7.0)),
        (json!(true), None),
    ] {
        assert_eq!(js_number(&value), expected, "{value}");
    }
}
