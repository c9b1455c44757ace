//! Access to feature flags.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::flags::management::{FLAGS, create, path};
use crate::harness::{Store, on_both_stores};

on_both_stores! {
    flag_role_access_is_granted,
    restricted_flag_editing_is_enforced,
    encrypted_payloads_are_decrypted_for_keys_only,
}

// contract: flags 52
fn flag_role_access_is_granted(store: Store) {
    let server = store.start();
    let flag = create(&server, json!({ "key": "f" }));
    let role = server.post("/api/organizations/@current/roles/", json!({ "name": "Ops" }));
    let role = role.expect(201).json();
    let accesses = format!("{}role_access/", path(&flag));
    let grant = |body: Value| server.post(&accesses, body);
    let made = grant(json!({ "role_id": role["id"] })).expect(201).json();
    assert_eq!((&made["role_id"], &made["role"]["name"]), (&role["id"], &json!("Ops")));
    assert_eq!(made["feature_flag"]["key"], "f");
    assert_eq!(made["role"]["created_by"]["email"], "admin@example.com");
    assert_eq!(made["role"]["associated_flags"], json!([{ "id": flag["id"], "key": "f" }]));
    for (body, error) in [
        (json!({ "role_id": role["id"] }), "unique role_id"),
        (json!({ "role_id": "00000000-0000-4000-8000-000000000000" }), "does_not_exist role_id"),
        (json!({ "role_id": "x" }), "invalid_input role_id"),
        (json!({}), "required role_id"),
    ] {
        assert_eq!(
            grant(body.clone()).expect(400).error(),
            format!("validation_error {error}"),
            "{body}"
        );
    }
    let one = format!("{accesses}{}/", made["id"]);
    assert_eq!(server.get(&one).expect(200).json(), made);
    let listed = server.get(&accesses).expect(200).json();
    assert_eq!((&listed["count"], &listed["results"][0]), (&json!(1), &made));
    let other = create(&server, json!({ "key": "g" }));
    server.get(&format!("{}role_access/{}/", path(&other), made["id"])).expect(404);
    server.delete(&one).expect(204);
    server.get(&one).expect(404);
    server.delete(&one).expect(404);
}

fn restricted_flag_editing_is_enforced(store: Store) {
    let server = store.start();
    let flag = create(&server, json!({ "key": "f" }));
    let uuid = test_users::add(&server, "m@example.com", 1);
    let browser = test_users::log_in(&server, "m@example.com", test_users::PASSWORD);
    let can_edit = || browser.get(&path(&flag)).expect(200).json()["can_edit"].clone();
    assert_eq!(can_edit(), true);
    let organization = "/api/organizations/@current/";
    server.patch(organization, json!({ "feature_flags_access_level": 21 })).expect(200);
    assert_eq!(can_edit(), false);
    let body = json!({ "name": "x" });
    browser.write("PATCH", &path(&flag), body.clone()).expect(403);
    let own = browser.write("POST", FLAGS, json!({ "key": "own" })).expect(201).json();
    browser.write("PATCH", &path(&own), body.clone()).expect(200);
    let role = json!({ "name": "Ops", "feature_flags_access_level": 21 });
    let role = server.post("/api/organizations/@current/roles/", role).expect(201).json();
    let members = format!(
        "/api/organizations/@current/roles/{}/role_memberships/",
        role["id"].as_str().unwrap()
    );
    server.post(&members, json!({ "user_uuid": uuid })).expect(201);
    assert_eq!(can_edit(), false, "a role that only views");
    server
        .post(&format!("{}role_access/", path(&flag)), json!({ "role_id": role["id"] }))
        .expect(201);
    assert_eq!(can_edit(), true);
    browser.write("PATCH", &path(&flag), body).expect(200);
}

fn encrypted_payloads_are_decrypted_for_keys_only(store: Store) {
    let server = store.start();
    let secret = "\"s3cr3t-payload\"";
    let flag = create(
        &server,
        json!({
            "key": "f", "is_remote_configuration": true, "has_encrypted_payloads": true,
            "filters": { "groups": [{}], "payloads": { "true": secret } },
        }),
    );
    assert_eq!(flag["filters"]["payloads"]["true"], secret);
    test_users::add(&server, "m@example.com", 1);
    let browser = test_users::log_in(&server, "m@example.com", test_users::PASSWORD);
    let seen = browser.get(&path(&flag)).expect(200).json();
    let hidden = seen["filters"]["payloads"]["true"].clone();
    assert_ne!(hidden, secret);
    for filters in [json!({ "payloads": { "true": hidden } }), json!({})] {
        browser.write("PATCH", &path(&flag), json!({ "filters": filters })).expect(200);
        assert_eq!(server.get(&path(&flag)).json()["filters"]["payloads"]["true"], secret);
    }
    let log = server.get(&format!("{}activity/", path(&flag))).expect(200).text();
    assert!(!log.contains("s3cr3t"), "{log}");
    let stored = std::fs::read_dir(server.data_dir())
        .unwrap()
        .flatten()
        .filter(|file| file.path().is_file());
    for file in stored {
        let bytes = std::fs::read(file.path()).unwrap();
        let found = bytes.windows(6).any(|window| window == b"s3cr3t");
        assert!(!found, "{} holds the payload", file.path().display());
    }
}
