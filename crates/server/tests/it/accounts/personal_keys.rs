//! Personal API keys over HTTP.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::harness::{PERSONAL_KEY, Store, on_both_stores};

on_both_stores! {
    personal_key_is_shown_once_then_masked,
    invalid_personal_keys_name_their_field,
    personal_key_is_changed_rolled_and_deleted,
    personal_keys_are_private_to_their_owner,
    personal_key_reads_itself,
    project_scoped_key_is_confined,
    key_cannot_create_a_broader_key,
    legacy_key_without_prefix_is_accepted,
}

const KEYS: &str = "/api/personal_api_keys/";
const CURRENT: &str = "/api/personal_api_keys/@current/";

fn path(key: &Value) -> String {
    format!("{KEYS}{}/", key["id"].as_str().unwrap())
}

fn value(key: &Value) -> &str {
    key["value"].as_str().unwrap()
}

// contract: management 115
fn personal_key_is_shown_once_then_masked(store: Store) {
    let server = store.start();
    let body = json!({ "label": " CI ", "scopes": ["dashboard:read", "dashboard:read"] });
    let made = server.post(KEYS, body).expect(201).json();
    let secret = value(&made).to_owned();
    assert!(secret.starts_with("phx_") && secret.len() == 47);
    let expected = json!({
        "id": made["id"].as_str().unwrap(),
        "label": "CI",
        "value": secret,
        "mask_value": format!("phx_...{}", &secret[43..]),
        "created_at": made["created_at"].as_str().unwrap(),
        "last_used_at": null,
        "last_rolled_at": null,
        "user_id": made["user_id"].as_i64().unwrap(),
        "scopes": ["dashboard:read"],
        "scoped_teams": [],
        "scoped_organizations": [],
    });
    assert_eq!(made, expected);
    let mut hidden = made.clone();
    hidden["value"] = Value::Null;
    assert_eq!(server.get(&path(&made)).expect(200).json(), hidden);
    let listed = server.get(KEYS).expect(200).json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0], hidden, "newest first");
    assert!(listed[1]["last_used_at"].is_string(), "it is in use");

    let unknown = server.post(KEYS, json!({ "label": "x", "scopes": ["foo:read"] })).expect(400);
    assert_eq!(unknown.error(), "validation_error invalid_input scopes");
    assert_eq!(unknown.json()["detail"], "Invalid scope: foo:read");
    for _ in 2..10 {
        server.post(KEYS, json!({ "label": "x", "scopes": ["*"] })).expect(201);
    }
    let eleventh = server.post(KEYS, json!({ "label": "x", "scopes": ["*"] })).expect(400);
    assert_eq!(eleventh.error(), "validation_error invalid_input -");
    assert_eq!(server.get(KEYS).json().as_array().unwrap().len(), 10);
}

fn invalid_personal_keys_name_their_field(store: Store) {
    let server = store.start();
    let nowhere = "00000000-0000-4000-8000-000000000000";
    let made = server.post(KEYS, json!({ "label": "x", "scopes": ["*"] })).expect(201).json();
    for (field, bad, error) in [
        ("label", Value::Null, "null label"),
        ("label", json!(""), "blank label"),
        ("label", json!("l".repeat(41)), "max_length label"),
        ("label", json!(1), "invalid_input label"),
        ("scopes", Value::Null, "null scopes"),
        ("scopes", json!("*"), "not_a_list scopes"),
        ("scopes", json!(["dashboard:delete"]), "invalid_input scopes"),
        ("scopes", json!([1]), "invalid_input scopes__0"),
        ("scoped_teams", json!([2]), "invalid_input scoped_teams"),
        ("scoped_teams", json!([1, 99]), "invalid_input scoped_teams"),
        ("scoped_teams", json!(["x"]), "invalid_input scoped_teams__0"),
        ("scoped_organizations", json!([nowhere]), "invalid_input scoped_organizations"),
        ("scoped_organizations", json!(["x"]), "invalid_input scoped_organizations__0"),
    ] {
        let error = format!("validation_error {error}");
        let mut body = json!({ "label": "x", "scopes": ["*"] });
        body[field] = bad.clone();
        assert_eq!(server.post(KEYS, body.clone()).expect(400).error(), error, "{body}");
        let change = json!({ field: bad });
        assert_eq!(
            server.patch(&path(&made), change.clone()).expect(400).error(),
            error,
            "{change}"
        );
    }
    for missing in ["label", "scopes"] {
        let mut body = json!({ "label": "x", "scopes": ["*"] });
        body.as_object_mut().unwrap().remove(missing);
        let error = format!("validation_error required {missing}");
        assert_eq!(server.post(KEYS, body.clone()).expect(400).error(), error);
        assert_eq!(server.put(&path(&made), body).expect(400).error(), error);
    }
    assert_eq!(server.get(KEYS).json().as_array().unwrap().len(), 2);
}

