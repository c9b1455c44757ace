//! Recovery: opens a journal after a crash, and tells a torn write from corruption.
//!
//! Every segment but the last must be intact up to the end that its successor's header names. In the
//! last segment, the first group with a wrong checksum ends the journal if it can be a torn write,
//! and is corruption otherwise. A group is written only after the bytes that its `synced to` covers
//! were synced. So if a later group has a `synced to` beyond the bad group, the bad group had been
//! durable and perhaps acknowledged; opening then fails.
//!
//! Opening also fails if the last segment is shorter than its allocated size and ends inside or right
//! after a group: no crash truncates a file.
//!
//! Recovery rewrites and syncs the tail of the last segment, from the last `synced to` on, before any
//! reader sees it: after a failed sync the kernel may hold pages that only look clean.

use std::fs::OpenOptions;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use crate::files::cursor::Fault;
use crate::files::format::{End, GROUP_BYTES, GROUP_MAGIC, GroupHeader, HEADER_BYTES};
use crate::files::scan::{Scan, ScanItem, WINDOW_BYTES, read_at};
use crate::files::segment::{self, LogEnd, Segment, Segments, corrupt_header};
use crate::files::storage::{Storage, write_all};
use crate::{Corruption, Durability, Error, Position, Result};

pub(crate) struct Recovered {
    pub segments: Segments,
    pub log_end: LogEnd,
}

/// `None` for a directory without a journal.
pub(crate) fn recover(storage: &dyn Storage, dir: &Path) -> Result<Option<Recovered>> {
    segment::sweep(dir)?;
    let segments = open_all(dir, OpenOptions::new().read(true).write(true))?;
    let Some(last) = segments.last().cloned() else { return Ok(None) };
    check_complete(&segments)?;

    let tail = read_tail(&last)?;
    rewrite(storage, &last, tail.synced_to, tail.end.offset)?;
    last.set_visible(tail.end);
    // Positions may have skipped ahead at the start of the last segment.
    let end = if last.is_empty() { last.header.previous.position } else { tail.end.position };
    let log_end = LogEnd { end, next: tail.next(&last) };
    Ok(Some(Recovered { segments: Segments { list: segments.into(), spare: None }, log_end }))
}

/// Opens all segments of a directory and checks that their headers agree with each other.
pub(crate) fn open_all(dir: &Path, options: &OpenOptions) -> Result<Vec<Arc<Segment>>> {
    let segments: Vec<Arc<Segment>> = segment::numbers(dir)?
        .into_iter()
        .map(|number| segment::open(dir, number, options).map(Arc::new))
        .collect::<Result<_>>()?;
    for pair in segments.windows(2) {
        let (previous, next) = (&pair[0].header, &pair[1].header);
        let checks = [
            (
                previous.journal == next.journal,
                previous.journal.to_string(),
                next.journal.to_string(),
            ),
            (
                next.previous.position >= previous.first,
                format!("the previous segment to end at position {} or later", previous.first),
                next.previous.position.to_string(),
            ),
        ];
        if let Some((_, expected, actual)) = checks.into_iter().find(|(holds, _, _)| !holds) {
            return Err(corrupt_header(pair[1].path.clone(), pair[1].bytes(), expected, actual));
        }
    }
    Ok(segments)
}

/// Checks all segments but the last, and makes them visible up to the end that their successor names.
fn check_complete(segments: &[Arc<Segment>]) -> Result<()> {
    for (index, pair) in segments.windows(2).enumerate() {
        let end = pair[1].header.previous;
        let later_bytes =
            || segments[index + 1..].iter().map(|segment| segment.bytes()).sum::<u64>();
        read_complete(&pair[0], end).map_err(|failure| match failure {
            ReadFailure::Corrupt(fault) => {
                corruption_at(&pair[0], fault, end.offset, later_bytes())
            }
            ReadFailure::Io(error) => error,
        })?;
        pair[0].set_visible(end);
    }
    Ok(())
}

enum ReadFailure {
    Corrupt(Fault),
    Io(Error),
}

fn read_complete(segment: &Arc<Segment>, end: End) -> Result<(), ReadFailure> {
    let mut scan = Scan::new(segment.clone(), end.offset);
    loop {
        match scan.next().map_err(ReadFailure::Io)? {
            ScanItem::Group { .. } | ScanItem::Record { .. } => {}
            ScanItem::Bad(fault) => return Err(ReadFailure::Corrupt(fault)),
            ScanItem::End(actual) if actual == end => return Ok(()),
            ScanItem::End(actual) => return Err(ReadFailure::Corrupt(wrong_end(actual, end))),
        }
    }
}

/// The fault of a segment whose content does not end where its successor says.
pub(crate) fn wrong_end(actual: End, end: End) -> Fault {
    Fault {
        cut: actual,
        offset: actual.offset,
        expected: format!("position {} at byte {}", end.position, end.offset),
        actual: format!("position {}", actual.position),
    }
}

