//! Events of many months: bounds of the files and descriptors that a client can cause.

use std::process::Command;

use ::model::Timestamp;
use warehouse::{CompactionKind, EventRow, Filter, Settings};

use crate::support::{NOON, PROJECT, Store, small, uuids};

/// About a month.
const MONTH: i64 = 2_629_746_000_000;
/// Segments that a merge writes at most: twelve months, early, late and mixed.
const OUTPUTS_MAX: usize = 15;

fn dated(number: u128, months_ago: i64) -> EventRow {
    let timestamp = Timestamp::from_micros(NOON - months_ago * MONTH);
    EventRow { timestamp, ..crate::support::row(number) }
}

fn sorted(rows: &[EventRow]) -> Vec<u128> {
    let mut all = uuids(rows);
    all.sort_unstable();
    all
}

fn segments(store: &Store) -> usize {
    store.warehouse.files(PROJECT).files.len()
}

/// Runs an ignored test of this binary as a process with a limit of open files.
fn with_descriptors(most: usize, test: &str) {
    let limited = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
    let done = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--test-threads", "1"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn flush_of_1100_months_needs_48_file_descriptors() {
    with_descriptors(48, "months::child_stores_1100_months");
}

#[test]
#[ignore = "the test above runs it as a child process"]
fn child_stores_1100_months() {
    let store = Store::with(Settings { memory_rows_max: 4_096, ..small() });
    let mut rows: Vec<EventRow> = (0..1_100).map(|n| dated(n, n as i64)).collect();
    rows.extend((1_100..1_200).map(|n| dated(n, 1_099 - n as i64)));
    let expected: Vec<u128> = (0..1_200).collect();
    store.append(&mut rows);
    store.warehouse.flush().unwrap();
    assert!(segments(&store) <= OUTPUTS_MAX, "{}", segments(&store));
    assert_eq!(sorted(&store.all()), expected);
    let store = store.reopen();
    assert_eq!(store.warehouse.durable_position(), 1_200);
    assert_eq!(sorted(&store.all()), expected);
    // A time range gives the same result however its rows are partitioned.
    for (from, to) in [(0, 5), (20, 40), (300, 400), (600, 1_000), (-50, 0)] {
        let filter = Filter {
            after: Some(Timestamp::from_micros(NOON - to * MONTH - 1)),
            before: Some(Timestamp::from_micros(NOON - from * MONTH)),
            ..Filter::default()
        };
        let inside = rows.iter().filter(|row| {
            let ago = NOON - row.timestamp.as_micros();
            ago > from * MONTH && ago <= to * MONTH
        });
        let count = store.snapshot().count(&filter).unwrap();
        assert_eq!(count, inside.count() as u64, "{from} to {to}");
    }
    store.compact_fully();
    assert_eq!(sorted(&store.reopen().all()), expected);
}

#[test]
fn reads_of_300_segments_stay_within_the_descriptor_limit() {
    with_descriptors(180, "months::child_reads_300_segments");
}

#[test]
#[ignore = "the test above runs it as a child process"]
fn child_reads_300_segments() {
    let store = Store::new();
    for number in 0..300u128 {
        store.append(&mut [dated(number, number as i64 % 150)]);
        store.warehouse.flush().unwrap();
    }
    assert_eq!(segments(&store), 300);
    let expected: Vec<u128> = (0..300).collect();
    assert_eq!(sorted(&store.all()), expected);
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |open| open.count());
    assert!(open <= 150, "{open} descriptors");
    store.compact_fully();
    assert_eq!(sorted(&store.reopen().all()), expected);
}

#[test]
fn compaction_bounds_the_segments_of_rotating_months() {
    let store = Store::with(Settings { merge_segments_min: 6, ..Settings::default() });
    let mut number = 0;
    for flush in 0..40i64 {
        // Twelve months at a time, so that each gets its own segment.
        let mut rows: Vec<EventRow> = (0..12)
            .map(|month| {
                number += 1;
                dated(number, (flush * 12 + month) % 300)
            })
            .collect();
        store.append(&mut rows);
        store.warehouse.flush().unwrap();
        while store.warehouse.compact(CompactionKind::Minor).unwrap().is_some() {}
        assert!(segments(&store) <= 128 + OUTPUTS_MAX, "{} at {flush}", segments(&store));
    }
    assert_eq!(sorted(&store.all()), (1..=480).collect::<Vec<_>>());
    assert_eq!(sorted(&store.reopen().all()).len(), 480);
}

#[test]
fn compaction_splits_a_grown_month_off_the_mixed_segment() {
    let store = Store::with(Settings { merge_segments_min: 2, ..Settings::default() });
    for flush in 0..2u128 {
        let mut rows: Vec<EventRow> =
            (0..20 * 4_500u128).map(|n| dated(flush * 1_000_000 + n, (n % 20) as i64)).collect();
        store.append(&mut rows);
        store.warehouse.flush().unwrap();
    }
    store.compact_fully();
    let names: Vec<String> = store
        .warehouse
        .files(PROJECT)
        .files
        .iter()
        .map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let months = names.iter().filter(|name| !name.starts_with("mixed")).count();
    assert!(months >= 12, "{names:?}");
    assert_eq!(store.snapshot().totals().events, 2 * 20 * 4_500);
}
