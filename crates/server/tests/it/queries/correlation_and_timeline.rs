//! Funnel correlation and the timeline of sessions.

use serde_json::{Value, json};

use crate::harness::{Server, Store};
use crate::queries::run::ask;

fn event(id: &str, name: &str, at: &str, properties: Value) -> Value {
    json!({ "event": name, "distinct_id": id, "timestamp": format!("2024-01-01T{at}Z"),
        "properties": properties })
}

/// Eight persons sign up and the first four pay. Three of them and one other watch a video before that;
/// two of the others complain. What follows the payment does not count.
fn shop() -> Server {
    let server = Store::Sqlite.start();
    let mut events = Vec::new();
    for no in 1..=8 {
        let id = format!("p{no}");
        let plan = if no <= 3 { "pro" } else { "free" };
        events.push(event(&id, "sign up", "10:00:00", json!({ "$set": { "plan": plan } })));
        if [1, 2, 3, 5].contains(&no) {
            events.push(event(&id, "video", "10:01:00", json!({ "length": "long" })));
        }
        if no <= 4 {
            events.push(event(&id, "paid", "10:02:00", json!({})));
            events.push(event(&id, "receipt", "10:03:00", json!({})));
        }
        if no > 6 {
            events.push(event(&id, "complaint", "10:02:00", json!({})));
        }
    }
    server.ingest(&events);
    server
}

fn correlation(more: Value) -> Value {
    let funnel = json!({ "kind": "FunnelsQuery",
        "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-01" },
        "series": [{ "kind": "EventsNode", "event": "sign up" },
            { "kind": "EventsNode", "event": "paid" }] });
    let mut query = json!({ "kind": "FunnelCorrelationQuery",
        "source": { "kind": "FunnelsActorsQuery", "source": funnel } });
    query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    query
}

fn items(server: &Server, more: Value) -> Vec<Value> {
    let asked = ask(server, json!({ "query": correlation(more) }));
    assert_eq!(asked.status, 200, "{}", asked.text());
    let told = asked.json();
    assert_eq!(told["results"]["skewed"], false);
    let item = |one: &Value| {
        json!([
            one["event"]["event"],
            one["success_count"],
            one["failure_count"],
            one["odds_ratio"],
            one["correlation_type"]
        ])
    };
    told["results"]["events"].as_array().unwrap().iter().map(item).collect()
}

#[test]
fn events_and_properties_are_correlated_with_converting() {
    let server = shop();
    let events = json!({ "funnelCorrelationType": "events" });
    assert_eq!(
        items(&server, events),
        [json!(["video", 3, 1, 4.0, "success"]), json!(["complaint", 0, 2, 0.2, "failure"])]
    );
    let excluding = json!({ "funnelCorrelationType": "events",
        "funnelCorrelationExcludeEventNames": ["video"] });
    assert_eq!(items(&server, excluding).len(), 1);
    for names in [json!(["plan"]), json!(["$all"])] {
        let properties = json!({ "funnelCorrelationType": "properties",
            "funnelCorrelationNames": names,
            "funnelCorrelationExcludeNames": ["$creator_event_uuid"] });
        let found = items(&server, properties);
        let expected = [
            json!(["plan::pro", 3, 0, 10.0, "success"]),
            json!(["plan::free", 1, 4, 0.1, "failure"]),
        ];
        assert_eq!(found, expected, "{names}");
    }
    let of_events = json!({ "funnelCorrelationType": "event_with_properties",
        "funnelCorrelationEventNames": ["video"],
        "funnelCorrelationEventExcludePropertyNames": ["$ip"] });
    assert_eq!(items(&server, of_events), [json!(["video::length::long", 3, 1, 4.0, "success"])]);
}

#[test]
fn correlation_of_a_funnel_without_drop_offs_is_skewed() {
    let server = shop();
    let mut query = correlation(json!({ "funnelCorrelationType": "events" }));
    query["source"]["funnelStep"] = json!(2);
    let told = ask(&server, json!({ "query": query })).expect(200).json();
    assert_eq!(told["results"], json!({ "events": [], "skewed": true }));
}

#[test]
fn invalid_correlations_are_rejected() {
    let server = Store::Sqlite.start();
    for (more, code) in [
        (json!({}), "parse_error"),
        (json!({ "funnelCorrelationType": "frobnicate" }), "parse_error"),
        (json!({ "funnelCorrelationType": "events", "frobnicate": 1 }), "parse_error"),
        (
            json!({ "funnelCorrelationType": "events", "source": { "kind": "FunnelsQuery" } }),
            "parse_error",
        ),
        (json!({ "funnelCorrelationType": "properties" }), "invalid_input"),
        (json!({ "funnelCorrelationType": "event_with_properties" }), "invalid_input"),
    ] {
        let refused = ask(&server, json!({ "query": correlation(more.clone()) }));
        assert_eq!(refused.expect(400).json()["code"], code, "{more}");
    }
}

#[test]
fn timeline_groups_events_by_session_and_by_pauses() {
    let server = Store::Sqlite.start();
    let with = |session: &str| json!({ "$session_id": session });
    server.ingest(&[
        event("p1", "early", "09:00:00", with("s1")),
        event("p1", "a", "10:00:00", with("s1")),
        event("p1", "b", "10:05:00", json!({})),
        event("p1", "c", "10:10:00", with("s1")),
        event("p1", "d", "10:20:00", json!({})),
        event("p1", "e", "11:00:00", json!({})),
        event("p2", "f", "10:30:00", with("s2")),
    ]);
    let persons = server.get("/api/projects/1/persons/?distinct_id=p1").expect(200).json();
    let timeline = |person: Value| {
        let query = json!({ "kind": "SessionsTimelineQuery", "personId": person,
            "after": "2024-01-01T09:30:00Z", "before": "2024-01-01T12:00:00Z" });
        let told = ask(&server, json!({ "query": query })).expect(200).json();
        assert_eq!(told["hasMore"], false);
        let entry = |entry: &Value| {
            let events = entry["events"].as_array().unwrap().iter();
            let names: Vec<&str> = events.map(|event| event["event"].as_str().unwrap()).collect();
            (entry["sessionId"].as_str().unwrap_or("-").to_owned(), names.join(" "))
        };
        let entries: Vec<(String, String)> =
            told["results"].as_array().unwrap().iter().map(entry).collect();
        entries
    };
    let pair = |session: &str, names: &str| (session.to_owned(), names.to_owned());
    let own = [pair("-", "e"), pair("-", "d b"), pair("s1", "c a early")];
    assert_eq!(timeline(persons["results"][0]["uuid"].clone()), own);
    let all = timeline(Value::Null);
    assert!(all.contains(&pair("s2", "f")) && all.len() == 4, "{all:?}");
    let query = json!({ "kind": "SessionsTimelineQuery", "after": "soon" });
    ask(&server, json!({ "query": query })).expect(400);
}
