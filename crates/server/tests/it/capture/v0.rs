//! Capture v0 over HTTP: every path and every error.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;

use crate::capture::journal_records::{Recording, fixture, stored, told};
use crate::harness::{
    PERSONAL_KEY, PROJECT_KEY, Relay, Response, Server, Store, on_both_stores, postgres_available,
};

on_both_stores! {
    every_capture_path_stores_an_event,
    invalid_capture_requests_have_the_capture_error_shape,
    capture_token_is_found_in_every_location,
    invalid_events_are_dropped_warned_about_and_counted,
    personal_key_capture_requires_project_id,
    reset_project_token_is_rejected_immediately,
}

fn event() -> Value {
    json!({ "api_key": PROJECT_KEY, "event": "e", "distinct_id": "d" })
}

fn send(server: &Server, path: &str, body: Value) -> Response {
    server.call("POST", path).no_key().json(body).send()
}

fn is_captured(response: Response) {
    let response = response.expect(200);
    assert_eq!(response.text(), "{\"status\":1}");
    assert_eq!(response.header("content-type"), Some("application/json"));
}

// contract: ingestion 1-3
fn every_capture_path_stores_an_event(store: Store) {
    let server = store.start();
    let paths = ["/capture", "/e", "/i/v0/e", "/track", "/engage", "/batch", "/i/v0/ai/batch"];
    for path in paths.into_iter().flat_map(|path| [path.to_owned(), format!("{path}/")]) {
        is_captured(send(&server, &path, event()));
    }
    let batch: Vec<Value> = ["first", "second", "third"]
        .map(|name| json!({ "event": name, "properties": { "distinct_id": "b" } }))
        .into();
    let body = json!({ "api_key": PROJECT_KEY, "batch": batch, "historical_migration": true });
    is_captured(send(&server, "/batch/", body));
    let pixel = format!("/e/?data={}", "eyJldmVudCI6InBpeGVsIiwiZGlzdGluY3RfaWQiOiJwIn0=");
    is_captured(server.call("GET", &format!("{pixel}&token={PROJECT_KEY}")).no_key().send());

    let told = told(&server);
    assert_eq!(told.len(), 18);
    assert!(told[..14].iter().all(|one| one == "e d"), "{told:?}");
    assert_eq!(told[14..], ["first b", "second b", "third b", "pixel p"]);
    assert!(stored(&server)[14..17].iter().all(|event| event.historical));
}

