//! A server whose journal is on NATS JetStream.

use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use serde_json::json;
use testing::Rng;
use testing::nats::{Cluster, Nats, Release};
use uuid::Uuid;

use crate::durability::kill::in_warehouse;
use crate::harness::{Instance, PROJECT_KEY, Request, Store};

const SENDERS: usize = 3;

fn instance(url: &str, monitor_urls: &[String]) -> Instance {
    let mut instance = Store::Sqlite.instance();
    instance.set("HEDGEROW_JOURNAL_URL", url);
    instance.set("HEDGEROW_JOURNAL_MONITOR_URLS", &monitor_urls.join(","));
    instance.set("HEDGEROW_JOURNAL_DISK_BYTES_MAX", "1 GiB");
    instance
}

/// Sends events of new uuids until the server is gone, and repeats what got 503, as SDKs do. Returns
/// what got 200.
fn send_until_it_breaks(address: SocketAddr, mut rng: Rng) -> Vec<Uuid> {
    let mut taken = Vec::new();
    loop {
        let uuids: Vec<Uuid> = (0..rng.range(1..=5))
            .map(|_| uuid::Builder::from_random_bytes(rng.bytes()).into_uuid())
            .collect();
        let event = |uuid| json!({ "event": "e", "distinct_id": "d", "uuid": uuid });
        let batch: Vec<_> = uuids.iter().map(event).collect();
        let body = json!({ "api_key": PROJECT_KEY, "batch": batch });
        let request = Request::new(address, "POST", "/batch/").no_key().json(body).to_bytes();
        loop {
            match answer(address, &request).as_deref() {
                Some([]) | None => return taken,
                Some(answer) if answer.starts_with(b"HTTP/1.1 200 ") => break,
                Some(answer) => {
                    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
                    assert!(text.starts_with("http/1.1 503 "), "{text}");
                    assert!(text.contains("retry-after: "), "{text}");
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
        taken.extend(uuids);
    }
}

/// None if nobody listens, empty if the server was killed before it answered.
fn answer(address: SocketAddr, request: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(request).ok()?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Some(answer)
}

#[test]
fn events_survive_kill_9_and_the_loss_of_a_nats_server_and_are_stored_once() {
    let Some(mut cluster) = Cluster::start(Release::Current) else { return };
    let mut rng = testing::seed().rng();
    let mut instance = instance(&cluster.url(), &cluster.monitor_urls());
    let mut taken = HashSet::new();
    for lost in 0..3 {
        let server = instance.serve();
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let (address, rng) = (server.address(), rng.fork());
                thread::spawn(move || send_until_it_breaks(address, rng))
            })
            .collect();
        thread::sleep(Duration::from_millis(500));
        // One of the three was the leader.
        cluster.kill(lost);
        thread::sleep(Duration::from_millis(rng.range(0..2_000)));
        instance = server.kill();
        let sent = senders.into_iter().flat_map(|sender| sender.join().unwrap());
        let before = taken.len();
        taken.extend(sent);
        assert!(taken.len() > before, "no event was taken");
        cluster.restart(lost);
    }
    let server = instance.serve();
    server.ingest(&[json!({ "event": "last", "distinct_id": "d" })]);
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    assert!(!instance.data_dir.path().join("journal").exists(), "no files beside the stream");
    let stored = in_warehouse(&instance);
    let uuids: HashSet<Uuid> = stored.iter().copied().collect();
    assert_eq!(uuids.len(), stored.len(), "some are stored twice");
    let lost = taken.difference(&uuids).count();
    assert_eq!(lost, 0, "of {} events", taken.len());
}

#[test]
fn second_server_on_a_journal_is_refused_until_the_first_has_stopped() {
    let Some(nats) = Nats::new() else { return };
    let first = instance(&nats.url, &nats.monitor_urls).serve();
    first.ingest(&[json!({ "event": "e", "distinct_id": "d" })]);
    let second = instance(&nats.url, &nats.monitor_urls);
    let (started, _, error) = second.run(&["serve"]);
    assert!(!started);
    assert!(error.contains("is used by another server"), "{error}");
    first.ingest(&[json!({ "event": "e", "distinct_id": "d" })]);
    let (status, output, _) = first.stop();
    assert!(status.success(), "{output}");
}

#[test]
fn journal_settings_that_contradict_each_other_are_refused() {
    let refusal = |settings: &[(&str, &str)]| {
        let mut instance = Store::Sqlite.instance();
        settings.iter().for_each(|(name, value)| instance.set(name, value));
        let (started, _, error) = instance.run(&["serve"]);
        assert!(!started);
        error
    };
    let error = refusal(&[("HEDGEROW_CAPTURE_DURABILITY", "replicated")]);
    assert!(error.contains("set it to fsync, or set journal_url"), "{error}");
    let url = ("HEDGEROW_JOURNAL_URL", "nats://127.0.0.1:1");
    let error = refusal(&[url, ("HEDGEROW_CAPTURE_DURABILITY", "os")]);
    assert!(error.contains("set it to fsync or replicated"), "{error}");
    let error = refusal(&[("HEDGEROW_JOURNAL_URL", "http://127.0.0.1")]);
    assert!(error.contains("must begin with nats:// or tls://"), "{error}");
}
