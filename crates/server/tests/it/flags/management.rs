//! Feature flag management over HTTP.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

pub const FLAGS: &str = "/api/projects/1/feature_flags/";

on_both_stores! {
    flag_has_every_field_that_clients_read,
    flag_keys_are_unique_among_live_flags,
    flag_filter_validation_names_code_and_field,
    flag_patch_merges_filters_and_increments_the_version,
    stale_flag_write_conflicts_only_on_fields_both_changed,
    flags_are_soft_deleted_and_restored,
    flag_dependencies_stay_consistent,
    flag_list_is_filtered_ordered_and_paged,
    flag_fields_derived_from_filters_are_shown,
    object_level_flag_errors_have_no_attr,
    flag_scopes_and_projects_are_isolated,
    flag_changes_are_logged_and_paged,
    terraform_manages_a_flag,
}

pub fn create(server: &Server, body: Value) -> Value {
    server.post(FLAGS, body).expect(201).json()
}

pub fn path(flag: &Value) -> String {
    format!("{FLAGS}{}/", flag["id"])
}

fn keys(listing: &Value) -> Vec<&str> {
    let results = listing["results"].as_array().unwrap();
    results.iter().map(|flag| flag["key"].as_str().unwrap()).collect()
}

/// Filters of one group.
fn group(group: Value) -> Value {
    json!({ "groups": [group] })
}

fn property(property: Value) -> Value {
    group(json!({ "properties": [property] }))
}

