//! Byte strings by index in two layers: a memory-mapped base, and changes in memory over it.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;

use super::chunked_bytes::{CHUNK_LEN, ChunkedBytes};
use super::mapped_file::{Cursor, FileWriter};

/// Entries of the base per shard of changes. A shard is the unit of copy-on-write.
const SHARD_LEN: usize = 1 << 12;
/// Overhead of a changed entry in its hash map.
const CHANGED_BYTES: usize = 48;

type Shard = Arc<HashMap<u32, Box<[u8]>>>;

/// Clones share the base, and their changes copy-on-write.
#[derive(Clone, Debug, Default)]
pub(crate) struct LayeredBytes {
    base: Option<MappedBytes>,
    /// Changed entries of the base, by shard.
    changed: HashMap<usize, Shard>,
    changed_bytes: usize,
    changed_len: usize,
    /// Entries past the end of the base.
    tail: ChunkedBytes,
}

/// Byte strings in a mapped file, in chunks of [`CHUNK_LEN`] entries: the end of each entry within the
/// chunk's strings (u32), then the strings.
#[derive(Clone, Debug)]
struct MappedBytes {
    len: usize,
    /// Offset of each chunk in `chunks` (u64), then the end of the last.
    starts: Bytes,
    chunks: Bytes,
}

impl MappedBytes {
    fn get(&self, at: usize) -> &[u8] {
        self.entry(at).unwrap_or_default()
    }

    fn entry(&self, at: usize) -> Option<&[u8]> {
        let (chunk, entry) = (at / CHUNK_LEN, at % CHUNK_LEN);
        let entries = CHUNK_LEN.min(self.len.checked_sub(chunk * CHUNK_LEN)?);
        let mut starts = Cursor(self.starts.get(chunk * 8..)?);
        let (start, end) = (starts.u64()? as usize, starts.u64()? as usize);
        let (ends, strings) = self.chunks.get(start..end)?.split_at_checked(entries * 4)?;
        let end_of = |entry: usize| Cursor(ends.get(entry * 4..)?).u32();
        let start = match entry {
            0 => 0,
            _ => end_of(entry - 1)?,
        };
        strings.get(start as usize..end_of(entry)? as usize)
    }
}

impl LayeredBytes {
    /// Entries that differ from the base, or lie past its end.
    pub fn changes(&self) -> usize {
        self.changed_len + self.tail.len()
    }

    /// Memory of the changes; the base is not the process's own memory.
    pub fn bytes(&self) -> usize {
        self.changed_bytes + self.tail.bytes()
    }

    /// Indexes of the entries that may differ from the base, except those past its end.
    pub fn changed(&self) -> impl Iterator<Item = u32> {
        self.changed.values().flat_map(|shard| shard.keys().copied())
    }

