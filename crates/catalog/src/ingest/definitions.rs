//! Writes the events, properties and volumes that a batch observed.

use std::collections::{BTreeMap, BTreeSet};

use model::definition::{Day, Observations, PropertyOwner, PropertyType};
use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::Result;
use crate::db::bulk::Rows;
use crate::db::{Tx, Value, args};
use crate::definitions::owner_columns;
use crate::definitions::quota::{Charged, DefinitionKind, DefinitionQuota};

/// `last_seen_at` has a resolution of one hour, to avoid a write per batch, and to make replays
/// idempotent.
const HOUR_MICROS: i64 = 3_600_000_000;

/// Pairs per statement while little quota is left.
const PAIRS_AT_ONCE: usize = 256;

/// Names of one batch beyond the quota, by project.
pub(super) type Skipped = BTreeMap<ProjectId, u64>;

/// Writes definitions within the quota, and counts the rest.
pub(super) async fn write(
    tx: &mut Tx,
    observations: &Observations,
    quota: &DefinitionQuota,
    now: Timestamp,
) -> Result<Skipped> {
    let mut skipped = Skipped::new();
    write_events(tx, observations, quota, &mut skipped, now).await?;
    write_properties(tx, observations, quota, &mut skipped, now).await?;
    write_volumes(tx, observations, quota).await?;
    write_pairs(tx, observations, quota).await?;
    Ok(skipped)
}

/// The remaining quota of a project: cached, or counted if `wanted` may exceed it.
async fn remaining_for(
    tx: &mut Tx,
    quota: &DefinitionQuota,
    project: ProjectId,
    what: DefinitionKind,
    wanted: usize,
) -> Result<i64> {
    if let Some(known) = quota.cached(project, what, wanted as i64) {
        return Ok(known);
    }
    let table = match what {
        DefinitionKind::Event => "event_definitions",
        DefinitionKind::Property => "property_definitions",
        DefinitionKind::Pair => "event_properties",
    };
    // Stops at the limit: an old project may have millions.
    let sql = format!(
        "SELECT COUNT(*) AS n FROM (SELECT 1 AS one FROM {table} WHERE project_id = $1 LIMIT $2) c"
    );
    let max = quota.max(what);
    let rows = tx.all(sql, args![project, max]).await?;
    let count = rows.first().map_or(Ok(0), |row| row.get::<i64>("n"))?;
    quota.set_counted(project, what, max - count);
    Ok((max - count).max(0))
}

/// The names that are defined already, and as many others as the quota allows. Skips the lookup if
/// all of them fit.
async fn select_within_quota<'n>(
    tx: &mut Tx,
    (sql, fixed): (&str, Vec<Value>),
    names: &BTreeSet<&'n str>,
    quota: &mut i64,
) -> Result<(BTreeSet<&'n str>, Charged)> {
    if names.len() as i64 <= *quota {
        // Some may exist already; then the real quota is larger.
        *quota -= names.len() as i64;
        return Ok((names.clone(), Charged::SomeExisting));
    }
    let wanted: Vec<Value> = names.iter().map(|name| (*name).into()).collect();
    let rows = tx.all_in(sql, fixed, &wanted).await?;
    let existing = rows.iter().map(|row| row.get("name")).collect::<Result<BTreeSet<String>>>()?;
    let mut select_within_quota = BTreeSet::new();
    for name in names {
        if existing.contains(*name) {
            select_within_quota.insert(*name);
        } else if *quota > 0 {
            *quota -= 1;
            select_within_quota.insert(*name);
        }
    }
    Ok((select_within_quota, Charged::AllNew))
}

const EVENTS_NAMED: &str =
    "SELECT name FROM event_definitions WHERE project_id = $1 AND name IN {list}";

async fn write_pairs(
    tx: &mut Tx,
    observations: &Observations,
    quota: &DefinitionQuota,
) -> Result<()> {
    let mut pairs: BTreeMap<ProjectId, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (project, event, property) in &observations.pairs {
        pairs.entry(*project).or_default().insert((event, property));
    }
    let head = "INSERT INTO event_properties (project_id, event, property)";
    for (project, pairs) in pairs {
        let mut remaining =
            remaining_for(tx, quota, project, DefinitionKind::Pair, pairs.len()).await?;
        let pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
        let all = remaining >= pairs.len() as i64;
        for chunk in pairs.chunks(if all { pairs.len() } else { PAIRS_AT_ONCE }) {
            let chunk = &chunk[..chunk.len().min(usize::try_from(remaining).unwrap_or(0))];
            let mut rows = Rows::new(3);
            for (event, property) in chunk {
                rows.push(args![project, *event, *property]);
            }
            // Existing pairs use no quota.
            remaining -= tx.write_counted(head, rows, "ON CONFLICT DO NOTHING").await? as i64;
            if remaining <= 0 {
                break;
            }
        }
        quota.record_use(project, DefinitionKind::Pair, remaining, Charged::AllNew);
    }
    Ok(())
}

