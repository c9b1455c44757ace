//! Persons come with events, and people look for them, change and delete them.

use serde_json::{Value, json};

use crate::harness::{Server, Store, both};

both! {
    persons_are_listed_searched_and_filtered,
    a_person_is_changed_through_the_journal,
    deleting_and_splitting_leave_what_they_should,
    many_persons_are_deleted_at_once,
}

const PERSONS: &str = "/api/projects/1/persons/";

fn event(id: &str, properties: Value) -> Value {
    json!({ "event": "e", "distinct_id": id, "properties": properties })
}

fn started(store: Store) -> Server {
    let server = Server::start(store);
    server.ingest(&[
        json!({ "event": "e", "distinct_id": "u1", "timestamp": "2024-03-01T10:00:00Z",
            "properties": { "$set": { "email": "Ann@example.com", "plan": "pro", "n": 5 } } }),
        json!({ "event": "e", "distinct_id": "u2", "timestamp": "2024-03-02T10:00:00Z",
            "properties": { "$set": { "name": "Bob", "plan": "free", "n": 7 } } }),
        json!({ "event": "e", "distinct_id": "u3", "timestamp": "2024-03-03T10:00:00Z" }),
    ]);
    server
}

fn uuid(server: &Server, id: &str) -> String {
    let found = server.get(&format!("{PERSONS}?distinct_id={id}")).expect(200).json();
    found["results"][0]["uuid"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<&str> {
    let all = page["results"].as_array().unwrap().iter();
    all.map(|one| one["distinct_ids"][0].as_str().unwrap()).collect()
}

// contract: management 100, 101, 105
fn persons_are_listed_searched_and_filtered(store: Store) {
    let server = started(store);
    let list = |query: &str| server.get(&format!("{PERSONS}?{query}")).expect(200).json();
    let one = list("distinct_id=u1");
    assert_eq!(ids(&one), ["u1"]);
    let item = &one["results"][0];
    assert_eq!((&item["id"], &item["type"]), (&item["uuid"], &json!("person")));
    assert_eq!((&item["name"], &item["is_identified"]), (&json!("Ann@example.com"), &json!(false)));
    assert!(one.get("count").is_none() && one["next"].is_null());
    let filter = |key: &str, operator: &str, value: Value| {
        let filter =
            json!([{ "key": key, "operator": operator, "value": value, "type": "person" }]);
        let text = filter.to_string().replace('"', "%22").replace(' ', "%20");
        format!("properties={text}")
    };
    for (query, expected) in [
        (String::new(), vec!["u3", "u2", "u1"]),
        ("email=Ann@example.com".into(), vec!["u1"]),
        ("email=ann@example.com".into(), vec![]),
        ("search=ANN".into(), vec!["u1"]),
        ("search=bo".into(), vec!["u2"]),
        ("search=u3".into(), vec!["u3"]),
        ("search=u".into(), vec![]),
        (filter("plan", "exact", json!("free")), vec!["u2"]),
        (filter("n", "gt", json!(4)), vec!["u2", "u1"]),
        (filter("plan", "is_not_set", json!("is_not_set")), vec!["u3"]),
        (format!("{}&limit=1&offset=1", filter("n", "gt", json!(4))), vec!["u1"]),
    ] {
        assert_eq!(ids(&list(&query)), expected, "{query}");
    }
    let first = list("limit=1&include_total");
    assert_eq!((ids(&first), &first["count"]), (vec!["u3"], &json!(3)));
    assert!(first["next"].as_str().unwrap().contains("limit=1&offset=1"));
    assert!(list("limit=1&offset=1")["previous"].as_str().unwrap().contains("offset=0"));
    let uuid = uuid(&server, "u1");
    let detail = server.get(&format!("{PERSONS}{uuid}/")).expect(200).json();
    let number = detail["id"].as_i64().unwrap();
    assert_eq!(server.get(&format!("{PERSONS}{number}/")).expect(200).json(), detail);
    assert_eq!(detail["created_at"], "2024-03-01T10:00:00Z");
    let refused = server.get(&format!("{PERSONS}u1/")).expect(400).json();
    assert!(refused["detail"].as_str().unwrap().contains("distinct_id="));
    for missing in ["987654", "99999999999", "00000000-0000-0000-0000-000000000000"] {
        server.get(&format!("{PERSONS}{missing}/")).expect(404);
    }
    for bad in ["properties=x", "properties=[{%22key%22:%22a%22,%22operator%22:%22bogus%22}]"] {
        let answer = server.get(&format!("{PERSONS}?{bad}")).expect(400);
        assert_eq!(answer.json()["attr"], "properties", "{bad}");
    }
    let answer = server.post(PERSONS, json!({})).expect(405);
    assert_eq!(answer.json()["code"], "method_not_allowed");
}

// contract: management 102, 103
fn a_person_is_changed_through_the_journal(store: Store) {
    let server = started(store);
    let path = format!("{PERSONS}{}/", uuid(&server, "u1"));
    let properties = || {
        server.settle();
        server.get(&path).expect(200).json()["properties"].clone()
    };
    let body = json!({ "properties": { "a": 1 } });
    assert!(server.patch(&path, body).expect(202).body.is_empty());
    assert_eq!((&properties()["a"], &properties()["plan"]), (&json!(1), &json!("pro")));
    assert_eq!(server.patch(&path, json!({})).expect(400).json()["attr"], "properties");
    let action = |name: &str, body: Value| server.post(&format!("{path}{name}/"), body);
    action("update_property", json!({ "key": "plan", "value": null })).expect(202);
    assert_eq!(properties()["plan"], json!(null));
    let refused = action("update_property", json!({ "key": "plan" })).expect(400);
    assert_eq!(refused.json()["attr"], "value");
    let done = action("delete_property", json!({ "$unset": "a" })).expect(201);
    assert_eq!(done.json(), json!({ "success": true }));
    assert!(properties().get("a").is_none());
    let key = server.key(&["person:read"]);
    server.call("DELETE", &path).key(&key).send().expect(403);
}

// contract: ingestion 110
fn deleting_and_splitting_leave_what_they_should(store: Store) {
    let server = started(store);
    let first = uuid(&server, "u1");
    assert!(server.delete(&format!("{PERSONS}{first}/")).expect(202).body.is_empty());
    server.settle();
    server.get(&format!("{PERSONS}{first}/")).expect(404);
    server.ingest(&[event("u1", json!({}))]);
    let again = server.get(&format!("{PERSONS}{first}/")).expect(200).json();
    assert!(again["properties"].get("plan").is_none(), "same uuid, old properties gone");

    server.ingest(&[
        json!({ "event": "$identify", "distinct_id": "u2",
            "properties": { "$anon_distinct_id": "0192f0c1-2345-7000-8000-00000000000a" } }),
        json!({ "event": "$identify", "distinct_id": "u2",
            "properties": { "$anon_distinct_id": "phone" } }),
    ]);
    let path = format!("{PERSONS}{}/", uuid(&server, "u2"));
    let whole = server.get(&path).expect(200).json();
    let anonymous = "0192f0c1-2345-7000-8000-00000000000a";
    assert_eq!(whole["distinct_ids"], json!(["u2", "phone", anonymous]), "chosen ids come first");
    let split = |body: Value| server.post(&format!("{path}split/"), body);
    for body in [
        json!({ "main_distinct_id": "stranger" }),
        json!({ "distinct_ids_to_split": ["u2", "phone", anonymous] }),
    ] {
        split(body).expect(400);
    }
    let done = split(json!({ "distinct_ids_to_split": ["phone"] })).expect(201).json();
    assert_eq!(done, json!({ "success": true }));
    server.settle();
    assert_eq!(server.get(&path).json()["distinct_ids"], json!(["u2", anonymous]));
    split(json!({ "main_distinct_id": "u2" })).expect(201);
    server.settle();
    assert_eq!(server.get(&path).json()["distinct_ids"], json!(["u2"]));
    let left = server.get(&format!("{PERSONS}?distinct_id=phone")).json();
    assert_eq!(left["results"][0]["properties"], json!({}));
}

// contract: management 104
fn many_persons_are_deleted_at_once(store: Store) {
    let server = started(store);
    let delete = |body: Value| server.post(&format!("{PERSONS}bulk_delete/"), body);
    let (one, two) = (uuid(&server, "u1"), uuid(&server, "u2"));
    for (body, attr) in [
        (json!({ "ids": [one], "distinct_ids": ["u2"] }), json!(null)),
        (json!({}), json!(null)),
        (json!({ "ids": ["x"] }), json!("ids")),
        (json!({ "ids": vec![one.clone(); 1_001] }), json!("ids")),
    ] {
        assert_eq!(delete(body).expect(400).json()["attr"], attr);
    }
    let told = |found: usize, deleted: usize, events: bool| {
        json!({ "persons_found": found, "persons_deleted": deleted,
            "events_queued_for_deletion": events, "recordings_queued_for_deletion": false,
            "deletion_errors": [] })
    };
    let done = delete(json!({ "ids": [one, two], "delete_events": true })).expect(202).json();
    assert_eq!(done, told(2, 2, true));
    server.settle();
    assert_eq!(ids(&server.get(PERSONS).json()), ["u3"]);
    let done = delete(json!({ "distinct_ids": ["u3", "stranger"], "keep_person": true }));
    assert_eq!(done.expect(202).json(), told(1, 0, false));
    server.settle();
    assert_eq!(ids(&server.get(PERSONS).json()), ["u3"]);
}
