//! Who is behind a step of a funnel.

use std::collections::BTreeSet;

use facts::ReadView;

use super::count::{Came, Wanted};
use super::{FunnelsQuery, shape};
use crate::actors::{Actor, DataPoint, InsightActors};
use crate::context::QueryContext;
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::{Error, Result};

impl FunnelsQuery {
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let (rules, wanted) = (self.rules()?, self.wanted()?);
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let period = context.dates.period(&self.base.date_range, self.own.interval)?;
        let start = &point.funnel_trends_entrance_period_start;
        let bucket = point.bucket(&context, start, &period.buckets)?;
        let dropped = point.funnel_trends_drop_off.unwrap_or(false);
        let steps = steps(point, rules.steps)?;
        let fits = |came: &&Came| match wanted {
            Wanted::Trend { to, .. } => {
                bucket.is_none_or(|bucket| bucket == came.bucket) && dropped != (came.level > to)
            }
            _ => steps.contains(&came.level),
        };
        let actors = self.actor_source(&context)?;
        let (found, _) = self.found(&context, &period, &rules, &actors, true)?;
        let shares = found.shares.iter();
        let shares = shares.filter(|(share, _)| point.is_value(&shape::names(share).1));
        let came = shares.flat_map(|(_, tally)| &tally.who).filter(fits);
        let came: BTreeSet<u32> = came.map(|came| came.actor).collect();
        InsightActors::new(&actors, came.into_iter().map(|actor| Actor::of((actor, 0))))
    }
}

/// How far actors came who are meant: `2` at least two steps, `-2` one and not the second.
fn steps(point: &DataPoint, last: usize) -> Result<Vec<usize>> {
    if !point.funnel_custom_steps.is_empty() {
        return Ok(point.funnel_custom_steps.clone());
    }
    let step = point.funnel_step.unwrap_or(1);
    match usize::try_from(step.unsigned_abs()) {
        Ok(step_no) if step > 0 && step_no <= last => Ok((step_no..=last).collect()),
        Ok(step_no) if step < -1 && step_no <= last => Ok(vec![step_no - 1]),
        _ => Err(Error::Invalid(format!(
            "funnelStep is between 1 and {last}, or of who dropped off between -{last} and -2."
        ))),
    }
}
