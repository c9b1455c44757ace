//! Results of tiles: filter overrides, shared links and errors.

use serde_json::{Value, json};

use crate::dashboards::crud::{DASHBOARDS, INSIGHTS, create, path, tiles};
use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    shared_link_returns_the_dashboards_results,
    tile_filters_merge_with_dashboard_filters,
    failing_tile_reports_its_error,
    malformed_dashboard_filters_are_rejected,
    dashboard_breakdown_is_validated,
    malformed_dashboard_variables_are_rejected,
    insight_accepts_filters_override,
    insights_accept_filters_override_in_bulk,
    refresh_parameter_accepts_only_known_modes,
    dashboard_has_last_refresh,
}

/// Four events with two plans and two browsers.
fn events(server: &Server) {
    let event = |plan: &str, browser: &str| {
        let properties = json!({ "plan": plan, "browser": browser });
        json!({ "event": "seen", "distinct_id": "u1", "properties": properties })
    };
    server.ingest(&[event("pro", "a"), event("pro", "b"), event("free", "a"), event("free", "b")]);
}

fn is(key: &str, value: &str) -> Value {
    json!([{ "key": key, "value": value, "type": "event", "operator": "exact" }])
}

fn asked() -> Value {
    let filter = json!({ "display": "BoldNumber" });
    let series = json!([{ "kind": "EventsNode", "event": "seen" }]);
    json!({ "kind": "TrendsQuery", "series": series, "trendsFilter": filter })
}

fn written() -> Value {
    let query = "select count() from events where event = 'seen' and {filters}";
    json!({ "kind": "HogQLQuery", "query": query })
}

fn listed() -> Value {
    let select = json!(["count()"]);
    json!({ "kind": "EventsQuery", "select": select, "event": "seen", "after": "all" })
}

fn put(server: &Server, on: &Value, query: Value) -> Value {
    let body = json!({ "name": "n", "query": query, "dashboards": [on["id"]] });
    server.post(INSIGHTS, body).expect(201).json()
}

/// The single number of a result.
fn number(result: &Value) -> i64 {
    let cell = &result[0];
    let value = if cell.is_array() { &cell[0] } else { &cell["aggregated_value"] };
    value.as_f64().unwrap_or_else(|| panic!("no number: {result}")) as i64
}

fn numbers(dashboard: &Value) -> Vec<i64> {
    tiles(dashboard).iter().map(|tile| number(&tile["insight"]["result"])).collect()
}

fn override_tiles(server: &Server, on: &Value, filters: &Value) {
    let shown = server.get(&path(on)).expect(200).json();
    let change: Vec<Value> = tiles(&shown)
        .iter()
        .map(|tile| json!({ "id": tile["id"], "filters_overrides": filters }))
        .collect();
    server.patch(&path(on), json!({ "tiles": change })).expect(200);
}

