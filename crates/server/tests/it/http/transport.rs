//! What all management requests share: paths, methods, headers and bodies.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::harness::{PERSONAL_KEY, PROJECT_KEY, Response, Server, Store, on_both_stores};

on_both_stores! {
    path_spellings_reach_one_resource,
    token_parameter_selects_the_project,
    method_override_header_replaces_post,
    head_responds_as_get_without_a_body,
    options_needs_the_read_scope,
    unknown_path_is_not_found,
    unsupported_method_is_405_with_allow,
    unparsable_body_changes_nothing,
    oversized_body_is_413_after_authentication,
    unacceptable_accept_header_is_406,
    timestamps_are_utc_with_microseconds,
    rate_limited_key_gets_429,
    large_json_without_secrets_is_compressed,
}

const NOTES: &str = "/api/projects/1/annotations/";

fn note(server: &Server, content: &str) -> Value {
    server.post(NOTES, json!({ "content": content })).expect(201).json()
}

// contract: management 12, 13, 16
fn path_spellings_reach_one_resource(store: Store) {
    let server = store.start();
    for path in [
        "/api/projects/1/annotations",
        "/api/projects/1/annotations/",
        "/api/environments/1/annotations",
        "/api/environments/@current/annotations/",
        "/api/annotation",
        "/api/annotation/",
    ] {
        let made = server.post(path, json!({ "content": path })).expect(201);
        assert_eq!(made.header("location"), None);
        let id = made.json()["id"].clone();
        let one = format!("{}/{id}", path.trim_end_matches('/'));
        for one in [one.clone(), format!("{one}/")] {
            assert_eq!(server.get(&one).expect(200).json()["content"], path);
        }
    }
    let listed = server.get(NOTES).expect(200).json();
    assert_eq!(listed["count"], 6);
    for path in [
        "/api/projects/1/annotations",
        "/api/projects/@current/annotations/",
        "/api/environments/1/annotations/",
        "/api/annotation/",
    ] {
        let response = server.get(path).expect(200);
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.json(), listed, "{path}");
    }
}

fn token_parameter_selects_the_project(store: Store) {
    let server = store.start();
    let made = server.post("/api/projects", json!({ "name": "Orchard" })).expect(201).json();
    let token = made["api_token"].as_str().unwrap();
    note(&server, "in project 1");
    for (path, count) in [
        (format!("/api/projects/1/annotations?token={token}"), 0),
        (format!("/api/projects/@current/annotations?token={token}"), 0),
        (format!("/api/annotation/?token={token}"), 0),
        (format!("/api/projects/2/annotations?token={PROJECT_KEY}"), 1),
        (format!("/api/projects/999/annotations?token={PROJECT_KEY}"), 1),
        ("/api/projects/1/annotations?token=".into(), 1),
    ] {
        assert_eq!(server.get(&path).expect(200).json()["count"], count, "{path}");
    }
    for token in ["phc_unknown", PERSONAL_KEY, "%00"] {
        let refused = server.get(&format!("{NOTES}?token={token}")).expect(401);
        assert_eq!(refused.error(), "authentication_error invalid_api_key -");
    }
    let anonymous = server.call("GET", &format!("{NOTES}?token={PROJECT_KEY}")).no_key().send();
    assert_eq!(anonymous.expect(401).error(), "authentication_error not_authenticated -");
    let anonymous = server.call("GET", "/api/projects/@current/annotations").no_key().send();
    assert_eq!(anonymous.expect(401).header("www-authenticate"), Some("Bearer"));
}

