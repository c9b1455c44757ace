//! Dashboards as stored objects: create, copy, list, change, soft delete and restore.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

pub const DASHBOARDS: &str = "/api/projects/1/dashboards/";
pub const INSIGHTS: &str = "/api/projects/1/insights/";

on_both_stores! {
    dashboard_has_every_field_that_clients_read,
    dashboard_list_is_ordered_by_pin_and_name_without_tiles,
    dashboard_list_is_filtered,
    invalid_bodies_name_their_field_and_change_nothing,
    templates_fill_a_dashboard,
    invalid_dashboard_template_is_rejected,
    dashboard_copy_shares_or_duplicates_insights,
    hard_delete_is_405_without_a_lookup,
    dashboard_is_soft_deleted_and_restored,
    delete_insights_removes_insights_of_no_other_dashboard,
    dashboard_accepts_filters_override,
    concurrent_dashboard_patches_all_succeed,
    change_of_an_older_dashboard_version_is_refused,
    changes_are_logged_with_before_and_after,
    dashboard_read_has_a_constant_number_of_statements,
}

pub fn create(server: &Server, body: Value) -> Value {
    server.post(DASHBOARDS, body).expect(201).json()
}

pub fn path(dashboard: &Value) -> String {
    format!("{DASHBOARDS}{}/", dashboard["id"])
}

/// An insight on these dashboards.
pub fn insight_on(server: &Server, name: &str, dashboards: &[&Value]) -> Value {
    let ids: Vec<&Value> = dashboards.iter().map(|dashboard| &dashboard["id"]).collect();
    let query = json!({ "kind": "TrendsQuery", "series": [{ "kind": "EventsNode" }] });
    let body = json!({ "name": name, "query": query, "dashboards": ids, "tags": ["t"] });
    server.post(INSIGHTS, body).expect(201).json()
}

pub fn tiles(dashboard: &Value) -> &Vec<Value> {
    dashboard["tiles"].as_array().unwrap()
}

fn names(listing: &Value) -> Vec<String> {
    let results = listing["results"].as_array().unwrap();
    results.iter().map(|one| one["name"].as_str().unwrap_or("-").to_owned()).collect()
}

// contract: management 4, 7, 16, 17
fn dashboard_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    for (field, expected) in [
        ("name", json!(null)),
        ("description", json!("")),
        ("pinned", json!(false)),
        ("is_shared", json!(false)),
        ("deleted", json!(false)),
        ("creation_mode", json!("default")),
        ("tags", json!([])),
        ("restriction_level", json!(21)),
        ("effective_restriction_level", json!(21)),
        ("effective_privilege_level", json!(37)),
        ("user_access_level", json!("manager")),
        ("access_control_version", json!("v2")),
        ("last_accessed_at", json!(null)),
        ("last_viewed_at", json!(null)),
        ("last_refresh", json!(null)),
        ("team_id", json!(1)),
        ("filters", json!({})),
        ("variables", json!(null)),
        ("persisted_filters", json!(null)),
        ("persisted_variables", json!(null)),
        ("breakdown_colors", json!([])),
        ("data_color_theme_id", json!(null)),
        ("quick_filter_ids", json!([])),
        ("tiles", json!([])),
        ("use_template", json!("")),
        ("use_dashboard", json!(null)),
        ("delete_insights", json!(false)),
    ] {
        assert_eq!(made.get(field), Some(&expected), "{field}");
    }
    assert_eq!(made["created_by"]["email"], "admin@example.com");
    assert!(made["created_at"].as_str().unwrap().ends_with('Z'));
    let read = server.get(&path(&made)).expect(200).json();
    assert!(read["last_accessed_at"].is_string(), "a look is noted");
    let bare = server.call("POST", "/api/projects/1/dashboards").no_key();
    let body = json!({ "personal_api_key": crate::harness::PERSONAL_KEY, "name": "by body" });
    assert_eq!(bare.json(body).send().expect(201).json()["name"], "by body");
    let writer = server.key(&["dashboard:write"]);
    server.call("GET", DASHBOARDS).key(&writer).send().expect(200);
}

