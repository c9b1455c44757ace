//! Stickiness: in how many intervals people come back.

use facts::ReadView;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::actors::{Actor, DataPoint, InsightActors};
use crate::context::{QueryContext, node_id, node_type};
use crate::expression;
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::masks::Masks;
use crate::range::Period;
use crate::result::InsightResult;
use crate::scan::{Actors, Scan};
use crate::spec::{self, Base, CompareFilter, Math, Node, Overrides};
use crate::{Error, Interval, Result};

const SERIES_MAX: usize = 26;

#[derive(Clone, Debug)]
pub struct StickinessQuery {
    pub base: Base,
    own: Own,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    series: Vec<Node>,
    #[serde(default)]
    interval: Interval,
    #[serde(default)]
    stickiness_filter: StickinessFilter,
    #[serde(default)]
    compare_filter: CompareFilter,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct StickinessFilter {
    stickiness_criteria: Option<Criteria>,
    computed_as: ComputedAs,
}

/// How many events an interval must have to count.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Criteria {
    operator: Operator,
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operator {
    Gte,
    Lte,
    Exact,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
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
        let (base, own) = spec::read::<Own>(json)?;
        if own.series.is_empty() || own.series.len() > SERIES_MAX {
            let detail = format!("A StickinessQuery has 1 to {SERIES_MAX} series.");
            return Err(Error::Parse(detail));
        }
        for node in &own.series {
            spec::check_group(node.math_group_type_index)?;
        }
        Ok(Self { base, own })
    }

    pub(crate) fn apply(&mut self, dashboard: &Overrides) {
        self.base.apply(dashboard);
        self.own.interval = dashboard.interval.unwrap_or(self.own.interval);
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        self.own.series.iter().collect()
    }

    pub(crate) fn run(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let interval = self.own.interval;
        let range = &self.base.date_range;
        let period = context.dates.period(range, interval)?;
        let previous = context.dates.previous(&period, range, &self.own.compare_filter)?;
        let mut items = Vec::new();
        let current = previous.as_ref().map(|_| "current");
        for (period, compared) in [(Some(&period), current), (previous.as_ref(), Some("previous"))]
        {
            let Some(period) = period else { continue };
            for (order, node) in self.own.series.iter().enumerate() {
                let Some(counts) = self.count(&context, node, period)? else { continue };
                let mut item = self.item(&context, node, order, &counts);
                if let Some(compared) = compared {
                    item["compare"] = json!(true);
                    item["compare_label"] = json!(compared);
                }
                items.push(item);
            }
        }
        let results = Json::Array(items);
        InsightResult::new(results, &context.dates.calendar, period.from, period.to, interval)
    }

    fn actor_source(&self, context: &QueryContext<'_>, node: &Node) -> Result<Actors> {
        Ok(match node.math {
            Math::UniqueGroup => Actors::groups(node.math_group_type_index.unwrap_or(0)),
            Math::Hogql => {
                expression::actors(context, node.math_hogql.as_deref().unwrap_or_default())?
            }
            _ => Actors::of(self.base.aggregation_group_type_index),
        })
    }

    /// How many actors were there in exactly one bucket, in two, and so on.
    fn count(
        &self,
        context: &QueryContext<'_>,
        node: &Node,
        period: &Period,
    ) -> Result<Option<Vec<u64>>> {
        let actors = self.actor_source(context, node)?;
        let Some(masks) = self.masks(context, node, period, &actors)? else { return Ok(None) };
        let mut counts = vec![0u64; period.buckets.len()];
        masks.for_each(|_, there| counts[there.len() - 1] += 1);
        Ok(Some(counts))
    }

    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let node = point.node(&self.own.series)?;
        let period = point.period(&context, self.own.interval, &self.own.compare_filter)?;
        let cumulative = self.own.stickiness_filter.computed_as == ComputedAs::Cumulative;
        let wanted = point.intervals()?;
        let actors = self.actor_source(&context, node)?;
        let Some(masks) = self.masks(&context, node, &period, &actors)? else {
            return Ok(InsightActors::default());
        };
        let mut found = Vec::new();
        masks.for_each(|actor, there| {
            let fits = match wanted {
                None => true,
                Some(wanted) if cumulative => there.len() >= wanted,
                Some(wanted) => there.len() == wanted,
            };
            if fits {
                found.push(Actor::of((actor, there.len() as u64)));
            }
        });
        InsightActors::new(&actors, found)
    }

    /// Who was there when; none when the series means an action that is gone.
    fn masks(
        &self,
        context: &QueryContext<'_>,
        node: &Node,
        period: &Period,
        actors: &Actors,
    ) -> Result<Option<Masks>> {
        let Some(selection) = context.selection(node)? else { return Ok(None) };
        let scan = context.scan(selection.filter(period.from, period.to));
        let scan = Scan { actors: Some(actors), ..scan };
        match self.own.stickiness_filter.stickiness_criteria {
            None | Some(Criteria { operator: Operator::Gte, value: 0 | 1 }) => {
                Masks::of(&scan, &period.buckets)
            }
            Some(criteria) => Masks::counted(&scan, &period.buckets, |count| criteria.holds(count)),
        }
        .map(Some)
    }

    fn item(&self, context: &QueryContext<'_>, node: &Node, order: usize, counts: &[u64]) -> Json {
        let cumulative = self.own.stickiness_filter.computed_as == ComputedAs::Cumulative;
        let mut data = counts.to_vec();
        if cumulative {
            (1..data.len()).rev().for_each(|at| data[at - 1] += data[at]);
        }
        let unit = self.own.interval.as_str();
        let label = |count: usize| {
            let plural = if count == 1 { "" } else { "s" };
            let more = if cumulative { " or more" } else { "" };
            format!("{count} {unit}{plural}{more}")
        };
        let labels: Vec<String> = (1..=data.len()).map(label).collect();
        let name = context.name(node);
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