// contract: ingestion 4-11, 13-15, 24, 47
fn invalid_capture_requests_have_the_capture_error_shape(store: Store) {
    let server = store.start();
    let invalid = "400 validation_error invalid_payload null";
    let bad_key = "401 authentication_error invalid_api_key absent";
    let token = |token: &str| json!({ "api_key": token, "event": "e", "distinct_id": "d" });
    let two = json!([token(PROJECT_KEY), token("phc_other")]);
    for (body, expected) in [
        (json!({ "api_key": PROJECT_KEY, "batch": [] }).to_string().as_str(), invalid),
        (&json!({ "api_key": PROJECT_KEY, "batch": 5 }).to_string(), invalid),
        ("[]", invalid),
        ("", invalid),
        ("\"x\"", invalid),
        ("5", invalid),
        ("{\"event\":", invalid),
        ("{\"n\":NaN}", invalid),
        (&token("phc_nobody").to_string(), bad_key),
        (r#"{"event":"e","distinct_id":"d"}"#, bad_key),
        (&token(&"x".repeat(65)).to_string(), bad_key),
        (&token("phc_é").to_string(), bad_key),
        (&two.to_string(), bad_key),
    ] {
        let sent = server.call("POST", "/capture/").no_key();
        let sent = sent.header("Content-Type", "application/json");
        assert_eq!(refused(&sent.bytes(body.into()).send()), expected, "{body}");
    }
    for (path, method) in [("/capture/", "PUT"), ("/e", "DELETE"), ("/batch", "PATCH")] {
        let response = server.call(method, path).no_key().send();
        assert_eq!(refused(&response), "405 invalid_request method_not_allowed absent");
        assert_eq!(response.header("allow"), Some("GET, POST, OPTIONS"));
    }
    assert_eq!(server.call("HEAD", "/e/").no_key().send().expect(405).body, b"");
    assert_eq!(told(&server), [""; 0]);
    // Keys and cookies of management requests have no effect here.
    is_captured(server.call("POST", "/e").key("phx_wrong").json(event()).send());
}

/// `status type code attr` of a public error, where the member `attr` may be absent.
fn refused(response: &Response) -> String {
    let body = response.json();
    assert!(!body["detail"].as_str().unwrap().is_empty());
    let attr = match body.get("attr") {
        None => "absent",
        Some(Value::Null) => "null",
        Some(attr) => attr.as_str().unwrap(),
    };
    let known = body.as_object().unwrap().len() - usize::from(attr != "absent");
    assert_eq!(known, 3, "{body}");
    let word = |name: &str| body[name].as_str().unwrap().to_owned();
    format!("{} {} {} {attr}", response.status, word("type"), word("code"))
}

// contract: ingestion 12, 16-19
fn capture_token_is_found_in_every_location(store: Store) {
    let server = store.start();
    for body in [
        json!({ "api_key": format!("  {PROJECT_KEY}\n"), "event": "e", "distinct_id": "trimmed" }),
        json!([
            { "token": PROJECT_KEY, "event": "e", "distinct_id": "first" },
            { "event": "e", "distinct_id": "second" },
        ]),
        json!({ "event": "e", "distinct_id": "in", "properties": { "token": PROJECT_KEY } }),
        json!({
            "api_key": PROJECT_KEY,
            "batch": [{ "event": "e", "distinct_id": "batch", "api_key": "phc_other" }],
        }),
        json!({ "$token": PROJECT_KEY, "event": "e", "distinct_id": "dollar" }),
    ] {
        is_captured(send(&server, "/e/", body));
    }
    let told = told(&server);
    assert_eq!(told, ["e trimmed", "e first", "e second", "e in", "e batch", "e dollar"]);
}

// contract: ingestion 13, 14
fn personal_key_capture_requires_project_id(store: Store) {
    let server = store.start();
    let other = server.post("/api/projects/", json!({ "name": "other" }));
    let with = |key: &str, project: Value| json!({ "api_key": key, "project_id": project, "event": "e", "distinct_id": "d" });
    let invalid = "400 validation_error invalid_project project_id";
    for (body, expected) in [
        (with("phx_nobody", json!(1)), "401 authentication_error invalid_personal_api_key absent"),
        (with(PERSONAL_KEY, json!("abc")), invalid),
        (with(PERSONAL_KEY, json!(4_711)), invalid),
        (with(PERSONAL_KEY, Value::Null), invalid),
    ] {
        assert_eq!(refused(&send(&server, "/e", body.clone())), expected, "{body}");
    }
    is_captured(send(&server, "/e", with(PERSONAL_KEY, json!(1))));
    let mut projects = vec![1];
    if other.status == 201 {
        let id = &other.json()["id"];
        is_captured(send(&server, "/e", with(PERSONAL_KEY, id.clone())));
        projects.push(id.as_i64().unwrap());
    }
    let found: Vec<i64> = stored(&server).iter().map(|event| event.project).collect();
    assert_eq!(found, projects);
}

// contract: ingestion 20-23, 54, 57-61
fn invalid_events_are_dropped_warned_about_and_counted(store: Store) {
    let server = store.start();
    let uuid = "0190F1F2-0000-7000-8000-00000000000A";
    let batch = json!([
        { "event": "good", "distinct_id": 1, "uuid": uuid },
        { "event": "no id" },
        { "event": "blank id", "distinct_id": "   " },
        { "event": "null id", "distinct_id": null },
        { "event": "", "distinct_id": "no name" },
        { "distinct_id": "no name" },
        { "event": "bad uuid", "distinct_id": "d", "uuid": "nope" },
        { "event": "long id", "distinct_id": "é".repeat(250) },
        { "event": "n".repeat(300), "distinct_id": "d", "uuid": "" },
        { "event": 5, "distinct_id": "d" },
        7,
    ]);
    let body = json!({ "api_key": PROJECT_KEY, "batch": batch });
    is_captured(send(&server, "/batch", body));
    is_captured(send(&server, "/e", json!({ "api_key": PROJECT_KEY })));

    let kept = stored(&server);
    let names: Vec<&str> = kept.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["good", "long id", "n".repeat(200).as_str(), "5"]);
    assert_eq!(kept[0].uuid.unwrap().to_string(), uuid.to_lowercase());
    assert_eq!(kept[1].distinct_id, "é".repeat(200));
    assert_eq!(kept[2].uuid, None);

    let metrics = server.get("/metrics").expect(200).text();
    for line in [
        "hedgerow_capture_events_total 4",
        "hedgerow_capture_dropped_total{reason=\"missing_distinct_id\"} 3",
        "hedgerow_capture_dropped_total{reason=\"missing_name\"} 3",
        "hedgerow_capture_dropped_total{reason=\"invalid_uuid\"} 1",
        "hedgerow_capture_dropped_total{reason=\"not_an_object\"} 1",
        "hedgerow_journal_records_total 4",
        "hedgerow_http_requests_total{method=\"POST\",route=\"/batch\",status=\"200\"} 1",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line} is not in\n{metrics}");
    }

    // Warnings are stored asynchronously, all of them by shutdown.
    let server = server.restart();
    let warnings = server.get("/api/projects/1/ingestion_warnings/").expect(200).json();
    let mut kinds: Vec<&str> = warnings["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "distinct_id_truncated",
            "invalid_event",
            "missing_event_name",
            "skipping_event_invalid_distinct_id",
            "skipping_event_invalid_uuid",
        ]
    );
}

