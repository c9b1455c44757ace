//! Organizations over HTTP.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::harness::{PERSONAL_KEY, PROJECT_KEY, Server, Store, on_both_stores};

on_both_stores! {
    organization_has_every_field_that_clients_read,
    organization_endpoints_enforce_key_scopes,
    key_lookup_order_is_header_body_query,
    admins_change_organizations_and_owners_delete_them,
    organization_settings_validate_types,
    new_organization_is_owned_by_its_creator,
    organization_is_not_found_for_non_members,
    organization_can_disable_member_keys,
    organization_scoped_key_is_confined,
    organization_changes_are_in_the_activity_log,
    organization_list_has_a_constant_number_of_statements,
}

const ALL: &str = "/api/organizations/";
const OWN: &str = "/api/organizations/@current/";

fn organization_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let own = server.get(OWN).expect(200).json();
    let listed = server.get(ALL).expect(200).json();
    assert_eq!(listed["count"], 1);
    assert_eq!((&listed["next"], &listed["previous"]), (&Value::Null, &Value::Null));
    assert_eq!(listed["results"], json!([own]));
    let id = own["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("{ALL}{id}")).expect(200).json(), own);

    let project = &own["projects"][0];
    assert_eq!(project["id"], 1);
    let expected = json!({
        "id": id,
        "name": "My organization",
        "slug": "my-organization",
        "logo_media_id": null,
        "created_at": own["created_at"].as_str().unwrap(),
        "updated_at": own["created_at"],
        "membership_level": 15,
        "plugins_access_level": 0,
        "teams": [{
            "id": 1,
            "uuid": own["teams"][0]["uuid"].as_str().unwrap(),
            "organization": id,
            "project_id": 1,
            "api_token": PROJECT_KEY,
            "name": "Default project",
            "timezone": "UTC",
            "completed_snippet_onboarding": true,
            "has_completed_onboarding_for": null,
            "ingested_event": false,
            "is_demo": false,
            "access_control": false,
        }],
        "projects": [{
            "id": 1,
            "name": "Default project",
            "organization_id": id,
            "created_at": project["created_at"].as_str().unwrap(),
        }],
        "available_product_features": own["available_product_features"],
        "is_member_join_email_enabled": true,
        "metadata": {},
        "customer_id": null,
        "enforce_2fa": null,
        "members_can_invite": true,
        "members_can_use_personal_api_keys": true,
        "allow_publicly_shared_resources": true,
        "feature_flags_access_level": null,
        "member_count": 1,
        "default_experiment_stats_method": "bayesian",
        "default_role_id": null,
    });
    assert_eq!(own, expected);
    for feature in own["available_product_features"].as_array().unwrap() {
        assert!(feature["key"].is_string() && feature["name"].is_string(), "{feature}");
    }
}

/// Uses organizations in place of dashboards.
// contract: management 1-3, 6-8
fn organization_endpoints_enforce_key_scopes(store: Store) {
    let server = store.start();
    let missing = server.call("GET", ALL).no_key().send().expect(401);
    assert_eq!(missing.error(), "authentication_error not_authenticated -");
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    for bad in ["phx_bad", PROJECT_KEY] {
        let refused = server.call("GET", ALL).key(bad).send().expect(401);
        assert_eq!(refused.error(), "authentication_error invalid_personal_api_key -");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }

    let (reader, writer) =
        (server.key(&["organization:read"]), server.key(&["organization:write"]));
    let other = server.key(&["insight:read"]);
    for (key, method, missing) in [
        (&reader, "GET", None),
        (&writer, "GET", None),
        (&writer, "POST", None),
        (&reader, "POST", Some("organization:write")),
        (&other, "GET", Some("organization:read")),
        (&other, "OPTIONS", Some("organization:read")),
        (&reader, "OPTIONS", None),
    ] {
        let response = server.call(method, ALL).key(key).json(json!({ "name": "Second" })).send();
        let Some(scope) = missing else {
            assert!(response.status < 300, "{method}: {}", response.text());
            continue;
        };
        let response = response.expect(403);
        assert_eq!(response.error(), "authentication_error permission_denied -");
        let detail = format!("API key missing required scope '{scope}'");
        assert_eq!(response.json()["detail"], detail);
    }
}

