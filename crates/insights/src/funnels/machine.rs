//! How far an actor came: a pure function of its events in the order of time.

use crate::journeys::Hit;

pub(crate) const STEPS_MAX: usize = 20;
/// Tags of exclusions begin here, below them are steps.
pub(crate) const EXCLUSION: u32 = 32;
/// The tag of an event that is no step, where these matter.
pub(crate) const OTHER: u32 = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Ordered,
    Strict,
    Unordered,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Exclusion {
    pub from: usize,
    pub to: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub steps: usize,
    pub order: Order,
    /// How long after the first step others count, in microseconds.
    pub window: i64,
    /// For each step, those that may mean the same event: they need different moments, so that no
    /// event serves two.
    pub overlaps: Vec<u32>,
    pub exclusions: Vec<Exclusion>,
}

/// One way through the funnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// How many steps were done.
    pub level: usize,
    /// When they were done, in the order they were.
    pub times: [i64; STEPS_MAX],
    /// When each step of the funnel was done, if the order is free.
    pub by_step: [i64; STEPS_MAX],
}

impl Run {
    fn starting(at: i64) -> Self {
        let mut run = Self { level: 1, times: [0; STEPS_MAX], by_step: [i64::MIN; STEPS_MAX] };
        run.times[0] = at;
        run
    }
}

fn step(hit: &Hit) -> u32 {
    hit.tag & 0xff
}

/// Breakdown value of a hit.
pub(crate) fn value(hit: &Hit) -> u32 {
    hit.tag >> 8
}

/// Moments at which something happened, with all that happened then.
#[derive(Clone, Copy, Debug)]
struct Slot {
    time: i64,
    steps: u32,
    other: bool,
}

/// Walks journeys; keeps its buffers from one to the next.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    rules: &'a Rules,
    times: Vec<Vec<i64>>,
    slots: Vec<Slot>,
    /// Steps that are connected by overlaps, as one set for each of its members.
    components: Vec<u32>,
}

impl<'a> Machine<'a> {
    pub fn new(rules: &'a Rules) -> Self {
        let mut components = rules.overlaps.clone();
        (0..rules.steps).for_each(|at| components[at] |= 1 << at);
        // Reaching over one more neighbour each time, this many times is enough.
        for _ in 0..rules.steps {
            for at in 0..rules.steps {
                let near = (0..rules.steps).filter(|other| components[at] & 1 << other != 0);
                components[at] = near.map(|other| components[other]).fold(0, |all, own| all | own);
            }
        }
        Self { rules, times: vec![Vec::new(); rules.steps], slots: Vec::new(), components }
    }

    /// The run with the most steps, the earliest of those.
    pub fn best(&mut self, hits: &[Hit]) -> Option<Run> {
        let mut best: Option<Run> = None;
        let reachable = self.reachable(hits);
        self.runs(hits, |run| {
            if best.as_ref().is_none_or(|best| run.level > best.level) {
                best = Some(*run);
            }
            best.as_ref().map_or(0, |best| best.level) < reachable
        });
        best
    }

    /// No run has more steps: in an order, none comes behind a step that never happened.
    fn reachable(&self, hits: &[Hit]) -> usize {
        let happened = hits.iter().filter(|hit| (step(hit) as usize) < self.rules.steps);
        let happened = happened.fold(0u32, |all, hit| all | 1 << step(hit));
        match self.rules.order {
            Order::Ordered | Order::Strict => happened.trailing_ones() as usize,
            Order::Unordered => happened.count_ones() as usize,
        }
    }

    /// Whether something that excludes the actor lies within a run.
    pub fn excludes(&self, run: &Run, hits: &[Hit]) -> bool {
        let within = |(at, exclusion): (usize, &Exclusion)| {
            if run.level <= exclusion.to {
                return false;
            }
            let (after, before) = (run.times[exclusion.from], run.times[exclusion.to]);
            let from = hits.partition_point(|hit| hit.time <= after);
            let to = hits.partition_point(|hit| hit.time < before).max(from);
            hits[from..to].iter().any(|hit| step(hit) == EXCLUSION + at as u32)
        };
        self.rules.exclusions.iter().enumerate().any(within)
    }

    /// Shows the run from every event that can start one, until `each` has seen enough.
    pub fn runs(&mut self, hits: &[Hit], each: impl FnMut(&Run) -> bool) {
        match self.rules.order {
            Order::Ordered => self.ordered(hits, each),
            Order::Strict => self.strict(hits, each),
            Order::Unordered => self.unordered(hits, each),
        }
    }

    fn ordered(&mut self, hits: &[Hit], mut each: impl FnMut(&Run) -> bool) {
        self.fill_times(hits);
        let Rules { window, overlaps, .. } = self.rules;
        let mut run = Run::starting(0);
        for start in &self.times[0] {
            // What a run before left behind its last step is never looked at.
            (run.level, run.times[0]) = (1, *start);
            for (at, overlaps) in overlaps.iter().enumerate().skip(1) {
                let earliest =
                    |before: usize| run.times[before] + i64::from(overlaps & 1 << before != 0);
                let earliest = (0..at).map(earliest).max().unwrap_or(*start);
                let times = &self.times[at];
                let found = times.get(times.partition_point(|time| *time < earliest));
                match found {
                    Some(time) if time - start <= *window => run.times[at] = *time,
                    _ => break,
                }
                run.level = at + 1;
            }
            if !each(&run) {
                return;
            }
        }
    }

