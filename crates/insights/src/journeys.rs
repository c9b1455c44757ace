//! What each actor did, in the order of time.

use crate::scan::{Rows, Scan};
use crate::stop::{Held, Stop};
use crate::{Error, Result};

/// Threads that walk journeys.
const THREADS: usize = 2;
/// Actors between two looks at the clock.
const ACTORS_A_LOOK: usize = 4_096;

/// One event of an actor. The tag says what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hit {
    pub actor: u32,
    pub time: i64,
    pub tag: u32,
}

/// Hits as they are met.
pub(crate) struct Hits<'a> {
    parts: Vec<(Vec<Hit>, Held<'a>)>,
    stop: &'a Stop,
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
        let new = || (Vec::new(), X::default(), stop.hold());
        let each = |(hits, own, held): &mut (Vec<Hit>, X, Held<'a>), rows: &Rows<'_>| {
            for (row, tag) in tags(own, rows)?.into_iter().enumerate() {
                if let Some(tag) = tag {
                    hits.push(Hit { actor: rows.actor(row), time: rows.times[row], tag });
                }
            }
            held.set(hits.capacity() * size_of::<Hit>())
        };
        let found = scan.fold(new, each)?;
        self.parts.extend(found.into_iter().map(|(hits, _, held)| (hits, held)));
        Ok(())
    }

    /// Puts together what belongs to one actor, by counting instead of comparing.
    pub fn journeys(self) -> Result<Journeys<'a>> {
        let len: usize = self.parts.iter().map(|(hits, _)| hits.len()).sum();
        let actors = self.parts.iter().flat_map(|(hits, _)| hits).map(|hit| hit.actor).max();
        let actors = actors.map_or(0, |actor| actor as usize + 1);
        if len > u32::MAX as usize {
            return Err(Error::Memory);
        }
        let mut held = self.stop.hold();
        held.set(len * size_of::<Hit>() + (actors + 1) * 4)?;
        let mut starts = vec![0u32; actors + 1];
        let all = || self.parts.iter().flat_map(|(hits, _)| hits);
        all().for_each(|hit| starts[hit.actor as usize + 1] += 1);
        (0..actors).for_each(|at| starts[at + 1] += starts[at]);
        let mut hits = vec![Hit { actor: 0, time: 0, tag: 0 }; len];
        let mut next = starts.clone();
        for hit in all() {
            let place = &mut next[hit.actor as usize];
            hits[*place as usize] = *hit;
            *place += 1;
        }
        Ok(Journeys { starts, hits, stop: self.stop, _held: held })
    }
}

pub(crate) struct Journeys<'a> {
    /// Where each actor's hits begin; one more than there are actors.
    starts: Vec<u32>,
    hits: Vec<Hit>,
    stop: &'a Stop,
    _held: Held<'a>,
}

impl Journeys<'_> {
    /// Shows every journey, sorted by time and tag, to one of the threads' states.
    pub fn fold<S: Send>(
        mut self,
        new: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &[Hit]) -> Result<()> + Sync,
    ) -> Result<Vec<S>> {
        let stop = self.stop;
        let work = |starts: &[u32], hits: &mut [Hit]| -> Result<S> {
            let mut state = new();
            let first = starts.first().copied().unwrap_or(0) as usize;
            for (at, bounds) in starts.windows(2).enumerate() {
                if at.is_multiple_of(ACTORS_A_LOOK) {
                    stop.check()?;
                }
                let own = &mut hits[bounds[0] as usize - first..bounds[1] as usize - first];
                if own.is_empty() {
                    continue;
                }
                let order = |hit: &Hit| (hit.time, hit.tag);
                if !own.is_sorted_by_key(order) {
                    own.sort_unstable_by_key(order);
                }
                each(&mut state, own)?;
            }
            Ok(state)
        };
        let half =
            self.starts.partition_point(|start| (*start as usize) < self.hits.len() / THREADS);
        if self.hits.len() < ACTORS_A_LOOK || half == 0 || half + 1 >= self.starts.len() {
            return Ok(vec![work(&self.starts, &mut self.hits)?]);
        }
        let (one, other) = self.hits.split_at_mut(self.starts[half] as usize);
        let starts = (&self.starts[..=half], &self.starts[half..]);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| work(starts.1, other));
            let one = work(starts.0, one);
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(vec![one?, other?])
        })
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
                let mut part = Vec::new();
                for tag in 0..len / 3 {
                    let (actor, time) =
                        (random.random_range(0..actors), random.random_range(0..50));
                    expected.entry(actor).or_default().push((time, tag));
                    part.push(Hit { actor, time, tag });
                }
                hits.parts.push((part, stop.hold()));
            }
            expected.values_mut().for_each(|own| own.sort_unstable());
            let each = |seen: &mut Vec<(u32, Vec<(i64, u32)>)>, hits: &[Hit]| {
                seen.push((hits[0].actor, hits.iter().map(|hit| (hit.time, hit.tag)).collect()));
                Ok(())
            };
            let found = hits.journeys().unwrap().fold(Vec::new, each).unwrap();
            let found: Vec<_> = found.into_iter().flatten().collect();
            assert!(found.into_iter().eq(expected), "seed {seed}");
        }
    }
}
