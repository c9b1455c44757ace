//! Drill-down: names a data point of a result and lists the actors that it counts.

use facts::parse_timestamp;
use hashbrown::HashMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;
use warehouse::ColumnKey;

use crate::limits::MemoryReservation;
use crate::query::calendar::{Buckets, Interval};
use crate::query::date_range::Period;
use crate::query::spec::{CompareFilter, Node};
use crate::scan::context::ScanContext;
use crate::scan::{ActorSource, Rows, Scan};
use crate::{Error, Result};

/// A data point of a result, as `InsightActorsQuery` and `FunnelsActorsQuery` name it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct DataPoint {
    series: usize,
    /// A date; for stickiness and retention a number of intervals.
    #[schemars(with = "Option<model::json_shapes::IdOrDigits>")]
    pub(crate) day: Json,
    #[schemars(with = "Option<model::json_shapes::BreakdownValue>")]
    pub(crate) breakdown: Json,
    compare: Option<Compare>,
    pub(crate) status: Option<Status>,
    /// The row of a retention table.
    pub(crate) interval: Option<usize>,
    /// Accepted and ignored: there are no recordings.
    include_recordings: Option<bool>,
    pub(crate) funnel_step: Option<i64>,
    pub(crate) funnel_custom_steps: Vec<usize>,
    #[schemars(with = "Option<model::json_shapes::BreakdownValue>")]
    funnel_step_breakdown: Json,
    pub(crate) funnel_trends_drop_off: Option<bool>,
    #[schemars(with = "Option<model::json_shapes::IdOrDigits>")]
    pub(crate) funnel_trends_entrance_period_start: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ComparedPeriod")]
enum Compare {
    Current,
    Previous,
}

/// Lifecycle status of an actor in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LifecycleStatus")]
pub enum Status {
    New,
    Returning,
    Resurrecting,
    Dormant,
}

/// The distinct actors of a data point, sorted by actor number.
#[derive(Clone, Debug, Default)]
pub struct InsightActors {
    /// Group type index if the actors are groups; none for persons.
    pub group: Option<usize>,
    pub actors: Vec<Actor>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// Actor number of [`facts::PersonIndex`]; meaningless for groups.
    pub actor_no: u32,
    /// Group key; empty for persons.
    pub key: String,
    /// Matching events of the actor; 0 where the insight counts no events.
    pub events: u64,
    /// Retention only: the intervals in which the actor returned, counted from its row.
    pub appearances: Vec<usize>,
}

impl DataPoint {
    pub fn read(json: Json) -> Result<Self> {
        serde_json::from_value(json).map_err(|why| Error::Parse(why.to_string()))
    }

    /// The series of the data point.
    pub(crate) fn node<'s>(&self, series: &'s [Node]) -> Result<&'s Node> {
        series.get(self.series).ok_or_else(|| Error::invalid("The query has no such series."))
    }

    /// The period of the data point: the current one, or the previous one that it is compared with.
    pub(crate) fn period(
        &self,
        context: &ScanContext<'_>,
        interval: Interval,
        compare_filter: &CompareFilter,
    ) -> Result<Period> {
        let range = &context.scope.base.date_range;
        let period = context.scope.dates.period(range, interval)?;
        if self.compare != Some(Compare::Previous) {
            return Ok(period);
        }
        let previous = context.scope.dates.previous(&period, range, compare_filter)?;
        previous.ok_or_else(|| Error::invalid("The query compares no periods."))
    }

    /// The breakdown value of the data point, if the query names one.
    pub(crate) fn value(&self) -> Option<&Json> {
        [&self.breakdown, &self.funnel_step_breakdown].into_iter().find(|value| !value.is_null())
    }

    /// Whether `result_value`, a breakdown value of the result, is the one of the data point. A list of
    /// one equals its element, and a number equals its digits.
    pub(crate) fn is_value(&self, result_value: &Json) -> bool {
        fn normalize(json: &Json) -> Vec<String> {
            let text = |json: &Json| match json {
                Json::String(text) => text.clone(),
                other => other.to_string(),
            };
            match json {
                Json::Array(all) => all.iter().map(text).collect(),
                one => vec![text(one)],
            }
        }
        self.value().is_none_or(|value| normalize(value) == normalize(result_value))
    }

    /// The bucket that contains `day`; none for all buckets.
    pub(crate) fn bucket(
        &self,
        context: &ScanContext<'_>,
        day: &Json,
        buckets: &Buckets,
    ) -> Result<Option<usize>> {
        let text = match day {
            Json::Null => return Ok(None),
            Json::String(text) => text,
            _ => return Err(Error::invalid("day is a date of the result.")),
        };
        let view = context.view;
        let at = parse_timestamp(text, view.context.now, &view.context.zone);
        let bucket = at.and_then(|at| buckets.of(at.as_micros()));
        match bucket {
            Some(bucket) => Ok(Some(bucket)),
            None => Err(Error::Invalid(format!("The result has no '{text}'."))),
        }
    }

    /// `day` as a number of intervals.
    pub(crate) fn intervals(&self) -> Result<Option<usize>> {
        let number = match &self.day {
            Json::Null => return Ok(None),
            Json::String(text) => text.parse().ok(),
            other => other.as_u64().and_then(|number| usize::try_from(number).ok()),
        };
        number.map(Some).ok_or_else(|| Error::invalid("day is a number of intervals here."))
    }
}

impl InsightActors {
    /// An error if the insight counts neither persons nor groups.
    pub(crate) fn new(
        actors: &ActorSource,
        counted: impl IntoIterator<Item = Actor>,
    ) -> Result<Self> {
        let group = match actors {
            ActorSource::Persons => None,
            ActorSource::Column(ColumnKey::Group(index), _) => Some(*index),
            _ => {
                return Err(Error::invalid("This insight counts neither persons nor groups."));
            }
        };
        let named = |actor: Actor| Actor { key: actors.text(actor.actor_no), ..actor };
        let mut actors: Vec<Actor> = counted.into_iter().map(named).collect();
        actors.sort_by_key(|actor| actor.actor_no);
        Ok(Self { group, actors })
    }
}

impl Actor {
    pub(crate) fn of((actor_no, events): (u32, u64)) -> Self {
        Self { actor_no, events, ..Self::default() }
    }
}

/// Counts events by actor, of the breakdown values that `includes` accepts.
pub(crate) fn count(
    scan: &Scan<'_>,
    includes: impl Fn(u32) -> bool + Sync,
) -> Result<HashMap<u32, u64>> {
    type Counts = HashMap<u32, u64>;
    let new = || (Counts::new(), HashMap::<u32, bool>::new(), scan.limits.reserve());
    let each =
        |(counts, known, reservation): &mut (Counts, HashMap<u32, bool>, MemoryReservation<'_>),
         rows: &Rows<'_>| {
            for row in 0..rows.len() {
                let value = rows.value(row);
                if *known.entry(value).or_insert_with(|| includes(value)) {
                    *counts.entry(rows.actor(row)).or_default() += 1;
                }
            }
            reservation.resize(counts.allocation_size() + known.allocation_size())
        };
    let mut all = Counts::new();
    for (counts, ..) in scan.fold(new, each)? {
        for (actor, count) in counts {
            *all.entry(actor).or_default() += count;
        }
    }
    Ok(all)
}
