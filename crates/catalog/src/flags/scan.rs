//! Everybody of a project, part by part, for questions about whom a flag reaches.

use model::group::Group;
use model::person::PersonNo;
use model::{ProjectId, Timestamp};
use serde_json::{Map, Value as Json};

use crate::db::args;
use crate::ingest::read_group;
use crate::{Catalog, Result};

/// A person by the first id it was known by.
#[derive(Clone, Debug, PartialEq)]
pub struct ScannedPerson {
    pub no: PersonNo,
    pub distinct_id: String,
    pub properties: Map<String, Json>,
    pub created_at: Timestamp,
}

impl Catalog {
    /// The persons behind `after`, in the order of their numbers. One that lost all its ids
    /// cannot ask for flags, but is there: its id is empty.
    pub async fn scan_persons(
        &self,
        project: ProjectId,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<ScannedPerson>> {
        let sql = "SELECT p.no, p.properties, p.created_at, d.distinct_id FROM persons p \
                   LEFT JOIN distinct_ids d ON d.project_id = p.project_id AND d.no = \
                   (SELECT MIN(o.no) FROM distinct_ids o \
                    WHERE o.project_id = p.project_id AND o.person_no = p.no) \
                   WHERE p.project_id = $1 AND p.no > $2 ORDER BY p.no LIMIT $3";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.db.all(sql, args![project, after, limit]).await?;
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

    /// The groups of a type whose keys come behind `after`.
    pub async fn scan_groups(
        &self,
        project: ProjectId,
        index: u8,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Group>> {
        let sql = "SELECT type_index, group_key, properties, version, created_at FROM groups \
                   WHERE project_id = $1 AND type_index = $2 AND group_key > $3 \
                   ORDER BY group_key LIMIT $4";
        let after = after.unwrap_or_default();
        let rows = self.db.all(sql, args![project, i64::from(index), after, limit]).await?;
        rows.iter().map(read_group).collect()
    }
}
