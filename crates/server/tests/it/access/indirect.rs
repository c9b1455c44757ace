//! Access rules of an object also hold when it is reached through another object.

use serde_json::{Value, json};

use crate::access::rules::{AccessFixture, KINDS};
use crate::dashboards::crud::{DASHBOARDS, INSIGHTS, create, insight_on, path, tiles};
use crate::harness::{Response, Store, on_both_stores};

on_both_stores! {
    deleting_and_restoring_a_dashboard_affects_only_insights_the_caller_may_edit,
    dashboard_template_requires_permission_to_create_insights,
    tile_access_is_bounded_by_its_insight,
    hidden_dashboard_is_unknown_to_insights_and_flags,
    hidden_action_is_unknown_to_queries_and_filters,
    saved_queries_and_sharing_require_access_to_what_they_show,
    sharing_token_requires_access_to_everything_it_shows,
    hidden_action_cannot_be_shared_or_copied,
    enabled_sharing_link_gains_no_hidden_objects,
    hidden_flag_is_named_nowhere,
}

pub const ACTIONS: &str = "/api/projects/1/actions/";
const COHORTS: &str = "/api/projects/1/cohorts/";
const FLAGS: &str = "/api/projects/1/feature_flags/";
const QUERY: &str = "/api/projects/1/query/";

pub fn insight_path(insight: &Value) -> String {
    format!("{INSIGHTS}{}/", insight["id"])
}

impl AccessFixture {
    /// Sets the default access level of one object.
    #[track_caller]
    pub fn limit(&self, collection: &str, object: &Value, level: &str) {
        let path = format!("{collection}{}/access_controls/", object["id"]);
        self.rule(&path, "everybody", json!({ "access_level": level }));
    }

    #[track_caller]
    pub fn limit_kind(&self, kind: &str, level: &str) {
        self.rule(KINDS, "everybody", json!({ "access_level": level, "resource": kind }));
    }

    pub fn patch(&self, path: &str, body: Value) -> Response {
        self.call("PATCH", path, body)
    }

    pub fn post(&self, path: &str, body: Value) -> Response {
        self.call("POST", path, body)
    }
}

pub fn tile_of(dashboard: &Value, insight: &Value) -> Value {
    let found = tiles(dashboard).iter().find(|tile| tile["insight"]["id"] == insight["id"]);
    found.unwrap()["id"].clone()
}

fn deleting_and_restoring_a_dashboard_affects_only_insights_the_caller_may_edit(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let board = create(server, json!({ "name": "E" }));
    let [open, seen, hidden, off] =
        ["open", "seen", "hidden", "off"].map(|name| insight_on(server, name, &[&board]));
    server.patch(&insight_path(&off), json!({ "dashboards": [] })).expect(200);
    fixture.limit(INSIGHTS, &seen, "viewer");
    fixture.limit(INSIGHTS, &hidden, "none");
    let is_deleted = |insight: &Value| server.get(&insight_path(insight)).status == 404;

    let with_insights = json!({ "deleted": true, "delete_insights": true });
    fixture.patch(&path(&board), with_insights).expect(200);
    let deleted = [&open, &seen, &hidden, &off].map(is_deleted);
    assert_eq!(deleted, [true, false, false, false], "and nothing that was taken off before");

    for insight in [&seen, &hidden] {
        server.patch(&insight_path(insight), json!({ "deleted": true })).expect(200);
    }
    fixture.patch(&path(&board), json!({ "deleted": false })).expect(200);
    assert_eq!([&open, &seen, &hidden].map(is_deleted), [false, true, true]);
    // A caller with edit access restores them.
    server.patch(&path(&board), json!({ "deleted": true })).expect(200);
    server.patch(&path(&board), json!({ "deleted": false })).expect(200);
    assert_eq!([&open, &seen, &hidden].map(is_deleted), [false, false, false]);
}

