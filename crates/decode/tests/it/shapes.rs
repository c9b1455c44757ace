use decode::{
    DefaultEventName, Element, Error, Parts, ProjectField, Strictness, decode_text, parse_events,
};
use model::event::{RawProperties, RawTime, RawUuid, SentAt};

use crate::{BYTES_MAX, elements, plain, text};

fn count(body: &str) -> Result<usize, Error> {
    elements(&text(&plain(body))?).map(|elements| elements.len())
}

// contract: ingestion 4-8, 47
#[test]
fn body_shapes_are_accepted_or_rejected() {
    let json = || Err(Error::Json);
    for (body, expected) in [
        (r#"{"event":"a"}"#, Ok(1)),
        (r#"[{"event":"a"},{"event":"b"}]"#, Ok(2)),
        (r#" { "batch" : [ {"event":"a"} , 5 , "x" , null , [ {} ] ] } "#, Ok(5)),
        (r#"{"batch":[{}],"event":"ignored"}"#, Ok(1)),
        (r#"{}"#, Ok(1)),
        (r#"{"foo":{"bar":[1,2,3]}}"#, Ok(1)),
        ("\u{feff}[{}]", Ok(1)),
        ("[]", Err(Error::EmptyBatch)),
        ("[ \n ]", Err(Error::EmptyBatch)),
        (r#"{"api_key":"t","batch":[]}"#, Err(Error::EmptyBatch)),
        (r#"{"batch":{}}"#, Err(Error::Shape)),
        (r#"{"batch":null}"#, Err(Error::Shape)),
        (r#"{"batch":"x"}"#, Err(Error::Shape)),
        (r#""x""#, Err(Error::Shape)),
        ("5", Err(Error::Shape)),
        ("", Err(Error::Empty)),
        (r#"{"event":"#, json()),
        (r#"{"event":NaN}"#, json()),
        (r#"{"event":"a","properties":{"a":Infinity}}"#, json()),
        (r#"{"a":01,"batch":[{}]}"#, json()),
        (r#"{"batch":[{}],"a":tru}"#, json()),
        (r#"{"batch":[{}],"a":{"b":1,}}"#, json()),
        ("[{},]", json()),
        ("[{} {}]", json()),
        ("[{}, x]", json()),
        ("[,{}]", json()),
        ("[{]]", json()),
        ("[{}}", json()),
        ("{\"a\":\"\n\"}", json()),
    ] {
        assert_eq!(count(body), expected, "{body}");
    }
    assert_eq!(
        text(&Parts { body: b"{\"a\":\"\xff\"}", ..Parts::default() }).err(),
        Some(Error::Utf8)
    );
}

#[test]
fn batch_fields_may_precede_or_follow_the_batch() {
    for body in [
        r#"{"api_key":"t","historical_migration":true,"sent_at":"s","project_id":7,"batch":[{}]}"#,
        r#"{"batch":[{"api_key":"other"}],"project_id":7,"sent_at":"s","historical_migration":true,"api_key":"t"}"#,
        r#"{"event":"e","project_id":7,"sent_at":"s","historical_migration":true,"$token":"t"}"#,
        r#"{"api_key":"  ","token":"t","project_id":7,"sent_at":"s","historical_migration":true,"batch":[1]}"#,
    ] {
        let text = text(&plain(body)).unwrap();
        let payload = parse_events(&text, DefaultEventName::None).unwrap();
        assert_eq!(payload.token.as_deref(), Some("t"), "{body}");
        assert!(payload.historical_migration, "{body}");
        assert_eq!(payload.sent_at, Some(SentAt::Text("s".into())), "{body}");
        assert_eq!(payload.project_id, ProjectField::Given(7), "{body}");
    }
}

#[test]
fn historical_migration_accepts_only_true() {
    for (value, expected) in [("true", true), ("false", false), ("\"true\"", false), ("1", false)] {
        let body = format!(r#"{{"batch":[{{}}],"historical_migration":{value}}}"#);
        let text = text(&plain(&body)).unwrap();
        let payload = parse_events(&text, DefaultEventName::None).unwrap();
        assert_eq!(payload.historical_migration, expected, "{value}");
    }
}

#[test]
fn sent_at_in_the_query_must_be_milliseconds() {
    for (query, expected) in [
        ("_=1767323046000", Some(1_767_323_046_000)),
        ("sent_at=1767323046000&_=1", Some(1_767_323_046_000)),
        ("_=1767323046", None),
        ("_=abc", None),
        ("_=-1", None),
    ] {
        let text = text(&Parts { query, ..plain("{}") }).unwrap();
        let payload = parse_events(&text, DefaultEventName::None).unwrap();
        assert_eq!(payload.sent_at, expected.map(SentAt::Millis), "{query}");
    }
}

// contract: ingestion 16, 17, 19
#[test]
fn tokens_are_found_in_every_field() {
    for (body, query, top, event, fallback) in [
        (r#"{"api_key":"a","token":"b"}"#, "", Some("a"), Some("a"), None),
        (r#"{"$token":"a"}"#, "", Some("a"), Some("a"), None),
        (r#"[{"token":"a"}]"#, "", None, Some("a"), None),
        (r#"[{"properties":{"token":"a"}}]"#, "", None, Some("a"), None),
        (
            r#"[{"properties":{"tok\u0065n":"a","token":null,"token":"b"}}]"#,
            "",
            None,
            Some("b"),
            None,
        ),
        (r#"[{"token":5}]"#, "token=q", None, None, Some("q")),
        (r#"{}"#, "api_key=q", None, None, Some("q")),
        ("token=f&data={}", "token=q", None, None, Some("f")),
        (r#"{"data":"{\"token\":\"in\"}","api_key":"out"}"#, "", Some("out"), Some("in"), None),
    ] {
        let text = text(&Parts { query, ..plain(body) }).unwrap();
        let payload = parse_events(&text, DefaultEventName::None).unwrap();
        assert_eq!(payload.token.as_deref(), top, "{body}");
        assert_eq!(payload.fallback_token, fallback, "{body}");
        let Some(Ok(Element::Event(found))) = payload.elements().next() else { panic!("{body}") };
        assert_eq!(found.token.as_deref(), event, "{body}");
    }
}

// contract: ingestion 50-53, 56-59, 61
#[test]
fn event_fields_are_read_with_their_aliases() {
    let read = |body: &str, check: &dyn Fn(&model::event::RawEvent<'_>)| {
        let text = text(&plain(body)).unwrap();
        let payload = parse_events(&text, DefaultEventName::None).unwrap();
        let Some(Ok(Element::Event(event))) = payload.elements().next() else { panic!("{body}") };
        check(&event);
    };
    for (body, name, distinct_id) in [
        (r#"{"event":"e","distinct_id":"d"}"#, Some("e"), Some("d")),
        (r#"{"event":5,"distinct_id":23.4}"#, Some("5"), Some("23.4")),
        (r#"{"event":null,"distinct_id":null}"#, None, None),
        (r#"{"event":"","distinct_id":"  "}"#, Some(""), Some("  ")),
        (r#"{"distinct_id":true,"properties":{"distinct_id":"y"}}"#, None, Some("true")),
        (r#"{"distinct_id":"x","properties":{"distinct_id":"y"}}"#, None, Some("x")),
        (
            r#"{"distinct_id":null,"$distinct_id":"x","properties":{"distinct_id":"y"}}"#,
            None,
            Some("x"),
        ),
        (r#"{"properties":{"distinct_id":["a","b"]}}"#, None, Some(r#"["a","b"]"#)),
        (r#"{"distinct_id":{"b":1,"a":2}}"#, None, Some(r#"{"a":2,"b":1}"#)),
        (r#"{"distinct_id":"a\u0000b"}"#, None, Some("a\u{fffd}b")),
        (
            r#"{"event":"\ud800","distinct_id":"\udfff\ud83d\ude00"}"#,
            Some("\u{fffd}"),
            Some("\u{fffd}😀"),
        ),
        (r#"{"event":"first","event":"last"}"#, Some("last"), None),
    ] {
        read(body, &|event| {
            assert_eq!(event.name.as_deref(), name, "{body}");
            assert_eq!(event.distinct_id.as_deref(), distinct_id, "{body}");
        });
    }
    let uuid = RawUuid::Given("0190f1f2-0000-7000-8000-00000000000a".parse().unwrap());
    for (body, expected) in [
        (r#"{"uuid":"0190F1F2-0000-7000-8000-00000000000A"}"#, uuid),
        (r#"{"uuid":"0190f1f2000070008000 00000000000a"}"#, RawUuid::Invalid),
        (r#"{"uuid":"0190f1f200007000800000000000000a"}"#, uuid),
        (r#"{"uuid":""}"#, RawUuid::Absent),
        (r#"{"uuid":null}"#, RawUuid::Absent),
        (r#"{}"#, RawUuid::Absent),
        (r#"{"uuid":"nope"}"#, RawUuid::Invalid),
        (r#"{"uuid":5}"#, RawUuid::Invalid),
    ] {
        read(body, &|event| assert_eq!(event.uuid, expected, "{body}"));
    }
    for (body, expected) in [
        (r#"{"timestamp":"2024\u002D01"}"#, Some(RawTime::Text("2024-01".into()))),
        (r#"{"timestamp":1.5e9}"#, Some(RawTime::Number("1.5e9"))),
        (r#"{"timestamp":[]}"#, Some(RawTime::Unreadable)),
        (r#"{"timestamp":null}"#, None),
    ] {
        read(body, &|event| assert_eq!(event.timestamp, expected, "{body}"));
    }
    for (body, expected) in [
        (r#"{"properties":{"a":1e400}}"#, RawProperties::Object(r#"{"a":1e400}"#)),
        (r#"{"properties":null}"#, RawProperties::Absent),
        (r#"{"properties":[]}"#, RawProperties::NotAnObject),
        (r#"{"properties":"{}"}"#, RawProperties::NotAnObject),
    ] {
        read(body, &|event| assert_eq!(event.properties, expected, "{body}"));
    }
    read(r#"{"offset":1500,"$set":{"a":1},"$set_once":null,"$unset":["b"]}"#, &|event| {
        assert_eq!(event.offset_ms, Some(1500));
        assert_eq!((event.set, event.set_once), (Some(r#"{"a":1}"#), None));
        assert_eq!(event.unset, Some(r#"["b"]"#));
    });
}

#[test]
fn lenient_decoding_accepts_what_strict_rejects() {
    let body = b"{\"a\":\"\xff\",\"b\":[NaN,-Infinity,\"NaN\"]}";
    let parts = Parts { body, ..Parts::default() };
    assert_eq!(text(&parts).err(), Some(Error::Utf8));
    let lenient = decode_text(&parts, Strictness::Lenient, BYTES_MAX).unwrap();
    assert_eq!(lenient.as_str(), "{\"a\":\"\u{fffd}\",\"b\":[null,null,\"NaN\"]}");
}

/// Regression, found by fuzzing: the iterator of v1 repeated its error forever.
#[test]
fn iteration_ends_after_an_error() {
    for list in ["{},{\"a\":\"\u{4}\"},{}", "{},x,{}", "{} {}"] {
        let body = format!(r#"{{"batch":[{list}]}}"#);
        let text = text(&plain(&body)).unwrap();
        let payload = parse_events(&text, DefaultEventName::None).unwrap();
        let mut elements = payload.elements().skip_while(Result::is_ok);
        assert!(elements.next().is_some() && elements.next().is_none(), "{body}");
        let batch = decode::parse_v1(&text).unwrap();
        let mut events = batch.events().skip_while(Result::is_ok);
        assert!(events.next().is_some() && events.next().is_none(), "{body}");
    }
}
