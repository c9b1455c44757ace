//! Projects: settings, tokens and access.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::harness::{PROJECT_KEY, Store, on_both_stores};

on_both_stores! {
    project_has_every_field_at_its_default,
    project_settings_read_back_and_are_logged_once,
    invalid_value_is_named_and_changes_nothing,
    test_account_filters_must_be_queryable,
    read_only_project_fields_are_ignored,
    project_put_requires_the_name,
    creating_a_project_does_not_switch_users,
    project_is_reachable_only_under_its_organization,
    deleted_project_is_gone,
    reset_token_invalidates_the_old_one,
    rotated_secret_token_keeps_its_predecessor_until_deleted,
    project_key_opens_no_other_project,
    members_cannot_administer_projects,
    foreign_project_is_not_accessible,
}

/// Every writable setting with its default and another value.
fn settings() -> Vec<(&'static str, Value, Value)> {
    vec![
        ("product_description", json!(null), json!("hedges")),
        ("app_urls", json!([]), json!(["https://example.com"])),
        ("anonymize_ips", json!(false), json!(true)),
        ("person_processing_opt_out", json!(null), json!(true)),
        ("drop_events_older_than_seconds", json!(null), json!(3_600)),
        ("completed_snippet_onboarding", json!(true), json!(false)),
        ("test_account_filters", json!([]), json!([{ "key": "email", "value": "@example.com" }])),
        ("test_account_filters_default_checked", json!(null), json!(true)),
        ("path_cleaning_filters", json!([]), json!([{ "alias": "id", "regex": "\\d+" }])),
        ("is_demo", json!(false), json!(true)),
        ("timezone", json!("UTC"), json!("America/New_York")),
        ("data_attributes", json!(["data-attr"]), json!(["data-id", "data-attr"])),
        ("person_display_name_properties", json!(null), json!(["email"])),
        ("correlation_config", json!(null), json!({ "excluded": ["$ip"] })),
        ("autocapture_opt_out", json!(false), json!(true)),
        ("autocapture_exceptions_opt_in", json!(false), json!(true)),
        ("autocapture_web_vitals_opt_in", json!(null), json!(false)),
        ("session_recording_opt_in", json!(false), json!(true)),
        ("capture_console_log_opt_in", json!(true), json!(null)),
        ("capture_performance_opt_in", json!(true), json!(false)),
        ("surveys_opt_in", json!(null), json!(true)),
        ("heatmaps_opt_in", json!(null), json!(true)),
        ("cookieless_server_hash_mode", json!(null), json!(2)),
        ("recording_domains", json!(null), json!(["https://example.com"])),
        ("access_control", json!(false), json!(true)),
        ("week_start_day", json!(null), json!(0)),
        ("primary_dashboard", json!(null), json!(1)),
        ("live_events_columns", json!(null), json!(["event"])),
        ("inject_web_apps", json!(null), json!(false)),
        ("extra_settings", json!(null), json!({ "a": [1, 2.5, null] })),
        ("modifiers", json!(null), json!({ "debug": true })),
        ("has_completed_onboarding_for", json!(null), json!({ "analytics": true })),
        ("flags_persistence_default", json!(null), json!(true)),
        ("base_currency", json!("USD"), json!("EUR")),
    ]
}

fn project_has_every_field_at_its_default(store: Store) {
    let server = store.start();
    let mut project = server.get("/api/projects/1/").expect(200).json();
    for (name, default, _) in settings() {
        assert_eq!(take(&mut project, name), default, "{name}");
    }
    for (name, expected) in [
        ("id", json!(1)),
        ("project_id", json!(1)),
        ("api_token", json!(PROJECT_KEY)),
        ("name", json!("Default project")),
        ("effective_membership_level", json!(8)),
        ("user_access_level", json!("admin")),
        ("has_group_types", json!(false)),
        ("group_types", json!([])),
        ("ingested_event", json!(false)),
        ("person_on_events_querying_enabled", json!(true)),
        ("default_modifiers", json!({})),
        ("product_intents", json!([])),
        ("secret_api_token", json!(null)),
        ("secret_api_token_backup", json!(null)),
        ("live_events_token", json!(null)),
        ("is_pending_deletion", json!(false)),
    ] {
        assert_eq!(take(&mut project, name), expected, "{name}");
    }
    for name in ["organization", "uuid"] {
        assert_eq!(take(&mut project, name).as_str().map(str::len), Some(36), "{name}");
    }
    for name in ["created_at", "updated_at"] {
        assert!(take(&mut project, name).as_str().unwrap().ends_with('Z'), "{name}");
    }
    assert_eq!(project, json!({}));

    let listed = server.get("/api/projects/").expect(200).json();
    let names: Vec<&String> = listed["results"][0].as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        [
            "access_control",
            "api_token",
            "completed_snippet_onboarding",
            "has_completed_onboarding_for",
            "id",
            "ingested_event",
            "is_demo",
            "name",
            "organization",
            "project_id",
            "timezone",
            "uuid"
        ]
    );
}

