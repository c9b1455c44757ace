//! Survey: reads every intact record of a journal, past any corruption, to report or salvage them.
//!
//! Recovery stops at the first corruption; a survey continues at the next group with a valid
//! checksum. Each record's checksum covers its position, so a record that passes was appended at that
//! position. A survey takes no lock and changes nothing. While a server runs, files may disappear and
//! the last one may change during the survey; a caller that finds corruption then should repeat it.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::files::format::{
    End, FRAME_BYTES, GROUP_BYTES, GROUP_MAGIC, GroupHeader, HEADER_BYTES, HeaderFault, Salt,
    SegmentHeader, VERSION, u32_at,
};
use crate::files::recover::is_truncated;
use crate::files::scan::{WINDOW_BYTES, read_at};
use crate::files::segment::{self, Segment, corrupt_header};
use crate::{Corruption, Durability, Error, JournalId, Position, Result};

/// Faults that are reported at most.
const FAULTS_MAX: usize = 1_000;

/// The content of a journal's directory.
#[derive(Clone, Debug)]
pub struct Survey {
    /// None for a directory without a journal, or without any readable header.
    pub id: Option<JournalId>,
    pub segments: usize,
    pub records: u64,
    pub record_bytes: u64,
    /// From here on, every record is readable except those in `lost`.
    pub oldest: Position,
    /// The position after the last record.
    pub end: Position,
    /// The position that the next record would get.
    pub next: Position,
    /// Positions whose records cannot be read.
    pub lost: Vec<Range<u64>>,
    /// One per corrupted range, at most 1,000.
    pub faults: Vec<Error>,
}

/// A segment file, with its header if that is readable.
struct SegmentFile {
    number: u64,
    path: PathBuf,
    file: File,
    bytes: u64,
    header: Option<SegmentHeader>,
    salt: Salt,
    first: Option<Position>,
}

/// Whether a directory holds segments of a journal.
pub fn is_present(dir: &Path) -> Result<bool> {
    Ok(dir.is_dir() && !segment::all_numbers(dir)?.is_empty())
}

/// Fails with [`Error::Version`] if a newer release wrote any segment. Changes nothing.
pub fn check_version(dir: &Path) -> Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for number in segment::all_numbers(dir)? {
        // Opening the journal reports every other fault.
        let opened = segment::open(dir, number, OpenOptions::new().read(true));
        if let Err(error @ Error::Version { .. }) = opened {
            return Err(error);
        }
    }
    Ok(())
}

/// Calls `each` for every readable record, in the order of positions. `id` is assumed as the
/// journal's if no header is readable.
pub fn survey(
    dir: &Path,
    id: Option<JournalId>,
    mut each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<Survey> {
    let mut survey = Survey {
        id: None,
        segments: 0,
        records: 0,
        record_bytes: 0,
        oldest: Position::START,
        end: Position::START,
        next: Position::START,
        lost: Vec::new(),
        faults: Vec::new(),
    };
    if !dir.is_dir() {
        return Ok(survey);
    }
    let segments = open_all(dir, id, &mut survey)?;
    survey.segments = segments.len();
    let Some(front) = segments.first() else { return Ok(survey) };
    let front = front.header.map(|header| header.previous.position).or(front.first);
    survey.oldest = front.unwrap_or(Position::START);
    (survey.end, survey.next) = (survey.oldest, survey.oldest);
    for (index, segment) in segments.iter().enumerate() {
        let next = segments.get(index + 1).filter(|next| next.number == segment.number + 1);
        let later = &segments[index + 1..];
        // A failed group may have the positions of a later segment: the later one counts.
        let ceiling = later.iter().filter_map(|segment| segment.first).min();
        let walk = Walk {
            segment,
            until: next.and_then(|next| next.header).map(|header| header.previous),
            ceiling: ceiling.map_or(u64::MAX, Position::as_u64),
            is_last: later.is_empty(),
        };
        walk.run(&mut survey, &mut each)?;
    }
    Ok(survey)
}

impl Survey {
    fn fault(&mut self, error: Error) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(error);
        }
    }

    fn lose(&mut self, from: u64, to: u64) {
        match self.lost.last_mut() {
            _ if from >= to => {}
            Some(last) if last.end == from => last.end = to,
            _ => self.lost.push(from..to),
        }
    }
}

