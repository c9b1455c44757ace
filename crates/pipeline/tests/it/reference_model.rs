//! Reference model: the contract's rules for persons and groups, in a few lines.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

#[derive(Clone, Debug, Default)]
pub struct ReferenceModel {
    /// All distinct ids and their persons.
    pub ids: BTreeMap<String, Option<usize>>,
    pub persons: BTreeMap<usize, ReferencePerson>,
    pub groups: BTreeMap<String, Map<String, Value>>,
    /// Number of events by distinct id.
    pub events: BTreeMap<String, usize>,
    next: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReferencePerson {
    pub properties: Map<String, Value>,
    pub is_identified: bool,
}

#[derive(Clone, Debug)]
pub enum Step {
    Set { id: String, set: Map<String, Value>, once: Map<String, Value>, unset: Option<String> },
    Personless { id: String },
    Merge { into: String, other: String, kind: MergeKind },
    Group { id: String, key: String, set: Map<String, Value> },
    Delete { id: String, person: bool, events: bool },
    Split { id: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeKind {
    Identify,
    Alias,
    Dangerously,
}

impl ReferenceModel {
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Set { id, set, once, unset } => {
                self.count(id);
                let no = self.person_of(id);
                let person = self.persons.get_mut(&no).unwrap();
                let before: BTreeSet<String> = person.properties.keys().cloned().collect();
                for (name, value) in once {
                    person.properties.entry(name.clone()).or_insert_with(|| value.clone());
                }
                person.properties.extend(set.clone());
                if let Some(name) = unset.as_ref().filter(|name| before.contains(*name)) {
                    person.properties.remove(name);
                }
            }
            Step::Personless { id } => self.count(id),
            Step::Merge { into, other, kind } => {
                self.count(into);
                if into == other {
                    self.person_of(into);
                } else {
                    self.merge(into, other, *kind);
                }
            }
            Step::Group { id, key, set } => {
                self.count(id);
                self.person_of(id);
                self.groups.entry(key.clone()).or_default().extend(set.clone());
            }
            Step::Delete { id, person, events } => self.delete(id, *person, *events),
            Step::Split { id } => {
                let Some(Some(no)) = self.ids.get(id).copied() else { return };
                for (other, person) in self.ids.clone() {
                    if person == Some(no) && other != *id {
                        let fresh = self.fresh();
                        self.ids.insert(other, Some(fresh));
                    }
                }
            }
        }
    }

    fn merge(&mut self, into: &str, other: &str, kind: MergeKind) {
        let known = |id: &str| self.ids.get(id).copied().flatten();
        match (known(into), known(other)) {
            (None, None) => {
                let no = self.person_of(into);
                self.ids.insert(other.to_owned(), Some(no));
            }
            (Some(no), None) => drop(self.ids.insert(other.to_owned(), Some(no))),
            (None, Some(no)) => drop(self.ids.insert(into.to_owned(), Some(no))),
            (Some(no), Some(gone)) if no != gone => {
                if kind == MergeKind::Dangerously || !self.persons[&gone].is_identified {
                    let lost = self.persons.remove(&gone).unwrap();
                    let person = self.persons.get_mut(&no).unwrap();
                    for (name, value) in lost.properties {
                        person.properties.entry(name).or_insert(value);
                    }
                    let theirs = self.ids.values_mut().filter(|person| **person == Some(gone));
                    theirs.for_each(|person| *person = Some(no));
                }
            }
            (Some(_), Some(_)) => {}
        }
        let no = self.person_of(into);
        self.persons.get_mut(&no).unwrap().is_identified = true;
    }

    fn delete(&mut self, id: &str, person: bool, events: bool) {
        let Some(Some(no)) = self.ids.get(id).copied() else { return };
        for (id, owner) in &mut self.ids {
            if *owner == Some(no) {
                if events {
                    self.events.remove(id);
                }
                if person {
                    *owner = None;
                }
            }
        }
        if person {
            self.persons.remove(&no);
        }
    }

    fn count(&mut self, id: &str) {
        self.ids.entry(id.to_owned()).or_default();
        *self.events.entry(id.to_owned()).or_default() += 1;
    }

    fn person_of(&mut self, id: &str) -> usize {
        if let Some(no) = self.ids.get(id).copied().flatten() {
            return no;
        }
        let no = self.fresh();
        self.ids.insert(id.to_owned(), Some(no));
        no
    }

    fn fresh(&mut self) -> usize {
        self.next += 1;
        self.persons.insert(self.next, ReferencePerson::default());
        self.next
    }

    /// A line per person (ids, properties, `is_identified`, events), per id without a person, and
    /// per group.
    pub fn state(&self) -> BTreeSet<String> {
        let mut lines = BTreeSet::new();
        for (no, person) in &self.persons {
            let ids: Vec<&String> =
                self.ids.iter().filter(|(_, own)| **own == Some(*no)).map(|(id, _)| id).collect();
            let events: usize =
                ids.iter().map(|id| self.events.get(*id).copied().unwrap_or(0)).sum();
            let properties = Value::Object(person.properties.clone());
            lines.insert(format!("{ids:?} {properties} {} {events}", person.is_identified));
        }
        for (id, _) in self.ids.iter().filter(|(_, person)| person.is_none()) {
            lines.insert(format!("{id} {}", self.events.get(id).copied().unwrap_or(0)));
        }
        for (key, properties) in &self.groups {
            lines.insert(format!("group {key} {}", Value::Object(properties.clone())));
        }
        lines
    }
}
