//! What each actor did, in the order of time.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::scan::{Rows, Scan};
use crate::stop::{Held, Stop};
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

/// Hits as they came, in pieces: a list in one piece has up to twice the room it needs.
#[derive(Default)]
struct Pieces(Vec<Vec<Hit>>);

const PIECE_HITS: usize = 1 << 10;

impl Pieces {
    fn push(&mut self, hit: Hit) {
        match self.0.last_mut() {
            Some(last) if last.len() < PIECE_HITS => last.push(hit),
            _ => {
                let mut piece = Vec::with_capacity(PIECE_HITS);
                piece.push(hit);
                self.0.push(piece);
            }
        }
    }

    fn iter(&self) -> impl DoubleEndedIterator<Item = &Hit> {
        self.0.iter().flatten()
    }

    fn len(&self) -> usize {
        let full = self.0.len().saturating_sub(1) * PIECE_HITS;
        full + self.0.last().map_or(0, Vec::len)
    }

    fn bytes(&self) -> usize {
        self.0.len() * PIECE_HITS * size_of::<Hit>()
    }
}

type Shares = [Pieces; SHARES];

/// Hits as they are met.
pub(crate) struct Hits<'a> {
    parts: Vec<(Shares, Held<'a>)>,
    stop: &'a Stop,
}

fn add(shares: &mut Shares, hit: Hit) {
    shares[hit.actor as usize % SHARES].push(hit);
}

impl<'a> Hits<'a> {
    pub fn new(stop: &'a Stop) -> Self {
        Self { parts: Vec::new(), stop }
    }

    /// Adds a hit for each event, tagged by a `state` that every thread has for itself.
    pub fn collect<X: Default + Send>(
        &mut self,
        scan: &Scan<'_>,
        tags: impl Fn(&mut X, &Rows<'_>) -> Result<Vec<Option<u32>>> + Sync,
    ) -> Result<()> {
        let stop = self.stop;
        let new = || (Shares::default(), X::default(), stop.hold());
        let each = |(shares, own, held): &mut (Shares, X, Held<'a>), rows: &Rows<'_>| {
            for (row, tag) in tags(own, rows)?.into_iter().enumerate() {
                if let Some(tag) = tag {
                    add(shares, Hit { actor: rows.actor(row), time: rows.times[row], tag });
                }
            }
            held.set(shares.iter().map(Pieces::bytes).sum())
        };
        let found = scan.fold(new, each)?;
        self.parts.extend(found.into_iter().map(|(shares, _, held)| (shares, held)));
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
            self.parts.iter().map(|(shares, _)| shares[share].len()).sum()
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
        let all = || self.parts.iter().flat_map(|(shares, _)| shares[share].iter());
        let place = |hit: &Hit| hit.actor as usize / SHARES;
        let (len, actors) = (all().count(), all().map(place).max().map_or(0, |last| last + 1));
        if len > u32::MAX as usize {
            return Err(Error::Memory);
        }
        let mut held = self.stop.hold();
        held.set(len * size_of::<Hit>() + (actors + 1) * 4)?;
        // First how many each has, then where they end, and once they are placed, where they begin.
        let mut starts = vec![0u32; actors + 1];
        all().for_each(|hit| starts[place(hit)] += 1);
        (0..actors).for_each(|at| starts[at + 1] += starts[at]);
        let mut hits = vec![Hit { actor: 0, time: 0, tag: 0 }; len];
        for list in self.parts.iter().rev().map(|(shares, _)| &shares[share]) {
            for hit in list.iter().rev() {
                let start = &mut starts[place(hit)];
                *start -= 1;
                hits[*start as usize] = *hit;
            }
        }
        for (at, bounds) in starts.windows(2).enumerate() {
            if at.is_multiple_of(ACTORS_A_LOOK) {
                self.stop.check()?;
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
        for (seed, len, actors) in [(1, 0, 1), (2, 100, 5), (3, 20_000, 900), (4, 20_000, 2)] {
            let stop = Stop::new(None, Arc::default(), usize::MAX);
            let mut random = StdRng::seed_from_u64(seed);
            let mut expected: BTreeMap<u32, Vec<(i64, u32)>> = BTreeMap::new();
            let mut hits = Hits::new(&stop);
            for _ in 0..3 {
                let mut part = Shares::default();
                for tag in 0..len / 3 {
                    let (actor, time) =
                        (random.random_range(0..actors), random.random_range(0..50));
                    expected.entry(actor).or_default().push((time, tag));
                    add(&mut part, Hit { actor, time, tag });
                }
                hits.parts.push((part, stop.hold()));
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
