//! Actors queries: all persons or groups, and the drill-down of an insight.

use serde_json::{Value, json};

use crate::harness::{Response, Server, Store};

/// Fixture F1 of the contract, with names and companies.
fn f1() -> Server {
    let server = Store::Sqlite.start();
    let event = |id: &str, name: &str, at: &str| {
        let timestamp = format!("2024-01-{at}:00Z");
        let set = json!({ "email": format!("{id}@me.com") });
        let company = if id == "p1" { "acme" } else { "umbrella" };
        let properties = json!({ "$set": set, "$groups": { "company": company } });
        json!({ "event": name, "distinct_id": id, "timestamp": timestamp, "properties": properties })
    };
    let group = |key: &str| {
        json!({ "event": "$groupidentify", "distinct_id": "p1", "timestamp": "2023-12-01T00:00:00Z",
            "properties": { "$group_type": "company", "$group_key": key,
                "$group_set": { "name": key.to_uppercase() } } })
    };
    server.ingest(&[
        group("acme"),
        group("umbrella"),
        event("p1", "a", "01T10:00"),
        event("p2", "a", "01T12:00"),
        event("p2", "b", "01T13:00"),
        event("p3", "b", "02T10:00"),
        event("p1", "a", "03T09:00"),
        json!({ "event": "a", "distinct_id": "nobody", "timestamp": "2024-01-03T10:00:00Z",
            "properties": { "$process_person_profile": false } }),
    ]);
    server
}

fn ask(server: &Server, query: Value) -> Response {
    server.post("/api/projects/1/query/", json!({ "query": query, "refresh": "force_blocking" }))
}

fn actors(more: Value) -> Value {
    let mut query = json!({ "kind": "ActorsQuery", "select": ["properties.email"] });
    query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    query
}

fn emails(server: &Server, more: Value) -> Vec<String> {
    let response = ask(server, actors(more)).expect(200).json();
    let rows = response["results"].as_array().unwrap();
    rows.iter().map(|row| row[0].as_str().unwrap().replace("@me.com", "")).collect()
}

fn trends(math: &str, more: Value) -> Value {
    let mut query = json!({
        "kind": "TrendsQuery",
        "series": [{ "kind": "EventsNode", "event": "a", "math": math }],
        "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-03" },
    });
    query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    query
}

fn behind(source: Value, point: Value) -> Value {
    let mut own = json!({ "kind": "InsightActorsQuery", "source": source });
    own.as_object_mut().unwrap().extend(point.as_object().unwrap().clone());
    json!({ "source": own, "orderBy": ["properties.email"] })
}

// contract: query section 3.9
#[test]
fn actors_query_filters_searches_and_orders_persons() {
    let server = f1();
    let by_email = json!(["properties.email DESC"]);
    assert_eq!(emails(&server, json!({ "orderBy": by_email })), ["p3", "p2", "p1"]);
    let filter =
        json!({ "key": "email", "operator": "icontains", "value": "P2@", "type": "person" });
    for (more, expected) in [
        (json!({ "properties": [filter.clone()] }), vec!["p2"]),
        (json!({ "fixedProperties": [filter], "search": "p1" }), vec![]),
        (json!({ "search": "P3@me" }), vec!["p3"]),
        (json!({ "search": "p1" }), vec!["p1"]),
        (json!({ "orderBy": by_email, "limit": 1, "offset": 1 }), vec!["p2"]),
    ] {
        assert_eq!(emails(&server, more.clone()), expected, "{more}");
    }
    let response = ask(&server, actors(json!({ "limit": 2, "select": [
        "person", "id", "created_at", "person_display_name -- Person", "upper(properties.email) AS mail",
        "person.$delete"], "orderBy": ["properties.email"] })))
    .expect(200)
    .json();
    assert_eq!(
        response["columns"],
        json!([
            "person",
            "id",
            "created_at",
            "person_display_name -- Person",
            "mail",
            "person.$delete"
        ])
    );
    assert_eq!(response["types"][1], "UUID");
    assert_eq!(
        [
            &response["hasMore"],
            &response["limit"],
            &response["offset"],
            &response["missing_actors_count"]
        ],
        [&json!(true), &json!(2), &json!(0), &Value::Null]
    );
    let row = &response["results"][0];
    assert_eq!(row[0]["distinct_ids"], json!(["p1"]));
    assert_eq!((&row[0]["id"], &row[0]["properties"]["email"]), (&row[1], &json!("p1@me.com")));
    assert_eq!(row[3]["display_name"], "p1@me.com");
    assert_eq!((&row[4], &row[5]), (&json!("P1@ME.COM"), &Value::Null));
    let plain = ask(&server, json!({ "kind": "ActorsQuery" })).expect(200).json();
    assert_eq!(plain["results"].as_array().unwrap().len(), 3);
    assert_eq!(plain["columns"][0], "actor");
    // A static cohort is created from them.
    let list =
        json!({ "is_static": true, "query": actors(json!({ "select": ["id"], "search": "p1" })) });
    let list = server.post("/api/projects/1/cohorts/", list).expect(201).json();
    assert_eq!(list["count"], 1);
}

