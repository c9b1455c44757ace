//! Random streams of all events and edits that change persons, with and without crashes.

use std::collections::{BTreeMap, BTreeSet};

use model::edit::{DeleteScope, Edit, SplitIds};
use serde_json::{Map, Value, json};
use testing::Rng;

use crate::harness::{Database, Harness, Sent, event, numbered_uuid};
use crate::reference_model::{MergeKind, ReferenceModel, Step};

const STEPS: usize = 160;
const IDS: usize = 8;
const SEEDS: std::ops::Range<u64> = 1..5;
/// More new persons than one bulk statement inserts.
const NEW_PERSONS: usize = 8_400;
/// More polls than applying the largest batch takes.
const POLLS_MAX: usize = 80;

fn id(rng: &mut Rng) -> String {
    format!("d{}", rng.range(0..IDS))
}

fn properties(rng: &mut Rng) -> Map<String, Value> {
    let count = rng.range(0..3);
    (0..count).map(|_| (format!("p{}", rng.range(0..4)), json!(rng.range(0..100)))).collect()
}

fn any_step(rng: &mut Rng) -> Step {
    match rng.range(0..20) {
        0..8 => Step::Set {
            id: id(rng),
            set: properties(rng),
            once: properties(rng),
            unset: (rng.range(0..4) == 0).then(|| format!("p{}", rng.range(0..4))),
        },
        8..10 => Step::Personless { id: id(rng) },
        10..16 => Step::Merge {
            into: id(rng),
            other: id(rng),
            kind: match rng.range(0..4) {
                0 => MergeKind::Dangerously,
                1 => MergeKind::Alias,
                _ => MergeKind::Identify,
            },
        },
        16..18 => {
            Step::Group { id: id(rng), key: format!("g{}", rng.range(0..3)), set: properties(rng) }
        }
        18 => {
            let (person, events) = [(true, false), (true, true), (false, true)][rng.range(0..3)];
            Step::Delete { id: id(rng), person, events }
        }
        _ => Step::Split { id: id(rng) },
    }
}

/// The record of a step. An edit references its person by dense id, as the API does.
async fn record(harness: &Harness, step: &Step, rng: &mut Rng) -> Option<Sent> {
    let uuid = numbered_uuid(rng.next_u64());
    let event = |name: &str, id: &str, properties| event(name, id, properties).with_uuid(uuid);
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
    for seed in testing::seeds(SEEDS) {
        let database = next.take().unwrap();
        next = Some(database.another());
        let mut harness = Harness::new(database).await;
        let (mut rng, mut model) = (seed.rng(), ReferenceModel::default());
        for number in 0..STEPS {
            let step = any_step(&mut rng);
            // Users edit what they see applied; events arrive in between.
            if matches!(step, Step::Delete { .. } | Step::Split { .. }) {
                harness.catch_up(rng.range(1..=40)).await;
            }
            let Some(record) = record(&harness, &step, &mut rng).await else { continue };
            model.apply(&step);
            harness.send(&[record]).await;
            if rng.range(0..10) == 0 {
                harness.catch_up(rng.range(1..=40)).await;
                assert_eq!(state(&harness).await, model.state(), "step {number}");
            }
            if rng.range(0..25) == 0 {
                harness.flush();
            }
        }
        harness.catch_up(64).await;
        assert_eq!(state(&harness).await, model.state());
        assert!(model.persons.len() > 1 && !harness.rows().is_empty());
    }
}

pub async fn random_streams_with_crashes_agree_with_uninterrupted_runs(database: Database) {
    let mut uninterrupted = Harness::new(database.another()).await;
    let mut crashing = Harness::new(database).await;
    let seed = testing::seed_or(104_729);
    let mut rng = seed.rng();
    let (mut crashes, mut sent) = (0, 0);
    while sent < STEPS {
        let mut records = Vec::new();
        for _ in 0..=rng.range(0..12) {
            let step = any_step(&mut rng);
            if let Some(record) = record(&uninterrupted, &step, &mut rng).await {
                records.push(record);
            }
        }
        sent += records.len();
        uninterrupted.send(&records).await;
        crashing.send(&records).await;
        uninterrupted.catch_up(100).await;
        // Up to three crashes; some records are replayed several times.
        for _ in 0..rng.range(0..4) {
            let (most, polls) = (rng.range(1..=30), rng.range(0..POLLS_MAX));
            crashes += usize::from(crashing.crash_within(most, polls).await);
        }
        crashing.catch_up(rng.range(1..=30)).await;
        if rng.range(0..6) == 0 {
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

pub async fn new_persons_in_one_batch_equal_those_in_many(database: Database) {
    let mut small_batches = Harness::new(database.another()).await;
    let mut one_batch = Harness::new(database).await;
    let seed = testing::seed_or(15_485_863);
    let mut rng = seed.rng();
    let mut records = Vec::new();
    for number in 0..NEW_PERSONS {
        // Their order is not that of their ids.
        let id = format!("{:04x}-{number}", rng.range(0..1 << 16));
        let email = format!("{number}@example.com");
        records.push(event("e", &id, json!({ "$set": { "email": email, "plan": "free" } })));
        match rng.range(0..40) {
            0 => records.push(event("e", &id, json!({ "$set": { "plan": "pro" } }))),
            1 => {
                let anonymous = format!("anonymous {number}");
                records.push(event("$identify", &id, json!({ "$anon_distinct_id": anonymous })));
            }
            _ => {}
        }
    }
    for harness in [&small_batches, &one_batch] {
        harness.send(&records).await;
    }
    small_batches.catch_up(700).await;
    one_batch.catch_up(2 * NEW_PERSONS).await;
    let (expected, found) = (small_batches.facts().await, one_batch.facts().await);
    for (what, expected) in &expected {
        assert_eq!(&found[what], expected, "{what}");
    }
    assert_eq!(expected["persons"].len(), NEW_PERSONS);
}
