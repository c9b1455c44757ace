//! Looks for damage: reads every file that the manifest names, and says what is not as it was written.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ProjectId;

use crate::manifest::store_dir::{self, entries};
use crate::manifest::{FILE, Manifest, SegmentEntry};
use crate::segment::Segment;
use crate::segment::cache::Cache;
use crate::segment::integrity::{corrupt_ranges, decode_all};
use crate::{Error, Result};

/// Decoded dictionaries kept while a segment is read.
const CACHE_BYTES_MAX: u64 = 32 << 20;
/// How far [`verify`] has come.
#[derive(Clone, Copy, Debug)]
pub struct VerifyProgress<'a> {
    /// The file that was read last, below the warehouse's folder.
    pub file: &'a str,
    pub files_done: usize,
    pub files: usize,
    pub bytes_done: u64,
    pub bytes: u64,
}

/// What is wrong with a file that the manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorruptFile {
    /// The segment that cannot be read in full, below the warehouse's folder: what [`quarantine_segment`]
    /// takes. The damaged file is this one or its list of dead rows.
    pub segment: String,
    pub project: ProjectId,
    pub file: PathBuf,
    /// Events in the segment, the dead ones left out.
    pub events: u64,
    pub what: String,
}

/// What [`verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub segments: usize,
    /// Segments of an older version, which have no checksums: they were only decoded.
    pub segments_unchecked: usize,
    pub rows: u64,
    pub bytes: u64,
    /// The first journal position that is not in the segments.
    pub position: u64,
    pub damage: Vec<CorruptFile>,
    /// Files that the system does not let us read, by a fault of the disk or for want of permission:
    /// nothing is known of what they hold.
    pub unreadable: Vec<CorruptFile>,
    /// Files below the folder that the manifest does not name: of a change under way, of one that
    /// was cut short, set aside, or somebody else's.
    pub unlisted: Vec<String>,
}

/// Reads every file of the store in `dir`, compares checksums, decodes every value and counts rows.
/// It takes no lock and changes nothing; a server may go on meanwhile.
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
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        match read_whole(dir, entry, &mut found) {
            Ok(()) => report.rows += entry.rows,
            Err(error @ Error::Corrupt { .. }) => found.push(damage_of(dir, entry, &error)),
            Err(error) => unreadable.push(damage_of(dir, entry, &error)),
        }
        // What was merged or dropped meanwhile need not be there any more.
        if !(found.is_empty() && unreadable.is_empty()) && still_named(dir, entry)? {
            report.damage.append(&mut found);
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

fn damage_of(dir: &Path, entry: &SegmentEntry, error: &Error) -> CorruptFile {
    let (file, what) = match error {
        Error::Corrupt { file, what } => (file.clone(), what.clone()),
        other => (dir.join(&entry.file), other.to_string()),
    };
    damage(entry, file, what)
}

fn damage(entry: &SegmentEntry, file: PathBuf, what: String) -> CorruptFile {
    let events = entry.rows.saturating_sub(entry.dead.as_ref().map_or(0, |dead| dead.rows));
    CorruptFile { segment: entry.file.clone(), project: entry.project, file, events, what }
}

/// Reads a segment, its list of dead rows and every value of it.
fn read_whole(dir: &Path, entry: &SegmentEntry, found: &mut Vec<CorruptFile>) -> Result<()> {
    match store_dir::read_dead(dir, entry) {
        Err(error @ Error::Corrupt { .. }) => found.push(damage_of(dir, entry, &error)),
        other => drop(other?),
    }
    let path = dir.join(&entry.file);
    let segment = Segment::new(entry.clone(), path.clone(), Arc::new(Cache::new(CACHE_BYTES_MAX)));
    let places = corrupt_ranges(&segment, &mut |_| true)?;
    if !places.is_empty() {
        found.extend(places.into_iter().map(|what| damage(entry, path.clone(), what)));
        return Ok(());
    }
    segment.catch_decoder_panics(|| decode_all(&segment))
}

fn unlisted(dir: &Path, manifest: &Manifest) -> Result<Vec<String>> {
    let known: HashSet<&str> = manifest.known_files();
    let mut unlisted = Vec::new();
    for entry in entries(dir)?.into_iter().filter(|entry| entry.path().is_dir()) {
        let folder = entry.file_name().to_string_lossy().into_owned();
        for file in entries(&entry.path())? {
            let name = format!("{folder}/{}", file.file_name().to_string_lossy());
            if !known.contains(name.as_str()) {
                unlisted.push(name);
            }
        }
    }
    unlisted.sort();
    Ok(unlisted)
}

/// Where the files of segments go that were given up.
const DAMAGED: &str = "damaged";

/// What [`quarantine_segment`] gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedSegment {
    pub project: ProjectId,
    /// Events that are no longer there.
    pub events: u64,
    /// Where the segment's files are now.
    pub kept: Vec<PathBuf>,
}

/// Takes a segment out of the store in `dir`, whose files are kept in the folder `damaged`. `file` is
/// the segment or its list of dead rows, below the warehouse's folder. Refused while a server runs.
pub fn quarantine_segment(dir: &Path, file: &str) -> Result<QuarantinedSegment> {
    let no_segment = || Error::NoSegment { folder: dir.to_owned(), file: file.to_owned() };
    if !dir.join(FILE).is_file() {
        return Err(no_segment());
    }
    let folder = store_dir::StoreDir::open(dir, crate::FaultInjector::default())?;
    let mut manifest = read_manifest(dir)?;
    let is_meant = |entry: &SegmentEntry| {
        entry.file == file || entry.dead.as_ref().is_some_and(|dead| dead.file == file)
    };
    let at = manifest.segments.iter().position(is_meant).ok_or_else(no_segment)?;
    let entry = manifest.segments.remove(at);
    let dead = entry.dead.as_ref().map(|dead| dead.file.clone());
    let mut kept = Vec::new();
    // Moved before the manifest lets go of them: what it does not name, a start takes for an orphan.
    // A stop in between leaves a segment that is missing, which can be set aside again.
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
    folder.prepare_manifest(&manifest)?;
    folder.install_manifest()?;
    let events = entry.rows.saturating_sub(entry.dead.as_ref().map_or(0, |dead| dead.rows));
    Ok(QuarantinedSegment { project: entry.project, events, kept })
}
