//! What taking events in costs, beside a bare axum handler that reads the body and answers a
//! constant, in turns within one run. Servers and load share the machine, so only the ratios
//! and the CPU seconds mean something.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bench::{Running, beside};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_secs(4);
const BATCH_EVENTS: usize = 100;
const EVENT_BYTES: usize = 1_000;
const SYNCS: usize = 2_000;
/// Just under the bound of a body.
const LARGE_BODY_BYTES: usize = 19 << 20;
const LARGE_ROUND: Duration = Duration::from_secs(8);
const ANSWER_BYTES_MAX: usize = 4_096;

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<()> {
    let sync = fdatasync()?;
    println!(
        "fdatasync of 1 kB into written space: p50 {:.0} µs, p99 {:.0} µs",
        sync.p50, sync.p99
    );
    let single = request(&event(0, 200), false)?;
    let (plain, gzip) = (request(&batch(), false)?, request(&batch(), true)?);

    let bare = round(Which::Bare, &single, CONNECTIONS, ROUND).await?;
    let ours = round(Which::Hedgerow, &single, CONNECTIONS, ROUND).await?;
    let share = ours.rate() / bare.rate();
    println!(
        "single events, {CONNECTIONS} connections: {:.0} of {:.0} requests/s = {:.0} % (bound 60 %)",
        ours.rate(),
        bare.rate(),
        share * 100.0
    );
    let allowed = 2.0 * (bare.p99 + sync.p99);
    println!(
        "  p99 {:.0} µs, allowed 2 x (bare {:.0} + fdatasync {:.0}) = {allowed:.0} µs: {:.2}",
        ours.p99,
        bare.p99,
        sync.p99,
        ours.p99 / allowed
    );
    println!(
        "  CPU seconds a million: {:.1}, bare {:.1}",
        ours.cpu_per_million(1),
        bare.cpu_per_million(1)
    );

    let bare = round(Which::Bare, &single, 1, ROUND).await?;
    let ours = round(Which::Hedgerow, &single, 1, ROUND).await?;
    let allowed = 3.0 * (bare.p50 + sync.p50);
    println!(
        "one connection: p50 {:.0} µs, allowed 3 x (bare {:.0} + fdatasync {:.0}) = {allowed:.0} µs: {:.2}",
        ours.p50,
        bare.p50,
        sync.p50,
        ours.p50 / allowed
    );

    for (name, body, bound) in [("plain", &plain, 4.0), ("gzip", &gzip, 6.0)] {
        let bare = round(Which::Bare, body, 8, ROUND).await?;
        let ours = round(Which::Hedgerow, body, 8, ROUND).await?;
        println!(
            "batches of {BATCH_EVENTS} x 1 kB, {name}: {:.2} CPU seconds a million events (bound {bound}), bare {:.2}; {:.0} events/s",
            ours.cpu_per_million(BATCH_EVENTS),
            bare.cpu_per_million(BATCH_EVENTS),
            ours.rate() * BATCH_EVENTS as f64,
        );
    }
    let large = request(&large_batch(), false)?;
    let ours = round(Which::Hedgerow, &large, CONNECTIONS, LARGE_ROUND).await?;
    println!(
        "{CONNECTIONS} connections sending {} MB bodies: peak memory {:.0} MB (bound 384), {} taken, {} told to wait",
        LARGE_BODY_BYTES >> 20,
        ours.peak_megabytes,
        ours.accepted,
        ours.refused,
    );
    Ok(())
}

#[derive(Clone, Copy)]
enum Which {
    Bare,
    Hedgerow,
}

struct Round {
    accepted: u64,
    refused: u64,
    seconds: f64,
    cpu_seconds: f64,
    p50: f64,
    p99: f64,
    peak_megabytes: f64,
}

impl Round {
    fn rate(&self) -> f64 {
        self.accepted as f64 / self.seconds
    }

    fn cpu_per_million(&self, events: usize) -> f64 {
        self.cpu_seconds * 1e6 / (self.accepted as f64 * events as f64)
    }
}

