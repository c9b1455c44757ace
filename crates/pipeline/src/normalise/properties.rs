//! An event's properties as sent: names are read, values stay JSON text until somebody asks.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use ahash::RandomState;
use indexmap::IndexMap;
use model::event::RecordError;
use model::group::GROUP_TYPES_MAX;
use model::json::{Fault, Members};
use serde_json::Value;

/// A short member, so that room for all of them is made at once; a huge text has longer ones.
const MEMBER_BYTES: usize = 24;
const EXPECTED_MAX: usize = 256;
/// What is added on the way: the address and the place.
const ADDED: usize = 16;

pub(crate) const GROUP_NAMES: [&str; GROUP_TYPES_MAX as usize] =
    ["$group_0", "$group_1", "$group_2", "$group_3", "$group_4"];

/// Keeps the order and the number literals of the sender; of a repeated name the last counts.
#[derive(Debug, Default)]
pub struct Properties<'a>(IndexMap<Cow<'a, str>, Json<'a>, RandomState>);

/// A value as JSON text: of the record, made here, or what many events have.
#[derive(Clone, Debug)]
pub enum Json<'a> {
    Sent(&'a str),
    Made(String),
    Shared(Arc<str>),
}

impl Deref for Json<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Sent(json) => json,
            Self::Made(json) => json,
            Self::Shared(json) => json,
        }
    }
}

impl<'a> Properties<'a> {
    pub(super) fn parse(json: &'a str) -> Result<Self, RecordError> {
        let read = || {
            let mut members = Members::new(json)?;
            let expected = (json.len() / MEMBER_BYTES).min(EXPECTED_MAX) + ADDED;
            let mut all = IndexMap::with_capacity_and_hasher(expected, RandomState::default());
            for member in &mut members {
                let (name, json) = member?;
                all.insert(name, Json::Sent(json));
            }
            if members.is_over() { Ok(Self(all)) } else { Err(Fault::Malformed) }
        };
        read().map_err(|_| RecordError::Damaged("properties are no object"))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, json)| (name.as_ref(), &**json))
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn json(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(Json::deref)
    }

    /// The value as it came, without a copy unless it was made here.
    pub(super) fn shared(&self, name: &str) -> Option<Json<'a>> {
        self.0.get(name).cloned()
    }

    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.json(name)?).ok()
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.json(name)?).ok()
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.json(name) == Some("true")
    }

    /// As JavaScript has it: null, false, zero and empty text are not.
    pub(super) fn is_truthy(&self, name: &str) -> bool {
        match self.json(name) {
            None | Some("null" | "false" | "\"\"") => false,
            Some(json) => json.parse::<f64>() != Ok(0.0),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.shift_remove(name);
    }

    pub(super) fn set_value(&mut self, name: &'static str, value: &Value) {
        self.set(name, Json::Made(value.to_string()));
    }

    pub(super) fn set(&mut self, name: &'static str, json: Json<'a>) {
        self.0.insert(Cow::Borrowed(name), json);
    }

    /// An upper bound of the text that [`Self::to_json`] writes.
    pub(super) fn json_bytes(&self) -> usize {
        self.0.iter().map(|(name, json)| name.len() + json.len() + 4).sum::<usize>() + 2
    }

    /// The whole object, with the keys of the event's groups in place of those that were sent.
    pub fn to_json(&self, groups: &[(u8, &str)]) -> String {
        let own = |name: &str| groups.iter().any(|(index, _)| group_name(*index) == name);
        let mut text = String::with_capacity(self.json_bytes() + 32 * groups.len());
        let mut member = |name: &str, json: &str| {
            text.push(if text.is_empty() { '{' } else { ',' });
            push_quoted(&mut text, name);
            text.push(':');
            text.push_str(json);
        };
        for (name, json) in self.iter() {
            if groups.is_empty() || !own(name) {
                member(name, json);
            }
        }
        for (index, key) in groups {
            member(group_name(*index), &Value::from(*key).to_string());
        }
        if text.is_empty() {
            text.push('{');
        }
        text.push('}');
        text
    }
}

/// The property that holds the key of the event's group of a type.
fn group_name(index: u8) -> &'static str {
    GROUP_NAMES.get(usize::from(index)).copied().unwrap_or_default()
}

fn push_quoted(out: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < 0x20 || byte == b'"' || byte == b'\\') {
        out.push_str(&Value::from(text).to_string());
    } else {
        out.extend(["\"", text, "\""]);
    }
}
