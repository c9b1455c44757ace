//! `FunnelCorrelationQuery`: events and properties that go with converting or with dropping off. A
//! statement counts, of the actors who entered the funnel, those with an event or property; the odds
//! ratios follow from the counts.

use std::collections::BTreeSet;

use facts::{Needs, QueryContext};
use hogql::ast::{Expr, ExprKind, Query};
use hogql::build::{boolean, call, expr, field, int, literal, not};
use hogql::filter::Value;
use model::ActionId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{BreakdownBy, FunnelOutput, Plan};
use crate::actors::DataPoint;
use crate::funnels::FunnelsQuery;
use crate::funnels::actors::steps;
use crate::lower::rows::Row;
use crate::lower::selection::{Actor, both, within};
use crate::lower::{Statement, unsupported};
use crate::query::spec::{NodeKind, Overrides, without_always};
use crate::scan::context::action_id;
use crate::statement_query::StatementResult;
use crate::{Error, Insight, Result};

/// Counted events or properties, those of the most actors.
const COUNTED_MAX: u64 = 10_000;
/// Items of each correlation type.
const ITEMS_MAX: usize = 10;
/// As in PostHog: something that fewer actors have, in number and share, says nothing.
const ACTORS_MIN: f64 = 25.0;
const SHARE_MIN: f64 = 0.02;
/// Added to each count, so that no ratio divides by zero.
const PRIOR: f64 = 1.0;
/// One side of the funnel with more actors than this many times the other is skewed.
const SKEW: f64 = 10.0;
/// The name for all properties.
const ALL: &str = "$all";

#[derive(Clone, Debug)]
pub struct CorrelationQuery {
    funnel: FunnelsQuery,
    point: DataPoint,
    spec: CorrelationSpec,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "FunnelCorrelationFields")]
pub(crate) struct CorrelationSpec {
    funnel_correlation_type: CorrelationType,
    /// Events that are not counted.
    #[serde(default)]
    funnel_correlation_exclude_event_names: Vec<String>,
    /// The events whose properties are counted.
    #[serde(default)]
    funnel_correlation_event_names: Vec<String>,
    #[serde(default)]
    funnel_correlation_event_exclude_property_names: Vec<String>,
    /// The properties of actors that are counted, `$all` for all.
    #[serde(default)]
    funnel_correlation_names: Vec<String>,
    #[serde(default)]
    funnel_correlation_exclude_names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "FunnelCorrelationType")]
enum CorrelationType {
    Events,
    Properties,
    EventWithProperties,
}

/// How many actors with an event or property converted, and how many dropped off.
struct Counted {
    name: String,
    success: f64,
    failure: f64,
}

impl CorrelationQuery {
    pub fn parse(json: &Json) -> Result<Self> {
        let mut query = without_always(json)?;
        let source = query.remove("source").unwrap_or_default();
        let spec = model::deserialize_strict(&Json::Object(query));
        let spec: CorrelationSpec = spec.map_err(|why| Error::Parse(why.dotted_message()))?;
        if source.get("kind").and_then(Json::as_str) != Some("FunnelsActorsQuery") {
            return Err(Error::Parse("The source is a FunnelsActorsQuery.".into()));
        }
        let mut point = without_always(&source)?;
        let inner = point.remove("source").unwrap_or_default();
        if inner.get("kind").and_then(Json::as_str) != Some("FunnelsQuery") {
            return Err(Error::Parse(
                "The source of a FunnelsActorsQuery is a FunnelsQuery.".into(),
            ));
        }
        let funnel = FunnelsQuery::parse(&inner)?;
        Ok(Self { funnel, point: DataPoint::read(Json::Object(point))?, spec })
    }

    pub(crate) fn apply_filters(&mut self, dashboard: &Overrides) {
        self.funnel.apply(dashboard);
    }

    pub(crate) fn actions(&self) -> Vec<ActionId> {
        self.insight().actions().into_iter().map(ActionId).collect()
    }

    pub(crate) fn needs(&self) -> Needs {
        Needs { groups: true, ..self.insight().needs() }
    }

    fn insight(&self) -> Insight {
        Insight::Funnels(self.funnel.clone())
    }

