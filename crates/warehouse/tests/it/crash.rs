//! A stop at every step that reaches the disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warehouse::{Effort, EventRow, Faults, Selection, Settings, Step};

use crate::support::{Store, at, small, uuids};

/// Fails at the `nth` time the step is reached, and at everything after it.
fn fail_at(step: Step, nth: usize) -> (Faults, Arc<AtomicUsize>) {
    let reached = Arc::new(AtomicUsize::new(0));
    let counter = reached.clone();
    let faults = Faults::new(move |at| {
        if at != step {
            return Ok(());
        }
        match counter.fetch_add(1, Ordering::Relaxed) {
            before if before + 1 == nth => Err(io::Error::other("stopped")),
            _ => Ok(()),
        }
    });
    (faults, reached)
}

/// The journal of the story: events of three months with copies, and a delete in the middle.
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

/// Everything the owner does, from wherever the store stands. Stops at the first failure.
fn tell(store: &Store) -> warehouse::Result<()> {
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
        warehouse.append(&rows, reach)?;
        if reach == 90 {
            let doomed = Selection::Uuids([uuid::Uuid::from_u128(DELETED)].into());
            warehouse.delete(crate::support::PROJECT, &doomed, 90)?;
        }
        warehouse.flush()?;
    }
    while warehouse.compact(Effort::Everything)?.is_some() {}
    store.clock.advance_seconds(3_600);
    warehouse.sweep()?;
    Ok(())
}

#[test]
fn a_stop_at_any_step_loses_nothing_and_doubles_nothing() {
    for step in Step::ALL {
        let mut stops = 0;
        for nth in [1, 2, 3, 5, 8, 13, 21, 34, 55] {
            let (faults, _) = fail_at(*step, nth);
            // The first manifest is written when the store is made.
            let clean = Store::new().reopen();
            let Store { dir, clock, warehouse, .. } = clean;
            drop(warehouse);
            let settings = Settings { faults, ..small() };
            let warehouse = crate::support::open(dir.path(), &settings, &clock);
            let stopped = Store { dir, clock, settings, warehouse };
            if tell(&stopped).is_ok() {
                break;
            }
            stops += 1;
            let Store { dir, clock, warehouse, .. } = stopped;
            drop(warehouse);
            let settings = small();
            let warehouse = crate::support::open(dir.path(), &settings, &clock);
            let store = Store { dir, clock, settings, warehouse };
            tell(&store).unwrap();
            assert_eq!(uuids(&store.all()), expected(), "stopped at {step:?}, time {nth}");
            let live = store.warehouse.files(crate::support::PROJECT).files.len();
            assert_eq!(store.parquet_files(), live, "orphans after {step:?}, time {nth}");
        }
        assert!(stops > 0, "{step:?} was never reached");
    }
}

#[test]
fn after_a_failure_the_same_store_goes_on() {
    for step in Step::ALL {
        for nth in [1, 2, 3, 5, 8, 13, 21, 34, 55] {
            let (faults, _) = fail_at(*step, nth);
            let clean = Store::new();
            let Store { dir, clock, warehouse, .. } = clean;
            drop(warehouse);
            let settings = Settings { faults, ..small() };
            let warehouse = crate::support::open(dir.path(), &settings, &clock);
            let store = Store { dir, clock, settings, warehouse };
            if tell(&store).is_ok() {
                break;
            }
            tell(&store).unwrap();
            assert_eq!(uuids(&store.all()), expected(), "failed at {step:?}, time {nth}");
            let store = store.reopen();
            assert_eq!(uuids(&store.all()), expected(), "reopened after {step:?}, time {nth}");
        }
    }
}
