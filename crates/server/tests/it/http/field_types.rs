//! Valid JSON of the wrong type, in every field of every body.

use serde_json::{Value, json};

use crate::dashboards::crud::{DASHBOARDS, INSIGHTS, create, insight_on, path};
use crate::harness::{Store, on_both_stores};

on_both_stores! {
    array_instead_of_an_object_is_rejected_in_every_body,
    deeply_nested_json_is_rejected_and_the_activity_log_stays_readable,
    nul_character_is_rejected_with_its_field,
    query_with_unreadable_filters_is_not_stored,
    invalid_query_parameter_is_named_in_the_error,
}

const ACTIONS: &str = "/api/projects/1/actions/";
const COHORTS: &str = "/api/projects/1/cohorts/";

fn array_instead_of_an_object_is_rejected_in_every_body(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "d" }));
    insight_on(&server, "i", &[&made]);
    let before = server.get(&path(&made)).expect(200).json();
    let tile = &before["tiles"][0]["id"];
    let move_tile = format!("{}move_tile", path(&made));
    let template = format!("{DASHBOARDS}create_from_template_json");
    let fields = json!(["t", "", {}, [{ "type": "TEXT" }]]);
    let with_tiles = |tiles: Value| {
        json!({ "template": { "template_name": "t", "dashboard_description": "",
            "dashboard_filters": {}, "tiles": tiles } })
    };
    let query = |query: Value| json!({ "query": query });
    let series = json!([{ "kind": "EventsNode" }]);
    for (method, at, body, attr) in [
        ("PATCH", &*move_tile, json!({ "tile": [tile], "toDashboard": 1 }), "tile"),
        ("PATCH", &*path(&made), json!({ "tiles": [[]] }), "tiles__0"),
        ("PATCH", &*path(&made), json!({ "tiles": [{ "text": [null, "x"] }] }), "tiles__0__text"),
        (
            "PATCH",
            &*path(&made),
            json!({ "tiles": [{ "button_tile": ["/x", "x"] }] }),
            "tiles__0__button_tile",
        ),
        ("PATCH", &*path(&made), json!({ "duplicate_tiles": [[tile]] }), "duplicate_tiles__0"),
        ("POST", &*template, json!({ "template": fields }), "template"),
        ("POST", &*template, with_tiles(json!([["TEXT"]])), "template__tiles__0"),
        ("POST", ACTIONS, json!({ "name": "a", "steps": [[]] }), "steps__0"),
        ("POST", ACTIONS, json!({ "name": "a", "steps": [["$pageview"]] }), "steps__0"),
        (
            "POST",
            INSIGHTS,
            query(json!({ "kind": "TrendsQuery", "series": [["EventsNode"]] })),
            "query",
        ),
        (
            "POST",
            INSIGHTS,
            query(json!({ "kind": "TrendsQuery", "series": series, "dateRange": ["-7d"] })),
            "query",
        ),
        (
            "POST",
            INSIGHTS,
            query(json!({ "kind": "TrendsQuery", "series": series, "trendsFilter": [] })),
            "query",
        ),
        (
            "POST",
            INSIGHTS,
            query(json!({ "kind": "HogQLQuery", "query": "select 1", "filters": [] })),
            "query",
        ),
    ] {
        let refused = server.call(method, at).json(body.clone()).send().expect(400).json();
        assert_eq!(refused["attr"], attr, "{body}: {refused}");
        let told = refused["detail"].as_str().unwrap();
        assert!(told.contains("Expected a dictionary of items but got type \"list\"."), "{told}");
    }
    let asked = query(json!({ "kind": "TrendsQuery", "series": [["EventsNode"]] }));
    let refused = server.post("/api/projects/1/query/", asked).expect(400).json();
    assert_eq!(refused["code"], "parse_error");
    let told = "series.0: Expected a dictionary of items but got type \"list\".";
    assert_eq!(refused["detail"], told);
    assert_eq!(server.get(&path(&made)).json()["tiles"], before["tiles"]);
    for (listing, count) in [(DASHBOARDS, 1), (INSIGHTS, 1), (ACTIONS, 0)] {
        assert_eq!(server.get(listing).json()["count"], count);
    }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
}