    fn fill_times(&mut self, hits: &[Hit]) {
        self.times.iter_mut().for_each(Vec::clear);
        for hit in hits {
            if let Some(times) = self.times.get_mut(step(hit) as usize)
                && times.last() != Some(&hit.time)
            {
                times.push(hit.time);
            }
        }
    }

    fn fill_slots(&mut self, hits: &[Hit]) {
        self.slots.clear();
        for hit in hits {
            let (steps, other) = match step(hit) {
                OTHER => (0, true),
                step if (step as usize) < self.rules.steps => (1 << step, false),
                _ => continue,
            };
            match self.slots.last_mut() {
                Some(slot) if slot.time == hit.time => {
                    slot.steps |= steps;
                    slot.other |= other;
                }
                _ => self.slots.push(Slot { time: hit.time, steps, other }),
            }
        }
    }

    fn strict(&mut self, hits: &[Hit], mut each: impl FnMut(&Run) -> bool) {
        self.fill_slots(hits);
        let Rules { window, overlaps, .. } = self.rules;
        for (first, slot) in self.slots.iter().enumerate() {
            if slot.steps & 1 == 0 {
                continue;
            }
            let mut run = Run::starting(slot.time);
            let (mut here, mut used) = (first, 1u32);
            for (at, overlaps) in overlaps.iter().enumerate().skip(1) {
                let bit = 1u32 << at;
                if self.slots[here].steps & bit != 0 && overlaps & used == 0 {
                    used |= bit;
                } else {
                    if self.slots[here].other {
                        break;
                    }
                    here += 1;
                    let next = self.slots.get(here);
                    if !next.is_some_and(|next| {
                        next.steps & bit != 0 && next.time - slot.time <= *window
                    }) {
                        break;
                    }
                    used = bit;
                }
                run.times[at] = self.slots[here].time;
                run.level = at + 1;
            }
            if !each(&run) {
                return;
            }
        }
    }

    fn unordered(&mut self, hits: &[Hit], mut each: impl FnMut(&Run) -> bool) {
        self.fill_times(hits);
        let mut last = None;
        for hit in hits.iter().filter(|hit| (step(hit) as usize) < self.rules.steps) {
            if last.replace(hit.time) == Some(hit.time) {
                continue;
            }
            self.candidates(hit.time);
            let run = self.complete(hit.time);
            if !each(&run) {
                return;
            }
        }
    }

    /// Moments from `start` on that may serve a step. Of every step as many as it shares moments
    /// with are enough: one of them is always left for it.
    fn candidates(&mut self, start: i64) {
        self.slots.clear();
        for (at, times) in self.times.iter().enumerate() {
            let first = times.partition_point(|time| *time < start);
            let enough = self.components[at].count_ones() as usize;
            let own = times[first..].iter().take(enough);
            let own = own.take_while(|time| **time - start <= self.rules.window);
            let slot = |time: &i64| Slot { time: *time, steps: 1 << at, other: false };
            self.slots.extend(own.map(slot));
        }
        let components = &self.components;
        let key = |slot: &Slot| (slot.time, components[slot.steps.trailing_zeros() as usize]);
        self.slots.sort_unstable_by_key(key);
        self.slots.dedup_by(|next, slot| {
            let same = key(next) == key(slot);
            slot.steps |= if same { next.steps } else { 0 };
            same
        });
    }

    /// As many steps as moments can be found for, each for one step of those that overlap.
    fn complete(&self, start: i64) -> Run {
        let mut run = Run::starting(start);
        run.level = 0;
        let mut taken = Taken { slots: &self.slots, by: [NONE; STEPS_MAX] };
        for (at, slot) in self.slots.iter().enumerate() {
            if taken.add(at, &mut 0) {
                run.times[run.level] = slot.time;
                run.level += 1;
            }
        }
        for (step, slot) in taken.by.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
            run.by_step[step] = self.slots[*slot].time;
        }
        run
    }
}

const NONE: usize = usize::MAX;

/// Which moment serves which step.
struct Taken<'a> {
    slots: &'a [Slot],
    by: [usize; STEPS_MAX],
}

impl Taken<'_> {
    /// Finds a step for a moment; others may have to move to another step for it.
    fn add(&mut self, slot: usize, tried: &mut u32) -> bool {
        let mut own = self.slots[slot].steps & !*tried;
        while own != 0 {
            let step = own.trailing_zeros() as usize;
            *tried |= 1 << step;
            let before = self.by[step];
            if before == NONE || self.add(before, tried) {
                self.by[step] = slot;
                return true;
            }
            own = self.slots[slot].steps & !*tried;
        }
        false
    }
}

#[cfg(test)]
mod tests;