/// Management 7.3: a shared link returns what the dashboard shows.
fn shared_link_returns_the_dashboards_results(store: Store) {
    let server = store.start();
    events(&server);
    let made = create(&server, json!({ "filters": { "properties": is("plan", "pro") } }));
    let insights = [put(&server, &made, asked()), put(&server, &made, written())];
    override_tiles(&server, &made, &json!({ "properties": is("browser", "a") }));
    let sharing = server.patch(&format!("{}sharing", path(&made)), json!({ "enabled": true }));
    let token = sharing.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let get = |path: &str, query: &str| {
        let path = format!("{path}?sharing_access_token={token}{query}");
        server.call("GET", &path).no_key().send().expect(200)
    };
    for insight in &insights {
        let at = format!("{INSIGHTS}{}/", insight["id"]);
        // Cached results without filters are not shown through a link.
        let own = server.get(&format!("{at}?refresh=blocking")).expect(200).json();
        assert_eq!(number(&own["result"]), 4);
        assert_eq!(get(&at, "").json()["result"], json!(null));
        for query in ["&refresh=blocking", "&refresh=true", "", "&refresh=force_cache"] {
            assert_eq!(number(&get(&at, query).json()["result"]), 1, "{query}");
        }
        let own = format!("&refresh=blocking&from_dashboard={}", made["id"]);
        assert_eq!(number(&get(&at, &own).json()["result"]), 1);
        let csv = get(&format!("{INSIGHTS}{}.csv", insight["id"]), "").text();
        assert_eq!(csv.lines().nth(1).unwrap().rsplit(',').next(), Some("1"), "{csv}");
        let seen = server.get(&format!("{at}?refresh=blocking{own}")).expect(200).json();
        assert_eq!(number(&seen["result"]), 1, "as the tile shows it");
    }
    let listing = get(INSIGHTS, "&refresh=blocking").json();
    for insight in listing["results"].as_array().unwrap() {
        assert_eq!(number(&insight["result"]), 1);
    }
    let page = server.call("GET", &format!("/shared/{token}.json")).no_key().send().expect(200);
    assert_eq!(numbers(&page.json()["dashboard"]), [1, 1]);
    // Changed filters apply to the link too.
    server.patch(&path(&made), json!({ "filters": {} })).expect(200);
    let at = format!("{INSIGHTS}{}/", insights[0]["id"]);
    assert_eq!(number(&get(&at, "&refresh=blocking").json()["result"]), 2);
}

// contract: query 7
fn tile_filters_merge_with_dashboard_filters(store: Store) {
    let server = store.start();
    events(&server);
    let made = create(&server, json!({ "filters": { "properties": is("plan", "pro") } }));
    for query in [asked(), written(), listed()] {
        put(&server, &made, query);
    }
    let look = |query: &str| server.get(&format!("{}{query}", path(&made))).expect(200).json();
    assert_eq!(numbers(&look("?refresh=blocking")), [2, 2, 2]);
    override_tiles(&server, &made, &json!({ "properties": is("browser", "a") }));
    assert_eq!(numbers(&look("?refresh=blocking")), [1, 1, 1]);
    // Dates of the tile override the dashboard's; properties are combined.
    let dates = json!({ "date_from": "2020-01-01", "date_to": "2020-01-02" });
    let filters = json!({ "properties": is("plan", "pro"), "date_from": "-1d" });
    server.patch(&path(&made), json!({ "filters": filters })).expect(200);
    assert_eq!(numbers(&look("?refresh=blocking")), [1, 1, 1]);
    override_tiles(&server, &made, &dates);
    assert_eq!(numbers(&look("?refresh=blocking")), [0, 0, 0]);
    // An invalid dashboard filter is rejected; one that becomes invalid fails on every tile.
    let wrong = json!({ "properties": [{ "key": "plan", "operator": "odd", "value": 1 }] });
    let refused = server.patch(&path(&made), json!({ "filters": wrong })).expect(400).json();
    assert_eq!(refused["detail"], "'odd' is not an operator.");
    let lost = json!({ "properties": [{ "type": "cohort", "key": "id", "value": 987_654 }] });
    server.patch(&path(&made), json!({ "filters": lost })).expect(200);
    for tile in tiles(&look("?refresh=blocking")) {
        assert_eq!(tile["error"]["type"], "validation_error", "{tile}");
    }
}

