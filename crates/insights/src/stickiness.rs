//! Stickiness: in how many intervals actors are active.

mod lower;

use std::sync::Arc;

use facts::ReadView;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::actors::{Actor, DataPoint, InsightActors};
use crate::counted_events::{CountedEvents, RowColumns, RowTest};
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::calendar::BUCKETS_MAX;
use crate::query::date_range::Period;
use crate::query::spec::{self, Base, CompareFilter, Math, Node, Overrides};
use crate::result::InsightResult;
use crate::scan::activity::ActivityBitmap;
use crate::scan::context::{QueryScope, ScanContext, node_id, node_type};
use crate::scan::expression;
use crate::scan::{ActorSource, Scan};
use crate::{Error, Interval, Result};

const SERIES_MAX: usize = 26;
/// Intervals of one window; no date range has more.
const INTERVAL_COUNT_MAX: usize = BUCKETS_MAX;

#[derive(Clone, Debug)]
pub struct StickinessQuery {
    pub base: Base,
    spec: StickinessSpec,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StickinessSpec {
    series: Vec<Node>,
    #[serde(default)]
    interval: Interval,
    /// Actors count by the windows in which they are active; a window is of this many intervals.
    interval_count: Option<usize>,
    #[serde(default)]
    stickiness_filter: StickinessFilter,
    #[serde(default)]
    compare_filter: CompareFilter,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = |schema: &mut schemars::Schema| crate::schema::with_display_options(schema, "stickinessFilter"))]
struct StickinessFilter {
    stickiness_criteria: Option<Criteria>,
    computed_as: ComputedAs,
}

/// How many events an interval needs to count as active.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StickinessCriteria")]
struct Criteria {
    operator: Operator,
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "StickinessOperator")]
enum Operator {
    Gte,
    Lte,
    Exact,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "StickinessComputedAs")]
enum ComputedAs {
    #[default]
    NonCumulative,
    Cumulative,
}

impl Criteria {
    fn holds(self, count: u64) -> bool {
        match self.operator {
            Operator::Gte => count >= self.value,
            Operator::Lte => count <= self.value,
            Operator::Exact => count == self.value,
        }
    }
}

