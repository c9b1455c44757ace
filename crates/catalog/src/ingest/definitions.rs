//! What traffic shows about events and properties.

use std::collections::{BTreeMap, BTreeSet};

use model::definition::{Day, PropertyOwner, PropertyType, Sightings};
use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::Result;
use crate::db::bulk::Rows;
use crate::db::{Tx, Value, args};
use crate::definitions::owner_columns;
use crate::definitions::quota::{Defined, DefinitionQuota, Needed};

/// A definition says when its event was last seen to the hour; more would be a write for every
/// batch. It also makes a replay write what the first run did.
const HOUR_MICROS: i64 = 3_600_000_000;

/// Pairs of one statement while there is little room.
const PAIRS_AT_ONCE: usize = 256;

/// Names of one batch that were left out, by project.
pub(super) type LeftOut = BTreeMap<ProjectId, u64>;

/// Writes what there is room for; the rest is counted.
pub(super) async fn write(
    tx: &mut Tx,
    sightings: &Sightings,
    room: &DefinitionQuota,
    now: Timestamp,
) -> Result<LeftOut> {
    let mut left_out = LeftOut::new();
    write_events(tx, sightings, room, &mut left_out, now).await?;
    write_properties(tx, sightings, room, &mut left_out, now).await?;
    write_volumes(tx, sightings, room).await?;
    write_pairs(tx, sightings, room).await?;
    Ok(left_out)
}

/// How many more a project may have: as far as that is known, or counted if these may be too many.
async fn room_for(
    tx: &mut Tx,
    room: &DefinitionQuota,
    project: ProjectId,
    what: Defined,
    wanted: usize,
) -> Result<i64> {
    if let Some(known) = room.known(project, what, wanted as i64) {
        return Ok(known);
    }
    let table = match what {
        Defined::Event => "event_definitions",
        Defined::Property => "property_definitions",
        Defined::Pair => "event_properties",
    };
    // Not more than matters: an old project may have millions.
    let sql = format!(
        "SELECT COUNT(*) AS n FROM (SELECT 1 AS one FROM {table} WHERE project_id = $1 LIMIT $2) c"
    );
    let max = room.max(what);
    let rows = tx.all(sql, args![project, max]).await?;
    let count = rows.first().map_or(Ok(0), |row| row.get::<i64>("n"))?;
    room.set_counted(project, what, max - count);
    Ok((max - count).max(0))
}

/// Of these names, those that are defined already and as many others as there is room for. Nobody
/// looks which are there when all of them fit.
async fn chosen<'n>(
    tx: &mut Tx,
    (sql, fixed): (&str, Vec<Value>),
    names: &BTreeSet<&'n str>,
    room: &mut i64,
) -> Result<(BTreeSet<&'n str>, Needed)> {
    if names.len() as i64 <= *room {
        // Some may be there already; then there is more room than is thought.
        *room -= names.len() as i64;
        return Ok((names.clone(), Needed::Some));
    }
    let wanted: Vec<Value> = names.iter().map(|name| (*name).into()).collect();
    let rows = tx.all_in(sql, fixed, &wanted).await?;
    let known = rows.iter().map(|row| row.get("name")).collect::<Result<BTreeSet<String>>>()?;
    let mut chosen = BTreeSet::new();
    for name in names {
        if known.contains(*name) {
            chosen.insert(*name);
        } else if *room > 0 {
            *room -= 1;
            chosen.insert(*name);
        }
    }
    Ok((chosen, Needed::All))
}

const EVENTS_NAMED: &str =
    "SELECT name FROM event_definitions WHERE project_id = $1 AND name IN {list}";

