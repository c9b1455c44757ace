//! Events queries whose source is a data point: they list the events that its number counts.

use serde_json::{Value, json};

use crate::harness::{Response, Server, Store};

/// Four days of a shop, with amounts that are not always numbers, and a test account.
fn shop() -> Server {
    let server = Store::Sqlite.start();
    let event = |id: &str, name: &str, at: &str, more: Value| {
        let mut properties = json!({
            "$set": { "email": format!("{id}@me.com") },
            "$groups": { "company": if id == "p1" { "acme" } else { "umbrella" } },
        });
        properties.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let timestamp = format!("2024-01-{at}:00Z");
        json!({ "event": name, "distinct_id": id, "timestamp": timestamp, "properties": properties })
    };
    let paid = |id: &str, at: &str, amount: Value, browser: &str| {
        event(id, "paid", at, json!({ "amount": amount, "browser": browser, "$session_id": id }))
    };
    server.ingest(&[
        event("p1", "visit", "01T09:00", json!({})),
        event("p2", "visit", "01T11:40", json!({})),
        event("p3", "visit", "02T11:00", json!({})),
        paid("p1", "01T10:00", json!(5), "Chrome"),
        paid("p1", "01T10:05", json!("7.5"), "Firefox"),
        paid("p2", "01T12:00", json!("much"), "Chrome"),
        paid("p2", "02T12:00", json!(11), "Safari"),
        paid("p1", "03T10:00", json!(2), "Chrome"),
        paid("tester", "03T11:00", json!(3), "Chrome"),
        json!({ "event": "paid", "distinct_id": "nobody", "timestamp": "2024-01-03T12:00:00Z",
            "properties": { "$process_person_profile": false, "amount": 1 } }),
        event("p1", "visit", "04T10:00", json!({})),
    ]);
    server.patch(
        "/api/projects/1/",
        json!({ "test_account_filters": [
            { "key": "email", "type": "person", "operator": "not_icontains", "value": "tester" }] }),
    )
    .expect(200);
    server
}

fn ask(server: &Server, query: Value) -> Response {
    server.post("/api/projects/1/query/", json!({ "query": query, "refresh": "force_blocking" }))
}

fn extended(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

fn trends(series: Value, more: Value) -> Value {
    let base = json!({ "kind": "TrendsQuery", "series": series,
        "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-03" } });
    extended(base, &more)
}

fn paid(math: &str) -> Value {
    json!([{ "kind": "EventsNode", "event": "paid", "math": math, "math_property": "amount" }])
}

fn point(insight: &Value, place: Value) -> Value {
    extended(json!({ "kind": "InsightActorsQuery", "source": insight }), &place)
}

fn events(source: Value, more: Value) -> Value {
    let query = json!({ "kind": "EventsQuery", "source": source,
        "select": ["event", "distinct_id", "toString(timestamp)"],
        "orderBy": ["timestamp", "uuid"] });
    extended(query, &more)
}

/// The events of a data point as `distinct_id at day hour:minute`.
fn listed(server: &Server, source: Value, more: Value) -> Vec<String> {
    let response = ask(server, events(source, more)).expect(200).json();
    assert_eq!(response["hasMore"], json!(false));
    let row = |row: &Value| {
        let at = row[2].as_str().unwrap();
        format!("{} {} {}", row[0].as_str().unwrap(), row[1].as_str().unwrap(), &at[8..16])
    };
    response["results"].as_array().unwrap().iter().map(row).collect()
}

/// What a math makes of the events' distinct ids, groups, sessions and amounts.
fn number_of(server: &Server, math: &str, source: Value) -> f64 {
    let column = match math {
        "total" | "first_time_for_user" | "first_matching_event_for_user" => "count()",
        "unique_group" => "count(distinct $group_0)",
        "unique_session" => "count(distinct properties.$session_id)",
        "sum" => "sum(toFloat(properties.amount))",
        "max" => "max(toFloat(properties.amount))",
        _ => "count(distinct distinct_id)",
    };
    let query = json!({ "kind": "EventsQuery", "source": source, "select": [column] });
    let response = ask(server, query).expect(200).json();
    response["results"][0][0].as_f64().unwrap_or(0.0)
}

