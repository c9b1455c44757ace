//! Distinct actors by breakdown value, when there may be very many values.

use std::mem::take;
use std::sync::{Mutex, MutexGuard, PoisonError};

use facts::IdSet;

use super::lines::Table;
use crate::Result;
use crate::aggregates::table::AggregateTable;
use crate::columns::memo::DictionaryMemo;
use crate::limits::MemoryReservation;
use crate::scan::breakdown::{BELOW_CUTOFF, Breakdown, TopValueSketch, without_breakdown};
use crate::scan::{Rows, Scan};

/// Values below this id have a set each. Of many values most have few actors, and sorting (value,
/// actor) pairs once costs a fraction of as many sets.
const SETS_MAX: u32 = 256;
/// Pair lists, sharded by value so that threads seldom contend.
const LISTS: usize = 16;
/// Pairs that a thread buffers per list before it appends them to the shared list.
const LOCAL_MAX: usize = 1 << 10;
/// New pairs of a list after which it is sorted and deduplicated.
const FRESH_MAX: usize = (1 << 20) / LISTS;
const THREADS: usize = 2;

/// The number of distinct actors of each value.
pub(crate) struct DistinctByValue {
    few: AggregateTable<IdSet>,
    /// By `value % LISTS`.
    many: [Pairs; LISTS],
    /// Actors of all pruned values, if any value was pruned.
    below_cutoff: Option<IdSet>,
    factor: f64,
}

/// Value id in the upper 32 bits, actor in the lower.
#[derive(Default)]
struct Pairs {
    pairs: Vec<u64>,
    /// Length of the prefix that is sorted and deduplicated.
    sorted: usize,
}

/// Counts and buffers of one thread.
struct ThreadState<'a> {
    few: AggregateTable<IdSet>,
    many: [Vec<u64>; LISTS],
    below_cutoff: IdSet,
    memo: DictionaryMemo<u32>,
    reservation: MemoryReservation<'a>,
}

/// Shared by all threads; per-thread lists would each hold a copy of most pairs.
#[derive(Default)]
struct SharedPairs([Mutex<Pairs>; LISTS]);

impl DistinctByValue {
    /// Counts are multiplied by `factor`.
    pub fn of(scan: &Scan<'_>, breakdown: &Breakdown, factor: f64) -> Result<Self> {
        // The event count is an upper bound of the rank only if more actors rank higher.
        let sketch = if factor > 0.0 { TopValueSketch::of(scan, breakdown)? } else { None };
        let Some(mut sketch) = sketch else { return Self::exhaustive(scan, breakdown, factor) };
        let mut counts = Self::candidates(scan, breakdown, &sketch, factor)?;
        let Some(max_below_cutoff) = sketch.max_below_cutoff() else { return Ok(counts) };
        let Some(last) = counts.weight_at(breakdown.limit) else {
            return Self::exhaustive(scan, breakdown, factor);
        };
        let enough = |events: u32| counts.scaled(events.into()) >= last;
        // A pruned value could tie with the last one, and ties are broken by label.
        if enough(max_below_cutoff) {
            if !sketch.lower_cutoff(enough) {
                return Self::exhaustive(scan, breakdown, factor);
            }
            counts = Self::candidates(scan, breakdown, &sketch, factor)?;
        }
        counts.below_cutoff.get_or_insert_default();
        Ok(counts)
    }

    fn exhaustive(scan: &Scan<'_>, breakdown: &Breakdown, factor: f64) -> Result<Self> {
        Self::fill(scan, breakdown, factor, |state, rows, lists| {
            for (value, actor) in rows.values.iter().zip(rows.actors) {
                state.add(*value, *actor, lists);
            }
        })
    }

    fn candidates(
        scan: &Scan<'_>,
        breakdown: &Breakdown,
        sketch: &TopValueSketch<'_>,
        factor: f64,
    ) -> Result<Self> {
        let scan = without_breakdown(scan, breakdown);
        Self::fill(&scan, breakdown, factor, |state, rows, lists| {
            let values = sketch.value_ids(&mut state.memo, &rows.columns[0]);
            for (value, actor) in values.into_iter().zip(rows.actors) {
                if value != BELOW_CUTOFF {
                    state.add(value, *actor, lists);
                } else if !breakdown.hide_other {
                    state.below_cutoff.insert(*actor);
                }
            }
        })
    }

    fn fill(
        scan: &Scan<'_>,
        breakdown: &Breakdown,
        factor: f64,
        add: impl Fn(&mut ThreadState<'_>, &Rows<'_>, &SharedPairs) + Sync,
    ) -> Result<Self> {
        let lists = SharedPairs::default();
        let together = Mutex::new(scan.limits.reserve());
        let each = |state: &mut ThreadState<'_>, rows: &Rows<'_>| {
            add(state, rows, &lists);
            state.reservation.resize(state.few.bytes() + state.below_cutoff.bytes())?;
            lock(&together).resize(lists.bytes() + breakdown.bytes())
        };
        let (mut few, mut below_cutoff) = (AggregateTable::new(1), IdSet::default());
        for state in scan.fold(|| ThreadState::new(scan.limits.reserve()), each)? {
            few.merge(state.few);
            below_cutoff.union(&state.below_cutoff);
            state.many.iter().zip(&lists.0).for_each(|(buffer, list)| lock(list).add(buffer));
        }
        let below_cutoff = (below_cutoff.count() > 0).then_some(below_cutoff);
        let mut all = Self { few, many: lists.0.map(into_inner), below_cutoff, factor };
        all.finish();
        Ok(all)
    }

