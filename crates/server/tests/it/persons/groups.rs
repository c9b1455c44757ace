//! Groups: list, lookup and edit.

use serde_json::{Value, json};

use crate::harness::{Store, on_both_stores};

on_both_stores! {
    groups_are_listed_found_and_changed,
    group_types_are_renamed,
    group_properties_and_values_are_counted,
    related_groups_come_from_events,
}

const GROUPS: &str = "/api/projects/1/groups/";

// contract: management 111
fn groups_are_listed_found_and_changed(store: Store) {
    let server = store.start();
    assert_eq!(server.get("/api/projects/1/groups_types/").expect(200).json(), json!([]));
    let identify = |key: &str, name: &str| {
        json!({ "event": "$groupidentify", "distinct_id": "u", "properties": {
            "$group_type": "company", "$group_key": key, "$group_set": { "name": name } } })
    };
    let many: Vec<Value> = (0..101).map(|n| identify(&format!("g{n}"), "Many")).collect();
    server.ingest(&many);
    server.ingest(&[identify("acme", "Acme Inc")]);
    let types = server.get("/api/projects/1/groups_types/").expect(200).json();
    assert_eq!(
        (&types[0]["group_type"], &types[0]["group_type_index"]),
        (&json!("company"), &json!(0))
    );
    let get = |query: &str| server.get(&format!("{GROUPS}?{query}"));
    assert_eq!(get("").expect(400).json()["attr"], "group_type_index");
    for (query, attr) in
        [("group_type_index=9", "group_type_index"), ("group_type_index=0&cursor=%21", "cursor")]
    {
        assert_eq!(get(query).expect(400).json()["attr"], attr, "{query}");
    }
    let page = get("group_type_index=0").expect(200).json();
    assert_eq!(page["results"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&page["previous"], &page["results"][0]["group_key"]),
        (&json!(null), &json!("acme"))
    );
    let next = page["next"].as_str().unwrap();
    let rest = server.get(&next[next.find("/api/").unwrap()..]).expect(200).json();
    assert_eq!((rest["results"].as_array().unwrap().len(), &rest["next"]), (2, &json!(null)));
    for query in ["search=ACME", "search=inc", "group_key=acme"] {
        let found = get(&format!("group_type_index=0&{query}")).expect(200).json();
        assert_eq!(found["results"].as_array().unwrap().len(), 1, "{query}");
    }
    let named = "group_type_index=0&group_key=acme";
    let find = |query: &str| server.get(&format!("{GROUPS}find/?{query}"));
    assert_eq!(find(named).expect(200).json()["group_properties"], json!({ "name": "Acme Inc" }));
    find("group_type_index=0&group_key=nobody").expect(404);

    let action = |name: &str, body: Value| server.post(&format!("{GROUPS}{name}/?{named}"), body);
    let changed = action("update_property", json!({ "key": "seats", "value": 5 })).expect(200);
    assert_eq!(changed.json()["group_properties"]["seats"], 5);
    server.wait_until_applied();
    assert_eq!(find(named).json()["group_properties"], json!({ "name": "Acme Inc", "seats": 5 }));
    action("delete_property", json!({ "$unset": "name" })).expect(200);
    server.wait_until_applied();
    assert_eq!(find(named).json()["group_properties"], json!({ "seats": 5 }));

    let new = json!({ "group_type_index": 0, "group_key": "new", "group_properties": { "a": 1 } });
    let made = server.post(GROUPS, new.clone()).expect(201).json();
    assert_eq!(made["group_properties"], json!({ "a": 1 }));
    server.wait_until_applied();
    let found = find("group_type_index=0&group_key=new").expect(200).json();
    assert_eq!(found["group_properties"], json!({ "a": 1 }));
    assert_eq!(server.post(GROUPS, new).expect(400).json()["attr"], "group_key");
    let unknown = json!({ "group_type_index": 3, "group_key": "x" });
    assert_eq!(server.post(GROUPS, unknown).expect(400).json()["attr"], "group_type_index");
    let told = |item: &str| -> Vec<String> {
        let path = format!("/api/projects/1/activity_log/?scope=Group&item_id={item}");
        let log = server.get(&path).expect(200).json();
        let lines = log["results"].as_array().unwrap().clone();
        assert!(lines.iter().all(|line| line["user"]["email"].is_string()));
        let text = |line: &Value| {
            let detail = &line["detail"];
            let field = detail["changes"][0]["field"].as_str().unwrap_or("-").to_owned();
            format!("{} {} {field}", line["activity"].as_str().unwrap(), detail["name"])
        };
        lines.iter().map(text).collect()
    };
    assert_eq!(
        told("0:acme"),
        ["delete_property \"acme\" properties", "updated \"acme\" properties"]
    );
    assert_eq!(told("0:new"), ["created \"new\" -"]);
}

fn identify(kind: &str, key: &str, set: Value) -> Value {
    json!({ "event": "$groupidentify", "distinct_id": "u", "properties": {
        "$group_type": kind, "$group_key": key, "$group_set": set } })
}

