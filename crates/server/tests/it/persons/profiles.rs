//! Persons: list, search, edit, split and delete.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    persons_are_listed_searched_and_filtered,
    person_edits_go_through_the_journal,
    person_delete_and_split_keep_the_right_data,
    bulk_delete_removes_many_persons,
    persons_are_filtered_by_their_cohorts,
    persons_export_as_csv,
    person_property_values_are_counted_and_searched,
    persons_are_filtered_by_a_property_of_any_name,
    person_edits_are_in_the_activity_log,
    merge_of_persons_is_previewed_applied_and_logged,
}

const PERSONS: &str = "/api/projects/1/persons/";

fn event(id: &str, properties: Value) -> Value {
    json!({ "event": "e", "distinct_id": id, "properties": properties })
}

fn started(store: Store) -> Server {
    let server = store.start();
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
        let response = server.get(&format!("{PERSONS}?{bad}")).expect(400);
        assert_eq!(response.json()["attr"], "properties", "{bad}");
    }
    let response = server.post(PERSONS, json!({})).expect(405);
    assert_eq!(response.json()["code"], "method_not_allowed");
    assert!(response.json()["detail"].as_str().unwrap().contains("$identify"));
    assert_eq!(response.header("allow"), Some("GET, HEAD, OPTIONS"));
}

// contract: management 102, 103
fn person_edits_go_through_the_journal(store: Store) {
    let server = started(store);
    let path = format!("{PERSONS}{}/", uuid(&server, "u1"));
    let properties = || {
        server.wait_until_applied();
        server.get(&path).expect(200).json()["properties"].clone()
    };
    let body = json!({ "properties": { "a": 1 } });
    assert!(server.patch(&path, body).expect(202).body.is_empty());
    assert_eq!((&properties()["a"], &properties()["plan"]), (&json!(1), &json!("pro")));
    let told = server.patch(&path, json!({})).expect(400).json();
    let swapped = json!({ "type": "validation_error", "code": "This field is required.",
        "detail": "required", "attr": "properties" });
    assert_eq!(told, swapped);
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
fn person_delete_and_split_keep_the_right_data(store: Store) {
    let server = started(store);
    let first = uuid(&server, "u1");
    assert!(server.delete(&format!("{PERSONS}{first}/")).expect(202).body.is_empty());
    server.wait_until_applied();
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
    server.wait_until_applied();
    assert_eq!(server.get(&path).json()["distinct_ids"], json!(["u2", anonymous]));
    split(json!({ "main_distinct_id": "u2" })).expect(201);
    server.wait_until_applied();
    assert_eq!(server.get(&path).json()["distinct_ids"], json!(["u2"]));
    let left = server.get(&format!("{PERSONS}?distinct_id=phone")).json();
    assert_eq!(left["results"][0]["properties"], json!({}));
}

// contract: management 104
fn bulk_delete_removes_many_persons(store: Store) {
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
    server.wait_until_applied();
    assert_eq!(ids(&server.get(PERSONS).json()), ["u3"]);
    let log = server.get(&format!("{PERSONS}activity/")).expect(200).json();
    let said = |line: &Value| line["activity"].clone();
    let said: Vec<Value> = log["results"].as_array().unwrap().iter().map(said).collect();
    assert_eq!(said, ["deleted", "deleted"]);
    let done = delete(json!({ "distinct_ids": ["u3", "stranger"], "keep_person": true }));
    assert_eq!(done.expect(202).json(), told(1, 0, false));
    server.wait_until_applied();
    assert_eq!(ids(&server.get(PERSONS).json()), ["u3"]);
}

fn encoded(value: &Value) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    value.to_string().bytes().map(byte).collect()
}

