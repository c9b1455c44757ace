//! `hedgerow backup` and `hedgerow restore`: a consistent copy of all stores.
//!
//! A backup runs alongside a server. It copies the warehouse (manifest and segments), then the
//! catalog, which is never behind the warehouse, then the journal, which is never behind the
//! catalog. At the end it checks that the three are consistent: if the server has truncated records
//! that the copied warehouse lacks, the backup starts over. A server on the copy resumes at the
//! warehouse's position, as after a crash.

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
use warehouse::ReadOnlyWarehouse;

use crate::cli::print;
use crate::clickhouse_store;
use crate::data_dir::{self, DataDir};
use crate::journal_location;
use crate::settings::Settings;

const MANIFEST_FILE: &str = "backup.json";
const FORMAT: u32 = 1;
/// The server truncates the journal about once a minute; copying it takes less.
const ATTEMPTS: usize = 5;
/// New segments that may begin while the journal is copied; each further round copies little.
const JOURNAL_ROUNDS_MAX: usize = 100;
const READ_BYTES: usize = 1 << 20;

/// The content of `backup.json`, written last: a directory without it is not a backup.
#[derive(Serialize, Deserialize)]
struct BackupManifest {
    format: u32,
    hedgerow: String,
    /// The backup contains every record before this position of the journal.
    position: u64,
    files: Vec<FileEntry>,
}

#[derive(Clone, Serialize, Deserialize, PartialEq, Eq)]
struct FileEntry {
    /// Relative to the backup's directory.
    path: String,
    bytes: u64,
    sha256: String,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn backup(args: &ArgMatches, settings: &Settings) -> Result<()> {
    let to = path_arg(args, "to");
    if settings.catalog_url.is_some() {
        bail!(
            "the catalog is in PostgreSQL, which backup does not copy: stop the server, run \
             pg_dump, and copy the data directory"
        );
    }
    journal_location::require_files(settings, "backup")?;
    ensure_empty(&to)?;
    let source = DataDir::attach(settings)?;
    // Fails early without the key: the copied catalog could not be decrypted.
    source.vault(settings)?;
    let file = source.catalog_file();
    let location = data_dir::catalog_location(settings, &file);
    // Runs no migrations, so either release can take the backup before an upgrade.
    let catalog = Catalog::inspect(location, Clock::system()).await?;
    let mut last_error = None;
    for _ in 0..ATTEMPTS {
        match copy_all(&source, &catalog, &to, settings).await {
            Ok(position) => {
                catalog.close().await;
                print(&format!("copied everything before position {position} of the journal\n"))?;
                if settings.warehouse_url.is_some() {
                    print(
                        "events in ClickHouse are not copied: they belong to this copy only if \
                         ClickHouse was copied while the server was stopped, and this after it \
                         (docs/CLUSTER.md)\n",
                    )?;
                }
                return Ok(());
            }
            Err(error) => last_error = Some(error),
        }
        clear(&to)?;
    }
    catalog.close().await;
    Err(last_error.unwrap_or_else(|| anyhow::anyhow!("no attempt was made")))
}

async fn copy_all(
    source: &DataDir,
    catalog: &Catalog,
    to: &Path,
    settings: &Settings,
) -> Result<u64> {
    let copy = DataDir::unlocked(to);
    let warehouse = source.warehouse();
    let mut warehouse_position = None;
    if warehouse.join("manifest").is_file() {
        let archive = ReadOnlyWarehouse::open(&warehouse).context("cannot read the warehouse")?;
        archive.copy_to(&copy.warehouse()).context("cannot copy the warehouse")?;
        warehouse_position = Some(archive.position());
    }
    if let Some(stored) = clickhouse_store::stored_position(settings)? {
        warehouse_position = Some(stored.position);
    }
    catalog.copy_to(&copy.catalog_file()).await.context("cannot copy the catalog")?;
    if source.secret_key().is_file() {
        copy_file(&source.secret_key(), &copy.secret_key())?;
    }
    copy_dir_files(&source.imports(), &copy.imports())?;
    copy_journal(&source.journal(), &copy.journal())?;
    let position = check_consistency(&copy, warehouse_position).await?;
    let mut files = Vec::new();
    list_files(to, to, &mut files)?;
    let manifest = BackupManifest {
        format: FORMAT,
        hedgerow: env!("CARGO_PKG_VERSION").into(),
        position,
        files,
    };
    let mut file = File::create(to.join(MANIFEST_FILE))?;
    file.write_all(&serde_json::to_vec_pretty(&manifest)?)?;
    file.sync_all()?;
    File::open(to)?.sync_all()?;
    Ok(position)
}

/// Fails if the copied stores are inconsistent. Returns the position that the backup reaches.
async fn check_consistency(copy: &DataDir, warehouse: Option<u64>) -> Result<u64> {
    let file = copy.catalog_file();
    let catalog = Catalog::inspect(Location::Sqlite(&file), Clock::system()).await?;
    let applied = catalog.ingest().offset().await?.map_or(1, |(_, position)| position);
    catalog.close().await;
    // Opening SQLite left its WAL files.
    for suffix in ["-wal", "-shm"] {
        let wal_file = PathBuf::from(format!("{}{suffix}", file.display()));
        if wal_file.exists() {
            fs::remove_file(wal_file)?;
        }
    }
    // An empty warehouse is at the first position.
    let warehouse_position = warehouse.unwrap_or(1).max(1);
    let survey = journal::survey(&copy.journal(), None, |_, _| Ok(()))?;
    if let Some(fault) = survey.faults.into_iter().next() {
        return Err(fault.into());
    }
    // The same check as at the start of a server.
    let covers_warehouse = survey.oldest.as_u64() <= warehouse_position;
    let next = survey.next.as_u64();
    ensure!(
        covers_warehouse && next >= applied,
        "the journal was truncated while it was copied; try again"
    );
    Ok(survey.end.as_u64().max(applied))
}

pub(crate) fn restore(args: &ArgMatches, settings: &Settings) -> Result<()> {
    let from = path_arg(args, "from");
    let shown = from.display();
    let manifest =
        fs::read(from.join(MANIFEST_FILE)).with_context(|| format!("{shown} is not a backup"))?;
    let manifest: BackupManifest =
        serde_json::from_slice(&manifest).with_context(|| format!("{shown} is not a backup"))?;
    ensure!(
        manifest.format <= FORMAT,
        "a newer release made this backup (format {})",
        manifest.format
    );
    let to = &settings.data_dir;
    ensure_empty(to)?;
    let mut present = Vec::new();
    list_files(&from, &from, &mut present)?;
    for listed in &manifest.files {
        ensure!(present.contains(listed), "{} is missing or corrupted in the backup", listed.path);
    }
    let target = DataDir::acquire(to)?;
    File::create(target.restore_marker())?.sync_all()?;
    File::open(to)?.sync_all()?;
    for file in &manifest.files {
        copy_file(&from.join(&file.path), &to.join(&file.path))?;
    }
    fs::remove_file(target.restore_marker())?;
    File::open(to)?.sync_all()?;
    print(&format!("restored {} files; start the server on them\n", manifest.files.len()))
}

fn path_arg(args: &ArgMatches, name: &str) -> PathBuf {
    PathBuf::from(args.get_one::<String>(name).map_or("", String::as_str))
}

fn ensure_empty(dir: &Path) -> Result<()> {
    match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => bail!("{} is not empty", dir.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", dir.display())),
    }
}

/// Removes the files of a failed attempt; the directory was empty before.
fn clear(dir: &Path) -> Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}