fn open_all(dir: &Path, id: Option<JournalId>, survey: &mut Survey) -> Result<Vec<SegmentFile>> {
    let mut opened = Vec::new();
    let mut before = None;
    for number in segment::all_numbers(dir)? {
        if let Some(before) = before.filter(|before| before + 1 != number) {
            survey.fault(Error::Missing { file: segment::path(dir, before + 1) });
        }
        before = Some(number);
        let path = segment::path(dir, number);
        let file = match File::open(&path) {
            Ok(file) => file,
            // Released since the directory was listed, by a running server.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("open a journal segment")(error)),
        };
        let bytes = file.metadata().map_err(Error::io("open a journal segment"))?.len();
        let block = read_at(&file, 0, HEADER_BYTES as usize)?;
        let header = match SegmentHeader::decode(&block) {
            Ok(header) if header.number == number => Some(header),
            Ok(header) => {
                let (expected, actual) = (format!("segment number {number}"), header.number);
                survey.fault(corrupt_header(path.clone(), bytes, expected, actual.to_string()));
                None
            }
            Err(HeaderFault::Damaged { expected, actual }) => {
                survey.fault(corrupt_header(path.clone(), bytes, expected, actual));
                None
            }
            Err(HeaderFault::Version(found)) => {
                return Err(Error::Version { file: path, found, known: VERSION });
            }
        };
        opened.push((number, path, file, bytes, header));
    }
    survey.id = opened.iter().find_map(|(.., header)| header.map(|header| header.journal)).or(id);
    // Checksums are salted with the id: without it none can be verified.
    let Some(id) = survey.id else { return Ok(Vec::new()) };
    let mut segments = Vec::with_capacity(opened.len());
    for (number, path, file, bytes, header) in opened {
        if let Some(other) = header.filter(|header| header.journal != id) {
            survey.fault(corrupt_header(path, bytes, id.to_string(), other.journal.to_string()));
            continue;
        }
        let salt = Salt::of(id, number);
        let mut segment = SegmentFile { number, path, file, bytes, header, salt, first: None };
        segment.first = match header {
            Some(header) => Some(header.first),
            None => next_group(&segment, HEADER_BYTES, bytes, |_, _| true)?
                .map(|(_, group)| group.first),
        };
        segments.push(segment);
    }
    Ok(segments)
}

/// The first valid group header from `at` on and before `limit`.
fn next_group(
    segment: &SegmentFile,
    mut at: u64,
    limit: u64,
    fits: impl Fn(u64, &GroupHeader) -> bool,
) -> Result<Option<(u64, GroupHeader)>> {
    while at + GROUP_BYTES as u64 <= limit {
        let bytes = (limit - at).min(WINDOW_BYTES as u64) as usize;
        let window = read_at(&segment.file, at, bytes)?;
        for (index, block) in window.windows(GROUP_BYTES).enumerate() {
            let Some(block) = block.first_chunk().filter(|block| block.starts_with(GROUP_MAGIC))
            else {
                continue;
            };
            let offset = at + index as u64;
            if let Ok(header) = GroupHeader::decode(block, segment.salt, offset)
                && fits(offset, &header)
            {
                return Ok(Some((offset, header)));
            }
        }
        if window.len() < GROUP_BYTES {
            break;
        }
        at += (window.len() - GROUP_BYTES + 1) as u64;
    }
    Ok(None)
}

/// The survey of one segment.
struct Walk<'a> {
    segment: &'a SegmentFile,
    /// Its end, according to its successor.
    until: Option<End>,
    ceiling: u64,
    is_last: bool,
}

/// The readable content of a group.
struct Content {
    frames: Vec<u8>,
    records: Vec<(Position, Range<usize>)>,
    lost: Vec<Range<u64>>,
    faults: Vec<Error>,
}

