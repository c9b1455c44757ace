//! Matches an actor's events to funnel steps: a pure function of the events, sorted by time.

use crate::scan::actor_events::ActorEvent;

pub(crate) const STEPS_MAX: usize = 20;
/// First tag of exclusions; lower tags are steps.
pub(crate) const EXCLUSION: u32 = 32;
/// Tag of an event that is not a step, which only strict funnels collect.
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
    /// Conversion window from the first step, in microseconds.
    pub window: i64,
    /// For each step a bit set of the steps that may select the same event. Overlapping steps need
    /// different timestamps, so that no event counts for two steps.
    pub overlaps: Vec<u32>,
    /// Bit set of the steps that a conversion may skip; never the first, and none if any order counts.
    pub optional: u32,
    pub exclusions: Vec<Exclusion>,
}

impl Rules {
    fn is_optional(&self, step: usize) -> bool {
        self.optional & 1 << step != 0
    }

    /// The last step before `step` that a conversion may not skip.
    pub fn required_before(&self, step: usize) -> usize {
        (0..step).rev().find(|before| !self.is_optional(*before)).unwrap_or(0)
    }

    /// The steps that can precede `step` in a conversion, the nearest first: up to the required one.
    fn before(&self, step: usize) -> impl Iterator<Item = usize> {
        (self.required_before(step)..step).rev()
    }
}

/// One attempt to pass the funnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// Number of completed steps; with optional steps, up to which step the conversion got.
    pub level: usize,
    /// Bit set of the optional steps within `level` that were not completed.
    pub skipped: u32,
    /// Timestamps of the completed steps, in order of completion.
    pub times: [i64; STEPS_MAX],
    /// Timestamps by step; only for unordered funnels.
    pub by_step: [i64; STEPS_MAX],
}

impl Conversion {
    fn starting(at: i64) -> Self {
        let mut conversion =
            Self { level: 1, skipped: 0, times: [0; STEPS_MAX], by_step: [i64::MIN; STEPS_MAX] };
        conversion.times[0] = at;
        conversion
    }

    /// Whether the step was completed; if any order counts, whether so many steps and one more were.
    pub fn has(&self, step: usize) -> bool {
        step < self.level && self.skipped & 1 << step == 0
    }

    fn completed(&self) -> impl DoubleEndedIterator<Item = usize> + Clone + use<> {
        let own = *self;
        (0..self.level).filter(move |step| own.has(*step))
    }

    /// The completed steps and their timestamps, in order of completion.
    pub fn steps(&self, rules: &Rules) -> Vec<(usize, i64)> {
        match rules.order {
            Order::Ordered | Order::Strict => {
                self.completed().map(|step| (step, self.times[step])).collect()
            }
            Order::Unordered => {
                let completed = self.by_step.iter().copied().enumerate();
                let completed = completed.filter(|(_, time)| *time != i64::MIN);
                let mut completed: Vec<(usize, i64)> = completed.collect();
                completed.sort_by_key(|(_, time)| *time);
                completed
            }
        }
    }
}

fn step(event: &ActorEvent) -> u32 {
    event.tag & 0xff
}

/// Breakdown value id of an event.
pub(crate) fn value(event: &ActorEvent) -> u32 {
    event.tag >> 8
}

/// Events with the same timestamp.
#[derive(Clone, Copy, Debug)]
struct TimeGroup {
    time: i64,
    /// Bit set of the steps that the events match.
    steps: u32,
    other: bool,
}

/// Matches one actor after the other; reuses its buffers.
#[derive(Debug)]
pub(crate) struct StepMatcher<'a> {
    rules: &'a Rules,
    times: Vec<Vec<i64>>,
    groups: Vec<TimeGroup>,
    /// Connected components of `overlaps`: for each step the bit set of its component.
    components: Vec<u32>,
}

impl<'a> StepMatcher<'a> {
    pub fn new(rules: &'a Rules) -> Self {
        let mut components = rules.overlaps.clone();
        (0..rules.steps).for_each(|at| components[at] |= 1 << at);
        // Transitive closure: each pass extends paths by at least one step.
        for _ in 0..rules.steps {
            for at in 0..rules.steps {
                let near = (0..rules.steps).filter(|other| components[at] & 1 << other != 0);
                components[at] = near.map(|other| components[other]).fold(0, |all, own| all | own);
            }
        }
        Self { rules, times: vec![Vec::new(); rules.steps], groups: Vec::new(), components }
    }

