//! Members of an organization over HTTP.

use serde_json::{Value, json};

use crate::accounts::test_users::{self, MEMBERS, PASSWORD};
use crate::harness::{ADMIN_EMAIL, Store, on_both_stores};

on_both_stores! {
    admin_adds_a_member_who_can_log_in,
    invalid_members_name_their_field,
    existing_account_joins_a_second_organization,
    ranks_are_kept,
    last_owner_cannot_leave,
    member_endpoints_require_member_scopes,
}

fn path(uuid: &str) -> String {
    format!("{MEMBERS}{uuid}/")
}

fn admin_adds_a_member_who_can_log_in(store: Store) {
    let server = store.start();
    let body = json!({
        "email": " New@Example.com ", "first_name": "Nia", "password": PASSWORD, "level": 8,
        "is_staff": true,
    });
    let made = server.post(MEMBERS, body).expect(201).json();
    let user = &made["user"];
    assert_eq!((&user["email"], &user["first_name"]), (&json!("New@Example.com"), &json!("Nia")));
    let expected = json!({
        "id": made["id"].as_str().unwrap(),
        "user": user,
        "level": 8,
        "joined_at": made["joined_at"].as_str().unwrap(),
        "updated_at": made["joined_at"],
        "is_2fa_enabled": false,
        "has_social_auth": false,
        "last_login": null,
    });
    assert_eq!(made, expected);
    assert!(!made.to_string().contains("argon2"));
    let uuid = user["uuid"].as_str().unwrap();
    assert_eq!(server.get(&path(uuid)).expect(200).json(), made);

    let browser = test_users::log_in(&server, "new@example.com", PASSWORD);
    let own = browser.get("/api/organizations/@current/").expect(200).json();
    assert_eq!(own["membership_level"], 8);
    let page = browser.get(MEMBERS).expect(200).json();
    assert_eq!(page["count"], 2);
    assert_eq!(page["results"][0]["user"]["uuid"], uuid, "newest first");
    assert!(page["results"][0]["last_login"].is_string());
    assert_eq!(page["results"][1]["user"]["email"], ADMIN_EMAIL);

    browser.write("DELETE", &path("@me"), Value::Null).expect(204);
    assert_eq!(server.get(MEMBERS).json()["count"], 1);
    server.get(&path(uuid)).expect(404);
}

fn invalid_members_name_their_field(store: Store) {
    let server = store.start();
    let good = json!({ "email": "x@example.com", "first_name": "X", "password": PASSWORD });
    for (field, value, error) in [
        ("email", Value::Null, "null email"),
        ("email", json!("  "), "blank email"),
        ("email", json!("nobody"), "invalid_input email"),
        ("email", json!("a b@example.com"), "invalid_input email"),
        ("email", json!("@example.com"), "invalid_input email"),
        ("email", json!(format!("{}@example.com", "a".repeat(254))), "max_length email"),
        ("email", json!("ADMIN@example.com"), "unique email"),
        ("first_name", json!("x".repeat(151)), "max_length first_name"),
        ("password", json!("seven77"), "min_length password"),
        ("password", json!("x".repeat(1_001)), "max_length password"),
        ("password", json!(12_345_678), "invalid_input password"),
        ("level", json!(7), "invalid_choice level"),
        ("level", Value::Null, "null level"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let refused = server.post(MEMBERS, body.clone()).expect(400);
        assert_eq!(refused.error(), format!("validation_error {error}"), "{body}");
    }
    for missing in ["email", "password"] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(missing);
        let refused = server.post(MEMBERS, body).expect(400);
        assert_eq!(refused.error(), format!("validation_error required {missing}"));
    }
    assert_eq!(server.get(MEMBERS).json()["count"], 1);
    let made = server.post(MEMBERS, good).expect(201).json();
    assert_eq!(made["level"], 1, "a plain member unless said otherwise");
}

