//! Deletes up to a position.

use std::collections::BTreeSet;

use warehouse::{DeleteSelection, EventRow};

use crate::support::{PROJECT, Store, positions, rows};

fn uuids(rows: &[EventRow]) -> DeleteSelection {
    DeleteSelection::Uuids(rows.iter().map(|row| row.uuid).collect())
}

#[test]
fn deletes_select_by_uuid_distinct_id_and_time_up_to_a_position() {
    let Some(store) = Store::open() else { return };
    let mut all = rows(1..9);
    all[7].distinct_no = 4;
    store.append(&all);
    // Rows that wait are deleted too.
    let found = |selection: &DeleteSelection, before| {
        store.writer.delete(PROJECT, selection, before).unwrap().events
    };
    assert_eq!(found(&uuids(&all[..2]), 2), 1, "the second is at the position");
    assert_eq!(positions(&store.all()), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(found(&uuids(&all[..2]), 2), 0, "idempotent");
    let (from, to) = (all[2].timestamp.as_micros(), all[4].timestamp.as_micros());
    assert_eq!(found(&DeleteSelection::Time { from: Some(from), to: Some(to) }, 100), 2);
    assert_eq!(positions(&store.all()), [2, 5, 6, 7, 8]);
    assert_eq!(found(&DeleteSelection::DistinctNos(BTreeSet::from([4, 99])), 100), 1);
    assert_eq!(found(&DeleteSelection::All, 7), 3);
    assert_eq!(positions(&store.all()), [7]);
}

#[test]
fn rows_that_a_replay_brings_stay_deleted() {
    let Some(mut store) = Store::open() else { return };
    let all = rows(1..6);
    store.append(&all[..3]);
    // Reaches beyond what was appended: rows 4 is deleted when it arrives, 5 is not.
    store.writer.delete(PROJECT, &uuids(&all), 5).unwrap();
    assert_eq!(store.all(), []);
    store.reopen();
    assert_eq!(store.writer.durable_position(), 4);
    store.append(&all[3..]);
    store.writer.flush().unwrap();
    assert_eq!(positions(&store.all()), [5]);
    store.writer.sweep().unwrap();
    assert_eq!(store.database.sql("SELECT count() FROM deletions"), "0");
}

#[test]
fn a_delete_by_time_brings_no_older_copy_to_light() {
    let Some(store) = Store::open() else { return };
    let first = rows(1..2).remove(0);
    let later =
        EventRow { position: 2, timestamp: first.timestamp.plus_seconds(600), ..first.clone() };
    store.append(std::slice::from_ref(&first));
    store.writer.flush().unwrap();
    store.append(std::slice::from_ref(&later));
    store.writer.flush().unwrap();
    let from = Some(later.timestamp.as_micros());
    let selection = DeleteSelection::Time { from, to: None };
    assert_eq!(store.writer.delete(PROJECT, &selection, 3).unwrap().events, 1);
    assert_eq!(store.all(), []);
}
