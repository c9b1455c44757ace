//! Counts actors by the number of funnel steps that they completed.

use hashbrown::HashMap;
use warehouse::{Filter, Predicate};

use super::none_of;
use super::step_matcher::{Conversion, EXCLUSION, OTHER, Order, Rules, StepMatcher, value};
use crate::Result;
use crate::limits::MemoryReservation;
use crate::query::calendar::Buckets;
use crate::query::date_range::Period;
use crate::scan::actor_events::{ActorEvent, ActorEvents};
use crate::scan::breakdown::{Breakdown, NO_VALUE, first_by_text};
use crate::scan::context::{EventSelection, ScanContext};
use crate::scan::{ActorSource, Rows, Scan};

/// Breakdown attribution: which of an actor's events decides its breakdown value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribution {
    First,
    Last,
    /// All events: every value has a funnel of its own, of the events with that value.
    Every,
    Step(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunnelOutput {
    Steps,
    Times { from: usize, to: usize },
    Trend { from: usize, to: usize },
}

/// The part of a broken-down result that one funnel describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FunnelSegment {
    Whole,
    Value(String),
    Null,
    Other,
    Cohort(Option<i64>, String),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FunnelCounts {
    /// Number of actors that completed each step.
    pub reached: Vec<u64>,
    /// Conversion times in seconds, by step, from the required step before; for
    /// [`FunnelOutput::Times`] only the first list is used.
    pub seconds: Vec<Vec<f64>>,
    /// Entered and converted actors by bucket.
    pub buckets: Vec<(u64, u64)>,
    /// For drill-down: the progress of each actor.
    pub actors: Vec<ActorProgress>,
}

/// Steps that an actor completed, and the bucket in which it entered.
#[derive(Clone, Debug)]
pub(crate) struct ActorProgress {
    pub actor: u32,
    pub level: usize,
    /// Bit set of the optional steps before the last completed one that the actor skipped.
    pub skipped: u32,
    pub bucket: usize,
    /// The breakdown value of the conversion.
    pub value: u32,
    /// For [`FunnelDrillDown::Events`]: steps and their timestamps, in order of completion.
    pub steps: Vec<(usize, i64)>,
}

impl ActorProgress {
    pub fn has(&self, step: usize) -> bool {
        step < self.level && self.skipped & 1 << step == 0
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.steps.capacity() * size_of::<(usize, i64)>()
    }
}

#[derive(Debug, Default)]
pub(crate) struct FunnelResult {
    pub segments: Vec<(FunnelSegment, FunnelCounts)>,
    /// Whether values beyond the breakdown limit exist.
    pub has_more: bool,
}

pub(crate) struct Counter<'a> {
    pub context: &'a ScanContext<'a>,
    pub period: &'a Period,
    pub rules: &'a Rules,
    /// Steps, then exclusions.
    pub selections: Vec<EventSelection>,
    pub actors: &'a ActorSource,
    pub attribution: Attribution,
    pub output: FunnelOutput,
    pub breakdown: Option<&'a Breakdown>,
    /// The cohort of a breakdown by cohorts.
    pub slice: Option<Predicate>,
    pub drill_down: FunnelDrillDown,
}

/// What to collect besides the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunnelDrillDown {
    No,
    Actors,
    /// Actors, and the timestamps at which they completed steps.
    Events,
}

impl FunnelCounts {
    pub fn entered(&self) -> u64 {
        let in_buckets: u64 = self.buckets.iter().map(|(entered, _)| entered).sum();
        self.reached.first().copied().unwrap_or_default() + in_buckets
    }

