//! Persons that queries read survive restarts, kills, and damage to the files below `people/`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testing::Rng;

use crate::harness::{Instance, Server, Store, on_both_stores};
use crate::queries::run::rows;

on_both_stores! {
    person_answers_survive_kills_and_damaged_checkpoints,
}

const ROUNDS: usize = 12;
const EVENTS: usize = 30;
const PLANS: [&str; 3] = ["free", "pro", "scale"];

/// Events of new and known persons: properties that change, merges, deletions and groups.
fn act(server: &Server, rng: &mut Rng, round: usize) {
    let id = |rng: &mut Rng| format!("user {}", rng.range(0..(round + 1) * EVENTS));
    let mut events = Vec::new();
    for _ in 0..EVENTS {
        let (distinct_id, other) = (id(rng), id(rng));
        let plan = rng.pick(&PLANS);
        events.push(match rng.range(0..10) {
            0 => json!({ "event": "$create_alias", "distinct_id": distinct_id,
                "properties": { "alias": other } }),
            1 => json!({ "event": "$groupidentify", "distinct_id": distinct_id, "properties": {
                "$group_type": "company", "$group_key": format!("company {}", rng.range(0..3)),
                "$group_set": { "size": rng.range(0..100) } } }),
            2 => json!({ "event": "seen", "distinct_id": distinct_id,
                "properties": { "$process_person_profile": false } }),
            _ => json!({ "event": "seen", "distinct_id": distinct_id,
                "properties": { "$set": { "plan": plan, "email": format!("{other}@example.com") } } }),
        });
    }
    server.ingest(&events);
    let persons = server.get("/api/projects/1/persons/?limit=5").expect(200).json();
    if let Some(person) = persons["results"].as_array().unwrap().first() {
        let path = format!("/api/projects/1/persons/{}/", person["uuid"].as_str().unwrap());
        server.delete(&path).expect(202);
        server.wait_until_applied();
    }
}

/// What queries say about persons and groups.
fn answers(server: &Server) -> Vec<Value> {
    [
        "select distinct_id, person_id, person.properties.plan, count() from events \
         group by distinct_id, person_id, person.properties.plan order by distinct_id limit 5000",
        "select id, properties, is_identified, created_at from persons order by id limit 5000",
        "select distinct_id, person_id from person_distinct_ids order by distinct_id limit 5000",
        "select key, properties from groups order by key limit 5000",
        "select person.properties.email, count() from events group by 1 order by 1 limit 5000",
    ]
    .into_iter()
    .map(|text| rows(server, text))
    .collect()
}

/// Reports the first row that differs, not whole answers.
fn assert_same(found: &[Value], expected: &[Value], when: &str) {
    for (query, (found, expected)) in found.iter().zip(expected).enumerate() {
        let rows = |answer: &Value| answer.as_array().cloned().unwrap_or_default();
        let (found, expected) = (rows(found), rows(expected));
        let pairs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        assert_eq!(pairs, None, "{when}, query {query}");
        assert_eq!(found.len(), expected.len(), "{when}, query {query}");
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn damage(people: &Path, rng: &mut Rng) {
    let files = files(people);
    if files.is_empty() {
        return;
    }
    let file = rng.pick(&files);
    let mut bytes = fs::read(&file).unwrap();
    match rng.range(0..3) {
        0 => fs::remove_file(&file).unwrap(),
        1 => fs::write(&file, &bytes[..bytes.len() / 2]).unwrap(),
        _ if bytes.is_empty() => {}
        _ => {
            let at = rng.range(0..bytes.len());
            bytes[at] ^= 1 << rng.range(0..8);
            fs::write(&file, bytes).unwrap();
        }
    }
}

fn person_answers_survive_kills_and_damaged_checkpoints(store: Store) {
    let seed = testing::seed();
    let mut rng = seed.rng();
    let mut server = store.start_with(&[("HEDGEROW_PERSON_CHECKPOINT_CHANGES", "20")]);
    for round in 0..ROUNDS {
        act(&server, &mut rng, round);
        let before = answers(&server);
        // Answers do not change when the index is mapped from its new checkpoint.
        assert_same(&answers(&server), &before, &format!("round {round}, mapped"));
        let people = server.file("people");
        server = match rng.range(0..4) {
            0 => server.restart(),
            1 => server.kill().serve(),
            2 => {
                let stopped: Instance = server.kill();
                damage(&people, &mut rng);
                stopped.serve()
            }
            _ => {
                let (_, _, stopped) = server.stop();
                damage(&people, &mut rng);
                stopped.serve()
            }
        };
        // Events that were not in files are read from the journal again.
        server.wait_until_applied();
        assert_same(&answers(&server), &before, &format!("round {round}, restarted"));
    }
    let (people, before) = (server.file("people"), answers(&server));
    let checkpoint =
        |file: &PathBuf| file.extension().is_some_and(|extension| extension == "persons");
    assert!(files(&people).iter().any(checkpoint), "no checkpoint was written");
    let (_, _, stopped) = server.stop();
    fs::remove_dir_all(&people).unwrap();
    let server = stopped.serve();
    assert_same(&answers(&server), &before, "rebuilt");
}
