//! Crashes and disk failures at every fault point.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::model::{Clock, Timestamp};
use tempfile::TempDir;
use warehouse::{CompactionKind, DeleteSelection, EventRow, FaultInjector, FaultPoint, Settings};

use crate::support::{NOON, PROJECT, Store, at, fail_at, new, small, uuids};

/// The journal: events of three months with duplicates, and a delete in the middle.
fn journal() -> Vec<EventRow> {
    let month = 31 * 86_400_000_000i64;
    let event = |(position, number): (usize, u128)| EventRow {
        position: position as u64,
        properties: format!(r#"{{"copy":{}}}"#, position / 40),
        ..at(number, (number as i64 % 3) * month + number as i64)
    };
    (0..80).map(|number| number % 40).chain(30..60).enumerate().map(event).collect()
}

const DELETED: u128 = 7;

fn expected() -> Vec<u128> {
    let mut numbers: Vec<u128> = (0..60).filter(|number| *number != DELETED).collect();
    numbers.sort_by_key(|number| (number % 3, *number));
    numbers
}

/// Everything the owner does, from the durable position on. Stops at the first failure.
fn run_owner(store: &Store) -> warehouse::Result<()> {
    let warehouse = &store.warehouse;
    let journal = journal();
    let end = journal.len() as u64;
    let from = |position: u64| position.max(warehouse.applied_position());
    for reach in [25, 50, 90, end] {
        let rows: Vec<EventRow> = journal
            .iter()
            .filter(|row| row.position >= from(0) && row.position < reach)
            .cloned()
            .collect();
        warehouse.append(&new(&rows), reach)?;
        if reach == 90 {
            let selection = DeleteSelection::Uuids([uuid::Uuid::from_u128(DELETED)].into());
            warehouse.delete(PROJECT, &selection, 90)?;
        }
        warehouse.flush()?;
    }
    while warehouse.compact(CompactionKind::Major)?.is_some() {}
    store.clock.advance_seconds(3_600);
    warehouse.sweep()?;
    Ok(())
}

fn open_with(settings: Settings, dir: TempDir, clock: Clock) -> Store {
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    Store { dir, clock, settings, warehouse }
}

/// The disk as a power failure at the `nth` pass of the fault point leaves it, if it is reached.
fn disk_at(point: FaultPoint, nth: usize) -> Option<TempDir> {
    // The first manifest is written when the store is created.
    let Store { dir, clock, warehouse, .. } = Store::new();
    drop(warehouse);
    let image = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().to_owned(), image.path().to_owned());
    let reached = Arc::new(AtomicUsize::new(0));
    let counter = reached.clone();
    let faults = FaultInjector::new(move |at| {
        if at == point && counter.fetch_add(1, Ordering::Relaxed) + 1 == nth {
            copy(&from, &to);
        }
        Ok(())
    });
    run_owner(&open_with(Settings { faults, ..small() }, dir, clock)).unwrap();
    (reached.load(Ordering::Relaxed) >= nth).then_some(image)
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn no_orphans(store: &Store, when: &str) {
    let live = store.warehouse.files(PROJECT).files;
    let dead = live.iter().filter(|file| file.dead.is_some()).count();
    assert_eq!(store.files_ending("parquet"), live.len(), "segments {when}");
    assert_eq!(store.files_ending("dead"), dead, "lists of dead rows {when}");
    assert_eq!(store.files_ending("spill"), 0, "spilled columns {when}");
}

const TIMES: [usize; 9] = [1, 2, 3, 5, 8, 13, 21, 34, 55];

#[test]
fn crash_at_any_fault_point_loses_and_duplicates_no_event() {
    for point in FaultPoint::ALL {
        let images: Vec<TempDir> = TIMES.iter().map_while(|nth| disk_at(*point, *nth)).collect();
        assert!(!images.is_empty(), "{point:?} was never reached");
        for (image, nth) in images.into_iter().zip(TIMES) {
            let store = open_with(small(), image, Clock::at(Timestamp::from_micros(NOON)));
            run_owner(&store).unwrap();
            let when = format!("stopped at {point:?}, time {nth}");
            assert_eq!(uuids(&store.all()), expected(), "{when}");
            no_orphans(&store, &when);
        }
    }
}

#[test]
fn store_continues_after_a_disk_failure_and_leaves_no_orphans() {
    for point in FaultPoint::ALL {
        for nth in TIMES {
            let Store { dir, clock, warehouse, .. } = Store::new();
            drop(warehouse);
            let store = open_with(Settings { faults: fail_at(*point, nth), ..small() }, dir, clock);
            if run_owner(&store).is_ok() {
                break;
            }
            run_owner(&store).unwrap();
            let when = format!("failed at {point:?}, time {nth}");
            assert_eq!(uuids(&store.all()), expected(), "{when}");
            no_orphans(&store, &when);
            assert_eq!(uuids(&store.reopen().all()), expected(), "reopened, {when}");
        }
    }
}

#[test]
fn failed_flush_is_retried_by_flush_due() {
    let settings = Settings { faults: fail_at(FaultPoint::ManifestWritten, 2), ..small() };
    let store = Store::with(settings);
    store.append(&mut [at(1, 0)]);
    store.clock.advance_seconds(60);
    assert!(store.warehouse.flush_due().is_err());
    assert_eq!(store.files_ending("parquet"), 0);
    store.clock.advance_seconds(59);
    store.warehouse.flush_due().unwrap();
    assert_eq!(store.warehouse.durable_position(), 0);
    store.clock.advance_seconds(1);
    store.warehouse.flush_due().unwrap();
    assert_eq!(store.warehouse.durable_position(), 1);
    assert_eq!(uuids(&store.reopen().all()), [1]);
}
