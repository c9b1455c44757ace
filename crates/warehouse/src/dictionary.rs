//! Columns as codes into a dictionary of values: the shape everything above storage works on.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::value::{Tag, Value};

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

    pub fn iter(&self) -> impl Iterator<Item = Value<'_>> {
        (0..self.len() as u32).map(|code| self.get(code))
    }

    pub fn push(&mut self, value: Value<'_>) -> u32 {
        let code = self.tags.len() as u32;
        self.tags.push(value.tag());
        self.text.push_str(value.text());
        self.ends.push(self.text.len() as u32);
        code
    }

    pub fn memory_bytes(&self) -> usize {
        self.tags.len() * 5 + self.text.len()
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
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Interner {
    pub fn intern(&mut self, value: Value<'_>) -> u32 {
        let hash = hash(&self.hasher, value);
        let Interner { dictionary, table, hasher } = self;
        if let Some(code) = table.find(hash, |code| dictionary.get(*code) == value) {
            return *code;
        }
        let code = dictionary.push(value);
        table.insert_unique(hash, code, |code| self::hash(hasher, dictionary.get(*code)));
        code
    }
}

fn hash(hasher: &DefaultHashBuilder, value: Value<'_>) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(value.text().as_bytes());
    state.write_u8(value.tag() as u8);
    state.finish()
}
