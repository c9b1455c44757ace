use capture::{V1Accepted, V1Rejection, V1Request};
use model::event::{AcceptedEvent, EventUuid, SentAt, V1Options};

use crate::{Harness, NOW};

const REQUEST_ID: &str = "eb4d1d81-63fe-4cda-85ab-6508530b73c5";
const A: &str = "31f5491a-7238-49ee-a496-dd36f4d64a8f";
const B: &str = "2f8259b4-d0c6-4774-9699-d676328ef45a";

fn request(body: &[u8]) -> V1Request<'_> {
    V1Request {
        authorization: Some("Bearer T"),
        content_type: Some("application/json; charset=utf-8"),
        content_encoding: None,
        user_agent: Some("posthog-python/7.79.0"),
        sdk_info: Some("posthog-python/7.79.0"),
        attempt: Some("1"),
        request_id: Some(REQUEST_ID),
        request_timestamp: Some("2026-11-15T00:22:10.812745+00:00"),
        body,
        client_ip: None,
        received_at: NOW,
    }
}

fn batch(events: &[String]) -> String {
    format!(r#"{{"created_at":"2026-11-15T00:22:10Z","batch":[{}]}}"#, events.join(","))
}

fn event(uuid: &str, members: &str) -> String {
    format!(
        r#"{{"uuid":"{uuid}","event":"e","distinct_id":"d","timestamp":"2026-11-15T00:22:10.8+02:00"{members}}}"#
    )
}

fn code(outcome: &Result<V1Accepted, V1Rejection>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(refused) => refused.code(),
    }
}

