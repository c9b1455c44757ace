//! Person index: resolves `distinct_no` to a person, and holds persons and their properties.
//!
//! Persons and strings lie in a memory-mapped [checkpoint](Checkpoints); what changed since is in memory.
//! A small project has no checkpoint, only changes.

mod actors;
mod checkpoint;
mod chunked_bytes;
mod columns;
mod layered_bytes;
mod mapped_file;
mod property_store;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{ABSENT, Column, Interner, with_json_value};

use self::actors::{NO_PERSON, PersonNos};
pub use self::checkpoint::{Checkpoint, Checkpoints};
use self::columns::ColumnFiles;
pub(crate) use self::layered_bytes::{LayeredBytes, Section};
pub(crate) use self::mapped_file::{Cursor, FileWriter};
use self::property_store::FACTS_BYTES;
pub(crate) use self::property_store::PropertyStore;

/// Approximate limit of all cached property columns.
const COLUMNS_BYTES_MAX: usize = 48 << 20;
/// Overhead of a cached column and its name.
const SLOT_BYTES: usize = 256;
/// A cached column is evicted when its dictionary has more than twice as many values as there are
/// persons, plus this: most of them are then unused.
const UNUSED_VALUES_MAX: usize = 512;
/// Prefix of a stored distinct id, to tell an empty id from an absent one.
const PRESENT: u8 = b'=';

/// A person without its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersonFacts {
    pub uuid: Uuid,
    pub created_at: Timestamp,
    pub is_identified: bool,
}

impl PersonFacts {
    pub(crate) fn encode(&self) -> [u8; FACTS_BYTES] {
        let mut encoded = [0; FACTS_BYTES];
        encoded[..16].copy_from_slice(self.uuid.as_bytes());
        encoded[16..24].copy_from_slice(&self.created_at.as_micros().to_le_bytes());
        encoded[24] = u8::from(self.is_identified);
        encoded
    }

    pub(crate) fn decode(encoded: &[u8; FACTS_BYTES]) -> Self {
        let (uuid, rest) = encoded.split_first_chunk().unwrap_or((&[0; 16], &[]));
        let (created_at, rest) = rest.split_first_chunk().unwrap_or((&[0; 8], &[]));
        Self {
            uuid: Uuid::from_bytes(*uuid),
            created_at: Timestamp::from_micros(i64::from_le_bytes(*created_at)),
            is_identified: rest == [1],
        }
    }
}

/// All persons and distinct ids of a project. An *actor* is what distinct counts count: a person, by
/// its `person_no`, or a distinct id without a person, numbered after all persons.
#[derive(Debug)]
pub struct PersonIndex {
    project: ProjectId,
    /// `person_no` by `distinct_no`.
    person_nos: PersonNos,
    /// Distinct ids by `distinct_no`.
    distinct_ids: LayeredBytes,
    /// Exclusive upper bound of all `person_no`s.
    persons_len: usize,
    persons: PropertyStore,
    columns: Mutex<HashMap<String, Slot>>,
    /// Columns of the checkpoint.
    column_files: Option<Arc<ColumnFiles>>,
}

/// One thread builds a column while others that need it wait; columns do not block each other.
type Slot = Arc<Mutex<Option<CachedColumn>>>;

/// A property of all persons, dictionary-coded by `person_no`.
#[derive(Clone, Debug)]
struct CachedColumn {
    /// Shared with readers, copy-on-write.
    column: Arc<Column>,
    interner: Interner,
    /// Whether the column's dictionary has all values of the interner.
    is_current: bool,
}

impl Clone for PersonIndex {
    fn clone(&self) -> Self {
        // Building a column takes long and the caller may hold a lock: skip columns in progress.
        let copy = |(name, slot): (&String, &Slot)| {
            let cached = slot.try_lock().ok()?.clone()?;
            Some((name.clone(), Arc::new(Mutex::new(Some(cached)))))
        };
        Self {
            project: self.project,
            person_nos: self.person_nos.clone(),
            distinct_ids: self.distinct_ids.clone(),
            persons_len: self.persons_len,
            persons: self.persons.clone(),
            columns: Mutex::new(self.lock_columns().iter().filter_map(copy).collect()),
            column_files: self.column_files.clone(),
        }
    }
}

impl PersonIndex {
    pub fn new(project: ProjectId) -> Self {
        Self {
            project,
            person_nos: PersonNos::default(),
            distinct_ids: LayeredBytes::default(),
            persons_len: 0,
            persons: PropertyStore::default(),
            columns: Mutex::default(),
            column_files: None,
        }
    }

