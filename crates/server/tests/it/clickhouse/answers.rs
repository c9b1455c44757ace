//! What a client asks is answered from ClickHouse as from the embedded warehouse.

use serde_json::{Value, json};

use super::{Fixture, capture, wait_for_events};
use crate::harness::{Server, Store};

/// Visits, orders and plans of nine persons over ten days, one of whom was anonymous first.
fn events() -> Vec<Value> {
    let mut events = vec![
        json!({ "event": "$groupidentify", "distinct_id": "p0", "properties": {
            "$group_type": "company", "$group_key": "acme", "$group_set": { "size": 7 } } }),
        json!({ "event": "$identify", "distinct_id": "p1", "properties": {
            "$anon_distinct_id": "anonymous", "$set": { "plan": "pro" } } }),
    ];
    for number in 0..90 {
        let (person, day) = (number % 9, number * 7 % 10 + 1);
        let event = ["$pageview", "$pageview", "ordered"][number % 3];
        let distinct_id = if number == 1 { "anonymous".to_owned() } else { format!("p{person}") };
        let path = ["/", "/plants", "/cart"][number / 3 % 3];
        events.push(json!({ "event": event, "distinct_id": distinct_id, "properties": {
            "$current_url": format!("https://shop.example{path}"), "$pathname": path,
            "$session_id": format!("s{person}-{day}"), "amount": number as f64 / 4.0,
            "tags": ["a", { "b": null }], "it's \"quoted\" \\": "yes",
            "$groups": { "company": if person < 4 { "acme" } else { "other" } },
            "$set": { "plan": if person % 2 == 0 { "free" } else { "pro" } } },
            "timestamp": format!("2026-03-{day:02}T{:02}:00:00Z", number % 24) }));
    }
    for (minute, path) in ["/", "/plants", "/cart"].into_iter().enumerate() {
        events.push(json!({ "event": "$pageview", "distinct_id": "p0",
            "properties": { "$current_url": format!("https://shop.example{path}") },
            "timestamp": format!("2026-03-05T12:0{minute}:30Z") }));
    }
    for (number, event) in events.iter_mut().enumerate() {
        event["uuid"] = json!(format!("01953c5a-0000-7000-8000-{number:012x}"));
        if event.get("timestamp").is_none() {
            event["timestamp"] = json!("2026-03-01T00:00:00Z");
        }
    }
    events
}

fn queries() -> Vec<Value> {
    let range = json!({ "date_from": "2026-03-01", "date_to": "2026-03-10" });
    let visits = json!({ "kind": "EventsNode", "event": "$pageview" });
    let orders = json!({ "kind": "EventsNode", "event": "ordered", "math": "sum", "math_property": "amount" });
    let steps = json!([visits, { "kind": "EventsNode", "event": "ordered" }]);
    let pro = json!([{ "key": "plan", "value": "pro", "type": "person", "operator": "exact" }]);
    let hogql = |query: &str| json!({ "kind": "HogQLQuery", "query": query });
    let insight = |kind: &str, rest: Value| {
        let mut query = json!({ "kind": kind, "dateRange": range });
        query.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        query
    };
    vec![
        insight("TrendsQuery", json!({ "series": [visits, orders], "properties": pro })),
        insight(
            "TrendsQuery",
            json!({ "series": [{ "kind": "EventsNode", "event": "$pageview", "math": "dau" }],
                "breakdownFilter": { "breakdown": "plan", "breakdown_type": "person" } }),
        ),
        insight(
            "TrendsQuery",
            json!({ "series": [visits], "breakdownFilter": { "breakdown": "it's \"quoted\" \\" } }),
        ),
        insight("FunnelsQuery", json!({ "series": steps })),
        insight(
            "FunnelsQuery",
            json!({ "series": steps, "aggregation_group_type_index": 0,
                "funnelsFilter": { "funnelVizType": "trends" } }),
        ),
        insight(
            "RetentionQuery",
            json!({ "retentionFilter": { "period": "Day", "totalIntervals": 5,
            "targetEntity": { "id": "$pageview", "type": "events" },
            "returningEntity": { "id": "ordered", "type": "events" } } }),
        ),
        insight("StickinessQuery", json!({ "series": [visits] })),
        insight("LifecycleQuery", json!({ "series": [visits] })),
        insight("PathsQuery", json!({ "pathsFilter": { "includeEventTypes": ["$pageview"] } })),
        hogql(
            "select person.properties.plan, count(), uniq(person_id), quantile(0.5)(properties.amount) \
             from events where event = 'ordered' group by 1 order by 1",
        ),
        hogql("select uuid, properties from events order by timestamp desc, uuid limit 7"),
        hogql("select properties.plan, count() from persons group by 1 order by 1"),
        hogql("select topK(2)(distinct_id) from events where event = 'ordered'"),
        hogql(
            "select group_0.properties.size, count() from events group by 1 order by 1 nulls last",
        ),
        json!({ "kind": "EventsQuery", "select": ["uuid", "event", "properties.tags", "timestamp"],
            "after": "2026-03-03T00:00:00Z", "before": "2026-03-05T00:00:00Z", "orderBy": ["uuid"],
            "properties": pro }),
        json!({ "kind": "ActorsQuery", "select": ["properties.plan"], "orderBy": ["properties.plan"],
            "source": { "kind": "InsightActorsQuery", "day": "2026-03-04", "series": 0,
                "source": insight("TrendsQuery", json!({ "series": [visits] })) } }),
    ]
}

