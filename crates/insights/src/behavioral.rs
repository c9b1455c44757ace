//! Who did what a cohort asks for.

use facts::{Filters, Needs, ReadView, Zone, parse_timestamp};
use model::property::{Behaviour, Deed, Often};
use model::{ActionId, Timestamp};
use serde_json::Value as Json;
use warehouse::Numbers;

use crate::context::EventSelection;
use crate::firsts::Firsts;
use crate::limits::{MemoryReservation, QueryLimits};
use crate::scan::{Actors, Rows, Scan};
use crate::{Error, Result, sessions};

/// What a view must hold to tell who did it; refuses what makes no sense.
pub fn behavioral_needs(behaviour: &Behaviour, now: Timestamp, zone: &Zone) -> Result<Needs> {
    let mut needs = Needs::default();
    filters(behaviour, now, zone)?.needs(&mut needs);
    moment(&behaviour.since, now, zone)?;
    if let Some(until) = &behaviour.until {
        moment(until, now, zone)?;
    }
    if let Deed::Action(id) = behaviour.deed {
        needs.actions.insert(id);
    }
    Ok(needs)
}

/// The numbers of the persons who did it, as far as they have one.
pub fn matching_persons(
    behaviour: &Behaviour,
    view: &ReadView,
    limits: &QueryLimits,
) -> Result<Numbers> {
    let (now, zone) = (view.now, &view.zone);
    let mut needs = behavioral_needs(behaviour, now, zone)?;
    view.actions.values().for_each(|action| action.matcher.needs(&mut needs));
    let sessions = sessions::facts(view, limits, &needs.sessions)?;
    let view = &ReadView { sessions, ..view.clone() };
    let from = moment(&behaviour.since, now, zone)?.as_micros();
    let to = match &behaviour.until {
        Some(until) => moment(until, now, zone)?.min(now),
        None => now,
    };
    let selection = match &behaviour.deed {
        Deed::Event(event) => EventSelection::everything().named(Some([event.clone()].into())),
        Deed::Action(id) => EventSelection::everything().and(Some(action(*id, view)?)),
    };
    let selection = selection.and(filters(behaviour, now, zone)?.predicate(view)?);
    let from_then = if behaviour.often == Often::FirstTime { i64::MIN } else { from };
    let (filter, actors) = (selection.filter(from_then, to.as_micros()), Actors::Persons);
    let scan =
        Scan { view, limits, filter, actors: Some(&actors), breakdown: None, keys: Vec::new() };
    let is_person = |actor: &u32| view.persons.person(*actor).is_some();
    if behaviour.often == Often::FirstTime {
        let firsts = Firsts::of(&scan)?;
        let new = firsts.iter().filter(|(_, time, _)| *time >= from);
        return Ok(new.map(|(actor, ..)| actor).filter(is_person).collect());
    }
    let counts = counts(&scan)?.into_iter().enumerate();
    let matching_persons = counts.filter(|(_, times)| behaviour.often.fits(u64::from(*times)));
    Ok(matching_persons.map(|(actor, _)| actor as u32).filter(is_person).collect())
}

/// How often each actor was there.
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
        all.iter_mut().zip(counts).for_each(|(all, own)| *all = all.saturating_add(own));
    }
    Ok(all)
}

fn filters(behaviour: &Behaviour, now: Timestamp, zone: &Zone) -> Result<Filters> {
    let json: Json = serde_json::from_str(&behaviour.filters)
        .map_err(|_| Error::invalid("event_filters is a list of property filters."))?;
    Ok(Filters::read(&json, now, zone)?)
}

fn moment(text: &str, now: Timestamp, zone: &Zone) -> Result<Timestamp> {
    parse_timestamp(text, now, zone)
        .ok_or_else(|| Error::Invalid(format!("'{text}' is neither a date nor one such as -30d.")))
}

fn action(id: ActionId, view: &ReadView) -> Result<warehouse::Predicate> {
    match view.actions.get(&id) {
        Some(action) => Ok(action.matcher.predicate(view)?),
        None => Err(Error::Invalid(format!("It asks for action {id}, which is deleted."))),
    }
}
