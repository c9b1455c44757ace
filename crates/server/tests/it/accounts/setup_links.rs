//! Setup links: the first start, forgotten passwords, and members.

use serde_json::{Value, json};

use crate::accounts::test_users::{self, MEMBERS, PASSWORD, cookie, key_of, try_log_in};
use crate::harness::{ADMIN_EMAIL, Instance, Response, Server, Store, on_both_stores};

on_both_stores! {
    first_start_is_completed_by_its_link_once,
    restart_before_the_setup_replaces_the_link,
    configured_password_needs_no_setup,
    setup_checks_every_field,
    expired_and_guessed_tokens_are_rejected,
    setup_requires_json_and_same_origin,
    operator_creates_links_for_forgotten_passwords,
    administrator_creates_links_for_members_of_lower_rank,
}

const OWNER: &str = "ada@example.com";

fn unnamed(store: Store) -> Instance {
    let mut instance = store.instance();
    instance.unset("HEDGEROW_ADMIN_PASSWORD");
    instance
}

/// The token of the link in a printed text.
fn token(printed: &str) -> String {
    let link = printed.split_whitespace().find(|word| word.contains("/setup")).unwrap();
    assert!(link.starts_with("http://127.0.0.1:"), "{link}");
    link.split_once('#').unwrap().1.to_owned()
}

fn fields(token: &str) -> Value {
    json!({ "token": token, "email": OWNER, "password": PASSWORD, "first_name": "Ada",
        "organization": "Engines", "project": "Loom", "timezone": "Europe/London" })
}

fn send(server: &Server, body: Value) -> Response {
    server.call("POST", "/api/setup/").no_key().json(body).send()
}

fn needed(server: &Server) -> bool {
    let status = server.call("GET", "/api/setup").no_key().send().expect(200).json();
    status["needed"].as_bool().unwrap()
}

fn first_start_is_completed_by_its_link_once(store: Store) {
    let server = unnamed(store).serve();
    let printed = server.process().printed();
    assert!(printed.contains("/setup#") && !printed.contains("admin password"), "{printed}");
    let token = token(&printed);
    assert!(needed(&server));
    assert!(!server.process().logged().contains(&token), "the token is in the log");
    try_log_in(&server, ADMIN_EMAIL, "").expect(400);

    let done = send(&server, fields(&token)).expect(200);
    assert!(!needed(&server));
    let cookies = format!(
        "hedgerow_session={}; hedgerow_csrf={}",
        cookie(&done, "hedgerow_session"),
        cookie(&done, "hedgerow_csrf")
    );
    let me = server.call("GET", "/api/users/@me/").no_key().header("Cookie", &cookies).send();
    let me = me.expect(200).json();
    assert_eq!((&me["email"], &me["first_name"]), (&json!(OWNER), &json!("Ada")));
    assert_eq!(me["organization"]["name"], "Engines");
    assert_eq!(
        (&me["team"]["name"], &me["team"]["timezone"]),
        (&json!("Loom"), &json!("Europe/London"))
    );
    assert_eq!((&me["is_staff"], &me["is_email_verified"]), (&json!(true), &json!(true)));
    try_log_in(&server, OWNER, PASSWORD).expect(200);

    let again = send(&server, fields(&token)).expect(400);
    assert_eq!(again.error(), "validation_error invalid_input token");
    let server = server.restart();
    assert!(!server.output().contains("/setup"), "{}", server.output());
    try_log_in(&server, OWNER, PASSWORD).expect(200);
    let log = server.get("/api/projects/1/activity_log/").expect(200).json().to_string();
    assert!(log.contains("Loom") && !log.contains(&token), "{log}");
}

fn restart_before_the_setup_replaces_the_link(store: Store) {
    let server = unnamed(store).serve();
    let first = token(&server.process().printed());
    let server = server.restart();
    let second = token(&server.process().printed());
    assert_ne!(first, second);
    assert_eq!(
        send(&server, fields(&first)).expect(400).error(),
        "validation_error invalid_input token"
    );
    send(&server, fields(&second)).expect(200);
}

fn configured_password_needs_no_setup(store: Store) {
    let server = store.start();
    assert!(!needed(&server));
    let printed = server.process().printed();
    assert!(printed.contains("(as given)") && !printed.contains("/setup"), "{printed}");
    send(&server, fields("x")).expect(400);
}

fn setup_checks_every_field(store: Store) {
    let server = unnamed(store).serve();
    test_users::add(&server, "taken@example.com", 1);
    let token = token(&server.process().printed());
    for (field, value, error) in [
        ("token", Value::Null, "invalid_input token"),
        ("email", json!("no address"), "invalid_input email"),
        ("email", json!("TAKEN@example.com"), "unique email"),
        ("password", json!("short"), "min_length password"),
        ("password", json!("x".repeat(1_001)), "max_length password"),
        ("first_name", json!("  "), "blank first_name"),
        ("first_name", json!("x".repeat(151)), "max_length first_name"),
        ("organization", json!(""), "blank organization"),
        ("organization", json!("x".repeat(65)), "max_length organization"),
        ("project", json!("x".repeat(201)), "max_length project"),
        ("project", json!(7), "invalid_input project"),
        ("timezone", json!("Mars/Olympus"), "invalid_choice timezone"),
    ] {
        let mut body = fields(&token);
        body[field] = value.clone();
        let refused = send(&server, body).expect(400).error();
        let kind = refused.trim_start_matches("validation_error ");
        // A wrong type and null have codes of their own.
        assert!(kind == error || kind.ends_with(field) && !value.is_string(), "{field}: {refused}");
    }
    for field in ["token", "email", "password", "first_name", "organization", "project", "timezone"]
    {
        let mut body = fields(&token);
        body.as_object_mut().unwrap().remove(field);
        let refused = send(&server, body).expect(400).error();
        assert_eq!(refused, format!("validation_error required {field}"));
    }
    assert!(needed(&server));
    send(&server, fields(&token)).expect(200);
}

