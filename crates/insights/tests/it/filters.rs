//! Filters, actors and session properties in trends.

use serde_json::{Value as Json, json};

use crate::project::{Project, at, each, with};

fn series(nodes: Json) -> Json {
    json!({
        "kind": "TrendsQuery",
        "series": nodes,
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
    })
}

fn a(math: &str) -> Json {
    series(json!([{"kind": "EventsNode", "event": "a", "math": math}]))
}

// contract: query 73, 74, 75, 76, 77, 79
#[test]
fn property_filters_select_events() {
    let mut project = Project::f1();
    project.test_account_filters =
        json!([{"key": "email", "type": "person", "operator": "not_icontains", "value": "p1@"}]);
    project.cohort(5, "Friends", &[0]);
    project.group(0, "acme", json!({"plan": "pro"}));
    let mut groups = [const { None }; 5];
    groups[0] = Some("acme".to_owned());
    project.row("p3", "a", at("2024-01-02T10:00:00Z"), json!({}), groups);
    let count = |changes: Json| project.run(with(a("total"), changes))[0]["count"].clone();
    assert_eq!(count(json!({"filterTestAccounts": true})), 2);
    let either = json!({"type": "OR", "values": [
        {"key": "$browser", "value": "Safari"}, {"key": "amount", "operator": "gt", "value": 25}]});
    assert_eq!(count(json!({ "properties": either })), 2);
    for (filter, expected) in [
        (json!({"key": "missing", "operator": "is_not", "value": "x"}), 4),
        (json!({"key": "missing", "operator": "is_set", "value": "is_set"}), 0),
        (json!({"key": "id", "type": "cohort", "value": 5}), 2),
        (json!({"key": "id", "type": "cohort", "operator": "not_in", "value": 5}), 2),
        (json!({"key": "email", "type": "person", "value": "p2@me.com"}), 1),
        (json!({"key": "plan", "type": "group", "group_type_index": 0, "value": "pro"}), 1),
    ] {
        assert_eq!(count(json!({ "properties": [filter.clone()] })), expected, "{filter}");
    }
    let regex = json!([{"key": "$browser", "operator": "regex", "value": "("}]);
    project.run_err(with(a("total"), json!({ "properties": regex })));
    let mut own = a("total");
    own["series"][0]["properties"] = json!([{"key": "$browser", "value": "Safari"}]);
    assert_eq!(project.run(own)[0]["count"], 1);
}

// contract: query 80
#[test]
fn unique_groups_and_sessions_are_counted() {
    let mut project = Project::empty();
    for (key, session, time) in [
        ("acme", "s1", "2024-01-01T10:00:00Z"),
        ("acme", "s1", "2024-01-01T10:00:30Z"),
        ("acme", "s2", "2024-01-01T11:00:00Z"),
        ("", "s2", "2024-01-01T11:01:40Z"),
        ("hooli", "", "2024-01-02T10:00:00Z"),
    ] {
        let mut groups = [const { None }; 5];
        groups[0] = Some(key.to_owned()).filter(|key| !key.is_empty());
        project.row("p", "a", at(time), json!({"$session_id": session}), groups);
    }
    let mut query = a("unique_group");
    query["series"][0]["math_group_type_index"] = json!(0);
    assert_eq!(project.run(query)[0]["data"], json!([1, 1, 0]));
    assert_eq!(project.run(a("unique_session"))[0]["data"], json!([2, 0, 0]));
    let by_group = with(a("dau"), json!({"aggregation_group_type_index": 0}));
    assert_eq!(project.run(by_group)[0]["data"], json!([1, 1, 0]));
    let mut query = a("sum");
    query["series"][0]["math_property"] = json!("$session_duration");
    assert_eq!(project.run(query)[0]["data"], json!([130, 0, 0]));
}