    /// The conversion with the most steps; the earliest among equals.
    pub fn best(&mut self, events: &[ActorEvent]) -> Option<Conversion> {
        let mut best: Option<Conversion> = None;
        let reachable = self.reachable(events);
        self.runs(events, |conversion| {
            if best.as_ref().is_none_or(|best| conversion.level > best.level) {
                best = Some(*conversion);
            }
            best.as_ref().map_or(0, |best| best.level) < reachable
        });
        best
    }

    /// Upper bound of the completed steps: an ordered funnel stops at the first step without events.
    fn reachable(&self, events: &[ActorEvent]) -> usize {
        let happened = events.iter().filter(|event| (step(event) as usize) < self.rules.steps);
        let happened = happened.fold(0u32, |all, event| all | 1 << step(event));
        match self.rules.order {
            Order::Ordered | Order::Strict => {
                let steps = (happened | self.rules.optional).trailing_ones();
                (u32::BITS - (happened & ((1 << steps) - 1)).leading_zeros()) as usize
            }
            Order::Unordered => happened.count_ones() as usize,
        }
    }

    /// Whether an exclusion event lies within the conversion.
    pub fn excludes(&self, conversion: &Conversion, events: &[ActorEvent]) -> bool {
        let within = |(at, exclusion): (usize, &Exclusion)| {
            if conversion.level <= exclusion.to {
                return false;
            }
            // Of skipped steps, the nearest completed ones outside of the range.
            let mut completed = conversion.completed();
            let to = completed.clone().find(|step| *step >= exclusion.to);
            let from = completed.rfind(|step| *step <= exclusion.from);
            let (Some(from), Some(to)) = (from, to) else { return false };
            let (after, before) = (conversion.times[from], conversion.times[to]);
            let from = events.partition_point(|event| event.time <= after);
            let to = events.partition_point(|event| event.time < before).max(from);
            events[from..to].iter().any(|event| step(event) == EXCLUSION + at as u32)
        };
        self.rules.exclusions.iter().enumerate().any(within)
    }

    /// Calls `each` with the conversion from every possible first event, until it returns false.
    pub fn runs(&mut self, events: &[ActorEvent], each: impl FnMut(&Conversion) -> bool) {
        match self.rules.order {
            Order::Ordered if self.rules.optional != 0 => self.ordered_optional(events, each),
            Order::Ordered => self.ordered(events, each),
            Order::Strict if self.rules.optional != 0 => self.strict_optional(events, each),
            Order::Strict => self.strict(events, each),
            Order::Unordered => self.unordered(events, each),
        }
    }

    fn ordered(&mut self, events: &[ActorEvent], mut each: impl FnMut(&Conversion) -> bool) {
        self.fill_times(events);
        let Rules { window, overlaps, .. } = self.rules;
        let mut conversion = Conversion::starting(0);
        for start in &self.times[0] {
            // Times after `level` are stale values of the previous start; nothing reads them.
            (conversion.level, conversion.times[0]) = (1, *start);
            for (at, overlaps) in overlaps.iter().enumerate().skip(1) {
                let earliest = |before: usize| {
                    conversion.times[before] + i64::from(overlaps & 1 << before != 0)
                };
                let earliest = (0..at).map(earliest).max().unwrap_or(*start);
                let times = &self.times[at];
                let first_after = times.get(times.partition_point(|time| *time < earliest));
                match first_after {
                    Some(time) if time - start <= *window => conversion.times[at] = *time,
                    _ => break,
                }
                conversion.level = at + 1;
            }
            if !each(&conversion) {
                return;
            }
        }
    }

