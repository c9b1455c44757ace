//! Observability: probes, metrics, logs, request ids and CORS.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{PERSONAL_KEY, PROJECT_KEY, Relay, Store, on_both_stores, postgres_available};

const PROBES: [&str; 5] = ["/_livez", "/_liveness", "/_readyz", "/_readiness", "/_health"];

on_both_stores! {
    probes_respond_under_all_their_names,
    log_contains_no_secret_at_any_level,
    every_documented_operation_is_routed,
}

fn probes_respond_under_all_their_names(store: Store) {
    let server = store.start();
    for path in PROBES {
        for path in [path.to_owned(), format!("{path}/")] {
            let response = server.call("GET", &path).no_key().send().expect(200);
            assert_eq!(response.json()["status"], "ok", "{path}");
            assert!(server.call("HEAD", &path).no_key().send().expect(200).body.is_empty());
            assert_eq!(
                server.call("POST", &path).no_key().send().expect(405).header("allow"),
                Some("GET, HEAD, OPTIONS")
            );
        }
    }
}

#[test]
fn server_without_its_postgres_is_live_but_not_ready() {
    if !postgres_available() {
        return;
    }
    let mut instance = Store::Postgres.instance();
    let url = instance.get("HEDGEROW_CATALOG_URL");
    let (_, rest) = url.split_once('@').unwrap();
    let (host, database) = rest.split_once('/').unwrap();
    let relay = Relay::to(host.parse::<SocketAddr>().unwrap());
    instance
        .set("HEDGEROW_CATALOG_URL", &format!("postgres://postgres@{}/{database}", relay.address));
    let server = instance.serve();
    server.get("/_readyz").expect(200);
    relay.cut();
    let response = server.get("/_readyz").expect(503);
    assert_eq!(response.json()["catalog"], "unavailable");
    server.get("/_livez").expect(200);
    let response = server.get("/api/personal_api_keys/").expect(503);
    assert_eq!(response.error(), "server_error service_unavailable -");
    assert!(response.header("retry-after").is_some());
    let address = server.address().to_string();
    let (ok, _, stderr) = server.instance().run(&["health", "--listen", &address]);
    assert!(!ok && stderr.contains("not ready"), "{stderr}");
    relay.restore();
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.get("/_readyz").status != 200 {
        assert!(Instant::now() < deadline, "{}", server.output());
    }
    server.get("/api/personal_api_keys/").expect(200);
}

#[test]
fn server_that_lost_catalog_ownership_stops() {
    if !postgres_available() {
        return;
    }
    let mut instance = Store::Postgres.instance();
    let direct = instance.get("HEDGEROW_CATALOG_URL");
    let (_, rest) = direct.split_once('@').unwrap();
    let (host, database) = rest.split_once('/').unwrap();
    let relay = Relay::to(host.parse::<SocketAddr>().unwrap());
    instance.set("HEDGEROW_SECRET_KEY", "shared-by-both-servers");
    let mut second = instance.sibling();
    instance
        .set("HEDGEROW_CATALOG_URL", &format!("postgres://postgres@{}/{database}", relay.address));
    second.set("HEDGEROW_CATALOG_URL", &direct);
    let first = instance.serve();
    relay.cut();
    first.instance().database.as_ref().unwrap().wait_until_unused();
    let second = second.serve();
    relay.restore();
    let (status, output, _instance) = first.wait_for_exit();
    assert!(!status.success() && output.contains("another server owns this catalog"), "{output}");
    let response = second.get("/api/personal_api_keys/");
    assert_eq!(response.status, 200, "{}", second.output());
}

