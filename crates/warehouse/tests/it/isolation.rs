//! Isolation: a project that cannot be written does not block the others.

use std::fs;

use ::model::ProjectId;
use warehouse::{CompactionKind, DeleteSelection, EventRow, Settings};

use crate::support::{PROJECT, Store, all, at, small, uuids};

const BROKEN: ProjectId = ProjectId(2);

fn both(number: u128) -> Vec<EventRow> {
    vec![at(number, 0), EventRow { project: BROKEN, ..at(number, 0) }]
}

fn numbers(store: &Store, project: ProjectId) -> Vec<u128> {
    uuids(&all(&store.warehouse.snapshot(project)))
}

#[test]
fn unwritable_project_does_not_block_others() {
    let store = Store::with(Settings { memory_rows_max: 1_000, ..small() });
    // Its directory cannot be created.
    fs::write(store.dir.path().join("2"), "in the way").unwrap();
    for number in 0..10 {
        store.append(&mut both(number));
        assert!(store.warehouse.flush().is_err());
        assert_eq!(store.warehouse.files(PROJECT).files.len(), number as usize + 1);
        // The durable position stays before its first row, and the row is visible.
        assert!(store.warehouse.durable_position() <= 1);
        let seen: Vec<u128> = (0..=number).collect();
        assert_eq!((numbers(&store, PROJECT), numbers(&store, BROKEN)), (seen.clone(), seen));
    }
    let failing = store.warehouse.health().failing;
    assert_eq!(failing.len(), 1);
    assert_eq!(failing[0].0, BROKEN);
    // The other project is compacted.
    while store.warehouse.compact(CompactionKind::Minor).unwrap().is_some() {}
    assert!(store.warehouse.files(PROJECT).files.len() < 6);
    fs::remove_file(store.dir.path().join("2")).unwrap();
    store.warehouse.flush().unwrap();
    assert_eq!(store.warehouse.durable_position(), 20);
    assert!(store.warehouse.health().failing.is_empty());
    let store = store.reopen();
    let expected: Vec<u128> = (0..10).collect();
    assert_eq!((numbers(&store, PROJECT), numbers(&store, BROKEN)), (expected.clone(), expected));
}

#[test]
fn delete_next_to_an_unwritable_project_keeps_later_events() {
    let store = Store::with(Settings { memory_rows_max: 1_000, ..small() });
    fs::write(store.dir.path().join("2"), "in the way").unwrap();
    for number in 0..10 {
        store.append(&mut both(number));
        assert!(store.warehouse.flush().is_err());
    }
    assert!(store.warehouse.durable_position() <= 1);
    // Each event takes two positions.
    let person = DeleteSelection::DistinctNos([1].into());
    assert_eq!(store.warehouse.delete(PROJECT, &person, 8).unwrap().events, 4);
    assert_eq!(numbers(&store, PROJECT), [4, 5, 6, 7, 8, 9]);
    let selection = DeleteSelection::Uuids((0..10).map(|number| at(number, 0).uuid).collect());
    assert_eq!(store.warehouse.delete(PROJECT, &selection, 12).unwrap().events, 2);
    assert_eq!(numbers(&store, PROJECT), [6, 7, 8, 9]);
}

#[test]
fn crash_next_to_an_unwritable_project_loses_and_duplicates_nothing() {
    let store = Store::with(Settings { memory_rows_max: 1_000, ..small() });
    fs::write(store.dir.path().join("2"), "in the way").unwrap();
    let mut journal: Vec<EventRow> = (0..10).flat_map(both).collect();
    // Changed duplicates of events that are stored by then.
    journal.extend((3..6).flat_map(both).map(|row| EventRow { properties: "{}".into(), ..row }));
    for (position, row) in journal.iter_mut().enumerate() {
        row.position = position as u64;
    }
    for part in journal.chunks(4) {
        store.take(part, part[part.len() - 1].position + 1);
        assert!(store.warehouse.flush().is_err());
    }
    let store = store.reopen();
    let from = store.warehouse.durable_position();
    assert_eq!(from, 1, "the first row of the broken project");
    assert_eq!(numbers(&store, PROJECT).len(), 10);
    fs::remove_file(store.dir.path().join("2")).unwrap();
    let replayed: Vec<EventRow> =
        journal.iter().filter(|row| row.position >= from).cloned().collect();
    store.take(&replayed, journal.len() as u64);
    store.warehouse.flush().unwrap();
    let store = store.reopen();
    assert_eq!(store.warehouse.durable_position(), journal.len() as u64);
    for project in [PROJECT, BROKEN] {
        let stored = all(&store.warehouse.snapshot(project));
        assert_eq!(uuids(&stored), (0..10).collect::<Vec<_>>());
        let changed =
            stored.iter().filter(|row| row.properties == "{}").map(|row| row.uuid.as_u128());
        assert_eq!(changed.collect::<Vec<_>>(), [3, 4, 5]);
    }
}

#[test]
fn full_memory_blocks_appends_only_when_the_unwritable_project_alone_fills_it() {
    let store = Store::with(Settings { memory_rows_max: 16, ..small() });
    fs::write(store.dir.path().join("2"), "in the way").unwrap();
    let mut stored = 0u128;
    for _ in 0..100 {
        // One event of the unwritable project among many others.
        let mut rows: Vec<EventRow> = (0..8).map(|n| at(stored * 10 + n, 0)).collect();
        rows.push(EventRow { project: BROKEN, ..at(stored * 10 + 9, 0) });
        let first = store.warehouse.applied_position();
        rows.iter_mut().enumerate().for_each(|(at, row)| row.position = first + at as u64);
        let reach = first + rows.len() as u64;
        if store.warehouse.append(&crate::support::new(&rows), reach).is_err() {
            break;
        }
        stored += 1;
    }
    assert!(stored >= 16, "{stored} batches");
    let waiting = store.warehouse.snapshot(BROKEN).totals().events_in_memory;
    assert!(waiting <= 2 * 16 + 8, "{waiting} rows wait in memory");
    assert_eq!(store.warehouse.snapshot(PROJECT).totals().events as u128, stored * 8);
    fs::remove_file(store.dir.path().join("2")).unwrap();
    store.clock.advance_seconds(600);
    store.warehouse.flush().unwrap();
    assert_eq!(store.warehouse.snapshot(BROKEN).totals().events_in_memory, 0);
}