async fn write_events(
    tx: &mut Tx,
    observations: &Observations,
    quota: &DefinitionQuota,
    skipped: &mut Skipped,
    now: Timestamp,
) -> Result<()> {
    // One statement must not write a row twice. Keeping the first observation of the latest hour
    // makes an interrupted run equal to an uninterrupted one.
    let mut observed: BTreeMap<(ProjectId, &str), (Timestamp, Timestamp)> = BTreeMap::new();
    for event in &observations.events {
        let (_, last) =
            observed.entry((event.project, &event.name)).or_insert((event.at, event.at));
        if hour(event.at) > hour(*last) {
            *last = event.at;
        }
    }
    let mut names: BTreeMap<ProjectId, BTreeSet<&str>> = BTreeMap::new();
    for (project, name) in observed.keys() {
        names.entry(*project).or_default().insert(name);
    }
    let mut fits: BTreeMap<ProjectId, BTreeSet<&str>> = BTreeMap::new();
    for (project, names) in names {
        let mut remaining =
            remaining_for(tx, quota, project, DefinitionKind::Event, names.len()).await?;
        let (accepted, charged) =
            select_within_quota(tx, (EVENTS_NAMED, args![project]), &names, &mut remaining).await?;
        quota.record_use(project, DefinitionKind::Event, remaining, charged);
        count_skipped(skipped, project, names.len() - accepted.len());
        fits.insert(project, accepted);
    }
    let mut rows = Rows::new(10);
    for ((project, name), (first, last)) in observed {
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

fn count_skipped(skipped: &mut Skipped, project: ProjectId, names: usize) {
    if names > 0 {
        *skipped.entry(project).or_default() += names as u64;
    }
}

/// Skips volumes of undefined events, which nothing displays.
async fn write_volumes(
    tx: &mut Tx,
    observations: &Observations,
    quota: &DefinitionQuota,
) -> Result<()> {
    if let Some(Day(first)) = observations.volumes_since {
        tx.run("DELETE FROM event_volumes WHERE day < $1", args![first]).await?;
    }
    let mut counted: Vec<(ProjectId, &str, Day, i64)> = Vec::new();
    let mut remaining: BTreeMap<ProjectId, i64> = BTreeMap::new();
    for (project, _) in observations.volumes.keys() {
        if !remaining.contains_key(project) {
            remaining.insert(
                *project,
                remaining_for(tx, quota, *project, DefinitionKind::Event, 1).await?,
            );
        }
    }
    for ((project, day), counts) in &observations.volumes {
        // A project with quota left has defined all of its events.
        let counts: Vec<(&String, &i64)> = match remaining.get(project) {
            Some(1..) => counts.iter().collect(),
            _ => {
                let names = counts.keys().map(String::as_str).collect();
                let of = (EVENTS_NAMED, args![*project]);
                let (defined, _) = select_within_quota(tx, of, &names, &mut 0).await?;
                counts.iter().filter(|(name, _)| defined.contains(name.as_str())).collect()
            }
        };
        counted.extend(counts.iter().map(|(name, count)| (*project, name.as_str(), *day, **count)));
    }
    // Sorted by index order, for locality.
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
    observations: &Observations,
    quota: &DefinitionQuota,
    skipped: &mut Skipped,
    now: Timestamp,
) -> Result<()> {
    let mut observed: BTreeMap<(ProjectId, PropertyOwner, &str), Option<PropertyType>> =
        BTreeMap::new();
    for property in &observations.properties {
        let kind = observed.entry((property.project, property.owner, &property.name)).or_default();
        // The first typed value decides.
        *kind = kind.or(property.kind);
    }
    let mut names: BTreeMap<ProjectId, BTreeMap<PropertyOwner, BTreeSet<&str>>> = BTreeMap::new();
    for (project, owner, name) in observed.keys() {
        names.entry(*project).or_default().entry(*owner).or_default().insert(name);
    }
    let mut fits: BTreeMap<(ProjectId, PropertyOwner), BTreeSet<&str>> = BTreeMap::new();
    for (project, owners) in names {
        let wanted = owners.values().map(BTreeSet::len).sum();
        let mut remaining =
            remaining_for(tx, quota, project, DefinitionKind::Property, wanted).await?;
        let mut charged = Charged::AllNew;
        for (owner, names) in owners {
            let (column, index) = owner_columns(owner);
            let sql = "SELECT name FROM property_definitions WHERE project_id = $1 \
                       AND owner = $2 AND type_index = $3 AND name IN {list}";
            let of = (sql, args![project, column, index]);
            let (accepted, owner_charged) =
                select_within_quota(tx, of, &names, &mut remaining).await?;
            if owner_charged == Charged::SomeExisting {
                charged = Charged::SomeExisting;
            }
            count_skipped(skipped, project, names.len() - accepted.len());
            fits.insert((project, owner), accepted);
        }
        quota.record_use(project, DefinitionKind::Property, remaining, charged);
    }
    let mut rows = Rows::new(9);
    for ((project, owner, name), kind) in observed {
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