#[test]
fn metrics_are_labeled_by_route_never_by_path() {
    let server = Store::Sqlite.start();
    server.get("/api/personal_api_keys/a-secret-path/").expect(404);
    server.get("/another-secret-path").expect(404);
    server.call("BREW", "/api/personal_api_keys/").send().expect(405);
    let response = server.call("GET", "/metrics").no_key().send().expect(200);
    assert!(response.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = response.text();
    for line in [
        "hedgerow_http_requests_total{method=\"GET\",route=\"/api/personal_api_keys/{id}\",status=\"404\"} 1",
        "hedgerow_http_requests_total{method=\"GET\",route=\"unmatched\",status=\"404\"} 1",
        "hedgerow_http_requests_total{method=\"other\",route=\"/api/personal_api_keys\",status=\"405\"} 1",
        "hedgerow_http_request_seconds_count{method=\"GET\",route=\"unmatched\"} 1",
        "hedgerow_http_in_flight 1",
        "hedgerow_build_info{version=",
        "hedgerow_catalog_statements_total ",
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("secret-path") && text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn request_id_is_echoed_and_logged() {
    let environment = [("HEDGEROW_LOG_FORMAT", "json"), ("HEDGEROW_LOG_LEVEL", "debug")];
    let server = Store::Sqlite.start_with(&environment);
    let ask = |id: &str| {
        let response =
            server.call("GET", "/api/personal_api_keys/").header("X-Request-Id", id).send();
        response.expect(200).header("x-request-id").unwrap().to_owned()
    };
    assert_eq!(ask("my-id-7"), "my-id-7");
    let insane = ask("two words");
    assert_eq!((insane.len(), insane.as_str() != ask("two words")), (36, true));
    let line = server.process().wait_for("my-id-7").unwrap();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["span"]["id"], "my-id-7");
    assert_eq!(line["http.route"], "/api/personal_api_keys");
    assert_eq!((&line["http.status"], &line["http.method"]), (&json!(200), &json!("GET")));
    for line in server.process().logged().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn every_response_has_a_request_id() {
    let environment = [("HEDGEROW_LOG_FORMAT", "json"), ("HEDGEROW_LOG_LEVEL", "debug")];
    let server = Store::Sqlite.start_with(&environment);
    let event = json!({ "api_key": PROJECT_KEY, "event": "a", "distinct_id": "d" });
    let person = json!({ "token": PROJECT_KEY, "distinct_id": "d" });
    let mut ids = std::collections::HashSet::new();
    for (method, path, body) in [
        ("POST", "/capture/", Some(&event)),
        ("POST", "/i/v0/e/", Some(&event)),
        ("POST", "/capture/", None),
        ("POST", "/flags/?v=2", Some(&person)),
        ("GET", "/flags", None),
        ("OPTIONS", "/flags", None),
        ("GET", "/static/nothing.js", None),
        ("GET", "/nowhere", None),
        ("GET", "/", None),
        ("GET", "/api/users/@me/", None),
        ("GET", "/metrics", None),
    ] {
        let call = || {
            let call = server.call(method, path).no_key();
            body.map_or(call.header("Accept", "*/*"), |body| {
                server.call(method, path).no_key().json(body.clone())
            })
        };
        let id = call().send().header("x-request-id").unwrap().to_owned();
        assert_eq!(id.len(), 36, "{method} {path}: {id}");
        assert!(ids.insert(id), "{method} {path}");
        let echoed = call().header("X-Request-Id", "mine-7").send();
        assert_eq!(echoed.header("x-request-id"), Some("mine-7"), "{method} {path}");
    }
    assert!(server.process().logged().contains("mine-7"));
}

fn log_contains_no_secret_at_any_level(store: Store) {
    let server = store.start_with(&[("HEDGEROW_LOG_LEVEL", "trace,sqlx=trace,hyper=trace")]);
    let in_query = "/api/personal_api_keys/?personal_api_key=phx_in_a_query";
    server.call("GET", in_query).no_key().send().expect(401);
    let in_body = json!({ "personal_api_key": "phx_in_a_body", "label": "x", "scopes": [] });
    server.call("POST", "/api/personal_api_keys/").no_key().json(in_body).send().expect(401);
    let made = server.key(&["dashboard:read"]);
    let log_in = json!({ "email": "a@example.com", "password": "hunter22" });
    server.call("POST", "/api/login").no_key().json(log_in).send().expect(400);
    server.get("/api/personal_api_keys/").expect(200);
    let (_, output, _) = server.stop();
    assert!(output.contains("answered"), "{output}");
    for secret in [PERSONAL_KEY, "phx_in_a_query", "phx_in_a_body", &made, "hunter22"] {
        assert!(!output.contains(secret), "{secret} is in\n{output}");
    }
}

#[test]
fn cors_is_limited_to_public_paths() {
    let server = Store::Sqlite.start();
    let ask = |method: &str, path: &str| {
        let call = server.call(method, path).no_key().header("Origin", "https://shop.example");
        let call = call.header("Access-Control-Request-Method", "POST");
        call.header("Access-Control-Request-Headers", "content-type").send()
    };
    let preflight = ask("OPTIONS", "/e/").expect(200);
    for (header, value) in [
        ("access-control-allow-origin", "https://shop.example"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-headers", "content-type"),
        ("access-control-max-age", "86400"),
        ("vary", "Origin"),
    ] {
        assert_eq!(preflight.header(header), Some(value), "{header}");
    }
    for (method, path) in [
        ("OPTIONS", "/api/personal_api_keys/"),
        ("GET", "/api/personal_api_keys/"),
        ("POST", "/api/login"),
        ("GET", "/api/schema/"),
        ("GET", "/_health"),
        ("GET", "/metrics"),
        ("GET", "/"),
    ] {
        let response = ask(method, path);
        let shared = response.headers.iter().find(|(name, _)| name.starts_with("access-control"));
        assert_eq!(shared, None, "{method} {path}");
    }
}

/// The converse, that every route is documented, holds by construction: tidy checks
/// that only `Routes` registers routes.
fn every_documented_operation_is_routed(store: Store) {
    let server = store.start();
    let schema = server.call("GET", "/api/schema/").no_key().send().expect(200).json();
    assert_eq!(schema["openapi"], "3.1.0");
    let mut operations = Vec::new();
    for (path, methods) in schema["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let response = server.call(&method, &filled(path)).no_key().send();
            assert!(response.status < 500, "{method} {path}: {}", response.text());
            operations.push((method, path, response.status));
        }
    }
    assert!(operations.len() > 10);
    let counted = server.get("/metrics").text();
    for (method, path, status) in operations {
        let line = format!("{{method=\"{method}\",route=\"{path}\",status=\"{status}\"}}");
        assert!(counted.contains(&line) && status != 405, "{line}");
    }
}

/// A path with its parameters filled in.
fn filled(template: &str) -> String {
    let fill =
        |segment: &str| if segment.starts_with('{') { "1".into() } else { segment.to_owned() };
    template.split('/').map(fill).collect::<Vec<String>>().join("/")
}

#[test]
fn retention_setting_deletes_old_events() {
    let server = Store::Sqlite.start();
    let then = |name: &str, time: serde_json::Value| json!({ "event": name, "distinct_id": "d", "timestamp": time });
    server.ingest(&[then("old", "2020-01-01T00:00:00Z".into()), then("new", json!(null))]);
    let all = "/api/projects/1/events/?after=2000-01-01";
    let count = |list: &serde_json::Value| list["results"].as_array().unwrap().len();
    assert_eq!(count(&server.get(all).expect(200).json()), 2);
    let (_, _, mut instance) = server.stop();
    instance.set("HEDGEROW_EVENTS_DAYS_MAX", "30");
    let kept = instance.serve().wait_until(all, |list| count(list) == 1);
    assert_eq!(kept["results"][0]["event"], "new");
}
