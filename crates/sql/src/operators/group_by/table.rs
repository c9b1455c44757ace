//! The groups of one partition by their keys.

use std::hash::BuildHasher;

use arrow::buffer::NullBuffer;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::keys::{GroupKey, Words};

/// Codes below this index an array of groups; larger ones, and that of null, are hashed.
const DENSE_CODES_MAX: usize = 1 << 22;
/// Null bits of one word.
const NULL_BITS: usize = 64;
/// A code without a group.
const NONE: u32 = u32::MAX;

/// Numbers groups from 0 on, in the order in which their keys are met.
#[derive(Debug)]
pub(super) enum GroupTable {
    /// Without keys: all rows are one group, even if there are none.
    One,
    /// One key whose codes are dense.
    Dense(DenseTable),
    /// Up to two narrow keys, packed into one word.
    Packed(PackedTable, usize),
    /// One wide key.
    Word(PackedTable, Option<u32>),
    /// Any keys: a word for each, and a bit that tells whether it is null.
    Wide(WideTable),
}

#[derive(Debug, Default)]
pub(super) struct DenseTable {
    groups: Vec<u32>,
    /// Groups of codes past the array, and of null.
    others: HashMap<u32, u32>,
    codes: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct PackedTable {
    table: HashTable<u32>,
    keys: Vec<u64>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
pub(super) struct WideTable {
    stride: usize,
    table: HashTable<u32>,
    keys: Vec<u64>,
    hasher: DefaultHashBuilder,
    narrow: Vec<bool>,
}

impl GroupTable {
    pub(super) fn new(keys: &[GroupKey]) -> Self {
        match keys {
            [] => Self::One,
            [key] if key.is_dense() => Self::Dense(DenseTable::default()),
            [key] if !key.is_narrow() => Self::Word(PackedTable::default(), None),
            keys if keys.len() <= 2 && keys.iter().all(GroupKey::is_narrow) => {
                Self::Packed(PackedTable::default(), keys.len())
            }
            keys => Self::Wide(WideTable {
                stride: keys.len() + keys.len().div_ceil(NULL_BITS),
                table: HashTable::new(),
                keys: Vec::new(),
                hasher: DefaultHashBuilder::default(),
                narrow: keys.iter().map(GroupKey::is_narrow).collect(),
            }),
        }
    }

    pub(super) fn groups(&self) -> usize {
        match self {
            Self::One => 1,
            Self::Dense(table) => table.codes.len(),
            Self::Packed(table, _) | Self::Word(table, _) => table.keys.len(),
            Self::Wide(table) => table.keys.len() / table.stride,
        }
    }

    /// Memory of the keys.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::One => 0,
            Self::Dense(table) => {
                (table.groups.capacity() + table.codes.capacity()) * size_of::<u32>()
                    + table.others.allocation_size()
            }
            Self::Packed(table, _) | Self::Word(table, _) => table.bytes(),
            Self::Wide(table) => {
                table.table.allocation_size() + table.keys.capacity() * size_of::<u64>()
            }
        }
    }

    /// Appends the group of each row.
    pub(super) fn assign(&mut self, keys: &[Words], rows: usize, groups: &mut Vec<usize>) {
        match (self, keys) {
            (Self::One, _) => groups.resize(groups.len() + rows, 0),
            (Self::Dense(table), [Words::Narrow(codes)]) => {
                groups.extend(codes.iter().map(|code| table.group(*code)));
            }
            (Self::Packed(table, _), [Words::Narrow(first)]) => {
                table.assign(first.iter().map(|code| u64::from(*code)), groups);
            }
            (Self::Packed(table, _), [Words::Narrow(first), Words::Narrow(second)]) => {
                let pairs = first.iter().zip(second);
                let pack =
                    |(first, second): (&u32, &u32)| u64::from(*first) << 32 | u64::from(*second);
                table.assign(pairs.map(pack), groups);
            }
            (Self::Word(table, null), [Words::Wide(words, nulls)]) => match nulls {
                None => table.assign(words.iter().copied(), groups),
                Some(nulls) => groups.extend(words.iter().enumerate().map(|(row, word)| {
                    match nulls.is_valid(row) {
                        true => table.group(*word),
                        // The key of the null group is never looked up.
                        false => *null.get_or_insert_with(|| table.push(0)) as usize,
                    }
                })),
            },
            (Self::Wide(table), keys) => table.assign(keys, rows, groups),
            // A key has the same kind of words in every batch.
            (_, _) => groups.resize(groups.len() + rows, 0),
        }
    }

