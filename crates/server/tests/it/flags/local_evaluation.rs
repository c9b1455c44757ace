//! Local evaluation definitions, remote config payloads, and explanations of an evaluation.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::flags::management::{FLAGS, create, path};
use crate::harness::{
    ADMIN_EMAIL, ADMIN_PASSWORD, PROJECT_KEY, Response, Server, Store, on_both_stores,
};

on_both_stores! {
    flag_definitions_are_equal_on_every_path,
    flag_definitions_etag_returns_304_until_a_change,
    flag_definitions_require_a_key_of_the_project,
    flag_definitions_accept_current_and_previous_secret_token,
    flag_definitions_name_dependencies_by_key_in_order,
    flag_definitions_include_only_referenced_cohorts,
    remote_config_payload_is_read_by_key_or_id,
    evaluation_reasons_cover_active_and_disabled_flags,
    my_flags_returns_the_callers_evaluations,
    flag_explanation_shows_each_comparison_and_hash,
}

const DEFINITIONS: &str = "/flags/definitions?token=phc_test&send_cohorts";

fn secret(server: &Server) -> String {
    let made = server.patch("/api/projects/1/rotate_secret_token/", json!({})).expect(200).json();
    made["secret_api_token"].as_str().unwrap().to_owned()
}

fn everyone(key: &str) -> Value {
    json!({ "key": key, "filters": { "groups": [{ "rollout_percentage": 100 }] } })
}

fn get(server: &Server, path: &str, key: &str) -> Response {
    server.call("GET", path).key(key).send()
}

// contract: flags 103-104
fn flag_definitions_are_equal_on_every_path(store: Store) {
    let server = store.start();
    let secret = secret(&server);
    create(&server, everyone("b"));
    create(&server, json!({ "key": "a", "active": false }));
    let gone = create(&server, everyone("gone"));
    server.patch(&path(&gone), json!({ "deleted": true })).expect(200);
    create(
        &server,
        json!({ "key": "hidden", "is_remote_configuration": true, "has_encrypted_payloads": true,
        "filters": { "groups": [{}], "payloads": { "true": "1" } } }),
    );
    let body = get(&server, DEFINITIONS, &secret).expect(200).json();
    let keys: Vec<&str> = body["flags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flag| flag["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["a", "b"]);
    assert_eq!(body["flags"][0]["active"], false);
    for (field, expected) in [
        ("group_type_mapping", json!({})),
        ("cohorts", json!({})),
        ("minimal_flag_called_events", json!(false)),
        ("property_matching_version", json!(1)),
    ] {
        assert_eq!(body[field], expected, "{field}");
    }
    let mut fields: Vec<&String> = body["flags"][1].as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        [
            "active",
            "bucketing_identifier",
            "deleted",
            "ensure_experience_continuity",
            "evaluation_contexts",
            "evaluation_runtime",
            "filters",
            "has_experiment",
            "id",
            "key",
            "name",
            "team_id",
            "version",
        ]
    );
    for path in [
        "/flags/definitions/?send_cohorts&token=phc_test",
        "/api/feature_flag/local_evaluation?token=phc_test&send_cohorts",
        "/api/feature_flag/local_evaluation/",
        "/api/projects/1/feature_flags/local_evaluation",
        "/api/projects/@current/feature_flags/local_evaluation/",
    ] {
        assert_eq!(get(&server, path, &secret).expect(200).json(), body, "{path}");
        assert_eq!(server.get(path).expect(200).json(), body, "{path} with a personal key");
    }
    let by_header = server.call("GET", "/flags/definitions/?send_cohorts").key(&secret);
    let by_header = by_header.header("X-PostHog-Project-Api-Key", PROJECT_KEY).send();
    assert_eq!(by_header.expect(200).json(), body);
}

