//! Insights as stored objects: query, dashboards and list filters.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::dashboards::crud::{create as dashboard, path as dashboard_path, tiles};
use crate::harness::{Server, Store, on_both_stores};

const INSIGHTS: &str = "/api/projects/1/insights/";

on_both_stores! {
    insight_query_and_filters_follow_the_last_write,
    saved_insight_reference_cycles_are_rejected,
    insight_has_every_field_that_clients_read,
    insight_query_reads_back_unchanged,
    insight_dashboards_are_its_tiles,
    insight_is_soft_deleted_and_restored,
    change_of_an_older_insight_version_is_refused,
    insight_list_is_filtered_and_ordered,
    my_last_viewed_lists_recent_insights,
    invalid_bodies_name_their_field_and_change_nothing,
    insight_with_an_unanswerable_query_is_rejected,
    annotations_attach_to_insights_and_dashboards,
    insight_changes_are_logged_with_the_short_id,
}

fn create(server: &Server, body: Value) -> Value {
    server.post(INSIGHTS, body).expect(201).json()
}

fn path(insight: &Value) -> String {
    format!("{INSIGHTS}{}/", insight["id"])
}

fn trends() -> Value {
    json!({ "kind": "InsightVizNode", "source": { "kind": "TrendsQuery", "series": [
        { "kind": "EventsNode", "event": "$pageview", "math": "dau" },
    ] } })
}

fn insight_query_and_filters_follow_the_last_write(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "query": trends() }));
    let old = json!({ "insight": "TRENDS", "events": [{ "id": "buy" }] });
    for (sent, query, filters) in [
        (json!({ "filters": {} }), trends(), json!({})),
        (json!({ "filters": old }), Value::Null, old.clone()),
        (json!({ "filters": old, "query": trends() }), trends(), json!({})),
    ] {
        let after = server.patch(&path(&made), sent.clone()).expect(200).json();
        assert_eq!((&after["query"], &after["filters"]), (&query, &filters), "{sent}");
    }
}

// contract: query 101, 105
fn insight_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let made = create(
        &server,
        json!({ "query": trends(), "filters": { "old": 1 }, "_create_in_folder": "x" }),
    );
    for (field, expected) in [
        ("name", json!(null)),
        ("derived_name", json!(null)),
        ("filters", json!({})),
        ("query", trends()),
        ("order", json!(null)),
        ("deleted", json!(false)),
        ("dashboards", json!([])),
        ("dashboard_tiles", json!([])),
        ("last_refresh", json!(null)),
        ("cache_target_age", json!(null)),
        ("next_allowed_client_refresh", json!(null)),
        ("result", json!(null)),
        ("hasMore", json!(null)),
        ("columns", json!(null)),
        ("types", json!(null)),
        ("hogql", json!(null)),
        ("description", json!(null)),
        ("tags", json!([])),
        ("favorited", json!(false)),
        ("saved", json!(false)),
        ("is_sample", json!(false)),
        ("effective_restriction_level", json!(21)),
        ("effective_privilege_level", json!(37)),
        ("user_access_level", json!("manager")),
        ("timezone", json!(null)),
        ("is_cached", json!(false)),
        ("query_status", json!(null)),
        ("alerts", json!([])),
        ("last_viewed_at", json!(null)),
        ("last_modified_at", made["created_at"].clone()),
        ("updated_at", made["created_at"].clone()),
    ] {
        assert_eq!(made.get(field), Some(&expected), "{field}");
    }
    for author in ["created_by", "last_modified_by"] {
        assert_eq!(made[author]["email"], "admin@example.com");
    }
    let short = made["short_id"].as_str().unwrap();
    assert_eq!(short.len(), 8);
    assert!(short.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    assert_eq!(server.get(&path(&made)).expect(200).json(), made);
    assert_eq!(
        server.get(&format!("{INSIGHTS}{short}?refresh=force_cache")).expect(200).json(),
        made
    );
    server.get(&format!("{INSIGHTS}nothere0")).expect(404);
    assert_eq!(server.delete(&path(&made)).expect(405).text(), "");
    server.delete(&format!("{INSIGHTS}999999")).expect(405);
}

