//! Retention: of the actors that start in an interval, how many return in later ones.

mod amounts;
mod count;
mod lower;

use std::ops::RangeInclusive;
use std::sync::Arc;

use facts::ReadView;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::actors::{DataPoint, InsightActors};
use crate::counted_events::CountedEvents;
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::calendar::{BUCKETS_MAX, Buckets, Calendar};
use crate::query::spec::{self, Base, BreakdownFilter, Node, NodeKind, Overrides};
use crate::result::InsightResult;
use crate::scan::ActorSource;
use crate::scan::breakdown::{BreakdownPlan, BreakdownSegment, ValueSet};
use crate::scan::context::{QueryScope, ScanContext, json_number};
use crate::{Error, Interval, Result};
use count::{Cell, Counter, ReturnRule, StartRule, TableCell, Windows};

const INTERVALS: usize = 8;
const INTERVALS_MAX: usize = 31;
/// With the start itself a table has as many columns as without brackets.
const BRACKETS_MAX: usize = INTERVALS_MAX - 1;
const DIMENSIONS_MAX: usize = 1;
const EVENT: &str = "$pageview";

#[derive(Clone, Debug)]
pub struct RetentionQuery {
    pub base: Base,
    spec: RetentionSpec,
    target: Node,
    returning: Node,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RetentionSpec {
    retention_filter: RetentionFilter,
    breakdown_filter: BreakdownFilter,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = |schema: &mut schemars::Schema| crate::schema::with_display_options(schema, "retentionFilter"))]
struct RetentionFilter {
    target_entity: Option<Entity>,
    returning_entity: Option<Entity>,
    period: Unit,
    total_intervals: Option<usize>,
    retention_type: RetentionType,
    cumulative: bool,
    minimum_occurrences: Option<u64>,
    time_window_mode: TimeWindowMode,
    /// How many intervals each column after the first spans: `[1, 3]` counts the first interval after
    /// the start, and the second to the fourth.
    retention_custom_brackets: Vec<usize>,
    /// With `sum` and `avg`, cells also have that of a property over the actors that they count.
    aggregation_type: AggregationType,
    aggregation_property: Option<String>,
    aggregation_property_type: AmountOwner,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RetentionEntity")]
struct Entity {
    #[schemars(with = "Option<model::json_shapes::IdOrDigits>")]
    id: Option<Json>,
    name: Option<String>,
    custom_name: Option<String>,
    kind: Option<NodeKind>,
    #[serde(rename = "type")]
    #[schemars(with = "Option<model::json_shapes::EntityType>")]
    entity_type: Option<String>,
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    properties: Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "RetentionPeriod")]
enum Unit {
    Hour,
    #[default]
    Day,
    Week,
    Month,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
enum RetentionType {
    #[default]
    #[serde(rename = "retention_recurring")]
    Recurring,
    #[serde(rename = "retention_first_time")]
    FirstTime,
    #[serde(rename = "retention_first_ever_occurrence")]
    FirstEverOccurrence,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
enum TimeWindowMode {
    #[default]
    #[serde(rename = "strict_calendar_dates")]
    Calendar,
    #[serde(rename = "24_hour_windows")]
    Rolling,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RetentionAggregationType")]
enum AggregationType {
    #[default]
    Count,
    Sum,
    Avg,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "RetentionAggregationPropertyType")]
enum AmountOwner {
    #[default]
    Event,
    Person,
}

impl Unit {
    fn interval(self) -> Interval {
        match self {
            Self::Hour => Interval::Hour,
            Self::Day => Interval::Day,
            Self::Week => Interval::Week,
            Self::Month => Interval::Month,
        }
    }

    /// The length of a window that starts with the actor's first event.
    fn window_micros(self) -> i64 {
        let hours = match self {
            Self::Hour => 1,
            Self::Day => 24,
            Self::Week => 7 * 24,
            Self::Month => 30 * 24,
        };
        hours * 3_600_000_000
    }

