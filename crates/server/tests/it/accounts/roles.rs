//! Roles and role memberships over HTTP.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::harness::{Store, on_both_stores};

on_both_stores! {
    role_is_created_renamed_and_hard_deleted,
    invalid_roles_name_their_field,
    members_join_and_leave_roles,
    only_admins_change_roles,
    organization_has_one_default_role,
}

const ROLES: &str = "/api/organizations/@current/roles/";
const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

fn path(role: &Value) -> String {
    format!("{ROLES}{}/", role["id"].as_str().unwrap())
}

// contract: management 113
fn role_is_created_renamed_and_hard_deleted(store: Store) {
    let server = store.start();
    let role = server.post(ROLES, json!({ "name": "Ops", "created_by": 1 })).expect(201).json();
    let expected = json!({
        "id": role["id"].as_str().unwrap(),
        "name": "Ops",
        "feature_flags_access_level": 37,
        "created_at": role["created_at"].as_str().unwrap(),
        "created_by": null,
        "members": [],
        "is_default": false,
        "associated_flags": [],
    });
    assert_eq!(role, expected);
    let again = server.post(ROLES, json!({ "name": "ops" })).expect(400);
    assert_eq!(again.error(), "validation_error unique name");
    assert_eq!(server.get(&path(&role)).expect(200).json(), role);

    let dev = server.post(ROLES, json!({ "name": "Dev", "feature_flags_access_level": 21 }));
    let dev = dev.expect(201).json();
    let taken = server.patch(&path(&dev), json!({ "name": "OPS" })).expect(400);
    assert_eq!(taken.error(), "validation_error unique name");
    let renamed = server.patch(&path(&role), json!({ "name": "OPS" })).expect(200).json();
    assert_eq!((&renamed["name"], &renamed["created_by"]), (&json!("OPS"), &Value::Null));
    let listed = server.get(ROLES).expect(200).json();
    assert_eq!((&listed["count"], &listed["results"]), (&json!(2), &json!([dev, renamed])));

    assert_eq!(server.delete(&path(&role)).expect(204).body, b"");
    server.delete(&path(&role)).expect(404);
    server.get(&path(&role)).expect(404);
    server.post(ROLES, json!({ "name": "ops" })).expect(201);
}

fn invalid_roles_name_their_field(store: Store) {
    let server = store.start();
    let role = server.post(ROLES, json!({ "name": "Ops" })).expect(201).json();
    for (body, error) in [
        (json!({ "name": "" }), "blank name"),
        (json!({ "name": "  " }), "blank name"),
        (json!({ "name": null }), "null name"),
        (json!({ "name": ["Ops"] }), "invalid_input name"),
        (json!({ "name": "n".repeat(201) }), "max_length name"),
        (
            json!({ "name": "x", "feature_flags_access_level": 5 }),
            "invalid_choice feature_flags_access_level",
        ),
    ] {
        let error = format!("validation_error {error}");
        assert_eq!(server.post(ROLES, body.clone()).expect(400).error(), error, "{body}");
        assert_eq!(server.patch(&path(&role), body.clone()).expect(400).error(), error, "{body}");
    }
    for response in [server.post(ROLES, json!({})), server.put(&path(&role), json!({}))] {
        assert_eq!(response.expect(400).error(), "validation_error required name");
    }
    server.get(&format!("{ROLES}not-a-uuid/")).expect(404);
    server.patch(&format!("{ROLES}{NOBODY}"), json!({ "name": "" })).expect(404);
    assert_eq!(server.get(ROLES).json()["results"], json!([role]));
}

