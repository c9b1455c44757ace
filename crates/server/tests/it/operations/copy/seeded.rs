//! A project with something of everything, and what a copy of it must have.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::harness::Server;

pub const KINDS: [&str; 6] =
    ["cohorts", "actions", "dashboards", "insights", "feature_flags", "annotations"];

/// Users, and more event names than fit on a page of a list.
pub fn events() -> Vec<Value> {
    let user = |number: usize| {
        json!({
            "event": format!("event {number}"), "distinct_id": format!("user {number}"),
            "properties": {
                "$groups": {"company": "acme"}, "amount": number,
                "$set": {"plan": if number.is_multiple_of(2) { "pro" } else { "free" }, "age": number},
            },
        })
    };
    let group = json!({
        "event": "$groupidentify", "distinct_id": "user 0",
        "properties": {"$group_type": "company", "$group_key": "acme", "$group_set": {"seats": 20}},
    });
    std::iter::once(group).chain((0..120).map(user)).collect()
}

/// Creates an object and returns its id.
fn made(server: &Server, kind: &str, body: Value) -> Value {
    let object = server.post(&format!("/api/projects/1/{kind}/"), body).expect(201).json();
    object["id"].clone()
}

pub fn seed(server: &Server) {
    server.ingest(&events());
    let action = actions(server);
    let last = cohorts(server, &action);
    flags(server, &last);
    let dashboards: Vec<Value> = (0..4)
        .map(|number| {
            let filters = json!({"date_from": "-14d", "properties": [cohort(&last)]});
            let name = format!("board {number}");
            made(server, "dashboards", json!({"name": name, "tags": ["a"], "filters": filters}))
        })
        .collect();
    let insight = insights(server, &action, &last, &dashboards);
    for dashboard in &dashboards {
        let tiles = json!({"tiles": [
            {"text": {"body": "words"}, "layouts": {"sm": {"x": 0, "y": 9, "w": 12, "h": 1}}},
            {"button_tile": {"url": "https://example.com/", "text": "Go"}},
        ]});
        server.patch(&format!("/api/projects/1/dashboards/{dashboard}/"), tiles).expect(200);
    }
    for number in 0..6 {
        let body =
            json!({"content": format!("note {number}"), "date_marker": "2024-05-01T12:00:00Z"});
        made(server, "annotations", body);
    }
    let on_insight =
        json!({"content": "on it", "scope": "dashboard_item", "dashboard_item": insight});
    made(server, "annotations", on_insight);
    let settings = json!({
        "timezone": "Europe/Vienna", "week_start_day": 1, "test_account_filters": [cohort(&last)],
        "primary_dashboard": dashboards[2],
    });
    server.patch("/api/projects/1/", settings).expect(200);
}

fn cohort(id: &Value) -> Value {
    json!({"type": "cohort", "key": "id", "value": id, "operator": "in"})
}

fn actions(server: &Server) -> Value {
    let ids = (0..8).map(|number| {
        let steps =
            json!([{"event": format!("event {number}"), "url": "/a", "url_matching": "contains"}]);
        made(server, "actions", json!({"name": format!("action {number}"), "steps": steps}))
    });
    ids.collect::<Vec<Value>>()[7].clone()
}

/// A chain of cohorts, each of which contains the one before; one about events; a list of persons.
/// Returns the one but last of the chain.
fn cohorts(server: &Server, action: &Value) -> Value {
    let filters = |conditions: Value| json!({"properties": {"type": "OR", "values": [{"type": "AND", "values": conditions}]}});
    let plan = json!({"type": "person", "key": "plan", "value": ["pro"], "operator": "exact"});
    let mut chain = vec![made(
        server,
        "cohorts",
        json!({"name": "chain 0", "filters": filters(json!([plan]))}),
    )];
    for number in 1..12 {
        let age = json!({"type": "person", "key": "age", "value": number, "operator": "gte"});
        let conditions = json!([cohort(chain.last().unwrap()), age]);
        let name = format!("chain {number}");
        chain.push(made(server, "cohorts", json!({"name": name, "filters": filters(conditions)})));
    }
    let did = json!({
        "type": "behavioral", "value": "performed_event", "event_type": "actions", "key": action,
        "time_value": 30, "time_interval": "day",
    });
    made(server, "cohorts", json!({"name": "did it", "filters": filters(json!([did]))}));
    let fixed = made(server, "cohorts", json!({"name": "a list", "is_static": true}));
    let persons = server.get("/api/projects/1/persons/?limit=200").expect(200).json();
    let ids: Vec<&Value> =
        persons["results"].as_array().unwrap().iter().map(|person| &person["uuid"]).collect();
    assert_eq!(ids.len(), 120);
    let path = format!("/api/projects/1/cohorts/{fixed}/add_persons_to_static_cohort/");
    server.patch(&path, json!({"person_ids": ids})).expect(200);
    chain[10].clone()
}

