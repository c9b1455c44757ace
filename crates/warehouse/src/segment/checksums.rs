//! Checksums of a segment.
//!
//! A CRC32C covers every byte of a file. The row groups are divided into blocks of [`BLOCK_BYTES`],
//! each with a checksum. The tail begins after the last row group: first the array of block checksums,
//! which Parquet readers skip, then Parquet's page indexes and footer. The manifest holds the tail's
//! offset and checksum, and has a checksum of its own.
//!
//! Parquet's own page checksums do not cover page headers, bloom filters, indexes and the footer.

use std::io::{self, Write};

use bytes::Bytes;

use crate::manifest::SegmentChecksums;

/// Size of a checksummed block. A read of one page reads up to one block more at either end.
pub(crate) const BLOCK_BYTES: usize = 8 << 10;

/// The checksums of the blocks before the tail.
#[derive(Debug)]
pub(crate) struct BlockChecksums {
    sums: Vec<u32>,
    end: u64,
}

impl BlockChecksums {
    /// `None` if the tail's checksum differs.
    pub fn read(checks: &SegmentChecksums, tail: &[u8]) -> Option<BlockChecksums> {
        let count = usize::try_from(checks.tail_at.div_ceil(BLOCK_BYTES as u64)).ok()?;
        if crc32c::crc32c(tail) != checks.tail_crc {
            return None;
        }
        let (sums, _) = tail.get(..count.checked_mul(4)?)?.as_chunks();
        Some(BlockChecksums {
            sums: sums.iter().map(|four| u32::from_le_bytes(*four)).collect(),
            end: checks.tail_at,
        })
    }

    /// Byte offset of the end of the last block.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Extends a byte range to whole blocks; `None` if it reaches into the tail.
    pub fn align_to_blocks(&self, start: u64, length: usize) -> Option<(u64, usize)> {
        let block = BLOCK_BYTES as u64;
        let end = start.checked_add(length as u64).filter(|end| *end <= self.end)?;
        let from = start / block * block;
        let to = end.next_multiple_of(block).min(self.end);
        Some((from, usize::try_from(to - from).ok()?))
    }

    /// Offset of the first block in `bytes` whose checksum is wrong. `bytes` starts at `from`, a block
    /// boundary.
    pub fn first_mismatch(&self, from: u64, bytes: &[u8]) -> Option<u64> {
        let first = (from / BLOCK_BYTES as u64) as usize;
        let wrong = |(at, block): (usize, &[u8])| {
            let intact = self.sums.get(first + at) == Some(&crc32c::crc32c(block));
            (!intact).then(|| from + (at * BLOCK_BYTES) as u64)
        };
        bytes.chunks(BLOCK_BYTES).enumerate().find_map(wrong)
    }
}

/// A writer that computes the checksums of everything written through it.
pub(crate) struct ChecksumWriter<W> {
    out: W,
    sums: Vec<u32>,
    /// Running checksum of the current block.
    block_crc: u32,
    block_filled: usize,
    /// Running checksum of the tail; `None` before the tail begins.
    tail_crc: Option<u32>,
}

impl<W: Write> ChecksumWriter<W> {
    pub fn new(out: W) -> ChecksumWriter<W> {
        ChecksumWriter { out, sums: Vec::new(), block_crc: 0, block_filled: 0, tail_crc: None }
    }

    /// Starts the tail. Returns the checksums of all blocks, which must be written first.
    pub fn begin_tail(&mut self) -> Bytes {
        if self.block_filled > 0 {
            self.end_block();
        }
        self.tail_crc = Some(0);
        self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
    }

    fn end_block(&mut self) {
        self.sums.push(std::mem::take(&mut self.block_crc));
        self.block_filled = 0;
    }

    fn update(&mut self, mut bytes: &[u8]) {
        if let Some(tail) = &mut self.tail_crc {
            *tail = crc32c::crc32c_append(*tail, bytes);
            return;
        }
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block_filled));
            self.block_crc = crc32c::crc32c_append(self.block_crc, head);
            self.block_filled += head.len();
            bytes = rest;
            if self.block_filled == BLOCK_BYTES {
                self.end_block();
            }
        }
    }

    /// Returns the checksum of the tail and the inner writer.
    pub fn finish(self) -> (u32, W) {
        (self.tail_crc.unwrap_or_default(), self.out)
    }
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_cover_every_byte_for_any_write_size() {
        for (length, step) in [(0, 1), (1, 1), (BLOCK_BYTES, 7), (3 * BLOCK_BYTES + 5, 9_000)] {
            let bytes: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
            let mut out = ChecksumWriter::new(Vec::new());
            bytes.chunks(step).for_each(|part| out.write_all(part).unwrap());
            let sums = out.begin_tail();
            out.write_all(&sums).unwrap();
            out.write_all(b"tail").unwrap();
            let (tail_crc, written) = out.finish();
            let checks = SegmentChecksums { tail_at: length as u64, tail_crc };
            let blocks = BlockChecksums::read(&checks, &written[length..]).unwrap();
            assert_eq!(blocks.first_mismatch(0, &written[..length]), None);
            for at in (0..length).step_by(1_001) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                let block = (at / BLOCK_BYTES * BLOCK_BYTES) as u64;
                assert_eq!(blocks.first_mismatch(0, &damaged), Some(block));
            }
            for at in length..written.len() {
                let mut damaged = written.clone();
                damaged[at] ^= 1;
                assert!(BlockChecksums::read(&checks, &damaged[length..]).is_none());
            }
            assert!(blocks.align_to_blocks(0, length + 1).is_none());
        }
    }
}
