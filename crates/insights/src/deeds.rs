//! Who did what a cohort asks for.

use facts::{Filters, Needs, World, Zone, parse_moment};
use model::property::{Behaviour, Deed, Often};
use model::{ActionId, Timestamp};
use serde_json::Value as Json;
use warehouse::Numbers;

use crate::firsts::Firsts;
use crate::question::Meant;
use crate::scan::{Actors, Rows, Scan};
use crate::stop::{Held, Stop};
use crate::{Error, Result, sessions};

/// What a world must hold to tell who did it; refuses what makes no sense.
pub fn deed_needs(behaviour: &Behaviour, now: Timestamp, zone: &Zone) -> Result<Needs> {
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
pub fn doers(behaviour: &Behaviour, world: &World, stop: &Stop) -> Result<Numbers> {
    let (now, zone) = (world.now, &world.zone);
    let mut needs = deed_needs(behaviour, now, zone)?;
    world.actions.values().for_each(|action| action.test.needs(&mut needs));
    let sessions = sessions::facts(world, stop, &needs.sessions)?;
    let world = &World { sessions, ..world.clone() };
    let from = moment(&behaviour.since, now, zone)?.as_micros();
    let to = match &behaviour.until {
        Some(until) => moment(until, now, zone)?.min(now),
        None => now,
    };
    let meant = match &behaviour.deed {
        Deed::Event(event) => Meant::everything().named(Some([event.clone()].into())),
        Deed::Action(id) => Meant::everything().and(Some(action(*id, world)?)),
    };
    let meant = meant.and(filters(behaviour, now, zone)?.predicate(world)?);
    let from_then = if behaviour.often == Often::FirstTime { i64::MIN } else { from };
    let (filter, actors) = (meant.filter(from_then, to.as_micros()), Actors::Persons);
    let scan =
        Scan { world, stop, filter, actors: Some(&actors), breakdown: None, keys: Vec::new() };
    let is_person = |actor: &u32| world.people.person(*actor).is_some();
    if behaviour.often == Often::FirstTime {
        let firsts = Firsts::of(&scan)?;
        let new = firsts.iter().filter(|(_, time, _)| *time >= from);
        return Ok(new.map(|(actor, ..)| actor).filter(is_person).collect());
    }
    let counts = counts(&scan)?.into_iter().enumerate();
    let doers = counts.filter(|(_, times)| behaviour.often.fits(u64::from(*times)));
    Ok(doers.map(|(actor, _)| actor as u32).filter(is_person).collect())
}

/// How often each actor was there.
fn counts(scan: &Scan<'_>) -> Result<Vec<u32>> {
    let new = || (Vec::<u32>::new(), scan.stop.hold());
    let each = |(counts, held): &mut (Vec<u32>, Held<'_>), rows: &Rows<'_>| {
        for actor in rows.actors {
            let at = *actor as usize;
            if at >= counts.len() {
                counts.resize(at + 1, 0);
            }
            counts[at] = counts[at].saturating_add(1);
        }
        held.set(counts.capacity() * 4)
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
    parse_moment(text, now, zone)
        .ok_or_else(|| Error::Invalid(format!("'{text}' is neither a date nor one such as -30d.")))
}

fn action(id: ActionId, world: &World) -> Result<warehouse::Predicate> {
    match world.actions.get(&id) {
        Some(action) => Ok(action.test.predicate(world)?),
        None => Err(Error::Invalid(format!("It asks for action {id}, which is deleted."))),
    }
}
