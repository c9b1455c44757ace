//! Test support: a warehouse in a temporary directory, and rows for it.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::model::{Clock, ProjectId, Timestamp};
use tempfile::TempDir;
use uuid::Uuid;
use warehouse::{
    CompactionKind, EventRow, FaultInjector, FaultPoint, Filter, NewRow, Order, Settings, Snapshot,
    Warehouse, Window,
};

pub const JOURNAL: u128 = 7;
pub const PROJECT: ProjectId = ProjectId(1);
/// 2026-03-10T00:00:00Z
pub const NOON: i64 = 1_773_100_800_000_000;

/// Bounds that a few rows reach.
pub fn small() -> Settings {
    Settings {
        memory_rows_max: 64,
        row_group_rows: 16,
        segment_rows_max: 256,
        merge_segments_min: 3,
        ..Settings::default()
    }
}

pub struct Store {
    pub dir: TempDir,
    pub clock: Clock,
    pub settings: Settings,
    pub warehouse: Warehouse,
}

impl Store {
    pub fn new() -> Store {
        Store::with(small())
    }

    pub fn with(settings: Settings) -> Store {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::at(Timestamp::from_micros(NOON));
        let warehouse = open(dir.path(), &settings, &clock);
        Store { dir, clock, settings, warehouse }
    }

    /// Reopens the store as after a killed process: unflushed rows are lost.
    pub fn reopen(self) -> Store {
        let Store { dir, clock, settings, warehouse } = self;
        drop(warehouse);
        let warehouse = open(dir.path(), &settings, &clock);
        Store { dir, clock, settings, warehouse }
    }

    /// Appends rows at the next positions.
    pub fn append(&self, rows: &mut [EventRow]) {
        let first = self.warehouse.applied_position();
        for (at, row) in rows.iter_mut().enumerate() {
            row.position = first + at as u64;
        }
        self.take(rows, first + rows.len() as u64);
    }

    /// Appends rows at their own positions.
    pub fn take(&self, rows: &[EventRow], reach: u64) {
        self.warehouse.append(&new(rows), reach).unwrap();
    }

    pub fn compact_fully(&self) {
        while self.warehouse.compact(CompactionKind::Major).unwrap().is_some() {}
    }

    pub fn snapshot(&self) -> Snapshot {
        self.warehouse.snapshot(PROJECT)
    }

    pub fn all(&self) -> Vec<EventRow> {
        all(&self.snapshot())
    }

    pub fn files_ending(&self, ending: &str) -> usize {
        let project = self.dir.path().join(PROJECT.to_string());
        let Ok(files) = std::fs::read_dir(project) else { return 0 };
        files.filter(|file| file.as_ref().unwrap().path().extension().unwrap() == ending).count()
    }
}

pub fn open(dir: &Path, settings: &Settings, clock: &Clock) -> Warehouse {
    Warehouse::open(dir, JOURNAL, settings.clone(), clock.clone()).unwrap()
}

pub fn all(snapshot: &Snapshot) -> Vec<EventRow> {
    let window = Window { order: Order::OldestFirst, limit: 1_000_000, ..Window::default() };
    let listing = snapshot.list(&Filter::default(), &window).unwrap();
    assert_eq!(listing.next, None);
    listing.events
}

pub fn new(rows: &[EventRow]) -> Vec<NewRow<'_>> {
    rows.iter().map(|row| row.as_new().unwrap()).collect()
}

pub fn row(number: u128) -> EventRow {
    EventRow {
        project: PROJECT,
        uuid: Uuid::from_u128(number),
        event: "$pageview".into(),
        distinct_id: "ann".into(),
        distinct_no: 1,
        timestamp: Timestamp::from_micros(NOON),
        created_at: Timestamp::from_micros(NOON + 5),
        elements_chain: String::new(),
        groups: Default::default(),
        properties: r#"{"$browser":"Firefox"}"#.into(),
        position: 0,
        historical: false,
    }
}

pub fn at(number: u128, micros: i64) -> EventRow {
    EventRow { timestamp: Timestamp::from_micros(NOON + micros), ..row(number) }
}

pub fn uuids(rows: &[EventRow]) -> Vec<u128> {
    rows.iter().map(|row| row.uuid.as_u128()).collect()
}

/// Fails at the `nth` pass of the fault point.
pub fn fail_at(point: FaultPoint, nth: usize) -> FaultInjector {
    let reached = AtomicUsize::new(0);
    FaultInjector::new(move |at| {
        if at == point && reached.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            return Err(io::Error::other("stopped"));
        }
        Ok(())
    })
}

pub fn day(days: u64) -> Duration {
    Duration::from_secs(days * 24 * 60 * 60)
}