    /// The weight of the value at a rank, counted from 1.
    fn weight_at(&self, rank: usize) -> Option<f64> {
        let mut weights: Vec<f64> = self.weights().into_iter().map(|(_, weight)| weight).collect();
        let at = rank.checked_sub(1).filter(|at| *at < weights.len())?;
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

    fn scaled(&self, count: u64) -> f64 {
        count as f64 * self.factor
    }
}

impl<'a> ThreadState<'a> {
    fn new(reservation: MemoryReservation<'a>) -> Self {
        let (below_cutoff, memo) = (IdSet::default(), DictionaryMemo::default());
        Self {
            few: AggregateTable::new(1),
            many: Default::default(),
            below_cutoff,
            memo,
            reservation,
        }
    }

    fn add(&mut self, value: u32, actor: u32, lists: &SharedPairs) {
        if value < SETS_MAX {
            self.few.cell(value, 0).insert(actor);
            return;
        }
        let list = value as usize % LISTS;
        let buffer = &mut self.many[list];
        buffer.push(u64::from(value) << 32 | u64::from(actor));
        if buffer.len() == LOCAL_MAX {
            lock(&lists.0[list]).add(buffer);
            buffer.clear();
        }
    }
}

impl SharedPairs {
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
        // Grow by half, not by two: pairs are most of the query's memory.
        if self.pairs.capacity() < self.pairs.len() + more.len() {
            self.pairs.reserve_exact(more.len().max(self.pairs.len() / 2));
        }
        self.pairs.extend_from_slice(more);
        if self.pairs.len() - self.sorted >= self.sorted.max(FRESH_MAX) {
            self.sort();
        }
    }

    /// The stable sort merges the sorted prefix instead of sorting it again.
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

impl Table for DistinctByValue {
    fn weights(&self) -> Vec<(u32, f64)> {
        let mut weights: Vec<(u32, f64)> =
            self.few.values().map(|value| (value, self.data(value)[0])).collect();
        for list in &self.many {
            let many = list.pairs.chunk_by(|a, b| value_of(*a) == value_of(*b));
            weights.extend(many.map(|pairs| (value_of(pairs[0]), self.scaled(pairs.len() as u64))));
        }
        weights
    }

    fn has_more(&self) -> bool {
        self.below_cutoff.is_some()
    }

    fn data(&self, value: u32) -> Vec<f64> {
        let mut count = self.many[value as usize % LISTS].of(value).len() as u64;
        self.few.show(value, &IdSet::default(), |cells| count += cells[0].count());
        vec![self.scaled(count)]
    }

    fn merge_values(&mut self, mut values: Vec<u32>) -> Vec<f64> {
        values.sort_unstable();
        let few = values.partition_point(|value| *value < SETS_MAX);
        let mut all = self.few.take(values[..few].iter().copied()).pop().unwrap_or_default();
        all.union(&self.below_cutoff.take().unwrap_or_default());
        for list in &mut self.many {
            let mut selected = values[few..].iter().peekable();
            for pair in take(&mut list.pairs) {
                while selected.next_if(|value| **value < value_of(pair)).is_some() {}
                if selected.peek() == Some(&&value_of(pair)) {
                    all.insert(pair as u32);
                }
            }
        }
        vec![self.scaled(all.count())]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn distinct_counts_of_many_values_equal_those_of_plain_sets() {
        let seed = testing::seed_or(11);
        let mut rng = seed.rng();
        let (lists, limits) =
            (SharedPairs::default(), crate::QueryLimits::new(None, Default::default(), 0));
        let mut state = ThreadState::new(limits.reserve());
        let mut plain = BTreeMap::<u32, BTreeSet<u32>>::new();
        for _ in 0..60_000 {
            let value = rng.range(0..1_500);
            let actor = rng.range(0..40);
            state.add(value, actor, &lists);
            plain.entry(value).or_default().insert(actor);
        }
        assert!(lists.bytes() > 0);
        state.many.iter().zip(&lists.0).for_each(|(buffer, list)| lock(list).add(buffer));
        let mut counts = DistinctByValue {
            few: state.few,
            many: lists.0.map(into_inner),
            below_cutoff: None,
            factor: 2.0,
        };
        counts.finish();
        let weights: BTreeMap<u32, f64> = counts.weights().into_iter().collect();
        assert_eq!(weights.len(), plain.len());
        for (value, there) in &plain {
            assert_eq!(weights[value], 2.0 * there.len() as f64);
            assert_eq!(counts.data(*value), [2.0 * there.len() as f64]);
        }
        let rest = [7, 255, 256, 1_000, 1_499, 4_000];
        let mut together = BTreeSet::<u32>::new();
        rest.iter().filter_map(|value| plain.get(value)).for_each(|there| together.extend(there));
        assert_eq!(counts.merge_values(rest.to_vec()), [2.0 * together.len() as f64]);
    }
}
