//! Actors sorted by how far they came.

use hashbrown::HashMap;
use warehouse::{Filter, Predicate};

use super::machine::{EXCLUSION, Machine, OTHER, Order, Rules, Run, value};
use super::none_of;
use crate::Result;
use crate::breakdown::{Breakdown, NO_VALUE, first_by_text};
use crate::calendar::Buckets;
use crate::context::{EventSelection, QueryContext};
use crate::journeys::{Hit, Hits};
use crate::limits::MemoryReservation;
use crate::range::Period;
use crate::scan::{Actors, Rows, Scan};

/// Which of an actor's events says its breakdown value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribution {
    First,
    Last,
    /// All must agree: every value has a funnel of its own.
    Every,
    Step(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Steps,
    Times { from: usize, to: usize },
    Trend { from: usize, to: usize },
}

/// What of an answer a funnel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Whole,
    Value(String),
    Null,
    Other,
    Cohort(Option<i64>, String),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// How many came exactly so far; the first is one step.
    pub levels: Vec<u64>,
    /// Seconds that each took, by step; or, where only times are wanted, in the first.
    pub seconds: Vec<Vec<f64>>,
    /// Actors by bucket: who entered, and who converted.
    pub buckets: Vec<(u64, u64)>,
    /// Each of them, where they are asked for.
    pub who: Vec<Came>,
}

/// How far an actor came, and in which bucket it entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub actor: u32,
    pub level: usize,
    pub bucket: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub shares: Vec<(Share, Tally)>,
    /// Some values are beyond the limit.
    pub more: bool,
}

pub(crate) struct Counter<'a> {
    pub context: &'a QueryContext<'a>,
    pub period: &'a Period,
    pub rules: &'a Rules,
    /// Steps, and behind them exclusions.
    pub selection: Vec<EventSelection>,
    pub actors: &'a Actors,
    pub attribution: Attribution,
    pub wanted: Wanted,
    pub breakdown: Option<&'a Breakdown>,
    /// What every event must pass too.
    pub slice: Option<Predicate>,
    /// Whether actors are kept, not only counted.
    pub keeps: bool,
}

impl Tally {
    pub fn entered(&self) -> u64 {
        let in_buckets: u64 = self.buckets.iter().map(|(entered, _)| entered).sum();
        self.levels.iter().sum::<u64>() + in_buckets
    }

    fn absorb(&mut self, other: Self) {
        fn longer<T: Clone + Default>(own: &mut Vec<T>, other: &[T]) {
            own.resize(own.len().max(other.len()), T::default());
        }
        longer(&mut self.levels, &other.levels);
        longer(&mut self.seconds, &other.seconds);
        longer(&mut self.buckets, &other.buckets);
        self.levels.iter_mut().zip(other.levels).for_each(|(own, other)| *own += other);
        self.seconds.iter_mut().zip(other.seconds).for_each(|(own, other)| own.extend(other));
        for (own, other) in self.buckets.iter_mut().zip(other.buckets) {
            *own = (own.0 + other.0, own.1 + other.1);
        }
        self.who.extend(other.who);
    }

    fn bytes(&self) -> usize {
        let seconds: usize = self.seconds.iter().map(|own| own.capacity() * 8).sum();
        seconds + self.levels.capacity() * 8 + self.buckets.capacity() * 16
    }
}

fn seconds(run: &Run, from: usize, to: usize) -> f64 {
    (run.times[to] - run.times[from]) as f64 / 1e6
}

/// What a thread has counted so far.
struct State<'a> {
    machine: Machine<'a>,
    tallies: HashMap<u32, Tally>,
    bytes: usize,
    reservation: MemoryReservation<'a>,
}

impl<'a> Counter<'a> {
    pub fn whole(&self) -> Result<Found> {
        let mut tallies = self.count()?;
        let whole = tallies.remove(&NO_VALUE).unwrap_or_default();
        Ok(Found { shares: vec![(Share::Whole, whole)], more: false })
    }