fn take(project: &mut Value, name: &str) -> Value {
    project.as_object_mut().unwrap().remove(name).unwrap_or_else(|| panic!("{name} is missing"))
}

// contract: management 116
fn project_settings_read_back_and_are_logged_once(store: Store) {
    let server = store.start();
    server.post("/api/projects/1/dashboards/", json!({})).expect(201);
    let others: Value =
        settings().into_iter().map(|(name, _, other)| (name.to_owned(), other)).collect();
    let patched = server.patch("/api/environments/1/", others.clone()).expect(200).json();
    server.patch("/api/projects/@current", others).expect(200);
    let read = server.get("/api/projects/1").expect(200).json();
    assert_eq!(server.get("/api/environments/1/").expect(200).json(), read);
    let log = server.get("/api/projects/1/activity/").expect(200).json();
    assert_eq!(log["total_count"], 2, "made, then changed once: {log}");
    let changes = log["results"][0]["detail"]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), settings().len());
    for (name, default, other) in settings() {
        assert_eq!((&patched[name], &read[name]), (&other, &other), "{name}");
        let change = changes.iter().find(|change| change["field"] == name).unwrap();
        assert_eq!((&change["before"], &change["after"]), (&default, &other), "{name}");
    }
    let defaults: Value =
        settings().into_iter().map(|(name, default, _)| (name.to_owned(), default)).collect();
    let back = server.patch("/api/projects/1", defaults).expect(200).json();
    for (name, default, _) in settings() {
        assert_eq!(back[name], default, "{name}");
    }
}

/// Query 2.1 and 2.5: they are ordinary filters. Incomplete ones match everything, and
/// referenced objects may be created later.
fn test_account_filters_must_be_queryable(store: Store) {
    const FILTERS: &str = "test_account_filters";
    let server = store.start();
    let ask = |tested: bool| {
        let series = json!([{ "kind": "EventsNode" }]);
        let trend =
            json!({ "kind": "TrendsQuery", "series": series, "filterTestAccounts": tested });
        let filters = json!({ "filterTestAccounts": tested });
        let text = "select count() from events where {filters}";
        let written = json!({ "kind": "HogQLQuery", "query": text, "filters": filters });
        [trend, written]
            .map(|query| server.post("/api/projects/1/query/", json!({ "query": query })).status)
    };
    let host = "^(localhost|127\\.0\\.0\\.1)($|:)";
    let fits = json!([
        { "key": "email", "value": "@example.com" },
        { "key": "email", "type": "person", "value": "@example.com", "operator": "not_icontains" },
        { "key": "$host", "type": "event", "value": host, "operator": "not_regex" },
        { "key": "$host", "type": null, "value": ["localhost:8000"], "operator": null },
        { "key": "$feature/a", "type": "event", "value": ["true"], "operator": "is_not" },
        { "key": "is_test", "type": "person", "operator": "is_not_set", "value": "is_not_set" },
        { "key": "plan", "type": "group", "group_type_index": 0, "value": "pro" },
        { "key": "distinct_id != 'me'", "type": "hogql", "value": null },
        { "type": "AND", "values": [{ "key": "a", "value": 1 }] },
        { "type": "person" },
    ]);
    let body = json!({ FILTERS: fits });
    assert_eq!(
        server.patch("/api/environments/1/", body.clone()).expect(200).json()[FILTERS],
        fits
    );
    assert_eq!(ask(true), [200, 200]);
    assert_eq!(server.post("/api/projects/", body).expect(201).json()[FILTERS], fits);
    let gone = json!([{ "key": "id", "type": "cohort", "value": [999_999], "operator": "not_in" }]);
    server.patch("/api/projects/1/", json!({ FILTERS: gone })).expect(200);

    // Older releases stored any list of objects.
    let wrong = json!([{ "key": "a", "type": "planet", "value": 1 }]);
    let settings = json!({ FILTERS: wrong });
    server.instance().write(&format!("UPDATE projects SET settings = '{settings}' WHERE id = 1"));
    assert_eq!((ask(false), ask(true)), ([200, 200], [400, 400]));
    let same = json!({ "name": "n", FILTERS: wrong });
    assert_eq!(server.patch("/api/projects/1/", same.clone()).expect(200).json()["name"], "n");
    let refused = server.post("/api/projects/", same).expect(400);
    assert_eq!(refused.error(), format!("validation_error invalid_input {FILTERS}"));
    assert_eq!(server.get("/api/projects/").json()["count"], 2);
    server.patch("/api/projects/1/", json!({ FILTERS: [] })).expect(200);
    assert_eq!(ask(true), [200, 200]);
}