// contract: management 28
fn dashboard_list_is_ordered_by_pin_and_name_without_tiles(store: Store) {
    let server = store.start();
    for body in
        [json!({ "name": "b" }), json!({ "name": "a" }), json!({ "name": "z", "pinned": true })]
    {
        create(&server, body);
    }
    let listing = server.get(DASHBOARDS).expect(200).json();
    assert_eq!(names(&listing), ["z", "a", "b"]);
    for (field, is_there) in
        [("tiles", false), ("filters", false), ("effective_privilege_level", true)]
    {
        assert_eq!(listing["results"][0].get(field).is_some(), is_there, "{field}");
    }
}

fn dashboard_list_is_filtered(store: Store) {
    let server = store.start();
    create(&server, json!({ "name": "Growth", "tags": ["x", "y"] }));
    create(&server, json!({ "name": "Other", "description": "of growth_", "tags": ["y"] }));
    create(&server, json!({ "name": "Generated Dashboard: f", "tags": ["z"] }));
    create(&server, json!({ "use_template": "WEBSITE_TRAFFIC" }));
    for (query, expected) in [
        ("search=growth", &["Growth", "Other"][..]),
        ("search=growth_", &["Other"]),
        ("tags=x", &["Growth"]),
        ("tags=x&tags=z", &["Generated Dashboard: f", "Growth"]),
        ("creation_mode=template", &["Web traffic"]),
        ("exclude_generated=true", &["Growth", "Other", "Web traffic"]),
        ("search=nothing", &[]),
    ] {
        let listing = server.get(&format!("{DASHBOARDS}?{query}")).expect(200).json();
        assert_eq!(names(&listing), expected, "{query}");
        assert_eq!(listing["count"], expected.len(), "{query}");
    }
    let refused = server.get(&format!("{DASHBOARDS}?creation_mode=x")).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_choice creation_mode");
    for list in [DASHBOARDS, INSIGHTS] {
        let refused = server.get(&format!("{list}?search=%00")).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input search");
    }
}

// contract: management 18-22, 24, 27
fn invalid_bodies_name_their_field_and_change_nothing(store: Store) {
    let server = store.start();
    let known = create(&server, json!({ "name": "known" }));
    let long = "a".repeat(401);
    for (body, expected) in [
        (json!({ "restriction_level": 5 }), "invalid_choice restriction_level"),
        (json!({ "restriction_level": "x" }), "invalid_input restriction_level"),
        (json!({ "restriction_level": null }), "null restriction_level"),
        (json!({ "filters": [1] }), "invalid_input filters"),
        (json!({ "filters": "x" }), "invalid_input filters"),
        (json!({ "filters": { "x": "y".repeat(65_536) } }), "max_length filters"),
        (json!({ "variables": [] }), "invalid_input variables"),
        (json!({ "breakdown_colors": {} }), "not_a_list breakdown_colors"),
        (json!({ "name": long }), "max_length name"),
        (json!({ "name": 5 }), "invalid_input name"),
        (json!({ "description": null }), "null description"),
        (json!({ "pinned": "maybe" }), "invalid_input pinned"),
        (json!({ "tags": "x" }), "not_a_list tags"),
        (json!({ "tags": [1] }), "invalid_input tags__0"),
    ] {
        for refused in [server.post(DASHBOARDS, body.clone()), server.patch(&path(&known), body)] {
            assert_eq!(refused.expect(400).error(), format!("validation_error {expected}"));
        }
    }
    let refused = server.post(DASHBOARDS, json!({ "filters": [1] })).expect(400).json();
    assert_eq!(refused["detail"], "Filters must be a dictionary");
    for (body, expected, detail) in [
        (json!({ "use_template": "nope" }), "use_template", "Invalid template provided: nope"),
        (json!({ "use_dashboard": 77 }), "use_dashboard", "Invalid value provided"),
        (
            json!({ "use_dashboard": 1, "use_template": "DEFAULT_APP" }),
            "-",
            "`use_dashboard` and `use_template` cannot be used together",
        ),
    ] {
        let refused = server.post(DASHBOARDS, body).expect(400);
        assert_eq!(refused.error(), format!("validation_error invalid_input {expected}"));
        assert_eq!(refused.json()["detail"], detail);
    }
    let broken = server.call("POST", DASHBOARDS).header("Content-Type", "application/json");
    let refused = broken.bytes(b"{".to_vec()).send().expect(400);
    assert_eq!(refused.error(), "invalid_request parse_error -");
    assert_eq!(names(&server.get(DASHBOARDS).json()), ["known"]);
    let unchanged = server.get(&path(&known)).json();
    assert_eq!((&unchanged["restriction_level"], &unchanged["tags"]), (&json!(21), &json!([])));
}

