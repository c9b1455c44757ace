//! Verification: reads every live file and reports corruption. Quarantine: removes a segment.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ProjectId;

use crate::manifest::StoreDir;
use crate::manifest::store_dir::{self, entries};
use crate::manifest::{FILE, Manifest, SegmentEntry};
use crate::segment::Segment;
use crate::segment::cache::Cache;
use crate::segment::integrity::{corrupt_ranges, decode_all};
use crate::{Error, Result};

/// Bound of the cache while a segment is read.
const CACHE_BYTES_MAX: u64 = 32 << 20;
/// Progress of [`verify`].
#[derive(Clone, Copy, Debug)]
pub struct VerifyProgress<'a> {
    /// The file that was read last, relative to the warehouse's directory.
    pub file: &'a str,
    pub files_done: usize,
    pub files: usize,
    pub bytes_done: u64,
    pub bytes: u64,
}

/// A corrupted or unreadable file of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptFile {
    /// The affected segment, relative to the warehouse's directory: the argument for
    /// [`quarantine_segment`]. The corrupted file is this one or its `.dead` file.
    pub segment: String,
    pub project: ProjectId,
    pub file: PathBuf,
    /// Live events in the segment.
    pub events: u64,
    pub what: String,
}

/// The result of [`verify`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub segments: usize,
    /// Segments of an older version, without checksums: they were only decoded.
    pub segments_unchecked: usize,
    pub rows: u64,
    pub bytes: u64,
    /// The first journal position that is not in the segments.
    pub position: u64,
    pub damage: Vec<CorruptFile>,
    /// Files that could not be read because of an I/O or permission error: they may be intact.
    pub unreadable: Vec<CorruptFile>,
    /// Files in the directory that the manifest does not name: of an edit in progress or interrupted,
    /// quarantined, or foreign.
    pub unlisted: Vec<String>,
}

/// Reads every file of the store in `dir`, verifies checksums, decodes every value and counts rows.
/// Takes no lock and changes nothing; a server may be running.
pub fn verify(dir: &Path, progress: &mut dyn FnMut(VerifyProgress<'_>)) -> Result<VerifyReport> {
    let manifest = read_manifest(dir)?;
    let files = manifest.segments.len();
    let bytes = manifest.segments.iter().map(|entry| entry.bytes).sum();
    let mut report = VerifyReport {
        segments: files,
        position: manifest.position,
        bytes,
        ..VerifyReport::default()
    };
    let mut bytes_done = 0;
    for (at, entry) in manifest.segments.iter().enumerate() {
        if entry.checks.is_none() {
            report.segments_unchecked += 1;
        }
        let (mut corrupt, mut unreadable) = (Vec::new(), Vec::new());
        match verify_segment(dir, entry, &mut corrupt) {
            Ok(()) => report.rows += entry.rows,
            Err(error @ Error::Corrupt { .. }) => corrupt.push(corrupt_file_of(dir, entry, &error)),
            Err(error) => unreadable.push(corrupt_file_of(dir, entry, &error)),
        }
        // The server may have merged or dropped the segment in the meantime.
        if !(corrupt.is_empty() && unreadable.is_empty()) && still_named(dir, entry)? {
            report.damage.append(&mut corrupt);
            report.unreadable.append(&mut unreadable);
        }
        bytes_done += entry.bytes;
        progress(VerifyProgress {
            file: &entry.file,
            files_done: at + 1,
            files,
            bytes_done,
            bytes,
        });
    }
    report.unlisted = unlisted(dir, &manifest)?;
    Ok(report)
}

fn read_manifest(dir: &Path) -> Result<Manifest> {
    let path = dir.join(FILE);
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::corrupt(&path, "it is missing"),
        _ => Error::io("read the manifest")(error),
    })?;
    Manifest::from_bytes(&bytes, &path)
}

fn still_named(dir: &Path, entry: &SegmentEntry) -> Result<bool> {
    let now = read_manifest(dir)?;
    let same = |other: &SegmentEntry| other.id == entry.id && other.dead == entry.dead;
    Ok(now.segments.iter().any(same))
}