// contract: management 116
fn invalid_value_is_named_and_changes_nothing(store: Store) {
    let server = store.start();
    let before = server.get("/api/projects/1").expect(200).json();
    let planet = json!([{ "key": "a" }, { "key": "a", "type": "planet", "value": 1 }]);
    let hogql = json!([{ "key": "event = ", "type": "hogql" }]);
    let regex = json!([{ "key": "a", "operator": "not_regex", "value": "(" }]);
    let many = json!(vec![json!({ "key": "a", "value": 1 }); 101]);
    for (name, value, attr, code) in [
        ("timezone", json!("Mars/X"), "timezone", "invalid_choice"),
        ("timezone", json!("utc"), "timezone", "invalid_choice"),
        ("timezone", json!(null), "timezone", "null"),
        ("timezone", json!(5), "timezone", "invalid_input"),
        ("name", json!(""), "name", "blank"),
        ("name", json!(" "), "name", "blank"),
        ("name", json!("n".repeat(201)), "name", "max_length"),
        ("name", json!(["n"]), "name", "invalid_input"),
        ("anonymize_ips", json!("maybe"), "anonymize_ips", "invalid_input"),
        ("anonymize_ips", json!(null), "anonymize_ips", "null"),
        ("app_urls", json!("https://example.com"), "app_urls", "not_a_list"),
        ("app_urls", json!(["https://example.com", {}]), "app_urls__1", "invalid_input"),
        ("test_account_filters", json!([1]), "test_account_filters__0", "invalid_input"),
        ("week_start_day", json!(7), "week_start_day", "invalid_choice"),
        ("test_account_filters", planet, "test_account_filters", "invalid_input"),
        ("test_account_filters", json!([{ "values": 5 }]), "test_account_filters", "invalid_input"),
        ("test_account_filters", hogql, "test_account_filters", "invalid_input"),
        ("test_account_filters", regex, "test_account_filters", "invalid_input"),
        ("test_account_filters", many, "test_account_filters", "invalid_input"),
        ("primary_dashboard", json!(1e30), "primary_dashboard", "invalid_input"),
        ("modifiers", json!([]), "modifiers", "invalid_input"),
        ("base_currency", json!("euro"), "base_currency", "invalid_choice"),
        ("product_description", json!("p".repeat(70_000)), "product_description", "max_length"),
    ] {
        let refused = server.patch("/api/projects/1", json!({ "is_demo": true, name: value }));
        assert_eq!(refused.expect(400).error(), format!("validation_error {code} {attr}"));
    }
    assert_eq!(server.get("/api/projects/1").expect(200).json(), before);
    server.patch("/api/projects/1", json!({ "name": "ñ".repeat(200) })).expect(200);
}

