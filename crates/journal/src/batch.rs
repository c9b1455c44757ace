//! A batch of records, encoded as frames before it reaches the writer.

use crate::files::format::{FRAME_BYTES, Salt, u32_at};
use crate::{Buffer, BufferPool, Position};

/// The records of one append. The caller encodes them straight into the bytes that go to disk.
#[derive(Debug, Default)]
pub struct Batch {
    /// Frames as on disk, except that each checksum covers the record alone: only the writer knows
    /// the position and the segment.
    frames: Buffer,
    records: u32,
    largest: usize,
}

impl Batch {
    /// A batch whose memory comes from no pool.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Capacity for `records` records of `bytes` bytes in total, from `buffers`.
    pub fn with_capacity(buffers: &BufferPool, records: usize, bytes: usize) -> Batch {
        Batch { frames: buffers.buffer(records * FRAME_BYTES + bytes), ..Batch::default() }
    }

    pub fn push(&mut self, record: &[u8]) {
        self.push_with(|out| out.extend_from_slice(record));
    }

    /// `encode` appends the record to the buffer and must not change the bytes before it.
    pub fn push_with(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let frame = self.frames.len();
        let start = frame + FRAME_BYTES;
        self.frames.resize(start, 0);
        encode(&mut self.frames);
        assert!(self.frames.len() >= start, "an encoder only appends");

        let record = &self.frames[start..];
        let (len, checksum) = (record.len(), crc32c::crc32c(record));
        // `append` rejects a length beyond 32 bits: it checks `largest`.
        self.frames[frame..frame + 4].copy_from_slice(&(len as u32).to_le_bytes());
        self.frames[frame + 4..start].copy_from_slice(&checksum.to_le_bytes());
        self.largest = self.largest.max(len);
        self.records += 1;
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.records as usize
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Bytes that the batch takes in the journal, frame headers included.
    pub fn bytes(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn largest(&self) -> usize {
        self.largest
    }

    pub(crate) fn frames(&self) -> &[u8] {
        &self.frames
    }

    /// Completes the checksums with the segment's salt and each record's position.
    pub(crate) fn assign_positions(&mut self, salt: Salt, first: Position) {
        let mut at = 0;
        for index in 0..u64::from(self.records) {
            let len = u32_at(&self.frames, at);
            let record = u32_at(&self.frames, at + 4);
            let salted = salt.frame_checksum(record, len, first.plus(index));
            self.frames[at + 4..at + FRAME_BYTES].copy_from_slice(&salted.to_le_bytes());
            at += FRAME_BYTES + len as usize;
        }
    }
}
