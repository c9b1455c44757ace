//! Access levels of objects in a project: none, viewer, editor, manager.

use serde_json::{Value, json};

use crate::access::rules::{AccessFixture, KINDS, ids};
use crate::harness::{PERSONAL_KEY, Store, on_both_stores};

on_both_stores! {
    object_access_level_is_enforced,
    access_rules_apply_to_one_resource_kind_only,
    hidden_objects_are_absent_from_lists_and_search,
    flag_definitions_require_access_to_every_flag,
}

/// Rule on the kind or the object, its subject, and the level.
type Rule = (&'static str, &'static str, &'static str);

/// Each kind with its collection and a body to create an object.
fn kinds() -> [(&'static str, &'static str, Value); 4] {
    [
        ("action", "/api/projects/1/actions/", json!({ "name": "a" })),
        ("dashboard", "/api/projects/1/dashboards/", json!({ "name": "a" })),
        ("feature_flag", "/api/projects/1/feature_flags/", json!({ "key": "a" })),
        ("insight", "/api/projects/1/insights/", json!({ "name": "a" })),
    ]
}

fn object_access_level_is_enforced(store: Store) {
    let fixture = AccessFixture::new(store);
    // rules -> access level of the member
    let cases: [(&[Rule], &str); 14] = [
        (&[], "editor"),
        (&[("object", "everybody", "none")], "none"),
        (&[("object", "everybody", "viewer")], "viewer"),
        (&[("object", "everybody", "manager")], "manager"),
        (&[("object", "member", "viewer")], "viewer"),
        (&[("object", "role", "none")], "none"),
        (&[("kind", "everybody", "none")], "none"),
        (&[("kind", "everybody", "viewer")], "viewer"),
        (&[("kind", "role", "manager")], "manager"),
        (&[("kind", "everybody", "none"), ("object", "member", "editor")], "editor"),
        (&[("kind", "member", "manager"), ("object", "everybody", "viewer")], "viewer"),
        (&[("object", "everybody", "none"), ("object", "role", "viewer")], "viewer"),
        (&[("object", "role", "viewer"), ("object", "member", "editor")], "editor"),
        (&[("kind", "everybody", "viewer"), ("kind", "role", "none")], "none"),
    ];
    let changed = json!({ "tags": ["t"] });
    for (kind, collection, made) in kinds() {
        let object = fixture.server.post(collection, made).expect(201).json();
        let at = format!("{collection}{}/", object["id"]);
        let own_rules = format!("{at}access_controls/");
        for (rules, level) in cases {
            for (of, whom, level) in rules {
                let path = if *of == "kind" { KINDS } else { &own_rules };
                fixture.rule(path, whom, json!({ "access_level": level, "resource": kind }));
            }
            let case = format!("{kind} {rules:?}");
            let (sees, edits) = (level != "none", level == "editor" || level == "manager");
            let manages = level == "manager";
            let may = |allowed: bool| if allowed { 200 } else { 403 };
            let read = fixture.get(&at);
            assert_eq!(read.status, may(sees), "{case}: {}", read.text());
            if sees {
                let read = read.json();
                assert_eq!(read["user_access_level"], level, "{case}");
                if let Some(privilege) = read.get("effective_privilege_level") {
                    assert_eq!(*privilege, if edits { 37 } else { 21 }, "{case}");
                }
                if let Some(can_edit) = read.get("can_edit") {
                    assert_eq!(*can_edit, edits, "{case}");
                }
            } else {
                let detail = "You do not have viewer access to this resource.";
                assert_eq!(read.json()["detail"], detail, "{case}");
            }
            let listed = fixture.get(collection).expect(200).json();
            let found = listed["results"].as_array().unwrap();
            let found: Vec<&Value> = found.iter().filter(|one| one["id"] == object["id"]).collect();
            assert_eq!(found.len(), usize::from(sees), "{case}");
            assert_eq!(listed["count"], found.len(), "{case}");
            assert!(found.iter().all(|one| one["user_access_level"] == level), "{case}");
            let response = fixture.call("PATCH", &at, changed.clone());
            assert_eq!(response.status, may(edits), "{case}: {}", response.text());
            assert_eq!(fixture.get(&format!("{at}activity/")).status, may(sees), "{case}");
            let shown = fixture.get(&own_rules);
            assert_eq!(shown.status, may(sees), "{case}");
            if sees {
                assert_eq!(shown.json()["user_access_level"], level, "{case}");
                assert_eq!(shown.json()["user_can_edit_access_levels"], manages, "{case}");
            }
            // Creating depends only on rules of the kind.
            let mut of_kind = rules.iter().filter(|(of, _, _)| *of == "kind").map(|rule| rule.2);
            let makes =
                of_kind.next_back().is_none_or(|level| level == "editor" || level == "manager");
            let body = if kind == "feature_flag" { json!({ "key": "!" }) } else { json!("x") };
            let response = fixture.call("POST", collection, body);
            assert_eq!(
                response.status,
                if makes { 400 } else { 403 },
                "{case}: {}",
                response.text()
            );
            let ruled = json!({ "access_level": "editor", "role": fixture.role });
            assert_eq!(fixture.call("PUT", &own_rules, ruled).status, may(manages), "{case}");
            // Administrators always have access.
            let seen = fixture.server.get(&at).expect(200).json();
            assert_eq!(seen["user_access_level"], "manager", "{case}");
            fixture.clear(&own_rules);
            fixture.clear(KINDS);
        }
        // Creators keep access to their objects.
        let own =
            if kind == "feature_flag" { json!({ "key": "o" }) } else { json!({ "name": "o" }) };
        let own = fixture.call("POST", collection, own).expect(201).json();
        fixture.rule(KINDS, "everybody", json!({ "access_level": "none", "resource": kind }));
        let at = format!("{collection}{}/", own["id"]);
        fixture.call("PATCH", &at, changed.clone()).expect(200);
        assert_eq!(ids(&fixture.get(collection).json()), [own["id"].as_i64().unwrap()]);
        let expected = if kind == "feature_flag" { "editor" } else { "manager" };
        assert_eq!(fixture.get(&at).json()["user_access_level"], expected);
        fixture.clear(KINDS);
    }
}

fn access_rules_apply_to_one_resource_kind_only(store: Store) {
    let fixture = AccessFixture::new(store);
    for (kind, collection, made) in kinds() {
        let object = fixture.server.post(collection, made).expect(201).json();
        let at = format!("{collection}{}/", object["id"]);
        for (other, ..) in kinds().iter().filter(|(other, ..)| *other != kind) {
            fixture.rule(KINDS, "everybody", json!({ "access_level": "none", "resource": other }));
        }
        assert_eq!(fixture.get(&at).expect(200).json()["user_access_level"], "editor", "{kind}");
        fixture.clear(KINDS);
    }
}

fn hidden_objects_are_absent_from_lists_and_search(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let make = |path: &str, body: Value| server.post(path, body).expect(201).json();
    let board = make("/api/projects/1/dashboards/", json!({ "name": "open" }));
    let secret_board = make("/api/projects/1/dashboards/", json!({ "name": "secret board" }));
    let query = json!({ "kind": "HogQLQuery", "query": "select 41 + 1" });
    let insight = |name: &str, on: &Value| {
        let body = json!({ "name": name, "query": query, "dashboards": [on["id"]] });
        make("/api/projects/1/insights/", body)
    };
    let (shown, hidden) = (insight("plain", &board), insight("secret insight", &board));
    insight("inside", &secret_board);
    let action = make("/api/projects/1/actions/", json!({ "name": "secret action" }));
    let flag = make("/api/projects/1/feature_flags/", json!({ "key": "secret-flag" }));
    for (path, object) in [
        ("dashboards", &secret_board),
        ("insights", &hidden),
        ("actions", &action),
        ("feature_flags", &flag),
    ] {
        let path = format!("/api/projects/1/{path}/{}/access_controls/", object["id"]);
        fixture.rule(&path, "everybody", json!({ "access_level": "none" }));
    }
    let board_at = format!("/api/projects/1/dashboards/{}/", board["id"]);
    let secret_at = format!("/api/projects/1/dashboards/{}/", secret_board["id"]);
    let hidden_at = format!("/api/projects/1/insights/{}/", hidden["id"]);
    let named = |tiles: &Value| -> Vec<String> {
        let tiles = tiles["tiles"].as_array().unwrap().iter();
        tiles.map(|tile| tile["insight"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(named(&fixture.get(&board_at).expect(200).json()), ["plain"]);
    assert_eq!(named(&server.get(&board_at).json()).len(), 2);
    for path in [
        format!("{secret_at}collaborators/"),
        format!("{secret_at}sharing/"),
        format!("{secret_at}activity/"),
        format!("{hidden_at}sharing/"),
        format!("{hidden_at}activity/"),
        format!("/api/projects/1/insights/{}/", hidden["short_id"].as_str().unwrap()),
        format!("/api/projects/1/feature_flags/{}/role_access/", flag["id"]),
        format!("/api/projects/1/feature_flags/{}/explain/?distinct_id=x", flag["id"]),
    ] {
        assert_eq!(fixture.get(&path).status, 403, "{path}");
    }
    for path in [
        "/api/projects/1/activity_log/",
        "/api/projects/1/dashboards/activity/",
        "/api/projects/1/insights/activity/",
        "/api/projects/1/actions/activity/",
        "/api/projects/1/feature_flags/activity/",
        "/api/projects/1/feature_flags/my_flags/",
        "/api/projects/1/feature_flags/evaluation_reasons/?distinct_id=x",
        "/api/projects/1/insights/my_last_viewed/",
    ] {
        let seen = fixture.get(path).expect(200).text();
        assert!(!seen.contains("secret"), "{path}: {seen}");
    }
    let log = fixture.get("/api/projects/1/activity_log/").text();
    assert!(log.contains("plain"), "{log}");
    assert!(server.get("/api/projects/1/activity_log/").text().contains("secret"));
    // Copies omit what the caller cannot see.
    let copy = |source: &Value, everything: bool| {
        let body = json!({ "use_dashboard": source["id"], "duplicate_tiles": everything });
        fixture.call("POST", "/api/projects/1/dashboards/", body)
    };
    let refused = copy(&secret_board, true).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input use_dashboard");
    assert_eq!(named(&copy(&board, true).expect(201).json()), ["plain (Copy)"]);
    let own = copy(&board, false).expect(201).json();
    assert_eq!(named(&own), ["plain"]);
    let everything = server.get(&board_at).json();
    let tiles = everything["tiles"].as_array().unwrap();
    let tile = tiles.iter().find(|tile| tile["insight"]["id"] == hidden["id"]).unwrap();
    let own_at = format!("/api/projects/1/dashboards/{}/", own["id"]);
    let body = json!({ "fromDashboardId": board["id"], "tileId": tile["id"] });
    fixture.call("POST", &format!("{own_at}copy_tile/"), body).expect(404);
    let body = json!({ "duplicate_tiles": [{ "id": tile["id"] }] });
    fixture.call("PATCH", &board_at, body).expect(400);
    // Its short id is not found either.
    let ask = |insight: &Value| {
        let query = json!({ "kind": "SavedInsightNode", "shortId": insight["short_id"] });
        fixture.call("POST", "/api/projects/1/query/", json!({ "query": query }))
    };
    assert_eq!(ask(&shown).expect(200).json()["results"], json!([[42]]));
    ask(&hidden).expect(400);
    let query = json!({ "kind": "SavedInsightNode", "shortId": hidden["short_id"] });
    let through = make("/api/projects/1/insights/", json!({ "query": query }))["id"].clone();
    let through = format!("/api/projects/1/insights/{through}/?refresh=blocking");
    fixture.get(&through).expect(400);
    fixture.server.call("GET", &through).key(PERSONAL_KEY).send().expect(200);
}

fn flag_definitions_require_access_to_every_flag(store: Store) {
    let fixture = AccessFixture::new(store);
    let flag = json!({ "key": "f", "is_remote_configuration": true,
        "filters": { "groups": [{}], "payloads": { "true": "1" } } });
    let flag = fixture.server.post("/api/projects/1/feature_flags/", flag).expect(201).json();
    let definitions = "/api/projects/1/feature_flags/local_evaluation/?token=phc_test";
    let config = format!("/api/projects/1/feature_flags/{}/remote_config/", flag["id"]);
    fixture.get(definitions).expect(200);
    fixture.get(&config).expect(200);
    let rules = format!("/api/projects/1/feature_flags/{}/access_controls/", flag["id"]);
    fixture.rule(&rules, "member", json!({ "access_level": "none" }));
    fixture.get(definitions).expect(403);
    fixture.get("/flags/definitions?token=phc_test").expect(403);
    fixture.get(&config).expect(403);
    fixture.server.call("GET", definitions).key(PERSONAL_KEY).send().expect(200);
    // Access rules do not affect evaluation.
    let body = json!({ "token": "phc_test", "distinct_id": "x" });
    let response =
        fixture.server.call("POST", "/flags/?v=2").no_key().json(body).send().expect(200);
    assert_eq!(response.json()["flags"]["f"]["enabled"], true);
    fixture.rule(&rules, "member", json!({ "access_level": "viewer" }));
    fixture.get(definitions).expect(200);
}
