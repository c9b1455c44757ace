//! Salvage: writes the records that a survey can read into a new journal, at the same positions, so
//! that stores filled from the old journal continue with the new one.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::files::format::{End, GROUP_BYTES, GroupHeader, HEADER_BYTES, Salt, SegmentHeader};
use crate::files::segment;
use crate::files::survey::{Survey, survey};
use crate::{Batch, Durability, Error, JournalId, Position, Result};

/// Sizes at which a group and a segment are closed.
const GROUP_BYTES_MIN: usize = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 64 << 20;

/// The identity and the positions of the new journal.
#[derive(Clone, Copy, Debug)]
pub struct SalvageTarget {
    pub id: JournalId,
    /// Records before this are dropped. The new journal claims no gap from here on.
    pub oldest: Position,
    /// Later appends get this position or a greater one.
    pub next: Position,
}

/// The result of a salvage.
#[derive(Debug)]
pub struct SalvageOutcome {
    pub survey: Survey,
    /// Records in the new journal.
    pub records: u64,
    /// The position of the next record.
    pub next: Position,
}

/// Creates a journal in `to`, which must not exist, from the records that are readable in `from`. It
/// is durable when this returns.
pub fn salvage(from: &Path, to: &Path, target: SalvageTarget) -> Result<SalvageOutcome> {
    let failed = Error::io("write the salvaged journal");
    fs::create_dir(to).map_err(&failed)?;
    let mut out = SalvageWriter {
        dir: to.to_owned(),
        id: target.id,
        previous: End { offset: 0, position: target.oldest },
        number: 0,
        records: 0,
        open: None,
    };
    let survey_result = survey(from, Some(target.id), |position, record| {
        if position < target.oldest { Ok(()) } else { out.push(position, record) }
    })?;
    out.end_segment()?;
    let next = target.next.max(survey_result.next).max(out.previous.position);
    // An empty segment, as in a new journal: its header holds the position of the next record.
    out.begin(next, HEADER_BYTES)?;
    let SalvageWriter { open, records, .. } = out;
    if let Some(open) = open {
        open.file.sync_all().map_err(&failed)?;
    }
    File::open(to).and_then(|dir| dir.sync_all()).map_err(&failed)?;
    Ok(SalvageOutcome { survey: survey_result, records, next })
}

struct SalvageWriter {
    dir: PathBuf,
    id: JournalId,
    previous: End,
    number: u64,
    records: u64,
    open: Option<OpenSegment>,
}

struct OpenSegment {
    file: File,
    salt: Salt,
    /// The end of the last group written.
    end: End,
    group: Batch,
}

impl SalvageWriter {
    fn push(&mut self, position: Position, record: &[u8]) -> Result<()> {
        let fits = self.open.as_ref().is_some_and(|open| {
            open.end.position.plus(open.group.len() as u64) == position
                && open.end.offset < SEGMENT_BYTES_MIN
        });
        if !fits {
            self.end_segment()?;
            self.begin(position, 0)?;
        }
        if let Some(open) = &mut self.open {
            open.group.push(record);
            self.records += 1;
            if open.group.bytes() >= GROUP_BYTES_MIN {
                open.write_group()?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, first: Position, allocated: u64) -> Result<()> {
        self.number += 1;
        let header = SegmentHeader {
            journal: self.id,
            number: self.number,
            first,
            previous: self.previous,
            durability: Durability::Fsync,
            allocated,
        };
        let failed = Error::io("write the salvaged journal");
        let path = segment::path(&self.dir, self.number);
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(&failed)?;
        file.write_all(&header.encode()).map_err(&failed)?;
        let end = End { offset: HEADER_BYTES, position: first };
        self.open = Some(OpenSegment { file, salt: header.salt(), end, group: Batch::new() });
        Ok(())
    }

    fn end_segment(&mut self) -> Result<()> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.write_group()?;
        open.file.sync_all().map_err(Error::io("write the salvaged journal"))?;
        self.previous = open.end;
        Ok(())
    }
}

impl OpenSegment {
    fn write_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        if group.is_empty() {
            return Ok(());
        }
        group.assign_positions(self.salt, self.end.position);
        let header = GroupHeader {
            bytes: group.bytes() as u32,
            records: group.len() as u32,
            first: self.end.position,
            synced_to: HEADER_BYTES,
        };
        let header = header.encode(self.salt, self.end.offset);
        let failed = Error::io("write the salvaged journal");
        self.file.write_all(&header).map_err(&failed)?;
        self.file.write_all(group.frames()).map_err(&failed)?;
        self.end = End {
            offset: self.end.offset + (GROUP_BYTES + group.bytes()) as u64,
            position: self.end.position.plus(group.len() as u64),
        };
        Ok(())
    }
}
