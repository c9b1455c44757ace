//! Retention: who comes back, and when.

mod count;

use facts::ReadView;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::actors::{DataPoint, InsightActors};
use crate::breakdown::Split;
use crate::calendar::{Buckets, Calendar};
use crate::context::QueryContext;
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::result::InsightResult;
use crate::scan::Actors;
use crate::spec::{self, Base, BreakdownFilter, Node, NodeKind, Overrides};
use crate::trends::Share;
use crate::{Error, Interval, Result};
use count::{Counter, Returns, Starts};

const INTERVALS: usize = 8;
const INTERVALS_MAX: usize = 31;
const DIMENSIONS_MAX: usize = 1;
const EVENT: &str = "$pageview";

#[derive(Clone, Debug)]
pub struct RetentionQuery {
    pub base: Base,
    own: Own,
    target: Node,
    returning: Node,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    retention_filter: RetentionFilter,
    breakdown_filter: BreakdownFilter,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RetentionFilter {
    target_entity: Option<Entity>,
    returning_entity: Option<Entity>,
    period: Unit,
    total_intervals: Option<usize>,
    retention_type: RetentionType,
    cumulative: bool,
    minimum_occurrences: Option<u64>,
    time_window_mode: TimeWindowMode,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Entity {
    id: Option<Json>,
    name: Option<String>,
    custom_name: Option<String>,
    kind: Option<NodeKind>,
    #[serde(rename = "type")]
    entity_type: Option<String>,
    properties: Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum Unit {
    Hour,
    #[default]
    Day,
    Week,
    Month,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum RetentionType {
    #[default]
    #[serde(rename = "retention_recurring")]
    Recurring,
    #[serde(rename = "retention_first_time")]
    FirstTime,
    #[serde(rename = "retention_first_ever_occurrence")]
    FirstEverOccurrence,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
enum TimeWindowMode {
    #[default]
    #[serde(rename = "strict_calendar_dates")]
    Calendar,
    #[serde(rename = "24_hour_windows")]
    Windows,
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
        let (base, mut own) = spec::read::<Own>(json)?;
        let target = node(own.retention_filter.target_entity.take())?;
        let returning = node(own.retention_filter.returning_entity.take())?;
        Ok(Self { base, own, target, returning })
    }

    pub(crate) fn apply(&mut self, dashboard: &Overrides) {
        self.base.apply(dashboard);
        if let Some(breakdown) = &dashboard.breakdown_filter {
            self.own.breakdown_filter = breakdown.clone();
        }
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        vec![&self.target, &self.returning]
    }

    pub(crate) fn breakdown(&self) -> Option<&BreakdownFilter> {
        Some(&self.own.breakdown_filter)
    }

    /// `interval` is the row, and `day` how many intervals later.
    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let intervals = self.intervals()?;
        let rows = self.rows(&context, intervals)?;
        let actors = Actors::of(self.base.aggregation_group_type_index);
        let mut counter = self.counter(&context, &rows, intervals, &actors)?;
        let (row, later) = (point.interval.unwrap_or(0), point.intervals()?.unwrap_or(0));
        if row >= rows.len() || later >= intervals {
            return Err(Error::invalid("The answer has no such interval."));
        }
        let around = (rows.starts.first().copied().unwrap_or(rows.end), rows.end);
        let filter = &self.own.breakdown_filter;
        let split = match point.value() {
            Some(_) => Split::plan(filter, &context, DIMENSIONS_MAX, around)?,
            None => Split::Whole,
        };
        let found = match split {
            Split::Whole => counter.actors(row, later, None, &|_| true)?,
            Split::Cohorts(slices) => {
                let named = |id: Option<i64>| Share::Cohort(id, String::new()).json();
                let slice =
                    slices.iter().find(|slice| point.is_value(&named(slice.id.map(|id| id.0))));
                let Some(slice) = slice else { return Ok(InsightActors::default()) };
                counter.slice = slice.predicate.clone();
                counter.actors(row, later, None, &|_| true)?
            }
            Split::Values(breakdown) => {
                let (shares, _) = counter.values(&breakdown)?;
                let share = shares.iter().find(|(share, _)| point.is_value(&share.json()));
                let Some((share, _)) = share else { return Ok(InsightActors::default()) };
                let own = |share: &Share, value: u32| match share {
                    Share::Values(texts, _) | Share::Null(texts, _) => {
                        breakdown.texts(value) == *texts
                    }
                    _ => false,
                };
                let is_other = matches!(share, Share::Other(..));
                let wanted = |value: u32| match is_other {
                    true => !shares.iter().any(|(share, _)| own(share, value)),
                    false => own(share, value),
                };
                counter.actors(row, later, Some(&breakdown), &wanted)?
            }
        };
        InsightActors::new(&actors, found)
    }

    fn counter<'a>(
        &'a self,
        context: &'a QueryContext<'a>,
        rows: &'a Buckets,
        intervals: usize,
        actors: &'a Actors,
    ) -> Result<Counter<'a>> {
        let filter = &self.own.retention_filter;
        if filter.time_window_mode == TimeWindowMode::Windows {
            return Err(Error::invalid("Retention by windows of 24 hours is not supported."));
        }
        Ok(Counter {
            context,
            rows,
            intervals,
            actors,
            target: &self.target,
            returning: &self.returning,
            starts: match filter.retention_type {
                RetentionType::Recurring => Starts::Any,
                RetentionType::FirstTime => Starts::FirstMatching,
                RetentionType::FirstEverOccurrence => Starts::FirstEver,
            },
            returns: if filter.cumulative { Returns::OnOrAfter } else { Returns::Within },
            occurrences: filter.minimum_occurrences.unwrap_or(1),
            slice: None,
        })
    }

    fn intervals(&self) -> Result<usize> {
        let intervals = self.own.retention_filter.total_intervals.unwrap_or(INTERVALS);
        if intervals == 0 || intervals > INTERVALS_MAX {
            let detail = format!("totalIntervals is between 1 and {INTERVALS_MAX}.");
            return Err(Error::Invalid(detail));
        }
        Ok(intervals)
    }

    /// The rows: from the start to the end of the unit that the range ends in.
    fn rows(&self, context: &QueryContext<'_>, intervals: usize) -> Result<Buckets> {
        let calendar = &context.dates.calendar;
        let interval = self.own.retention_filter.period.interval();
        let range = &self.base.date_range;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let to = match given(&range.date_to) {
            Some(text) => context.dates.moment(&text),
            None => context.dates.now.as_micros(),
        };
        let end = calendar.end(to, interval)?;
        let from = match given(&range.date_from) {
            Some(_) => context.dates.period(range, interval)?.from,
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
        let intervals = self.intervals()?;
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let calendar = &context.dates.calendar;
        let rows = self.rows(&context, intervals)?;
        let actors = Actors::of(self.base.aggregation_group_type_index);
        let mut counter = self.counter(&context, &rows, intervals, &actors)?;
        let mut shares = Vec::new();
        let mut more = false;
        let around = (rows.starts.first().copied().unwrap_or(rows.end), rows.end);
        match Split::plan(&self.own.breakdown_filter, &context, DIMENSIONS_MAX, around)? {
            Split::Whole => shares.push((Share::Whole, counter.whole()?)),
            Split::Values(breakdown) => (shares, more) = counter.values(&breakdown)?,
            Split::Cohorts(slices) => {
                for slice in slices {
                    counter.slice = slice.predicate.clone();
                    let share = Share::Cohort(slice.id.map(|id| id.0), slice.name);
                    shares.push((share, counter.whole()?));
                }
            }
        }
        let mut results = Vec::new();
        for (share, table) in shares {
            results.extend(self.shape(calendar, &rows, &share, &table)?);
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
        rows: &Buckets,
        share: &Share,
        table: &[Vec<u64>],
    ) -> Result<Vec<Json>> {
        let word = self.own.retention_filter.period.word();
        let mut items = Vec::with_capacity(table.len());
        for (at, counts) in table.iter().enumerate() {
            let value = |(at, count): (usize, &u64)| json!({"count": count, "label": format!("{word} {at}")});
            let values: Vec<Json> = counts.iter().enumerate().map(value).collect();
            let mut item = json!({
                "values": values,
                "label": format!("{word} {at}"),
                "date": calendar.iso(rows.starts[at])?,
            });
            if *share != Share::Whole {
                item["breakdown_value"] = share.json();
            }
            items.push(item);
        }
        Ok(items)
    }
}