fn flags(server: &Server, last: &Value) {
    let flag = |key: &str, group: Value, more: Value| {
        let mut body = json!({"key": key, "filters": {"groups": [group]}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        made(server, "feature_flags", body)
    };
    for number in 0..7 {
        let group = json!({"properties": [], "rollout_percentage": number * 15});
        flag(&format!("share-{number}"), group, json!({"tags": ["x"], "name": "by share"}));
    }
    let mut on = flag("depends-0", json!({"rollout_percentage": 100}), json!({}));
    for number in 1..6 {
        let depends = json!({"type": "flag", "key": on.to_string(), "value": true, "operator": "flag_evaluates_to"});
        let group = json!({"properties": [depends], "rollout_percentage": 100});
        on = flag(&format!("depends-{number}"), group, json!({}));
    }
    flag("of-cohort", json!({"properties": [cohort(last)], "rollout_percentage": 70}), json!({}));
    let all = json!({"rollout_percentage": 100});
    flag("by-device", all.clone(), json!({"bucketing_identifier": "device_id"}));
    flag("stays", all.clone(), json!({"ensure_experience_continuity": true}));
    flag("off", all.clone(), json!({"active": false}));
    flag("archived", all.clone(), json!({"active": false, "archived": true}));
    let configured = json!({"filters": {"groups": [all], "payloads": {"true": "[1]"}}, "is_remote_configuration": true});
    flag("configured", json!({}), configured);
    let variants = json!({"filters": {
        "groups": [{"rollout_percentage": 80}],
        "multivariate": {"variants": [
            {"key": "a", "rollout_percentage": 30}, {"key": "b", "rollout_percentage": 70},
        ]},
        "payloads": {"a": "{\"x\":1}"},
    }});
    flag("variants", json!({}), variants);
    let seats = json!({"type": "group", "group_type_index": 0, "key": "seats", "value": 10, "operator": "gt"});
    let of_group = json!({"filters": {
        "aggregation_group_type_index": 0,
        "groups": [{"properties": [seats], "rollout_percentage": 100}],
    }});
    flag("of-group", json!({}), of_group);
}

/// Returns one of them.
fn insights(server: &Server, action: &Value, last: &Value, dashboards: &[Value]) -> Value {
    let made = |name: &str, query: Value, on: &[Value]| {
        made(
            server,
            "insights",
            json!({"name": name, "query": query, "saved": true, "dashboards": on}),
        )
    };
    for number in 0..14 {
        let source = json!({
            "kind": "TrendsQuery",
            "series": [{"kind": "ActionsNode", "id": action}, {"kind": "EventsNode", "event": "event 1"}],
            "properties": [cohort(last)],
        });
        let viz = json!({"kind": "InsightVizNode", "source": source});
        made(&format!("trend {number}"), viz, &dashboards[number % 4..=number % 4]);
    }
    let broken_down = json!({
        "kind": "TrendsQuery", "series": [{"kind": "EventsNode", "event": "event 1"}],
        "breakdownFilter": {"breakdown_type": "cohort", "breakdown": [last, "all"]},
    });
    made("by cohort", json!({"kind": "InsightVizNode", "source": broken_down}), dashboards);
    let statement = format!("select count() from events where person_id in cohort {last}");
    let sql = json!({"kind": "HogQLQuery", "query": statement});
    made("sql", json!({"kind": "DataVisualizationNode", "source": sql}), &dashboards[..1])
}

/// All objects of the kind.
pub fn list(server: &Server, kind: &str) -> Vec<Value> {
    let listed = server.get(&format!("/api/projects/1/{kind}/?limit=1000")).expect(200).json();
    listed["results"].as_array().unwrap().clone()
}

pub fn find(server: &Server, kind: &str, field: &str, value: &str) -> Value {
    let found = list(server, kind).into_iter().find(|object| object[field] == value);
    found.unwrap_or_else(|| panic!("no {value} among the {kind}"))
}

/// How many objects there are of each kind.
pub fn counts(server: &Server) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> =
        KINDS.iter().map(|kind| ((*kind).to_owned(), list(server, kind).len())).collect();
    let tiles = list(server, "dashboards").iter().map(|board| tiles(server, board).len()).sum();
    counts.insert("tiles".into(), tiles);
    counts
}

fn tiles(server: &Server, board: &Value) -> Vec<Value> {
    let board =
        server.get(&format!("/api/projects/1/dashboards/{}/", board["id"])).expect(200).json();
    board["tiles"].as_array().unwrap().clone()
}

/// What must be equal on both sides: everything but ids, users and times of the server.
pub fn objects(server: &Server) -> Vec<(String, Vec<Value>)> {
    let fields: [(&str, &[&str]); 6] = [
        ("cohorts", &["name", "description", "is_static", "count"]),
        ("actions", &["name", "description", "tags", "steps"]),
        ("dashboards", &["name", "description", "tags", "pinned"]),
        ("insights", &["name", "description", "saved", "tags"]),
        (
            "feature_flags",
            &[
                "key",
                "name",
                "active",
                "tags",
                "created_at",
                "ensure_experience_continuity",
                "bucketing_identifier",
                "is_remote_configuration",
            ],
        ),
        ("annotations", &["content", "date_marker", "scope"]),
    ];
    let mut objects: Vec<(String, Vec<Value>)> = fields
        .iter()
        .map(|(kind, fields)| {
            let shown = |object: &Value| -> Value {
                fields.iter().map(|field| ((*field).to_owned(), object[*field].clone())).collect()
            };
            ((*kind).to_owned(), list(server, kind).iter().map(shown).collect())
        })
        .collect();
    let on_tiles = list(server, "dashboards").into_iter().map(|board| {
        let mut shown: Vec<Value> = tiles(server, &board)
            .iter()
            .map(|tile| {
                json!([
                    tile["insight"]["name"],
                    tile["text"]["body"],
                    tile["layouts"],
                    tile["button_tile"]["url"]
                ])
            })
            .collect();
        // Tiles without a place are in the order of their ids.
        shown.sort_by_key(Value::to_string);
        json!([board["name"], shown])
    });
    objects.push(("tiles".into(), on_tiles.collect()));
    let names = list(server, "event_definitions").into_iter().map(|event| event["name"].clone());
    objects.push(("event definitions".into(), names.collect()));
    objects
}
