//! Invalid requests get a 4xx error with the standard shape and change nothing.

use std::io::{Read, Write};
use std::iter;
use std::net::TcpStream;
use std::thread;

use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

use crate::harness::{Response, Store, on_both_stores, raw};

on_both_stores! {
    malformed_paths_are_not_found,
    malformed_bodies_are_rejected,
    oversized_headers_and_bodies_are_rejected,
}

const KEYS: &str = "/api/personal_api_keys/";

/// An error of the standard shape; `HEAD` and errors of the HTTP parser have no body.
fn refused(response: &Response, why: &str) {
    assert!(
        (400..500).contains(&response.status),
        "{why}: {} {}",
        response.status,
        response.text()
    );
    response.error();
}

fn malformed_paths_are_not_found(store: Store) {
    let server = store.start();
    let long = format!("{KEYS}{}/", "x".repeat(20_000));
    for path in [
        "/api/../personal_api_keys/",
        "//api/personal_api_keys/",
        "/api//personal_api_keys/",
        "/api/personal_api_keys//",
        "/api/personal_api_keys/../../etc/passwd",
        "/api/personal_api_keys/%2e%2e/",
        "/api/personal_api_keys/%2F/",
        "/api/personal_api_keys/%00/",
        "/api/personal_api_keys/%ff%fe/",
        "/api/personal_api_keys/%zz/",
        "/api/personal_api_keys/99999999999999999999999999/",
        "/api/personal_api_keys/-1/",
        "/api/personal_api_keys/'%20OR%201=1--/",
        "/api/personal_api_keys/@me/",
        "/API/PERSONAL_API_KEYS/",
        "/api/projects/99999999999999999999999999/actions/",
        "/api/projects/9223372036854775807/actions/",
        "/api/projects/-9223372036854775809/actions/",
        "/api/projects/%00/actions/",
        "/api/organizations/%00/members/",
        "/api/organizations/99999999999999999999999999/members/",
        "/static/../../etc/passwd",
        long.as_str(),
    ] {
        let response = server.get(path);
        assert!(response.status == 404 || response.status == 400, "{path}: {}", response.status);
        refused(&response, path);
    }
    server.get("/api/personal_api_keys/?limit=99999999999999999999&offset=-5").expect(200);
    // The HTTP parser rejects these without the standard shape.
    for line in ["GET /api/\u{0}x HTTP/1.1", "GET x HTTP/1.1", "GET / HTTP/9.9", "\u{0}\u{1}"] {
        let received = raw(
            server.address(),
            format!("{line}\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes(),
        );
        assert!(received.starts_with(b"HTTP/1.1 4") || received.is_empty(), "{line:?}");
    }
}

fn malformed_bodies_are_rejected(store: Store) {
    let server = store.start();
    let before = server.get(KEYS).expect(200).json();
    let valid = json!({ "label": "x", "scopes": ["dashboard:read"] });
    let with = |field: &str, value: Value| {
        let mut body = valid.clone();
        body[field] = value;
        body.to_string().into_bytes()
    };
    let nested = [b"{\"label\":".to_vec(), vec![b'['; 100_000]].concat();
    for (body, why) in [
        (Vec::new(), "empty"),
        (b"{".to_vec(), "half an object"),
        (b"[]".to_vec(), "a list"),
        (b"null".to_vec(), "null"),
        (b"\"text\"".to_vec(), "text"),
        (b"{\"label\":\"\xff\",\"scopes\":[]}".to_vec(), "bad UTF-8"),
        (b"{\"label\":NaN}".to_vec(), "NaN"),
        (nested, "nesting"),
        (with("label", json!(7)), "number for text"),
        (with("label", json!(null)), "null for text"),
        (with("label", json!({})), "object for text"),
        (with("label", json!("a\u{0}b")), "NUL in text"),
        (with("label", json!("x".repeat(100_000))), "long text"),
        (with("scopes", json!("dashboard:read")), "text for list"),
        (with("scopes", json!([7])), "number in list"),
        (with("scopes", json!(["dashboard:eat"])), "unknown scope"),
        (with("scoped_teams", json!(["x"])), "text for id"),
        (with("scoped_teams", json!([1e30])), "id past 64 bits"),
        (with("scoped_teams", json!([u64::MAX])), "id past 63 bits"),
        (with("scoped_teams", json!([i64::MAX])), "no such id"),
        (with("scoped_organizations", json!(["\u{0}"])), "NUL for uuid"),
    ] {
        let call = server.call("POST", KEYS).header("Content-Type", "application/json");
        refused(&call.bytes(body).send(), why);
    }
    let call = server.call("POST", KEYS).header("Content-Type", "text/csv");
    refused(&call.bytes(valid.to_string().into_bytes()).send(), "csv");
    assert_eq!(server.get(KEYS).expect(200).json(), before);
}

fn oversized_headers_and_bodies_are_rejected(store: Store) {
    let server = store.start();
    let before = server.get(KEYS).expect(200).json();
    let large = json!({ "label": "x".repeat(10 << 20), "scopes": ["dashboard:read"] });
    let response = server.post(KEYS, large.clone()).expect(413);
    assert_eq!(response.error(), "invalid_request payload_too_large -");
    // Unauthorized callers get 401 before 413.
    server.call("POST", KEYS).no_key().json(large).send().expect(401);
    let chunked = "POST /api/personal_api_keys/ HTTP/1.1\r\nHost: x\r\n\
                   Connection: close\r\nAuthorization: Bearer phx_test\r\n\
                   Content-Type: application/json\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "[".repeat(1 << 20));
    let bytes = [chunked.to_owned(), chunk.repeat(3), "0\r\n\r\n".into()].concat();
    Response::parse(&raw(server.address(), bytes.as_bytes()), "chunked").expect(413);
    server.call("GET", KEYS).header("X-Large", &"x".repeat(70_000)).send().expect(431);
    let many =
        (0..200).fold(server.call("GET", KEYS), |call, n| call.header(&format!("X-{n}"), "x"));
    many.send().expect(431);
    assert_eq!(server.get(KEYS).expect(200).json(), before);
}

#[test]
fn slow_client_is_disconnected() {
    let bounds = [("HEDGEROW_HEADER_SECONDS_MAX", "1"), ("HEDGEROW_REQUEST_SECONDS_MAX", "1")];
    let server = Store::Sqlite.start_with(&bounds);
    let received = |sent: &[u8]| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(sent).unwrap();
        let mut received = Vec::new();
        let _ = stream.read_to_end(&mut received);
        received
    };
    assert!(received(b"").is_empty());
    assert!(received(b"GET /_livez HTTP/1.1\r\nHost").is_empty());
    let head = "POST /api/personal_api_keys/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                Authorization: Bearer phx_test\r\nContent-Length: 100\r\n\r\n{";
    let response = Response::parse(&received(head.as_bytes()), "slow body").expect(408);
    assert_eq!(response.error(), "invalid_request request_timeout -");
}

#[test]
fn connections_max_evicts_an_idle_connection() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_CONNECTIONS_MAX", "1")]);
    let probe = server.call("GET", "/_livez").header("Connection", "keep-alive").to_bytes();
    let connect = || {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&probe).unwrap();
        stream
    };
    let mut first = connect();
    assert!(first.read(&mut [0; 4096]).unwrap() > 0);
    let mut second = connect();
    assert!(second.read(&mut [0; 4096]).unwrap() > 0);
    assert_eq!(first.read(&mut [0; 4096]).unwrap_or(0), 0, "the first is closed");
}

#[test]
fn overloaded_server_responds_503_and_serves_probes() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_REQUESTS_AT_ONCE_MAX", "1")]);
    // Just used, so that `last_used_at` is not written again.
    server.get(KEYS).expect(200);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = format!("sqlite://{}", server.file("catalog.sqlite").display());
    let mut other = runtime.block_on(SqliteConnection::connect(&url)).unwrap();
    runtime.block_on(sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| server.key(&["dashboard:read"]));
        // Served until the waiting request has taken the only permit.
        let response = iter::repeat_with(|| server.get(KEYS)).find(|next| next.status != 200);
        let response = response.unwrap().expect(503);
        assert_eq!(response.error(), "server_error service_unavailable -");
        assert!(response.header("retry-after").is_some());
        for path in PROBES {
            server.get(path).expect(200);
        }
        runtime.block_on(sqlx::raw_sql("ROLLBACK").execute(&mut other)).unwrap();
        waiting.join().unwrap();
    });
    server.get(KEYS).expect(200);
    assert!(server.get("/metrics").text().contains("hedgerow_http_refused_total 1"));
}

const PROBES: [&str; 3] = ["/_livez", "/_readyz", "/metrics"];
