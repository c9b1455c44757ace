//! Funnels: conversion from step to step, time to convert, and conversion over time.

mod actors;
mod count;
mod lower;
mod shape;
mod step_matcher;

pub(crate) use lower::correlation::{CorrelationQuery, CorrelationSpec};

use facts::ReadView;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;
use warehouse::Predicate;

use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::date_range::{DateResolver, Period};
use crate::query::spec::{
    self, Base, BreakdownFilter, CompareFilter, Node, NodeKind, Overrides, is_empty,
};
use crate::result::InsightResult;
use crate::scan::ActorSource;
use crate::scan::breakdown::{BreakdownPlan, CohortSlice};
use crate::scan::context::{EventSelection, ScanContext, action_id, node_id};
use crate::scan::expression;
use crate::{Error, Interval, Result};
use count::{Attribution, Counter, FunnelDrillDown, FunnelOutput};
use step_matcher::{Exclusion, Order, Rules, STEPS_MAX};

const EXCLUSIONS_MAX: usize = 20;
/// Default conversion window, in units of `funnelWindowIntervalUnit`.
const WINDOW: i64 = 14;
const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
const BINS_MAX: i64 = 90;
const DIMENSIONS_MAX: usize = 1;

#[derive(Clone, Debug)]
pub struct FunnelsQuery {
    pub base: Base,
    spec: FunnelsSpec,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FunnelsSpec {
    series: Vec<Node>,
    #[serde(default)]
    interval: Interval,
    #[serde(default)]
    funnels_filter: FunnelsFilter,
    #[serde(default)]
    breakdown_filter: BreakdownFilter,
    #[serde(default)]
    compare_filter: CompareFilter,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = |schema: &mut schemars::Schema| crate::schema::with_display_options(schema, "funnelsFilter"))]
struct FunnelsFilter {
    funnel_viz_type: Viz,
    funnel_order_type: OrderType,
    funnel_window_interval: Option<i64>,
    funnel_window_interval_unit: WindowUnit,
    exclusions: Vec<Node>,
    breakdown_attribution_type: AttributionType,
    breakdown_attribution_value: Option<usize>,
    funnel_from_step: Option<i64>,
    funnel_to_step: Option<i64>,
    bin_count: Option<BinCount>,
    #[serde(rename = "funnelAggregateByHogQL")]
    funnel_aggregate_by_hogql: Option<String>,
    /// Of conversion over time, leaves out the intervals whose conversion window has not passed yet.
    hide_incomplete_conversion_window_periods: bool,
}

