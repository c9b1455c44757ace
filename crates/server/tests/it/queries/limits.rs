//! Limits of queries (memory, time) and of definitions.

use std::io::Write as _;
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::harness::{PERSONAL_KEY, Request, Store};
use crate::queries::run::{ask, rows};

#[test]
fn malicious_statements_are_rejected_and_release_memory() {
    let limits =
        [("HEDGEROW_QUERY_SECONDS_MAX", "2"), ("HEDGEROW_QUERY_MEMORY_BYTES_MAX", "64 MiB")];
    let server = Store::Sqlite.start_with(&limits);
    let many = |one: &dyn Fn(usize) -> String| (0..1_500).map(one).collect::<Vec<_>>().join(", ");
    for text in [
        format!(
            "select {} from numbers(8000)",
            many(&|no| format!("repeat(toString(number), {})", 1_000 + no))
        ),
        "select sum(indexOf(range(7000000), number + 7000000)) from numbers(1000000)".to_owned(),
        format!("select {}", many(&|no| format!("match('x', '([a-z]{{20}}|{no}){{40}}')"))),
    ] {
        let query = json!({ "kind": "HogQLQuery", "query": text });
        let response = ask(&server, json!({ "query": query }));
        let start = &text[..60];
        assert_eq!(response.status, 504, "{start}: {}", response.text());
    }
    // Waits until the queries' threads have ended; hangs if they do not.
    let held = "hedgerow_query_memory_bytes 0";
    while !server.get("/metrics").expect(200).text().lines().any(|line| line == held) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(rows(&server, "select 1"), json!([[1]]));
}

#[test]
fn properties_past_property_definitions_max_are_stored_but_not_defined() {
    let limits = [("HEDGEROW_PROPERTY_DEFINITIONS_MAX", "40")];
    let server = Store::Sqlite.start_with(&limits);
    let many: serde_json::Map<String, Value> =
        (0..100).map(|no| (format!("p{no:03}"), json!(no))).collect();
    let event =
        |properties: Value| json!({ "event": "e", "distinct_id": "d", "properties": properties });
    server.ingest(&[event(json!({ "amount": 5 })), event(Value::Object(many))]);
    let defined = server.get("/api/projects/1/property_definitions/?limit=1000").expect(200).json();
    assert_eq!(defined["count"], 40);
    let text =
        "select properties.p099, properties.amount + 1 from events order by properties.amount";
    assert_eq!(rows(&server, text), json!([[null, 6.0], ["99", null]]));
    let warnings = server.get("/api/projects/1/ingestion_warnings/").expect(200).json();
    assert_eq!(warnings["results"][0]["type"], "too_many_definitions");
    let metrics = server.get("/metrics").expect(200).text();
    assert!(metrics.contains("hedgerow_definitions_left_out_total"), "{metrics}");
}

/// A count that goes on holds the only permit for longer than the next query waits for it.
#[test]
fn cohort_count_ends_when_its_client_leaves() {
    let limits = [("HEDGEROW_QUERY_SECONDS_MAX", "60"), ("HEDGEROW_QUERIES_AT_ONCE_MAX", "1")];
    let server = Store::Sqlite.start_with(&limits);
    server.ingest(&[json!({ "event": "bought", "distinct_id": "d" })]);
    let slow =
        "arraySum(x -> indexOf(range(7000000), x + 7000000), range(length(event) * 9999)) > 0";
    let bought = json!({ "type": "behavioral", "key": "bought", "event_type": "events",
        "value": "performed_event", "time_value": 30, "time_interval": "day",
        "event_filters": [{ "type": "hogql", "key": slow }] });
    let filters = json!({ "properties": { "type": "AND", "values": [bought] } });
    let count = Request::new(server.address(), "POST", "/api/projects/1/cohorts/count/")
        .key(PERSONAL_KEY)
        .json(json!({ "filters": filters }));
    let mut client = TcpStream::connect(server.address()).unwrap();
    client.write_all(&count.to_bytes()).unwrap();
    let idle = "hedgerow_query_memory_bytes 0";
    while server.get("/metrics").expect(200).text().lines().any(|line| line == idle) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(client);
    assert_eq!(rows(&server, "select 1"), json!([[1]]));
}
