//! Persons and their distinct ids as rows, and how the pipeline loads them.

use std::collections::{HashMap, HashSet};

use model::ProjectId;
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, Person, PersonNo};

use super::Persons;
use crate::db::bulk::id_values;
use crate::db::{Row, args};
use crate::{Error, Result};

/// Dense ids start at 1, so that 0 can mean none.
pub const FIRST_DENSE_ID: u32 = 1;
/// Distinct ids shown per person, as many as PostHog shows.
const IDS_SHOWN_MAX: i64 = 2_500;
const ID_COLUMNS: &str = "no, distinct_id, person_no, version, version_floor";
pub(crate) const PERSON_COLUMNS: &str =
    "p.no, p.uuid, p.properties, p.is_identified, p.version, p.created_at";
/// The next dense ids of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDenseIds {
    pub distinct: u32,
    pub person: u32,
}

fn read_id(row: &Row) -> Result<DistinctId> {
    Ok(DistinctId {
        no: row.get("no")?,
        text: row.get("distinct_id")?,
        person: row.get("person_no")?,
        version: row.get("version")?,
        version_floor: row.get("version_floor")?,
    })
}

pub(crate) fn read_person(row: &Row) -> Result<Person> {
    read_with(row, row.json("properties")?)
}

pub(crate) fn read_person_raw(row: &Row) -> Result<Person<JsonObject>> {
    let properties = JsonObject::parse(row.get("properties")?);
    read_with(row, properties.map_err(|why| Error::corrupt("properties", why))?)
}

fn read_with<P>(row: &Row, properties: P) -> Result<Person<P>> {
    Ok(Person {
        no: row.get("no")?,
        uuid: row.get("uuid")?,
        properties,
        is_identified: row.get("is_identified")?,
        version: row.get("version")?,
        created_at: row.get("created_at")?,
    })
}

