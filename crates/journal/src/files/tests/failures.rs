use std::time::Duration;

use crate::files::Journal;
use crate::files::storage::Disk;
use crate::files::tests::disk::{Fault, FaultyDisk};
use crate::files::tests::{batch, read_all, tiny};
use crate::{Error, FullCause, Position, Settings};

const FAULTS: [Fault; 6] = [
    Fault::NoSpace,
    Fault::WriteError,
    Fault::ShortThenNoSpace,
    Fault::SyncLost,
    Fault::SyncArrived,
    Fault::FolderSync,
];

fn record(number: u32) -> Vec<u8> {
    format!("record {number} ").repeat(100).into_bytes()
}

/// Appends `count` records one by one and collects those acknowledged.
async fn append(journal: &Journal, count: u32, acknowledged: &mut Vec<(Position, Vec<u8>)>) -> u32 {
    let mut failed = 0;
    for _ in 0..count {
        let record = record(acknowledged.len() as u32);
        match journal.append(batch([&record])).await {
            Ok(position) => acknowledged.push((position, record)),
            Err(_) => failed += 1,
        }
    }
    failed
}

#[tokio::test]
async fn failed_append_is_never_readable_and_the_next_append_recovers() {
    for fault in FAULTS {
        for appends_before in [0, 1, 5, 30] {
            let dir = tempfile::tempdir().unwrap();
            let disk = FaultyDisk::default();
            let open = |disk| Journal::open_on(dir.path(), tiny(), disk).unwrap();
            let journal = open(Box::new(disk.clone()));
            let mut acknowledged = Vec::new();
            append(&journal, appends_before, &mut acknowledged).await;
            disk.fail(fault);
            // Enough to roll over, where some of the faults apply.
            let failed = append(&journal, 30, &mut acknowledged).await;
            let case = format!("{fault:?} after {appends_before}");
            assert_eq!((failed, disk.pending()), (1, 0), "{case}");
            assert_eq!(read_all(&journal).await, acknowledged, "{case}");
            assert_eq!(journal.stats().groups_failed, 1, "{case}");
            drop(journal);
            let journal = open(Box::new(Disk));
            assert_eq!(read_all(&journal).await, acknowledged, "{case}, after a restart");
        }
    }
}

#[tokio::test]
async fn short_write_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let journal = Journal::open_on(dir.path(), tiny(), Box::new(disk.clone())).unwrap();
    let mut acknowledged = Vec::new();
    (0..8).for_each(|_| disk.fail(Fault::Short));
    assert_eq!(append(&journal, 5, &mut acknowledged).await, 0);
    assert_eq!(disk.pending(), 0);
    assert_eq!(read_all(&journal).await, acknowledged);
}

#[tokio::test]
async fn full_disk_rejects_appends_but_allows_open_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let journal = Journal::open_on(dir.path(), tiny(), Box::new(disk.clone())).unwrap();
    let mut acknowledged = Vec::new();
    append(&journal, 20, &mut acknowledged).await;
    drop(journal);

    let journal = Journal::open_on(dir.path(), tiny(), Box::new(disk.clone())).unwrap();
    for _ in 0..3 {
        disk.fail(Fault::NoSpace);
        let result = journal.append(batch(["more"])).await;
        assert!(matches!(result, Err(Error::Full(FullCause::Disk))), "{result:?}");
        assert_eq!(read_all(&journal).await, acknowledged);
    }
    assert_eq!(append(&journal, 1, &mut acknowledged).await, 0);
    assert_eq!(read_all(&journal).await, acknowledged);
}

#[tokio::test]
async fn failed_sync_fails_every_append_of_its_group_only() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let journal = Journal::open_on(dir.path(), tiny(), Box::new(disk.clone())).unwrap();
    journal.append(batch(["first"])).await.unwrap();
    disk.fail(Fault::SyncLost);
    let appends: Vec<_> = (0..10)
        .map(|number| {
            let journal = journal.clone();
            tokio::spawn(async move { (number, journal.append(batch([record(number)])).await) })
        })
        .collect();
    let mut acknowledged = vec![(Position::START, b"first".to_vec())];
    for append in appends {
        let (number, result) = append.await.unwrap();
        acknowledged.extend(result.ok().map(|position| (position, record(number))));
    }
    acknowledged.sort();
    assert!(acknowledged.len() < 11);
    assert_eq!(journal.stats().groups_failed, 1);
    assert_eq!(read_all(&journal).await, acknowledged);
}