/// Management 6.7: a failing tile is still listed.
fn failing_tile_reports_its_error(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let fine = put(&server, &made, asked());
    let broken =
        put(&server, &made, json!({ "kind": "HogQLQuery", "query": "select nope from events" }));
    let cohort = json!([{ "type": "cohort", "key": "id", "value": 987_654 }]);
    let mut lost = asked();
    lost["properties"] = cohort;
    put(&server, &made, lost);
    let shown = server.get(&format!("{}?refresh=blocking", path(&made))).expect(200).json();
    let all = tiles(&shown);
    assert_eq!((&all[0]["insight"]["id"], all[0].get("error")), (&fine["id"], None));
    for tile in &all[1..] {
        assert_eq!(tile["error"]["type"], "validation_error", "{tile}");
        let why = &tile["error"]["message"];
        assert!(why.as_str().is_some_and(|why| !why.is_empty()));
        assert_eq!(why, &tile["insight"]["query_status"]["error_message"]);
        assert!(tile["insight"]["query"].is_object() && tile["insight"]["result"].is_null());
    }
    assert_eq!(all[1]["insight"]["id"], broken["id"]);
    let looked = server.get(&path(&made)).expect(200).json();
    assert_eq!(looked["tiles"][2].get("error"), None, "nobody asked");
    let sharing = server.patch(&format!("{}sharing", path(&made)), json!({ "enabled": true }));
    let token = sharing.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let page = server.call("GET", &format!("/shared/{token}")).no_key().send().expect(200).text();
    assert_eq!(page.matches("This could not be calculated: ").count(), 2, "{page}");
    assert!(!page.contains("No result yet"));
}

fn malformed_dashboard_filters_are_rejected(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "filters": { "date_from": "-7d" } }));
    put(&server, &made, asked());
    let before = server.get(&path(&made)).expect(200).json();
    let tile = &before["tiles"][0]["id"];
    for (filters, field, code) in [
        (json!({ "date_from": 5 }), "date_from", "invalid_input"),
        (json!({ "properties": "x" }), "properties", "invalid_input"),
        (json!({ "properties": [5] }), "properties", "invalid_input"),
        (json!({ "breakdown_filter": [] }), "breakdown_filter", "invalid_input"),
        (json!({ "interval": "fortnight" }), "interval", "invalid_choice"),
        (
            json!({ "properties": [{ "key": "a +", "type": "hogql" }] }),
            "properties",
            "invalid_input",
        ),
        (
            json!({ "breakdown_filter": { "breakdown": "a", "breakdown_type": "zz" } }),
            "breakdown_filter",
            "invalid_input",
        ),
    ] {
        let error = |at: &str| format!("validation_error {code} {at}__{field}");
        let body = json!({ "filters": filters });
        let changed = server.patch(&path(&made), body.clone());
        assert_eq!(changed.expect(400).error(), error("filters"));
        assert_eq!(server.post(DASHBOARDS, body).expect(400).error(), error("filters"));
        let body = json!({ "tiles": [{ "id": tile, "filters_overrides": filters }] });
        let changed = server.patch(&path(&made), body).expect(400);
        assert_eq!(changed.error(), error("tiles__0__filters_overrides"));
        let tiles = json!([{ "type": "TEXT", "body": "x" }]);
        let template = json!({ "template_name": "t", "dashboard_description": "",
            "dashboard_filters": filters, "tiles": tiles });
        let send = format!("{DASHBOARDS}create_from_template_json");
        let refused = server.post(&send, json!({ "template": template })).expect(400);
        assert_eq!(refused.error(), error("template__dashboard_filters"));
        let sent = filters.to_string().replace('"', "%22").replace('{', "%7B").replace('}', "%7D");
        let sent = sent.replace('+', "%2B").replace(' ', "%20");
        let insight = format!("{INSIGHTS}{}/", before["tiles"][0]["insight"]["id"]);
        for at in [path(&made), insight] {
            let looked = server.get(&format!("{at}?filters_override={sent}"));
            assert_eq!(looked.expect(400).error(), error("filters_override"));
        }
    }
    assert_eq!(server.get(DASHBOARDS).json()["count"], 1);
    assert_eq!(server.get(&path(&made)).json()["tiles"], before["tiles"]);
    assert_eq!(before["filters"], json!({ "date_from": "-7d" }));
}

