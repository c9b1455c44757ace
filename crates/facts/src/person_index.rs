//! Who is who: from the number of a distinct id to a person and what is known of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{ABSENT, Column, Interner, with_json_value};

use crate::profiles::Profiles;
use crate::slab::Slab;

/// Bytes of the columns that are kept, about.
const COLUMNS_BYTES_MAX: usize = 48 << 20;
/// Of one with its name, whatever it holds.
const SLOT_BYTES: usize = 256;
/// In `actors`, an id without a person.
const NOBODY: u32 = u32::MAX;
/// Values of a column that may be nobody's, beside as many as there are persons.
const UNUSED_MAX: usize = 512;
/// Before the text of an id that is known.
const KNOWN: u8 = b'=';

/// A person as stored, without its properties.
#[derive(Clone, Copy, Debug)]
pub struct PersonFacts {
    pub uuid: Uuid,
    pub created_at: Timestamp,
    pub is_identified: bool,
}

/// Everybody of a project. An *actor* is who counts once: a person, by its number, or a distinct
/// id that has none, numbered behind all persons.
#[derive(Debug)]
pub struct PersonIndex {
    project: ProjectId,
    /// Person numbers by distinct number.
    owners: Vec<u32>,
    /// By distinct number.
    texts: Slab,
    persons: Vec<Option<PersonFacts>>,
    profiles: Profiles,
    columns: Mutex<HashMap<String, Slot>>,
}

/// One reads a column for all who wait for it, and nobody waits for another column.
type Slot = Arc<Mutex<Option<Kept>>>;

/// A property of all persons.
#[derive(Clone, Debug)]
struct Kept {
    codes: Vec<u32>,
    interner: Interner,
    /// What was shown of it last, if it is still so.
    shown: Option<Arc<Column>>,
}

impl Clone for PersonIndex {
    fn clone(&self) -> Self {
        let Self { project, owners, texts, persons, profiles, columns: _ } = self;
        let (owners, texts, persons) = (owners.clone(), texts.clone(), persons.clone());
        let profiles = profiles.clone();
        // Reading one takes a while, and whoever copies people holds up others: then without it.
        let copy = |(name, slot): (&String, &Slot)| {
            let kept = slot.try_lock().ok()?.clone()?;
            Some((name.clone(), Arc::new(Mutex::new(Some(kept)))))
        };
        let columns = Mutex::new(self.lock_columns().iter().filter_map(copy).collect());
        Self { project: *project, owners, texts, persons, profiles, columns }
    }
}

impl PersonIndex {
    pub fn new(project: ProjectId) -> Self {
        Self {
            project,
            owners: Vec::new(),
            texts: Slab::default(),
            persons: Vec::new(),
            profiles: Profiles::default(),
            columns: Mutex::default(),
        }
    }

    /// Who counts for this distinct id; always less than [`PersonIndex::actors_max`].
    pub fn actor(&self, distinct_no: u32) -> u32 {
        match self.owners.get(distinct_no as usize) {
            Some(&NOBODY) => self.persons.len() as u32 + distinct_no,
            Some(&person) => person,
            // Nobody has heard of it: all of these are one.
            None => (self.persons.len() + self.owners.len()) as u32,
        }
    }

    /// Of memory, about.
    pub fn bytes(&self) -> usize {
        let columns: Vec<Slot> = self.lock_columns().values().cloned().collect();
        let columns = columns.iter().map(|slot| match slot.try_lock() {
            Ok(kept) => SLOT_BYTES + kept.as_ref().map_or(0, Kept::bytes),
            Err(_) => SLOT_BYTES,
        });
        let persons = self.persons.capacity() * size_of::<Option<PersonFacts>>();
        let owners = self.owners.capacity() * size_of::<u32>();
        persons + owners + self.texts.bytes() + self.profiles.bytes() + columns.sum::<usize>()
    }

    /// For arrays with an entry for every actor.
    pub fn actors_max(&self) -> usize {
        self.persons.len() + self.owners.len() + 1
    }

    /// None for an actor without a profile.
    pub fn person(&self, actor: u32) -> Option<&PersonFacts> {
        self.persons.get(actor as usize)?.as_ref()
    }

    /// What an actor is called, with a profile or without one.
    pub fn uuid(&self, actor: u32) -> Uuid {
        if let Some(person) = self.person(actor) {
            return person.uuid;
        }
        let id = (actor as usize).checked_sub(self.persons.len());
        let text = id.and_then(|id| self.text(id));
        person_uuid(self.project, text.unwrap_or_default())
    }

