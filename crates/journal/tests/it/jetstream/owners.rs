use journal::jetstream::Address;
use journal::{Error, Journal, Position};
use testing::nats::Nats;
use tokio::runtime::Builder;

use crate::{batch, read_all, tiny};

/// A runtime that is not driven stands for a process that is frozen.
#[test]
fn frozen_owner_loses_the_journal_and_deletes_nothing_when_it_wakes_up() {
    let Some(nats) = Nats::new() else { return };
    let address = |owner| Address {
        url: nats.url.clone(),
        monitor_urls: nats.monitor_urls.clone(),
        replicas: 3,
        owner,
        ..Address::default()
    };
    let frozen = Builder::new_current_thread().enable_all().build().unwrap();
    let first = frozen.block_on(async {
        let journal = Journal::open(address(1), tiny()).await.unwrap();
        journal.append(batch(["one"])).await.unwrap();
        journal.append(batch(["two"])).await.unwrap();
        journal
    });
    let running = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let second = running.block_on(Journal::open(address(2), tiny())).unwrap();
    running.block_on(second.append(batch(["three"]))).unwrap();

    let refused = frozen.block_on(first.release(first.stats().next)).unwrap_err();
    assert!(matches!(refused, Error::Owned(_)), "{refused}");
    let refused = frozen.block_on(first.append(batch(["four"]))).unwrap_err();
    assert!(matches!(refused, Error::Owned(_)), "{refused}");
    let mut reader = first.reader(Position::START).unwrap();
    let refused = frozen.block_on(reader.next_batch(1, 1)).unwrap_err();
    assert!(matches!(refused, Error::Owned(_)), "{refused}");

    let found = running.block_on(read_all(&second, Position::START));
    let found: Vec<_> = found.into_iter().map(|(_, record)| record).collect();
    assert_eq!(found, [b"one".as_slice(), b"two", b"three"]);
}