fn reset_project_token_is_rejected_immediately(store: Store) {
    let server = store.start();
    is_captured(send(&server, "/e", event()));
    let reset = server.patch("/api/projects/1/reset_token/", json!({})).expect(200).json();
    let fresh = reset["api_token"].as_str().unwrap();
    send(&server, "/e", event()).expect(401);
    is_captured(send(&server, "/e", json!({ "token": fresh, "event": "e", "distinct_id": "d" })));
}

// contract: ingestion 26-29
#[test]
fn capture_allows_cors_from_any_origin() {
    let server = Store::Sqlite.start();
    let origin = "https://app.example.com";
    let asked = server
        .call("OPTIONS", "/e/")
        .no_key()
        .header("Origin", origin)
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "content-type,x-foo")
        .header("Access-Control-Request-Private-Network", "true")
        .send()
        .expect(200);
    for (name, value) in [
        ("access-control-allow-origin", origin),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "GET, POST, OPTIONS"),
        ("access-control-allow-headers", "content-type,x-foo"),
        ("access-control-max-age", "86400"),
        ("access-control-allow-private-network", "true"),
        ("vary", "Origin"),
    ] {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
    for (method, path, body, status) in [
        ("POST", "/e/", event(), 200),
        ("POST", "/e/", json!({ "api_key": "wrong", "event": "e" }), 401),
        ("POST", "/e/", json!([]), 400),
        ("PUT", "/e/", event(), 405),
        ("POST", "/i/v1/analytics/events", json!({}), 400),
        ("GET", "/array/phc_test/config", Value::Null, 200),
        ("GET", "/array/wrong/config", Value::Null, 404),
        ("GET", "/static/nothing.js", Value::Null, 404),
        ("GET", "/api/surveys/?token=wrong", Value::Null, 401),
        ("POST", "/i/v1/logs", json!({}), 404),
        ("GET", "/api/conversations/v1/widget/messages", Value::Null, 404),
    ] {
        let call = server.call(method, path).no_key().header("Origin", origin);
        let response = call.json(body).send().expect(status);
        assert_eq!(response.header("access-control-allow-origin"), Some(origin), "{path}");
    }
    let managed = server.call("GET", "/api/users/@me/").header("Origin", origin).send();
    assert_eq!(managed.header("access-control-allow-origin"), None);

    let beacon = send(&server, "/e/?beacon=1", event()).expect(204);
    assert_eq!(beacon.body, b"");
    let recording = send(&server, "/s/", event()).expect(200);
    assert_eq!(recording.json(), json!({ "status": 1, "quota_limited": ["recordings"] }));
    send(&server, "/s/", json!({ "api_key": "wrong", "event": "$snapshot" })).expect(401);
    assert_eq!(told(&server), ["e d", "e d"]);
}

