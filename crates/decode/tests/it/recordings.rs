//! Recorded requests of official SDKs. An independent decoder produced the expected events from
//! the same recordings.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use decode::{
    DefaultEventName, Parts, Payload, Strictness, V1Element, V1Encoding, decode_text,
    decode_v1_text, parse_events, parse_v1,
};
use model::event::{RawEvent, RawUuid, SentAt};
use serde::Deserialize;
use serde_json::Value;

use crate::{BYTES_MAX, elements, text};

fn fixture<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    let lines = std::fs::read_to_string(path).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    path: String,
    headers: std::collections::HashMap<String, String>,
    body_b64: String,
    expect: String,
}

/// The same event in every encoding, and four bodies that must fail.
// contract: ingestion 33-43, 46-49
#[test]
fn every_encoding_decodes_to_the_same_event() {
    let vectors: Vec<Vector> = fixture("capture/encodings.jsonl");
    assert_eq!(vectors.len(), 26);
    for vector in vectors {
        let body = STANDARD.decode(&vector.body_b64).unwrap();
        let (path, query) = vector.path.split_once('?').unwrap_or((&vector.path, ""));
        let decoded = text(&Parts {
            query,
            content_type: vector.headers.get("content-type").map(String::as_str),
            content_encoding: vector.headers.get("content-encoding").map(String::as_str),
            body: &body,
        });
        if vector.expect == "400" {
            let outcome = decoded.and_then(|text| elements(&text));
            assert!(outcome.is_err(), "{}", vector.name);
            continue;
        }
        let decoded = decoded.unwrap_or_else(|error| panic!("{}: {error}", vector.name));
        let unnamed = match path {
            "/engage/" => DefaultEventName::Identify,
            _ => DefaultEventName::None,
        };
        let payload = parse_events(&decoded, unnamed).unwrap();
        let events = events(&payload);
        let [event] = &events[..] else { panic!("{}: {events:?}", vector.name) };
        assert_eq!(event.distinct_id.as_deref(), Some("user_1"), "{}", vector.name);
        let token = payload.token.as_deref().or(event.token.as_deref());
        assert_eq!(token, Some("phc_demo"), "{}", vector.name);
        if path == "/engage/" {
            assert_eq!(event.name.as_deref(), Some("$identify"));
            assert_eq!(event.set, Some(r#"{"plan": "pro"}"#));
            continue;
        }
        assert_eq!(event.name.as_deref(), Some("enc"), "{}", vector.name);
        let uuid = "0190f1f2-0000-7000-8000-00000000000a".parse().unwrap();
        assert_eq!(event.uuid, RawUuid::Given(uuid), "{}", vector.name);
        let model::event::RawProperties::Object(properties) = event.properties else {
            panic!("{}: no properties", vector.name)
        };
        let properties: Value = serde_json::from_str(properties).unwrap();
        assert_eq!(properties, serde_json::json!({"name": "Zoë ✓", "n": 1}), "{}", vector.name);
    }
}

fn events<'t>(payload: &Payload<'t>) -> Vec<RawEvent<'t>> {
    payload
        .elements()
        .map(|element| match element.unwrap() {
            decode::Element::Event(event) => event,
            decode::Element::NotAnObject => panic!("not an object"),
        })
        .collect()
}

#[derive(Deserialize)]
struct Recording {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body_b64: String,
}

impl Recording {
    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn parts<'a>(&'a self, body: &'a [u8]) -> Parts<'a> {
        Parts {
            query: self.path.split_once('?').map_or("", |(_, query)| query),
            content_type: self.header("content-type"),
            content_encoding: self.header("content-encoding"),
            body,
        }
    }
}

#[derive(Deserialize)]
struct Expected {
    file: String,
    line: usize,
    token: String,
    historical: bool,
    sent_at: Option<String>,
    events: Vec<(String, String, Option<String>)>,
}

