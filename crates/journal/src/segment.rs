//! Segment files: names, creation, and the list of those that make up the journal.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::{End, HEADER_BYTES, HeaderFault, SegmentHeader, VERSION};
use crate::storage::{Storage, write_all};
use crate::{Damage, Error, Position, Result};

const SUFFIX: &str = ".segment";
/// A segment before it has its name, and the end of the name of a released one that is kept for its
/// allocated space. Both are worthless after a restart.
const FRESH: &str = "fresh.tmp";
const SPARE_SUFFIX: &str = ".spare";

pub(crate) struct Segment {
    pub header: SegmentHeader,
    pub file: File,
    pub path: PathBuf,
    bytes: AtomicU64,
    /// How far readers may look: what is durable.
    visible: Mutex<End>,
}

impl Segment {
    pub(crate) fn new(header: SegmentHeader, file: File, path: PathBuf, bytes: u64) -> Segment {
        let visible = Mutex::new(header.start());
        Segment { header, file, path, bytes: AtomicU64::new(bytes), visible }
    }

    pub(crate) fn visible(&self) -> End {
        *lock(&self.visible)
    }

    pub(crate) fn show(&self, end: End) {
        *lock(&self.visible) = end;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.visible().position == self.header.first
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Gives back the space behind the content. Only saves room, so failing is no failure.
    pub(crate) fn trim(&self) {
        let end = self.visible().offset;
        match self.file.set_len(end) {
            Ok(()) => self.bytes.store(end, Ordering::Relaxed),
            Err(error) => {
                tracing::warn!(file = %self.path.display(), %error, "could not trim segment")
            }
        }
    }
}

/// How far the journal reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    /// Behind the last record there is.
    pub end: Position,
    /// What the next record gets: mostly the same.
    pub next: Position,
}

/// The journal's segments, oldest first. All but the last are complete.
#[derive(Default)]
pub(crate) struct Segments {
    pub list: VecDeque<Arc<Segment>>,
    /// A released file waiting to be written over: its blocks are already allocated and written,
    /// so syncing into it changes no metadata.
    pub spare: Option<Spare>,
}

/// Its name is its own, so that the writer may take one while another is being released.
pub(crate) struct Spare {
    file: File,
    path: PathBuf,
}

impl Segments {
    /// The segment that holds `position`, or the first record after it.
    pub(crate) fn find(&self, position: Position) -> Option<Arc<Segment>> {
        let at = self.list.partition_point(|one| one.visible().position <= position);
        self.list.get(at).filter(|one| !one.is_empty()).cloned()
    }

    /// Nothing is missing from here on: positions between two segments never held a record.
    pub(crate) fn oldest(&self) -> Position {
        self.list.front().map_or(Position::START, |one| one.header.previous.position)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.list.iter().map(|one| one.bytes()).sum()
    }

    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare
            .as_ref()
            .and_then(|spare| spare.file.metadata().ok())
            .map_or(0, |found| found.len())
    }
}

pub(crate) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:020}{SUFFIX}"))
}

/// Numbers of the segments in a folder, ascending and without a gap.
pub(crate) fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let numbers = all_numbers(folder)?;
    match numbers.windows(2).find(|pair| pair[1] - pair[0] != 1) {
        Some(pair) => Err(Error::Missing { file: path(folder, pair[0] + 1) }),
        None => Ok(numbers),
    }
}

