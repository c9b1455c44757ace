//! The groups of a project and their properties.

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

/// Memory of a group without its key and properties.
const GROUP_BYTES: usize = size_of::<(Box<str>, GroupFacts)>() * 2;

/// Approximate memory of a JSON value.
fn bytes_of(json: &Json) -> usize {
    match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => size_of::<Json>(),
        Json::String(text) => size_of::<Json>() + text.capacity(),
        Json::Array(all) => size_of::<Json>() + all.iter().map(bytes_of).sum::<usize>(),
        Json::Object(all) => size_of::<Json>() + map_bytes(all),
    }
}

/// Overhead of an object member.
const MEMBER_BYTES: usize = 64;

fn map_bytes(map: &Map<String, Json>) -> usize {
    map.iter().map(|(name, value)| MEMBER_BYTES + name.capacity() + bytes_of(value)).sum()
}

fn group_bytes(key: &str, group: &GroupFacts) -> usize {
    GROUP_BYTES + key.len() + map_bytes(&group.properties)
}

impl Groups {
    pub fn get(&self, index: usize, key: &str) -> Option<&GroupFacts> {
        self.by_type.get(index)?.get(key)
    }

    /// All groups of one type, in no order.
    pub fn of_type(&self, index: usize) -> impl Iterator<Item = (&str, &GroupFacts)> {
        let groups = self.by_type.get(index).into_iter().flatten();
        groups.map(|(key, group)| (&**key, group))
    }

    /// All groups, with the index of their type.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &str, &GroupFacts)> {
        (0..GROUP_TYPES).flat_map(|index| {
            self.of_type(index).map(move |(key, group)| (index as u8, key, group))
        })
    }

    pub fn set(&mut self, index: usize, key: &str, group: GroupFacts) {
        if let Some(groups) = self.by_type.get_mut(index) {
            self.bytes += group_bytes(key, &group);
            if let Some(before) = groups.insert(key.into(), group) {
                self.bytes = self.bytes.saturating_sub(group_bytes(key, &before));
            }
        }
    }

    /// Approximate memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
