//! Who is behind a number of an answer: which number is meant, and what is told of each actor.

use facts::parse_timestamp;
use hashbrown::HashMap;
use serde::Deserialize;
use serde_json::Value as Json;
use warehouse::Key;

use crate::calendar::{Buckets, Interval};
use crate::context::QueryContext;
use crate::limits::MemoryReservation;
use crate::range::Period;
use crate::scan::{Actors, Rows, Scan};
use crate::spec::{CompareFilter, Node};
use crate::{Error, Result};

/// A number of an answer, named as `InsightActorsQuery` and `FunnelsActorsQuery` name it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct DataPoint {
    series: usize,
    /// A date; of stickiness and retention a number of intervals.
    pub(crate) day: Json,
    pub(crate) breakdown: Json,
    compare: Option<Compare>,
    pub(crate) status: Option<Status>,
    /// A row of a retention.
    pub(crate) interval: Option<usize>,
    /// Accepted; there are no recordings.
    include_recordings: Option<bool>,
    pub(crate) funnel_step: Option<i64>,
    pub(crate) funnel_custom_steps: Vec<usize>,
    funnel_step_breakdown: Json,
    pub(crate) funnel_trends_drop_off: Option<bool>,
    pub(crate) funnel_trends_entrance_period_start: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Compare {
    Current,
    Previous,
}

/// What an actor is in a lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    New,
    Returning,
    Resurrecting,
    Dormant,
}

/// Who is behind a number, each once.
#[derive(Clone, Debug, Default)]
pub struct InsightActors {
    /// Groups of this type; otherwise persons.
    pub group: Option<usize>,
    pub actors: Vec<Actor>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// As [`facts::PersonIndex`] numbers them; of groups nothing.
    pub actor_no: u32,
    /// The key of a group.
    pub key: String,
    /// Events of the actor that count, where events do.
    pub events: u64,
    /// Of a retention: in which intervals after the first the actor was there.
    pub appearances: Vec<usize>,
}

impl DataPoint {
    pub fn read(json: Json) -> Result<Self> {
        serde_json::from_value(json).map_err(|why| Error::Parse(why.to_string()))
    }

    /// The series that is meant.
    pub(crate) fn node<'s>(&self, series: &'s [Node]) -> Result<&'s Node> {
        series.get(self.series).ok_or_else(|| Error::invalid("The context has no such series."))
    }

    /// The period that is meant: the question's own, or the one it is compared with.
    pub(crate) fn period(
        &self,
        context: &QueryContext<'_>,
        interval: Interval,
        compared: &CompareFilter,
    ) -> Result<Period> {
        let range = &context.base.date_range;
        let period = context.dates.period(range, interval)?;
        if self.compare != Some(Compare::Previous) {
            return Ok(period);
        }
        let previous = context.dates.previous(&period, range, compared)?;
        previous.ok_or_else(|| Error::invalid("The context compares nothing."))
    }

    /// The breakdown value that is asked for.
    pub(crate) fn value(&self) -> Option<&Json> {
        [&self.breakdown, &self.funnel_step_breakdown].into_iter().find(|value| !value.is_null())
    }

    /// Whether a breakdown value, as results show it, is the one asked for. A list of one is the
    /// same as that one, and a number as its digits.
    pub(crate) fn is_value(&self, shown: &Json) -> bool {
        fn bare(json: &Json) -> Vec<String> {
            let text = |json: &Json| match json {
                Json::String(text) => text.clone(),
                other => other.to_string(),
            };
            match json {
                Json::Array(all) => all.iter().map(text).collect(),
                one => vec![text(one)],
            }
        }
        self.value().is_none_or(|wanted| bare(wanted) == bare(shown))
    }

    /// The bucket that is asked for; none for all.
    pub(crate) fn bucket(
        &self,
        context: &QueryContext<'_>,
        day: &Json,
        buckets: &Buckets,
    ) -> Result<Option<usize>> {
        let text = match day {
            Json::Null => return Ok(None),
            Json::String(text) => text,
            _ => return Err(Error::invalid("day is a date of the answer.")),
        };
        let view = context.view;
        let at = parse_timestamp(text, view.now, &view.zone);
        let bucket = at.and_then(|at| buckets.of(at.as_micros()));
        match bucket {
            Some(bucket) => Ok(Some(bucket)),
            None => Err(Error::Invalid(format!("The answer has no '{text}'."))),
        }
    }

    /// How many intervals are asked for, or after how many.
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
    /// Actors that have no name of their own cannot be told.
    pub(crate) fn new(actors: &Actors, found: impl IntoIterator<Item = Actor>) -> Result<Self> {
        let group = match actors {
            Actors::Persons => None,
            Actors::Texts(Key::Group(index), _) => Some(*index),
            _ => {
                return Err(Error::invalid("What is counted here are neither persons nor groups."));
            }
        };
        let named = |actor: Actor| Actor { key: actors.text(actor.actor_no), ..actor };
        let mut actors: Vec<Actor> = found.into_iter().map(named).collect();
        actors.sort_by_key(|actor| actor.actor_no);
        Ok(Self { group, actors })
    }
}

impl Actor {
    pub(crate) fn of((actor_no, events): (u32, u64)) -> Self {
        Self { actor_no, events, ..Self::default() }
    }
}

/// How many events each actor has, of those whose breakdown value is `wanted`.
pub(crate) fn count(
    scan: &Scan<'_>,
    wanted: impl Fn(u32) -> bool + Sync,
) -> Result<HashMap<u32, u64>> {
    type Counts = HashMap<u32, u64>;
    let new = || (Counts::new(), HashMap::<u32, bool>::new(), scan.limits.reserve());
    let each =
        |(counts, known, reservation): &mut (Counts, HashMap<u32, bool>, MemoryReservation<'_>),
         rows: &Rows<'_>| {
            for row in 0..rows.len() {
                let value = rows.value(row);
                if *known.entry(value).or_insert_with(|| wanted(value)) {
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
