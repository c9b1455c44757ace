//! Reordered and repeated batches converge to the same state, for events that commute by the
//! contract: no two of them set the same property of a person.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::harness::{Database, Harness, Sent, event, numbered_uuid};

const USERS: usize = 6;
const ORDERS: std::ops::Range<u64> = 1..5;
/// Deliveries of one batch.
const COPIES_MAX: usize = 3;

/// Batches with events of every kind, by several users.
fn batches() -> Vec<Vec<Sent>> {
    let mut all = Vec::new();
    for user in 0..USERS {
        let (me, stranger) = (format!("user {user}"), format!("stranger {user}"));
        let set = |key: &str| json!({ "$set": { format!("{key} {user}"): user }, "page": "/" });
        all.push(vec![
            event("viewed", &stranger, set("seen")),
            event("paid", &stranger, json!({})),
        ]);
        all.push(vec![event("$identify", &me, json!({ "$anon_distinct_id": stranger }))]);
        all.push(vec![
            event("paid", &me, set("price")),
            event("viewed", &me, json!({ "n": user })),
        ]);
        all.push(vec![event("$create_alias", &me, json!({ "alias": format!("alias {user}") }))]);
        let key = format!("company {}", user % 2);
        let about = json!({ "$group_type": "company", "$group_key": key, "$group_set": { format!("size {user}"): 1 } });
        all.push(vec![
            event("$groupidentify", &me, about),
            event("met", &format!("alias {user}"), json!({ "$groups": { "company": key } })),
        ]);
        all.push(vec![event(
            "quiet",
            &format!("quiet {user}"),
            json!({ "$process_person_profile": false }),
        )]);
    }
    let mut numbers = 0..;
    let mut number = |sent: Sent| sent.with_uuid(numbered_uuid(numbers.next().unwrap()));
    all.into_iter().map(|batch| batch.into_iter().map(&mut number).collect()).collect()
}

/// The state that must not depend on the order of delivery.
async fn state(harness: &Harness) -> BTreeMap<&'static str, Vec<String>> {
    let ids = |name: &'static str| (0..USERS).map(move |user| format!("{name} {user}"));
    let texts: Vec<String> =
        ["user", "stranger", "alias", "quiet"].into_iter().flat_map(ids).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let (ids, persons) =
        harness.catalog.persons().identities(harness.project, &texts).await.unwrap();
    let mut state = BTreeMap::new();
    state.insert("persons", Vec::new());
    for person in persons {
        let own = ids.iter().filter(|id| id.person == Some(person.no));
        let mut own: Vec<&str> = own.map(|id| id.text.as_str()).collect();
        own.sort_unstable();
        let mut properties: Map<String, Value> = person.properties;
        // Depends on which event came first.
        properties.remove("$creator_event_uuid");
        let shown: BTreeMap<String, Value> = properties.into_iter().collect();
        state
            .entry("persons")
            .or_default()
            .push(format!("{own:?} {shown:?} {}", person.is_identified));
    }
    let keys = [(0, "company 0"), (0, "company 1")];
    for group in harness.catalog.groups().by_key(harness.project, &keys).await.unwrap() {
        let shown: BTreeMap<String, Value> = group.properties.into_iter().collect();
        state.entry("groups").or_default().push(format!("{} {shown:?}", group.key));
    }
    for row in harness.rows() {
        let properties: BTreeMap<String, Value> = serde_json::from_str(&row.properties).unwrap();
        let shown = format!("{} {} {} {properties:?}", row.uuid, row.event, row.distinct_id);
        state.entry("events").or_default().push(shown);
    }
    for (what, sql) in [
        ("names", "SELECT name FROM event_definitions"),
        (
            "properties",
            "SELECT owner || name || COALESCE(property_type, '') FROM property_definitions",
        ),
        ("pairs", "SELECT event || property FROM event_properties"),
    ] {
        state.insert(what, harness.database.sql(sql).await);
    }
    state.values_mut().for_each(|lines| lines.sort());
    state
}

// contract: ingestion section 8, order
pub async fn reordered_and_repeated_batches_converge(database: Database) {
    let batches = batches();
    let mut straight = Harness::new(database.another()).await;
    for batch in &batches {
        straight.send(batch).await;
    }
    straight.catch_up(100).await;
    let expected = state(&straight).await;
    assert_eq!(expected["persons"].len(), USERS);
    assert_eq!(expected["events"].len(), batches.iter().map(Vec::len).sum::<usize>());
    for seed in testing::seeds(ORDERS) {
        let mut harness = Harness::new(database.another()).await;
        let mut rng = seed.rng();
        let mut arriving: Vec<&Vec<Sent>> = batches
            .iter()
            .flat_map(|batch| std::iter::repeat_n(batch, rng.range(1..=COPIES_MAX)))
            .collect();
        rng.shuffle(&mut arriving);
        for batch in arriving {
            harness.send(batch).await;
            match rng.range(0..12) {
                0 => harness.flush(),
                1..4 => harness.catch_up(rng.range(1..=20)).await,
                4 => _ = harness.crash_within(rng.range(1..=20), rng.range(0..40)).await,
                _ => {}
            }
        }
        harness.catch_up(100).await;
        let found = state(&harness).await;
        for (what, expected) in &expected {
            assert_eq!(&found[what], expected, "{what}");
        }
    }
}
