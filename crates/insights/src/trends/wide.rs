//! Who was there, by breakdown value, when there may be very many values.

use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

use facts::IdSet;

use super::lines::Table;
use crate::Result;
use crate::breakdown::{BEHIND, Breakdown, Leading, bare};
use crate::limits::MemoryReservation;
use crate::scan::{Entries, Rows, Scan};
use crate::tally::Tally;

/// Values that have a set each. Most of many values have few members, and a list of pairs that is
/// sorted once costs a fraction of as many sets.
const SETS_MAX: u32 = 256;
/// Lists of pairs, each of its own values: threads seldom want the same one.
const LISTS: usize = 16;
/// Pairs of a list that a thread keeps before it puts them to all others.
const LOCAL_MAX: usize = 1 << 10;
/// Pairs come more than once; so many new ones of a list are worth looking for those.
const FRESH_MAX: usize = (1 << 20) / LISTS;
const THREADS: usize = 2;

/// One number for each value: how many were there.
pub(crate) struct Wide {
    few: Tally<IdSet>,
    /// By the lowest part of a value.
    many: [Pairs; LISTS],
    /// Of values that come behind the limit for sure, if there are any.
    behind: Option<IdSet>,
    factor: f64,
}

/// A value in the upper half, who was there in the lower.
#[derive(Default)]
struct Pairs {
    pairs: Vec<u64>,
    /// So many are sorted, each different.
    sorted: usize,
}

/// What a thread has of its own.
struct Own<'a> {
    few: Tally<IdSet>,
    many: [Vec<u64>; LISTS],
    behind: IdSet,
    entries: Entries<u32>,
    reservation: MemoryReservation<'a>,
}

/// Filled by all threads: each would have its own copy of most pairs.
#[derive(Default)]
struct Lists([Mutex<Pairs>; LISTS]);

impl Wide {
    /// A number is multiplied by `factor`.
    pub fn of(scan: &Scan<'_>, breakdown: &Breakdown, factor: f64) -> Result<Self> {
        // Those with the most events lead only if more is better.
        let leading = if factor > 0.0 { Leading::of(scan, breakdown)? } else { None };
        let Some(mut leading) = leading else { return Self::whole(scan, breakdown, factor) };
        let mut found = Self::leading(scan, breakdown, &leading, factor)?;
        let Some(most_behind) = leading.most_behind() else { return Ok(found) };
        let Some(last) = found.weight_at(breakdown.limit) else {
            return Self::whole(scan, breakdown, factor);
        };
        let enough = |events: u32| found.number(events.into()) >= last;
        // Among equals the text decides.
        if enough(most_behind) {
            if !leading.reach(enough) {
                return Self::whole(scan, breakdown, factor);
            }
            found = Self::leading(scan, breakdown, &leading, factor)?;
        }
        found.behind.get_or_insert_default();
        Ok(found)
    }

    fn whole(scan: &Scan<'_>, breakdown: &Breakdown, factor: f64) -> Result<Self> {
        Self::fill(scan, breakdown, factor, |own, rows, lists| {
            for (value, actor) in rows.values.iter().zip(rows.actors) {
                own.add(*value, *actor, lists);
            }
        })
    }

    fn leading(
        scan: &Scan<'_>,
        breakdown: &Breakdown,
        leading: &Leading<'_>,
        factor: f64,
    ) -> Result<Self> {
        let scan = bare(scan, breakdown);
        Self::fill(&scan, breakdown, factor, |own, rows, lists| {
            let values = leading.numbers(&mut own.entries, &rows.columns[0]);
            for (value, actor) in values.into_iter().zip(rows.actors) {
                if value != BEHIND {
                    own.add(value, *actor, lists);
                } else if !breakdown.hide_other {
                    own.behind.insert(*actor);
                }
            }
        })
    }

    fn fill(
        scan: &Scan<'_>,
        breakdown: &Breakdown,
        factor: f64,
        add: impl Fn(&mut Own<'_>, &Rows<'_>, &Lists) + Sync,
    ) -> Result<Self> {
        let lists = Lists::default();
        let together = Mutex::new(scan.limits.reserve());
        let each = |own: &mut Own<'_>, rows: &Rows<'_>| {
            add(own, rows, &lists);
            own.reservation.resize(own.few.bytes() + own.behind.bytes())?;
            lock(&together).resize(lists.bytes() + breakdown.bytes())
        };
        let (mut few, mut behind) = (Tally::new(1), IdSet::default());
        for own in scan.fold(|| Own::new(scan.limits.reserve()), each)? {
            few.absorb(own.few);
            behind.union(&own.behind);
            own.many.iter().zip(&lists.0).for_each(|(own, list)| lock(list).add(own));
        }
        let behind = (behind.count() > 0).then_some(behind);
        let mut all = Self { few, many: lists.0.map(into_inner), behind, factor };
        all.finish();
        Ok(all)
    }

    /// Of the value at a place when the largest are first.
    fn weight_at(&self, place: usize) -> Option<f64> {
        let mut weights: Vec<f64> = self.weights().into_iter().map(|(_, weight)| weight).collect();
        let at = place.checked_sub(1).filter(|at| *at < weights.len())?;
        Some(*weights.select_nth_unstable_by(at, |a, b| b.total_cmp(a)).1)
    }

