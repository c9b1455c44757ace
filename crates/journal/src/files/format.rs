//! The format on disk, version 1. Numbers are little endian.
//!
//! A segment file is a header block, then groups, then whatever the preallocated space held before
//! (zeros, or the groups of the older segment whose file was taken over).
//!
//! ```text
//! header, 4096 bytes           group header, 32 bytes            frame
//!   0  magic "HEDGEJNL"          0  magic "HGRP"                  0  length     u32
//!   8  version            u32    4  checksum           u32        4  checksum   u32
//!  12  durability         u32    8  bytes of frames    u32        8  record
//!  16  journal id        u128   12  records            u32
//!  32  segment number     u64   16  first position     u64
//!  40  first position     u64   24  synced to (offset) u64
//!  48  previous segment's
//!      end: offset        u64
//!  56  and position       u64
//!  64  allocated bytes    u64
//!  72  zeros
//! 4092 checksum           u32
//! ```
//!
//! Checksums are CRC-32C. A group's covers its own offset and the segment's salt, a frame's covers
//! its position and the salt, where the salt is made of journal id and segment number: bytes left
//! over from another segment, or copied to another place, never pass for content.
//!
//! The header has a block of its own so that appending never rewrites it. A group is what one
//! write and one sync made durable. `synced to` is how far the segment was known to be on disk when
//! the group was written; that tells a torn tail from damage (see `recover`). A group without
//! records marks a clean close.
//!
//! `allocated bytes` is the file's length from before its header is durable until a clean close, so
//! a last segment that is shorter was cut by something else than a crash. Journals from before this
//! field have zeros there: not known.

use crate::{Durability, JournalId, Position};

pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_BYTES: u64 = 4096;
pub(crate) const GROUP_BYTES: usize = 32;
pub(crate) const FRAME_BYTES: usize = 8;

/// Of segments and positions. A million records a second reach it in 146,000 years.
const NUMBER_MAX: u64 = 1 << 62;

const SEGMENT_MAGIC: &[u8; 8] = b"HEDGEJNL";
pub(crate) const GROUP_MAGIC: &[u8; 4] = b"HGRP";
const HEADER_CHECKSUM: usize = HEADER_BYTES as usize - 4;

/// End of a segment's valid content: its byte offset, and the position of the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub offset: u64,
    pub position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub journal: JournalId,
    pub number: u64,
    pub first: Position,
    /// Where the segment before this one ends, whatever else its file holds.
    pub previous: End,
    pub durability: Durability,
    /// How long the file is made; zero if an older release made it.
    pub allocated: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Version(u32),
    Damaged { expected: String, actual: String },
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut block = [0; HEADER_BYTES as usize];
        let durability: u32 = match self.durability {
            Durability::Fsync => 1,
            Durability::Os => 2,
        };
        block[..8].copy_from_slice(SEGMENT_MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&durability.to_le_bytes());
        block[16..32].copy_from_slice(&self.journal.as_u128().to_le_bytes());
        block[32..40].copy_from_slice(&self.number.to_le_bytes());
        block[40..48].copy_from_slice(&self.first.as_u64().to_le_bytes());
        block[48..56].copy_from_slice(&self.previous.offset.to_le_bytes());
        block[56..64].copy_from_slice(&self.previous.position.as_u64().to_le_bytes());
        block[64..72].copy_from_slice(&self.allocated.to_le_bytes());
        let checksum = crc32c::crc32c(&block[..HEADER_CHECKSUM]);
        block[HEADER_CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// `block` may be short: a file can end anywhere.
    pub(crate) fn decode(block: &[u8]) -> Result<SegmentHeader, HeaderFault> {
        let damaged = |expected: &str, actual: String| HeaderFault::Damaged {
            expected: expected.to_owned(),
            actual,
        };
        if block.len() < HEADER_BYTES as usize {
            return Err(damaged("a segment header of 4096 bytes", format!("{}", block.len())));
        }
        if &block[..8] != SEGMENT_MAGIC {
            return Err(damaged("a segment header", format!("bytes {:02x?}", &block[..8])));
        }
        // Before the checksum: a newer format may keep it elsewhere.
        let version = u32_at(block, 8);
        if version > VERSION {
            return Err(HeaderFault::Version(version));
        }
        let (expected, actual) =
            (crc32c::crc32c(&block[..HEADER_CHECKSUM]), u32_at(block, HEADER_CHECKSUM));
        if expected != actual {
            return Err(damaged(
                &format!("header checksum {expected:08x}"),
                format!("{actual:08x}"),
            ));
        }
        let durability = match u32_at(block, 12) {
            1 => Durability::Fsync,
            2 => Durability::Os,
            other => return Err(damaged("durability 1 or 2", other.to_string())),
        };
        let header = SegmentHeader {
            journal: JournalId::from_u128(u128::from_le_bytes(array_at(block, 16))),
            number: u64_at(block, 32),
            first: Position::from_u64(u64_at(block, 40)),
            previous: End {
                offset: u64_at(block, 48),
                position: Position::from_u64(u64_at(block, 56)),
            },
            durability,
            allocated: u64_at(block, 64),
        };
        header.plausible().map_err(|(expected, actual)| damaged(expected, actual.to_string()))?;
        Ok(header)
    }

    /// Rejects values that no journal writes, so that later code need not handle them (overflow).
    fn plausible(&self) -> Result<(), (&'static str, u64)> {
        let (first, before) = (self.first.as_u64(), self.previous.position.as_u64());
        if self.number > NUMBER_MAX {
            return Err(("a segment number", self.number));
        }
        if !(1..=NUMBER_MAX).contains(&first) {
            return Err(("a first position", first));
        }
        if !(1..=first).contains(&before) {
            return Err(("an end before the first position", before));
        }
        Ok(())
    }

    pub(crate) fn salt(&self) -> Salt {
        Salt::of(self.journal, self.number)
    }

    pub(crate) fn start(&self) -> End {
        End { offset: HEADER_BYTES, position: self.first }
    }
}