    fn word(self) -> &'static str {
        match self {
            Self::Hour => "Hour",
            Self::Day => "Day",
            Self::Week => "Week",
            Self::Month => "Month",
        }
    }
}

fn node(entity: Option<Entity>) -> Result<Node> {
    let entity = entity.unwrap_or_else(|| Entity { id: Some(json!(EVENT)), ..Entity::default() });
    let is_action = match entity.entity_type.as_deref() {
        None => entity.kind == Some(NodeKind::Actions),
        Some("events") => false,
        Some("actions") => true,
        Some(other) => return Err(Error::Parse(format!("An entity cannot be of '{other}'."))),
    };
    let properties = entity.properties;
    let (name, custom_name) = (entity.name, entity.custom_name);
    let node = Node { name, custom_name, properties, ..Node::default() };
    Ok(match (is_action, entity.id) {
        (true, id) => Node { kind: NodeKind::Actions, id, ..node },
        (false, None) => node,
        (false, Some(Json::String(event))) => Node { event: Some(event), ..node },
        (false, Some(other)) => return Err(Error::Parse(format!("{other} is no event."))),
    })
}

impl RetentionQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, mut spec) = spec::read::<RetentionSpec>(json)?;
        let target = node(spec.retention_filter.target_entity.take())?;
        let returning = node(spec.retention_filter.returning_entity.take())?;
        Ok(Self { base, spec, target, returning })
    }

    pub(crate) fn apply(&mut self, overrides: &Overrides) {
        self.base.apply(overrides);
        if let Some(breakdown) = &overrides.breakdown_filter {
            self.spec.breakdown_filter = breakdown.clone();
        }
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        vec![&self.target, &self.returning]
    }

    pub(crate) fn breakdown(&self) -> Option<&BreakdownFilter> {
        Some(&self.spec.breakdown_filter)
    }

    /// Drill-down: `interval` of the data point is the row, `day` the column.
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let (rows, columns) = (self.rows(&context.scope)?, self.columns()?);
        let actors = Arc::new(ActorSource::of(self.base.aggregation_group_type_index));
        let mut counter = self.counter(&context, &rows, &columns, &actors)?;
        match self.cell(&mut counter, point)? {
            Some(cell) => InsightActors::new(&actors, counter.actors(&cell)?),
            None => Ok(InsightActors::default()),
        }
    }

    /// The start events of the counted actors, and for a later interval the events by which they
    /// returned.
    pub(crate) fn events(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<CountedEvents> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let (rows, columns) = (self.rows(&context.scope)?, self.columns()?);
        let actors = Arc::new(ActorSource::of(self.base.aggregation_group_type_index));
        let mut counter = self.counter(&context, &rows, &columns, &actors)?;
        match self.cell(&mut counter, point)? {
            Some(cell) => counter.events(cell),
            None => Ok(CountedEvents::none()),
        }
    }

    /// The cell of the table that the data point names; none if no table has its breakdown value.
    fn cell(&self, counter: &mut Counter<'_>, point: &DataPoint) -> Result<Option<TableCell>> {
        let rows = counter.rows;
        let (row, later) = (point.interval.unwrap_or(0), point.intervals()?.unwrap_or(0));
        if row >= rows.len() || later >= counter.columns.len() {
            return Err(Error::invalid("The result has no such interval."));
        }
        let around = (rows.starts.first().copied().unwrap_or(rows.end), rows.end);
        let filter = &self.spec.breakdown_filter;
        let plan = match point.value() {
            Some(_) => BreakdownPlan::new(filter, counter.context, DIMENSIONS_MAX, around)?,
            None => BreakdownPlan::NoBreakdown,
        };
        let whole = TableCell { row, later, breakdown: None, values: ValueSet::All };
        Ok(match plan {
            BreakdownPlan::NoBreakdown => Some(whole),
            BreakdownPlan::Cohorts(slices) => {
                let named = |id: Option<i64>| BreakdownSegment::Cohort(id, String::new()).json();
                let slice =
                    slices.iter().find(|slice| point.is_value(&named(slice.id.map(|id| id.0))));
                slice.map(|slice| {
                    counter.slice = slice.predicate.clone();
                    whole
                })
            }
            BreakdownPlan::Values(breakdown) => {
                let (tables, _) = counter.values(&breakdown)?;
                let segments = || tables.iter().map(|(segment, _)| segment);
                let segment = segments().find(|segment| point.is_value(&segment.json()));
                segment.map(|segment| {
                    let values = breakdown.values_in(segment, segments());
                    TableCell { breakdown: Some(breakdown), values, ..whole }
                })
            }
        })
    }

    fn counter<'a>(
        &'a self,
        context: &'a ScanContext<'a>,
        rows: &'a Buckets,
        columns: &'a [RangeInclusive<usize>],
        actors: &'a Arc<ActorSource>,
    ) -> Result<Counter<'a>> {
        let filter = &self.spec.retention_filter;
        Ok(Counter {
            context,
            rows,
            columns,
            windows: self.windows()?,
            actors,
            target: &self.target,
            returning: &self.returning,
            starts: match filter.retention_type {
                RetentionType::Recurring => StartRule::Any,
                RetentionType::FirstTime => StartRule::FirstMatching,
                RetentionType::FirstEverOccurrence => StartRule::FirstEver,
            },
            returns: if filter.cumulative { ReturnRule::OnOrAfter } else { ReturnRule::Within },
            occurrences: filter.minimum_occurrences.unwrap_or(1),
            aggregation: self.aggregation()?,
            slice: None,
        })
    }

    fn intervals(&self) -> Result<usize> {
        let intervals = self.spec.retention_filter.total_intervals.unwrap_or(INTERVALS);
        if intervals == 0 || intervals > INTERVALS_MAX {
            let detail = format!("totalIntervals is between 1 and {INTERVALS_MAX}.");
            return Err(Error::Invalid(detail));
        }
        Ok(intervals)
    }

    fn windows(&self) -> Result<Windows> {
        let filter = &self.spec.retention_filter;
        match filter.time_window_mode {
            TimeWindowMode::Calendar => Ok(Windows::Calendar),
            TimeWindowMode::Rolling if filter.cumulative => {
                Err(Error::invalid("Cumulative retention is not supported for 24 hour windows."))
            }
            TimeWindowMode::Rolling => Ok(Windows::Rolling(filter.period.window_micros())),
        }
    }

    /// For each column of the table the intervals or windows after the start.
    fn columns(&self) -> Result<Vec<RangeInclusive<usize>>> {
        let brackets = &self.spec.retention_filter.retention_custom_brackets;
        if brackets.is_empty() {
            return Ok((0..self.intervals()?).map(|at| at..=at).collect());
        }
        if brackets.len() > BRACKETS_MAX {
            let detail = format!("retentionCustomBrackets has at most {BRACKETS_MAX} brackets.");
            return Err(Error::Invalid(detail));
        }
        let mut columns = vec![0..=0];
        let mut last = 0usize;
        for bracket in brackets {
            let end = last.saturating_add(*bracket);
            if *bracket == 0 || end > BUCKETS_MAX {
                let detail = format!(
                    "A bracket of retentionCustomBrackets has at least one interval, and all have \
                     at most {BUCKETS_MAX}."
                );
                return Err(Error::Invalid(detail));
            }
            columns.push(last + 1..=end);
            last = end;
        }
        Ok(columns)
    }

    /// The intervals in which actors start, one row each.
    fn rows(&self, scope: &QueryScope<'_>) -> Result<Buckets> {
        let intervals = self.intervals()?;
        let calendar = &scope.dates.calendar;
        let interval = self.spec.retention_filter.period.interval();
        let range = &self.base.date_range;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let to = match given(&range.date_to) {
            Some(text) => scope.dates.timestamp(&text),
            None => scope.dates.now.as_micros(),
        };
        let end = calendar.end(to, interval)?;
        let from = match given(&range.date_from) {
            Some(_) => scope.dates.period(range, interval)?.from,
            None => {
                let last = calendar.start(to, interval)?;
                calendar.plus(last, interval, 1 - intervals as i64)?
            }
        };
        calendar.buckets(from, end, interval)
    }

    pub(crate) fn run(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let columns = self.columns()?;
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let calendar = &context.scope.dates.calendar;
        let rows = self.rows(&context.scope)?;
        let actors = Arc::new(ActorSource::of(self.base.aggregation_group_type_index));
        let mut counter = self.counter(&context, &rows, &columns, &actors)?;
        let mut segments = Vec::new();
        let mut more = false;
        let around = (rows.starts.first().copied().unwrap_or(rows.end), rows.end);
        match BreakdownPlan::new(&self.spec.breakdown_filter, &context, DIMENSIONS_MAX, around)? {
            BreakdownPlan::NoBreakdown => {
                segments.push((BreakdownSegment::Whole, counter.whole()?))
            }
            BreakdownPlan::Values(breakdown) => (segments, more) = counter.values(&breakdown)?,
            BreakdownPlan::Cohorts(slices) => {
                for slice in slices {
                    counter.slice = slice.predicate.clone();
                    let segment = BreakdownSegment::Cohort(slice.id.map(|id| id.0), slice.name);
                    segments.push((segment, counter.whole()?));
                }
            }
        }
        let mut results = Vec::new();
        for (segment, table) in segments {
            results.extend(self.shape(calendar, (&rows, &columns), &segment, &table)?);
        }
        let from = rows.starts.first().copied().unwrap_or(rows.end);
        let results = Json::Array(results);
        let mut result = InsightResult::new(results, calendar, from, rows.end - 1, rows.interval)?;
        result.has_more = more.then_some(true);
        Ok(result)
    }

    fn shape(
        &self,
        calendar: &Calendar,
        (rows, columns): (&Buckets, &[RangeInclusive<usize>]),
        segment: &BreakdownSegment,
        table: &[Vec<Cell>],
    ) -> Result<Vec<Json>> {
        let has_amounts = self.aggregation()?.is_some();
        let word = self.spec.retention_filter.period.word();
        let label = |column: &RangeInclusive<usize>| match column.start() == column.end() {
            true => format!("{word} {}", column.start()),
            false => format!("{word} {}-{}", column.start(), column.end()),
        };
        let labels: Vec<String> = columns.iter().map(label).collect();
        let mut items = Vec::with_capacity(table.len());
        for (at, cells) in table.iter().enumerate() {
            let value = |(cell, label): (&Cell, &String)| {
                let mut value = json!({ "count": cell.count, "label": label });
                if has_amounts {
                    value["aggregation_value"] = json_number(cell.amount);
                }
                value
            };
            let values: Vec<Json> = cells.iter().zip(&labels).map(value).collect();
            let mut item = json!({
                "values": values,
                "label": format!("{word} {at}"),
                "date": calendar.iso(rows.starts[at])?,
            });
            if *segment != BreakdownSegment::Whole {
                item["breakdown_value"] = segment.json();
            }
            items.push(item);
        }
        Ok(items)
    }
}