fn persons_are_filtered_by_their_cohorts(store: Store) {
    let server = started(store);
    let made = |body: Value| server.post("/api/projects/1/cohorts/", body).expect(201).json();
    let people = [uuid(&server, "u1"), uuid(&server, "u3")];
    let list =
        made(json!({ "name": "list", "is_static": true, "_create_static_person_ids": people }));
    let free = json!({ "properties": { "type": "AND", "values": [
        { "key": "plan", "type": "person", "value": "free" }] } });
    let free = made(json!({ "name": "free", "filters": free }));
    let path = format!("/api/projects/1/cohorts/{}/", free["id"]);
    server.wait_until(&path, |cohort| cohort["is_calculating"] == false);
    let get = |query: &str| server.get(&format!("{PERSONS}?{query}"));
    let belongs = |cohort: &Value, operator: &str| json!({ "type": "cohort", "key": "id", "value": cohort["id"], "operator": operator });
    let properties = |filters: Value| format!("properties={}", encoded(&filters));
    let rich = json!({ "key": "n", "type": "person", "operator": "gt", "value": 4 });
    for (query, expected) in [
        (format!("cohort={}", list["id"]), vec!["u3", "u1"]),
        (format!("cohort={}", free["id"]), vec!["u2"]),
        (properties(json!([belongs(&list, "in")])), vec!["u3", "u1"]),
        (properties(json!([belongs(&list, "not_in")])), vec!["u2"]),
        (properties(json!([belongs(&list, "in"), rich])), vec!["u1"]),
        (
            properties(json!({ "type": "OR", "values": [belongs(&free, "in"), rich] })),
            vec!["u2", "u1"],
        ),
        (format!("cohort={}&{}", list["id"], properties(json!([rich]))), vec!["u1"]),
    ] {
        assert_eq!(ids(&get(&query).expect(200).json()), expected, "{query}");
        let counted = get(&format!("{query}&include_total&limit=1")).expect(200).json();
        assert_eq!(counted["count"], expected.len(), "{query}");
    }
    let unknown = json!([{ "type": "cohort", "key": "id", "value": 99 }]);
    for (query, attr) in [
        ("cohort=99".to_owned(), "cohort"),
        ("cohort=x".to_owned(), "cohort"),
        (properties(unknown), "properties"),
    ] {
        assert_eq!(get(&query).expect(400).json()["attr"], attr, "{query}");
    }

    let cohorts = |id: &str| server.get(&format!("{PERSONS}cohorts/?person_id={id}"));
    let of_one = cohorts(&people[0]).expect(200).json();
    let expected = json!([{ "id": list["id"], "name": "list", "count": 2 }]);
    assert_eq!(of_one["results"], expected);
    let of_two = cohorts(&uuid(&server, "u2")).expect(200).json();
    assert_eq!(of_two["results"][0]["name"], "free");
    cohorts("00000000-0000-0000-0000-000000000000").expect(404);
    assert_eq!(server.get(&format!("{PERSONS}cohorts/")).expect(400).json()["attr"], "person_id");
    let path = format!("{PERSONS}cohorts/?person_id={}", people[0]);
    for scopes in [&["person:read"][..], &["cohort:read"]] {
        server.call("GET", &path).key(&server.key(scopes)).send().expect(403);
    }
    server.call("GET", &path).key(&server.key(&["person:read", "cohort:read"])).send().expect(200);
}

fn persons_export_as_csv(store: Store) {
    let server = started(store);
    let table = server.get(&format!("{PERSONS}?format=csv&limit=2")).expect(200);
    assert_eq!(table.header("content-type"), Some("text/csv; charset=utf-8"));
    let text = table.text();
    let mut lines = text.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    for column in ["distinct_ids.0", "id", "name", "properties.n", "properties.plan", "uuid"] {
        assert!(columns.contains(&column), "{column} is not among {columns:?}");
    }
    assert_eq!(lines.count(), 2);
    let list = json!({ "is_static": true, "_create_static_person_ids": [uuid(&server, "u1")] });
    let list = server.post("/api/projects/1/cohorts/", list).expect(201).json();
    let path = format!("/api/projects/1/cohorts/{}/persons/?format=csv", list["id"]);
    let members = server.get(&path).expect(200).text();
    assert_eq!(members.lines().count(), 2);
    assert!(members.contains("Ann@example.com"), "{members}");
    assert_eq!(server.get(&format!("{PERSONS}?format=xml")).expect(400).json()["attr"], "format");
}

fn person_property_values_are_counted_and_searched(store: Store) {
    let server = started(store);
    server.ingest(&[event("u4", json!({ "$set": { "plan": "pro", "tags": ["a", "b"] } }))]);
    let values = |query: &str| server.get(&format!("{PERSONS}values/?{query}")).expect(200).json();
    let counted = |all: &[(&str, i64)]| {
        let all = all.iter().map(|(name, count)| json!({ "name": name, "count": count }));
        json!({ "results": all.collect::<Vec<_>>(), "refreshing": false })
    };
    assert_eq!(values("key=plan"), counted(&[("pro", 2), ("free", 1)]));
    assert_eq!(values("key=plan&value=FRE"), counted(&[("free", 1)]));
    assert_eq!(values("key=tags"), counted(&[("a", 1), ("b", 1)]));
    assert_eq!(values("key=n"), counted(&[("5", 1), ("7", 1)]));
    assert_eq!(values("key=nothing"), counted(&[]));
    assert_eq!(values(""), counted(&[]));
}

