//! Properties of all persons or groups of a project, part by part, for whoever must look at each.

use model::ProjectId;
use model::person::{DistinctNo, PersonNo};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::db::args;
use crate::{Catalog, Result};

type Properties = Map<String, Value>;

impl Catalog {
    pub async fn person_number(&self, project: ProjectId, uuid: Uuid) -> Result<Option<PersonNo>> {
        let sql = "SELECT no FROM persons WHERE project_id = $1 AND uuid = $2";
        let row = self.db.optional(sql, args![project, uuid]).await?;
        row.map(|row| row.get("no")).transpose()
    }

    /// Persons behind `after`, in the order of their numbers.
    pub async fn person_properties(
        &self,
        project: ProjectId,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<(PersonNo, Properties)>> {
        let sql = "SELECT no, properties FROM persons \
                   WHERE project_id = $1 AND no > $2 ORDER BY no LIMIT $3";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.db.all(sql, args![project, after, limit]).await?;
        rows.iter().map(|row| Ok((row.get("no")?, row.json("properties")?))).collect()
    }

    /// Distinct ids behind `after` that belong to a person, in the order of their numbers.
    pub async fn person_numbers(
        &self,
        project: ProjectId,
        after: Option<DistinctNo>,
        limit: i64,
    ) -> Result<Vec<(DistinctNo, PersonNo)>> {
        let sql = "SELECT no, person_no FROM distinct_ids \
                   WHERE project_id = $1 AND no > $2 AND person_no IS NOT NULL \
                   ORDER BY no LIMIT $3";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.db.all(sql, args![project, after, limit]).await?;
        rows.iter().map(|row| Ok((row.get("no")?, row.get("person_no")?))).collect()
    }

    /// Groups of a type behind the key `after`, in the order of their keys.
    pub async fn group_properties(
        &self,
        project: ProjectId,
        index: u8,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<(String, Properties)>> {
        let sql = "SELECT group_key, properties FROM groups \
                   WHERE project_id = $1 AND type_index = $2 AND group_key > $3 \
                   ORDER BY group_key LIMIT $4";
        let after = after.unwrap_or_default();
        let rows = self.db.all(sql, args![project, i64::from(index), after, limit]).await?;
        rows.iter().map(|row| Ok((row.get("group_key")?, row.json("properties")?))).collect()
    }
}
