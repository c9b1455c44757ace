//! Reads entries, without the log's lock.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use model::ProjectId;
use model::group::Group;
use model::person::IdentityChanges;

use super::format::{self, ENTRY_HEADER_BYTES, Entry, SEGMENT_HEADER_BYTES, Section};
use super::{Gap, codec};

/// What a read fetches at least: hundreds of entries without changes.
const READ_BYTES_MIN: u64 = 8 << 10;

/// One project's changes in one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedChanges {
    /// The batch's first position.
    pub from: u64,
    /// The first position after the batch.
    pub reach: u64,
    pub identity: IdentityChanges,
    /// The changed groups.
    pub groups: Vec<Group>,
}

/// The part of a segment that may be read.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub file: Arc<File>,
    pub salt: u32,
    pub first: u64,
    /// Length of the confirmed entries and the header.
    pub bytes: u64,
}

/// Walks the entries of a segment.
#[derive(Debug)]
pub(super) struct Cursor {
    extent: Extent,
    pub offset: u64,
    buffer: Vec<u8>,
    buffer_offset: u64,
}

impl Cursor {
    pub fn new(extent: Extent) -> Self {
        let (offset, buffer) = (SEGMENT_HEADER_BYTES as u64, Vec::new());
        Self { extent, offset, buffer, buffer_offset: 0 }
    }

    /// The next entry; `None` at the end of the extent.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Gap> {
        let (offset, salt) = (self.offset, self.extent.salt);
        if offset >= self.extent.bytes {
            return Ok(None);
        }
        let header = self.read(offset, ENTRY_HEADER_BYTES)?;
        let header = header.try_into().map_err(|_| Gap::new("an entry is torn"))?;
        let head_bytes = format::head_bytes(format::announced_sections(header)?);
        let entry = Entry::decode(self.read(offset, head_bytes)?, salt, offset)?;
        if entry.end > self.extent.bytes {
            return Err(Gap::new("an entry is torn"));
        }
        self.offset = entry.end;
        Ok(Some(entry))
    }

    /// The bytes of a section, whose checksum is right.
    pub fn section(&mut self, section: &Section) -> Result<&[u8], Gap> {
        let bytes = self.read(section.offset, section.bytes)?;
        match crc32c::crc32c(bytes) == section.checksum {
            true => Ok(bytes),
            false => Err(Gap::new("changes are damaged")),
        }
    }

    /// Whether a batch that advances the position follows, or the start of one, or nothing.
    pub fn is_at_batch(&mut self) -> Result<bool, Gap> {
        let magic = format::BATCH_MAGIC;
        let len = (magic.len() as u64).min(self.extent.bytes.saturating_sub(self.offset));
        Ok(len == 0 || magic.starts_with(self.read(self.offset, len as usize)?))
    }

    fn read(&mut self, offset: u64, len: usize) -> Result<&[u8], Gap> {
        let end = offset.saturating_add(len as u64);
        if end > self.extent.bytes {
            return Err(Gap::new("an entry is torn"));
        }
        if offset < self.buffer_offset || end > self.buffer_offset + self.buffer.len() as u64 {
            let fetched = (len as u64).max(READ_BYTES_MIN).min(self.extent.bytes - offset);
            self.buffer_offset = offset;
            self.buffer.resize(fetched as usize, 0);
            if let Err(error) = self.extent.file.read_exact_at(&mut self.buffer, offset) {
                self.buffer.clear();
                return Err(error.into());
            }
        }
        let start = (offset - self.buffer_offset) as usize;
        Ok(&self.buffer[start..start + len])
    }
}

/// A project's changes in order, at most one entry of which is in memory. After a [`Gap`] it ends.
#[derive(Debug)]
pub struct Changes {
    project: ProjectId,
    cursor: Option<Cursor>,
    /// The first position after the entry that was read last.
    position: u64,
    /// Sections of that entry.
    sections: VecDeque<(u64, Section)>,
    later: VecDeque<Extent>,
    end: u64,
}

impl Changes {
    /// The changes from `from` up to `end` in these extents, the first of which holds `from`.
    pub(super) fn seek(
        project: ProjectId,
        mut extents: VecDeque<Extent>,
        from: u64,
        end: u64,
    ) -> Result<Self, Gap> {
        let position = extents.front().map_or(end, |extent| extent.first);
        let cursor = extents.pop_front().map(Cursor::new);
        let sections = VecDeque::new();
        let mut changes = Self { project, cursor, position, sections, later: extents, end };
        while changes.position < from {
            changes.sections.clear();
            if !changes.advance()? {
                break;
            }
        }
        changes.sections.clear();
        match changes.position == from {
            true => Ok(changes),
            false => Err(Gap::new(format!("no batch starts at position {from}"))),
        }
    }

    /// The first position whose changes are not in this iterator.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Reads the next entry's directory; false at the end.
    fn advance(&mut self) -> Result<bool, Gap> {
        while let Some(cursor) = &mut self.cursor {
            if let Some(entry) = cursor.next_entry()? {
                if entry.from != self.position || entry.reach < entry.from {
                    return Err(Gap::new("entries do not follow each other"));
                }
                self.position = entry.reach;
                let of_project = entry.sections.into_iter().filter(|at| at.project == self.project);
                self.sections.extend(of_project.map(|section| (entry.from, section)));
                return Ok(true);
            }
            self.cursor = self.later.pop_front().map(Cursor::new);
        }
        match self.position == self.end {
            true => Ok(false),
            false => Err(Gap::new("a segment ends too early")),
        }
    }

    fn next_changes(&mut self) -> Result<Option<LoggedChanges>, Gap> {
        while self.sections.is_empty() {
            if !self.advance()? {
                return Ok(None);
            }
        }
        let (Some((from, section)), Some(cursor)) = (self.sections.pop_front(), &mut self.cursor)
        else {
            return Ok(None);
        };
        let (identity, groups) = codec::decode(cursor.section(&section)?)
            .ok_or_else(|| Gap::new("changes cannot be decoded"))?;
        Ok(Some(LoggedChanges { from, reach: self.position, identity, groups }))
    }
}

impl Iterator for Changes {
    type Item = Result<LoggedChanges, Gap>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_changes();
        if next.is_err() {
            (self.cursor, self.position) = (None, self.end);
            self.sections.clear();
            self.later.clear();
        }
        next.transpose()
    }
}
