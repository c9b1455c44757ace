//! Scans all persons of a project in memory: cohorts, lists of persons, blast radius and dry run
//! evaluate conditions for each.

use std::sync::{Arc, OnceLock};

use catalog::{PersonProperties, PersonSource, ScannedPerson};
use facts::{PersonFacts, PersonIndex};
use model::person::PersonNo;

/// The persons of a project at one position.
#[derive(Debug)]
pub struct PersonScan {
    persons: Arc<PersonIndex>,
    /// By `person_no`.
    first_distinct_nos: OnceLock<Vec<u32>>,
}

impl PersonScan {
    pub(crate) fn new(persons: Arc<PersonIndex>) -> Self {
        Self { persons, first_distinct_nos: OnceLock::new() }
    }

    /// How many persons there are.
    pub fn count(&self) -> u64 {
        self.persons.iter().count() as u64
    }

    fn after(&self, after: Option<PersonNo>, limit: usize) -> (Vec<u32>, Vec<PersonFacts>) {
        let first = after.map_or(0, |no| no.0 + 1);
        self.persons.from(first).take(limit).unzip()
    }
}

impl PersonSource for PersonScan {
    fn read(&self, after: Option<PersonNo>, limit: usize) -> Vec<ScannedPerson> {
        let first_distinct_nos =
            self.first_distinct_nos.get_or_init(|| self.persons.first_distinct_nos());
        let (numbers, facts) = self.after(after, limit);
        let (mut scanned, mut persons) =
            (Vec::with_capacity(numbers.len()), numbers.iter().zip(facts));
        self.persons.properties(&numbers, |json| {
            let Some((no, facts)) = persons.next() else { return };
            let distinct_no = first_distinct_nos.get(*no as usize);
            let distinct_id = distinct_no.and_then(|no| self.persons.distinct_id(*no));
            scanned.push(ScannedPerson {
                no: PersonNo(*no),
                distinct_id: distinct_id.unwrap_or_default().to_owned(),
                properties: json
                    .and_then(|json| serde_json::from_str(json).ok())
                    .unwrap_or_default(),
                created_at: facts.created_at,
            });
        });
        scanned
    }

    fn read_properties(
        &self,
        after: Option<PersonNo>,
        limit: usize,
        names: &[&str],
    ) -> Vec<PersonProperties> {
        let (numbers, facts) = self.after(after, limit);
        let (mut read, mut persons) =
            (Vec::with_capacity(numbers.len()), numbers.iter().zip(facts));
        self.persons.values(&numbers, names, |values| {
            let Some((no, facts)) = persons.next() else { return };
            let member = |(name, json): (&&str, &Option<&str>)| {
                Some(((*name).to_owned(), serde_json::from_str((*json)?).ok()?))
            };
            read.push(PersonProperties {
                no: PersonNo(*no),
                created_at: facts.created_at,
                properties: names.iter().zip(values).filter_map(member).collect(),
            });
        });
        read
    }
}