fn dashboard_template_requires_permission_to_create_insights(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let board = create(server, json!({ "name": "source" }));
    let shown = insight_on(server, "i", &[&board]);
    let flag = server.post(FLAGS, json!({ "key": "f" })).expect(201).json();
    let other = json!({ "key": "g", "has_enriched_analytics": true });
    let other = server.post(FLAGS, other).expect(201).json();
    let act = |flag: &Value, word: &str| format!("{FLAGS}{}/{word}/", flag["id"]);
    server.post(&act(&other, "dashboard"), json!({})).expect(200);
    let query = json!({ "kind": "HogQLQuery", "query": "select 1" });
    let template = json!({ "template_name": "t", "dashboard_description": "",
        "dashboard_filters": {},
        "tiles": [{ "type": "INSIGHT", "name": "x", "query": query }] });
    let from_json = format!("{DASHBOARDS}create_from_template_json/");
    let count = |path: &str| server.get(path).expect(200).json()["count"].clone();
    let before = (count(DASHBOARDS), count(INSIGHTS));
    for level in ["viewer", "none"] {
        fixture.limit_kind("insight", level);
        for (method, at, body) in [
            ("POST", from_json.clone(), json!({ "template": template })),
            ("POST", from_json.clone(), json!({ "use_template": "DEFAULT_APP" })),
            ("POST", DASHBOARDS.to_owned(), json!({ "use_template": "DEFAULT_APP" })),
            ("POST", act(&flag, "dashboard"), json!({})),
            ("POST", act(&other, "enrich_usage_dashboard"), json!({})),
        ] {
            let refused = fixture.call(method, &at, body.clone());
            assert_eq!(refused.status, 403, "{level} {at} {body}: {}", refused.text());
            assert_eq!((count(DASHBOARDS), count(INSIGHTS)), before, "{level} {at} {body}");
        }
        fixture.clear(KINDS);
    }
    fixture.limit_kind("insight", "viewer");
    let copy = json!({ "use_dashboard": board["id"], "duplicate_tiles": true });
    fixture.post(DASHBOARDS, copy.clone()).expect(403);
    let again = json!({ "duplicate_tiles": [{ "id": tile_of(&server.get(&path(&board)).json(), &shown) }] });
    fixture.patch(&path(&board), again.clone()).expect(403);
    assert_eq!((count(DASHBOARDS), count(INSIGHTS)), before);
    // A dashboard without insights is not affected.
    fixture.post(DASHBOARDS, json!({ "name": "plain" })).expect(201);
    fixture.clear(KINDS);
    fixture.post(DASHBOARDS, copy).expect(201);
    fixture.patch(&path(&board), again).expect(200);
    fixture.post(&act(&flag, "dashboard"), json!({})).expect(200);
}

