use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use journal::{Batch, Error, FullCause, JournalId, Position, Settings};
use testing::Rng;

use super::Adapter;
use crate::{batch, read_all, tiny};

/// Does not compress.
fn noise(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| rng.next_u64() as u8).collect()
}

pub async fn records_come_back_in_order_before_and_after_a_restart<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    let id = journal.id();
    assert_eq!(id.to_string().parse::<JournalId>().unwrap(), id);
    assert_eq!((journal.stats().oldest, journal.stats().next), (Position::START, Position::START));
    let mut expected = Vec::new();
    for size in [0, 1, 100, 4096, 5000, 20_000, 60_000, 3] {
        let records: Vec<Vec<u8>> = (0..3).map(|n| vec![n; size]).collect();
        let last = journal.append(batch(&records)).await.unwrap();
        expected.extend(records);
        let found = read_all(&journal, Position::START).await;
        assert!(found.is_sorted_by(|(a, _), (b, _)| a < b));
        assert_eq!(found.last().unwrap().0, last);
        assert_eq!(found.into_iter().map(|(_, record)| record).collect::<Vec<_>>(), expected);
        assert_eq!(journal.stats().next, last.next(), "applied to the end is the end");
    }
    let before = read_all(&journal, Position::START).await;
    let next = journal.stats().next;
    journal.close().await;
    drop(journal);

    let journal = adapter.open(tiny()).await.unwrap();
    assert_eq!((journal.id(), journal.stats().next), (id, next));
    assert_eq!(read_all(&journal, Position::START).await, before);
    let last = journal.append(batch(["again"])).await.unwrap();
    assert!(last >= next);
    for from in [before[4].0, before[23].0, next] {
        let mut wanted: Vec<_> = before.iter().filter(|(at, _)| *at >= from).cloned().collect();
        wanted.push((last, b"again".to_vec()));
        assert_eq!(read_all(&journal, from).await, wanted);
    }
}

pub async fn producers_keep_their_order_and_positions_rise<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    let tasks = (0..32u32).map(|task| {
        let journal = journal.clone();
        tokio::spawn(async move {
            let mut appended = BTreeMap::new();
            for number in 0..20 {
                let records: Vec<_> =
                    (0..number % 4 + 1).map(|n| format!("{task} {number} {n}")).collect();
                let last = journal.append(batch(&records)).await.unwrap();
                appended.insert(last, records.last().unwrap().clone());
            }
            appended
        })
    });
    let tasks = join_all(tasks.collect::<Vec<_>>()).await;
    let found = read_all(&journal, Position::START).await;
    assert!(found.is_sorted_by(|(a, _), (b, _)| a < b));
    let found: BTreeMap<Position, String> = found
        .into_iter()
        .map(|(position, record)| (position, String::from_utf8(record).unwrap()))
        .collect();
    for (task, appended) in tasks.into_iter().enumerate() {
        for (last, record) in appended.unwrap() {
            assert_eq!(found[&last], record);
        }
        let prefix = format!("{task} ");
        let own = found.values().filter(|record| record.starts_with(&prefix));
        let numbers = (0..20).flat_map(|number| (0..number % 4 + 1).map(move |n| (number, n)));
        let expected: Vec<_> = numbers.map(|(number, n)| format!("{task} {number} {n}")).collect();
        assert!(own.eq(expected.iter()), "records of {task} are not in order");
    }
    let stats = journal.stats();
    assert_eq!(stats.records, 32 * 50);
    assert!(stats.syncs < 32 * 20, "requests that wait together share a group: {stats:?}");
    assert_eq!(stats.sync_buckets.iter().sum::<u64>(), stats.syncs);
    assert_eq!((stats.queue_bytes, stats.lost_messages), (0, 0));
}

pub async fn batch_larger_than_a_message_stays_in_order<A: Adapter>(adapter: A) {
    let mut rng = testing::seed().rng();
    let settings = Settings { queue_bytes_max: 4 << 20, ..tiny() };
    let journal = adapter.open(settings).await.unwrap();
    let records: Vec<_> = (0..60).map(|_| noise(&mut rng, 30_000)).collect();
    let last = journal.append(batch(&records)).await.unwrap();
    let after = journal.append(batch(["after"])).await.unwrap();
    let found = read_all(&journal, Position::START).await;
    assert_eq!((found[59].0, found[60].0), (last, after));
    assert!(found[..60].iter().map(|(_, record)| record).eq(&records));
}