// contract: management 23
fn templates_fill_a_dashboard(store: Store) {
    let server = store.start();
    for (template, name, tag) in [
        ("DEFAULT_APP", "Product overview", "product"),
        ("Product analytics", "Product overview", "product"),
        ("WEBSITE_TRAFFIC", "Web traffic", "website"),
        ("FLAG_USAGE", "Flag usage", "feature flags"),
    ] {
        let made = create(&server, json!({ "use_template": template, "tags": ["own"] }));
        assert_eq!((&made["creation_mode"], &made["name"]), (&json!("template"), &json!(name)));
        assert!(made["tags"].as_array().unwrap().contains(&json!(tag)), "{}", made["tags"]);
        assert!(tiles(&made).len() >= 4);
        for tile in tiles(&made) {
            assert_eq!(tile["insight"]["dashboards"], json!([made["id"]]));
            assert_eq!(
                (&tile["insight"]["is_sample"], &tile["insight"]["saved"]),
                (&json!(true), &json!(true))
            );
        }
    }
    let named = create(&server, json!({ "use_template": "DEFAULT_APP", "name": "mine" }));
    assert_eq!(named["name"], "mine");
    for nothing in ["", "  "] {
        let blank = create(&server, json!({ "use_template": nothing }));
        assert_eq!(blank["creation_mode"], "default");
    }
}

// contract: management 53-55
fn invalid_dashboard_template_is_rejected(store: Store) {
    let server = store.start();
    let send = format!("{DASHBOARDS}create_from_template_json");
    let query = json!({ "kind": "InsightVizNode", "source": { "kind": "TrendsQuery", "series": [{ "kind": "EventsNode" }] } });
    let template = json!({
        "template_name": "Signups", "dashboard_description": "d", "dashboard_filters": { "date_from": "-7d" },
        "tiles": [
            { "type": "INSIGHT", "name": "Visitors", "description": "", "color": "blue",
              "layouts": { "sm": { "x": 0, "y": 0, "w": 6, "h": 5 } }, "query": query },
            { "type": "TEXT", "body": "# Notes", "layouts": {} },
            { "type": "HOLOGRAM" },
        ],
        "variables": [], "tags": ["Growth"],
    });
    let text = json!({ "type": "TEXT", "body": "x" });
    let without = |field: &str| {
        let mut template = template.clone();
        template.as_object_mut().unwrap().remove(field);
        template
    };
    let with = |field: &str, value: Value| {
        let mut template = template.clone();
        template[field] = value;
        template
    };
    for (template, attr) in [
        (without("tiles"), "template__tiles"),
        (without("template_name"), "template__template_name"),
        (without("dashboard_description"), "template__dashboard_description"),
        (without("dashboard_filters"), "template__dashboard_filters"),
        (with("tiles", json!([])), "template__tiles"),
        (with("tiles", json!([5])), "template__tiles__0"),
        (with("tiles", json!(vec![text.clone(); 101])), "template__tiles"),
        (
            with("tiles", json!([text, { "type": "INSIGHT", "query": { "kind": "Nope" } }])),
            "template__tiles__1__query",
        ),
        (with("variables", json!([{ "id": "X" }])), "template__variables__0__name"),
        (with("variables", json!("x")), "template__variables"),
        (json!([]), "template"),
    ] {
        let refused = server.post(&send, json!({ "template": template })).expect(400);
        assert_eq!(refused.error(), format!("invalid_request parse_error {attr}"), "{template}");
        assert!(!refused.text().contains("struct"), "{}", refused.text());
    }
    let refused = server.post(&send, json!({})).expect(400);
    assert_eq!(refused.error(), "validation_error required template");
    let odd = with("tiles", json!([{ "type": "TEXT", "layouts": { "sm": { "x": "left" } } }]));
    let refused = server.post(&send, json!({ "template": odd })).expect(400);
    assert_eq!(
        refused.error(),
        "validation_error invalid_input template__tiles__0__layouts__sm__x"
    );
    assert_eq!(server.get(DASHBOARDS).json()["count"], 0, "nothing is left behind");
    assert_eq!(server.get(INSIGHTS).json()["count"], 0);

    let made = server.post(&send, json!({ "template": template })).expect(200).json();
    assert_eq!((&made["name"], &made["creation_mode"]), (&json!("Signups"), &json!("default")));
    assert_eq!(
        (&made["tags"], &made["filters"]),
        (&json!(["growth"]), &json!({ "date_from": "-7d" }))
    );
    assert_eq!(tiles(&made).len(), 2);
    assert_eq!(tiles(&made)[0]["insight"]["query"], query);
    assert_eq!(tiles(&made)[1]["text"]["body"], "# Notes");
    // Fields of the request override the template's.
    for from in [json!({ "use_template": "WEBSITE_TRAFFIC" }), json!({ "template": template })] {
        let own = json!({ "name": "Mine", "description": "own", "pinned": true, "tags": ["q"],
            "restriction_level": 37, "filters": { "date_from": "-3d" } });
        let mut body = own.clone();
        body.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
        let made = server.post(&send, body).expect(200).json();
        for (field, value) in own.as_object().unwrap().iter().filter(|(field, _)| *field != "tags")
        {
            assert_eq!(made[field], *value, "{field} of {from}");
        }
        assert!(made["tags"].as_array().unwrap().contains(&json!("q")), "{}", made["tags"]);
    }
}