fn tile_access_is_bounded_by_its_insight(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let [board, to] = ["from", "to"].map(|name| create(server, json!({ "name": name })));
    let [seen, hidden] = ["seen", "hidden"].map(|name| insight_on(server, name, &[&board]));
    fixture.limit(INSIGHTS, &seen, "viewer");
    fixture.limit(INSIGHTS, &hidden, "none");
    let at = path(&board);
    let (moves, order) = (format!("{at}move_tile/"), format!("{at}reorder_tiles/"));
    let copies = format!("{}copy_tile/", path(&to));
    let before = server.get(&at).expect(200).json();
    let (seen_tile, hidden_tile) = (tile_of(&before, &seen), tile_of(&before, &hidden));
    let moving = |tile: &Value| json!({ "tile": { "id": tile }, "toDashboard": to["id"] });
    let copying = |tile: &Value| json!({ "fromDashboardId": board["id"], "tileId": tile });
    let unknown = fixture.patch(&at, json!({ "tiles": [{ "id": 999_999, "color": "blue" }] }));
    let unknown = unknown.expect(400);
    for change in [
        json!({ "color": "blue" }),
        json!({ "deleted": true }),
        json!({ "layouts": { "sm": { "x": 1 } } }),
        json!({ "filters_overrides": { "date_from": "-1d" } }),
    ] {
        let mut tile = change.clone();
        tile["id"] = hidden_tile.clone();
        let refused = fixture.patch(&at, json!({ "tiles": [tile] })).expect(400);
        assert_eq!(refused.error(), unknown.error(), "{change}");
        let told = unknown.json()["detail"].as_str().unwrap().replace("999999", "#");
        let detail = refused.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(detail.replace(&hidden_tile.to_string(), "#"), told);
    }
    let again = json!({ "duplicate_tiles": [{ "id": hidden_tile }] });
    assert_eq!(fixture.patch(&at, again).expect(400).error(), unknown.error());
    fixture.patch(&moves, moving(&hidden_tile)).expect(404);
    fixture.post(&copies, copying(&hidden_tile)).expect(404);
    fixture.post(&order, json!({ "tile_order": [hidden_tile] })).expect(404);
    // With viewer access an insight can neither be added nor removed.
    let own = fixture.patch(&insight_path(&seen), json!({ "dashboards": [] })).expect(403);
    for refused in [
        fixture.patch(&moves, moving(&seen_tile)),
        fixture.post(&copies, copying(&seen_tile)),
        fixture.patch(&at, json!({ "tiles": [{ "id": seen_tile, "deleted": true }] })),
        fixture.post(DASHBOARDS, json!({ "use_dashboard": board["id"] })),
    ] {
        assert_eq!(refused.expect(403).json(), own.json());
    }
    assert_eq!(server.get(&at).json()["tiles"], before["tiles"]);
    assert_eq!(tiles(&server.get(&path(&to)).json()).len(), 0);
    // Its layout belongs to the dashboard.
    fixture.patch(&at, json!({ "tiles": [{ "id": seen_tile, "color": "blue" }] })).expect(200);
    fixture.post(&order, json!({ "tile_order": [seen_tile] })).expect(200);
    fixture.limit(INSIGHTS, &seen, "editor");
    fixture.patch(&moves, moving(&seen_tile)).expect(200);
    assert_eq!(tiles(&server.get(&path(&to)).json()).len(), 1);
}

fn hidden_dashboard_is_unknown_to_insights_and_flags(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let open = create(server, json!({ "name": "open" }));
    let secret = create(server, json!({ "name": "secret", "filters": { "date_from": "-3d" } }));
    let shown = insight_on(server, "i", &[&open, &secret]);
    fixture.limit(DASHBOARDS, &secret, "none");
    let at = insight_path(&shown);
    let from = |dashboard: &Value| fixture.get(&format!("{at}?from_dashboard={dashboard}"));
    from(&open["id"]).expect(200);
    let unknown = from(&json!(999_999)).expect(400);
    assert_eq!(from(&secret["id"]).expect(400).json(), unknown.json());
    // The visible dashboards change, the hidden ones stay.
    let read = fixture.get(&at).expect(200).json();
    assert_eq!(read["dashboards"], json!([open["id"]]));
    assert_eq!(read["dashboard_tiles"].as_array().unwrap().len(), 1);
    let shown = fixture.get(&path(&open)).json();
    assert_eq!(shown["tiles"][0]["insight"]["dashboards"], read["dashboards"]);
    let on = |dashboard: &Value| {
        fixture.get(&format!("{INSIGHTS}?dashboards=[{}]", dashboard["id"])).expect(200).json()["count"].clone()
    };
    assert_eq!((on(&open), on(&secret)), (json!(1), json!(0)));
    let unknown = fixture.patch(&at, json!({ "dashboards": [open["id"], 999_999] })).expect(400);
    let new = json!({ "name": "n", "dashboards": [secret["id"]] });
    assert_eq!(fixture.post(INSIGHTS, new).expect(400).json(), unknown.json());
    let both = json!({ "dashboards": [open["id"], secret["id"]] });
    assert_eq!(fixture.patch(&at, both).expect(400).json(), unknown.json());
    fixture.patch(&at, json!({ "dashboards": [] })).expect(200);
    assert_eq!(server.get(&at).json()["dashboards"], json!([secret["id"]]));

    let flag = fixture.post(FLAGS, json!({ "key": "f" })).expect(201).json();
    let flag_at = format!("{FLAGS}{}/", flag["id"]);
    let named = json!({ "key": "g", "analytics_dashboards": [secret["id"]] });
    for refused in [
        fixture.post(FLAGS, named),
        fixture.patch(&flag_at, json!({ "analytics_dashboards": [secret["id"]] })),
    ] {
        let refused = refused.expect(400);
        assert_eq!(refused.error(), "validation_error does_not_exist analytics_dashboards");
    }
    fixture.patch(&flag_at, json!({ "analytics_dashboards": [open["id"]] })).expect(200);
    // References that exist already may be sent back.
    server.patch(&flag_at, json!({ "analytics_dashboards": [secret["id"]] })).expect(200);
    let sent = json!({ "name": "x", "analytics_dashboards": [secret["id"], open["id"]] });
    let shown_flag = fixture.patch(&flag_at, sent).expect(200).json();
    assert_eq!(shown_flag["analytics_dashboards"], json!([open["id"]]));
    let all = server.get(&flag_at).json();
    assert_eq!(all["analytics_dashboards"], json!([open["id"], secret["id"]]));

    let first = |dashboard: &Value| {
        fixture.patch("/api/projects/1/", json!({ "primary_dashboard": dashboard["id"] }))
    };
    let refused = first(&secret).expect(400);
    assert_eq!(refused.error(), "validation_error does_not_exist primary_dashboard");
    first(&open).expect(200);
}