impl Walk<'_> {
    fn run(
        &self,
        survey: &mut Survey,
        each: &mut impl FnMut(Position, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let source = self.segment;
        let Some(first) = source.first else { return Ok(()) };
        // Positions between two segments never held a record, unless the previous one is corrupted.
        let before = source.header.map_or(first, |header| header.previous.position);
        survey.lose(survey.end.as_u64(), before.as_u64());
        survey.end = survey.end.max(before);

        let limit = self.until.map_or(source.bytes, |until| until.offset.min(source.bytes));
        let mut at = End { offset: HEADER_BYTES, position: first };
        let mut clean = false;
        while let Some((start, group)) = self.group(at, limit)? {
            let from = at.position.as_u64();
            let begins = group.first.as_u64();
            if begins >= self.ceiling {
                break;
            }
            if start > at.offset || begins > from {
                let actual = format!("position {begins} at byte {start}");
                let bytes_after = start - at.offset;
                survey.fault(self.corruption(at.offset, from, "a group", actual, bytes_after));
                survey.lose(from, begins);
            }
            let after = End {
                offset: start + GROUP_BYTES as u64 + u64::from(group.bytes),
                position: group.first.plus(u64::from(group.records)),
            };
            let content = self.read(start, &group)?;
            let is_final = self.is_last && self.group(after, limit)?.is_none();
            let is_cut = after.offset > limit;
            // A fault in the very last group is a torn write, which was never acknowledged.
            if is_final && !is_cut && !content.faults.is_empty() {
                at = End { offset: start, position: group.first };
                break;
            }
            for (position, range) in &content.records {
                each(*position, &content.frames[range.clone()])?;
                survey.records += 1;
                survey.record_bytes += range.len() as u64;
            }
            content.lost.iter().for_each(|lost| survey.lose(lost.start, lost.end));
            let reached = Position::from_u64(after.position.as_u64().min(self.ceiling));
            survey.end = survey.end.max(reached);
            if is_final && is_cut {
                // `tail` reports the truncated file once.
                at = End { offset: start, position: group.first };
                break;
            }
            content.faults.into_iter().for_each(|fault| survey.fault(fault));
            clean = group.records == 0;
            at = after;
        }
        if let Some(until) = self.until
            && at.position < until.position
        {
            let expected = format!("position {} at byte {}", until.position, until.offset);
            let (from, bytes_after) =
                (at.position.as_u64(), until.offset.saturating_sub(at.offset));
            let actual = format!("position {from}");
            survey.fault(self.corruption(at.offset, from, &expected, actual, bytes_after));
            survey.lose(from, until.position.as_u64());
            survey.end = survey.end.max(until.position);
        }
        survey.next = survey.next.max(survey.end).max(first);
        if self.is_last { self.tail(at, clean, survey) } else { Ok(()) }
    }

    /// The group at `at`, or the next valid one after it. In the last segment only a group that
    /// proves that the bytes before it had been synced: see `recover`.
    fn group(&self, at: End, limit: u64) -> Result<Option<(u64, GroupHeader)>> {
        next_group(self.segment, at.offset, limit, |start, group| {
            let proven = start == at.offset || !self.is_last || group.synced_to > at.offset;
            proven && group.first >= at.position
        })
    }

    fn read(&self, start: u64, group: &GroupHeader) -> Result<Content> {
        let body = start + GROUP_BYTES as u64;
        let there = self.segment.bytes.saturating_sub(body).min(u64::from(group.bytes));
        let frames = read_at(&self.segment.file, body, there as usize)?;
        let (mut records, mut lost, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        let (mut at, first) = (0, group.first.as_u64());
        let end = (first + u64::from(group.records)).min(self.ceiling);
        for position in first..end {
            let offset = body + at as u64;
            let rest = &frames[at..];
            let length = rest.get(..FRAME_BYTES).map(|frame| u32_at(frame, 0));
            let frame = length.map(|length| FRAME_BYTES + length as usize);
            let Some(frame) = frame.filter(|frame| *frame <= rest.len()) else {
                let actual = format!("length {}", length.unwrap_or_default());
                let bytes_after = rest.len() as u64;
                faults.push(self.corruption(offset, position, "a record", actual, bytes_after));
                lost.push(position..end);
                break;
            };
            let (range, record_position) =
                (at + FRAME_BYTES..at + frame, Position::from_u64(position));
            let plain = crc32c::crc32c(&frames[range.clone()]);
            let expected =
                self.segment.salt.frame_checksum(plain, range.len() as u32, record_position);
            let actual = u32_at(rest, 4);
            at += frame;
            if expected == actual {
                records.push((record_position, range));
            } else {
                let (expected, actual) =
                    (format!("record checksum {expected:08x}"), format!("{actual:08x}"));
                faults.push(self.corruption(offset, position, &expected, actual, frame as u64));
                lost.push(position..position + 1);
            }
        }
        Ok(Content { frames, records, lost, faults })
    }

    /// Checks the end of the last segment.
    fn tail(&self, end: End, clean: bool, survey: &mut Survey) -> Result<()> {
        let source = self.segment;
        let Some(header) = source.header else { return Ok(()) };
        let file = source.file.try_clone().map_err(Error::io("read a journal segment"))?;
        let segment = Segment::new(header, file, source.path.clone(), source.bytes);
        if !clean && is_truncated(&segment, end, source.bytes)? {
            let (file, bytes) = (source.path.clone(), source.bytes);
            survey.fault(Error::Truncated { file, bytes, position: end.position });
        }
        if header.durability == Durability::Os && !clean {
            survey.next = survey.next.max(end.position.plus(source.bytes));
        }
        Ok(())
    }

    fn corruption(
        &self,
        offset: u64,
        position: u64,
        expected: &str,
        actual: String,
        bytes_after: u64,
    ) -> Error {
        Error::Corrupt(Box::new(Corruption {
            file: self.segment.path.clone(),
            offset,
            position: Position::from_u64(position),
            expected: expected.to_owned(),
            actual,
            bytes_after,
        }))
    }
}

/// Total size of the files in a journal's directory.
pub fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
