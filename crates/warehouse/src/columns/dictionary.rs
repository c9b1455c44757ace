//! Dictionary encoding: a column is codes into a dictionary of distinct values.

use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::columns::{Tag, Value};

/// The code of a row without a value.
pub const ABSENT: u32 = u32::MAX;

/// Values by code. Values may repeat: columns of mostly unique strings are stored without interning.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    /// The first entries, in a memory-mapped file.
    mapped: MappedEntries,
    tags: Vec<Tag>,
    ends: Vec<u32>,
    text: String,
}

/// Dictionary entries outside of the process's own memory.
#[derive(Clone, Debug, Default)]
pub struct MappedEntries {
    len: usize,
    parts: Vec<MappedPart>,
}

#[derive(Clone, Debug)]
struct MappedPart {
    /// Code of the first entry.
    first: usize,
    /// A byte for each entry, then the end of each in `text` (u32, little-endian).
    tags: Bytes,
    ends: Bytes,
    text: Bytes,
}

impl MappedEntries {
    /// Appends entries that [`Dictionary::write_entries`] wrote; false if these bytes cannot be such.
    pub fn push(&mut self, entries: usize, bytes: &Bytes) -> bool {
        let Some(text) = entries.checked_mul(5).filter(|text| *text <= bytes.len()) else {
            return false;
        };
        let (tags, ends) = (bytes.slice(..entries), bytes.slice(entries..text));
        let known = tags.iter().all(|tag| Tag::from_u8(*tag).is_some());
        let text = bytes.slice(text..);
        self.parts.push(MappedPart { first: self.len, tags, ends, text });
        self.len += entries;
        known
    }

    fn get(&self, code: usize) -> Value<'_> {
        let part = self.parts.partition_point(|part| part.first <= code) - 1;
        let part = &self.parts[part];
        let at = code - part.first;
        let end_of = |at: usize| {
            let end = part.ends[at * 4..].first_chunk().copied();
            end.map_or(0, u32::from_le_bytes) as usize
        };
        let start = if at == 0 { 0 } else { end_of(at - 1) };
        let text = part.text.get(start..end_of(at)).unwrap_or_default();
        let tag = Tag::from_u8(part.tags[at]).unwrap_or(Tag::Null);
        Value::new(tag, std::str::from_utf8(text).unwrap_or_default())
    }
}

impl Dictionary {
    /// With exact capacities, so that a cached dictionary wastes no memory.
    pub(crate) fn with_capacity(entries: usize, text_bytes: usize) -> Self {
        Self {
            mapped: MappedEntries::default(),
            tags: Vec::with_capacity(entries),
            ends: Vec::with_capacity(entries),
            text: String::with_capacity(text_bytes),
        }
    }

    /// A dictionary that begins with mapped entries.
    pub fn mapped(mapped: MappedEntries) -> Self {
        Self { mapped, ..Self::default() }
    }

    /// Writes the entries in memory, for [`MappedEntries::push`].
    pub fn write_entries(&self, out: &mut impl Write) -> io::Result<()> {
        let tags: Vec<u8> = self.tags.iter().map(|tag| *tag as u8).collect();
        out.write_all(&tags)?;
        let ends: Vec<u8> = self.ends.iter().flat_map(|end| end.to_le_bytes()).collect();
        out.write_all(&ends)?;
        out.write_all(self.text.as_bytes())
    }

    pub fn len(&self) -> usize {
        self.mapped.len + self.tags.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Panics
    /// If `code` is [`ABSENT`] or out of range.
    pub fn get(&self, code: u32) -> Value<'_> {
        let at = code as usize;
        let Some(at) = at.checked_sub(self.mapped.len) else { return self.mapped.get(at) };
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        Value::new(self.tags[at], &self.text[start..self.ends[at] as usize])
    }

    /// Whether the entry of a code is `value`. Compares bytes, which skips the check of UTF-8
    /// boundaries that slicing a string needs.
    pub(crate) fn is(&self, code: u32, value: Value<'_>) -> bool {
        let at = code as usize;
        let Some(at) = at.checked_sub(self.mapped.len) else {
            return self.mapped.get(at) == value;
        };
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        let text = &self.text.as_bytes()[start..self.ends[at] as usize];
        text == value.text().as_bytes() && self.tags[at] == value.tag()
    }

    /// The concatenated strings of a range of entries in memory, and the end of the n-th of them.
    pub(crate) fn concatenated(&self, entries: Range<usize>) -> (&str, impl Fn(usize) -> usize) {
        let start = if entries.start == 0 { 0 } else { self.ends[entries.start - 1] as usize };
        let ends = &self.ends[entries];
        let text = &self.text[start..ends.last().map_or(start, |end| *end as usize)];
        (text, move |at| ends[at] as usize - start)
    }

