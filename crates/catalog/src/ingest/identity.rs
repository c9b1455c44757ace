//! Writes the persons and distinct ids of a batch.

use std::collections::{BTreeMap, HashSet};

use model::ProjectId;
use model::person::{DistinctId, IdentityChanges, PersonNo};

use crate::Result;
use crate::cohorts::members;
use crate::db::bulk::Rows;
use crate::db::{Tx, Value, args};
use crate::flags::hash_keys;

pub(super) async fn write(
    tx: &mut Tx,
    project: ProjectId,
    changes: &IdentityChanges,
) -> Result<()> {
    write_merges(tx, project, &changes.merges).await?;
    hash_keys::move_merged(tx, project, &changes.merges).await?;
    members::remove_deleted(tx, project, &changes.deleted).await?;
    let removed =
        changes.merges.iter().map(|(removed, _)| *removed).chain(changes.deleted.iter().copied());
    let removed: Vec<Value> = removed.map(Into::into).collect();
    let sql = "DELETE FROM persons WHERE project_id = $1 AND no IN {list}";
    tx.run_in(sql, args![project], &removed).await?;
    write_persons(tx, project, changes).await?;
    write_ids(tx, project, &changes.ids).await?;
    let sql = "INSERT INTO project_numbers (project_id, next_distinct, next_person) \
               VALUES ($1, $2, $3) ON CONFLICT (project_id) DO UPDATE \
               SET next_distinct = excluded.next_distinct, next_person = excluded.next_person";
    let (distinct, person) = (changes.next_distinct, changes.next_person);
    tx.run(sql, args![project, i64::from(distinct), i64::from(person)]).await?;
    Ok(())
}

/// Moves the distinct ids of merged persons that the batch did not load. Resolves chains of merges
/// first, so that one statement covers many.
async fn write_merges(
    tx: &mut Tx,
    project: ProjectId,
    moves: &[(PersonNo, PersonNo)],
) -> Result<()> {
    let mut ends: BTreeMap<PersonNo, (PersonNo, i64)> = BTreeMap::new();
    for (gone, into) in moves.iter().rev() {
        let (end, hops) = ends.get(into).copied().unwrap_or((*into, 0));
        ends.insert(*gone, (end, hops + 1));
    }
    let lists = ends.iter().map(|(gone, (end, _))| (*gone, *end)).collect();
    members::move_merged(tx, project, &lists).await?;
    let mut rows = Rows::new(4);
    for (gone, (end, hops)) in ends {
        rows.push(args![project, gone, end, hops]);
    }
    let tail = ") UPDATE distinct_ids SET person_no = moves.into_no, \
                version = distinct_ids.version + moves.hops FROM moves \
                WHERE distinct_ids.project_id = moves.project_id \
                AND distinct_ids.person_no = moves.gone";
    tx.write("WITH moves (project_id, gone, into_no, hops) AS (", rows, tail).await
}

async fn write_persons(tx: &mut Tx, project: ProjectId, changes: &IdentityChanges) -> Result<()> {
    const KEYS: &[&str] = &["project_id", "no"];
    const CHANGING: &[&str] = &["properties", "is_identified", "version"];
    let (mut same, mut renewed, mut new) = (Rows::new(5), Rows::new(7), Rows::new(7));
    let is_renewed: HashSet<PersonNo> = changes.rekeyed.iter().copied().collect();
    // In the order of the one index whose keys are random: each of its pages is then read and
    // changed once per batch. New entries of the others share a few pages in any order.
    let mut persons: Vec<_> = changes.persons.iter().collect();
    persons.sort_unstable_by_key(|person| person.uuid);
    for person in persons {
        let properties = person.properties.text();
        let (identified, version) = (person.is_identified, person.version);
        let mut row = args![project, person.no, properties, identified, version];
        let renews = is_renewed.contains(&person.no);
        if !renews && person.no.0 < changes.first_new_person {
            same.push(row);
        } else {
            row.extend(args![person.uuid, person.created_at]);
            if renews { &mut renewed } else { &mut new }.push(row);
        }
    }
    let head = "INSERT INTO persons \
                (project_id, no, properties, is_identified, version, uuid, created_at)";
    // SQLite rewrites index entries of all columns that an update names, changed or not.
    let tail = "ON CONFLICT (project_id, no) DO UPDATE SET properties = excluded.properties, \
                is_identified = excluded.is_identified, version = excluded.version";
    // Written first, since another person of the batch may get a uuid that one of these had.
    let renewing = format!("{tail}, uuid = excluded.uuid, created_at = excluded.created_at");
    tx.write(head, renewed, &renewing).await?;
    tx.update("persons", KEYS, CHANGING, same).await?;
    tx.write(head, new, tail).await
}

async fn write_ids(tx: &mut Tx, project: ProjectId, ids: &[DistinctId]) -> Result<()> {
    let mut rows = Rows::new(6);
    // As persons: texts are the random keys.
    let mut ids: Vec<_> = ids.iter().collect();
    ids.sort_unstable_by_key(|id| id.text.as_str());
    for id in ids {
        let text = id.text.as_str();
        rows.push(args![project, id.no, text, id.person, id.version, id.version_floor]);
    }
    let head = "INSERT INTO distinct_ids \
                (project_id, no, distinct_id, person_no, version, version_floor)";
    let tail = "ON CONFLICT (project_id, no) DO UPDATE SET person_no = excluded.person_no, \
                version = excluded.version, version_floor = excluded.version_floor";
    tx.write(head, rows, tail).await
}