/// Query 2.6 and 7: a dashboard's breakdown overrides an insight's.
fn dashboard_breakdown_is_validated(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let kept = put(&server, &made, asked());
    let tile = server.get(&path(&made)).json()["tiles"][0]["id"].clone();
    let of = |property: &str, kind: &str| json!({ "property": property, "type": kind });
    for (fits, by) in [
        (true, json!({})),
        (true, json!({ "breakdown": "browser", "breakdown_type": null, "breakdown_limit": null })),
        (true, json!({ "breakdown": "browser", "breakdown_path_cleaning": true })),
        (true, json!({ "breakdowns": [of("plan", "person"), of("event", "event_metadata")] })),
        (true, json!({ "breakdown": ["all", 999_999], "breakdown_type": "cohort" })),
        (true, json!({ "breakdown": "a", "breakdown_histogram_bin_count": 5 })),
        (false, json!({ "breakdown": {} })),
        (false, json!({ "breakdown": "a", "breakdown_limit": 0 })),
        (false, json!({ "breakdown": "a", "breakdown_limit": 1_001 })),
        (false, json!({ "breakdown": "a", "breakdown_limit": "x" })),
        (false, json!({ "breakdown": "a", "breakdown_histogram_bin_count": 0 })),
        (false, json!({ "breakdown": "a", "breakdown_type": "zz" })),
        (false, json!({ "breakdown": "a +", "breakdown_type": "hogql" })),
        (false, json!({ "breakdown": "zz", "breakdown_type": "session" })),
        (false, json!({ "breakdown": "zz", "breakdown_type": "event_metadata" })),
        (false, json!({ "breakdown": "a", "breakdown_type": "group" })),
        (false, json!({ "breakdown": "mine", "breakdown_type": "cohort" })),
        (false, json!({ "breakdowns": [{}] })),
        (false, json!({ "breakdowns": [of("a", "zz")] })),
        (false, json!({ "breakdowns": vec![of("a", "event"); 4] })),
        (false, json!({ "odd": 1 })),
    ] {
        let mut query = asked();
        query["breakdownFilter"] = by.clone();
        let filters = json!({ "breakdown_filter": by });
        let over = json!({ "tiles": [{ "id": tile, "filters_overrides": filters }] });
        let insight = format!("{INSIGHTS}{}/", kept["id"]);
        for (at, body, attr) in [
            (&insight, json!({ "query": query }), "query"),
            (&path(&made), json!({ "filters": filters }), "filters__breakdown_filter"),
            (&path(&made), over, "tiles__0__filters_overrides__breakdown_filter"),
        ] {
            let response = server.patch(at, body.clone());
            assert_eq!(
                response.status,
                if fits { 200 } else { 400 },
                "{body}: {}",
                response.text()
            );
            if !fits {
                assert!(response.json()["attr"].as_str().unwrap().starts_with(attr), "{body}");
            }
        }
    }
}

/// Query 1.1 and 3.1: a dashboard's variables apply to every statement on it.
fn malformed_dashboard_variables_are_rejected(store: Store) {
    let server = store.start();
    let variable = |value: Value| json!({ "v": { "variableId": "v", "code_name": "n", "value": value, "isNull": null } });
    let made = create(&server, json!({ "variables": variable(json!(7)) }));
    let query = json!({ "kind": "HogQLQuery", "query": "select {variables.n}" });
    let insight = put(&server, &made, query);
    let read = |query: &str| server.get(&format!("{}?refresh=blocking{query}", path(&made)));
    assert_eq!(numbers(&read("").expect(200).json()), [7]);
    for (variables, attr) in [
        (json!({ "v": 2 }), "__v"),
        (json!({ "v": { "value": 1 } }), "__v__code_name"),
        (json!({ "v": { "code_name": 5 } }), "__v__code_name"),
        (json!({ "v": { "code_name": "n", "isNull": "x" } }), "__v__isNull"),
    ] {
        let error = |at: &str, refused: crate::harness::Response| {
            let told = refused.expect(400).json();
            assert_eq!(told["attr"], format!("{at}{attr}"), "{variables}: {told}");
            assert_eq!(told["type"], "validation_error");
        };
        let body = json!({ "variables": variables });
        error("variables", server.patch(&path(&made), body.clone()));
        error("variables", server.post(DASHBOARDS, body));
        let on_top = format!("variables_override={}", encoded(&variables));
        error("variables_override", read(&format!("&{on_top}")));
        let looked = server.get(&format!("{INSIGHTS}{}/?{on_top}", insight["id"]));
        error("variables_override", looked);
    }
    assert_eq!(server.get(DASHBOARDS).json()["count"], 1);
    let three = format!("&variables_override={}", encoded(&variable(json!(3))));
    assert_eq!(numbers(&read(&three).expect(200).json()), [3]);
    assert_eq!(numbers(&read("").expect(200).json()), [7]);
}

