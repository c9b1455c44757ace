use journal::{Error, Journal, Position};

use super::Adapter;
use crate::{batch, read_all, tiny};

fn record(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 100)
}

async fn append(journal: &Journal, numbers: std::ops::Range<u32>) {
    for number in numbers {
        journal.append(batch([record(number)])).await.unwrap();
    }
}

pub async fn read_batches_keep_their_bounds_and_are_never_empty<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    journal.append(batch((0..10).map(|_| vec![1; 100]))).await.unwrap();
    journal.append(batch([vec![2; 9000], vec![3; 100]])).await.unwrap();
    for (records_max, bytes_max) in [(3, 1 << 20), (100, 250), (100, 500), (0, 0), (100, 1 << 20)] {
        let mut reader = journal.reader(Position::START).unwrap();
        let mut found = Vec::new();
        while reader.position() < journal.stats().next {
            let records = reader.next_batch(records_max, bytes_max).await.unwrap();
            let bytes: usize = records.iter().map(|one| one.bytes.len()).sum();
            assert!((1..=records_max.max(1)).contains(&records.len()));
            assert!(records.len() == 1 || bytes <= bytes_max, "{bytes} of {bytes_max} bytes");
            found.extend(records.iter().map(|one| one.bytes.len()));
            reader.reuse(records);
        }
        assert_eq!(found, [vec![100; 10], vec![9000, 100]].concat());
    }
}

pub async fn reader_waits_for_records_and_may_be_interrupted<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    let mut reader = journal.reader(Position::START).unwrap();
    let mut found = Vec::new();
    for number in 0..50 {
        append(&journal, number..number + 1).await;
        tokio::select! {
            biased;
            records = reader.next_batch(1, 1 << 20) => {
                found.extend(records.unwrap().iter().map(|one| one.bytes.to_vec()));
            }
            () = tokio::task::yield_now() => {}
        }
    }
    while found.len() < 50 {
        let records = reader.next_batch(7, 1 << 20).await.unwrap();
        found.extend(records.iter().map(|one| one.bytes.to_vec()));
    }
    assert_eq!(found, (0..50).map(record).collect::<Vec<_>>());
}

pub async fn readers_get_the_same_records<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut reader = journal.reader(Position::START).unwrap();
            tokio::spawn(async move {
                let mut found = Vec::new();
                while found.len() < 200 {
                    let records = reader.next_batch(1000, 1 << 20).await.unwrap();
                    found.extend(records.iter().map(|one| one.bytes.to_vec()));
                }
                (found, reader.position())
            })
        })
        .collect();
    for number in 0..40 {
        journal.append(batch((number * 5..number * 5 + 5).map(record))).await.unwrap();
    }
    let expected: Vec<_> = (0..200).map(record).collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), (expected.clone(), journal.stats().next));
    }
}

pub async fn closing_ends_readers_after_the_last_record<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
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

pub async fn released_records_are_out_of_range_and_later_ones_stay<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    append(&journal, 0..300).await;
    let before = read_all(&journal, Position::START).await;
    let from = before[250].0;
    journal.release(from).await.unwrap();
    let stats = journal.stats();
    assert!(stats.oldest > Position::START && stats.oldest <= from);
    let refused = journal.reader(Position::START).err().unwrap();
    assert!(matches!(refused, Error::OutOfRange { .. }), "{refused}");
    for asked in [stats.oldest, from] {
        let kept: Vec<_> = before.iter().filter(|(at, _)| *at >= asked).cloned().collect();
        assert!(kept.len() >= 50);
        assert_eq!(read_all(&journal, asked).await, kept);
    }
    // Once more, and with positions that are not there.
    journal.release(from).await.unwrap();
    journal.release(Position::START).await.unwrap();
    assert_eq!(journal.stats().oldest, stats.oldest);
}

pub async fn positions_continue_after_everything_was_released<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    append(&journal, 0..100).await;
    let next = journal.stats().next;
    journal.release(Position::from_u64(u64::MAX)).await.unwrap();
    journal.close().await;
    drop(journal);
    let journal = adapter.open(tiny()).await.unwrap();
    assert_eq!(journal.stats().next, next);
    let last = journal.append(batch([record(100)])).await.unwrap();
    assert!(last >= next);
    let oldest = journal.stats().oldest;
    assert_eq!(read_all(&journal, oldest.max(next)).await, [(last, record(100))]);
}

pub async fn positions_beyond_the_end_are_out_of_range<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    append(&journal, 0..3).await;
    let next = journal.stats().next;
    assert!(journal.reader(next).is_ok());
    let refused = journal.reader(next.next()).err().unwrap();
    let text = format!(
        "position {} is not in the journal, which holds {} up to {next}",
        next.next(),
        Position::START
    );
    assert_eq!(refused.to_string(), text);
}

pub async fn waiting_falls_to_zero_as_records_are_read<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    let mut reader = journal.reader(Position::START).unwrap();
    assert_eq!(reader.waiting(), 0);
    for number in 0..10 {
        journal.append(batch((number * 5..number * 5 + 5).map(record))).await.unwrap();
    }
    let mut left = 50;
    while left > 0 {
        assert_eq!(reader.waiting(), left);
        assert_eq!(journal.waiting(reader.position()), left);
        left -= reader.next_batch(3, 1 << 20).await.unwrap().len() as u64;
    }
    assert_eq!(reader.waiting(), 0);
    assert_eq!(reader.position(), reader.end());
}