pub(crate) fn all_numbers(folder: &Path) -> Result<Vec<u64>> {
    let failed = Error::io("list the journal's folder");
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        let number = digits.and_then(|digits| digits.parse::<u64>().ok());
        // Only names this code would give.
        numbers.extend(number.filter(|number| path(folder, *number).ends_with(&name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens a segment and reads its header.
pub(crate) fn open(folder: &Path, number: u64, options: &OpenOptions) -> Result<Segment> {
    let path = path(folder, number);
    let failed = Error::io("open a journal segment");
    let file = options.open(&path).map_err(&failed)?;
    let bytes = file.metadata().map_err(&failed)?.len();
    let mut block = vec![0; bytes.min(HEADER_BYTES) as usize];
    file.read_exact_at(&mut block, 0).map_err(Error::io("read a journal segment"))?;
    match SegmentHeader::decode(&block) {
        Ok(header) if header.number == number => Ok(Segment::new(header, file, path, bytes)),
        Ok(header) => Err(damaged_header(
            path,
            bytes,
            format!("segment number {number}"),
            header.number.to_string(),
        )),
        Err(HeaderFault::Damaged { expected, actual }) => {
            Err(damaged_header(path, bytes, expected, actual))
        }
        Err(HeaderFault::Version(found)) => {
            Err(Error::Version { file: path, found, known: VERSION })
        }
    }
}

pub(crate) fn damaged_header(file: PathBuf, bytes: u64, expected: String, actual: String) -> Error {
    let position = Position::from_u64(0);
    let damage = Damage { file, offset: 0, position, expected, actual, bytes_behind: bytes };
    Error::Corrupt(Box::new(damage))
}

/// A segment is made in three steps, each durable before the next: content here, then name and
/// folder in `publish`. So a segment's name never stands before a header, whenever the power goes.
/// The second is how far its blocks have been written before.
pub(crate) fn prepare(
    storage: &dyn Storage,
    folder: &Path,
    header: &SegmentHeader,
    capacity: u64,
    spare: Option<Spare>,
) -> Result<(File, u64)> {
    let fresh = folder.join(FRESH);
    let fill = || -> io::Result<(File, u64)> {
        let file = match spare {
            Some(spare) => {
                fs::rename(&spare.path, &fresh)?;
                spare.file
            }
            None => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).truncate(true).open(&fresh)?
            }
        };
        let written = file.metadata()?.len();
        storage.allocate(&file, capacity)?;
        write_all(storage, &file, &mut [IoSlice::new(&header.encode())], 0)?;
        storage.sync(&file)?;
        Ok((file, written))
    };
    fill().map_err(|error| {
        // The space may be what the next attempt needs.
        let _ = fs::remove_file(folder.join(FRESH));
        Error::io("create a journal segment")(error)
    })
}

/// Gives the prepared segment its name. Once this was tried, the header may be found after a crash,
/// so what it says about the segment before has to stay true.
pub(crate) fn publish(
    storage: &dyn Storage,
    folder: &Path,
    header: SegmentHeader,
    file: File,
    capacity: u64,
) -> Result<Segment> {
    let failed = Error::io("name a journal segment");
    let path = path(folder, header.number);
    fs::rename(folder.join(FRESH), &path).map_err(&failed)?;
    storage.sync_folder(folder).map_err(&failed)?;
    Ok(Segment::new(header, file, path, capacity))
}

/// Takes a released segment's name away, durably; the file stays under another.
pub(crate) fn retire(storage: &dyn Storage, folder: &Path, segment: &Segment) -> Result<()> {
    unname(storage, folder, fs::rename(&segment.path, spare_path(segment)))
}

pub(crate) fn remove(storage: &dyn Storage, folder: &Path, segment: &Segment) -> Result<()> {
    unname(storage, folder, fs::remove_file(&segment.path))
}

fn unname(storage: &dyn Storage, folder: &Path, done: io::Result<()>) -> Result<()> {
    let failed = Error::io("release a journal segment");
    match done {
        // An earlier attempt came this far and could not sync.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other.map_err(&failed)?,
    }
    storage.sync_folder(folder).map_err(&failed)
}

/// What becomes of a retired segment: the spare, unless a reader is still in it, whose bytes must
/// stay as they are.
pub(crate) fn reuse(segment: Arc<Segment>) -> Option<Spare> {
    let path = spare_path(&segment);
    let spare =
        Arc::into_inner(segment).map(|segment| Spare { file: segment.file, path: path.clone() });
    if spare.is_none()
        && let Err(error) = fs::remove_file(path)
    {
        tracing::warn!(%error, "could not remove a released journal segment");
    }
    spare
}

fn spare_path(segment: &Segment) -> PathBuf {
    segment.path.with_extension(&SPARE_SUFFIX[1..])
}

/// Removes what an unclean stop left behind.
pub(crate) fn sweep(folder: &Path) -> Result<()> {
    let failed = Error::io("remove a temporary journal file");
    for entry in fs::read_dir(folder).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SPARE_SUFFIX));
        let number = number.and_then(|number| number.parse().ok());
        // Only by the very name that a segment's spare has: others' files are left alone.
        let is_spare = number.is_some_and(|number| {
            path(folder, number).with_extension(&SPARE_SUFFIX[1..]).ends_with(&name)
        });
        if name == FRESH || is_spare {
            fs::remove_file(entry.path()).map_err(&failed)?;
        }
    }
    Ok(())
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these mutexes guard is replaced in one assignment, so a panic leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
