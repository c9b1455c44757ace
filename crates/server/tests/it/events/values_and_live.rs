//! Property values, CSV, and the live stream of events.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::events::list::{EVENTS, TIMEOUT, event, send, uuid, wait_for, with_events};
use crate::harness::{Store, on_both_stores};

on_both_stores! {
    property_values_are_ordered_by_frequency,
    csv_columns_are_sorted,
    live_events_stream_new_events,
    pulse_counts_events_by_name,
}

// contract: management 98, 99
fn property_values_are_ordered_by_frequency(store: Store) {
    let server = store.start();
    // Property values cover the last days, so these events have the current time.
    let now = |name: &str, properties: Value| json!({ "event": name, "distinct_id": "ann", "properties": properties });
    send(
        &server,
        json!([
            now("a", json!({ "browser": "Chrome", "tags": ["x", "long"], "ok": true })),
            now("a", json!({ "browser": "Firefox", "tags": ["x"] })),
            now("a", json!({ "browser": "Firefox", "os": "linux" })),
            now("b", json!({ "browser": "Safari" })),
            now("$pageview", json!({ "browser": "Firefox Mobile" })),
        ]),
    );
    wait_for(&server, 5);
    let path = format!("{EVENTS}values/");
    let names = |query: &str| -> Vec<String> {
        let response = server.get(&format!("{path}?{query}")).expect(200);
        assert_eq!(response.header("cache-control"), Some("max-age=10"));
        let body = response.json();
        assert_eq!(body["refreshing"], json!(false));
        let results = body["results"].as_array().unwrap().clone();
        results.iter().map(|value| value["name"].as_str().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("key=browser&event_name=a", &["Firefox", "Chrome"][..]),
        (
            "key=browser&event_name=a&event_name=%24pageview&value=FOX",
            &["Firefox", "Firefox Mobile"],
        ),
        ("key=browser&event_name=a&properties_os=linux", &["Firefox"]),
        ("key=browser&event_name=a&properties_ok=true", &["Chrome"]),
        ("key=tags&event_name=a&value=o", &["long"]),
        ("key=ok&event_name=a", &["true"]),
        ("key=nothing&event_name=a", &[]),
        ("key=event&is_column=true&event_name=b", &["b"]),
        ("key=distinct_id&is_column=true&event_name=b", &["ann"]),
        ("key=custom_event&event_name=x", &["a", "b"]),
    ] {
        assert_eq!(names(query), expected, "{query}");
    }
    let table = server.get(&format!("{path}?key=ok&event_name=a&format=csv")).expect(200);
    assert_eq!(table.text(), "name\r\ntrue\r\n");
    for query in ["", "key=&event_name=a", "key=browser"] {
        let response = server.get(&format!("{path}?{query}")).expect(400);
        assert_eq!(response.error(), "validation_error invalid_input -", "{query}");
    }
    let response = server.get(&format!("{path}?key=x&is_column=true&event_name=a")).expect(400);
    assert_eq!(response.error(), "validation_error invalid_choice key");
}

// contract: management 95
fn csv_columns_are_sorted(store: Store) {
    let server = with_events(
        store,
        json!([
            event(
                1,
                "a",
                "ann",
                json!({ "plan": "pro, yearly", "$ip": "1.2.3.4", "$geoip_disable": true })
            ),
            event(2, "b", "bob", json!({ "list": [1, { "deep": "\"x\"" }] })),
        ]),
    );
    for (query, accept) in [("format=csv", "*/*"), ("", "text/csv")] {
        let call = server.call("GET", &format!("{EVENTS}?{query}")).header("Accept", accept);
        let table = call.send().expect(200);
        assert_eq!(table.header("content-type"), Some("text/csv; charset=utf-8"));
        let text = table.text();
        let lines: Vec<&str> = text.split("\r\n").collect();
        let columns: Vec<&str> = lines[0].split(',').collect();
        assert!(columns.is_sorted() && columns.contains(&"properties.plan"), "{columns:?}");
        assert!(columns.contains(&"properties.list.1.deep"), "{columns:?}");
        assert!(lines[1].contains("bob") && lines[1].contains("\"\"\"x\"\"\""), "{text}");
        assert!(lines[2].contains("\"pro, yearly\""), "{text}");
        assert_eq!(lines.len(), 4);
    }
    let one = server.get(&format!("{EVENTS}{}/?format=csv", uuid(1))).expect(200).text();
    assert_eq!(one.lines().count(), 2);
    let other = server.call("GET", "/api/projects/1/annotations/").header("Accept", "text/csv");
    other.send().expect(406);
}

/// Reads lines until one begins with `start`.
fn line(lines: &mut impl Iterator<Item = std::io::Result<String>>, start: &str) -> String {
    lines.map(Result::unwrap).find(|line| line.starts_with(start)).unwrap()
}

fn live_events_stream_new_events(store: Store) {
    let server = store.start();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let call =
        server.call("GET", &format!("{EVENTS}live/?event=b")).header("Accept", "text/event-stream");
    stream.write_all(&call.to_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(line(&mut lines, "HTTP/1.1").contains("200"));
    assert!(line(&mut lines, "content-type").contains("text/event-stream"));
    line(&mut lines, ": watching");
    send(
        &server,
        json!([event(1, "a", "ann", json!({})), event(2, "b", "ann", json!({ "x": 1 }))]),
    );
    line(&mut lines, "event: event");
    let data = line(&mut lines, "data: ");
    let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&event["id"], &event["properties"]["x"]), (&json!(uuid(2)), &json!(1)));
    // An open live stream does not delay the shutdown.
    let (status, output, _) = server.stop();
    assert!(status.success() && !output.contains("before every request"), "{output}");
}

fn pulse_counts_events_by_name(store: Store) {
    let server = store.start();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let call = server.call("GET", "/api/projects/1/pulse/").header("Accept", "text/event-stream");
    stream.write_all(&call.to_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines();
    assert!(line(&mut lines, "HTTP/1.1").contains("200"));
    assert!(line(&mut lines, "content-type").contains("text/event-stream"));
    line(&mut lines, ": watching");
    let mut pulse = || -> Value {
        let data = line(&mut lines, "data: ");
        serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap()
    };
    let event = |name: &str| json!({ "event": name, "distinct_id": "ann" });
    send(&server, json!([event("a"), event("b"), event("a")]));
    // A definition or the first event of a project may come in a line of its own.
    let counted =
        std::iter::repeat_with(&mut pulse).find(|line| line["events"] != json!({})).unwrap();
    assert_eq!((&counted["events"], &counted["more"]), (&json!({ "a": 2, "b": 1 }), &json!(false)));
    let flag = json!({ "key": "new", "filters": { "groups": [{ "properties": [] }] } });
    server.post("/api/projects/1/feature_flags/", flag).expect(201);
    let changed =
        std::iter::repeat_with(&mut pulse).find(|line| line["flags_changed"] == true).unwrap();
    assert_eq!((&changed["events"], &changed["position"]), (&json!({}), &counted["position"]));
}
