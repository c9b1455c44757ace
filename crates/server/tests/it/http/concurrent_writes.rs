//! Concurrent writes: no update is lost, no request fails.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Store, on_both_stores};

const CLIENTS: usize = 50;
const KEYS: &str = "/api/personal_api_keys/";

on_both_stores! {
    concurrent_writes_of_different_objects_all_succeed,
    concurrent_updates_of_one_object_are_serialized,
    concurrent_patches_of_different_fields_do_not_overwrite_each_other,
    tags_that_concurrent_requests_add_to_a_flag_are_all_kept,
}

/// Runs fifty clients concurrently; returns their results.
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

fn concurrent_writes_of_different_objects_all_succeed(store: Store) {
    let server = store.start();
    let annotations = "/api/projects/1/annotations/";
    at_once(|client| {
        let made = server.post(annotations, json!({ "content": "new" })).expect(201).json();
        let path = format!("{annotations}{}/", made["id"]);
        server.patch(&path, json!({ "content": client.to_string() })).expect(200);
        if client % 2 == 0 {
            server.patch(&path, json!({ "deleted": true })).expect(200);
        }
    });
    let found = server.get(&format!("{annotations}?limit=100")).expect(200).json();
    let contents: BTreeSet<String> = found["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|annotation| annotation["content"].as_str().unwrap().to_owned())
        .collect();
    let odd = (0..CLIENTS).filter(|client| client % 2 == 1).map(|client| client.to_string());
    assert_eq!((found["count"].as_u64(), contents), (Some(CLIENTS as u64 / 2), odd.collect()));
}

/// Each log entry has the value it replaced, so the log must be one chain through all fifty.
fn concurrent_updates_of_one_object_are_serialized(store: Store) {
    let server = store.start();
    let before = server.get("/api/projects/1/").expect(200).json()["name"].clone();
    at_once(|client| {
        server.patch("/api/projects/1/", json!({ "name": format!("n{client}") })).expect(200)
    });
    let mut replaced = BTreeMap::new();
    let mut page = format!("http://{}/api/projects/1/activity_log/?scope=Team", server.address());
    while let Some(path) = page.strip_prefix(&format!("http://{}", server.address())) {
        let log = server.get(path).expect(200).json();
        for entry in log["results"].as_array().unwrap() {
            for change in entry["detail"]["changes"].as_array().into_iter().flatten() {
                let known = replaced.insert(change["before"].to_string(), change["after"].clone());
                assert_eq!(known, None, "two changes replaced the same name");
            }
        }
        page = log["next"].as_str().unwrap_or_default().to_owned();
    }
    let chain =
        std::iter::successors(Some(before), |name| replaced.get(&name.to_string()).cloned());
    let chain: Vec<Value> = chain.take(CLIENTS + 2).collect();
    assert_eq!((chain.len(), replaced.len()), (CLIENTS + 1, CLIENTS));
    assert_eq!(server.get("/api/projects/1/").expect(200).json()["name"], chain[CLIENTS]);
}

/// Rolling and renaming a key write the same row; neither may overwrite the other.
fn concurrent_patches_of_different_fields_do_not_overwrite_each_other(store: Store) {
    let server = store.start();
    let body = json!({ "label": "shared", "scopes": ["user:read"] });
    let made = server.post(KEYS, body).expect(201).json();
    let path = format!("{KEYS}{}/", made["id"].as_str().unwrap());
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

fn tags_that_concurrent_requests_add_to_a_flag_are_all_kept(store: Store) {
    let server = store.start();
    let flags = "/api/projects/1/feature_flags/";
    let flag = server.post(flags, json!({ "key": "f" })).expect(201).json();
    at_once(|client| {
        let body =
            json!({ "ids": [flag["id"]], "action": "add", "tags": [format!("t{client:02}")] });
        let told = server.post(&format!("{flags}bulk_update_tags/"), body).expect(200).json();
        assert_eq!(told["skipped"], json!([]));
    });
    let stored = server.get(&format!("{flags}{}/", flag["id"])).expect(200).json();
    let added: Vec<String> = (0..CLIENTS).map(|client| format!("t{client:02}")).collect();
    assert_eq!(stored["tags"], json!(added));
}
