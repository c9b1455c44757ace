//! The segment files: creating, recovering and removing them.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Gap;
use super::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use super::reader::{Cursor, Extent};

const EXTENSION: &str = "idlog";
/// As many as the largest position has.
const NAME_DIGITS: usize = 20;

/// A segment file, as far as its entries are confirmed.
#[derive(Debug)]
pub(super) struct Segment {
    pub file: Arc<File>,
    pub header: SegmentHeader,
    /// Length of the header and the confirmed entries.
    pub bytes: u64,
    /// The first position after the confirmed entries.
    pub end: u64,
    /// A segment never ends in a chunk: the next batch, of the same position, follows it.
    pub ends_in_chunk: bool,
    /// Set once the segment is full and synced.
    pub is_synced: bool,
}

impl Segment {
    pub fn create(dir: &Path, header: SegmentHeader) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(path(dir, header.first))?;
        file.write_all_at(&header.encode(), 0)?;
        Ok(Self::new(file, header))
    }

    fn new(file: File, header: SegmentHeader) -> Self {
        let (bytes, end) = (SEGMENT_HEADER_BYTES as u64, header.first);
        Self { file: Arc::new(file), header, bytes, end, ends_in_chunk: false, is_synced: false }
    }

    pub fn extent(&self) -> Extent {
        let (file, salt) = (self.file.clone(), self.header.salt());
        Extent { file, salt, first: self.header.first, bytes: self.bytes }
    }

    /// Removes what follows the confirmed entries, durably: it must not reappear after a power
    /// failure in place of what is written next.
    pub fn truncate(&self) -> io::Result<()> {
        self.file.set_len(self.bytes)?;
        self.file.sync_data()
    }

    pub fn remove(&self, dir: &Path) -> io::Result<()> {
        remove_file(&path(dir, self.header.first))
    }
}

pub(super) fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:0NAME_DIGITS$}.{EXTENSION}"))
}

/// Files that have a segment's name, by their first position.
fn list(dir: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(EXTENSION)?.strip_suffix('.'));
        let stem = stem.filter(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()));
        found.extend(stem.filter(|stem| stem.len() == NAME_DIGITS).and_then(|stem| {
            let first: Result<u64, _> = stem.parse();
            first.ok()
        }));
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes all segments durably: none reappears next to those of the log that follows.
pub(super) fn remove_all(dir: &Path) -> io::Result<()> {
    let found = list(dir)?;
    found.iter().try_for_each(|first| remove_file(&path(dir, *first)))?;
    if found.is_empty() { Ok(()) } else { sync_dir(dir) }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Opens the segments up to the catalog's position and removes what follows it. `None` if there are
/// none.
///
/// Reads the headers of all entries and the sections of the last segment: after a power failure
/// that is where bytes are missing. Readers check every section again.
pub(super) fn recover(
    dir: &Path,
    journal: u128,
    position: u64,
) -> Result<Option<Vec<Segment>>, Gap> {
    let found = list(dir)?;
    let mut segments: Vec<Segment> = Vec::new();
    for (at, first) in found.iter().enumerate() {
        let path = path(dir, *first);
        if segments.last().is_some_and(|last| last.end == position) {
            if *first == position && !is_uncommitted(&path)? {
                return Err(Gap::unfinished_edit());
            }
            remove_file(&path)?;
            continue;
        }
        let segment = open_segment(&path)?;
        let (log, end) = segments
            .last()
            .map_or((segment.header.log, *first), |before| (before.header.log, before.end));
        if segment.header != (SegmentHeader { log, journal, first: *first }) {
            return Err(Gap::new("a segment is of another log or another journal"));
        }
        if end != *first {
            return Err(Gap::new("a segment is missing"));
        }
        let is_last = found.get(at + 1).is_none_or(|next| *next >= position);
        segments.push(recover_segment(segment, position, is_last)?);
    }
    let Some(last) = segments.last() else { return Ok(None) };
    if last.end != position {
        let end = last.end;
        return Err(Gap::new(format!("it ends at {end}, the catalog at {position}")));
    }
    if last.file.metadata()?.len() > last.bytes {
        last.truncate()?;
    }
    if segments.len() < found.len() {
        sync_dir(dir)?;
    }
    Ok(Some(segments))
}

fn open_segment(path: &Path) -> Result<Segment, Gap> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut header = [0; SEGMENT_HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    Ok(Segment::new(file, SegmentHeader::decode(&header)?))
}

/// Walks a segment's entries up to `position`. A batch that follows was not committed: the catalog
/// would be further.
fn recover_segment(
    mut segment: Segment,
    position: u64,
    checks_sections: bool,
) -> Result<Segment, Gap> {
    let bytes = segment.file.metadata()?.len();
    let mut cursor = Cursor::new(Extent { bytes, ..segment.extent() });
    while segment.end != position {
        let Some(entry) = cursor.next_entry()? else { break };
        if entry.from != segment.end || !(entry.from..=position).contains(&entry.reach) {
            return Err(Gap::new("entries do not follow each other up to the catalog's position"));
        }
        if checks_sections {
            entry.sections.iter().try_for_each(|section| cursor.section(section).map(drop))?;
        }
        segment.end = entry.reach;
        segment.bytes = entry.end;
        segment.ends_in_chunk = entry.reach == entry.from;
    }
    if segment.end == position && !cursor.is_at_batch()? {
        return Err(Gap::unfinished_edit());
    }
    Ok(segment)
}

/// Whether a segment that starts at the catalog's position holds nothing that is committed. Of a
/// batch the position tells, of a chunk it does not.
fn is_uncommitted(path: &Path) -> Result<bool, Gap> {
    let file = Arc::new(File::open(path)?);
    let bytes = file.metadata()?.len();
    Cursor::new(Extent { file, salt: 0, first: 0, bytes }).is_at_batch()
}
