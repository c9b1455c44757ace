use async_nats::jetstream::stream::Stream;
use journal::jetstream::Address;
use journal::{Error, Journal, Position};
use testing::nats::Nats;

use crate::{batch, tiny};

async fn open() -> Option<(Journal, Stream)> {
    let nats = Nats::new()?;
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
    let client = async_nats::connect(servers).await.unwrap();
    let stream = async_nats::jetstream::new(client).get_stream(stream).await.unwrap();
    Some((journal, stream))
}

/// Reads to the first error, and once more.
async fn read(journal: &Journal) -> (Vec<String>, String) {
    let mut reader = journal.reader(Position::START).unwrap();
    let mut found = Vec::new();
    let error = loop {
        match reader.next_batch(100, 1 << 20).await {
            Ok(records) => found
                .extend(records.iter().map(|one| String::from_utf8(one.bytes.to_vec()).unwrap())),
            Err(error) => break error,
        }
    };
    assert_eq!(journal.stats().lost_messages, 1);
    let again = reader.next_batch(100, 1 << 20).await.unwrap_err();
    assert_eq!(error.to_string(), again.to_string());
    assert_eq!(journal.stats().lost_messages, 1);
    for refused in [
        journal.append(batch(["more"])).await.map(drop),
        journal.release(journal.stats().oldest).await,
        journal.probe().await,
    ] {
        assert_eq!(refused.unwrap_err().to_string(), error.to_string());
    }
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    (found, error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_message_stops_reading_with_an_error() {
    let Some((journal, stream)) = open().await else { return };
    for record in ["one", "two", "three"] {
        journal.append(batch([record])).await.unwrap();
    }
    stream.delete_message(2).await.unwrap();
    let (found, error) = read(&journal).await;
    assert_eq!(found, ["one"]);
    assert!(error.contains("message 2 is missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_that_is_not_ours_stops_reading_with_an_error() {
    let Some((journal, stream)) = open().await else { return };
    journal.append(batch(["one"])).await.unwrap();
    let subject = stream.cached_info().config.subjects[0].clone();
    let name = stream.cached_info().config.name.clone();
    let context = async_nats::jetstream::new(
        async_nats::connect(
            std::env::var("HEDGEROW_TEST_NATS_URL").unwrap().split(',').next().unwrap(),
        )
        .await
        .unwrap(),
    );
    context.publish(subject, "hello".into()).await.unwrap().await.unwrap();
    journal.append(batch(["three"])).await.unwrap();
    let (found, error) = read(&journal).await;
    assert_eq!(found, ["one"]);
    let text = format!("{name}: message 2: it is no message of a Hedgerow journal");
    assert!(error.starts_with(&text), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn append_is_refused_once_the_stream_lost_its_end() {
    let Some((journal, stream)) = open().await else { return };
    for record in ["one", "two", "three"] {
        journal.append(batch([record])).await.unwrap();
    }
    // As servers that lost their disks do: the same stream, from the first sequence on.
    let config = stream.cached_info().config.clone();
    let context = async_nats::jetstream::new(
        async_nats::connect(
            std::env::var("HEDGEROW_TEST_NATS_URL").unwrap().split(',').next().unwrap(),
        )
        .await
        .unwrap(),
    );
    context.delete_stream(&config.name).await.unwrap();
    context.create_stream(config).await.unwrap();
    // The fourth would get a new sequence.
    for record in ["four", "five", "six", "seven"] {
        let refused = journal.append(batch([record])).await.unwrap_err();
        assert!(matches!(refused, Error::Lost { .. }), "{refused}");
        let text = "message 3 was acknowledged, and a later one is at 1";
        assert!(refused.to_string().contains(text), "{refused}");
    }
    assert!(matches!(journal.probe().await, Err(Error::Lost { .. })));
    assert_eq!(journal.stats().lost_messages, 1);
}
