//! The current user (`/api/users/@me`).

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::harness::{ADMIN_EMAIL, ADMIN_PASSWORD, Store, on_both_stores};

on_both_stores! {
    current_user_has_every_field_that_clients_read,
    current_user_settings_read_back,
    invalid_value_is_named_and_changes_nothing,
    current_user_cannot_access_other_users,
    current_user_selects_only_own_projects,
    current_user_works_without_an_organization,
    password_change_ends_other_sessions,
    current_password_guesses_are_rate_limited,
}

const ME: &str = "/api/users/@me/";

// contract: management 11
fn current_user_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let mut me = server.get(ME).expect(200).json();
    let project = server.get("/api/projects").expect(200).json()["results"][0].clone();
    let organization = server.get("/api/organizations/@current").expect(200).json();
    let brief: Value = ["id", "name", "slug", "membership_level", "logo_media_id"]
        .into_iter()
        .map(|name| (name.to_owned(), organization[name].clone()))
        .collect();
    assert_eq!(brief["membership_level"], 15);
    for (name, expected) in [
        ("id", json!(1)),
        ("first_name", json!("Admin")),
        ("last_name", json!("")),
        ("email", json!(ADMIN_EMAIL)),
        ("pending_email", json!(null)),
        ("is_email_verified", json!(true)),
        ("is_staff", json!(true)),
        ("is_impersonated", json!(false)),
        ("has_password", json!(true)),
        ("notification_settings", json!({})),
        ("anonymize_data", json!(false)),
        ("toolbar_mode", json!("toolbar")),
        ("events_column_config", json!({ "active": "DEFAULT" })),
        ("is_2fa_enabled", json!(false)),
        ("has_social_auth", json!(false)),
        ("has_sso_enforcement", json!(false)),
        ("has_seen_product_intro_for", json!(null)),
        ("scene_personalisation", json!([])),
        ("theme_mode", json!(null)),
        ("hedgehog_config", json!(null)),
        ("role_at_organization", json!(null)),
        ("team", project),
        ("organization", organization),
        ("organizations", json!([brief])),
    ] {
        assert_eq!(me[name], expected, "{name}");
        me.as_object_mut().unwrap().remove(name);
    }
    let left: Vec<&String> = me.as_object().unwrap().keys().collect();
    assert_eq!(left, ["date_joined", "distinct_id", "uuid"]);

    let scoped = json!({ "label": "one", "scopes": ["user:read"], "scoped_teams": [1] });
    let key = server.post("/api/personal_api_keys", scoped).expect(201).json();
    let key = key["value"].as_str().unwrap();
    let by_key = server.call("GET", ME).key(key).send().expect(200).json();
    assert_eq!(by_key["uuid"], me["uuid"]);
    server.call("PATCH", ME).key(key).json(json!({})).send().expect(403);
    let other = server.key(&["project:write"]);
    server.call("GET", ME).key(&other).send().expect(403);
}

fn current_user_settings_read_back(store: Store) {
    let server = store.start();
    let changes = json!({
        "first_name": "Ada", "last_name": "L", "email": "Ada@Example.com",
        "notification_settings": { "plugin_disabled": false }, "anonymize_data": true,
        "toolbar_mode": "disabled", "events_column_config": { "active": ["event"] },
        "has_seen_product_intro_for": { "flags": true }, "theme_mode": "dark",
        "hedgehog_config": { "color": "green" }, "role_at_organization": "engineering",
    });
    let mut before = server.get(ME).expect(200).json();
    let mut sent = changes.clone();
    sent["current_password"] = json!(ADMIN_PASSWORD);
    let changed = server.patch(ME, sent).expect(200).json();
    for (name, value) in changes.as_object().unwrap() {
        before[name] = value.clone();
    }
    assert_eq!(changed, before);
    assert_eq!(server.get(ME).expect(200).json(), before);
    let sent = json!({ "id": 9, "uuid": "x", "is_staff": false, "has_password": false, "team": 1 });
    assert_eq!(server.patch(ME, sent).expect(200).json(), before);
    test_users::try_log_in(&server, "ada@example.com", ADMIN_PASSWORD).expect(200);
    test_users::try_log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD).expect(400);
}

fn invalid_value_is_named_and_changes_nothing(store: Store) {
    let server = store.start();
    test_users::add(&server, "m@example.com", 1);
    let before = server.get(ME).expect(200).json();
    for (name, value, error) in [
        ("first_name", json!("f".repeat(151)), "max_length first_name"),
        ("first_name", json!(null), "null first_name"),
        ("last_name", json!(1), "invalid_input last_name"),
        ("email", json!("nowhere"), "invalid_input email"),
        ("email", json!("M@example.com"), "unique email"),
        ("theme_mode", json!("pink"), "invalid_choice theme_mode"),
        ("notification_settings", json!([]), "invalid_input notification_settings"),
        ("events_column_config", json!(null), "null events_column_config"),
        ("role_at_organization", json!("boss"), "invalid_choice role_at_organization"),
        ("set_current_organization", json!("x"), "invalid_input set_current_organization"),
        ("set_current_team", json!("1"), "invalid_input set_current_team"),
        ("set_current_team", json!(99), "does_not_exist set_current_team"),
        ("password", json!("long enough for me"), "required current_password"),
    ] {
        let mut body = json!({ "hedgehog_config": { "a": 1 }, name: value });
        if name == "email" {
            body["current_password"] = json!(ADMIN_PASSWORD);
        }
        let refused = server.patch(ME, body).expect(400);
        assert_eq!(refused.error(), format!("validation_error {error}"));
    }
    let refused = server.put(ME, json!({ "first_name": "Ada" })).expect(400);
    assert_eq!(refused.error(), "validation_error required email");
    assert_eq!(server.get(ME).expect(200).json(), before);
}

