//! `person_no` by `distinct_no`: 4 bytes per distinct id, in memory.

use std::collections::HashMap;
use std::sync::Arc;

/// Distinct ids per chunk, the unit of copy-on-write.
const CHUNK_LEN: usize = 1 << 16;
/// A distinct id without a person.
pub(super) const NO_PERSON: u32 = u32::MAX;

/// Clones share chunks, copy-on-write.
#[derive(Clone, Debug, Default)]
pub(super) struct PersonNos {
    len: usize,
    chunks: Vec<Arc<Vec<u32>>>,
}

impl PersonNos {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<u32>()).sum()
    }

    pub fn get(&self, distinct_no: usize) -> Option<u32> {
        self.chunks.get(distinct_no / CHUNK_LEN)?.get(distinct_no % CHUNK_LEN).copied()
    }

    pub fn set(&mut self, distinct_no: usize, person_no: u32) {
        while self.len <= distinct_no {
            // All chunks but the last are full.
            let chunk = self.len / CHUNK_LEN;
            if self.chunks.len() <= chunk {
                self.chunks.push(Arc::default());
            }
            let fill = CHUNK_LEN.min(distinct_no + 1 - chunk * CHUNK_LEN);
            Arc::make_mut(&mut self.chunks[chunk]).resize(fill, NO_PERSON);
            self.len = chunk * CHUNK_LEN + fill;
        }
        if self.get(distinct_no) != Some(person_no) {
            let chunk = Arc::make_mut(&mut self.chunks[distinct_no / CHUNK_LEN]);
            chunk[distinct_no % CHUNK_LEN] = person_no;
        }
    }

    /// Replaces persons that were merged into others.
    pub fn replace(&mut self, survivors: &HashMap<u32, u32>) {
        let Some(last) = survivors.keys().max() else { return };
        // A bitmap is much faster to probe than the hash map, and most distinct ids do not match.
        let mut merged = vec![0_u64; *last as usize / 64 + 1];
        for person in survivors.keys() {
            merged[*person as usize / 64] |= 1 << (person % 64);
        }
        let is_merged = |person: &u32| {
            merged.get(*person as usize / 64).is_some_and(|word| word >> (person % 64) & 1 == 1)
        };
        for chunk in &mut self.chunks {
            if !chunk.iter().any(is_merged) {
                continue;
            }
            for person in Arc::make_mut(chunk).iter_mut().filter(|person| is_merged(person)) {
                *person = survivors.get(person).copied().unwrap_or(*person);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.chunks.iter().flat_map(|chunk| chunk.iter().copied())
    }

    /// Inverse of [`PersonNos::iter`], with each number in little-endian order.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (all, _) = bytes.as_chunks::<4>();
        let chunk = |part: &[[u8; 4]]| {
            Arc::new(part.iter().map(|person| u32::from_le_bytes(*person)).collect())
        };
        Self { len: all.len(), chunks: all.chunks(CHUNK_LEN).map(chunk).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn person_nos_grow_and_clones_are_isolated() {
        let mut persons = PersonNos::default();
        persons.set(3, 7);
        assert_eq!(persons.iter().collect::<Vec<_>>(), [NO_PERSON, NO_PERSON, NO_PERSON, 7]);
        persons.set(2 * CHUNK_LEN + 1, 9);
        let before = persons.clone();
        persons.replace(&HashMap::from([(7, 9), (1_000, 1)]));
        persons.set(0, 9);
        let all = |persons: &PersonNos| {
            [0, 3, CHUNK_LEN, 2 * CHUNK_LEN + 1].map(|no| persons.get(no).unwrap())
        };
        assert_eq!(all(&before), [NO_PERSON, 7, NO_PERSON, 9]);
        assert_eq!(all(&persons), [9, 9, NO_PERSON, 9]);
        assert_eq!((persons.len(), persons.get(2 * CHUNK_LEN + 2)), (2 * CHUNK_LEN + 2, None));
        let bytes: Vec<u8> = persons.iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(
            PersonNos::from_bytes(&bytes).iter().collect::<Vec<_>>(),
            persons.iter().collect::<Vec<_>>()
        );
    }
}