    fn finish(&mut self) {
        let share = LISTS.div_ceil(THREADS);
        std::thread::scope(|scope| {
            for lists in self.many.chunks_mut(share) {
                scope.spawn(|| lists.iter_mut().for_each(Pairs::sort));
            }
        });
    }

    fn number(&self, count: u64) -> f64 {
        count as f64 * self.factor
    }
}

impl<'a> Own<'a> {
    fn new(reservation: MemoryReservation<'a>) -> Self {
        let (behind, entries) = (IdSet::default(), Entries::default());
        Self { few: Tally::new(1), many: Default::default(), behind, entries, reservation }
    }

    fn add(&mut self, value: u32, actor: u32, lists: &Lists) {
        if value < SETS_MAX {
            self.few.cell(value, 0).insert(actor);
            return;
        }
        let list = value as usize % LISTS;
        let own = &mut self.many[list];
        own.push(u64::from(value) << 32 | u64::from(actor));
        if own.len() == LOCAL_MAX {
            lock(&lists.0[list]).add(own);
            own.clear();
        }
    }
}

impl Lists {
    fn bytes(&self) -> usize {
        self.0.iter().map(|list| lock(list).pairs.capacity() * 8).sum()
    }
}

fn lock<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(one: Mutex<T>) -> T {
    one.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Pairs {
    fn add(&mut self, more: &[u64]) {
        // By a half, since these are most of what a question holds.
        if self.pairs.capacity() < self.pairs.len() + more.len() {
            self.pairs.reserve_exact(more.len().max(self.pairs.len() / 2));
        }
        self.pairs.extend_from_slice(more);
        if self.pairs.len() - self.sorted >= self.sorted.max(FRESH_MAX) {
            self.sort();
        }
    }

    /// What is sorted already is only put together.
    fn sort(&mut self) {
        self.pairs.sort();
        self.pairs.dedup();
        self.sorted = self.pairs.len();
    }

    fn of(&self, value: u32) -> &[u64] {
        let start = self.pairs.partition_point(|pair| value_of(*pair) < value);
        let end = self.pairs.partition_point(|pair| value_of(*pair) <= value);
        &self.pairs[start..end]
    }
}

const fn value_of(pair: u64) -> u32 {
    (pair >> 32) as u32
}

impl Table for Wide {
    fn weights(&self) -> Vec<(u32, f64)> {
        let mut weights: Vec<(u32, f64)> =
            self.few.values().map(|value| (value, self.data(value)[0])).collect();
        for list in &self.many {
            let many = list.pairs.chunk_by(|a, b| value_of(*a) == value_of(*b));
            weights.extend(many.map(|own| (value_of(own[0]), self.number(own.len() as u64))));
        }
        weights
    }

    fn has_more(&self) -> bool {
        self.behind.is_some()
    }

    fn data(&self, value: u32) -> Vec<f64> {
        let mut count = self.many[value as usize % LISTS].of(value).len() as u64;
        self.few.show(value, &IdSet::default(), |cells| count += cells[0].count());
        vec![self.number(count)]
    }

    fn together(&mut self, mut values: Vec<u32>) -> Vec<f64> {
        values.sort_unstable();
        let few = values.partition_point(|value| *value < SETS_MAX);
        let mut all = self.few.take(values[..few].iter().copied()).pop().unwrap_or_default();
        all.union(&self.behind.take().unwrap_or_default());
        for list in &mut self.many {
            let mut wanted = values[few..].iter().peekable();
            for pair in take(&mut list.pairs) {
                while wanted.next_if(|value| **value < value_of(pair)).is_some() {}
                if wanted.peek() == Some(&&value_of(pair)) {
                    all.insert(pair as u32);
                }
            }
        }
        vec![self.number(all.count())]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn many_values_are_counted_as_sets_would() {
        let mut random = StdRng::seed_from_u64(11);
        let (lists, limits) =
            (Lists::default(), crate::QueryLimits::new(None, Default::default(), 0));
        let mut own = Own::new(limits.reserve());
        let mut plain = BTreeMap::<u32, BTreeSet<u32>>::new();
        for _ in 0..60_000 {
            let value = random.random_range(0..1_500);
            let actor = random.random_range(0..40);
            own.add(value, actor, &lists);
            plain.entry(value).or_default().insert(actor);
        }
        assert!(lists.bytes() > 0);
        own.many.iter().zip(&lists.0).for_each(|(own, list)| lock(list).add(own));
        let mut wide =
            Wide { few: own.few, many: lists.0.map(into_inner), behind: None, factor: 2.0 };
        wide.finish();
        let weights: BTreeMap<u32, f64> = wide.weights().into_iter().collect();
        assert_eq!(weights.len(), plain.len());
        for (value, there) in &plain {
            assert_eq!(weights[value], 2.0 * there.len() as f64);
            assert_eq!(wide.data(*value), [2.0 * there.len() as f64]);
        }
        let rest = [7, 255, 256, 1_000, 1_499, 4_000];
        let mut together = BTreeSet::<u32>::new();
        rest.iter().filter_map(|value| plain.get(value)).for_each(|there| together.extend(there));
        assert_eq!(wide.together(rest.to_vec()), [2.0 * together.len() as f64]);
    }
}
