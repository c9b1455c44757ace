//! Hidden objects do not leak through annotations, the activity log or errors.

use serde_json::{Value, json};

use crate::access::indirect::{ACTIONS, insight_path, tile_of};
use crate::access::rules::AccessFixture;
use crate::dashboards::crud::{DASHBOARDS, INSIGHTS, create, insight_on, path};
use crate::harness::{Response, Store, on_both_stores};

on_both_stores! {
    annotations_of_hidden_objects_are_hidden,
    activity_log_and_errors_do_not_leak_ids_of_hidden_objects,
    hidden_primary_dashboard_reads_as_null_and_is_preserved,
    references_to_hidden_objects_read_back_and_can_be_resent,
    async_query_status_requires_access_to_its_objects,
}

const ANNOTATIONS: &str = "/api/projects/1/annotations/";

fn annotations_of_hidden_objects_are_hidden(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let secret = create(server, json!({ "name": "secret" }));
    let shown = insight_on(server, "i", &[&secret]);
    fixture.limit(DASHBOARDS, &secret, "none");
    let drawn = json!({ "content": "c", "scope": "dashboard", "dashboard_id": secret["id"] });
    let refused = fixture.post(ANNOTATIONS, drawn.clone()).expect(400);
    assert_eq!(refused.error(), "validation_error does_not_exist dashboard_id");
    let drawn = server.post(ANNOTATIONS, drawn).expect(201).json();
    assert_eq!(drawn["dashboard_name"], "secret");
    fixture.limit(INSIGHTS, &shown, "none");
    let drawn_at = format!("{ANNOTATIONS}{}/", drawn["id"]);
    let own = fixture.post(ANNOTATIONS, json!({ "content": "own" })).expect(201).json();
    let own_at = format!("{ANNOTATIONS}{}/", own["id"]);
    let refused = fixture.patch(&own_at, json!({ "dashboard_item": shown["id"] })).expect(400);
    assert_eq!(refused.error(), "validation_error does_not_exist dashboard_item");
    server.patch(&drawn_at, json!({ "dashboard_item": shown["id"] })).expect(200);
    // Annotations of a hidden object are hidden; project-wide ones only lose its reference.
    for scope in ["dashboard", "dashboard_item"] {
        server.patch(&drawn_at, json!({ "scope": scope, "content": "told" })).expect(200);
        fixture.get(&drawn_at).expect(404);
        fixture.patch(&drawn_at, json!({ "content": "d" })).expect(404);
        fixture.get(&format!("{drawn_at}activity/")).expect(404);
        assert_eq!(fixture.get(ANNOTATIONS).expect(200).json()["count"], 1, "{scope}");
        for log in ["annotations/activity/", "activity_log/"] {
            let log = fixture.get(&format!("/api/projects/1/{log}")).expect(200).text();
            assert!(!log.contains("told"), "{scope}: {log}");
        }
        assert_eq!(server.get(&drawn_at).json()["content"], "told");
    }
    server.patch(&drawn_at, json!({ "scope": "project" })).expect(200);
    fixture.patch(&own_at, json!({ "deleted": true })).expect(200);
    let back = json!({ "content": "d", "dashboard_id": null, "dashboard_item": null });
    for seen in [
        fixture.get(&drawn_at).expect(200).json(),
        fixture.get(ANNOTATIONS).expect(200).json()["results"][0].clone(),
        fixture.patch(&drawn_at, back).expect(200).json(),
    ] {
        for name in
            ["dashboard_id", "dashboard_name", "dashboard_item", "insight_name", "insight_short_id"]
        {
            assert_eq!(seen[name], json!(null), "{name}");
        }
    }
    let kept = server.get(&drawn_at).json();
    assert_eq!((&kept["insight_name"], &kept["dashboard_name"]), (&json!("i"), &json!("secret")));
    let log = fixture.get(&format!("{drawn_at}activity/")).expect(200).text();
    assert!(!log.contains("secret"), "{log}");
}

