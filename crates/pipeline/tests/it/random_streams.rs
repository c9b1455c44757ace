//! Random streams of all events and edits that change persons, with and without crashes.

use std::collections::{BTreeMap, BTreeSet};

use model::edit::{DeleteScope, Edit, SplitIds};
use serde_json::{Map, Value, json};

use crate::harness::{Database, Harness, Sent, event};
use crate::reference_model::{MergeKind, ReferenceModel, Step};

const STEPS: usize = 160;
const IDS: usize = 8;
const SEEDS: std::ops::Range<u64> = 1..5;
/// More polls than applying the largest batch takes.
const POLLS_MAX: usize = 80;

/// A seeded random number generator.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn id(&mut self) -> String {
        format!("d{}", self.roll(IDS))
    }

    fn properties(&mut self) -> Map<String, Value> {
        let count = self.roll(3);
        (0..count).map(|_| (format!("p{}", self.roll(4)), json!(self.roll(100)))).collect()
    }

    fn step(&mut self) -> Step {
        match self.roll(20) {
            0..8 => Step::Set {
                id: self.id(),
                set: self.properties(),
                once: self.properties(),
                unset: (self.roll(4) == 0).then(|| format!("p{}", self.roll(4))),
            },
            8..10 => Step::Personless { id: self.id() },
            10..16 => Step::Merge {
                into: self.id(),
                other: self.id(),
                kind: match self.roll(4) {
                    0 => MergeKind::Dangerously,
                    1 => MergeKind::Alias,
                    _ => MergeKind::Identify,
                },
            },
            16..18 => Step::Group {
                id: self.id(),
                key: format!("g{}", self.roll(3)),
                set: self.properties(),
            },
            18 => {
                let (person, events) = [(true, false), (true, true), (false, true)][self.roll(3)];
                Step::Delete { id: self.id(), person, events }
            }
            _ => Step::Split { id: self.id() },
        }
    }
}

/// The record of a step. An edit references its person by dense id, as the API does.
async fn record(harness: &Harness, step: &Step) -> Option<Sent> {
    Some(match step {
        Step::Set { id, set, once, unset } => {
            let unset: Vec<&String> = unset.iter().collect();
            event("e", id, json!({ "$set": set, "$set_once": once, "$unset": unset, "v": 1 }))
        }
        Step::Personless { id } => event("p", id, json!({ "$process_person_profile": false })),
        Step::Merge { into, other, kind } => match kind {
            MergeKind::Identify => event("$identify", into, json!({ "$anon_distinct_id": other })),
            MergeKind::Alias => event("$create_alias", into, json!({ "alias": other })),
            MergeKind::Dangerously => event("$merge_dangerously", into, json!({ "alias": other })),
        },
        Step::Group { id, key, set } => event(
            "$groupidentify",
            id,
            json!({ "$group_type": "company", "$group_key": key, "$group_set": set }),
        ),
        Step::Delete { id, person, events } => {
            let scope = match (person, events) {
                (true, true) => DeleteScope::Both,
                (true, false) => DeleteScope::Person,
                _ => DeleteScope::Events,
            };
            let persons = vec![harness.person(id).await?.no];
            Sent::Edit(Edit::DeletePersons { persons, scope })
        }
        Step::Split { id } => {
            let person = harness.person(id).await?.no;
            Sent::Edit(Edit::SplitPerson { person, ids: SplitIds::AllExcept(id.clone()) })
        }
    })
}

/// The state of the stores, in the format of [`ReferenceModel::state`].
async fn state(harness: &Harness) -> BTreeSet<String> {
    let texts: Vec<String> = (0..IDS).map(|n| format!("d{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (ids, persons) =
        harness.catalog.persons().identities(harness.project, &texts).await.unwrap();
    let mut events: BTreeMap<u32, usize> = BTreeMap::new();
    harness.rows().iter().for_each(|row| *events.entry(row.distinct_no).or_default() += 1);
    let count = |no: u32| events.get(&no).copied().unwrap_or(0);
    let mut lines = BTreeSet::new();
    for person in persons {
        let mut own: Vec<_> = ids.iter().filter(|id| id.person == Some(person.no)).collect();
        own.sort_by(|a, b| a.text.cmp(&b.text));
        let events: usize = own.iter().map(|id| count(id.no.0)).sum();
        let own: Vec<&String> = own.iter().map(|id| &id.text).collect();
        let mut properties = person.properties.clone();
        properties.remove("$creator_event_uuid");
        let properties = Value::Object(properties);
        lines.insert(format!("{own:?} {properties} {} {events}", person.is_identified));
    }
    for id in ids.iter().filter(|id| id.person.is_none()) {
        lines.insert(format!("{} {}", id.text, count(id.no.0)));
    }
    let keys: Vec<(u8, &str)> = vec![(0, "g0"), (0, "g1"), (0, "g2")];
    for group in harness.catalog.groups().by_key(harness.project, &keys).await.unwrap() {
        lines.insert(format!("group {} {}", group.key, Value::Object(group.properties)));
    }
    lines
}

// contract: ingestion 97-102, 105-110
pub async fn random_event_streams_agree_with_the_reference_model(database: Database) {
    let mut next = Some(database);
    for seed in SEEDS {
        let database = next.take().unwrap();
        next = Some(database.another().await);
        let mut harness = Harness::new(database).await;
        let (mut dice, mut model) = (Dice(seed * 7_919), ReferenceModel::default());
        for number in 0..STEPS {
            let step = dice.step();
            // Users edit what they see applied; events arrive in between.
            if matches!(step, Step::Delete { .. } | Step::Split { .. }) {
                harness.catch_up(1 + dice.roll(40)).await;
            }
            let Some(record) = record(&harness, &step).await else { continue };
            model.apply(&step);
            harness.send(&[record]).await;
            if dice.roll(10) == 0 {
                harness.catch_up(1 + dice.roll(40)).await;
                assert_eq!(state(&harness).await, model.state(), "seed {seed}, step {number}");
            }
            if dice.roll(25) == 0 {
                harness.flush();
            }
        }
        harness.catch_up(64).await;
        assert_eq!(state(&harness).await, model.state(), "seed {seed}");
        assert!(model.persons.len() > 1 && !harness.rows().is_empty());
    }
}

pub async fn random_streams_with_crashes_agree_with_uninterrupted_runs(database: Database) {
    let mut uninterrupted = Harness::new(database.another().await).await;
    let mut crashing = Harness::new(database).await;
    let mut dice = Dice(104_729);
    let (mut crashes, mut sent) = (0, 0);
    while sent < STEPS {
        let mut records = Vec::new();
        for _ in 0..=dice.roll(12) {
            let step = dice.step();
            if let Some(record) = record(&uninterrupted, &step).await {
                records.push(record);
            }
        }
        sent += records.len();
        uninterrupted.send(&records).await;
        crashing.send(&records).await;
        uninterrupted.catch_up(100).await;
        // Up to three crashes; some records are replayed several times.
        for _ in 0..dice.roll(4) {
            let (most, polls) = (1 + dice.roll(30), dice.roll(POLLS_MAX));
            crashes += usize::from(crashing.crash_within(most, polls).await);
        }
        crashing.catch_up(1 + dice.roll(30)).await;
        if dice.roll(6) == 0 {
            crashing.flush();
        }
    }
    assert!(crashes > 10, "only {crashes} crashes");
    let (expected, found) = (uninterrupted.facts().await, crashing.facts().await);
    for (what, expected) in &expected {
        assert_eq!(&found[what], expected, "{what} after {crashes} crashes");
    }
    assert!(!expected["rows"].is_empty() && !expected["persons"].is_empty());
}
