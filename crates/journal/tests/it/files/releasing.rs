use journal::{Error, FullCause, Journal, Position, Settings};

use crate::{batch, inspect, read_all, tiny};

fn record(number: u64) -> Vec<u8> {
    format!("record {number} ").repeat(60).into_bytes()
}

/// Appends records that contain their own positions.
async fn append(journal: &Journal, count: u64) {
    for _ in 0..count {
        let position = journal.stats().next;
        let appended = journal.append(batch([record(position.as_u64())])).await.unwrap();
        assert_eq!(appended, position);
    }
}

fn expected(from: Position, next: Position) -> Vec<(Position, Vec<u8>)> {
    (from.as_u64()..next.as_u64()).map(|n| (Position::from_u64(n), record(n))).collect()
}

#[tokio::test]
async fn released_segments_are_recycled_and_positions_survive_restarts() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let journal = Journal::open(dir.path(), tiny()).await.unwrap();
        for _ in 0..10 {
            append(&journal, 30).await;
            journal.release(Position::from_u64(journal.stats().next.as_u64() - 20)).await.unwrap();
            let stats = journal.stats();
            assert!(stats.disk_bytes <= 5 * tiny().segment_bytes, "{stats:?}");
            let kept = expected(stats.oldest, stats.next);
            assert!(kept.len() >= 20);
            assert_eq!(read_all(&journal, stats.oldest).await, kept);
            assert_eq!(inspect(dir.path()), kept);
        }
        assert_eq!(journal.stats().next, Position::from_u64(300 * (round + 1) + 1));
    }
}

#[tokio::test]
async fn positions_continue_after_everything_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    append(&journal, 100).await;
    journal.release(Position::from_u64(u64::MAX)).await.unwrap();
    drop(journal);
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    append(&journal, 1).await;
    journal.release(journal.stats().next).await.unwrap();
    let stats = journal.stats();
    assert_eq!((stats.oldest, stats.next), (Position::from_u64(101), Position::from_u64(102)));
}

#[tokio::test]
async fn reader_finishes_a_segment_that_was_released() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    append(&journal, 30).await;
    let mut reader = journal.reader(Position::START).unwrap();
    let mut found = vec![];
    let refused = loop {
        match reader.next_batch(1, 1).await {
            Ok(records) => {
                found.extend(records.iter().map(|one| (one.position, one.bytes.to_vec())))
            }
            Err(error) => break error,
        }
        // From the first record on, every released file is recycled.
        append(&journal, 30).await;
        journal.release(journal.stats().next).await.unwrap();
    };
    assert!(found.len() > 5);
    assert_eq!(found, expected(Position::START, reader.position()));
    assert!(matches!(refused, Error::OutOfRange { .. }), "{refused}");
}

#[tokio::test]
async fn disk_bytes_max_rejects_appends_until_a_release() {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        record_bytes_max: 8 << 10,
        queue_bytes_max: 16 << 10,
        disk_bytes_max: 64 << 10,
        ..tiny()
    };
    let journal = Journal::open(dir.path(), settings).await.unwrap();
    let mut full = None;
    for _ in 0..200 {
        let next = journal.stats().next;
        if let Err(error) = journal.append(batch([record(next.as_u64())])).await {
            full = Some(error);
            break;
        }
    }
    assert!(matches!(full, Some(Error::Full(FullCause::Limit))), "{full:?}");
    let stats = journal.stats();
    assert!(stats.disk_bytes <= 64 << 10 && stats.disk_bytes > 32 << 10, "{stats:?}");
    assert_eq!(read_all(&journal, Position::START).await, expected(stats.oldest, stats.next));

    journal.release(stats.next).await.unwrap();
    append(&journal, 20).await;
    let stats = journal.stats();
    assert_eq!(read_all(&journal, stats.oldest).await, expected(stats.oldest, stats.next));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn releasing_while_segments_roll_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    let appending = tokio::spawn({
        let journal = journal.clone();
        async move {
            for _ in 0..60 {
                let first = journal.stats().next.as_u64();
                let records = batch((first..first + 15).map(record));
                journal.append(records).await.unwrap();
            }
        }
    });
    while !appending.is_finished() {
        let next = journal.stats().next.as_u64();
        journal.release(Position::from_u64(next.saturating_sub(40))).await.unwrap();
    }
    appending.await.unwrap();
    journal.close().await;
    let kept = inspect(dir.path());
    assert!(kept.len() >= 40);
    assert_eq!(kept, expected(kept[0].0, Position::from_u64(901)));
}
