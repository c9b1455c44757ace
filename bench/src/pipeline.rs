//! Ingestion of the reference set: from POST /batch to queryable, including compaction.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};

use crate::capture::pace;
use crate::client::Client;
use crate::load::{post, quantiles};
use crate::reference::Reference;
use crate::report::{Bound, Report, Row};
use crate::server_process::{PROJECT_KEY, ServerProcess, hedgerow, sibling};

const BATCH_EVENTS: usize = 100;
const CONNECTIONS: usize = 4;
const WAITING_BATCHES_MAX: usize = 64;
/// Longer than the maintenance interval.
const QUIET: Duration = Duration::from_secs(12);
/// JSON bytes that one core parsed per second on the machine where the bounds were calibrated.
const CALIBRATED_BYTES_PER_SECOND: f64 = 234e6;
const CALIBRATION_EVENTS: u64 = 20_000;
/// Repetitions of the calibration, while the server is stopped.
const CALIBRATION_INTERVAL: Duration = Duration::from_secs(4);
const TIMEOUT: Duration = Duration::from_secs(1_200);
const PROBES: usize = 40;
const ASKED: usize = 60;

/// How much slower this machine parses events now than the calibration machine. Parsing resembles the
/// pipeline's work more than bare requests do, and is as sensitive to memory contention.
/// Shared machines vary within tens of seconds, so it is sampled throughout.
struct Calibration {
    events: Vec<String>,
    bytes: usize,
    seconds: f64,
}

impl Calibration {
    fn new() -> Self {
        let mut set = Reference::new(CALIBRATION_EVENTS);
        let mut events = Vec::new();
        while let Some(event) = set.next_event() {
            let mut json = String::new();
            set.json(&event, &mut json);
            events.push(json);
        }
        Self { events, bytes: 0, seconds: 0.0 }
    }

    fn sample(&mut self) -> Result<()> {
        let spent = || -> Result<f64> {
            let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
            Ok(stat.split(' ').next().context("no time")?.parse::<f64>()? / 1e9)
        };
        // The first pass has cold caches, unlike the calibration.
        self.read_all()?;
        let started = spent()?;
        self.read_all()?;
        self.seconds += spent()? - started;
        self.bytes += self.events.iter().map(String::len).sum::<usize>();
        Ok(())
    }

    fn read_all(&self) -> Result<()> {
        for json in &self.events {
            std::hint::black_box(serde_json::from_str::<Value>(json)?);
        }
        Ok(())
    }

    fn pace(&self) -> f64 {
        self.seconds * CALIBRATED_BYTES_PER_SECOND / self.bytes as f64
    }
}

/// Fills `data` with the reference set.
pub async fn fill(data: &Path, events: u64) -> Result<()> {
    let server = ServerProcess::start(&mut hedgerow(data)?)?;
    send(&server, events).await?;
    wait_until_applied(&server, events as f64, || Ok(())).await?;
    wait_until_idle(&server).await?;
    server.stop().map(drop)
}

/// As [`fill`], and reports the cost.
pub async fn run(report: &mut Report, data: &Path, events: u64) -> Result<()> {
    report.begin("From capture to queryable");
    let (before, mut calibration) = (pace().await?, Calibration::new());
    calibration.sample()?;
    let server = ServerProcess::start(&mut hedgerow(data)?)?;
    let started = Instant::now();
    send(&server, events).await?;
    let sent = started.elapsed();
    wait_until_applied(&server, events as f64, || server.while_stopped(|| calibration.sample()))
        .await?;
    let applied = started.elapsed();
    wait_until_idle(&server).await?;
    let (threads, peak) = (server.cpu_by_thread()?, server.peak_megabytes()?);
    let total = server.stop()?;
    let requests = f64::midpoint(before, pace().await?);
    calibration.sample()?;
    let millions = events as f64 / 1e6;
    for (name, pace) in [
        ("CPU a million events, compaction included, as it is", 1.0),
        ("  by what reading JSON costs meanwhile", calibration.pace()),
        ("  by what bare requests cost here", requests),
    ] {
        report.add(Row {
            name: name.into(),
            unit: "s",
            ours: total / millions,
            reference: None,
            bound: Bound::CpuAtMost { seconds: 17.0, pace },
        });
    }
    let mut known = 0.0;
    for (stage, prefix) in [
        ("taking in", "requests"),
        ("journal", "journal"),
        ("parsing, identity, columns", "pipeline"),
        ("catalog", "sqlx"),
        ("flush and compaction", "upkeep"),
    ] {
        let own = threads.iter().filter(|(name, _)| name.starts_with(prefix));
        let seconds: f64 = own.map(|(_, seconds)| seconds).sum();
        known += seconds;
        stage_row(report, stage, seconds / millions);
    }
    stage_row(report, "the rest, the last flush at the end with it", (total - known) / millions);
    for (name, long) in
        [("events a second, taken in", sent), ("events a second, queryable", applied)]
    {
        report.add(Row {
            name: name.into(),
            unit: "/s",
            ours: events as f64 / long.as_secs_f64(),
            reference: None,
            bound: Bound::None,
        });
    }
    report.add(Row {
        name: "peak memory meanwhile".into(),
        unit: "MB",
        ours: peak,
        reference: None,
        bound: Bound::None,
    });
    report.add(Row {
        name: "on disk, an event".into(),
        unit: "bytes",
        ours: stored_bytes(data, None)? as f64 / events as f64,
        reference: None,
        bound: Bound::AtMost(100.0),
    });
    Ok(())
}

