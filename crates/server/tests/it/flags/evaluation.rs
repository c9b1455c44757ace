//! `/flags` and `/decide`, in all versions that SDKs use.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write;

use crate::flags::management::{FLAGS, create, path};
use crate::harness::{PROJECT_KEY, Response, Server, Store, on_both_stores};

on_both_stores! {
    flag_evaluation_returns_reason_and_payload,
    flags_response_shape_follows_the_version,
    flags_response_includes_requested_config,
    flags_request_aliases_are_read,
    flags_request_accepts_every_encoding,
    flags_request_selects_flag_keys,
    group_flags_without_group_types_are_skipped,
    flag_dependencies_and_enrollment_are_evaluated,
    recorded_flag_hashes_hold_over_http,
    flag_change_is_visible_to_the_next_request,
    flags_endpoint_allows_cors,
    flags_geoip_uses_the_forwarded_address,
}

pub fn ask(server: &Server, query: &str, body: Value) -> Response {
    let call = server.call("POST", &format!("/flags/?{query}")).no_key();
    call.header("User-Agent", "posthog-python/7.79.0").json(body).send()
}

/// Evaluates the flags of one person.
pub fn flags_of(server: &Server, distinct_id: &str, more: Value) -> Value {
    let mut body = json!({ "token": PROJECT_KEY, "distinct_id": distinct_id });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(server, "v=2", body).expect(200).json()
}

fn everyone(key: &str) -> Value {
    json!({ "key": key, "filters": { "groups": [{ "rollout_percentage": 100 }] } })
}

fn names(flags: &Value) -> Vec<&str> {
    flags.as_object().unwrap().keys().map(String::as_str).collect()
}

// contract: flags 53-56, 62, 98, 102
fn flag_evaluation_returns_reason_and_payload(store: Store) {
    let server = store.start();
    let payload =
        json!({ "groups": [{ "rollout_percentage": 100 }], "payloads": { "true": { "n": 1 } } });
    let on = create(&server, json!({ "key": "on", "filters": payload }));
    create(
        &server,
        json!({ "key": "off", "filters": { "groups": [{ "rollout_percentage": 0 }] } }),
    );
    create(
        &server,
        json!({ "key": "open", "filters": { "groups": [{ "rollout_percentage": null }] } }),
    );
    create(&server, json!({ "key": "asleep", "active": false }));
    let gone = create(&server, everyone("gone"));
    server.patch(&path(&gone), json!({ "deleted": true })).expect(200);
    let response = flags_of(&server, "u", json!({ "device_id": null }));
    assert_eq!(names(&response["flags"]), ["off", "on", "open"]);
    let expected = json!({
        "key": "on", "enabled": true, "variant": null,
        "reason": { "code": "condition_match", "condition_index": 0, "description": "Matched condition set 1" },
        "metadata": { "id": on["id"], "version": 1, "description": null, "payload": "{\"n\":1}", "has_experiment": false },
    });
    assert_eq!(response["flags"]["on"], expected);
    let off = &response["flags"]["off"];
    assert_eq!(
        (&off["enabled"], &off["reason"]["code"]),
        (&json!(false), &json!("out_of_rollout_bound"))
    );
    assert_eq!(response["flags"]["open"]["enabled"], true);
    assert_eq!(response["errorsWhileComputingFlags"], false);
    // contract: flags 101, as far as there are no quotas
    assert!(response.get("quotaLimited").is_none() && response.get("config").is_none());
    let id = response["requestId"].as_str().unwrap();
    assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 4);
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    assert!((now - response["evaluatedAt"].as_i64().unwrap()).abs() < 60_000);
    let named = "0b8a3c0e-6f3e-4f0e-9d2e-0c0b2f0f6a11";
    let call = server.call("POST", "/flags?v=2").no_key().header("X-Request-Id", named);
    let again =
        call.json(json!({ "token": PROJECT_KEY, "distinct_id": "u" })).send().expect(200).json();
    assert_eq!(again["requestId"], named);
}

