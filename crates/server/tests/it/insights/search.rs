//! Search over objects of every kind.

use serde_json::{Value, json};

use crate::access::rules::AccessFixture;
use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    search_ranks_objects_of_every_kind,
    search_respects_scopes_and_access_rules,
    invalid_search_is_rejected,
}

const SEARCH: &str = "/api/projects/1/search/";

/// One object of each kind, all about growth.
fn fill(server: &Server) {
    let filters = json!({ "properties": { "type": "OR", "values": [
        { "type": "person", "key": "plan", "value": "pro", "operator": "exact" }] } });
    for (path, body) in [
        ("actions", json!({ "name": "Growth step" })),
        ("cohorts", json!({ "name": "Fast growth", "filters": filters })),
        ("dashboards", json!({ "name": "growth", "description": "all of it" })),
        ("feature_flags", json!({ "key": "growth-flag", "name": "a flag" })),
        ("insights", json!({ "name": "Signups", "description": "of growth 100%" })),
    ] {
        server.post(&format!("/api/projects/1/{path}/"), body).expect(201);
    }
    server.ingest(&[json!({ "event": "growth event", "distinct_id": "a" })]);
}

fn found(response: &Value) -> Vec<(String, f64)> {
    let results = response["results"].as_array().unwrap().iter();
    let kind = |hit: &Value| hit["type"].as_str().unwrap().to_owned();
    results.map(|hit| (kind(hit), hit["rank"].as_f64().unwrap_or(-1.0))).collect()
}

// contract: management 14.2
fn search_ranks_objects_of_every_kind(store: Store) {
    let server = store.start();
    fill(&server);
    let all = server.get(&format!("{SEARCH}?q=GROWTH")).expect(200).json();
    let expected = [
        ("dashboard", 1.0),
        ("action", 0.75),
        ("event_definition", 0.75),
        ("feature_flag", 0.75),
        ("cohort", 0.5),
        ("insight", 0.25),
    ];
    let expected = expected.map(|(kind, rank)| (kind.to_owned(), rank));
    assert_eq!(found(&all), expected);
    let counts = json!({ "action": 1, "cohort": 1, "dashboard": 1, "event_definition": 1,
        "feature_flag": 1, "insight": 1 });
    assert_eq!(all["counts"], counts);
    let hit = |kind: &str| {
        let hits = all["results"].as_array().unwrap();
        hits.iter().find(|hit| hit["type"] == kind).unwrap().clone()
    };
    let flag = hit("feature_flag");
    assert_eq!(flag["extra_fields"], json!({ "key": "growth-flag", "name": "a flag" }));
    let dashboard = hit("dashboard");
    assert_eq!(dashboard["result_id"], "1");
    assert_eq!(dashboard["extra_fields"], json!({ "name": "growth", "description": "all of it" }));
    let insight = server.get("/api/projects/1/insights/").json()["results"][0].clone();
    assert_eq!(hit("insight")["result_id"], insight["short_id"]);

    let of = |query: &str| server.get(&format!("{SEARCH}?{query}")).expect(200).json();
    let two = of("q=growth&entities=dashboard&entities=insight");
    assert_eq!(found(&two).len(), 2);
    assert_eq!((&two["counts"]["dashboard"], &two["counts"]["action"]), (&json!(1), &json!(null)));
    assert_eq!(of("q=growth&entities=dashboard,insight"), two);
    assert_eq!(found(&of("q=growth+fast")).len(), 1, "every word is there");
    assert_eq!(found(&of("q=100%25")).len(), 1, "signs are taken literally");
    assert_eq!(found(&of("q=1_0")).len(), 0);
    assert_eq!(found(&of("q=growth&entities=survey")).len(), 0);
    let everything = of("");
    assert_eq!(found(&everything).len(), 6);
    assert!(found(&everything).iter().all(|(_, rank)| *rank == -1.0));
    let cost = || crate::accounts::organizations::cost(&server, &format!("{SEARCH}?q=growth"));
    let few = cost();
    // Deleted objects are not found; long results are truncated but counted.
    server.patch("/api/projects/1/dashboards/1/", json!({ "deleted": true })).expect(200);
    for number in 0..30 {
        let body = json!({ "name": format!("growth {number:02}") });
        server.post("/api/projects/1/dashboards/", body).expect(201);
    }
    let many = of("q=growth&entities=dashboard");
    assert_eq!((found(&many).len(), &many["counts"]["dashboard"]), (25, &json!(30)));
    assert_eq!(many["results"][24]["extra_fields"]["name"], "growth 24");
    assert_eq!(cost(), few);
}

fn search_respects_scopes_and_access_rules(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    fill(server);
    let kinds =
        |response: &Value| found(response).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    for (path, kind) in [
        ("actions", "action"),
        ("dashboards", "dashboard"),
        ("feature_flags", "feature_flag"),
        ("insights", "insight"),
    ] {
        let rules = format!("/api/projects/1/{path}/1/access_controls/");
        let seen = fixture.get(&format!("{SEARCH}?q=growth")).expect(200).json();
        assert!(kinds(&seen).contains(&kind.to_owned()), "{kind}");
        fixture.rule(&rules, "member", json!({ "access_level": "none" }));
        let seen = fixture.get(&format!("{SEARCH}?q=growth")).expect(200).json();
        assert!(!kinds(&seen).contains(&kind.to_owned()), "{kind}");
        assert_eq!(seen["counts"][kind], 0);
    }
    let with = |scopes: &[&str], query: &str| {
        let path = format!("{SEARCH}?{query}");
        server.call("GET", &path).key(&server.key(scopes)).send()
    };
    with(&["insight:read"], "q=growth").expect(403);
    let scopes = ["project:read", "cohort:read", "dashboard:write"];
    let seen = with(&scopes, "q=growth").expect(200).json();
    assert_eq!(kinds(&seen), ["dashboard", "cohort"]);
    assert_eq!(seen["counts"]["insight"], json!(null));
    let refused = with(&scopes, "q=growth&entities=insight").expect(403).json();
    assert_eq!(refused["detail"], "API key missing required scope 'insight:read'");
}

fn invalid_search_is_rejected(store: Store) {
    let server = store.start();
    for (query, expected) in [
        ("entities=planet".to_owned(), "validation_error invalid_choice entities"),
        ("q=%00".to_owned(), "validation_error invalid_input q"),
        (format!("q={}", "x".repeat(401)), "validation_error max_length q"),
        (format!("entities={}", "insight,".repeat(101)), "validation_error max_length entities"),
    ] {
        let refused = server.get(&format!("{SEARCH}?{query}")).expect(400);
        assert_eq!(refused.error(), expected);
    }
    server.call("GET", SEARCH).no_key().send().expect(401);
}