/// Ties checksums to one segment of one journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(u32);

impl Salt {
    pub(crate) fn of(journal: JournalId, segment: u64) -> Salt {
        let id = crc32c::crc32c(&journal.as_u128().to_le_bytes());
        Salt(crc32c::crc32c_append(id, &segment.to_le_bytes()))
    }

    /// The stored checksum of a frame from the plain one of its record.
    pub(crate) fn frame_checksum(self, record_checksum: u32, len: u32, position: Position) -> u32 {
        let mut tail = [0; 16];
        tail[..4].copy_from_slice(&len.to_le_bytes());
        tail[4..12].copy_from_slice(&position.as_u64().to_le_bytes());
        tail[12..].copy_from_slice(&self.0.to_le_bytes());
        crc32c::crc32c_append(record_checksum, &tail)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub bytes: u32,
    pub records: u32,
    pub first: Position,
    pub synced_to: u64,
}

impl GroupHeader {
    pub(crate) fn encode(&self, salt: Salt, offset: u64) -> [u8; GROUP_BYTES] {
        let mut block = [0; GROUP_BYTES];
        block[..4].copy_from_slice(GROUP_MAGIC);
        block[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        block[12..16].copy_from_slice(&self.records.to_le_bytes());
        block[16..24].copy_from_slice(&self.first.as_u64().to_le_bytes());
        block[24..].copy_from_slice(&self.synced_to.to_le_bytes());
        let checksum = group_checksum(&block, salt, offset);
        block[4..8].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// The header at `offset`, or (expected, actual) in words.
    pub(crate) fn decode(
        block: &[u8; GROUP_BYTES],
        salt: Salt,
        offset: u64,
    ) -> Result<GroupHeader, (String, String)> {
        if &block[..4] != GROUP_MAGIC {
            return Err(("a group header".to_owned(), format!("bytes {:02x?}", &block[..4])));
        }
        let (expected, actual) = (group_checksum(block, salt, offset), u32_at(block, 4));
        if expected != actual {
            return Err((format!("group checksum {expected:08x}"), format!("{actual:08x}")));
        }
        Ok(GroupHeader {
            bytes: u32_at(block, 8),
            records: u32_at(block, 12),
            first: Position::from_u64(u64_at(block, 16)),
            synced_to: u64_at(block, 24),
        })
    }
}

fn group_checksum(block: &[u8; GROUP_BYTES], salt: Salt, offset: u64) -> u32 {
    let place = crc32c::crc32c_append(salt.0, &offset.to_le_bytes());
    crc32c::crc32c_append(place, &block[8..])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Callers have checked the length.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