fn stage_row(report: &mut Report, stage: &str, seconds: f64) {
    report.add(Row {
        name: format!("  {stage}"),
        unit: "s",
        ours: seconds,
        reference: None,
        bound: Bound::None,
    });
}

/// Latency until an event is listed, and latency of lists, on a filled data directory.
pub async fn lists(report: &mut Report, server: &ServerProcess, latest: &str) -> Result<()> {
    report.begin("Events API on the reference set");
    let mut client = Client::new(server).await?;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let traffic = tokio::spawn(send_background_load(Client::new(server).await?, stop.clone()));
    let mut times = Vec::new();
    for probe in 0..PROBES {
        let event = format!("probe {probe}");
        let body = json!({ "api_key": PROJECT_KEY, "event": event, "distinct_id": "probe" });
        client.post("/capture/", &body).await?;
        let started = Instant::now();
        let path = format!("/api/projects/1/events/?event=probe%20{probe}&limit=1");
        while !listed(client.get(&path).await?)? {
            ensure!(started.elapsed() < Duration::from_secs(30), "an event is not listed");
        }
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    traffic.await??;
    let (p50, p99) = quantiles(&mut times);
    for (name, ours, bound) in [
        ("an event is listed after its 200, at 1,000 events/s, p50", p50, Bound::None),
        ("  p99", p99, Bound::AtMost(200.0)),
    ] {
        report.add(Row { name: name.into(), unit: "ms", ours, reference: None, bound });
    }
    let by_uuid = format!("/api/projects/1/events/{latest}/");
    for (name, path) in [
        ("list the latest 100, warm, p50", "/api/projects/1/events/?limit=100&after=2026-01-01"),
        ("get by uuid, warm, p50", by_uuid.as_str()),
    ] {
        let mut times = Vec::new();
        for _ in 0..ASKED {
            let started = Instant::now();
            client.get(path).await?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        let ours = quantiles(&mut times).0;
        report.add(Row {
            name: name.into(),
            unit: "ms",
            ours,
            reference: None,
            bound: Bound::AtMost(20.0),
        });
    }
    Ok(())
}

fn listed(body: &[u8]) -> Result<bool> {
    let page: Value = serde_json::from_slice(body)?;
    Ok(page["results"].as_array().is_some_and(|events| !events.is_empty()))
}

async fn send_background_load(
    mut client: Client,
    stop: Arc<std::sync::atomic::AtomicBool>,
) -> Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let mut number = 0_u64;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        ticks.tick().await;
        let batch: Vec<Value> = (0..50)
            .map(|at| json!({ "event": "background", "distinct_id": format!("user_{}@example.com", (number + at) % 997), "properties": { "n": at } }))
            .collect();
        number += 50;
        client.post("/batch/", &json!({ "api_key": PROJECT_KEY, "batch": batch })).await?;
    }
    Ok(())
}

async fn send(server: &ServerProcess, events: u64) -> Result<()> {
    send_batches(server, reference_batches(events)).await
}