fn hidden_action_is_unknown_to_queries_and_filters(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    server.ingest(&[json!({ "event": "signed up", "distinct_id": "a" })]);
    let action = json!({ "name": "secret action", "steps": [{ "event": "signed up" }] });
    let action = server.post(ACTIONS, action).expect(201).json();
    let id = &action["id"];
    let node = json!({ "kind": "ActionsNode", "id": id });
    let trend = json!({ "kind": "TrendsQuery", "series": [node],
        "dateRange": { "date_from": "-1d" } });
    let stored = server.post(INSIGHTS, json!({ "name": "s", "query": trend })).expect(201).json();
    let stored = format!("{}?refresh=blocking", insight_path(&stored));
    let ask = |body: &Value| fixture.post(QUERY, json!({ "query": body })).expect(200);
    let results = |response: Response| response.expect(200).json()["results"].clone();
    assert_eq!(results(ask(&trend))[0]["count"], 1);
    fixture.limit(ACTIONS, &action, "none");

    let gone = json!({ "kind": "TrendsQuery", "dateRange": { "date_from": "-1d" },
        "series": [{ "kind": "ActionsNode", "id": 999_999 }] });
    let gone = results(ask(&gone));
    assert_eq!(results(ask(&trend)), gone, "also where others' response is remembered");
    assert!(!ask(&trend).text().contains("secret"));
    assert_eq!(results(server.post(QUERY, json!({ "query": trend })))[0]["count"], 1);
    let events = json!({ "kind": "EventsQuery", "select": ["event"], "actionId": id });
    assert_eq!(ask(&events).json()["results"], json!([]));
    for path in [
        format!("/api/projects/1/events/?action_id={id}"),
        format!("/api/projects/1/events/?action_id={id}&select=[%22event%22]"),
    ] {
        assert_eq!(fixture.get(&path).expect(200).json()["results"], json!([]), "{path}");
        assert_eq!(server.get(&path).json()["results"].as_array().unwrap().len(), 1, "{path}");
    }
    let old = format!("{INSIGHTS}trend/?actions=[{{%22id%22:{id}}}]");
    let old = fixture.get(&old).expect(200);
    assert_eq!(old.json()["result"], gone);
    assert!(!old.text().contains("secret"));
    assert_eq!(fixture.get(&stored).expect(200).json()["result"], gone);
    assert_eq!(server.get(&stored).json()["result"][0]["count"], 1);

    // It cannot be referenced anew, but an existing reference may be sent back.
    let own = stored.split('?').next().unwrap();
    fixture.patch(own, json!({ "name": "t", "query": trend })).expect(200);
    let did = json!({ "type": "behavioral", "value": "performed_event", "event_type": "actions",
        "key": id, "time_value": 30, "time_interval": "day" });
    let filters = json!({ "properties": { "type": "OR", "values": [did] } });
    let cohort = json!({ "name": "c", "filters": filters });
    assert_eq!(
        fixture.post(COHORTS, cohort.clone()).expect(400).error(),
        "validation_error invalid_input filters"
    );
    let cohort = server.post(COHORTS, cohort).expect(201).json();
    let cohort_at = format!("{COHORTS}{}/", cohort["id"]);
    fixture.patch(&cohort_at, json!({ "name": "d", "filters": filters })).expect(200);
    let kept = json!({ "name": "k", "query": trend });
    assert_eq!(
        fixture.post(INSIGHTS, kept).expect(400).error(),
        "invalid_request parse_error query"
    );
    let kept = json!({ "filters": { "insight": "TRENDS", "actions": [{ "id": id }] } });
    let refused = fixture.post(INSIGHTS, kept).expect(400);
    assert_eq!(refused.error(), "invalid_request parse_error filters");
}

