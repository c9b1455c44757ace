//! The demo project, by request and by command.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::harness::{Instance, Server, Store, on_both_stores};

on_both_stores! {
    demo_project_has_every_kind_of_insight_with_results,
    demo_takes_the_rights_of_creating_a_project,
    demo_command_creates_and_removes_the_project,
}

const DEMO: &str = "/api/projects/1/demo";
const KINDS: [&str; 6] = [
    "FunnelsQuery",
    "LifecycleQuery",
    "PathsQuery",
    "RetentionQuery",
    "StickinessQuery",
    "TrendsQuery",
];

fn project_names(server: &Server) -> Vec<String> {
    let listing = server.get("/api/projects/").expect(200).json();
    let name = |project: &Value| project["name"].as_str().unwrap().to_owned();
    listing["results"].as_array().unwrap().iter().map(name).collect()
}

/// Whether a result counts anything.
fn counts_something(result: &Value) -> bool {
    let counted = ["count", "aggregated_value", "value"];
    match result {
        Value::Array(items) => items.iter().any(counts_something),
        Value::Object(members) => members.iter().any(|(name, value)| {
            let number = value.as_f64().filter(|_| counted.contains(&name.as_str()));
            number.is_some_and(|number| number > 0.0) || counts_something(value)
        }),
        _ => false,
    }
}

/// Computes the dashboard; returns the kinds of its insights and their date ranges.
fn check_dashboard(server: &Server, project: &Value) -> (BTreeSet<String>, Vec<Value>) {
    let (id, dashboard) = (&project["id"], &project["primary_dashboard"]);
    let path = format!("/api/projects/{id}/dashboards/{dashboard}/?refresh=blocking");
    let dashboard = server.get(&path).expect(200).json();
    assert_eq!((&dashboard["name"], &dashboard["pinned"]), (&json!("Shop overview"), &json!(true)));
    let (mut kinds, mut ranges, mut texts) = (BTreeSet::new(), Vec::new(), 0);
    for tile in dashboard["tiles"].as_array().unwrap() {
        let layout = &tile["layouts"]["sm"];
        assert!(layout["x"].as_i64().unwrap() + layout["w"].as_i64().unwrap() <= 12, "{tile}");
        let insight = &tile["insight"];
        if insight.is_null() {
            texts += 1;
            continue;
        }
        let source = &insight["query"]["source"];
        assert!(counts_something(&insight["result"]), "{}: {}", insight["name"], insight["result"]);
        kinds.insert(source["kind"].as_str().unwrap().to_owned());
        ranges.push(source["dateRange"].clone());
    }
    assert!(ranges.len() >= 12 && texts == 1, "{} insights, {texts} texts", ranges.len());
    (kinds, ranges)
}

fn demo_project_has_every_kind_of_insight_with_results(store: Store) {
    let server = store.start();
    server.patch("/api/projects/1/", json!({ "timezone": "Europe/Lisbon" })).expect(200);
    // One that was interrupted is replaced; a project of the user's with the name is left alone.
    let interrupted = json!({
        "name": "Demo shop", "is_demo": true, "completed_snippet_onboarding": false,
    });
    let interrupted = server.post("/api/projects/", interrupted).expect(201).json()["id"].clone();
    let state = format!("/api/projects/{interrupted}/is_generating_demo_data");
    assert_eq!(server.get(&state).expect(200).json(), json!({ "is_generating_demo_data": true }));
    server.post("/api/projects/", json!({ "name": "Demo shop" })).expect(201);

    let project = server.post(DEMO, json!({})).expect(201).json();
    let id = project["id"].clone();
    assert_eq!(project["name"], json!("Demo shop"));
    assert_eq!((&project["is_demo"], &project["ingested_event"]), (&json!(true), &json!(true)));
    assert_eq!(project["timezone"], json!("Europe/Lisbon"));
    server.get(&format!("/api/projects/{interrupted}/")).expect(404);
    assert_eq!(project_names(&server), ["Default project", "Demo shop", "Demo shop"]);
    let api = format!("/api/projects/{id}");
    let state = server.get(&format!("{api}/is_generating_demo_data")).expect(200).json();
    assert_eq!(state, json!({ "is_generating_demo_data": false }));
    for again in [DEMO.to_owned(), format!("{api}/demo/")] {
        assert_eq!(server.post(&again, json!({})).expect(200).json()["id"], id);
    }

    let (kinds, ranges) = check_dashboard(&server, &project);
    assert_eq!(kinds, KINDS.map(str::to_owned).into());
    assert!(ranges.iter().all(|range| range["date_from"].as_str().unwrap().starts_with('-')));
    check_objects(&server, &api);
    check_flag_values(&server, &api, project["api_token"].as_str().unwrap());

    server.delete(&format!("{api}/")).expect(204);
    server.get(&format!("{api}/")).expect(404);
    server.get(&format!("{api}/events/")).expect(404);
    assert_eq!(project_names(&server), ["Default project", "Demo shop"]);
    let event = json!({ "api_key": project["api_token"], "event": "e", "distinct_id": "d" });
    server.call("POST", "/capture/").no_key().json(event).send().expect(401);
}

