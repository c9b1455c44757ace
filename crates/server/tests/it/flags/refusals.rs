//! What explanations, tests and copies of flags refuse, and what copies cost.

use serde_json::{Value, json};

use crate::accounts::organizations::cost_of;
use crate::accounts::test_users;
use crate::flags::management::{FLAGS, create, path};
use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    explanations_with_values_of_a_person_need_person_read,
    copy_is_refused_where_group_types_differ,
    copy_needs_the_right_to_change_flags_of_each_project,
    copy_resolves_conditions_in_a_constant_number_of_statements,
}

const COPY: &str = "/api/organizations/@current/feature_flags/copy_flags/";

fn plan() -> Value {
    json!({ "properties": [{ "key": "plan", "type": "person", "value": "pro" }] })
}

fn explanations_with_values_of_a_person_need_person_read(store: Store) {
    let server = store.start();
    let secret = json!({ "$set": { "plan": "secret" } });
    server.ingest(&[json!({ "event": "e", "distinct_id": "u", "properties": secret })]);
    let flag = create(&server, json!({ "key": "f" }));
    let draft = json!({ "key": "g", "filters": { "groups": [plan()] } });
    let own = path(&flag);
    for (scope, call, body) in [
        ("feature_flag:write", format!("{FLAGS}explain?distinct_id=u"), draft.clone()),
        ("feature_flag:write", format!("{own}explain?distinct_id=u"), draft.clone()),
        ("feature_flag:read", format!("{own}test_evaluation"), json!({ "distinct_id": "u" })),
    ] {
        let send = |scopes: &[&str]| {
            server.call("POST", &call).key(&server.key(scopes)).json(body.clone()).send()
        };
        let refused = send(&[scope]).expect(403);
        let detail = "API key missing required scope 'person:read'";
        assert_eq!(refused.json()["detail"], detail, "{call}");
        assert!(!refused.text().contains("secret"));
        send(&[scope, "person:read"]).expect(200);
    }
    // A stored flag reveals its own conditions, whose values its author chose.
    let read = server.call("GET", &format!("{own}explain?distinct_id=u"));
    read.key(&server.key(&["feature_flag:read"])).send().expect(200);
}

/// Another project of the administrator's organization.
fn other_project(server: &Server) -> Value {
    server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json()
}

fn copy(server: &Server, key: &str, targets: &[&Value]) -> Value {
    let body = json!({ "feature_flag_key": key, "from_project": 1, "target_project_ids": targets });
    server.post(COPY, body).expect(200).json()
}

/// Sends an event of one group in each type, in this order, and so numbers the types.
fn number_group_types(server: &Server, token: &str, types: &[&str]) {
    for (nth, kind) in types.iter().enumerate() {
        let event = json!({ "event": "e", "distinct_id": format!("{token}{nth}"),
            "properties": { "$groups": { *kind: "one" } } });
        let batch = json!({ "api_key": token, "batch": [event] });
        server.call("POST", "/batch/").no_key().json(batch).send().expect(200);
        server.wait_until_applied();
    }
}

fn copy_is_refused_where_group_types_differ(store: Store) {
    let server = store.start();
    let (same, swapped) = (other_project(&server), other_project(&server));
    let token = |project: &Value| project["api_token"].as_str().unwrap().to_owned();
    number_group_types(&server, crate::harness::PROJECT_KEY, &["company", "team"]);
    number_group_types(&server, &token(&same), &["company", "team"]);
    number_group_types(&server, &token(&swapped), &["team", "company"]);
    let big = json!({ "key": "size", "type": "group", "group_type_index": 1, "value": "big" });
    for (key, filters) in [
        ("of_companies", json!({ "aggregation_group_type_index": 0, "groups": [{}] })),
        (
            "of_big_teams",
            json!({ "aggregation_group_type_index": 1, "groups": [{ "properties": [big] }] }),
        ),
    ] {
        create(&server, json!({ "key": key, "filters": filters }));
        let told = copy(&server, key, &[&same["id"], &swapped["id"]]);
        assert_eq!(told["success"][0]["team_id"], same["id"], "{told}");
        let failed = &told["failed"][0];
        assert_eq!(failed["project_id"], swapped["id"], "{told}");
        let index = if key == "of_companies" { 0 } else { 1 };
        let message = format!("Group type {index} is another one in the project.");
        assert_eq!(failed["error_message"], message);
        let there = format!("/api/projects/{}/feature_flags/?key={key}", swapped["id"]);
        assert_eq!(server.get(&there).expect(200).json()["count"], 0);
    }
}

