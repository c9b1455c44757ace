use journal::jetstream::Address;
use journal::{Journal, Position};
use testing::nats::Nats;

use crate::{batch, read_all, tiny};

/// More than one pull takes.
const MESSAGES: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_uses_one_consumer_for_many_pulls() {
    let Some(nats) = Nats::new() else { return };
    let (servers, name) = nats.url.rsplit_once('/').unwrap();
    let servers: Vec<String> = servers.split(',').map(str::to_owned).collect();
    let stream = format!("{}_0", name.to_uppercase());
    let address = Address {
        url: nats.url.clone(),
        monitor_urls: nats.monitor_urls,
        replicas: 3,
        ..Address::default()
    };
    let journal = Journal::open(address, tiny()).await.unwrap();
    for number in 0..MESSAGES {
        journal.append(batch([number.to_string()])).await.unwrap();
    }
    assert_eq!(read_all(&journal, Position::START).await.len(), MESSAGES);
    let context = async_nats::jetstream::new(async_nats::connect(servers).await.unwrap());
    let stream = context.get_stream(stream).await.unwrap();
    assert_eq!(stream.cached_info().state.consumer_count, 1);
}