// contract: flags 105
fn flag_definitions_etag_returns_304_until_a_change(store: Store) {
    let server = store.start();
    let flag = create(&server, everyone("f"));
    let first = server.get(DEFINITIONS).expect(200);
    assert_eq!(first.header("cache-control"), Some("private, must-revalidate"));
    let tag = first.header("etag").unwrap().to_owned();
    assert!(tag.starts_with("W/\""), "{tag}");
    let again = |tag: &str| server.call("GET", DEFINITIONS).header("If-None-Match", tag).send();
    for spelling in [tag.as_str(), &tag[2..], tag[2..].trim_matches('"')] {
        let known = again(spelling).expect(304);
        assert_eq!(
            (known.body.as_slice(), known.header("etag")),
            (b"".as_slice(), Some(tag.as_str()))
        );
    }
    let anonymous = server.call("GET", DEFINITIONS).no_key().header("If-None-Match", &tag).send();
    anonymous.expect(401);
    server.patch(&path(&flag), json!({ "name": "x" })).expect(200);
    let changed = again(&tag).expect(200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
}

// contract: management 117
fn flag_definitions_accept_current_and_previous_secret_token(store: Store) {
    let server = store.start();
    create(&server, everyone("on"));
    let (first, second, third) = (secret(&server), secret(&server), secret(&server));
    assert!(second.starts_with("phs_") && first != second && second != third);
    for (key, status) in [(&first, 401), (&second, 200), (&third, 200)] {
        get(&server, DEFINITIONS, key).expect(status);
    }
}

// contract: flags 106
fn flag_definitions_require_a_key_of_the_project(store: Store) {
    let server = store.start();
    let other = server.post("/api/projects/", json!({ "name": "Other" })).expect(201).json();
    let rotate = format!("/api/projects/{}/rotate_secret_token/", other["id"]);
    let foreign = server.patch(&rotate, json!({})).expect(200).json();
    let foreign = foreign["secret_api_token"].as_str().unwrap().to_owned();
    let useless = server.key(&["annotation:read"]);
    server.call("GET", DEFINITIONS).no_key().send().expect(401);
    for key in ["phs_nobody", "phx_nobody", &foreign, &useless] {
        get(&server, DEFINITIONS, key).expect(401);
    }
    for path in [
        "/api/projects/1/feature_flags/local_evaluation",
        "/api/feature_flag/local_evaluation?token=phc_test",
    ] {
        get(&server, path, &foreign).expect(401);
        get(&server, path, &useless).expect(403);
    }
    server.call("GET", "/flags/definitions?token=phc_nobody").send().expect(401);
    server.call("POST", "/flags/definitions?token=phc_test").send().expect(405);
}

// contract: flags 108
fn flag_definitions_name_dependencies_by_key_in_order(store: Store) {
    let server = store.start();
    let on = |flag: &Value| {
        json!({ "groups": [{ "properties": [{ "key": flag["id"].to_string(), "type": "flag",
            "operator": "flag_evaluates_to", "value": true }] }] })
    };
    let base = create(&server, everyone("z-base"));
    let middle = create(&server, json!({ "key": "middle", "filters": on(&base) }));
    create(&server, json!({ "key": "a-top", "filters": on(&middle) }));
    let body = server.get(DEFINITIONS).expect(200).json();
    let property = &body["flags"][0]["filters"]["groups"][0]["properties"][0];
    assert_eq!(property["key"], "middle");
    assert_eq!(property["dependency_chain"], json!(["z-base", "middle"]));
}

// contract: flags 107
fn flag_definitions_include_only_referenced_cohorts(store: Store) {
    let server = store.start();
    let made = |body: Value| server.post("/api/projects/1/cohorts/", body).expect(201).json();
    let tree = |leaf: Value| json!({ "properties": { "type": "OR", "values": [{ "type": "AND", "values": [leaf] }] } });
    let person = |key: &str| tree(json!({ "key": key, "type": "person", "value": "x" }));
    let nested = |cohort: &Value| {
        tree(json!({ "key": "id", "type": "cohort", "value": cohort["id"], "negation": false }))
    };
    let inner = made(json!({ "name": "inner", "filters": person("inner") }));
    let outer = made(json!({ "name": "outer", "filters": nested(&inner) }));
    let other = made(json!({ "name": "other", "filters": person("other") }));
    let list = made(json!({ "name": "list", "is_static": true }));
    let asks = |cohorts: &[&Value]| {
        let properties: Vec<Value> = cohorts
            .iter()
            .map(|cohort| json!({ "key": "id", "type": "cohort", "value": cohort["id"] }))
            .collect();
        json!({ "groups": [{ "properties": properties }] })
    };
    let flag = create(&server, json!({ "key": "f", "filters": asks(&[&outer, &list]) }));
    let sent = || server.get(DEFINITIONS).expect(200).json()["cohorts"].clone();
    let expected = json!({ outer["id"].to_string(): outer["filters"]["properties"],
        inner["id"].to_string(): inner["filters"]["properties"] });
    assert_eq!(sent(), expected);
    let version = || server.get(&path(&flag)).expect(200).json()["version"].clone();
    let change = |cohort: &Value, body: Value| {
        server.patch(&format!("/api/projects/1/cohorts/{}/", cohort["id"]), body).expect(200);
    };
    change(&inner, json!({ "filters": person("else") }));
    assert_eq!(version(), 2, "a flag changes with what it reaches");
    change(&inner, json!({ "name": "another" }));
    change(&other, json!({ "filters": person("else") }));
    assert_eq!(version(), 2);
    let other = server.get(&format!("/api/projects/1/cohorts/{}/", other["id"])).json();
    server.patch(&path(&flag), json!({ "filters": asks(&[&other]), "active": false })).expect(200);
    assert_eq!(sent(), json!({ other["id"].to_string(): other["filters"]["properties"] }));
}

// contract: flags 110
fn remote_config_payload_is_read_by_key_or_id(store: Store) {
    let server = store.start();
    let secret = secret(&server);
    let remote = json!({ "key": "cfg", "is_remote_configuration": true, "active": false,
        "filters": { "groups": [{}], "payloads": { "true": { "a": 1 } } } });
    let flag = create(&server, remote);
    create(&server, everyone("plain"));
    let fetch = |name: &str, key: &str| {
        get(
            &server,
            &format!("/api/projects/@current/feature_flags/{name}/remote_config?token=phc_test"),
            key,
        )
    };
    for name in ["cfg", &flag["id"].to_string()] {
        let text = fetch(name, &secret).expect(200).json();
        let inner: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        assert_eq!(inner, json!({ "a": 1 }), "{name}");
    }
    for name in ["plain", "nobody", "999"] {
        fetch(name, &secret).expect(404);
    }
    let empty = json!({ "key": "empty", "is_remote_configuration": true });
    create(&server, empty);
    assert_eq!(fetch("empty", &secret).expect(200).json(), Value::Null);
    let sealed = json!({ "key": "sealed", "is_remote_configuration": true, "has_encrypted_payloads": true,
        "filters": { "groups": [{}], "payloads": { "true": "\"s3cr3t\"" } } });
    create(&server, sealed);
    assert_eq!(fetch("sealed", "phx_test").expect(200).json(), "\"s3cr3t\"");
    let hidden = fetch("sealed", &secret).expect(200).text();
    assert!(!hidden.contains("s3cr3t"), "{hidden}");
    let browser = test_users::log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);
    let hidden = browser.get(&format!("{FLAGS}sealed/remote_config")).expect(200).text();
    assert!(!hidden.contains("s3cr3t"), "{hidden}");
}