    pub fn base_len(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.len)
    }

    /// Empty if it was never set.
    pub fn get(&self, at: usize) -> &[u8] {
        let Some(base) = &self.base else { return self.tail.get(at) };
        if at >= base.len {
            return self.tail.get(at - base.len);
        }
        // Most bases have no changes, or few.
        if self.changed_len > 0
            && let Some(shard) = self.changed.get(&(at / SHARD_LEN))
            && let Some(entry) = shard.get(&(at as u32))
        {
            return entry;
        }
        base.get(at)
    }

    pub fn set(&mut self, at: usize, entry: &[u8]) {
        let base_len = self.base_len();
        if at >= base_len {
            return self.tail.set(at - base_len, entry);
        }
        if self.get(at) == entry {
            return;
        }
        let shard = Arc::make_mut(self.changed.entry(at / SHARD_LEN).or_default());
        self.changed_bytes += CHANGED_BYTES + entry.len();
        match shard.insert(at as u32, entry.into()) {
            Some(before) => self.changed_bytes -= CHANGED_BYTES + before.len(),
            None => self.changed_len += 1,
        }
    }

    /// Writes the first `len` entries; returns what [`LayeredBytes::read`] needs.
    pub fn write(&self, len: usize, out: &mut FileWriter) -> io::Result<Section> {
        let chunks_start = out.position();
        let mut starts = Vec::with_capacity(len.div_ceil(CHUNK_LEN) + 1);
        let mut chunk = Vec::new();
        for first in (0..len).step_by(CHUNK_LEN) {
            starts.push(out.position() - chunks_start);
            let entries = first..len.min(first + CHUNK_LEN);
            chunk.clear();
            let mut end = 0;
            for at in entries.clone() {
                end += self.get(at).len();
                chunk.extend_from_slice(
                    &u32::try_from(end).map_err(io::Error::other)?.to_le_bytes(),
                );
            }
            entries.for_each(|at| chunk.extend_from_slice(self.get(at)));
            out.write_all(&chunk)?;
        }
        let chunks = chunks_start..out.position();
        starts.push(chunks.end - chunks.start);
        let starts_start = out.position();
        for start in starts {
            out.write_all(&start.to_le_bytes())?;
        }
        let starts = starts_start..out.position();
        Ok(Section {
            len: len as u64,
            starts: (starts.start, starts.end),
            chunks: (chunks.start, chunks.end),
        })
    }

    /// Entries of a mapped file without changes; `None` for a section that the file cannot have.
    pub fn read(file: &Bytes, section: &Section) -> Option<Self> {
        let slice = |(start, end): (u64, u64)| {
            let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
            (range.start <= range.end && range.end <= file.len()).then(|| file.slice(range))
        };
        let len = usize::try_from(section.len).ok()?;
        let base =
            MappedBytes { len, starts: slice(section.starts)?, chunks: slice(section.chunks)? };
        (base.starts.len() == (len.div_ceil(CHUNK_LEN) + 1) * 8)
            .then(|| Self { base: Some(base), ..Self::default() })
    }
}

/// Where a file holds the entries of a [`LayeredBytes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    len: u64,
    starts: (u64, u64),
    chunks: (u64, u64),
}

impl Section {
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { len, starts, chunks } = self;
        [*len, starts.0, starts.1, chunks.0, chunks.1]
            .iter()
            .try_for_each(|number| out.write_all(&number.to_le_bytes()))
    }

    pub fn read(cursor: &mut Cursor<'_>) -> Option<Self> {
        let len = cursor.u64()?;
        let (starts, chunks) = ((cursor.u64()?, cursor.u64()?), (cursor.u64()?, cursor.u64()?));
        Some(Self { len, starts, chunks })
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapped_file;
    use super::*;

    #[test]
    fn layers_return_what_was_set_last_and_clones_are_isolated() {
        let dir = tempfile::tempdir().unwrap();
        let seed = testing::seed();
        let mut rng = seed.rng();
        let (mut bytes, mut plain) = (LayeredBytes::default(), Vec::<Vec<u8>>::new());
        for round in 0..4 {
            for _ in 0..3_000 {
                let at = rng.range(0..(round + 1) * 700);
                let entry = vec![rng.range(0..=255); rng.range(0..50)];
                bytes.set(at, &entry);
                plain.resize(plain.len().max(at + 1), Vec::new());
                plain[at] = entry;
            }
            let (copy, before) = (bytes.clone(), plain.clone());
            bytes.set(0, b"changed");
            plain[0] = b"changed".to_vec();
            for (bytes, plain) in [(&copy, &before), (&bytes, &plain)] {
                let all: Vec<&[u8]> = (0..plain.len()).map(|at| bytes.get(at)).collect();
                assert_eq!(all, *plain, "round {round}");
            }
            let path = dir.path().join(round.to_string());
            let mut out = FileWriter::create(path.clone()).unwrap();
            let section = bytes.write(plain.len(), &mut out).unwrap();
            out.finish().unwrap();
            bytes = LayeredBytes::read(&mapped_file::open(&path).unwrap(), &section).unwrap();
            assert_eq!((bytes.changes(), bytes.bytes()), (0, 0));
        }
        assert_eq!(bytes.get(1_000_000), b"");
    }
}
