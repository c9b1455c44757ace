//! What each actor did, in the order of time.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::{Rows, Scan};
use crate::{Error, Result};

/// Threads that walk journeys.
const THREADS: usize = 2;
/// Actors are dealt out by the lowest part of their number. What is put in order at a time is a
/// share, of which a processor's own memory holds more than of the whole.
const SHARES: usize = 32;
/// Fewer hits are not worth a thread.
const HITS_A_THREAD: usize = 4_096;
/// Actors between two looks at the clock.
const ACTORS_A_LOOK: usize = 4_096;

/// One event of an actor. The tag says what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    pub actor: u32,
    pub time: i64,
    pub tag: u32,
}

/// Hits of a share as they came: the actor's place in the share, the time since the hit before, and
/// the tag, each in as few bytes as it needs behind one that says how many: half of what they take
/// side by side. In pieces, since a list in one piece has up to twice the room it needs.
#[derive(Default)]
struct Pieces {
    /// Each with how much of it is used.
    pieces: Vec<(Box<[u8]>, usize)>,
    len: usize,
    /// How many places there are.
    places: usize,
    last_time: i64,
}

const PIECE_BYTES: usize = 16 << 10;
/// Of a number, of which those behind its own are written over by what follows.
const WORD: usize = size_of::<u64>();
/// A hit reaches no further: lengths, place, time, and the tag as a word.
const HIT_BYTES: usize = 1 + 4 + 8 + WORD;

impl Pieces {
    fn push(&mut self, hit: Hit) {
        let place = hit.actor as usize / SHARES;
        let since = hit.time.wrapping_sub(self.last_time);
        // The sign last: times go back and forth by little.
        let since = (since << 1 ^ since >> 63) as u64;
        if self.pieces.last().is_none_or(|(_, used)| used + HIT_BYTES > PIECE_BYTES) {
            self.pieces.push((vec![0; PIECE_BYTES].into_boxed_slice(), 0));
        }
        if let Some((piece, used)) = self.pieces.last_mut() {
            let lengths = *used;
            *used += 1;
            let place = put(piece, used, place as u64) as u8;
            let since = put(piece, used, since) as u8;
            let tag = put(piece, used, hit.tag.into()) as u8;
            piece[lengths] = (place - 1) | (since - 1) << 2 | (tag - 1) << 5;
        }
        self.last_time = hit.time;
        self.len += 1;
        self.places = self.places.max(place + 1);
    }

    /// Calls `each` with the place, time and tag of every hit.
    fn for_each(&self, mut each: impl FnMut(usize, i64, u32)) {
        let mut time = 0i64;
        for (piece, used) in &self.pieces {
            let mut at = 0;
            while at < *used {
                let lengths = piece[at];
                at += 1;
                let place = get(piece, &mut at, lengths & 3);
                let since = get(piece, &mut at, lengths >> 2 & 7);
                let tag = get(piece, &mut at, lengths >> 5);
                time = time.wrapping_add((since >> 1) as i64 ^ -((since & 1) as i64));
                each(place as usize, time, tag as u32);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.pieces.len() * PIECE_BYTES
    }
}

/// Returns how many bytes it took.
fn put(piece: &mut [u8], at: &mut usize, number: u64) -> usize {
    let length = (number | 1).ilog2() as usize / 8 + 1;
    piece[*at..*at + WORD].copy_from_slice(&number.to_le_bytes());
    *at += length;
    length
}

/// Of one byte more than `more`.
fn get(piece: &[u8], at: &mut usize, more: u8) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&piece[*at..*at + WORD]);
    *at += usize::from(more) + 1;
    u64::from_le_bytes(word) & u64::MAX >> (56 - 8 * u32::from(more))
}

type Shares = [Pieces; SHARES];

/// Hits as they are met.
pub(crate) struct Hits<'a> {
    parts: Vec<(Shares, MemoryReservation<'a>)>,
    limits: &'a QueryLimits,
}

fn add(shares: &mut Shares, hit: Hit) {
    shares[hit.actor as usize % SHARES].push(hit);
}

impl<'a> Hits<'a> {
    pub fn new(limits: &'a QueryLimits) -> Self {
        Self { parts: Vec::new(), limits }
    }

