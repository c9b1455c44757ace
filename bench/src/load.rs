//! Load generator: repeated requests on many connections.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::server_process::ServerProcess;

const HEAD_BYTES_MAX: usize = 16 << 10;

pub struct Round {
    pub accepted: u64,
    pub refused: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
    pub p50: f64,
    pub p99: f64,
}

impl Round {
    pub fn rate(&self) -> f64 {
        self.accepted as f64 / self.seconds
    }

    pub fn cpu_per_million(&self, events: usize) -> f64 {
        self.cpu_seconds * 1e6 / (self.accepted as f64 * events as f64)
    }
}

/// Sends `requests` round-robin on every connection for a duration. `cpu` reads the CPU time to charge.
pub async fn round(
    server: &ServerProcess,
    requests: &[Vec<u8>],
    connections: usize,
    long: Duration,
    cpu: impl Fn(&ServerProcess) -> Result<f64>,
) -> Result<Round> {
    let (before, started) = (cpu(server)?, Instant::now());
    let until = started + long;
    let requests: Arc<[Vec<u8>]> = requests.into();
    let tasks: Vec<_> = (0..connections)
        .map(|first| tokio::spawn(connection(server.address(), requests.clone(), first, until)))
        .collect();
    let (mut taken, mut refused) = (Vec::new(), 0);
    for task in tasks {
        let (mut latencies, busy) = task.await??;
        taken.append(&mut latencies);
        refused += busy;
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = cpu(server)? - before;
    ensure!(!taken.is_empty(), "no request was accepted");
    let (p50, p99) = quantiles(&mut taken);
    Ok(Round { accepted: taken.len() as u64, refused, seconds, cpu_seconds, p50, p99 })
}

/// Microseconds of each accepted request, and the number of 503 responses.
async fn connection(
    address: std::net::SocketAddr,
    requests: Arc<[Vec<u8>]>,
    first: usize,
    until: Instant,
) -> Result<(Vec<f64>, u64)> {
    let (mut latencies, mut refused) = (Vec::new(), 0);
    let (mut stream, mut buffer) = (None, Vec::with_capacity(HEAD_BYTES_MAX));
    let mut turn = first;
    while Instant::now() < until {
        let request = &requests[turn % requests.len()];
        turn += 1;
        let mut open = match stream.take() {
            Some(open) => open,
            None => {
                let open = TcpStream::connect(address).await?;
                open.set_nodelay(true)?;
                open
            }
        };
        let started = Instant::now();
        // The server closes the connection if it responds before the body is sent.
        let sent = open.write_all(request).await;
        match answer(&mut open, &mut buffer).await {
            Ok(200) => {
                sent?;
                latencies.push(started.elapsed().as_secs_f64() * 1e6);
                stream = Some(open);
            }
            Ok(503) | Err(_) => refused += 1,
            Ok(status) => anyhow::bail!("answered {status}"),
        }
    }
    Ok((latencies, refused))
}

/// The status of a response that is read to its end.
pub async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<u16> {
    buffer.clear();
    let (head, status, length) = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = std::str::from_utf8(&buffer[..end])?;
            let status = head.split(' ').nth(1).context("no status")?.parse()?;
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
            });
            break (end + 4, status, length.unwrap_or(0));
        }
        ensure!(buffer.len() < HEAD_BYTES_MAX, "a head without end");
        ensure!(stream.read_buf(buffer).await? > 0, "closed");
    };
    while buffer.len() < head + length {
        ensure!(stream.read_buf(buffer).await? > 0, "closed");
    }
    buffer.drain(..head);
    Ok(status)
}

pub fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend(body);
    request
}

pub fn get(path: &str, headers: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench\r\n{headers}\r\n").into_bytes()
}

pub fn quantiles(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() * 99 / 100])
}