/// Management 6.1: `last_refresh`.
fn dashboard_has_last_refresh(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    put(&server, &made, asked());
    assert_eq!(server.get(&path(&made)).json()["last_refresh"], json!(null));
    let asked = server.get(&format!("{}?refresh=force_blocking", path(&made))).expect(200).json();
    assert!(asked["last_refresh"].is_string(), "{asked}");
    assert_eq!(asked["last_refresh"], asked["tiles"][0]["last_refresh"]);
    assert_eq!(server.get(&path(&made)).json()["last_refresh"], asked["last_refresh"]);
}

// contract: query 8.2
fn insight_accepts_filters_override(store: Store) {
    let server = store.start();
    events(&server);
    let made = create(&server, json!({ "filters": { "properties": is("plan", "pro") } }));
    override_tiles(&server, &made, &json!({}));
    let insights = [asked(), written(), listed()].map(|query| put(&server, &made, query));
    override_tiles(&server, &made, &json!({ "properties": is("browser", "a") }));
    let free =
        format!("filters_override={}", encoded(&json!({ "properties": is("plan", "free") })));
    let from = format!("from_dashboard={}", made["id"]);
    for insight in &insights {
        let look = |query: &str| {
            let path = format!("{INSIGHTS}{}/?refresh=blocking&{query}", insight["id"]);
            number(&server.get(&path).expect(200).json()["result"])
        };
        assert_eq!((look(""), look(&free)), (4, 2));
        assert_eq!(look(&from), 1);
        assert_eq!(look(&format!("{from}&{free}")), 1, "in the place of the dashboard's");
        let both = json!({ "properties": [] });
        assert_eq!(look(&format!("{from}&filters_override={}", encoded(&both))), 2);
    }
    let variable = json!({ "kind": "HogQLQuery", "query": "select {variables.n}",
        "variables": { "v": { "code_name": "n", "value": 1 } } });
    let asked = put(&server, &made, variable);
    let at = format!("{INSIGHTS}{}/", asked["id"]);
    let seven = json!({ "v": { "code_name": "n", "value": 7 } });
    let look = format!("{at}?refresh=blocking&variables_override={}", encoded(&seven));
    assert_eq!(number(&server.get(&look).expect(200).json()["result"]), 7);
    for (query, attr) in [
        ("filters_override=x".to_owned(), "filters_override"),
        ("filters_override=[]".to_owned(), "filters_override"),
        ("variables_override=5".to_owned(), "variables_override"),
        (
            format!("filters_override={}", encoded(&json!({ "date_from": 5 }))),
            "filters_override__date_from",
        ),
        (
            format!("filters_override={}", encoded(&json!({ "properties": [5] }))),
            "filters_override__properties",
        ),
    ] {
        let refused = server.get(&format!("{at}?{query}")).expect(400);
        assert_eq!(refused.error(), format!("validation_error invalid_input {attr}"), "{query}");
    }
    // The shared link shows the same.
    let sharing = server.patch(&format!("{}sharing", path(&made)), json!({ "enabled": true }));
    let token = sharing.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let look = format!("{at}?sharing_access_token={token}&{free}");
    server.call("GET", &look).no_key().send().expect(400);
}

