//! Scans all persons or groups of a project, to estimate whom a flag reaches.

use model::group::Group;
use model::person::PersonNo;
use model::{ProjectId, Timestamp};
use serde_json::{Map, Value as Json};

use super::Flags;
use crate::Result;
use crate::db::args;
use crate::persons::groups::read_group;

/// A person, with its first distinct id.
#[derive(Clone, Debug, PartialEq)]
pub struct ScannedPerson {
    pub no: PersonNo,
    pub distinct_id: String,
    pub properties: Map<String, Json>,
    pub created_at: Timestamp,
}

/// Reads the first distinct id as the first entry of the index `distinct_ids_by_person_no`; a test
/// counts VM steps. PostgreSQL would run a join over all ids of the project for every batch.
const PERSONS: &str = "SELECT p.no, p.properties, p.created_at, \
     (SELECT o.distinct_id FROM distinct_ids o WHERE o.project_id = $1 AND o.person_no = p.no \
      ORDER BY o.no LIMIT 1) AS distinct_id \
     FROM (SELECT no, properties, created_at FROM persons \
      WHERE project_id = $1 AND no > $2 ORDER BY no LIMIT $3) p ORDER BY p.no";

impl Flags<'_> {
    /// The persons after `after`, by dense id. A person that lost all distinct ids has an empty
    /// one.
    pub async fn scan_persons(
        self,
        project: ProjectId,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<ScannedPerson>> {
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.core.db.all(PERSONS, args![project, after, limit]).await?;
        let persons = rows.iter().map(|row| {
            Ok(ScannedPerson {
                no: row.get("no")?,
                distinct_id: row.get::<Option<String>>("distinct_id")?.unwrap_or_default(),
                properties: row.json("properties")?,
                created_at: row.get("created_at")?,
            })
        });
        persons.collect()
    }

    /// The groups of a type after the key `after`.
    pub async fn scan_groups(
        self,
        project: ProjectId,
        index: u8,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Group>> {
        let sql = "SELECT type_index, group_key, properties, version, created_at FROM groups \
                   WHERE project_id = $1 AND type_index = $2 AND group_key > $3 \
                   ORDER BY group_key LIMIT $4";
        let after = after.unwrap_or_default();
        let rows = self.core.db.all(sql, args![project, i64::from(index), after, limit]).await?;
        rows.iter().map(read_group).collect()
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::{Connection, StatementStatus, params};

    use super::*;

    /// VM steps of SQLite for one scan of this many persons with three ids each.
    fn steps(persons: u32) -> i32 {
        let mut file = Connection::open_in_memory().unwrap();
        crate::db::migrate::apply_all(&file).unwrap();
        let tx = file.transaction().unwrap();
        {
            let person = "INSERT INTO persons VALUES (1, ?1, ?1, '{}', FALSE, 0, 0)";
            let id = "INSERT INTO distinct_ids VALUES (1, ?1, ?1, ?2, 0, 0)";
            let (mut person, mut id) = (tx.prepare(person).unwrap(), tx.prepare(id).unwrap());
            for no in 0..persons {
                person.execute(params![no]).unwrap();
            }
            // The ids of a person are spread, as in real data.
            for no in 0..3 * persons {
                id.execute(params![no, no % persons]).unwrap();
            }
        }
        tx.commit().unwrap();
        let mut scan = file.prepare(PERSONS).unwrap();
        let mut rows = scan.query(params![1, -1, persons]).unwrap();
        let mut count = 0;
        while let Some(row) = rows.next().unwrap() {
            assert_eq!(
                row.get::<_, u32>("no").unwrap().to_string(),
                row.get::<_, String>("distinct_id").unwrap()
            );
            count += 1;
        }
        assert_eq!(count, persons);
        drop(rows);
        scan.get_status(StatementStatus::VmStep)
    }

    #[test]
    fn scanning_persons_takes_linear_vm_steps() {
        let (few, many) = (steps(400), steps(4_000));
        assert!(many < 12 * few, "{few} {many}");
    }
}
