//! The groups of a project and their properties. Like persons, they lie in a mapped checkpoint, with
//! later changes in memory over it.

use std::hash::BuildHasher as _;
use std::io;
use std::sync::OnceLock;

use hashbrown::{DefaultHashBuilder, HashTable};
use model::Timestamp;
use serde_json::{Map, Value as Json};
use uuid::Uuid;
use warehouse::GROUP_TYPES;

use crate::person_index::{Cursor, FileWriter, LayeredBytes, PersonFacts, PropertyStore, Section};

/// A group as it is stored.
#[derive(Clone, Debug)]
pub struct GroupFacts {
    pub created_at: Timestamp,
    pub properties: Map<String, Json>,
}

#[derive(Clone, Debug, Default)]
pub struct Groups {
    by_type: [GroupsOfType; GROUP_TYPES],
}

/// The groups of one type, numbered in the order in which they were set.
#[derive(Clone, Debug, Default)]
struct GroupsOfType {
    len: usize,
    keys: LayeredBytes,
    entries: PropertyStore,
    /// Numbers by key. Built from the keys when the first group is looked up.
    numbers: OnceLock<Numbers>,
}

#[derive(Clone, Debug, Default)]
struct Numbers {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// One group; reads what is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Group<'g> {
    groups: &'g GroupsOfType,
    no: u32,
}

impl<'g> Group<'g> {
    pub fn key(&self) -> &'g str {
        self.groups.key(self.no)
    }

    pub fn created_at(&self) -> Timestamp {
        let facts = self.groups.entries.facts(self.no as usize);
        facts.map_or(Timestamp::from_micros(0), |facts| PersonFacts::decode(facts).created_at)
    }

    pub fn property(&self, name: &str) -> Option<Json> {
        let parse = |json: &str| serde_json::from_str(json).ok();
        self.groups.entries.with_property(self.no as usize, name, parse)?
    }

    pub fn properties(&self) -> Map<String, Json> {
        let mut properties = None;
        self.groups.entries.texts(&[self.no], |json| {
            properties = json.and_then(|json| serde_json::from_str(json).ok());
        });
        properties.unwrap_or_default()
    }
}