fn personal_key_is_changed_rolled_and_deleted(store: Store) {
    let server = store.start();
    let organization = server.get("/api/organizations/@current/").json()["id"].clone();
    let made = server.post(KEYS, json!({ "label": "x", "scopes": ["user:write"] }));
    let made = made.expect(201).json();
    let change = json!({
        "label": "y", "scopes": ["organization:read"], "scoped_teams": [1, 1],
        "scoped_organizations": [organization], "value": "phx_mine", "user_id": 99,
    });
    let changed = server.patch(&path(&made), change).expect(200).json();
    assert_eq!((&changed["label"], &changed["value"]), (&json!("y"), &Value::Null));
    assert_eq!(changed["scopes"], json!(["organization:read"]));
    assert_eq!(changed["scoped_teams"], json!([1]));
    assert_eq!(changed["scoped_organizations"], json!([organization]));
    assert_eq!(changed["user_id"], made["user_id"]);
    let emptied = server.patch(&path(&made), json!({ "scoped_teams": [] })).expect(200).json();
    assert_eq!(emptied["scoped_teams"], json!([]), "an empty list means everywhere");
    assert_eq!(emptied["scoped_organizations"], json!([organization]));
    server.call("GET", "/api/organizations/@current/").key(value(&made)).send().expect(200);

    let rolled = server.post(&format!("{}roll/", path(&made)), json!({})).expect(200).json();
    assert_ne!(rolled["value"], made["value"]);
    assert_eq!((&rolled["id"], &rolled["scopes"]), (&made["id"], &emptied["scopes"]));
    assert!(rolled["last_rolled_at"].is_string());
    server.call("GET", CURRENT).key(value(&made)).send().expect(401);
    server.call("GET", CURRENT).key(value(&rolled)).send().expect(200);
    server.delete(&path(&made)).expect(204);
    server.delete(&path(&made)).expect(404);
    server.call("GET", CURRENT).key(value(&rolled)).send().expect(401);

    let renewed = server.post(&format!("{CURRENT}roll/"), json!({})).expect(200).json();
    server.get(KEYS).expect(401);
    let own = |method: &str, path: &str| server.call(method, path).key(value(&renewed));
    own("PATCH", CURRENT).json(json!({ "label": "mine" })).send().expect(200);
    own("DELETE", CURRENT).send().expect(204);
    own("GET", CURRENT).send().expect(401);
}

fn personal_keys_are_private_to_their_owner(store: Store) {
    let server = store.start();
    test_users::add(&server, "m@example.com", 15);
    let key = test_users::key_of(&server, "m@example.com", &["*"]);
    let other = server.get(CURRENT).json();
    let by = |method: &str, path: &str| server.call(method, path).key(&key).json(json!({})).send();
    assert_eq!(by("GET", KEYS).expect(200).json().as_array().unwrap().len(), 1);
    for (method, path) in [
        ("GET", path(&other)),
        ("PATCH", path(&other)),
        ("DELETE", path(&other)),
        ("POST", format!("{}roll/", path(&other))),
        ("GET", format!("{KEYS}nothing")),
    ] {
        assert_eq!(by(method, &path).expect(404).error(), "invalid_request not_found -");
    }
    let browser = test_users::log_in(&server, "m@example.com", test_users::PASSWORD);
    browser.get(CURRENT).expect(404);
    assert_eq!(browser.get(KEYS).expect(200).json().as_array().unwrap().len(), 1);
}

fn personal_key_reads_itself(store: Store) {
    let server = store.start();
    let narrow = server.key(&["insight:read"]);
    let by = |method: &str, path: &str| server.call(method, path).key(&narrow).json(json!({}));
    let own = by("GET", CURRENT).send().expect(200).json();
    assert_eq!((&own["scopes"], &own["value"]), (&json!(["insight:read"]), &Value::Null));
    for (method, path, scope) in [
        ("GET", KEYS.to_owned(), "user:read"),
        ("GET", path(&own), "user:read"),
        ("POST", KEYS.to_owned(), "user:write"),
        ("PATCH", CURRENT.to_owned(), "user:write"),
        ("DELETE", CURRENT.to_owned(), "user:write"),
        ("POST", format!("{CURRENT}roll"), "user:write"),
    ] {
        let refused = by(method, &path).send().expect(403).json();
        assert_eq!(refused["detail"], format!("API key missing required scope '{scope}'"));
    }
}