// contract: management 25, 26
fn dashboard_copy_shares_or_duplicates_insights(store: Store) {
    let server = store.start();
    let two = json!({ "v": { "code_name": "v", "value": 2 } });
    let look = json!({ "name": "d", "filters": { "a": 1 }, "variables": two, "tags": ["x"] });
    let source = create(&server, look);
    let insights = ["one", "two"].map(|name| insight_on(&server, name, &[&source]));
    server.patch(&path(&source), json!({ "tiles": [{ "text": { "body": "hi" } }] })).expect(200);
    let ids = |dashboard: &Value| -> HashSet<i64> {
        tiles(dashboard).iter().filter_map(|tile| tile["insight"]["id"].as_i64()).collect()
    };
    let same = create(&server, json!({ "use_dashboard": source["id"] }));
    assert_eq!((&same["creation_mode"], &same["name"]), (&json!("duplicate"), &json!(null)));
    assert_eq!(
        (&same["filters"], &same["variables"], &same["tags"]),
        (&json!({ "a": 1 }), &two, &json!([]))
    );
    assert_eq!(ids(&same), insights.iter().map(|one| one["id"].as_i64().unwrap()).collect());
    assert_eq!(tiles(&same).len(), 3);

    let body =
        json!({ "use_dashboard": source["id"], "duplicate_tiles": true, "filters": { "b": 2 } });
    let copy = create(&server, body);
    assert_eq!(copy["filters"], json!({ "b": 2 }));
    assert!(ids(&copy).is_disjoint(&ids(&source)) && ids(&copy).is_disjoint(&ids(&same)));
    for tile in tiles(&copy).iter().filter(|tile| !tile["insight"].is_null()) {
        assert!(tile["insight"]["name"].as_str().unwrap().ends_with(" (Copy)"));
        assert_eq!(tile["insight"]["dashboards"], json!([copy["id"]]));
        assert_eq!(tile["insight"]["tags"], json!(["t"]));
    }
}

// contract: management 32-34
fn hard_delete_is_405_without_a_lookup(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    for path in [path(&made), format!("{DASHBOARDS}999999")] {
        assert_eq!(server.delete(&path).expect(405).text(), "");
    }
    server.get(&path(&made)).expect(200);
    let reader = server.key(&["dashboard:read"]);
    server.call("DELETE", &path(&made)).key(&reader).send().expect(403);
}