fn insight_query_reads_back_unchanged(store: Store) {
    let server = store.start();
    for query in [
        json!({ "kind": "TrendsQuery", "series": [{ "kind": "EventsNode" }], "response": { "z": [3, 1, 2], "a": null, "f": 1.0, "t": "ü \u{1F600}" } }),
        json!({ "kind": "DataTableNode", "source": { "kind": "GroupsQuery", "select": ["key"], "odd": 1 } }),
        json!({ "kind": "DataVisualizationNode", "source": { "kind": "HogQLQuery", "query": "select 1" } }),
        json!({ "kind": "DataTableNode", "source": { "kind": "EventsQuery", "select": ["*"] }, "full": true }),
    ] {
        let made = create(&server, json!({ "query": query }));
        assert_eq!(server.get(&path(&made)).json()["query"].to_string(), query.to_string());
    }
    // Key order and number spelling are preserved, also through a template.
    let text = r#"{"version":12345678901234567890123,"kind":"TrendsQuery","series":[{"name":"ü","kind":"EventsNode"}],"response":{"z":1.0,"b":1E2,"a":-0}}"#;
    let spaced = text.replace(',', " ,\n").replace('ü', "\\u00fc");
    let post = |path: &str, body: String| {
        let sent = server.call("POST", path).header("content-type", "application/json");
        sent.bytes(body.into_bytes()).send()
    };
    let made = post(INSIGHTS, format!("{{\"name\":\"n\",\"query\":{spaced}}}")).expect(201);
    let template = format!(
        r#"{{"template":{{"template_name":"t","dashboard_description":"","dashboard_filters":{{}},"tiles":[{{"type":"ODD"}},{{"type":"INSIGHT","query":{spaced}}}]}}}}"#
    );
    let from_template = "/api/projects/1/dashboards/create_from_template_json/";
    let board = post(from_template, template).expect(200);
    for response in [&made, &server.get(&path(&made.json())), &board] {
        assert!(response.text().contains(&format!("\"query\":{text}")), "{}", response.text());
    }
    // The last of duplicate keys counts and is stored.
    let twice = r#"{"kind":"Nope","kind":"TrendsQuery","series":[{"event":"a","event":"b"}]}"#;
    let once = r#"{"kind":"TrendsQuery","series":[{"event":"b"}]}"#;
    let made = post(INSIGHTS, format!("{{\"query\":{{}},\"query\":{twice}}}")).expect(201);
    for response in [&made, &server.get(&path(&made.json()))] {
        assert!(response.text().contains(&format!("\"query\":{once}")), "{}", response.text());
    }
    let old = json!({ "insight": "FUNNELS", "events": [{ "id": "a" }, { "id": "b" }] });
    let legacy = create(&server, json!({ "filters": old }));
    assert_eq!((&legacy["filters"], &legacy["query"]), (&old, &json!(null)));
    let asked = server.patch(&path(&legacy), json!({ "query": trends() })).expect(200).json();
    assert_eq!((&asked["filters"], &asked["query"]), (&json!({}), &trends()));
}

// contract: query 103
fn change_of_an_older_insight_version_is_refused(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "a", "query": trends(), "version": 9 }));
    assert_eq!(made["version"], 1);
    let change =
        |sent: Value| server.patch(&path(&made), sent).expect(200).json()["version"].clone();
    assert_eq!(change(json!({ "name": "b" })), 2);
    assert_eq!(change(json!({ "name": "b" })), 2, "nothing changed");
    assert_eq!(change(json!({ "name": "c", "version": 2 })), 3);
    assert_eq!(change(json!({ "tags": ["x"], "version": null })), 4);
    let before = server.get(&path(&made)).json();
    for version in [1, 3, 5] {
        let sent = json!({ "name": "lost", "version": version });
        let refused = server.patch(&path(&made), sent).expect(409);
        assert_eq!(refused.error(), "server_error conflict -");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with("The insight was changed by somebody else"), "{detail}");
    }
    assert_eq!(server.get(&path(&made)).json(), before, "a refused change changes nothing");
    let listed = server.get(INSIGHTS).json();
    assert_eq!(listed["results"][0]["version"], 4);
    let invalid = server.patch(&path(&made), json!({ "version": "four" })).expect(400);
    assert_eq!(invalid.json()["attr"], "version");
    assert_eq!(change(json!({ "deleted": true, "version": 4 })), 5);
    assert_eq!(change(json!({ "deleted": false, "version": 5 })), 6);
    let log = server.get(&format!("{}activity/", path(&made))).json();
    assert!(!log.to_string().contains("\"version\""), "{log}");
}