async fn write_pairs(tx: &mut Tx, sightings: &Sightings, room: &DefinitionQuota) -> Result<()> {
    let mut pairs: BTreeMap<ProjectId, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (project, event, property) in &sightings.pairs {
        pairs.entry(*project).or_default().insert((event, property));
    }
    let head = "INSERT INTO event_properties (project_id, event, property)";
    for (project, pairs) in pairs {
        let mut left = room_for(tx, room, project, Defined::Pair, pairs.len()).await?;
        let pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
        let all = left >= pairs.len() as i64;
        for some in pairs.chunks(if all { pairs.len() } else { PAIRS_AT_ONCE }) {
            let some = &some[..some.len().min(usize::try_from(left).unwrap_or(0))];
            let mut rows = Rows::new(3);
            for (event, property) in some {
                rows.push(args![project, *event, *property]);
            }
            // Those that are there already take no room.
            left -= tx.write_counted(head, rows, "ON CONFLICT DO NOTHING").await? as i64;
            if left <= 0 {
                break;
            }
        }
        room.take(project, Defined::Pair, left, Needed::All);
    }
    Ok(())
}

async fn write_events(
    tx: &mut Tx,
    sightings: &Sightings,
    room: &DefinitionQuota,
    left_out: &mut LeftOut,
    now: Timestamp,
) -> Result<()> {
    // One row must not be written twice by one statement; the first sighting of the latest hour
    // is the one that a run without interruption keeps.
    let mut seen: BTreeMap<(ProjectId, &str), (Timestamp, Timestamp)> = BTreeMap::new();
    for event in &sightings.events {
        let (_, last) = seen.entry((event.project, &event.name)).or_insert((event.at, event.at));
        if hour(event.at) > hour(*last) {
            *last = event.at;
        }
    }
    let mut names: BTreeMap<ProjectId, BTreeSet<&str>> = BTreeMap::new();
    for (project, name) in seen.keys() {
        names.entry(*project).or_default().insert(name);
    }
    let mut fits: BTreeMap<ProjectId, BTreeSet<&str>> = BTreeMap::new();
    for (project, names) in names {
        let mut left = room_for(tx, room, project, Defined::Event, names.len()).await?;
        let (own, needed) = chosen(tx, (EVENTS_NAMED, args![project]), &names, &mut left).await?;
        room.take(project, Defined::Event, left, needed);
        note(left_out, project, names.len() - own.len());
        fits.insert(project, own);
    }
    let mut rows = Rows::new(10);
    for ((project, name), (first, last)) in seen {
        if !fits.get(&project).is_some_and(|names| names.contains(name)) {
            continue;
        }
        rows.push(args![
            Uuid::now_v7(),
            project,
            name,
            false,
            false,
            "allow",
            "[]",
            first,
            last,
            now,
        ]);
    }
    let head = "INSERT INTO event_definitions (id, project_id, name, verified, hidden, \
                enforcement_mode, default_columns, created_at, last_seen_at, updated_at)";
    let tail = format!(
        "ON CONFLICT (project_id, name) DO UPDATE \
         SET created_at = COALESCE(event_definitions.created_at, excluded.created_at), \
         last_seen_at = excluded.last_seen_at WHERE event_definitions.last_seen_at IS NULL \
         OR excluded.last_seen_at / {HOUR_MICROS} > event_definitions.last_seen_at / {HOUR_MICROS}"
    );
    tx.write(head, rows, &tail).await
}

fn note(left_out: &mut LeftOut, project: ProjectId, names: usize) {
    if names > 0 {
        *left_out.entry(project).or_default() += names as u64;
    }
}