// contract: management 4-5
fn key_lookup_order_is_header_body_query(store: Store) {
    let server = store.start();
    let bare = |method: &str, path: &str| server.call(method, path).no_key();
    let in_query = |key: &str| format!("{ALL}?personal_api_key={key}");
    let in_body = |key: &str| json!({ "name": "By body", "personal_api_key": key });
    bare("POST", ALL).json(in_body(PERSONAL_KEY)).send().expect(201);
    bare("GET", &in_query(PERSONAL_KEY)).send().expect(200);
    bare("GET", &in_query(PERSONAL_KEY)).header("Authorization", "Basic eDp5").send().expect(200);

    let good = in_query(PERSONAL_KEY);
    for (call, location) in [
        (bare("POST", &good).key("phx_bad").json(in_body(PERSONAL_KEY)), "Authorization header"),
        (bare("POST", &good).json(in_body("phx_bad")), "body"),
        (bare("GET", &in_query("phx_bad")), "query string"),
    ] {
        let refused = call.send().expect(401);
        assert_eq!(refused.error(), "authentication_error invalid_personal_api_key -");
        let detail = format!("Personal API key found in request {location} is invalid.");
        assert_eq!(refused.json()["detail"], detail);
    }
    for elsewhere in ["phs_abc", "pha_abc"] {
        bare("GET", ALL).key(elsewhere).send().expect(401);
    }
}

fn admins_change_organizations_and_owners_delete_them(store: Store) {
    let server = store.start();
    let mut keys = Vec::new();
    for (email, level) in [("member@example.com", 1), ("admin2@example.com", 8)] {
        test_users::add(&server, email, level);
        keys.push(test_users::key_of(&server, email, &["*"]));
    }
    let (member, admin) = (&keys[0], &keys[1]);
    let insufficient = "Your organization access level is insufficient.";
    for (method, key) in [("PATCH", member), ("PUT", member), ("DELETE", member), ("DELETE", admin)]
    {
        let response = server.call(method, OWN).key(key).json(json!({ "name": 5 })).send();
        assert_eq!(response.expect(403).json()["detail"], insufficient, "{method}");
    }
    let before = server.get(OWN).json();
    assert_eq!(before["member_count"], 3);
    let change = json!({
        "name": "  Hedge & Row ", "enforce_2fa": true, "members_can_invite": false,
        "allow_publicly_shared_resources": false, "is_member_join_email_enabled": false,
        "default_experiment_stats_method": "frequentist", "logo_media_id": "abc",
        "id": "mine", "slug": "mine", "membership_level": 1, "unknown": [1],
    });
    let after = server.call("PATCH", OWN).key(admin).json(change.clone()).send().expect(200).json();
    for name in ["enforce_2fa", "members_can_invite", "default_experiment_stats_method"] {
        assert_eq!(after[name], change[name]);
    }
    assert_eq!(after["name"], "Hedge & Row");
    assert_eq!((&after["id"], &after["slug"]), (&before["id"], &before["slug"]));
    assert_eq!(after["membership_level"], 8);
    server.patch(OWN, json!({ "enforce_2fa": null })).expect(200);
    let put = server.put(OWN, json!({ "members_can_invite": true })).expect(400);
    assert_eq!(put.error(), "validation_error required name");
    server.put(OWN, json!({ "name": "Put" })).expect(200);
    let restarted = server.restart();
    let kept = restarted.get(OWN).json();
    assert_eq!((&kept["name"], &kept["enforce_2fa"]), (&json!("Put"), &Value::Null));
    assert_eq!(kept["allow_publicly_shared_resources"], false);
}

fn organization_settings_validate_types(store: Store) {
    let server = store.start();
    let before = server.get(OWN).json();
    for (body, error) in [
        (json!({ "name": "" }), "validation_error blank name"),
        (json!({ "name": null }), "validation_error null name"),
        (json!({ "name": 7 }), "validation_error invalid_input name"),
        (json!({ "name": "n".repeat(65) }), "validation_error max_length name"),
        (json!({ "enforce_2fa": "maybe" }), "validation_error invalid_input enforce_2fa"),
        (json!({ "members_can_invite": null }), "validation_error null members_can_invite"),
        (
            json!({ "default_experiment_stats_method": "guess" }),
            "validation_error invalid_choice default_experiment_stats_method",
        ),
        (json!({ "default_role_id": 1 }), "validation_error invalid_input default_role_id"),
        (
            json!({ "default_role_id": "00000000-0000-4000-8000-000000000000" }),
            "validation_error invalid_input default_role_id",
        ),
        (json!(["name"]), "validation_error invalid_input -"),
    ] {
        assert_eq!(server.patch(OWN, body.clone()).expect(400).error(), error, "{body}");
        let created = server.post(ALL, body.clone()).expect(400);
        if !body.is_object() || body.get("name").is_some() {
            assert_eq!(created.error(), error, "{body}");
        }
    }
    assert_eq!(server.get(OWN).json(), before);
    assert_eq!(server.get(ALL).json()["count"], 1);
}

