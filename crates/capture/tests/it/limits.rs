use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use capture::{Limits, PoolKind, Request};
use libdeflater::{CompressionLvl, Compressor};

use crate::{Harness, code, request};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let written = compressor.gzip_compress(bytes, &mut out).unwrap();
    out.truncate(written);
    out
}

fn padded(bytes: usize) -> Vec<u8> {
    let start = br#"{"api_key":"T","batch":[{"event":"e","distinct_id":"d"}],"x":""#;
    let mut body = start.to_vec();
    body.resize(bytes - 2, b'x');
    body.extend_from_slice(b"\"}");
    body
}

// contract: ingestion 44-45
#[tokio::test]
async fn bodies_beyond_twenty_mebibytes_are_too_large() {
    const MAX: usize = 20 * 1_024 * 1_024;
    let harness = Harness::open().await;
    for (body, expected) in [
        (padded(MAX + 1), "payload_too_large"),
        (gzip(&padded(MAX + 1)), "payload_too_large"),
        (gzip(&padded(MAX)), "ok"),
        (padded(MAX), "ok"),
    ] {
        let outcome = harness.capture.events(request(&body)).await;
        assert_eq!(code(&outcome), expected, "{} bytes", body.len());
    }
    assert_eq!(harness.stored().await.len(), 2);
    assert_eq!(harness.capture.budget().bytes(), 0);
}

#[tokio::test]
async fn records_bytes_max_bounds_the_append_of_many_tiny_events() {
    let limits = Limits { records_bytes_max: 10_000, ..Limits::default() };
    let harness = Harness::with(limits).await;
    let events = vec![r#"{"event":1,"distinct_id":1}"#; 300].join(",");
    let body = format!(r#"{{"api_key":"T","batch":[{events}]}}"#);
    assert_eq!(code(&harness.post(&body).await), "payload_too_large");
    assert_eq!(harness.stored().await, []);
}

#[tokio::test]
async fn long_sent_at_is_not_repeated_in_every_record() {
    let harness = Harness::open().await;
    let sent_at = "2026".repeat(1_000);
    let event = r#"{"event":"e","distinct_id":"d"}"#;
    let body = format!(r#"{{"api_key":"T","sent_at":"{sent_at}","batch":[{event},{event}]}}"#);
    assert_eq!(code(&harness.post(&body).await), "ok");
    assert!(harness.records().await.iter().all(|record| record.len() < 100));
}

#[tokio::test]
async fn request_larger_than_the_budget_runs_alone_and_releases_it() {
    let limits = Limits { in_flight_bytes_max: 4_096, ..Limits::default() };
    let harness = Harness::with(limits).await;
    let text = padded(60_000);
    // Two gzip members: the trailer has the size of the last one, so the output exceeds the estimate.
    let two = [gzip(&text[..59_900]), gzip(&text[59_900..])].concat();
    for body in [text, two] {
        assert_eq!(code(&harness.capture.events(request(&body)).await), "ok");
        assert_eq!(harness.capture.budget().bytes(), 0);
    }
    assert_eq!(harness.stored().await.len(), 2);
}

#[tokio::test]
async fn decompression_bomb_moves_to_the_large_lane() {
    let harness = Harness::open().await;
    let text = padded(4 << 20);
    // Two gzip members: the trailer claims 100 bytes for 4 MiB.
    let bomb = [gzip(&text[..text.len() - 100]), gzip(&text[text.len() - 100..])].concat();
    assert!(bomb.len() < 10_000);
    let (small, large) = (PoolKind::SmallDecoded, PoolKind::LargeDecoded);
    let refused = |of| harness.capture.budget().pool(of).refused();
    assert_eq!(code(&harness.capture.events(request(&bomb)).await), "ok");
    assert_eq!((refused(small), refused(large)), (1, 0));
    assert_eq!(harness.capture.budget().bytes(), 0);

    // With the large lane exhausted the bomb is rejected, and small bodies are not.
    let limits = Limits { in_flight_wait_max: Duration::ZERO, ..Limits::default() };
    let other = Harness::with(limits).await;
    let full = other.capture.budget().reserve_decoded_large(usize::MAX).await.unwrap();
    assert_eq!(code(&other.capture.events(request(&bomb)).await), "fetch_team_fail");
    assert_eq!(code(&other.post(r#"{"api_key":"T","event":"e","distinct_id":"d"}"#).await), "ok");
    drop(full);
    assert_eq!(other.capture.budget().bytes(), 0);
}

#[tokio::test]
async fn events_that_outgrow_the_small_lane_after_decoding_are_accepted() {
    let harness = Harness::open().await;
    let mut stored = 0;
    // Bodies whose records outgrow the small lane, and bodies that do so themselves.
    for (count, padding) in [(5_500, 0), (3_000, 80), (4_000, 80)] {
        let padding = "x".repeat(padding);
        let event = |at| format!(r#"{{"event":"e{at}{padding}","distinct_id":"d"}}"#);
        let events: Vec<String> = (0..count).map(event).collect();
        let text = format!(r#"{{"api_key":"T","batch":[{}]}}"#, events.join(","));
        assert!((170_000..512 << 10).contains(&text.len()), "{}", text.len());
        let data = BASE64_URL_SAFE_NO_PAD.encode(gzip(text.as_bytes()));
        let form = format!("compression=gzip-js&data={data}");
        assert!(form.len() < 64 << 10, "{}", form.len());
        let content_type = Some("application/x-www-form-urlencoded");
        let sent = Request { content_type, ..request(form.as_bytes()) };
        assert_eq!(code(&harness.capture.events(sent).await), "ok", "{count} events");
        stored += count;
        assert_eq!(harness.stored().await.len(), stored);
        assert_eq!(harness.capture.budget().bytes(), 0);
    }
    assert_eq!(harness.capture.budget().pool(PoolKind::LargeDecoded).refused(), 0);
}

// contract: ingestion 25
#[tokio::test]
async fn nothing_is_acknowledged_while_the_journal_is_closed() {
    let mut harness = Harness::open().await;
    harness.journal.close().await;
    let body = r#"{"api_key":"T","batch":[{"event":"e","distinct_id":"d"},5]}"#;
    assert_eq!(code(&harness.post(body).await), "fetch_team_fail");
    let counters = harness.capture.counters();
    assert_eq!(counters.accepted, 0);
    assert!(counters.dropped.iter().all(|(_, count)| *count == 0));
    assert_eq!(harness.warned(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_keep_their_own_order() {
    let harness = Harness::open().await;
    let mut sending = Vec::new();
    for sender in 0..20 {
        let capture = harness.capture.clone();
        sending.push(tokio::spawn(async move {
            let events: Vec<String> = (0..50)
                .map(|at| format!(r#"{{"event":"{at:02}","distinct_id":"{sender}"}}"#))
                .collect();
            let mut body = format!(r#"{{"api_key":"T","batch":[{}]}}"#, events.join(","));
            if sender % 5 == 0 {
                body.push_str(&" ".repeat(2 << 20));
            }
            let request = Request { content_type: None, ..request(body.as_bytes()) };
            capture.events(request).await.is_ok()
        }));
    }
    for sent in sending {
        assert!(sent.await.unwrap());
    }
    let stored = harness.stored().await;
    assert_eq!(stored.len(), 1_000);
    for run in stored.chunks(50) {
        let names: Vec<_> = run.iter().map(|(_, name, _)| name.clone()).collect();
        assert!(names.is_sorted());
        assert!(run.iter().all(|(_, _, sender)| *sender == run[0].2));
    }
}