const LISTS: [&str; 4] = [
    "events/?limit=20&after=2026-03-02T00:00:00Z&before=2026-03-09T00:00:00Z",
    "events/?event=ordered&distinct_id=p1&after=2026-02-01T00:00:00Z",
    "events/01953c5a-0000-7000-8000-000000000021/",
    "events/values/?key=$pathname&event_name=$pageview",
];

/// Ids of persons and of events in a chain differ from server to server.
fn without_ids(mut answer: Value) -> Value {
    match &mut answer {
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_ids(item.take())),
        Value::Object(members) => {
            for volatile in ["person", "next", "created_at"] {
                members.remove(volatile);
            }
            members.values_mut().for_each(|member| *member = without_ids(member.take()));
        }
        _ => {}
    }
    answer
}

fn answers(server: &Server) -> Vec<(String, Value)> {
    let asked = queries().into_iter().map(|query| {
        let body = json!({ "query": query, "refresh": "force_blocking" });
        let answer = server.post("/api/projects/1/query/", body).expect(200).json();
        (query.to_string(), without_ids(answer["results"].clone()))
    });
    let listed = LISTS.iter().map(|path| {
        let answer = server.get(&format!("/api/projects/1/{path}")).expect(200).json();
        ((*path).to_owned(), without_ids(answer))
    });
    asked.chain(listed).collect()
}

#[test]
fn every_kind_of_query_answers_as_the_embedded_warehouse() {
    let Some(Fixture { database, instance }) = Fixture::new() else { return };
    let (clickhouse, embedded) = (instance.serve(), Store::Sqlite.instance().serve());
    let events = events();
    for server in [&clickhouse, &embedded] {
        capture(server, &events);
        // Sent again: counted once.
        capture(server, &events[..20]);
        server.wait_until_applied();
    }
    wait_for_events(&database, events.len());
    for ((query, expected), (_, found)) in answers(&embedded).into_iter().zip(answers(&clickhouse))
    {
        assert!(!expected.is_null() && expected != json!([]), "{query} answers nothing");
        assert_eq!(found, expected, "{query}");
    }
    let metrics = clickhouse.call("GET", "/metrics").no_key().send().expect(200).text();
    assert!(metrics.contains("hedgerow_clickhouse_up 1"), "{metrics}");
    assert!(metrics.contains("hedgerow_clickhouse_pulls_total"), "{metrics}");
}