fn new_organization_is_owned_by_its_creator(store: Store) {
    let server = store.start();
    let first = server.get(OWN).json()["id"].clone();
    let required = server.post(ALL, json!({})).expect(400);
    assert_eq!(required.error(), "validation_error required name");
    let made = server.post(ALL, json!({ "name": "My organization", "enforce_2fa": true }));
    let made = made.expect(201).json();
    assert_eq!((&made["membership_level"], &made["enforce_2fa"]), (&json!(15), &json!(true)));
    assert_eq!(made["slug"], "my-organization-2");
    assert_eq!(made["teams"].as_array().unwrap().len(), 1);
    assert_eq!(server.get(OWN).json(), made);
    let listed = server.get(&format!("{ALL}?limit=1")).json();
    assert_eq!((&listed["count"], &listed["results"][0]["id"]), (&json!(2), &first));
    assert!(listed["next"].as_str().unwrap().ends_with("/api/organizations/?limit=1&offset=1"));

    assert_eq!(server.delete(OWN).expect(204).body, b"");
    let gone = format!("{ALL}{}", made["id"].as_str().unwrap());
    server.get(&gone).expect(404);
    server.delete(&gone).expect(404);
    assert_eq!(server.get(ALL).json()["count"], 1);
    assert_eq!(server.get(OWN).expect(200).json()["id"], first);
    let again = server.post(ALL, json!({ "name": "My organization" })).expect(201).json();
    assert_eq!(again["slug"], "my-organization-2");
    assert_ne!(again["teams"][0]["id"], made["teams"][0]["id"]);
}

fn organization_is_not_found_for_non_members(store: Store) {
    let server = store.start();
    let first = server.get(OWN).json()["id"].as_str().unwrap().to_owned();
    test_users::add(&server, "guest@example.com", 8);
    let key = test_users::key_of(&server, "guest@example.com", &["*"]);
    let guest = |method: &str, path: &str| server.call(method, path).key(&key);
    test_users::organization_of(&server, "guest@example.com", "Elsewhere");
    guest("GET", &format!("{ALL}{first}")).send().expect(200);
    guest("DELETE", &format!("{ALL}{first}/members/@me/")).send().expect(204);

    for path in [
        format!("{ALL}{first}"),
        format!("{ALL}{first}/members"),
        format!("{ALL}{first}/roles"),
        format!("{ALL}not-a-uuid"),
        format!("{ALL}00000000-0000-4000-8000-000000000000"),
    ] {
        for method in ["GET", "OPTIONS"] {
            let response = guest(method, &path).send().expect(404);
            assert_eq!(response.json()["detail"], "Organization not found.", "{method} {path}");
        }
    }
    let listed = guest("GET", ALL).send().json();
    assert_eq!((&listed["count"], &listed["results"][0]["name"]), (&json!(1), &json!("Elsewhere")));
}

fn organization_can_disable_member_keys(store: Store) {
    let server = store.start();
    for (email, level) in [("member@example.com", 1), ("admin2@example.com", 8)] {
        test_users::add(&server, email, level);
    }
    let member = test_users::key_of(&server, "member@example.com", &["*"]);
    let admin = test_users::key_of(&server, "admin2@example.com", &["*"]);
    let browser = test_users::log_in(&server, "member@example.com", test_users::PASSWORD);
    let by = |key: &str, path: &str| server.call("GET", path).key(key).send();
    by(&member, OWN).expect(200);
    server.patch(OWN, json!({ "members_can_use_personal_api_keys": false })).expect(200);
    for path in [OWN, test_users::MEMBERS, "/api/projects/1", "/api/projects/1/annotations"] {
        let refused = by(&member, path).expect(403);
        assert_eq!(refused.error(), "authentication_error permission_denied -");
        by(&admin, path).expect(200);
        browser.get(path).expect(200);
    }
    for list in [ALL, "/api/projects"] {
        assert_eq!(by(&member, list).expect(200).json()["count"], 0);
    }
    assert_eq!(browser.get(ALL).json()["count"], 1);
    by(&member, "/api/personal_api_keys/@current").expect(200);
    server.patch(OWN, json!({ "members_can_use_personal_api_keys": true })).expect(200);
    by(&member, OWN).expect(200);
}

