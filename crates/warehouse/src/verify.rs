//! Looks for damage: reads every file that the manifest names, and says what is not as it was written.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ProjectId;

use crate::cache::Cache;
use crate::fields::{Field, Number};
use crate::folder::{self, entries};
use crate::manifest::{FILE, Manifest, SegmentEntry};
use crate::segment::Segment;
use crate::segment::checks::BLOCK_BYTES;
use crate::warehouse::known_files;
use crate::{Error, Result};

/// Decoded dictionaries kept while a segment is read.
const CACHE_BYTES_MAX: u64 = 32 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 128 * BLOCK_BYTES;
/// Damaged places named of one segment.
const PLACES_MAX: usize = 16;

/// How far [`verify`] has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The file that was read last, below the warehouse's folder.
    pub file: &'a str,
    pub files_done: usize,
    pub files: usize,
    pub bytes_done: u64,
    pub bytes: u64,
}

/// What is wrong with a file that the manifest names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment that cannot be read in full, below the warehouse's folder: what [`set_aside`]
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
pub struct Report {
    pub segments: usize,
    /// Segments of an older version, which have no checksums: they were only decoded.
    pub segments_unchecked: usize,
    pub rows: u64,
    pub bytes: u64,
    /// The first journal position that is not in the segments.
    pub position: u64,
    pub damage: Vec<Damage>,
    /// Files that the system does not let us read, by a fault of the disk or for want of permission:
    /// nothing is known of what they hold.
    pub unreadable: Vec<Damage>,
    /// Files below the folder that the manifest does not name: of a change under way, of one that
    /// was cut short, set aside, or somebody else's.
    pub unlisted: Vec<String>,
}

