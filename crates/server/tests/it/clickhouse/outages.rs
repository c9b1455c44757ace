//! Nothing acknowledged is lost or counted twice, whatever ends or is away.

use std::time::{Duration, Instant};

use super::{Fixture, TIMEOUT, capture, events, wait_for_events};
use crate::harness::{Process, Server};

fn wait_until_ready(server: &Server, path: &str, status: u16) -> String {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let response = server.call("GET", path).no_key().send();
        if response.status == status {
            return response.text();
        }
        assert!(Instant::now() < deadline, "{path}: {}", response.text());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn events_survive_restarts_kills_and_an_outage_of_clickhouse_once() {
    let Some((Fixture { database, instance }, relay)) = Fixture::with_relay() else { return };
    let server = instance.serve();
    capture(&server, &events(0..50));
    wait_for_events(&database, 50);
    assert!(!server.file("warehouse").exists(), "segments in the data directory");
    let server = server.restart();
    let seed = testing::seed();
    let mut rng = seed.rng();
    let (mut server, mut sent) = (server, 50);
    for _ in 0..4 {
        let more = rng.range(1..=60usize);
        capture(&server, &events(sent..sent + more));
        sent += more;
        std::thread::sleep(Duration::from_millis(rng.range(0..1_500u64)));
        server = server.kill().serve();
    }
    wait_for_events(&database, sent);

    relay.cut();
    capture(&server, &events(sent..sent + 30));
    let why = wait_until_ready(&server, "/_readyz?for=query", 503);
    assert!(why.contains("ClickHouse") && why.contains("away"), "{why}");
    wait_until_ready(&server, "/_readyz?for=capture", 200);
    let server = server.kill().serve();
    capture(&server, &events(sent + 30..sent + 40));
    relay.restore();
    wait_for_events(&database, sent + 40);
    wait_until_ready(&server, "/_readyz", 200);
    let (status, output, _) = server.stop();
    assert!(status.success(), "{output}");
}

#[test]
fn a_server_whose_clickhouse_is_away_takes_events_and_stores_them_later() {
    let Some((Fixture { database, instance }, relay)) = Fixture::with_relay() else { return };
    relay.cut();
    let server = instance.serve();
    capture(&server, &events(0..20));
    wait_until_ready(&server, "/_readyz?for=query", 503);
    relay.restore();
    wait_until_ready(&server, "/_readyz?for=query", 200);
    wait_for_events(&database, 20);
}

#[test]
fn a_frozen_clickhouse_stops_neither_capture_nor_a_start() {
    let Some((Fixture { database, instance }, relay)) = Fixture::with_relay() else { return };
    let server = instance.serve();
    capture(&server, &events(0..10));
    wait_for_events(&database, 10);
    relay.freeze();
    capture(&server, &events(10..30));
    std::thread::sleep(Duration::from_secs(2));
    let server = server.kill().serve();
    capture(&server, &events(30..40));
    wait_until_ready(&server, "/_readyz?for=capture", 200);
    wait_until_ready(&server, "/_readyz?for=query", 503);
    relay.thaw();
    wait_for_events(&database, 40);
    wait_until_ready(&server, "/_readyz?for=query", 200);
}

/// Every insert is stored, but its answer may be lost: the relay is cut at random instants.
#[test]
fn events_are_counted_once_though_answers_are_lost() {
    let Some((Fixture { database, instance }, relay)) = Fixture::with_relay() else { return };
    let seed = testing::seed();
    let mut rng = seed.rng();
    let server = instance.serve();
    let mut sent = 0;
    for _ in 0..12 {
        let more = rng.range(1..=20usize);
        capture(&server, &events(sent..sent + more));
        sent += more;
        std::thread::sleep(Duration::from_millis(rng.range(0..700u64)));
        relay.cut();
        std::thread::sleep(Duration::from_millis(rng.range(0..50u64)));
        relay.restore();
    }
    wait_for_events(&database, sent);
}

#[test]
fn a_wrong_password_ends_the_start_without_showing_it() {
    let Some(Fixture { database, mut instance }) = Fixture::new() else { return };
    // The ClickHouse of the tests takes every password; a proxy may refuse one.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://ann:hunter2@{}/stats", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            refuse(connection);
        }
    });
    instance.set("HEDGEROW_WAREHOUSE_URL", &url);
    let mut process = Process::start(instance.command(&["serve"]));
    assert!(!process.wait().success());
    let output = process.output();
    assert!(output.contains("warehouse_url") && output.contains("password"), "{output}");
    assert!(!output.contains("hunter2"), "{output}");
    let (_, shown, _) = instance.run(&["config", "show"]);
    assert!(shown.contains("warehouse_url") && !shown.contains("hunter2"), "{shown}");
    drop(database);
}

fn refuse(mut connection: std::net::TcpStream) {
    use std::io::{Read as _, Write as _};
    let mut request = [0; 16 << 10];
    let _ = connection.read(&mut request);
    let text = "Code: 516. DB::Exception: ann: Authentication failed. (AUTHENTICATION_FAILED)";
    let head = "HTTP/1.1 403 Forbidden\r\nX-ClickHouse-Exception-Code: 516\r\nConnection: close";
    let _ = write!(connection, "{head}\r\nContent-Length: {}\r\n\r\n{text}", text.len());
}
