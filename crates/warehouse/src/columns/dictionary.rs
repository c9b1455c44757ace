//! Columns as codes into a dictionary of values: the shape everything above storage works on.

use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::columns::{Tag, Value};

/// The code of a row without a value.
pub const ABSENT: u32 = u32::MAX;

/// Values by code. An entry may stand twice: unique texts are stored without a look-up.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    tags: Vec<Tag>,
    ends: Vec<u32>,
    text: String,
}

impl Dictionary {
    /// One that stays should not have grown by twice what it needs.
    pub(crate) fn with_capacity(entries: usize, text_bytes: usize) -> Self {
        Self {
            tags: Vec::with_capacity(entries),
            ends: Vec::with_capacity(entries),
            text: String::with_capacity(text_bytes),
        }
    }

    pub fn len(&self) -> usize {
        self.tags.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// # Panics
    /// When `code` is [`ABSENT`] or of another dictionary.
    pub fn get(&self, code: u32) -> Value<'_> {
        let at = code as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        Value::new(self.tags[at], &self.text[start..self.ends[at] as usize])
    }

    /// Whether the entry of a code is `value`: without asking, as for a text to be given out, where
    /// its letters begin and end.
    pub(crate) fn is(&self, code: u32, value: Value<'_>) -> bool {
        let at = code as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        let text = &self.text.as_bytes()[start..self.ends[at] as usize];
        text == value.text().as_bytes() && self.tags[at] == value.tag()
    }

    /// The texts of some entries, one behind the other, and where each ends, by its number among them.
    pub(crate) fn side_by_side(&self, entries: Range<usize>) -> (&str, impl Fn(usize) -> usize) {
        let start = if entries.start == 0 { 0 } else { self.ends[entries.start - 1] as usize };
        let ends = &self.ends[entries];
        let text = &self.text[start..ends.last().map_or(start, |end| *end as usize)];
        (text, move |at| ends[at] as usize - start)
    }

    /// Of some entries, whether they are texts, and not empty.
    pub(crate) fn are_texts(&self, entries: Range<usize>) -> impl Iterator<Item = bool> {
        let mut start = if entries.start == 0 { 0 } else { self.ends[entries.start - 1] };
        self.tags[entries.clone()].iter().zip(&self.ends[entries]).map(move |(tag, end)| {
            let begin = std::mem::replace(&mut start, *end);
            *tag == Tag::Text && begin < *end
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Value<'_>> {
        (0..self.len() as u32).map(|code| self.get(code))
    }

    /// Shows the entries that `codes` name and that are not known yet, each once and in the order
    /// they are stored: to look at them in the order of rows would be to wait for memory each time.
    pub fn for_each_used(
        &self,
        codes: &[u32],
        is_known: impl Fn(u32) -> bool,
        mut each: impl FnMut(u32),
    ) {
        let mut met = vec![0u64; self.len().div_ceil(64)];
        for code in codes.iter().copied().filter(|code| *code != ABSENT && !is_known(*code)) {
            met[code as usize / 64] |= 1 << (code % 64);
        }
        for (at, word) in met.into_iter().enumerate() {
            let mut word = word;
            while word != 0 {
                let code = at as u32 * 64 + word.trailing_zeros();
                word &= word - 1;
                each(code);
            }
        }
    }

    pub fn push(&mut self, value: Value<'_>) -> u32 {
        let code = self.tags.len() as u32;
        self.tags.push(value.tag());
        self.text.push_str(value.text());
        self.ends.push(self.text.len() as u32);
        code
    }

    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    pub fn memory_bytes(&self) -> usize {
        self.tags.capacity() * size_of::<Tag>() + self.ends.capacity() * 4 + self.text.capacity()
    }
}

/// One column of some rows.
#[derive(Clone, Debug)]
pub struct Column {
    pub codes: Vec<u32>,
    pub dictionary: Arc<Dictionary>,
}

impl Column {
    /// Of rows without values.
    pub fn absent(rows: usize) -> Column {
        Column { codes: vec![ABSENT; rows], dictionary: Arc::default() }
    }

    /// The value of a row, `None` when the row has none.
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
    /// Codes beside parts of the hashes of their values, which are looked at only when those are
    /// equal.
    table: HashTable<(u32, u32)>,
    hasher: ValueHasher,
}

/// How an [`Interner`] hashes values. Several may share one.
#[derive(Clone, Debug, Default)]
pub struct ValueHasher(DefaultHashBuilder);

impl ValueHasher {
    pub fn hash(&self, value: Value<'_>) -> u64 {
        let mut state = self.0.build_hasher();
        state.write(value.text().as_bytes());
        state.write_u8(value.tag() as u8);
        state.finish()
    }

    /// Half a hash as a whole one: a table looks at both ends of it.
    pub const fn expand(part: u32) -> u64 {
        (part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Interner {
    pub fn intern(&mut self, value: Value<'_>) -> u32 {
        self.intern_hashed(self.hasher.hash(value), value)
    }

    /// `hash` is of one [`ValueHasher`] for all values of this interner.
    pub fn intern_hashed(&mut self, hash: u64, value: Value<'_>) -> u32 {
        if let Some(code) = self.find_hashed(hash, value) {
            return code;
        }
        let code = self.dictionary.push(value);
        let part = hash as u32;
        self.table.insert_unique(ValueHasher::expand(part), (part, code), |(part, _)| {
            ValueHasher::expand(*part)
        });
        code
    }

    /// The code of a value that is here already.
    pub fn find(&self, value: Value<'_>) -> Option<u32> {
        self.find_hashed(self.hasher.hash(value), value)
    }

    /// The same with its hash.
    pub fn find_hashed(&self, hash: u64, value: Value<'_>) -> Option<u32> {
        let part = hash as u32;
        let is_it = |known: &(u32, u32)| known.0 == part && self.dictionary.is(known.1, value);
        self.table.find(ValueHasher::expand(part), is_it).map(|(_, code)| *code)
    }
}