impl Persons<'_> {
    pub async fn next_dense_ids(
        self,
        projects: &[ProjectId],
    ) -> Result<HashMap<ProjectId, NextDenseIds>> {
        let fresh = NextDenseIds { distinct: FIRST_DENSE_ID, person: FIRST_DENSE_ID };
        let mut next: HashMap<_, _> = projects.iter().map(|project| (*project, fresh)).collect();
        let sql = "SELECT project_id, next_distinct, next_person FROM project_numbers \
                   WHERE project_id IN {list}";
        for row in self.core.db.all_in(sql, args![], &id_values(projects)).await? {
            let DistinctNo(distinct) = row.get("next_distinct")?;
            let PersonNo(person) = row.get("next_person")?;
            next.insert(row.get("project_id")?, NextDenseIds { distinct, person });
        }
        Ok(next)
    }

    /// Projects with at least this many persons and distinct ids, largest first.
    pub async fn large_projects(self, rows_min: i64) -> Result<Vec<ProjectId>> {
        let sql = "SELECT project_id FROM project_numbers \
                   WHERE next_distinct + next_person >= $1 ORDER BY next_distinct DESC";
        let rows = self.core.db.all(sql, args![rows_min]).await?;
        rows.iter().map(|row| row.get("project_id")).collect()
    }

    /// The known ones of these distinct ids.
    pub async fn distinct_ids(self, project: ProjectId, texts: &[&str]) -> Result<Vec<DistinctId>> {
        let sql = format!(
            "SELECT {ID_COLUMNS} FROM distinct_ids \
             WHERE project_id = $1 AND distinct_id IN {{list}}"
        );
        let rows = self.core.db.all_in(&sql, args![project], &id_values(texts)).await?;
        rows.iter().map(read_id).collect()
    }

    /// All distinct ids of these persons.
    pub async fn distinct_ids_of(
        self,
        project: ProjectId,
        persons: &[PersonNo],
    ) -> Result<Vec<DistinctId>> {
        let sql = format!(
            "SELECT {ID_COLUMNS} FROM distinct_ids \
             WHERE project_id = $1 AND person_no IN {{list}} ORDER BY no"
        );
        let rows = self.core.db.all_in(&sql, args![project], &id_values(persons)).await?;
        rows.iter().map(read_id).collect()
    }

    /// The oldest distinct ids of these persons, up to [`IDS_SHOWN_MAX`] each, since clients can
    /// give a person any number.
    pub(crate) async fn first_distinct_ids(
        self,
        project: ProjectId,
        persons: &[PersonNo],
    ) -> Result<HashMap<PersonNo, Vec<String>>> {
        let sql = format!(
            "SELECT person_no, distinct_id FROM (SELECT person_no, distinct_id, no, \
             ROW_NUMBER() OVER (PARTITION BY person_no ORDER BY no) AS nth FROM distinct_ids \
             WHERE project_id = $1 AND person_no IN {{list}}) ranked \
             WHERE nth <= {IDS_SHOWN_MAX} ORDER BY no"
        );
        let mut shown: HashMap<PersonNo, Vec<String>> = HashMap::with_capacity(persons.len());
        for row in self.core.db.all_in(&sql, args![project], &id_values(persons)).await? {
            shown.entry(row.get("person_no")?).or_default().push(row.get("distinct_id")?);
        }
        Ok(shown)
    }

    pub async fn count_distinct_ids(self, project: ProjectId, person: PersonNo) -> Result<i64> {
        let sql = "SELECT COUNT(*) AS total FROM distinct_ids \
                   WHERE project_id = $1 AND person_no = $2";
        self.core.db.one(sql, args![project, person]).await?.get("total")
    }

    /// The persons that exist.
    pub async fn by_no(self, project: ProjectId, persons: &[PersonNo]) -> Result<Vec<Person>> {
        let sql = format!(
            "SELECT {PERSON_COLUMNS} FROM persons p \
             WHERE p.project_id = $1 AND p.no IN {{list}}"
        );
        let rows = self.core.db.all_in(&sql, args![project], &id_values(persons)).await?;
        rows.iter().map(read_person).collect()
    }

    /// Known distinct ids, and their persons.
    pub async fn identities(
        self,
        project: ProjectId,
        texts: &[&str],
    ) -> Result<(Vec<DistinctId>, Vec<Person>)> {
        let rows =
            self.core.db.all_in(&identities_sql(), args![project], &id_values(texts)).await?;
        read_identities(&rows, read_person)
    }

    /// Like [`Persons::identities`], for the pipeline, which writes them next: on SQLite it reads
    /// through the writer.
    pub async fn identities_to_change(
        self,
        project: ProjectId,
        texts: &[&str],
    ) -> Result<(Vec<DistinctId>, Vec<Person<JsonObject>>)> {
        let (sql, fixed) = (identities_sql(), args![project]);
        // In the order of the index: lookups of neighbours, and the inserts that follow, share pages.
        let mut texts = texts.to_vec();
        texts.sort_unstable();
        let rows = self.core.db.all_in_inline(&sql, fixed, &id_values(&texts)).await?;
        read_identities(&rows, read_person_raw)
    }
}

/// One join for both, since the pipeline waits for each round trip.
fn identities_sql() -> String {
    format!(
        "SELECT d.no AS id_no, d.distinct_id, d.person_no, d.version AS id_version, \
         d.version_floor, {PERSON_COLUMNS} FROM distinct_ids d \
         LEFT JOIN persons p ON p.project_id = d.project_id AND p.no = d.person_no \
         WHERE d.project_id = $1 AND d.distinct_id IN {{list}}"
    )
}

fn read_identities<P>(
    rows: &[Row],
    read_person: impl Fn(&Row) -> Result<Person<P>>,
) -> Result<(Vec<DistinctId>, Vec<Person<P>>)> {
    let (mut ids, mut persons) = (Vec::new(), Vec::new());
    let mut visited: HashSet<PersonNo> = HashSet::new();
    for row in rows {
        ids.push(DistinctId {
            no: row.get("id_no")?,
            text: row.get("distinct_id")?,
            person: row.get("person_no")?,
            version: row.get("id_version")?,
            version_floor: row.get("version_floor")?,
        });
        if row.get::<Option<PersonNo>>("no")?.is_some_and(|no| visited.insert(no)) {
            persons.push(read_person(row)?);
        }
    }
    Ok((ids, persons))
}
