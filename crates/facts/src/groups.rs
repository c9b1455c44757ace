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
            own.insert(key.into(), group);
        }
    }
}