fn expired_and_guessed_tokens_are_rejected(store: Store) {
    let server = unnamed(store).serve();
    let token = token(&server.process().printed());
    server.instance().write("UPDATE setup_links SET expires_at = 1");
    assert_eq!(
        send(&server, fields(&token)).expect(400).error(),
        "validation_error invalid_input token"
    );
    assert!(needed(&server), "an expired link leaves the instance without an owner");
    for _ in 0..4 {
        send(&server, fields("guessed")).expect(400);
    }
    let refused = send(&server, fields("guessed")).expect(429);
    assert_eq!(refused.error(), "throttled_error throttled -");
    assert!(refused.header("retry-after").is_some());
    let server = server.restart();
    send(&server, fields(&self::token(&server.process().printed()))).expect(200);
}

fn setup_requires_json_and_same_origin(store: Store) {
    let server = unnamed(store).serve();
    let token = token(&server.process().printed());
    let body = fields(&token).to_string().into_bytes();
    let form = server.call("POST", "/api/setup").no_key().header("Content-Type", "text/plain");
    form.bytes(body).send().expect(415);
    let elsewhere = server.call("POST", "/api/setup").no_key().json(fields(&token));
    elsewhere.header("Origin", "https://evil.example").send().expect(403);
    assert!(needed(&server));
}

fn operator_creates_links_for_forgotten_passwords(store: Store) {
    let server = store.start();
    test_users::add(&server, "m@example.com", 1);
    let member = test_users::log_in(&server, "m@example.com", PASSWORD);
    let link = |arguments: &[&str]| {
        let (ok, printed, stderr) =
            server.instance().run(&[&["admin", "setup-link"], arguments].concat());
        assert!(ok, "{stderr}");
        printed
    };
    let printed = link(&["--email", "m@example.com"]);
    assert!(printed.contains("m@example.com") && printed.contains("/setup/password#"), "{printed}");
    let (first, second) = (token(&printed), token(&link(&["--email", "M@example.com"])));
    let set = |token: &str| json!({ "token": token, "password": "a new password" });
    send(&server, set(&first)).expect(400);
    let mut body = fields(&second);
    body["password"] = json!("a new password");
    assert_eq!(send(&server, body).expect(400).error(), "validation_error invalid_input email");
    member.get("/api/users/@me/").expect(200);
    send(&server, set(&second)).expect(200);
    member.get("/api/users/@me/").expect(401);
    try_log_in(&server, "m@example.com", PASSWORD).expect(400);
    try_log_in(&server, "m@example.com", "a new password").expect(200);

    assert!(link(&[]).contains(ADMIN_EMAIL), "the default is the first administrator");
    let (ok, _, stderr) =
        server.instance().run(&["admin", "setup-link", "--email", "nobody@example.com"]);
    assert!(!ok && stderr.contains("there is no user with"), "{stderr}");
    let unused = token(&link(&["--email", "m@example.com"]));
    test_users::set_active(&server, "m@example.com", false);
    send(&server, set(&unused)).expect(400);
    let (ok, _, stderr) =
        server.instance().run(&["admin", "setup-link", "--email", "m@example.com"]);
    assert!(!ok && stderr.contains("deactivated"), "{stderr}");
}

fn administrator_creates_links_for_members_of_lower_rank(store: Store) {
    let server = store.start();
    let owner = server.get(&format!("{MEMBERS}@me/")).expect(200).json();
    let owner = owner["user"]["uuid"].as_str().unwrap().to_owned();
    let member = test_users::add(&server, "m@example.com", 1);
    test_users::add(&server, "a@example.com", 8);
    let other_owner = test_users::add(&server, "o@example.com", 15);
    let key = |email: &str| key_of(&server, email, &["*"]);
    let (by_member, by_admin, by_owner) =
        (key("m@example.com"), key("a@example.com"), key("o@example.com"));
    let create = |key: &str, user: &str| {
        server.call("POST", &format!("{MEMBERS}{user}/setup_link/")).key(key).send()
    };
    create(&by_member, &other_owner).expect(403);
    create(&by_member, &member).expect(403);
    create(&by_admin, &other_owner).expect(403);
    create(&by_admin, "@me").expect(403);
    create(&by_owner, &owner).expect(403);
    create(&by_admin, "0192f0c1-2345-7000-8000-000000000000").expect(404);
    let narrow = key_of(&server, "a@example.com", &["organization_member:read"]);
    create(&narrow, &member).expect(403);
    server.call("POST", &format!("{MEMBERS}{member}/setup_link/")).no_key().send().expect(401);

    let made = create(&by_admin, &member).expect(201).json();
    assert!(made["expires_at"].is_string(), "{made}");
    let path = made["path"].as_str().unwrap();
    let token = path.strip_prefix("/setup/password#").unwrap();
    let body = json!({ "token": token, "password": "a new password", "first_name": "Mary" });
    send(&server, body).expect(200);
    let browser = test_users::log_in(&server, "m@example.com", "a new password");
    assert_eq!(browser.get("/api/users/@me/").expect(200).json()["first_name"], "Mary");

    // Nobody but staff takes over an account that has rights elsewhere.
    test_users::organization_of(&server, "m@example.com", "Elsewhere");
    create(&by_admin, &member).expect(403);
    create(&by_owner, &member).expect(403);
    server.post(&format!("{MEMBERS}{member}/setup_link/"), json!({})).expect(201);
}
