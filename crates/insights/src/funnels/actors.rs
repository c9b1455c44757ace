//! Drill-down of funnels: to actors and to events.

use std::collections::BTreeSet;
use std::sync::Arc;

use facts::ReadView;
use hashbrown::HashSet;
use warehouse::Predicate;

use super::count::{ActorProgress, Attribution, FunnelDrillDown, FunnelOutput};
use super::step_matcher::{Order, Rules};
use super::{FunnelsQuery, shape};
use crate::actors::{Actor, DataPoint, InsightActors};
use crate::counted_events::{CountedEvents, RowColumns, RowTest};
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::date_range::Period;
use crate::scan::ActorSource;
use crate::scan::breakdown::{BreakdownPlan, BreakdownSegment, CohortSlice, NO_VALUE};
use crate::scan::context::ScanContext;
use crate::{Error, Result};

/// Timestamp, actor, and the breakdown value where it decides.
type StepEvent = (i64, u32, u32);

impl FunnelsQuery {
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let period = point.period(&context, self.spec.interval, &self.spec.compare_filter)?;
        let actors = self.actor_source(&context)?;
        let (progress, _) =
            self.progress(&context, &period, &actors, point, FunnelDrillDown::Actors)?;
        let counted: BTreeSet<u32> = progress.iter().map(|progress| progress.actor).collect();
        InsightActors::new(&actors, counted.into_iter().map(|actor| Actor::of((actor, 0))))
    }

    /// The events with which the counted actors completed the steps: up to the step of the data point,
    /// and for drop-offs all that they completed.
    pub(crate) fn events(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<CountedEvents> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let period = point.period(&context, self.spec.interval, &self.spec.compare_filter)?;
        let actors = self.actor_source(&context)?;
        let (progress, plan) =
            self.progress(&context, &period, &actors, point, FunnelDrillDown::Events)?;
        let last = match (self.output()?, point.funnel_step) {
            (FunnelOutput::Trend { to, .. }, _) => to + 1,
            _ if !point.funnel_custom_steps.is_empty() => usize::MAX,
            (_, Some(step)) if step < 0 => usize::MAX,
            (_, step) => usize::try_from(step.unwrap_or(1)).unwrap_or(usize::MAX),
        };
        let rules = self.rules()?;
        let every = self.attribution()? == Attribution::Every;
        let (breakdown, slice) = match plan {
            // A conversion consists of events of one value only.
            BreakdownPlan::Values(breakdown) if every => (Some(Arc::new(breakdown)), None),
            BreakdownPlan::Values(_) | BreakdownPlan::NoBreakdown => (None, None),
            BreakdownPlan::Cohorts(slices) => (None, members(slices, point)),
        };
        let mut by_step: Vec<HashSet<StepEvent>> = vec![HashSet::new(); self.spec.series.len()];
        for progress in &progress {
            let value = if breakdown.is_some() { progress.value } else { NO_VALUE };
            // With optional steps, the last one is named by its place in the funnel.
            let counts = |(at, (step, _)): &(usize, &(usize, i64))| match rules.order {
                Order::Unordered => *at < last,
                Order::Ordered | Order::Strict => *step < last,
            };
            for (_, (step, time)) in progress.steps.iter().enumerate().filter(counts) {
                by_step[*step].insert((*time, progress.actor, value));
            }
        }
        let actors = Arc::new(actors);
        let mut parts = Vec::new();
        for (selection, counted) in self.selections(&context)?.into_iter().zip(by_step) {
            if counted.is_empty() {
                continue;
            }
            let mut memory = limits.reserve();
            memory.resize(counted.allocation_size())?;
            let (actors, breakdown) = (Some(actors.clone()), breakdown.clone());
            let columns = RowColumns { actors, breakdown, ..RowColumns::default() };
            let test = RowTest::of_rows(view, columns, move |rows, row| {
                counted.contains(&(rows.times[row], rows.actor(row), rows.value(row)))
            });
            let selection = selection.and(slice.clone());
            let range = (period.from, period.to);
            parts.push(CountedEvents::of(&selection, range, Some(test.charged(memory))));
        }
        Ok(CountedEvents::any(parts))
    }

    /// The progress of the actors that the data point counts, and how the result is broken down.
    fn progress(
        &self,
        context: &ScanContext<'_>,
        period: &Period,
        actors: &ActorSource,
        point: &DataPoint,
        drill_down: FunnelDrillDown,
    ) -> Result<(Vec<ActorProgress>, BreakdownPlan)> {
        let (rules, output) = (self.rules()?, self.output()?);
        let start = &point.funnel_trends_entrance_period_start;
        let bucket = point.bucket(context, start, &period.buckets)?;
        let dropped = point.funnel_trends_drop_off.unwrap_or(false);
        let counted_steps = CountedSteps::new(point, &rules)?;
        let fits = |progress: &ActorProgress| match output {
            FunnelOutput::Trend { to, .. } => {
                bucket.is_none_or(|bucket| bucket == progress.bucket)
                    && dropped != (progress.level > to)
            }
            _ => counted_steps.include(progress),
        };
        let (counted, plan) = self.count(context, period, &rules, actors, drill_down)?;
        let segments = counted.segments.into_iter();
        let segments = segments.filter(|(segment, _)| point.is_value(&shape::names(segment).1));
        let progress = segments.flat_map(|(_, counts)| counts.actors).filter(fits);
        Ok((progress.collect(), plan))
    }
}

