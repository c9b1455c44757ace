//! Scans of all persons or distinct ids of a project, batch by batch.

use model::person::{DistinctNo, PersonNo};
use model::{ProjectId, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::Persons;
use super::identities::PERSON_COLUMNS;
use crate::Result;
use crate::db::{Row, args};

/// The persons of a project at one position, in the order of their dense ids. They are in memory or in
/// mapped files: a read returns soon.
pub trait PersonSource: Send + Sync {
    /// At most `limit` persons after this one.
    fn read(&self, after: Option<PersonNo>, limit: usize) -> Vec<ScannedPerson>;

    /// At most `limit` persons after this one, with no other properties than those named.
    fn read_properties(
        &self,
        after: Option<PersonNo>,
        limit: usize,
        names: &[&str],
    ) -> Vec<PersonProperties>;
}

/// A person with all properties and its first distinct id, which is empty if it lost all.
#[derive(Clone, Debug, PartialEq)]
pub struct ScannedPerson {
    pub no: PersonNo,
    pub distinct_id: String,
    pub properties: Map<String, Value>,
    pub created_at: Timestamp,
}

/// A person with some of its properties.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonProperties {
    pub no: PersonNo,
    pub created_at: Timestamp,
    pub properties: Map<String, Value>,
}

/// A person with its properties as stored JSON.
#[derive(Clone, Debug)]
pub struct StoredPerson {
    pub no: PersonNo,
    pub uuid: Uuid,
    /// A JSON object.
    pub properties: String,
    pub is_identified: bool,
    pub created_at: Timestamp,
}

/// Reads [`PERSON_COLUMNS`].
pub(crate) fn read_stored(row: &Row) -> Result<StoredPerson> {
    Ok(StoredPerson {
        no: row.get("no")?,
        uuid: row.get("uuid")?,
        properties: row.get("properties")?,
        is_identified: row.get("is_identified")?,
        created_at: row.get("created_at")?,
    })
}

impl Persons<'_> {
    pub async fn no_by_uuid(self, project: ProjectId, uuid: Uuid) -> Result<Option<PersonNo>> {
        let sql = "SELECT no FROM persons WHERE project_id = $1 AND uuid = $2";
        let row = self.core.db.optional(sql, args![project, uuid]).await?;
        row.map(|row| row.get("no")).transpose()
    }

    /// Persons after `after`, by dense id, with unparsed properties.
    pub async fn scan(
        self,
        project: ProjectId,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<StoredPerson>> {
        let sql = format!(
            "SELECT {PERSON_COLUMNS} FROM persons p \
             WHERE p.project_id = $1 AND p.no > $2 ORDER BY p.no LIMIT $3"
        );
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.core.db.all(&sql, args![project, after, limit]).await?;
        rows.iter().map(read_stored).collect()
    }

    /// Distinct ids after `after` with their persons, by dense id.
    pub async fn scan_distinct_ids(
        self,
        project: ProjectId,
        after: Option<DistinctNo>,
        limit: i64,
    ) -> Result<Vec<(DistinctNo, String, Option<PersonNo>)>> {
        let sql = "SELECT no, distinct_id, person_no FROM distinct_ids \
                   WHERE project_id = $1 AND no > $2 ORDER BY no LIMIT $3";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.core.db.all(sql, args![project, after, limit]).await?;
        let id = |row: &Row| Ok((row.get("no")?, row.get("distinct_id")?, row.get("person_no")?));
        rows.iter().map(id).collect()
    }
}
