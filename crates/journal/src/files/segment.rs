//! Segment files: names, creation, release, and the list of live segments.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::files::format::{End, HEADER_BYTES, HeaderFault, SegmentHeader, VERSION};
use crate::files::storage::{Storage, write_all};
use crate::{Corruption, Error, Position, Result, lock};

const SUFFIX: &str = ".segment";
/// The name of a segment under construction, and the suffix of a released segment that is recycled
/// for its allocated blocks. Neither survives a restart.
const FRESH: &str = "fresh.tmp";
const SPARE_SUFFIX: &str = ".spare";

pub(crate) struct Segment {
    pub header: SegmentHeader,
    pub file: File,
    pub path: PathBuf,
    bytes: AtomicU64,
    /// The end of the durable content: readers must not pass it.
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

    pub(crate) fn set_visible(&self, end: End) {
        *lock(&self.visible) = end;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.visible().position == self.header.first
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Truncates the unused space after the content. Failure is only logged: it costs disk space.
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

/// The journal's high-water mark.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEnd {
    /// The position after the last durable record.
    pub end: Position,
    /// The position of the next record. Greater than `end` only after an unclean stop without fsync.
    pub next: Position,
}

/// The journal's segments, oldest first. All but the last are complete.
#[derive(Default)]
pub(crate) struct Segments {
    pub list: VecDeque<Arc<Segment>>,
    /// A released file to recycle. Its blocks are already written, so syncs update no metadata.
    pub spare: Option<Spare>,
}

/// Each has a name of its own, so that the writer can take one while another is released.
pub(crate) struct Spare {
    file: File,
    path: PathBuf,
}

impl Segments {
    /// The segment with the record at `position`, or with the first one after it.
    pub(crate) fn find(&self, position: Position) -> Option<Arc<Segment>> {
        let at = self.list.partition_point(|segment| segment.visible().position <= position);
        self.list.get(at).filter(|segment| !segment.is_empty()).cloned()
    }

    /// The oldest position that can be read. Positions between two segments never held a record.
    pub(crate) fn oldest(&self) -> Position {
        self.list.front().map_or(Position::START, |segment| segment.header.previous.position)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.list.iter().map(|segment| segment.bytes()).sum()
    }

    pub(crate) fn spare_bytes(&self) -> u64 {
        self.spare
            .as_ref()
            .and_then(|spare| spare.file.metadata().ok())
            .map_or(0, |metadata| metadata.len())
    }
}

pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}{SUFFIX}"))
}

/// Numbers of the segments in a directory, ascending. A gap is an error.
pub(crate) fn numbers(dir: &Path) -> Result<Vec<u64>> {
    let numbers = all_numbers(dir)?;
    match numbers.windows(2).find(|pair| pair[1] - pair[0] != 1) {
        Some(pair) => Err(Error::Missing { file: path(dir, pair[0] + 1) }),
        None => Ok(numbers),
    }
}

pub(crate) fn all_numbers(dir: &Path) -> Result<Vec<u64>> {
    let failed = Error::io("list the journal's directory");
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        let digits = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        let number = digits.and_then(|digits| digits.parse::<u64>().ok());
        // Accept only names in this code's own spelling.
        numbers.extend(number.filter(|number| path(dir, *number).ends_with(&name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Opens a segment and reads its header.
pub(crate) fn open(dir: &Path, number: u64, options: &OpenOptions) -> Result<Segment> {
    let path = path(dir, number);
    let failed = Error::io("open a journal segment");
    let file = options.open(&path).map_err(&failed)?;
    let bytes = file.metadata().map_err(&failed)?.len();
    let mut block = vec![0; bytes.min(HEADER_BYTES) as usize];
    file.read_exact_at(&mut block, 0).map_err(Error::io("read a journal segment"))?;
    match SegmentHeader::decode(&block) {
        Ok(header) if header.number == number => Ok(Segment::new(header, file, path, bytes)),
        Ok(header) => Err(corrupt_header(
            path,
            bytes,
            format!("segment number {number}"),
            header.number.to_string(),
        )),
        Err(HeaderFault::Damaged { expected, actual }) => {
            Err(corrupt_header(path, bytes, expected, actual))
        }
        Err(HeaderFault::Version(found)) => {
            Err(Error::Version { file: path, found, known: VERSION })
        }
    }
}

pub(crate) fn corrupt_header(file: PathBuf, bytes: u64, expected: String, actual: String) -> Error {
    let position = Position::from_u64(0);
    let damage = Corruption { file, offset: 0, position, expected, actual, bytes_after: bytes };
    Error::Corrupt(Box::new(damage))
}

/// Creates the file of a segment under a temporary name. The header is durable before `publish`
/// renames the file and syncs the directory, so a named segment always has a header, even after a
/// power failure. Also returns up to which offset the blocks were written before.
pub(crate) fn prepare(
    storage: &dyn Storage,
    dir: &Path,
    header: &SegmentHeader,
    capacity: u64,
    spare: Option<Spare>,
) -> Result<(File, u64)> {
    let fresh = dir.join(FRESH);
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
        // The next attempt may need the space.
        let _ = fs::remove_file(dir.join(FRESH));
        Error::io("create a journal segment")(error)
    })
}

/// Renames the prepared segment to its final name. Even if this fails, recovery may find the header,
/// so what it says about the previous segment must stay true.
pub(crate) fn publish(
    storage: &dyn Storage,
    dir: &Path,
    header: SegmentHeader,
    file: File,
    capacity: u64,
) -> Result<Segment> {
    let failed = Error::io("name a journal segment");
    let path = path(dir, header.number);
    fs::rename(dir.join(FRESH), &path).map_err(&failed)?;
    storage.sync_dir(dir).map_err(&failed)?;
    Ok(Segment::new(header, file, path, capacity))
}

/// Renames a released segment to a spare, durably.
pub(crate) fn retire(storage: &dyn Storage, dir: &Path, segment: &Segment) -> Result<()> {
    unname(storage, dir, fs::rename(&segment.path, spare_path(segment)))
}

pub(crate) fn remove(storage: &dyn Storage, dir: &Path, segment: &Segment) -> Result<()> {
    unname(storage, dir, fs::remove_file(&segment.path))
}

fn unname(storage: &dyn Storage, dir: &Path, done: io::Result<()>) -> Result<()> {
    let failed = Error::io("release a journal segment");
    match done {
        // An earlier attempt got this far and failed to sync.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other.map_err(&failed)?,
    }
    storage.sync_dir(dir).map_err(&failed)
}

/// Recycles a retired segment as the spare. Removes it instead while a reader still has it open,
/// since the spare's bytes get overwritten.
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

/// Removes temporary files and spares that an unclean stop left behind.
pub(crate) fn sweep(dir: &Path) -> Result<()> {
    let failed = Error::io("remove a temporary journal file");
    for entry in fs::read_dir(dir).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SPARE_SUFFIX));
        let number = number.and_then(|number| number.parse().ok());
        // Match the exact name of a spare: other files are not ours to remove.
        let is_spare = number.is_some_and(|number| {
            path(dir, number).with_extension(&SPARE_SUFFIX[1..]).ends_with(&name)
        });
        if name == FRESH || is_spare {
            fs::remove_file(entry.path()).map_err(&failed)?;
        }
    }
    Ok(())
}