    fn merge(&mut self, other: Self) {
        fn extend_to<T: Clone + Default>(own: &mut Vec<T>, other: &[T]) {
            own.resize(own.len().max(other.len()), T::default());
        }
        extend_to(&mut self.reached, &other.reached);
        extend_to(&mut self.seconds, &other.seconds);
        extend_to(&mut self.buckets, &other.buckets);
        self.reached.iter_mut().zip(other.reached).for_each(|(own, other)| *own += other);
        self.seconds.iter_mut().zip(other.seconds).for_each(|(own, other)| own.extend(other));
        for (own, other) in self.buckets.iter_mut().zip(other.buckets) {
            *own = (own.0 + other.0, own.1 + other.1);
        }
        self.actors.extend(other.actors);
    }

    fn bytes(&self) -> usize {
        let seconds: usize = self.seconds.iter().map(|own| own.capacity() * 8).sum();
        seconds + self.reached.capacity() * 8 + self.buckets.capacity() * 16
    }
}

fn seconds(conversion: &Conversion, from: usize, to: usize) -> f64 {
    (conversion.times[to] - conversion.times[from]) as f64 / 1e6
}

/// Counts of one partition of actors, by breakdown value.
struct State<'a> {
    step_matcher: StepMatcher<'a>,
    by_value: HashMap<u32, FunnelCounts>,
    bytes: usize,
    reservation: MemoryReservation<'a>,
}

impl<'a> Counter<'a> {
    pub fn whole(&self) -> Result<FunnelResult> {
        let mut by_value = self.count()?;
        let whole = by_value.remove(&NO_VALUE).unwrap_or_default();
        Ok(FunnelResult { segments: vec![(FunnelSegment::Whole, whole)], has_more: false })
    }

    /// Funnels by breakdown value, the largest first; values beyond the limit are merged.
    pub fn values(&self, breakdown: &Breakdown) -> Result<FunnelResult> {
        let mut by_value = self.count()?;
        let mut ranked: Vec<(u32, f64)> =
            by_value.iter().map(|(value, counts)| (*value, counts.entered() as f64)).collect();
        ranked.retain(|(_, entered)| *entered > 0.0);
        let limit = breakdown.limit.min(ranked.len());
        breakdown.sort(&mut ranked, limit);
        let rest = ranked.split_off(limit);
        let mut result = FunnelResult { segments: Vec::new(), has_more: !rest.is_empty() };
        for (value, _) in ranked {
            let segment = match value {
                NO_VALUE => FunnelSegment::Null,
                _ => FunnelSegment::Value(breakdown.texts(value).join("::")),
            };
            result.segments.push((segment, by_value.remove(&value).unwrap_or_default()));
        }
        if result.has_more && !breakdown.hide_other {
            let mut rest_counts = FunnelCounts::default();
            for (value, _) in rest {
                rest_counts.merge(by_value.remove(&value).unwrap_or_default());
            }
            result.segments.push((FunnelSegment::Other, rest_counts));
        }
        Ok(result)
    }

    fn filter(&self, selection: &EventSelection) -> Filter {
        let selection = selection.clone().and(self.slice.clone());
        selection.filter(self.period.from, self.period.to)
    }