    pub(crate) fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        let mut plan = self.funnel.lowering(context)?;
        (plan.by, plan.output) = (BreakdownBy::Nothing, FunnelOutput::Steps);
        let mut statement = Statement::default();
        plan.conversions(&mut statement, &plan.whole())?;
        let last = plan.rules.steps;
        let levels: Vec<String> =
            steps(&self.point, last)?.iter().map(ToString::to_string).collect();
        let text = format!(
            "SELECT actor, p[1] AS started, if(length(p) = {last}, p[{last}], p[1] + {window}) AS ended, \
             length(p) = {last} AS converted FROM conversions WHERE length(p) IN ({levels})",
            window = plan.rules.window,
            levels = levels.join(", ")
        );
        statement.cte("entered", &text, &[])?;
        match self.spec.funnel_correlation_type {
            CorrelationType::Events => self.count_events(&plan, &mut statement)?,
            CorrelationType::EventWithProperties => {
                self.count_event_properties(&plan, &mut statement)?;
            }
            CorrelationType::Properties => self.count_properties(&mut statement)?,
        }
        statement.finish(
            "SELECT total, name, success, failure FROM (\
             SELECT 1 AS total, '' AS name, countIf(converted) AS success, \
             countIf(NOT converted) AS failure FROM entered \
             UNION ALL SELECT 0 AS total, name, success, failure FROM found) \
             ORDER BY total DESC, success + failure DESC, name LIMIT {rows}",
            &[("rows", int(COUNTED_MAX + 1))],
        )
    }

    /// Adds `nearby`: the events of all actors that may count.
    fn nearby(
        &self,
        plan: &Plan<'_>,
        statement: &mut Statement,
        condition: Expr,
        column: &str,
    ) -> Result<()> {
        let actor = match self.funnel.spec.funnels_filter.funnel_aggregate_by_hogql.as_deref() {
            Some(text) if !text.is_empty() => Actor::of_expression(text)?,
            _ => Actor::of(self.funnel.base.aggregation_group_type_index),
        };
        let time = within(Some(plan.period.from), plan.period.to);
        let filter = both([Some(time), Some(condition), actor.exists()]);
        let text = format!(
            "SELECT {{actor}} AS actor, event, toUnixTimestamp64Micro(timestamp) AS t{column} \
             FROM events WHERE {{filter}}"
        );
        statement.cte("nearby", &text, &[("actor", actor.expr), ("filter", filter)])
    }

    fn count_events(&self, plan: &Plan<'_>, statement: &mut Statement) -> Result<()> {
        let mut excluded: BTreeSet<&str> = self.funnel_events(plan)?;
        let names = self.spec.funnel_correlation_exclude_event_names.iter();
        excluded.extend(names.map(String::as_str));
        let condition = not(is_among(field(&["event"]), excluded));
        self.nearby(plan, statement, condition, "")?;
        statement.cte(
            "found",
            "SELECT nearby.event AS name, uniqIf(entered.actor, entered.converted) AS success, \
             uniqIf(entered.actor, NOT entered.converted) AS failure \
             FROM nearby INNER JOIN entered ON nearby.actor = entered.actor \
             WHERE nearby.t > entered.started AND nearby.t < entered.ended GROUP BY name",
            &[],
        )
    }

    /// Names of the funnel's own events.
    fn funnel_events<'p>(&'p self, plan: &Plan<'p>) -> Result<BTreeSet<&'p str>> {
        let mut events = BTreeSet::new();
        for node in self.funnel.nodes() {
            match node.kind {
                NodeKind::Actions => {
                    let action = plan.lowering.scope.context.actions.get(&action_id(node)?);
                    let steps = action.into_iter().flat_map(|action| &action.events.steps);
                    events.extend(steps.filter_map(|(step, _)| step.event.as_deref()));
                }
                NodeKind::Events | NodeKind::Group => events.extend(node.event.as_deref()),
            }
        }
        Ok(events)
    }

    fn count_event_properties(&self, plan: &Plan<'_>, statement: &mut Statement) -> Result<()> {
        let names = &self.spec.funnel_correlation_event_names;
        if names.is_empty() {
            let detail = "funnelCorrelationEventNames needs at least one event.";
            return Err(Error::Invalid(detail.into()));
        }
        let condition = is_among(field(&["event"]), names.iter().map(String::as_str));
        self.nearby(plan, statement, condition, ", properties")?;
        let excluded = &self.spec.funnel_correlation_event_exclude_property_names;
        let kept = not(is_among(
            call("tupleElement", vec![field(&["prop"]), int(1)]),
            excluded.iter().map(String::as_str),
        ));
        statement.cte(
            "pairs",
            "SELECT entered.actor AS actor, entered.converted AS converted, nearby.event AS event, \
             arrayJoin(JSONExtractKeysAndValuesRaw(nearby.properties)) AS prop \
             FROM nearby INNER JOIN entered ON nearby.actor = entered.actor \
             WHERE nearby.t > entered.started AND nearby.t < entered.ended",
            &[],
        )?;
        statement.cte(
            "found",
            "SELECT concat(event, '::', tupleElement(prop, 1), '::', \
             replaceRegexpAll(tupleElement(prop, 2), '^\"|\"$', '')) AS name, \
             uniqIf(actor, converted) AS success, uniqIf(actor, NOT converted) AS failure \
             FROM pairs WHERE {kept} GROUP BY name HAVING success + failure > 2",
            &[("kept", kept)],
        )
    }

    fn count_properties(&self, statement: &mut Statement) -> Result<()> {
        let names = &self.spec.funnel_correlation_names;
        if names.is_empty() {
            let detail = "funnelCorrelationNames needs at least one property.";
            return Err(Error::Invalid(detail.into()));
        }
        let by_hogql = self.funnel.spec.funnels_filter.funnel_aggregate_by_hogql.as_deref();
        if by_hogql.is_some_and(|text| !text.is_empty()) {
            return Err(unsupported("A property of what a funnel's expression counts"));
        }
        let from = match self.funnel.base.aggregation_group_type_index {
            None => "persons ON persons.id = entered.actor".to_owned(),
            Some(index) => format!(
                "(SELECT key, properties FROM groups WHERE index = {index}) AS persons \
                 ON persons.key = entered.actor"
            ),
        };
        let properties = ["persons", "properties"];
        let pairs = match names.iter().any(|name| name == ALL) {
            true => call("JSONExtractKeysAndValuesRaw", vec![field(&properties)]),
            false => {
                let pair = |name: &String| {
                    let text = Value::property(&properties, name).text;
                    call("tuple", vec![literal(name), call("ifNull", vec![text, literal("")])])
                };
                expr(ExprKind::Array(names.iter().map(pair).collect()))
            }
        };
        let excluded = &self.spec.funnel_correlation_exclude_names;
        let kept = not(is_among(
            call("tupleElement", vec![field(&["prop"]), int(1)]),
            excluded.iter().map(String::as_str),
        ));
        let text = format!(
            "SELECT entered.actor AS actor, entered.converted AS converted, \
             arrayJoin({{pairs}}) AS prop FROM entered INNER JOIN {from}"
        );
        statement.cte("pairs", &text, &[("pairs", pairs)])?;
        statement.cte(
            "found",
            "SELECT concat(tupleElement(prop, 1), '::', \
             replaceRegexpAll(tupleElement(prop, 2), '^\"|\"$', '')) AS name, \
             uniqIf(actor, converted) AS success, uniqIf(actor, NOT converted) AS failure \
             FROM pairs WHERE {kept} GROUP BY name",
            &[("kept", kept)],
        )
    }

    pub(crate) fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: &[Vec<Json>],
    ) -> Result<StatementResult> {
        let mut counted = Vec::new();
        for row in rows {
            let mut row = Row::new(row);
            row.next()?;
            let name = row.text()?.to_owned();
            counted.push(Counted {
                name,
                success: row.count()? as f64,
                failure: row.count()? as f64,
            });
        }
        let (skewed, items) = match counted.split_first() {
            Some((total, counted)) if total.success > 0.0 && total.failure > 0.0 => {
                let ratio = total.success / total.failure;
                (!(1.0 / SKEW..=SKEW).contains(&ratio), correlations(total, counted))
            }
            _ => (true, Vec::new()),
        };
        let mut result = StatementResult::new(json!({ "events": items, "skewed": skewed }));
        let plan = self.funnel.lowering(context)?;
        let calendar = &plan.lowering.scope.dates.calendar;
        result.resolved = Some((calendar.iso(plan.period.from)?, calendar.iso(plan.period.to)?));
        Ok(result)
    }
}