// contract: ingestion 141, 150
#[tokio::test]
async fn v1_request_returns_a_result_per_uuid_and_stores_v1_fields() {
    let harness = Harness::open().await;
    let options = r#","options":{"cookieless_mode":"FALSE","disable_skew_correction":1,"process_person_profile":null,"product_tour_id":7,"new":{}}"#;
    let extras = format!(r#"{options},"session_id":"s","window_id":"w","$set":{{"p":1}}"#);
    let body = batch(&[event(A, &extras), event(B, r#","options":null,"properties":{"a":1}"#)]);
    let accepted = harness.capture.v1(request(body.as_bytes())).await.unwrap();
    assert_eq!(accepted.request_id.to_string(), REQUEST_ID);
    let answered: Vec<_> = accepted
        .results
        .iter()
        .map(|(uuid, result)| (uuid.to_string(), result.as_str(), result.details()))
        .collect();
    assert_eq!(answered, [(A.to_owned(), "ok", None), (B.to_owned(), "ok", None)]);

    let records = harness.records().await;
    let [first, second] = &records[..] else { panic!("{records:?}") };
    let first = AcceptedEvent::decode(first).unwrap();
    let v1 = first.v1.clone().unwrap();
    assert_eq!(first.uuid, EventUuid::Given(A.parse().unwrap()));
    assert_eq!(first.sent_at, Some(SentAt::Text("2026-11-15T00:22:10.812745+00:00".into())));
    assert_eq!(first.set, Some(r#"{"p":1}"#));
    assert_eq!((v1.lib_name, v1.lib_version), ("posthog-python", "7.79.0"));
    assert_eq!((v1.session_id, v1.window_id), (Some("s"), Some("w")));
    let options = V1Options {
        cookieless_mode: Some(false),
        disable_skew_correction: Some(true),
        process_person_profile: None,
        product_tour_id: Some("7"),
    };
    assert_eq!(v1.options, options);
    let second = AcceptedEvent::decode(second).unwrap();
    assert_eq!(second.properties, r#"{"a":1}"#);
    assert_eq!(second.v1.unwrap().options, V1Options::default());
}

// contract: ingestion 142-143, 147-149
#[tokio::test]
async fn invalid_v1_requests_are_rejected() {
    let harness = Harness::open().await;
    let good = batch(&[event(A, "")]);
    let good = request(good.as_bytes());
    let twice = batch(&[event(A, ""), event(A, "")]);
    let nameless = batch(&[r#"{"event":"e","distinct_id":"d"}"#.to_owned()]);
    let odd = batch(&[event("nope", "")]);
    let half = &good.body[..good.body.len() - 2];
    for (request, expected) in [
        (V1Request { attempt: None, ..good }, "missing_required_headers"),
        (V1Request { authorization: None, ..good }, "missing_required_headers"),
        (V1Request { user_agent: Some(" "), ..good }, "missing_required_headers"),
        (V1Request { attempt: Some("0"), ..good }, "invalid_header_value"),
        (V1Request { request_id: Some("x"), ..good }, "invalid_header_value"),
        (V1Request { sdk_info: Some("posthog"), ..good }, "invalid_header_value"),
        (V1Request { request_timestamp: Some("2026-11-15"), ..good }, "invalid_header_value"),
        (V1Request { content_type: Some("text/plain"), ..good }, "unsupported_content_type"),
        (V1Request { content_encoding: Some("compress"), ..good }, "unsupported_encoding"),
        (V1Request { authorization: Some("Bearer nobody"), ..good }, "invalid_api_token"),
        (V1Request { authorization: Some("Basic T"), ..good }, "invalid_api_token"),
        (V1Request { authorization: Some("Bearer away"), ..good }, "service_unavailable"),
        (V1Request { body: b"", ..good }, "empty_body"),
        (V1Request { content_encoding: Some("gzip"), ..good }, "request_decoding_error"),
        (V1Request { body: half, ..good }, "request_parsing_error"),
        (V1Request { body: b"[]", ..good }, "request_parsing_error"),
        (
            V1Request { body: br#"{"created_at":"2026-11-15T00:22:10Z","batch":[5]}"#, ..good },
            "request_parsing_error",
        ),
        (
            V1Request { body: br#"{"created_at":"2026-11-15T00:22:10Z","batch":[]}"#, ..good },
            "empty_batch",
        ),
        (V1Request { body: br#"{"batch":[{}]}"#, ..good }, "invalid_batch"),
        (
            V1Request { body: br#"{"created_at":"2026-11-15","batch":[{}]}"#, ..good },
            "invalid_batch",
        ),
        (V1Request { body: nameless.as_bytes(), ..good }, "missing_event_uuid"),
        (V1Request { body: odd.as_bytes(), ..good }, "invalid_event_uuid"),
        (V1Request { body: twice.as_bytes(), ..good }, "duplicate_event_uuid"),
        (V1Request { body: &vec![b' '; 10 * 1_024 * 1_024 + 1], ..good }, "payload_too_large"),
        (good, "ok"),
    ] {
        assert_eq!(code(&harness.capture.v1(request).await), expected);
    }
    assert_eq!(harness.stored().await.len(), 1);
}

// contract: ingestion 144-146
#[tokio::test]
async fn invalid_v1_events_are_dropped_or_warned_about() {
    let full = |members: &str| format!(r#"{{"uuid":"{A}",{members}}}"#);
    let rest = r#""distinct_id":"d","timestamp":"2026-11-15T00:22:10Z""#;
    let long = "é".repeat(101);
    for (event, word, details) in [
        (full(&format!(r#""event":"",{rest}"#)), "drop", "missing_event_name"),
        (full(&format!(r#""event":"{long}",{rest}"#)), "drop", "event_name_too_long"),
        (
            full(&format!(r#""event":"$performance_event",{rest}"#)),
            "drop",
            "dropped_performance_event",
        ),
        (event(A, r#","distinct_id":" ""#), "drop", "missing_distinct_id"),
        (event(A, &format!(r#","distinct_id":"{long}""#)), "drop", "distinct_id_too_large"),
        (event(A, r#","timestamp":"2026-11-15T00:22:10""#), "drop", "invalid_event_timestamp"),
        (event(A, r#","timestamp":"2026-02-30T00:22:10Z""#), "drop", "invalid_event_timestamp"),
        (event(A, r#","timestamp":1794701833"#), "drop", "invalid_event_timestamp"),
        (event(A, r#","properties":[]"#), "drop", "malformed_event_properties"),
        (event(A, r#","options":{"process_person_profile":{}}"#), "drop", "invalid_options"),
        (event(A, r#","options":{"product_tour_id":1.5}"#), "drop", "invalid_options"),
        (event(A, r#","options":[]"#), "drop", "invalid_options"),
        (event(A, &format!(r#","x":"{}""#, "x".repeat(1_000_000))), "drop", "event_too_big"),
        (event(A, r#","distinct_id":" Undefined ""#), "warning", "person_processing_disabled"),
    ] {
        let harness = Harness::open().await;
        let body = batch(&[event, self::event(B, "")]);
        let accepted = harness.capture.v1(request(body.as_bytes())).await.unwrap();
        let results: Vec<_> =
            accepted.results.iter().map(|(_, it)| (it.as_str(), it.details())).collect();
        assert_eq!(results, [(word, Some(details)), ("ok", None)]);
        assert_eq!(harness.stored().await.len(), if word == "drop" { 1 } else { 2 });
    }
}

#[tokio::test]
async fn illegal_distinct_id_is_trimmed_and_disables_person_processing() {
    let harness = Harness::open().await;
    let body = batch(&[event(
        A,
        r#","distinct_id":" NULL ","options":{"process_person_profile":"false"}"#,
    )]);
    harness.capture.v1(request(body.as_bytes())).await.unwrap();
    let records = harness.records().await;
    let stored = AcceptedEvent::decode(&records[0]).unwrap();
    let v1 = stored.v1.clone().unwrap();
    assert_eq!(stored.distinct_id, "NULL");
    assert!(v1.person_processing_disabled);
    assert_eq!(v1.options.process_person_profile, Some(false));
}
