//! `hedgerow health`: asks a running server, for scripts and container probes.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use clap::ArgMatches;

use crate::cli::say;
use crate::settings::Settings;

/// Longer than the server itself waits for its catalog.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 64 << 10;

pub(crate) fn run(given: &ArgMatches, settings: &Settings) -> Result<()> {
    let address = reachable(settings.listen);
    let part = given.get_one::<String>("for");
    let path = part.map_or("/_readyz".to_owned(), |part| format!("/_readyz?for={part}"));
    let answer = ask(address, &path).with_context(|| format!("nothing answers at {address}"))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.split(' ').nth(1) {
        Some("200") => say("ready\n"),
        Some("503") => bail!("the server at {address} is not ready: {}", body.trim()),
        _ => bail!("what answers at {address} is no hedgerow server"),
    }
}

fn ask(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// "Every address" is no address to call.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