pub(crate) fn corruption_at(
    segment: &Segment,
    fault: Fault,
    limit: u64,
    later_bytes: u64,
) -> Error {
    Error::Corrupt(Box::new(Corruption {
        file: segment.path.clone(),
        offset: fault.offset,
        position: fault.cut.position,
        expected: fault.expected,
        actual: fault.actual,
        bytes_after: limit.saturating_sub(fault.offset).saturating_add(later_bytes),
    }))
}

/// The end of the last segment's content.
pub(crate) struct Tail {
    pub end: End,
    /// Offset up to which the segment is known to be synced.
    synced_to: u64,
    /// Whether the journal was closed cleanly: its last group has no records.
    clean: bool,
}

impl Tail {
    /// Without fsync, a power failure may have lost records that readers already saw. Their positions
    /// must not be reused, so skip as many as the file has bytes: it held fewer records.
    fn next(&self, segment: &Segment) -> Position {
        match segment.header.durability {
            Durability::Os if !self.clean => self.end.position.plus(segment.bytes()),
            _ => self.end.position,
        }
    }
}

/// Finds the end of the last segment.
pub(crate) fn read_tail(segment: &Arc<Segment>) -> Result<Tail> {
    let limit = segment.bytes();
    let mut scan = Scan::new(segment.clone(), limit);
    // The last two groups: if the last is torn, the one before it counts.
    let mut groups: [Option<(End, GroupHeader)>; 2] = [None, None];
    let (end, fault) = loop {
        match scan.next()? {
            ScanItem::Group { start, header } => groups = [groups[1], Some((start, header))],
            ScanItem::Record { .. } => {}
            ScanItem::End(end) => break (end, None),
            ScanItem::Bad(fault) => break (fault.cut, Some(fault)),
        }
    };
    if let Some(fault) = fault {
        if let Some(proof) = synced_beyond(segment, end, limit)? {
            return Err(corruption_at(segment, fault, proof, 0));
        }
        // A valid header means that a group was started; anything else is unused space.
        if fault.offset > end.offset {
            tracing::warn!(
                file = %segment.path.display(),
                offset = end.offset,
                position = %end.position,
                "the journal's last write is torn and was discarded"
            );
        }
    }
    let intact = groups.into_iter().flatten().rfind(|(start, _)| start.offset < end.offset);
    let (synced_to, clean) = intact.map_or((HEADER_BYTES, false), |(start, header)| {
        (header.synced_to.clamp(HEADER_BYTES, start.offset), header.records == 0)
    });
    if !clean && is_truncated(segment, end, limit)? {
        let (file, position) = (segment.path.clone(), end.position);
        return Err(Error::Truncated { file, bytes: limit, position });
    }
    Ok(Tail { end, synced_to, clean })
}

/// Whether the file is shorter than what was written to it. A torn write does not change the file's
/// length, and unwritten space after the last group does not decode as a group.
pub(crate) fn is_truncated(segment: &Segment, end: End, limit: u64) -> Result<bool> {
    let block = read_at(&segment.file, end.offset, GROUP_BYTES)?;
    let Some(block) = block.first_chunk::<GROUP_BYTES>() else {
        return Ok(limit < segment.header.allocated);
    };
    let next = GroupHeader::decode(block, segment.header.salt(), end.offset);
    Ok(next.is_ok_and(|next| {
        let next_end = end.offset + GROUP_BYTES as u64 + u64::from(next.bytes);
        next.first == end.position && next_end > limit
    }))
}

/// The end of a later group that proves that the bytes at `cut` had been synced.
fn synced_beyond(segment: &Segment, cut: End, limit: u64) -> Result<Option<u64>> {
    let salt = segment.header.salt();
    let mut at = cut.offset + 1;
    while at + GROUP_BYTES as u64 <= limit {
        let bytes = (limit - at).min(WINDOW_BYTES as u64) as usize;
        let window = read_at(&segment.file, at, bytes)?;
        for (index, block) in window.windows(GROUP_BYTES).enumerate() {
            let Some(block) = block.first_chunk().filter(|block| block.starts_with(GROUP_MAGIC))
            else {
                continue;
            };
            let offset = at + index as u64;
            match GroupHeader::decode(block, salt, offset) {
                Ok(header) if header.synced_to > cut.offset => {
                    let end = offset + GROUP_BYTES as u64 + u64::from(header.bytes);
                    return Ok(Some(end.min(limit)));
                }
                _ => {}
            }
        }
        if window.len() < GROUP_BYTES {
            break;
        }
        at += (window.len() - GROUP_BYTES + 1) as u64;
    }
    Ok(None)
}

/// Writes a range of the file again and syncs it: the page cache has it, the disk perhaps not.
pub(crate) fn rewrite(storage: &dyn Storage, segment: &Segment, from: u64, to: u64) -> Result<()> {
    let failed = Error::io("rewrite the journal's tail");
    let mut at = from;
    while at < to {
        let bytes = read_at(&segment.file, at, (to - at).min(WINDOW_BYTES as u64) as usize)?;
        if bytes.is_empty() {
            break;
        }
        write_all(storage, &segment.file, &mut [IoSlice::new(&bytes)], at).map_err(&failed)?;
        at += bytes.len() as u64;
    }
    storage.sync(&segment.file).map_err(&failed)
}
