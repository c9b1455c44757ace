//! Login, sessions and CSRF.

use serde_json::{Value, json};

use crate::accounts::test_users::{self, PASSWORD, log_in, set_cookie, try_log_in};
use crate::harness::{ADMIN_EMAIL, ADMIN_PASSWORD, Request, Store, on_both_stores};

on_both_stores! {
    session_login_and_logout,
    session_cookies_have_security_attributes,
    login_does_not_reveal_existing_addresses,
    sixth_wrong_password_gets_429,
    login_requires_json_and_same_origin,
    session_writes_require_the_csrf_token,
    session_uploads_require_the_csrf_token_too,
    deactivated_user_loses_sessions_immediately,
    login_secrets_are_not_logged,
}

const OWN: &str = "/api/organizations/@current/";
const OTHER_SITE: &str = "https://evil.example";

fn session_login_and_logout(store: Store) {
    let server = store.start();
    let browser = log_in(&server, "ADMIN@example.com", ADMIN_PASSWORD);
    assert_eq!(browser.get(OWN).expect(200).json()["membership_level"], 15);
    browser.write("PATCH", OWN, json!({ "name": "By browser" })).expect(200);
    let other = log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);

    browser.call("POST", "/api/logout").send().expect(403);
    browser.get(OWN).expect(200);
    let out = browser.with_token("POST", "/api/logout").send().expect(200);
    for name in ["hedgerow_session", "hedgerow_csrf"] {
        assert!(set_cookie(&out, name).contains("Max-Age=0"));
    }
    assert_eq!(browser.get(OWN).expect(401).error(), "authentication_error not_authenticated -");
    browser.write("PATCH", OWN, json!({ "name": "Again" })).expect(401);
    assert_eq!(other.get(OWN).expect(200).json()["name"], "By browser");
    server.call("POST", "/api/logout").no_key().send().expect(200);
    server.call("GET", OWN).no_key().header("Cookie", "hedgerow_session=x").send().expect(401);
}

fn session_cookies_have_security_attributes(store: Store) {
    let server = store.start();
    let plain = try_log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD).expect(200);
    let session = set_cookie(&plain, "hedgerow_session");
    assert!(session.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=1209600"), "{session}");
    let csrf = set_cookie(&plain, "hedgerow_csrf");
    assert!(csrf.ends_with("; Path=/; SameSite=Lax; Max-Age=1209600"), "{csrf}");
    let body = json!({ "email": ADMIN_EMAIL, "password": ADMIN_PASSWORD });
    let call = server.call("POST", "/api/login/").no_key().json(body);
    let behind_proxy = call.header("X-Forwarded-Proto", "https").send().expect(200);
    for name in ["hedgerow_session", "hedgerow_csrf"] {
        assert!(set_cookie(&behind_proxy, name).ends_with("; Secure"));
        assert_ne!(test_users::cookie(&plain, name), test_users::cookie(&behind_proxy, name));
    }
}

fn login_does_not_reveal_existing_addresses(store: Store) {
    let server = store.start();
    let wrong = try_log_in(&server, ADMIN_EMAIL, "wrong").expect(400);
    let unknown = try_log_in(&server, "nobody@example.com", ADMIN_PASSWORD).expect(400);
    assert_eq!(wrong.error(), "validation_error invalid_input -");
    assert_eq!(wrong.text(), unknown.text());
    for response in [&wrong, &unknown] {
        assert!(response.header("set-cookie").is_none());
    }
    for (body, error) in [
        (json!({ "email": ADMIN_EMAIL }), "required password"),
        (json!({ "password": "x" }), "required email"),
        (json!({ "email": 1, "password": "x" }), "invalid_input email"),
        (json!({ "email": "e".repeat(255), "password": "x" }), "max_length email"),
        (json!({ "email": ADMIN_EMAIL, "password": "x".repeat(1_001) }), "max_length password"),
    ] {
        let refused = server.call("POST", "/api/login").no_key().json(body).send().expect(400);
        assert_eq!(refused.error(), format!("validation_error {error}"));
    }
}

