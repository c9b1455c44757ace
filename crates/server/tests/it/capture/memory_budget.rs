//! The memory budget of requests: reserved before allocation, and no client can exhaust it for others.
//! `make soak` runs heavier versions.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::harness::{PROJECT_KEY, Response, Server, Store, on_both_stores};

on_both_stores! {
    nul_bytes_in_paths_and_queries_are_handled,
}

const MIB: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Memory that an attack may add to an idle server with a budget of 16 MiB: the budget, and
/// slack for connections, threads and the allocator.
const COST_BYTES_MAX: usize = 96 * MIB;

fn memory(server: &Server, line: &str) -> usize {
    let status = format!("/proc/{}/status", server.process().id());
    let status = std::fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() * 1_024
}

/// The server's peak resident memory.
pub fn peak_bytes(server: &Server) -> usize {
    memory(server, "VmHWM:")
}

/// By how much the peak has grown. The kernel counts pages per thread before it adds them up, so that a
/// peak may read lower than before.
pub fn added_bytes(server: &Server, idle: usize) -> usize {
    peak_bytes(server).saturating_sub(idle)
}

/// The value of a line of `/metrics`.
fn metric(server: &Server, name: &str) -> u64 {
    let metrics = server.call("GET", "/metrics").no_key().send().expect(200).text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_else(|| panic!("{name} is not in\n{metrics}")).trim().parse().unwrap()
}

#[track_caller]
fn wait_for_metric(server: &Server, name: &str, right: impl Fn(u64) -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !right(metric(server, name)) {
        assert!(Instant::now() < deadline, "{name} is {}", metric(server, name));
        thread::sleep(Duration::from_millis(10));
    }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream
}

fn read_answer(mut stream: TcpStream, what: &str) -> Response {
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    Response::parse(&received, what)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Sends an event as an SDK does: retries on 503.
fn takes_events(server: &Server) {
    let event = json!({ "api_key": PROJECT_KEY, "event": "well", "distinct_id": "d" });
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let response = server.call("POST", "/e").no_key().json(event.clone()).send();
        if response.status != 503 {
            response.expect(200);
            return;
        }
        assert!(Instant::now() < deadline, "no event is taken");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A few kilobytes that decompress to 2 MB of JSON, which would parse to 100 MB.
fn flags_bomb(token: &str) -> Vec<u8> {
    let values = "{},".repeat(600_000);
    gzip(
        format!(
            r#"{{"token":"{token}","distinct_id":"d","person_properties":{{"a":[{values}0]}}}}"#
        )
        .as_bytes(),
    )
}

#[test]
fn flags_request_with_an_unknown_token_is_rejected_before_parsing() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_CAPTURE_IN_FLIGHT_BYTES_MAX", "16 MiB")]);
    takes_events(&server);
    let idle = peak_bytes(&server);
    for (token, expected) in [("phc_unknown", 401), (PROJECT_KEY, 413)] {
        let bomb = flags_bomb(token);
        assert!(bomb.len() < 20_000);
        let statuses: Vec<u16> = thread::scope(|scope| {
            let ask = || {
                let call = server.call("POST", "/flags/?v=2").no_key();
                call.header("Content-Encoding", "gzip").bytes(bomb.clone()).send().status
            };
            let asked: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
            asked.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(statuses.iter().all(|status| [expected, 503].contains(status)), "{statuses:?}");
        assert!(statuses.contains(&expected), "{statuses:?}");
    }
    let cost = added_bytes(&server, idle);
    assert!(cost < COST_BYTES_MAX, "{cost} bytes");
    let flags = json!({ "token": PROJECT_KEY, "distinct_id": "d" });
    server.call("POST", "/flags/?v=2").no_key().json(flags).send().expect(200);
    wait_for_metric(&server, "hedgerow_capture_in_flight_bytes", |bytes| bytes == 0);
}

#[test]
fn decompression_bombs_are_charged_to_the_budget() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_CAPTURE_IN_FLIGHT_BYTES_MAX", "64 MiB")]);
    takes_events(&server);
    let idle = peak_bytes(&server);
    let mut text = format!(r#"{{"api_key":"{PROJECT_KEY}","event":"e","distinct_id":"d","x":""#);
    text.push_str(&"x".repeat(19 * MIB));
    text.push_str("\"}");
    let zstd = zstd::encode_all(text.as_bytes(), 3).unwrap();
    let mut brotli = Vec::new();
    let parameters = brotli::enc::BrotliEncoderParams { quality: 3, ..Default::default() };
    brotli::BrotliCompress(&mut text.as_bytes(), &mut brotli, &parameters).unwrap();
    let statuses: Vec<u16> = thread::scope(|scope| {
        let server = &server;
        let sent: Vec<_> = (0..24)
            .map(|number| {
                let (coding, body) = [("zstd", &zstd), ("br", &brotli)][number % 2];
                assert!(body.len() < 200_000);
                scope.spawn(move || {
                    let call = server.call("POST", "/e").no_key();
                    call.header("Content-Encoding", coding).bytes(body.clone()).send().status
                })
            })
            .collect();
        takes_events(server);
        sent.into_iter().map(|one| one.join().unwrap()).collect()
    });
    // The event exceeds its limit, so an accepted request stores nothing.
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200), "{statuses:?}");
    let cost = added_bytes(&server, idle);
    assert!(cost < 160 * MIB, "{cost} bytes");
    takes_events(&server);
    wait_for_metric(&server, "hedgerow_capture_in_flight_bytes", |bytes| bytes == 0);
}

#[test]
fn stalled_bodies_are_dropped_under_contention() {
    let server = Store::Sqlite.start_with(&[
        ("HEDGEROW_CAPTURE_IN_FLIGHT_BYTES_MAX", "16 MiB"),
        ("HEDGEROW_CAPTURE_STALL_SECONDS_MAX", "4"),
    ]);
    takes_events(&server);
    let idle = peak_bytes(&server);
    let head = "POST /e HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 60000\r\n\r\n{";
    let half: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(head.as_bytes()).unwrap();
            let _ = stream.write_all(&[b' '; 50_000]);
            stream
        })
        .collect();
    // The pool of small bodies is a sixteenth of the budget, so most of these are refused.
    wait_for_metric(&server, "hedgerow_budget_refused_total{use=\"small_bodies\"}", |n| n > 0);
    takes_events(&server);
    let status = |stream| read_answer(stream, "half a body").status;
    let statuses: Vec<u16> = half.into_iter().map(status).collect();
    assert!(statuses.iter().all(|status| [408, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&503), "{statuses:?}");
    let cost = added_bytes(&server, idle);
    assert!(cost < COST_BYTES_MAX, "{cost} bytes");
    wait_for_metric(&server, "hedgerow_capture_in_flight_bytes", |bytes| bytes == 0);
}