#[tokio::test]
async fn full_queue_applies_backpressure_then_returns_busy() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let settings = Settings { queue_wait_max: Duration::from_millis(20), ..tiny() };
    let journal = Journal::open_on(dir.path(), settings, Box::new(disk.clone())).unwrap();
    disk.hold();
    let waiting: Vec<_> = (0..6)
        .map(|_| {
            let journal = journal.clone();
            tokio::spawn(async move { journal.append(batch([[0; 10_000]])).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let queue_bytes = journal.stats().queue_bytes;
    assert!((60_000..=tiny().queue_bytes_max).contains(&queue_bytes), "{queue_bytes}");
    let refused = journal.append(batch([[0; 10_000]])).await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");

    disk.resume();
    for append in waiting {
        append.await.unwrap().unwrap();
    }
    journal.append(batch([[0; 10_000]])).await.unwrap();
    assert_eq!(read_all(&journal).await.len(), 7);
}

/// An idle server must notice that its disk has space again.
#[tokio::test]
async fn refusal_reports_the_failure_and_a_probe_recovers_without_an_append() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let journal = Journal::open_on(dir.path(), tiny(), Box::new(disk.clone())).unwrap();
    journal.probe().await.unwrap();
    let mut acknowledged = Vec::new();
    append(&journal, 3, &mut acknowledged).await;
    assert!(journal.refusal().is_none());
    disk.fail(Fault::SyncLost);
    assert_eq!(append(&journal, 1, &mut acknowledged).await, 1);
    assert!(matches!(journal.refusal(), Some(Error::Io { .. })));
    disk.fail(Fault::NoSpace);
    assert!(matches!(journal.probe().await, Err(Error::Full(FullCause::Disk))));
    assert!(matches!(journal.refusal(), Some(Error::Full(FullCause::Disk))));
    journal.probe().await.unwrap();
    assert!(journal.refusal().is_none());
    let groups = journal.stats().groups;
    journal.probe().await.unwrap();
    assert_eq!(journal.stats().groups, groups, "a probe is no append");
    append(&journal, 3, &mut acknowledged).await;
    assert_eq!(read_all(&journal).await, acknowledged);
    drop(journal);
    let journal = Journal::open_on(dir.path(), tiny(), Box::new(Disk)).unwrap();
    assert_eq!(read_all(&journal).await, acknowledged);
}

#[tokio::test]
async fn release_reopens_a_journal_at_disk_bytes_max() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings { disk_bytes_max: 3 * (64 << 10), ..tiny() };
    let journal = Journal::open_on(dir.path(), settings, Box::new(Disk)).unwrap();
    let mut acknowledged = Vec::new();
    while append(&journal, 1, &mut acknowledged).await == 0 {}
    assert!(matches!(journal.refusal(), Some(Error::Full(FullCause::Limit))));
    assert!(journal.probe().await.is_err());
    journal.release(acknowledged[acknowledged.len() - 1].0).await.unwrap();
    journal.probe().await.unwrap();
    assert!(journal.refusal().is_none());
    assert_eq!(append(&journal, 1, &mut acknowledged).await, 0);
}

/// No journal can prevent this loss; it must not turn it into wrong records.
#[tokio::test]
async fn lying_fsync_loses_the_tail_or_is_detected_but_changes_no_record() {
    for lies in 1..6 {
        let dir = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::default();
        let open = || Journal::open_on(dir.path(), tiny(), Box::new(disk.clone()));
        let journal = open().unwrap();
        let mut acknowledged = Vec::new();
        append(&journal, 5, &mut acknowledged).await;
        (0..lies).for_each(|_| disk.fail(Fault::SyncLies));
        append(&journal, lies, &mut acknowledged).await;
        assert_eq!((acknowledged.len() as u32, disk.pending()), (5 + lies, 0));
        drop_without_power(journal, &disk, dir.path());
        let journal = open().unwrap();
        let found = read_all(&journal).await;
        assert!(found.len() < acknowledged.len() && acknowledged.starts_with(&found), "{lies}");
    }
}

#[tokio::test]
async fn lost_group_is_detected_if_a_later_group_is_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::default();
    let open = || Journal::open_on(dir.path(), tiny(), Box::new(disk.clone()));
    let journal = open().unwrap();
    let mut acknowledged = Vec::new();
    append(&journal, 3, &mut acknowledged).await;
    disk.fail(Fault::SyncLies);
    append(&journal, 3, &mut acknowledged).await;
    drop_without_power(journal, &disk, dir.path());
    let refused = open().err().unwrap();
    assert!(refused.is_corruption(), "{refused}");
}

fn drop_without_power(journal: Journal, disk: &FaultyDisk, dir: &std::path::Path) {
    disk.turn_off();
    drop(journal);
    disk.lose_power(dir, || false);
    disk.turn_on();
}