    /// Every step takes the earliest time after the required step before, so that an optional step
    /// never delays a required one. From the last step back, an optional step counts if it then lies
    /// before the next one that counts.
    fn ordered_optional(
        &mut self,
        events: &[ActorEvent],
        mut each: impl FnMut(&Conversion) -> bool,
    ) {
        self.fill_times(events);
        let rules = self.rules;
        for start in &self.times[0] {
            let mut conversion = Conversion::starting(*start);
            let mut reached = 1u32;
            for at in 1..rules.steps {
                let required = (0..at).filter(|before| !rules.is_optional(*before));
                let after = |before: usize| {
                    conversion.times[before] + i64::from(rules.overlaps[at] & 1 << before != 0)
                };
                let earliest = required.map(after).max().unwrap_or(*start);
                let times = &self.times[at];
                match times.get(times.partition_point(|time| *time < earliest)) {
                    Some(time) if time - start <= rules.window => {
                        conversion.times[at] = *time;
                        reached |= 1 << at;
                    }
                    _ if rules.is_optional(at) => {}
                    _ => break,
                }
            }
            conversion.level = (u32::BITS - reached.leading_zeros()) as usize;
            let mut next = conversion.level - 1;
            for at in (0..next).rev() {
                let time = conversion.times[at];
                let overlaps = |later: &usize| rules.overlaps[at] & 1 << later != 0;
                let mut same = conversion.completed().filter(|later| *later > at).filter(overlaps);
                let fits = reached & 1 << at != 0
                    && time <= conversion.times[next]
                    && same.all(|later| time < conversion.times[later]);
                if fits || !rules.is_optional(at) {
                    next = at;
                } else {
                    conversion.skipped |= 1 << at;
                }
            }
            if !each(&conversion) {
                return;
            }
        }
    }

    fn fill_times(&mut self, events: &[ActorEvent]) {
        self.times.iter_mut().for_each(Vec::clear);
        for event in events {
            if let Some(times) = self.times.get_mut(step(event) as usize)
                && times.last() != Some(&event.time)
            {
                times.push(event.time);
            }
        }
    }

    fn fill_slots(&mut self, events: &[ActorEvent]) {
        self.groups.clear();
        for event in events {
            let (steps, other) = match step(event) {
                OTHER => (0, true),
                step if (step as usize) < self.rules.steps => (1 << step, false),
                _ => continue,
            };
            match self.groups.last_mut() {
                Some(group) if group.time == event.time => {
                    group.steps |= steps;
                    group.other |= other;
                }
                _ => self.groups.push(TimeGroup { time: event.time, steps, other }),
            }
        }
    }

    fn strict(&mut self, events: &[ActorEvent], mut each: impl FnMut(&Conversion) -> bool) {
        self.fill_slots(events);
        let Rules { window, overlaps, .. } = self.rules;
        for (first, group) in self.groups.iter().enumerate() {
            if group.steps & 1 == 0 {
                continue;
            }
            let mut conversion = Conversion::starting(group.time);
            let (mut here, mut used) = (first, 1u32);
            for (at, overlaps) in overlaps.iter().enumerate().skip(1) {
                let bit = 1u32 << at;
                if self.groups[here].steps & bit != 0 && overlaps & used == 0 {
                    used |= bit;
                } else {
                    if self.groups[here].other {
                        break;
                    }
                    here += 1;
                    let next = self.groups.get(here);
                    if !next.is_some_and(|next| {
                        next.steps & bit != 0 && next.time - group.time <= *window
                    }) {
                        break;
                    }
                    used = bit;
                }
                conversion.times[at] = self.groups[here].time;
                conversion.level = at + 1;
            }
            if !each(&conversion) {
                return;
            }
        }
    }

    /// Follows all conversions that can lie in consecutive groups at once, by their last step.
    fn strict_optional(
        &mut self,
        events: &[ActorEvent],
        mut each: impl FnMut(&Conversion) -> bool,
    ) {
        self.fill_slots(events);
        let rules = self.rules;
        for (first, group) in self.groups.iter().enumerate() {
            if group.steps & 1 == 0 {
                continue;
            }
            let mut best = Conversion::starting(group.time);
            let mut chains: [Option<Chain>; STEPS_MAX] = [None; STEPS_MAX];
            chains[0] = Some(Chain { conversion: best, used: 1, before: 0 });
            let mut here = first;
            loop {
                let own = self.groups[here];
                Chain::extend_within(&mut chains, own, rules);
                let furthest = chains.iter().rev().flatten().next();
                let Some(furthest) = furthest else { break };
                if furthest.conversion.level > best.level {
                    best = furthest.conversion;
                }
                here += 1;
                let next = self.groups.get(here);
                let next = next.filter(|next| next.time - group.time <= rules.window);
                let (false, Some(next)) = (own.other, next) else { break };
                let mut followed = [None; STEPS_MAX];
                for step in (1..rules.steps).filter(|step| next.steps & 1 << step != 0) {
                    let before = rules.before(step).find_map(|before| chains[before]);
                    followed[step] = before.map(|chain| chain.with(step, next.time, 0));
                }
                chains = followed;
            }
            if !each(&best) {
                return;
            }
        }
    }