impl StickinessQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, spec) = spec::read::<StickinessSpec>(json)?;
        if spec.series.is_empty() || spec.series.len() > SERIES_MAX {
            let detail = format!("A StickinessQuery has 1 to {SERIES_MAX} series.");
            return Err(Error::Parse(detail));
        }
        for node in &spec.series {
            spec::check_group(node.math_group_type_index)?;
        }
        if spec.interval_count.is_some_and(|count| !(1..=INTERVAL_COUNT_MAX).contains(&count)) {
            let detail = format!("intervalCount is between 1 and {INTERVAL_COUNT_MAX}.");
            return Err(Error::Parse(detail));
        }
        Ok(Self { base, spec })
    }

    fn interval_count(&self) -> usize {
        self.spec.interval_count.unwrap_or(1)
    }

    /// The period with its intervals joined to windows.
    fn windows(&self, period: Period) -> Period {
        let buckets = period.buckets.merged(self.interval_count());
        Period { buckets, ..period }
    }

    pub(crate) fn apply(&mut self, dashboard: &Overrides) {
        self.base.apply(dashboard);
        self.spec.interval = dashboard.interval.unwrap_or(self.spec.interval);
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        self.spec.series.iter().collect()
    }

    pub(crate) fn run(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let interval = self.spec.interval;
        let range = &self.base.date_range;
        let period = context.scope.dates.period(range, interval)?;
        let previous = context.scope.dates.previous(&period, range, &self.spec.compare_filter)?;
        let (period, previous) =
            (self.windows(period), previous.map(|previous| self.windows(previous)));
        let mut items = Vec::new();
        let current = previous.as_ref().map(|_| "current");
        for (period, compared) in [(Some(&period), current), (previous.as_ref(), Some("previous"))]
        {
            let Some(period) = period else { continue };
            for (order, node) in self.spec.series.iter().enumerate() {
                let Some(counts) = self.count(&context, node, period)? else { continue };
                let mut item = self.item(&context.scope, node, order, &counts);
                if let Some(compared) = compared {
                    item["compare"] = json!(true);
                    item["compare_label"] = json!(compared);
                }
                items.push(item);
            }
        }
        let results = Json::Array(items);
        InsightResult::new(results, &context.scope.dates.calendar, period.from, period.to, interval)
    }

    fn actor_source(&self, context: &ScanContext<'_>, node: &Node) -> Result<ActorSource> {
        Ok(match node.math {
            Math::UniqueGroup => ActorSource::groups(node.math_group_type_index.unwrap_or(0)),
            Math::Hogql => {
                expression::actors(context, node.math_hogql.as_deref().unwrap_or_default())?
            }
            _ => ActorSource::of(self.base.aggregation_group_type_index),
        })
    }

    /// Number of actors active in exactly one bucket, in two, and so on; none if the series is a
    /// deleted action.
    fn count(
        &self,
        context: &ScanContext<'_>,
        node: &Node,
        period: &Period,
    ) -> Result<Option<Vec<u64>>> {
        let actors = self.actor_source(context, node)?;
        let Some(activity) = self.activity(context, node, period, &actors)? else {
            return Ok(None);
        };
        let mut counts = vec![0u64; period.buckets.len()];
        activity.for_each(|_, active| counts[active.len() - 1] += 1);
        Ok(Some(counts))
    }

    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let node = point.node(&self.spec.series)?;
        let period = point.period(&context, self.spec.interval, &self.spec.compare_filter)?;
        let period = self.windows(period);
        let actors = self.actor_source(&context, node)?;
        let Some(activity) = self.activity(&context, node, &period, &actors)? else {
            return Ok(InsightActors::default());
        };
        let fits = self.fits(point)?;
        let mut series_results = Vec::new();
        activity.for_each(|actor, active| {
            if fits(active.len()) {
                series_results.push(Actor::of((actor, active.len() as u64)));
            }
        });
        InsightActors::new(&actors, series_results)
    }

    /// The events of the counted actors in their active buckets.
    pub(crate) fn events(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<CountedEvents> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let node = point.node(&self.spec.series)?;
        let period = point.period(&context, self.spec.interval, &self.spec.compare_filter)?;
        let period = self.windows(period);
        let actors = self.actor_source(&context, node)?;
        let (Some(selection), Some(activity)) =
            (context.selection(node)?, self.activity(&context, node, &period, &actors)?)
        else {
            return Ok(CountedEvents::none());
        };
        let fits = self.fits(point)?;
        let Period { from, to, buckets } = period;
        let mut counted = ActivityBitmap::new(buckets.len());
        activity.for_each(|actor, active| {
            if fits(active.len()) {
                active.iter().for_each(|bucket| counted.set(actor, *bucket));
            }
        });
        let mut memory = limits.reserve();
        memory.resize(counted.bytes())?;
        let columns = RowColumns { actors: Some(Arc::new(actors)), ..RowColumns::default() };
        let test = RowTest::of_rows(view, columns, move |rows, row| {
            let bucket = buckets.of(rows.times[row]);
            bucket.is_some_and(|bucket| counted.has(rows.actor(row), bucket))
        });
        Ok(CountedEvents::of(&selection, (from, to), Some(test.charged(memory))))
    }

    /// Whether the data point includes actors by their number of active buckets.
    fn fits(&self, point: &DataPoint) -> Result<impl Fn(usize) -> bool + use<>> {
        let cumulative = self.spec.stickiness_filter.computed_as == ComputedAs::Cumulative;
        let intervals = point.intervals()?;
        Ok(move |active: usize| match intervals {
            None => true,
            Some(intervals) if cumulative => active >= intervals,
            Some(intervals) => active == intervals,
        })
    }

    /// Active buckets per actor; none if the series is a deleted action.
    fn activity(
        &self,
        context: &ScanContext<'_>,
        node: &Node,
        period: &Period,
        actors: &ActorSource,
    ) -> Result<Option<ActivityBitmap>> {
        let Some(selection) = context.selection(node)? else { return Ok(None) };
        let scan = context.scan(selection.filter(period.from, period.to));
        let scan = Scan { actors: Some(actors), ..scan };
        match self.spec.stickiness_filter.stickiness_criteria {
            None | Some(Criteria { operator: Operator::Gte, value: 0 | 1 }) => {
                ActivityBitmap::scan(&scan, &period.buckets)
            }
            Some(criteria) => ActivityBitmap::scan_with_count(&scan, &period.buckets, |count| {
                criteria.holds(count)
            }),
        }
        .map(Some)
    }

    fn item(&self, scope: &QueryScope<'_>, node: &Node, order: usize, counts: &[u64]) -> Json {
        let cumulative = self.spec.stickiness_filter.computed_as == ComputedAs::Cumulative;
        let mut data = counts.to_vec();
        if cumulative {
            (1..data.len()).rev().for_each(|at| data[at - 1] += data[at]);
        }
        let unit = self.spec.interval.as_str();
        let label = |count: usize| {
            let plural = if count == 1 { "" } else { "s" };
            let more = if cumulative { " or more" } else { "" };
            format!("{count} {unit}{plural}{more}")
        };
        let labels: Vec<String> = (1..=data.len()).map(label).collect();
        let name = scope.name(node);
        json!({
            "count": counts.iter().sum::<u64>(),
            "data": data,
            "days": (1..=counts.len()).collect::<Vec<_>>(),
            "labels": labels,
            "label": name,
            "action": {
                "order": order, "type": node_type(node), "name": name, "id": node_id(node),
                "custom_name": node.custom_name,
            },
        })
    }
}