fn saved_queries_and_sharing_require_access_to_what_they_show(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let board = create(server, json!({ "name": "b" }));
    let insight = insight_on(server, "hidden", &[&board]);
    let own = fixture.post(INSIGHTS, json!({ "name": "own" })).expect(201).json();
    let sharing = format!("{}sharing/", path(&board));
    for level in ["none", "viewer"] {
        fixture.limit(INSIGHTS, &insight, level);
        fixture.patch(&sharing, json!({ "enabled": true })).expect(403);
        assert_eq!(server.get(&sharing).json()["enabled"], false);
    }
    fixture.limit(INSIGHTS, &insight, "none");
    let through = json!({ "kind": "SavedInsightNode", "shortId": insight["short_id"] });
    let template = json!({ "template_name": "t", "dashboard_description": "",
        "dashboard_filters": {}, "tiles": [{ "type": "INSIGHT", "query": through }] });
    let from_json = format!("{DASHBOARDS}create_from_template_json/");
    for (refused, attr) in [
        (fixture.post(INSIGHTS, json!({ "query": through })), "query"),
        (fixture.patch(&insight_path(&own), json!({ "query": through })), "query"),
        (fixture.post(&from_json, json!({ "template": template })), "template"),
    ] {
        assert_eq!(refused.expect(400).error(), format!("invalid_request parse_error {attr}"));
    }
    let listed = json!({ "name": "l", "is_static": true, "query": through });
    fixture.post(COHORTS, listed).expect(400);
    assert_eq!(server.get(COHORTS).json()["count"], 0);
    // Sharing needs edit access to everything on it.
    fixture.limit(INSIGHTS, &insight, "editor");
    fixture.patch(&sharing, json!({ "enabled": true })).expect(200);
}

fn sharing_token_requires_access_to_everything_it_shows(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let board = create(server, json!({ "name": "b" }));
    let insight = insight_on(server, "i", &[&board]);
    let sharing = format!("{}sharing/", path(&board));
    let refresh = format!("{sharing}refresh/");
    let token = server.patch(&sharing, json!({ "enabled": true })).expect(200).json();
    let token = &token["access_token"];
    assert_eq!(&fixture.get(&sharing).expect(200).json()["access_token"], token);
    // Rotating the token needs the same access as enabling.
    for (level, shown) in [("viewer", token), ("none", &json!(null))] {
        fixture.limit(INSIGHTS, &insight, level);
        assert_eq!(&fixture.get(&sharing).expect(200).json()["access_token"], shown, "{level}");
        fixture.post(&refresh, json!({})).expect(403);
        fixture.patch(&sharing, json!({ "enabled": true, "settings": {} })).expect(match level {
            "none" => 403,
            _ => 200,
        });
        assert_eq!(&server.get(&sharing).json()["access_token"], token);
    }
    let off = fixture.patch(&sharing, json!({ "enabled": false })).expect(200).json();
    assert_eq!((&off["enabled"], &off["access_token"]), (&json!(false), &json!(null)));
    fixture.limit(INSIGHTS, &insight, "editor");
    let renewed = fixture.post(&refresh, json!({})).expect(200).json();
    assert!(renewed["access_token"].is_string() && &renewed["access_token"] != token);
}

