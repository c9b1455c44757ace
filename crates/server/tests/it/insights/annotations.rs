//! Annotations: visibility, filters, soft delete and restore.

use serde_json::{Value, json};

use crate::access::rules::AccessFixture;
use crate::harness::{PERSONAL_KEY, Server, Store, on_both_stores};

const ANNOTATIONS: &str = "/api/projects/1/annotations/";

on_both_stores! {
    annotation_has_every_field_that_clients_read,
    annotation_list_is_filtered_latest_first,
    organization_annotations_are_visible_in_all_projects,
    organization_annotation_is_edited_with_access_to_its_project,
    annotation_is_soft_deleted_and_restored,
    annotation_requires_an_existing_dashboard,
    annotation_path_spellings_reach_one_resource,
    annotation_key_scopes_are_enforced_in_header_body_and_query,
    annotation_changes_are_logged_in_its_project,
    bad_bodies_change_nothing,
}

fn create(server: &Server, body: Value) -> Value {
    server.post(ANNOTATIONS, body).expect(201).json()
}

fn path(annotation: &Value) -> String {
    format!("{ANNOTATIONS}{}/", annotation["id"])
}

fn contents(server: &Server, path: &str) -> Vec<String> {
    let listing = server.get(path).expect(200).json();
    let results = listing["results"].as_array().unwrap();
    assert_eq!(listing["count"], results.len());
    results.iter().map(|found| found["content"].as_str().unwrap_or("-").to_owned()).collect()
}

fn annotation_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let bare = create(&server, json!({}));
    assert_eq!(bare["content"], json!(null));
    assert_eq!(bare["date_marker"], json!(null));
    let sent = json!({
        "content": "Released 1.0", "date_marker": "2024-03-01T12:00:00.5+02:00",
        "creation_type": "GIT", "scope": "project", "dashboard_item": null, "id": 77,
    });
    let annotation = create(&server, sent);
    for (field, expected) in [
        ("content", json!("Released 1.0")),
        ("date_marker", json!("2024-03-01T10:00:00.500000Z")),
        ("creation_type", json!("GIT")),
        ("dashboard_item", json!(null)),
        ("dashboard_id", json!(null)),
        ("dashboard_name", json!(null)),
        ("insight_short_id", json!(null)),
        ("insight_name", json!(null)),
        ("insight_derived_name", json!(null)),
        ("updated_at", annotation["created_at"].clone()),
        ("deleted", json!(false)),
        ("scope", json!("project")),
        ("id", json!(2)),
    ] {
        assert_eq!(annotation.get(field), Some(&expected), "{field}");
    }
    assert_eq!(annotation["created_by"]["email"], "admin@example.com");
    assert_eq!(server.get(&path(&annotation)).expect(200).json(), annotation);

    let path = path(&annotation);
    let changed = server.patch(&path, json!({ "content": null })).expect(200).json();
    assert_eq!(changed["content"], json!(null));
    assert_eq!(changed["date_marker"], annotation["date_marker"], "left out, so kept");
    assert!(changed["updated_at"].as_str() > annotation["updated_at"].as_str());
    let unchanged = server.patch(&path, json!({ "content": null })).expect(200).json();
    assert_eq!(unchanged, changed, "nothing changed, not even the time");
    let put = server.put(&path, json!({ "content": "x", "scope": "organization" })).expect(200);
    assert_eq!(put.json()["scope"], "organization");
    server.put(&format!("{ANNOTATIONS}99"), json!({ "content": "x" })).expect(404);
}