fn method_override_header_replaces_post(store: Store) {
    let server = store.start();
    let id =
        server.post("/api/projects", json!({ "name": "Weeds" })).expect(201).json()["id"].clone();
    let path = format!("/api/projects/{id}/");
    let send = |method: &str, wanted: &str, body: Value| {
        server.call(method, &path).header("X-HTTP-Method-Override", wanted).json(body).send()
    };
    let patched = send("POST", "patch", json!({ "is_demo": true })).expect(200).json();
    assert_eq!((&patched["name"], &patched["is_demo"]), (&json!("Weeds"), &json!(true)));
    send("POST", "PUT", json!({ "is_demo": true })).expect(400);
    send("POST", "GET", json!({})).expect(405);
    send("GET", "DELETE", json!({})).expect(200);
    let reader = server.key(&["project:read"]);
    let refused =
        server.call("POST", &path).header("X-HTTP-Method-Override", "DELETE").key(&reader);
    refused.send().expect(403);
    send("POST", "DELETE", json!({})).expect(204);
    server.get(&path).expect(404);
}

fn head_responds_as_get_without_a_body(store: Store) {
    let server = store.start();
    for (path, status) in
        [("/api/projects/1", 200), ("/api/projects/9/", 404), ("/api/nothing", 404)]
    {
        let (head, get) = (server.call("HEAD", path).send(), server.get(path).expect(status));
        assert_eq!((head.status, head.body.len()), (status, 0), "{path}");
        for name in ["content-type", "content-length"] {
            assert_eq!(head.header(name), get.header(name), "{path}");
        }
    }
    server.call("HEAD", "/api/projects/1").no_key().send().expect(401);
}

fn options_needs_the_read_scope(store: Store) {
    let server = store.start();
    let (reader, other) = (server.key(&["project:read"]), server.key(&["annotation:write"]));
    for (path, allow) in [
        ("/api/projects/1", "GET, PATCH, PUT, DELETE, HEAD, OPTIONS"),
        ("/api/projects", "GET, POST, HEAD, OPTIONS"),
        ("/api/organizations/@current/projects/1", "GET, PATCH, PUT, DELETE, HEAD, OPTIONS"),
    ] {
        let response = server.call("OPTIONS", path).key(&reader).send().expect(200);
        assert_eq!(response.header("allow"), Some(allow), "{path}");
        assert!(response.json().is_object());
        let refused = server.call("OPTIONS", path).key(&other).send().expect(403).json();
        assert_eq!(refused["detail"], "API key missing required scope 'project:read'");
        server.call("OPTIONS", path).no_key().send().expect(401);
    }
    server.call("OPTIONS", "/api/projects/9").send().expect(404);
    server.call("OPTIONS", "/api/login").no_key().send().expect(200);
}

fn unknown_path_is_not_found(store: Store) {
    let server = store.start();
    for path in [
        "/api",
        "/api/",
        "/api/nothing",
        "/api/projects/1/nothing",
        "/api//projects/1",
        "/api/projects//",
        "/api/projects/1//",
        "/api/projects/../projects/1",
        "/api/projects/%2e%2e/users/@me",
        "/api/projects/1%2fannotations",
        "/api/projects/1%00",
        "/api/projects/-1",
        "/api/projects/1.0",
        "/api/projects/%FF",
        "/api/projects/9223372036854775808",
        "/api/projects/1/annotations/9223372036854775808",
        "/api/projects/1/annotations/-9223372036854775809",
        "/api/projects/1/annotations/x",
        "/api/projects/1/annotations/%00",
        "/api/personal_api_keys/%00",
        "/api/organizations/%00",
        "/api/users/%00",
        "/api/environmentsx/1",
        "/API/projects/1",
        "/nothing",
    ] {
        let response = server.get(path).expect(404);
        assert_eq!(response.error(), "invalid_request not_found -", "{path}");
    }
}

