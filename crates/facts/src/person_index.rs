//! Person index: resolves `distinct_no` to a person, and stores persons and their properties in
//! memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{ABSENT, Column, Interner, with_json_value};

use crate::chunked_bytes::ChunkedBytes;
use crate::property_store::PropertyStore;

/// Approximate limit of all cached property columns.
const COLUMNS_BYTES_MAX: usize = 48 << 20;
/// Overhead of a cached column and its name.
const SLOT_BYTES: usize = 256;
/// In `person_nos`, a distinct id without a person.
const NO_PERSON: u32 = u32::MAX;
/// A cached column is evicted when its dictionary has more than twice as many values as there are
/// persons, plus this: most of them are then unused.
const UNUSED_VALUES_MAX: usize = 512;
/// Prefix of a stored distinct id, to tell an empty id from an absent one.
const PRESENT: u8 = b'=';

/// A person without its properties.
#[derive(Clone, Copy, Debug)]
pub struct PersonFacts {
    pub uuid: Uuid,
    pub created_at: Timestamp,
    pub is_identified: bool,
}

/// All persons and distinct ids of a project. An *actor* is what distinct counts count: a person, by
/// its `person_no`, or a distinct id without a person, numbered after all persons.
#[derive(Debug)]
pub struct PersonIndex {
    project: ProjectId,
    /// `person_no` by `distinct_no`.
    person_nos: Vec<u32>,
    /// Distinct ids by `distinct_no`.
    distinct_ids: ChunkedBytes,
    persons: Vec<Option<PersonFacts>>,
    properties: PropertyStore,
    columns: Mutex<HashMap<String, Slot>>,
}

/// One thread builds a column while others that need it wait; columns do not block each other.
type Slot = Arc<Mutex<Option<CachedColumn>>>;

/// A property of all persons, dictionary-coded by `person_no`.
#[derive(Clone, Debug)]
struct CachedColumn {
    codes: Vec<u32>,
    interner: Interner,
    /// The column that readers share; none after a change.
    snapshot: Option<Arc<Column>>,
}

impl Clone for PersonIndex {
    fn clone(&self) -> Self {
        let Self { project, person_nos, distinct_ids, persons, properties, columns: _ } = self;
        let (person_nos, distinct_ids, persons) =
            (person_nos.clone(), distinct_ids.clone(), persons.clone());
        let properties = properties.clone();
        // Building a column takes long and the caller may hold a lock: skip columns in progress.
        let copy = |(name, slot): (&String, &Slot)| {
            let cached = slot.try_lock().ok()?.clone()?;
            Some((name.clone(), Arc::new(Mutex::new(Some(cached)))))
        };
        let columns = Mutex::new(self.lock_columns().iter().filter_map(copy).collect());
        Self { project: *project, person_nos, distinct_ids, persons, properties, columns }
    }
}

impl PersonIndex {
    pub fn new(project: ProjectId) -> Self {
        Self {
            project,
            person_nos: Vec::new(),
            distinct_ids: ChunkedBytes::default(),
            persons: Vec::new(),
            properties: PropertyStore::default(),
            columns: Mutex::default(),
        }
    }

    /// The actor of a distinct id; always less than [`PersonIndex::actors_max`].
    pub fn actor(&self, distinct_no: u32) -> u32 {
        match self.person_nos.get(distinct_no as usize) {
            Some(&NO_PERSON) => self.persons.len() as u32 + distinct_no,
            Some(&person) => person,
            // Unknown ids share one actor.
            None => (self.persons.len() + self.person_nos.len()) as u32,
        }
    }

    /// Approximate memory.
    pub fn bytes(&self) -> usize {
        let columns: Vec<Slot> = self.lock_columns().values().cloned().collect();
        let columns = columns.iter().map(|slot| match slot.try_lock() {
            Ok(cached) => SLOT_BYTES + cached.as_ref().map_or(0, CachedColumn::bytes),
            Err(_) => SLOT_BYTES,
        });
        let persons = self.persons.capacity() * size_of::<Option<PersonFacts>>();
        let person_nos = self.person_nos.capacity() * size_of::<u32>();
        persons
            + person_nos
            + self.distinct_ids.bytes()
            + self.properties.bytes()
            + columns.sum::<usize>()
    }