pub async fn largest_record_is_taken_and_a_larger_one_is_refused<A: Adapter>(adapter: A) {
    let mut rng = testing::seed().rng();
    let bytes_max = 9 << 20;
    let settings = Settings {
        record_bytes_max: bytes_max,
        queue_bytes_max: 32 << 20,
        disk_bytes_max: 256 << 20,
        ..tiny()
    };
    let journal = adapter.open(settings).await.unwrap();
    let largest = noise(&mut rng, bytes_max as usize);
    journal.append(batch([&largest])).await.unwrap();
    let refused = journal.append(batch([vec![0; bytes_max as usize + 1]])).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    let many = batch((0..4).map(|_| vec![0; bytes_max as usize]));
    assert!(matches!(journal.append(many).await, Err(Error::TooLarge { .. })));
    journal.append(batch(["fits"])).await.unwrap();
    let found = read_all(&journal, Position::START).await;
    assert!(found[0].1 == largest);
    assert_eq!((found.len(), found[1].1.as_slice()), (2, b"fits".as_slice()));
}

pub async fn full_journal_refuses_until_records_are_released<A: Adapter>(adapter: A) {
    let mut rng = testing::seed().rng();
    let settings = Settings { disk_bytes_max: 1 << 20, ..tiny() };
    let journal = adapter.open(settings).await.unwrap();
    let mut acknowledged = Vec::new();
    let refused = loop {
        let record = noise(&mut rng, 32 << 10);
        match journal.append(batch([&record])).await {
            Ok(_) => acknowledged.push(record),
            Err(error) => break error,
        }
        assert!(acknowledged.len() < 64, "more than disk_bytes_max");
    };
    assert!(matches!(refused, Error::Full(FullCause::Limit)), "{refused}");
    assert!(acknowledged.len() > 16, "{} records fit", acknowledged.len());
    assert!(matches!(journal.refusal(), Some(Error::Full(_))));
    let found = read_all(&journal, Position::START).await;
    assert!(found.iter().map(|(_, record)| record).eq(&acknowledged));

    journal.release(journal.stats().next).await.unwrap();
    journal.probe().await.unwrap();
    assert!(journal.refusal().is_none());
    let last = journal.append(batch(["there is space again"])).await.unwrap();
    assert!(last > found.last().unwrap().0);
}

pub async fn append_that_finds_no_capacity_is_refused_as_busy<A: Adapter>(adapter: A) {
    let journal =
        adapter.open(Settings { queue_wait_max: Duration::ZERO, ..tiny() }).await.unwrap();
    let appends = (0..64).map(|_| journal.append(batch([vec![1; 60_000]])));
    let outcomes = join_all(appends).await;
    let taken = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!((1..64).contains(&taken), "{taken} were taken");
    let busy = |outcome: &&Result<_, _>| matches!(outcome, Err(Error::Busy { .. }));
    assert_eq!(outcomes.iter().filter(busy).count(), 64 - taken);
    assert_eq!(read_all(&journal, Position::START).await.len(), taken);
    journal.append(batch(["later"])).await.unwrap();
}

pub async fn dropped_append_still_completes<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    for _ in 0..50 {
        tokio::select! {
            biased;
            _ = journal.append(batch(["left", "alone"])) => {}
            () = std::future::ready(()) => {}
        }
    }
    journal.append(batch(["last"])).await.unwrap();
    journal.close().await;
    drop(journal);
    let journal = adapter.open(tiny()).await.unwrap();
    assert_eq!(read_all(&journal, Position::START).await.len(), 101);
}

pub async fn empty_batch_succeeds_at_once<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    assert_eq!(journal.append(Batch::new()).await.unwrap(), Position::from_u64(0));
    let last = journal.append(batch(["one"])).await.unwrap();
    assert_eq!(journal.append(Batch::new()).await.unwrap(), last);
    assert_eq!(journal.stats().records, 1);
}

pub async fn closed_journal_refuses_appends<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    journal.close().await;
    assert!(matches!(journal.append(batch(["late"])).await, Err(Error::Closed)));
}

pub async fn second_owner_is_refused<A: Adapter>(adapter: A) {
    let journal = adapter.open(tiny()).await.unwrap();
    let refused = adapter.open_as_other(tiny()).await.err().unwrap();
    assert!(matches!(refused, Error::Locked { .. } | Error::Owned(_)), "{refused}");
    journal.append(batch(["still ours"])).await.unwrap();
    journal.close().await;
    drop(journal);
    let other = adapter.open_as_other(tiny()).await.unwrap();
    assert_eq!(read_all(&other, Position::START).await.len(), 1);
}

pub async fn foreign_journal_is_refused<A: Adapter>(adapter: A) {
    adapter.make_foreign().await;
    let refused = adapter.open(tiny()).await.err().unwrap();
    let told = matches!(
        refused,
        Error::Corrupt(_) | Error::Version { .. } | Error::Missing { .. } | Error::Unsuitable(_)
    );
    assert!(told, "{refused}");
}
