//! Drill-down of funnels.

use std::collections::BTreeSet;

use facts::ReadView;

use super::count::{ActorProgress, FunnelOutput};
use super::{FunnelsQuery, shape};
use crate::actors::{Actor, DataPoint, InsightActors};
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::scan::context::QueryContext;
use crate::{Error, Result};

impl FunnelsQuery {
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let (rules, output) = (self.rules()?, self.output()?);
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let period = context.dates.period(&self.base.date_range, self.spec.interval)?;
        let start = &point.funnel_trends_entrance_period_start;
        let bucket = point.bucket(&context, start, &period.buckets)?;
        let dropped = point.funnel_trends_drop_off.unwrap_or(false);
        let steps = steps(point, rules.steps)?;
        let fits = |progress: &&ActorProgress| match output {
            FunnelOutput::Trend { to, .. } => {
                bucket.is_none_or(|bucket| bucket == progress.bucket)
                    && dropped != (progress.level > to)
            }
            _ => steps.contains(&progress.level),
        };
        let actors = self.actor_source(&context)?;
        let (counted, _) = self.count(&context, &period, &rules, &actors, true)?;
        let segments = counted.segments.iter();
        let segments = segments.filter(|(segment, _)| point.is_value(&shape::names(segment).1));
        let progress = segments.flat_map(|(_, counts)| &counts.actors).filter(fits);
        let progress: BTreeSet<u32> = progress.map(|progress| progress.actor).collect();
        InsightActors::new(&actors, progress.into_iter().map(|actor| Actor::of((actor, 0))))
    }
}

/// The numbers of completed steps that the data point includes: `2` means at least two, `-2` means
/// exactly one (dropped off before the second).
fn steps(point: &DataPoint, last: usize) -> Result<Vec<usize>> {
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
