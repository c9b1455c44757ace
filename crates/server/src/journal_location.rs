//! Where the journal is: in the data directory, or a stream of NATS JetStream (`journal_url`).

use anyhow::{Result, bail};
use journal::Location;
use journal::jetstream::{self, Address};

use crate::data_dir::DataDir;
use crate::settings::Settings;
use crate::values::Durability;

/// The first lane is the only one until lanes have owners.
const LANE: u16 = 0;

pub(crate) fn location(data_dir: &DataDir, settings: &Settings) -> Result<Location> {
    let Some(url) = &settings.journal_url else {
        if settings.capture_durability == Durability::Replicated {
            bail!(
                "capture_durability is replicated, which a journal in files is not: set it to fsync, \
                 or set journal_url"
            );
        }
        return Ok(data_dir.journal().into());
    };
    if journal::is_present(&data_dir.journal())? {
        bail!(
            "journal_url is set, but {} holds a journal in files, which cannot be moved yet: start \
             with a new data directory, or unset journal_url",
            data_dir.journal().display()
        );
    }
    let durability = match settings.capture_durability {
        Durability::Fsync => jetstream::Durability::Fsync,
        Durability::Replicated => jetstream::Durability::Replicated,
        Durability::Os => bail!(
            "capture_durability is os, which only a journal in files can be: set it to fsync or \
             replicated, or unset journal_url"
        ),
    };
    let file = |file: &Option<crate::values::File>| file.as_ref().map(|file| file.0.clone());
    Ok(Location::from(Address {
        url: url.0.reveal().to_owned(),
        credentials: settings.journal_credentials.as_ref().map(|secret| secret.reveal().to_owned()),
        tls_ca: file(&settings.journal_tls_ca),
        tls_certificate: file(&settings.journal_tls_certificate),
        tls_key: file(&settings.journal_tls_key),
        monitor_urls: settings.journal_monitor_urls.0.clone(),
        replicas: settings.journal_replicas.0 as usize,
        lane: LANE,
        durability,
        owner: data_dir.journal_owner()?,
    }))
}

/// Fails for a command that reads the journal's files, when there are none.
pub(crate) fn require_files(settings: &Settings, command: &str) -> Result<()> {
    if settings.journal_url.is_some() {
        bail!(
            "journal_url is set, and {command} knows only a journal in files: stop the server, copy \
             the data directory, and the stream with `nats stream backup`"
        );
    }
    Ok(())
}