#[test]
fn session_properties_come_from_first_and_last_events() {
    let mut project = Project::empty();
    let page = |url: &str| json!({"$session_id": "s1", "$current_url": url});
    for (event, properties, time) in [
        ("$pageview", page("https://x.com/home?a=1"), "2024-01-01T10:00:00Z"),
        ("$pageview", page("https://x.com/buy"), "2024-01-01T10:00:20Z"),
        ("a", json!({"$session_id": "s1", "utm_source": "mail"}), "2024-01-01T10:00:30Z"),
        ("a", json!({"$session_id": "s2"}), "2024-01-01T11:00:00Z"),
        ("a", json!({}), "2024-01-01T12:00:00Z"),
    ] {
        project.event("p", event, time, properties);
    }
    let null = "$$_posthog_breakdown_null_$$";
    let values = |name: &str| {
        let by = json!({"breakdownFilter": {"breakdown": name, "breakdown_type": "session"}});
        each(&project.run(with(a("total"), by)), "breakdown_value")
    };
    assert_eq!(values("$entry_pathname"), ["/home", null]);
    assert_eq!(values("$end_current_url"), ["https://x.com/buy", null]);
    assert_eq!(values("$entry_hostname"), ["x.com", null]);
    assert_eq!(values("$entry_utm_source"), ["mail", null]);
    assert_eq!(values("$session_duration"), ["0", "30", null]);
    assert_eq!(values("$is_bounce"), ["false", "true", null]);
    let by = json!({"breakdownFilter": {"breakdown": "$nope", "breakdown_type": "session"}});
    assert!(project.run_err(with(a("total"), by)).contains("$nope"));
    let mut query = a("max");
    query["series"][0]["math_property"] = json!("$pageview_count");
    query["series"][0]["math_property_type"] = json!("session_properties");
    assert_eq!(project.run(query)[0]["data"], json!([2, 0, 0]));
}

#[test]
fn rolling_windows_know_sessions_before_the_date_range() {
    let mut project = Project::empty();
    for time in ["2023-12-20T10:00:00Z", "2023-12-20T10:10:00Z"] {
        project.event("p", "a", time, json!({"$session_id": "s"}));
    }
    let by = json!({"breakdown": "$session_duration", "breakdown_type": "session"});
    let query = with(a("monthly_active"), json!({ "breakdownFilter": by }));
    for display in ["ActionsLineGraph", "BoldNumber"] {
        let display = json!({"trendsFilter": {"display": display}});
        let found = project.run(with(query.clone(), display));
        assert_eq!(each(&found, "breakdown_value"), ["600"]);
    }
}

#[test]
fn actions_and_group_nodes_can_be_series() {
    let mut project = Project::f1();
    project.action(7, "Either", json!([{"event": "a"}, {"event": "b"}]));
    let found = project.run(series(json!([{"kind": "ActionsNode", "id": 7, "math": "dau"}])));
    assert_eq!((&found[0]["label"], &found[0]["data"]), (&json!("Either"), &json!([2, 1, 1])));
    assert_eq!(
        (&found[0]["action"]["id"], &found[0]["action"]["type"]),
        (&json!(7), &json!("actions"))
    );
    let gone = json!([{"kind": "ActionsNode", "id": 8}, {"kind": "EventsNode", "event": "a"}]);
    assert_eq!(each(&project.run(series(gone)), "label"), ["a"]);
    let nodes = json!([{"kind": "EventsNode", "event": "a"}, {"kind": "EventsNode", "event": "b"}]);
    let group = json!([{"kind": "GroupNode", "operator": "OR", "nodes": nodes}]);
    assert_eq!(project.run(series(group))[0]["data"], json!([3, 1, 1]));
}

#[test]
fn merged_persons_count_once_and_ids_without_a_person_each() {
    let mut project = Project::f1();
    project.person(&["m1", "m2"], "2024-01-01", json!({}));
    for id in ["m1", "m2", "anonymous-1", "anonymous-2", "anonymous-2"] {
        project.event(id, "a", "2024-01-02T10:00:00Z", json!({}));
    }
    assert_eq!(project.run(a("dau"))[0]["data"], json!([2, 3, 1]));
}

