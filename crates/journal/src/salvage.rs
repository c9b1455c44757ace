//! Writes what a survey finds into a new journal, at the same positions, so that stores which were
//! filled from the old one go on with it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::format::{End, GROUP_BYTES, GroupHeader, HEADER_BYTES, Salt, SegmentHeader};
use crate::segment;
use crate::survey::{Survey, survey};
use crate::{Batch, Durability, Error, JournalId, Position, Result};

/// When a group and a segment are ended.
const GROUP_BYTES_MIN: usize = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 64 << 20;

/// What the new journal is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub id: JournalId,
    /// Records before this are not taken over, and none from here on is said to be missing.
    pub oldest: Position,
    /// New records get this position or a later one.
    pub next: Position,
}

/// What became of the old journal.
#[derive(Debug)]
pub struct Salvaged {
    pub survey: Survey,
    /// Records that the new journal holds.
    pub records: u64,
    /// What the next record gets.
    pub next: Position,
}

/// Makes a journal in `to`, a folder that is not there yet, of what can be read in `from`. It is
/// durable when this returns.
pub fn salvage(from: &Path, to: &Path, wanted: Wanted) -> Result<Salvaged> {
    let failed = Error::io("write the salvaged journal");
    fs::create_dir(to).map_err(&failed)?;
    let mut out = Out {
        folder: to.to_owned(),
        id: wanted.id,
        previous: End { offset: 0, position: wanted.oldest },
        number: 0,
        records: 0,
        open: None,
    };
    let found = survey(from, Some(wanted.id), |position, record| {
        if position < wanted.oldest { Ok(()) } else { out.push(position, record) }
    })?;
    out.end_segment()?;
    let next = wanted.next.max(found.next).max(out.previous.position);
    // Like a new journal's first: it holds nothing, and says where the next record stands.
    out.begin(next, HEADER_BYTES)?;
    let Out { open, records, .. } = out;
    if let Some(open) = open {
        open.file.sync_all().map_err(&failed)?;
    }
    File::open(to).and_then(|folder| folder.sync_all()).map_err(&failed)?;
    Ok(Salvaged { survey: found, records, next })
}

struct Out {
    folder: PathBuf,
    id: JournalId,
    previous: End,
    number: u64,
    records: u64,
    open: Option<Open>,
}

struct Open {
    file: File,
    salt: Salt,
    /// Behind the last group that was written.
    end: End,
    group: Batch,
}

impl Out {
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
        let path = segment::path(&self.folder, self.number);
        let mut file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(&failed)?;
        file.write_all(&header.encode()).map_err(&failed)?;
        let end = End { offset: HEADER_BYTES, position: first };
        self.open = Some(Open { file, salt: header.salt(), end, group: Batch::new() });
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

impl Open {
    fn write_group(&mut self) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        if group.is_empty() {
            return Ok(());
        }
        group.place(self.salt, self.end.position);
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
