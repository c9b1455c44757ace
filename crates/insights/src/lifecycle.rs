//! Lifecycle: new, returning, resurrecting and dormant actors per interval.

mod lower;

use std::collections::BTreeSet;
use std::sync::Arc;

use facts::ReadView;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::actors::{Actor, DataPoint, InsightActors, Status};
use crate::counted_events::{CountedEvents, RowColumns, RowTest};
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::calendar::Buckets;
use crate::query::date_range::Period;
use crate::query::spec::{self, Base, Node, Overrides};
use crate::result::InsightResult;
use crate::scan::activity::ActivityBitmap;
use crate::scan::context::{QueryScope, ScanContext, node_id, node_type};
use crate::scan::{ActorSource, Scan};
use crate::{Error, Interval, Result};

#[derive(Clone, Debug)]
pub struct LifecycleQuery {
    pub base: Base,
    spec: LifecycleSpec,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LifecycleSpec {
    series: Vec<Node>,
    #[serde(default)]
    interval: Interval,
    #[serde(default, rename = "lifecycleFilter")]
    _filter: LifecycleFilter,
}

/// All of its keys are display options, which are stripped before parsing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = |schema: &mut schemars::Schema| crate::schema::with_display_options(schema, "lifecycleFilter"))]
struct LifecycleFilter {}

const STATUSES: [(Status, &str); 4] = [
    (Status::New, "new"),
    (Status::Returning, "returning"),
    (Status::Resurrecting, "resurrecting"),
    (Status::Dormant, "dormant"),
];

impl LifecycleQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, spec) = spec::read::<LifecycleSpec>(json)?;
        Ok(Self { base, spec })
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
        let node = self.node()?;
        let interval = self.spec.interval;
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let period = context.scope.dates.period(&self.base.date_range, interval)?;
        let actors = ActorSource::of(self.base.aggregation_group_type_index);
        let mut counts = vec![[0i64; 4]; period.buckets.len()];
        let exists = self.each(&context, node, &period, &actors, |_, bucket, status| {
            if let Some(counts) = counts.get_mut(bucket) {
                counts[status as usize] += if status == Status::Dormant { -1 } else { 1 };
            }
        })?;
        let results = match exists {
            true => self.shape(&context.scope, node, &period.buckets, counts)?,
            false => json!([]),
        };
        let calendar = &context.scope.dates.calendar;
        InsightResult::new(results, calendar, period.from, period.to, interval)
    }

    /// Calls `each` with the status of every actor in every bucket; false if the series is a deleted
    /// action.
    fn each(
        &self,
        context: &ScanContext<'_>,
        node: &Node,
        period: &Period,
        actors: &ActorSource,
        each: impl FnMut(u32, usize, Status),
    ) -> Result<bool> {
        let Some(selection) = context.selection(node)? else { return Ok(false) };
        let (before, buckets) = self.scanned_buckets(&context.scope, period)?;
        let scan = context.scan(selection.filter(before, period.to));
        let activity = ActivityBitmap::scan(&Scan { actors: Some(actors), ..scan }, &buckets)?;
        let view = context.view;
        statuses(&activity, &buckets, |actor| self.created(view, actors, actor), each);
        Ok(true)
    }

    /// The buckets of the period and one earlier, which tells returning from resurrecting actors, and
    /// the start of that one.
    fn scanned_buckets(&self, scope: &QueryScope<'_>, period: &Period) -> Result<(i64, Buckets)> {
        let calendar = &scope.dates.calendar;
        let first = period.buckets.starts.first().copied().unwrap_or(period.from);
        let before = calendar.start(first - 1, self.spec.interval)?;
        Ok((before, calendar.buckets(before, period.to, self.spec.interval)?))
    }

    /// The events by which actors have a status. Dormant actors have none in the bucket, so theirs are
    /// the events of the bucket before.
    pub(crate) fn events(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<CountedEvents> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let period = context.scope.dates.period(&self.base.date_range, self.spec.interval)?;
        let (before, buckets) = self.scanned_buckets(&context.scope, &period)?;
        let actors = ActorSource::of(self.base.aggregation_group_type_index);
        let mut counted = ActivityBitmap::new(buckets.len());
        let node = self.node()?;
        self.each_at(&context, &period, &actors, point, |actor, bucket, status| {
            counted.set(actor, if status == Status::Dormant { bucket } else { bucket + 1 });
        })?;
        let Some(selection) = context.selection(node)? else { return Ok(CountedEvents::none()) };
        let mut memory = limits.reserve();
        memory.resize(counted.bytes())?;
        let columns = RowColumns { actors: Some(Arc::new(actors)), ..RowColumns::default() };
        let test = RowTest::of_rows(view, columns, move |rows, row| {
            let bucket = buckets.of(rows.times[row]);
            bucket.is_some_and(|bucket| counted.has(rows.actor(row), bucket))
        });
        Ok(CountedEvents::of(&selection, (before, period.to), Some(test.charged(memory))))
    }

    fn node(&self) -> Result<&Node> {
        match self.spec.series.as_slice() {
            [node] => Ok(node),
            _ => Err(Error::invalid("A lifecycle has exactly one series.")),
        }
    }

    /// Calls `each` with the actors, buckets and statuses that the data point includes.
    fn each_at(
        &self,
        context: &ScanContext<'_>,
        period: &Period,
        actors: &ActorSource,
        point: &DataPoint,
        mut each: impl FnMut(u32, usize, Status),
    ) -> Result<()> {
        let selected_bucket = point.bucket(context, &point.day, &period.buckets)?;
        self.each(context, self.node()?, period, actors, |actor, bucket, status| {
            let in_bucket = selected_bucket
                .map_or(bucket < period.buckets.len(), |selected| selected == bucket);
            if in_bucket && point.status.is_none_or(|selected| selected == status) {
                each(actor, bucket, status);
            }
        })
        .map(drop)
    }

    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        let period = context.scope.dates.period(&self.base.date_range, self.spec.interval)?;
        let actors = ActorSource::of(self.base.aggregation_group_type_index);
        let mut matching = BTreeSet::new();
        self.each_at(&context, &period, &actors, point, |actor, _, _| {
            matching.insert(actor);
        })?;
        InsightActors::new(&actors, matching.into_iter().map(|actor| Actor::of((actor, 0))))
    }

    /// Creation time of the person or group; none without a profile.
    fn created(&self, view: &ReadView, actors: &ActorSource, actor: u32) -> Option<i64> {
        let created_at = match (actors, self.base.aggregation_group_type_index) {
            (ActorSource::Column(..), Some(index)) => {
                view.groups.get(index, &actors.text(actor))?.created_at()
            }
            _ => view.persons.person(actor)?.created_at,
        };
        Some(created_at.as_micros())
    }

    fn shape(
        &self,
        scope: &QueryScope<'_>,
        node: &Node,
        buckets: &Buckets,
        counts: Vec<[i64; 4]>,
    ) -> Result<Json> {
        let calendar = &scope.dates.calendar;
        let starts = &buckets.starts;
        let days: Vec<String> = starts
            .iter()
            .map(|start| calendar.day_text(*start, buckets.interval))
            .collect::<Result<_>>()?;
        let labels: Vec<String> = starts
            .iter()
            .map(|start| calendar.label(*start, buckets.interval))
            .collect::<Result<_>>()?;
        let name = scope.name(node);
        let item = |(status, word): &(Status, &str)| {
            let data: Vec<i64> = counts.iter().map(|counts| counts[*status as usize]).collect();
            json!({
                "action": {
                    "id": node_id(node), "name": name, "type": node_type(node), "order": 0,
                    "math": "total", "custom_name": node.custom_name,
                },
                "data": data,
                "count": data.iter().sum::<i64>(),
                "labels": labels,
                "days": days,
                "label": format!("{name} - {word}"),
                "status": word,
            })
        };
        Ok(Json::Array(STATUSES.iter().map(item).collect()))
    }
}

/// Statuses for every bucket but the first, which only serves as the bucket before.
fn statuses(
    activity: &ActivityBitmap,
    buckets: &Buckets,
    created_at: impl Fn(u32) -> Option<i64>,
    mut each: impl FnMut(u32, usize, Status),
) {
    activity.for_each(|actor, active| {
        let created = created_at(actor).and_then(|at| buckets.of(at));
        for (at, bucket) in active.iter().copied().enumerate() {
            let was_active = at > 0 && active[at - 1] + 1 == bucket;
            let status = if was_active {
                Status::Returning
            } else if at == 0 && created == Some(bucket) {
                Status::New
            } else {
                Status::Resurrecting
            };
            if let Some(bucket) = bucket.checked_sub(1) {
                each(actor, bucket, status);
            }
            if active.get(at + 1) != Some(&(bucket + 1)) && bucket + 1 < buckets.len() {
                each(actor, bucket, Status::Dormant);
            }
        }
    });
}