fn ranks_are_kept(store: Store) {
    let server = store.start();
    let mut uuids = Vec::new();
    let mut keys = Vec::new();
    for (email, level) in [("m@example.com", 1), ("a@example.com", 8), ("o@example.com", 15)] {
        uuids.push(test_users::add(&server, email, level));
        keys.push(test_users::key_of(&server, email, &["*"]));
    }
    let [member, admin, owner] = &uuids[..] else { panic!() };
    let [by_member, by_admin, by_owner] = &keys[..] else { panic!() };
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (key, uuid, level, status) in [
        (by_member, "@me", 8, 403),
        (by_member, member.as_str(), 1, 200),
        (by_member, admin, 1, 403),
        (by_admin, "@me", 15, 403),
        (by_admin, member, 15, 403),
        (by_admin, owner, 1, 403),
        (by_admin, unknown, 1, 404),
        (by_admin, "not-a-uuid", 1, 404),
        (by_admin, member, 8, 200),
        (by_owner, member, 15, 200),
        (by_owner, member, 1, 200),
    ] {
        let call = server.call("PATCH", &path(uuid)).key(key).json(json!({ "level": level }));
        let response = call.send().expect(status);
        match status {
            200 => assert_eq!(response.json()["level"], level),
            403 => assert_eq!(response.error(), "authentication_error permission_denied -"),
            _ => assert_eq!(response.error(), "invalid_request not_found -"),
        }
    }
    let add = |key: &str, level: i64| {
        let body = json!({ "email": format!("n{level}@example.com"), "password": PASSWORD, "level": level });
        server.call("POST", MEMBERS).key(key).json(body).send()
    };
    add(by_member, 1).expect(403);
    add(by_admin, 15).expect(403);
    add(by_admin, 8).expect(201);
    add(by_owner, 15).expect(201);

    let remove = |key: &str, uuid: &str| server.call("DELETE", &path(uuid)).key(key).send();
    remove(by_member, admin).expect(403);
    remove(by_admin, owner).expect(403);
    remove(by_admin, member).expect(204);
    remove(by_admin, member).expect(404);
    let gone = server.call("GET", MEMBERS).key(by_member).send();
    assert_eq!(gone.expect(404).json()["detail"], "Organization not found.");
}

fn last_owner_cannot_leave(store: Store) {
    let server = store.start();
    let refused = server.patch(&path("@me"), json!({ "level": 8 })).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input -");
    server.delete(&path("@me")).expect(400);
    assert_eq!(server.get(MEMBERS).json()["results"][0]["level"], 15);
    test_users::add(&server, "o@example.com", 15);
    assert_eq!(server.patch(&path("@me"), json!({ "level": 8 })).expect(200).json()["level"], 8);
    server.patch(&path("@me"), json!({ "level": 15 })).expect(403);
    let put = server.put(&path("@me"), json!({})).expect(400);
    assert_eq!(put.error(), "validation_error required level");
    server.patch(&path("@me"), json!({})).expect(200);
    server.delete(&path("@me")).expect(204);
}

fn member_endpoints_require_member_scopes(store: Store) {
    let server = store.start();
    let reader = server.key(&["organization_member:read", "organization:write"]);
    let by = |method: &str, path: &str| server.call(method, path).key(&reader);
    by("GET", MEMBERS).send().expect(200);
    let refused = by("POST", MEMBERS).json(json!({})).send().expect(403);
    let detail = "API key missing required scope 'organization_member:write'";
    assert_eq!(refused.json()["detail"], detail);
    for method in ["PATCH", "PUT", "DELETE"] {
        let refused = by(method, &path("@me")).json(json!({})).send().expect(403);
        assert_eq!(refused.json()["detail"], detail);
    }
}

fn existing_account_joins_a_second_organization(store: Store) {
    let server = store.start();
    let new = json!({ "email": "m@example.com", "first_name": "Mia", "password": PASSWORD });
    let first = server.post(MEMBERS, new).expect(201).json();
    let second = server.post("/api/organizations/", json!({ "name": "Two" })).expect(201).json();
    let members = format!("/api/organizations/{}/members/", second["id"].as_str().unwrap());
    let mut again = json!({ "email": "M@example.com", "first_name": "Eve", "password": "other horse battery", "level": 8 });
    let refused = server.post(&members, again.clone()).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input password");
    again.as_object_mut().unwrap().remove("password");
    let joined = server.post(&members, again.clone()).expect(201).json();
    assert_eq!((&joined["user"], &joined["level"]), (&first["user"], &json!(8)));
    assert_ne!(joined["id"], first["id"]);
    let refused = server.post(&members, again).expect(400);
    assert_eq!(refused.error(), "validation_error unique email");

    // Password and current organization do not change.
    test_users::try_log_in(&server, "m@example.com", "other horse battery").expect(400);
    let browser = test_users::log_in(&server, "m@example.com", PASSWORD);
    let me = browser.get("/api/users/@me/").expect(200).json();
    assert_eq!(me["organizations"].as_array().unwrap().len(), 2);
    assert_ne!(me["organization"]["id"], second["id"]);
    assert_eq!(browser.get(&members).expect(200).json()["count"], 2);

    let third = server.post("/api/organizations/", json!({ "name": "Three" })).expect(201).json();
    let members = format!("/api/organizations/{}/members/", third["id"].as_str().unwrap());
    let refused = server.post(&members, json!({ "email": "nobody@example.com" })).expect(400);
    assert_eq!(refused.error(), "validation_error required password");
    server.post(&members, json!({ "email": "m@example.com" })).expect(201);
    // Members may not add members.
    browser.write("POST", MEMBERS, json!({ "email": ADMIN_EMAIL })).expect(403);
}
