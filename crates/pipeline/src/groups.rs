//! Group types and groups, updated in journal order.

use std::collections::HashMap;

use model::Timestamp;
use model::group::{GROUP_TYPES_MAX, Group};

use crate::normalize::GroupIdentify;

/// Write-back cache of the groups of one project that a batch touches.
#[derive(Debug, Default)]
pub struct GroupCache {
    types: Vec<(String, u8)>,
    new_types: Vec<(String, u8)>,
    groups: HashMap<(u8, String), (Group, bool)>,
}

impl GroupCache {
    pub fn new(types: Vec<(String, u8)>) -> Self {
        Self { types, ..Self::default() }
    }

    /// The index of a type; assigns a free one to a new type. `None` for a sixth type.
    pub fn index(&mut self, kind: &str) -> Option<u8> {
        if let Some(index) = self.known_index(kind) {
            return Some(index);
        }
        let taken = |index: &u8| self.types.iter().any(|(_, known)| known == index);
        let index = (0..GROUP_TYPES_MAX).find(|index| !taken(index))?;
        self.types.push((kind.to_owned(), index));
        self.new_types.push((kind.to_owned(), index));
        Some(index)
    }

    pub fn knows(&self, index: u8, key: &str) -> bool {
        self.groups.contains_key(&(index, key.to_owned()))
    }

    pub fn load(&mut self, group: Group) {
        self.groups.insert((group.index, group.key.clone()), (group, false));
    }

    /// Creates or updates a group; an update without changes is not written.
    pub fn identify(
        &mut self,
        index: u8,
        identify: &GroupIdentify,
        time: Timestamp,
        now: Timestamp,
    ) {
        let key = (index, identify.key.clone());
        let Some((group, dirty)) = self.groups.get_mut(&key) else {
            let group = Group {
                index,
                key: identify.key.clone(),
                properties: identify.set.clone(),
                version: 1,
                created_at: now.min(time),
            };
            self.groups.insert(key, (group, true));
            return;
        };
        let changed =
            identify.set.iter().any(|(name, value)| group.properties.get(name) != Some(value));
        if changed {
            group.properties.extend(identify.set.clone());
            group.version += 1;
            group.created_at = group.created_at.min(time);
            *dirty = true;
        }
    }

    /// Applies an edit through the API; creates the group if it does not exist.
    pub fn change(&mut self, index: u8, identify: &GroupIdentify, unset: &[String], at: Timestamp) {
        self.identify(index, identify, at, at);
        if let Some((group, dirty)) = self.groups.get_mut(&(index, identify.key.clone())) {
            let removed = unset.iter().filter(|name| group.properties.remove(*name).is_some());
            if removed.count() > 0 {
                group.version += 1;
                *dirty = true;
            }
        }
    }

    /// The index of an existing type.
    pub fn known_index(&self, kind: &str) -> Option<u8> {
        self.types.iter().find(|(name, _)| name == kind).map(|(_, index)| *index)
    }

    /// New types, and created or changed groups.
    pub fn into_changes(self) -> (Vec<(String, u8)>, Vec<Group>) {
        let mut groups: Vec<Group> =
            self.groups.into_values().filter(|(_, dirty)| *dirty).map(|(group, _)| group).collect();
        groups.sort_by(|a, b| (a.index, &a.key).cmp(&(b.index, &b.key)));
        (self.new_types, groups)
    }
}
