//! Who is who: from the number of a distinct id to a person and what is known of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{ABSENT, Column, Interner, Value};

/// Properties whose columns are kept at once.
const COLUMNS_MAX: usize = 32;
/// In `actors`, an id without a person.
const NOBODY: u32 = u32::MAX;

/// A person as stored.
#[derive(Clone, Debug)]
pub struct PersonFacts {
    pub uuid: Uuid,
    pub created_at: Timestamp,
    pub is_identified: bool,
    /// A JSON object.
    pub properties: Box<str>,
}

impl PersonFacts {
    pub fn of(person: &Person) -> Self {
        Self {
            uuid: person.uuid,
            created_at: person.created_at,
            is_identified: person.is_identified,
            properties: serde_json::to_string(&person.properties).unwrap_or_default().into(),
        }
    }
}

/// Everybody of a project. An *actor* is who counts once: a person, by its number, or a distinct
/// id that has none, numbered behind all persons.
#[derive(Debug)]
pub struct People {
    project: ProjectId,
    /// Person numbers by distinct number.
    owners: Vec<u32>,
    texts: Vec<Option<Box<str>>>,
    persons: Vec<Option<PersonFacts>>,
    columns: Mutex<HashMap<String, Arc<Column>>>,
}

impl Clone for People {
    fn clone(&self) -> Self {
        let Self { project, owners, texts, persons, columns: _ } = self;
        let (owners, texts, persons) = (owners.clone(), texts.clone(), persons.clone());
        Self { project: *project, owners, texts, persons, columns: Mutex::default() }
    }
}

impl People {
    pub fn new(project: ProjectId) -> Self {
        let columns = Mutex::default();
        Self { project, owners: vec![], texts: vec![], persons: vec![], columns }
    }

    /// Who counts for this distinct id; always less than [`People::actors_max`].
    pub fn actor(&self, distinct_no: u32) -> u32 {
        match self.owners.get(distinct_no as usize) {
            Some(&NOBODY) => self.persons.len() as u32 + distinct_no,
            Some(&person) => person,
            // Nobody has heard of it: all of these are one.
            None => (self.persons.len() + self.owners.len()) as u32,
        }
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
        let text = id.and_then(|id| self.texts.get(id)?.as_deref());
        person_uuid(self.project, text.unwrap_or_default())
    }

    /// Persons by their numbers.
    pub fn persons(&self) -> impl Iterator<Item = (u32, &PersonFacts)> {
        let all = self.persons.iter().enumerate();
        all.filter_map(|(no, person)| Some((no as u32, person.as_ref()?)))
    }

    /// Distinct ids by their numbers, each with its text and actor.
    pub fn ids(&self) -> impl Iterator<Item = (u32, &str, u32)> {
        let all = self.texts.iter().enumerate();
        all.filter_map(|(no, text)| Some((no as u32, text.as_deref()?, self.actor(no as u32))))
    }

    /// Numbers of the distinct ids of some actors.
    pub fn ids_of(&self, wanted: impl Fn(u32) -> bool) -> warehouse::Numbers {
        (0..self.owners.len() as u32).filter(|no| wanted(self.actor(*no))).collect()
    }

    /// A property by person number.
    pub fn column(&self, name: &str) -> Arc<Column> {
        let mut columns = self.columns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(column) = columns.get(name) {
            return column.clone();
        }
        if columns.len() >= COLUMNS_MAX {
            columns.clear();
        }
        let column = Arc::new(self.read_column(name));
        columns.insert(name.to_owned(), column.clone());
        column
    }

    fn read_column(&self, name: &str) -> Column {
        let mut interner = Interner::default();
        let mut code = |person: &Option<PersonFacts>| {
            let mut code = ABSENT;
            if let Some(person) = person {
                let each = |member: &str, value: Value<'_>| {
                    if member == name {
                        code = interner.intern(value);
                    }
                };
                // The catalog wrote it; what cannot be read has no properties.
                if warehouse::members(&person.properties, each).is_err() {
                    code = ABSENT;
                }
            }
            code
        };
        let codes = self.persons.iter().map(&mut code).collect();
        Column { codes, dictionary: Arc::new(interner.dictionary) }
    }

    pub fn set_person(&mut self, no: PersonNo, person: PersonFacts) {
        let at = no.0 as usize;
        if self.persons.len() <= at {
            self.persons.resize(at + 1, None);
        }
        self.persons[at] = Some(person);
        self.forget_columns();
    }

    pub fn set_id(&mut self, no: DistinctNo, text: &str, person: Option<PersonNo>) {
        let at = no.0 as usize;
        if self.owners.len() <= at {
            self.owners.resize(at + 1, NOBODY);
            self.texts.resize(at + 1, None);
        }
        self.owners[at] = person.map_or(NOBODY, |person| person.0);
        if self.texts[at].as_deref() != Some(text) {
            self.texts[at] = Some(text.into());
        }
    }

    /// What a batch of events changed. Doing it twice is doing it once.
    pub fn change(&mut self, changes: &IdentityChanges) {
        if !changes.moves.is_empty() {
            let mut ends: HashMap<u32, u32> = HashMap::with_capacity(changes.moves.len());
            for (from, to) in &changes.moves {
                ends.values_mut().filter(|end| **end == from.0).for_each(|end| *end = to.0);
                ends.insert(from.0, to.0);
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
            }
        }
        for person in &changes.persons {
            self.set_person(person.no, PersonFacts::of(person));
        }
        for DistinctId { no, text, person, .. } in &changes.ids {
            self.set_id(*no, text, *person);
        }
        self.forget_columns();
    }

    fn forget_columns(&mut self) {
        self.columns.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