#[test]
fn unauthenticated_bodies_do_not_block_members() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_CAPTURE_IN_FLIGHT_BYTES_MAX", "1 MiB")]);
    let head = "POST /api/projects/1/annotations/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
                Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{";
    let half: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(head.as_bytes()).unwrap();
            let _ = stream.write_all(&[b' '; 20_000]);
            stream
        })
        .collect();
    wait_for_metric(&server, "hedgerow_budget_refused_total{use=\"stranger_bodies\"}", |n| n > 0);
    let note = json!({ "content": "x".repeat(4_000) });
    server.post("/api/projects/1/annotations/", note).expect(201);
    for stream in half {
        let response = read_answer(stream, "a stranger");
        if response.status == 503 {
            assert_eq!(response.error(), "server_error service_unavailable -");
            assert!(response.header("retry-after").is_some());
        } else {
            assert_eq!(response.error(), "invalid_request request_timeout -");
        }
    }
    wait_for_metric(&server, "hedgerow_capture_in_flight_bytes", |bytes| bytes == 0);
}

#[test]
fn login_body_is_bounded_and_body_keys_are_found_without_parsing() {
    let server = Store::Sqlite.start();
    let long = json!({ "email": "a@example.com", "password": "x".repeat(20_000) });
    server.call("POST", "/api/login/").no_key().json(long).send().expect(413);
    let key = json!({ "personal_api_key": "phx_test", "content": "n", "x": ["{[,]}"] });
    server.call("POST", "/api/projects/1/annotations/").no_key().json(key).send().expect(201);
    let twice = br#"{"personal_api_key":"phx_wrong","content":"n","personal_api_key":"phx_test"}"#;
    let call = server.call("POST", "/api/projects/1/annotations/").no_key();
    call.header("Content-Type", "application/json").bytes(twice.to_vec()).send().expect(201);
}