fn copy_needs_the_right_to_change_flags_of_each_project(store: Store) {
    let server = store.start();
    create(&server, json!({ "key": "f", "filters": { "groups": [plan()] } }));
    let own = other_project(&server);
    test_users::add(&server, "m@example.com", 1);
    let foreign = test_users::organization_of(&server, "m@example.com", "Theirs");
    let member = test_users::log_in(&server, "m@example.com", test_users::PASSWORD);
    let theirs = format!("/api/organizations/{}/projects/", foreign["id"].as_str().unwrap());
    let theirs = member.write("POST", &theirs, json!({ "name": "T" })).expect(201).json();
    let rules = format!("/api/projects/{}/resource_access_controls/", own["id"]);
    let viewer = json!({ "resource": "feature_flag", "access_level": "viewer" });
    server.put(&rules, viewer).expect(200);

    let copy_by = |targets: Value| {
        let body =
            json!({ "feature_flag_key": "f", "from_project": 1, "target_project_ids": targets });
        member.write("POST", COPY, body).expect(200).json()
    };
    let told = copy_by(json!([own["id"], theirs["id"], 999_999]));
    assert_eq!(told["success"], json!([]), "{told}");
    assert_eq!(told["failed"].as_array().unwrap().len(), 3);
    let missing = told["failed"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|failed| failed["error_message"] == "Project not found.");
    assert_eq!(missing.count(), 2, "a foreign project is not told from a missing one: {told}");
    let reader = server.key(&["feature_flag:read"]);
    let body = json!({ "feature_flag_key": "f", "from_project": 1, "target_project_ids": [1] });
    server.call("POST", COPY).key(&reader).json(body).send().expect(403);
    let many = json!({ "feature_flag_key": "f", "from_project": 1,
        "target_project_ids": (0..51).collect::<Vec<_>>() });
    let many = server.post(COPY, many).expect(400);
    assert_eq!(many.error(), "validation_error max_length target_project_ids");
}

fn copy_resolves_conditions_in_a_constant_number_of_statements(store: Store) {
    let server = store.start();
    let other = other_project(&server);
    let there = |path: &str| format!("/api/projects/{}/{path}/", other["id"]);
    let condition = |nth: usize| {
        let tree = json!({ "properties": { "type": "OR", "values": plan()["properties"] } });
        let cohort = json!({ "name": format!("c{nth}"), "filters": tree });
        let base = json!({ "key": format!("base{nth}") });
        server.post(&there("cohorts"), cohort.clone()).expect(201);
        server.post(&there("feature_flags"), base.clone()).expect(201);
        let cohort = server.post("/api/projects/1/cohorts/", cohort).expect(201).json();
        let base = create(&server, base);
        let on = json!({ "key": base["id"].to_string(), "type": "flag", "value": true,
            "operator": "flag_evaluates_to" });
        let member = json!({ "key": "id", "type": "cohort", "value": cohort["id"] });
        json!({ "properties": [member, on] })
    };
    let conditions: Vec<Value> = (0..9).map(condition).collect();
    let cost_with = |key: &str, conditions: &[Value]| {
        create(&server, json!({ "key": key, "filters": { "groups": conditions } }));
        let copied = || copy(&server, key, &[&other["id"]]);
        assert_eq!(copied()["failed"], json!([]));
        cost_of(&server, &|| drop(copied()))
    };
    assert_eq!(cost_with("nine", &conditions), cost_with("one", &conditions[..1]));
}