/// Sends the same request over and over on every connection, to a fresh server.
async fn round(which: Which, request: &[u8], connections: usize, long: Duration) -> Result<Round> {
    let data = tempfile::tempdir()?;
    let mut command = match which {
        Which::Bare => Command::new(beside("bare")?),
        Which::Hedgerow => {
            let mut command = Command::new(beside("hedgerow")?);
            command.arg("serve").arg("--data-dir").arg(data.path().join("data"));
            command.args(["--project-api-key", "phc_bench"]);
            command
        }
    };
    let server = Running::start(&mut command)?;
    let address = server.address();
    let before = server.cpu_seconds()?;
    let begun = Instant::now();
    let until = begun + long;
    let request: std::sync::Arc<[u8]> = request.into();
    let tasks: Vec<_> = (0..connections)
        .map(|_| tokio::spawn(connection(address, request.clone(), until)))
        .collect();
    let (mut taken, mut refused) = (Vec::new(), 0);
    for task in tasks {
        let (mut latencies, told) = task.await??;
        taken.append(&mut latencies);
        refused += told;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let cpu_seconds = server.cpu_seconds()? - before;
    ensure!(!taken.is_empty(), "no request was accepted");
    let (p50, p99) = quantiles(&mut taken);
    Ok(Round {
        accepted: taken.len() as u64,
        refused,
        seconds,
        cpu_seconds,
        p50,
        p99,
        peak_megabytes: server.peak_megabytes()?,
    })
}

/// Microseconds of each accepted request, and how many were told to come again.
async fn connection(
    address: SocketAddr,
    request: std::sync::Arc<[u8]>,
    until: Instant,
) -> Result<(Vec<f64>, u64)> {
    let (mut latencies, mut refused) = (Vec::new(), 0);
    let mut stream = None;
    while Instant::now() < until {
        let mut open = match stream.take() {
            Some(open) => open,
            None => {
                let open = TcpStream::connect(address).await?;
                open.set_nodelay(true)?;
                open
            }
        };
        let begun = Instant::now();
        // A server that answers before the body is sent closes the connection.
        let sent = open.write_all(&request).await;
        match answer(&mut open).await {
            Ok(200) => {
                sent?;
                latencies.push(begun.elapsed().as_secs_f64() * 1e6);
                stream = Some(open);
            }
            Ok(503) | Err(_) => refused += 1,
            Ok(status) => anyhow::bail!("answered {status}"),
        }
    }
    Ok((latencies, refused))
}

async fn answer(stream: &mut TcpStream) -> Result<u16> {
    let mut buffer = Vec::with_capacity(512);
    loop {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = std::str::from_utf8(&buffer[..end])?.to_ascii_lowercase();
            let status = head.split(' ').nth(1).context("no status")?.parse()?;
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(Ok(0), str::parse)?;
            if buffer.len() >= end + 4 + length {
                return Ok(status);
            }
        }
        ensure!(buffer.len() < ANSWER_BYTES_MAX, "an answer without end");
        ensure!(stream.read_buf(&mut buffer).await? > 0, "closed");
    }
}

fn request(body: &str, gzip: bool) -> Result<Vec<u8>> {
    let (body, encoding) = if gzip {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(body.as_bytes())?;
        (writer.finish()?, "Content-Encoding: gzip\r\n")
    } else {
        (body.as_bytes().to_vec(), "")
    };
    let mut request = format!(
        "POST /batch/ HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n{encoding}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend(body);
    Ok(request)
}

/// One event of about so many bytes, with thirty properties when there is room.
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

fn large_batch() -> String {
    batch_of(LARGE_BODY_BYTES)
}

struct Sync {
    p50: f64,
    p99: f64,
}

/// The disk's own price of being sure, on the file system that the servers' folders are on.
fn fdatasync() -> Result<Sync> {
    let folder = tempfile::tempdir()?;
    let file = fs::File::create_new(folder.path().join("sync"))?;
    file.write_all_at(&vec![0; SYNCS * 1_024], 0)?;
    file.sync_all()?;
    let mut times = Vec::with_capacity(SYNCS);
    for number in 0..SYNCS {
        file.write_all_at(&[1; 1_024], number as u64 * 1_024)?;
        let begun = Instant::now();
        file.sync_data()?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let (p50, p99) = quantiles(&mut times);
    Ok(Sync { p50, p99 })
}

fn quantiles(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() * 99 / 100])
}
