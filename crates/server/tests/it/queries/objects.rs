//! Statements that read the project's objects: `matchesAction()` and the `system` tables.

use serde_json::{Value, json};

use crate::access::rules::AccessFixture;
use crate::harness::{Server, Store, on_both_stores};
use crate::queries::run::{ask, f1};

on_both_stores! {
    system_tables_hold_the_objects_of_the_project,
    statements_see_no_object_that_is_hidden_from_the_caller,
}

const QUERY: &str = "/api/projects/1/query/";

fn sql(text: &str) -> Value {
    json!({ "query": { "kind": "HogQLQuery", "query": text } })
}

fn rows(server: &Server, text: &str) -> Value {
    ask(server, sql(text)).expect(200).json()["results"].clone()
}

/// One object of each kind with the number 1.
fn fill(server: &Server) {
    let filters = json!({ "properties": { "type": "OR", "values": [
        { "type": "person", "key": "plan", "value": "pro", "operator": "exact" }] } });
    let rollout = json!({ "groups": [{ "properties": [], "rollout_percentage": 40 }] });
    let statement = json!({ "kind": "HogQLQuery", "query": "select 1" });
    for (path, body) in [
        (
            "actions",
            json!({ "name": "Large order", "steps": [{ "event": "a", "properties": [
            { "key": "amount", "type": "event", "operator": "gt", "value": 15 }] }] }),
        ),
        ("annotations", json!({ "content": "launch", "scope": "project" })),
        ("cohorts", json!({ "name": "Pros", "filters": filters })),
        ("dashboards", json!({ "name": "Board" })),
        ("feature_flags", json!({ "key": "beta", "name": "a beta", "filters": rollout })),
        (
            "insights",
            json!({ "name": "Ones", "saved": true, "query": statement,
            "dashboards": [1] }),
        ),
        ("insight_variables", json!({ "name": "Wanted event", "type": "String" })),
    ] {
        server.post(&format!("/api/projects/1/{path}/"), body).expect(201);
    }
}

#[test]
fn actions_select_events_in_statements_and_filters() {
    let server = f1();
    fill(&server);
    let clicks = json!({ "name": "Clicks", "steps": [{ "event": "$autocapture",
        "tag_name": "button", "text": "Buy", "text_matching": "contains" }] });
    server.post("/api/projects/1/actions/", clicks).expect(201);
    let click = |text: &str| {
        json!({ "event": "$autocapture", "distinct_id": "p1", "properties": {
        "$elements": [{ "tag_name": "button", "$el_text": text }, { "tag_name": "form" }] } })
    };
    server.ingest(&[click("Buy now"), click("Sell")]);
    for (text, expected) in [
        ("select count() from events where matchesAction('Large order')", json!([[2]])),
        ("select count() from events where matchesAction(1)", json!([[2]])),
        (
            "select countIf(matchesAction(1)) as large, count() from events where event = 'a'",
            json!([[2, 3]]),
        ),
        (
            "select e.distinct_id from events e join events o on e.uuid = o.uuid \
          where matchesAction('Large order') order by e.distinct_id",
            json!([["p1"], ["p2"]]),
        ),
        ("select count() from events where matchesAction('Clicks')", json!([[1]])),
    ] {
        assert_eq!(rows(&server, text), expected, "{text}");
    }
    let filter = json!([{ "type": "hogql", "key": "matchesAction('Large order')" }]);
    let query = json!({ "kind": "EventsQuery", "select": ["count()"], "after": "all",
        "properties": filter });
    assert_eq!(ask(&server, json!({ "query": query })).expect(200).json()["results"], json!([[2]]));
    let check = json!({ "kind": "HogQLMetadata", "language": "hogQL",
        "query": "select 1 from events where matchesAction('Large order')" });
    assert_eq!(ask(&server, json!({ "query": check })).expect(200).json()["isValid"], true);
    // An edit of the action is seen at once: the result is another.
    server.patch("/api/projects/1/actions/1/", json!({ "steps": [{ "event": "b" }] })).expect(200);
    let forced = json!({ "refresh": "force_blocking", "query": sql(
        "select count() from events where matchesAction('Large order')")["query"] });
    assert_eq!(ask(&server, forced).expect(200).json()["results"], json!([[2]]));
}

