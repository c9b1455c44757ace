use journal::jetstream::{Address, Durability};
use journal::{Error, Journal};
use testing::nats::{Cluster, Nats, Release};

use crate::{batch, tiny};

async fn refusal(address: Address) -> String {
    let error = Journal::open(address, tiny()).await.err().unwrap();
    assert!(matches!(error, Error::Unsuitable(_)), "{error}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fsync_needs_the_monitoring_page_of_every_replica() {
    let Some(nats) = Nats::new() else { return };
    let address = |monitor_urls| Address {
        url: nats.url.clone(),
        monitor_urls,
        replicas: 3,
        ..Address::default()
    };
    let error = refusal(address(vec![])).await;
    assert!(error.contains("set journal_monitor_urls"), "{error}");
    assert!(error.contains("set capture_durability to replicated"), "{error}");
    let error = refusal(address(nats.monitor_urls[..2].to_vec())).await;
    assert!(error.contains("journal_monitor_urls lacks the server n2"), "{error}");
    let error = refusal(address(vec!["http://127.0.0.1:1".to_owned()])).await;
    assert!(error.contains("http://127.0.0.1:1/varz") && error.contains("http_port"), "{error}");
    let replicated = Address { durability: Durability::Replicated, ..address(vec![]) };
    Journal::open(replicated, tiny()).await.unwrap();
    Journal::open(address(nats.monitor_urls.clone()), tiny()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_acknowledge_before_they_sync_are_refused_unless_told_so() {
    let Some(cluster) = Cluster::start(Release::Debian) else { return };
    let address = Address {
        url: cluster.url(),
        monitor_urls: cluster.monitor_urls(),
        replicas: 3,
        ..Address::default()
    };
    let error = refusal(address.clone()).await;
    assert!(error.contains("(2.9.10) acknowledges before it syncs"), "{error}");
    assert!(error.contains("`sync_interval: always`"), "{error}");
    let replicated = Address { durability: Durability::Replicated, ..address };
    let journal = Journal::open(replicated, tiny()).await.unwrap();
    journal.append(batch(["fits"])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn user_and_percent_encoded_password_of_the_address_are_sent() {
    let Some(cluster) = Cluster::start_with_password("me", "a/b@,c:d") else { return };
    let url = cluster.url().replace("nats://", "nats://me:a%2Fb%40%2Cc%3Ad@");
    let monitor_urls = cluster.monitor_urls();
    let address = Address { url, monitor_urls, replicas: 3, ..Address::default() };
    let journal = Journal::open(address, tiny()).await.unwrap();
    journal.append(batch(["fits"])).await.unwrap();
}
