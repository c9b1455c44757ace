//! Scans all persons of a project in memory: blast radius and dry run evaluate flags for each.

use std::sync::Arc;

use catalog::ScannedPerson;
use facts::PersonIndex;
use model::person::PersonNo;

/// The persons of a project at one position, in the order of their dense ids.
#[derive(Debug)]
pub struct PersonScan {
    persons: Arc<PersonIndex>,
    first_distinct_nos: Vec<u32>,
}

impl PersonScan {
    pub(crate) fn new(persons: Arc<PersonIndex>) -> Self {
        let first_distinct_nos = persons.first_distinct_nos();
        Self { persons, first_distinct_nos }
    }

    /// Persons after this one. A person that lost all distinct ids has an empty one.
    pub fn read(&self, after: Option<PersonNo>, limit: usize) -> Vec<ScannedPerson> {
        let first = after.map_or(0, |no| no.0 + 1);
        let persons: Vec<_> = self.persons.from(first).take(limit).collect();
        let numbers: Vec<u32> = persons.iter().map(|(no, _)| *no).collect();
        let (mut scanned, mut facts) = (Vec::with_capacity(numbers.len()), persons.iter());
        self.persons.properties(&numbers, |json| {
            let Some((no, facts)) = facts.next() else { return };
            let distinct_no = self.first_distinct_nos.get(*no as usize);
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
}