/// The members of the cohorts that the data point names: only their events count. None for everybody.
fn members(slices: Vec<CohortSlice>, point: &DataPoint) -> Option<Predicate> {
    let named = |slice: &CohortSlice| {
        let id = slice.id.map(|id| id.0);
        point.is_value(&BreakdownSegment::Cohort(id, String::new()).json())
    };
    let named: Option<Vec<Predicate>> =
        slices.into_iter().filter(named).map(|slice| slice.predicate).collect();
    named.map(Predicate::Any)
}

/// The actors that a data point includes, by the steps that they completed.
enum CountedSteps {
    Levels(Vec<usize>),
    Completed(usize),
    /// Those who completed the first of the steps, but not the second.
    DroppedOff(usize, usize),
}

impl CountedSteps {
    fn new(point: &DataPoint, rules: &Rules) -> Result<Self> {
        let levels = steps(point, rules.steps)?;
        if !point.funnel_custom_steps.is_empty() {
            return Ok(Self::Levels(levels));
        }
        let step = levels.first().copied().unwrap_or_default();
        Ok(match point.funnel_step {
            Some(dropped) if dropped < 0 => Self::DroppedOff(rules.required_before(step), step),
            _ => Self::Completed(step - 1),
        })
    }

    fn include(&self, progress: &ActorProgress) -> bool {
        match self {
            Self::Levels(levels) => levels.contains(&progress.level),
            Self::Completed(step) => progress.has(*step),
            Self::DroppedOff(before, step) => progress.has(*before) && !progress.has(*step),
        }
    }
}

/// The numbers of completed steps that the data point includes: `2` means at least two, `-2` means
/// exactly one (dropped off before the second).
pub(super) fn steps(point: &DataPoint, last: usize) -> Result<Vec<usize>> {
    if !point.funnel_custom_steps.is_empty() {
        return Ok(point.funnel_custom_steps.clone());
    }
    let step = point.funnel_step.unwrap_or(1);
    match usize::try_from(step.unsigned_abs()) {
        Ok(step_no) if step > 0 && step_no <= last => Ok((step_no..=last).collect()),
        Ok(step_no) if step < -1 && step_no <= last => Ok(vec![step_no - 1]),
        _ => Err(Error::Invalid(format!(
            "funnelStep is between 1 and {last}, or for drop-offs between -{last} and -2."
        ))),
    }
}