    /// For each entry in memory of a range, whether it is a non-empty string.
    pub(crate) fn are_strings(&self, entries: Range<usize>) -> impl Iterator<Item = bool> {
        let mut start = if entries.start == 0 { 0 } else { self.ends[entries.start - 1] };
        self.tags[entries.clone()].iter().zip(&self.ends[entries]).map(move |(tag, end)| {
            let begin = std::mem::replace(&mut start, *end);
            *tag == Tag::Text && begin < *end
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'_>> {
        (0..self.len() as u32).map(|code| self.get(code))
    }

    /// Calls `each` once for every entry that `codes` use and that is not known yet, in the order of
    /// storage: in the order of rows, each access would be a cache miss.
    pub fn for_each_used(
        &self,
        codes: &[u32],
        is_known: impl Fn(u32) -> bool,
        mut each: impl FnMut(u32),
    ) {
        let mut used = vec![0u64; self.len().div_ceil(64)];
        for code in codes.iter().copied().filter(|code| *code != ABSENT && !is_known(*code)) {
            used[code as usize / 64] |= 1 << (code % 64);
        }
        for (at, word) in used.into_iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let code = at as u32 * 64 + word.trailing_zeros();
                word &= word - 1;
                each(code);
            }
        }
    }

    pub fn push(&mut self, value: Value<'_>) -> u32 {
        let code = self.len() as u32;
        self.tags.push(value.tag());
        self.text.push_str(value.text());
        self.ends.push(self.text.len() as u32);
        code
    }

    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Of the process's own memory.
    pub fn memory_bytes(&self) -> usize {
        self.tags.capacity() * size_of::<Tag>() + self.ends.capacity() * 4 + self.text.capacity()
    }
}

/// A dictionary-encoded column.
#[derive(Clone, Debug)]
pub struct Column {
    pub codes: Vec<u32>,
    pub dictionary: Arc<Dictionary>,
}

impl Column {
    /// A column without values.
    pub fn absent(rows: usize) -> Column {
        Column { codes: vec![ABSENT; rows], dictionary: Arc::default() }
    }

    /// The value of a row, `None` if it has none.
    pub fn value(&self, row: usize) -> Option<Value<'_>> {
        match self.codes[row] {
            ABSENT => None,
            code => Some(self.dictionary.get(code)),
        }
    }
}

/// A dictionary under construction: equal values get one code.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    pub dictionary: Dictionary,
    /// Half of each value's hash, and its code. A lookup reads the value only if the half matches.
    table: HashTable<(u32, u32)>,
    hasher: ValueHasher,
}

/// The seeded hash function of an [`Interner`]. Interners may share one.
#[derive(Clone, Debug, Default)]
pub struct ValueHasher(DefaultHashBuilder);

impl ValueHasher {
    pub fn hash(&self, value: Value<'_>) -> u64 {
        let mut state = self.0.build_hasher();
        state.write(value.text().as_bytes());
        state.write_u8(value.tag() as u8);
        state.finish()
    }

    /// Expands half a hash to 64 bits: the hash table uses both the low and the high bits.
    pub const fn expand(half: u32) -> u64 {
        /// 2^64 divided by the golden ratio: Fibonacci hashing.
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        (half as u64).wrapping_mul(MULTIPLIER)
    }
}

impl Interner {
    /// Continues a dictionary. Its values are found again if there are at most `interned_max`;
    /// otherwise a value may get a second code.
    pub fn over(dictionary: Dictionary, interned_max: usize) -> Self {
        let mut interner = Self { dictionary, ..Self::default() };
        if interner.dictionary.len() <= interned_max {
            for code in 0..interner.dictionary.len() as u32 {
                let half = interner.hasher.hash(interner.dictionary.get(code)) as u32;
                let hash = ValueHasher::expand(half);
                interner
                    .table
                    .insert_unique(hash, (half, code), |(half, _)| ValueHasher::expand(*half));
            }
        }
        interner
    }

    /// Memory of the hash table.
    pub fn table_bytes(&self) -> usize {
        self.table.allocation_size()
    }

    pub fn intern(&mut self, value: Value<'_>) -> u32 {
        self.intern_hashed(self.hasher.hash(value), value)
    }

    /// Interns a value with its hash, by the same [`ValueHasher`] for all values of this interner.
    pub fn intern_hashed(&mut self, hash: u64, value: Value<'_>) -> u32 {
        if let Some(code) = self.find_hashed(hash, value) {
            return code;
        }
        let code = self.dictionary.push(value);
        let half = hash as u32;
        self.table.insert_unique(ValueHasher::expand(half), (half, code), |(half, _)| {
            ValueHasher::expand(*half)
        });
        code
    }

    /// The code of a value, if it was interned.
    pub fn find(&self, value: Value<'_>) -> Option<u32> {
        self.find_hashed(self.hasher.hash(value), value)
    }

    /// As [`Interner::find`], with the value's hash.
    pub fn find_hashed(&self, hash: u64, value: Value<'_>) -> Option<u32> {
        let half = hash as u32;
        let is_match = |entry: &(u32, u32)| entry.0 == half && self.dictionary.is(entry.1, value);
        self.table.find(ValueHasher::expand(half), is_match).map(|(_, code)| *code)
    }
}
