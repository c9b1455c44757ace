//! What a folder holds, after whatever happened to it.
//!
//! Every segment but the last must be whole up to the end its successor's header names. In the last
//! one the first group that does not check ends the journal if it can be a torn write, and is
//! damage otherwise. A group is written only after the bytes its `synced to` covers were synced; so
//! if any later group is found whose `synced to` lies beyond the bad one, the bad one had been on
//! disk, possibly acknowledged, and opening is refused.
//!
//! A last segment that is shorter than it was allocated, and ends in or right behind a group, was cut
//! by something else than a crash: that is refused as well.
//!
//! What is kept of the last segment is written again from the last `synced to` on, and synced,
//! before anyone sees it: a sync that failed may have left pages which only look clean in memory.

use std::fs::OpenOptions;
use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use crate::cursor::Fault;
use crate::format::{End, GROUP_BYTES, GROUP_MAGIC, GroupHeader, HEADER_BYTES};
use crate::scan::{Found, Scan, WINDOW_BYTES, read_at};
use crate::segment::{self, Extent, Segment, Segments, damaged_header};
use crate::storage::{Storage, write_all};
use crate::{Damage, Durability, Error, Position, Result};

pub(crate) struct Recovered {
    pub segments: Segments,
    pub extent: Extent,
}

/// `None` for a folder without a journal.
pub(crate) fn recover(storage: &dyn Storage, folder: &Path) -> Result<Option<Recovered>> {
    segment::sweep(folder)?;
    let segments = open_all(folder, OpenOptions::new().read(true).write(true))?;
    let Some(last) = segments.last().cloned() else { return Ok(None) };
    check_complete(&segments)?;

    let tail = read_tail(&last)?;
    rewrite(storage, &last, tail.synced_to, tail.end.offset)?;
    last.show(tail.end);
    // Positions may have jumped at the start of the last segment.
    let end = if last.is_empty() { last.header.previous.position } else { tail.end.position };
    let extent = Extent { end, next: tail.next(&last) };
    Ok(Some(Recovered { segments: Segments { list: segments.into(), spare: None }, extent }))
}

/// All segments of a folder, their headers in accord with each other.
pub(crate) fn open_all(folder: &Path, options: &OpenOptions) -> Result<Vec<Arc<Segment>>> {
    let segments: Vec<Arc<Segment>> = segment::numbers(folder)?
        .into_iter()
        .map(|number| segment::open(folder, number, options).map(Arc::new))
        .collect::<Result<_>>()?;
    for pair in segments.windows(2) {
        let (one, next) = (&pair[0].header, &pair[1].header);
        let faults = [
            (one.journal == next.journal, one.journal.to_string(), next.journal.to_string()),
            (
                next.previous.position >= one.first,
                format!("an end of the previous segment from position {} on", one.first),
                next.previous.position.to_string(),
            ),
        ];
        if let Some((_, expected, actual)) = faults.into_iter().find(|(holds, _, _)| !holds) {
            return Err(damaged_header(pair[1].path.clone(), pair[1].bytes(), expected, actual));
        }
    }
    Ok(segments)
}

/// Reads all segments but the last, and shows them up to the end their successor names.
fn check_complete(segments: &[Arc<Segment>]) -> Result<()> {
    for (index, pair) in segments.windows(2).enumerate() {
        let end = pair[1].header.previous;
        let behind = || segments[index + 1..].iter().map(|one| one.bytes()).sum::<u64>();
        read_complete(&pair[0], end).map_err(|fault| match fault {
            Stop::Fault(fault) => damage(&pair[0], fault, end.offset, behind()),
            Stop::Error(error) => error,
        })?;
        pair[0].show(end);
    }
    Ok(())
}

enum Stop {
    Fault(Fault),
    Error(Error),
}

fn read_complete(segment: &Arc<Segment>, end: End) -> Result<(), Stop> {
    let mut scan = Scan::new(segment.clone(), end.offset);
    loop {
        match scan.next().map_err(Stop::Error)? {
            Found::Group { .. } | Found::Record { .. } => {}
            Found::Bad(fault) => return Err(Stop::Fault(fault)),
            Found::End(found) if found == end => return Ok(()),
            Found::End(found) => return Err(Stop::Fault(ends_elsewhere(found, end))),
        }
    }
}

/// A segment's content does not end where its successor says.
pub(crate) fn ends_elsewhere(found: End, end: End) -> Fault {
    Fault {
        cut: found,
        offset: found.offset,
        expected: format!("position {} at byte {}", end.position, end.offset),
        actual: format!("position {}", found.position),
    }
}

pub(crate) fn damage(segment: &Segment, fault: Fault, limit: u64, later_bytes: u64) -> Error {
    Error::Corrupt(Box::new(Damage {
        file: segment.path.clone(),
        offset: fault.offset,
        position: fault.cut.position,
        expected: fault.expected,
        actual: fault.actual,
        bytes_behind: limit.saturating_sub(fault.offset).saturating_add(later_bytes),
    }))
}

pub(crate) struct Tail {
    pub end: End,
    synced_to: u64,
    clean: bool,
}

impl Tail {
    /// Without fsync, a power cut may have taken records that were already delivered. Their
    /// positions must not come again, and the file has fewer records than bytes.
    fn next(&self, segment: &Segment) -> Position {
        match segment.header.durability {
            Durability::Os if !self.clean => self.end.position.plus(segment.bytes()),
            _ => self.end.position,
        }
    }
}

/// Where the last segment ends.
pub(crate) fn read_tail(segment: &Arc<Segment>) -> Result<Tail> {
    let limit = segment.bytes();
    let mut scan = Scan::new(segment.clone(), limit);
    // The last two groups begun: if the very last is torn, the one before it counts.
    let mut groups: [Option<(End, GroupHeader)>; 2] = [None, None];
    let (end, fault) = loop {
        match scan.next()? {
            Found::Group { start, header } => groups = [groups[1], Some((start, header))],
            Found::Record { .. } => {}
            Found::End(end) => break (end, None),
            Found::Bad(fault) => break (fault.cut, Some(fault)),
        }
    };
    if let Some(fault) = fault {
        if let Some(proof) = synced_beyond(segment, end, limit)? {
            return Err(damage(segment, fault, proof, 0));
        }
        // A header that checks says that a group was begun; anything else is unused space.
        if fault.offset > end.offset {
            tracing::warn!(
                file = %segment.path.display(),
                offset = end.offset,
                position = %end.position,
                "the journal's last write is torn and not used"
            );
        }
    }
    let whole = groups.into_iter().flatten().rfind(|(start, _)| start.offset < end.offset);
    let (synced_to, clean) = whole.map_or((HEADER_BYTES, false), |(start, header)| {
        (header.synced_to.clamp(HEADER_BYTES, start.offset), header.records == 0)
    });
    if !clean && is_cut_short(segment, end, limit)? {
        let (file, position) = (segment.path.clone(), end.position);
        return Err(Error::CutShort { file, bytes: limit, position });
    }
    Ok(Tail { end, synced_to, clean })
}

/// Whether the file ends before what was written to it. A torn write leaves the file's length alone,
/// and where nothing was written behind the last group, something else than a group stands there.
pub(crate) fn is_cut_short(segment: &Segment, end: End, limit: u64) -> Result<bool> {
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

/// The end of a later group which proves that the bytes at `cut` had been synced.
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

/// Makes bytes durable that are in memory and may or may not be on disk.
pub(crate) fn rewrite(storage: &dyn Storage, segment: &Segment, from: u64, to: u64) -> Result<()> {
    let failed = Error::io("secure the journal's tail");
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
