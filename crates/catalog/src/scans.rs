//! Properties of all persons or groups of a project, part by part, for whoever must look at each.

use std::collections::HashMap;

use model::definition::{PropertyOwner, PropertyType};
use model::group::Group;
use model::person::{DistinctNo, PersonNo};
use model::{CohortId, ProjectId, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::db::{Row, Value as Arg, args};
use crate::groups::COLUMNS as GROUP_COLUMNS;
use crate::ingest::{PERSON_COLUMNS, read_group};
use crate::{Catalog, Result};

type Properties = Map<String, Value>;

/// A person whose properties nobody has read.
#[derive(Clone, Debug)]
pub struct StoredPerson {
    pub no: PersonNo,
    pub uuid: Uuid,
    /// A JSON object.
    pub properties: String,
    pub is_identified: bool,
    pub created_at: Timestamp,
}

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

    /// Persons behind `after`, in the order of their numbers, their properties as they are stored.
    pub async fn all_persons(
        &self,
        project: ProjectId,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<StoredPerson>> {
        let sql = format!(
            "SELECT {PERSON_COLUMNS} FROM persons p \
             WHERE p.project_id = $1 AND p.no > $2 ORDER BY p.no LIMIT $3"
        );
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.db.all(&sql, args![project, after, limit]).await?;
        let read = |row: &Row| {
            Ok(StoredPerson {
                no: row.get("no")?,
                uuid: row.get("uuid")?,
                properties: row.get("properties")?,
                is_identified: row.get("is_identified")?,
                created_at: row.get("created_at")?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Distinct ids behind `after` and their persons, in the order of their numbers.
    pub async fn all_distinct_ids(
        &self,
        project: ProjectId,
        after: Option<DistinctNo>,
        limit: i64,
    ) -> Result<Vec<(DistinctNo, String, Option<PersonNo>)>> {
        let sql = "SELECT no, distinct_id, person_no FROM distinct_ids \
                   WHERE project_id = $1 AND no > $2 ORDER BY no LIMIT $3";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.db.all(sql, args![project, after, limit]).await?;
        let id = |row: &Row| Ok((row.get("no")?, row.get("distinct_id")?, row.get("person_no")?));
        rows.iter().map(id).collect()
    }

    /// Groups of a type behind the key `after`, in the order of their keys.
    pub async fn all_groups(
        &self,
        project: ProjectId,
        index: u8,
        after: Option<&str>,
        limit: i64,
    ) -> Result<Vec<Group>> {
        let sql = format!(
            "SELECT {GROUP_COLUMNS} FROM groups g \
             WHERE g.project_id = $1 AND g.type_index = $2 AND g.group_key > $3 \
             ORDER BY g.group_key LIMIT $4"
        );
        let after = after.unwrap_or_default();
        let rows = self.db.all(&sql, args![project, i64::from(index), after, limit]).await?;
        rows.iter().map(read_group).collect()
    }

    /// The live cohorts of a project: number, name, whether they are lists.
    pub async fn live_cohorts(&self, project: ProjectId) -> Result<Vec<(CohortId, String, bool)>> {
        let sql = "SELECT id, name, is_static FROM cohorts WHERE project_id = $1 AND NOT deleted";
        let rows = self.db.all(sql, args![project]).await?;
        let cohort = |row: &Row| {
            let name: Option<String> = row.get("name")?;
            Ok((row.get("id")?, name.unwrap_or_default(), row.get("is_static")?))
        };
        rows.iter().map(cohort).collect()
    }

    /// Which of these properties are more than text; of groups only if there are any.
    pub async fn typed_properties(
        &self,
        project: ProjectId,
        names: impl IntoIterator<Item = &str>,
        with_groups: bool,
    ) -> Result<HashMap<(PropertyOwner, String), PropertyType>> {
        let names: Vec<Arg> = names.into_iter().map(Into::into).collect();
        let (text, mut typed) = (PropertyType::String.as_str(), HashMap::new());
        // Each is a look-up in the index, whose columns these are.
        let of_events = "owner IN ('event', 'person') AND type_index = -1";
        let of_groups = "owner = 'group' AND type_index IN (0, 1, 2, 3, 4)";
        for of in [Some(of_events), with_groups.then_some(of_groups)].into_iter().flatten() {
            let sql = format!(
                "SELECT owner, type_index, name, property_type FROM property_definitions \
                 WHERE project_id = $1 AND property_type IS NOT NULL AND property_type <> $2 \
                 AND {of} AND name IN {{list}}"
            );
            for row in self.db.all_in(&sql, args![project, text], &names).await? {
                let owner: String = row.get("owner")?;
                let index: i64 = row.get("type_index")?;
                let owner = match owner.as_str() {
                    "event" => PropertyOwner::Event,
                    "person" => PropertyOwner::Person,
                    _ => PropertyOwner::Group(index as u8),
                };
                let kind: String = row.get("property_type")?;
                if let Some(kind) = PropertyType::parse(&kind) {
                    typed.insert((owner, row.get("name")?), kind);
                }
            }
        }
        Ok(typed)
    }

    /// Members of a cohort behind `after`, as far as it was calculated.
    pub async fn cohort_numbers(
        &self,
        cohort: CohortId,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<PersonNo>> {
        let sql = "SELECT m.person_no FROM cohort_people m JOIN cohorts h ON h.id = m.cohort_id \
                   WHERE m.cohort_id = $1 AND m.version = COALESCE(h.version, 0) \
                   AND m.person_no > $2 ORDER BY m.person_no LIMIT $3";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.db.all(sql, args![cohort, after, limit]).await?;
        rows.iter().map(|row| row.get("person_no")).collect()
    }
}