// contract: query section 2.5, filters of type session
#[test]
fn session_filters_match_session_properties() {
    let mut project = Project::empty();
    let url = |path: &str| format!("https://shop.example:8080{path}");
    for (session, event, time, more) in [
        (
            "s1",
            "$pageview",
            "2024-01-01T10:00:00Z",
            json!({"$current_url": url("/in?x"), "utm_source": "google", "utm_medium": "cpc"}),
        ),
        ("s1", "a", "2024-01-01T10:00:30Z", json!({"utm_source": "other"})),
        ("s1", "$pageview", "2024-01-01T10:01:00Z", json!({"$current_url": url("/out")})),
        ("s2", "$pageview", "2024-01-02T10:00:00Z", json!({"$current_url": url("/in")})),
        ("s2", "a", "2024-01-02T10:00:05Z", json!({})),
        ("", "a", "2024-01-02T11:00:00Z", json!({})),
    ] {
        let mut properties = more;
        if !session.is_empty() {
            properties["$session_id"] = json!(session);
        }
        project.event("p", event, time, properties);
    }
    for (key, operator, value, expected) in [
        ("$session_duration", "gt", json!(10), json!([1, 0, 0])),
        ("$session_duration", "lt", json!(10), json!([0, 1, 0])),
        ("$session_duration", "is_not_set", json!("is_not_set"), json!([0, 1, 0])),
        ("$session_duration", "is_not", json!(60), json!([0, 2, 0])),
        ("$pageview_count", "exact", json!(2), json!([1, 0, 0])),
        ("$num_uniq_urls", "gte", json!(2), json!([1, 0, 0])),
        ("$is_bounce", "exact", json!(["true"]), json!([0, 1, 0])),
        ("$entry_utm_source", "exact", json!("google"), json!([1, 0, 0])),
        ("$entry_pathname", "exact", json!("/in"), json!([1, 1, 0])),
        ("$entry_hostname", "icontains", json!("SHOP.example"), json!([1, 1, 0])),
        ("$end_pathname", "exact", json!("/out"), json!([1, 0, 0])),
        ("$channel_type", "exact", json!("Paid Search"), json!([1, 0, 0])),
        ("$channel_type", "exact", json!("Direct"), json!([0, 1, 0])),
        ("$start_timestamp", "is_date_after", json!("2024-01-02"), json!([0, 1, 0])),
        ("$end_timestamp", "is_date_before", json!("2024-01-02"), json!([1, 0, 0])),
    ] {
        let filter = json!({"key": key, "type": "session", "operator": operator, "value": value});
        let found = project.run(with(a("total"), json!({ "properties": [filter.clone()] })));
        assert_eq!(found[0]["data"], expected, "{filter}");
        project.test_account_filters = json!([filter]);
        let found = project.run(with(a("total"), json!({ "filterTestAccounts": true })));
        assert_eq!(found[0]["data"], expected, "as a filter for test accounts");
    }
    let wrong = json!([{"key": "$mood", "type": "session", "value": "good"}]);
    let why = project.run_err(with(a("total"), json!({ "properties": wrong })));
    assert!(why.contains("'$mood'"), "{why}");
}

// contract: query section 2.5, is_cleaned_path_exact
#[test]
fn is_cleaned_path_exact_compares_after_path_cleaning() {
    let mut project = Project::empty();
    project.path_cleaning = json!([{"alias": "/<id>", "regex": "/\\d+"}, {"regex": "("}, 17]);
    project.event("p", "a", "2024-01-01T10:00:00Z", json!({"$pathname": "/orders/17/items/3"}));
    project.event("p", "a", "2024-01-02T10:00:00Z", json!({"$pathname": "/orders"}));
    project.event("p", "a", "2024-01-03T10:00:00Z", json!({}));
    for (value, expected) in [
        (json!("/orders/<id>/items/<id>"), json!([1, 0, 0])),
        (json!("/orders/17/items/3"), json!([0, 0, 0])),
        (json!(["/orders", "/x"]), json!([0, 1, 0])),
        (json!([]), json!([1, 1, 1])),
    ] {
        let filter =
            json!({"key": "$pathname", "operator": "is_cleaned_path_exact", "value": value});
        let found = project.run(with(a("total"), json!({ "properties": [filter] })));
        assert_eq!(found[0]["data"], expected, "{value}");
    }
    let nothing = json!([{"key": "$pathname", "operator": "is_cleaned_path_exact"}]);
    assert!(
        project.run_err(with(a("total"), json!({ "properties": nothing }))).contains("a value")
    );
}