// contract: flags 49
fn evaluation_reasons_cover_active_and_disabled_flags(store: Store) {
    let server = store.start();
    create(&server, everyone("on"));
    create(&server, json!({ "key": "asleep", "active": false }));
    let reasons = format!("{FLAGS}evaluation_reasons");
    assert_eq!(server.get(&reasons).expect(400).error(), "validation_error required distinct_id");
    let bad = server.get(&format!("{reasons}?distinct_id=u&groups=x")).expect(400);
    assert_eq!(bad.error(), "validation_error invalid_input groups");
    let told = server.get(&format!("{reasons}?distinct_id=u&groups=%7B%7D")).expect(200).json();
    let expected = json!({
        "on": { "value": true, "evaluation": { "reason": "condition_match", "condition_index": 0,
            "description": "Matched condition set 1" } },
        "asleep": { "value": false, "evaluation": { "reason": "disabled", "condition_index": null,
            "description": "Feature flag is disabled" } },
    });
    assert_eq!(told, expected);
    for query in ["flag_keys=on", "flag_keys=[%22on%22]", "flag_keys=on&flag_keys=nope"] {
        let told = server.get(&format!("{reasons}?distinct_id=u&{query}")).expect(200).json();
        assert_eq!(told.as_object().unwrap().len(), 1, "{query}");
    }
}

// contract: flags 50
fn my_flags_returns_the_callers_evaluations(store: Store) {
    let server = store.start();
    let own = format!("{FLAGS}my_flags");
    assert_eq!(server.get(&own).expect(200).json(), json!([]));
    create(&server, everyone("old"));
    create(&server, json!({ "key": "new", "active": false }));
    let mine = server.get(&own).expect(200).json();
    let shown: Vec<(&Value, &Value)> = mine
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["feature_flag"]["key"], &one["value"]))
        .collect();
    assert_eq!(shown, [(&json!("new"), &json!(false)), (&json!("old"), &json!(true))]);
    test_users::add(&server, "m@example.com", 1);
    let browser = test_users::log_in(&server, "m@example.com", test_users::PASSWORD);
    browser.get(&own).expect(200);
}

fn flag_explanation_shows_each_comparison_and_hash(store: Store) {
    let server = store.start();
    let property = json!({ "key": "plan", "type": "person", "value": "pro", "operator": "exact" });
    let filters = json!({ "groups": [{ "properties": [property] }, { "rollout_percentage": 50 }] });
    let flag = create(&server, json!({ "key": "f", "filters": filters }));
    let explained = server.get(&format!("{}explain?distinct_id=u", path(&flag))).expect(200).json();
    let steps = explained["steps"].as_array().unwrap();
    let kinds: Vec<&str> = steps.iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["flag", "property", "condition", "hash", "condition"]);
    assert_eq!(
        (&steps[1]["key"], &steps[1]["found"], &steps[1]["fits"]),
        (&json!("plan"), &json!(null), &json!(false))
    );
    assert_eq!((&steps[3]["identifier"], &steps[3]["bound"]), (&json!("u"), &json!(0.5)));
    let inside = steps[3]["value"].as_f64().unwrap() <= 0.5;
    assert_eq!(explained["value"], inside);
    let refused = server.get(&format!("{}explain", path(&flag))).expect(400);
    assert_eq!(refused.error(), "validation_error required distinct_id");
}