/// Everything that the events show, and that the acting user is logged as its author.
fn check_objects(server: &Server, api: &str) {
    let totals = "select count(), count(distinct person_id), uniq($group_0) from events";
    let query = json!({ "query": { "kind": "HogQLQuery", "query": totals } });
    let row = server.post(&format!("{api}/query/"), query).expect(200).json()["results"][0].clone();
    let [events, persons, companies] = [0, 1, 2].map(|nth| row[nth].as_i64().unwrap());
    assert!((20_000..=30_000).contains(&events), "{events} events");
    assert!((1_300..=1_700).contains(&persons), "{persons} persons");
    assert!((20..=40).contains(&companies), "{companies} companies");
    let count =
        |path: &str| server.get(&format!("{api}/{path}")).expect(200).json()["count"].clone();
    assert_eq!(count("feature_flags/"), 5);
    assert_eq!(count("feature_flags/?active=false"), 1);
    let flags = server.get(&format!("{api}/feature_flags/?active=true")).expect(200).json();
    for flag in flags["results"].as_array().unwrap() {
        assert!(flag["last_called_at"].is_string(), "{flag}");
    }
    assert_eq!(count("actions/"), 4);
    assert_eq!(count("annotations/"), 4);
    let is_done = |listing: &Value| {
        let cohorts = listing["results"].as_array().unwrap();
        cohorts.len() == 3 && cohorts.iter().all(|cohort| cohort["is_calculating"] == json!(false))
    };
    let cohorts = server.wait_until(&format!("{api}/cohorts/"), is_done);
    for cohort in cohorts["results"].as_array().unwrap() {
        assert!(cohort["count"].as_i64().unwrap() > 10, "{cohort}");
    }
    let log = server.get(&format!("{api}/activity_log/")).expect(200).json();
    let entries = log["results"].as_array().unwrap();
    assert!(entries.len() > 15, "{log}");
    assert!(entries.iter().all(|entry| entry["user"]["email"] == json!("admin@example.com")));
}

/// Events report the values that the server evaluates for the same ids.
fn check_flag_values(server: &Server, api: &str, token: &str) {
    let called = "select distinct distinct_id, properties.$feature_flag, \
                  properties.$feature_flag_response from events \
                  where event = '$feature_flag_called' order by distinct_id limit 5000";
    let query = json!({ "query": { "kind": "HogQLQuery", "query": called } });
    let rows = server.post(&format!("{api}/query/"), query).expect(200).json();
    let mut keys = BTreeSet::new();
    for row in rows["results"].as_array().unwrap().iter().step_by(37) {
        let [id, key, value] = [0, 1, 2].map(|nth| row[nth].as_str().unwrap());
        // Groups are not part of the request.
        if key == "invoice-export" {
            continue;
        }
        let body = json!({ "token": token, "distinct_id": id });
        let answer = server.call("POST", "/flags/?v=2").no_key().json(body).send().expect(200);
        let flag = &answer.json()["flags"][key];
        let expected = flag["variant"].as_str().map_or(flag["enabled"].to_string(), str::to_owned);
        assert_eq!(value, expected, "{key} of {id}: {flag}");
        keys.insert(key.to_owned());
    }
    assert_eq!(keys.len(), 3, "{keys:?}");
}

fn demo_takes_the_rights_of_creating_a_project(store: Store) {
    let server = store.start();
    test_users::add(&server, "member@example.com", 1);
    let member = test_users::log_in(&server, "member@example.com", test_users::PASSWORD);
    member.write("POST", DEMO, json!({})).expect(403);
    server.call("POST", DEMO).no_key().json(json!({})).send().expect(401);
    server.post("/api/projects/77/demo", json!({})).expect(404);
    for body in [
        json!({ "label": "reads", "scopes": ["project:read"] }),
        json!({ "label": "one project", "scopes": ["*"], "scoped_teams": [1] }),
    ] {
        let key = server.post("/api/personal_api_keys/", body).expect(201).json();
        let key = key["value"].as_str().unwrap();
        server.call("POST", DEMO).key(key).json(json!({})).send().expect(403);
    }
    assert_eq!(project_names(&server), ["Default project"]);
}

fn demo(instance: &Instance, arguments: &[&str]) -> String {
    let (done, printed, logged) = instance.run(&[&["demo"], arguments].concat());
    assert!(done, "{printed}{logged}");
    printed
}

fn demo_command_creates_and_removes_the_project(store: Store) {
    let server = store.start();
    let (done, printed, logged) = server.instance().run(&["demo"]);
    assert!(
        !done && printed.is_empty() && logged.contains("POST /api/projects/{id}/demo"),
        "{logged}"
    );
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    let (done, _, logged) = instance.run(&["demo", "--until", "yesterday"]);
    assert!(!done && logged.contains("--until: yesterday is no time"), "{logged}");

    assert_eq!(demo(&instance, &["--remove"]), "there is no demo project");
    let created = demo(&instance, &["--until", "2025-09-17T15:00:00Z"]);
    assert!(created.starts_with("project   2 \"Demo shop\", created\nevents    2"), "{created}");
    assert!(created.ends_with("open      /project/2/dashboard/1"), "{created}");
    let again = demo(&instance, &[]);
    assert!(again.starts_with("project   2 \"Demo shop\", already there\nopen"), "{again}");

    let server = instance.serve();
    let project = server.post(DEMO, json!({})).expect(200).json();
    let (_, ranges) = check_dashboard(&server, &project);
    assert!(ranges.iter().all(|range| range["date_to"] == json!("2025-09-17")), "{ranges:?}");
    let newest = server.get("/api/projects/2/events/?limit=1").expect(200).json();
    let newest = newest["results"][0]["timestamp"].as_str().unwrap();
    assert!(newest.starts_with("2025-09-17T1") && newest < "2025-09-17T15:00:01", "{newest}");
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");

    assert_eq!(demo(&instance, &["--remove"]), "project   2 \"Demo shop\", removed");
    let server = instance.serve();
    server.get("/api/projects/2/").expect(404);
    assert_eq!(project_names(&server), ["Default project"]);
}
