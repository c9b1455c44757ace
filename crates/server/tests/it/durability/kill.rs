//! Acknowledged events survive `kill -9` at any instant.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use model::{Clock, ProjectId};
use serde_json::{Value, json};
use testing::Rng;
use uuid::Uuid;
use warehouse::{Filter, Warehouse, Window};

use crate::capture::journal_records::stored_in;
use crate::durability::reference_stream::{event, facts, tell};
use crate::harness::{Instance, PROJECT_KEY, Server, Store};

const ROUNDS: usize = 30;
const SENDERS: usize = 4;
/// Each run is killed at a random instant, after at most this many acknowledged events.
const LIFE_EVENTS_MAX: usize = 400;
const BREATH_US_MAX: u64 = 3_000;
/// Every second run gets SIGTERM first, and is killed while it flushes.
const FLUSH_US_MAX: u64 = 60_000;
/// Batch size for the reference server, which is not killed.
const TOLD_AT_ONCE: usize = 200;
const TIMEOUT: Duration = Duration::from_secs(60);

/// Small enough that every run fills several segments.
const SEGMENT_BYTES: &str = "8192";

#[test]
fn acknowledged_events_survive_kill_9_and_are_stored_once() {
    let seed = testing::seed();
    let mut rng = seed.rng();
    let mut instance = Store::Sqlite.instance();
    instance.set("HEDGEROW_JOURNAL_SEGMENT_BYTES", SEGMENT_BYTES);
    let mut acknowledged = HashSet::new();
    let mut lives_with_events = 0;
    let mut story = 0;
    for round in 0..ROUNDS {
        let server = instance.serve();
        let (address, told, stop) =
            (server.address(), Arc::<Mutex<Vec<Uuid>>>::default(), Arc::<AtomicBool>::default());
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (told, stop, rng) = (told.clone(), stop.clone(), rng.fork());
                thread::spawn(move || send_until_it_breaks(address, sender, rng, &told, &stop))
            })
            .collect();
        let teller = {
            let stop = stop.clone();
            thread::spawn(move || tell_until_it_breaks(address, story, &stop))
        };
        let enough = rng.range(0..LIFE_EVENTS_MAX);
        let deadline = Instant::now() + TIMEOUT;
        while told.lock().unwrap().len() < enough {
            assert!(Instant::now() < deadline, "the server takes no events");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_micros(rng.range(0..BREATH_US_MAX)));
        if round % 2 == 0 {
            instance = server.kill();
            stop.store(true, Ordering::Relaxed);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            story = teller.join().unwrap();
        } else {
            stop.store(true, Ordering::Relaxed);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            story = teller.join().unwrap();
            server.process().signal("TERM");
            thread::sleep(Duration::from_micros(rng.range(0..FLUSH_US_MAX)));
            instance = server.kill();
        }
        let told = std::mem::take(&mut *told.lock().unwrap());
        lives_with_events += usize::from(!told.is_empty());
        acknowledged.extend(told);

        // The journal is truncated to what the warehouse lacks.
        let journal = instance.data_dir.path().join("journal");
        let mut kept: HashSet<Uuid> =
            stored_in(&journal).into_iter().filter_map(|event| event.uuid).collect();
        kept.extend(in_warehouse(&instance));
        let lost: Vec<&Uuid> = acknowledged.difference(&kept).collect();
        assert!(lost.is_empty(), "after kill {round}: {} of {} are lost", lost.len(), kept.len());
    }
    assert!(lives_with_events > ROUNDS / 2, "only {lives_with_events} lives took events");
    let segments = last_segment(&instance);
    assert!(segments > ROUNDS, "segments never rolled: {segments}");
    // The server still starts, accepts events, and has stored each once.
    let server = instance.serve();
    server.ingest(&[json!({ "event": "e", "distinct_id": "d" })]);
    assert!(story > ROUNDS, "the story did not get on: {story}");
    as_told_without_a_break(&server, story);
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    let stored = in_warehouse(&instance);
    let uuids: HashSet<Uuid> = stored.iter().copied().collect();
    assert_eq!(uuids.len(), stored.len(), "some are stored twice");
    assert!(acknowledged.is_subset(&uuids), "some are missing");
}

/// Persons, groups and definitions equal those of a server that was never killed.
fn as_told_without_a_break(server: &Server, story: usize) {
    let other = Store::Sqlite.start();
    let whole: Vec<Value> = (0..story).map(event).collect();
    whole.chunks(TOLD_AT_ONCE).for_each(|events| _ = tell(&other, events).expect(200));
    other.wait_until_applied();
    for ((what, found), (_, expected)) in facts(server).into_iter().zip(facts(&other)) {
        assert!(!expected.is_empty(), "no {what}");
        assert_eq!(found, expected, "{what} of {story} events");
    }
}

/// The durable events, read while no server runs.
pub fn in_warehouse(instance: &Instance) -> Vec<Uuid> {
    let dir = instance.data_dir.path().join("warehouse");
    let id = warehouse::stored_position(&dir).unwrap().unwrap().journal;
    let warehouse = Warehouse::open(&dir, id, Default::default(), Clock::system()).unwrap();
    let window = Window { limit: 1 << 20, ..Window::default() };
    let rows = warehouse.snapshot(ProjectId(1)).list(&Filter::default(), &window).unwrap().events;
    rows.iter().map(|row| row.uuid).collect()
}

/// Segment numbers; truncated segments are gone.
fn last_segment(instance: &Instance) -> usize {
    let files = std::fs::read_dir(instance.data_dir.path().join("journal")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.split_once('.')?.0.parse().ok()).max().unwrap()
}

/// Sends batches of one to five events over one connection and records those acknowledged.
fn send_until_it_breaks(
    address: SocketAddr,
    sender: usize,
    mut rng: Rng,
    told: &Mutex<Vec<Uuid>>,
    stop: &AtomicBool,
) {
    let Ok(mut stream) = TcpStream::connect(address) else { return };
    while !stop.load(Ordering::Relaxed) {
        let uuids: Vec<Uuid> = (0..rng.range(1..=5))
            .map(|_| uuid::Builder::from_random_bytes(rng.bytes()).into_uuid())
            .collect();
        let batch: Vec<_> = uuids
            .iter()
            .map(|uuid| json!({ "event": "e", "distinct_id": sender, "uuid": uuid }))
            .collect();
        if !is_taken(&mut stream, &batch) {
            return;
        }
        told.lock().unwrap().extend(uuids);
    }
}

/// Sends the reference stream one event at a time from `next` on. Returns the first event that was not
/// acknowledged; the next run gets it again.
fn tell_until_it_breaks(address: SocketAddr, mut next: usize, stop: &AtomicBool) -> usize {
    let Ok(mut stream) = TcpStream::connect(address) else { return next };
    while !stop.load(Ordering::Relaxed) && is_taken(&mut stream, &[event(next)]) {
        next += 1;
    }
    next
}

/// Whether the events were acknowledged; false if the server is gone.
fn is_taken(stream: &mut TcpStream, batch: &[Value]) -> bool {
    let body = json!({ "api_key": PROJECT_KEY, "batch": batch }).to_string();
    let head = format!("POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Length: {}", body.len());
    if stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).is_err() {
        return false;
    }
    // The response arrives in one read, or the server is gone.
    let mut response = [0; 4_096];
    let Ok(read @ 1..) = stream.read(&mut response) else { return false };
    assert!(response[..read].starts_with(b"HTTP/1.1 200 "), "{:?}", &response[..read]);
    true
}