fn sixth_wrong_password_gets_429(store: Store) {
    let server = store.start();
    test_users::add(&server, "m@example.com", 1);
    for _ in 0..5 {
        try_log_in(&server, "m@example.com", "wrong password").expect(400);
    }
    for (email, password) in [("m@example.com", "wrong"), ("M@example.com", PASSWORD)] {
        let refused = try_log_in(&server, email, password).expect(429);
        assert_eq!(refused.error(), "throttled_error throttled -");
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=900).contains(&wait), "{wait}");
    }
    for _ in 0..7 {
        try_log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD).expect(200);
    }
}

fn login_requires_json_and_same_origin(store: Store) {
    let server = store.start();
    let body = json!({ "email": ADMIN_EMAIL, "password": ADMIN_PASSWORD }).to_string();
    let form = format!("email={ADMIN_EMAIL}&password={ADMIN_PASSWORD}");
    let call = || server.call("POST", "/api/login").no_key();
    for (content_type, body) in [
        (Some("text/plain"), &body),
        (Some("application/x-www-form-urlencoded"), &form),
        (None, &body),
    ] {
        let mut call = call().bytes(body.clone().into_bytes());
        if let Some(content_type) = content_type {
            call = call.header("Content-Type", content_type);
        }
        let refused = call.send().expect(415);
        assert_eq!(refused.error(), "invalid_request unsupported_media_type -");
        assert!(refused.header("set-cookie").is_none());
    }
    let sent: Value = serde_json::from_str(&body).unwrap();
    for origin in [OTHER_SITE, "null"] {
        let refused = call().header("Origin", origin).json(sent.clone()).send().expect(403);
        assert!(refused.header("set-cookie").is_none());
    }
    let own = format!("http://{}", server.address());
    call().header("Origin", &own).json(sent).send().expect(200);
    server.call("GET", "/api/login").no_key().send().expect(405);
}

fn session_writes_require_the_csrf_token(store: Store) {
    let server = store.start();
    let browser = log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);
    let before = browser.get(OWN).json();
    let body = || json!({ "name": "Stolen" });
    let text = || body().to_string().into_bytes();
    let own = format!("http://{}", server.address());
    let created = "/api/organizations/";
    for (what, call) in [
        ("no token", browser.call("PATCH", OWN).json(body())),
        ("wrong token", browser.call("PATCH", OWN).header("X-CSRFToken", "x").json(body())),
        ("put", browser.call("PUT", OWN).json(body())),
        ("delete", browser.call("DELETE", OWN)),
        ("create", browser.call("POST", created).json(body())),
        ("own origin, no token", browser.call("POST", created).header("Origin", &own).json(body())),
        (
            "other origin",
            browser.with_token("PATCH", OWN).header("Origin", OTHER_SITE).json(body()),
        ),
        ("no origin", browser.with_token("PATCH", OWN).header("Origin", "null").json(body())),
        (
            "a form",
            browser.with_token("PATCH", OWN).header("Content-Type", "text/plain").bytes(text()),
        ),
        ("no media type", browser.with_token("PATCH", OWN).bytes(text())),
        ("override", browser.call("POST", OWN).header("X-HTTP-Method-Override", "DELETE")),
        (
            "override from elsewhere",
            browser
                .with_token("POST", OWN)
                .header("Origin", OTHER_SITE)
                .header("X-HTTP-Method-Override", "PATCH")
                .json(body()),
        ),
    ] {
        let refused = call.send();
        assert_eq!(refused.status, 403, "{what}: {}", refused.text());
        assert_eq!(refused.error(), "authentication_error permission_denied -", "{what}");
    }
    let reads = browser.call("GET", OWN).header("X-HTTP-Method-Override", "DELETE");
    assert_eq!(reads.header("Origin", OTHER_SITE).send().expect(200).json(), before);
    assert_eq!(browser.get(created).json()["count"], 1);

    let honest = browser.with_token("POST", OWN).header("X-HTTP-Method-Override", "PATCH");
    honest.header("Origin", &own).json(json!({ "name": "Ours" })).send().expect(200);
    let proxied = browser.with_token("PATCH", OWN).header("Origin", "https://hedge.example");
    let proxied = proxied.header("X-Forwarded-Host", "hedge.example");
    proxied.json(json!({ "name": "Proxied" })).send().expect(200);
    // An invalid key is rejected despite a valid cookie.
    browser.call("GET", OWN).key("phx_bad").send().expect(401);
}