fn activity_log_and_errors_do_not_leak_ids_of_hidden_objects(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let [open, secret] = ["open", "secret"].map(|name| create(server, json!({ "name": name })));
    let [shown, hidden] = ["shown", "hidden"].map(|name| insight_on(server, name, &[&open]));
    let on = json!({ "dashboards": [open["id"], secret["id"]] });
    server.patch(&insight_path(&shown), on).expect(200);
    let tile = tile_of(&server.get(&path(&open)).json(), &hidden);
    let off = json!({ "tiles": [{ "id": tile, "deleted": true }] });
    server.patch(&path(&open), off).expect(200);
    let first = json!({ "primary_dashboard": secret["id"] });
    server.patch("/api/projects/1/", first).expect(200);
    let action = server.post(ACTIONS, json!({ "name": "taken" })).expect(201).json();
    let changed = |field: &str| {
        let log = fixture.get("/api/projects/1/activity_log/").expect(200).json();
        let entries = log["results"].as_array().unwrap().iter();
        let changes = entries.flat_map(|entry| entry["detail"]["changes"].as_array().unwrap());
        let named: Vec<Value> =
            changes.filter(|change| change["field"] == field).cloned().collect();
        named
    };
    assert_eq!(changed("dashboards")[0]["after"], json!([open["id"], secret["id"]]));
    assert_eq!(changed("tiles")[0]["after"][0]["insight"], hidden["id"]);
    assert_eq!(changed("primary_dashboard").len(), 1);
    let again = || fixture.post(ACTIONS, json!({ "name": "taken" })).expect(400).json();
    assert!(again()["detail"].as_str().unwrap().ends_with(&format!("ID {}", action["id"])));

    fixture.limit(DASHBOARDS, &secret, "none");
    fixture.limit(INSIGHTS, &hidden, "none");
    fixture.limit(ACTIONS, &action, "none");
    for field in ["dashboards", "tiles", "primary_dashboard"] {
        assert_eq!(changed(field), Vec::<Value>::new(), "{field}");
    }
    let refused = again();
    assert_eq!(refused["code"], "unique");
    assert_eq!(refused["detail"], "This project already has an action with this name");
}

fn hidden_primary_dashboard_reads_as_null_and_is_preserved(store: Store) {
    const PROJECT: &str = "/api/projects/1/";
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let [open, secret] = ["open", "secret"].map(|name| create(server, json!({ "name": name })));
    let first = |board: &Value| json!({ "primary_dashboard": board["id"] });
    server.patch(PROJECT, first(&secret)).expect(200);
    assert_eq!(fixture.get(PROJECT).json()["primary_dashboard"], secret["id"]);
    fixture.limit(DASHBOARDS, &secret, "none");
    let kept = |expected: &Value| {
        assert_eq!(server.get(PROJECT).json()["primary_dashboard"], *expected);
    };

    let organization = server.get("/api/organizations/@current/").json()["id"].clone();
    let within = format!("/api/organizations/{}/projects/1/", organization.as_str().unwrap());
    for path in [PROJECT, "/api/environments/1/", &within] {
        let seen = fixture.get(path).expect(200).json();
        assert_eq!(seen["primary_dashboard"], json!(null), "{path}");
        for method in ["PATCH", "PUT"] {
            let mut back = seen.clone();
            back["name"] = json!(format!("{method} {path}"));
            let shown = fixture.call(method, path, back.clone()).expect(200).json();
            assert_eq!(shown["primary_dashboard"], json!(null), "{method} {path}");
            assert_eq!(shown["name"], back["name"]);
            kept(&secret["id"]);
        }
    }
    fixture.patch(PROJECT, json!({ "primary_dashboard": null })).expect(200);
    kept(&secret["id"]);
    // Nor can the id be found by trying.
    let [refused, unknown] = [&secret["id"], &json!(999)].map(|id| {
        let refused = fixture.patch(PROJECT, json!({ "primary_dashboard": id })).expect(400).json();
        refused.to_string().replace(&id.to_string(), "?")
    });
    assert_eq!(refused, unknown);

    let shown = fixture.patch(PROJECT, first(&open)).expect(200).json();
    assert_eq!(shown["primary_dashboard"], open["id"]);
    let log = fixture.get(&format!("{PROJECT}activity/")).expect(200).json();
    let change = &log["results"][0]["detail"]["changes"][0];
    assert_eq!((&change["before"], &change["after"]), (&json!(null), &open["id"]));
    fixture.patch(PROJECT, json!({ "primary_dashboard": null })).expect(200);
    kept(&json!(null));
}

