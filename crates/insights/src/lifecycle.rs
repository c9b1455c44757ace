//! Lifecycle: who is new, comes back, or stays away.

use facts::World;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::calendar::Buckets;
use crate::hogql::Hogql;
use crate::masks::Masks;
use crate::outcome::Outcome;
use crate::question::{Question, node_id, node_type};
use crate::scan::{Actors, Scan};
use crate::spec::{self, Base, Node, Overrides};
use crate::stop::Stop;
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

#[derive(Clone, Copy, Debug)]
enum Status {
    New,
    Returning,
    Resurrecting,
    Dormant,
}

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

    pub(crate) fn run(&self, world: &World, stop: &Stop, hogql: Option<&Hogql>) -> Result<Outcome> {
        let [node] = self.own.series.as_slice() else {
            return Err(Error::invalid("A lifecycle has exactly one series."));
        };
        let interval = self.own.interval;
        let question = Question::new(world, stop, &self.base, hogql)?;
        let calendar = &question.dates.calendar;
        let period = question.dates.period(&self.base.date_range, interval)?;
        let results = match question.meant(node)? {
            None => json!([]),
            Some(meant) => {
                let first = period.buckets.starts.first().copied().unwrap_or(period.from);
                let before = calendar.start(first - 1, interval)?;
                // One bucket earlier, to see who comes back.
                let buckets = calendar.buckets(before, period.to, interval)?;
                let actors = Actors::of(self.base.aggregation_group_type_index);
                let scan = question.scan(meant.filter(before, period.to));
                let masks = Masks::of(&Scan { actors: Some(&actors), ..scan }, &buckets)?;
                let counts = count(&masks, &buckets, |actor| self.created(world, &actors, actor));
                self.shape(&question, node, &period.buckets, counts)?
            }
        };
        Outcome::new(results, calendar, period.from, period.to, interval)
    }

    /// When the actor began to exist; nobody knows of those without a profile.
    fn created(&self, world: &World, actors: &Actors, actor: u32) -> Option<i64> {
        let created_at = match (actors, self.base.aggregation_group_type_index) {
            (Actors::Texts(..), Some(index)) => {
                world.groups.get(index, &actors.text(actor))?.created_at
            }
            _ => world.people.person(actor)?.created_at,
        };
        Some(created_at.as_micros())
    }

    fn shape(
        &self,
        question: &Question<'_>,
        node: &Node,
        buckets: &Buckets,
        counts: Vec<[i64; 4]>,
    ) -> Result<Json> {
        let calendar = &question.dates.calendar;
        let starts = &buckets.starts;
        let days: Vec<String> = starts
            .iter()
            .map(|start| calendar.day_text(*start, buckets.interval))
            .collect::<Result<_>>()?;
        let labels: Vec<String> = starts
            .iter()
            .map(|start| calendar.label(*start, buckets.interval))
            .collect::<Result<_>>()?;
        let name = question.name(node);
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
fn count(masks: &Masks, buckets: &Buckets, created: impl Fn(u32) -> Option<i64>) -> Vec<[i64; 4]> {
    let mut counts = vec![[0i64; 4]; buckets.len().saturating_sub(1)];
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
            if let Some(counts) = bucket.checked_sub(1).and_then(|at| counts.get_mut(at)) {
                counts[status as usize] += 1;
            }
            if there.get(at + 1) != Some(&(bucket + 1))
                && let Some(counts) = counts.get_mut(bucket)
            {
                counts[Status::Dormant as usize] -= 1;
            }
        }
    });
    counts
}
