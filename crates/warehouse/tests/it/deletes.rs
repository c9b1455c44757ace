//! Deletes and retention.

use warehouse::{DeleteOutcome, DeleteSelection, EventRow, FaultPoint, Retention, Settings};

use crate::support::{PROJECT, Store, at, fail_at, small, uuids};

fn people(store: &Store) {
    let mut rows: Vec<EventRow> = (0..30)
        .map(|number| EventRow {
            distinct_no: number % 3,
            distinct_id: format!("person {}", number % 3).into(),
            ..at(number.into(), number.into())
        })
        .collect();
    let (flushed, unflushed) = rows.split_at_mut(20);
    store.append(flushed);
    store.warehouse.flush().unwrap();
    store.append(unflushed);
}

#[test]
fn deleted_events_are_invisible_at_once_and_removed_by_compaction() {
    let store = Store::new();
    people(&store);
    let person = DeleteSelection::DistinctNos([1].into());
    let outcome = store.warehouse.delete(PROJECT, &person, 30).unwrap();
    assert_eq!(outcome, DeleteOutcome { events: 10, events_on_disk: 7 });
    let gone = |store: &Store| store.all().iter().all(|row| row.distinct_no != 1);
    assert!(gone(&store));
    assert_eq!(store.warehouse.delete(PROJECT, &person, 30).unwrap(), DeleteOutcome::default());
    store.warehouse.flush().unwrap();
    store.compact_fully();
    let files = store.warehouse.files(PROJECT);
    assert_eq!(files.files.iter().map(|file| file.rows).sum::<u64>(), 20);
    assert_eq!(files.files.iter().map(|file| file.dead_rows).sum::<u64>(), 0);
    assert!(gone(&store.reopen()));
}

#[test]
fn delete_during_a_flush_applies_to_the_new_segment() {
    let store = Store::with(Settings { faults: fail_at(FaultPoint::FlushMerged, 1), ..small() });
    store.append(&mut [at(1, 0), at(2, 0)]);
    store.warehouse.flush().unwrap_err();
    store.warehouse.delete(PROJECT, &DeleteSelection::All, 2).unwrap();
    store.warehouse.flush().unwrap();
    let totals = store.snapshot().totals();
    assert_eq!((totals.events, totals.files), (0, 0));
    assert_eq!(store.warehouse.files(PROJECT).files, []);
}

#[test]
fn retention_drops_the_oldest_segments_beyond_disk_bytes_max() {
    let store = Store::new();
    let month = 31 * 86_400_000_000;
    for number in 0..3 {
        store.append(&mut [at(number, number as i64 * month)]);
        store.warehouse.flush().unwrap();
    }
    let bytes = store.snapshot().totals().disk_bytes;
    let Store { dir, clock, warehouse, .. } = store;
    drop(warehouse);
    let retention = Retention { disk_bytes_max: Some(bytes - 1), ..Retention::default() };
    let settings = Settings { retention, ..small() };
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    let store = Store { dir, clock, settings, warehouse };
    assert_eq!(store.warehouse.apply_retention().unwrap().events, 1);
    assert_eq!(uuids(&store.all()), [1, 2]);
    assert_eq!(store.warehouse.apply_retention().unwrap().events, 0);
}