fn hidden_action_cannot_be_shared_or_copied(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let action = json!({ "name": "secret", "steps": [{ "event": "signed up" }] });
    let action = server.post(ACTIONS, action).expect(201).json();
    let board = create(server, json!({ "name": "b" }));
    let trend = json!({ "kind": "TrendsQuery",
        "series": [{ "kind": "ActionsNode", "id": action["id"] }] });
    let asks = json!({ "name": "asks", "query": trend, "dashboards": [board["id"]] });
    let asks = server.post(INSIGHTS, asks).expect(201).json();
    let through = json!({ "kind": "SavedInsightNode", "shortId": asks["short_id"] });
    let through = server.post(INSIGHTS, json!({ "query": through })).expect(201).json();
    let tile = tile_of(&server.get(&path(&board)).json(), &asks);
    let copy = json!({ "use_dashboard": board["id"], "duplicate_tiles": true });
    let again = json!({ "duplicate_tiles": [{ "id": tile }] });
    let count = |path: &str| server.get(path).expect(200).json()["count"].clone();
    let before = (count(DASHBOARDS), count(INSIGHTS));
    fixture.limit(ACTIONS, &action, "none");

    let links = [path(&board), insight_path(&asks), insight_path(&through)];
    let links = links.map(|at| format!("{at}sharing/"));
    for at in &links {
        fixture.patch(at, json!({ "enabled": true })).expect(403);
        fixture.post(&format!("{at}refresh/"), json!({})).expect(403);
        assert_eq!(fixture.get(at).expect(200).json()["access_token"], json!(null), "{at}");
        assert_eq!(server.get(at).json()["enabled"], false, "{at}");
    }
    for (refused, attr) in [
        (fixture.post(DASHBOARDS, copy.clone()), "use_dashboard"),
        (fixture.patch(&path(&board), again.clone()), "duplicate_tiles"),
    ] {
        assert_eq!(refused.expect(400).error(), format!("invalid_request parse_error {attr}"));
    }
    // Nor through a removed tile.
    server.patch(&path(&board), json!({ "tiles": [{ "id": tile, "deleted": true }] })).expect(200);
    fixture.patch(&path(&board), again.clone()).expect(400);
    server.patch(&path(&board), json!({ "tiles": [{ "id": tile, "deleted": false }] })).expect(200);
    assert_eq!((count(DASHBOARDS), count(INSIGHTS)), before);

    fixture.limit(ACTIONS, &action, "viewer");
    for at in &links {
        fixture.patch(at, json!({ "enabled": true })).expect(200);
    }
    fixture.post(DASHBOARDS, copy).expect(201);
    fixture.patch(&path(&board), again).expect(200);
}

fn enabled_sharing_link_gains_no_hidden_objects(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let action = json!({ "name": "secret", "steps": [{ "event": "signed up" }] });
    let action = server.post(ACTIONS, action).expect(201).json();
    let elsewhere = create(server, json!({ "name": "elsewhere" }));
    let trend = json!({ "kind": "TrendsQuery",
        "series": [{ "kind": "ActionsNode", "id": action["id"] }] });
    let asks = json!({ "name": "asks", "query": trend, "dashboards": [elsewhere["id"]] });
    let asks = server.post(INSIGHTS, asks).expect(201).json();
    let tile = tile_of(&server.get(&path(&elsewhere)).json(), &asks);
    fixture.limit(ACTIONS, &action, "none");
    let shared = fixture.post(DASHBOARDS, json!({ "name": "shared" })).expect(201).json();
    let (id, at) = (&shared["id"], path(&shared));
    fixture.patch(&format!("{at}sharing/"), json!({ "enabled": true })).expect(200);

    let join = json!({ "dashboards": [elsewhere["id"], id] });
    let copy = json!({ "fromDashboardId": elsewhere["id"], "tileId": tile });
    let moved = json!({ "tile": { "id": tile }, "toDashboard": id });
    for refused in [
        fixture.patch(&insight_path(&asks), join.clone()),
        fixture.post(&format!("{at}copy_tile/"), copy),
        fixture.patch(&format!("{}move_tile/", path(&elsewhere)), moved),
    ] {
        refused.expect(403);
    }
    assert!(tiles(&server.get(&at).json()).is_empty());
    // Nor can removed or deleted objects be restored onto it.
    server.patch(&insight_path(&asks), join.clone()).expect(200);
    let own = tile_of(&server.get(&at).json(), &asks);
    let set = |deleted: bool| json!({ "tiles": [{ "id": own, "deleted": deleted }] });
    fixture.patch(&at, set(true)).expect(200);
    fixture.patch(&at, set(false)).expect(403);
    server.patch(&at, set(false)).expect(200);
    fixture.patch(&insight_path(&asks), json!({ "deleted": true })).expect(200);
    fixture.patch(&insight_path(&asks), json!({ "deleted": false })).expect(403);
    server.patch(&insight_path(&asks), json!({ "deleted": false })).expect(200);
    server.patch(&at, set(true)).expect(200);

    fixture.limit(ACTIONS, &action, "viewer");
    fixture.patch(&insight_path(&asks), join).expect(200);
}

