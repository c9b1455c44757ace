//! Open, flush, compaction, snapshots and files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::model::Timestamp;
use warehouse::{
    CompactionKind, DeleteSelection, Error, EventRow, ReadOnlyWarehouse, Settings, Warehouse,
};

use crate::support::{JOURNAL, PROJECT, Store, all, at, new, small, uuids};

#[test]
fn open_refuses_another_journal_format_or_process() {
    let store = Store::new();
    let again = || Warehouse::open(store.dir.path(), JOURNAL, small(), store.clock.clone());
    assert!(matches!(again(), Err(Error::Locked { .. })));
    let Store { dir, clock, warehouse, .. } = store;
    drop(warehouse);
    let open = |journal| Warehouse::open(dir.path(), journal, small(), clock.clone());
    assert!(matches!(open(JOURNAL + 1), Err(Error::Journal { stored: JOURNAL, .. })));
    let manifest = dir.path().join("manifest");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("warehouse 1 ", "warehouse 2 ")).unwrap();
    let error = open(JOURNAL).unwrap_err();
    assert!(matches!(error, Error::Version { found: 2, known: 1, .. }));
    assert!(error.to_string().contains("a newer version wrote it"));
    std::fs::write(&manifest, text.replace("\"position\":0", "\"position\":9")).unwrap();
    assert!(matches!(open(JOURNAL), Err(Error::Corrupt { .. })));
}

