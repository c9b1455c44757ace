//! Exact sets of dense ids, for distinct counts.

use roaring::RoaringBitmap;
use smallvec::SmallVec;

/// Members stored without a heap allocation.
const INLINE_LEN_MAX: usize = 4;
/// Longest list; up to here a linear search is fastest.
const LIST_LEN_MAX: usize = 16;
/// Fewest members of a bitmap.
const BITS_LEN_MIN: u64 = 64;
/// Sparsest bitmap, in bits per member.
const BITS_PER_MEMBER_MAX: u64 = 128;

/// A sparse set at least this many times smaller is inserted member by member.
const FEW: u64 = 8;

/// Starts as a list, becomes a Roaring bitmap, and a plain bitmap once it is dense enough, where an
/// insert costs a fraction. Most sets of a breakdown with many values stay lists.
#[derive(Clone, Debug)]
pub enum IdSet {
    /// Unsorted.
    List(SmallVec<[u32; INLINE_LEN_MAX]>),
    Sparse(RoaringBitmap),
    Bits(Vec<u64>),
}

impl Default for IdSet {
    fn default() -> Self {
        Self::List(SmallVec::new())
    }
}

impl IdSet {
    pub fn insert(&mut self, number: u32) {
        match self {
            Self::List(members) => {
                if members.contains(&number) {
                    return;
                }
                members.push(number);
                if members.len() > LIST_LEN_MAX {
                    *self = Self::Sparse(members.iter().copied().collect());
                }
            }
            Self::Bits(words) => {
                let at = number as usize / 64;
                if at >= words.len() {
                    words.resize(at + 1, 0);
                }
                words[at] |= 1 << (number % 64);
            }
            Self::Sparse(members) => {
                if members.insert(number) && members.len().is_power_of_two() {
                    self.condense();
                }
            }
        }
    }

    fn condense(&mut self) {
        let Self::Sparse(members) = self else { return };
        let (len, max) = (members.len(), members.max().unwrap_or(0));
        if len < BITS_LEN_MIN || u64::from(max) > len * BITS_PER_MEMBER_MAX {
            return;
        }
        let mut words = vec![0u64; max as usize / 64 + 1];
        for number in members.iter() {
            words[number as usize / 64] |= 1 << (number % 64);
        }
        *self = Self::Bits(words);
    }

    pub fn count(&self) -> u64 {
        match self {
            Self::List(members) => members.len() as u64,
            Self::Bits(words) => words.iter().map(|word| u64::from(word.count_ones())).sum(),
            Self::Sparse(members) => members.len(),
        }
    }

    pub fn union(&mut self, other: &Self) {
        match (&mut *self, other) {
            (_, Self::List(few)) => few.iter().for_each(|number| self.insert(*number)),
            (Self::List(few), _) => {
                let few = std::mem::take(few);
                *self = other.clone();
                few.into_iter().for_each(|number| self.insert(number));
            }
            // Inserting avoids copying a large set for each of many small ones.
            (Self::Sparse(own), Self::Sparse(few)) if few.len() * FEW < own.len() => {
                few.iter().for_each(|number| self.insert(number));
            }
            (Self::Sparse(own), Self::Sparse(other)) => {
                *own |= other;
                self.condense();
            }
            (Self::Bits(own), Self::Bits(other)) => {
                if own.len() < other.len() {
                    own.resize(other.len(), 0);
                }
                own.iter_mut().zip(other).for_each(|(own, other)| *own |= other);
            }
            (Self::Bits(_), Self::Sparse(other)) => {
                other.iter().for_each(|number| self.insert(number));
            }
            (Self::Sparse(own), Self::Bits(_)) => {
                let own = std::mem::take(own);
                *self = other.clone();
                own.iter().for_each(|number| self.insert(number));
            }
        }
    }

    pub fn for_each(&self, mut each: impl FnMut(u32)) {
        match self {
            Self::List(members) => {
                let mut members = members.clone();
                members.sort_unstable();
                members.into_iter().for_each(each);
            }
            Self::Sparse(members) => members.iter().for_each(each),
            Self::Bits(words) => {
                for (at, word) in words.iter().enumerate() {
                    let mut word = *word;
                    while word != 0 {
                        each(at as u32 * 64 + word.trailing_zeros());
                        word &= word - 1;
                    }
                }
            }
        }
    }

    /// Heap bytes; an estimate for Roaring bitmaps.
    pub fn bytes(&self) -> usize {
        match self {
            Self::List(members) if members.spilled() => members.capacity() * 4,
            Self::List(_) => 0,
            Self::Bits(words) => words.capacity() * 8,
            Self::Sparse(members) => members.serialized_size() + 32,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn id_sets_agree_with_btree_sets_in_every_representation() {
        let seed = testing::seed_or(7);
        let mut rng = seed.rng();
        for spread in [100u32, 20_000, 4_000_000] {
            let mut both = (IdSet::default(), BTreeSet::new());
            let mut other = (IdSet::default(), BTreeSet::new());
            for _ in 0..12_000 {
                let number = rng.range(0..spread);
                both.0.insert(number);
                both.1.insert(number);
                let number = rng.range(0..spread / 2);
                other.0.insert(number);
                other.1.insert(number);
            }
            for few in [0, 10, 100, 5_000] {
                let mut few_set = (IdSet::default(), BTreeSet::new());
                (0..few).for_each(|number| {
                    few_set.0.insert(number);
                    few_set.1.insert(number);
                });
                few_set.0.union(&both.0);
                few_set.1.extend(&both.1);
                assert_eq!(few_set.0.count(), few_set.1.len() as u64);
            }
            other.0.union(&both.0);
            other.1.extend(&both.1);
            let mut found = Vec::new();
            other.0.for_each(|number| found.push(number));
            assert!(found.into_iter().eq(other.1.iter().copied()), "{spread}");
            assert_eq!(other.0.count(), other.1.len() as u64);
        }
    }
}