fn corrupt_file_of(dir: &Path, entry: &SegmentEntry, error: &Error) -> CorruptFile {
    let (file, what) = match error {
        Error::Corrupt { file, what } => (file.clone(), what.clone()),
        other => (dir.join(&entry.file), other.to_string()),
    };
    corrupt_file(entry, file, what)
}

fn corrupt_file(entry: &SegmentEntry, file: PathBuf, what: String) -> CorruptFile {
    let events = entry.rows.saturating_sub(entry.dead.as_ref().map_or(0, |dead| dead.rows));
    CorruptFile { segment: entry.file.clone(), project: entry.project, file, events, what }
}

/// Verifies and decodes a segment and its `.dead` file.
fn verify_segment(dir: &Path, entry: &SegmentEntry, corrupt: &mut Vec<CorruptFile>) -> Result<()> {
    match store_dir::read_dead(dir, entry) {
        Err(error @ Error::Corrupt { .. }) => corrupt.push(corrupt_file_of(dir, entry, &error)),
        other => drop(other?),
    }
    let path = dir.join(&entry.file);
    let segment =
        Segment::new(entry.clone(), path.clone(), Arc::new(Cache::new(CACHE_BYTES_MAX, || {})));
    let ranges = corrupt_ranges(&segment, &mut |_| true)?;
    if !ranges.is_empty() {
        corrupt.extend(ranges.into_iter().map(|what| corrupt_file(entry, path.clone(), what)));
        return Ok(());
    }
    segment.catch_decoder_panics(|| decode_all(&segment))
}

fn unlisted(dir: &Path, manifest: &Manifest) -> Result<Vec<String>> {
    let listed: HashSet<&str> = manifest.known_files();
    let mut unlisted = Vec::new();
    for entry in entries(dir)?.into_iter().filter(|entry| entry.path().is_dir()) {
        let project_dir = entry.file_name().to_string_lossy().into_owned();
        for file in entries(&entry.path())? {
            let name = format!("{project_dir}/{}", file.file_name().to_string_lossy());
            if !listed.contains(name.as_str()) {
                unlisted.push(name);
            }
        }
    }
    unlisted.sort();
    Ok(unlisted)
}

/// The directory for the files of quarantined segments.
const DAMAGED: &str = "damaged";

/// The result of [`quarantine_segment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedSegment {
    pub project: ProjectId,
    /// Events that are no longer there.
    pub events: u64,
    /// The new paths of the segment's files.
    pub kept: Vec<PathBuf>,
}

/// Removes a segment from the store in `dir` and moves its files to the directory `damaged`. `file` is
/// the segment or its `.dead` file, relative to `dir`. Fails while a server runs.
pub fn quarantine_segment(dir: &Path, file: &str) -> Result<QuarantinedSegment> {
    let no_segment = || Error::NoSegment { dir: dir.to_owned(), file: file.to_owned() };
    if !dir.join(FILE).is_file() {
        return Err(no_segment());
    }
    let store_dir = StoreDir::open(dir, crate::FaultInjector::default())?;
    let mut manifest = read_manifest(dir)?;
    let is_meant = |entry: &SegmentEntry| {
        entry.file == file || entry.dead.as_ref().is_some_and(|dead| dead.file == file)
    };
    let at = manifest.segments.iter().position(is_meant).ok_or_else(no_segment)?;
    let entry = manifest.segments.remove(at);
    let dead = entry.dead.as_ref().map(|dead| dead.file.clone());
    let mut kept = Vec::new();
    // Move the files before the manifest drops them: opening the store treats unlisted files as
    // orphans. A crash in between leaves a missing segment, which can be quarantined again.
    for file in std::iter::once(entry.file.clone()).chain(dead) {
        let path = dir.join(&file);
        let name = file.replace('/', "-");
        if path.is_file() {
            store_dir::move_into(dir, DAMAGED, &path, &name)?;
        }
        let kept_as = store_dir::kept_as(dir, DAMAGED, &name);
        if kept_as.is_file() {
            kept.push(kept_as);
        }
    }
    store_dir.prepare_manifest(&manifest)?;
    store_dir.install_manifest()?;
    let events = entry.rows.saturating_sub(entry.dead.as_ref().map_or(0, |dead| dead.rows));
    Ok(QuarantinedSegment { project: entry.project, events, kept })
}
