//! Actions on flags that clients call besides PATCH: switch, status, tags, test and copies.

use serde_json::{Value, json};

use crate::flags::management::{FLAGS, create, path};
use crate::harness::{Response, Server, Store, on_both_stores};

on_both_stores! {
    flag_is_switched_and_its_status_explained,
    flag_names_the_flags_that_depend_on_it,
    keys_and_tags_of_many_flags_take_one_request,
    test_evaluation_analyses_each_condition,
    flag_is_copied_with_cohorts_and_dependencies_of_the_target,
}

fn plan(value: &str) -> Value {
    json!({ "key": "plan", "type": "person", "operator": "exact", "value": value })
}

fn act(server: &Server, flag: &Value, action: &str) -> Response {
    server.post(&format!("{}{action}/", path(flag)), json!({}))
}

fn flag_is_switched_and_its_status_explained(store: Store) {
    let server = store.start();
    let flag = create(
        &server,
        json!({ "key": "f", "filters": { "groups": [{ "rollout_percentage": 40, "properties": [plan("pro")] }] } }),
    );
    assert_eq!(act(&server, &flag, "disable").expect(200).json()["active"], false);
    assert_eq!(server.get(&path(&flag)).json()["active"], false);
    let enabled = act(&server, &flag, "enable").expect(200).json();
    assert_eq!((&enabled["active"], &enabled["version"]), (&json!(true), &json!(3)));
    let status = server.get(&format!("{}status/", path(&flag))).expect(200).json();
    assert_eq!(status["status"], "active");
    assert_eq!(
        status["rollout"],
        json!({ "effectively_full_rollout": false, "has_targeting_conditions": true,
            "max_rollout_percentage": 40.0, "is_multivariate": false })
    );
    let reader = server.key(&["feature_flag:read"]);
    server.call("POST", &format!("{}enable/", path(&flag))).key(&reader).send().expect(403);
}

fn flag_names_the_flags_that_depend_on_it(store: Store) {
    let server = store.start();
    let base = create(&server, json!({ "key": "base" }));
    let asks = json!({ "key": base["id"].to_string(), "type": "flag", "value": true, "operator": "flag_evaluates_to" });
    let child = create(
        &server,
        json!({ "key": "child", "filters": { "groups": [{ "properties": [asks] }] } }),
    );
    let dependents =
        |flag: &Value| server.get(&format!("{}dependent_flags/", path(flag))).expect(200).json();
    assert_eq!(dependents(&base), json!([{ "id": child["id"], "key": "child", "name": "" }]));
    assert_eq!(dependents(&child), json!([]));
    assert_eq!(
        act(&server, &base, "disable").expect(400).error(),
        "validation_error invalid_input -"
    );
}

fn keys_and_tags_of_many_flags_take_one_request(store: Store) {
    let server = store.start();
    let one = create(&server, json!({ "key": "one", "tags": ["old"] }));
    let two = create(&server, json!({ "key": "two" }));
    let ids = json!([one["id"], two["id"].to_string(), "x", 999]);
    let keys = server.post(&format!("{FLAGS}bulk_keys/"), json!({ "ids": ids })).expect(200).json();
    assert_eq!(keys["keys"], json!({ one["id"].to_string(): "one", two["id"].to_string(): "two" }));
    assert!(keys["warning"].as_str().unwrap().contains("\"x\""));
    let tag = |action: &str, tags: Value| {
        let body = json!({ "ids": [one["id"], two["id"], 999], "action": action, "tags": tags });
        server.post(&format!("{FLAGS}bulk_update_tags/"), body).expect(200).json()
    };
    let added = tag("add", json!(["New"]));
    assert_eq!(added["updated"][0], json!({ "id": one["id"], "tags": ["new", "old"] }));
    assert_eq!(added["skipped"][0]["id"], 999);
    assert_eq!(tag("remove", json!(["old"]))["updated"][0]["tags"], json!(["new"]));
    assert_eq!(tag("set", json!([]))["updated"][1]["tags"], json!([]));
    let many = json!({ "ids": vec![1; 501], "action": "add", "tags": [] });
    let many = server.post(&format!("{FLAGS}bulk_update_tags/"), many).expect(400);
    assert_eq!(many.error(), "validation_error max_length ids");
}