/// Events that are not defined are not counted: nobody would see it.
async fn write_volumes(tx: &mut Tx, sightings: &Sightings, room: &DefinitionQuota) -> Result<()> {
    if let Some(Day(first)) = sightings.volumes_since {
        tx.run("DELETE FROM event_volumes WHERE day < $1", args![first]).await?;
    }
    let mut counted: Vec<(ProjectId, &str, Day, i64)> = Vec::new();
    let mut rooms: BTreeMap<ProjectId, i64> = BTreeMap::new();
    for (project, _) in sightings.volumes.keys() {
        if !rooms.contains_key(project) {
            rooms.insert(*project, room_for(tx, room, *project, Defined::Event, 1).await?);
        }
    }
    for ((project, day), counts) in &sightings.volumes {
        // Any of a project that has room is defined.
        let counts: Vec<(&String, &i64)> = match rooms.get(project) {
            Some(1..) => counts.iter().collect(),
            _ => {
                let names = counts.keys().map(String::as_str).collect();
                let of = (EVENTS_NAMED, args![*project]);
                let (defined, _) = chosen(tx, of, &names, &mut 0).await?;
                counts.iter().filter(|(name, _)| defined.contains(name.as_str())).collect()
            }
        };
        counted.extend(counts.iter().map(|(name, count)| (*project, name.as_str(), *day, **count)));
    }
    // Neighbours of the index together.
    counted.sort_unstable();
    let mut rows = Rows::new(4);
    for (project, name, Day(day), count) in counted {
        rows.push(args![project, name, day, count]);
    }
    let head = "INSERT INTO event_volumes (project_id, event, day, events)";
    let tail = "ON CONFLICT (project_id, event, day) DO UPDATE \
                SET events = event_volumes.events + excluded.events";
    tx.write(head, rows, tail).await
}

const fn hour(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(HOUR_MICROS)
}

async fn write_properties(
    tx: &mut Tx,
    sightings: &Sightings,
    room: &DefinitionQuota,
    left_out: &mut LeftOut,
    now: Timestamp,
) -> Result<()> {
    let mut seen: BTreeMap<(ProjectId, PropertyOwner, &str), Option<PropertyType>> =
        BTreeMap::new();
    for property in &sightings.properties {
        let kind = seen.entry((property.project, property.owner, &property.name)).or_default();
        // The first value that has a type decides.
        *kind = kind.or(property.kind);
    }
    let mut names: BTreeMap<ProjectId, BTreeMap<PropertyOwner, BTreeSet<&str>>> = BTreeMap::new();
    for (project, owner, name) in seen.keys() {
        names.entry(*project).or_default().entry(*owner).or_default().insert(name);
    }
    let mut fits: BTreeMap<(ProjectId, PropertyOwner), BTreeSet<&str>> = BTreeMap::new();
    for (project, owners) in names {
        let wanted = owners.values().map(BTreeSet::len).sum();
        let mut left = room_for(tx, room, project, Defined::Property, wanted).await?;
        let mut needed = Needed::All;
        for (owner, names) in owners {
            let (column, index) = owner_columns(owner);
            let sql = "SELECT name FROM property_definitions WHERE project_id = $1 \
                       AND owner = $2 AND type_index = $3 AND name IN {list}";
            let of = (sql, args![project, column, index]);
            let (own, own_needed) = chosen(tx, of, &names, &mut left).await?;
            if own_needed == Needed::Some {
                needed = Needed::Some;
            }
            note(left_out, project, names.len() - own.len());
            fits.insert((project, owner), own);
        }
        room.take(project, Defined::Property, left, needed);
    }
    let mut rows = Rows::new(9);
    for ((project, owner, name), kind) in seen {
        if !fits.get(&(project, owner)).is_some_and(|names| names.contains(name)) {
            continue;
        }
        let (owner, index) = owner_columns(owner);
        rows.push(args![
            Uuid::now_v7(),
            project,
            owner,
            index,
            name,
            kind.map(PropertyType::as_str),
            false,
            false,
            now,
        ]);
    }
    let head = "INSERT INTO property_definitions (id, project_id, owner, type_index, name, \
                property_type, verified, hidden, updated_at)";
    let tail = "ON CONFLICT (project_id, owner, type_index, name) DO UPDATE \
                SET property_type = excluded.property_type \
                WHERE property_definitions.property_type IS NULL \
                AND excluded.property_type IS NOT NULL";
    tx.write(head, rows, tail).await
}