/// Uses annotations in place of dashboards.
// contract: management 9-10
fn project_scoped_key_is_confined(store: Store) {
    let server = store.start();
    let second = server.post("/api/organizations/", json!({ "name": "Second" })).expect(201).json();
    assert_eq!(second["teams"][0]["id"], 2);
    let body = json!({ "label": "x", "scopes": ["*"], "scoped_teams": [1] });
    let key = server.post(KEYS, body).expect(201).json();
    let get = |path: &str| server.call("GET", path).key(value(&key)).send();
    get("/api/projects/1/annotations").expect(200);
    server.get("/api/projects/2/annotations").expect(200);
    let refused = get("/api/projects/2/annotations").expect(403);
    let detail = "API key does not have access to the requested project: ID 2.";
    assert_eq!(refused.json()["detail"], detail);
    for path in ["/api/organizations/", "/api/organizations/@current/", test_users::MEMBERS] {
        let refused = get(path).expect(403);
        assert_eq!(refused.error(), "authentication_error permission_denied -");
        assert_eq!(
            refused.json()["detail"],
            "API keys with scoped projects are only supported on project-based endpoints."
        );
    }
    get("/api/projects/99/annotations").expect(404);
}

fn key_cannot_create_a_broader_key(store: Store) {
    let server = store.start();
    let first = server.get("/api/organizations/@current/").json()["id"].clone();
    let second = server.post("/api/organizations/", json!({ "name": "Second" })).expect(201).json();
    let make = |body: Value| server.post(KEYS, body).expect(201).json();
    let narrow = make(json!({
        "label": "narrow", "scopes": ["user:write", "insight:read"],
        "scoped_teams": [1], "scoped_organizations": [first],
    }));
    let twin = make(json!({
        "label": "twin", "scopes": ["insight:read"],
        "scoped_teams": [1], "scoped_organizations": [first],
    }));
    let wide = make(json!({ "label": "wide", "scopes": ["*"] }));
    let by = |method: &str, path: &str, body: Value| {
        server.call(method, path).key(value(&narrow)).json(body).send()
    };
    let within = json!({
        "label": "new", "scopes": ["insight:read"], "scoped_teams": [1],
        "scoped_organizations": [first],
    });
    by("POST", KEYS, within.clone()).expect(201);
    for (field, beyond) in [
        ("scopes", json!(["*"])),
        ("scopes", json!(["insight:write"])),
        ("scopes", json!(["organization:read"])),
        ("scoped_teams", Value::Null),
        ("scoped_teams", json!([])),
        ("scoped_teams", json!([1, 2])),
        ("scoped_organizations", Value::Null),
        ("scoped_organizations", json!([second["id"]])),
    ] {
        let mut body = within.clone();
        body[field] = beyond.clone();
        by("POST", KEYS, body.clone()).expect(403);
        let change = json!({ field: beyond });
        for path in [path(&twin), CURRENT.to_owned()] {
            let refused = by("PATCH", &path, change.clone()).expect(403);
            assert_eq!(refused.error(), "authentication_error permission_denied -", "{change}");
            by("PUT", &path, body.clone()).expect(403);
        }
    }
    for (method, path) in [
        ("POST", format!("{}roll", path(&wide))),
        ("PATCH", path(&wide)),
        ("PATCH", path(&server.get(CURRENT).json())),
        ("DELETE", path(&wide)),
    ] {
        by(method, &path, json!({ "scopes": [] })).expect(403);
    }
    by("POST", &format!("{}roll", path(&twin)), json!({})).expect(200);
    by("PATCH", CURRENT, json!({ "scopes": ["user:write"] })).expect(200);
    by("POST", &format!("{}roll", path(&twin)), json!({})).expect(403);
    let kept: Vec<Value> = server.get(KEYS).json().as_array().unwrap().clone();
    let named = |label: &str| kept.iter().find(|key| key["label"] == label).unwrap().clone();
    assert_eq!(named("wide")["scopes"], json!(["*"]));
    assert_eq!(named("twin")["scopes"], json!(["insight:read"]));
    server.call("GET", CURRENT).key(value(&wide)).send().expect(200);
    server.call("GET", CURRENT).key(PERSONAL_KEY).send().expect(200);
}

fn legacy_key_without_prefix_is_accepted(store: Store) {
    let old = "e3Xn8wq2Zk5tR7yPb1vC4mLs9dFgHjUa";
    let server = store.start_with(&[("HEDGEROW_PERSONAL_API_KEY", old)]);
    let own = server.call("GET", CURRENT).key(old).send().expect(200).json();
    assert_eq!(own["mask_value"], "e3Xn...HjUa");
    server.call("GET", CURRENT).key(&old.to_lowercase()).send().expect(401);
}