fn deeply_nested_json_is_rejected_and_the_activity_log_stays_readable(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "d" }));
    let insight = insight_on(&server, "i", &[&made]);
    let insight = format!("{INSIGHTS}{}/", insight["id"]);
    let tile = server.get(&path(&made)).json()["tiles"][0]["id"].clone();
    let leaf = |value: Value| {
        let leaf = json!({ "type": "person", "key": "k", "value": "v", "more": value });
        json!({ "name": "c", "filters": { "properties": { "type": "OR", "values": [leaf] } } })
    };
    let step = |value: Value| json!({ "name": "a", "steps": [{ "properties": [{ "a": value }] }] });
    let query = |value: Value| json!({ "query": { "kind": "InsightVizNode", "source": { "kind": "ActorsQuery" }, "a": value } });
    let overrides = |value: Value| json!({ "tiles": [{ "id": tile, "filters_overrides": value }] });
    let layouts = |value: Value| json!({ "tiles": [{ "id": tile, "layouts": { "sm": value } }] });
    let variables =
        |value: Value| json!({ "variables": { "v": { "code_name": "n", "value": value } } });
    let of = |field: &'static str| move |value: Value| json!({ field: value });
    type Wrap<'w> = &'w dyn Fn(Value) -> Value;
    let cases: [(&str, &str, Wrap<'_>, &str, usize); 9] = [
        ("PATCH", &path(&made), &of("filters"), "filters", 1),
        ("PATCH", &path(&made), &variables, "variables", 3),
        ("PATCH", &path(&made), &overrides, "tiles", 3),
        ("PATCH", &path(&made), &layouts, "tiles", 4),
        ("PATCH", &insight, &of("filters"), "filters", 1),
        ("PATCH", &insight, &query, "query", 2),
        ("POST", COHORTS, &leaf, "filters", 5),
        ("POST", ACTIONS, &step, "steps", 5),
        ("PATCH", "/api/projects/1/", &of("extra_settings"), "extra_settings", 1),
    ];
    for (method, at, wrap, attr, around) in cases {
        let send = |levels| server.call(method, at).json(wrap(nested(levels))).send();
        for levels in [200, 125 - around, 100 - around] {
            let refused = send(levels).expect(400);
            assert_eq!(refused.error(), format!("validation_error invalid_input {attr}"));
            assert_eq!(refused.json()["detail"], "Nested deeper than 100 levels.");
        }
        let kept = send(99 - around);
        assert!(matches!(kept.status, 200 | 201), "{attr}: {}", kept.text());
    }
    let asked = |levels| json!({ "query": { "kind": "HogQLQuery", "query": nested(levels) } });
    for levels in [200, 120] {
        let refused = server.post("/api/projects/1/query/", asked(levels)).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input query");
        assert_eq!(refused.json()["detail"], "Nested deeper than 100 levels.");
    }
    let lists = "[".repeat(100_000).into_bytes();
    let refused = server.call("POST", DASHBOARDS).bytes(lists).send().expect(400);
    assert_eq!(refused.error(), "invalid_request parse_error -", "it is no JSON either");
    assert_eq!(refused.json()["detail"], "Nested deeper than 100 levels.");
    for log in ["activity_log", "activity", "dashboards/activity", "insights/activity"] {
        let log = server.get(&format!("/api/projects/1/{log}")).expect(200).json();
        assert!(!log["results"].as_array().unwrap().is_empty());
    }
}

fn nul_character_is_rejected_with_its_field(store: Store) {
    let server = store.start();
    for (body, attr) in [
        (json!({ "name": "a\0b" }), "name"),
        (json!({ "tags": ["a", "\0"] }), "tags__1"),
        (json!({ "filters": { "a": { "b": [1, "\0"] } } }), "filters__a__b__1"),
        (json!({ "filters": { "\0": 1 } }), "filters"),
        (json!({ "\0": 1 }), "-"),
    ] {
        let refused = server.post(DASHBOARDS, body).expect(400);
        assert_eq!(refused.error(), format!("validation_error invalid_input {attr}"));
        assert_eq!(refused.json()["detail"], "Null characters are not allowed.");
    }
}