    /// Persons by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &PersonFacts)> {
        let all = self.persons.iter().enumerate();
        all.filter_map(|(no, person)| Some((no as u32, person.as_ref()?)))
    }

    /// Distinct ids by their numbers, each with its text and actor.
    pub fn distinct_ids(&self) -> impl Iterator<Item = (u32, &str, u32)> {
        let all = 0..self.owners.len() as u32;
        all.filter_map(|no| Some((no, self.text(no as usize)?, self.actor(no))))
    }

    fn text(&self, distinct_no: usize) -> Option<&str> {
        let text = self.texts.get(distinct_no).strip_prefix(&[KNOWN])?;
        std::str::from_utf8(text).ok()
    }

    /// Numbers of the distinct ids of some actors.
    pub fn distinct_nos_of(&self, wanted: impl Fn(u32) -> bool) -> warehouse::DenseIdSet {
        (0..self.owners.len() as u32).filter(|no| wanted(self.actor(*no))).collect()
    }

    /// Calls `each` with the JSON of every actor's properties, none for those without a profile.
    pub fn properties(&self, actors: &[u32], each: impl FnMut(Option<&str>)) {
        self.profiles.texts(actors, each);
    }

    /// A property by person number.
    pub fn column(&self, name: &str) -> Arc<Column> {
        let slot = self.lock_columns().entry(name.to_owned()).or_default().clone();
        let (shown, own_bytes) = {
            let mut kept = lock(&slot);
            let kept = kept.get_or_insert_with(|| self.read_column(name));
            (kept.shown(), kept.bytes())
        };
        let mut columns = self.lock_columns();
        // Whoever reads one now looks at this after it.
        let bytes = |slot: &Slot| match slot.try_lock() {
            Ok(kept) => SLOT_BYTES + kept.as_ref().map_or(0, Kept::bytes),
            Err(_) => SLOT_BYTES,
        };
        if columns.values().map(bytes).sum::<usize>() > COLUMNS_BYTES_MAX {
            columns.retain(|other, _| other == name && own_bytes <= COLUMNS_BYTES_MAX);
        }
        shown
    }

    fn read_column(&self, name: &str) -> Kept {
        let mut interner = Interner::default();
        let codes = self.profiles.column(name, self.persons.len(), &mut interner);
        Kept { codes, interner, shown: None }
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
        self.profiles.set(at, properties);
        self.columns.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub fn set_distinct_id(&mut self, no: DistinctNo, text: &str, person: Option<PersonNo>) {
        let at = no.0 as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, NOBODY);
        }
        self.owners[at] = person.map_or(NOBODY, |person| person.0);
        if self.text(at) != Some(text) {
            self.texts.set(at, &[&[KNOWN], text.as_bytes()].concat());
        }
    }

    /// What a batch of events changed. Doing it twice is doing it once.
    pub fn apply(&mut self, changes: &IdentityChanges) {
        if !changes.moves.is_empty() {
            let mut ends: HashMap<u32, u32> = HashMap::with_capacity(changes.moves.len());
            // From the last one on: whoever a move leads to has moved for good by then.
            for (from, to) in changes.moves.iter().rev() {
                let end = ends.get(&to.0).copied().unwrap_or(to.0);
                ends.insert(from.0, end);
            }
            for owner in &mut self.owners {
                if let Some(to) = ends.get(owner) {
                    *owner = *to;
                }
            }
        }
        let moved = changes.moves.iter().map(|(gone, _)| gone);
        for gone in moved.chain(&changes.deleted) {
            if let Some(person) = self.persons.get_mut(gone.0 as usize) {
                *person = None;
                self.profiles.remove(gone.0 as usize);
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
            changes.moves.iter().map(|(gone, _)| *gone).chain(changes.deleted.iter().copied());
        let gone: Vec<PersonNo> = gone.collect();
        columns.retain(|name, slot| {
            let mut kept = lock(slot);
            let Some(kept) = kept.as_mut() else { return false };
            gone.iter().for_each(|no| kept.set(*no, None));
            changes
                .persons
                .iter()
                .for_each(|person| kept.set(person.no, person.properties.get(name)));
            // Values that nobody has any more take memory, too.
            kept.interner.dictionary.len() <= 2 * self.persons.len() + UNUSED_MAX
        });
        *self.lock_columns() = columns;
    }
}

fn lock<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    fn set(&mut self, no: PersonNo, json: Option<&str>) {
        let at = no.0 as usize;
        if self.codes.len() <= at {
            self.codes.resize(at + 1, ABSENT);
        }
        self.shown = None;
        self.codes[at] = ABSENT;
        if let Some(json) = json {
            let code = with_json_value(json, |value| self.interner.intern(value));
            self.codes[at] = code.unwrap_or(ABSENT);
        }
    }

    fn shown(&mut self) -> Arc<Column> {
        let column = || {
            let dictionary = Arc::new(self.interner.dictionary.clone());
            Arc::new(Column { codes: self.codes.clone(), dictionary })
        };
        self.shown.get_or_insert_with(column).clone()
    }

    /// With what is shown of it, and the table of its values.
    fn bytes(&self) -> usize {
        const TABLE: usize = 24;
        let dictionary = &self.interner.dictionary;
        2 * (self.codes.len() * 4 + dictionary.memory_bytes()) + dictionary.len() * TABLE
    }
}