#[test]
fn clients_that_do_not_read_are_disconnected() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_WRITE_SECONDS_MAX", "1")]);
    let ask = "GET /api/schema/ HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut deaf = connect(&server);
    deaf.write_all(ask.repeat(200).as_bytes()).unwrap();
    wait_for_metric(&server, "hedgerow_connections_unread_total", |count| count == 1);
    let mut received = Vec::new();
    let _ = deaf.read_to_end(&mut received);
    let whole = received.windows(15).filter(|window| window == b"HTTP/1.1 200 OK").count();
    assert!(whole < 200, "everything was sent");
    // A client that pauses between requests is not disconnected.
    let mut slow = connect(&server);
    slow.write_all(b"GET /_livez HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(slow.read(&mut [0; 4_096]).unwrap() > 0);
    thread::sleep(Duration::from_millis(2_500));
    slow.write_all(b"GET /_livez HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(slow.read(&mut [0; 4_096]).unwrap() > 0);
    assert_eq!(metric(&server, "hedgerow_connections_unread_total"), 1);
}

#[test]
fn idle_clients_are_evicted_for_new_connections() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_CONNECTIONS_MAX", "8")]);
    let heads = [
        "",
        "GET /_livez HTTP/1.1\r\nHo",
        "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ];
    let waiting: Vec<TcpStream> = (0..24)
        .map(|number| {
            let mut stream = connect(&server);
            let _ = stream.write_all(heads[number % heads.len()].as_bytes());
            stream
        })
        .collect();
    server.call("GET", "/_livez").no_key().send().expect(200);
    takes_events(&server);
    assert!(metric(&server, "hedgerow_connections_evicted_total") > 0);
    assert!(metric(&server, "hedgerow_connections_open") <= 8);
    drop(waiting);
}

#[test]
fn unread_responses_are_bounded() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_CAPTURE_IN_FLIGHT_BYTES_MAX", "1 MiB")]);
    // A sixteenth of the budget, more than the metrics' responses need.
    let metrics = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(400);
    let deaf: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = connect(&server);
            stream.write_all(metrics.as_bytes()).unwrap();
            stream
        })
        .collect();
    takes_events(&server);
    drop(deaf);
    wait_for_metric(&server, "hedgerow_capture_in_flight_bytes", |bytes| bytes == 0);
}

/// U+0000 in every documented path and parameter: PostgreSQL rejects it in text.
fn nul_bytes_in_paths_and_queries_are_handled(store: Store) {
    let server = store.start();
    let document = server.call("GET", "/api/schema/").no_key().send().expect(200).json();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let is_endless = path.ends_with("/events/live") || path.ends_with("/pulse");
        let Some(get) = methods.get("get").filter(|_| !is_endless) else {
            continue;
        };
        let parameters = get["parameters"].as_array().unwrap();
        let names = |location: &str| -> Vec<String> {
            let found = parameters.iter().filter(|parameter| parameter["in"] == location);
            found.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
        };
        let filled = |nul: Option<&str>| {
            path.split('/')
                .map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
                    Some(name) if Some(name) == nul => "%00",
                    Some("project_id") => "1",
                    Some("organization_id" | "id" | "uuid") => "@current",
                    Some("token") => PROJECT_KEY,
                    Some(_) => "1",
                    None => part,
                })
                .collect::<Vec<_>>()
                .join("/")
        };
        let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let by_path = in_path.map(|name| filled(Some(name)));
        let by_query =
            names("query").into_iter().map(|name| format!("{}?{name}=%00", filled(None)));
        for path in by_path.chain(by_query) {
            for call in [server.call("GET", &path), server.call("GET", &path).no_key()] {
                let response = call.send();
                assert!(response.status < 500, "{path}: {} {}", response.status, response.text());
                asked += 1;
            }
        }
    }
    assert!(asked > 100, "{asked}");
    for path in ["/array/%00/config", "/array/%00/config.js", "/array/a%00b/array.js"] {
        let unknown = server.call("GET", "/array/phc_unknown/config").no_key().send().expect(404);
        let nul = server.call("GET", path).no_key().send().expect(404);
        assert_eq!(nul.json(), unknown.json(), "{path}");
    }
    for body in [
        json!({ "token": "a\u{0}b", "distinct_id": "d" }),
        json!({ "token": PROJECT_KEY, "distinct_id": "a\u{0}b", "groups": { "a\u{0}": "b\u{0}" } }),
    ] {
        let response = server.call("POST", "/flags/?v=2").no_key().json(body).send();
        assert!(response.status < 500, "{}", response.text());
    }
    let events: Value = json!({ "api_key": "a\u{0}", "event": "e\u{0}", "distinct_id": "d" });
    server.call("POST", "/e").no_key().json(events).send().expect(401);
}