fn uuid_text(uuid: RawUuid) -> Option<String> {
    match uuid {
        RawUuid::Given(uuid) => Some(uuid.to_string()),
        RawUuid::Absent => None,
        RawUuid::Invalid => panic!("invalid uuid"),
    }
}

fn names(event: &RawEvent<'_>) -> (String, String, Option<String>) {
    let text = |text: &Option<std::borrow::Cow<'_, str>>| text.as_deref().unwrap().to_owned();
    (text(&event.name), text(&event.distinct_id), uuid_text(event.uuid))
}

// contract: ingestion 151
#[test]
fn recorded_capture_bodies_decode_to_their_events() {
    let expectations: Vec<Expected> = fixture("capture/sdk_wire_events.jsonl");
    assert_eq!(expectations.len(), 100);
    for expected in expectations {
        let recordings: Vec<Recording> = fixture(&format!("sdk_wire/{}", expected.file));
        let recording = &recordings[expected.line - 1];
        let what = format!("{} line {}", expected.file, expected.line);
        let body = STANDARD.decode(&recording.body_b64).unwrap();
        if recording.path.starts_with("/i/v1/") {
            let encoding = V1Encoding::of(recording.header("content-encoding")).unwrap();
            let text = decode_v1_text(&body, encoding, BYTES_MAX).unwrap();
            let batch = parse_v1(&text).unwrap();
            assert!(batch.created_at.is_some(), "{what}");
            assert_eq!(batch.historical_migration, expected.historical, "{what}");
            let found: Vec<_> = batch
                .events()
                .map(|element| match element.unwrap() {
                    V1Element::Event(event) if event.has_strict_timestamp() => names(&event.raw),
                    other => panic!("{what}: {other:?}"),
                })
                .collect();
            assert_eq!(found, expected.events, "{what}");
            continue;
        }
        let text = text(&recording.parts(&body)).unwrap();
        let payload = parse_events(&text, DefaultEventName::None).unwrap();
        let events = events(&payload);
        assert_eq!(events.iter().map(names).collect::<Vec<_>>(), expected.events, "{what}");
        assert_eq!(payload.historical_migration, expected.historical, "{what}");
        match (&payload.sent_at, &expected.sent_at) {
            (Some(SentAt::Text(found)), Some(sent_at)) => assert_eq!(found, sent_at, "{what}"),
            (Some(SentAt::Millis(millis)), None) => {
                assert!(recording.path.contains(&format!("_={millis}")), "{what}");
            }
            (found, expected) => assert_eq!((found, expected), (&None, &None), "{what}"),
        }
        for event in &events {
            let token = payload.token.as_deref().or(event.token.as_deref());
            assert_eq!(token, Some(expected.token.as_str()), "{what}");
        }
    }
}

// contract: ingestion 152
#[test]
fn recorded_flag_requests_decode() {
    let mut seen = 0;
    for file in [
        "posthog_js_1_445_5.jsonl",
        "posthog_js_1_445_5_minimal_config.jsonl",
        "posthog_js_older.jsonl",
        "posthog_node_5_67_0.jsonl",
        "posthog_python_7_79_0.jsonl",
    ] {
        for recording in fixture::<Recording>(&format!("sdk_wire/{file}")) {
            let flags =
                ["/flags/?", "/decide/?"].iter().any(|path| recording.path.starts_with(path));
            if recording.method != "POST" || !flags {
                continue;
            }
            let body = STANDARD.decode(&recording.body_b64).unwrap();
            let parts = recording.parts(&body);
            let text = decode_text(&parts, Strictness::Lenient, BYTES_MAX).unwrap();
            let request: Value = serde_json::from_str(text.as_str()).unwrap();
            let token = request.get("token").or(request.get("api_key")).unwrap();
            assert_eq!(token, "phc_demo");
            assert!(request["distinct_id"].is_string());
            seen += 1;
        }
    }
    assert_eq!(seen, 37);
}