fn insight_dashboards_are_its_tiles(store: Store) {
    let server = store.start();
    let (one, two) = (dashboard(&server, json!({})), dashboard(&server, json!({})));
    let made = create(&server, json!({ "name": "i", "query": trends() }));
    let put =
        |on: Value| server.patch(&path(&made), json!({ "dashboards": on })).expect(200).json();
    let on = put(json!([one["id"]]));
    assert_eq!(on["dashboards"], json!([one["id"]]));
    let tile = on["dashboard_tiles"][0]["id"].clone();
    assert_eq!(
        on["dashboard_tiles"],
        json!([{ "id": tile, "dashboard_id": one["id"], "deleted": false }])
    );
    let shown = server.get(&dashboard_path(&one)).json();
    assert_eq!(
        (&shown["tiles"][0]["id"], &shown["tiles"][0]["insight"]["name"]),
        (&tile, &json!("i"))
    );
    let layouts = json!({ "sm": { "x": 1, "y": 2, "w": 3, "h": 4 } });
    let look = json!({ "tiles": [{ "id": tile, "layouts": layouts }] });
    server.patch(&dashboard_path(&one), look).expect(200);
    assert_eq!(put(json!([]))["dashboard_tiles"], json!([]));
    assert_eq!(server.get(&dashboard_path(&one)).json()["tiles"], json!([]));
    let both = put(json!([two["id"], one["id"], one["id"]]));
    assert_eq!(both["dashboards"].as_array().unwrap().len(), 2);
    let shown = server.get(&dashboard_path(&one)).json();
    assert_eq!(
        (&shown["tiles"][0]["id"], &shown["tiles"][0]["layouts"]),
        (&tile, &layouts),
        "revived"
    );

    let sibling = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    let theirs = format!("/api/projects/{}/dashboards", sibling["id"]);
    let theirs = server.post(&theirs, json!({})).expect(201).json();
    for on in [json!([999_999]), json!([theirs["id"]])] {
        let refused = server.patch(&path(&made), json!({ "dashboards": on })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input dashboards");
        assert_eq!(refused.json()["detail"], "Dashboard not found");
    }
    test_users::add(&server, "member@example.com", 1);
    let member = test_users::key_of(&server, "member@example.com", &["*"]);
    server.patch(&dashboard_path(&two), json!({ "restriction_level": 37 })).expect(200);
    let send = |on: Value| {
        server.call("PATCH", &path(&made)).key(&member).json(json!({ "dashboards": on })).send()
    };
    send(json!([one["id"]])).expect(403);
    send(json!([two["id"]])).expect(200);
    let own = server.call("POST", INSIGHTS).key(&member);
    own.json(json!({ "dashboards": [two["id"]] })).send().expect(403);
}

// contract: query 104
fn insight_is_soft_deleted_and_restored(store: Store) {
    let server = store.start();
    let on = dashboard(&server, json!({}));
    let made = create(&server, json!({ "name": "i", "dashboards": [on["id"]] }));
    let hidden = server.patch(&path(&made), json!({ "deleted": true })).expect(200).json();
    assert_eq!(hidden["deleted"], json!(true));
    server.get(&path(&made)).expect(404);
    server.patch(&path(&made), json!({ "name": "x" })).expect(404);
    assert_eq!(server.get(INSIGHTS).json()["count"], 0);
    assert!(tiles(&server.get(&dashboard_path(&on)).json()).is_empty());
    let back = server.patch(&path(&made), json!({ "deleted": 0 })).expect(200).json();
    assert_eq!((&back["name"], &back["dashboards"]), (&json!("i"), &json!([on["id"]])));
    assert_eq!(tiles(&server.get(&dashboard_path(&on)).json()).len(), 1);
}

// contract: query 106
fn insight_list_is_filtered_and_ordered(store: Store) {
    let server = store.start();
    let on = dashboard(&server, json!({}));
    let sql = json!({ "kind": "DataVisualizationNode", "source": { "kind": "HogQLQuery", "query": "select 1" } });
    let first = create(
        &server,
        json!({ "name": "Alpha", "query": trends(), "saved": true, "tags": ["Red"], "order": 2 }),
    );
    create(
        &server,
        json!({ "derived_name": "beta_", "query": sql, "dashboards": [on["id"]], "order": 1 }),
    );
    create(&server, json!({ "name": "gamma", "description": "of alpha", "favorited": true }));
    test_users::add(&server, "member@example.com", 1);
    let member = test_users::key_of(&server, "member@example.com", &["*"]);
    let own = server
        .call("POST", INSIGHTS)
        .key(&member)
        .json(json!({ "name": "delta" }))
        .send()
        .expect(201)
        .json();
    let short = format!("short_id={}", first["short_id"].as_str().unwrap());
    let (dashboards, by) =
        (format!("dashboards=[{}]", on["id"]), format!("created_by={}", own["created_by"]["id"]));
    let name =
        |one: &Value| one["name"].as_str().or(one["derived_name"].as_str()).unwrap().to_owned();
    for (query, expected) in [
        ("", &["beta_", "Alpha", "gamma", "delta"][..]),
        ("order=-created_at", &["delta", "gamma", "beta_", "Alpha"]),
        ("order=name", &["Alpha", "beta_", "delta", "gamma"]),
        (&short, &["Alpha"]),
        ("search=alpha", &["Alpha", "gamma"]),
        ("search=red", &["Alpha"]),
        ("search=beta_", &["beta_"]),
        ("saved=true", &["beta_", "Alpha"]),
        ("favorited=true", &["gamma"]),
        ("user=true", &["beta_", "Alpha", "gamma"]),
        (&by, &["delta"]),
        ("insight=TRENDS", &["Alpha"]),
        ("insight=SQL", &["beta_"]),
        (&dashboards, &["beta_"]),
        ("tags=[%22red%22]", &["Alpha"]),
        ("events=[%22$pageview%22]", &["Alpha"]),
        ("date_from=-1d", &["beta_", "Alpha", "gamma", "delta"]),
        ("date_to=2020-01-01", &[]),
        ("limit=2&offset=1", &["Alpha", "gamma"]),
    ] {
        let listing = server.get(&format!("{INSIGHTS}?{query}")).expect(200).json();
        let found: Vec<String> = listing["results"].as_array().unwrap().iter().map(name).collect();
        assert_eq!(found, expected, "{query}");
    }
    for (query, expected) in [
        ("insight=NOPE", "invalid_choice insight"),
        ("dashboards=5", "invalid_input dashboards"),
        ("tags=x", "invalid_input tags"),
        ("saved=maybe", "invalid_input saved"),
        ("date_from=yesterday", "invalid_input date_from"),
    ] {
        let refused = server.get(&format!("{INSIGHTS}?{query}")).expect(400);
        assert_eq!(refused.error(), format!("validation_error {expected}"), "{query}");
    }
}

fn my_last_viewed_lists_recent_insights(store: Store) {
    let server = store.start();
    let made: Vec<Value> =
        (0..7).map(|number| create(&server, json!({ "name": format!("i{number}") }))).collect();
    let viewed = format!("{INSIGHTS}viewed");
    for insight in &made {
        server.post(&viewed, json!({ "insight_ids": [insight["id"], 999_999] })).expect(201);
    }
    let last = server.get(&format!("{INSIGHTS}my_last_viewed")).expect(200).json();
    let names: Vec<&str> =
        last.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["i6", "i5", "i4", "i3", "i2"]);
    assert!(server.get(&path(&made[0])).json()["last_viewed_at"].is_string());
    assert_eq!(
        server.post(&viewed, json!({})).expect(400).error(),
        "validation_error required insight_ids"
    );
    server.post(&viewed, json!({ "insight_ids": [] })).expect(201);
}

