//! Many clients at once: nothing is lost, nothing fails.

use std::collections::BTreeSet;
use std::thread;

use serde_json::json;

use crate::harness::{Server, Store, both};

const CLIENTS: usize = 50;
const KEYS: &str = "/api/personal_api_keys/";

both! {
    fifty_clients_write_different_things,
    fifty_clients_write_the_same_thing,
}

/// What each of fifty clients that start together got.
fn at_once<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = std::sync::Barrier::new(CLIENTS);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    work(client)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    })
}

fn fifty_clients_write_different_things(store: Store) {
    let server = Server::start(store);
    at_once(|client| {
        let body = json!({ "label": format!("key {client}"), "scopes": ["dashboard:read"] });
        let id = server.post(KEYS, body).expect(201).json()["id"].as_str().unwrap().to_owned();
        let path = format!("{KEYS}{id}/");
        let body = json!({ "label": format!("renamed {client}") });
        server.patch(&path, body).expect(200);
        if client % 2 == 0 {
            server.delete(&path).expect(204);
        }
    });
    let keys = server.get(KEYS).expect(200).json();
    let labels: BTreeSet<String> = keys
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|key| key["label"].as_str()?.strip_prefix("renamed ").map(str::to_owned))
        .collect();
    let expected = (0..CLIENTS).filter(|client| client % 2 == 1).map(|client| client.to_string());
    assert_eq!(labels, expected.collect());
}

fn fifty_clients_write_the_same_thing(store: Store) {
    let server = Server::start(store);
    let body = json!({ "label": "shared", "scopes": ["user:read"] });
    let made = server.post(KEYS, body).expect(201).json();
    let path = format!("{KEYS}{}/", made["id"].as_str().unwrap());
    // Half rename, half roll: neither may undo the other.
    let values = at_once(|client| {
        if client % 2 == 0 {
            server.patch(&path, json!({ "label": format!("label {client}") })).expect(200);
            return None;
        }
        let rolled = server.post(&format!("{path}roll/"), json!({})).expect(200).json();
        Some(rolled["value"].as_str().unwrap().to_owned())
    });
    let values: BTreeSet<String> = values.into_iter().flatten().collect();
    assert_eq!(values.len(), CLIENTS / 2);
    let works = |value: &&String| server.call("GET", KEYS).key(value).send().status == 200;
    assert_eq!(values.iter().filter(works).count(), 1, "one value is the last");
    let label = server.get(&path).expect(200).json()["label"].as_str().unwrap().to_owned();
    assert!(label.starts_with("label "), "{label}");
}
