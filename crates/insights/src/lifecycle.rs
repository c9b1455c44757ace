//! Lifecycle: who is new, comes back, or stays away.

use std::collections::BTreeSet;

use facts::ReadView;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::actors::{Actor, DataPoint, InsightActors, Status};
use crate::calendar::Buckets;
use crate::context::{QueryContext, node_id, node_type};
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::masks::Masks;
use crate::range::Period;
use crate::result::InsightResult;
use crate::scan::{Actors, Scan};
use crate::spec::{self, Base, Node, Overrides};
use crate::{Error, Interval, Result};

#[derive(Clone, Debug)]
pub struct LifecycleQuery {
    pub base: Base,
    own: Own,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own {
    series: Vec<Node>,
    #[serde(default)]
    interval: Interval,
    #[serde(default, rename = "lifecycleFilter")]
    _filter: Shown,
}

/// All of it only changes what is shown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Shown {}

const STATUSES: [(Status, &str); 4] = [
    (Status::New, "new"),
    (Status::Returning, "returning"),
    (Status::Resurrecting, "resurrecting"),
    (Status::Dormant, "dormant"),
];

impl LifecycleQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, own) = spec::read::<Own>(json)?;
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
        let [node] = self.own.series.as_slice() else {
            return Err(Error::invalid("A lifecycle has exactly one series."));
        };
        let interval = self.own.interval;
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let period = context.dates.period(&self.base.date_range, interval)?;
        let actors = Actors::of(self.base.aggregation_group_type_index);
        let mut counts = vec![[0i64; 4]; period.buckets.len()];
        let met = self.each(&context, node, &period, &actors, |_, bucket, status| {
            if let Some(counts) = counts.get_mut(bucket) {
                counts[status as usize] += if status == Status::Dormant { -1 } else { 1 };
            }
        })?;
        let results = match met {
            true => self.shape(&context, node, &period.buckets, counts)?,
            false => json!([]),
        };
        let calendar = &context.dates.calendar;
        InsightResult::new(results, calendar, period.from, period.to, interval)
    }

    /// Shows what every actor was in every bucket of the period; false when the series means an
    /// action that is gone.
    fn each(
        &self,
        context: &QueryContext<'_>,
        node: &Node,
        period: &Period,
        actors: &Actors,
        each: impl FnMut(u32, usize, Status),
    ) -> Result<bool> {
        let Some(selection) = context.selection(node)? else { return Ok(false) };
        let calendar = &context.dates.calendar;
        let first = period.buckets.starts.first().copied().unwrap_or(period.from);
        let before = calendar.start(first - 1, self.own.interval)?;
        // One bucket earlier, to see who comes back.
        let buckets = calendar.buckets(before, period.to, self.own.interval)?;
        let scan = context.scan(selection.filter(before, period.to));
        let masks = Masks::of(&Scan { actors: Some(actors), ..scan }, &buckets)?;
        let view = context.view;
        statuses(&masks, &buckets, |actor| self.created(view, actors, actor), each);
        Ok(true)
    }

    pub(crate) fn actors(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
        point: &DataPoint,
    ) -> Result<InsightActors> {
        let [node] = self.own.series.as_slice() else {
            return Err(Error::invalid("A lifecycle has exactly one series."));
        };
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let period = context.dates.period(&self.base.date_range, self.own.interval)?;
        let wanted = point.bucket(&context, &point.day, &period.buckets)?;
        let actors = Actors::of(self.base.aggregation_group_type_index);
        let mut found = BTreeSet::new();
        self.each(&context, node, &period, &actors, |actor, bucket, status| {
            let is_there = wanted.map_or(bucket < period.buckets.len(), |own| own == bucket);
            if is_there && point.status.is_none_or(|wanted| wanted == status) {
                found.insert(actor);
            }
        })?;
        InsightActors::new(&actors, found.into_iter().map(|actor| Actor::of((actor, 0))))
    }

    /// When the actor began to exist; nobody knows of those without a profile.
    fn created(&self, view: &ReadView, actors: &Actors, actor: u32) -> Option<i64> {
        let created_at = match (actors, self.base.aggregation_group_type_index) {
            (Actors::Texts(..), Some(index)) => {
                view.groups.get(index, &actors.text(actor))?.created_at
            }
            _ => view.persons.person(actor)?.created_at,
        };
        Some(created_at.as_micros())
    }

    fn shape(
        &self,
        context: &QueryContext<'_>,
        node: &Node,
        buckets: &Buckets,
        counts: Vec<[i64; 4]>,
    ) -> Result<Json> {
        let calendar = &context.dates.calendar;
        let starts = &buckets.starts;
        let days: Vec<String> = starts
            .iter()
            .map(|start| calendar.day_text(*start, buckets.interval))
            .collect::<Result<_>>()?;
        let labels: Vec<String> = starts
            .iter()
            .map(|start| calendar.label(*start, buckets.interval))
            .collect::<Result<_>>()?;
        let name = context.name(node);
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

/// For every bucket but the first, which only says who was there before.
fn statuses(
    masks: &Masks,
    buckets: &Buckets,
    created: impl Fn(u32) -> Option<i64>,
    mut each: impl FnMut(u32, usize, Status),
) {
    masks.for_each(|actor, there| {
        let born = created(actor).and_then(|at| buckets.of(at));
        for (at, bucket) in there.iter().copied().enumerate() {
            let was_there = at > 0 && there[at - 1] + 1 == bucket;
            let status = if was_there {
                Status::Returning
            } else if at == 0 && born == Some(bucket) {
                Status::New
            } else {
                Status::Resurrecting
            };
            if let Some(bucket) = bucket.checked_sub(1) {
                each(actor, bucket, status);
            }
            if there.get(at + 1) != Some(&(bucket + 1)) && bucket + 1 < buckets.len() {
                each(actor, bucket, Status::Dormant);
            }
        }
    });
}
