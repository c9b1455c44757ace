use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use journal::jetstream::{Address, Durability};
use journal::{Error, Journal, Position};
use testing::nats::{Cluster, Release};
use tokio::time::{Instant, sleep};

use crate::{batch, read_all, tiny};

const PRODUCERS: u64 = 8;
/// Longer than a leader's lease, so that another is elected.
const FREEZE: Duration = Duration::from_secs(8);
/// Appends go on within this time after any fault, or the test fails.
const RECOVERY_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillLeader,
    FreezeLeader,
    KillTwo,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_doubled_with_fsync() {
    lose_servers(Durability::Fsync).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_or_doubled_with_replicas() {
    lose_servers(Durability::Replicated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_without_a_quorum_is_refused_as_away_until_there_is_one() {
    let Some(mut cluster) = Cluster::start(Release::Current) else { return };
    let address = Address {
        url: cluster.url(),
        monitor_urls: cluster.monitor_urls(),
        replicas: 3,
        ..Address::default()
    };
    let journal = Journal::open(address, tiny()).await.unwrap();
    journal.append(batch(["before"])).await.unwrap();
    cluster.kill(0);
    cluster.kill(2);
    let refused = journal.append(batch(["refused"])).await.unwrap_err();
    assert!(matches!(refused, Error::Away { .. }), "{refused}");
    assert!(matches!(journal.refusal(), Some(Error::Away { .. })));
    assert!(matches!(journal.probe().await, Err(Error::Away { .. })));
    cluster.restart(2);
    let began = Instant::now();
    while let Err(error) = journal.probe().await {
        assert!(began.elapsed() < RECOVERY_MAX, "{error}");
        sleep(Duration::from_millis(100)).await;
    }
    assert!(journal.refusal().is_none());
    journal.append(batch(["after"])).await.unwrap();
}

/// Records by position, and whether the first attempt was acknowledged.
type Acknowledged = BTreeMap<Position, (String, bool)>;

async fn lose_servers(durability: Durability) {
    let seed = testing::seed();
    let mut rng = seed.rng();
    let Some(mut cluster) = Cluster::start(Release::Current) else { return };
    let address = Address {
        url: cluster.url(),
        monitor_urls: cluster.monitor_urls(),
        replicas: 3,
        durability,
        ..Address::default()
    };
    let journal = Journal::open(address, tiny()).await.unwrap();
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            tokio::spawn(produce(journal.clone(), producer, stop.clone(), count.clone()))
        })
        .collect();
    let reading = tokio::spawn(read_until_closed(journal.clone()));

    let mut faults = [Fault::KillLeader, Fault::FreezeLeader, Fault::KillTwo];
    rng.shuffle(&mut faults);
    for fault in faults {
        progress(&count, fault).await;
        let leader = leader(&cluster).await;
        match fault {
            Fault::KillLeader => {
                cluster.kill(leader);
                progress(&count, fault).await;
                cluster.restart(leader);
            }
            Fault::FreezeLeader => {
                cluster.freeze(leader);
                sleep(FREEZE).await;
                cluster.thaw(leader);
            }
            Fault::KillTwo => {
                let (one, two) = (leader, (leader + rng.range(1..3usize)) % 3);
                cluster.kill(one);
                cluster.kill(two);
                sleep(Duration::from_secs(1)).await;
                cluster.restart(two);
                progress(&count, fault).await;
                cluster.restart(one);
            }
        }
        progress(&count, fault).await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Acknowledged::new();
    for producer in producers {
        acknowledged.extend(producer.await.unwrap());
    }

    let found = read_all(&journal, Position::START).await;
    assert_eq!(journal.stats().lost_messages, 0);
    journal.close().await;
    assert_eq!(reading.await.unwrap(), found, "a reader that was there during the faults");
    let mut copies: BTreeMap<&[u8], u64> = BTreeMap::new();
    for (_, record) in &found {
        *copies.entry(record).or_default() += 1;
    }
    let found: BTreeMap<&Position, &Vec<u8>> =
        found.iter().map(|(position, record)| (position, record)).collect();
    for (position, (record, at_once)) in &acknowledged {
        assert_eq!(found.get(position), Some(&&record.clone().into_bytes()), "{position}");
        let copies = copies[record.as_bytes()];
        assert!(!at_once || copies == 1, "{record}, acknowledged once, is there {copies} times");
    }
    assert!(acknowledged.len() > 500, "too little load: {}", acknowledged.len());
}

/// Appends one record after the other, and repeats one that failed, as SDKs do.
async fn produce(
    journal: Journal,
    producer: u64,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> Acknowledged {
    let mut acknowledged = Acknowledged::new();
    let (mut number, mut at_once) = (0, true);
    while !stop.load(Ordering::Relaxed) || !at_once {
        let record = format!("{producer}:{number}");
        match journal.append(batch([&record])).await {
            Ok(position) => {
                let before = acknowledged.insert(position, (record, at_once));
                assert_eq!(before, None, "{position} was acknowledged twice");
                count.fetch_add(1, Ordering::Relaxed);
                (number, at_once) = (number + 1, true);
                sleep(Duration::from_millis(5)).await;
            }
            Err(_) => {
                at_once = false;
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
    acknowledged
}

async fn read_until_closed(journal: Journal) -> Vec<(Position, Vec<u8>)> {
    let mut reader = journal.reader(Position::START).unwrap();
    let mut found = Vec::new();
    loop {
        match reader.next_batch(100, 1 << 20).await {
            Ok(records) => {
                found.extend(records.iter().map(|one| (one.position, one.bytes.to_vec())));
            }
            Err(Error::Closed) => return found,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until each producer, on average, has appended ten more records.
async fn progress(count: &AtomicU64, fault: Fault) {
    let (before, began) = (count.load(Ordering::Relaxed), Instant::now());
    while count.load(Ordering::Relaxed) < before + 10 * PRODUCERS {
        assert!(began.elapsed() < RECOVERY_MAX, "appends do not go on after {fault:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn leader(cluster: &Cluster) -> usize {
    let url = cluster.url();
    let servers: Vec<&str> = url.split(',').collect();
    let client = async_nats::connect(servers).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let began = Instant::now();
    loop {
        if let Ok(stream) = context.get_stream("HEDGEROW_0").await
            && let Some(leader) =
                stream.cached_info().cluster.as_ref().and_then(|cluster| cluster.leader.as_deref())
        {
            return Cluster::number_of(leader);
        }
        assert!(began.elapsed() < RECOVERY_MAX, "there is no leader");
        sleep(Duration::from_millis(100)).await;
    }
}