    /// Adds a hit for each event, tagged by a `state` that every thread has for itself.
    pub fn collect<X: Default + Send>(
        &mut self,
        scan: &Scan<'_>,
        tags: impl Fn(&mut X, &Rows<'_>) -> Result<Vec<Option<u32>>> + Sync,
    ) -> Result<()> {
        let limits = self.limits;
        let new = || (Shares::default(), X::default(), limits.reserve());
        let each = |(shares, own, reservation): &mut (Shares, X, MemoryReservation<'a>),
                    rows: &Rows<'_>| {
            for (row, tag) in tags(own, rows)?.into_iter().enumerate() {
                if let Some(tag) = tag {
                    add(shares, Hit { actor: rows.actor(row), time: rows.times[row], tag });
                }
            }
            reservation.resize(shares.iter().map(Pieces::bytes).sum())
        };
        let found = scan.fold(new, each)?;
        self.parts.extend(found.into_iter().map(|(shares, _, reservation)| (shares, reservation)));
        Ok(())
    }

    /// Shows every journey, sorted by time and tag, to a state. There are as many of those as
    /// shares with hits, in the same order whichever thread was faster.
    pub fn fold<S: Send>(
        self,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[Hit]) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let len = |share: usize| -> usize {
            self.parts.iter().map(|(shares, _)| shares[share].len).sum()
        };
        let filled: Vec<usize> = (0..SHARES).filter(|share| len(*share) > 0).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut walked = Vec::new();
            while let Some(share) = filled.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut state = new();
                if let Err(error) = self.walk(*share, |hits| each(&mut state, hits)) {
                    next.store(SHARES, Ordering::Relaxed);
                    return Err(error);
                }
                walked.push((*share, state));
            }
            Ok(walked)
        };
        let all: usize = filled.iter().map(|share| len(*share)).sum();
        let mut walked = if all < HITS_A_THREAD {
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
        walked.sort_unstable_by_key(|(share, _)| *share);
        Ok(walked.into_iter().map(|(_, state)| state).collect())
    }

    /// Puts together what belongs to one actor, by counting instead of comparing.
    fn walk(&self, share: usize, mut each: impl FnMut(&[Hit]) -> Result<()>) -> Result<()> {
        let own = || self.parts.iter().map(|(shares, _)| &shares[share]);
        let len: usize = own().map(|pieces| pieces.len).sum();
        let places = own().map(|pieces| pieces.places).max().unwrap_or(0);
        if len > u32::MAX as usize {
            return Err(Error::MemoryLimit);
        }
        let mut reservation = self.limits.reserve();
        reservation.resize(len * size_of::<Hit>() + (places + 2) * 4)?;
        // How many each has, two places behind its own; then where the one before ends. Placing
        // moves that on to its own end, one place behind its own.
        let mut starts = vec![0u32; places + 2];
        own().for_each(|pieces| pieces.for_each(|place, _, _| starts[place + 2] += 1));
        (0..places).for_each(|at| starts[at + 2] += starts[at + 1]);
        let mut hits = vec![Hit { actor: 0, time: 0, tag: 0 }; len];
        for pieces in own() {
            pieces.for_each(|place, time, tag| {
                let at = &mut starts[place + 1];
                let actor = (place * SHARES + share) as u32;
                hits[*at as usize] = Hit { actor, time, tag };
                *at += 1;
            });
        }
        starts.pop();
        for (at, bounds) in starts.windows(2).enumerate() {
            if at.is_multiple_of(ACTORS_A_LOOK) {
                self.limits.check()?;
            }
            let own = &mut hits[bounds[0] as usize..bounds[1] as usize];
            if own.is_empty() {
                continue;
            }
            let order = |hit: &Hit| (hit.time, hit.tag);
            if !own.is_sorted_by_key(order) {
                own.sort_unstable_by_key(order);
            }
            each(own)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    #[test]
    fn threads_see_every_journey_once_and_in_order() {
        let all = i64::MIN..i64::MAX;
        let cases = [
            (1, 0, 1, 0..50),
            (2, 100, 5, 0..50),
            (3, 20_000, 900, 0..50),
            (4, 20_000, 2, 0..50),
            (5, 20_000, 1 << 22, all),
        ];
        for (seed, len, actors, times) in cases {
            let limits = QueryLimits::new(None, Arc::default(), usize::MAX);
            let mut random = StdRng::seed_from_u64(seed);
            let mut expected: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
            let mut hits = Hits::new(&limits);
            for _ in 0..3 {
                let mut part = Shares::default();
                for tag in 0..len / 3 {
                    let (actor, time) =
                        (random.random_range(0..actors), random.random_range(times.clone()));
                    let tag = if seed == 5 { u32::MAX - tag } else { tag };
                    expected.entry(actor).or_default().push((time, tag));
                    add(&mut part, Hit { actor, time, tag });
                }
                hits.parts.push((part, limits.reserve()));
            }
            expected.values_mut().for_each(|own| own.sort_unstable());
            let each = |seen: &mut Vec<(u32, Vec<(i64, u32)>)>, hits: &[Hit]| {
                seen.push((hits[0].actor, hits.iter().map(|hit| (hit.time, hit.tag)).collect()));
                Ok(())
            };
            let found = hits.fold(Vec::new, each).unwrap();
            let mut found: Vec<_> = found.into_iter().flatten().collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(expected), "seed {seed}");
        }
    }
}
