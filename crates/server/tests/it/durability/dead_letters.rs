//! Dead letters: listed and replayed by API and command.

use std::thread;
use std::time::{Duration, Instant};

use model::event::{AcceptedEvent, EventUuid};
use model::{Clock, ProjectId};
use uuid::Uuid;

use crate::harness::{Server, Store};

const LETTERS: &str = "/api/projects/1/dead_letters/";
const TIMEOUT: Duration = Duration::from_secs(60);

/// Inserts a dead letter whose record is valid.
fn keep(server: &Server, distinct_id: &str) {
    let mut record = Vec::new();
    AcceptedEvent {
        project: ProjectId(1),
        received_at: Clock::system().now(),
        client_ip: None,
        sent_at: None,
        historical_migration: false,
        uuid: EventUuid::Given(Uuid::new_v4()),
        name: "late",
        distinct_id,
        timestamp: None,
        offset_ms: None,
        properties: "{}",
        set: None,
        set_once: None,
        unset: None,
        v1: None,
    }
    .encode(&mut record);
    let record: String = record.iter().map(|byte| format!("{byte:02x}")).collect();
    let id = Uuid::new_v4();
    server.instance().write(&format!(
        "INSERT INTO dead_letters \
         (id, project_id, position, step, reason, event, distinct_id, record, created_at) VALUES \
         ('{id}', 1, 0, 'apply', 'it failed then', 'late', '{distinct_id}', X'{record}', 0)"
    ));
}

fn is_known(server: &Server, distinct_id: &str) -> bool {
    let found = server.get(&format!("/api/projects/1/persons/?distinct_id={distinct_id}")).json();
    !found["results"].as_array().unwrap().is_empty()
}

#[test]
fn dead_letters_are_replayed_by_api_and_command() {
    let server = Store::Sqlite.start();
    keep(&server, "u1");
    let listed = server.get(LETTERS).expect(200).json();
    let letter = &listed["results"][0];
    assert_eq!((&listed["count"], letter["reason"].as_str()), (&1.into(), Some("it failed then")));
    assert!(!is_known(&server, "u1"));
    let replay = format!("{LETTERS}{}/replay/", letter["id"].as_str().unwrap());
    let done = server.post(&replay, serde_json::json!({})).expect(200).json();
    assert!(done["replayed_at"].is_string());
    server.wait_until_applied();
    assert!(is_known(&server, "u1"));
    assert_eq!(server.get(LETTERS).json()["count"], 0);
    server.post(&replay, serde_json::json!({})).expect(409);
    let missing = format!("{LETTERS}00000000-0000-0000-0000-000000000000/replay/");
    server.post(&missing, serde_json::json!({})).expect(404);

    keep(&server, "u2");
    let (ok, printed, stderr) = server.instance().run(&["admin", "list-dead-letters"]);
    assert!(ok && printed.contains("it failed then"), "{printed}{stderr}");
    let (ok, printed, stderr) = server.instance().run(&["admin", "replay-dead-letters"]);
    assert!(ok && printed.contains("1 dead letters"), "{printed}{stderr}");
    let deadline = Instant::now() + TIMEOUT;
    while !is_known(&server, "u2") {
        assert!(Instant::now() < deadline, "{}", server.output());
        thread::sleep(Duration::from_millis(50));
    }
    let unknown = ["admin", "replay-dead-letters", "--id", "00000000-0000-0000-0000-000000000000"];
    let (ok, _, stderr) = server.instance().run(&unknown);
    assert!(!ok && stderr.contains("no such dead letter"), "{stderr}");
}
