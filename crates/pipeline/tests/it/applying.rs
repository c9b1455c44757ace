//! Effects of events, edits and poison records on both stores.

use model::edit::Edit;
use model::event::{KIND_EVENT, RecordError};
use model::{ProjectId, Window};
use pipeline::Error;
use serde_json::{Value, json};

use crate::harness::{Database, Harness, Sent, event, set};

const ALL: Window = Window { limit: 100, offset: 0 };

fn properties(harness: &Harness, at: usize) -> Value {
    serde_json::from_str(&harness.rows()[at].properties).unwrap()
}

pub async fn event_becomes_a_row_a_person_and_definitions(database: Database) {
    let mut harness = Harness::new(database).await;
    let sent = event("signup", "u1", json!({ "plan": "pro", "$set": { "email": "a@b.c" } }));
    harness.send(&[sent.clone(), sent, event("$pageview", "u2", json!({ "n": 1 }))]).await;
    harness.catch_up(100).await;
    let rows = harness.rows();
    let stored: Vec<(&str, &str, u32)> =
        rows.iter().map(|row| (&*row.event, &*row.distinct_id, row.distinct_no)).collect();
    assert_eq!(stored, [("signup", "u1", 1), ("$pageview", "u2", 2)], "a copy is stored once");
    assert_eq!(properties(&harness, 0), json!({ "plan": "pro" }));
    let person = harness.person("u1").await.unwrap();
    assert_eq!(person.properties["email"], "a@b.c");
    let facts = harness.facts().await;
    let names = |facts: &[String]| -> Vec<String> {
        facts.iter().map(|line| line.split(" | ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&facts["events"]), ["$pageview", "signup"]);
    assert_eq!(
        facts["properties"],
        ["event | -1 | n | Numeric", "event | -1 | plan | String", "person | -1 | email | String"]
    );
    assert_eq!(facts["pairs"], ["$pageview | n", "signup | plan"]);
    let counted = harness.running.as_ref().unwrap().pipeline.counters().snapshot();
    assert_eq!((counted.batches, counted.records, counted.applied), (1, 3, 4));
    assert!(harness.catalog.projects().get(harness.project).await.unwrap().ingested_event);
}

pub async fn poison_records_are_dead_lettered_and_the_rest_applied(database: Database) {
    let mut harness = Harness::new(database).await;
    let mut strange = vec![77, 1];
    strange.extend_from_slice(&harness.project.0.to_le_bytes());
    let mut of_nobody = vec![KIND_EVENT, 1];
    of_nobody.extend_from_slice(&99_i64.to_le_bytes());
    // The catalog rejects U+0000 in this id; capture would have dropped the event.
    let poison = event("poison", "a\0b", json!({}));
    let mut sent = vec![
        Sent::Bytes(strange),
        Sent::Bytes(of_nobody),
        Sent::Bytes(vec![KIND_EVENT]),
        poison.clone(),
    ];
    sent.extend((0..9).map(|n| event("good", &format!("u{n}"), set(json!({ "n": n })))));
    sent.insert(8, poison);
    harness.send(&sent).await;
    harness.catch_up(100).await;
    let expected = harness.facts().await;
    assert_eq!(harness.rows().len(), 9);
    for n in 0..9 {
        let person = harness.person(&format!("u{n}")).await.unwrap();
        assert_eq!(person.properties["n"], json!(n));
    }
    let (letters, total) = harness.catalog.dead_letters().list(None, ALL).await.unwrap();
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
    let own = harness.catalog.dead_letters().list(Some(harness.project), ALL).await.unwrap().1;
    assert_eq!(own, 3);
    assert_eq!(letters.iter().filter(|letter| letter.team_id == Some(ProjectId(99))).count(), 1);
    // Replay after a crash changes nothing.
    harness.start().await;
    harness.catch_up(100).await;
    assert_eq!(harness.facts().await, expected);
}

pub async fn catalog_failure_dead_letters_nothing(database: Database) {
    let mut harness = Harness::new(database).await;
    let good = |n: usize| event("good", &format!("u{n}"), set(json!({ "n": n })));
    harness.send(&[good(0), good(1)]).await;
    harness.catch_up(100).await;
    // Fails more often than a poison record is retried.
    for table in ["persons", "event_definitions", "journal_offsets"] {
        let away = format!("ALTER TABLE {table} RENAME TO away");
        harness.database.sql(&away).await;
        // A new event name requires a write to the table.
        harness
            .send(&[
                event(table, "u2", json!({})),
                good(2),
                event("$identify", "u0", json!({ "$anon_distinct_id": "u1" })),
            ])
            .await;
        for _ in 0..5 {
            assert!(harness.try_catch_up(100).await.is_err(), "applied without {table}");
        }
        harness.database.sql(&format!("ALTER TABLE away RENAME TO {table}")).await;
        harness.catch_up(100).await;
    }
    assert_eq!(harness.rows().len(), 11);
    assert_eq!(harness.catalog.dead_letters().list(None, ALL).await.unwrap().1, 0);
    let (zero, one) = (harness.person("u0").await.unwrap(), harness.person("u1").await.unwrap());
    assert_eq!(zero.uuid, one.uuid);
    assert_eq!(harness.person("u2").await.unwrap().properties["n"], json!(2));
}

// contract: ingestion 112-115
pub async fn groups_become_columns_up_to_five_types(database: Database) {
    let mut harness = Harness::new(database).await;
    let identify = json!({ "$group_type": "company", "$group_key": "acme",
        "$group_set": { "name": "A" } });
    harness.send(&[event("$groupidentify", "u", identify)]).await;
    harness.catch_up(10).await;
    let groups = json!({ "$groups": { "company": "acme", "team": 5, "a": "1", "b": "2", "c": "3",
        "sixth": "x" } });
    harness.send(&[event("e", "u", groups)]).await;
    harness.catch_up(10).await;
    let row = &harness.rows()[1];
    let columns: Vec<&str> = row.groups.iter().map(|key| key.as_deref().unwrap()).collect();
    assert_eq!(columns.len(), 5);
    assert_eq!(columns[0], "acme");
    let stored = properties(&harness, 1);
    assert_eq!((&stored["$group_0"], &stored["$groups"]["sixth"]), (&json!("acme"), &json!("x")));
    assert!(stored.get("$group_5").is_none());
    let facts = harness.facts().await;
    assert_eq!(facts["types"].len(), 5);
    assert_eq!(facts["types"][0], "0 | company");
    assert_eq!(facts["groups"].len(), 1, "naming a group makes none");
    assert!(facts["properties"].contains(&"group | 0 | name | String".to_owned()));
    // Replay after a crash gives the same columns.
    harness.start().await;
    harness.catch_up(10).await;
    assert_eq!(harness.facts().await, facts);
}

pub async fn pipeline_refuses_stores_of_another_journal(database: Database) {
    let mut harness = Harness::new(database).await;
    harness.send(&[event("e", "u", json!({}))]).await;
    harness.catch_up(10).await;
    harness.flush();
    harness.running = None;
    let older = harness.database.another();
    let other = Harness::new(older).await;
    // A catalog that is behind the warehouse.
    let own = std::mem::replace(&mut harness.catalog, other.catalog.clone());
    let refused = harness.try_start().await;
    assert!(matches!(refused, Err(Error::CatalogBehind { catalog: 1, warehouse: 2 })));
    harness.catalog = own;
    harness.lose_journal().await;
    assert!(matches!(harness.try_start().await, Err(Error::OtherJournal { .. })));
}

pub async fn rename_property_edit_changes_all_persons(database: Database) {
    // More than one transaction changes.
    const PERSONS: usize = 1_100;
    let mut harness = Harness::new(database).await;
    let sent = |n: usize| event("e", &format!("u{n}"), set(json!({ "old": n, "new": -1, "n": n })));
    let mut sent: Vec<Sent> = (0..PERSONS).map(sent).collect();
    sent.push(event("e", "other", set(json!({ "new": 5, "quoted": "\"old\":" }))));
    let (from, to) = ("old".to_owned(), "new".to_owned());
    sent.push(Sent::Edit(Edit::RenameProperty { from, to }));
    sent.push(event("e", "late", set(json!({ "old": 7 }))));
    harness.send(&sent).await;
    harness.catch_up(500).await;
    let properties_of = async |id: &str| {
        let mut properties = harness.person(id).await.unwrap().properties;
        properties.remove("$creator_event_uuid");
        json!(properties)
    };
    for n in [0, 1, 999, 1_000, PERSONS - 1] {
        assert_eq!(properties_of(&format!("u{n}")).await, json!({ "new": n, "n": n }));
    }
    assert_eq!(properties_of("other").await, json!({ "new": 5, "quoted": "\"old\":" }));
    assert_eq!(
        properties_of("late").await,
        json!({ "old": 7 }),
        "what comes later is another matter"
    );
    let facts = harness.facts().await;
    harness.start().await;
    harness.catch_up(500).await;
    assert_eq!(harness.facts().await, facts);
}

pub async fn deleted_definition_is_recreated_by_its_event(database: Database) {
    let mut harness = Harness::new(database).await;
    harness.send(&[event("e", "u", json!({}))]).await;
    harness.catch_up(10).await;
    let first = harness.database.sql("SELECT id FROM event_definitions").await;
    let id = first[0].parse().unwrap();
    let actor = catalog::Actor {
        user: None,
        organization: harness.catalog.organizations().first().await.unwrap(),
        project: Some(harness.project),
    };
    harness.catalog.event_definitions().delete(&actor, harness.project, id).await.unwrap();
    harness.send(&[event("e", "u", json!({}))]).await;
    harness.catch_up(10).await;
    let second = harness.database.sql("SELECT id FROM event_definitions").await;
    assert_eq!(second.len(), 1);
    assert_ne!(first, second);
}
