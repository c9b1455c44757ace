use std::borrow::Cow;

use model::event::{EventUuid, RawTime};
use serde_json::json;

use super::*;

/// 2026-01-02T12:00:00Z
const NOON: i64 = 1_767_355_200;

fn event<'a>(name: &'a str, properties: &'a str) -> AcceptedEvent<'a> {
    AcceptedEvent {
        project: ProjectId(1),
        received_at: Timestamp::from_micros(NOON * 1_000_000),
        client_ip: None,
        sent_at: None,
        historical_migration: false,
        uuid: EventUuid::Given(Uuid::from_u128(7)),
        name,
        distinct_id: "u",
        timestamp: None,
        offset_ms: None,
        properties,
        set: None,
        set_once: None,
        unset: None,
        v1: None,
    }
}

fn stored<'a>(event: &AcceptedEvent<'a>) -> Box<NormalizedEvent<'a>> {
    match normalize(event, &Rules::default(), &GeoIp::disabled(), &mut Layout::default()).unwrap() {
        Outcome::Store(stored) => stored,
        Outcome::Drop(warnings) => panic!("dropped: {warnings:?}"),
    }
}

fn dropped(event: &AcceptedEvent<'_>) -> Vec<WarningKind> {
    match normalize(event, &Rules::default(), &GeoIp::disabled(), &mut Layout::default()).unwrap() {
        Outcome::Store(stored) => panic!("stored: {stored:?}"),
        Outcome::Drop(warnings) => warnings.into_iter().map(|warning| warning.kind).collect(),
    }
}

fn properties(event: &NormalizedEvent<'_>) -> Value {
    let read = |json: &str| serde_json::from_str::<Value>(json).unwrap();
    event.properties.iter().map(|(name, json)| (name.to_owned(), read(json))).collect()
}

/// The properties of a person that the event creates.
fn first(event: &NormalizedEvent<'_>) -> Value {
    let all = event.changes.all(event.copies());
    Value::Object(model::json_object::JsonObject::default().changed(all, []).to_map())
}

fn changes_no_person(event: &NormalizedEvent<'_>) -> bool {
    event.changes.is_empty() && event.copies().is_empty()
}