// contract: flags 86-87, 100
fn flags_response_shape_follows_the_version(store: Store) {
    let server = store.start();
    create(&server, everyone("on"));
    create(
        &server,
        json!({ "key": "off", "filters": { "groups": [{ "rollout_percentage": 0 }] } }),
    );
    create(
        &server,
        json!({ "key": "test", "filters": { "groups": [{}], "payloads": { "b": "5" },
        "multivariate": { "variants": [{ "key": "b", "rollout_percentage": 100 }] } } }),
    );
    let ask = |path: &str| {
        let body = json!({ "api_key": PROJECT_KEY, "distinct_id": "u" });
        server.call("POST", path).no_key().json(body).send().expect(200).json()
    };
    for path in ["/decide", "/decide/?v=1", "/decide?v=junk", "/decide?v=0"] {
        let response = ask(path);
        assert_eq!(response["featureFlags"], json!(["on", "test"]), "{path}");
        assert_eq!(response["errorComputingFlags"], false);
    }
    assert_eq!(ask("/decide?v=2")["featureFlags"], json!({ "on": true, "test": "b" }));
    for path in ["/decide?v=3", "/flags?v=1", "/flags?v=x", "/flags?config=false"] {
        let response = ask(path);
        assert_eq!(
            response["featureFlags"],
            json!({ "off": false, "on": true, "test": "b" }),
            "{path}"
        );
        assert_eq!(response["featureFlagPayloads"], json!({ "test": "5" }), "{path}");
        assert_eq!(response["errorsWhileComputingFlags"], false);
        assert_eq!(
            response.get("errorComputingFlags").is_some(),
            path.starts_with("/decide"),
            "{path}"
        );
    }
    for path in ["/decide?v=4", "/flags?v=2", "/flags?v=3", "/flags"] {
        assert_eq!(names(&ask(path)["flags"]), ["off", "on", "test"], "{path}");
    }
    for path in ["/flags", "/decide/"] {
        let looked = server.call("GET", path).no_key().send().expect(200).json();
        assert_eq!(looked["flags"], json!({}));
        assert_eq!(server.call("HEAD", path).no_key().send().expect(200).body, b"");
        server.call("PUT", path).no_key().send().expect(405);
    }
}

// contract: flags 88
fn flags_response_includes_requested_config(store: Store) {
    let server = store.start();
    let config = |path: &str| {
        let body = json!({ "token": PROJECT_KEY, "distinct_id": "u" });
        server.call("POST", path).no_key().json(body).send().expect(200).json()
    };
    let decided = config("/decide?v=3");
    assert_eq!(decided["config"], json!({ "enable_collect_everything": true }));
    assert_eq!((&decided["editorParams"], &decided["toolbarParams"]), (&json!({}), &json!({})));
    assert_eq!(decided["isAuthenticated"], false);
    assert_eq!(decided["supportedCompression"], json!(["gzip", "gzip-js"]));
    assert_eq!((&decided["hasFeatureFlags"], decided.get("token")), (&json!(false), None));
    for (path, comes) in [
        ("/flags?v=2", false),
        ("/flags", true),
        ("/flags?v=2&config=true", true),
        ("/decide?v=3&config=false", false),
    ] {
        assert_eq!(config(path).get("config").is_some(), comes, "{path}");
    }
    create(&server, everyone("on"));
    assert_eq!(config("/flags")["hasFeatureFlags"], true);
    let remote = server.call("GET", &format!("/array/{PROJECT_KEY}/config")).no_key().send();
    assert_eq!(remote.expect(200).json()["hasFeatureFlags"], true);
}

