//! What one event does, and what a bad one does not.

use model::edit::Edit;
use model::event::{KIND_EVENT, RecordError};
use model::{ProjectId, Window};
use pipeline::Error;
use serde_json::{Value, json};

use crate::world::{Database, Sent, World, event, set};

const ALL: Window = Window { limit: 100, offset: 0 };

fn properties(world: &World, at: usize) -> Value {
    serde_json::from_str(&world.rows()[at].properties).unwrap()
}

pub async fn an_event_becomes_a_row_a_person_and_definitions(database: Database) {
    let mut world = World::new(database).await;
    let sent = event("signup", "u1", json!({ "plan": "pro", "$set": { "email": "a@b.c" } }));
    world.send(&[sent.clone(), sent, event("$pageview", "u2", json!({ "n": 1 }))]).await;
    world.catch_up(100).await;
    let rows = world.rows();
    let told: Vec<(&str, &str, u32)> =
        rows.iter().map(|row| (&*row.event, &*row.distinct_id, row.distinct_no)).collect();
    assert_eq!(told, [("signup", "u1", 1), ("$pageview", "u2", 2)], "a copy is stored once");
    assert_eq!(properties(&world, 0), json!({ "plan": "pro" }));
    let person = world.person("u1").await.unwrap();
    assert_eq!(person.properties["email"], "a@b.c");
    let facts = world.facts().await;
    let names = |facts: &[String]| -> Vec<String> {
        facts.iter().map(|line| line.split(" | ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&facts["events"]), ["$pageview", "signup"]);
    assert_eq!(
        facts["properties"],
        ["event | -1 | n | Numeric", "event | -1 | plan | String", "person | -1 | email | String"]
    );
    assert_eq!(facts["pairs"], ["$pageview | n", "signup | plan"]);
    let counted = world.running.as_ref().unwrap().pipeline.counters().snapshot();
    assert_eq!((counted.batches, counted.records, counted.applied), (1, 3, 4));
    assert!(world.catalog.projects().get(world.project).await.unwrap().ingested_event);
}

pub async fn records_that_cannot_be_applied_are_set_aside_and_stop_nobody(database: Database) {
    let mut world = World::new(database).await;
    let mut strange = vec![77, 1];
    strange.extend_from_slice(&world.project.0.to_le_bytes());
    let mut of_nobody = vec![KIND_EVENT, 1];
    of_nobody.extend_from_slice(&99_i64.to_le_bytes());
    // No catalog can keep this id, and capture would not have let it in.
    let poison = event("poison", "a\0b", json!({}));
    let mut sent = vec![
        Sent::Bytes(strange),
        Sent::Bytes(of_nobody),
        Sent::Bytes(vec![KIND_EVENT]),
        poison.clone(),
    ];
    sent.extend((0..9).map(|n| event("good", &format!("u{n}"), set(json!({ "n": n })))));
    sent.insert(8, poison);
    world.send(&sent).await;
    world.catch_up(100).await;
    let expected = world.facts().await;
    assert_eq!(world.rows().len(), 9);
    for n in 0..9 {
        let person = world.person(&format!("u{n}")).await.unwrap();
        assert_eq!(person.properties["n"], json!(n));
    }
    let (letters, total) = world.catalog.dead_letters().list(None, ALL).await.unwrap();
    assert_eq!(total, 5);
    let mut reasons: Vec<(i64, &str, &str)> = letters
        .iter()
        .map(|letter| (letter.position, letter.step.as_str(), letter.reason.as_str()))
        .collect();
    reasons.sort();
    let unknown = RecordError::UnknownKind(77).to_string();
    let nul = "Null characters are not allowed.";
    assert_eq!(
        reasons,
        [
            (1, "read", unknown.as_str()),
            (2, "read", "its project is not there"),
            (3, "read", "the record does not say its project"),
            (4, "apply", nul),
            (9, "apply", nul),
        ]
    );
    let own = world.catalog.dead_letters().list(Some(world.project), ALL).await.unwrap().1;
    assert_eq!(own, 3);
    assert_eq!(letters.iter().filter(|letter| letter.team_id == Some(ProjectId(99))).count(), 1);
    // Read once more after a crash, they stay where they are.
    world.start().await;
    world.catch_up(100).await;
    assert_eq!(world.facts().await, expected);
}

pub async fn a_catalog_in_trouble_sets_nothing_aside(database: Database) {
    let mut world = World::new(database).await;
    let good = |n: usize| event("good", &format!("u{n}"), set(json!({ "n": n })));
    world.send(&[good(0), good(1)]).await;
    world.catch_up(100).await;
    // More often than an event that is itself to blame is tried.
    for table in ["persons", "event_definitions", "journal_offsets"] {
        let away = format!("ALTER TABLE {table} RENAME TO away");
        world.database.sql(&away).await;
        // A name that is not known yet has to be written down.
        world
            .send(&[
                event(table, "u2", json!({})),
                good(2),
                event("$identify", "u0", json!({ "$anon_distinct_id": "u1" })),
            ])
            .await;
        for _ in 0..5 {
            assert!(world.try_catch_up(100).await.is_err(), "applied without {table}");
        }
        world.database.sql(&format!("ALTER TABLE away RENAME TO {table}")).await;
        world.catch_up(100).await;
    }
    assert_eq!(world.rows().len(), 11);
    assert_eq!(world.catalog.dead_letters().list(None, ALL).await.unwrap().1, 0);
    let (zero, one) = (world.person("u0").await.unwrap(), world.person("u1").await.unwrap());
    assert_eq!(zero.uuid, one.uuid);
    assert_eq!(world.person("u2").await.unwrap().properties["n"], json!(2));
}

// contract: ingestion 112-115
pub async fn groups_become_columns_and_a_sixth_type_none(database: Database) {
    let mut world = World::new(database).await;
    let identify = json!({ "$group_type": "company", "$group_key": "acme",
        "$group_set": { "name": "A" } });
    world.send(&[event("$groupidentify", "u", identify)]).await;
    world.catch_up(10).await;
    let groups = json!({ "$groups": { "company": "acme", "team": 5, "a": "1", "b": "2", "c": "3",
        "sixth": "x" } });
    world.send(&[event("e", "u", groups)]).await;
    world.catch_up(10).await;
    let row = &world.rows()[1];
    let columns: Vec<&str> = row.groups.iter().map(|key| key.as_deref().unwrap()).collect();
    assert_eq!(columns.len(), 5);
    assert_eq!(columns[0], "acme");
    let stored = properties(&world, 1);
    assert_eq!((&stored["$group_0"], &stored["$groups"]["sixth"]), (&json!("acme"), &json!("x")));
    assert!(stored.get("$group_5").is_none());
    let facts = world.facts().await;
    assert_eq!(facts["types"].len(), 5);
    assert_eq!(facts["types"][0], "0 | company");
    assert_eq!(facts["groups"].len(), 1, "naming a group makes none");
    assert!(facts["properties"].contains(&"group | 0 | name | String".to_owned()));
    // After a crash the same columns come back.
    world.start().await;
    world.catch_up(10).await;
    assert_eq!(world.facts().await, facts);
}

pub async fn stores_that_do_not_belong_together_are_refused(database: Database) {
    let mut world = World::new(database).await;
    world.send(&[event("e", "u", json!({}))]).await;
    world.catch_up(10).await;
    world.flush();
    world.running = None;
    let older = world.database.another().await;
    let other = World::new(older).await;
    // A catalog that knows nothing of what the warehouse has.
    let own = std::mem::replace(&mut world.catalog, other.catalog.clone());
    let refused = world.try_start().await;
    assert!(matches!(refused, Err(Error::CatalogBehind { catalog: 1, warehouse: 2 })));
    world.catalog = own;
    world.lose_journal().await;
    assert!(matches!(world.try_start().await, Err(Error::OtherJournal { .. })));
}

pub async fn a_property_takes_another_name_for_everybody(database: Database) {
    // More than are changed at once.
    const PERSONS: usize = 1_100;
    let mut world = World::new(database).await;
    let sent = |n: usize| event("e", &format!("u{n}"), set(json!({ "old": n, "new": -1, "n": n })));
    let mut sent: Vec<Sent> = (0..PERSONS).map(sent).collect();
    sent.push(event("e", "other", set(json!({ "new": 5, "quoted": "\"old\":" }))));
    let (from, to) = ("old".to_owned(), "new".to_owned());
    sent.push(Sent::Edit(Edit::RenameProperty { from, to }));
    sent.push(event("e", "late", set(json!({ "old": 7 }))));
    world.send(&sent).await;
    world.catch_up(500).await;
    let told = async |id: &str| {
        let mut properties = world.person(id).await.unwrap().properties;
        properties.remove("$creator_event_uuid");
        json!(properties)
    };
    for n in [0, 1, 999, 1_000, PERSONS - 1] {
        assert_eq!(told(&format!("u{n}")).await, json!({ "new": n, "n": n }));
    }
    assert_eq!(told("other").await, json!({ "new": 5, "quoted": "\"old\":" }));
    assert_eq!(told("late").await, json!({ "old": 7 }), "what comes later is another matter");
    let facts = world.facts().await;
    world.start().await;
    world.catch_up(500).await;
    assert_eq!(world.facts().await, facts);
}

pub async fn a_deleted_definition_comes_back_with_its_event(database: Database) {
    let mut world = World::new(database).await;
    world.send(&[event("e", "u", json!({}))]).await;
    world.catch_up(10).await;
    let first = world.database.sql("SELECT id FROM event_definitions").await;
    let id = first[0].parse().unwrap();
    let actor = catalog::Actor {
        user: None,
        organization: world.catalog.organizations().first().await.unwrap(),
        project: Some(world.project),
    };
    world.catalog.event_definitions().delete(&actor, world.project, id).await.unwrap();
    world.send(&[event("e", "u", json!({}))]).await;
    world.catch_up(10).await;
    let second = world.database.sql("SELECT id FROM event_definitions").await;
    assert_eq!(second.len(), 1);
    assert_ne!(first, second);
}