impl Groups {
    pub fn get(&self, index: usize, key: &str) -> Option<Group<'_>> {
        let groups = self.by_type.get(index)?;
        let no = groups.numbers().find(groups, key)?;
        Some(Group { groups, no })
    }

    /// All groups of one type, in no order.
    pub fn of_type(&self, index: usize) -> impl Iterator<Item = Group<'_>> {
        let groups = self.by_type.get(index);
        groups
            .into_iter()
            .flat_map(|groups| (0..groups.len as u32).map(move |no| Group { groups, no }))
    }

    pub fn set(&mut self, index: usize, key: &str, group: &GroupFacts) {
        if let Some(groups) = self.by_type.get_mut(index) {
            groups.set(key, group);
        }
    }

    /// Approximate memory. A checkpoint's files are not in it.
    pub fn bytes(&self) -> usize {
        self.by_type.iter().map(GroupsOfType::bytes).sum()
    }

    /// Groups that differ from the checkpoint.
    pub fn changes(&self) -> usize {
        self.by_type.iter().map(|groups| groups.entries.changes()).sum()
    }

    pub fn len(&self) -> usize {
        self.by_type.iter().map(|groups| groups.len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes all groups; returns what [`Groups::read`] needs.
    pub(crate) fn write(&self, out: &mut FileWriter) -> io::Result<Vec<GroupSection>> {
        let write = |groups: &GroupsOfType| {
            let keys = groups.keys.write(groups.len, out)?;
            let entries = groups.entries.write(groups.len, out)?;
            let code_book_start = out.position();
            groups.entries.write_code_book(out)?;
            Ok(GroupSection { keys, entries, code_book: (code_book_start, out.position()) })
        };
        self.by_type.iter().map(write).collect()
    }

    /// The groups of a mapped file, without changes.
    pub(crate) fn read(file: &bytes::Bytes, footer: &mut Cursor<'_>) -> Option<Self> {
        let mut groups = Self::default();
        for of_type in &mut groups.by_type {
            let GroupSection { keys, entries, code_book } = GroupSection::read(footer)?;
            let code_book =
                usize::try_from(code_book.0).ok()?..usize::try_from(code_book.1).ok()?;
            of_type.keys = LayeredBytes::read(file, &keys)?;
            of_type.len = of_type.keys.base_len();
            let entries = LayeredBytes::read(file, &entries)?;
            of_type.entries = PropertyStore::read(entries, &mut Cursor(file.get(code_book)?))?;
        }
        Some(groups)
    }
}

/// Where a file holds the groups of one type.
pub(crate) struct GroupSection {
    keys: Section,
    entries: Section,
    code_book: (u64, u64),
}

impl GroupSection {
    pub fn write(&self, out: &mut FileWriter) -> io::Result<()> {
        self.keys.write(out)?;
        self.entries.write(out)?;
        let (start, end) = self.code_book;
        [start, end].iter().try_for_each(|at| io::Write::write_all(out, &at.to_le_bytes()))
    }

    fn read(footer: &mut Cursor<'_>) -> Option<Self> {
        let (keys, entries) = (Section::read(footer)?, Section::read(footer)?);
        Some(Self { keys, entries, code_book: (footer.u64()?, footer.u64()?) })
    }
}

impl GroupsOfType {
    fn key(&self, no: u32) -> &str {
        std::str::from_utf8(self.keys.get(no as usize)).unwrap_or_default()
    }

    fn numbers(&self) -> &Numbers {
        self.numbers.get_or_init(|| {
            let mut numbers = Numbers::default();
            (0..self.len as u32).for_each(|no| numbers.insert(self, no));
            numbers
        })
    }

    fn set(&mut self, key: &str, group: &GroupFacts) {
        let known = self.numbers().find(self, key);
        let no = known.unwrap_or(self.len as u32);
        if known.is_none() {
            self.keys.set(no as usize, key.as_bytes());
            self.len += 1;
            let mut numbers = self.numbers.take().unwrap_or_default();
            numbers.insert(self, no);
            self.numbers = OnceLock::from(numbers);
        }
        let facts =
            PersonFacts { uuid: Uuid::nil(), created_at: group.created_at, is_identified: false };
        let properties = serde_json::to_string(&group.properties).unwrap_or_default();
        self.entries.set(no as usize, facts.encode(), &properties);
    }

    fn bytes(&self) -> usize {
        let numbers = self.numbers.get().map_or(0, |numbers| numbers.table.allocation_size());
        self.keys.bytes() + self.entries.bytes() + numbers
    }
}

impl Numbers {
    fn find(&self, groups: &GroupsOfType, key: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.table.find(hash, |no| groups.key(*no) == key).copied()
    }

    fn insert(&mut self, groups: &GroupsOfType, no: u32) {
        let hash = |no: &u32| self.hasher.hash_one(groups.key(*no));
        self.table.insert_unique(hash(&no), no, hash);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(size: i64) -> GroupFacts {
        let properties = json!({ "size": size, "plan": "team" });
        GroupFacts {
            created_at: Timestamp::from_micros(size),
            properties: properties.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn groups_return_what_was_set_last_and_clones_are_isolated() {
        let mut groups = Groups::default();
        for no in 0..3_000 {
            groups.set(no % 2, &format!("group {no}"), &facts(no as i64));
        }
        let before = groups.clone();
        groups.set(1, "group 7", &facts(-1));
        groups.set(1, "", &facts(2));
        let size = |groups: &Groups, index, key: &str| groups.get(index, key)?.property("size");
        assert_eq!(size(&groups, 1, "group 7"), Some(json!(-1)));
        assert_eq!(size(&before, 1, "group 7"), Some(json!(7)));
        assert_eq!((size(&groups, 0, "group 7"), size(&groups, 9, "group 8")), (None, None));
        assert_eq!((groups.len(), before.len()), (3_001, 3_000));
        let group = groups.get(1, "").unwrap();
        assert_eq!((group.key(), group.created_at().as_micros()), ("", 2));
        assert_eq!(group.properties(), facts(2).properties);
        assert_eq!(groups.of_type(1).count(), 1_501);
        assert!(groups.bytes() > 3_000 * 10);
    }
}