/// Copies the journal's segments. The server appends to the last one. If it began a new segment
/// meanwhile, the formerly last one and all after it are copied again, until the last copied segment
/// is the current one.
fn copy_journal(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    // The first segment that may have changed since it was copied.
    let mut stale_from = None;
    for _ in 0..JOURNAL_ROUNDS_MAX {
        let names = segments(from)?;
        let last = names.last().cloned();
        for name in names {
            let target = to.join(&name);
            if stale_from.as_ref().is_none_or(|first| name >= *first) || !target.exists() {
                copy_segment(&from.join(&name), &target)?;
            }
        }
        if segments(from)?.last() == last.as_ref() {
            return Ok(());
        }
        stale_from = last;
    }
    bail!("the server began journal segments faster than they were copied; try again")
}

/// Skips a segment that the server truncated meanwhile: the journal recycles its file for new
/// records. The final consistency check notices if it was needed.
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

/// The segment file names of a journal, in position order.
fn segments(dir: &Path) -> Result<Vec<OsString>> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
    let mut names: Vec<_> = names.collect::<io::Result<_>>()?;
    names.retain(|name| Path::new(name).extension() == Some("segment".as_ref()));
    names.sort();
    Ok(names)
}

/// Copies the files directly in a directory, sorted by name.
fn copy_dir_files(from: &Path, to: &Path) -> Result<()> {
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

/// Lists the files below `dir` with their hashes, without the manifest itself.
fn list_files(root: &Path, dir: &Path, files: &mut Vec<FileEntry>) -> Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            list_files(root, &path, files)?;
            continue;
        }
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        if name == MANIFEST_FILE {
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
        files.push(FileEntry { path: name, bytes, sha256 });
    }
    Ok(())
}
