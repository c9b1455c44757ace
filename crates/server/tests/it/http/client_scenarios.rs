//! Replays the client scenarios in `compat/` step by step.
//!
//! A step is a request with an optional body. `keep` saves parts of the response, by JSON pointer,
//! for later steps to use in braces; `see` asserts values, or that they are absent.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::harness::{Store, on_both_stores};

on_both_stores! {
    terraform_scenario_reads_back_what_it_wrote,
    mcp_server_scenario_reads_back_what_it_wrote,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    #[serde(rename = "do")]
    request: String,
    send: Option<Value>,
    status: u16,
    #[serde(default)]
    keep: HashMap<String, String>,
    #[serde(default)]
    see: Map<String, Value>,
}

/// Values that earlier steps saved.
#[derive(Default)]
struct Kept(HashMap<String, Value>);

impl Kept {
    fn in_text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| {
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text.replace(&format!("{{{name}}}"), &shown)
        })
    }

    fn in_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let name = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                let kept = name.and_then(|name| self.0.get(name));
                kept.cloned().unwrap_or_else(|| value.clone())
            }
            Value::Array(items) => items.iter().map(|item| self.in_value(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, field)| (name.clone(), self.in_value(field))).collect()
            }
            other => other.clone(),
        }
    }
}

fn run(store: Store, file: &str, header: (&str, &str)) {
    let server = store.start();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut kept = Kept::default();
    for line in text.lines().skip(1) {
        let step: Step = serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        let (method, path) = step.request.split_once(' ').unwrap();
        let call = server.call(method, &kept.in_text(path)).header(header.0, header.1);
        let response = match &step.send {
            Some(body) => call.json(kept.in_value(body)).send(),
            None => call.send(),
        };
        let response = response.expect(step.status);
        if step.keep.is_empty() && step.see.is_empty() {
            continue;
        }
        let read = response.json();
        for (name, pointer) in step.keep {
            let found =
                read.pointer(&pointer).unwrap_or_else(|| panic!("{line}: no {pointer} in {read}"));
            kept.0.insert(name, found.clone());
        }
        for (pointer, expected) in step.see {
            match expected.as_str() {
                Some("absent") => assert_eq!(read.pointer(&pointer), None, "{line}"),
                _ => assert_eq!(read.pointer(&pointer), Some(&kept.in_value(&expected)), "{line}"),
            }
        }
    }
}

fn terraform_scenario_reads_back_what_it_wrote(store: Store) {
    run(store, "terraform.jsonl", ("User-Agent", "posthog/terraform-provider"));
}

fn mcp_server_scenario_reads_back_what_it_wrote(store: Store) {
    run(store, "mcp.jsonl", ("X-PostHog-Client", "mcp"));
}
