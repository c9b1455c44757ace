//! Persons as flag evaluation reads them, and the hash keys of experience continuity.

use std::collections::HashMap;

use model::person::PersonNo;
use model::{ProjectId, Timestamp};
use serde_json::{Map, Value as Json};

use super::Flags;
use crate::Result;
use crate::db::bulk::Rows;
use crate::db::{Tx, Value, args};

/// A person as flag evaluation reads it, by one of its distinct ids.
#[derive(Clone, Debug, PartialEq)]
pub struct FlagPerson {
    pub distinct_id: String,
    pub no: PersonNo,
    pub properties: Map<String, Json>,
    pub created_at: Timestamp,
}

/// The identifier that buckets a person for a flag (experience continuity).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashKey {
    pub person: PersonNo,
    pub flag_key: String,
    pub hash_key: String,
}

impl Flags<'_> {
    /// The persons of these distinct ids, where they have one.
    pub async fn persons(
        self,
        project: ProjectId,
        distinct_ids: &[&str],
    ) -> Result<Vec<FlagPerson>> {
        let sql = "SELECT d.distinct_id, p.no, p.properties, p.created_at FROM distinct_ids d \
                   JOIN persons p ON p.project_id = d.project_id AND p.no = d.person_no \
                   WHERE d.project_id = $1 AND d.distinct_id IN {list}";
        let id_values: Vec<Value> = distinct_ids.iter().map(|id| (*id).into()).collect();
        let rows = self.core.db.all_in(sql, args![project], &id_values).await?;
        let persons = rows.iter().map(|row| {
            Ok(FlagPerson {
                distinct_id: row.get("distinct_id")?,
                no: row.get("no")?,
                properties: row.json("properties")?,
                created_at: row.get("created_at")?,
            })
        });
        persons.collect()
    }

    pub async fn hash_keys(self, project: ProjectId, persons: &[PersonNo]) -> Result<Vec<HashKey>> {
        let sql = "SELECT person_no, flag_key, hash_key FROM flag_hash_keys \
                   WHERE project_id = $1 AND person_no IN {list}";
        let person_nos: Vec<Value> = persons.iter().map(|person| (*person).into()).collect();
        let rows = self.core.db.all_in(sql, args![project], &person_nos).await?;
        let keys = rows.iter().map(|row| {
            Ok(HashKey {
                person: row.get("person_no")?,
                flag_key: row.get("flag_key")?,
                hash_key: row.get("hash_key")?,
            })
        });
        keys.collect()
    }

    /// Existing hash keys stay.
    pub async fn add_hash_keys(self, project: ProjectId, keys: &[HashKey]) -> Result<()> {
        let mut rows = Rows::new(4);
        for key in keys {
            rows.push(args![project, key.person, key.flag_key.as_str(), key.hash_key.as_str()]);
        }
        let mut tx = self.core.db.begin().await?;
        let head = "INSERT INTO flag_hash_keys (project_id, person_no, flag_key, hash_key)";
        tx.write(head, rows, "ON CONFLICT (project_id, person_no, flag_key) DO NOTHING").await?;
        tx.commit().await
    }
}

/// Moves hash keys of merged persons; existing ones of the target win.
pub(crate) async fn move_merged(
    tx: &mut Tx,
    project: ProjectId,
    moves: &[(PersonNo, PersonNo)],
) -> Result<()> {
    if moves.is_empty() {
        return Ok(());
    }
    let merged: Vec<Value> = moves.iter().map(|(merged, _)| (*merged).into()).collect();
    let sql = "SELECT person_no, flag_key, hash_key FROM flag_hash_keys \
               WHERE project_id = $1 AND person_no IN {list}";
    let hash_keys = tx.all_in(sql, args![project], &merged).await?;
    if hash_keys.is_empty() {
        return Ok(());
    }
    // In reverse, so that chains of merges resolve to their end.
    let mut ends: HashMap<PersonNo, PersonNo> = HashMap::with_capacity(moves.len());
    for (from, into) in moves.iter().rev() {
        let end = ends.get(into).copied().unwrap_or(*into);
        ends.insert(*from, end);
    }
    let mut rows = Rows::new(4);
    for row in &hash_keys {
        let person: PersonNo = row.get("person_no")?;
        let person = ends.get(&person).copied().unwrap_or(person);
        let (flag, hash): (String, String) = (row.get("flag_key")?, row.get("hash_key")?);
        rows.push(args![project, person, flag, hash]);
    }
    let sql = "DELETE FROM flag_hash_keys WHERE project_id = $1 AND person_no IN {list}";
    tx.run_in(sql, args![project], &merged).await?;
    let head = "INSERT INTO flag_hash_keys (project_id, person_no, flag_key, hash_key)";
    tx.write(head, rows, "ON CONFLICT (project_id, person_no, flag_key) DO NOTHING").await
}
