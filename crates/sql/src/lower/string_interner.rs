//! A string interner for very many strings, with dense codes.

use hashbrown::HashTable;
use warehouse::{Dictionary, Value, ValueHasher};

/// Strings in one chunk. A single dictionary would be in memory twice whenever it grows.
const CHUNK_STRINGS: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct StringInterner {
    chunks: Vec<Dictionary>,
    full_bytes: usize,
    /// The upper half of a string's hash, and its code.
    table: HashTable<(u32, u32)>,
    hashing: ValueHasher,
}

impl StringInterner {
    /// The code of a string, which gets the next one if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        let hash = self.hashing.hash(Value::Text(text));
        let part = (hash >> 32) as u32;
        let is_equal = |known: &(u32, u32)| known.0 == part && self.get(known.1) == Some(text);
        if let Some((_, code)) = self.table.find(ValueHasher::expand(part), is_equal) {
            return *code;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_STRINGS) {
            self.full_bytes += self.chunks.last().map_or(0, Dictionary::memory_bytes);
            self.chunks.push(Dictionary::default());
        }
        let before = (self.chunks.len() - 1) * CHUNK_STRINGS;
        let chunk = &mut self.chunks[before / CHUNK_STRINGS];
        let code = before as u32 + chunk.push(Value::Text(text));
        self.table.insert_unique(ValueHasher::expand(part), (part, code), |(part, _)| {
            ValueHasher::expand(*part)
        });
        code
    }

    pub(crate) fn get(&self, code: u32) -> Option<&str> {
        let at = code as usize;
        match self.chunks.get(at / CHUNK_STRINGS)?.get((at % CHUNK_STRINGS) as u32) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK_STRINGS;
        full + self.chunks.last().map_or(0, Dictionary::len)
    }

    pub(crate) fn bytes(&self) -> usize {
        let last = self.chunks.last().map_or(0, Dictionary::memory_bytes);
        self.full_bytes + last + self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_strings_keep_their_codes_over_many_chunks() {
        let mut interner = StringInterner::default();
        let text = |no: u32| format!("/page/{no}");
        for no in 0..3 * CHUNK_STRINGS as u32 {
            assert_eq!(interner.intern(&text(no)), no);
        }
        let bytes = interner.bytes();
        for no in (0..3 * CHUNK_STRINGS as u32).rev() {
            assert_eq!(
                (interner.intern(&text(no)), interner.get(no)),
                (no, Some(text(no).as_str()))
            );
        }
        assert_eq!(interner.bytes(), bytes);
        assert!(bytes > 3 * CHUNK_STRINGS * "/page/1000".len());
    }
}
