//! Capture, alternating with a bare axum handler that reads the body and returns a
//! constant. Servers and load generator share the machine, so only ratios
//! and CPU seconds are meaningful.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::load::{self, Round, post, quantiles};
use crate::report::{Bound, Report, Row};
use crate::server_process::{ServerProcess, hedgerow, sibling};

/// CPU seconds of a million bare requests on the calibration machine.
const BARE_SECONDS_A_MILLION: f64 = 11.0;
const CONNECTIONS: usize = 64;
/// Warm-up before a round is measured.
const WARMING: Duration = Duration::from_secs(1);
const ROUND: Duration = Duration::from_secs(3);
const TURNS: usize = 3;
const BATCH_CONNECTIONS: usize = 8;
const BATCH_EVENTS: usize = 100;
const EVENT_BYTES: usize = 1_000;
const SYNCS: usize = 2_000;
/// Just below the body limit.
const LARGE_BODY_BYTES: usize = 19 << 20;
const LARGE_ROUND: Duration = Duration::from_secs(8);

/// How much slower a bare request is now than on the calibration machine.
pub async fn pace() -> Result<f64> {
    let single = post("/batch/", "", event(0, 200).as_bytes());
    let bare = round(Which::Bare, &single, CONNECTIONS, ROUND).await?.0;
    Ok(bare.cpu_per_million(1) / BARE_SECONDS_A_MILLION)
}

pub async fn run(report: &mut Report) -> Result<()> {
    report.begin("Capture");
    let sync = fdatasync()?;
    let single = post("/batch/", "", event(0, 200).as_bytes());
    let (plain, gzip) = (batch().into_bytes(), packed(&batch())?);
    let (plain, gzip) =
        (post("/batch/", "", &plain), post("/batch/", "Content-Encoding: gzip\r\n", &gzip));

    let (bare, ours) = turns(&single, CONNECTIONS).await?;
    report.add(Row {
        name: format!("single events, {CONNECTIONS} connections, fsync on"),
        unit: "req/s",
        ours: ours.rate(),
        reference: Some(("bare axum", bare.rate())),
        bound: Bound::RatioAtLeast(0.6),
    });
    report.add(Row {
        name: "  p99, against bare p99 + fdatasync p99".into(),
        unit: "µs",
        ours: ours.p99,
        reference: Some(("sum", bare.p99 + sync.p99)),
        bound: Bound::RatioAtMost(2.0),
    });
    report.add(Row {
        name: "  CPU a million events".into(),
        unit: "s",
        ours: ours.cpu_per_million(1),
        reference: Some(("bare axum", bare.cpu_per_million(1))),
        bound: Bound::None,
    });

    let (bare, ours) = turns(&single, 1).await?;
    report.add(Row {
        name: "one connection: p50, against bare p50 + fdatasync p50".into(),
        unit: "µs",
        ours: ours.p50,
        reference: Some(("sum", bare.p50 + sync.p50)),
        bound: Bound::RatioAtMost(3.0),
    });

    for (name, body, seconds) in [("plain", &plain, 4.0), ("gzip", &gzip, 6.0)] {
        let before = pace().await?;
        let (bare, ours) = turns(body, BATCH_CONNECTIONS).await?;
        let pace = f64::midpoint(before, pace().await?);
        report.add(Row {
            name: format!("batches of {BATCH_EVENTS} x 1 kB, {name}: CPU a million events"),
            unit: "s",
            ours: ours.cpu_per_million(BATCH_EVENTS),
            reference: Some(("bare axum", bare.cpu_per_million(BATCH_EVENTS))),
            bound: Bound::CpuAtMost { seconds, pace },
        });
        report.add(Row {
            name: "  events a second".into(),
            unit: "/s",
            ours: ours.rate() * BATCH_EVENTS as f64,
            reference: Some(("bare axum", bare.rate() * BATCH_EVENTS as f64)),
            bound: Bound::None,
        });
    }
    let large = post("/batch/", "", batch_of(LARGE_BODY_BYTES).as_bytes());
    let (_, peak) = round(Which::Hedgerow, &large, CONNECTIONS, LARGE_ROUND).await?;
    report.add(Row {
        name: format!(
            "{CONNECTIONS} connections of {} MB bodies: peak memory",
            LARGE_BODY_BYTES >> 20
        ),
        unit: "MB",
        ours: peak,
        reference: None,
        bound: Bound::AtMost(384.0),
    });
    Ok(())
}