    fn collect(&self) -> Result<ActorEvents<'a>> {
        let mut events = ActorEvents::new(self.context.limits);
        let mut collect = |filter: Filter, tag: u32| {
            let scan = Scan {
                actors: Some(self.actors),
                breakdown: self.breakdown,
                ..self.context.scan(filter)
            };
            events.collect(&scan, |(), rows: &Rows<'_>| {
                let tag = |row: usize| Some(rows.value(row) << 8 | tag);
                Ok((0..rows.len()).map(tag).collect())
            })
        };
        for (at, selection) in self.selections.iter().enumerate() {
            let tag = match at.checked_sub(self.rules.steps) {
                None => at as u32,
                Some(exclusion) => EXCLUSION + exclusion as u32,
            };
            collect(self.filter(selection), tag)?;
        }
        if self.rules.order == Order::Strict {
            let steps = &self.selections[..self.rules.steps];
            let others = self.context.all_events().and(Some(none_of(steps)));
            collect(self.filter(&others), OTHER)?;
        }
        Ok(events)
    }

    fn count(&self) -> Result<HashMap<u32, FunnelCounts>> {
        let events = self.collect()?;
        let new = || State {
            step_matcher: StepMatcher::new(self.rules),
            by_value: HashMap::new(),
            bytes: 0,
            reservation: self.context.limits.reserve(),
        };
        let states = events.fold(new, |state, events| {
            let every = self.attribution == Attribution::Every && self.breakdown.is_some();
            if !every {
                return self.count_actor(state, events, None);
            }
            // Exclusions apply to the funnels of all values.
            let excluding = events.iter().filter(|event| is_exclusion(event));
            let excluding: Vec<ActorEvent> = excluding.copied().collect();
            let mut others: Vec<ActorEvent> =
                events.iter().filter(|event| !is_exclusion(event)).copied().collect();
            // The sort is stable and keeps the events of a value sorted by time.
            others.sort_by_key(value);
            for same_value in others.chunk_by(|a, b| value(a) == value(b)) {
                let mut events = same_value.to_vec();
                if !excluding.is_empty() {
                    events.extend_from_slice(&excluding);
                    events.sort_unstable_by_key(|event| (event.time, event.tag));
                }
                self.count_actor(state, &events, Some(value(&same_value[0])))?;
            }
            Ok(())
        })?;
        let mut all: HashMap<u32, FunnelCounts> = HashMap::new();
        for (value, counts) in states.into_iter().flat_map(|state| state.by_value) {
            all.entry(value).or_default().merge(counts);
        }
        Ok(all)
    }

    /// Counts one actor. `shared_value` is the breakdown value if all events have the same.
    fn count_actor(
        &self,
        state: &mut State<'_>,
        events: &[ActorEvent],
        shared_value: Option<u32>,
    ) -> Result<()> {
        let shared_value = shared_value.or_else(|| self.touch(events));
        let value = |conversion: &Conversion| {
            shared_value.unwrap_or_else(|| self.value_at_step(conversion, events))
        };
        let State { step_matcher, by_value, bytes, reservation } = state;
        let before = *bytes;
        match self.output {
            FunnelOutput::Trend { from, to } => {
                let mut entries = Vec::new();
                by_bucket(step_matcher, events, &self.period.buckets, |bucket, conversion| {
                    entries.push((bucket, *conversion));
                });
                for (bucket, conversion) in entries {
                    if conversion.level <= from || step_matcher.excludes(&conversion, events) {
                        continue;
                    }
                    let value = value(&conversion);
                    let counts = by_value.entry(value).or_default();
                    if counts.buckets.is_empty() {
                        counts.buckets = vec![(0, 0); self.period.buckets.len()];
                        *bytes += counts.bytes();
                    }
                    counts.buckets[bucket].0 += 1;
                    counts.buckets[bucket].1 += u64::from(conversion.level > to);
                    if self.drill_down != FunnelDrillDown::No {
                        let actor = events[0].actor;
                        let progress = self.progress(actor, &conversion, bucket, value);
                        *bytes += progress.bytes();
                        counts.actors.push(progress);
                    }
                }
            }
            FunnelOutput::Steps | FunnelOutput::Times { .. } => {
                let Some(conversion) = step_matcher.best(events) else { return Ok(()) };
                if conversion.level == 0 || step_matcher.excludes(&conversion, events) {
                    return Ok(());
                }
                let value = value(&conversion);
                let counts = by_value.entry(value).or_default();
                counts.reached.resize(self.rules.steps, 0);
                counts.seconds.resize(self.rules.steps, Vec::new());
                for step in (0..conversion.level).filter(|step| conversion.has(*step)) {
                    counts.reached[step] += 1;
                }
                if self.drill_down != FunnelDrillDown::No {
                    let progress = self.progress(events[0].actor, &conversion, 0, value);
                    *bytes += progress.bytes();
                    counts.actors.push(progress);
                }
                match self.output {
                    FunnelOutput::Times { from, to } if conversion.level > to => {
                        counts.seconds[0].push(seconds(&conversion, from, to));
                    }
                    FunnelOutput::Steps => {
                        for step in (1..conversion.level).filter(|step| conversion.has(*step)) {
                            let before = self.rules.required_before(step);
                            counts.seconds[step].push(seconds(&conversion, before, step));
                        }
                    }
                    _ => {}
                }
                *bytes += conversion.level * 16;
            }
        }
        if *bytes != before { reservation.resize(*bytes) } else { Ok(()) }
    }

    /// First-touch or last-touch breakdown value; none if the value depends on the conversion.
    fn touch(&self, events: &[ActorEvent]) -> Option<u32> {
        let Some(breakdown) = self.breakdown else { return Some(NO_VALUE) };
        let some = |event: &&ActorEvent| is_step(event) && value(event) != NO_VALUE;
        let breakdown_value = match self.attribution {
            Attribution::First | Attribution::Every => events.iter().find(some),
            Attribution::Last => events.iter().rev().find(some),
            Attribution::Step(_) => return None,
        };
        let Some(breakdown_value) = breakdown_value else { return Some(NO_VALUE) };
        let equal = at_time(events, breakdown_value.time).iter().filter(some).map(value);
        Some(first_by_text(breakdown, value(breakdown_value), equal))
    }

    fn progress(
        &self,
        actor: u32,
        conversion: &Conversion,
        bucket: usize,
        value: u32,
    ) -> ActorProgress {
        let steps = match self.drill_down {
            FunnelDrillDown::Events => conversion.steps(self.rules),
            FunnelDrillDown::No | FunnelDrillDown::Actors => Vec::new(),
        };
        let Conversion { level, skipped, .. } = *conversion;
        ActorProgress { actor, level, skipped, bucket, value, steps }
    }

    fn value_at_step(&self, conversion: &Conversion, events: &[ActorEvent]) -> u32 {
        let (Some(breakdown), Attribution::Step(step)) = (self.breakdown, self.attribution) else {
            return NO_VALUE;
        };
        let time = match self.rules.order {
            Order::Unordered => conversion.by_step[step],
            _ if conversion.has(step) => conversion.times[step],
            _ => return NO_VALUE,
        };
        let is_it = |event: &&ActorEvent| event.tag & 0xff == step as u32;
        let mut equal = at_time(events, time).iter().filter(is_it).map(value);
        let Some(first) = equal.next() else { return NO_VALUE };
        first_by_text(breakdown, first, equal)
    }
}