fn group_types_are_renamed(store: Store) {
    let server = store.start();
    let project = || server.get("/api/projects/1/").expect(200).json();
    assert_eq!(
        (&project()["has_group_types"], &project()["group_types"]),
        (&json!(false), &json!([]))
    );
    server.ingest(&[identify("company", "acme", json!({})), identify("team", "blue", json!({}))]);
    let path = "/api/projects/1/groups_types/update_metadata/";
    let named = json!([{ "group_type_index": 1, "name_singular": "crew", "name_plural": "crews" }]);
    let types = server.patch(path, named).expect(200).json();
    assert_eq!(
        (&types[0]["name_singular"], &types[1]["name_singular"]),
        (&json!(null), &json!("crew"))
    );
    assert_eq!(types, server.get("/api/projects/1/groups_types/").json());
    assert_eq!((&project()["has_group_types"], &project()["group_types"]), (&json!(true), &types));
    let partly = json!([{ "group_type_index": 1, "name_singular": null }]);
    let types = server.patch(path, partly).expect(200).json();
    assert_eq!(
        (&types[1]["name_singular"], &types[1]["name_plural"]),
        (&json!(null), &json!("crews"))
    );
    let unknown = json!([{ "group_type_index": 0, "name_plural": "x" }, { "group_type_index": 4 }]);
    server.patch(path, unknown).expect(404);
    let types = server.get("/api/projects/1/groups_types/").json();
    assert_eq!(types[0]["name_plural"], json!(null), "all or none");
    let log = server.get("/api/projects/1/activity_log/?scope=Group&item_id=1").expect(200).json();
    let told: Vec<Value> =
        log["results"].as_array().unwrap().iter().map(|line| line["detail"].clone()).collect();
    assert_eq!(told.len(), 2);
    assert_eq!(told[0]["name"], "team");
    let change = &told[0]["changes"][0];
    assert_eq!(
        (&change["field"], &change["before"], &change["after"]),
        (&json!("name_singular"), &json!("crew"), &json!(null))
    );
    assert_eq!(told[0].get("merge"), Some(&json!(null)));
    server.patch(path, json!({ "group_type_index": 0 })).expect(400);
    assert_eq!(server.patch(path, json!([{}])).expect(400).json()["attr"], "0__group_type_index");
    let reader = server.key(&["group:read"]);
    server.call("PATCH", path).key(&reader).json(json!([])).send().expect(403);
}

fn group_properties_and_values_are_counted(store: Store) {
    let server = store.start();
    server.ingest(&[
        identify("company", "a", json!({ "plan": "pro", "seats": 5 })),
        identify("company", "b", json!({ "plan": "pro" })),
        identify("company", "c", json!({ "plan": "free" })),
        identify("team", "blue", json!({ "lead": "ada" })),
    ]);
    let get = |path: &str| server.get(&format!("{GROUPS}{path}"));
    let counted = |name: &str, count: i64| json!({ "name": name, "count": count });
    let names =
        json!({ "0": [counted("plan", 3), counted("seats", 1)], "1": [counted("lead", 1)] });
    assert_eq!(get("property_definitions/").expect(200).json(), names);
    let values = |query: &str| get(&format!("property_values/?{query}"));
    let plans = values("group_type_index=0&key=plan").expect(200).json();
    assert_eq!(plans, json!([counted("pro", 2), counted("free", 1)]));
    let found = values("group_type_index=0&key=plan&value=FR").expect(200).json();
    assert_eq!(found, json!([counted("free", 1)]));
    assert_eq!(values("key=plan").expect(400).json()["attr"], "group_type_index");
    assert_eq!(values("group_type_index=0").expect(400).json()["attr"], "key");
}

fn related_groups_come_from_events(store: Store) {
    let server = store.start();
    let event = |id: &str, groups: Value| {
        json!({ "event": "e", "distinct_id": id, "properties": {
            "$set": { "email": format!("{id}@acme.io") }, "$groups": groups } })
    };
    server.ingest(&[
        identify("company", "acme", json!({})),
        identify("team", "blue", json!({ "lead": "ada" })),
        identify("company", "other", json!({})),
        event("ada", json!({ "company": "acme", "team": "blue" })),
        event("ada", json!({ "company": "acme" })),
        event("bob", json!({ "company": "acme" })),
        event("eve", json!({ "company": "other" })),
    ]);
    let related = |query: &str| server.get(&format!("{GROUPS}related/?{query}"));
    let names = |found: &Value| -> Vec<String> {
        let name = |one: &Value| match one["type"].as_str() {
            Some("person") => one["distinct_ids"][0].as_str().unwrap().to_owned(),
            _ => format!("{}:{}", one["group_type_index"], one["group_key"].as_str().unwrap()),
        };
        found.as_array().unwrap().iter().map(name).collect()
    };
    let acme = related("group_type_index=0&id=acme").expect(200).json();
    assert_eq!(names(&acme), ["ada", "bob", "1:blue"]);
    assert_eq!(acme[2]["properties"], json!({ "lead": "ada" }));
    let blue = related("group_type_index=1&id=blue").expect(200).json();
    assert_eq!(names(&blue), ["ada", "0:acme"]);
    let ada = server.get("/api/projects/1/persons/?distinct_id=ada").expect(200).json();
    let ada = ada["results"][0]["uuid"].as_str().unwrap();
    let hers = related(&format!("id={ada}")).expect(200).json();
    assert_eq!(names(&hers), ["0:acme", "1:blue"]);
    assert_eq!(names(&related("group_type_index=0&id=nobody").expect(200).json()), [""; 0]);
    assert_eq!(related("group_type_index=0").expect(400).json()["attr"], "id");
}
