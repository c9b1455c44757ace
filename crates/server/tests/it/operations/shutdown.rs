//! Graceful shutdown.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::harness::{Response, Server, Store, on_both_stores};

on_both_stores! {
    shutdown_drains_requests_in_flight,
    shutdown_stops_at_drain_seconds_max,
}

const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A request without its last byte, which the server has begun to read.
fn begun(server: &Server, label: &str) -> (TcpStream, u8) {
    let body = json!({ "label": label, "scopes": ["dashboard:read"] });
    let call = server.call("POST", "/api/personal_api_keys/").header("Expect", "100-continue");
    let bytes = call.json(body).to_bytes();
    let (last, most) = bytes.split_last().unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let head = most.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    stream.write_all(&most[..head]).unwrap();
    let mut said = [0; GO_ON.len()];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(said, GO_ON);
    stream.write_all(&most[head..]).unwrap();
    (stream, *last)
}

fn shutdown_drains_requests_in_flight(store: Store) {
    let server = store.start();
    let (mut stream, last) = begun(&server, "in flight");
    let idle = TcpStream::connect(server.address()).unwrap();
    let mut kept = TcpStream::connect(server.address()).unwrap();
    let probe = server.call("GET", "/_livez").header("Connection", "keep-alive").to_bytes();
    kept.write_all(&probe).unwrap();
    assert!(kept.read(&mut [0; 4096]).unwrap() > 0);
    server.process().signal("TERM");
    server.process().wait_for("stopping").unwrap();
    stream.write_all(&[last]).unwrap();
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    Response::parse(&received, "POST").expect(201);
    let (status, output, instance) = server.wait_for_exit();
    assert!(status.success(), "{output}");
    assert!(!output.contains("before every request"), "idle connections held it up:\n{output}");
    drop((idle, kept));
    let server = instance.serve();
    assert!(server.get("/api/personal_api_keys/").expect(200).text().contains("in flight"));
}

fn shutdown_stops_at_drain_seconds_max(store: Store) {
    let server = store.start_with(&[("HEDGEROW_DRAIN_SECONDS_MAX", "1")]);
    let _never_finished = begun(&server, "never");
    let (status, output, instance) = server.stop();
    assert!(status.success() && output.contains("before every request"), "{output}");
    let server = instance.serve();
    assert!(!server.get("/api/personal_api_keys/").expect(200).text().contains("never"));
}

#[test]
fn draining_server_serves_requests_but_is_not_ready() {
    let server = Store::Sqlite.start_with(&[("HEDGEROW_DRAIN_DELAY_SECONDS", "600")]);
    server.process().signal("INT");
    server.process().wait_for("stopping").unwrap();
    let health = server.get("/_readyz").expect(503).json();
    assert_eq!((&health["draining"], &health["catalog"]), (&json!(true), &json!("ok")));
    server.get("/_livez").expect(200);
    server.get("/api/personal_api_keys/").expect(200);
    let (status, output, _) = server.stop();
    assert!(status.success(), "{output}");
}

#[test]
fn acknowledged_writes_survive_a_kill() {
    let server = Store::Sqlite.start();
    let key = server.key(&["user:read"]);
    server.process().signal("KILL");
    let (_, _, instance) = server.wait_for_exit();
    let server = instance.serve();
    server.call("GET", "/api/personal_api_keys/").key(&key).send().expect(200);
}