    /// Largest first; what is beyond the limit together.
    pub fn values(&self, breakdown: &Breakdown) -> Result<Found> {
        let mut tallies = self.count()?;
        let mut ranked: Vec<(u32, f64)> =
            tallies.iter().map(|(value, tally)| (*value, tally.entered() as f64)).collect();
        ranked.retain(|(_, entered)| *entered > 0.0);
        let limit = breakdown.limit.min(ranked.len());
        breakdown.sort(&mut ranked, limit);
        let rest = ranked.split_off(limit);
        let mut found = Found { shares: Vec::new(), more: !rest.is_empty() };
        for (value, _) in ranked {
            let share = match value {
                NO_VALUE => Share::Null,
                _ => Share::Value(breakdown.texts(value).join("::")),
            };
            found.shares.push((share, tallies.remove(&value).unwrap_or_default()));
        }
        if found.more && !breakdown.hide_other {
            let mut together = Tally::default();
            for (value, _) in rest {
                together.absorb(tallies.remove(&value).unwrap_or_default());
            }
            found.shares.push((Share::Other, together));
        }
        Ok(found)
    }

    fn filter(&self, selection: &EventSelection) -> Filter {
        let selection = selection.clone().and(self.slice.clone());
        selection.filter(self.period.from, self.period.to)
    }

    fn collect(&self) -> Result<Hits<'a>> {
        let mut hits = Hits::new(self.context.limits);
        let mut collect = |filter: Filter, tag: u32| {
            let scan = Scan {
                actors: Some(self.actors),
                breakdown: self.breakdown,
                ..self.context.scan(filter)
            };
            hits.collect(&scan, |(), rows: &Rows<'_>| {
                let tag = |row: usize| Some(rows.value(row) << 8 | tag);
                Ok((0..rows.len()).map(tag).collect())
            })
        };
        for (at, selection) in self.selection.iter().enumerate() {
            let tag = match at.checked_sub(self.rules.steps) {
                None => at as u32,
                Some(exclusion) => EXCLUSION + exclusion as u32,
            };
            collect(self.filter(selection), tag)?;
        }
        if self.rules.order == Order::Strict {
            let steps = &self.selection[..self.rules.steps];
            let others = self.context.everything().and(Some(none_of(steps)));
            collect(self.filter(&others), OTHER)?;
        }
        Ok(hits)
    }

    fn count(&self) -> Result<HashMap<u32, Tally>> {
        let hits = self.collect()?;
        let new = || State {
            machine: Machine::new(self.rules),
            tallies: HashMap::new(),
            bytes: 0,
            reservation: self.context.limits.reserve(),
        };
        let states = hits.fold(new, |state, hits| {
            let every = self.attribution == Attribution::Every && self.breakdown.is_some();
            if !every {
                return self.journey(state, hits, None);
            }
            // What excludes does so whatever its value.
            let excluding = hits.iter().filter(|hit| is_exclusion(hit));
            let excluding: Vec<Hit> = excluding.copied().collect();
            let mut others: Vec<Hit> =
                hits.iter().filter(|hit| !is_exclusion(hit)).copied().collect();
            // Stable, so that those of one value stay in the order of time.
            others.sort_by_key(value);
            for own in others.chunk_by(|a, b| value(a) == value(b)) {
                let mut hits = own.to_vec();
                if !excluding.is_empty() {
                    hits.extend_from_slice(&excluding);
                    hits.sort_unstable_by_key(|hit| (hit.time, hit.tag));
                }
                self.journey(state, &hits, Some(value(&own[0])))?;
            }
            Ok(())
        })?;
        let mut all: HashMap<u32, Tally> = HashMap::new();
        for (value, tally) in states.into_iter().flat_map(|state| state.tallies) {
            all.entry(value).or_default().absorb(tally);
        }
        Ok(all)
    }

    /// All hits may be of one value only, which then is given.
    fn journey(&self, state: &mut State<'_>, hits: &[Hit], own: Option<u32>) -> Result<()> {
        let own = own.or_else(|| self.touch(hits));
        let value = |run: &Run| own.unwrap_or_else(|| self.value_at_step(run, hits));
        let State { machine, tallies, bytes, reservation } = state;
        let before = *bytes;
        match self.wanted {
            Wanted::Trend { from, to } => {
                let mut entries = Vec::new();
                by_bucket(machine, hits, &self.period.buckets, |bucket, run| {
                    entries.push((bucket, *run));
                });
                for (bucket, run) in entries {
                    if run.level <= from || machine.excludes(&run, hits) {
                        continue;
                    }
                    let tally = tallies.entry(value(&run)).or_default();
                    if tally.buckets.is_empty() {
                        tally.buckets = vec![(0, 0); self.period.buckets.len()];
                        *bytes += tally.bytes();
                    }
                    tally.buckets[bucket].0 += 1;
                    tally.buckets[bucket].1 += u64::from(run.level > to);
                    if self.keeps {
                        tally.who.push(Came { actor: hits[0].actor, level: run.level, bucket });
                        *bytes += size_of::<Came>();
                    }
                }
            }
            Wanted::Steps | Wanted::Times { .. } => {
                let Some(run) = machine.best(hits) else { return Ok(()) };
                if run.level == 0 || machine.excludes(&run, hits) {
                    return Ok(());
                }
                let tally = tallies.entry(value(&run)).or_default();
                tally.levels.resize(self.rules.steps, 0);
                tally.seconds.resize(self.rules.steps, Vec::new());
                tally.levels[run.level - 1] += 1;
                if self.keeps {
                    tally.who.push(Came { actor: hits[0].actor, level: run.level, bucket: 0 });
                    *bytes += size_of::<Came>();
                }
                match self.wanted {
                    Wanted::Times { from, to } if run.level > to => {
                        tally.seconds[0].push(seconds(&run, from, to));
                    }
                    Wanted::Steps => {
                        for step in 1..run.level {
                            tally.seconds[step].push(seconds(&run, step - 1, step));
                        }
                    }
                    _ => {}
                }
                *bytes += run.level * 16;
            }
        }
        if *bytes != before { reservation.resize(*bytes) } else { Ok(()) }
    }

    /// The value of the first or last event that has one; none if the run decides.
    fn touch(&self, hits: &[Hit]) -> Option<u32> {
        let Some(breakdown) = self.breakdown else { return Some(NO_VALUE) };
        let some = |hit: &&Hit| is_step(hit) && value(hit) != NO_VALUE;
        let found = match self.attribution {
            Attribution::First | Attribution::Every => hits.iter().find(some),
            Attribution::Last => hits.iter().rev().find(some),
            Attribution::Step(_) => return None,
        };
        let Some(found) = found else { return Some(NO_VALUE) };
        let equal = at_moment(hits, found.time).iter().filter(some).map(value);
        Some(first_by_text(breakdown, value(found), equal))
    }

    fn value_at_step(&self, run: &Run, hits: &[Hit]) -> u32 {
        let (Some(breakdown), Attribution::Step(step)) = (self.breakdown, self.attribution) else {
            return NO_VALUE;
        };
        let time = match self.rules.order {
            Order::Unordered => run.by_step[step],
            _ if run.level > step => run.times[step],
            _ => return NO_VALUE,
        };
        let is_it = |hit: &&Hit| hit.tag & 0xff == step as u32;
        let mut equal = at_moment(hits, time).iter().filter(is_it).map(value);
        let Some(first) = equal.next() else { return NO_VALUE };
        first_by_text(breakdown, first, equal)
    }
}