/// The strongest correlations with converting, then those with dropping off.
fn correlations(total: &Counted, counted: &[Counted]) -> Vec<Json> {
    let least = ACTORS_MIN.min(SHARE_MIN * (total.success + total.failure));
    let counted = counted.iter().filter(|one| one.success + one.failure >= least);
    let mut ratios: Vec<(f64, &Counted)> =
        counted.map(|one| (odds_ratio(total, one), one)).collect();
    ratios.sort_by(|(a, first), (b, second)| b.total_cmp(a).then(first.name.cmp(&second.name)));
    let successes = ratios.iter().filter(|(ratio, _)| *ratio > 1.0).take(ITEMS_MAX);
    let failures = ratios.iter().rev().filter(|(ratio, _)| *ratio <= 1.0).take(ITEMS_MAX);
    let item = |(ratio, one): &(f64, &Counted)| {
        json!({
            "event": { "event": one.name, "properties": {}, "elements": [] },
            "success_count": one.success as u64,
            "failure_count": one.failure as u64,
            "odds_ratio": ratio,
            "correlation_type": if *ratio > 1.0 { "success" } else { "failure" },
        })
    };
    successes.chain(failures).map(item).collect()
}

/// The odds of converting with the event or property, over those without it.
fn odds_ratio(total: &Counted, one: &Counted) -> f64 {
    let with_it = (one.success + PRIOR) * (total.failure - one.failure + PRIOR);
    let without_it = (total.success - one.success + PRIOR) * (one.failure + PRIOR);
    with_it / without_it
}

/// Whether a value is in a list; false for an empty list.
fn is_among<'n>(value: Expr, names: impl IntoIterator<Item = &'n str>) -> Expr {
    let names: Vec<Expr> = names.into_iter().map(literal).collect();
    if names.is_empty() {
        return boolean(false);
    }
    let set = Box::new(expr(ExprKind::Tuple(names)));
    expr(ExprKind::In { expr: Box::new(value), set, negated: false })
}
