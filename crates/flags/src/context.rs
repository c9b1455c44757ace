//! Evaluation context: the person and groups that flags are evaluated for.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use model::group::GROUP_TYPES_MAX;
use model::property::Properties;
use model::{CohortId, Timestamp};
use serde_json::{Map, Value};

/// All inputs of an evaluation besides the flags.
pub struct Context<'a> {
    pub now: Timestamp,
    pub distinct_id: &'a str,
    pub device_id: Option<&'a str>,
    pub anon_distinct_id: Option<&'a str>,
    pub person: Subject<'a>,
    /// When the person was created, as the string that filters compare.
    pub created_at: Option<Value>,
    pub cohorts: Membership<'a>,
    pub hash_keys: HashKeys<'a>,
    /// By group type index.
    pub groups: [Option<GroupSubject<'a>>; GROUP_TYPES_MAX as usize],
}

impl<'a> Context<'a> {
    /// A person without stored data.
    pub fn unknown_person(distinct_id: &'a str, now: Timestamp) -> Self {
        Self {
            now,
            distinct_id,
            device_id: None,
            anon_distinct_id: None,
            person: Subject::new(Map::new(), Stored::NotFound),
            created_at: None,
            cohorts: Membership::None,
            hash_keys: HashKeys::None,
            groups: Default::default(),
        }
    }
}

/// Properties of a person or a group: those of the request override stored ones.
pub struct Subject<'a> {
    overrides: Map<String, Value>,
    stored: Stored<'a>,
    /// A property was read while the store was unavailable.
    unavailable: Cell<bool>,
}

#[derive(Clone, Copy)]
pub enum Stored<'a> {
    Known(&'a Map<String, Value>),
    NotFound,
    /// The catalog cannot be read.
    Unavailable,
}

impl<'a> Subject<'a> {
    pub fn new(overrides: Map<String, Value>, stored: Stored<'a>) -> Self {
        Self { overrides, stored, unavailable: Cell::new(false) }
    }

    /// Whether a read failed since the last call.
    pub(crate) fn take_unavailable(&self) -> bool {
        self.unavailable.take()
    }
}

impl Properties for Subject<'_> {
    fn property(&self, key: &str) -> Option<&Value> {
        self.overrides.get(key).or_else(|| match self.stored {
            Stored::Known(stored) => stored.get(key),
            Stored::NotFound => None,
            Stored::Unavailable => {
                self.unavailable.set(true);
                None
            }
        })
    }
}

pub struct GroupSubject<'a> {
    pub key: String,
    pub properties: Subject<'a>,
}

impl<'a> GroupSubject<'a> {
    /// Adds the group's key to its properties, as `$group_key`.
    pub fn new(key: String, mut overrides: Map<String, Value>, stored: Stored<'a>) -> Self {
        overrides.insert("$group_key".into(), Value::String(key.clone()));
        Self { key, properties: Subject::new(overrides, stored) }
    }
}

/// The static cohorts that the person is a member of.
#[derive(Clone, Copy)]
pub enum Membership<'a> {
    Known(&'a HashSet<CohortId>),
    None,
    Unavailable,
}

/// The bucketing identifiers of flags with experience continuity, by flag key.
#[derive(Clone, Copy)]
pub enum HashKeys<'a> {
    Known(&'a HashMap<String, String>),
    None,
    Unavailable,
}
