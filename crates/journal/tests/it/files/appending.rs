use journal::{Batch, Error, Journal, JournalId, Position, Settings};

use crate::{batch, inspect, read_all, tiny};

#[tokio::test]
async fn appended_records_come_back_in_order_before_and_after_a_restart() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("not/there/yet");
    let journal = Journal::open(&dir, tiny()).await.unwrap();
    let id = journal.id();
    assert_eq!(id.to_string().parse::<JournalId>().unwrap(), id);
    let mut expected = Vec::new();
    let mut next = Position::START;
    for size in [0, 1, 100, 4096, 5000, 20_000, 60_000, 3] {
        let records: Vec<Vec<u8>> = (0..3).map(|n| vec![n; size]).collect();
        let last = journal.append(batch(&records)).await.unwrap();
        for record in records {
            expected.push((next, record));
            next = next.next();
        }
        assert_eq!(last.next(), next);
        assert_eq!(read_all(&journal, Position::START).await, expected);
    }
    assert_eq!(inspect(&dir), expected);
    journal.close().await;
    let closed = journal.append(batch(["late"])).await;
    assert!(matches!(closed, Err(Error::Closed)));

    let journal = Journal::open(&dir, tiny()).await.unwrap();
    assert_eq!(journal.id(), id);
    assert_eq!(journal.append(batch(["again"])).await.unwrap(), next);
    expected.push((next, b"again".to_vec()));
    for from in [Position::START, Position::from_u64(5), Position::from_u64(20), next] {
        let wanted: Vec<_> = expected.iter().filter(|(at, _)| *at >= from).cloned().collect();
        assert_eq!(read_all(&journal, from).await, wanted);
    }
    assert_eq!(inspect(&dir), expected);
}

#[tokio::test]
async fn oversized_append_is_rejected_without_effect() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    let record = vec![0; (64 << 10) + 1];
    let result = journal.append(batch([&record])).await;
    assert!(matches!(result, Err(Error::TooLarge { bytes: 65_537, bytes_max: 65_536 })));
    let many = batch((0..5).map(|_| vec![0; 60_000]));
    assert!(matches!(journal.append(many).await, Err(Error::TooLarge { .. })));
    assert_eq!(journal.append(Batch::new()).await.unwrap(), Position::from_u64(0));
    assert_eq!(journal.append(batch(["fits"])).await.unwrap(), Position::START);
}

#[tokio::test]
async fn directory_lock_allows_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    let second = Journal::open(dir.path(), tiny()).await.err().unwrap();
    assert!(second.to_string().ends_with("belongs to another running process"), "{second}");
    drop(journal);
    Journal::open(dir.path(), tiny()).await.unwrap();
}

#[tokio::test]
async fn invalid_settings_are_rejected_by_name() {
    let bad = [
        ("segment_bytes", Settings { segment_bytes: 4096, ..tiny() }),
        ("segment_bytes", Settings { segment_bytes: 2 << 30, ..tiny() }),
        ("queue_bytes_max", Settings { queue_bytes_max: 2 << 30, ..tiny() }),
        ("record_bytes_max", Settings { record_bytes_max: 256 << 10, ..tiny() }),
        ("disk_bytes_max", Settings { disk_bytes_max: 400 << 10, ..tiny() }),
    ];
    for (name, settings) in bad {
        let dir = tempfile::tempdir().unwrap();
        let error = Journal::open(dir.path(), settings).await.err().unwrap();
        assert!(error.to_string().contains(&format!("setting {name} ")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn group_commit_keeps_concurrent_batches_contiguous_and_shares_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    let tasks: Vec<_> = (0..64u32)
        .map(|task| {
            let journal = journal.clone();
            tokio::spawn(async move {
                let mut appended = Vec::new();
                for number in 0..20 {
                    let records: Vec<_> =
                        (0..number % 4 + 1).map(|n| format!("{task} {number} {n}")).collect();
                    let last = journal.append(batch(&records)).await.unwrap().as_u64();
                    let first = last + 1 - records.len() as u64;
                    appended.extend((first..).zip(records));
                }
                assert!(appended.is_sorted(), "task {task} overtook itself");
                appended
            })
        })
        .collect();
    let mut expected = Vec::new();
    for task in tasks {
        expected.extend(task.await.unwrap());
    }
    expected.sort();
    let found = read_all(&journal, Position::START).await;
    let found: Vec<_> = found
        .into_iter()
        .map(|(position, record)| (position.as_u64(), String::from_utf8(record).unwrap()))
        .collect();
    assert_eq!(found, expected);
    let stats = journal.stats();
    assert_eq!(stats.records, 64 * 50);
    assert!(stats.syncs < 64 * 20 / 2, "{stats:?}");
    assert_eq!(stats.sync_buckets.iter().sum::<u64>(), stats.syncs);
    assert_eq!(stats.queue_bytes, 0);
}

#[tokio::test]
async fn cancelled_append_still_completes() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    for _ in 0..50 {
        tokio::select! {
            biased;
            _ = journal.append(batch(["left", "alone"])) => {}
            () = std::future::ready(()) => {}
        }
    }
    journal.append(batch(["last"])).await.unwrap();
    let found = read_all(&journal, Position::START).await;
    assert_eq!(found.len(), 101);
    assert_eq!(journal.stats().queue_bytes, 0);
}