fn references_to_hidden_objects_read_back_and_can_be_resent(store: Store) {
    const COHORTS: &str = "/api/projects/1/cohorts/";
    const FLAGS: &str = "/api/projects/1/feature_flags/";
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let action = json!({ "name": "secret", "steps": [{ "event": "signed up" }] });
    let action = server.post(ACTIONS, action).expect(201).json();
    let did = json!({ "type": "behavioral", "key": action["id"], "value": "performed_event",
        "event_type": "actions", "time_value": "30", "time_interval": "day" });
    let filters =
        json!({ "properties": { "type": "OR", "values": [{ "type": "AND", "values": [did] }] } });
    let cohort = json!({ "name": "c", "filters": filters });
    let cohort = server.post(COHORTS, cohort).expect(201).json();
    let flag = server.post(FLAGS, json!({ "key": "secret-flag" })).expect(201).json();
    let usage = server.post(&format!("{FLAGS}{}/dashboard/", flag["id"]), json!({})).expect(200);
    let usage = json!({ "id": usage.json()["usage_dashboard"] });
    fixture.limit(ACTIONS, &action, "none");
    fixture.limit(FLAGS, &flag, "none");

    let at = format!("{COHORTS}{}/", cohort["id"]);
    let mut seen = fixture.get(&at).expect(200).json();
    assert_eq!(seen["filters"], cohort["filters"]);
    seen["name"] = json!("renamed");
    assert_eq!(fixture.patch(&at, seen).expect(200).json()["filters"], cohort["filters"]);
    // A new query on it would reveal its content.
    let with = |more: Value| {
        let mut leaf = did.clone();
        leaf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        leaf
    };
    let hers = json!({ "type": "person", "key": "plan", "value": "pro" });
    for leaves in [
        json!([with(json!({ "time_value": "29" }))]),
        json!([with(json!({ "negation": true }))]),
        json!([with(json!({ "event_filters": [{ "key": "plan", "value": "pro" }] }))]),
        json!([did, with(json!({ "value": "performed_event_first_time" }))]),
        json!([did, hers]),
    ] {
        let asks = json!({ "properties": { "type": "OR", "values": [
            { "type": "AND", "values": leaves }] } });
        let refused = fixture.patch(&at, json!({ "filters": asks })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input filters", "{leaves}");
        assert_eq!(refused.json()["detail"], "There is no such action in this project.");
        assert_eq!(server.get(&at).json()["filters"], cohort["filters"]);
    }
    fixture
        .patch(
            &at,
            json!({ "filters": {
        "properties": { "type": "AND", "values": [hers] } } }),
        )
        .expect(200);
    server.patch(&at, json!({ "filters": cohort["filters"] })).expect(200);
    let mine = json!({ "name": "mine", "filters": cohort["filters"] });
    let refused = fixture.post(COHORTS, mine).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input filters");

    // A usage dashboard has its own access rules.
    fixture.get(&format!("{FLAGS}{}/", flag["id"])).expect(403);
    fixture.get(&path(&usage)).expect(200);
    fixture.limit(DASHBOARDS, &usage, "none");
    fixture.get(&path(&usage)).expect(403);
}

/// Polls until the run has ended.
#[track_caller]
fn poll_until_ended(mut poll: impl FnMut() -> Response) -> Response {
    for _ in 0..500 {
        let response = poll();
        if response.status != 202 {
            return response;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the run does not end");
}

fn async_query_status_requires_access_to_its_objects(store: Store) {
    const QUERY: &str = "/api/projects/1/query/";
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    server.ingest(&[json!({ "event": "signed up", "distinct_id": "a" })]);
    let action = json!({ "name": "secret action", "steps": [{ "event": "signed up" }] });
    let action = server.post(ACTIONS, action).expect(201).json();
    let board = create(server, json!({ "name": "b" }));
    let insight = insight_on(server, "i", &[&board]);
    let at = |id: &Value| format!("{QUERY}{}/", id.as_str().unwrap());
    let unknown = fixture.get(&at(&json!("unknown"))).expect(404).text();
    let ask = |name: &str, query: &Value| json!({ "query": query, "refresh": "force_async", "client_query_id": name });
    let started = |response: Response| at(&response.expect(202).json()["query_status"]["id"]);

    let node = json!({ "kind": "ActionsNode", "id": action["id"] });
    let trend = json!({ "kind": "TrendsQuery", "series": [node],
        "dateRange": { "date_from": "-1d" } });
    let saved = json!({ "kind": "SavedInsightNode", "shortId": insight["short_id"] });
    let through = |path: String| server.get(&format!("{path}?refresh=force_async")).expect(200);
    let of_insight = through(insight_path(&insight)).json();
    let on_board = through(path(&board)).json();
    let on_board = &on_board["tiles"][0]["insight"];
    // An async query, the objects it needs, and where it is stored.
    for (run, object, collection) in [
        (started(server.post(QUERY, ask("of_an_action", &trend))), &action, ACTIONS),
        (started(server.post(QUERY, ask("of_a_name", &saved))), &insight, INSIGHTS),
        (at(&of_insight["query_status"]["id"]), &insight, INSIGHTS),
        (at(&on_board["query_status"]["id"]), &insight, INSIGHTS),
        (at(&on_board["query_status"]["id"]), &board, DASHBOARDS),
    ] {
        let response = poll_until_ended(|| server.get(&run)).expect(200).text();
        assert_eq!(fixture.get(&run).expect(200).text(), response, "{run}");
        fixture.limit(collection, object, "none");
        assert_eq!(fixture.get(&run).expect(404).text(), unknown, "{run}");
        assert_eq!(server.get(&run).expect(200).text(), response, "{run}");
        fixture.limit(collection, object, "viewer");
        assert_eq!(fixture.get(&run).expect(200).text(), response, "{run}");
    }
    // Without access to the action it is not found, and the run is private.
    fixture.limit(ACTIONS, &action, "none");
    let own = started(fixture.post(QUERY, ask("of_the_member", &trend)));
    let own = poll_until_ended(|| fixture.get(&own)).expect(200);
    assert!(!own.text().contains("secret"), "{}", own.text());
    let plain = json!({ "kind": "HogQLQuery", "query": "select count() from events" });
    let plain = started(server.post(QUERY, ask("of_nothing", &plain)));
    poll_until_ended(|| fixture.get(&plain)).expect(200);
}
