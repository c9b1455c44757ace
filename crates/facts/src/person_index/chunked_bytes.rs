//! Many short byte strings by index, packed into chunks: a separate allocation per string would add
//! a length, a capacity and the allocator's rounding to each.

use std::sync::Arc;

/// Strings per chunk. A chunk is the unit of copy-on-write.
pub(crate) const CHUNK_LEN: usize = 64;

/// Clones share chunks, copy-on-write.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkedBytes {
    chunks: Vec<Arc<Chunk>>,
    /// Memory of all chunks, maintained incrementally because there may be many thousands.
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl ChunkedBytes {
    /// Memory of all chunks.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Upper bound of the indexes that were set.
    pub fn len(&self) -> usize {
        self.chunks.len() * CHUNK_LEN
    }

    /// Empty if it was never set.
    pub fn get(&self, at: usize) -> &[u8] {
        self.chunks.get(at / CHUNK_LEN).map_or(&[], |chunk| chunk.get(at % CHUNK_LEN))
    }

    pub fn set(&mut self, at: usize, text: &[u8]) {
        if self.chunks.len() <= at / CHUNK_LEN {
            if text.is_empty() {
                return;
            }
            let more = at / CHUNK_LEN + 1 - self.chunks.len();
            self.bytes += more * Chunk::default().memory_bytes();
            self.chunks.resize_with(at / CHUNK_LEN + 1, Arc::default);
        }
        if self.get(at) != text {
            let chunk = &mut self.chunks[at / CHUNK_LEN];
            self.bytes -= chunk.memory_bytes();
            // A copied chunk may have less capacity than the original.
            Arc::make_mut(chunk).set(at % CHUNK_LEN, text);
            self.bytes += chunk.memory_bytes();
        }
    }
}

impl Chunk {
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    fn get(&self, at: usize) -> &[u8] {
        let Some(end) = self.ends.get(at) else { return &[] };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..*end as usize]
    }

    fn set(&mut self, at: usize, text: &[u8]) {
        if self.ends.len() <= at {
            self.ends.reserve_exact(at + 1 - self.ends.len());
            self.ends.resize(at + 1, self.bytes.len() as u32);
        }
        let end = self.ends[at] as usize;
        let start = end - self.get(at).len();
        let length = self.bytes.len() - (end - start) + text.len();
        // Offsets are 32 bits: a string that would make the chunk exceed 4 GiB is dropped.
        let text = if u32::try_from(length).is_ok() { text } else { &[] };
        if self.bytes.capacity() < length {
            // Grow by 1/16: strings arrive one by one, but doubling would waste the memory for good.
            self.bytes.reserve_exact(length - self.bytes.len() + length / 16);
        }
        self.bytes.splice(start..end, text.iter().copied());
        for later in &mut self.ends[at..] {
            *later = (*later as usize - (end - start) + text.len()) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunked_bytes_round_trip_and_clones_are_isolated() {
        let seed = testing::seed_or(5);
        let mut rng = seed.rng();
        let (mut bytes, mut plain) = (ChunkedBytes::default(), vec![Vec::new(); 1_000]);
        let check = |bytes: &ChunkedBytes, plain: &[Vec<u8>]| {
            for (at, text) in plain.iter().enumerate() {
                assert_eq!(bytes.get(at), text, "{at}");
            }
        };
        let mut copies = Vec::new();
        for step in 0..6_000 {
            let at = rng.range(0..1_000);
            let text = vec![step as u8; rng.range(0..40)];
            bytes.set(at, &text);
            plain[at] = text;
            if step % 1_500 == 0 {
                copies.push((bytes.clone(), plain.clone()));
            }
        }
        check(&bytes, &plain);
        copies.iter().for_each(|(bytes, plain)| check(bytes, plain));
        for bytes in copies.iter().map(|(bytes, _)| bytes).chain([&bytes]) {
            assert_eq!(
                bytes.bytes(),
                bytes.chunks.iter().map(|chunk| chunk.memory_bytes()).sum::<usize>()
            );
        }
        assert_eq!(bytes.get(5_000), b"");
        bytes.set(9_000, b"");
        assert_eq!(bytes.chunks.len(), 1_000_usize.div_ceil(CHUNK_LEN));
    }

    #[test]
    fn chunked_bytes_have_little_overhead() {
        let mut bytes = ChunkedBytes::default();
        (0..10_000).for_each(|at| bytes.set(at, format!("user_{at}@example.com").as_bytes()));
        let capacity = |chunk: &Arc<Chunk>| chunk.bytes.capacity() + chunk.ends.capacity() * 4;
        let (capacity, lengths) = (
            bytes.chunks.iter().map(capacity).sum::<usize>(),
            (0..10_000).map(|at| bytes.get(at).len() + 4),
        );
        assert!(capacity <= lengths.sum::<usize>() * 9 / 8, "{capacity}");
    }
}