// contract: query 107
fn invalid_bodies_name_their_field_and_change_nothing(store: Store) {
    let server = store.start();
    let known = create(&server, json!({ "name": "known" }));
    for (body, expected) in [
        (json!({ "query": { "kind": "Nope" } }), "invalid_request parse_error query"),
        (json!({ "query": {} }), "invalid_request parse_error query"),
        (json!({ "query": [] }), "invalid_request parse_error query"),
        (json!({ "query": { "kind": "InsightVizNode" } }), "invalid_request parse_error query"),
        // A value that is not a query could never be answered.
        (
            json!({ "query": { "kind": "TrendsQuery", "odd": 1 } }),
            "invalid_request parse_error query",
        ),
        (json!({ "query": { "kind": "HogQLQuery" } }), "invalid_request parse_error query"),
        (
            json!({ "query": { "kind": "TrendsQuery", "series": [] } }),
            "invalid_request parse_error query",
        ),
        (
            json!({ "query": { "kind": "InsightVizNode", "source": { "kind": "FunnelsQuery", "series": 5 } } }),
            "invalid_request parse_error query",
        ),
        (
            json!({ "query": { "kind": "TrendsQuery", "x": "y".repeat(65_536) } }),
            "validation_error max_length query",
        ),
        (json!({ "name": "a".repeat(401) }), "validation_error max_length name"),
        (json!({ "name": 5 }), "validation_error invalid_input name"),
        (json!({ "filters": [] }), "validation_error invalid_input filters"),
        (json!({ "filters": { "insight": "BOGUS" } }), "validation_error invalid_input filters"),
        (json!({ "filters": { "events": "zz" } }), "validation_error invalid_input filters"),
        (json!({ "dashboards": 5 }), "validation_error not_a_list dashboards"),
        (json!({ "dashboards": null }), "validation_error null dashboards"),
        (json!({ "dashboards": ["x"] }), "validation_error invalid_input dashboards__0"),
        (json!({ "dashboards": vec![1; 101] }), "validation_error max_length dashboards"),
        (json!({ "order": "x" }), "validation_error invalid_input order"),
        (json!({ "tags": null }), "validation_error null tags"),
        (json!({ "name": "a\u{0}b" }), "validation_error invalid_input name"),
    ] {
        for refused in [server.post(INSIGHTS, body.clone()), server.patch(&path(&known), body)] {
            assert_eq!(refused.expect(400).error(), expected);
        }
    }
    let lacking = json!({ "query": { "kind": "TrendsQuery" } });
    let told = server.post(INSIGHTS, lacking).expect(400).json()["detail"].clone();
    assert_eq!(told, "series: This field is required.");
    for asked in ["trend/?events=zz", "trend/?insight=BOGUS", "funnel/?actions=[5]"] {
        server.get(&format!("{INSIGHTS}{asked}")).expect(400);
    }
    assert_eq!(server.get(INSIGHTS).json()["results"], json!([known]));
}