// contract: query section 3.9
#[test]
fn actors_query_drills_down_into_an_insight() {
    let server = f1();
    for (source, point, expected, missing) in [
        (trends("dau", json!({})), json!({ "day": "2024-01-01" }), vec!["p1", "p2"], 0),
        (trends("dau", json!({})), json!({ "day": "2024-01-02" }), vec![], 0),
        (trends("dau", json!({})), json!({ "day": "2024-01-03", "series": 0 }), vec!["p1"], 1),
        (trends("total", json!({})), json!({}), vec!["p1", "p2"], 1),
        (
            trends(
                "dau",
                json!({ "breakdownFilter": { "breakdown": "email", "breakdown_type": "person" } }),
            ),
            json!({ "breakdown": "p2@me.com" }),
            vec!["p2"],
            0,
        ),
        (
            json!({ "kind": "LifecycleQuery", "series": [{ "kind": "EventsNode", "event": "a" }],
                "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-03" } }),
            json!({ "day": "2024-01-02", "status": "dormant" }),
            vec!["p1", "p2"],
            0,
        ),
        (
            json!({ "kind": "RetentionQuery", "dateRange": { "date_to": "2024-01-03" },
                "retentionFilter": { "totalIntervals": 3, "targetEntity": { "id": "a", "type": "events" },
                    "returningEntity": { "id": "a", "type": "events" } } }),
            json!({ "interval": 0, "day": 2 }),
            vec!["p1"],
            0,
        ),
        (
            json!({ "kind": "StickinessQuery", "series": [{ "kind": "EventsNode", "event": "a" }],
                "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-03" } }),
            json!({ "day": 2 }),
            vec!["p1"],
            0,
        ),
    ] {
        let asked = behind(source, point);
        assert_eq!(emails(&server, asked.clone()), expected, "{asked}");
        let response = ask(&server, actors(asked)).expect(200).json();
        assert_eq!(response["missing_actors_count"], missing);
    }
    let funnel = json!({ "kind": "FunnelsQuery",
        "dateRange": { "date_from": "2024-01-01", "date_to": "2024-01-03" },
        "series": [{ "kind": "EventsNode", "event": "a" }, { "kind": "EventsNode", "event": "b" }] });
    for (step, expected) in [(1, vec!["p1", "p2"]), (2, vec!["p2"]), (-2, vec!["p1"])] {
        let source = json!({ "kind": "FunnelsActorsQuery", "source": funnel, "funnelStep": step });
        let asked = json!({ "source": source, "orderBy": ["properties.email"] });
        assert_eq!(emails(&server, asked), expected, "{step}");
    }
    let counted = json!({ "source": behind(trends("total", json!({})), json!({}))["source"],
        "select": ["properties.email", "event_count"], "orderBy": ["event_count DESC, actor_id DESC"] });
    let response = ask(&server, actors(counted)).expect(200).json();
    assert_eq!(response["results"], json!([["p1@me.com", 2], ["p2@me.com", 1]]));
    assert_eq!(response["types"][1], "UInt64");
    let groups = trends("dau", json!({ "aggregation_group_type_index": 0 }));
    let asked = json!({ "source": { "kind": "InsightActorsQuery", "source": groups, "day": "2024-01-01" },
        "select": ["group", "id", "properties.name"], "orderBy": ["id"] });
    let response = ask(&server, actors(asked)).expect(200).json();
    assert_eq!(response["results"][0][0]["group_key"], "acme");
    let named = |row: &Value| (row[1].clone(), row[2].clone());
    let rows: Vec<_> = response["results"].as_array().unwrap().iter().map(named).collect();
    assert_eq!(rows, [(json!("acme"), json!("ACME")), (json!("umbrella"), json!("UMBRELLA"))]);
}

#[test]
fn invalid_actors_queries_are_rejected() {
    let server = f1();
    for (query, code) in [
        (actors(json!({ "strange": 1 })), "parse_error"),
        (actors(json!({ "source": { "kind": "HogQLQuery" } })), "parse_error"),
        (
            actors(json!({ "source": { "kind": "HogQLQuery", "query": "select 1" } })),
            "invalid_input",
        ),
        (actors(behind(json!({ "kind": "EventsQuery" }), json!({}))), "parse_error"),
        (actors(behind(trends("dau", json!({})), json!({ "strange": 1 }))), "parse_error"),
        (actors(behind(trends("dau", json!({})), json!({ "day": "2025-01-01" }))), "invalid_input"),
        (actors(behind(trends("dau", json!({})), json!({ "series": 7 }))), "invalid_input"),
        (actors(json!({ "select": ["nonsense"] })), "invalid_input"),
        (actors(json!({ "orderBy": ["event_count"] })), "invalid_input"),
        (
            actors(json!({ "properties": [{ "key": "x", "type": "session", "value": 1 }] })),
            "invalid_input",
        ),
    ] {
        let response = ask(&server, query.clone()).expect(400).json();
        assert_eq!(response["code"], code, "{query}: {response}");
    }
}

#[test]
fn data_point_that_is_asked_for_alone_gives_ids_and_numbers_of_events() {
    let server = f1();
    let point = json!({ "kind": "InsightActorsQuery", "source": trends("total", json!({})),
        "day": "2024-01-01" });
    let response = ask(&server, point.clone()).expect(200).json();
    assert_eq!(response["columns"], json!(["actor_id", "event_count"]));
    let listed = ask(&server, actors(json!({ "source": point, "select": ["id", "event_count"] })));
    assert_eq!(response["results"], listed.expect(200).json()["results"]);
    assert_eq!(response["results"].as_array().unwrap().len(), 2);
}

#[test]
fn statement_names_the_persons_of_an_actors_query() {
    let server = f1();
    let ids = |text: &str| {
        let source = json!({ "kind": "HogQLQuery", "query": text, "values": { "event": "b" } });
        let query = actors(json!({ "source": source, "select": ["id"], "orderBy": ["id"] }));
        ask(&server, query).expect(200).json()["results"].clone()
    };
    let named =
        ids("select person_id, count() from events where event = {event} group by person_id");
    assert_eq!(named.as_array().unwrap().len(), 2);
    assert_eq!(ids("select toString(person_id) as actor_id from events where event = 'b'"), named);
    assert_eq!(ids("select distinct_id, person.id as id from events where event = 'b'"), named);
    assert_eq!(ids("select 'nobody' as x"), json!([]));
}
