//! Limits, needs and overrides of queries.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use insights::{Error, Insight, Overrides, QueryLimits};
use serde_json::{Value as Json, json};

use crate::project::{Project, limits};

const KINDS: [&str; 6] = [
    "TrendsQuery",
    "FunnelsQuery",
    "RetentionQuery",
    "LifecycleQuery",
    "StickinessQuery",
    "PathsQuery",
];

fn query(kind: &str) -> Json {
    let mut query = json!({"dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"}});
    let events =
        ["a", "b"].map(|event| json!({"kind": "EventsNode", "event": event, "math": "dau"}));
    match kind {
        "FunnelsQuery" => query["series"] = json!(events),
        "RetentionQuery" | "PathsQuery" => {}
        _ => query["series"] = json!(events[..1]),
    }
    query
}

fn insight(kind: &str, query: &Json) -> Insight {
    Insight::parse(kind, query).unwrap().unwrap()
}

#[test]
fn every_kind_observes_cancellation() {
    let project = Project::f1();
    let view = project.view();
    for kind in KINDS {
        let insight = insight(kind, &query(kind));
        insight.run(&view, &limits()).unwrap();
        let late = QueryLimits::new(Some(Instant::now()), Arc::default(), usize::MAX);
        assert!(matches!(insight.run(&view, &late), Err(Error::Timeout)), "{kind}");
        let cancelled = QueryLimits::new(None, Arc::new(AtomicBool::new(true)), usize::MAX);
        assert!(matches!(insight.run(&view, &cancelled), Err(Error::Timeout)), "{kind}");
    }
}

#[test]
fn every_kind_observes_the_memory_limit() {
    let mut project = Project::f1();
    project.event("p1", "$pageview", "2024-01-01T10:00:00Z", json!({"$current_url": "/"}));
    let view = project.view();
    for kind in KINDS {
        let little = QueryLimits::new(None, Arc::default(), 7);
        let found = insight(kind, &query(kind)).run(&view, &little);
        assert!(matches!(found, Err(Error::MemoryLimit)), "{kind}: {found:?}");
    }
}

#[test]
fn unknown_kinds_and_unknown_keys_are_rejected() {
    assert!(Insight::parse("HogQLQuery", &json!({})).is_none());
    for kind in KINDS {
        let mut query = query(kind);
        insight(kind, &query);
        query["version"] = json!(3);
        query["tags"] = json!({"scene": "x"});
        query["modifiers"] = json!({"debug": true});
        insight(kind, &query);
        query["frobnicate"] = json!(1);
        let refused = Insight::parse(kind, &query).unwrap();
        assert!(matches!(refused, Err(Error::Parse(why)) if why.contains("frobnicate")), "{kind}");
    }
    for series in [json!([]), json!(null), json!([{"kind": "DataWarehouseNode"}])] {
        let refused = Insight::parse("TrendsQuery", &json!({ "series": series })).unwrap();
        assert!(matches!(refused, Err(Error::Parse(_))), "{series}");
    }
}

#[test]
fn insight_reports_its_needs() {
    let query = json!({
        "series": [
            {"kind": "ActionsNode", "id": 7},
            {"kind": "EventsNode", "event": "a", "properties": [{"type": "cohort", "key": "id", "value": 3}]},
            {"kind": "GroupNode", "nodes": [{"kind": "ActionsNode", "id": 4}]},
        ],
        "properties": {"type": "OR", "values": [{"type": "AND", "values": [{"type": "cohort", "key": "id", "value": "5"}]}]},
        "breakdownFilter": {"breakdown": [9, "all"], "breakdown_type": "cohort"},
    });
    let own = insight("TrendsQuery", &query);
    assert_eq!(own.actions(), [4, 7]);
    assert_eq!(own.cohorts(), [3, 5, 9]);
    assert!(!own.needs().groups && !own.needs().all_cohorts);
    let entity = json!({"id": 8, "type": "actions", "properties": [{"type": "group", "key": "x", "group_type_index": 0}]});
    let retention =
        insight("RetentionQuery", &json!({"retentionFilter": {"targetEntity": entity}}));
    assert_eq!((retention.actions(), retention.needs().groups), (vec![8], true));
}

#[test]
fn overrides_change_the_result() {
    let project = Project::f1();
    let overrides: Overrides = serde_json::from_value(json!({
        "date_from": "2024-01-03",
        "properties": [{"key": "$browser", "value": "Chrome"}],
        "breakdown_filter": {"breakdown": "$browser"},
        "interval": "hour",
    }))
    .unwrap();
    let mut own = insight("TrendsQuery", &query("TrendsQuery"));
    own.apply_filters(&overrides);
    let found = own.run(&project.view(), &limits()).unwrap();
    assert_eq!(
        (&found.results[0]["count"], &found.results[0]["breakdown_value"]),
        (&json!(1), &json!("Chrome"))
    );
    assert_eq!(found.results[0]["days"][0], "2024-01-03 00:00:00");
    assert_eq!(found.resolved.unwrap().0, "2024-01-03T00:00:00Z");
    let all: Overrides = serde_json::from_value(json!({"date_from": "all"})).unwrap();
    let mut compared = query("TrendsQuery");
    compared["compareFilter"] = json!({"compare": true});
    let mut compared = insight("TrendsQuery", &compared);
    compared.apply_filters(&all);
    let found = compared.run(&project.view(), &limits()).unwrap();
    assert_eq!(found.results.as_array().unwrap().len(), 1);
    for kind in KINDS {
        let mut own = insight(kind, &query(kind));
        own.apply_filters(&overrides);
        own.run(&project.view(), &limits()).unwrap();
    }
}
