//! HogQL expressions in filters, math, breakdowns and actors.

use serde_json::{Value as Json, json};

use crate::project::{Project, at, each, limits, with};

fn trends(node: Json) -> Json {
    json!({
        "kind": "TrendsQuery",
        "series": [node],
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
    })
}

fn math(text: &str) -> Json {
    trends(json!({"kind": "EventsNode", "event": null, "math": "hogql", "math_hogql": text}))
}

// contract: query 78
#[test]
fn hogql_filters_are_conditions() {
    let mut project = Project::f1();
    project.group(0, "acme", json!({"plan": "pro"}));
    let mut groups = [const { None }; 5];
    groups[0] = Some("acme".to_owned());
    project.row("p3", "a", at("2024-01-02T10:00:00Z"), json!({"cart": {"items": [1, 2]}}), groups);
    let count = |text: &str| {
        let filter = json!([{"type": "hogql", "key": text}]);
        let query = with(
            trends(json!({"kind": "EventsNode", "event": "a"})),
            json!({ "properties": filter }),
        );
        project.run(query)[0]["count"].clone()
    };
    for (text, expected) in [
        ("properties.amount > 15", 2),
        ("properties.amount > 15 and person.properties.email = 'p1@me.com'", 1),
        ("properties.$browser ilike '%fari'", 1),
        ("properties.missing is null", 4),
        ("event = 'a' and distinct_id in ('p1', 'p2')", 3),
        ("toHour(timestamp) = 9", 1),
        ("company.properties.plan = 'pro'", 1),
        ("properties.cart.items[2] = '2'", 1),
        ("false", 0),
    ] {
        assert_eq!(count(text), expected, "{text}");
    }
    let broken = json!([{"type": "hogql", "key": "nope = 1"}]);
    let query = with(trends(json!({"kind": "EventsNode"})), json!({ "properties": broken }));
    assert!(project.run_err(query).contains("nope"));
}

#[test]
fn hogql_math_is_an_expression_over_aggregates() {
    let project = Project::f1();
    for (text, expected) in [
        ("sum(properties.amount)", json!([30, 0, 30])),
        ("count()", json!([3, 1, 1])),
        ("count() * 2 + 1", json!([7, 3, 3])),
        ("avg(properties.amount) / 10", json!([1.5, 0, 3])),
        ("max(properties.amount) - min(properties.amount)", json!([10, 0, 0])),
        ("uniq(person_id)", json!([2, 1, 1])),
        ("count(distinct properties.$browser)", json!([2, 0, 1])),
        ("countIf(event = 'b')", json!([1, 1, 0])),
        ("sumIf(properties.amount, properties.$browser = 'Safari')", json!([20, 0, 0])),
        ("count(properties.amount)", json!([2, 0, 1])),
        ("median(properties.amount)", json!([15, 0, 30])),
        ("quantile(0.75)(properties.amount)", json!([17.5, 0, 30])),
        ("countIf(event = 'b') / count()", json!([1.0 / 3.0, 1, 0])),
    ] {
        assert_eq!(project.run(math(text))[0]["data"], expected, "{text}");
    }
    let total =
        with(math("sum(properties.amount)"), json!({"trendsFilter": {"display": "BoldNumber"}}));
    assert_eq!(project.run(total)[0]["aggregated_value"], 60);
    let browser = with(
        math("sum(properties.amount)"),
        json!({"breakdownFilter": {"breakdown": "$browser", "breakdown_limit": 1}}),
    );
    let found = project.run(browser);
    assert_eq!(each(&found, "count"), [40, 20]);
    for text in ["properties.amount", "", "groupArray(event)", "arrayJoin([1])", "count("] {
        project.run_err(math(text));
    }
}

#[test]
fn hogql_breakdowns_and_actors_are_expressions() {
    let project = Project::f1();
    let by = |breakdown: Json| {
        let query = trends(json!({"kind": "EventsNode", "event": "a"}));
        project.run(with(query, json!({ "breakdownFilter": breakdown })))
    };
    let upper = by(json!({"breakdown": "upper(properties.$browser)", "breakdown_type": "hogql"}));
    assert_eq!(each(&upper, "breakdown_value"), ["CHROME", "SAFARI"]);
    assert_eq!(each(&upper, "count"), [2, 1]);
    let plain = by(json!({"breakdown": "properties.$browser", "breakdown_type": "hogql"}));
    assert_eq!(each(&plain, "breakdown_value"), ["Chrome", "Safari"]);
    let large =
        by(json!({"breakdowns": [{"type": "hogql", "property": "properties.amount > 15"}]}));
    assert_eq!(each(&large, "breakdown_value"), [json!(["1"]), json!(["0"])]);
    let null = by(
        json!({"breakdown": "nullIf(properties.$browser, 'Chrome')", "breakdown_type": "hogql"}),
    );
    assert_eq!(each(&null, "breakdown_value"), ["Safari", "$$_posthog_breakdown_null_$$"]);
    let stickiness = json!({
        "kind": "StickinessQuery",
        "series": [{"kind": "EventsNode", "math": "hogql", "math_hogql": "lower(event)"}],
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
    });
    assert_eq!(project.run(stickiness)[0]["data"], json!([0, 2, 0]));
    let paths = json!({
        "kind": "PathsQuery",
        "pathsFilter": {"includeEventTypes": ["hogql"], "pathsHogQLExpression": "upper(event)"},
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
    });
    let mut project = Project::f1();
    project.event("p2", "b", "2024-01-01T12:10:00Z", json!({}));
    assert_eq!(project.run(paths)[0]["target"], "2_B");
}

#[test]
fn hogql_is_rejected_without_a_compiler() {
    let project = Project::f1();
    let run = |query: &Json| {
        let insight = insights::Insight::parse("TrendsQuery", query).unwrap().unwrap();
        assert!(insight.uses_hogql());
        insight.run(&project.view(), &limits())
    };
    assert!(matches!(run(&math("count()")), Err(insights::Error::Invalid(_))));
}
