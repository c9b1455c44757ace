use std::os::unix::fs::FileExt as _;
use std::path::Path;

use journal::{Error, Journal, Position, Settings};

use crate::{batch, tiny};

fn record(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 100)
}

#[tokio::test]
async fn reader_waits_at_the_end_and_gets_appends_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut reader = journal.reader(Position::START).unwrap();
            tokio::spawn(async move {
                let mut found = Vec::new();
                while found.len() < 500 {
                    let records = reader.next_batch(1000, 1 << 20).await.unwrap();
                    found.extend(records.iter().map(|one| one.bytes.to_vec()));
                }
                (found, reader.position())
            })
        })
        .collect();
    for number in 0..100 {
        journal.append(batch((number * 5..number * 5 + 5).map(record))).await.unwrap();
        tokio::task::yield_now().await;
    }
    let expected: Vec<_> = (0..500).map(record).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), (expected.clone(), Position::from_u64(501)));
    }
}

#[tokio::test]
async fn read_batch_respects_its_bounds_but_is_never_empty() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    journal.append(batch((0..10).map(|_| vec![1; 100]))).await.unwrap();
    journal.append(batch([vec![2; 9000], vec![3; 100]])).await.unwrap();
    for (records_max, bytes_max, expected) in [
        (3, 1 << 20, vec![3, 3, 3, 3]),
        (100, 250, vec![2, 2, 2, 2, 2, 1, 1]),
        (100, 500, vec![5, 5, 1, 1]),
        (0, 0, vec![1; 12]),
        (100, 1 << 20, vec![12]),
    ] {
        let mut reader = journal.reader(Position::START).unwrap();
        let mut sizes = Vec::new();
        while reader.position() < journal.stats().next {
            sizes.push(reader.next_batch(records_max, bytes_max).await.unwrap().len());
        }
        assert_eq!(sizes, expected, "{records_max} records, {bytes_max} bytes");
    }
}

/// A thousand records of 3 kB with one of 2 MB among them, in one segment.
async fn long(dir: &Path) -> (Journal, Vec<Vec<u8>>) {
    let journal = Journal::open(dir, Settings::default()).await.unwrap();
    let long = |number: u32| {
        let bytes = if number == 500 { 2 << 20 } else { 3_000 };
        [number.to_le_bytes().as_slice(), &vec![7; bytes]].concat()
    };
    let records: Vec<Vec<u8>> = (0..1_000).map(long).collect();
    for some in records.chunks(100) {
        journal.append(batch(some.iter().cloned())).await.unwrap();
    }
    (journal, records)
}

#[tokio::test]
async fn records_larger_than_the_read_window_are_read_intact() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, records) = long(dir.path()).await;
    for (records_max, bytes_max, expected) in [
        (1_000, 8 << 20, vec![600]),
        (450, 8 << 20, vec![450, 150]),
        // The long record does not fit after the ones before it, so it comes alone.
        (1_000, 1_500_000, vec![100, 1, 499]),
        (1_000, 2_500_000, vec![135, 465]),
    ] {
        // From the middle, so that the first windows are skipped.
        let mut reader = journal.reader(Position::from_u64(401)).unwrap();
        let (mut found, mut sizes) = (Vec::new(), Vec::new());
        while reader.position() < journal.stats().next {
            let some = reader.next_batch(records_max, bytes_max).await.unwrap();
            sizes.push(some.len());
            found.extend(some.iter().map(|one| one.bytes.to_vec()));
            reader.reuse(some);
        }
        assert_eq!(sizes, expected, "{records_max} records, {bytes_max} bytes");
        assert!(found == records[400..], "{records_max} records, {bytes_max} bytes");
    }
}

#[tokio::test]
async fn reader_returns_the_records_before_a_corruption() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, records) = long(dir.path()).await;
    let mut reader = journal.reader(Position::START).unwrap();
    let segment = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|own| own == "segment"))
        .unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(segment).unwrap();
    file.write_all_at(&[9], 4_100_000).unwrap();
    let found = reader.next_batch(1_000, 8 << 20).await.unwrap();
    assert!((600..700).contains(&found.len()), "{} records", found.len());
    assert!(found.iter().zip(&records).all(|(one, own)| one.bytes == own));
    let refused = reader.next_batch(1_000, 8 << 20).await;
    assert!(matches!(refused, Err(Error::Corrupt(_))), "{refused:?}");
}

#[tokio::test]
async fn next_batch_is_cancel_safe() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    let mut reader = journal.reader(Position::START).unwrap();
    let mut found = Vec::new();
    for number in 0..50 {
        journal.append(batch([record(number)])).await.unwrap();
        tokio::select! {
            biased;
            records = reader.next_batch(1, 1 << 20) => {
                found.extend(records.unwrap().iter().map(|one| one.bytes.to_vec()));
            }
            () = std::future::ready(()) => {}
        }
    }
    while found.len() < 50 {
        let records = reader.next_batch(7, 1 << 20).await.unwrap();
        found.extend(records.iter().map(|one| one.bytes.to_vec()));
    }
    assert_eq!(found, (0..50).map(record).collect::<Vec<_>>());
}

#[tokio::test]
async fn reader_rejects_a_position_out_of_range() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    for number in 0..200 {
        journal.append(batch([record(number)])).await.unwrap();
    }
    journal.release(Position::from_u64(150)).await.unwrap();
    let oldest = journal.stats().oldest;
    assert!(oldest > Position::START && oldest <= Position::from_u64(150));
    for (asked, inside) in [(0, false), (1, false), (150, true), (201, true), (202, false)] {
        let reader = journal.reader(Position::from_u64(asked));
        assert_eq!(reader.is_ok(), inside, "{asked}");
    }
    let refused = journal.reader(Position::from_u64(202)).err().unwrap();
    let text = format!("position 202 is not in the journal, which holds {oldest} up to 201");
    assert_eq!(refused.to_string(), text);
}

#[tokio::test]
async fn close_ends_readers_after_the_last_record() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), tiny()).await.unwrap();
    let mut reader = journal.reader(Position::START).unwrap();
    let mut waiting = journal.reader(Position::START).unwrap();
    let waiting = tokio::spawn(async move {
        let mut count = 0;
        loop {
            match waiting.next_batch(100, 1 << 20).await {
                Ok(records) => count += records.len(),
                Err(error) => break (count, error),
            }
        }
    });
    journal.append(batch(["one", "two"])).await.unwrap();
    journal.close().await;
    assert!(matches!(waiting.await.unwrap(), (2, Error::Closed)));
    assert_eq!(reader.next_batch(100, 1 << 20).await.unwrap().len(), 2);
    assert!(matches!(reader.next_batch(100, 1 << 20).await, Err(Error::Closed)));
}
