//! Pending merges of persons, as a union-find with path compression.
//!
//! Distinct ids get their new person lazily, when changes are taken. Searching for the ids of each
//! merged person would cost O(cached ids) per merge, and clients can send thousands of merges.

use std::collections::HashMap;

use ahash::RandomState;
use model::person::PersonNo;

use super::IdentityCache;

#[derive(Debug, Default)]
pub(super) struct MergeForest {
    /// The person that a person was merged into, and over how many merges.
    into: HashMap<PersonNo, (PersonNo, i64), RandomState>,
    /// Links followed, which is what a lookup costs.
    #[cfg(test)]
    pub(super) steps: u64,
}

impl MergeForest {
    pub(super) fn add(&mut self, gone: PersonNo, into: PersonNo) {
        self.into.insert(gone, (into, 1));
    }

    /// The root of a person, and over how many merges. Compresses the path, so that a chain of
    /// merges is walked once.
    pub(super) fn survivor(&mut self, person: PersonNo) -> (PersonNo, i64) {
        let (mut end, mut hops) = (person, 0);
        while let Some((into, more)) = self.into.get(&end) {
            (end, hops) = (*into, hops + more);
            #[cfg(test)]
            (self.steps += 1);
        }
        let (mut at, mut left) = (person, hops);
        while let Some((into, more)) = self.into.get_mut(&at) {
            let (next, passed) = (*into, *more);
            (*into, *more) = (end, left);
            (at, left) = (next, left - passed);
        }
        (end, hops)
    }
}

impl IdentityCache {
    /// Moves distinct ids to the survivors of pending merges.
    pub(super) fn apply_merges(&mut self) {
        if self.forest.into.is_empty() {
            return;
        }
        for slot in self.ids.values_mut() {
            let Some(person) = slot.row.person else { continue };
            let (end, hops) = self.forest.survivor(person);
            if hops > 0 {
                slot.row.person = Some(end);
                slot.row.version += hops;
                slot.dirty = true;
            }
        }
        self.forest.into.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links followed while `count` persons are merged in a chain, with a lookup of the first person
    /// after each merge.
    fn steps(count: u32) -> u64 {
        let mut merges = MergeForest::default();
        for no in 0..count {
            merges.add(PersonNo(no), PersonNo(no + 1));
            let expected = (PersonNo(no + 1), i64::from(no) + 1);
            assert_eq!(merges.survivor(PersonNo(0)), expected);
        }
        for no in 0..count {
            let expected = (PersonNo(count), i64::from(count - no));
            assert_eq!(merges.survivor(PersonNo(no)), expected);
        }
        merges.steps
    }

    #[test]
    fn merge_lookups_are_linear_in_the_number_of_merges() {
        let (few, many) = (steps(1_000), steps(10_000));
        assert!(many <= 11 * few, "{few} {many}");
        assert!(many <= 5 * 10_000, "{many}");
    }
}