fn organization_scoped_key_is_confined(store: Store) {
    let server = store.start();
    let first = server.get(OWN).json()["id"].as_str().unwrap().to_owned();
    let second = server.post(ALL, json!({ "name": "Second" })).expect(201).json();
    let second = second["id"].as_str().unwrap();
    let body = json!({ "label": "one", "scopes": ["*"], "scoped_organizations": [first] });
    let made = server.post("/api/personal_api_keys", body).expect(201).json();
    let key = made["value"].as_str().unwrap();
    let by = |method: &str, path: &str| {
        server.call(method, path).key(key).json(json!({ "name": "Third" })).send()
    };
    by("GET", &format!("{ALL}{first}")).expect(200);
    let refused = by("GET", &format!("{ALL}{second}")).expect(403).json();
    assert_eq!(
        refused["detail"],
        format!("API key does not have access to the requested organization: ID {second}.")
    );
    let listed = by("GET", ALL).expect(200).json();
    assert_eq!((&listed["count"], &listed["results"][0]["id"]), (&json!(1), &json!(first)));
    by("POST", ALL).expect(403);
    assert_eq!(server.get(ALL).json()["count"], 2);
}

fn organization_changes_are_in_the_activity_log(store: Store) {
    let server = store.start();
    let roles = "/api/organizations/@current/roles/";
    let role = server.post(roles, json!({ "name": "Ops" })).expect(201).json();
    server.patch(OWN, json!({ "name": "Renamed", "enforce_2fa": true })).expect(200);
    server.patch(OWN, json!({ "name": "Renamed", "members_can_invite": true })).expect(200);
    let key = server.post("/api/personal_api_keys", json!({ "label": "k", "scopes": ["*"] }));
    let key = key.expect(201).json();
    test_users::add(&server, "m@example.com", 1);
    for (scope, item, lines) in [
        ("Role", &role["id"], json!(["created"])),
        ("Organization", &server.get(OWN).json()["id"], json!(["updated"])),
        ("PersonalAPIKey", &key["id"], json!(["created"])),
    ] {
        let path = format!(
            "/api/projects/1/activity_log?scope={scope}&item_id={}",
            item.as_str().unwrap()
        );
        let log = server.get(&path).expect(200).json();
        let entries = log["results"].as_array().unwrap();
        let activities: Vec<&Value> = entries.iter().map(|entry| &entry["activity"]).collect();
        assert_eq!(json!(activities), lines, "{scope}");
        assert!(!log.to_string().contains(key["value"].as_str().unwrap()));
        if scope == "Organization" {
            let change = |field: &str, action: &str, before: Value, after: Value| json!({ "type": scope, "action": action, "field": field, "before": before, "after": after });
            let changes = entries[0]["detail"]["changes"].as_array().unwrap();
            assert_eq!(changes.len(), 2);
            let named = change("name", "changed", json!("My organization"), json!("Renamed"));
            let enforced = change("enforce_2fa", "created", Value::Null, json!(true));
            assert!(changes.contains(&named) && changes.contains(&enforced), "{changes:?}");
        }
    }
}

fn organization_list_has_a_constant_number_of_statements(store: Store) {
    let server = store.start();
    let first = server.get(OWN).json()["id"].as_str().unwrap().to_owned();
    let (members, roles) = (format!("{ALL}{first}/members/"), format!("{ALL}{first}/roles/"));
    let make = |number: usize| {
        let role = server.post(&roles, json!({ "name": format!("r{number}") })).expect(201).json();
        let body =
            json!({ "email": format!("m{number}@example.com"), "password": test_users::PASSWORD });
        let user = server.post(&members, body).expect(201).json()["user"]["uuid"].clone();
        let joining = format!("{roles}{}/role_memberships", role["id"].as_str().unwrap());
        server.post(&joining, json!({ "user_uuid": user })).expect(201);
        server.post(ALL, json!({ "name": format!("o{number}") })).expect(201);
    };
    let costs = || [ALL, &members, &roles].map(|path| cost(&server, path));
    make(0);
    let few = costs();
    (1..5).for_each(make);
    assert_eq!(costs(), few);
    assert_eq!(server.get(ALL).json()["results"].as_array().unwrap().len(), 6);
}

const COST_TRIES: usize = 5;

/// Catalog statements of one list request.
pub fn cost(server: &Server, path: &str) -> u64 {
    cost_of(server, &|| drop(server.get(path).expect(200)))
}

/// Catalog statements of a request, outside of transactions.
pub fn cost_of(server: &Server, ask: &dyn Fn()) -> u64 {
    // Background work only adds statements, so the minimum is the cost.
    let least = |asked: &dyn Fn()| {
        let counts = (0..COST_TRIES).map(|_| {
            let before = statements(server);
            asked();
            statements(server) - before
        });
        counts.min().unwrap()
    };
    // Reading the counter has a constant cost.
    least(ask) - least(&|| {})
}

fn statements(server: &Server) -> u64 {
    let text = server.call("GET", "/metrics").no_key().send().expect(200).text();
    let line = text.lines().find(|line| line.starts_with("hedgerow_catalog_statements_total "));
    line.unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}
