//! `hedgerow backup` and `hedgerow restore`: a copy of everything at one place of the journal.
//!
//! A backup is taken beside a running server, without stopping it. First the warehouse's manifest
//! and the files it names, then the catalog, which is never behind the warehouse, then the journal,
//! which is never behind the catalog. What the three have in common is checked at the end: should
//! the journal have let go of records meanwhile that the copy of the warehouse lacks, it is all done
//! again. A server that starts on the copy reads on from the warehouse's place, as after a crash.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use catalog::{Catalog, Location};
use clap::ArgMatches;
use model::Clock;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use warehouse::Archive;

use crate::cli::say;
use crate::folder::{self, Folder};
use crate::settings::Settings;

const ABOUT: &str = "backup.json";
const FORMAT: u32 = 1;
/// The journal lets go of files about once a minute; a copy of it takes less.
const ATTEMPTS: usize = 5;
/// How often the journal may begin a file while it is copied: after the first time little is left.
const JOURNAL_ROUNDS_MAX: usize = 100;
const READ_BYTES: usize = 1 << 20;

/// What a backup holds, written last: a folder without it is no backup.
#[derive(Serialize, Deserialize)]
struct About {
    format: u32,
    hedgerow: String,
    /// Every record before this place of the journal is in the backup.
    position: u64,
    files: Vec<Copied>,
}

#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
struct Copied {
    /// Below the folder.
    path: String,
    bytes: u64,
    sha256: String,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn backup(given: &ArgMatches, settings: &Settings) -> Result<()> {
    let to = named(given, "to");
    if settings.catalog_url.is_some() {
        bail!(
            "the catalog is in PostgreSQL, which this does not copy: stop the server, use pg_dump, \
             and copy the data folder"
        );
    }
    empty(&to)?;
    let own = Folder::join(settings)?;
    // A copy without the key that opens it is none.
    own.vault(settings)?;
    let file = own.catalog_file();
    let location = folder::location(settings, &file);
    // Also of an older schema: a copy before an upgrade is made by whichever release is there.
    let catalog = Catalog::inspect(location, Clock::system()).await?;
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match copy_all(&own, &catalog, &to).await {
            Ok(position) => {
                catalog.close().await;
                say(&format!("copied everything before position {position} of the journal\n"))?;
                return Ok(());
            }
            Err(why) => last = Some(why),
        }
        clear(&to)?;
    }
    catalog.close().await;
    Err(last.unwrap_or_else(|| anyhow::anyhow!("nothing was tried")))
}

async fn copy_all(own: &Folder, catalog: &Catalog, to: &Path) -> Result<u64> {
    let copy = Folder::at(to);
    let warehouse = own.warehouse();
    let mut from = None;
    if warehouse.join("manifest").is_file() {
        let archive = Archive::open(&warehouse).context("cannot read the warehouse")?;
        archive.copy_to(&copy.warehouse()).context("cannot copy the warehouse")?;
        from = Some(archive.position());
    }
    catalog.copy_to(&copy.catalog_file()).await.context("cannot copy the catalog")?;
    for (file, kept) in [(own.secret_key(), copy.secret_key())] {
        if file.is_file() {
            copy_file(&file, &kept)?;
        }
    }
    copy_flat(&own.imports(), &copy.imports())?;
    copy_journal(&own.journal(), &copy.journal())?;
    let position = agree(&copy, from).await?;
    let mut files = Vec::new();
    list(to, to, &mut files)?;
    let about =
        About { format: FORMAT, hedgerow: env!("CARGO_PKG_VERSION").into(), position, files };
    let mut file = File::create(to.join(ABOUT))?;
    file.write_all(&serde_json::to_vec_pretty(&about)?)?;
    file.sync_all()?;
    File::open(to)?.sync_all()?;
    Ok(position)
}

/// Whether the copies belong together. Gives the place they reach.
async fn agree(copy: &Folder, warehouse: Option<u64>) -> Result<u64> {
    let file = copy.catalog_file();
    let catalog = Catalog::inspect(Location::Sqlite(&file), Clock::system()).await?;
    let applied = catalog.ingest_offset().await?.map_or(1, |(_, position)| position);
    catalog.close().await;
    // Opening it left helpers of SQLite beside it.
    for suffix in ["-wal", "-shm"] {
        let helper = PathBuf::from(format!("{}{suffix}", file.display()));
        if helper.exists() {
            fs::remove_file(helper)?;
        }
    }
    // An empty warehouse stands before the first record.
    let wanted = warehouse.unwrap_or(1).max(1);
    let found = journal::survey(&copy.journal(), None, |_, _| Ok(()))?;
    if let Some(fault) = found.faults.into_iter().next() {
        return Err(fault.into());
    }
    // A start asks the same.
    let begins = found.oldest.as_u64() <= wanted;
    let next = found.next.as_u64();
    ensure!(begins && next >= applied, "the journal moved on while it was copied; try again");
    Ok(found.end.as_u64().max(applied))
}

