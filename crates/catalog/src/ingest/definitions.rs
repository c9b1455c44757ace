//! What traffic shows about events and properties.

use std::collections::BTreeMap;

use model::definition::{Day, PropertyOwner, PropertyType, Sightings};
use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::Result;
use crate::bulk::Rows;
use crate::db::{Tx, args};

/// A definition says when its event was last seen to the hour; more would be a write for every
/// batch. It also makes a replay write what the first run did.
const HOUR_MICROS: i64 = 3_600_000_000;

/// How the table names an owner.
pub(crate) const fn owner_columns(owner: PropertyOwner) -> (&'static str, i64) {
    match owner {
        PropertyOwner::Event => ("event", -1),
        PropertyOwner::Person => ("person", -1),
        PropertyOwner::Group(index) => ("group", index as i64),
    }
}

pub(super) async fn write(tx: &mut Tx, sightings: &Sightings, now: Timestamp) -> Result<()> {
    write_events(tx, sightings, now).await?;
    write_properties(tx, sightings, now).await?;
    write_volumes(tx, sightings).await?;
    let mut rows = Rows::new(3);
    for (project, event, property) in &sightings.pairs {
        rows.push(args![*project, event.as_str(), property.as_str()]);
    }
    let head = "INSERT INTO event_properties (project_id, event, property)";
    tx.write(head, rows, "ON CONFLICT DO NOTHING").await
}

async fn write_events(tx: &mut Tx, sightings: &Sightings, now: Timestamp) -> Result<()> {
    // One row must not be written twice by one statement; the first sighting of the latest hour
    // is the one that a run without interruption keeps.
    let mut seen: BTreeMap<(ProjectId, &str), (Timestamp, Timestamp)> = BTreeMap::new();
    for event in &sightings.events {
        let (_, last) = seen.entry((event.project, &event.name)).or_insert((event.at, event.at));
        if hour(event.at) > hour(*last) {
            *last = event.at;
        }
    }
    let mut rows = Rows::new(10);
    for ((project, name), (first, last)) in seen {
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

async fn write_volumes(tx: &mut Tx, sightings: &Sightings) -> Result<()> {
    if let Some(Day(first)) = sightings.volumes_since {
        tx.run("DELETE FROM event_volumes WHERE day < $1", args![first]).await?;
    }
    let mut counted: Vec<(ProjectId, &str, Day, i64)> = Vec::new();
    for ((project, day), counts) in &sightings.volumes {
        counted.extend(counts.iter().map(|(name, count)| (*project, name.as_str(), *day, *count)));
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

async fn write_properties(tx: &mut Tx, sightings: &Sightings, now: Timestamp) -> Result<()> {
    let mut seen: BTreeMap<(ProjectId, PropertyOwner, &str), Option<PropertyType>> =
        BTreeMap::new();
    for property in &sightings.properties {
        let kind = seen.entry((property.project, property.owner, &property.name)).or_default();
        // The first value that has a type decides.
        *kind = kind.or(property.kind);
    }
    let mut rows = Rows::new(9);
    for ((project, owner, name), kind) in seen {
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