fn test_evaluation_analyses_each_condition(store: Store) {
    let server = store.start();
    server.ingest(&[json!({ "event": "e", "distinct_id": "u",
        "properties": { "$set": { "plan": "free", "secret": 1 } } })]);
    let groups = json!([{ "properties": [plan("pro")] }, { "properties": [plan("free")], "rollout_percentage": 100 }]);
    let flag = create(&server, json!({ "key": "f", "filters": { "groups": groups } }));
    let test = |body: Value| server.post(&format!("{}test_evaluation/", path(&flag)), body);
    let told = test(json!({ "distinct_id": "u" })).expect(200).json();
    assert_eq!((&told["result"], &told["condition_index"]), (&json!(true), &json!(1)));
    assert_eq!(told["person_properties"], json!({ "plan": "free" }));
    let condition = |nth: usize| {
        (&told["conditions"][nth]["matched"], &told["conditions"][nth]["properties"][0]["matched"])
    };
    assert_eq!(condition(0), (&json!(false), &json!(false)));
    assert_eq!(condition(1), (&json!(true), &json!(true)));
    let person = server.get("/api/projects/1/persons/?distinct_id=u").json();
    let person = test(json!({ "person_id": person["results"][0]["uuid"] })).expect(200).json();
    assert_eq!(
        (&person["result"], &person["evaluation_distinct_id"]),
        (&json!(true), &json!(null))
    );
    test(json!({})).expect(400);
    let past = json!({ "distinct_id": "u", "timestamp": "2024-01-01T00:00:00Z" });
    assert_eq!(test(past).expect(400).error(), "validation_error invalid_input timestamp");
}

fn flag_is_copied_with_cohorts_and_dependencies_of_the_target(store: Store) {
    let server = store.start();
    let other = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    let there = |path: &str| format!("/api/projects/{}/{path}/", other["id"]);
    let filters = json!({ "properties": { "type": "OR", "values": [plan("pro")] } });
    let cohort = json!({ "name": "pros", "filters": filters });
    let here = server.post("/api/projects/1/cohorts/", cohort.clone()).expect(201).json();
    let asks = json!({ "key": "id", "type": "cohort", "value": here["id"] });
    create(
        &server,
        json!({ "key": "f", "name": "F", "filters": { "groups": [{ "properties": [asks], "rollout_percentage": 30 }] } }),
    );
    let copy = || {
        let body = json!({ "feature_flag_key": "f", "from_project": 1, "target_project_ids": [other["id"], 1] });
        server
            .post("/api/organizations/@current/feature_flags/copy_flags/", body)
            .expect(200)
            .json()
    };
    let told = copy();
    assert_eq!((&told["success"], told["failed"].as_array().unwrap().len()), (&json!([]), 2));
    let target = server.post(&there("cohorts"), cohort).expect(201).json();
    let told = copy();
    assert_eq!(
        (&told["success"][0]["key"], &told["success"][0]["team_id"]),
        (&json!("f"), &other["id"])
    );
    let copied = server
        .get(&format!("{}{}/", there("feature_flags"), told["success"][0]["id"]))
        .expect(200)
        .json();
    let group = &copied["filters"]["groups"][0];
    assert_eq!(
        (&group["properties"][0]["value"], &group["rollout_percentage"]),
        (&target["id"], &json!(30))
    );
    assert_eq!(copy()["success"][0]["id"], copied["id"], "the same flag is updated");
    let both = server.get("/api/organizations/@current/feature_flags/f/").expect(200).json();
    let teams: Vec<&Value> = both.as_array().unwrap().iter().map(|flag| &flag["team_id"]).collect();
    assert_eq!(teams, [&json!(1), &other["id"]]);
}