// contract: flags 1
fn flag_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let flag = create(&server, json!({ "key": "a", "version": 7, "nonsense": 1 }));
    for (field, expected) in [
        ("name", json!("")),
        ("key", json!("a")),
        ("filters", json!({ "groups": [] })),
        ("deleted", json!(false)),
        ("active", json!(true)),
        ("archived", json!(false)),
        ("version", json!(1)),
        ("is_simple_flag", json!(false)),
        ("rollout_percentage", json!(null)),
        ("ensure_experience_continuity", json!(false)),
        ("experiment_set", json!([])),
        ("experiment_set_metadata", json!([])),
        ("surveys", json!({})),
        ("features", json!({})),
        ("rollback_conditions", json!(null)),
        ("performed_rollback", json!(false)),
        ("can_edit", json!(true)),
        ("user_access_level", json!("manager")),
        ("tags", json!([])),
        ("evaluation_contexts", json!([])),
        ("usage_dashboard", json!(null)),
        ("analytics_dashboards", json!([])),
        ("has_enriched_analytics", json!(false)),
        ("is_remote_configuration", json!(false)),
        ("has_encrypted_payloads", json!(false)),
        ("status", json!("ACTIVE")),
        ("evaluation_runtime", json!("all")),
        ("bucketing_identifier", json!("distinct_id")),
        ("last_called_at", json!(null)),
        ("is_used_in_replay_settings", json!(false)),
        ("is_eligible_for_experiment", json!(false)),
    ] {
        assert_eq!(flag.get(field), Some(&expected), "{field}");
    }
    assert_eq!(flag["created_by"]["email"], "admin@example.com");
    assert_eq!(flag["last_modified_by"], flag["created_by"]);
    assert!(flag["updated_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(server.get(&path(&flag)).expect(200).json(), flag);
}

// contract: flags 2-6, 32
fn flag_keys_are_unique_among_live_flags(store: Store) {
    let server = store.start();
    let first = create(&server, json!({ "key": "a" }));
    create(&server, json!({ "key": "A" }));
    for (body, error) in [
        (json!({ "key": "a" }), "unique key"),
        (json!({ "key": "bad key!" }), "invalid_key key"),
        (json!({}), "required key"),
        (json!({ "key": "" }), "blank key"),
        (json!({ "key": null }), "null key"),
        (json!({ "key": "k".repeat(401) }), "max_length key"),
        (json!({ "key": "f", "evaluation_runtime": "moon" }), "invalid_choice evaluation_runtime"),
        (json!({ "key": "f", "tags": "x" }), "not_a_list tags"),
    ] {
        let error = format!("validation_error {error}");
        assert_eq!(server.post(FLAGS, body.clone()).expect(400).error(), error, "{body}");
    }
    let other = create(&server, json!({ "key": "b" }));
    let taken = server.patch(&path(&other), json!({ "key": "a" })).expect(400);
    assert_eq!(taken.error(), "validation_error unique key");
    server.patch(&path(&first), json!({ "key": "a" })).expect(200);

    server.patch(&path(&first), json!({ "deleted": true })).expect(200);
    let second = create(&server, json!({ "key": "a" }));
    assert_ne!(second["id"], first["id"]);
    let freed = server.get(&path(&first)).expect(200).json();
    assert_eq!(freed["key"], format!("a:deleted:{}", first["id"]));
    let restored = server.patch(&path(&first), json!({ "deleted": false })).expect(200).json();
    assert_eq!(restored["key"], "a-2");
    assert_eq!(
        server.put(&path(&other), json!({})).expect(400).error(),
        "validation_error required key"
    );
}

// contract: flags 7-14, 15, 17-18
fn flag_filter_validation_names_code_and_field(store: Store) {
    let server = store.start();
    let variants = |shares: &[(&str, f64)]| {
        let variants: Vec<Value> = shares
            .iter()
            .map(|(key, share)| json!({ "key": key, "rollout_percentage": share }))
            .collect();
        json!({ "groups": [{}], "multivariate": { "variants": variants } })
    };
    let payloads =
        |key: &str, payload: Value| json!({ "groups": [{}], "payloads": { key: payload } });
    let mut unknown = variants(&[("a", 100.0)]);
    unknown["payloads"] = json!({ "nope": "1" });
    let person = |operator: &str, value: &str| {
        property(json!({ "key": "p", "type": "person", "operator": operator, "value": value }))
    };
    let refused = [
        (json!([]), "invalid_input"),
        (json!({ "groups": [{}], "version": 2 }), "reserved_config_version"),
        (json!({ "groups": [] }), "invalid_input"),
        (group(json!({ "rollout_percentage": "50" })), "invalid_input"),
        (group(json!({ "rollout_percentage": 101 })), "invalid_input"),
        (variants(&[("a", 50.0), ("b", 40.0)]), "invalid_input"),
        (variants(&[("a", 50.0), ("a", 50.0)]), "invalid_input"),
        (unknown, "invalid_input"),
        (payloads("false", json!("1")), "invalid_input"),
        (payloads("true", json!("not json")), "invalid_input"),
        (group(json!({ "variant": "ghost" })), "invalid_input"),
        (person("regex", "("), "invalid_input"),
        (person("foo", "x"), "invalid_input"),
        (property(json!({ "key": "id", "type": "cohort", "value": 99 })), "cohort_does_not_exist"),
    ];
    for (filters, code) in refused {
        let body = json!({ "key": "f", "filters": filters });
        let error = format!("validation_error {code} filters");
        assert_eq!(server.post(FLAGS, body).expect(400).error(), error, "{filters}");
    }
    assert_eq!(server.get(FLAGS).json()["count"], 0, "what was refused left nothing");
    for (key, filters) in [
        ("half", group(json!({ "rollout_percentage": 0.5 }))),
        ("thirds", variants(&[("a", 33.33), ("b", 33.33), ("c", 33.34)])),
    ] {
        create(&server, json!({ "key": key, "filters": filters }));
    }
    let paid =
        create(&server, json!({ "key": "p", "filters": payloads("true", json!({ "a": 1 })) }));
    assert_eq!(paid["filters"]["payloads"]["true"], "{\"a\":1}");
    let older = create(&server, json!({ "key": "m", "filters": person("min", "5") }));
    assert_eq!(older["filters"]["groups"][0]["properties"][0]["operator"], "gte");
}

// contract: flags 23-26, 36
fn flag_patch_merges_filters_and_increments_the_version(store: Store) {
    let server = store.start();
    let filters = json!({
        "groups": [{ "rollout_percentage": 30 }],
        "multivariate": { "variants": [{ "key": "a", "rollout_percentage": 100 }] },
    });
    let flag = create(&server, json!({ "key": "f", "filters": filters }));
    let change = |body: Value| server.patch(&path(&flag), body).expect(200).json();
    let named = change(json!({ "name": "x" }));
    assert_eq!((&named["version"], &named["filters"]), (&json!(2), &flag["filters"]));
    change(json!({}));
    assert_eq!(change(json!({}))["version"], 4);
    let paid = change(json!({ "filters": { "payloads": { "a": "1" } } }));
    assert_eq!(paid["filters"]["groups"], flag["filters"]["groups"]);
    assert_eq!(paid["filters"]["multivariate"], flag["filters"]["multivariate"]);
    assert_eq!(paid["filters"]["payloads"], json!({ "a": "1" }));
    assert_eq!(change(json!({ "filters": {} }))["filters"], paid["filters"]);
    assert_eq!(change(json!({ "filters": { "groups": [] } }))["filters"]["groups"], json!([]));
    let bad = server.patch(&path(&flag), json!({ "name": "lost", "filters": { "groups": 5 } }));
    assert_eq!(bad.expect(400).error(), "validation_error invalid_input filters");
    assert_eq!(server.get(&path(&flag)).json()["name"], "x", "a refused change changes nothing");

    assert_eq!(change(json!({ "tags": ["B ", " a", "a"] }))["tags"], json!(["a", "b"]));
    assert_eq!(change(json!({ "name": "y" }))["tags"], json!(["a", "b"]));
    assert_eq!(change(json!({ "tags": [] }))["tags"], json!([]));
    assert_eq!(
        change(json!({ "evaluation_tags": ["Web"] }))["evaluation_contexts"],
        json!(["web"])
    );
}

// contract: flags 27-29
fn stale_flag_write_conflicts_only_on_fields_both_changed(store: Store) {
    let server = store.start();
    let flag = create(&server, json!({ "key": "f", "name": "old" }));
    server.patch(&path(&flag), json!({ "name": "other" })).expect(200);
    server.patch(&path(&flag), json!({ "active": false })).expect(200);
    let edit = json!({ "version": 1, "name": "n2", "original_flag": { "name": "old" } });
    let refused = server.patch(&path(&flag), edit).expect(409);
    assert_eq!(refused.error(), "server_error conflict -");
    let edit = json!({
        "version": 1, "name": "other", "active": true, "tags": ["mine"],
        "original_flag": { "name": "other", "active": true, "tags": [] },
    });
    let merged = server.patch(&path(&flag), edit).expect(200).json();
    assert_eq!((&merged["active"], &merged["tags"]), (&json!(false), &json!(["mine"])));
    let blind = server.patch(&path(&flag), json!({ "version": 1, "name": "n3" })).expect(200);
    assert_eq!(blind.json()["name"], "n3");
}

// contract: flags 30-31, 33, 40
fn flags_are_soft_deleted_and_restored(store: Store) {
    let server = store.start();
    let flag = create(&server, json!({ "key": "f" }));
    let refused = server.delete(&path(&flag)).expect(405);
    assert_eq!(refused.body, b"");
    assert_eq!(server.get(&path(&flag)).expect(200).json(), flag);
    let hidden = server.patch(&path(&flag), json!({ "deleted": true })).expect(200).json();
    assert_eq!((&hidden["status"], &hidden["key"]), (&json!("DELETED"), &json!("f")));
    assert_eq!(server.get(FLAGS).json()["count"], 0);
    assert_eq!(server.get(&path(&flag)).expect(200).json()["deleted"], true);
    server.patch(&path(&flag), json!({ "deleted": false })).expect(200);
    assert_eq!(keys(&server.get(FLAGS).json()), ["f"]);

    let archived = server.patch(&path(&flag), json!({ "archived": true })).expect(400);
    assert_eq!(archived.error(), "validation_error invalid_input -");
    let body = json!({ "archived": true, "active": false });
    let archived = server.patch(&path(&flag), body).expect(200).json();
    assert_eq!(archived["status"], "ARCHIVED");
    assert_eq!(server.get(FLAGS).json()["count"], 0);
    assert_eq!(keys(&server.get(&format!("{FLAGS}?archived=true")).json()), ["f"]);
    let active = server.patch(&path(&flag), json!({ "active": true })).expect(400);
    assert_eq!(active.error(), "validation_error invalid_input -");
}

fn depends_on(flag: &Value, value: Value) -> Value {
    let id = flag["id"].to_string();
    property(json!({ "key": id, "type": "flag", "operator": "flag_evaluates_to", "value": value }))
}

// contract: flags 19-22
fn flag_dependencies_stay_consistent(store: Store) {
    let server = store.start();
    let base = create(&server, json!({ "key": "base", "filters": group(json!({})) }));
    let top = create(&server, json!({ "key": "top", "filters": depends_on(&base, json!(true)) }));
    let asleep = create(&server, json!({ "key": "asleep", "active": false }));
    let exact = property(
        json!({ "key": base["id"].to_string(), "type": "flag", "operator": "exact", "value": true }),
    );
    for filters in
        [exact, depends_on(&asleep, json!(true)), depends_on(&json!({ "id": 999 }), json!(true))]
    {
        let refused = server.post(FLAGS, json!({ "key": "x", "filters": filters })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input filters", "{filters}");
    }
    for filters in [depends_on(&top, json!(true)), depends_on(&base, json!(true))] {
        let circle = server.patch(&path(&base), json!({ "filters": filters })).expect(400);
        assert_eq!(circle.error(), "validation_error invalid_input filters", "{filters}");
    }
    for body in [json!({ "active": false }), json!({ "deleted": true })] {
        let needed = server.patch(&path(&base), body.clone()).expect(400);
        assert_eq!(needed.error(), "validation_error invalid_input -", "{body}");
    }
    server.patch(&path(&top), json!({ "active": false })).expect(200);
    server.patch(&path(&base), json!({ "active": false })).expect(200);
    let waits = server.patch(&path(&top), json!({ "active": true })).expect(400);
    assert_eq!(waits.error(), "validation_error invalid_input -");
}

// contract: flags 34-35
fn flag_list_is_filtered_ordered_and_paged(store: Store) {
    let server = store.start();
    let variants = json!({ "groups": [{}], "multivariate": { "variants": [
        { "key": "a", "rollout_percentage": 50 }, { "key": "b", "rollout_percentage": 50 }] } });
    create(&server, json!({ "key": "alpha", "name": "Ärger 100%", "tags": ["x"] }));
    create(&server, json!({ "key": "beta", "active": false, "evaluation_contexts": ["web"] }));
    create(
        &server,
        json!({ "key": "gamma", "filters": variants, "tags": ["y"], "evaluation_runtime": "server" }),
    );
    create(&server, json!({ "key": "delta", "is_remote_configuration": true }));
    let list = |query: &str| server.get(&format!("{FLAGS}?{query}")).expect(200).json();
    for (query, expected) in [
        ("", vec!["delta", "gamma", "beta", "alpha"]),
        ("order=key", vec!["alpha", "beta", "delta", "gamma"]),
        ("order=-key", vec!["gamma", "delta", "beta", "alpha"]),
        ("search=ALPH", vec!["alpha"]),
        ("search=100%25", vec!["alpha"]),
        ("key=BETA", vec!["beta"]),
        ("active=false", vec!["beta"]),
        ("active=STALE", vec![]),
        ("type=multivariant", vec!["gamma"]),
        ("type=boolean&active=true", vec!["delta", "alpha"]),
        ("type=remote_config", vec!["delta"]),
        ("type=experiment", vec![]),
        ("tags=[%22x%22,%22y%22]", vec!["gamma", "alpha"]),
        ("tags=nonsense", vec!["delta", "gamma", "beta", "alpha"]),
        ("excluded_tags=[%22x%22]", vec!["delta", "gamma", "beta"]),
        ("excluded_properties=[%22alpha%22]", vec!["delta", "gamma", "beta"]),
        ("evaluation_runtime=server", vec!["gamma"]),
        ("has_evaluation_contexts=true", vec!["beta"]),
        ("eligible_for_experiment=true", vec!["gamma"]),
        ("created_by_id=1", vec!["delta", "gamma", "beta", "alpha"]),
        ("created_by_id=[2,3]", vec![]),
        ("created_by_id=2,1", vec!["delta", "gamma", "beta", "alpha"]),
        ("created_by_id=[nonsense", vec!["delta", "gamma", "beta", "alpha"]),
        ("archived=false&active=", vec!["delta", "gamma", "beta", "alpha"]),
    ] {
        assert_eq!(keys(&list(query)), expected, "{query}");
    }
    for (name, code) in [
        ("active", "invalid_input"),
        ("archived", "invalid_input"),
        ("type", "invalid_choice"),
        ("created_by_id", "invalid_input"),
        ("evaluation_runtime", "invalid_choice"),
        ("has_evaluation_contexts", "invalid_input"),
        ("eligible_for_experiment", "invalid_input"),
        ("order", "invalid_choice"),
    ] {
        let refused = server.get(&format!("{FLAGS}?{name}=nonsense")).expect(400);
        assert_eq!(refused.error(), format!("validation_error {code} {name}"));
    }
    let page = list("limit=1&offset=1");
    assert_eq!((&page["count"], keys(&page)), (&json!(4), vec!["gamma"]));
    assert!(page["next"].as_str().unwrap().contains("offset=2"));
    assert!(page["previous"].is_string());
}

// contract: flags 37-38
fn flag_fields_derived_from_filters_are_shown(store: Store) {
    let server = store.start();
    let flag = create(
        &server,
        json!({ "key": "f", "filters": group(json!({ "rollout_percentage": 30 })) }),
    );
    assert_eq!((&flag["is_simple_flag"], &flag["rollout_percentage"]), (&json!(true), &json!(30)));
    let filters = property(json!({ "key": "p", "type": "person", "value": "x" }));
    let flag = server.patch(&path(&flag), json!({ "filters": filters })).expect(200).json();
    assert_eq!(
        (&flag["is_simple_flag"], &flag["rollout_percentage"]),
        (&json!(false), &json!(null))
    );
    let filters = json!({ "aggregation_group_type_index": 0, "groups": [{}, {}] });
    let grouped = create(&server, json!({ "key": "g", "filters": filters }));
    let shown = &grouped["filters"];
    assert_eq!(shown["aggregation_group_type_index"], 0);
    for group in shown["groups"].as_array().unwrap() {
        assert_eq!(group["aggregation_group_type_index"], 0);
    }
    let old = json!({ "key": "o", "created_at": "2020-01-01T00:00:00Z", "filters": group(json!({ "rollout_percentage": 100 })) });
    assert_eq!(create(&server, old)["status"], "STALE");
    assert_eq!(keys(&server.get(&format!("{FLAGS}?active=STALE")).json()), ["o"]);
    let remote = create(&server, json!({ "key": "r", "is_remote_configuration": true }));
    assert_eq!(remote["filters"]["groups"][0]["rollout_percentage"], 100);
}

// contract: flags 39
fn object_level_flag_errors_have_no_attr(store: Store) {
    let server = store.start();
    let pair = json!({ "bucketing_identifier": "device_id", "ensure_experience_continuity": true });
    for body in [pair, json!({ "archived": true }), json!({ "has_encrypted_payloads": true })] {
        let mut body = body;
        body["key"] = json!("f");
        let refused = server.post(FLAGS, body.clone()).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input -", "{body}");
    }
}

// contract: flags 41-43
fn flag_scopes_and_projects_are_isolated(store: Store) {
    let server = store.start();
    let reader = server.key(&["feature_flag:read"]);
    let call = |method: &str| server.call(method, FLAGS).key(&reader);
    let refused = call("POST").json(json!({ "key": "f" })).send().expect(403);
    assert_eq!(refused.error(), "authentication_error permission_denied -");
    call("GET").send().expect(200);
    let anonymous = server.call("GET", FLAGS).no_key().send().expect(401);
    assert_eq!(anonymous.error(), "authentication_error not_authenticated -");
    assert_eq!(
        server.get(&format!("{FLAGS}999/")).expect(404).error(),
        "invalid_request not_found -"
    );
    let flag = create(&server, json!({ "key": "f" }));
    let other = server.post("/api/projects/", json!({ "name": "Other" })).expect(201).json();
    let elsewhere = format!("/api/projects/{}/feature_flags/", other["id"]);
    server.get(&format!("{elsewhere}{}/", flag["id"])).expect(404);
    server.patch(&format!("{elsewhere}{}/", flag["id"]), json!({ "name": "x" })).expect(404);
    server.post(&elsewhere, json!({ "key": "f" })).expect(201);
    server.post(FLAGS.trim_end_matches('/'), json!({ "key": "g" })).expect(201);
}

// contract: flags 44-45
fn flag_changes_are_logged_and_paged(store: Store) {
    let server = store.start();
    let flag = create(&server, json!({ "key": "f" }));
    server.patch(&path(&flag), json!({ "active": false })).expect(200);
    create(&server, json!({ "key": "g" }));
    let log = server.get(&format!("{}activity/", path(&flag))).expect(200).json();
    assert_eq!(log["total_count"], 2);
    let newest = &log["results"][0];
    assert_eq!((&newest["activity"], &newest["scope"]), (&json!("updated"), &json!("FeatureFlag")));
    assert_eq!(newest["item_id"], flag["id"].to_string());
    assert_eq!(newest["detail"]["name"], "f");
    let changes = newest["detail"]["changes"].as_array().unwrap();
    let fields: Vec<&str> =
        changes.iter().map(|change| change["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["active", "version"]);
    assert_eq!((&changes[0]["before"], &changes[0]["after"]), (&json!(true), &json!(false)));
    let page = server.get(&format!("{FLAGS}activity/?limit=1")).expect(200).json();
    assert_eq!((&page["total_count"], page["results"].as_array().unwrap().len()), (&json!(3), 1));
    assert!(page["next"].as_str().unwrap().contains("page=2"));
    for (query, attr) in [("limit=0", "limit"), ("page=x", "page")] {
        let refused = server.get(&format!("{FLAGS}activity/?{query}")).expect(400);
        assert_eq!(refused.error(), format!("validation_error invalid_input {attr}"));
    }
    server.get(&format!("{FLAGS}999/activity/")).expect(404);
}

fn terraform_manages_a_flag(store: Store) {
    let server = store.start();
    let body = json!({
        "key": "tf", "name": "Made by Terraform", "active": true, "tags": ["managed-by:terraform"],
        "filters": { "groups": [{ "properties": [], "rollout_percentage": 50, "variant": null }],
            "multivariate": null, "payloads": {} },
        "_create_in_folder": "Unfiled/Feature Flags", "creation_context": "feature_flags",
    });
    let flag = create(&server, body);
    assert_eq!(flag["rollout_percentage"], 50);
    let read = server.get(&path(&flag)).expect(200).json();
    assert_eq!(read, flag);
    let changed =
        json!({ "filters": { "groups": [{ "properties": [], "rollout_percentage": 75 }] } });
    let changed = server.patch(&path(&flag), changed).expect(200).json();
    assert_eq!((&changed["rollout_percentage"], &changed["version"]), (&json!(75), &json!(2)));
    server.patch(&path(&flag), json!({ "deleted": true })).expect(200);
}