    /// Exclusive upper bound of actors, for arrays indexed by actor.
    pub fn actors_max(&self) -> usize {
        self.persons.len() + self.person_nos.len() + 1
    }

    /// None for an actor that is not a person.
    pub fn person(&self, actor: u32) -> Option<&PersonFacts> {
        self.persons.get(actor as usize)?.as_ref()
    }

    /// The person's UUID, or the one derived from the distinct id.
    pub fn uuid(&self, actor: u32) -> Uuid {
        if let Some(person) = self.person(actor) {
            return person.uuid;
        }
        let id = (actor as usize).checked_sub(self.persons.len());
        let text = id.and_then(|id| self.text(id));
        person_uuid(self.project, text.unwrap_or_default())
    }

    /// All persons by `person_no`.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &PersonFacts)> {
        let all = self.persons.iter().enumerate();
        all.filter_map(|(no, person)| Some((no as u32, person.as_ref()?)))
    }

    /// All distinct ids: `distinct_no`, string and actor.
    pub fn distinct_ids(&self) -> impl Iterator<Item = (u32, &str, u32)> {
        let all = 0..self.person_nos.len() as u32;
        all.filter_map(|no| Some((no, self.text(no as usize)?, self.actor(no))))
    }

    fn text(&self, distinct_no: usize) -> Option<&str> {
        let text = self.distinct_ids.get(distinct_no).strip_prefix(&[PRESENT])?;
        std::str::from_utf8(text).ok()
    }

    /// `distinct_no`s of the actors that `includes` accepts.
    pub fn distinct_nos_of(&self, includes: impl Fn(u32) -> bool) -> warehouse::DenseIdSet {
        (0..self.person_nos.len() as u32).filter(|no| includes(self.actor(*no))).collect()
    }

    /// Calls `each` with the properties of every actor as JSON; none for actors that are not persons.
    pub fn properties(&self, actors: &[u32], each: impl FnMut(Option<&str>)) {
        self.properties.texts(actors, each);
    }

    /// A property of all persons, by `person_no`. Cached within [`COLUMNS_BYTES_MAX`].
    pub fn column(&self, name: &str) -> Arc<Column> {
        let slot = self.lock_columns().entry(name.to_owned()).or_default().clone();
        let (snapshot, column_bytes) = {
            let mut cached = lock(&slot);
            let cached = cached.get_or_insert_with(|| self.read_column(name));
            (cached.snapshot(), cached.bytes())
        };
        let mut columns = self.lock_columns();
        // A column that is being built is checked by its builder afterwards.
        let bytes = |slot: &Slot| match slot.try_lock() {
            Ok(cached) => SLOT_BYTES + cached.as_ref().map_or(0, CachedColumn::bytes),
            Err(_) => SLOT_BYTES,
        };
        if columns.values().map(bytes).sum::<usize>() > COLUMNS_BYTES_MAX {
            columns.retain(|other, _| other == name && column_bytes <= COLUMNS_BYTES_MAX);
        }
        snapshot
    }

    fn read_column(&self, name: &str) -> CachedColumn {
        let mut interner = Interner::default();
        let codes = self.properties.column(name, self.persons.len(), &mut interner);
        CachedColumn { codes, interner, snapshot: None }
    }

    fn lock_columns(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        lock(&self.columns)
    }

    /// `properties` is a JSON object.
    pub fn set_person(&mut self, no: PersonNo, facts: PersonFacts, properties: &str) {
        let at = no.0 as usize;
        if self.persons.len() <= at {
            self.persons.resize(at + 1, None);
        }
        self.persons[at] = Some(facts);
        self.properties.set(at, properties);
        self.columns.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn set_distinct_id(&mut self, no: DistinctNo, text: &str, person: Option<PersonNo>) {
        let at = no.0 as usize;
        if self.person_nos.len() <= at {
            self.person_nos.resize(at + 1, NO_PERSON);
        }
        self.person_nos[at] = person.map_or(NO_PERSON, |person| person.0);
        if self.text(at) != Some(text) {
            self.distinct_ids.set(at, &[&[PRESENT], text.as_bytes()].concat());
        }
    }

    /// Applies the identity changes of an ingested batch. Idempotent.
    pub fn apply(&mut self, changes: &IdentityChanges) {
        if !changes.merges.is_empty() {
            let mut ends: HashMap<u32, u32> = HashMap::with_capacity(changes.merges.len());
            // In reverse order, the target of a merge already has its final person.
            for (from, to) in changes.merges.iter().rev() {
                let end = ends.get(&to.0).copied().unwrap_or(to.0);
                ends.insert(from.0, end);
            }
            for owner in &mut self.person_nos {
                if let Some(to) = ends.get(owner) {
                    *owner = *to;
                }
            }
        }
        let moved = changes.merges.iter().map(|(gone, _)| gone);
        for gone in moved.chain(&changes.deleted) {
            if let Some(person) = self.persons.get_mut(gone.0 as usize) {
                *person = None;
                self.properties.remove(gone.0 as usize);
            }
        }
        let mut columns = std::mem::take(&mut *self.lock_columns());
        for person in &changes.persons {
            let Person { no, uuid, created_at, is_identified, .. } = **person;
            let facts = PersonFacts { uuid, created_at, is_identified };
            self.set_person(no, facts, person.properties.text());
        }
        for DistinctId { no, text, person, .. } in &changes.ids {
            self.set_distinct_id(*no, text, *person);
        }
        let gone =
            changes.merges.iter().map(|(gone, _)| *gone).chain(changes.deleted.iter().copied());
        let gone: Vec<PersonNo> = gone.collect();
        columns.retain(|name, slot| {
            let mut cached = lock(slot);
            let Some(cached) = cached.as_mut() else { return false };
            gone.iter().for_each(|no| cached.set(*no, None));
            changes
                .persons
                .iter()
                .for_each(|person| cached.set(person.no, person.properties.get(name)));
            // Evict columns whose dictionary is mostly unused values.
            cached.interner.dictionary.len() <= 2 * self.persons.len() + UNUSED_VALUES_MAX
        });
        *self.lock_columns() = columns;
    }
}