/// Of hits in the order of time, those at one moment. Several may differ in value; the same one of
/// them wins, however values came to be numbered.
fn at_moment(hits: &[Hit], time: i64) -> &[Hit] {
    let from = hits.partition_point(|hit| hit.time < time);
    let to = hits.partition_point(|hit| hit.time <= time);
    &hits[from..to]
}

fn is_step(hit: &Hit) -> bool {
    hit.tag & 0xff < EXCLUSION
}

fn is_exclusion(hit: &Hit) -> bool {
    (EXCLUSION..OTHER).contains(&(hit.tag & 0xff))
}

/// The best run among those that start in each bucket.
fn by_bucket(
    machine: &mut Machine<'_>,
    hits: &[Hit],
    buckets: &Buckets,
    mut each: impl FnMut(usize, &Run),
) {
    let mut best: Option<(usize, Run)> = None;
    machine.runs(hits, |run| {
        let Some(bucket) = buckets.of(run.times[0]) else { return true };
        match &mut best {
            Some((own, best)) if *own == bucket => {
                if run.level > best.level {
                    *best = *run;
                }
            }
            _ => {
                if let Some((bucket, run)) = best.replace((bucket, *run)) {
                    each(bucket, &run);
                }
            }
        }
        true
    });
    if let Some((bucket, run)) = best {
        each(bucket, &run);
    }
}