// contract: management 35-37, 40, 41
fn dashboard_is_soft_deleted_and_restored(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "d" }));
    let path = path(&made);
    insight_on(&server, "i", &[&made]);
    let second = server.post("/api/projects/", json!({ "name": "two" })).expect(201).json();
    let elsewhere = format!("/api/projects/{}/dashboards/", second["id"]);
    let elsewhere = server.post(&elsewhere, json!({})).expect(201).json();
    for id in [&elsewhere["id"], &json!(987_654)] {
        let refused = server.patch("/api/projects/1/", json!({ "primary_dashboard": id }));
        assert_eq!(
            refused.expect(400).error(),
            "validation_error does_not_exist primary_dashboard"
        );
    }
    let body = json!({ "name": "three", "primary_dashboard": made["id"] });
    server.post("/api/projects/", body).expect(400);
    server.patch("/api/projects/1/", json!({ "primary_dashboard": made["id"] })).expect(200);
    let changed = json!({ "tags": ["  Foo", "foo", "bar"], "creation_mode": "template" });
    let changed = server.patch(&path, changed).expect(200).json();
    assert_eq!(
        (&changed["tags"], &changed["creation_mode"]),
        (&json!(["bar", "foo"]), &json!("default"))
    );
    let hidden = server.patch(&path, json!({ "deleted": "true" })).expect(200).json();
    assert_eq!((&hidden["deleted"], &hidden["tiles"]), (&json!(true), &json!([])));
    assert_eq!(server.get("/api/projects/1/").json()["primary_dashboard"], json!(null));
    for path in [
        path.clone(),
        format!("{path}sharing"),
        format!("{path}collaborators"),
        format!("{path}activity"),
    ] {
        server.get(&path).expect(404);
    }
    assert_eq!(server.get(DASHBOARDS).json()["count"], 0);
    server.patch(&path, json!({ "name": "x" })).expect(404);
    server.patch(&path, json!({ "deleted": true })).expect(404);
    let back = server.patch(&path, json!({ "deleted": false })).expect(200).json();
    assert_eq!((&back["name"], tiles(&back).len()), (&json!("d"), 1));
    assert_eq!(server.get(&path).expect(200).json()["tiles"][0]["insight"]["name"], "i");
}

// contract: management 38, 39
fn delete_insights_removes_insights_of_no_other_dashboard(store: Store) {
    let server = store.start();
    let (one, two) = (create(&server, json!({})), create(&server, json!({})));
    let lonely = insight_on(&server, "lonely", &[&one]);
    let shared = insight_on(&server, "shared", &[&one, &two]);
    let read = |insight: &Value| server.get(&format!("{INSIGHTS}{}", insight["id"])).status;
    server.patch(&path(&one), json!({ "deleted": true, "delete_insights": true })).expect(200);
    assert_eq!((read(&lonely), read(&shared)), (404, 200));
    let back = server.patch(&path(&one), json!({ "deleted": false })).expect(200).json();
    assert_eq!((read(&lonely), tiles(&back).len()), (200, 2));
    let log = server.get(&format!("{INSIGHTS}{}/activity", lonely["id"])).expect(200).json();
    let told: Vec<&str> = log["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["activity"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["restored", "deleted", "created"]);
}

fn dashboard_accepts_filters_override(store: Store) {
    let server = store.start();
    let one = json!({ "v": { "code_name": "v", "value": 1, "isNull": null } });
    let made = create(&server, json!({ "filters": { "a": 1 }, "variables": one }));
    let read = |query: &str| server.get(&format!("{}?{query}", path(&made)));
    let look =
        read("filters_override=%7B%22b%22%3A2%7D&variables_override=%7B%7D").expect(200).json();
    assert_eq!(
        (&look["filters"], &look["persisted_filters"]),
        (&json!({ "b": 2 }), &json!({ "a": 1 }))
    );
    assert_eq!((&look["variables"], &look["persisted_variables"]), (&json!({}), &one));
    let refused = read("filters_override=%5B").expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input filters_override");
    let cleared = server.patch(&path(&made), json!({ "filters": {}, "variables": null })).json();
    assert_eq!((&cleared["filters"], &cleared["persisted_filters"]), (&json!({}), &json!(null)));
    assert_eq!(cleared["variables"], json!(null));
}

fn change_of_an_older_dashboard_version_is_refused(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "a", "version": 9 }));
    assert_eq!(made["version"], 1);
    let version = |of: &Value| server.get(&path(of)).json()["version"].as_i64().unwrap();
    let change = |sent: Value| server.patch(&path(&made), sent).expect(200).json();
    assert_eq!(change(json!({ "name": "b" }))["version"], 2);
    assert_eq!(change(json!({ "name": "b", "version": 2 }))["version"], 2, "nothing changed");
    assert_eq!(change(json!({ "tags": ["x"], "version": 2 }))["version"], 3);
    for version in [2, 4] {
        let sent = json!({ "name": "lost", "version": version });
        let refused = server.patch(&path(&made), sent).expect(409);
        assert_eq!(refused.error(), "server_error conflict -");
    }
    assert_eq!(server.get(&path(&made)).json()["name"], "b");
    // Every way to change its tiles changes the dashboard.
    let insight = insight_on(&server, "i", &[&made]);
    assert_eq!(version(&made), 4);
    let tile = tiles(&server.get(&path(&made)).json())[0]["id"].clone();
    let layouts = json!({ "sm": { "x": 0, "y": 0, "w": 3, "h": 3 } });
    let laid = json!({ "tiles": [{ "id": tile, "layouts": layouts }], "version": 4 });
    assert_eq!(change(laid)["version"], 5);
    let other = create(&server, json!({}));
    let moved = json!({ "toDashboard": other["id"], "tile": { "id": tile } });
    server.patch(&format!("{}move_tile", path(&made)), moved).expect(200);
    assert_eq!((version(&made), version(&other)), (6, 2));
    let at = format!("{INSIGHTS}{}/", insight["id"]);
    server.patch(&at, json!({ "dashboards": [made["id"]] })).expect(200);
    assert_eq!((version(&made), version(&other)), (7, 3));
    // A view does not.
    server.get(&path(&made)).expect(200);
    assert_eq!(version(&made), 7);
    assert_eq!(change(json!({ "deleted": true, "version": 7 }))["version"], 8);
    assert_eq!(change(json!({ "deleted": false, "version": 8 }))["version"], 9);
    assert_eq!(names(&server.get(DASHBOARDS).json()), ["-", "b"]);
}