fn read_only_project_fields_are_ignored(store: Store) {
    let server = store.start();
    let before = server.get("/api/projects/1").expect(200).json();
    let sent = json!({
        "id": 9, "uuid": "x", "organization": 1, "project_id": 9, "api_token": "phc_mine",
        "secret_api_token": "phs_mine", "secret_api_token_backup": "phs_mine", "created_at": 1,
        "updated_at": 1, "ingested_event": true, "group_types": [1], "has_group_types": true,
        "effective_membership_level": 1, "user_access_level": "none", "default_modifiers": 1,
        "nobody_knows_this": { "a": 1 },
    });
    assert_eq!(server.patch("/api/projects/1", sent).expect(200).json(), before);
    assert_eq!(server.get("/api/projects/1/activity").expect(200).json()["total_count"], 1);
}

fn project_put_requires_the_name(store: Store) {
    let server = store.start();
    let refused = server.put("/api/projects/1", json!({ "is_demo": true })).expect(400);
    assert_eq!(refused.error(), "validation_error required name");
    let put = server.put("/api/projects/1", json!({ "name": "Garden" })).expect(200).json();
    assert_eq!((&put["name"], &put["is_demo"]), (&json!("Garden"), &json!(false)));
    assert_eq!(server.patch("/api/projects/1", json!({})).expect(200).json()["name"], "Garden");
}

fn creating_a_project_does_not_switch_users(store: Store) {
    let server = store.start();
    let body = json!({ "name": "Orchard", "timezone": "Europe/Rome", "week_start_day": 1 });
    let made = server.post("/api/projects/", body).expect(201).json();
    assert_eq!(made["id"], 2);
    assert_eq!(made["timezone"], "Europe/Rome");
    assert_eq!(made["week_start_day"], 1);
    assert!(made["api_token"].as_str().unwrap().starts_with("phc_"));
    assert_eq!(server.get("/api/projects/2").expect(200).json(), made);
    assert_eq!(server.get("/api/projects/@current").expect(200).json()["id"], 1);
    let unnamed = server.post("/api/organizations/@current/projects/", json!({})).expect(201);
    assert_eq!(unnamed.json()["name"], "Default project");
    for path in ["/api/projects/", "/api/environments/", "/api/organizations/@current/projects"] {
        let listed = server.get(path).expect(200).json();
        let ids: Vec<&Value> =
            listed["results"].as_array().unwrap().iter().map(|project| &project["id"]).collect();
        assert_eq!(ids, [1, 2, 3], "{path}");
    }
    let refused = server.post("/api/projects", json!({ "name": "" })).expect(400);
    assert_eq!(refused.error(), "validation_error blank name");
    assert_eq!(server.get("/api/projects").expect(200).json()["count"], 3);
}

fn project_is_reachable_only_under_its_organization(store: Store) {
    let server = store.start();
    let project = server.get("/api/projects/1").expect(200).json();
    let own = project["organization"].as_str().unwrap();
    for (organization, name) in [(own, "Garden"), ("@current", "Orchard")] {
        let path = format!("/api/organizations/{organization}/projects/1/");
        let patched = server.patch(&path, json!({ "name": name })).expect(200).json();
        assert_eq!(patched["name"], name);
        assert_eq!(server.get(&path).expect(200).json(), patched);
        assert_eq!(server.get("/api/projects/1").expect(200).json(), patched);
    }
    for (path, detail) in [
        ("/api/organizations/@current/projects/9", "Project not found."),
        ("/api/organizations/nowhere/projects/1", "Organization not found."),
        (
            "/api/organizations/00000000-0000-4000-8000-000000000000/projects/1",
            "Organization not found.",
        ),
    ] {
        let missing = server.get(path).expect(404).json();
        assert_eq!(missing["detail"], detail, "{path}");
    }
}

