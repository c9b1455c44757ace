//! Event sequences: collects tagged events and groups them by actor, sorted by time.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::{Rows, Scan};
use crate::{Error, Result};

/// Threads that process sequences.
const THREADS: usize = 2;
/// Actors are partitioned by `actor % PARTITIONS`. One partition is grouped at a time, so that more
/// of it fits into the CPU cache.
const PARTITIONS: usize = 32;
/// Fewer events are processed on one thread.
const EVENTS_PER_THREAD_MIN: usize = 4_096;
/// Actors between two checks of the query's limits.
const ACTORS_PER_CHECK: usize = 4_096;

/// One event of an actor. The meaning of the tag is the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ActorEvent {
    pub actor: u32,
    pub time: i64,
    pub tag: u32,
}

/// Events of a partition in arrival order, about half the size of plain structs: a byte with three
/// lengths, then the actor's slot in the partition, the time delta (zigzag) and the tag in as few
/// little-endian bytes as each needs. Stored in blocks, because a growing `Vec` over-allocates up to
/// twice its size.
#[derive(Default)]
struct PackedEvents {
    /// Each with its used length.
    blocks: Vec<(Box<[u8]>, usize)>,
    len: usize,
    /// Highest slot plus one.
    slots: usize,
    last_time: i64,
}

const BLOCK_BYTES: usize = 16 << 10;
/// A number is written as a whole word; the next write overwrites its unused upper bytes.
const WORD: usize = size_of::<u64>();
/// The most an event writes: lengths, slot, time, and the tag as a word.
const EVENT_BYTES_MAX: usize = 1 + 4 + 8 + WORD;

impl PackedEvents {
    fn push(&mut self, event: ActorEvent) {
        let slot = event.actor as usize / PARTITIONS;
        let since = event.time.wrapping_sub(self.last_time);
        // Zigzag encoding: deltas are small and may be negative.
        let since = (since << 1 ^ since >> 63) as u64;
        if self.blocks.last().is_none_or(|(_, used)| used + EVENT_BYTES_MAX > BLOCK_BYTES) {
            self.blocks.push((vec![0; BLOCK_BYTES].into_boxed_slice(), 0));
        }
        if let Some((block, used)) = self.blocks.last_mut() {
            let lengths = *used;
            *used += 1;
            let slot = put(block, used, slot as u64) as u8;
            let since = put(block, used, since) as u8;
            let tag = put(block, used, event.tag.into()) as u8;
            block[lengths] = (slot - 1) | (since - 1) << 2 | (tag - 1) << 5;
        }
        self.last_time = event.time;
        self.len += 1;
        self.slots = self.slots.max(slot + 1);
    }

    /// Calls `each` with the slot, time and tag of every event.
    fn for_each(&self, mut each: impl FnMut(usize, i64, u32)) {
        let mut time = 0i64;
        for (block, used) in &self.blocks {
            let mut at = 0;
            while at < *used {
                let lengths = block[at];
                at += 1;
                let slot = get(block, &mut at, lengths & 3);
                let since = get(block, &mut at, lengths >> 2 & 7);
                let tag = get(block, &mut at, lengths >> 5);
                time = time.wrapping_add((since >> 1) as i64 ^ -((since & 1) as i64));
                each(slot as usize, time, tag as u32);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }
}

/// Writes a number and returns its length in bytes.
fn put(block: &mut [u8], at: &mut usize, number: u64) -> usize {
    let length = (number | 1).ilog2() as usize / 8 + 1;
    block[*at..*at + WORD].copy_from_slice(&number.to_le_bytes());
    *at += length;
    length
}

/// Reads a number of `more + 1` bytes.
fn get(block: &[u8], at: &mut usize, more: u8) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&block[*at..*at + WORD]);
    *at += usize::from(more) + 1;
    u64::from_le_bytes(word) & u64::MAX >> (56 - 8 * u32::from(more))
}

type Partitions = [PackedEvents; PARTITIONS];

/// Events collected by scans, before they are grouped.
pub(crate) struct ActorEvents<'a> {
    parts: Vec<(Partitions, MemoryReservation<'a>)>,
    limits: &'a QueryLimits,
}

fn add(partitions: &mut Partitions, event: ActorEvent) {
    partitions[event.actor as usize % PARTITIONS].push(event);
}

impl<'a> ActorEvents<'a> {
    pub fn new(limits: &'a QueryLimits) -> Self {
        Self { parts: Vec::new(), limits }
    }