// contract: flags 89-91
fn flags_request_aliases_are_read(store: Store) {
    let server = store.start();
    create(
        &server,
        json!({ "key": "half", "filters": { "groups": [{ "rollout_percentage": 50 }] } }),
    );
    for token in ["token", "api_key", "$token"] {
        ask(&server, "v=2", json!({ token: PROJECT_KEY, "distinct_id": "u" })).expect(200);
    }
    for body in
        [json!({ "distinct_id": "u" }), json!({ "token": "phc_nobody", "distinct_id": "u" })]
    {
        let refused = ask(&server, "v=2&token=phc_test", body).expect(401);
        assert_eq!(refused.error(), "authentication_error invalid_api_key -");
        assert!(refused.json().get("attr").is_none());
    }
    let nobody = ask(&server, "v=2", json!({ "token": PROJECT_KEY })).expect(400);
    assert_eq!(nobody.error(), "validation_error missing_distinct_id -");
    let none = ask(&server, "v=2", json!({ "token": PROJECT_KEY, "disable_flags": true }));
    assert_eq!(none.expect(200).json()["flags"], json!({}));
    let of = |id: Value| {
        let body = json!({ "token": PROJECT_KEY, "$distinct_id": id });
        ask(&server, "v=2", body).expect(200).json()["flags"]["half"]["enabled"].clone()
    };
    for number in 0..20 {
        assert_eq!(of(json!(number)), of(json!(number.to_string())));
        let long = format!("{number}{}", "x".repeat(250));
        assert_eq!(of(json!(long)), of(json!(long[..200])));
    }
}