fn deleted_project_is_gone(store: Store) {
    let server = store.start();
    let made = server.post("/api/projects", json!({ "name": "Weeds" })).expect(201).json();
    let token = made["api_token"].as_str().unwrap();
    server.get(&format!("/api/projects/1?token={token}")).expect(200);
    let gone = server.delete("/api/projects/2/").expect(204);
    assert_eq!(gone.body, b"");
    for method in ["GET", "PATCH", "DELETE"] {
        server.call(method, "/api/projects/2").send().expect(404);
    }
    server.get(&format!("/api/projects/1?token={token}")).expect(401);
    assert_eq!(server.get("/api/projects").expect(200).json()["count"], 1);
    let next = server.post("/api/projects", json!({ "name": "Herbs" })).expect(201).json();
    assert_eq!(next["id"], 3, "a number is never used again");
    let log = server.get("/api/projects/1/activity_log?scope=Team&item_id=2").expect(200).json();
    assert_eq!(log["results"][0]["activity"], "deleted", "the organization remembers: {log}");

    server.delete("/api/projects/1").expect(204);
    let current = server.get("/api/projects/@current").expect(200).json();
    assert_eq!(current["id"], 3, "who worked there works in the oldest that is left");
    server.delete("/api/projects/@current").expect(204);
    server.get("/api/projects/@current").expect(404);
    assert_eq!(server.get("/api/users/@me").expect(200).json()["team"], Value::Null);
    assert_eq!(server.post("/api/projects", json!({})).expect(201).json()["id"], 4);
    assert_eq!(server.get("/api/projects/@current").expect(200).json()["id"], 4);
}

fn reset_token_invalidates_the_old_one(store: Store) {
    let server = store.start();
    let reset = server.patch("/api/projects/1/reset_token/", json!({})).expect(200).json();
    let token = reset["api_token"].as_str().unwrap();
    assert!(token.starts_with("phc_") && token != PROJECT_KEY);
    server.get(&format!("/api/projects/1?token={PROJECT_KEY}")).expect(401);
    server.get(&format!("/api/projects/1?token={token}")).expect(200);
    let log = server.get("/api/projects/1/activity").expect(200);
    assert_eq!(log.json()["results"][0]["detail"]["changes"][0]["field"], "api_token");
    assert!(!log.text().contains(token) && !log.text().contains(PROJECT_KEY));
}

fn rotated_secret_token_keeps_its_predecessor_until_deleted(store: Store) {
    let server = store.start();
    let secrets = |project: Value| {
        let secret = |name: &str| project[name].as_str().unwrap_or("none").to_owned();
        (secret("secret_api_token"), secret("secret_api_token_backup"))
    };
    let rotate = || {
        let path = "/api/projects/1/rotate_secret_token";
        secrets(server.patch(path, json!({})).expect(200).json())
    };
    let (first, none) = rotate();
    assert!(first.starts_with("phs_") && none == "none");
    let (second, backup) = rotate();
    assert!(second.starts_with("phs_") && second != first);
    assert_eq!(backup, first);
    for _ in 0..2 {
        let path = "/api/projects/1/delete_secret_token_backup/";
        let dropped = secrets(server.patch(path, json!({})).expect(200).json());
        assert_eq!(dropped, (second.clone(), "none".into()));
    }
    assert_eq!(secrets(server.get("/api/projects/1").expect(200).json()).0, second);
    // A project's secret token is not a personal key.
    server.call("GET", "/api/projects/1").key(&second).send().expect(401);
    let log = server.get("/api/projects/1/activity").expect(200);
    assert_eq!(log.json()["total_count"], 4, "made, two rotations, one deletion");
    assert!(!log.text().contains("phs_"));
    let demo = server.get("/api/projects/1/is_generating_demo_data").expect(200).json();
    assert_eq!(demo, json!({ "is_generating_demo_data": false }));
}

// contract: management 9-11, 14, 15
fn project_key_opens_no_other_project(store: Store) {
    let server = store.start();
    server.post("/api/projects", json!({ "name": "Orchard" })).expect(201);
    let body = json!({ "label": "one", "scopes": ["*"], "scoped_teams": [1] });
    let made = server.post("/api/personal_api_keys", body).expect(201).json();
    let key = made["value"].as_str().unwrap();
    let detail = |method: &str, path: &str, status| {
        let response = server.call(method, path).key(key).send().expect(status);
        response.json()["detail"].as_str().unwrap_or_default().to_owned()
    };
    detail("GET", "/api/projects/1", 200);
    detail("GET", "/api/organizations/@current/projects/1", 200);
    for (method, path) in
        [("GET", "/api/projects/2"), ("DELETE", "/api/projects/2"), ("GET", "/api/environments/2/")]
    {
        let said = detail(method, path, 403);
        assert!(said.ends_with("requested project: ID 2."), "{said}");
    }
    detail("GET", "/api/users/@me/", 200);
    for path in ["/api/projects", "/api/organizations", "/api/organizations/@current/projects"] {
        let said = detail("GET", path, 403);
        assert!(said.ends_with("only supported on project-based endpoints."), "{said}");
    }
    for path in ["/api/projects/abc", "/api/projects/999999", "/api/projects/9223372036854775808"] {
        assert_eq!(detail("GET", path, 404), "Project not found.");
    }
    server.get("/api/projects/2").expect(200);
}