fn query_with_unreadable_filters_is_not_stored(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "d" }));
    let insight = insight_on(&server, "i", &[&made]);
    let at = format!("{INSIGHTS}{}/", insight["id"]);
    let before = server.get(&path(&made)).expect(200).json();
    let tile = &before["tiles"][0]["id"];
    let template = format!("{DASHBOARDS}create_from_template_json");
    let of_template = |tile: Value, filters: Value| {
        json!({ "template": { "template_name": "t", "dashboard_description": "",
            "dashboard_filters": filters, "tiles": [tile] } })
    };
    for wrong in [
        json!([["a"]]),
        json!("x"),
        json!(5),
        json!([5]),
        json!({ "type": "AND", "values": 5 }),
        json!({ "type": "AND", "values": [["a"]] }),
        json!({ "type": "XOR", "values": [] }),
        json!([{ "key": "a", "value": 1, "operator": "resembles" }]),
        json!([{ "key": "a", "value": "(", "operator": "regex" }]),
        json!([{ "key": "a", "value": 1, "type": "planet" }]),
        json!([{ "key": "id", "value": "all", "type": "cohort" }]),
        json!([{ "key": "event = ", "type": "hogql" }]),
    ] {
        let node = json!({ "kind": "EventsNode", "properties": wrong });
        let plain = json!({ "kind": "EventsNode" });
        let trend = json!({ "kind": "TrendsQuery", "series": [plain], "properties": wrong });
        for query in [
            trend.clone(),
            json!({ "kind": "InsightVizNode", "source": trend }),
            json!({ "kind": "FunnelsQuery", "series": [plain, node] }),
            json!({ "kind": "EventsQuery", "select": ["*"], "properties": wrong }),
            json!({ "kind": "HogQLQuery", "query": "select 1", "filters": { "properties": wrong } }),
            json!({ "kind": "ActorsQuery", "properties": wrong }),
        ] {
            let tile = json!({ "type": "INSIGHT", "query": query });
            for (method, at, body, attr) in [
                ("POST", INSIGHTS, json!({ "query": query }), "query"),
                ("PATCH", &*at, json!({ "query": query }), "query"),
                ("POST", &*template, of_template(tile, json!({})), "template__tiles__0__query"),
            ] {
                let refused = server.call(method, at).json(body.clone()).send().expect(400);
                let expected = format!("invalid_request parse_error {attr}");
                assert_eq!(refused.error(), expected, "{method} {body}");
            }
        }
        let (old, filters) = (json!({ "properties": wrong }), json!({ "properties": wrong }));
        let tile = json!({ "id": tile, "filters_overrides": filters });
        for (method, at, body, attr) in [
            ("POST", INSIGHTS, json!({ "filters": old }), "filters"),
            ("PATCH", &*path(&made), json!({ "filters": filters }), "filters__properties"),
            (
                "PATCH",
                &*path(&made),
                json!({ "tiles": [tile] }),
                "tiles__0__filters_overrides__properties",
            ),
            (
                "POST",
                &*template,
                of_template(json!({ "type": "TEXT", "body": "x" }), filters),
                "template__dashboard_filters__properties",
            ),
        ] {
            let refused = server.call(method, at).json(body.clone()).send().expect(400);
            let expected = format!("validation_error invalid_input {attr}");
            assert_eq!(refused.error(), expected, "{method} {body}");
        }
    }
    assert_eq!(server.get(&path(&made)).json()["tiles"], before["tiles"]);
    for listing in [DASHBOARDS, INSIGHTS] {
        assert_eq!(server.get(listing).json()["count"], 1);
    }
}

fn invalid_query_parameter_is_named_in_the_error(store: Store) {
    let server = store.start();
    for (path, expected) in [
        ("activity_log/?scopes=Bogus", "invalid_choice scopes"),
        ("activity_log/?scope=Bogus", "invalid_choice scope"),
        ("insights/trend/?events=zz", "invalid_input events"),
        ("insights/trend/?actions=[5]", "invalid_input actions"),
        ("insights/trend/?properties=zz", "invalid_input properties"),
        ("insights/trend/?interval=fortnight", "invalid_input interval"),
        ("insights/path/?step_limit=zz", "invalid_input step_limit"),
        ("insights/funnel/?insight=BOGUS", "invalid_input insight"),
    ] {
        let refused = server.get(&format!("/api/projects/1/{path}")).expect(400);
        assert_eq!(refused.error(), format!("validation_error {expected}"), "{path}");
    }
    for (query, expected) in [
        (json!({ "kind": "HogQLQuery", "query": "x" }), "validation_error invalid_input query"),
        (json!({ "kind": "HogQLQuery", "query": 5 }), "invalid_request parse_error query"),
        (json!(5), "invalid_request parse_error query"),
    ] {
        let body = json!({ "name": "c", "is_static": true, "query": query });
        assert_eq!(server.post(COHORTS, body).expect(400).error(), expected);
    }
}