    /// Scans, and adds each event for which `tags` returns a tag. `X` is per-thread state of `tags`.
    pub fn collect<X: Default + Send>(
        &mut self,
        scan: &Scan<'_>,
        tags: impl Fn(&mut X, &Rows<'_>) -> Result<Vec<Option<u32>>> + Sync,
    ) -> Result<()> {
        let limits = self.limits;
        let new = || (Partitions::default(), X::default(), limits.reserve());
        let each =
            |(partitions, tag_state, reservation): &mut (Partitions, X, MemoryReservation<'a>),
             rows: &Rows<'_>| {
                for (row, tag) in tags(tag_state, rows)?.into_iter().enumerate() {
                    if let Some(tag) = tag {
                        add(
                            partitions,
                            ActorEvent { actor: rows.actor(row), time: rows.times[row], tag },
                        );
                    }
                }
                reservation.resize(partitions.iter().map(PackedEvents::bytes).sum())
            };
        let states = scan.fold(new, each)?;
        self.parts.extend(
            states.into_iter().map(|(partitions, _, reservation)| (partitions, reservation)),
        );
        Ok(())
    }

    /// Folds every actor's events, sorted by time and tag. There is one state per non-empty
    /// partition, in partition order, so that the result does not depend on thread timing.
    pub fn fold<S: Send>(
        self,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[ActorEvent]) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let len = |partition: usize| -> usize {
            self.parts.iter().map(|(partitions, _)| partitions[partition].len).sum()
        };
        let filled: Vec<usize> = (0..PARTITIONS).filter(|partition| len(*partition) > 0).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut walked = Vec::new();
            while let Some(partition) = filled.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut state = new();
                if let Err(error) = self.walk(*partition, |events| each(&mut state, events)) {
                    next.store(PARTITIONS, Ordering::Relaxed);
                    return Err(error);
                }
                walked.push((*partition, state));
            }
            Ok(walked)
        };
        let all: usize = filled.iter().map(|partition| len(*partition)).sum();
        let mut walked = if all < EVENTS_PER_THREAD_MIN {
            work()?
        } else {
            std::thread::scope(|scope| {
                let others: Vec<_> = (1..THREADS).map(|_| scope.spawn(work)).collect();
                let mut walked = work();
                for other in others {
                    let other = other.join();
                    let other = other.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                    walked = walked.and_then(|mut walked| {
                        walked.extend(other?);
                        Ok(walked)
                    });
                }
                walked
            })?
        };
        walked.sort_unstable_by_key(|(partition, _)| *partition);
        Ok(walked.into_iter().map(|(_, state)| state).collect())
    }

    /// Groups a partition by actor with a counting sort.
    fn walk(
        &self,
        partition: usize,
        mut each: impl FnMut(&[ActorEvent]) -> Result<()>,
    ) -> Result<()> {
        let packed = || self.parts.iter().map(|(partitions, _)| &partitions[partition]);
        let len: usize = packed().map(|blocks| blocks.len).sum();
        let slots = packed().map(|blocks| blocks.slots).max().unwrap_or(0);
        if len > u32::MAX as usize {
            return Err(Error::MemoryLimit);
        }
        let mut reservation = self.limits.reserve();
        reservation.resize(len * size_of::<ActorEvent>() + (slots + 2) * 4)?;
        // Counting sort: counts are stored at `slot + 2`, so that the prefix sum leaves the start of
        // a slot at `slot + 1`. Placing events advances it to the slot's end.
        let mut starts = vec![0u32; slots + 2];
        packed().for_each(|blocks| blocks.for_each(|slot, _, _| starts[slot + 2] += 1));
        (0..slots).for_each(|at| starts[at + 2] += starts[at + 1]);
        let mut events = vec![ActorEvent { actor: 0, time: 0, tag: 0 }; len];
        for blocks in packed() {
            blocks.for_each(|slot, time, tag| {
                let at = &mut starts[slot + 1];
                let actor = (slot * PARTITIONS + partition) as u32;
                events[*at as usize] = ActorEvent { actor, time, tag };
                *at += 1;
            });
        }
        starts.pop();
        for (at, bounds) in starts.windows(2).enumerate() {
            if at.is_multiple_of(ACTORS_PER_CHECK) {
                self.limits.check()?;
            }
            let actor_events = &mut events[bounds[0] as usize..bounds[1] as usize];
            if actor_events.is_empty() {
                continue;
            }
            let order = |event: &ActorEvent| (event.time, event.tag);
            if !actor_events.is_sorted_by_key(order) {
                actor_events.sort_unstable_by_key(order);
            }
            each(actor_events)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn event_sequences_are_complete_and_sorted_for_every_actor() {
        let all = i64::MIN..i64::MAX;
        let cases = [
            (1, 0, 1, 0..50),
            (2, 100, 5, 0..50),
            (3, 20_000, 900, 0..50),
            (4, 20_000, 2, 0..50),
            (5, 20_000, 1 << 22, all),
        ];
        for (no, len, actors, times) in cases {
            let limits = QueryLimits::new(None, Arc::default(), usize::MAX);
            let seed = testing::seed_or(no);
            let mut rng = seed.rng();
            let mut expected: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
            let mut events = ActorEvents::new(&limits);
            for _ in 0..3 {
                let mut part = Partitions::default();
                for tag in 0..len / 3 {
                    let (actor, time) = (rng.range(0..actors), rng.range(times.clone()));
                    let tag = if no == 5 { u32::MAX - tag } else { tag };
                    expected.entry(actor).or_default().push((time, tag));
                    add(&mut part, ActorEvent { actor, time, tag });
                }
                events.parts.push((part, limits.reserve()));
            }
            expected.values_mut().for_each(|own| own.sort_unstable());
            let each = |collected: &mut Vec<(u32, Vec<(i64, u32)>)>, events: &[ActorEvent]| {
                collected.push((
                    events[0].actor,
                    events.iter().map(|event| (event.time, event.tag)).collect(),
                ));
                Ok(())
            };
            let found = events.fold(Vec::new, each).unwrap();
            let mut found: Vec<_> = found.into_iter().flatten().collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(expected), "case {no}");
        }
    }
}