fn system_tables_hold_the_objects_of_the_project(store: Store) {
    let server = store.start();
    fill(&server);
    for (text, expected) in [
        (
            "select id, name, deleted, JSONExtractString(steps_json, 1, 'event') from system.actions",
            json!([[1, "Large order", 0, "a"]]),
        ),
        (
            "select content, scope from system.annotations where not deleted",
            json!([["launch", "project"]]),
        ),
        ("select c.name, is_static from system.cohorts c where c.id = 1", json!([["Pros", 0]])),
        (
            "select name, team_id from system.dashboards where name ilike '%boa%'",
            json!([["Board", 1]]),
        ),
        (
            "select t.dashboard_id, i.name from system.dashboard_tiles t \
          join system.insights i on i.id = t.insight_id",
            json!([[1, "Ones"]]),
        ),
        (
            "select key, toInt(rollout_percentage), JSONLength(filters, 'groups') from system.feature_flags",
            json!([["beta", 40, 1]]),
        ),
        (
            "select name, saved, position(query, 'select 1') > 0 from system.insights \
          where saved = 1 and deleted = 0 order by last_modified_at desc",
            json!([["Ones", 1, 1]]),
        ),
        (
            "select code_name, type from system.insight_variables",
            json!([["wanted_event", "String"]]),
        ),
        ("select count() from system.group_type_mappings", json!([[0]])),
        ("select id, timezone from system.teams", json!([[1, "UTC"]])),
        (
            "select count() from events where event in (select name from system.actions)",
            json!([[0]]),
        ),
        ("with f as (select id from system.feature_flags) select count() from f", json!([[1]])),
    ] {
        assert_eq!(rows(&server, text), expected, "{text}");
    }
    let created = rows(&server, "select created_at > now() - interval 1 hour from system.cohorts");
    assert_eq!(created, json!([[1]]));
    // No stale answer after a change.
    server.patch("/api/projects/1/cohorts/1/", json!({ "name": "Paying" })).expect(200);
    assert_eq!(rows(&server, "select name from system.cohorts"), json!([["Paying"]]));
    let tool = json!({ "args": { "query": "select key from system.feature_flags" } });
    let told = server.post("/api/projects/1/mcp_tools/execute_sql/", tool).expect(200).json();
    assert_eq!(
        (&told["success"], told["content"].as_str().unwrap().contains("beta")),
        (&json!(true), true),
        "{told}"
    );
}

fn statements_see_no_object_that_is_hidden_from_the_caller(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    fill(server);
    let count = |table: &str| format!("select count() from system.{table}");
    let action = "select count() from events where matchesAction('Large order')";
    for (table, path) in [
        ("actions", "actions"),
        ("dashboards", "dashboards"),
        ("feature_flags", "feature_flags"),
        ("insights", "insights"),
        ("dashboard_tiles", "insights"),
    ] {
        let seen = || fixture.call("POST", QUERY, sql(&count(table))).expect(200).json();
        assert_eq!(seen()["results"], json!([[1]]), "{table}");
        let rules = format!("/api/projects/1/{path}/1/access_controls/");
        fixture.rule(&rules, "member", json!({ "access_level": "none" }));
        assert_eq!(seen()["results"], json!([[0]]), "{table}");
        assert_eq!(rows(server, &count(table)), json!([[1]]), "the owner sees {table}");
        fixture.clear(&rules);
    }
    let rules = "/api/projects/1/actions/1/access_controls/";
    fixture.call("POST", QUERY, sql(action)).expect(200);
    fixture.rule(rules, "member", json!({ "access_level": "none" }));
    let refused = fixture.call("POST", QUERY, sql(action)).expect(400).json();
    assert!(refused["detail"].as_str().unwrap().contains("Unknown action"), "{refused}");
    // Saved by somebody who may not see it, it could be read by others.
    let saved = json!({ "name": "x", "query": sql(action)["query"] });
    fixture.call("POST", "/api/projects/1/insights/", saved).expect(400);

    let with = |scopes: &[&str], table: &str| {
        server.call("POST", QUERY).key(&server.key(scopes)).json(sql(&count(table))).send()
    };
    let refused = with(&["query:read"], "feature_flags").expect(400).json();
    assert!(refused["detail"].as_str().unwrap().contains("feature_flag:read"), "{refused}");
    with(&["query:read", "feature_flag:read"], "feature_flags").expect(200);
    // A saved insight is read by others than its author.
    let saved =
        json!({ "name": "flags", "saved": true, "query": sql(&count("feature_flags"))["query"] });
    let id = server.post("/api/projects/1/insights/", saved).expect(201).json()["id"].clone();
    let shown = server.get(&format!("/api/projects/1/insights/{id}/?refresh=blocking"));
    assert!(!shown.text().contains("\"result\":[[1]]"));
}