fn annotation_list_is_filtered_latest_first(store: Store) {
    let server = store.start();
    let marked = |content: &str, day: &str| {
        create(&server, json!({ "content": content, "date_marker": day }))
    };
    marked("100% Über", "2024-01-03");
    let middle = marked("second_one", "2024-01-01");
    create(&server, json!({ "content": "third", "scope": "organization" }));
    marked("FOURTH", "2024-01-02");
    assert_eq!(contents(&server, ANNOTATIONS), ["third", "100% Über", "FOURTH", "second_one"]);
    let now = middle["created_at"].as_str().unwrap();
    for (filter, expected) in [
        (format!("after={now}"), &["third", "FOURTH"][..]),
        (format!("before={now}"), &["100% Über"]),
        ("before=1999-01-01".into(), &[]),
        ("scope=organization".into(), &["third"]),
        ("scope=insight".into(), &[]),
        ("scope=".into(), &["third", "100% Über", "FOURTH", "second_one"]),
        ("search=fourth".into(), &["FOURTH"]),
        ("search=%C3%9Cber".into(), &["100% Über"]),
        ("search=100%25".into(), &["100% Über"]),
        ("search=d_o".into(), &["second_one"]),
        ("search=h_r".into(), &[]),
        ("dashboardItemId=5".into(), &[]),
        ("search=t&scope=project".into(), &["FOURTH"]),
    ] {
        assert_eq!(contents(&server, &format!("{ANNOTATIONS}?{filter}")), expected, "{filter}");
    }
    for (filter, expected) in [
        ("before=soon".to_owned(), "validation_error invalid_input before"),
        ("after=2024-13-01".into(), "validation_error invalid_input after"),
        ("scope=galaxy".into(), "validation_error invalid_choice scope"),
        ("search=a%00".into(), "validation_error invalid_input search"),
        (format!("search={}", "x".repeat(401)), "validation_error max_length search"),
    ] {
        let refused = server.get(&format!("{ANNOTATIONS}?{filter}")).expect(400);
        assert_eq!(refused.error(), expected, "{filter}");
    }
    let page = server.get(&format!("{ANNOTATIONS}?limit=1&search=t&offset=1")).json();
    assert_eq!(page["count"], 2);
    assert_eq!(page["results"][0]["content"], "FOURTH");
}

fn organization_annotations_are_visible_in_all_projects(store: Store) {
    let server = store.start();
    let sibling = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    let there = format!("/api/projects/{}/annotations/", sibling["id"]);
    let own = create(&server, json!({ "content": "own" }));
    let shared = create(&server, json!({ "content": "shared", "scope": "organization" }));
    assert_eq!(contents(&server, &there), ["shared"]);
    server.get(&format!("{there}{}", own["id"])).expect(404);
    server.patch(&format!("{there}{}", own["id"]), json!({ "content": "x" })).expect(404);
    let path = format!("{there}{}", shared["id"]);
    assert_eq!(server.get(&path).expect(200).json(), shared);
    let changed = server.patch(&path, json!({ "scope": "project" })).expect(200).json();
    assert_eq!(changed["scope"], "project");
    assert_eq!(contents(&server, &there), Vec::<String>::new());
    assert_eq!(contents(&server, ANNOTATIONS), ["shared", "own"]);
    let board = server.post("/api/projects/1/dashboards/", json!({ "name": "b" })).expect(201);
    let body =
        json!({ "content": "on b", "scope": "organization", "dashboard_id": board.json()["id"] });
    assert_eq!(create(&server, body)["dashboard_name"], "b");
    let seen = server.get(&there).expect(200).json()["results"][0].clone();
    let [id, name] = ["dashboard_id", "dashboard_name"].map(|field| seen[field].clone());
    assert_eq!((&seen["content"], id, name), (&json!("on b"), Value::Null, Value::Null));
}

