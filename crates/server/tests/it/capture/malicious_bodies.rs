//! Malicious bodies: bounded memory and time, a specific error, and the
//! server keeps running.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::capture::journal_records::told;
use crate::capture::memory_budget::{added_bytes, peak_bytes};
use crate::harness::{PROJECT_KEY, Response, Server, Store};

const MIB: usize = 1 << 20;
const BODY_BYTES_MAX: usize = 20 * MIB;
/// Memory that one bad request may add to an idle server: body, decoded body, slack.
const COST_BYTES_MAX: usize = 100 * MIB;
/// The bound for 64 concurrent uploads of 20 MB.
const PEAK_BYTES_MAX: usize = 384 * MIB;
const TIMEOUT: Duration = Duration::from_secs(60);

/// The server accepts events, and rejected requests hold no memory.
fn is_well(server: &Server) {
    let event = json!({ "api_key": PROJECT_KEY, "event": "well", "distinct_id": "d" });
    server.call("POST", "/e").no_key().json(event).send().expect(200);
    assert_eq!(told(server).last().unwrap(), "well d");
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let metrics = server.get("/metrics").expect(200).text();
        if metrics.lines().any(|line| line == "hedgerow_capture_in_flight_bytes 0") {
            return;
        }
        assert!(Instant::now() < deadline, "bytes are still held");
        thread::sleep(Duration::from_millis(20));
    }
}

fn post(server: &Server, body: Vec<u8>) -> Response {
    server.call("POST", "/batch/").no_key().header("Content-Type", "text/plain").bytes(body).send()
}

fn code(response: &Response) -> String {
    format!("{} {}", response.status, response.json()["code"].as_str().unwrap())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
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

// contract: ingestion 44, 46
#[test]
fn decompression_bombs_deep_json_and_broken_streams_are_rejected() {
    let server = Store::Sqlite.start();
    is_well(&server);
    let idle = peak_bytes(&server);
    // 1 GB in a few megabytes, in one gzip member or many.
    let member = gzip(&vec![b' '; 64 * MIB]);
    let whole = gzip(&vec![b' '; 128 * MIB]);
    let event = format!(r#"{{"api_key":"{PROJECT_KEY}","event":"e","distinct_id":"d"}}"#);
    let half = gzip(event.as_bytes());
    for (what, body, expected) in [
        ("members", member.repeat(16), "413 payload_too_large"),
        ("whole", whole, "413 payload_too_large"),
        ("half", half[..half.len() / 2].to_vec(), "400 invalid_payload"),
        ("arrays", vec![b'['; 100_000], "400 invalid_payload"),
        ("objects", b"{\"a\":".repeat(100_000), "400 invalid_payload"),
        ("compressed depth", gzip(&vec![b'['; MIB]), "400 invalid_payload"),
    ] {
        assert_eq!(code(&post(&server, body)), expected, "{what}");
    }
    let cost = added_bytes(&server, idle);
    assert!(cost < COST_BYTES_MAX, "{cost} bytes");
    is_well(&server);
}

// contract: ingestion 45
#[test]
fn oversized_body_is_rejected_and_released() {
    let server = Store::Sqlite.start();
    is_well(&server);
    let idle = peak_bytes(&server);
    let mut fits = format!(r#"{{"api_key":"{PROJECT_KEY}","event":"e","distinct_id":"d"}}"#);
    fits.push_str(&" ".repeat(BODY_BYTES_MAX - fits.len()));
    let beyond = fits.clone() + " ";
    assert_eq!(post(&server, fits.into_bytes()).expect(200).text(), "{\"status\":1}");
    assert_eq!(code(&post(&server, beyond.into_bytes())), "413 payload_too_large");

    let head = format!("POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 1_024 * MIB);
    let mut announced = connect(&server);
    announced.write_all(head.as_bytes()).unwrap();
    assert_eq!(code(&read_answer(announced, "a gigabyte announced")), "413 payload_too_large");

    let mut endless = connect(&server);
    let head = "POST /e HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    endless.write_all(head.as_bytes()).unwrap();
    let chunk = [format!("{MIB:x}\r\n").into_bytes(), vec![b' '; MIB], b"\r\n".to_vec()].concat();
    let sent = (0..1_024).take_while(|_| endless.write_all(&chunk).is_ok()).count();
    assert!(sent < 200, "{sent} MiB were taken");
    let cost = added_bytes(&server, idle);
    assert!(cost < COST_BYTES_MAX, "{cost} bytes");
    is_well(&server);
}

#[test]
fn slow_and_disconnected_clients_hold_no_memory() {
    let server = Store::Sqlite.start_with(&[
        ("HEDGEROW_CAPTURE_STALL_SECONDS_MAX", "2"),
        ("HEDGEROW_CAPTURE_BODY_SECONDS_MAX", "4"),
    ]);
    let head = "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{\"api";
    let mut silent = connect(&server);
    silent.write_all(head.as_bytes()).unwrap();
    let response = read_answer(silent, "a silent sender");
    assert_eq!(code(&response), "408 request_timeout");
    assert_eq!(response.json().get("attr"), None);

    let mut dripping = connect(&server);
    dripping.write_all(head.as_bytes()).unwrap();
    let reader = dripping.try_clone().unwrap();
    let drops = thread::spawn(move || {
        while dripping.write_all(b"_").is_ok() {
            thread::sleep(Duration::from_millis(100));
        }
    });
    assert_eq!(code(&read_answer(reader, "a dripping sender")), "408 request_timeout");
    drops.join().unwrap();

    for _ in 0..50 {
        let mut gone = connect(&server);
        gone.write_all(head.as_bytes()).unwrap();
        gone.write_all(&vec![b' '; 100_000]).unwrap();
        gone.shutdown(Shutdown::Both).unwrap();
    }
    is_well(&server);
}

#[test]
fn concurrent_uploads_are_bounded_and_do_not_delay_events() {
    let server = Store::Sqlite.start();
    is_well(&server);
    let event = format!(
        r#"{{"event":"upload","distinct_id":"d","properties":{{"p":"{}"}}}}"#,
        "x".repeat(900_000)
    );
    let batch = vec![event; 20].join(",");
    let body = format!(r#"{{"api_key":"{PROJECT_KEY}","batch":[{batch}]}}"#).into_bytes();
    let small = json!({ "api_key": PROJECT_KEY, "event": "small", "distinct_id": "d" });
    thread::scope(|scope| {
        let uploads: Vec<_> =
            (0..24).map(|_| scope.spawn(|| post(&server, body.clone()).status)).collect();
        let began = server.call("POST", "/e").no_key().json(small).send();
        let statuses: Vec<u16> = uploads.into_iter().map(|one| one.join().unwrap()).collect();
        began.expect(200);
        assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
        assert!(statuses.contains(&200), "{statuses:?}");
    });
    let peak = peak_bytes(&server);
    assert!(peak < PEAK_BYTES_MAX, "{peak} bytes");
    is_well(&server);
}