fn unsupported_method_is_405_with_allow(store: Store) {
    let server = store.start();
    for (method, path, allow) in [
        ("PUT", "/api/projects", "GET, POST, HEAD, OPTIONS"),
        ("POST", "/api/projects/1/", "GET, PATCH, PUT, DELETE, HEAD, OPTIONS"),
        ("DELETE", "/api/users/@me", "GET, PATCH, PUT, HEAD, OPTIONS"),
        ("POST", "/api/projects/1/activity_log", "GET, HEAD, OPTIONS"),
        ("BREW", "/api/projects/1", "GET, PATCH, PUT, DELETE, HEAD, OPTIONS"),
        ("GET", "/api/login", "POST, OPTIONS"),
    ] {
        let refused = server.call(method, path).send().expect(405);
        assert_eq!(refused.error(), "invalid_request method_not_allowed -");
        assert_eq!(refused.json()["detail"], format!("Method \"{method}\" not allowed."));
        assert_eq!(refused.header("allow"), Some(allow), "{method} {path}");
    }
}

// contract: management 18
fn unparsable_body_changes_nothing(store: Store) {
    let server = store.start();
    let before = server.get("/api/projects/1").expect(200).json();
    let deep = "[".repeat(100_000);
    for (body, error) in [
        (&b"{\"name\": "[..], "invalid_request parse_error -"),
        (b"name=x", "invalid_request parse_error -"),
        (b"{\"name\": NaN}", "invalid_request parse_error -"),
        (b"{\"name\": \"x\", \"primary_dashboard\": 1e999}", "invalid_request parse_error -"),
        (b"{\"name\": \"\xff\"}", "invalid_request parse_error -"),
        (b"{\"name\": \"\\ud800\"}", "invalid_request parse_error -"),
        (deep.as_bytes(), "invalid_request parse_error -"),
        (b"[]", "validation_error invalid_input -"),
        (b"null", "validation_error invalid_input -"),
        (b"\"name\"", "validation_error invalid_input -"),
        (b"{\"name\": \"a\\u0000b\"}", "validation_error invalid_input name"),
        (
            b"{\"extra_settings\": {\"\\u0000\": 1}}",
            "validation_error invalid_input extra_settings",
        ),
        (b"{\"name\": {\"name\": 1}}", "validation_error invalid_input name"),
        (
            b"{\"primary_dashboard\": 9223372036854775808}",
            "validation_error invalid_input primary_dashboard",
        ),
    ] {
        let call =
            server.call("PATCH", "/api/projects/1").header("Content-Type", "application/json");
        let refused = call.bytes(body.to_vec()).send().expect(400);
        assert_eq!(refused.error(), error, "{}", refused.text());
    }
    for media in ["text/plain", "application/x-www-form-urlencoded", "json", ""] {
        let call = server.call("PATCH", "/api/projects/1").header("Content-Type", media);
        let refused = call.bytes(b"{\"name\": \"x\"}".to_vec()).send().expect(415);
        assert_eq!(refused.error(), "invalid_request unsupported_media_type -", "{media}");
    }
    assert_eq!(server.get("/api/projects/1").expect(200).json(), before);

    for media in ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"] {
        let call = server.call("PATCH", "/api/projects/1").header("Content-Type", media);
        call.bytes(b"{\"is_demo\": true}".to_vec()).send().expect(200);
    }
    // Without Content-Type, as some clients send it, and without a body.
    server
        .call("PATCH", "/api/projects/1")
        .bytes(b"{\"is_demo\": false}".to_vec())
        .send()
        .expect(200);
    server.call("PATCH", "/api/projects/1").send().expect(200);
}

fn oversized_body_is_413_after_authentication(store: Store) {
    let server = store.start();
    let sized = |bytes: usize| {
        let empty = json!({ "unknown": "" }).to_string();
        json!({ "unknown": "x".repeat(bytes - empty.len()) })
    };
    let send = |path: &str, bytes: usize| server.call("PATCH", path).json(sized(bytes));
    send("/api/projects/1", 1 << 20).send().expect(200);
    for bytes in [(1 << 20) + 1, 10 << 20] {
        let refused = send("/api/projects/1", bytes).send().expect(413);
        assert_eq!(refused.error(), "invalid_request payload_too_large -");
        send("/api/projects/1", bytes).no_key().send().expect(401);
        send("/api/projects/9", bytes).send().expect(404);
    }
    // A body past the limit is neither stored nor parsed.
    let key = json!({ "personal_api_key": PERSONAL_KEY, "unknown": "x".repeat(2 << 20) });
    server.call("PATCH", "/api/projects/1").no_key().json(key).send().expect(401);
    let project = server.get("/api/projects/1/activity").expect(200).json();
    assert_eq!(project["total_count"], 1);
}