#[test]
fn events_of_a_trend_add_up_to_its_numbers() {
    let server = shop();
    let by =
        |name: &str| json!({ "breakdownFilter": { "breakdown": name, "breakdown_type": "event" } });
    let company = json!({ "breakdownFilter":
        { "breakdown": "email", "breakdown_type": "person", "breakdown_limit": 1 } });
    let several = json!({ "breakdownFilter": { "breakdowns": [
        { "property": "browser", "type": "event" }, { "property": "email", "type": "person" }] } });
    let compared = json!({ "compareFilter": { "compare": true },
        "dateRange": { "date_from": "2024-01-02", "date_to": "2024-01-03" } });
    let filtered = json!({ "filterTestAccounts": true,
        "properties": [{ "key": "browser", "operator": "is_not", "value": "Safari" }] });
    let number = json!({ "trendsFilter": { "display": "BoldNumber" } });
    let weekly = json!({ "interval": "week" });
    let mut numbers = 0;
    for math in [
        "total",
        "dau",
        "weekly_active",
        "unique_group",
        "unique_session",
        "sum",
        "max",
        "first_time_for_user",
        "first_matching_event_for_user",
    ] {
        for more in [
            json!({}),
            by("browser"),
            company.clone(),
            several.clone(),
            compared.clone(),
            filtered.clone(),
            number.clone(),
            weekly.clone(),
        ] {
            let mut series = paid(math);
            series[0]["math_group_type_index"] = json!(0);
            if more == json!({}) {
                let all = json!({ "kind": "EventsNode", "math": math, "math_property": "amount",
                    "math_group_type_index": 0 });
                series.as_array_mut().unwrap().push(all);
            }
            let insight = trends(series, more);
            let answer = ask(&server, insight.clone()).expect(200).json();
            for item in answer["results"].as_array().unwrap() {
                let mut place = json!({ "series": item["action"]["order"] });
                for (key, member) in
                    [("breakdown", "breakdown_value"), ("compare", "compare_label")]
                {
                    if !item[member].is_null() {
                        place[key] = item[member].clone();
                    }
                }
                let mut check = |place: Value, expected: &Value| {
                    let found = number_of(&server, math, point(&insight, place.clone()));
                    let expected = expected.as_f64().unwrap();
                    assert_eq!(found, expected, "{math} of {insight} at {place}");
                    numbers += 1;
                };
                match item.get("aggregated_value") {
                    Some(value) => check(place, value),
                    None => {
                        let days = item["days"].as_array().unwrap();
                        for (day, value) in days.iter().zip(item["data"].as_array().unwrap()) {
                            check(extended(place.clone(), &json!({ "day": day })), value);
                        }
                    }
                }
            }
        }
    }
    assert!(numbers > 200, "{numbers}");
}

#[test]
fn events_of_every_kind_of_insight_are_those_that_are_counted() {
    let server = shop();
    let range = json!({ "date_from": "2024-01-01", "date_to": "2024-01-03" });
    let node = |name: &str| json!({ "kind": "EventsNode", "event": name });
    let funnel = json!({ "kind": "FunnelsQuery", "dateRange": range,
        "series": [node("visit"), node("paid")] });
    let retention = json!({ "kind": "RetentionQuery", "dateRange": { "date_to": "2024-01-03" },
        "retentionFilter": { "totalIntervals": 3,
            "targetEntity": { "id": "paid", "type": "events" },
            "returningEntity": { "id": "paid", "type": "events" } } });
    let lifecycle =
        json!({ "kind": "LifecycleQuery", "series": [node("paid")], "dateRange": range });
    let stickiness =
        json!({ "kind": "StickinessQuery", "series": [node("paid")], "dateRange": range });
    let paths = json!({ "kind": "PathsQuery", "dateRange": range,
        "pathsFilter": { "pathStartKey": "1_visit", "pathEndKey": "2_paid" } });
    let mut first = retention.clone();
    first["retentionFilter"]["retentionType"] = json!("retention_first_time");
    let p1 = ["paid p1 01 10:00", "paid p1 01 10:05"];
    for (insight, place, expected) in [
        (
            &funnel,
            json!({ "funnelStep": 1 }),
            vec!["visit p1 01 09:00", "visit p2 01 11:40", "visit p3 02 11:00"],
        ),
        (
            &funnel,
            json!({ "funnelStep": 2 }),
            vec!["visit p1 01 09:00", p1[0], "visit p2 01 11:40", "paid p2 01 12:00"],
        ),
        (&funnel, json!({ "funnelStep": -2 }), vec!["visit p3 02 11:00"]),
        (&retention, json!({ "interval": 0, "day": 0 }), vec![p1[0], p1[1], "paid p2 01 12:00"]),
        (&retention, json!({ "interval": 0, "day": 2 }), vec![p1[0], p1[1], "paid p1 03 10:00"]),
        (&first, json!({ "interval": 0, "day": 2 }), vec![p1[0], "paid p1 03 10:00"]),
        (
            &lifecycle,
            json!({ "day": "2024-01-02", "status": "returning" }),
            vec!["paid p2 02 12:00"],
        ),
        (&lifecycle, json!({ "day": "2024-01-02", "status": "dormant" }), vec![p1[0], p1[1]]),
        (
            &stickiness,
            json!({ "day": 2 }),
            vec![p1[0], p1[1], "paid p2 01 12:00", "paid p2 02 12:00", "paid p1 03 10:00"],
        ),
        (&paths, json!({}), vec!["visit p2 01 11:40", "paid p2 01 12:00"]),
    ] {
        let found = listed(&server, point(insight, place.clone()), json!({}));
        assert_eq!(found, expected, "{insight} at {place}");
    }
    let named = json!({ "kind": "FunnelsActorsQuery", "source": funnel, "funnelStep": 2 });
    let of_p1 = json!({ "where": ["distinct_id = 'p1'"] });
    assert_eq!(listed(&server, named, of_p1), ["visit p1 01 09:00", p1[0]]);
}

