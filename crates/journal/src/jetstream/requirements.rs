//! Why a server refuses to start: what capture promises, and what the NATS servers keep.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::jetstream::message::OVERHEAD_BYTES;
use crate::{Error, Result};

/// The largest event that capture accepts (`$ai_` events of 8 MiB), as a record, must fit into a message.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 9 << 20;
const MONITOR_WAIT: Duration = Duration::from_secs(5);
const MONITOR_BYTES_MAX: u64 = 4 << 20;

pub(crate) fn check_payload(max_payload: usize) -> Result<()> {
    if max_payload >= PAYLOAD_BYTES_MIN + OVERHEAD_BYTES {
        return Ok(());
    }
    Err(Error::Unsuitable(format!(
        "the NATS server accepts messages of {max_payload} bytes, less than the largest event: set \
         `max_payload: {}MB` in the configuration of every server",
        (PAYLOAD_BYTES_MIN >> 20) + 1
    )))
}

/// Part of a server's monitoring page `/varz`.
#[derive(Deserialize)]
struct Varz {
    server_name: String,
    version: String,
    #[serde(default)]
    jetstream: VarzJetStream,
}

#[derive(Default, Deserialize)]
struct VarzJetStream {
    #[serde(default)]
    config: VarzConfig,
}

#[derive(Default, Deserialize)]
struct VarzConfig {
    #[serde(default)]
    sync_always: bool,
}

/// Checks that the servers that hold replicas sync before they acknowledge: all that can be asked, and
/// at least a majority. Blocks.
pub(crate) fn check_synced(monitor_urls: &[String], peers: &[String]) -> Result<()> {
    const OTHERWISE: &str = "or set capture_durability to replicated: then events that were \
                             acknowledged can be lost when all servers lose power at once";
    if monitor_urls.is_empty() {
        return Err(Error::Unsuitable(format!(
            "capture_durability is fsync, and NATS servers acknowledge before they sync unless told \
             otherwise: set journal_monitor_urls to the monitoring address of each server, such as \
             http://host:8222, {OTHERWISE}"
        )));
    }
    let (mut servers, mut unread) = (BTreeMap::new(), Vec::new());
    for url in monitor_urls {
        match varz(url) {
            Ok(varz) => _ = servers.insert(varz.server_name.clone(), varz),
            Err(error) => unread.push(error),
        }
    }
    let unconfirmed: Vec<&String> =
        peers.iter().filter(|peer| !servers.contains_key(*peer)).collect();
    let confirmed = peers.len() - unconfirmed.len();
    if let Some(peer) = unconfirmed.first().filter(|_| unread.is_empty()) {
        return Err(Error::Unsuitable(format!(
            "journal_monitor_urls lacks the server {peer}, which holds a replica of the journal \
             (it has {})",
            servers.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
        )));
    }
    for error in unread {
        // A server that is down must not keep this one from starting.
        if confirmed * 2 <= peers.len() {
            return Err(error);
        }
        tracing::warn!(%error, "cannot check that a NATS server syncs before it acknowledges");
    }
    for (peer, varz) in servers.iter().filter(|(name, _)| peers.contains(name)) {
        if !varz.jetstream.config.sync_always {
            return Err(Error::Unsuitable(format!(
                "the NATS server {peer} ({}) acknowledges before it syncs: set `sync_interval: \
                 always` in the `jetstream` block of every server (2.12.3 or later is \
                 recommended, before 2.10 there is no such setting), {OTHERWISE}",
                varz.version
            )));
        }
    }
    Ok(())
}

fn varz(url: &str) -> Result<Varz> {
    let failed = |why: &dyn std::fmt::Display| {
        Error::Unsuitable(format!(
            "the monitoring page {url}/varz of journal_monitor_urls cannot be read: {why}; set \
             `http_port: 8222` in the configuration of every server"
        ))
    };
    if !url.starts_with("http://") {
        return Err(failed(&"it does not begin with http://"));
    }
    let config = ureq::Agent::config_builder().timeout_global(Some(MONITOR_WAIT)).build();
    let mut response = ureq::Agent::new_with_config(config)
        .get(format!("{}/varz", url.trim_end_matches('/')))
        .call()
        .map_err(|error| failed(&error))?;
    let body = response
        .body_mut()
        .with_config()
        .limit(MONITOR_BYTES_MAX)
        .read_to_vec()
        .map_err(|error| failed(&error))?;
    serde_json::from_slice(&body).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_too_small_is_refused_and_says_what_to_set() {
        let error = check_payload(1 << 20).unwrap_err().to_string();
        assert!(error.contains("messages of 1048576 bytes"), "{error}");
        assert!(error.ends_with("set `max_payload: 10MB` in the configuration of every server"));
        check_payload(10_000_000).unwrap();
    }
}