fn session_uploads_require_the_csrf_token_too(store: Store) {
    let server = store.start();
    server.ingest(&[json!({ "event": "e", "distinct_id": "u1" })]);
    let browser = log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);
    let cohorts = "/api/projects/1/cohorts/";
    let fields = "--b\r\nContent-Disposition: form-data; name=\"is_static\"\r\n\r\ntrue\r\n";
    let file = "--b\r\nContent-Disposition: form-data; name=\"csv\"; filename=\"u.csv\"\r\n\r\nu1\r\n--b--";
    let upload = |call: Request| {
        call.header("Content-Type", "multipart/form-data; boundary=b")
            .bytes(format!("{fields}{file}").into_bytes())
            .send()
    };
    for call in [
        browser.call("POST", cohorts),
        browser.call("POST", cohorts).header("X-CSRFToken", "x"),
        browser.call("POST", cohorts).header("Origin", &format!("http://{}", server.address())),
        browser.with_token("POST", cohorts).header("Origin", OTHER_SITE),
    ] {
        assert_eq!(upload(call).expect(403).error(), "authentication_error permission_denied -");
    }
    assert_eq!(server.get(cohorts).json()["count"], 0);
    let own = browser.with_token("POST", cohorts);
    assert_eq!(upload(own).expect(201).json()["count"], 1);
    let elsewhere = browser.with_token("POST", "/api/projects/1/annotations/");
    upload(elsewhere).expect(415);
}

fn deactivated_user_loses_sessions_immediately(store: Store) {
    let server = store.start();
    test_users::add(&server, "m@example.com", 1);
    let key = test_users::key_of(&server, "m@example.com", &["*"]);
    let browser = log_in(&server, "m@example.com", PASSWORD);
    let by_key = || server.call("GET", OWN).key(&key).send();
    by_key().expect(200);
    browser.get(OWN).expect(200);

    test_users::set_active(&server, "m@example.com", false);
    let refused = by_key().expect(401);
    assert_eq!(refused.error(), "authentication_error invalid_personal_api_key -");
    browser.get(OWN).expect(401);
    let wrong = try_log_in(&server, "nobody@example.com", PASSWORD).expect(400).text();
    assert_eq!(try_log_in(&server, "m@example.com", PASSWORD).expect(400).text(), wrong);
    let members = server.get(test_users::MEMBERS).json();
    assert_eq!(members["count"], 1);

    test_users::set_active(&server, "m@example.com", true);
    by_key().expect(200);
    browser.get(OWN).expect(401);
    log_in(&server, "m@example.com", PASSWORD);
}

fn login_secrets_are_not_logged(store: Store) {
    let server = store.start_with(&[("HEDGEROW_LOG_LEVEL", "trace")]);
    test_users::add(&server, "m@example.com", 1);
    let response = try_log_in(&server, "m@example.com", PASSWORD).expect(200);
    try_log_in(&server, "m@example.com", "almost right").expect(400);
    let session = test_users::cookie(&response, "hedgerow_session");
    let key = server.key(&["organization:read"]);
    let by_query = format!("/api/organizations/?personal_api_key={key}");
    server.call("GET", &by_query).no_key().send().expect(200);
    let (_, output, _) = server.stop();
    assert!(output.contains("/api/login"), "nothing was logged:\n{output}");
    for secret in [PASSWORD, "almost right", &session, &key, "argon2id"] {
        assert!(!output.contains(secret), "{secret} in\n{output}");
    }
}
