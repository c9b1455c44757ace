use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capture::{Request, V1Request};
use serde::Deserialize;

use crate::{Harness, NOW, code, request};

fn fixture<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    let lines = std::fs::read_to_string(path).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[derive(Deserialize)]
struct Recording {
    path: String,
    headers: Vec<(String, String)>,
    body_b64: String,
}

#[derive(Deserialize)]
struct Expected {
    file: String,
    line: usize,
    events: Vec<(String, String, Option<String>)>,
}

// contract: ingestion 151
#[tokio::test]
async fn every_recorded_capture_request_is_stored_in_order() {
    let harness = Harness::open().await;
    let mut expected_events = Vec::new();
    for expected in fixture::<Expected>("capture/sdk_wire_events.jsonl") {
        let recordings: Vec<Recording> = fixture(&format!("sdk_wire/{}", expected.file));
        let recording = &recordings[expected.line - 1];
        let header = |name: &str| {
            let found = recording.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.as_str())
        };
        let body = STANDARD.decode(&recording.body_b64).unwrap();
        let (path, query) = recording.path.split_once('?').unwrap_or((&recording.path, ""));
        let what = format!("{} line {}", expected.file, expected.line);
        if path.starts_with("/i/v1/") {
            let accepted = harness.capture.v1(V1Request {
                authorization: header("authorization"),
                content_type: header("content-type"),
                content_encoding: header("content-encoding"),
                user_agent: header("user-agent"),
                sdk_info: header("posthog-sdk-info"),
                attempt: header("posthog-attempt"),
                request_id: header("posthog-request-id"),
                request_timestamp: header("posthog-request-timestamp"),
                body: &body,
                client_ip: None,
                received_at: NOW,
            });
            let accepted = accepted.await.unwrap_or_else(|refused| panic!("{what}: {refused}"));
            assert!(accepted.results.iter().all(|(_, result)| result.as_str() == "ok"), "{what}");
        } else {
            let outcome = harness.capture.events(Request {
                query,
                content_type: header("content-type"),
                content_encoding: header("content-encoding"),
                ..request(&body)
            });
            assert_eq!(code(&outcome.await), "ok", "{what}");
        }
        let events = expected.events.into_iter().map(|(name, id, _)| (1, name, id));
        expected_events.extend(events);
    }
    assert_eq!(expected_events.len(), 121);
    assert_eq!(harness.stored().await, expected_events);
}