#[test]
fn an_events_query_narrows_the_events_of_its_source() {
    let server = shop();
    let insight = trends(paid("total"), json!({}));
    let all = point(&insight, json!({}));
    for (more, expected) in [
        (json!({}), 7),
        (json!({ "after": "all", "before": "2024-01-02" }), 3),
        (json!({ "after": "2024-01-02" }), 4),
        (json!({ "event": "visit" }), 0),
        (json!({ "filterTestAccounts": true }), 6),
        (json!({ "properties": [{ "key": "browser", "value": "Chrome" }] }), 4),
        (json!({ "where": ["properties.amount = 11"] }), 1),
        (json!({ "personId": "00000000-0000-0000-0000-000000000000" }), 0),
    ] {
        assert_eq!(listed(&server, all.clone(), more.clone()).len(), expected, "{more}");
    }
    let page = ask(&server, events(all.clone(), json!({ "limit": 3, "offset": 1 }))).expect(200);
    let page = page.json();
    assert_eq!(page["results"].as_array().unwrap().len(), 3);
    assert_eq!((&page["hasMore"], &page["limit"]), (&json!(true), &json!(3)));
    // Filters of a dashboard apply to the insight, as they do when it is shown there.
    let body = json!({ "query": events(all, json!({ "select": ["count()"], "orderBy": [] })),
        "filters_override": { "date_from": "2024-01-03", "date_to": "2024-01-03",
            "properties": [{ "key": "browser", "value": "Chrome" }] } });
    let response = server.post("/api/projects/1/query/", body).expect(200).json();
    assert_eq!(response["results"], json!([[2]]));
    // It can be saved as an insight.
    let saved = json!({ "query": { "kind": "DataTableNode", "source": events(
        point(&insight, json!({ "day": "2024-01-02" })), json!({})) } });
    let saved = server.post("/api/projects/1/insights/", saved).expect(201).json();
    let path = format!("/api/projects/1/insights/{}/?refresh=blocking", saved["id"]);
    assert_eq!(server.get(&path).expect(200).json()["result"].as_array().unwrap().len(), 1);
}

#[test]
fn invalid_sources_of_events_queries_are_rejected() {
    let server = shop();
    let insight = trends(paid("total"), json!({}));
    for (source, code) in [
        (json!({ "kind": "HogQLQuery", "query": "select 1" }), "parse_error"),
        (json!({ "kind": "ActorsQuery" }), "parse_error"),
        (json!({ "kind": "InsightActorsQuery" }), "parse_error"),
        (json!({ "kind": "FunnelsActorsQuery", "source": insight }), "parse_error"),
        (point(&json!({ "kind": "EventsQuery", "select": [] }), json!({})), "parse_error"),
        (point(&insight, json!({ "strange": 1 })), "parse_error"),
        (point(&insight, json!({ "day": "2025-01-01" })), "invalid_input"),
        (point(&insight, json!({ "day": 3 })), "invalid_input"),
        (point(&insight, json!({ "series": 7 })), "invalid_input"),
        (point(&insight, json!({ "compare": "previous" })), "invalid_input"),
        (
            json!({ "kind": "InsightActorsQuery", "funnelStep": 9, "source": {
                "kind": "FunnelsQuery", "series": [{ "kind": "EventsNode", "event": "visit" },
                    { "kind": "EventsNode", "event": "paid" }] } }),
            "invalid_input",
        ),
    ] {
        let response = ask(&server, events(source.clone(), json!({}))).expect(400).json();
        assert_eq!(response["code"], code, "{source}: {response}");
    }
}