/// The reference set as bodies of `/batch/`.
pub(crate) fn reference_batches(events: u64) -> impl Iterator<Item = String> + Send {
    let mut set = Reference::new(events);
    let each = std::iter::from_fn(move || {
        let event = set.next_event()?;
        let mut json = String::new();
        set.json(&event, &mut json);
        Some(json)
    });
    batches(PROJECT_KEY, each)
}

/// Bodies of `/batch/` with the events given as JSON.
pub(crate) fn batches<I>(
    api_key: &str,
    mut events: I,
) -> impl Iterator<Item = String> + Send + use<I>
where
    I: Iterator<Item = String> + Send,
{
    let head = format!(r#"{{"api_key":"{api_key}","batch":["#);
    std::iter::from_fn(move || {
        let mut body = head.clone();
        for event in events.by_ref().take(BATCH_EVENTS) {
            body.push_str(&event);
            body.push(',');
        }
        // Without an event the head's bracket is the last character.
        (body.pop() == Some(',')).then(|| body + "]}")
    })
}

/// Sends bodies to `/batch/` over a few connections; a thread makes them meanwhile.
pub(crate) async fn send_batches(
    server: &ServerProcess,
    bodies: impl Iterator<Item = String> + Send + 'static,
) -> Result<()> {
    let (give, take) = mpsc::channel::<Vec<u8>>(WAITING_BATCHES_MAX);
    let making = std::thread::spawn(move || {
        for body in bodies {
            if give.blocking_send(post("/batch/", "", body.as_bytes())).is_err() {
                return;
            }
        }
    });
    let take = Arc::new(Mutex::new(take));
    let mut senders = Vec::new();
    for _ in 0..CONNECTIONS {
        let (take, mut client) = (take.clone(), Client::new(server).await?);
        senders.push(tokio::spawn(async move {
            loop {
                let Some(request) = take.lock().await.recv().await else { return Ok(()) };
                client.ask(&request).await.map(drop)?;
            }
        }));
    }
    for sender in senders {
        let outcome: Result<()> = sender.await?;
        outcome?;
    }
    making.join().ok().context("the generator failed")
}

/// How many events the pipeline has applied since the server started.
pub(crate) async fn applied_events(client: &mut Client) -> Result<f64> {
    let text = String::from_utf8(client.get("/metrics").await?.to_vec())?;
    let applied = text
        .lines()
        .find_map(|line| line.strip_prefix("hedgerow_pipeline_events_total "))
        .context("the pipeline does not say how far it is")?;
    Ok(applied.trim().parse()?)
}

/// Waits until the pipeline has applied this many events, calling `meanwhile` periodically. Gives up
/// when nothing was applied for a while.
pub(crate) async fn wait_until_applied(
    server: &ServerProcess,
    events: f64,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut last = Instant::now();
    let (mut applied, mut progress) = (0.0, last);
    let mut client = Client::new(server).await?;
    loop {
        let now = applied_events(&mut client).await?;
        if now >= events {
            return Ok(());
        }
        if now > applied {
            (applied, progress) = (now, Instant::now());
        }
        ensure!(progress.elapsed() < TIMEOUT, "the pipeline is stuck at {applied}");
        if last.elapsed() >= CALIBRATION_INTERVAL {
            meanwhile()?;
            last = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits until flush and compaction are idle.
pub(crate) async fn wait_until_idle(server: &ServerProcess) -> Result<()> {
    let spent = || -> Result<f64> {
        Ok(server.cpu_by_thread()?.get("upkeep").copied().unwrap_or_default())
    };
    let (mut last, mut since, started) = (spent()?, Instant::now(), Instant::now());
    while since.elapsed() < QUIET {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = spent()?;
        if now - last > 0.1 {
            (last, since) = (now, Instant::now());
        }
        ensure!(started.elapsed() < TIMEOUT, "compaction does not end");
    }
    Ok(())
}

pub(crate) fn stored_bytes(data: &Path, catalog_url: Option<&str>) -> Result<u64> {
    let mut files = Command::new(sibling("hedgerow")?);
    files.arg("files").arg("--data-dir").arg(data);
    if let Some(url) = catalog_url {
        files.args(["--catalog-url", url]);
    }
    let printed = files.output()?;
    let mut bytes = 0;
    for line in String::from_utf8(printed.stdout)?.lines() {
        bytes += std::fs::metadata(line.trim())?.len();
    }
    ensure!(bytes > 0, "no files are stored");
    Ok(bytes)
}