    /// The keys of all groups, in their order.
    pub(super) fn keys(&self) -> Vec<Words> {
        match self {
            Self::One => Vec::new(),
            Self::Dense(table) => vec![Words::Narrow(table.codes.clone())],
            Self::Packed(table, 1) => {
                vec![Words::Narrow(table.keys.iter().map(|key| *key as u32).collect())]
            }
            Self::Packed(table, _) => {
                let first = table.keys.iter().map(|key| (*key >> 32) as u32).collect();
                let second = table.keys.iter().map(|key| *key as u32).collect();
                vec![Words::Narrow(first), Words::Narrow(second)]
            }
            Self::Word(table, null) => {
                let nulls = null.map(|null| {
                    NullBuffer::from_iter((0..table.keys.len()).map(|group| group != null as usize))
                });
                vec![Words::Wide(table.keys.clone(), nulls)]
            }
            Self::Wide(table) => table.words(),
        }
    }
}

impl DenseTable {
    fn group(&mut self, code: u32) -> usize {
        let at = code as usize;
        if let Some(group) = self.groups.get(at).filter(|group| **group != NONE) {
            return *group as usize;
        }
        let new = self.codes.len() as u32;
        let group = if at < DENSE_CODES_MAX {
            if at >= self.groups.len() {
                self.groups.resize((at + 1).next_power_of_two(), NONE);
            }
            self.groups[at] = new;
            new
        } else {
            *self.others.entry(code).or_insert(new)
        };
        if group == new {
            self.codes.push(code);
        }
        group as usize
    }
}

impl PackedTable {
    fn bytes(&self) -> usize {
        self.table.allocation_size() + self.keys.capacity() * size_of::<u64>()
    }

    fn push(&mut self, key: u64) -> u32 {
        self.keys.push(key);
        self.keys.len() as u32 - 1
    }

    fn group(&mut self, key: u64) -> usize {
        let Self { table, keys, hasher } = self;
        let hash = hasher.hash_one(key);
        if let Some(group) = table.find(hash, |group| keys[*group as usize] == key) {
            return *group as usize;
        }
        let new = keys.len() as u32;
        table.insert_unique(hash, new, |group| hasher.hash_one(keys[*group as usize]));
        keys.push(key);
        new as usize
    }

    /// Rows are sorted by event and time, so that many follow one with the same key.
    fn assign(&mut self, keys: impl Iterator<Item = u64>, groups: &mut Vec<usize>) {
        let mut last: Option<(u64, usize)> = None;
        groups.extend(keys.map(|key| match last {
            Some((known, group)) if known == key => group,
            _ => {
                let group = self.group(key);
                last = Some((key, group));
                group
            }
        }));
    }
}

impl WideTable {
    fn assign(&mut self, keys: &[Words], rows: usize, groups: &mut Vec<usize>) {
        let stride = self.stride;
        let mut row_words = vec![0u64; stride];
        for row in 0..rows {
            row_words[keys.len()..].fill(0);
            for (no, words) in keys.iter().enumerate() {
                row_words[no] = match words {
                    Words::Narrow(codes) => u64::from(codes[row]),
                    Words::Wide(_, Some(valid)) if valid.is_null(row) => {
                        row_words[keys.len() + no / NULL_BITS] |= 1 << (no % NULL_BITS);
                        0
                    }
                    Words::Wide(words, _) => words[row],
                };
            }
            let Self { table, keys: known, hasher, .. } = self;
            let of = |group: u32| {
                let from = group as usize * stride;
                from..from + stride
            };
            let hash = hasher.hash_one(&row_words[..]);
            let group = match table.find(hash, |group| known[of(*group)] == row_words[..]) {
                Some(group) => *group,
                None => {
                    let new = (known.len() / stride) as u32;
                    known.extend_from_slice(&row_words);
                    table.insert_unique(hash, new, |group| hasher.hash_one(&known[of(*group)]));
                    new
                }
            };
            groups.push(group as usize);
        }
    }

    fn words(&self) -> Vec<Words> {
        let rows = || self.keys.chunks_exact(self.stride);
        let bits = |row: &[u64], no: usize| row[self.narrow.len() + no / NULL_BITS];
        let key = |(no, narrow): (usize, &bool)| match narrow {
            true => Words::Narrow(rows().map(|row| row[no] as u32).collect()),
            false => {
                let valid = rows().map(|row| bits(row, no) >> (no % NULL_BITS) & 1 == 0);
                let valid = NullBuffer::from_iter(valid);
                let valid = (valid.null_count() > 0).then_some(valid);
                Words::Wide(rows().map(|row| row[no]).collect(), valid)
            }
        };
        self.narrow.iter().enumerate().map(key).collect()
    }
}