fn concurrent_dashboard_patches_all_succeed(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let path = path(&made);
    let bodies = [
        json!({ "name": "n" }),
        json!({ "description": "d" }),
        json!({ "pinned": true }),
        json!({ "filters": { "a": 1 } }),
        json!({ "tags": ["t"] }),
        json!({ "restriction_level": 37 }),
        json!({ "tiles": [{ "text": { "body": "one" } }] }),
        json!({ "tiles": [{ "text": { "body": "two" } }] }),
    ];
    std::thread::scope(|scope| {
        for body in &bodies {
            scope.spawn(|| server.patch(&path, body.clone()).expect(200));
        }
    });
    let read = server.get(&path).expect(200).json();
    for body in &bodies[..6] {
        let (field, value) = body.as_object().unwrap().iter().next().unwrap();
        assert_eq!(&read[field], value, "{field}");
    }
    assert_eq!(tiles(&read).len(), 2);
}

// contract: management 112
fn changes_are_logged_with_before_and_after(store: Store) {
    let server = store.start();
    let made = create(&server, json!({ "name": "a" }));
    let path = path(&made);
    server.patch(&path, json!({ "name": "b" })).expect(200);
    server.patch(&path, json!({ "name": "b" })).expect(200);
    server.patch(&path, json!({ "tiles": [{ "text": { "body": "hi" } }] })).expect(200);
    let log = format!("/api/projects/1/activity_log?scope=Dashboard&item_id={}", made["id"]);
    let (all, own) = (
        server.get(&log).expect(200).json(),
        server.get(&format!("{path}activity")).expect(200).json(),
    );
    assert_eq!(all["results"], own["results"]);
    let entries = all["results"].as_array().unwrap();
    let told: Vec<&str> = entries.iter().map(|entry| entry["activity"].as_str().unwrap()).collect();
    assert_eq!(told, ["updated", "updated", "created"]);
    let change = json!({ "type": "Dashboard", "action": "changed", "field": "name", "before": "a", "after": "b" });
    assert_eq!(entries[1]["detail"]["changes"], json!([change]));
    assert_eq!(entries[0]["detail"]["changes"][0]["field"], "tiles");
    assert_eq!(entries[0]["detail"]["changes"][0]["after"][0]["text"], "hi");
}

fn dashboard_read_has_a_constant_number_of_statements(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let note = |number: usize| json!({ "text": { "body": format!("note {number}") } });
    insight_on(&server, "first", &[&made]);
    server.patch(&path(&made), json!({ "tiles": [note(0)] })).expect(200);
    server.get(&path(&made)).expect(200);
    let costs = || {
        [path(&made), DASHBOARDS.into(), INSIGHTS.into()]
            .map(|path| crate::accounts::organizations::cost(&server, &path))
    };
    let few = costs();
    for number in 0..20 {
        insight_on(&server, &format!("i{number}"), &[&made]);
        create(&server, json!({ "name": format!("d{number}"), "tags": ["t"] }));
    }
    let notes: Vec<Value> = (1..180).map(note).collect();
    let full = server.patch(&path(&made), json!({ "tiles": notes })).expect(200).json();
    assert_eq!(tiles(&full).len(), 201);
    assert_eq!(costs(), few);
}
