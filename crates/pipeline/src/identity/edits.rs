//! Edits of persons through the API: delete, split, merge, rename a property. An edit is a batch of
//! its own. A delete and a split have all distinct ids of their persons loaded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::Timestamp;
use model::edit::SplitIds;
use model::json_object::JsonObject;
use model::person::{DistinctNo, Person, PersonNo, person_uuid};

use super::{IdentityCache, Slot};

/// Version gap after a delete, so that a person recreated under the id replaces copies of the old.
const DELETED_VERSIONS: i64 = 100;
/// Version gap for an id that leaves its person.
const SPLIT_VERSIONS: i64 = 101;

impl IdentityCache {
    /// Deletes persons and detaches their distinct ids. Skips persons that no longer exist.
    pub fn delete(&mut self, persons: &[PersonNo]) {
        self.apply_merges();
        let mut floors: HashMap<PersonNo, i64> = HashMap::with_capacity(persons.len());
        for no in persons {
            let Some(gone) = self.persons.remove(no) else { continue };
            floors.insert(*no, gone.row.version + DELETED_VERSIONS);
            self.deleted.push(*no);
        }
        for slot in self.ids.values_mut() {
            let floor = slot.row.person.and_then(|person| floors.get(&person));
            let Some(floor) = floor else { continue };
            slot.row.person = None;
            slot.row.version_floor = slot.row.version_floor.max(*floor);
            slot.dirty = true;
        }
    }

    /// Moves ids to new persons without properties. Does nothing if no id would stay.
    ///
    /// A person's uuid is always derived from one of its ids. If that id leaves, the uuid goes with
    /// it, and the rest gets the uuid of its oldest id: otherwise two persons would share a uuid.
    pub fn split(&mut self, person: PersonNo, leaving: &SplitIds, at: Timestamp) {
        self.apply_merges();
        let mut ids: Vec<(DistinctNo, String)> = self
            .ids
            .values()
            .filter(|slot| slot.row.person == Some(person))
            .map(|slot| (slot.row.no, slot.row.text.clone()))
            .collect();
        ids.sort();
        let named: HashSet<&str> = match leaving {
            SplitIds::AllExcept(main) => HashSet::from([main.as_str()]),
            SplitIds::Only(texts) => texts.iter().map(String::as_str).collect(),
        };
        let leaves = |text: &String| match leaving {
            SplitIds::AllExcept(_) => !named.contains(text.as_str()),
            SplitIds::Only(_) => named.contains(text.as_str()),
        };
        let (leaving, staying): (Vec<_>, Vec<_>) =
            ids.into_iter().map(|(_, text)| text).partition(leaves);
        let (Some(oldest), Some(slot)) = (staying.first(), self.persons.get_mut(&person)) else {
            return;
        };
        let version = slot.row.version + SPLIT_VERSIONS;
        if leaving.iter().any(|text| person_uuid(self.project, text) == slot.row.uuid) {
            let row = slot.change();
            row.uuid = person_uuid(self.project, oldest);
            row.version += 1;
            self.rekeyed.push(person);
        }
        for text in leaving {
            let no = PersonNo(self.next_person);
            self.next_person += 1;
            let row = Person {
                no,
                uuid: person_uuid(self.project, &text),
                properties: JsonObject::default(),
                is_identified: false,
                version,
                created_at: at,
            };
            self.persons.insert(no, Slot::new(Arc::new(row), true));
            if let Some(slot) = self.ids.get_mut(&text) {
                slot.row.person = Some(no);
                slot.row.version += SPLIT_VERSIONS;
                slot.dirty = true;
            }
        }
    }

    /// Merges `other` into `person`, whose properties win. Does nothing if either no longer exists.
    pub fn merge_persons(&mut self, person: PersonNo, other: PersonNo) {
        let exists = |no: &PersonNo| self.persons.contains_key(no);
        if person == other || !exists(&person) || !exists(&other) {
            return;
        }
        let version = self.absorb(person, other);
        self.identified(person);
        if let Some(slot) = self.persons.get_mut(&person) {
            let row = slot.change();
            row.version = row.version.max(version) + 1;
        }
    }

    /// Renames a property on all cached persons; overwrites an existing `to`.
    pub fn rename_property(&mut self, from: &str, to: &str) {
        for slot in self.persons.values_mut() {
            let known = &slot.row.properties;
            let Some(json) = known.get(from) else { continue };
            let renamed = known.changed([], [from]).changed([(to, json.into())], []);
            let row = slot.change();
            row.properties = renamed;
            row.version += 1;
        }
    }

    /// The dense ids of these persons' distinct ids.
    pub fn numbers_of(&self, persons: &[PersonNo]) -> Vec<DistinctNo> {
        let persons: HashSet<PersonNo> = persons.iter().copied().collect();
        let selected = |person: Option<PersonNo>| person.is_some_and(|no| persons.contains(&no));
        let slots = self.ids.values().filter(|slot| selected(slot.row.person));
        let mut numbers: Vec<DistinctNo> = slots.map(|slot| slot.row.no).collect();
        numbers.sort();
        numbers
    }
}
