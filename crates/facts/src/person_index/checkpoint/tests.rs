use std::collections::BTreeMap;
use std::sync::Arc;

use model::Timestamp;
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo};
use serde_json::json;
use testing::{Rng, Seed};

use super::*;
use crate::groups::GroupFacts;

const PROJECT: ProjectId = ProjectId(7);
const JOURNAL: u128 = 42;
const NAMES: [&str; 4] = ["plan", "email", "none", "list"];

/// Draws batches as ingestion makes them: a person that was merged or deleted never comes back.
struct Stream {
    rng: Rng,
    persons: Vec<u32>,
    next_person: u32,
    next_id: u32,
}

impl Stream {
    fn new(seed: &Seed) -> Self {
        Self { rng: seed.rng(), persons: Vec::new(), next_person: 0, next_id: 0 }
    }

    fn any_person(&mut self) -> Option<PersonNo> {
        let count = self.persons.len();
        (count > 0).then(|| PersonNo(self.persons[self.rng.range(0..count)]))
    }

    fn remove(&mut self) -> Option<PersonNo> {
        let count = self.persons.len();
        (count > 1).then(|| PersonNo(self.persons.swap_remove(self.rng.range(0..count))))
    }

    fn person(&mut self, no: PersonNo) -> Arc<Person<JsonObject>> {
        let plan = self.rng.pick(&["free", "pro", "scale"]);
        let email = format!("user{}@example.com", self.rng.next_u64());
        let properties = json!({ "plan": plan, "email": email, "list": [no.0, plan] });
        Arc::new(Person {
            no,
            uuid: Uuid::from_bytes(self.rng.bytes()),
            properties: JsonObject::from(properties.as_object().unwrap()),
            is_identified: self.rng.chance(50),
            version: 0,
            created_at: Timestamp::from_micros(self.rng.range(0..1 << 50)),
        })
    }

    fn batch(&mut self) -> IdentityChanges {
        let mut changes = IdentityChanges::default();
        for _ in 0..self.rng.range(0..3) {
            changes.merges.extend(self.remove().zip(self.any_person()));
        }
        changes.deleted.extend(self.remove().filter(|_| self.rng.chance(30)));
        for _ in 0..self.rng.range(0..20) {
            let no = match self.rng.chance(40) {
                true => self.any_person(),
                false => None,
            };
            let no = no.unwrap_or_else(|| {
                self.persons.push(self.next_person);
                self.next_person += 1;
                PersonNo(self.next_person - 1)
            });
            let person = self.person(no);
            changes.persons.push(person);
        }
        for _ in 0..self.rng.range(0..20) {
            let no = self.rng.range(0..=self.next_id);
            self.next_id = self.next_id.max(no + 1);
            let person = self.any_person().filter(|_| self.rng.chance(80));
            let (no, text) = (DistinctNo(no), format!("id {no}"));
            changes.ids.push(DistinctId { no, text, person, version: 0, version_floor: 0 });
        }
        changes
    }
}

/// Everything that a query can read.
fn contents(persons: &PersonIndex) -> impl PartialEq + std::fmt::Debug + use<> {
    let ids: Vec<(u32, String, u32)> =
        persons.distinct_ids().map(|(no, text, actor)| (no, text.to_owned(), actor)).collect();
    let all: Vec<u32> = (0..persons.persons_len as u32).collect();
    let mut properties = Vec::new();
    persons.properties(&all, |json| properties.push(json.map(str::to_owned)));
    let facts: Vec<_> = persons.iter().collect();
    let columns: BTreeMap<&str, Vec<Option<String>>> = NAMES
        .into_iter()
        .map(|name| {
            let column = persons.column(name);
            let value = |row| column.value(row).map(|value| value.to_json());
            (name, (0..column.codes.len()).map(value).collect())
        })
        .collect();
    (ids, properties, facts, columns, persons.actors_max())
}