// contract: management 114
fn members_join_and_leave_roles(store: Store) {
    let server = store.start();
    let role = server.post(ROLES, json!({ "name": "Ops" })).expect(201).json();
    let members = format!("{}role_memberships/", path(&role));
    let uuid = test_users::add(&server, "m@example.com", 1);
    let join = |uuid: &str| server.post(&members, json!({ "user_uuid": uuid }));

    let joined = join(&uuid).expect(201).json();
    let expected = json!({
        "id": joined["id"].as_str().unwrap(),
        "role_id": role["id"],
        "organization_member": server.get(&format!("{}{uuid}", test_users::MEMBERS)).json(),
        "user": joined["organization_member"]["user"],
        "joined_at": joined["joined_at"].as_str().unwrap(),
        "updated_at": joined["joined_at"],
    });
    assert_eq!(joined, expected);
    let one = format!("{members}{}/", joined["id"].as_str().unwrap());
    assert_eq!(server.get(&one).expect(200).json(), joined);
    assert_eq!(server.get(&members).expect(200).json()["results"], json!([joined]));
    assert_eq!(server.get(&path(&role)).json()["members"], json!([joined]));
    assert_eq!(server.get(ROLES).json()["results"][0]["members"], json!([joined]));

    let elsewhere = format!("{ROLES}{NOBODY}/role_memberships/");
    for (response, detail) in [
        (join(&uuid), "User is already part of the role."),
        (join(NOBODY), "User does not exist."),
        (server.post(&elsewhere, json!({ "user_uuid": uuid })), "Role does not exist."),
    ] {
        let refused = response.expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input -");
        assert_eq!(refused.json()["detail"], detail);
    }
    assert_eq!(
        server.post(&members, json!({})).expect(400).error(),
        "validation_error required user_uuid"
    );
    assert_eq!(join("x").expect(400).error(), "validation_error invalid_input user_uuid");
    server.get(&elsewhere).expect(404);
    server.get(&format!("{members}{NOBODY}")).expect(404);

    server.delete(&one).expect(204);
    server.delete(&one).expect(404);
    join(&uuid).expect(201);
    server.delete(&format!("{}{uuid}", test_users::MEMBERS)).expect(204);
    assert_eq!(
        server.get(&members).json()["count"],
        0,
        "who leaves the organization leaves its roles"
    );
}

fn only_admins_change_roles(store: Store) {
    let server = store.start();
    let role = server.post(ROLES, json!({ "name": "Ops" })).expect(201).json();
    let uuid = test_users::add(&server, "m@example.com", 1);
    let member = test_users::key_of(&server, "m@example.com", &["*"]);
    let members = format!("{}role_memberships/", path(&role));
    let joined = server.post(&members, json!({ "user_uuid": uuid })).expect(201).json();
    let one = format!("{members}{}", joined["id"].as_str().unwrap());
    for path in [ROLES, &path(&role), &members, &one] {
        server.call("GET", path).key(&member).send().expect(200);
    }
    for (method, path) in [
        ("POST", ROLES),
        ("PATCH", &path(&role)),
        ("PUT", &path(&role)),
        ("DELETE", &path(&role)),
        ("POST", &members),
        ("DELETE", &one),
    ] {
        let refused = server.call(method, path).key(&member).json(json!([])).send().expect(403);
        let detail = "Your organization access level is insufficient.";
        assert_eq!(refused.json()["detail"], detail, "{method} {path}");
    }
    let reader = server.key(&["organization:read", "organization_member:write"]);
    let refused = server.call("POST", ROLES).key(&reader).json(json!({})).send().expect(403);
    assert_eq!(refused.json()["detail"], "API key missing required scope 'organization:write'");
}

fn organization_has_one_default_role(store: Store) {
    let server = store.start();
    let make = |name: &str| server.post(ROLES, json!({ "name": name })).expect(201).json();
    let (first, second) = (make("First"), make("Second"));
    let own = "/api/organizations/@current/";
    let choose =
        |role: &Value| server.patch(own, json!({ "default_role_id": role["id"] })).expect(200);
    choose(&first);
    assert_eq!(choose(&second).json()["default_role_id"], second["id"]);
    assert_eq!(server.get(&path(&first)).json()["is_default"], false);
    assert_eq!(server.get(&path(&second)).json()["is_default"], true);
    let uuid = test_users::add(&server, "m@example.com", 1);
    assert_eq!(server.get(&path(&second)).json()["members"][0]["user"]["uuid"], uuid);
    assert_eq!(server.get(&path(&first)).json()["members"], json!([]));
    server.delete(&path(&second)).expect(204);
    assert_eq!(server.get(own).json()["default_role_id"], Value::Null);
}
