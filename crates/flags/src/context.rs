//! For whom flags are evaluated.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use model::group::GROUP_TYPES_MAX;
use model::property::Properties;
use model::{CohortId, Timestamp};
use serde_json::{Map, Value};

/// Everything an evaluation may look at.
pub struct Context<'a> {
    pub now: Timestamp,
    pub distinct_id: &'a str,
    pub device_id: Option<&'a str>,
    pub anon_distinct_id: Option<&'a str>,
    pub person: Subject<'a>,
    /// Of the person, as the text a filter compares.
    pub created_at: Option<Value>,
    pub cohorts: Membership<'a>,
    pub hash_keys: HashKeys<'a>,
    /// By the index of their type.
    pub groups: [Option<GroupSubject<'a>>; GROUP_TYPES_MAX as usize],
}

impl<'a> Context<'a> {
    /// Somebody of whom only the id is known.
    pub fn stranger(distinct_id: &'a str, now: Timestamp) -> Self {
        Self {
            now,
            distinct_id,
            device_id: None,
            anon_distinct_id: None,
            person: Subject::new(Map::new(), Stored::Nobody),
            created_at: None,
            cohorts: Membership::None,
            hash_keys: HashKeys::None,
            groups: Default::default(),
        }
    }
}

/// Properties of a person or a group: what the request says over what is stored.
pub struct Subject<'a> {
    overrides: Map<String, Value>,
    stored: Stored<'a>,
    /// Somebody asked for what cannot be read now.
    missed: Cell<bool>,
}

#[derive(Clone, Copy)]
pub enum Stored<'a> {
    Known(&'a Map<String, Value>),
    Nobody,
    /// The store cannot answer now.
    Unavailable,
}

impl<'a> Subject<'a> {
    pub fn new(overrides: Map<String, Value>, stored: Stored<'a>) -> Self {
        Self { overrides, stored, missed: Cell::new(false) }
    }

    /// Whether something was missed since the last time of asking.
    pub(crate) fn take_missed(&self) -> bool {
        self.missed.take()
    }
}

impl Properties for Subject<'_> {
    fn property(&self, key: &str) -> Option<&Value> {
        self.overrides.get(key).or_else(|| match self.stored {
            Stored::Known(stored) => stored.get(key),
            Stored::Nobody => None,
            Stored::Unavailable => {
                self.missed.set(true);
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
    /// A group's key is always among its properties.
    pub fn new(key: String, mut overrides: Map<String, Value>, stored: Stored<'a>) -> Self {
        overrides.insert("$group_key".into(), Value::String(key.clone()));
        Self { key, properties: Subject::new(overrides, stored) }
    }
}

/// The static cohorts somebody is listed in.
#[derive(Clone, Copy)]
pub enum Membership<'a> {
    Known(&'a HashSet<CohortId>),
    None,
    Unavailable,
}

/// Which identifier buckets somebody for flags that keep their experience, by flag key.
#[derive(Clone, Copy)]
pub enum HashKeys<'a> {
    Known(&'a HashMap<String, String>),
    None,
    Unavailable,
}