// contract: ingestion 64-71, 75
#[test]
fn timestamp_is_corrected_for_clock_skew() {
    let text = |text| Some(RawTime::Text(Cow::Borrowed(text)));
    let sent = |text| Some(SentAt::Text(Cow::Borrowed(text)));
    let plain = || event("e", "{}");
    let ten_past = sent("2026-01-02T12:00:10Z");
    let eleven = text("2026-01-02T11:00:00Z");
    let cases = [
        (
            AcceptedEvent { timestamp: eleven.clone(), sent_at: ten_past.clone(), ..plain() },
            "2026-01-02T10:59:50Z",
            None,
        ),
        (
            AcceptedEvent {
                timestamp: eleven.clone(),
                sent_at: ten_past,
                ..event("e", r#"{"$ignore_sent_at":true}"#)
            },
            "2026-01-02T11:00:00Z",
            None,
        ),
        (AcceptedEvent { timestamp: eleven.clone(), ..plain() }, "2026-01-02T11:00:00Z", None),
        (
            AcceptedEvent {
                timestamp: eleven.clone(),
                sent_at: Some(SentAt::Millis(NOON * 1_000 + 10_000)),
                ..plain()
            },
            "2026-01-02T10:59:50Z",
            None,
        ),
        (
            AcceptedEvent { timestamp: eleven, sent_at: Some(SentAt::Millis(NOON)), ..plain() },
            "2026-01-02T11:00:00Z",
            None,
        ),
        (AcceptedEvent { offset_ms: Some(1_500), ..plain() }, "2026-01-02T11:59:58.500000Z", None),
        (
            AcceptedEvent { timestamp: text("2026-01-03T10:00:00Z"), ..plain() },
            "2026-01-03T10:00:00Z",
            None,
        ),
        (
            AcceptedEvent { timestamp: text("2026-01-03T12:00:00Z"), ..plain() },
            "2026-01-02T12:00:00Z",
            Some(WarningKind::EventTimestampInFuture),
        ),
        (
            AcceptedEvent { timestamp: text("garbage"), ..plain() },
            "2026-01-02T12:00:00Z",
            Some(WarningKind::IgnoredInvalidTimestamp),
        ),
        (
            AcceptedEvent { timestamp: text("12000-01-01T00:00:00Z"), ..plain() },
            "2026-01-02T12:00:00Z",
            Some(WarningKind::IgnoredInvalidTimestamp),
        ),
        (plain(), "2026-01-02T12:00:00Z", None),
    ];
    for (event, expected, warning) in cases {
        let stored = stored(&event);
        assert_eq!(stored.time.to_string(), expected, "{event:?}");
        let kinds: Vec<WarningKind> = stored.warnings.iter().map(|warning| warning.kind).collect();
        assert_eq!(kinds, warning.into_iter().collect::<Vec<_>>(), "{event:?}");
    }
}

// contract: ingestion 81, 86, 87
#[test]
fn event_properties_are_copied_to_the_person() {
    let lifted = AcceptedEvent {
        set: Some(r#"{"x":1}"#),
        ..event("e", r#"{"$set":{"x":2,"y":3},"$unset":{"z":1}}"#)
    };
    let lifted = stored(&lifted);
    assert_eq!(first(&lifted), json!({"x": 1, "y": 3}));
    assert_eq!(lifted.changes.unset, ["z"]);
    let campaign = event("e", r#"{"utm_source":"g","_kx":"k"}"#);
    assert_eq!(
        first(&stored(&campaign)),
        json!({"utm_source": "g", "_kx": "k", "$initial_utm_source": "g", "$initial__kx": "k"})
    );
    let explicit = event("e", r#"{"$os":"iOS","$set":{"$os":"mine","$initial_os":"first"}}"#);
    assert_eq!(first(&stored(&explicit)), json!({"$os": "mine", "$initial_os": "first"}));
    let os = event("e", r#"{"$os_name":"iOS"}"#);
    let os = stored(&os);
    assert_eq!(first(&os), json!({"$os": "iOS", "$initial_os": "iOS"}));
    assert_eq!(properties(&os)["$os"], "iOS");
}

// contract: ingestion 88-90, 93-95, 118, 119
#[test]
fn person_processing_follows_the_event_and_removes_set_properties() {
    let noisy = event(
        "e",
        r#"{"$set":{"a":1},"$set_once":{"b":1},"$unset":["c"],"$feature_flag_payloads":{},"$elements":[],"$elements_chain":"","n":1.50}"#,
    );
    assert_eq!(stored(&noisy).properties.iter().collect::<Vec<_>>(), [("n", "1.50")]);

    let off = event(
        "e",
        r#"{"$process_person_profile":false,"$set":{"a":1},"$groups":{"company":"c"},"$group_0":"c"}"#,
    );
    let off = stored(&off);
    assert_eq!(off.person, PersonProcessing::Personless);
    assert!(changes_no_person(&off) && off.groups.is_empty());
    assert_eq!(
        properties(&off),
        json!({"$process_person_profile": false, "$groups": {"company": "c"}})
    );

    let odd = event("e", r#"{"$process_person_profile":"false"}"#);
    let odd = stored(&odd);
    assert_eq!(odd.person, PersonProcessing::Full);
    assert_eq!(odd.warnings[0].kind, WarningKind::InvalidProcessPersonProfile);

    let refused = event("$identify", r#"{"$process_person_profile":false}"#);
    assert_eq!(dropped(&refused), [WarningKind::InvalidEventWhenProcessPersonProfileIsFalse]);

    for (json, expected) in [
        ("{}", PersonProcessing::OnlyIfKnown),
        (r#"{"$process_person_profile":true}"#, PersonProcessing::Full),
        (r#"{"$groups":{"company":"c"}}"#, PersonProcessing::Full),
    ] {
        assert_eq!(stored(&event("$feature_flag_called", json)).person, expected, "{json}");
    }
    let exception = event("$exception", r#"{"$set":{"a":1}}"#);
    let exception = stored(&exception);
    assert!(changes_no_person(&exception));
    assert_eq!(exception.warnings[0].kind, WarningKind::SetOnException);
    assert!(changes_no_person(&stored(&event("$groupidentify", r#"{"$set":{"a":1}}"#))));
}

// contract: ingestion 117, 135-140
#[test]
fn special_events_are_transformed_or_dropped() {
    let chain = event("$autocapture", r#"{"$elements_chain":"a:nth-child=\"1\""}"#);
    assert_eq!(stored(&chain).elements_chain, "a:nth-child=\"1\"");
    assert!(dropped(&event("$$heatmap", "{}")).is_empty());
    assert_eq!(dropped(&event("$snapshot", "{}")), [WarningKind::ReplayNotStored]);
    assert_eq!(
        dropped(&event("$performance_event", "{}")),
        [WarningKind::PerformanceEventNotStored]
    );
    assert_eq!(
        dropped(&event(
            "$$client_ingestion_warning",
            r#"{"$$client_ingestion_warning_message":"m"}"#
        )),
        [WarningKind::ClientIngestionWarning]
    );
    let heat = event("$pageview", r#"{"$heatmap_data":{"x":1},"a":1}"#);
    assert_eq!(properties(&stored(&heat)), json!({"a": 1}));

    let number = event("$groupidentify", r#"{"$group_type":"c","$group_key":5,"$group_set":null}"#);
    let identify = stored(&number).group_identify.unwrap();
    assert_eq!((identify.key.as_str(), identify.set.len()), ("5", 0));
    let long = format!(r#"{{"$group_type":"c","$group_key":"{}"}}"#, "k".repeat(401));
    assert_eq!(dropped(&event("$groupidentify", &long)), [WarningKind::GroupKeyTooLong]);
    let set = r#"{"$group_type":"c","$group_key":"k","$group_set":"x"}"#;
    assert_eq!(dropped(&event("$groupidentify", set)), [WarningKind::GroupSetInvalid]);
}

#[test]
fn ip_property_defaults_to_the_client_address() {
    let from =
        |json| AcceptedEvent { client_ip: Some([203, 0, 113, 9].into()), ..event("e", json) };
    for (json, expected) in [
        ("{}", "203.0.113.9"),
        (r#"{"$ip":"198.51.100.1"}"#, "198.51.100.1"),
        (r#"{"$ip":null}"#, "203.0.113.9"),
        (r#"{"capture_internal":0}"#, "127.0.0.1"),
    ] {
        assert_eq!(properties(&stored(&from(json)))["$ip"], expected, "{json}");
    }
    let rules = Rules { anonymize_ips: true, ..Rules::default() };
    let Outcome::Store(hidden) =
        normalize(&from("{}"), &rules, &GeoIp::disabled(), &mut Layout::default()).unwrap()
    else {
        panic!()
    };
    assert_eq!(properties(&hidden), json!({}));
}

#[test]
fn parsing_does_not_depend_on_the_previous_event() {
    let texts = [
        r#"{"$ip":"1.2.3.4","a":1,"$os":"X"}"#,
        r#"{"$ip":"1.2.3.5","a":2,"$os":"Y"}"#,
        r#"{ "$ip" : "1.2.3.5", "a":2 ,"$os": "Y" }"#,
        r#"{"a":2,"$os":"Y","$ip":"1.2.3.4","b":null}"#,
        r#"{"\u0061":3,"a\"b":4,"a":5}"#,
        r#"{"a":1,"a":2,"$os":"X","$os":"Z"}"#,
        "{}",
    ];
    let read = |text, layout: &mut Layout| {
        let properties = Properties::parse(text, layout).unwrap();
        let all = properties.iter().map(|(name, json)| (name.to_owned(), json.to_owned()));
        (all.collect::<Vec<_>>(), properties.text(name!("$os")).map(Cow::into_owned))
    };
    for before in texts {
        for text in texts {
            let mut layout = Layout::default();
            read(before, &mut layout);
            assert_eq!(read(text, &mut layout), read(text, &mut Layout::default()), "{text}");
        }
    }
    let mut layout = Layout::default();
    read(texts[0], &mut layout);
    for (at, (text, plain)) in [
        (r#"{"$ip":"1.2\u002e3","a":2,"$os":"Y"}"#, [false, true, false]),
        (r#"{"$ip":"1.2.3.4","a":"\n","$os":"Y","b":1}"#, [true, false, true]),
        (r#"{"$ip":[1],"a":-1.5,"$os":"Y","b":1}"#, [false, true, true]),
    ]
    .into_iter()
    .enumerate()
    {
        let properties = Properties::parse(text, &mut layout).unwrap();
        let mut found = Vec::new();
        properties.with_groups(&[], &mut |property| found.push(property.unescaped));
        assert_eq!(found[..3], plain, "{at}");
        read(texts[0], &mut layout);
    }
    for broken in [r#"{"$ip":"1.2.3.4","a":}"#, r#"{"$ip":"#, r#"{"$ip":1 "a":2}"#, r#"{"$ip""#] {
        assert!(Properties::parse(broken, &mut layout).is_err(), "{broken}");
    }
}

#[test]
fn out_of_range_number_becomes_null_alone() {
    let sent = r#"{"$set":{"x":[1e400],"z":1},"$set_once":{"o":-1e999,"y":2},"utm_term":1e400}"#;
    let expected = json!({"x": [null], "z": 1, "o": null, "y": 2, "utm_term": null,
        "$initial_utm_term": null});
    assert_eq!(first(&stored(&event("e", sent))), expected);
    let beside = AcceptedEvent { set: Some(r#"{"x":1e400,"z":1}"#), ..event("e", "{}") };
    assert_eq!(first(&stored(&beside)), json!({"x": null, "z": 1}));
    let sent = r#"{"$group_type":"t","$group_key":"k","$group_set":{"x":1e400,"n":1}}"#;
    let set = stored(&event("$groupidentify", sent)).group_identify.unwrap().set;
    assert_eq!(Value::Object(set), json!({"x": null, "n": 1}));
}

#[test]
fn equal_arrays_are_stored_as_equal_bytes() {
    let sent = r#"{"tags":[ "\u00e9cole", 1.0 ],"n":"\u00e9 x","m":1.0}"#;
    let stored = stored(&event("e", sent));
    let all: Vec<_> = stored.properties.iter().collect();
    assert_eq!(all, [("tags", r#"["école",1.0]"#), ("n", r#""\u00e9 x""#), ("m", "1.0")]);
}

// contract: management 114
#[test]
fn group_keys_keep_order_and_number_type() {
    let sent = r#"{"$groups":{"team":"t","a":7,"gone":null,"team2":1.0,"a":8}}"#;
    let stored = stored(&event("e", sent));
    let all: Vec<_> = stored
        .groups
        .iter()
        .map(|(kind, key)| (kind.as_str(), key.text.as_str(), key.json.as_str()))
        .collect();
    assert_eq!(all, [("team", "t", r#""t""#), ("team2", "1.0", "1.0"), ("a", "8", "8")]);
}

#[test]
fn event_size_limit_is_exact_to_the_byte() {
    for (name, most) in [("e", EVENT_BYTES_MAX), ("$ai_trace", AI_EVENT_BYTES_MAX)] {
        // `{"a":"…"}`, and a comma that counts as well.
        let sent = |bytes: usize| format!(r#"{{"a":"{}"}}"#, "x".repeat(bytes - 9));
        assert_eq!(sent(100).len(), 99);
        assert_eq!(stored(&event(name, &sent(most))).properties.len(), 1);
        assert_eq!(dropped(&event(name, &sent(most + 1))), [WarningKind::MessageSizeTooLarge]);
    }
    // Removed properties do not count.
    let removed = format!(r#"{{"$heatmap_data":"{}","a":1}}"#, "x".repeat(EVENT_BYTES_MAX));
    assert_eq!(stored(&event("e", &removed)).properties.iter().count(), 1);
    let blanks = format!(r#"{{"a":{}1}}"#, " ".repeat(EVENT_BYTES_MAX));
    assert_eq!(stored(&event("e", &blanks)).properties.iter().count(), 1);
}