fn persons_are_filtered_by_a_property_of_any_name(store: Store) {
    let server = store.start();
    let long = "n".repeat(2_000);
    let names = ["plan", "PLAN", "a \"b\" \\%_", "naïve 🦔", "$initial_x", &long];
    let events: Vec<Value> = (0..)
        .zip(&names)
        .map(|(n, name)| event(&format!("u{n}"), json!({ "$set": { *name: "x" } })))
        .collect();
    server.ingest(&events);
    for (n, name) in (0..).zip(names) {
        let filter = json!([{ "key": name, "type": "person", "value": "x" }]);
        let found = server.get(&format!("{PERSONS}?properties={}", encoded(&filter))).expect(200);
        assert_eq!(ids(&found.json()), [format!("u{n}")], "{name}");
    }
}

fn person_edits_are_in_the_activity_log(store: Store) {
    let server = started(store);
    let person = format!("{PERSONS}{}/", uuid(&server, "u1"));
    let log = |path: &str| server.get(&format!("{path}activity/")).expect(200).json();
    assert_eq!(log(&person)["total_count"], 0);
    server.patch(&person, json!({ "properties": { "secret": "s3cret" } })).expect(202);
    let unset = json!({ "$unset": "secret" });
    server.post(&format!("{person}delete_property/"), unset).expect(201);
    let told = log(&person);
    let activities: Vec<&str> = told["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["activity"].as_str().unwrap())
        .collect();
    assert_eq!(activities, ["delete_property", "updated"]);
    let line = &told["results"][1];
    assert_eq!(
        (&line["scope"], &line["detail"]["changes"][0]["field"]),
        (&json!("Person"), &json!("properties"))
    );
    assert_eq!(line["user"]["email"], "admin@example.com");
    assert!(!told.to_string().contains("s3cret"), "the log tells of a change, not of people");
    let merge = json!({ "event": "$identify", "distinct_id": "u2",
        "properties": { "$anon_distinct_id": "other" } });
    server.ingest(&[merge]);
    let two = format!("{PERSONS}{}/", uuid(&server, "u2"));
    let split = json!({ "main_distinct_id": "u2" });
    server.post(&format!("{two}split/"), split).expect(201);
    server.wait_until_applied();
    assert_eq!(log(&two)["results"][0]["activity"], "split_person");
    let left = &log(&two)["results"][0]["detail"]["changes"][0]["after"]["distinct_ids"];
    assert_eq!(*left, json!(["other"]));
    server.delete(&two).expect(202);
    server.wait_until_applied();
    server.get(&format!("{two}activity/")).expect(404);
    assert_eq!(log(PERSONS)["results"][0]["activity"], "deleted");
    assert_eq!(log(PERSONS)["total_count"], 4);
}

fn merge_of_persons_is_previewed_applied_and_logged(store: Store) {
    let server = started(store);
    let (one, two) = (uuid(&server, "u1"), uuid(&server, "u2"));
    let at = format!("{PERSONS}{one}/");
    let preview = |id: &str| server.get(&format!("{at}merge_preview/?distinct_id={id}"));
    let told = preview("u2").expect(200).json();
    assert_eq!((&told["person"]["uuid"], &told["other"]["uuid"]), (&json!(one), &json!(two)));
    assert_eq!(told["distinct_ids"], 2);
    let plan = json!({ "key": "plan", "kept": "pro", "dropped": "free" });
    assert!(told["conflicts"].as_array().unwrap().contains(&plan), "{told}");
    let merge = |id: &str| server.post(&format!("{at}merge/"), json!({ "distinct_id": id }));
    for id in ["u1", "nobody"] {
        let error = "validation_error invalid_input distinct_id";
        assert_eq!(merge(id).expect(400).error(), error);
        assert_eq!(preview(id).expect(400).error(), error);
    }
    merge("u2").expect(201);
    server.wait_until_applied();
    let merged = server.get(&at).expect(200).json();
    assert_eq!(merged["distinct_ids"], json!(["u1", "u2"]));
    assert_eq!(merged["properties"], told["properties"]);
    assert_eq!(
        (&merged["properties"]["plan"], &merged["properties"]["name"]),
        (&json!("pro"), &json!("Bob"))
    );
    server.get(&format!("{PERSONS}{two}/")).expect(404);
    let log = server.get(&format!("{PERSONS}activity/")).expect(200).json();
    let line = |nth: usize| {
        (
            &log["results"][nth]["activity"],
            &log["results"][nth]["detail"]["changes"][0]["after"]["person"],
        )
    };
    assert_eq!(line(0), (&json!("was_merged_into_person"), &json!(one)));
    assert_eq!(line(1), (&json!("people_merged_into"), &json!(two)));
    let reader = server.key(&["person:read"]);
    let path = format!("{at}merge/");
    server.call("POST", &path).key(&reader).json(json!({ "distinct_id": "u3" })).send().expect(403);
}