fn lock<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CachedColumn {
    fn set(&mut self, no: PersonNo, json: Option<&str>) {
        let at = no.0 as usize;
        if self.codes.len() <= at {
            self.codes.resize(at + 1, ABSENT);
        }
        self.snapshot = None;
        self.codes[at] = ABSENT;
        if let Some(json) = json {
            let code = with_json_value(json, |value| self.interner.intern(value));
            self.codes[at] = code.unwrap_or(ABSENT);
        }
    }

    fn snapshot(&mut self) -> Arc<Column> {
        let column = || {
            let dictionary = Arc::new(self.interner.dictionary.clone());
            Arc::new(Column { codes: self.codes.clone(), dictionary })
        };
        self.snapshot.get_or_insert_with(column).clone()
    }

    /// Includes the shared snapshot and the interner's hash table.
    fn bytes(&self) -> usize {
        const TABLE: usize = 24;
        let dictionary = &self.interner.dictionary;
        2 * (self.codes.len() * 4 + dictionary.memory_bytes()) + dictionary.len() * TABLE
    }
}

#[cfg(test)]
mod tests {
    use model::json_object::JsonObject;
    use serde_json::json;

    use super::*;

    fn person(no: u32, plan: &str) -> Person<JsonObject> {
        let properties = json!({ "plan": plan, "email": format!("user{no}@example.com"),
            "$initial_browser": "Firefox", "$initial_os": "Linux", "no": no });
        Person {
            no: PersonNo(no),
            uuid: Uuid::from_u128(no.into()),
            properties: JsonObject::from(properties.as_object().unwrap()),
            is_identified: true,
            version: 0,
            created_at: Timestamp::from_micros(no.into()),
        }
    }

