//! Readiness: not ready for capture while the journal refuses appends, not ready for queries while
//! the journal of a crash is being replayed.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::durability::disk_faults::Disk;
use crate::durability::reference_stream::tell;
use crate::harness::{Server, Store};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Enough that the replay takes longer than a request.
const BACKLOG: usize = 6_000;
const AT_ONCE: usize = 500;

fn event(number: usize) -> Value {
    json!({ "event": "counted", "distinct_id": format!("d{number}"), "properties": { "$set": { "n": number } } })
}

fn becomes_ready(server: &Server, path: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while server.get(path).status != 200 {
        assert!(Instant::now() < deadline, "{}", server.output());
        thread::sleep(Duration::from_millis(5));
    }
}

fn health(server: &Server, arguments: &[&str]) -> (bool, String) {
    let address = server.address().to_string();
    let arguments = [&["health", "--listen", &address], arguments].concat();
    let (ok, said, stderr) = server.instance().run(&arguments);
    (ok, said + &stderr)
}

fn not_ready_to_capture(server: &Server, why: &str) {
    for path in ["/_readyz", "/_health", "/_readiness", "/_readyz?for=capture"] {
        let told = server.call("GET", path).no_key().send().expect(503).json();
        assert_eq!(
            (&told["status"], &told["capture"]),
            (&json!("unavailable"), &json!("unavailable"))
        );
        let reasons = told["reasons"].to_string();
        assert!(reasons.contains("capture: ") && reasons.contains(why), "{reasons}");
    }
    let told = server.get("/_readyz?for=query").expect(200).json();
    assert_eq!((&told["status"], &told["query"]), (&json!("ok"), &json!("ok")));
    server.get("/_livez").expect(200);
    let (ready, said) = health(server, &[]);
    assert!(!ready && said.contains("not ready") && said.contains(why), "{said}");
    assert!(health(server, &["--for", "query"]).0);
    assert!(!health(server, &["--for", "capture"]).0);
}

#[test]
fn readiness_for_capture_fails_while_the_journal_cannot_be_written() {
    for (how, why) in [("full", "no space on the disk"), ("sync", "could not")] {
        let mut instance = Store::Sqlite.instance();
        let disk = Disk::under(&mut instance, how);
        let server = instance.serve();
        server.ingest(&[event(0)]);
        server.get("/_readyz").expect(200);
        disk.breaks("/journal/");
        tell(&server, &[event(1)]).expect(503);
        not_ready_to_capture(&server, why);
        // No requests: a load balancer has removed the server.
        disk.mends();
        becomes_ready(&server, "/_readyz");
        tell(&server, &[event(1)]).expect(200);
        assert!(health(&server, &[]).0);
    }
}

#[test]
fn readiness_for_capture_fails_while_the_journal_is_full() {
    let mut instance = Store::Sqlite.instance();
    instance.set("HEDGEROW_JOURNAL_SEGMENT_BYTES", "8 MiB");
    instance.set("HEDGEROW_JOURNAL_DISK_BYTES_MAX", "160 MiB");
    let disk = Disk::under(&mut instance, "full");
    let server = instance.serve();
    server.ingest(&[event(0)]);
    // Events stay in the journal from now on: the warehouse is not
    // flushed, so nothing is truncated.
    disk.breaks("/catalog.sqlite");
    let long = json!({ "event": "long", "distinct_id": "d", "properties": { "text": "x".repeat(200_000) } });
    // 4 MB each: far past the limit.
    let many = vec![long; 20];
    let refused = (0..100).map(|_| tell(&server, &many).status).find(|&status| status != 200);
    assert_eq!(refused, Some(503), "{}", server.output());
    let told = server.get("/_readyz?for=capture").expect(503).json();
    assert!(told["reasons"].to_string().contains("disk_bytes_max is reached"), "{told}");
}

#[test]
fn readiness_for_queries_fails_until_the_journal_is_replayed() {
    let mut instance = Store::Sqlite.instance();
    let disk = Disk::under(&mut instance, "full");
    let server = instance.serve();
    server.ingest(&[event(0)]);
    disk.breaks("/catalog.sqlite");
    for from in (1..BACKLOG).step_by(AT_ONCE) {
        let to = (from + AT_ONCE).min(BACKLOG);
        tell(&server, &(from..to).map(event).collect::<Vec<_>>()).expect(200);
    }
    // A backlog that arises later does not affect readiness.
    server.get("/_readyz?for=capture").expect(200);
    let waiting = server.get("/_readyz?for=query").json();
    assert!(!waiting["reasons"].to_string().contains("replayed"), "{waiting}");
    let instance = server.kill();
    disk.mends();

    let server = instance.serve();
    let told = server.get("/_readyz").expect(503).json();
    assert_eq!((&told["capture"], &told["query"]), (&json!("ok"), &json!("unavailable")), "{told}");
    assert!(told["reasons"].to_string().contains("are still being replayed"), "{told}");
    server.get("/_readyz?for=capture").expect(200);
    assert!(health(&server, &["--for", "capture"]).0);
    becomes_ready(&server, "/_readyz?for=query");
    let query = json!({ "query": { "kind": "HogQLQuery", "query": "select count() from events" } });
    let counted = server.post("/api/projects/1/query/", query).expect(200).json();
    assert_eq!(counted["results"], json!([[BACKLOG]]));
    server.get("/_readyz").expect(200);
}

#[test]
fn readiness_rejects_an_unknown_part() {
    let server = Store::Sqlite.start();
    let response = server.get("/_readyz?for=everything").expect(400);
    assert_eq!(response.error(), "validation_error invalid_input for");
}