// contract: query 107
fn insight_with_an_unanswerable_query_is_rejected(store: Store) {
    let server = store.start();
    let known = create(&server, json!({ "name": "known" }));
    let trend = |series: Value, more: Value| {
        let mut query = json!({ "kind": "TrendsQuery", "series": [series] });
        query.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        query
    };
    let split = |by: Value| trend(json!({}), json!({ "breakdownFilter": by }));
    for query in [
        json!({ "kind": "HogQLQuery", "query": "selec" }),
        json!({ "kind": "EventsQuery", "select": ["count("] }),
        json!({ "kind": "EventsQuery", "select": ["*"], "after": "zz" }),
        json!({ "kind": "ActorsQuery", "orderBy": ["id +"] }),
        json!({ "kind": "LifecycleQuery", "series": [{}, {}] }),
        json!({ "kind": "FunnelsQuery", "series": [] }),
        json!({ "kind": "FunnelsQuery", "series": [{}] }),
        json!({ "kind": "FunnelsQuery", "series": vec![json!({}); 21] }),
        trend(json!({}), json!({ "properties": [{ "key": "frobnicate(1)", "type": "hogql" }] })),
        trend(json!({}), json!({ "trendsFilter": { "formula": "A+" } })),
        trend(json!({ "math": "sum" }), json!({})),
        trend(json!({ "math": "hogql", "math_hogql": "count(" }), json!({})),
        trend(json!({ "math": "hogql", "math_hogql": "properties.a" }), json!({})),
        split(json!({ "breakdown": {} })),
        split(json!({ "breakdowns": [{}] })),
        split(json!({ "breakdown": "a", "breakdown_type": "zz" })),
        split(json!({ "breakdown": "a +", "breakdown_type": "hogql" })),
        split(json!({ "breakdowns": vec![json!({ "property": "a" }); 4] })),
    ] {
        let shown = json!({ "kind": "InsightVizNode", "source": query });
        for refused in [
            server.post(INSIGHTS, json!({ "query": query })),
            server.patch(&path(&known), json!({ "query": shown })),
        ] {
            assert_eq!(refused.expect(400).error(), "invalid_request parse_error query", "{query}");
        }
    }
    for old in [
        json!({ "insight": "LIFECYCLE", "events": [{ "id": "a" }, { "id": "b" }] }),
        json!({ "insight": "FUNNELS", "events": [{ "id": "a" }] }),
        json!({ "insight": "FUNNELS", "events": [{ "id": "a" }, { "id": "b" }], "exclusions": "x" }),
    ] {
        let refused = server.post(INSIGHTS, json!({ "filters": old })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input filters");
    }
    assert_eq!(server.get(INSIGHTS).json()["results"], json!([known]));

    // Missing objects may be created later.
    let cohort = json!({ "key": "id", "type": "cohort", "value": [999_999] });
    let company = json!({ "key": "company.properties.size > 1", "type": "hogql" });
    for query in [
        json!({ "kind": "HogQLQuery", "query": "select company.properties.a from nowhere" }),
        trend(json!({ "kind": "ActionsNode", "id": 999_999 }), json!({ "properties": [cohort] })),
        trend(json!({ "properties": [company] }), json!({})),
        trend(json!({ "math": "hogql", "math_hogql": "sum(company.properties.a)" }), json!({})),
        split(json!({ "breakdown": [999_999], "breakdown_type": "cohort" })),
    ] {
        create(&server, json!({ "query": query }));
    }
    // An override may supply dates.
    let minutes = json!({ "interval": "minute", "dateRange": { "date_from": "-3y" } });
    let long = create(&server, json!({ "query": trend(json!({}), minutes) }));
    let ask = |on_top: &str| server.get(&format!("{}?refresh=blocking{on_top}", path(&long)));
    let told = ask("").expect(400).json()["detail"].as_str().unwrap().to_owned();
    assert!(told.contains("more than 10000 intervals"), "{told}");
    ask("&filters_override=%7B%22date_from%22%3A%22-1h%22%7D").expect(200);
    server.get(&path(&long)).expect(200);
}

fn annotations_attach_to_insights_and_dashboards(store: Store) {
    let server = store.start();
    let on = dashboard(&server, json!({ "name": "d" }));
    let made = create(&server, json!({ "name": "i", "derived_name": "j" }));
    let annotations = "/api/projects/1/annotations/";
    let body = json!({ "scope": "dashboard_item", "dashboard_item": made["id"], "content": "x" });
    let note = server.post(annotations, body).expect(201).json();
    assert_eq!(
        (&note["dashboard_item"], &note["insight_short_id"]),
        (&made["id"], &made["short_id"])
    );
    assert_eq!((&note["insight_name"], &note["insight_derived_name"]), (&json!("i"), &json!("j")));
    let other = server.post(annotations, json!({ "content": "y" })).expect(201).json();
    let listing = server.get(&format!("{annotations}?dashboardItemId={}", made["id"])).json();
    assert_eq!(listing["results"], json!([note]));
    let at = format!("{annotations}{}", other["id"]);
    let refused = server.patch(&at, json!({ "scope": "dashboard" })).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input dashboard_id");
    let body = json!({ "scope": "dashboard", "dashboard_id": on["id"] });
    let moved = server.patch(&at, body).expect(200).json();
    assert_eq!((&moved["dashboard_id"], &moved["dashboard_name"]), (&on["id"], &json!("d")));
    server.patch(&at, json!({ "dashboard_id": 999_999 })).expect(400);
}

fn insight_changes_are_logged_with_the_short_id(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "a" }));
    server.patch(&path(&made), json!({ "name": "b" })).expect(200);
    server.patch(&path(&made), json!({ "name": "b" })).expect(200);
    let log = server.get(&format!("{}activity", path(&made))).expect(200).json();
    assert_eq!(log["total_count"], 2);
    assert_eq!(server.get(&format!("{INSIGHTS}activity")).expect(200).json()["total_count"], 2);
    let entry = &log["results"][0];
    assert_eq!(
        (&entry["activity"], &entry["detail"]["short_id"]),
        (&json!("updated"), &made["short_id"])
    );
    let change = json!({ "type": "Insight", "action": "changed", "field": "name", "before": "a", "after": "b" });
    assert_eq!(entry["detail"]["changes"], json!([change]));
}

fn saved_insight_reference_cycles_are_rejected(store: Store) {
    let server = store.start();
    let made = |query: Value| server.post(INSIGHTS, json!({ "query": query })).expect(201).json();
    let trends = json!({ "kind": "TrendsQuery", "series": [{ "kind": "EventsNode" }] });
    let saved = |one: &Value| json!({ "kind": "SavedInsightNode", "shortId": one["short_id"] });
    let first = made(trends.clone());
    let second = made(saved(&first));
    let path = format!("{INSIGHTS}{}/", first["id"]);
    for circle in [saved(&first), saved(&second)] {
        let refused = server.patch(&path, json!({ "query": circle })).expect(400).json();
        assert_eq!(refused["attr"], "query", "{refused}");
    }
    assert_eq!(server.get(&path).expect(200).json()["query"], trends);
}