/// A number, or `auto`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum BinCount {
    Number(i64),
    #[allow(dead_code, reason = "any string means an automatic number of bins")]
    Text(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FunnelVizType")]
enum Viz {
    #[default]
    Steps,
    TimeToConvert,
    Trends,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FunnelOrderType")]
enum OrderType {
    #[default]
    Ordered,
    Unordered,
    Strict,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FunnelWindowUnit")]
enum WindowUnit {
    Second,
    Minute,
    Hour,
    #[default]
    Day,
    Week,
    Month,
}

impl WindowUnit {
    /// A month is 30 days, so that the window has the same length for all actors.
    fn micros(self) -> i64 {
        match self {
            Self::Second => SECOND,
            Self::Minute => 60 * SECOND,
            Self::Hour => 3_600 * SECOND,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "BreakdownAttributionType")]
enum AttributionType {
    #[default]
    FirstTouch,
    LastTouch,
    AllEvents,
    Step,
}

impl FunnelsQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, spec) = spec::read::<FunnelsSpec>(json)?;
        Ok(Self { base, spec })
    }

    pub(crate) fn apply(&mut self, overrides: &Overrides) {
        self.base.apply(overrides);
        if let Some(breakdown) = &overrides.breakdown_filter {
            self.spec.breakdown_filter = breakdown.clone();
        }
        self.spec.interval = overrides.interval.unwrap_or(self.spec.interval);
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        self.spec.series.iter().chain(&self.spec.funnels_filter.exclusions).collect()
    }

    pub(crate) fn breakdown(&self) -> Option<&BreakdownFilter> {
        Some(&self.spec.breakdown_filter)
    }

    pub(crate) fn uses_hogql(&self) -> bool {
        self.spec.funnels_filter.funnel_aggregate_by_hogql.is_some()
    }

    fn rules(&self) -> Result<Rules> {
        let FunnelsSpec { series, funnels_filter: filter, .. } = &self.spec;
        let steps = series.len();
        if steps < 2 {
            let detail = "Funnels require at least two steps before calculating.";
            return Err(Error::invalid(detail));
        }
        if steps > STEPS_MAX {
            return Err(Error::Invalid(format!("A funnel has at most {STEPS_MAX} steps.")));
        }
        let optional = self.optional()?;
        let window = filter.funnel_window_interval.unwrap_or(WINDOW);
        if window <= 0 {
            return Err(Error::invalid("The conversion window must be longer than nothing."));
        }
        if filter.exclusions.len() > EXCLUSIONS_MAX {
            let detail = format!("A funnel has at most {EXCLUSIONS_MAX} exclusions.");
            return Err(Error::Invalid(detail));
        }
        let may_overlap = |a: &Node, b: &Node| match (a.kind, b.kind, &a.event, &b.event) {
            (NodeKind::Events, NodeKind::Events, Some(a), Some(b)) => a == b,
            _ => true,
        };
        let overlaps = |at: usize| {
            let others = (0..steps).filter(|other| *other != at);
            let others = others.filter(|other| may_overlap(&series[at], &series[*other]));
            others.fold(0u32, |all, other| all | 1 << other)
        };
        Ok(Rules {
            steps,
            order: match filter.funnel_order_type {
                OrderType::Ordered => Order::Ordered,
                OrderType::Unordered => Order::Unordered,
                OrderType::Strict => Order::Strict,
            },
            window: window.saturating_mul(filter.funnel_window_interval_unit.micros()),
            overlaps: (0..steps).map(overlaps).collect(),
            optional,
            exclusions: self.exclusions()?,
        })
    }

    /// Bit set of the optional steps.
    fn optional(&self) -> Result<u32> {
        let FunnelsSpec { series, funnels_filter: filter, .. } = &self.spec;
        let optional = series.iter().enumerate().filter(|(_, node)| node.optional_in_funnel);
        let optional = optional.fold(0u32, |all, (at, _)| all | 1 << at);
        if optional == 0 {
            return Ok(0);
        }
        if filter.funnel_viz_type != Viz::Steps || filter.funnel_order_type == OrderType::Unordered
        {
            let detail = "Optional steps need funnelVizType steps, and funnelOrderType ordered or \
                          strict.";
            return Err(Error::invalid(detail));
        }
        if optional & 1 != 0 {
            return Err(Error::invalid("The first step of a funnel cannot be optional."));
        }
        // The required step would take every event that the optional one selects.
        let is_taken = |pair: &[Node]| {
            pair[0].optional_in_funnel
                && !pair[1].optional_in_funnel
                && pair[0].kind == pair[1].kind
                && node_id(&pair[0]) == node_id(&pair[1])
                && (pair[0].properties == pair[1].properties || is_empty(&pair[1].properties))
        };
        if series.windows(2).any(is_taken) {
            let detail = "An optional step cannot be the same as the following required step.";
            return Err(Error::invalid(detail));
        }
        Ok(optional)
    }

    /// The period of the query, and the one that it is compared with.
    fn periods(&self, dates: &DateResolver) -> Result<Vec<Period>> {
        let range = &self.base.date_range;
        let period = dates.period(range, self.spec.interval)?;
        let previous = dates.previous(&period, range, &self.spec.compare_filter)?;
        Ok([Some(period), previous].into_iter().flatten().collect())
    }

    fn exclusions(&self) -> Result<Vec<Exclusion>> {
        let FunnelsSpec { series, funnels_filter: filter, .. } = &self.spec;
        let last = series.len() as i64 - 1;
        let read = |node: &Node| {
            let from = node.funnel_from_step.unwrap_or(0);
            let to = node.funnel_to_step.unwrap_or(last);
            if from < 0 || from >= to || to > last {
                let detail = "Exclusion event range is invalid. End of range should be greater \
                              than start, and within the steps of the funnel.";
                return Err(Error::invalid(detail));
            }
            let is_it = |step: &Node| step.kind == node.kind && node_id(step) == node_id(node);
            if series[from as usize..=to as usize].iter().any(is_it) {
                let detail = "Exclusion event cannot be the same as funnel step.";
                return Err(Error::invalid(detail));
            }
            Ok(Exclusion { from: from as usize, to: to as usize })
        };
        filter.exclusions.iter().map(read).collect()
    }

    /// `funnelFromStep` and `funnelToStep`, counted from 0.
    fn step_range(&self) -> Result<(usize, usize)> {
        let filter = &self.spec.funnels_filter;
        let last = self.spec.series.len() as i64 - 1;
        let from = filter.funnel_from_step.unwrap_or(0);
        let to = filter.funnel_to_step.unwrap_or(last);
        if to < 1 || to > last {
            let detail = format!("funnelToStep is between 1 and {last}.");
            return Err(Error::Invalid(detail));
        }
        if from < 0 || from >= to {
            return Err(Error::invalid("funnelFromStep is before funnelToStep."));
        }
        Ok((from as usize, to as usize))
    }

    fn attribution(&self) -> Result<Attribution> {
        let filter = &self.spec.funnels_filter;
        Ok(match filter.breakdown_attribution_type {
            AttributionType::FirstTouch => Attribution::First,
            AttributionType::LastTouch => Attribution::Last,
            AttributionType::AllEvents => Attribution::Every,
            AttributionType::Step => {
                let step = filter.breakdown_attribution_value.unwrap_or(0);
                if step >= self.spec.series.len() {
                    return Err(Error::invalid("The funnel has no step to attribute to."));
                }
                Attribution::Step(step)
            }
        })
    }

    /// The events of each step and exclusion. A deleted action is an error: a funnel cannot skip it.
    fn selections(&self, context: &ScanContext<'_>) -> Result<Vec<EventSelection>> {
        let selection = |node: &&Node| {
            context.selection(node)?.ok_or_else(|| match action_id(node) {
                Ok(id) => Error::Invalid(format!("There is no action {}.", id.0)),
                Err(error) => error,
            })
        };
        self.nodes().iter().map(selection).collect()
    }

    fn output(&self) -> Result<FunnelOutput> {
        Ok(match self.spec.funnels_filter.funnel_viz_type {
            Viz::Steps => FunnelOutput::Steps,
            Viz::TimeToConvert => {
                let (from, to) = self.step_range()?;
                FunnelOutput::Times { from, to }
            }
            Viz::Trends => {
                let (from, to) = self.step_range()?;
                FunnelOutput::Trend { from, to }
            }
        })
    }

    fn actor_source(&self, context: &ScanContext<'_>) -> Result<ActorSource> {
        match self.spec.funnels_filter.funnel_aggregate_by_hogql.as_deref() {
            Some(text) if !text.is_empty() => expression::actors(context, text),
            _ => Ok(ActorSource::of(self.base.aggregation_group_type_index)),
        }
    }

    /// Counts actors; also returns how the result is broken down.
    fn count(
        &self,
        context: &ScanContext<'_>,
        period: &Period,
        rules: &Rules,
        actors: &ActorSource,
        drill_down: FunnelDrillDown,
    ) -> Result<(count::FunnelResult, BreakdownPlan)> {
        let mut counter = Counter {
            context,
            period,
            rules,
            selections: self.selections(context)?,
            actors,
            attribution: self.attribution()?,
            output: self.output()?,
            breakdown: None,
            slice: None,
            drill_down,
        };
        let around = (period.from, period.to);
        let plan = match self.spec.funnels_filter.funnel_viz_type {
            Viz::TimeToConvert => BreakdownPlan::NoBreakdown,
            _ => BreakdownPlan::new(&self.spec.breakdown_filter, context, DIMENSIONS_MAX, around)?,
        };
        let result = match &plan {
            BreakdownPlan::NoBreakdown => counter.whole()?,
            BreakdownPlan::Values(breakdown) => {
                counter.breakdown = Some(breakdown);
                counter.values(breakdown)?
            }
            BreakdownPlan::Cohorts(slices) => self.cohorts(&mut counter, slices)?,
        };
        Ok((result, plan))
    }

    pub(crate) fn run(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let (rules, output) = (self.rules()?, self.output()?);
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let periods = self.periods(&context.scope.dates)?;
        let actors = self.actor_source(&context)?;
        let mut counted = Vec::new();
        for period in &periods {
            counted.push(self.count(&context, period, &rules, &actors, FunnelDrillDown::No)?);
        }
        let is_whole = matches!(counted[0].1, BreakdownPlan::NoBreakdown);
        let counts: Vec<&count::FunnelResult> = counted.iter().map(|(counts, _)| counts).collect();
        let has_more = counts.iter().any(|counts| counts.has_more);
        let shape =
            shape::Shape { scope: &context.scope, series: &self.spec.series, rules: &rules };
        let hidden_after = self.hidden_after(&context.scope.dates);
        let results = match output {
            FunnelOutput::Times { .. } => shape.times(&counts, self.bins()),
            FunnelOutput::Trend { .. } => {
                let each = counts.iter().zip(&periods);
                let each = each.map(|(counts, period)| shape.trends(counts, period, hidden_after));
                shape::compared(each.collect::<Result<_>>()?)
            }
            FunnelOutput::Steps => {
                let segments = counts.iter().map(|counts| counts.summaries(rules.steps));
                shape.segments(segments.collect(), is_whole)
            }
        };
        let Period { from, to, .. } = periods[0];
        let interval = self.spec.interval;
        let mut result =
            InsightResult::new(results, &context.scope.dates.calendar, from, to, interval)?;
        result.has_more = has_more.then_some(true);
        Ok(result)
    }

    /// Conversion over time shows only intervals that end by this time: of later ones the conversion
    /// window has not passed. None to show all.
    fn hidden_after(&self, dates: &DateResolver) -> Option<i64> {
        let filter = &self.spec.funnels_filter;
        let window = filter.funnel_window_interval.unwrap_or(WINDOW);
        let window = window.saturating_mul(filter.funnel_window_interval_unit.micros());
        let is_on = filter.hide_incomplete_conversion_window_periods;
        is_on.then(|| dates.now.as_micros().saturating_sub(window))
    }

    fn bins(&self) -> Option<usize> {
        match self.spec.funnels_filter.bin_count {
            Some(BinCount::Number(count)) => Some(count.clamp(1, BINS_MAX) as usize),
            _ => None,
        }
    }

    fn cohorts(
        &self,
        counter: &mut Counter<'_>,
        slices: &[CohortSlice],
    ) -> Result<count::FunnelResult> {
        let mut all = count::FunnelResult::default();
        for slice in slices {
            counter.slice = slice.predicate.clone();
            let counted = counter.whole()?;
            let segment = count::FunnelSegment::Cohort(slice.id.map(|id| id.0), slice.name.clone());
            let entered = counted.segments.into_iter().map(|(_, counts)| (segment.clone(), counts));
            all.segments.extend(entered.filter(|(_, counts)| counts.entered() > 0));
        }
        all.segments.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.entered()));
        Ok(all)
    }
}

/// Events that are in none of the selections.
fn none_of(selections: &[EventSelection]) -> Predicate {
    Predicate::Not(Box::new(Predicate::Any(
        selections.iter().map(EventSelection::as_predicate).collect(),
    )))
}
