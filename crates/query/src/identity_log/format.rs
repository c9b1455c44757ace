//! The format on disk, version 1. Numbers are little endian.
//!
//! A segment file is a header and entries. An entry is a header, a directory with one row per
//! section, and the sections (see `codec`), one for each project whose persons or groups changed.
//!
//! ```text
//! segment header, 56 bytes     entry header, 28 bytes       directory row, 16 bytes
//!   0  magic "HEDGEIDL"          0  magic                     0  project    i64
//!   8  version          u32      4  checksum        u32       8  bytes      u32
//!  12  checksum         u32      8  from            u64      12  checksum   u32
//!  16  log id          u128     16  reach           u64
//!  32  journal id      u128     24  sections        u32
//!  48  first position   u64
//! ```
//!
//! Checksums are CRC-32C. An entry's covers its offset, the segment's checksum, its header and its
//! directory: bytes of another log or from elsewhere in the file never pass for an entry. A
//! section's covers its bytes, so that a reader skips other projects' sections without reading them.
//!
//! The magic is "BTCH", or "EDIT" for a chunk of an edit, whose `reach` equals its `from`.

use catalog::{IngestBatch, ProjectChanges};
use model::ProjectId;
use model::person::IdentityChanges;

use super::{Gap, codec};

pub(super) const VERSION: u32 = 1;
pub(super) const SEGMENT_HEADER_BYTES: usize = 56;
pub(super) const ENTRY_HEADER_BYTES: usize = 28;
pub(super) const ROW_BYTES: usize = 16;

/// Bounds the directory at one mebibyte.
const SECTIONS_MAX: usize = 1 << 16;
/// The length of a section is a `u32`.
const SECTION_BYTES_MAX: usize = 1 << 30;

const SEGMENT_MAGIC: &[u8; 8] = b"HEDGEIDL";
pub(super) const BATCH_MAGIC: &[u8; 4] = b"BTCH";
const CHUNK_MAGIC: &[u8; 4] = b"EDIT";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    /// A new one each time the log starts over.
    pub log: u128,
    pub journal: u128,
    pub first: u64,
}

impl SegmentHeader {
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[..8].copy_from_slice(SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.log.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.journal.to_le_bytes());
        bytes[48..].copy_from_slice(&self.first.to_le_bytes());
        let checksum = checksum_of(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; SEGMENT_HEADER_BYTES]) -> Result<Self, Gap> {
        if &bytes[..8] != SEGMENT_MAGIC {
            return Err(Gap::new("a segment has another magic"));
        }
        // Before the checksum: another version may compute it otherwise.
        let version = u32::from_le_bytes(array_at(bytes, 8));
        if version != VERSION {
            return Err(Gap::new(format!("a segment has format version {version}")));
        }
        if u32::from_le_bytes(array_at(bytes, 12)) != checksum_of(bytes) {
            return Err(Gap::new("a segment header is damaged"));
        }
        Ok(Self {
            log: u128::from_le_bytes(array_at(bytes, 16)),
            journal: u128::from_le_bytes(array_at(bytes, 32)),
            first: u64::from_le_bytes(array_at(bytes, 48)),
        })
    }

    /// Ties the checksums of entries to this segment.
    pub fn salt(&self) -> u32 {
        u32::from_le_bytes(array_at(&self.encode(), 12))
    }
}

fn checksum_of(header: &[u8; SEGMENT_HEADER_BYTES]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..12]), &header[16..])
}

/// An entry to append.
pub(super) struct NewEntry {
    pub journal: u128,
    pub from: u64,
    pub reach: u64,
    /// Complete but for the checksum, which depends on the place.
    bytes: Vec<u8>,
    sections: usize,
}

