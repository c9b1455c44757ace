//! `hedgerow admin` and `hedgerow health`, with and without a running server.

use serde_json::json;

use crate::harness::{ADMIN_EMAIL, Store, on_both_stores};

on_both_stores! {
    admin_commands_add_users_and_keys_while_the_server_runs,
    reset_password_ends_sessions,
}

fn last_word(printed: &str) -> String {
    printed.split_whitespace().last().unwrap().to_owned()
}

fn admin_commands_add_users_and_keys_while_the_server_runs(store: Store) {
    let server = store.start();
    let instance = server.instance();
    let email = "new@example.com";
    let (ok, printed, stderr) = instance.run(&["admin", "create-user", "--email", email]);
    assert!(ok, "{stderr}");
    let password = last_word(&printed);
    let log_in = json!({ "email": email, "password": password });
    server.call("POST", "/api/login").no_key().json(log_in).send().expect(200);

    let (ok, _, stderr) = instance.run(&["admin", "create-user", "--email", "NEW@example.com"]);
    assert!(!ok && stderr.contains("already an account"), "{stderr}");

    let create = ["admin", "create-key", "--email", email, "--label", "by hand", "--scopes"];
    let (ok, printed, stderr) = instance.run(&[&create[..], &["user:read"]].concat());
    assert!(ok, "{stderr}");
    let key = last_word(&printed);
    server.call("GET", "/api/personal_api_keys/").key(&key).send().expect(200);
    let (ok, _, stderr) = instance.run(&[&create[..], &["user:eat"]].concat());
    assert!(!ok && stderr.contains("user:eat"), "{stderr}");

    let (ok, printed, stderr) = instance.run(&["admin", "list-keys", "--email", email]);
    assert!(ok, "{stderr}");
    assert!(printed.contains("by hand") && printed.contains("user:read"), "{printed}");
    assert!(!printed.contains(&key) && printed.lines().count() == 1, "{printed}");
    let (_, all, _) = instance.run(&["admin", "list-keys"]);
    assert!(all.contains(email) && all.contains(ADMIN_EMAIL), "{all}");

    let log_in = || {
        let log_in = json!({ "email": email, "password": password });
        server.call("POST", "/api/login").no_key().json(log_in).send().status
    };
    for (command, logged_in, asked) in [("deactivate-user", 400, 401), ("activate-user", 200, 200)]
    {
        let (ok, printed, stderr) = instance.run(&["admin", command, "--email", email]);
        assert!(ok && printed.contains(email), "{stderr}");
        assert_eq!(log_in(), logged_in, "{command}");
        let call = server.call("GET", "/api/personal_api_keys/").key(&key);
        assert_eq!(call.send().status, asked, "{command}");
    }

    let missing = ["admin", "create-key", "--email", "nobody@example.com"];
    let (ok, _, stderr) = instance.run(&missing);
    assert!(!ok && stderr.contains("there is no user with"), "{stderr}");
}

fn reset_password_ends_sessions(store: Store) {
    let server = store.start();
    let try_with = |password: &str| {
        let log_in = json!({ "email": ADMIN_EMAIL, "password": password });
        server.call("POST", "/api/login").no_key().json(log_in).send()
    };
    let cookie = try_with(crate::harness::ADMIN_PASSWORD).expect(200);
    let cookie = cookie.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let with_cookie =
        || server.call("GET", "/api/personal_api_keys/").no_key().header("Cookie", &cookie).send();
    with_cookie().expect(200);
    let reset = ["admin", "reset-password", "--email", ADMIN_EMAIL, "--password-stdin"];
    let (ok, _, stderr) = server.instance().run_with_input(&reset, "short\n");
    assert!(!ok && stderr.contains("8 to 1024"), "{stderr}");
    let (ok, printed, stderr) = server.instance().run_with_input(&reset, "battery staple\n");
    assert!(ok && !printed.contains("battery"), "{printed}{stderr}");
    with_cookie().expect(401);
    try_with(crate::harness::ADMIN_PASSWORD).expect(400);
    try_with("battery staple").expect(200);
}

#[test]
fn health_command_reports_readiness() {
    let server = Store::Sqlite.start();
    let address = server.address().to_string();
    let health = ["health", "--listen", address.as_str()];
    let (ok, printed, _) = server.instance().run(&health);
    assert!(ok && printed == "ready");
    let (_, _, instance) = server.stop();
    let (ok, _, stderr) = instance.run(&health);
    assert!(!ok && stderr.contains("nothing answers at"), "{stderr}");
}

#[test]
fn admin_commands_need_a_catalog() {
    let instance = Store::Sqlite.instance();
    let (ok, _, stderr) = instance.run(&["admin", "list-keys"]);
    assert!(!ok && stderr.contains("there is no catalog in"), "{stderr}");
    assert!(std::fs::read_dir(instance.data_dir.path()).unwrap().next().is_none());
}

#[test]
fn schema_command_prints_the_document_that_the_server_serves() {
    let server = Store::Sqlite.start();
    let (ok, printed, stderr) = server.instance().run(&["schema"]);
    assert!(ok, "{stderr}");
    let printed: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(printed, server.get("/api/schema/").expect(200).json());
}