    fn unordered(&mut self, events: &[ActorEvent], mut each: impl FnMut(&Conversion) -> bool) {
        self.fill_times(events);
        let mut last = None;
        for event in events.iter().filter(|event| (step(event) as usize) < self.rules.steps) {
            if last.replace(event.time) == Some(event.time) {
                continue;
            }
            self.candidates(event.time);
            let conversion = self.complete(event.time);
            if !each(&conversion) {
                return;
            }
        }
    }

    /// Candidate timestamps from `start` on for each step. A step needs at most as many candidates as
    /// its component has steps: the others can take all but one.
    fn candidates(&mut self, start: i64) {
        self.groups.clear();
        for (at, times) in self.times.iter().enumerate() {
            let first = times.partition_point(|time| *time < start);
            let enough = self.components[at].count_ones() as usize;
            let usable = times[first..].iter().take(enough);
            let usable = usable.take_while(|time| **time - start <= self.rules.window);
            let group = |time: &i64| TimeGroup { time: *time, steps: 1 << at, other: false };
            self.groups.extend(usable.map(group));
        }
        let components = &self.components;
        let key =
            |group: &TimeGroup| (group.time, components[group.steps.trailing_zeros() as usize]);
        self.groups.sort_unstable_by_key(key);
        self.groups.dedup_by(|next, group| {
            let same = key(next) == key(group);
            group.steps |= if same { next.steps } else { 0 };
            same
        });
    }

    /// Maximum bipartite matching of timestamps to steps, by augmenting paths.
    fn complete(&self, start: i64) -> Conversion {
        let mut conversion = Conversion::starting(start);
        conversion.level = 0;
        let mut assignment = StepAssignment { groups: &self.groups, by: [NONE; STEPS_MAX] };
        for (at, group) in self.groups.iter().enumerate() {
            if assignment.add(at, &mut 0) {
                conversion.times[conversion.level] = group.time;
                conversion.level += 1;
            }
        }
        for (step, group) in assignment.by.iter().enumerate().filter(|(_, group)| **group != NONE) {
            conversion.by_step[step] = self.groups[*group].time;
        }
        conversion
    }
}

/// A conversion through consecutive groups of events.
#[derive(Clone, Copy, Debug)]
struct Chain {
    conversion: Conversion,
    /// Bit set of the steps in the current group.
    used: u32,
    /// The step before the last one.
    before: usize,
}

impl Chain {
    /// With a further step; `used` has the steps that it shares its group with.
    fn with(self, step: usize, time: i64, used: u32) -> Self {
        let mut conversion = self.conversion;
        let before = conversion.level - 1;
        (before + 1..step).for_each(|skipped| conversion.skipped |= 1 << skipped);
        conversion.times[step] = time;
        conversion.level = step + 1;
        Self { conversion, used: used | 1 << step, before }
    }

    /// Further steps that other events of the same group match. A chain with the nearer step before
    /// wins: it skips fewer.
    fn extend_within(chains: &mut [Option<Self>; STEPS_MAX], group: TimeGroup, rules: &Rules) {
        for step in (1..rules.steps).filter(|step| group.steps & 1 << step != 0) {
            let fits = |chain: &Self| rules.overlaps[step] & chain.used == 0;
            let own = rules.before(step).find_map(|before| chains[before].filter(fits));
            let Some(chain) = own.map(|chain| chain.with(step, group.time, chain.used)) else {
                continue;
            };
            if chains[step].is_none_or(|known| known.before < chain.before) {
                chains[step] = Some(chain);
            }
        }
    }
}

const NONE: usize = usize::MAX;

/// The current matching: `by[step]` is the index of the group that is matched to the step.
struct StepAssignment<'a> {
    groups: &'a [TimeGroup],
    by: [usize; STEPS_MAX],
}

impl StepAssignment<'_> {
    /// Augments the matching with a group; matched groups may move to other steps.
    fn add(&mut self, group: usize, tried: &mut u32) -> bool {
        let mut untried = self.groups[group].steps & !*tried;
        while untried != 0 {
            let step = untried.trailing_zeros() as usize;
            *tried |= 1 << step;
            let before = self.by[step];
            if before == NONE || self.add(before, tried) {
                self.by[step] = group;
                return true;
            }
            untried = self.groups[group].steps & !*tried;
        }
        false
    }
}

#[cfg(test)]
mod tests;