    fn changes(persons: impl Iterator<Item = Person<JsonObject>>) -> IdentityChanges {
        IdentityChanges { persons: persons.map(Arc::new).collect(), ..IdentityChanges::default() }
    }

    fn values(persons: &PersonIndex, name: &str) -> Vec<Option<String>> {
        let column = persons.column(name);
        let all = 0..column.codes.len();
        all.map(|row| column.value(row).map(|value| value.to_json())).collect()
    }

    #[test]
    fn person_properties_round_trip() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..2_000).map(|no| person(no, "free"))));
        let mut seen = Vec::new();
        persons.properties(&[7, 1_999, 2_000], |text| seen.push(text.map(str::to_owned)));
        let text = |no| Some(person(no, "free").properties.text().to_owned());
        assert_eq!(seen, [text(7), text(1_999), None]);
    }

    #[test]
    fn chained_merges_resolve_to_the_last_person() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..5).map(|no| person(no, "free"))));
        (0..5).for_each(|no| persons.set_distinct_id(DistinctNo(no), "id", Some(PersonNo(no))));
        let moves =
            [(0, 1), (3, 4), (1, 2), (2, 4)].map(|(from, to)| (PersonNo(from), PersonNo(to)));
        persons.apply(&IdentityChanges { merges: moves.to_vec(), ..IdentityChanges::default() });
        assert_eq!((0..5).map(|no| persons.actor(no)).collect::<Vec<_>>(), [4; 5]);
    }

    #[test]
    fn memory_estimate_follows_persons_and_cached_columns() {
        let mut persons = PersonIndex::new(ProjectId(1));
        let empty = persons.bytes();
        persons.apply(&changes((0..2_000).map(|no| person(no, "free"))));
        let stored = persons.bytes();
        assert!(stored > empty + 2_000 * 50, "{stored}");
        persons.column("email");
        assert!(persons.bytes() > stored + 2_000 * 20, "{}", persons.bytes());
        persons.lock_columns().clear();
        assert_eq!(persons.bytes(), stored);
    }

    #[test]
    fn columns_build_independently_and_clones_skip_columns_in_progress() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..10).map(|no| person(no, "free"))));
        assert_eq!(values(&persons, "plan").len(), 10);
        let read = persons.lock_columns().entry("email".into()).or_default().clone();
        let reading = lock(&read);
        assert_eq!(values(&persons, "no")[7].as_deref(), Some("7"));
        let mut cached: Vec<String> = persons.clone().lock_columns().keys().cloned().collect();
        cached.sort_unstable();
        assert_eq!(cached, ["no", "plan"]);
        drop(reading);
        assert_eq!(values(&persons, "email")[1].as_deref(), Some("\"user1@example.com\""));
    }

    #[test]
    fn cached_columns_follow_identity_changes() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..600).map(|no| person(no, "free"))));
        assert!(values(&persons, "plan").iter().all(|plan| plan.as_deref() == Some("\"free\"")));
        let before = persons.clone();
        persons.apply(&IdentityChanges {
            merges: vec![(PersonNo(3), PersonNo(4))],
            deleted: vec![PersonNo(5)],
            ..changes([person(4, "team"), person(600, "team")].into_iter())
        });
        let followed = values(&persons, "plan");
        persons.lock_columns().clear();
        assert_eq!(followed, values(&persons, "plan"));
        assert_eq!((&followed[3], &followed[5]), (&None, &None));
        assert_eq!([&followed[4], &followed[600]].map(Option::as_deref), [Some("\"team\""); 2]);
        assert_eq!(values(&before, "plan")[4].as_deref(), Some("\"free\""));
        assert_eq!(values(&persons, "no")[7].as_deref(), Some("7"));
        assert_eq!(values(&persons, "nothing"), vec![None; 601]);
    }
}