#[test]
fn checkpoint_with_later_changes_equals_an_index_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(dir.path().join("people"));
    let seed = testing::seed();
    let mut stream = Stream::new(&seed);
    let mut memory = PersonIndex::new(PROJECT);
    let mut groups = Groups::default();
    groups.set(
        1,
        "acme",
        &GroupFacts {
            created_at: Timestamp::from_micros(5),
            properties: json!({ "size": 12 }).as_object().unwrap().clone(),
        },
    );
    let mut mapped: Option<Checkpoint> = None;
    for round in 0..40_u64 {
        let batches: Vec<_> = (0..5).map(|_| stream.batch()).collect();
        batches.iter().for_each(|changes| memory.apply(changes));
        if let Some(mapped) = &mut mapped {
            mapped.persons.apply_all(batches.iter());
            // A repeated replay changes nothing.
            if round % 3 == 0 {
                mapped.persons.apply_all(batches.iter());
            }
            assert!(contents(&mapped.persons) == contents(&memory), "round {round}");
        }
        if round % 7 == 0 {
            let source = mapped.as_ref().map_or(&memory, |mapped| &mapped.persons);
            checkpoints.write(source, &groups, JOURNAL, round).unwrap();
            let opened = checkpoints.open(PROJECT, JOURNAL, round).unwrap();
            assert_eq!((opened.position, opened.persons.changes()), (round, 0));
            assert_eq!(opened.groups.get(1, "acme").unwrap().property("size"), Some(json!(12)));
            assert!(contents(&opened.persons) == contents(&memory), "round {round}");
            mapped = Some(opened);
        }
    }
}

#[test]
fn checkpoint_of_another_journal_or_ahead_of_the_catalog_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(dir.path().to_owned());
    checkpoints.write(&PersonIndex::new(PROJECT), &Groups::default(), JOURNAL, 10).unwrap();
    assert!(checkpoints.open(PROJECT, JOURNAL, 10).is_some());
    assert!(checkpoints.open(PROJECT, JOURNAL, 9).is_none());
    assert!(checkpoints.open(PROJECT, JOURNAL + 1, 10).is_none());
    assert!(checkpoints.open(ProjectId(8), JOURNAL, 10).is_none());
    assert_eq!(checkpoints.projects(), [PROJECT]);
}

/// What is left by a kill at any step, or by damage, gives the same answers or none.
#[test]
fn damaged_or_incomplete_checkpoint_files_never_change_answers() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(dir.path().to_owned());
    let seed = testing::seed();
    let mut stream = Stream::new(&seed);
    let mut persons = PersonIndex::new(PROJECT);
    (0..20).for_each(|_| persons.apply(&stream.batch()));
    let expected = contents(&persons);
    checkpoints.write(&persons, &Groups::default(), JOURNAL, 10).unwrap();
    let own = dir.path().join("7");
    let files: Vec<PathBuf> =
        fs::read_dir(&own).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1 + NAMES.len());
    let answers = || checkpoints.open(PROJECT, JOURNAL, 10).map(|opened| contents(&opened.persons));
    for file in &files {
        let intact = fs::read(file).unwrap();
        let is_column = file.extension().is_some_and(|extension| extension == "column");
        for _ in 0..12 {
            let mut damaged = intact.clone();
            let bit = stream.rng.range(0..damaged.len() * 8);
            damaged[bit / 8] ^= 1 << (bit % 8);
            // Columns are built again from the persons; persons are the catalog's to give.
            fs::write(file, damaged).unwrap();
            assert_eq!(answers().is_some(), is_column, "bit {bit} of {}", file.display());
            assert!(answers().is_none_or(|answers| answers == expected), "bit {bit}");
        }
        fs::write(file, &intact[..intact.len() / 2]).unwrap();
        assert_eq!(answers().is_some(), is_column);
        fs::remove_file(file).unwrap();
        assert_eq!(answers().is_some(), is_column);
        fs::write(file, intact).unwrap();
    }
    assert!(answers() == Some(expected));
}

#[test]
fn new_checkpoint_replaces_own_files_and_leaves_others() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(dir.path().to_owned());
    let persons = PersonIndex::new(PROJECT);
    checkpoints.write(&persons, &Groups::default(), JOURNAL, 10).unwrap();
    let own = dir.path().join("7");
    let first = fs::read_dir(&own).unwrap().next().unwrap().unwrap().path();
    // Left by a process that was killed while it wrote.
    let killed = first.with_added_extension(TEMPORARY);
    fs::write(&killed, "half").unwrap();
    fs::write(own.join("notes.txt"), "mine").unwrap();
    checkpoints.write(&persons, &Groups::default(), JOURNAL, 11).unwrap();
    assert!(!first.exists() && !killed.exists());
    assert!(own.join("notes.txt").exists());
    assert_eq!(fs::read_dir(&own).unwrap().count(), 2);
}