#[derive(Deserialize)]
struct Encoding {
    name: String,
    method: String,
    path: String,
    headers: HashMap<String, String>,
    body_b64: String,
    expect: String,
}

// contract: ingestion 33-43, 46-49
#[test]
fn every_body_encoding_stores_the_same_event() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_PROJECT_API_KEY", "phc_demo")]);
    let mut names = Vec::new();
    for encoding in fixture::<Encoding>("capture/encodings.jsonl") {
        let Encoding { name, method, path, headers, body_b64, expect } = encoding;
        let headers = headers.into_iter().collect();
        let response =
            Recording { scenario: name.clone(), method, path, headers, body_b64 }.send(&server);
        match expect.as_str() {
            "stored" => {
                is_captured(response);
                names.push(name);
            }
            "stored as $identify" => is_captured(response),
            status => {
                assert_eq!(response.status.to_string(), status, "{name}: {}", response.text())
            }
        }
    }
    assert_eq!(names.len(), 21);
    let (identified, same): (Vec<_>, Vec<_>) =
        stored(&server).into_iter().partition(|event| event.name == "$identify");
    assert_eq!((identified.len(), same.len()), (1, names.len()));
    for (name, event) in names.iter().zip(&same) {
        assert_eq!(event.uuid, same[0].uuid, "{name}");
        assert_eq!(event.properties, same[0].properties, "{name}");
    }
}

#[derive(Deserialize)]
struct Expected {
    file: String,
    line: usize,
    events: Vec<(String, String, Option<String>)>,
}

// contract: ingestion 151
#[test]
fn recorded_sdk_requests_are_accepted() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_PROJECT_API_KEY", "phc_demo")]);
    let mut expected_events = Vec::new();
    for expected in fixture::<Expected>("capture/sdk_wire_events.jsonl") {
        let recordings: Vec<Recording> = fixture(&format!("sdk_wire/{}", expected.file));
        let recording = &recordings[expected.line - 1];
        let response = recording.send(&server);
        let status = if recording.path.contains("beacon=1") { 204 } else { 200 };
        let response = response.expect(status);
        if recording.path.starts_with("/i/v1") {
            let results = response.json()["results"].as_object().unwrap().clone();
            assert!(results.values().all(|one| *one == json!({ "result": "ok" })), "{results:?}");
        } else if status == 200 {
            assert_eq!(response.text(), "{\"status\":1}");
        }
        expected_events
            .extend(expected.events.into_iter().map(|(name, id, _)| format!("{name} {id}")));
    }
    assert_eq!(expected_events.len(), 121);
    assert_eq!(told(&server), expected_events);
}