/// Reads every file of the store in `dir`, compares checksums, decodes every value and counts rows.
/// It takes no lock and changes nothing; a server may go on meanwhile.
pub fn verify(dir: &Path, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Report> {
    let manifest = read_manifest(dir)?;
    let files = manifest.segments.len();
    let bytes = manifest.segments.iter().map(|entry| entry.bytes).sum();
    let mut report =
        Report { segments: files, position: manifest.position, bytes, ..Report::default() };
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
        progress(Progress { file: &entry.file, files_done: at + 1, files, bytes_done, bytes });
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

fn damage_of(dir: &Path, entry: &SegmentEntry, error: &Error) -> Damage {
    let (file, what) = match error {
        Error::Corrupt { file, what } => (file.clone(), what.clone()),
        other => (dir.join(&entry.file), other.to_string()),
    };
    damage(entry, file, what)
}

fn damage(entry: &SegmentEntry, file: PathBuf, what: String) -> Damage {
    let events = entry.rows.saturating_sub(entry.dead.as_ref().map_or(0, |dead| dead.rows));
    Damage { segment: entry.file.clone(), project: entry.project, file, events, what }
}

/// Reads a segment, its list of dead rows and every value of it.
fn read_whole(dir: &Path, entry: &SegmentEntry, found: &mut Vec<Damage>) -> Result<()> {
    match folder::read_dead(dir, entry) {
        Err(error @ Error::Corrupt { .. }) => found.push(damage_of(dir, entry, &error)),
        other => drop(other?),
    }
    let path = dir.join(&entry.file);
    let segment = Segment::new(entry.clone(), path.clone(), Arc::new(Cache::new(CACHE_BYTES_MAX)));
    let places = damaged_places(&segment, &mut |_| true)?;
    if !places.is_empty() {
        found.extend(places.into_iter().map(|what| damage(entry, path.clone(), what)));
        return Ok(());
    }
    segment.guarded(|| decode_whole(&segment))
}

/// Compares every block with its checksum; says which bytes of which column differ. Ends early when
/// `go_on`, which hears of every number of bytes read, says so.
pub(crate) fn damaged_places(
    segment: &Segment,
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Result<Vec<String>> {
    let mut places = Vec::new();
    let source = segment.source()?;
    let Some(blocks) = source.blocks() else { return Ok(places) };
    let mut at = 0;
    while at < blocks.end() && places.len() < PLACES_MAX {
        let length = (blocks.end() - at).min(READ_BYTES as u64) as usize;
        match source.read(at, length) {
            Ok(bytes) => {
                let mut from = 0;
                while let Some(wrong) = blocks.mismatch(at + from as u64, &bytes[from..]) {
                    let end = (wrong + BLOCK_BYTES as u64).min(blocks.end());
                    let column = segment.column_over(wrong..end)?;
                    places.push(format!("bytes {wrong} to {end} differ ({column})"));
                    from = (end - at) as usize;
                }
            }
            Err(error) => match segment.refused(error) {
                Error::Corrupt { what, .. } => places.push(what),
                other => return Err(other),
            },
        }
        at += length as u64;
        if !go_on(length) {
            break;
        }
    }
    places.truncate(PLACES_MAX);
    Ok(places)
}

/// Decodes every value of a segment, one column at a time.
pub(crate) fn decode_whole(segment: &Segment) -> Result<()> {
    for group in 0..segment.groups()? {
        let rows = 0..segment.group_rows(group)?.len();
        let count = rows.len();
        let listed: usize = segment.runs(group)?.iter().map(|run| run.rows as usize).sum();
        let whole = |rows: usize| {
            if rows == count { Ok(()) } else { Err(segment.broken()) }
        };
        if listed > 0 {
            whole(listed)?;
        }
        whole(segment.uuids(group, rows.clone())?.len())?;
        segment.filter(group)?;
        for number in Number::ALL {
            let values = segment.numbers(group, number, rows.clone())?;
            whole(values.len())?;
            let entry = &segment.entry;
            let outside = |time: &i64| *time < entry.from || *time > entry.to;
            if number == Number::Timestamp && values.iter().any(outside) {
                return Err(Error::corrupt(&segment.path, "it has events of other times"));
            }
        }
        whole(segment.distinct_nos(group, rows.clone())?.len())?;
        whole(segment.historical(group, rows.clone())?.len())?;
        let properties = segment.properties(group)?;
        let properties = properties.iter().map(|(name, _)| Field::Property((*name).into()));
        let fields = Field::of_every_event().chain([Field::Nulls, Field::Rest]).chain(properties);
        for field in fields {
            if let Some(column) = segment.column(group, &field, rows.clone())? {
                whole(column.codes.len())?;
                let entries = column.dictionary.len() as u32;
                let absent = crate::dictionary::ABSENT;
                if column.codes.iter().any(|code| *code != absent && *code >= entries) {
                    return Err(segment.broken());
                }
            }
        }
    }
    Ok(())
}

fn unlisted(dir: &Path, manifest: &Manifest) -> Result<Vec<String>> {
    let known: HashSet<&str> = known_files(manifest);
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

/// What [`set_aside`] gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    pub project: ProjectId,
    /// Events that are no longer there.
    pub events: u64,
    /// Where the segment's files are now.
    pub kept: Vec<PathBuf>,
}

/// Takes a segment out of the store in `dir`, whose files are kept in the folder `damaged`. `file` is
/// the segment or its list of dead rows, below the warehouse's folder. Refused while a server runs.
pub fn set_aside(dir: &Path, file: &str) -> Result<SetAside> {
    let no_segment = || Error::NoSegment { folder: dir.to_owned(), file: file.to_owned() };
    if !dir.join(FILE).is_file() {
        return Err(no_segment());
    }
    let folder = folder::Folder::open(dir, crate::Faults::default())?;
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
            folder::move_into(dir, DAMAGED, &path, &name)?;
        }
        let kept_as = folder::kept_as(dir, DAMAGED, &name);
        if kept_as.is_file() {
            kept.push(kept_as);
        }
    }
    folder.prepare_manifest(&manifest)?;
    folder.install_manifest()?;
    let events = entry.rows.saturating_sub(entry.dead.as_ref().map_or(0, |dead| dead.rows));
    Ok(SetAside { project: entry.project, events, kept })
}
