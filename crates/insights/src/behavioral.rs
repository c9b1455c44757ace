//! Behavioral filters of cohorts: finds the persons whose events match.

use facts::{Filters, Needs, QueryContext, ReadView, Zone, parse_timestamp, read_filters};
use model::filter_expr::FilterExpr;
use model::property::{BehavioralFilter, EventOrAction, Frequency};
use model::{ActionId, Timestamp};
use serde_json::Value as Json;
use warehouse::DenseIdSet;

use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::context::EventSelection;
use crate::scan::first_events::FirstEvents;
use crate::scan::sessions;
use crate::scan::{ActorSource, Rows, Scan};
use crate::{Error, Result};

/// What must be loaded to evaluate the filter; an error if the filter is invalid.
pub fn behavioral_needs(
    behaviour: &BehavioralFilter,
    now: Timestamp,
    zone: &Zone,
) -> Result<Needs> {
    let mut needs = Needs::default();
    let filters = filters(behaviour, now, zone)?;
    Filters::compile(&filters, zone)?;
    needs.add_filters(&filters);
    timestamp(&behaviour.since, now, zone)?;
    if let Some(until) = &behaviour.until {
        timestamp(until, now, zone)?;
    }
    if let EventOrAction::Action(id) = behaviour.target {
        needs.actions.insert(id);
    }
    Ok(needs)
}

/// The events that a behavioral filter is about, apart from their name or action.
#[derive(Clone, Debug)]
pub struct Behavior {
    /// The first and the last time.
    pub from: Timestamp,
    pub to: Timestamp,
    pub filters: FilterExpr,
}

/// Reads a filter's dates and conditions.
pub fn behavior(behaviour: &BehavioralFilter, context: &QueryContext) -> Result<Behavior> {
    let (now, zone) = (context.now, &context.zone);
    let to = match &behaviour.until {
        Some(until) => timestamp(until, now, zone)?.min(now),
        None => now,
    };
    let from = timestamp(&behaviour.since, now, zone)?;
    Ok(Behavior { from, to, filters: filters(behaviour, now, zone)? })
}

/// Person numbers of the persons that match the filter. Distinct ids without a person are dropped.
pub fn matching_persons(
    behaviour: &BehavioralFilter,
    view: &ReadView,
    limits: &QueryLimits,
) -> Result<DenseIdSet> {
    let (now, zone) = (view.context.now, &view.context.zone);
    let mut needs = behavioral_needs(behaviour, now, zone)?;
    view.context.actions.values().for_each(|action| needs.add_action(&action.events));
    let sessions = sessions::session_facts(view, limits, &needs.sessions)?;
    let view = &ReadView { sessions, ..view.clone() };
    let Behavior { from, to, filters } = behavior(behaviour, &view.context)?;
    let from = from.as_micros();
    let selection = match &behaviour.target {
        EventOrAction::Event(event) => {
            EventSelection::all().with_names(Some([event.clone()].into()))
        }
        EventOrAction::Action(id) => EventSelection::all().and(Some(action(*id, view)?)),
    };
    let selection = selection.and(Filters::compile(&filters, zone)?.predicate(view)?);
    let from_then = if behaviour.frequency == Frequency::FirstTime { i64::MIN } else { from };
    let (filter, actors) = (selection.filter(from_then, to.as_micros()), ActorSource::Persons);
    let scan = Scan {
        view,
        limits,
        filter,
        actors: Some(&actors),
        breakdown: None,
        keys: Vec::new(),
        uuids: false,
    };
    let is_person = |actor: &u32| view.persons.person(*actor).is_some();
    if behaviour.frequency == Frequency::FirstTime {
        let firsts = FirstEvents::scan(&scan)?;
        let new = firsts.iter().filter(|(_, time, _)| *time >= from);
        return Ok(new.map(|(actor, ..)| actor).filter(is_person).collect());
    }
    let counts = counts(&scan)?.into_iter().enumerate();
    let matching_persons = counts.filter(|(_, times)| behaviour.frequency.fits(u64::from(*times)));
    Ok(matching_persons.map(|(actor, _)| actor as u32).filter(is_person).collect())
}

/// Events by actor number.
fn counts(scan: &Scan<'_>) -> Result<Vec<u32>> {
    let new = || (Vec::<u32>::new(), scan.limits.reserve());
    let each = |(counts, reservation): &mut (Vec<u32>, MemoryReservation<'_>), rows: &Rows<'_>| {
        for actor in rows.actors {
            let at = *actor as usize;
            if at >= counts.len() {
                counts.resize(at + 1, 0);
            }
            counts[at] = counts[at].saturating_add(1);
        }
        reservation.resize(counts.capacity() * 4)
    };
    let mut all: Vec<u32> = Vec::new();
    for (counts, _) in scan.fold(new, each)? {
        all.resize(all.len().max(counts.len()), 0);
        all.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }
    Ok(all)
}

fn filters(behaviour: &BehavioralFilter, now: Timestamp, zone: &Zone) -> Result<FilterExpr> {
    let json: Json = serde_json::from_str(&behaviour.filters)
        .map_err(|_| Error::invalid("event_filters is a list of property filters."))?;
    Ok(read_filters(&json, now, zone)?)
}

fn timestamp(text: &str, now: Timestamp, zone: &Zone) -> Result<Timestamp> {
    parse_timestamp(text, now, zone)
        .ok_or_else(|| Error::Invalid(format!("'{text}' is neither a date nor one such as -30d.")))
}

fn action(id: ActionId, view: &ReadView) -> Result<warehouse::Predicate> {
    match view.actions.get(&id) {
        Some(action) => Ok(action.predicate(view)?),
        None => {
            Err(Error::Invalid(format!("The filter references action {id}, which is deleted.")))
        }
    }
}