#[cfg(test)]
mod tests {
    use model::object::Object;
    use serde_json::json;

    use super::*;

    fn person(no: u32, plan: &str) -> Person<Object> {
        let properties = json!({ "plan": plan, "email": format!("user{no}@example.com"),
            "$initial_browser": "Firefox", "$initial_os": "Linux", "no": no });
        Person {
            no: PersonNo(no),
            uuid: Uuid::from_u128(no.into()),
            properties: Object::from(properties.as_object().unwrap()),
            is_identified: true,
            version: 0,
            created_at: Timestamp::from_micros(no.into()),
        }
    }

    fn changes(persons: impl Iterator<Item = Person<Object>>) -> IdentityChanges {
        IdentityChanges { persons: persons.map(Arc::new).collect(), ..IdentityChanges::default() }
    }

    fn values(persons: &PersonIndex, name: &str) -> Vec<Option<String>> {
        let column = persons.column(name);
        let all = 0..column.codes.len();
        all.map(|row| column.value(row).map(|value| value.to_json())).collect()
    }

    #[test]
    fn properties_of_many_come_back_as_they_were() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..2_000).map(|no| person(no, "free"))));
        let mut seen = Vec::new();
        persons.properties(&[7, 1_999, 2_000], |text| seen.push(text.map(str::to_owned)));
        let text = |no| Some(person(no, "free").properties.text().to_owned());
        assert_eq!(seen, [text(7), text(1_999), None]);
    }

    #[test]
    fn whoever_was_merged_in_turns_belongs_to_the_last() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..5).map(|no| person(no, "free"))));
        (0..5).for_each(|no| persons.set_distinct_id(DistinctNo(no), "id", Some(PersonNo(no))));
        let moves =
            [(0, 1), (3, 4), (1, 2), (2, 4)].map(|(from, to)| (PersonNo(from), PersonNo(to)));
        persons.apply(&IdentityChanges { moves: moves.to_vec(), ..IdentityChanges::default() });
        assert_eq!((0..5).map(|no| persons.actor(no)).collect::<Vec<_>>(), [4; 5]);
    }

    #[test]
    fn what_people_take_grows_and_shrinks_with_them() {
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
    fn nobody_waits_for_another_column_or_copies_one_that_is_being_read() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..10).map(|no| person(no, "free"))));
        assert_eq!(values(&persons, "plan").len(), 10);
        let read = persons.lock_columns().entry("email".into()).or_default().clone();
        let reading = lock(&read);
        assert_eq!(values(&persons, "no")[7].as_deref(), Some("7"));
        let mut kept: Vec<String> = persons.clone().lock_columns().keys().cloned().collect();
        kept.sort_unstable();
        assert_eq!(kept, ["no", "plan"]);
        drop(reading);
        assert_eq!(values(&persons, "email")[1].as_deref(), Some("\"user1@example.com\""));
    }

    #[test]
    fn a_column_follows_every_change() {
        let mut persons = PersonIndex::new(ProjectId(1));
        persons.apply(&changes((0..600).map(|no| person(no, "free"))));
        assert!(values(&persons, "plan").iter().all(|plan| plan.as_deref() == Some("\"free\"")));
        let before = persons.clone();
        persons.apply(&IdentityChanges {
            moves: vec![(PersonNo(3), PersonNo(4))],
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
