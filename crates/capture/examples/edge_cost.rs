//! CPU seconds per million events at the edge: batches of 100 × 1 kB, decoded, checked and
//! appended with fsync, without HTTP; and for scale what serde_json takes to skip the same text.
//! `cargo run --release -p capture --example edge_cost`

use std::sync::Arc;
use std::time::Instant;

use capture::{
    Capture, Endpoint, KeyOwner, Limits, LookupFuture, Request, TokenLookup, TokenOwner,
};
use decode::{DefaultEventName, Parts, Strictness, decode_text, parse_events};
use journal::{Journal, Settings};
use libdeflater::{CompressionLvl, Compressor};
use model::{ProjectId, Timestamp};

const BATCHES: usize = 4_000;
const EVENTS_PER_BATCH: usize = 100;
const SENDERS: usize = 16;
/// Clock ticks per second in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

struct Everybody;

impl TokenLookup for Everybody {
    fn project_of<'a>(&'a self, _: &'a str) -> LookupFuture<'a, TokenOwner> {
        Box::pin(async { TokenOwner::Known(ProjectId(1)) })
    }

    fn project_of_personal_key<'a>(
        &'a self,
        _: &'a str,
        _: Option<ProjectId>,
    ) -> LookupFuture<'a, KeyOwner> {
        Box::pin(async { KeyOwner::UnknownKey })
    }
}

fn event(at: usize) -> String {
    let properties: Vec<String> =
        (0..30).map(|key| format!(r#""property_{key:02}":"value {}""#, key * 7919 + at)).collect();
    format!(
        r#"{{"uuid":"0190f1f2-0000-7000-8000-{at:012x}","event":"page viewed","distinct_id":"user {at}","timestamp":"2026-01-02T03:04:05.000Z","properties":{{{}}}}}"#,
        properties.join(",")
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let written = compressor.gzip_compress(bytes, &mut out).expect("the bound is enough");
    out.truncate(written);
    out
}

/// CPU seconds of all threads of this process.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

fn report(name: &str, started: (Instant, f64)) {
    let millions = (BATCHES * EVENTS_PER_BATCH) as f64 / 1e6;
    let (wall, cpu) = (started.0.elapsed().as_secs_f64(), cpu_seconds() - started.1);
    println!("{name}: {:.2} CPU s, {:.2} s a million events", cpu / millions, wall / millions);
}

/// The minimum of many short runs: the cost without interference.
fn best_of_many(name: &str, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..1_000 {
        let started = Instant::now();
        work();
        best = best.min(started.elapsed().as_secs_f64());
    }
    println!("{name}: {:.2} s a million events", best * 1e6 / EVENTS_PER_BATCH as f64);
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let events: Vec<String> = (0..EVENTS_PER_BATCH).map(event).collect();
    let plain = format!(
        r#"{{"api_key":"T","batch":[{}],"sent_at":"2026-01-02T03:04:05.000Z"}}"#,
        events.join(",")
    );
    println!("{} bytes an event", plain.len() / EVENTS_PER_BATCH);
    best_of_many("reference: serde_json skips the text", || {
        serde_json::from_str::<serde::de::IgnoredAny>(&plain).expect("it is JSON");
    });
    for (name, body) in [("plain", plain.clone().into_bytes()), ("gzip", gzip(plain.as_bytes()))] {
        let parts = Parts { body: &body, ..Parts::default() };
        let decode = || decode_text(&parts, Strictness::Strict, 20 << 20).expect("it decodes");
        best_of_many(&format!("decode to text, {name}"), || drop(decode()));
        let text = decode();
        best_of_many(&format!("parse events, {name}"), || {
            let payload = parse_events(&text, DefaultEventName::None).expect("it parses");
            assert_eq!(payload.elements().filter(Result::is_ok).count(), EVENTS_PER_BATCH);
        });

        let folder = tempfile::TempDir::new().expect("a folder");
        let journal = Journal::open(folder.path(), Settings::default()).await.expect("a journal");
        let (warnings, _stored) = tokio::sync::mpsc::channel(1);
        let capture = Capture::new(journal, Arc::new(Everybody), warnings, Limits::default());
        let (capture, body) = (Arc::new(capture), Arc::new(body));
        let started = (Instant::now(), cpu_seconds());
        let mut senders = Vec::new();
        for _ in 0..SENDERS {
            let (capture, body) = (capture.clone(), body.clone());
            senders.push(tokio::spawn(async move {
                for _ in 0..BATCHES / SENDERS {
                    let request = Request {
                        endpoint: Endpoint::Events,
                        query: "",
                        content_type: None,
                        content_encoding: None,
                        body: &body,
                        client_ip: None,
                        received_at: Timestamp::from_micros(0),
                    };
                    capture.events(request).await.expect("it is accepted");
                }
            }));
        }
        for sender in senders {
            sender.await.expect("it ends");
        }
        report(&format!("whole edge, {name}"), started);
    }
}
