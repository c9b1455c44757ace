//! A dictionary-encoded column under construction, with a cache of recent values by fingerprint.

use std::sync::Arc;

use crate::columns::{ABSENT, Column, Interner, Tag, Value};

/// A column gets a cache of recent values at this row. Blocks of small projects never reach it and
/// save the memory.
const RECENT_FROM_ROW: usize = 32;

/// Memory of one row in a column.
const CODE_BYTES: usize = size_of::<u32>();
/// Memory of a dictionary entry besides its string: tag, offset and hash table slot, with slack for
/// their growth.
const ENTRY_BYTES: usize = 24;

#[derive(Debug, Default)]
pub(crate) struct ColumnBuilder {
    codes: Vec<u32>,
    interner: Interner,
    recent: Option<Box<RecentValues>>,
}

impl ColumnBuilder {
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    pub fn value(&self, row: usize) -> Option<Value<'_>> {
        match self.codes.get(row) {
            None | Some(&ABSENT) => None,
            Some(code) => Some(self.interner.dictionary.get(*code)),
        }
    }

    /// Sets the value of the last row or a new one; skipped rows are absent. Returns by how many
    /// bytes memory grew.
    #[inline(always)]
    pub fn set(&mut self, row: usize, value: Value<'_>) -> usize {
        let fingerprint = Fingerprint::new(value);
        // The fast path: most columns have a value in every row, and most values are recent.
        if self.codes.len() == row
            && let Some(recent) = &self.recent
            && let Some(code) = recent.code(fingerprint, value, &self.interner)
        {
            self.codes.push(code);
            return CODE_BYTES;
        }
        self.set_new(row, value, fingerprint)
    }

    #[inline(never)]
    fn set_new(&mut self, row: usize, value: Value<'_>, fingerprint: Fingerprint) -> usize {
        let mut grown = CODE_BYTES;
        if self.codes.len() < row {
            grown += (row - self.codes.len()) * CODE_BYTES;
            self.codes.resize(row, ABSENT);
        }
        self.codes.truncate(row);
        if row >= RECENT_FROM_ROW && self.recent.is_none() {
            self.recent = Some(Box::default());
            grown += size_of::<RecentValues>();
        }
        let entries = self.interner.dictionary.len();
        let code = match &mut self.recent {
            Some(recent) => recent.intern(fingerprint, value, &mut self.interner),
            None => self.interner.intern(value),
        };
        if self.interner.dictionary.len() > entries {
            grown += ENTRY_BYTES + value.text().len();
        }
        self.codes.push(code);
        grown
    }

    /// Removes the value of `row`, which must be the last one.
    pub fn clear(&mut self, row: usize) {
        self.codes.truncate(row);
    }

    /// An immutable copy, padded with absent values to `rows`.
    pub fn column(&self, rows: usize) -> Column {
        let mut codes = Vec::with_capacity(rows);
        codes.extend_from_slice(&self.codes);
        codes.resize(rows, ABSENT);
        Column { codes, dictionary: Arc::new(self.interner.dictionary.clone()) }
    }
}

/// Recent values of a column, in a direct-mapped cache. Most columns have few distinct values, and
/// comparing a fingerprint is cheaper than hashing the value and probing the dictionary.
#[derive(Debug)]
struct RecentValues([RecentValue; RECENT_VALUES]);

impl Default for RecentValues {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RecentValue::default()))
    }
}

/// Slots of the cache; a power of two.
const RECENT_VALUES: usize = 64;

impl RecentValues {
    /// The code of a value, if the cache has it.
    #[inline(always)]
    fn code(&self, fingerprint: Fingerprint, value: Value<'_>, interner: &Interner) -> Option<u32> {
        let recent = &self.0[fingerprint.slot()];
        let hit = recent.code != ABSENT
            && recent.fingerprint == fingerprint
            && (fingerprint.is_exact() || interner.dictionary.is(recent.code, value));
        hit.then_some(recent.code)
    }

