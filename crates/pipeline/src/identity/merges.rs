//! Who was merged into whom since ids were last told: a union-find over persons.
//!
//! Ids of a merged person are told when changes are asked, all at once. A merge that looked for its
//! ids would cost as much as all ids in memory, and strangers send merges by the thousand.

use std::collections::HashMap;

use ahash::RandomState;
use model::person::PersonNo;

use super::Ledger;

#[derive(Debug, Default)]
pub(super) struct MergeForest {
    /// Whom a person was merged into, and over how many merges.
    into: HashMap<PersonNo, (PersonNo, i64), RandomState>,
    /// Persons looked at, which is what this costs.
    #[cfg(test)]
    pub(super) steps: u64,
}

impl MergeForest {
    pub(super) fn add(&mut self, gone: PersonNo, into: PersonNo) {
        self.into.insert(gone, (into, 1));
    }

    /// Who a person became, and over how many merges. Shortens the way of everybody on it, so that a
    /// chain of merges is walked once.
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

impl Ledger {
    /// Tells ids who their persons became.
    pub(super) fn settle(&mut self) {
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

    /// Persons looked at while `count` persons are merged one after the other, and the first of
    /// them is asked for each time.
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
    fn ten_times_the_merges_take_ten_times_the_steps() {
        let (few, many) = (steps(1_000), steps(10_000));
        assert!(many <= 11 * few, "{few} {many}");
        assert!(many <= 5 * 10_000, "{many}");
    }
}
