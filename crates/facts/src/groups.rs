//! Groups of a project.

use std::collections::HashMap;

use model::Timestamp;
use serde_json::{Map, Value as Json};
use warehouse::GROUP_TYPES;

#[derive(Clone, Debug)]
pub struct GroupFacts {
    pub created_at: Timestamp,
    pub properties: Map<String, Json>,
}

#[derive(Clone, Debug, Default)]
pub struct Groups {
    by_type: [HashMap<Box<str>, GroupFacts>; GROUP_TYPES],
    bytes: usize,
}

/// Of a group beside its key and properties.
const GROUP_BYTES: usize = size_of::<(Box<str>, GroupFacts)>() * 2;

/// Of memory, about.
fn bytes_of(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => size_of::<Json>(),
        Json::String(text) => size_of::<Json>() + text.capacity(),
        Json::Array(all) => size_of::<Json>() + all.iter().map(bytes_of).sum::<usize>(),
        Json::Object(all) => size_of::<Json>() + of_map(all),
    }
}

/// Of a member beside its name and value.
const MEMBER_BYTES: usize = 64;

fn of_map(map: &Map<String, Json>) -> usize {
    map.iter().map(|(name, value)| MEMBER_BYTES + name.capacity() + bytes_of(value)).sum()
}

fn of_group(key: &str, group: &GroupFacts) -> usize {
    GROUP_BYTES + key.len() + of_map(&group.properties)
}

impl Groups {
    pub fn get(&self, index: usize, key: &str) -> Option<&GroupFacts> {
        self.by_type.get(index)?.get(key)
    }

    /// All groups of one type, in no order.
    pub fn of_type(&self, index: usize) -> impl Iterator<Item = (&str, &GroupFacts)> {
        let own = self.by_type.get(index).into_iter().flatten();
        own.map(|(key, group)| (&**key, group))
    }

    pub fn set(&mut self, index: usize, key: &str, group: GroupFacts) {
        if let Some(own) = self.by_type.get_mut(index) {
            self.bytes += of_group(key, &group);
            if let Some(before) = own.insert(key.into(), group) {
                self.bytes = self.bytes.saturating_sub(of_group(key, &before));
            }
        }
    }

    /// Of memory, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