pub(crate) fn restore(given: &ArgMatches, settings: &Settings) -> Result<()> {
    let from = named(given, "from");
    let shown = from.display();
    let about = fs::read(from.join(ABOUT)).with_context(|| format!("{shown} is no backup"))?;
    let about: About =
        serde_json::from_slice(&about).with_context(|| format!("{shown} is no backup"))?;
    ensure!(about.format <= FORMAT, "a newer version made this backup (format {})", about.format);
    let to = &settings.data_dir;
    empty(to)?;
    let mut found = Vec::new();
    list(&from, &from, &mut found)?;
    for wanted in &about.files {
        ensure!(found.contains(wanted), "{} is missing or damaged in the backup", wanted.path);
    }
    let own = Folder::own(to)?;
    File::create(own.restoring())?.sync_all()?;
    File::open(to)?.sync_all()?;
    for file in &about.files {
        copy_file(&from.join(&file.path), &to.join(&file.path))?;
    }
    fs::remove_file(own.restoring())?;
    File::open(to)?.sync_all()?;
    say(&format!("restored {} files; start the server on them\n", about.files.len()))
}

fn named(given: &ArgMatches, name: &str) -> PathBuf {
    PathBuf::from(given.get_one::<String>(name).map_or("", String::as_str))
}

fn empty(folder: &Path) -> Result<()> {
    match fs::read_dir(folder).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => bail!("{} is not empty", folder.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", folder.display())),
    }
}

/// Removes what a failed attempt left; the folder was empty before.
fn clear(folder: &Path) -> Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

/// Only the last file of a journal may still be written to. One that was completed while it was
/// copied is copied again with those behind it, so that the copy's last file is one that was the last.
fn copy_journal(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    // From here on files may have been written to since they were copied.
    let mut written = None;
    for _ in 0..JOURNAL_ROUNDS_MAX {
        let names = segments(from)?;
        let last = names.last().cloned();
        for name in names {
            let kept = to.join(&name);
            if written.as_ref().is_none_or(|first| name >= *first) || !kept.exists() {
                copy_segment(&from.join(&name), &kept)?;
            }
        }
        if segments(from)?.last() == last.as_ref() {
            return Ok(());
        }
        written = last;
    }
    bail!("the journal moved on while it was copied; try again")
}

/// One that the journal lets go of is left out: its file may become that of new records at any moment.
/// Whether it is needed is seen at the end.
fn copy_segment(from: &Path, to: &Path) -> Result<()> {
    let copied = copy_file(from, to);
    if from.try_exists()? {
        return copied;
    }
    match fs::remove_file(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The names of a journal's files, in the order of their records.
fn segments(folder: &Path) -> Result<Vec<OsString>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
    let mut names: Vec<_> = names.collect::<io::Result<_>>()?;
    names.retain(|name| Path::new(name).extension() == Some("segment".as_ref()));
    names.sort();
    Ok(names)
}

/// The files of a folder in the order of their names.
fn copy_flat(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_file() && name != "lock" {
            files.push(entry.path());
        }
    }
    files.sort();
    for file in files {
        let Some(name) = file.file_name() else { continue };
        copy_file(&file, &to.join(name))?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    File::open(to)?.sync_all()?;
    Ok(())
}

/// Every file below `folder` but the one that lists them.
fn list(root: &Path, folder: &Path, files: &mut Vec<Copied>) -> Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            list(root, &path, files)?;
            continue;
        }
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        if name == ABOUT {
            continue;
        }
        let (mut hash, mut bytes, mut part) = (Sha256::new(), 0, vec![0; READ_BYTES]);
        let mut file = File::open(&path)?;
        loop {
            let read = file.read(&mut part)?;
            if read == 0 {
                break;
            }
            hash.update(&part[..read]);
            bytes += read as u64;
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        files.push(Copied { path: name, bytes, sha256 });
    }
    Ok(())
}
