//! Full disk and failing fsync under each store: capture rejects what it cannot persist, and every
//! acknowledged event is stored exactly once.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::durability::reference_stream::{event, facts, listed, tell};
use crate::harness::{Instance, Server, Store, on_both_stores};

on_both_stores! {
    full_disk_loses_no_acknowledged_event,
    failing_fsync_loses_no_acknowledged_event,
}

const TIMEOUT: Duration = Duration::from_secs(60);
const EVENTS: &str = "/api/projects/1/events/?limit=1000";
/// Segments of one size that make a compaction due.
const SEGMENTS: usize = 6;

fn full_disk_loses_no_acknowledged_event(store: Store) {
    every_store_in_turn(store, "full");
}

fn failing_fsync_loses_no_acknowledged_event(store: Store) {
    every_store_in_turn(store, "sync");
}

/// Fault injection for one data directory.
pub struct Disk {
    control: PathBuf,
    how: &'static str,
}

impl Disk {
    /// Preloads it into a server before its start.
    pub fn under(instance: &mut Instance, how: &'static str) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/files/disk.c");
        let dir = instance.data_dir.path();
        let (library, control) = (dir.join("disk.so"), dir.join("disk.fails"));
        let options = ["-shared", "-fPIC", "-O1", source, "-ldl", "-o"];
        assert!(Command::new("cc").args(options).arg(&library).status().unwrap().success());
        instance.set("LD_PRELOAD", library.to_str().unwrap());
        instance.set("FAILING_DISK", control.to_str().unwrap());
        Self { control, how }
    }

    /// Injects the fault for paths that contain `part`.
    pub fn breaks(&self, part: &str) {
        let aside = self.control.with_extension("new");
        fs::write(&aside, format!("{} {part}", self.how)).unwrap();
        fs::rename(aside, &self.control).unwrap();
    }

    pub fn mends(&self) {
        fs::remove_file(&self.control).unwrap();
    }
}

/// How many events of the reference stream were sent and acknowledged.
struct Told(usize);

impl Told {
    fn go_on(&mut self, server: &Server, events: usize) {
        for _ in 0..events {
            tell(server, &[event(self.0)]).expect(200);
            self.0 += 1;
        }
    }

    /// The next event is rejected, however often it is sent.
    fn is_refused(&self, server: &Server) {
        for _ in 0..3 {
            tell(server, &[event(self.0)]).expect(503);
        }
    }
}

fn segments(instance: &Instance) -> usize {
    let (done, printed, logged) = instance.run(&["files"]);
    assert!(done, "{logged}");
    printed.lines().count()
}

fn every_store_in_turn(store: Store, how: &'static str) {
    let mut instance = store.instance();
    let disk = Disk::under(&mut instance, how);
    let mut told = Told(0);

    let server = instance.serve();
    told.go_on(&server, 13);
    disk.breaks("/journal/");
    told.is_refused(&server);
    disk.mends();
    told.go_on(&server, 13);
    // Once more, and the server is killed during the fault.
    disk.breaks("/journal/");
    told.is_refused(&server);
    let instance = server.kill();
    disk.mends();
    let server = instance.serve();
    told.go_on(&server, 13);

    if store == Store::Sqlite {
        server.wait_until_applied();
        disk.breaks("/catalog.sqlite");
        told.go_on(&server, 13);
        assert!(server.process().wait_for("events wait in the journal").is_some());
        disk.mends();
        server.wait_until_applied();
        // And kill it while it waits.
        disk.breaks("/catalog.sqlite");
        told.go_on(&server, 5);
        let instance = server.kill();
        disk.mends();
        let server = instance.serve();
        told.go_on(&server, 5);
        warehouse_in_turn(server, &disk, told);
    } else {
        warehouse_in_turn(server, &disk, told);
    }
}

fn warehouse_in_turn(server: Server, disk: &Disk, mut told: Told) {
    // A flush that fails at shutdown.
    told.go_on(&server, 7);
    server.wait_until_applied();
    disk.breaks("/warehouse/");
    let (_, output, instance) = server.stop();
    assert!(output.contains("events stay in the journal only"), "{output}");
    disk.mends();
    let mut server = instance.serve();
    for _ in 0..SEGMENTS {
        told.go_on(&server, 7);
        server.wait_until_applied();
        server = server.restart();
    }
    // With one more segment a compaction is due at start.
    told.go_on(&server, 7);
    server.wait_until_applied();
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    disk.breaks("/warehouse/");
    let before = segments(&instance);
    let server = instance.serve();
    told.go_on(&server, 7);
    let failed = server.process().wait_for("maintenance of the warehouse failed");
    assert!(failed.is_some_and(|line| line.contains("compact")), "{}", server.output());
    assert_eq!(segments(server.instance()), before);
    disk.mends();
    let deadline = Instant::now() + TIMEOUT;
    while segments(server.instance()) >= before {
        assert!(Instant::now() < deadline, "nothing is merged:\n{}", server.output());
        thread::sleep(Duration::from_millis(100));
    }
    server.wait_until_applied();
    as_if_nothing_had_happened(&server, told.0);
    as_if_nothing_had_happened(&server.restart(), told.0);
}

fn as_if_nothing_had_happened(server: &Server, events: usize) {
    let other = Store::Sqlite.start();
    let whole: Vec<Value> = (0..events).map(event).collect();
    tell(&other, &whole).expect(200);
    other.wait_until_applied();
    server.wait_until_applied();
    assert_eq!(listed(server, EVENTS), listed(&other, EVENTS));
    for ((what, found), (_, expected)) in facts(server).into_iter().zip(facts(&other)) {
        assert!(!expected.is_empty(), "no {what}");
        assert_eq!(found, expected, "{what}");
    }
    let letters = server.get("/api/projects/1/dead_letters/").expect(200).json();
    assert_eq!(letters["results"], serde_json::json!([]));
}