impl NewEntry {
    /// Fails if a named bound is exceeded.
    pub fn encode(batch: &IngestBatch) -> Result<Self, Gap> {
        let changed = || batch.projects.iter().filter(|changes| is_changed(changes));
        let sections = changed().count();
        if sections > SECTIONS_MAX {
            return Err(Gap::new(format!("a batch changes {sections} projects")));
        }
        let mut bytes = vec![0; head_bytes(sections)];
        let magic = if batch.reach == batch.from { CHUNK_MAGIC } else { BATCH_MAGIC };
        bytes[..4].copy_from_slice(magic);
        bytes[8..16].copy_from_slice(&batch.from.to_le_bytes());
        bytes[16..24].copy_from_slice(&batch.reach.to_le_bytes());
        bytes[24..28].copy_from_slice(&(sections as u32).to_le_bytes());
        for (at, changes) in changed().enumerate() {
            let start = bytes.len();
            codec::encode(&mut bytes, &changes.identity, &changes.groups)
                .map_err(|error| Gap::new(error.to_string()))?;
            let len = bytes.len() - start;
            if len > SECTION_BYTES_MAX {
                return Err(Gap::new(format!("a project's changes take {len} bytes")));
            }
            let checksum = crc32c::crc32c(&bytes[start..]);
            let row = &mut bytes[head_bytes(at)..][..ROW_BYTES];
            row[..8].copy_from_slice(&changes.project.0.to_le_bytes());
            row[8..12].copy_from_slice(&(len as u32).to_le_bytes());
            row[12..].copy_from_slice(&checksum.to_le_bytes());
        }
        let IngestBatch { journal, from, reach, .. } = *batch;
        Ok(Self { journal, from, reach, bytes, sections })
    }

    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub fn is_chunk(&self) -> bool {
        self.from == self.reach
    }

    pub fn has_changes(&self) -> bool {
        self.sections > 0
    }

    /// The bytes to write at `offset` of a segment.
    pub fn placed(&mut self, salt: u32, offset: u64) -> &[u8] {
        let checksum = entry_checksum(&self.bytes[..head_bytes(self.sections)], salt, offset);
        self.bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        &self.bytes
    }
}

fn is_changed(changes: &ProjectChanges) -> bool {
    !changes.groups.is_empty() || changes.identity != IdentityChanges::default()
}

/// Length of an entry's header and directory.
pub(super) fn head_bytes(sections: usize) -> usize {
    ENTRY_HEADER_BYTES + sections * ROW_BYTES
}

/// `head` is the header and the directory.
fn entry_checksum(head: &[u8], salt: u32, offset: u64) -> u32 {
    let place = crc32c::crc32c_append(salt, &offset.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c_append(place, &head[..4]), &head[8..])
}

/// The sections that a header announces, before its checksum was checked.
pub(super) fn announced_sections(header: &[u8; ENTRY_HEADER_BYTES]) -> Result<usize, Gap> {
    if &header[..4] != BATCH_MAGIC && &header[..4] != CHUNK_MAGIC {
        return Err(Gap::new("an entry has another magic"));
    }
    let sections = u32::from_le_bytes(array_at(header, 24)) as usize;
    if sections > SECTIONS_MAX {
        return Err(Gap::new("an entry has too many sections"));
    }
    Ok(sections)
}

/// An entry as read, without its sections.
#[derive(Debug)]
pub(super) struct Entry {
    pub from: u64,
    pub reach: u64,
    pub sections: Vec<Section>,
    /// The offset after it.
    pub end: u64,
}

/// One project's changes, by their place in the segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub project: ProjectId,
    pub offset: u64,
    pub bytes: usize,
    pub checksum: u32,
}

impl Entry {
    /// From the header and the directory at `offset`.
    pub fn decode(head: &[u8], salt: u32, offset: u64) -> Result<Self, Gap> {
        if u32::from_le_bytes(array_at(head, 4)) != entry_checksum(head, salt, offset) {
            return Err(Gap::new("an entry is damaged"));
        }
        let (from, reach) =
            (u64::from_le_bytes(array_at(head, 8)), u64::from_le_bytes(array_at(head, 16)));
        let mut end = offset + head.len() as u64;
        let rows = head[ENTRY_HEADER_BYTES..].chunks_exact(ROW_BYTES);
        let sections = rows.map(|row| {
            let offset = end;
            let bytes = u32::from_le_bytes(array_at(row, 8));
            end += u64::from(bytes);
            Section {
                project: ProjectId(i64::from_le_bytes(array_at(row, 0))),
                offset,
                bytes: bytes as usize,
                checksum: u32::from_le_bytes(array_at(row, 12)),
            }
        });
        let sections = sections.collect();
        Ok(Self { from, reach, sections, end })
    }
}

/// Callers have checked the length.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