// contract: ingestion 111
#[test]
fn python_sdk_alias_keeps_the_person() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_PROJECT_API_KEY", "phc_demo")]);
    let body = json!({ "api_key": "phc_demo", "batch": [
        { "event": "e", "distinct_id": "user_1" }, { "event": "e", "distinct_id": "anon_1" }
    ] });
    is_captured(server.call("POST", "/batch").no_key().json(body).send());
    server.wait_until_applied();
    let person = |id: &str| {
        let found = server.get(&format!("/api/projects/1/persons/?distinct_id={id}")).json();
        found["results"][0]["uuid"].clone()
    };
    let (user, anonymous) = (person("user_1"), person("anon_1"));
    assert_ne!(user, anonymous);
    let recordings: Vec<Recording> = fixture("sdk_wire/posthog_python_7_79_0.jsonl");
    let alias = recordings.iter().find(|one| one.scenario == "alias").unwrap();
    is_captured(alias.send(&server));
    server.wait_until_applied();
    assert_eq!([person("user_1"), person("anon_1")], [anonymous.clone(), anonymous]);
}

// contract: ingestion 127, 128
#[test]
fn client_ip_comes_from_trusted_proxies() {
    for (trusted, forwarded, expected) in [
        ("", None, "127.0.0.1"),
        ("", Some("203.0.113.9, 10.0.0.2"), "203.0.113.9"),
        ("", Some("[2001:db8::7]:4711"), "2001:db8::7"),
        ("127.0.0.0/8", Some("198.51.100.1, 203.0.113.9"), "203.0.113.9"),
        ("10.0.0.0/8", Some("203.0.113.9"), "127.0.0.1"),
    ] {
        let server = Store::Sqlite.start_with(&[("HEDGEROW_TRUSTED_PROXIES", trusted)]);
        let call = server.call("POST", "/e").no_key().json(event());
        let call = match forwarded {
            Some(forwarded) => call.header("X-Forwarded-For", forwarded),
            None => call,
        };
        is_captured(call.send());
        assert_eq!(stored(&server)[0].client_ip.as_deref(), Some(expected), "{forwarded:?}");
    }
}

// contract: ingestion 25
#[test]
fn cached_tokens_are_accepted_while_the_catalog_is_unavailable() {
    if !postgres_available() {
        return;
    }
    let mut instance = Store::Postgres.instance();
    let url = instance.get("HEDGEROW_CATALOG_URL");
    let (_, rest) = url.split_once('@').unwrap();
    let (host, database) = rest.split_once('/').unwrap();
    let relay = Relay::to(host.parse().unwrap());
    instance
        .set("HEDGEROW_CATALOG_URL", &format!("postgres://postgres@{}/{database}", relay.address));
    let server = instance.serve();
    is_captured(send(&server, "/e", event()));
    let stranger = || send(&server, "/e", json!({ "token": "phc_x", "event": "e" }));
    relay.cut();

    is_captured(send(&server, "/e", event()));
    let config = server.call("GET", "/array/phc_test/config").no_key().send();
    assert_eq!(config.expect(200).json()["token"], PROJECT_KEY);
    let response = stranger();
    assert_eq!(refused(&response), "503 server_error fetch_team_fail absent");
    assert_eq!(response.header("retry-after"), Some("1"));
    relay.restore();
    assert_eq!(refused(&stranger()), "401 authentication_error invalid_api_key absent");
    assert_eq!(told(&server), ["e d", "e d"]);
}

// contract: ingestion 25
#[test]
fn full_journal_rejects_events_and_keeps_acknowledged_ones() {
    let server = Store::Sqlite.start_with(&[
        ("HEDGEROW_CAPTURE_BODY_BYTES_MAX", "1 MiB"),
        ("HEDGEROW_JOURNAL_DISK_BYTES_MAX", "24 MiB"),
    ]);
    let mut event = event();
    event["properties"] = json!({ "filler": "x".repeat(900_000) });
    let answers = (0..40).map(|_| send(&server, "/e", event.clone()));
    let (taken, refusals): (Vec<_>, Vec<_>) = answers.partition(|response| response.status == 200);
    assert!(taken.len() > 10 && refusals.len() > 5, "{} {}", taken.len(), refusals.len());
    for response in refusals {
        assert_eq!(refused(&response), "503 server_error fetch_team_fail absent");
        assert_eq!(response.header("retry-after"), Some("1"));
    }
    assert_eq!(told(&server).len(), taken.len());
}
