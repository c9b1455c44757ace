//! Capture v1 over HTTP: strict headers, and a result per event.

use serde_json::{Value, json};

use crate::capture::journal_records::{stored, told};
use crate::harness::{PROJECT_KEY, Request, Response, Server, Store};

const REQUEST_ID: &str = "0190f1f2-0000-7000-8000-0000000000ff";

fn call(server: &Server) -> Request {
    server
        .call("POST", "/i/v1/analytics/events")
        .key(PROJECT_KEY)
        .header("User-Agent", "posthog-test/1.2.3")
        .header("PostHog-Sdk-Info", "posthog-test/1.2.3")
        .header("PostHog-Request-Id", REQUEST_ID)
        .header("PostHog-Request-Timestamp", "2026-01-02T03:04:05Z")
}

fn send(server: &Server, events: Value) -> Response {
    call(server).header("PostHog-Attempt", "1").json(batch(events)).send()
}

fn batch(events: Value) -> Value {
    json!({ "created_at": "2026-01-02T03:04:05Z", "batch": events })
}

fn uuid(number: u8) -> String {
    format!("0190f1f2-0000-7000-8000-0000000000{number:02x}")
}

fn event(number: u8) -> Value {
    json!({
        "event": "e",
        "uuid": uuid(number),
        "distinct_id": "d",
        "timestamp": "2026-01-02T03:04:05.678+01:00",
        "session_id": "s1",
        "properties": { "n": number },
    })
}

fn with(number: u8, name: &str, value: Value) -> Value {
    let mut event = event(number);
    event[name] = value;
    event
}

// contract: ingestion 141, 150
#[test]
fn v1_returns_a_result_per_uuid_in_order() {
    let server = Store::Sqlite.start();
    let response = send(&server, json!([event(2), event(1)])).expect(200);
    let expected = format!(
        r#"{{"results":{{"{}":{{"result":"ok"}},"{}":{{"result":"ok"}}}}}}"#,
        uuid(2),
        uuid(1)
    );
    assert_eq!(response.text(), expected);
    assert_eq!(response.header("posthog-request-id"), Some(REQUEST_ID));
    assert_eq!(response.header("retry-after"), None);
    let alias = server.call("POST", "/i/v1/general/events/").key(PROJECT_KEY).send();
    assert_eq!(refused(&alias), "400 missing_required_headers -");

    let kept = stored(&server);
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0].lib, Some(("posthog-test".into(), "1.2.3".into())));
    assert_eq!(kept[0].session_id.as_deref(), Some("s1"));
}

// contract: ingestion 144-146
#[test]
fn invalid_v1_events_are_dropped_or_warned_about() {
    let server = Store::Sqlite.start();
    let response = send(
        &server,
        json!([
            event(1),
            with(2, "timestamp", json!("2026-01-02T03:04:05")),
            with(3, "distinct_id", json!("undefined")),
            with(4, "options", json!({ "process_person_profile": "false" })),
            with(5, "options", json!({ "process_person_profile": {} })),
            with(6, "event", json!("")),
        ]),
    );
    let results = response.expect(200).json()["results"].clone();
    for (number, expected) in [
        (1, json!({ "result": "ok" })),
        (2, json!({ "result": "drop", "details": "invalid_event_timestamp" })),
        (3, json!({ "result": "warning", "details": "person_processing_disabled" })),
        (4, json!({ "result": "ok" })),
        (5, json!({ "result": "drop", "details": "invalid_options" })),
        (6, json!({ "result": "drop", "details": "missing_event_name" })),
    ] {
        assert_eq!(results[uuid(number)], expected);
    }
    let kept = stored(&server);
    assert_eq!(kept.len(), 3);
    assert!(kept[1].person_processing_disabled);
    assert_eq!(kept[2].processes_person, Some(false));
}

/// `status error retry-after` of a v1 failure.
fn refused(response: &Response) -> String {
    let body = response.json();
    assert_eq!(body.as_object().unwrap().len(), 3, "{body}");
    assert!(!body["error_description"].as_str().unwrap().is_empty());
    assert!(!body["error_uri"].as_str().unwrap().is_empty());
    let again = response.header("retry-after").unwrap_or("-");
    format!("{} {} {again}", response.status, body["error"].as_str().unwrap())
}

// contract: ingestion 142, 143, 148, 149
#[test]
fn invalid_v1_requests_are_rejected() {
    let server = Store::Sqlite.start();
    let body = batch(json!([event(1)]));
    let first = || call(&server).header("PostHog-Attempt", "1");
    for (call, expected) in [
        (call(&server).json(body.clone()), "400 missing_required_headers -"),
        (
            call(&server).header("PostHog-Attempt", "0").json(body.clone()),
            "400 invalid_header_value -",
        ),
        (first().json(batch(json!([event(1), event(1)]))), "400 duplicate_event_uuid -"),
        (first().json(batch(json!([with(1, "uuid", Value::Null)]))), "400 missing_event_uuid -"),
        (first().json(batch(json!([with(1, "uuid", json!("x"))]))), "400 invalid_event_uuid -"),
        (first().json(batch(json!([]))), "400 empty_batch -"),
        (first().json(json!({ "batch": [event(1)] })), "400 invalid_batch -"),
        (first().json(json!({})), "400 request_parsing_error -"),
        (first().header("Content-Type", "application/json").bytes(vec![]), "400 empty_body -"),
        (
            first().header("Content-Encoding", "gzip").json(body.clone()),
            "400 request_decoding_error -",
        ),
        (
            first().header("Content-Type", "text/plain").bytes(body.to_string().into()),
            "415 unsupported_content_type -",
        ),
        (
            first().header("Content-Encoding", "compress").json(body.clone()),
            "415 unsupported_encoding -",
        ),
        (first().key("phc_wrong").json(body.clone()), "401 invalid_api_token -"),
        (
            first().header("Content-Type", "application/json").bytes(vec![b' '; (10 << 20) + 1]),
            "413 payload_too_large -",
        ),
    ] {
        assert_eq!(refused(&call.send()), expected);
    }
    assert_eq!(told(&server), [""; 0]);
}

// contract: ingestion 147
#[test]
fn v1_body_accepts_four_content_encodings() {
    use std::io::Write as _;

    let server = Store::Sqlite.start();
    let plain = batch(json!([event(1)])).to_string().into_bytes();
    let level = flate2::Compression::default();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
    gzip.write_all(&plain).unwrap();
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), level);
    deflate.write_all(&plain).unwrap();
    let mut brotli = Vec::new();
    brotli::BrotliCompress(&mut plain.as_slice(), &mut brotli, &Default::default()).unwrap();
    for (encoding, body) in [
        ("gzip", gzip.finish().unwrap()),
        ("deflate", deflate.finish().unwrap()),
        ("br", brotli),
        ("zstd", zstd::bulk::compress(&plain, 3).unwrap()),
    ] {
        let call = call(&server).header("PostHog-Attempt", "1");
        let call = call.header("Content-Type", "application/json");
        call.header("Content-Encoding", encoding).bytes(body).send().expect(200);
    }
    assert_eq!(told(&server), ["e d"; 4]);
}
