//! `hedgerow backup` and `restore` with a running server.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::harness::{PROJECT_KEY, Server, Store};

const EVENTS: &str = "/api/projects/1/events/?limit=1000";

fn numbers(server: &Server) -> Vec<u64> {
    let listing = server.get(EVENTS).expect(200).json();
    let events = listing["results"].as_array().unwrap();
    let mut numbers: Vec<u64> =
        events.iter().filter_map(|event| event["properties"]["number"].as_u64()).collect();
    numbers.sort_unstable();
    numbers
}

fn event(number: u64) -> Value {
    json!({
        "event": "counted", "distinct_id": format!("d{}", number % 5),
        "properties": { "number": number, "$set": { "last": number } },
    })
}

#[test]
fn online_backup_restores_to_an_identical_server() {
    let server = Store::Sqlite.start();
    server.ingest(&(0..50).map(event).collect::<Vec<_>>());
    let flag = json!({ "key": "kept", "name": "kept", "active": true,
        "filters": { "groups": [{ "properties": [], "rollout_percentage": 100 }] } });
    server.post("/api/projects/1/feature_flags/", flag).expect(201);
    let persons = server.get("/api/projects/1/persons/").expect(200).json()["count"].clone();

    let (address, stop) = (server.address(), Arc::new(AtomicBool::new(false)));
    let stopping = stop.clone();
    let sender = std::thread::spawn(move || {
        for number in 100..600 {
            if stopping.load(Ordering::Relaxed) {
                break;
            }
            let mut body = event(number);
            body["api_key"] = PROJECT_KEY.into();
            crate::harness::Request::new(address, "POST", "/capture/")
                .no_key()
                .json(body)
                .send()
                .expect(200);
        }
    });
    let kept = tempfile::tempdir().unwrap();
    let to = kept.path().join("copy").display().to_string();
    let (made, said, stderr) = server.instance().run(&["backup", "--to", &to]);
    stop.store(true, Ordering::Relaxed);
    sender.join().unwrap();
    assert!(made, "{said}{stderr}");
    let (made, _, stderr) = server.instance().run(&["backup", "--to", &to]);
    assert!(!made && stderr.contains("is not empty"), "{stderr}");

    let instance = Store::Sqlite.instance();
    let (restored, said, stderr) = instance.run(&["restore", "--from", &to]);
    assert!(restored, "{said}{stderr}");
    let (again, _, stderr) = instance.run(&["restore", "--from", &to]);
    assert!(!again && stderr.contains("is not empty"), "{stderr}");
    let half = instance.data_dir.path().join("restoring");
    fs::write(&half, "").unwrap();
    let (started, _, stderr) = instance.run(&["serve"]);
    assert!(!started && stderr.contains("was interrupted"), "{stderr}");
    fs::remove_file(half).unwrap();
    let other = instance.serve();
    other.wait_until_applied();
    let found = numbers(&other);
    let different: BTreeSet<u64> = found.iter().copied().collect();
    assert_eq!(different.len(), found.len(), "some are there twice");
    assert!((0..50).all(|number| different.contains(&number)), "{found:?}");
    server.wait_until_applied();
    let all: BTreeSet<u64> = numbers(&server).into_iter().collect();
    assert!(different.is_subset(&all));
    assert_eq!(other.get("/api/projects/1/persons/").expect(200).json()["count"], persons);
    let flags = other.get("/api/projects/1/feature_flags/").expect(200).json();
    assert_eq!(flags["results"][0]["key"], "kept");
    other.ingest(&[event(1_000)]);
    assert!(numbers(&other).contains(&1_000));
}

#[test]
fn corrupted_or_incomplete_backup_is_not_restored() {
    let server = Store::Sqlite.start();
    server.ingest(&[event(1)]);
    let kept = tempfile::tempdir().unwrap();
    let to = kept.path().join("copy");
    let shown = to.display().to_string();
    assert!(server.instance().run(&["backup", "--to", &shown]).0);
    let file = to.join("catalog.sqlite");
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let instance = Store::Sqlite.instance();
    let (restored, _, stderr) = instance.run(&["restore", "--from", &shown]);
    assert!(!restored && stderr.contains("catalog.sqlite is missing or corrupted"), "{stderr}");
    let nothing = kept.path().display().to_string();
    let (restored, _, stderr) = instance.run(&["restore", "--from", &nothing]);
    assert!(!restored && stderr.contains("is not a backup"), "{stderr}");
    assert!(fs::read_dir(instance.data_dir.path()).unwrap().next().is_none());
}