/// The events with a timestamp. If their values differ, the caller picks by label, so that the result
/// does not depend on the order in which ids were assigned.
fn at_time(events: &[ActorEvent], time: i64) -> &[ActorEvent] {
    let from = events.partition_point(|event| event.time < time);
    let to = events.partition_point(|event| event.time <= time);
    &events[from..to]
}

fn is_step(event: &ActorEvent) -> bool {
    event.tag & 0xff < EXCLUSION
}

fn is_exclusion(event: &ActorEvent) -> bool {
    (EXCLUSION..OTHER).contains(&(event.tag & 0xff))
}

/// Calls `each` with the best conversion among those that start in each bucket.
fn by_bucket(
    step_matcher: &mut StepMatcher<'_>,
    events: &[ActorEvent],
    buckets: &Buckets,
    mut each: impl FnMut(usize, &Conversion),
) {
    let mut best: Option<(usize, Conversion)> = None;
    step_matcher.runs(events, |conversion| {
        let Some(bucket) = buckets.of(conversion.times[0]) else { return true };
        match &mut best {
            Some((own, best)) if *own == bucket => {
                if conversion.level > best.level {
                    *best = *conversion;
                }
            }
            _ => {
                if let Some((bucket, conversion)) = best.replace((bucket, *conversion)) {
                    each(bucket, &conversion);
                }
            }
        }
        true
    });
    if let Some((bucket, conversion)) = best {
        each(bucket, &conversion);
    }
}