#[test]
fn segment_has_one_month() {
    let store = Store::new();
    let midnight = Timestamp::from_micros(1_775_001_600_000_000);
    let mut rows: Vec<EventRow> = (-3..3)
        .map(|micros: i64| EventRow {
            timestamp: Timestamp::from_micros(midnight.as_micros() + micros),
            ..at((micros + 3) as u128, 0)
        })
        .collect();
    store.append(&mut rows);
    store.warehouse.flush().unwrap();
    store.compact_fully();
    let mut names: Vec<String> = store
        .warehouse
        .files(PROJECT)
        .files
        .iter()
        .map(|file| file.path.file_name().unwrap().to_string_lossy()[..7].to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["2026-03", "2026-04"]);
    assert_eq!(uuids(&store.all()), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn flush_is_triggered_by_age_or_row_count() {
    let settings = Settings { flush_age: Duration::from_secs(10), ..small() };
    let store = Store::with(settings);
    store.append(&mut [at(1, 0)]);
    store.warehouse.flush_due().unwrap();
    assert_eq!(store.warehouse.durable_position(), 0);
    store.clock.advance_seconds(10);
    store.warehouse.flush_due().unwrap();
    assert_eq!(store.warehouse.durable_position(), 1);
    for number in 0..10 {
        store.append(&mut (0..20).map(|more| at(100 + number * 20 + more, 0)).collect::<Vec<_>>());
        assert!(store.snapshot().totals().events_in_memory <= 64 + 20);
    }
    assert!(store.warehouse.durable_position() > 1);
}

#[test]
fn flush_due_makes_a_position_without_rows_durable() {
    let store = Store::with(Settings { flush_age: Duration::from_secs(10), ..small() });
    store.warehouse.append(&[], 5).unwrap();
    store.warehouse.flush_due().unwrap();
    assert_eq!(store.warehouse.durable_position(), 0);
    store.clock.advance_seconds(10);
    store.warehouse.flush_due().unwrap();
    assert_eq!(store.warehouse.durable_position(), 5);
}

#[test]
fn large_rows_are_appended_in_parts_and_fill_blocks_early() {
    let store = Store::with(Settings { memory_bytes_max: 24 << 20, ..small() });
    let large = |number: u128| EventRow {
        properties: format!(r#"{{"{number}":"{}"}}"#, "x".repeat(4 << 20)),
        ..at(number, 0)
    };
    let mut rows: Vec<EventRow> = (0..20).map(large).collect();
    store.append(&mut rows);
    // 80 MiB were appended at once, with flushes between the parts.
    assert!(store.warehouse.durable_position() >= 12);
    assert!(store.snapshot().totals().events_in_memory <= 8);
    assert_eq!(store.all(), rows);
    // A block's bound is above this memory bound, so a larger one is needed to reach it.
    let store = Store::with(Settings { memory_bytes_max: 1 << 30, ..small() });
    store.append(&mut rows);
    let last = EventRow { properties: "{}".into(), ..at(19, 0) };
    store.append(&mut [last.clone(), large(20)]);
    let mut expected: Vec<EventRow> = rows[..19].to_vec();
    expected.extend([EventRow { position: 20, ..last }, EventRow { position: 21, ..large(20) }]);
    assert_eq!(store.all(), expected);
    assert_eq!(store.snapshot().totals().events_in_memory, 21);
    store.warehouse.flush().unwrap();
    assert_eq!(store.all(), expected);
}

#[test]
fn compaction_merges_only_segments_of_one_size_tier() {
    // Each is less than four times the next, but no three are in one tier.
    for (sizes, merged) in [(&[3, 5, 15, 17][..], 0), (&[4, 5, 15, 17], 3), (&[1, 2, 3, 40], 3)] {
        let store = Store::new();
        let mut number = 0;
        for size in sizes {
            let rows = (number..number + size).map(|number| at(number, 0));
            store.append(&mut rows.collect::<Vec<_>>());
            store.warehouse.flush().unwrap();
            number += size;
        }
        let done = store.warehouse.compact(CompactionKind::Minor).unwrap();
        assert_eq!(done.map_or(0, |done| done.segments_before), merged, "{sizes:?}");
        assert_eq!(store.all().len(), number as usize);
    }
}

#[test]
fn retired_files_stay_for_retired_keep_and_while_a_snapshot_reads_them() {
    let store = Store::new();
    for number in 0..4 {
        store.append(&mut [at(number, 0)]);
        store.warehouse.flush().unwrap();
    }
    let before = store.snapshot();
    store.compact_fully();
    assert_eq!(store.warehouse.files(PROJECT).files.len(), 1);
    assert_eq!(store.files_ending("parquet"), 5);
    store.clock.advance_seconds(14 * 60);
    assert_eq!(store.warehouse.sweep().unwrap(), 0);
    store.clock.advance_seconds(2 * 60);
    assert_eq!(store.warehouse.sweep().unwrap(), 0);
    assert_eq!(uuids(&all(&before)), [0, 1, 2, 3]);
    drop(before);
    assert_eq!(store.warehouse.sweep().unwrap(), 4);
    assert_eq!(store.files_ending("parquet"), 1);
    assert_eq!(uuids(&store.reopen().all()), [0, 1, 2, 3]);
}

#[test]
fn read_only_warehouse_reads_durable_events_next_to_the_writer() {
    let store = Store::new();
    store.append(&mut [at(1, 0), at(2, 1), at(3, 2)]);
    store.warehouse.flush().unwrap();
    let selection = DeleteSelection::Uuids([at(2, 0).uuid].into());
    store.warehouse.delete(PROJECT, &selection, 3).unwrap();
    store.append(&mut [at(4, 3)]);
    let read_only = ReadOnlyWarehouse::open(store.dir.path()).unwrap();
    assert_eq!(read_only.projects(), [PROJECT].into());
    assert_eq!(read_only.files(PROJECT), store.warehouse.files(PROJECT));
    assert_eq!(uuids(&all(&read_only.snapshot(PROJECT))), [1, 3]);
    // Files that were replaced since stay readable.
    store.compact_fully();
    assert_eq!(uuids(&all(&read_only.snapshot(PROJECT))), [1, 3]);
    assert!(ReadOnlyWarehouse::open(&store.dir.path().join("nowhere")).is_err());
}

#[test]
fn append_listener_gets_new_rows_only() {
    let store = Store::new();
    let received = Arc::new(Mutex::new(Vec::new()));
    let (listener, warehouse) = (received.clone(), store.warehouse.clone());
    store.warehouse.on_append(move |rows| {
        // The rows are visible by then.
        assert!(
            rows.iter().all(|row| warehouse.snapshot(PROJECT).get(row.uuid).unwrap().is_some())
        );
        listener.lock().unwrap().extend(rows.iter().map(|row| row.uuid.as_u128()));
    });
    store.append(&mut [at(1, 0), at(2, 0)]);
    store.append(&mut [at(2, 0), at(3, 0)]);
    assert_eq!(*received.lock().unwrap(), [1, 2, 3]);
}

#[test]
fn invalid_or_unordered_rows_are_rejected_without_effect() {
    let store = Store::new();
    for properties in ["", "[]", "1", r#"{"a":}"#, r#"{"a":1} x"#, r#"{"a":1"#] {
        let bad = EventRow { properties: properties.into(), ..at(1, 0) };
        assert!(bad.as_new().is_err(), "{properties}");
    }
    let late = [EventRow { position: 1, ..at(1, 0) }, EventRow { position: 0, ..at(3, 0) }];
    for (rows, reach, position) in [(&late[..], 2, 0), (&late[..1], 1, 1)] {
        let refused = store.warehouse.append(&new(rows), reach);
        assert!(matches!(refused, Err(Error::Invalid { position: at, .. }) if at == position));
    }
    store.append(&mut [at(2, 0)]);
    store.warehouse.flush().unwrap();
    assert_eq!(uuids(&store.all()), [2]);
}

#[test]
fn snapshots_see_every_event_once_during_flush_and_compaction() {
    let store = Store::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let mut most = 0;
            while !stop.load(Ordering::Relaxed) {
                let snapshot = store.snapshot();
                let seen = uuids(&all(&snapshot));
                // Events are appended one by one, so a snapshot is always a prefix.
                assert_eq!(seen, (0..seen.len() as u128).collect::<Vec<_>>());
                assert_eq!(snapshot.totals().events, seen.len() as u64);
                assert!(seen.len() >= most);
                most = seen.len();
            }
            most
        };
        let readers = [scope.spawn(reader), scope.spawn(reader)];
        let chores = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                store.warehouse.compact(CompactionKind::Minor).unwrap();
                store.clock.advance_seconds(600);
                store.warehouse.sweep().unwrap();
            }
        });
        for number in 0..600u128 {
            // Every third event is also sent again with other properties.
            let mut rows = vec![at(number, number as i64)];
            if number % 3 == 0 {
                rows.push(EventRow {
                    properties: "{}".into(),
                    ..at(number / 2, number as i64 / 2)
                });
            }
            store.append(&mut rows);
            if number % 10 == 9 {
                store.warehouse.flush().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        chores.join().unwrap();
        readers.into_iter().for_each(|reader| assert!(reader.join().unwrap() > 0));
    });
    assert_eq!(store.all().len(), 600);
}