fn hidden_flag_is_named_nowhere(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let cohort = json!({ "name": "c", "filters": { "properties": { "type": "OR", "values": [
        { "type": "person", "key": "plan", "value": "pro", "operator": "exact" }] } } });
    let cohort = server.post(COHORTS, cohort).expect(201).json();
    let asks = json!([{ "key": "id", "type": "cohort", "value": cohort["id"] }]);
    let flag = |key: &str, properties: Value| {
        let filters =
            json!({ "groups": [{ "properties": properties, "rollout_percentage": 100 }] });
        json!({ "key": key, "filters": filters })
    };
    let depends = |on: &Value| {
        json!([{ "key": on["id"].to_string(), "type": "flag", "value": true,
            "operator": "flag_evaluates_to" }])
    };
    let base = server.post(FLAGS, flag("base", json!([]))).expect(201).json();
    let mut wanted = asks.as_array().unwrap().clone();
    wanted.extend(depends(&base).as_array().unwrap().clone());
    let secret = server.post(FLAGS, flag("secret-flag", json!(wanted))).expect(201).json();
    fixture.limit(FLAGS, &secret, "none");
    let at = |flag: &Value| format!("{FLAGS}{}/", flag["id"]);
    let named = |response: Response| response.expect(400).text();
    for told in [
        named(fixture.patch(&format!("{COHORTS}{}/", cohort["id"]), json!({ "deleted": true }))),
        named(fixture.patch(&at(&base), json!({ "active": false }))),
        named(fixture.post(FLAGS, flag("mine", depends(&secret)))),
        named(fixture.patch(&at(&base), flag("base", depends(&secret)))),
        named(fixture.post(&format!("{}dry_run/", at(&base)), flag("base", depends(&secret)))),
        named(fixture.post(&format!("{FLAGS}dry_run/"), flag("new", depends(&secret)))),
        named(
            fixture.post(
                &format!("{}explain/?distinct_id=u", at(&base)),
                flag("base", depends(&secret)),
            ),
        ),
        named(fixture.post(
            &format!("{FLAGS}user_blast_radius/"),
            json!({ "condition": { "properties": depends(&secret) } }),
        )),
    ] {
        assert!(!told.contains("secret"), "{told}");
    }
    // A role lists only the flags that the caller sees.
    for flag in [&base, &secret] {
        let granted = json!({ "role_id": fixture.role });
        server.post(&format!("{}role_access/", at(flag)), granted).expect(201);
    }
    let roles = "/api/organizations/@current/roles/";
    let seen = fixture.get(&format!("{}role_access/", at(&base))).expect(200).text();
    assert!(seen.contains("\"base\"") && !seen.contains("secret"), "{seen}");
    let seen = fixture.get(roles).expect(200).text();
    assert!(!seen.contains("secret"), "{seen}");
    assert!(server.get(roles).expect(200).text().contains("secret"));
}