#[derive(Clone, Copy)]
enum Which {
    Bare,
    Hedgerow,
}

/// Alternates rounds against the bare handler and Hedgerow; returns the pair with the median
/// ratio.
async fn turns(request: &[u8], connections: usize) -> Result<(Round, Round)> {
    let mut pairs = Vec::with_capacity(TURNS);
    for _ in 0..TURNS {
        let bare = round(Which::Bare, request, connections, ROUND).await?.0;
        pairs.push((bare, round(Which::Hedgerow, request, connections, ROUND).await?.0));
    }
    let part = |(bare, ours): &(Round, Round)| ours.rate() / bare.rate();
    pairs.sort_by(|a, b| part(a).total_cmp(&part(b)));
    Ok(pairs.swap_remove(TURNS / 2))
}

/// Sends the same request repeatedly on every connection, to a fresh server. The second value is
/// peak memory in megabytes.
async fn round(
    which: Which,
    request: &[u8],
    connections: usize,
    long: Duration,
) -> Result<(Round, f64)> {
    let data = tempfile::tempdir()?;
    let mut command = match which {
        Which::Bare => Command::new(sibling("bare")?),
        Which::Hedgerow => hedgerow(&data.path().join("data"))?,
    };
    let server = ServerProcess::start(&mut command)?;
    let requests = [request.to_vec()];
    let load =
        |long| load::round(&server, &requests, connections, long, ServerProcess::capture_seconds);
    load(WARMING).await?;
    let round = load(long).await?;
    Ok((round, server.peak_megabytes()?))
}

fn packed(text: &str) -> Result<Vec<u8>> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(text.as_bytes())?;
    Ok(writer.finish()?)
}

/// One event of about `bytes` bytes, with thirty properties if they fit.
fn event(number: usize, bytes: usize) -> String {
    let head = format!(
        r#"{{"api_key":"phc_bench","event":"$pageview","distinct_id":"user_{number}","timestamp":"2026-01-02T03:04:05.678Z","properties":{{"$current_url":"https://example.com/page/{number}""#
    );
    let mut text = head;
    for property in 0..30 {
        if text.len() + 40 > bytes {
            break;
        }
        text.push_str(&format!(r#","property_{property}":"value {number} {property}""#));
    }
    text.push_str("}}");
    text
}

fn batch_of(bytes: usize) -> String {
    let mut events = String::new();
    let mut number = 0;
    while events.len() < bytes {
        if number > 0 {
            events.push(',');
        }
        events.push_str(&event(number, EVENT_BYTES));
        number += 1;
    }
    format!(r#"{{"api_key":"phc_bench","batch":[{events}]}}"#)
}

fn batch() -> String {
    let events: Vec<String> = (0..BATCH_EVENTS).map(|number| event(number, EVENT_BYTES)).collect();
    format!(r#"{{"api_key":"phc_bench","batch":[{}]}}"#, events.join(","))
}

struct Sync {
    p50: f64,
    p99: f64,
}

/// fsync latency of the file system with the data directories.
fn fdatasync() -> Result<Sync> {
    let dir = tempfile::tempdir()?;
    let file = fs::File::create_new(dir.path().join("sync"))?;
    file.write_all_at(&vec![0; SYNCS * 1_024], 0)?;
    file.sync_all()?;
    let mut times = Vec::with_capacity(SYNCS);
    for number in 0..SYNCS {
        file.write_all_at(&[1; 1_024], number as u64 * 1_024)?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    let (p50, p99) = quantiles(&mut times);
    Ok(Sync { p50, p99 })
}