// contract: flags 92-93
fn flags_request_accepts_every_encoding(store: Store) {
    let server = store.start();
    create(&server, everyone("on"));
    let body =
        json!({ "token": PROJECT_KEY, "distinct_id": "u", "person_properties": {} }).to_string();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(body.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let base64 = STANDARD.encode(&body);
    let form = format!("data={}", base64.replace('+', "%2B").replace('=', "%3D"));
    let broken = body.replace("{}", "{\"p\": NaN, \"q\": \"\\ud800\"}").into_bytes();
    type Headers<'a> = &'a [(&'a str, &'a str)];
    let sent: [(&str, Headers<'_>, &[u8]); 7] = [
        ("", &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")], &gzip),
        ("&compression=gzip-js", &[("Content-Type", "text/plain")], &gzip),
        ("", &[], &gzip),
        (
            "&compression=base64",
            &[("Content-Type", "application/x-www-form-urlencoded")],
            form.as_bytes(),
        ),
        ("", &[], base64.as_bytes()),
        ("", &[("Content-Type", "text/plain;charset=UTF-8")], body.as_bytes()),
        ("", &[("Content-Type", "application/json")], &broken),
    ];
    for (query, headers, bytes) in sent {
        let call = server.call("POST", &format!("/flags/?v=2{query}")).no_key();
        let call = headers.iter().fold(call, |call, (name, value)| call.header(name, value));
        let response = call.bytes(bytes.to_vec()).send().expect(200).json();
        assert_eq!(response["flags"]["on"]["enabled"], true, "{query} {headers:?}");
    }
    for (media, bytes) in [
        ("application/xml", body.as_bytes()),
        ("application/json", b"{\"token\": ".as_slice()),
        ("application/json", b"[]".as_slice()),
        ("application/json", b"".as_slice()),
    ] {
        let call = server.call("POST", "/flags?v=2").no_key().header("Content-Type", media);
        let refused = call.bytes(bytes.to_vec()).send().expect(400);
        assert_eq!(refused.error(), "validation_error invalid_payload -", "{media}");
    }
}

// contract: flags 94-96
fn flags_request_selects_flag_keys(store: Store) {
    let server = store.start();
    let base = create(&server, everyone("base"));
    let on_base = json!({ "groups": [{ "properties": [{ "key": base["id"].to_string(), "type": "flag",
        "operator": "flag_evaluates_to", "value": true }] }] });
    create(&server, json!({ "key": "top", "filters": on_base }));
    let mut web = everyone("web");
    web["evaluation_contexts"] = json!(["web"]);
    create(&server, web);
    let mut runs = everyone("server");
    runs["evaluation_runtime"] = json!("server");
    create(&server, runs);
    let chosen = |more: Value| {
        let response = flags_of(&server, "u", more);
        response["flags"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    for (more, expected) in [
        (json!({}), vec!["base", "server", "top", "web"]),
        (json!({ "flag_keys": ["top", "nope"] }), vec!["base", "top"]),
        (json!({ "flag_keys_to_evaluate": ["web"] }), vec!["web"]),
        (json!({ "flag_keys": [] }), vec!["base", "server", "top", "web"]),
        (json!({ "evaluation_contexts": ["ios"] }), vec!["base", "server", "top"]),
        (json!({ "evaluation_environments": ["web"] }), vec!["base", "server", "top", "web"]),
        (json!({ "evaluation_runtime": "client" }), vec!["base", "top", "web"]),
    ] {
        assert_eq!(chosen(more.clone()), expected, "{more}");
    }
    let body = json!({ "token": PROJECT_KEY, "distinct_id": "u" });
    for (agent, more, seen) in [
        (Some("Mozilla/5.0"), json!({}), false),
        (Some("posthog-python/7.79.0"), json!({}), true),
        (Some("Mozilla/5.0"), json!({ "evaluation_runtime": "all" }), true),
        (None, json!({}), false),
    ] {
        let mut body = body.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let call = server.call("POST", "/flags?v=2").no_key();
        let call = agent.into_iter().fold(call, |call, agent| call.header("User-Agent", agent));
        let response = call.json(body).send().expect(200).json();
        assert_eq!(response["flags"].get("server").is_some(), seen, "{agent:?} {more}");
    }
}

// contract: flags 63
fn group_flags_without_group_types_are_skipped(store: Store) {
    let server = store.start();
    let filters = json!({ "aggregation_group_type_index": 0, "groups": [{}] });
    create(&server, json!({ "key": "g", "filters": filters }));
    for more in [json!({}), json!({ "groups": { "company": "acme" } })] {
        let response = flags_of(&server, "u", more);
        let flag = &response["flags"]["g"];
        assert_eq!(
            (&flag["enabled"], &flag["reason"]["code"]),
            (&json!(false), &json!("no_group_type"))
        );
        assert_eq!(response["errorsWhileComputingFlags"], false);
    }
}

// contract: flags 77
fn flag_dependencies_and_enrollment_are_evaluated(store: Store) {
    let server = store.start();
    let base = create(&server, everyone("base"));
    let on_base = json!({ "groups": [{ "properties": [{ "key": base["id"].to_string(), "type": "flag",
        "operator": "flag_evaluates_to", "value": false }] }] });
    let top = create(&server, json!({ "key": "top", "filters": on_base }));
    server.patch(&path(&top), json!({ "active": false })).expect(200);
    server.patch(&path(&base), json!({ "deleted": true })).expect(200);
    server.patch(&path(&top), json!({ "active": true })).expect(200);
    let flag = &flags_of(&server, "u", json!({}))["flags"]["top"];
    assert_eq!(
        (&flag["enabled"], &flag["reason"]["code"]),
        (&json!(false), &json!("missing_dependency"))
    );
}

// contract: flags 58
fn recorded_flag_hashes_hold_over_http(store: Store) {
    let server = store.start();
    let recorded = include_str!("../../../../../fixtures/flags/flag_hash.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let configs = recorded["flag_configs"].as_array().unwrap();
    let mut checked = 0;
    for config in
        configs.iter().filter(|one| !one["name"].as_str().unwrap().starts_with("unit_only"))
    {
        let (key, filters) = (&config["flag"]["key"], &config["flag"]["filters"]);
        create(&server, json!({ "key": key, "filters": filters }));
        let outcomes = recorded["outcomes"].as_array().unwrap();
        let rows = outcomes.iter().find(|rows| rows["config"] == config["name"]).unwrap();
        for row in rows["rows"].as_array().unwrap().iter().take(200) {
            let id = row["distinct_id"].as_str().unwrap();
            if id.chars().count() > 200 || id.contains('\0') {
                continue;
            }
            let response = flags_of(&server, id, json!({ "person_properties": row["properties"] }));
            let flag = &response["flags"][key.as_str().unwrap()];
            let value = match (&flag["enabled"], &flag["variant"]) {
                (Value::Bool(true), Value::String(variant)) => json!(variant),
                (enabled, _) => enabled.clone(),
            };
            assert_eq!(value, row["expected"], "{key} {id}");
            checked += 1;
        }
    }
    assert!(checked > 500, "{checked}");
}

fn flag_change_is_visible_to_the_next_request(store: Store) {
    let server = store.start();
    let flag = create(&server, everyone("on"));
    for round in 0..20 {
        let share = if round % 2 == 0 { 100 } else { 0 };
        let filters = json!({ "groups": [{ "rollout_percentage": share }] });
        server.patch(&path(&flag), json!({ "filters": filters })).expect(200);
        let seen = &flags_of(&server, "u", json!({}))["flags"]["on"]["enabled"];
        assert_eq!(*seen, share == 100, "round {round}");
    }
    let other = create(&server, everyone("other"));
    assert_eq!(names(&flags_of(&server, "u", json!({}))["flags"]), ["on", "other"]);
    server.patch(&path(&other), json!({ "active": false })).expect(200);
    assert_eq!(names(&flags_of(&server, "u", json!({}))["flags"]), ["on"]);
    assert_eq!(server.get(FLAGS).json()["count"], 2);
}

// contract: flags 97
fn flags_endpoint_allows_cors(store: Store) {
    let server = store.start();
    let origin = "https://shop.example";
    let asked = server.call("OPTIONS", "/flags/?v=2").no_key().header("Origin", origin);
    let asked = asked
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "content-type");
    let allowed = asked.send().expect(204);
    assert_eq!(allowed.header("access-control-allow-headers"), Some("content-type"));
    let all = Some("GET, POST, OPTIONS, HEAD");
    assert_eq!(allowed.header("access-control-allow-methods"), all);
    for (path, methods) in
        [("/flags", all), ("/decide/", all), ("/flags/definitions", Some("GET, OPTIONS, HEAD"))]
    {
        let told = server.call("OPTIONS", path).no_key().send().expect(204);
        assert_eq!((told.header("allow"), told.text().as_str()), (methods, ""), "{path}");
        let refused = server.call("PUT", path).no_key().send().expect(405);
        assert_eq!(refused.header("allow"), methods, "{path}");
    }
    let refused =
        server.call("POST", "/flags/?v=2").no_key().header("Origin", origin).json(json!({}));
    for response in [allowed, refused.send().expect(401)] {
        assert_eq!(response.header("access-control-allow-origin"), Some(origin));
        assert_eq!(response.header("access-control-allow-credentials"), Some("true"));
    }
}

// contract: flags 99
fn flags_geoip_uses_the_forwarded_address(store: Store) {
    let cities = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/geoip/cities.mmdb");
    let server = store.start_with(&[("HEDGEROW_GEOIP_DB", cities)]);
    let in_sweden = json!({ "key": "$geoip_country_code", "type": "person", "value": "SE" });
    create(
        &server,
        json!({ "key": "f", "filters": { "groups": [{ "properties": [in_sweden] }] } }),
    );
    let on = |id: &str, more: Value, forwarded: Option<&str>| {
        let mut body = json!({ "token": PROJECT_KEY, "distinct_id": id });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let call = server.call("POST", "/flags?v=2").no_key().json(body);
        let call = forwarded.into_iter().fold(call, |call, ip| call.header("X-Forwarded-For", ip));
        call.send().expect(200).json()["flags"]["f"]["enabled"] == true
    };
    let (sweden, nowhere) = (Some("89.160.20.129"), Some("89.160.21.1"));
    assert!(on("u", json!({}), sweden));
    assert!(!on("u", json!({}), nowhere));
    assert!(!on("u", json!({}), None), "no header, no look-up");
    let says = |code: &str| json!({ "person_properties": { "$geoip_country_code": code } });
    assert!(!on("u", says("DE"), sweden), "what the caller says counts");
    assert!(on("u", says("SE"), nowhere));
    let stored = |id: &str, code: &str| {
        json!({ "event": "e", "distinct_id": id, "properties": { "$geoip_disable": true,
            "$set": { "$geoip_country_code": code } } })
    };
    server.ingest(&[stored("german", "DE"), stored("swede", "SE")]);
    assert!(on("german", json!({}), sweden), "the address counts more than what is stored");
    assert!(!on("german", json!({ "geoip_disable": true }), sweden));
    assert!(on("swede", json!({ "geoip_disable": true }), nowhere));
}