fn current_user_cannot_access_other_users(store: Store) {
    let server = store.start();
    let other = test_users::add(&server, "m@example.com", 1);
    let me = server.get(ME).expect(200).json();
    let own = format!("/api/users/{}", me["uuid"].as_str().unwrap());
    assert_eq!(server.get(&own).expect(200).json(), me);
    server.patch(&own, json!({ "last_name": "L" })).expect(200);
    for uuid in [other.as_str(), "00000000-0000-4000-8000-000000000000"] {
        let path = format!("/api/users/{uuid}/");
        for method in ["GET", "PATCH", "PUT"] {
            let refused = server.call(method, &path).json(json!({ "last_name": "X" })).send();
            assert_eq!(refused.expect(403).error(), "authentication_error permission_denied -");
        }
    }
    server.get("/api/users/1").expect(404);
    let listed = server.get("/api/users/").expect(200).json();
    assert_eq!(listed["count"], 1);
    assert_eq!(listed["results"][0]["uuid"], me["uuid"]);
    assert_eq!(server.get("/api/users?offset=1").expect(200).json()["results"], json!([]));
}

fn current_user_selects_only_own_projects(store: Store) {
    let server = store.start();
    let first = server.get(ME).expect(200).json()["organization"]["id"].clone();
    server.post("/api/projects", json!({ "name": "Orchard" })).expect(201);
    let moved = server.patch(ME, json!({ "set_current_team": 2 })).expect(200).json();
    assert_eq!(moved["team"]["id"], 2);
    assert_eq!(server.get("/api/projects/@current").expect(200).json()["id"], 2);

    let second = server.post("/api/organizations", json!({ "name": "Second" })).expect(201).json();
    let there = server.get(ME).expect(200).json();
    assert_eq!(there["organization"]["id"], second["id"]);
    assert_eq!(there["organizations"].as_array().unwrap().len(), 2);
    let body = json!({ "set_current_organization": first, "set_current_team": 3 });
    assert_eq!(
        server.patch(ME, body).expect(400).error(),
        "validation_error does_not_exist set_current_team"
    );
    let back = server.patch(ME, json!({ "set_current_organization": first })).expect(200).json();
    assert_eq!((&back["organization"]["id"], &back["team"]["id"]), (&first, &json!(1)));

    test_users::add(&server, "m@example.com", 1);
    let key = test_users::key_of(&server, "m@example.com", &["*"]);
    for body in
        [json!({ "set_current_organization": second["id"] }), json!({ "set_current_team": 3 })]
    {
        let refused = server.call("PATCH", ME).key(&key).json(body).send().expect(400);
        assert!(refused.error().starts_with("validation_error does_not_exist set_current_"));
    }
    let me = server.call("GET", ME).key(&key).send().expect(200).json();
    assert_eq!((&me["organization"]["id"], &me["team"]["id"]), (&first, &json!(1)));
}

fn current_user_works_without_an_organization(store: Store) {
    let server = store.start();
    let uuid = test_users::add(&server, "m@example.com", 1);
    let key = test_users::key_of(&server, "m@example.com", &["*"]);
    server.delete(&format!("{}{uuid}", test_users::MEMBERS)).expect(204);
    let get = |path: &str| server.call("GET", path).key(&key).send();
    let me = get(ME).expect(200).json();
    assert_eq!(me["organizations"], json!([]));
    assert_eq!((&me["organization"], &me["team"]), (&Value::Null, &Value::Null));
    assert_eq!(get("/api/projects").expect(200).json()["count"], 0);
    assert_eq!(get("/api/projects/@current").expect(404).json()["detail"], "Project not found.");
    get("/api/projects/1").expect(403);
    server.call("POST", "/api/projects").key(&key).json(json!({})).send().expect(404);
    let body = json!({ "name": "Mine" });
    server.call("POST", "/api/organizations").key(&key).json(body).send().expect(403);
    assert_eq!(get(ME).expect(200).json()["team"], Value::Null);
}

fn password_change_ends_other_sessions(store: Store) {
    let server = store.start();
    let here = test_users::log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);
    let there = test_users::log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);
    let change = |from: &str, to: &str| json!({ "current_password": from, "password": to });
    let wrong = here.write("PATCH", ME, change("not this one", "brass kettle stand")).expect(400);
    assert_eq!(wrong.error(), "validation_error incorrect_password current_password");
    let short = here.write("PATCH", ME, change(ADMIN_PASSWORD, "short")).expect(400);
    assert!(short.error().ends_with(" password"), "{}", short.error());
    there.get(ME).expect(200);
    here.write("PATCH", ME, change(ADMIN_PASSWORD, "brass kettle stand")).expect(200);
    here.get(ME).expect(200);
    there.get(ME).expect(401);
    test_users::try_log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD).expect(400);
    // A change with a key ends all sessions.
    server.patch(ME, change("brass kettle stand", "copper kettle stand")).expect(200);
    here.get(ME).expect(401);
    test_users::try_log_in(&server, ADMIN_EMAIL, "copper kettle stand").expect(200);
}

fn current_password_guesses_are_rate_limited(store: Store) {
    let server = store.start();
    let guess = json!({ "current_password": "a guess", "password": "brass kettle stand" });
    for _ in 0..5 {
        server.patch(ME, guess.clone()).expect(400);
    }
    let refused = server.patch(ME, guess).expect(429);
    assert_eq!(refused.error(), "throttled_error throttled -");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
}