fn organization_annotation_is_edited_with_access_to_its_project(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let sibling = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    let all_there = format!("/api/projects/{}", sibling["id"]);
    let shared = create(server, json!({ "content": "a", "scope": "organization" }));
    let there = format!("{all_there}/annotations/{}/", shared["id"]);
    let changes = [
        json!({ "content": "b" }),
        json!({ "deleted": true }),
        json!({ "scope": "project" }),
        json!({ "content": 5 }),
    ];
    fixture.call("PATCH", &there, json!({ "content": "before" })).expect(200);

    let rules = "/api/projects/1/access_controls/";
    fixture.rule(rules, "member", json!({ "access_level": "none" }));
    let key = json!({ "label": "k", "scopes": ["*"], "scoped_teams": [sibling["id"]] });
    let key = server.post("/api/personal_api_keys/", key).expect(201).json();
    let by_key = |method: &str, body: &Value| {
        let call = server.call(method, &there).key(key["value"].as_str().unwrap());
        call.json(body.clone()).send()
    };
    for change in &changes {
        for method in ["PATCH", "PUT"] {
            let refused = fixture.call(method, &there, change.clone()).expect(403);
            assert_eq!(refused.json()["detail"], "You don't have access to the project.");
            let refused = by_key(method, change).expect(403).json();
            let detail = "API key does not have access to the requested project: ID 1.";
            assert_eq!(refused["detail"], detail);
        }
    }
    assert_eq!(fixture.get(&there).expect(200).json()["content"], "before");
    assert_eq!(by_key("GET", &json!({})).expect(200).json()["content"], "before");

    server.patch(&path(&shared), json!({ "deleted": true })).expect(200);
    fixture.call("PATCH", &there, json!({ "deleted": false })).expect(403);
    server.patch(&there, json!({ "deleted": false })).expect(200);
    // It refers to objects of its own project.
    let board = server.post(&format!("{all_there}/dashboards/"), json!({})).expect(201).json();
    let refused = server.patch(&there, json!({ "dashboard_id": board["id"] })).expect(400);
    assert_eq!(refused.error(), "validation_error does_not_exist dashboard_id");
    fixture.clear(rules);
    fixture.call("PATCH", &there, json!({ "content": "again" })).expect(200);
}

// contract: management 32-35, 37
fn annotation_is_soft_deleted_and_restored(store: Store) {
    let server = store.start();
    let annotation = create(&server, json!({ "content": "a" }));
    let path = path(&annotation);
    for gone in [&path, "/api/projects/1/annotations/999"] {
        assert_eq!(server.delete(gone).expect(405).text(), "");
    }
    let reader = server.key(&["annotation:read"]);
    server.call("DELETE", &path).key(&reader).send().expect(403);
    server.get(&path).expect(200);
    assert_eq!(server.patch(&path, json!({ "deleted": 1 })).expect(200).json()["deleted"], true);
    server.get(&path).expect(404);
    server.patch(&path, json!({ "content": "b" })).expect(404);
    assert_eq!(contents(&server, ANNOTATIONS), Vec::<String>::new());
    let restored = server.put(&path, json!({ "deleted": 0, "content": "b" })).expect(200).json();
    assert_eq!(restored["content"], "b");
    assert_eq!(contents(&server, ANNOTATIONS), ["b"]);
}

fn annotation_requires_an_existing_dashboard(store: Store) {
    let server = store.start();
    for (body, expected) in [
        (
            json!({ "scope": "dashboard_item", "dashboard_item": 5 }),
            "does_not_exist dashboard_item",
        ),
        (json!({ "dashboard_id": 5 }), "does_not_exist dashboard_id"),
        (json!({ "scope": "dashboard_item" }), "required dashboard_item"),
        (json!({ "scope": "dashboard" }), "required dashboard_id"),
        (json!({ "scope": "galaxy" }), "invalid_choice scope"),
        (json!({ "scope": null }), "null scope"),
        (json!({ "dashboard_item": "x" }), "invalid_input dashboard_item"),
    ] {
        let refused = server.post(ANNOTATIONS, body).expect(400);
        assert_eq!(refused.error(), format!("validation_error {expected}"));
    }
    assert_eq!(contents(&server, ANNOTATIONS), Vec::<String>::new());
}