/// Query 7, management 7.3: the same rules as for a single insight.
fn insights_accept_filters_override_in_bulk(store: Store) {
    let server = store.start();
    events(&server);
    let made = create(&server, json!({ "filters": { "properties": is("plan", "pro") } }));
    for query in [asked(), written(), listed()] {
        put(&server, &made, query);
    }
    let variable = json!({ "kind": "HogQLQuery", "query": "select {variables.n}",
        "variables": { "v": { "code_name": "n", "value": 9 } } });
    put(&server, &made, variable);
    let all = |query: &str| -> Vec<i64> {
        let listing = server.get(&format!("{INSIGHTS}?refresh=blocking{query}")).expect(200).json();
        let results = listing["results"].as_array().unwrap().clone();
        results.iter().map(|one| number(&one["result"])).collect()
    };
    let both = json!({ "properties": [is("plan", "free")[0], is("browser", "a")[0]] });
    let filters = format!("&filters_override={}", encoded(&both));
    let seven = json!({ "v": { "code_name": "n", "value": 7 } });
    let variables = format!("&variables_override={}", encoded(&seven));
    assert_eq!(all(""), [4, 4, 4, 9]);
    assert_eq!(all(&filters), [1, 1, 1, 9]);
    assert_eq!(all(&format!("{filters}{variables}")), [1, 1, 1, 7]);
    assert_eq!(all(""), [4, 4, 4, 9]);
    let sharing = server.patch(&format!("{}sharing", path(&made)), json!({ "enabled": true }));
    let token = sharing.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let guest = |query: &str| {
        let path = format!("{INSIGHTS}?sharing_access_token={token}{query}");
        server.call("GET", &path).no_key().send()
    };
    for basic in ["", "&basic=true"] {
        for (query, attr) in [
            ("&filters_override=x", "filters_override"),
            ("&filters_override=%7B%22properties%22:5%7D", "filters_override__properties"),
            ("&variables_override=[]", "variables_override"),
        ] {
            let refused = server.get(&format!("{INSIGHTS}?{query}{basic}")).expect(400);
            assert_eq!(refused.error(), format!("validation_error invalid_input {attr}"));
        }
        for query in [&filters, &variables] {
            let refused = guest(&format!("{query}{basic}")).expect(400).json();
            assert_eq!(refused["detail"], "A shared link shows an insight as it is.");
        }
        guest(&format!("&filters_override=&variables_override={basic}")).expect(200);
    }
}

/// Query 1.3.
fn refresh_parameter_accepts_only_known_modes(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let insight = put(&server, &made, asked());
    let sharing = server.patch(&format!("{}sharing", path(&made)), json!({ "enabled": true }));
    let token = sharing.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    let old = "events=[%7B%22id%22:%22seen%22%7D]";
    for (path, query) in [
        (INSIGHTS.to_owned(), ""),
        (INSIGHTS.to_owned(), "basic=true"),
        (format!("{INSIGHTS}{}/", insight["id"]), ""),
        (format!("{INSIGHTS}{}/", insight["id"]), "format=csv"),
        (format!("{INSIGHTS}trend/"), old),
        (path(&made), ""),
    ] {
        let ask = |refresh: &str| server.get(&format!("{path}?{query}&refresh={refresh}"));
        for word in ["", "true", "false", "blocking", "force_cache", "force_blocking"] {
            ask(word).expect(200);
        }
        for word in ["zz", "5", "Blocking"] {
            let refused = ask(word).expect(400);
            assert_eq!(refused.error(), "validation_error invalid_choice refresh", "{path}{query}");
        }
        if query != old && path.starts_with(INSIGHTS) {
            let path = format!("{path}?{query}&refresh=zz&sharing_access_token={token}");
            let refused = server.call("GET", &path).no_key().send().expect(400);
            assert_eq!(refused.error(), "validation_error invalid_choice refresh", "{path}");
        }
    }
    let body = |refresh: Value| json!({ "events": [{ "id": "other" }], "refresh": refresh });
    let ask = |refresh: Value| server.post(&format!("{INSIGHTS}trend/"), body(refresh));
    for (refresh, is_cached) in [(json!(null), false), (json!(false), true), (json!(true), false)] {
        assert_eq!(ask(refresh).expect(200).json()["is_cached"], json!(is_cached));
    }
    ask(json!({})).expect(400);
}

fn encoded(json: &Value) -> String {
    json.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect()
}
