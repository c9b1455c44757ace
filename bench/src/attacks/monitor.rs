//! The monitor: memory, probe latency and an honest client during an attack.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::victim::{self, Victim};
use crate::load::{answer, get, post};

const SAMPLE_EVERY: Duration = Duration::from_millis(100);
const PROBE_EVERY: Duration = Duration::from_millis(500);
/// Timeout of a probe, and the latency it then counts with.
const PROBE_MAX: Duration = Duration::from_secs(10);
/// How long an SDK retries an event.
const RETRY_MAX: Duration = Duration::from_secs(30);
const VISIBLE_MAX: Duration = Duration::from_secs(60);

pub struct Observations {
    pub peak_megabytes: f64,
    pub rest_megabytes: f64,
    /// Time until memory was released after the attack.
    pub rest_seconds: f64,
    pub livez_seconds_max: f64,
    /// Honest events that were acknowledged, and those that a query counts.
    pub captured: u64,
    pub visible: u64,
    /// Honest events that were rejected until the client gave up.
    pub given_up: u64,
    /// Seconds since the start, and megabytes.
    pub samples: Vec<(f64, f64)>,
}

pub struct Monitor {
    started: Instant,
    over: Arc<AtomicBool>,
    samples: Arc<Mutex<Vec<(f64, f64)>>>,
    sampling: JoinHandle<()>,
    probing: JoinHandle<f64>,
    sending: JoinHandle<(u64, u64)>,
}

impl Monitor {
    pub fn begin(victim: &Victim) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let samples = Arc::new(Mutex::new(Vec::new()));
        let started = Instant::now();
        let sampling = tokio::spawn(sample(victim.clone(), started, samples.clone()));
        let probing = tokio::spawn(probe(victim.address(), over.clone()));
        let sending =
            tokio::spawn(send(victim.address(), victim.other().key.clone(), over.clone()));
        Self { started, over, samples, sampling, probing, sending }
    }

    /// Waits until memory is released, or for the timeout.
    pub async fn end(
        self,
        victim: &Victim,
        megabytes: f64,
        wait_max: Duration,
    ) -> Result<Observations> {
        let over = Instant::now();
        while over.elapsed() < wait_max && victim.megabytes()? > megabytes {
            sleep(SAMPLE_EVERY).await;
        }
        let rest_seconds = over.elapsed().as_secs_f64();
        let rest_megabytes = victim.megabytes()?;
        self.over.store(true, Ordering::Relaxed);
        let livez_seconds_max = self.probing.await?;
        let (captured, given_up) = self.sending.await?;
        let project = victim.other().id;
        let visible = victim.events(project, captured, VISIBLE_MAX).await.unwrap_or_default();
        self.sampling.abort();
        let samples =
            std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = over.duration_since(self.started).as_secs_f64() + rest_seconds;
        let peak_megabytes = samples
            .iter()
            .filter(|(at, _)| *at <= ended)
            .map(|(_, megabytes)| *megabytes)
            .fold(rest_megabytes, f64::max);
        Ok(Observations {
            peak_megabytes,
            rest_megabytes,
            rest_seconds,
            livez_seconds_max,
            captured,
            visible,
            given_up,
            samples,
        })
    }
}

async fn sample(victim: Victim, started: Instant, samples: Arc<Mutex<Vec<(f64, f64)>>>) {
    while let Ok(megabytes) = victim.megabytes() {
        let at = started.elapsed().as_secs_f64();
        samples.lock().unwrap_or_else(PoisonError::into_inner).push((at, megabytes));
        sleep(SAMPLE_EVERY).await;
    }
}

/// The maximum latency of `/_livez`.
async fn probe(address: SocketAddr, over: Arc<AtomicBool>) -> f64 {
    let mut longest: f64 = 0.0;
    while !over.load(Ordering::Relaxed) {
        let started = Instant::now();
        let request = one(address, get("/_livez", "Connection: close\r\n"));
        let seconds = match timeout(PROBE_MAX, request).await {
            Ok(Ok(200)) => started.elapsed().as_secs_f64(),
            _ => PROBE_MAX.as_secs_f64(),
        };
        longest = longest.max(seconds);
        sleep(PROBE_EVERY).await;
    }
    longest
}

/// Sends as an SDK does: retries an event until it is accepted.
async fn send(address: SocketAddr, key: String, over: Arc<AtomicBool>) -> (u64, u64) {
    let (mut captured, mut given_up) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let event = json!({
            "api_key": key, "event": "honest", "distinct_id": "honest", "uuid": Uuid::now_v7(),
        });
        let request = post("/i/v0/e/", "Connection: close\r\n", event.to_string().as_bytes());
        let started = Instant::now();
        loop {
            if let Ok(Ok(200)) = timeout(PROBE_MAX, one(address, request.clone())).await {
                captured += 1;
                break;
            }
            if started.elapsed() > RETRY_MAX {
                given_up += 1;
                break;
            }
            sleep(PROBE_EVERY).await;
        }
        sleep(PROBE_EVERY).await;
    }
    (captured, given_up)
}

async fn one(address: SocketAddr, request: Vec<u8>) -> Result<u16> {
    let mut stream = victim::connect(address, 1).await?;
    stream.write_all(&request).await?;
    let mut body = Vec::new();
    let status = answer(&mut stream, &mut body).await.context("no answer")?;
    ensure!(status < 600, "no status");
    Ok(status)
}
