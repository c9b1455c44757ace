//! An event's properties as sent: names are read, values stay JSON text until somebody asks.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use model::event::RecordError;
use model::json::{Fault, Members};
use serde_json::Value;

use super::layout::Layout;
use super::names::{self, NAMES, Name};

/// A short member, so that room for all of them is made at once; a huge text has longer ones.
const MEMBER_BYTES: usize = 24;
const EXPECTED_MAX: usize = 256;
/// What is added on the way: the address and the place.
const ADDED: usize = 16;

/// Keeps the order and the number literals of the sender. Of a repeated [`Name`] the last counts; of
/// any other name both are here, and whoever reads them all lets the last one count.
#[derive(Debug)]
pub struct Properties<'a> {
    /// None for what was taken out.
    members: Vec<(Key<'a>, Option<Json<'a>>)>,
    /// Where the names stand, counted from one; zero for those that do not.
    known: [u32; NAMES],
    /// The names that are there.
    present: u128,
}

/// A property's name.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    Known(Name),
    Other(Cow<'a, str>),
}

impl Key<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Known(name) => name.text(),
            Self::Other(text) => text,
        }
    }
}

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
    pub(super) fn parse(json: &'a str, layout: &mut Layout) -> Result<Self, RecordError> {
        let mut read = || {
            let mut members = Members::new(json)?;
            let expected = (json.len() / MEMBER_BYTES).min(EXPECTED_MAX) + ADDED;
            let members_read = Vec::with_capacity(expected);
            let mut all = Self { members: members_read, known: [0; NAMES], present: 0 };
            for at in 0.. {
                let Some((key, json)) = layout.next(at, &mut members)? else { break };
                match key {
                    Key::Known(name) => all.set(name, Json::Sent(json)),
                    Key::Other(_) => all.members.push((key, Some(Json::Sent(json)))),
                }
            }
            if members.is_over() { Ok(all) } else { Err(Fault::Malformed) }
        };
        read().map_err(|_| RecordError::Damaged("properties are no object"))
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        self.keys().map(|(key, json)| (key.text(), json))
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = (&Key<'a>, &str)> {
        self.members.iter().filter_map(|(key, json)| Some((key, &**json.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    fn get(&self, name: Name) -> Option<&Json<'a>> {
        let (_, json) = self.members.get(self.place(name)?)?;
        json.as_ref()
    }

    fn place(&self, name: Name) -> Option<usize> {
        (self.known[name.number()] as usize).checked_sub(1)
    }

    pub(super) fn contains(&self, name: Name) -> bool {
        self.present & name.bit() != 0
    }

    /// The set of names that are there.
    pub(crate) fn present(&self) -> u128 {
        self.present
    }

    pub(crate) fn json(&self, name: Name) -> Option<&str> {
        self.get(name).map(Json::deref)
    }

    pub(crate) fn value(&self, name: Name) -> Option<Value> {
        serde_json::from_str(self.json(name)?).ok()
    }

    /// None as well for what is no text.
    pub(crate) fn text(&self, name: Name) -> Option<Cow<'_, str>> {
        let json = self.json(name)?;
        match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(plain) if !plain.contains('\\') => Some(Cow::Borrowed(plain)),
            Some(_) => serde_json::from_str(json).ok().map(Cow::Owned),
            None => None,
        }
    }

    pub(super) fn is_true(&self, name: Name) -> bool {
        self.json(name) == Some("true")
    }

    /// As JavaScript has it: null, false, zero and empty text are not.
    pub(super) fn is_truthy(&self, name: Name) -> bool {
        match self.json(name) {
            None | Some("null" | "false" | "\"\"") => false,
            Some(json) => json.parse::<f64>() != Ok(0.0),
        }
    }

    pub(super) fn remove(&mut self, name: Name) {
        if self.contains(name)
            && let Some(place) = self.place(name)
        {
            self.members[place].1 = None;
            self.present &= !name.bit();
        }
    }

    pub(super) fn set_value(&mut self, name: Name, value: &Value) {
        self.set(name, Json::Made(value.to_string()));
    }

    pub(super) fn set(&mut self, name: Name, json: Json<'a>) {
        self.present |= name.bit();
        match self.place(name) {
            Some(place) => self.members[place].1 = Some(json),
            None => {
                self.members.push((Key::Known(name), Some(json)));
                self.known[name.number()] = self.members.len() as u32;
            }
        }
    }

    /// An upper bound of the text of the whole object.
    pub(super) fn json_bytes(&self) -> usize {
        self.iter().map(|(name, json)| name.len() + json.len() + 4).sum::<usize>() + 2
    }

    /// Names and JSON, with the keys of the event's groups in place of those that were sent.
    pub fn with_groups(&self, groups: &[(u8, &str)]) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
        let mut all = Vec::with_capacity(self.members.len() + groups.len());
        let own = |name: &str| groups.iter().any(|(index, _)| group_name(*index) == Some(name));
        for (name, json) in self.iter() {
            if groups.is_empty() || !own(name) {
                all.push((Cow::Borrowed(name), Cow::Borrowed(json)));
            }
        }
        for (index, key) in groups {
            if let Some(name) = group_name(*index) {
                let json = Value::from(*key).to_string();
                all.push((Cow::Borrowed(name), Cow::Owned(json)));
            }
        }
        all
    }
}

/// The property that holds the key of the event's group of a type.
fn group_name(index: u8) -> Option<&'static str> {
    names::groups().nth(usize::from(index)).map(Name::text)
}
