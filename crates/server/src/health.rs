//! `hedgerow health`: checks whether a running server is ready, for scripts and container probes.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use clap::ArgMatches;

use crate::cli::print;
use crate::settings::Settings;

/// Longer than the readiness check of the server waits for its catalog.
const TIMEOUT: Duration = Duration::from_secs(5);
const RESPONSE_BYTES_MAX: u64 = 64 << 10;

pub(crate) fn run(args: &ArgMatches, settings: &Settings) -> Result<()> {
    let address = connectable(settings.listen);
    let part = args.get_one::<String>("for");
    let path = part.map_or("/_readyz".to_owned(), |part| format!("/_readyz?for={part}"));
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let response = exchange(address, &request, TIMEOUT, RESPONSE_BYTES_MAX)
        .with_context(|| format!("nothing answers at {address}"))?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    match head.split(' ').nth(1) {
        Some("200") => print("ready\n"),
        Some("503") => bail!("the server at {address} is not ready: {}", body.trim()),
        _ => bail!("the server at {address} is not hedgerow"),
    }
}

/// Sends a request that asks to close the connection, and returns the response.
pub(crate) fn exchange(
    address: SocketAddr,
    request: &str,
    timeout: Duration,
    bytes_max: u64,
) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.take(bytes_max).read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// The loopback address for a server that listens on all interfaces.
pub(crate) fn connectable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
