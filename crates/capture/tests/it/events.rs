use capture::{Endpoint, Request};
use model::event::{AcceptedEvent, EventUuid, RawTime, SentAt};

use crate::{Harness, NOW, code, request};

// contract: ingestion 49, 51-58, 60-61
#[tokio::test]
async fn distinct_ids_and_event_names_are_normalized() {
    let e = "é".repeat(250);
    let euro = "€".repeat(150);
    let name = "n".repeat(300);
    for (members, name, distinct_id, warnings) in [
        (r#""event":"e","distinct_id":23"#.to_owned(), "e", "23", &[][..]),
        (r#""event":"e","distinct_id":23.4"#.to_owned(), "e", "23.4", &[]),
        (r#""event":"e","distinct_id":true"#.to_owned(), "e", "true", &[]),
        (r#""event":"e","distinct_id":["a","b"]"#.to_owned(), "e", r#"["a","b"]"#, &[]),
        (r#""event":"e","distinct_id":{"b":1,"a":2}"#.to_owned(), "e", r#"{"a":2,"b":1}"#, &[]),
        (
            r#""event":"e","distinct_id":" x ","properties":{"distinct_id":"y"}"#.to_owned(),
            "e",
            " x ",
            &[],
        ),
        (r#""event":"e","distinct_id":"a\u0000b""#.to_owned(), "e", "a\u{fffd}b", &[]),
        (format!(r#""event":"e","distinct_id":"{e}""#), "e", &e[..400], &["distinct_id_truncated"]),
        (format!(r#""event":"e","distinct_id":"{euro}""#), "e", &euro, &[]),
        (format!(r#""event":"{name}","distinct_id":"d""#), &name[..200], "d", &[]),
        (r#""event":5,"distinct_id":"d""#.to_owned(), "5", "d", &[]),
    ] {
        let mut harness = Harness::open().await;
        let body = format!(r#"{{"api_key":"T",{members}}}"#);
        assert_eq!(code(&harness.post(&body).await), "ok", "{body}");
        let expected = (1, name.to_owned(), distinct_id.to_owned());
        assert_eq!(harness.stored().await, [expected], "{body}");
        assert_eq!(harness.warned(), warnings, "{body}");
    }
}

// contract: ingestion 3, 57-58
#[tokio::test]
async fn journal_record_holds_every_field_of_the_event() {
    let harness = Harness::open().await;
    let body = r#"{"batch":[
        {"event":"a","distinct_id":"d","uuid":"0190F1F2-0000-7000-8000-00000000000A",
         "timestamp":"2026-01-02","$set":{"a":1},"$unset":["b"],
         "properties":{"n":1e400,"s":"\ud800\u0000"}},
        {"event":"b","distinct_id":"d","uuid":"","offset":1500,"$set_once":{"c":2}},
        {"event":"c","distinct_id":"d","timestamp":5}],
        "historical_migration":true,"sent_at":"2026-01-03","api_key":"T"}"#;
    assert_eq!(code(&harness.post(body).await), "ok");
    let records = harness.records().await;
    let events: Vec<_> = records.iter().map(|it| AcceptedEvent::decode(it).unwrap()).collect();
    let [a, b, c] = &events[..] else { panic!("{events:?}") };
    let uuid = "0190f1f2-0000-7000-8000-00000000000a".parse().unwrap();
    assert_eq!(a.uuid, EventUuid::Given(uuid));
    assert_eq!(a.timestamp, Some(RawTime::Text("2026-01-02".into())));
    assert_eq!(a.properties, r#"{"n":1e400,"s":"\ufffd\ufffd"}"#);
    assert_eq!((a.set, a.set_once, a.unset), (Some(r#"{"a":1}"#), None, Some(r#"["b"]"#)));
    assert_eq!((b.offset_ms, b.set_once), (Some(1500), Some(r#"{"c":2}"#)));
    assert_eq!((b.properties, &b.timestamp), ("{}", &None));
    assert_eq!(c.timestamp, Some(RawTime::Number("5")));
    let (EventUuid::Seed(first), EventUuid::Seed(second)) = (b.uuid, c.uuid) else { panic!() };
    assert_ne!(first, second);
    for event in &events {
        assert!(event.historical_migration);
        assert_eq!(event.sent_at, Some(SentAt::Text("2026-01-03".into())));
        assert_eq!(event.received_at, NOW);
        assert_eq!(event.client_ip, Some([203, 0, 113, 9].into()));
        assert_eq!(event.v1, None);
    }
}

// contract: ingestion 49
#[tokio::test]
async fn engage_defaults_to_identify_events() {
    let harness = Harness::open().await;
    for body in [
        r#"{"token":"T","$distinct_id":"d","$set":{"plan":"pro"}}"#,
        r#"[{"$token":"T","$distinct_id":"d","event":null}]"#,
        r#"{"token":"T","event":"e","distinct_id":"d"}"#,
    ] {
        let endpoint = Endpoint::Engage;
        let outcome =
            harness.capture.events(Request { endpoint, ..request(body.as_bytes()) }).await;
        assert_eq!(code(&outcome), "ok", "{body}");
    }
    let names: Vec<String> = harness.stored().await.into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, ["$identify", "$identify", "e"]);
}