    /// Interns a value and caches its code.
    fn intern(
        &mut self,
        fingerprint: Fingerprint,
        value: Value<'_>,
        interner: &mut Interner,
    ) -> u32 {
        let code = match self.code(fingerprint, value, interner) {
            Some(code) => code,
            None => interner.intern(value),
        };
        self.0[fingerprint.slot()] = RecentValue { fingerprint, code };
        code
    }
}

#[derive(Debug)]
struct RecentValue {
    fingerprint: Fingerprint,
    code: u32,
}

impl Default for RecentValue {
    fn default() -> Self {
        Self { fingerprint: Fingerprint { head: 0, tail: 0, kind: 0 }, code: ABSENT }
    }
}

/// The first and the last 8 bytes of a value, its length and its tag. Exact for values of up to 16
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    head: u64,
    tail: u64,
    kind: u32,
}

impl Fingerprint {
    const TAG_BITS: u32 = 3;
    /// So that equal heads and tails do not cancel each other out.
    const TAIL_ROTATION: u32 = 29;
    /// 2^64 divided by the golden ratio: Fibonacci hashing.
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

    #[inline]
    fn new(value: Value<'_>) -> Self {
        const { assert!((Tag::Json as u32) < 1 << Self::TAG_BITS) };
        let bytes = value.text().as_bytes();
        let (head, tail) = match (bytes.first_chunk(), bytes.last_chunk()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => match (bytes.first_chunk(), bytes.last_chunk()) {
                (Some(head), Some(tail)) => {
                    (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into())
                }
                _ => (bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0),
            },
        };
        let length = bytes.len().min(u32::MAX as usize >> Self::TAG_BITS) as u32;
        let kind = length << Self::TAG_BITS | value.tag() as u32;
        Self { head, tail, kind }
    }

    /// The cache slot of this fingerprint.
    #[inline]
    const fn slot(self) -> usize {
        let mixed = (self.head ^ self.tail.rotate_left(Self::TAIL_ROTATION) ^ self.kind as u64)
            .wrapping_mul(Self::MULTIPLIER);
        (mixed >> (u64::BITS - RECENT_VALUES.ilog2())) as usize % RECENT_VALUES
    }

    /// Whether no other value has this fingerprint.
    const fn is_exact(self) -> bool {
        self.kind >> Self::TAG_BITS <= 2 * size_of::<u64>() as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        // Few letters and many lengths, so that many values share head and tail.
        (prop::sample::select(vec![0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 40]), 0..40usize)
            .prop_map(|(length, at)| {
                (0..length).map(|index| if index == at { 'b' } else { 'a' }).collect()
            })
    }

    proptest! {
        /// Some rows have no value, and some are set twice.
        #[test]
        fn column_builder_keeps_the_last_value_of_each_row(
            set in prop::collection::vec(
                (
                    prop::sample::select(vec![Tag::Number, Tag::Text, Tag::Json, Tag::True]),
                    text(),
                    0..3usize,
                ),
                0..200,
            )
        ) {
            let (mut open, mut rows, mut row) = (ColumnBuilder::default(), Vec::new(), 0);
            for (tag, text, skipped) in &set {
                row += skipped;
                rows.resize(row, None);
                rows.push(Some(Value::new(*tag, text)));
                open.set(row, Value::new(*tag, text));
            }
            let column = open.column(rows.len() + 1);
            for (row, value) in rows.iter().enumerate() {
                prop_assert_eq!(column.value(row), *value);
                prop_assert_eq!(open.value(row), *value);
            }
            prop_assert_eq!(column.value(rows.len()), None);
            let distinct: std::collections::HashSet<_> =
                set.iter().map(|(tag, text, _)| Value::new(*tag, text)).collect();
            prop_assert_eq!(column.dictionary.len(), distinct.len(), "equal values have one code");
        }
    }
}