fn unacceptable_accept_header_is_406(store: Store) {
    let server = store.start();
    let ask = |accept: &str| -> Response {
        server.call("GET", "/api/projects/1").header("Accept", accept).send()
    };
    for accept in ["text/html", "application/xml, text/*;q=0.5", "image/png"] {
        assert_eq!(ask(accept).expect(406).error(), "invalid_request not_acceptable -", "{accept}");
    }
    for accept in
        ["*/*", "application/json", "text/html, application/*;q=0.1", "TEXT/HTML,*/*;q=0.8", ""]
    {
        ask(accept).expect(200);
    }
}

fn timestamps_are_utc_with_microseconds(store: Store) {
    let server = store.start();
    let body = json!({ "content": "n", "date_marker": "2024-03-01T12:00:00+02:00" });
    let made = server.post(NOTES, body).expect(201).json();
    assert_eq!(made["date_marker"], "2024-03-01T10:00:00Z");
    let created = made["created_at"].as_str().unwrap();
    let pattern = "0000-00-00T00:00:00.000000Z";
    let shape: String =
        created.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    // One timestamp in a million has no fraction.
    assert!(shape == pattern || shape == "0000-00-00T00:00:00Z", "{created}");
}

// contract: management 118
fn rate_limited_key_gets_429(store: Store) {
    /// Twice the limit of one minute: a new minute may begin meanwhile.
    const CALLS_MAX: usize = 2 * 480 + 1;
    let server = store.start_with(&[("HEDGEROW_RATE_LIMITS", "on")]);
    let other = server.key(&["*"]);
    let refused = (0..CALLS_MAX)
        .map(|_| server.get("/api/projects/1/is_generating_demo_data"))
        .find(|response| response.status != 200)
        .unwrap()
        .expect(429);
    assert_eq!(refused.error(), "throttled_error throttled -");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    let detail = format!("Request was throttled. Expected available in {seconds} seconds.");
    assert_eq!(refused.json()["detail"], detail);
    server.call("GET", "/api/projects/1").key(&other).send().expect(200);
}

fn large_json_without_secrets_is_compressed(store: Store) {
    let server = store.start();
    let get = |path: &str, encoding: &str| {
        server.call("GET", path).header("Accept-Encoding", encoding).send().expect(200)
    };
    assert_eq!(get(NOTES, "gzip").header("content-encoding"), None, "small");
    for _ in 0..40 {
        note(&server, &"long ".repeat(60));
    }
    for path in [NOTES, "/api/schema/"] {
        let plain = get(path, "identity");
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(plain.header("vary"), Some("Accept-Encoding"));
        let packed = get(path, "gzip, deflate, br");
        assert_eq!(packed.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(packed.header("content-type"), Some("application/json"));
        let length = packed.header("content-length").unwrap().parse::<usize>().unwrap();
        assert!(length == packed.body.len() && length < plain.body.len() / 2, "{path}: {length}");
        let mut inflated = Vec::new();
        flate2::read::GzDecoder::new(&*packed.body).read_to_end(&mut inflated).unwrap();
        assert_eq!(inflated, plain.body, "{path}");
    }
    // Lists with keys and tokens.
    for _ in 0..30 {
        server.post("/api/projects/", json!({ "name": "x".repeat(180) })).expect(201);
    }
    for path in ["/api/projects/?limit=100", "/api/users/@me/"] {
        let shown = get(path, "gzip");
        assert!(shown.body.len() > 8 << 10, "{path}: {}", shown.body.len());
        assert_eq!(shown.header("content-encoding"), None, "{path}");
    }
}
