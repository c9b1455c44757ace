use capture::{Accepted, Endpoint, Request};

use crate::{Harness, code, request};

// contract: ingestion 4-13, 14-15, 25
#[tokio::test]
async fn invalid_requests_are_rejected_and_nothing_is_stored() {
    let harness = Harness::open().await;
    let long = format!(r#"{{"api_key":"{}","event":"e","distinct_id":"d"}}"#, "T".repeat(65));
    for (body, expected) in [
        (r#"{"api_key":"T","batch":[]}"#, "invalid_payload"),
        ("[]", "invalid_payload"),
        ("", "invalid_payload"),
        (r#""x""#, "invalid_payload"),
        ("5", "invalid_payload"),
        (r#"{"event":"#, "invalid_payload"),
        (r#"{"api_key":"T","batch":[{"event":"e","distinct_id":"d"},{]}"#, "invalid_payload"),
        (r#"{"api_key":"T","batch":5}"#, "invalid_payload"),
        (r#"{"api_key":"nobody","event":"e","distinct_id":"d"}"#, "invalid_api_key"),
        (r#"{"event":"e","distinct_id":"d"}"#, "invalid_api_key"),
        (r#"{"api_key":"","event":"e","distinct_id":"d"}"#, "invalid_api_key"),
        (&long, "invalid_api_key"),
        (r#"{"api_key":"Té","event":"e","distinct_id":"d"}"#, "invalid_api_key"),
        (r#"{"api_key":"T\u0000","event":"e","distinct_id":"d"}"#, "invalid_api_key"),
        (
            r#"[{"token":"T","event":"e","distinct_id":"d"},{"token":"U","event":"e","distinct_id":"d"}]"#,
            "invalid_api_key",
        ),
        (r#"{"batch":[{"token":"T"},{"properties":{"token":"U"}}]}"#, "invalid_api_key"),
        (
            r#"{"api_key":"phx_bad","project_id":1,"event":"e","distinct_id":"d"}"#,
            "invalid_personal_api_key",
        ),
        (r#"{"api_key":"phx_bad","event":"e","distinct_id":"d"}"#, "invalid_personal_api_key"),
        (
            r#"{"api_key":"phx_good","project_id":"abc","event":"e","distinct_id":"d"}"#,
            "invalid_project",
        ),
        (
            r#"{"api_key":"phx_good","project_id":1.5,"event":"e","distinct_id":"d"}"#,
            "invalid_project",
        ),
        (r#"{"api_key":"phx_good","event":"e","distinct_id":"d"}"#, "invalid_project"),
        (
            r#"{"api_key":"phx_good","project_id":2,"event":"e","distinct_id":"d"}"#,
            "invalid_project",
        ),
        (r#"{"api_key":"away","event":"e","distinct_id":"d"}"#, "fetch_team_fail"),
    ] {
        assert_eq!(code(&harness.post(body).await), expected, "{body}");
    }
    assert_eq!(harness.stored().await, []);
    assert_eq!(harness.capture.counters().accepted, 0);
    assert_eq!(harness.capture.budget().bytes(), 0);
}

// contract: ingestion 12, 16-19
#[tokio::test]
async fn token_is_found_in_body_batch_event_and_query() {
    for (body, query, expected) in [
        (r#"{"api_key":"  T\n","event":"e","distinct_id":"d"}"#, "", vec![1]),
        (
            r#"[{"api_key":"T","event":"e","distinct_id":"d"},{"event":"e","distinct_id":"d"}]"#,
            "",
            vec![1, 1],
        ),
        (
            r#"[{"event":"e","distinct_id":"d"},{"token":" T ","event":"e","distinct_id":"d"},{"$token":"T"}]"#,
            "",
            vec![1, 1],
        ),
        (r#"{"event":"e","distinct_id":"d","properties":{"token":"T"}}"#, "", vec![1]),
        (r#"{"batch":[{"token":"U","event":"e","distinct_id":"d"}],"api_key":"T"}"#, "", vec![1]),
        (r#"{"$token":"U","event":"e","distinct_id":"d"}"#, "", vec![2]),
        (r#"{"event":"e","distinct_id":"d"}"#, "token=U", vec![2]),
        (r#"{"token":"T","event":"e","distinct_id":"d"}"#, "api_key=U", vec![1]),
        (r#"{"api_key":"phx_good","project_id":1,"event":"e","distinct_id":"d"}"#, "", vec![1]),
        (r#"[{"api_key":"phx_good","project_id":1,"event":"e","distinct_id":"d"}]"#, "", vec![1]),
    ] {
        let harness = Harness::open().await;
        let outcome = harness.capture.events(Request { query, ..request(body.as_bytes()) }).await;
        assert_eq!(code(&outcome), "ok", "{body}");
        let projects: Vec<i64> =
            harness.stored().await.iter().map(|(project, ..)| *project).collect();
        assert_eq!(projects, expected, "{body}");
    }
}

// contract: ingestion 20-23, 59
#[tokio::test]
async fn invalid_events_are_dropped_with_a_warning_and_the_rest_stored() {
    let large = format!(r#"{{"event":"big","distinct_id":"d","x":"{}"}}"#, "x".repeat(1_000_000));
    let ai =
        format!(r#"{{"event":"$ai_trace","distinct_id":"d","x":"{}"}}"#, "x".repeat(1_000_000));
    for (event, warning) in [
        (r#"{"distinct_id":"d"}"#, "missing_event_name"),
        (r#"{"event":"","distinct_id":"d"}"#, "missing_event_name"),
        (r#"{"event":null,"distinct_id":"d"}"#, "missing_event_name"),
        (r#"{"event":"e"}"#, "skipping_event_invalid_distinct_id"),
        (r#"{"event":"e","distinct_id":null}"#, "skipping_event_invalid_distinct_id"),
        (r#"{"event":"e","distinct_id":""}"#, "skipping_event_invalid_distinct_id"),
        (r#"{"event":"e","distinct_id":"   "}"#, "skipping_event_invalid_distinct_id"),
        (r#"{"event":"e","distinct_id":"d","uuid":"nope"}"#, "skipping_event_invalid_uuid"),
        (r#"{"event":"e","distinct_id":"d","properties":"x"}"#, "invalid_event_properties"),
        ("[1]", "invalid_event"),
        (&large, "message_size_too_large"),
    ] {
        let mut harness = Harness::open().await;
        let good = r#"{"event":"good","distinct_id":"d"}"#;
        let body = format!(r#"{{"api_key":"T","batch":[{good},{event},{good}]}}"#);
        assert_eq!(code(&harness.post(&body).await), "ok", "{warning}");
        let good = (1, "good".to_owned(), "d".to_owned());
        assert_eq!(harness.stored().await, [good.clone(), good], "{warning}");
        assert_eq!(harness.warned(), [warning]);
        let counters = harness.capture.counters();
        assert_eq!((counters.accepted, counters.warnings_lost), (2, 0));
        assert_eq!(counters.dropped.iter().map(|(_, count)| count).sum::<u64>(), 1);
    }
    let harness = Harness::open().await;
    let body = format!(r#"{{"api_key":"T","batch":[{ai}]}}"#);
    assert_eq!(code(&harness.post(&body).await), "ok");
    assert_eq!(harness.stored().await.len(), 1);
}

#[tokio::test]
async fn batch_of_only_invalid_events_is_accepted() {
    let mut harness = Harness::open().await;
    assert_eq!(code(&harness.post(r#"{"api_key":"T","batch":[1,2,3,4,5,6]}"#).await), "ok");
    assert_eq!(harness.stored().await, []);
    assert_eq!(harness.warned(), ["invalid_event"], "once an hour");
    let counters = harness.capture.counters();
    let dropped = counters.dropped.iter().find(|(_, count)| *count > 0).unwrap();
    assert_eq!((dropped.0.as_str(), dropped.1), ("not_an_object", 6));
}

// contract: ingestion 26, 29
#[tokio::test]
async fn session_recordings_are_quota_limited_and_beacons_recognized() {
    let harness = Harness::open().await;
    let good = br#"[{"token":"T","event":"$snapshot","distinct_id":"d"}]"#;
    let send = |body: &'static [u8], endpoint, query| {
        harness.capture.events(Request { endpoint, query, ..request(body) })
    };
    let outcome = send(good, Endpoint::Recordings, "beacon=1").await.unwrap();
    assert_eq!(outcome, Accepted { quota_limited: &["recordings"], beacon: true });
    for (body, expected) in [
        (&b"[{]"[..], "invalid_payload"),
        (br#"{"api_key":"T","batch":[{"a":tru}]}"#, "invalid_payload"),
        (br#"{"api_key":"nobody","batch":[{}]}"#, "invalid_api_key"),
    ] {
        assert_eq!(code(&send(body, Endpoint::Recordings, "").await), expected);
    }
    assert_eq!(harness.stored().await, []);

    let outcome = send(good, Endpoint::Events, "ip=1&beacon=1").await.unwrap();
    assert_eq!(outcome, Accepted { quota_limited: &[], beacon: true });
    assert_eq!(harness.stored().await.len(), 1);
}