// contract: management 12-16
fn annotation_path_spellings_reach_one_resource(store: Store) {
    let server = store.start();
    for (number, path) in [
        "/api/projects/1/annotations",
        "/api/projects/1/annotations/",
        "/api/projects/@current/annotations/",
        "/api/environments/1/annotations",
        "/api/environments/@current/annotations/",
        "/api/annotation",
        "/api/annotation/?token=phc_test",
    ]
    .into_iter()
    .enumerate()
    {
        server.post(path, json!({})).expect(201);
        let there = server.get(path).expect(200).json();
        assert_eq!(there, server.get("/api/projects/1/annotations").json(), "{path}");
        assert_eq!(there["count"], number + 1);
    }
    for unknown in ["abc", "999999", "1x", "99999999999999999999"] {
        let refused = server.get(&format!("/api/projects/{unknown}/annotations")).expect(404);
        assert_eq!(refused.error(), "invalid_request not_found -");
        assert_eq!(refused.json()["detail"], "Project not found.");
    }
    let overridden =
        server.call("POST", "/api/annotation/1").header("X-HTTP-Method-Override", "PATCH");
    let changed = overridden.json(json!({ "content": "x" })).send().expect(200).json();
    assert_eq!(changed["content"], "x");
}

// contract: management 4-8
fn annotation_key_scopes_are_enforced_in_header_body_and_query(store: Store) {
    let server = store.start();
    let body = json!({ "personal_api_key": PERSONAL_KEY, "content": "by body" });
    server.call("POST", ANNOTATIONS).no_key().json(body).send().expect(201);
    let query = format!("{ANNOTATIONS}?personal_api_key={PERSONAL_KEY}");
    server.call("GET", &query).no_key().send().expect(200);
    let bad = server.call("GET", &format!("{ANNOTATIONS}?personal_api_key=phx_x")).no_key().send();
    assert!(bad.expect(401).text().contains("query string"));

    let call = |method: &str, scopes: &[&str]| {
        let key = server.key(scopes);
        server.call(method, ANNOTATIONS).key(&key).json(json!({})).send()
    };
    let missing = |scope: &str| format!("API key missing required scope '{scope}'");
    let refused = call("POST", &["annotation:read"]).expect(403);
    assert_eq!(refused.json()["detail"], missing("annotation:write"));
    call("GET", &["annotation:write"]).expect(200);
    let refused = call("GET", &["action:read"]).expect(403);
    assert_eq!(refused.json()["detail"], missing("annotation:read"));
}

fn annotation_changes_are_logged_in_its_project(store: Store) {
    let server = store.start();
    let sibling = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    let shared = create(&server, json!({ "content": "a", "scope": "organization" }));
    let there = format!("/api/projects/{}/annotations/{}", sibling["id"], shared["id"]);
    server.patch(&there, json!({ "content": "b" })).expect(200);
    let page = server.get(&format!("{}activity", path(&shared))).expect(200).json();
    assert_eq!(page["total_count"], 2);
    let newest = &page["results"][0];
    assert_eq!(newest["scope"], "Annotation");
    assert_eq!(newest["activity"], "updated");
    let change = json!({
        "type": "Annotation", "action": "changed", "field": "content",
        "before": "a", "after": "b",
    });
    assert_eq!(newest["detail"]["changes"], json!([change]));
    assert_eq!(server.get(&format!("{ANNOTATIONS}activity")).expect(200).json(), page);
}

fn bad_bodies_change_nothing(store: Store) {
    let server = store.start();
    for (body, expected) in [
        (json!({ "content": 5 }), "invalid_input content"),
        (json!({ "content": "x".repeat(8_193) }), "max_length content"),
        (json!({ "date_marker": "soon" }), "invalid_input date_marker"),
        (json!({ "date_marker": 5 }), "invalid_input date_marker"),
        (json!({ "creation_type": "BOT" }), "invalid_choice creation_type"),
        (json!({ "creation_type": null }), "null creation_type"),
        (json!({ "deleted": null }), "null deleted"),
    ] {
        let refused = server.post(ANNOTATIONS, body).expect(400);
        assert_eq!(refused.error(), format!("validation_error {expected}"));
    }
    assert_eq!(contents(&server, ANNOTATIONS), Vec::<String>::new());
    create(&server, json!({ "content": "ü".repeat(8_192) }));
}