    /// The actor of a distinct id; always less than [`PersonIndex::actors_max`].
    pub fn actor(&self, distinct_no: u32) -> u32 {
        match self.person_nos.get(distinct_no as usize) {
            Some(NO_PERSON) => self.persons_len as u32 + distinct_no,
            Some(person) => person,
            // Unknown ids share one actor.
            None => (self.persons_len + self.person_nos.len()) as u32,
        }
    }

    /// Approximate memory. A checkpoint's files are not in it.
    pub fn bytes(&self) -> usize {
        let columns: Vec<Slot> = self.lock_columns().values().cloned().collect();
        let columns = columns.iter().map(|slot| match slot.try_lock() {
            Ok(cached) => SLOT_BYTES + cached.as_ref().map_or(0, CachedColumn::bytes),
            Err(_) => SLOT_BYTES,
        });
        self.person_nos.bytes()
            + self.distinct_ids.bytes()
            + self.persons.bytes()
            + columns.sum::<usize>()
    }

    /// Persons and distinct ids that differ from the checkpoint.
    pub fn changes(&self) -> usize {
        self.persons.changes() + self.distinct_ids.changes()
    }

    /// Persons and distinct ids, deleted ones included.
    pub fn len(&self) -> usize {
        self.persons_len + self.person_nos.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Exclusive upper bound of actors, for arrays indexed by actor.
    pub fn actors_max(&self) -> usize {
        self.persons_len + self.person_nos.len() + 1
    }

    /// None for an actor that is not a person.
    pub fn person(&self, actor: u32) -> Option<PersonFacts> {
        // Distinct ids without a person are numbered after all persons.
        let is_person = (actor as usize) < self.persons_len;
        is_person.then(|| self.persons.facts(actor as usize).map(PersonFacts::decode))?
    }

    /// The person's UUID, or the one derived from the distinct id.
    pub fn uuid(&self, actor: u32) -> Uuid {
        if let Some(person) = self.person(actor) {
            return person.uuid;
        }
        let id = (actor as usize).checked_sub(self.persons_len);
        let text = id.and_then(|id| self.text(id));
        person_uuid(self.project, text.unwrap_or_default())
    }

    /// All persons by `person_no`.
    pub fn iter(&self) -> impl Iterator<Item = (u32, PersonFacts)> {
        self.from(0)
    }

    /// The persons from this `person_no` on.
    pub fn from(&self, first: u32) -> impl Iterator<Item = (u32, PersonFacts)> {
        (first..self.persons_len as u32).filter_map(|no| Some((no, self.person(no)?)))
    }

    /// The smallest `distinct_no` of each person; `u32::MAX` for a person without one.
    pub fn first_distinct_nos(&self) -> Vec<u32> {
        let mut first = vec![u32::MAX; self.persons_len];
        for (distinct_no, person) in self.person_nos.iter().enumerate() {
            if let Some(first) = first.get_mut(person as usize)
                && *first == u32::MAX
            {
                *first = distinct_no as u32;
            }
        }
        first
    }

    pub fn distinct_id(&self, distinct_no: u32) -> Option<&str> {
        self.text(distinct_no as usize)
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
        self.persons.texts(actors, each);
    }

    /// Calls `each` with the JSON of these properties of every actor; none for one that is absent.
    pub fn values(&self, actors: &[u32], names: &[&str], each: impl FnMut(&[Option<&str>])) {
        self.persons.values(actors, names, each);
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

    /// From the checkpoint if there is one, otherwise from the properties.
    fn read_column(&self, name: &str) -> CachedColumn {
        let files = self.column_files.as_ref();
        let Some((codes, dictionary)) = files.and_then(|files| files.column(name, self)) else {
            let mut interner = Interner::default();
            let codes = self.persons.column(name, self.persons_len, |value| interner.intern(value));
            return CachedColumn::new(codes, interner);
        };
        let interner = Interner::over(dictionary, columns::INTERNED_MAX);
        let base_len = codes.len() as u32;
        let mut column = CachedColumn::new(codes, interner);
        for at in self.persons.changed().chain(base_len..self.persons_len as u32) {
            column.set(PersonNo(at), None);
            self.persons.with_property(at as usize, name, |json| {
                column.set(PersonNo(at), Some(json));
            });
        }
        column
    }

    fn lock_columns(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        lock(&self.columns)
    }

    /// `properties` is a JSON object.
    pub fn set_person(&mut self, no: PersonNo, facts: PersonFacts, properties: &str) {
        let at = no.0 as usize;
        self.persons_len = self.persons_len.max(at + 1);
        self.persons.set(at, facts.encode(), properties);
        self.columns.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn set_distinct_id(&mut self, no: DistinctNo, text: &str, person: Option<PersonNo>) {
        let at = no.0 as usize;
        self.person_nos.set(at, person.map_or(NO_PERSON, |person| person.0));
        if self.text(at) != Some(text) {
            self.distinct_ids.set(at, &[&[PRESENT], text.as_bytes()].concat());
        }
    }

    /// Applies the identity changes of an ingested batch. Idempotent.
    pub fn apply(&mut self, changes: &IdentityChanges) {
        self.apply_all(std::iter::once(changes));
    }

    /// Applies the identity changes of consecutive batches with one pass over the distinct ids.
    pub fn apply_all<'c>(
        &mut self,
        batches: impl DoubleEndedIterator<Item = &'c IdentityChanges> + Clone,
    ) {
        // Survivors of all merges so far. In reverse order, the target of a merge already has its
        // final person.
        let mut survivors: HashMap<u32, u32> = HashMap::new();
        // The persons of the distinct ids that batches write, as of the last batch.
        let mut ids: Vec<Vec<Option<u32>>> = Vec::new();
        let survivor =
            |survivors: &HashMap<u32, u32>, no: u32| survivors.get(&no).copied().unwrap_or(no);
        for changes in batches.clone().rev() {
            let resolve = |id: &DistinctId| Some(survivor(&survivors, id.person?.0));
            ids.push(changes.ids.iter().map(resolve).collect());
            for (from, to) in changes.merges.iter().rev() {
                survivors.insert(from.0, survivor(&survivors, to.0));
            }
        }
        self.person_nos.replace(&survivors);
        let mut columns = std::mem::take(&mut *self.lock_columns());
        for (changes, persons) in batches.zip(ids.into_iter().rev()) {
            self.apply_rows(changes, &persons, &mut columns);
        }
        // Evict columns whose dictionary is mostly unused values.
        let values_max = 2 * self.persons_len + UNUSED_VALUES_MAX;
        columns.retain(|_, slot| {
            lock(slot).as_ref().is_some_and(|column| column.interner.dictionary.len() <= values_max)
        });
        *self.lock_columns() = columns;
    }

    /// Applies a batch whose merges are applied to the distinct ids already. `persons` are those of the
    /// batch's ids.
    fn apply_rows(
        &mut self,
        changes: &IdentityChanges,
        persons: &[Option<u32>],
        columns: &mut HashMap<String, Slot>,
    ) {
        let merged = changes.merges.iter().map(|(gone, _)| *gone);
        let gone: Vec<PersonNo> = merged.chain(changes.deleted.iter().copied()).collect();
        for no in gone.iter().filter(|no| (no.0 as usize) < self.persons_len) {
            self.persons.remove(no.0 as usize);
        }
        for person in &changes.persons {
            let Person { no, uuid, created_at, is_identified, .. } = **person;
            let facts = PersonFacts { uuid, created_at, is_identified };
            self.set_person(no, facts, person.properties.text());
        }
        for (DistinctId { no, text, .. }, person) in changes.ids.iter().zip(persons) {
            self.set_distinct_id(*no, text, person.map(PersonNo));
        }
        for (name, slot) in columns {
            let mut cached = lock(slot);
            let Some(cached) = cached.as_mut() else { continue };
            gone.iter().for_each(|no| cached.set(*no, None));
            let persons = changes.persons.iter();
            persons.for_each(|person| cached.set(person.no, person.properties.get(name)));
        }
    }
}

fn lock<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CachedColumn {
    fn new(codes: Vec<u32>, interner: Interner) -> Self {
        let column = Arc::new(Column { codes, dictionary: Arc::default() });
        Self { column, interner, is_current: false }
    }

    fn set(&mut self, no: PersonNo, json: Option<&str>) {
        let at = no.0 as usize;
        let codes = &mut Arc::make_mut(&mut self.column).codes;
        if codes.len() <= at {
            codes.resize(at + 1, ABSENT);
        }
        self.is_current = false;
        let code = json.and_then(|json| with_json_value(json, |value| self.interner.intern(value)));
        codes[at] = code.unwrap_or(ABSENT);
    }

    fn snapshot(&mut self) -> Arc<Column> {
        if !self.is_current {
            let dictionary = Arc::new(self.interner.dictionary.clone());
            Arc::make_mut(&mut self.column).dictionary = dictionary;
            self.is_current = true;
        }
        self.column.clone()
    }

    /// Includes the readers' copy of the dictionary, and the interner's hash table.
    fn bytes(&self) -> usize {
        let dictionary = self.interner.dictionary.memory_bytes();
        self.column.codes.len() * size_of::<u32>() + 2 * dictionary + self.interner.table_bytes()
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
        let mut values = Vec::new();
        persons.values(&[7, 2_000], &["no", "absent", "plan"], |found| {
            values.push(found.iter().map(|json| json.map(str::to_owned)).collect::<Vec<_>>());
        });
        let json = |text: &str| Some(text.to_owned());
        assert_eq!(values, [vec![json("7"), None, json("\"free\"")], vec![None; 3]]);
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