fn members_cannot_administer_projects(store: Store) {
    let server = store.start();
    server.patch("/api/projects/1/rotate_secret_token", json!({})).expect(200);
    test_users::add(&server, "m@example.com", 1);
    let key = test_users::key_of(&server, "m@example.com", &["*"]);
    let call =
        |method: &str, path: &str| server.call(method, path).key(&key).json(json!({})).send();
    let seen = call("GET", "/api/projects/1").expect(200).json();
    assert_eq!(seen["effective_membership_level"], 1);
    assert_eq!(seen["user_access_level"], "member");
    assert_eq!(seen["secret_api_token"], Value::Null);
    assert_eq!(server.get("/api/projects/1").expect(200).json()["user_access_level"], "admin");
    let patch = server.call("PATCH", "/api/projects/1").key(&key).json(json!({ "is_demo": true }));
    assert_eq!(patch.send().expect(200).json()["secret_api_token"], Value::Null);
    for (method, path) in [
        ("DELETE", "/api/projects/1"),
        ("PATCH", "/api/projects/1/reset_token"),
        ("PATCH", "/api/projects/1/rotate_secret_token"),
        ("PATCH", "/api/projects/1/delete_secret_token_backup"),
        ("POST", "/api/projects"),
        ("POST", "/api/organizations/@current/projects"),
    ] {
        let refused = call(method, path).expect(403);
        assert_eq!(refused.error(), "authentication_error permission_denied -", "{path}");
    }
    assert_eq!(server.get("/api/projects").expect(200).json()["count"], 1);
}

fn foreign_project_is_not_accessible(store: Store) {
    let server = store.start();
    test_users::add(&server, "m@example.com", 1);
    let key = test_users::key_of(&server, "m@example.com", &["*"]);
    let theirs = test_users::organization_of(&server, "m@example.com", "Theirs");
    let organization = theirs["id"].as_str().unwrap();
    let (id, token) =
        (&theirs["teams"][0]["id"], theirs["teams"][0]["api_token"].as_str().unwrap());
    assert_eq!(id, 2);
    for (method, path) in [
        ("GET", "/api/projects/2"),
        ("PATCH", "/api/environments/2/"),
        ("PUT", "/api/projects/2"),
        ("DELETE", "/api/projects/2"),
        ("OPTIONS", "/api/projects/2"),
        ("PATCH", "/api/projects/2/reset_token"),
        ("GET", "/api/projects/2/activity"),
        ("GET", "/api/projects/2/activity_log"),
        ("GET", &format!("/api/projects/1?token={token}")),
        ("DELETE", &format!("/api/organizations/{organization}/projects/2")),
    ] {
        let refused = server.call(method, path).json(json!({ "name": "Mine" })).send().expect(403);
        assert_eq!(refused.json()["detail"], "You don't have access to the project.", "{path}");
    }
    server.get(&format!("/api/organizations/{organization}/projects")).expect(404);
    server.get("/api/organizations/@current/projects/2").expect(404);
    assert_eq!(server.get("/api/projects").expect(200).json()["count"], 1);
    let their_view = server.call("GET", "/api/projects").key(&key).send().expect(200).json();
    assert_eq!(their_view["count"], 2, "they belong to both");

    let scoped = json!({ "label": "o", "scopes": ["*"], "scoped_organizations": [organization] });
    let made = server.call("POST", "/api/personal_api_keys").key(&key).json(scoped).send();
    let made = made.expect(201).json();
    let narrow = made["value"].as_str().unwrap();
    let listed = server.call("GET", "/api/projects").key(narrow).send().expect(200).json();
    assert_eq!((&listed["count"], &listed["results"][0]["id"]), (&json!(1), &json!(2)));
    server.call("GET", "/api/projects/1").key(narrow).send().expect(403);
}
