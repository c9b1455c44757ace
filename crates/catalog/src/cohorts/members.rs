//! Members of cohorts: listed in static cohorts, calculated in dynamic ones.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::flag::{CohortDefinition, CohortKind};
use model::person::PersonNo;
use model::{Cohort, CohortId, ProjectId, Window};
use serde_json::{Map, Value as Json};
use uuid::Uuid;

use super::Cohorts;
use super::references::recalculate_dependents;
use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::bulk::Rows;
use crate::db::select::Condition;
use crate::db::{Tx, Value, args};
use crate::feed;
use crate::objects::edit::Editable;
use crate::persons::identities::{PERSON_COLUMNS, read_person};
use crate::persons::{PersonWithIds, Persons};
use crate::{Error, Result};

/// Persons per batch of a scan.
pub(crate) const BATCH_PERSONS: usize = 1_000;
/// The version of all members of static cohorts.
pub(crate) const STATIC_VERSION: i64 = 0;

/// What the strings are that name new members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonIdKind {
    PersonUuid,
    DistinctId,
    Email,
}

impl Cohorts<'_> {
    /// The members of a cohort, by dense id.
    pub async fn members(
        self,
        cohort: &Cohort,
        search: Option<&str>,
        window: Window,
    ) -> Result<(Vec<PersonWithIds>, i64)> {
        // A calculation may have finished since the caller loaded the cohort.
        let which = "m.cohort_id = $1 AND p.project_id = $2 AND m.version = \
                     (SELECT COALESCE(h.version, 0) FROM cohorts h WHERE h.id = $1)";
        let mut condition = Condition::new(which, args![cohort.id, cohort.team_id]);
        if let Some(search) = search {
            condition.and_contains("p.properties", search);
        }
        let from = "cohort_people m JOIN persons p \
                    ON p.project_id = m.project_id AND p.no = m.person_no";
        let (rows, total) =
            self.core.db.page(PERSON_COLUMNS, from, condition, "p.no", window).await?;
        let mut members = Vec::with_capacity(rows.len());
        for row in &rows {
            members.push(PersonWithIds { person: read_person(row)?, distinct_ids: Vec::new() });
        }
        let nos: Vec<PersonNo> = members.iter().map(|member| member.person.no).collect();
        let mut ids = Persons::new(self.core).first_distinct_ids(cohort.team_id, &nos).await?;
        for member in &mut members {
            member.distinct_ids = ids.remove(&member.person.no).unwrap_or_default();
        }
        Ok((members, total))
    }

    /// Adds persons to a static cohort; unknown ids are skipped.
    pub async fn add_members(
        self,
        actor: &Actor,
        id: CohortId,
        by: PersonIdKind,
        names: &[String],
    ) -> Result<Cohort> {
        let project = actor.project_id()?;
        let persons = self.resolve_persons(project, by, names).await?;
        let mut tx = self.core.db.begin().await?;
        let cohort = lock_static(&mut tx, actor, id).await?;
        write_members(&mut tx, project, id, STATIC_VERSION, &persons).await?;
        feed::record_cohort(&mut tx, project, (id, STATIC_VERSION)).await?;
        let cohort = self.recount_and_log(&mut tx, actor, cohort).await?;
        tx.commit().await?;
        self.notify_calculator();
        Ok(cohort)
    }

    /// Removes a person from a static cohort; [`Error::NotFound`] if it is no member.
    pub async fn remove_member(self, actor: &Actor, id: CohortId, uuid: Uuid) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let cohort = lock_static(&mut tx, actor, id).await?;
        let sql = "DELETE FROM cohort_people WHERE cohort_id = $1 AND version = $2 AND person_no = \
                   (SELECT no FROM persons WHERE project_id = $3 AND uuid = $4)";
        if tx.run(sql, args![id, STATIC_VERSION, cohort.team_id, uuid]).await? == 0 {
            return Err(Error::NotFound);
        }
        feed::record_cohort(&mut tx, cohort.team_id, (id, STATIC_VERSION)).await?;
        self.recount_and_log(&mut tx, actor, cohort).await?;
        tx.commit().await?;
        self.notify_calculator();
        Ok(())
    }

    /// Copies the current members of a cohort into a new static one.
    pub async fn copy_members(self, actor: &Actor, from: CohortId, to: CohortId) -> Result<Cohort> {
        let mut tx = self.core.db.begin().await?;
        let cohort = lock_static(&mut tx, actor, to).await?;
        tx.run(
            "INSERT INTO cohort_people (cohort_id, version, person_no, project_id) \
             SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT), person_no, project_id \
             FROM cohort_people WHERE cohort_id = $3 AND version = \
             (SELECT COALESCE(version, CAST($2 AS BIGINT)) FROM cohorts WHERE id = $3)",
            args![to, STATIC_VERSION, from],
        )
        .await?;
        feed::record_cohort(&mut tx, cohort.team_id, (to, STATIC_VERSION)).await?;
        let cohort = self.recount(&mut tx, actor, cohort).await?;
        tx.commit().await?;
        Ok(cohort)
    }

    /// Logs the count, but not who was added or removed: the log outlives deleted persons.
    async fn recount_and_log(self, tx: &mut Tx, actor: &Actor, before: Cohort) -> Result<Cohort> {
        let after = self.recount(tx, actor, before.clone()).await?;
        if after.count != before.count {
            let change = Change {
                scope: Cohort::SCOPE.into(),
                action: ChangeAction::Changed,
                field: Some("count".into()),
                before: Some(before.count.into()),
                after: Some(after.count.into()),
            };
            tx.log(actor, Cohort::UPDATED, &after, vec![change], self.core.clock.now()).await?;
            recalculate_dependents(tx, after.team_id, after.id).await?;
        }
        Ok(after)
    }

    async fn recount(self, tx: &mut Tx, actor: &Actor, cohort: Cohort) -> Result<Cohort> {
        let sql = "UPDATE cohorts SET last_calculation = $2, count = (SELECT COUNT(*) \
                   FROM cohort_people WHERE cohort_id = $1 AND version = $3) WHERE id = $1";
        tx.run(sql, args![cohort.id, self.core.clock.now(), STATIC_VERSION]).await?;
        Cohort::lock(tx, actor, cohort.id).await
    }

    async fn resolve_persons(
        self,
        project: ProjectId,
        by: PersonIdKind,
        names: &[String],
    ) -> Result<Vec<PersonNo>> {
        let id_values: Vec<Value> = names.iter().map(|name| name.as_str().into()).collect();
        let sql = match by {
            PersonIdKind::PersonUuid => {
                "SELECT no FROM persons WHERE project_id = $1 AND uuid IN {list}"
            }
            PersonIdKind::DistinctId => {
                "SELECT person_no AS no FROM distinct_ids \
                 WHERE project_id = $1 AND person_no IS NOT NULL AND distinct_id IN {list}"
            }
            PersonIdKind::Email => return self.persons_with_email(project, names).await,
        };
        let rows = self.core.db.all_in(sql, args![project], &id_values).await?;
        let mut persons: Vec<PersonNo> =
            rows.iter().map(|row| row.get("no")).collect::<Result<_>>()?;
        persons.sort_unstable();
        persons.dedup();
        Ok(persons)
    }

    /// Scans all persons, since properties have no index.
    async fn persons_with_email(
        self,
        project: ProjectId,
        names: &[String],
    ) -> Result<Vec<PersonNo>> {
        let emails: HashSet<String> = names.iter().cloned().collect();
        let (mut after, mut matches) = (None, Vec::new());
        loop {
            let persons = Persons::new(self.core);
            let limit = BATCH_PERSONS as i64;
            let persons = persons.candidates_with_property(project, "email", after, limit).await?;
            let Some(last) = persons.last() else { return Ok(matches) };
            after = Some(last.no);
            let matching = persons.iter().filter(|person| {
                let email = person.properties.get("email").map(serde_json::from_str::<String>);
                email.is_some_and(|email| email.is_ok_and(|email| emails.contains(&email)))
            });
            matches.extend(matching.map(|person| person.no));
        }
    }

    /// The definition of every live cohort, for flag evaluation.
    pub async fn definitions(self, project: ProjectId) -> Result<Vec<CohortDefinition>> {
        let sql =
            "SELECT id, is_static, filters FROM cohorts WHERE project_id = $1 AND NOT deleted";
        let rows = self.core.db.all(sql, args![project]).await?;
        let read = |row: &crate::db::Row| {
            let filters: Option<Map<String, Json>> = row.optional_json("filters")?;
            let tree = filters.and_then(|mut filters| filters.remove("properties"));
            let kind = match row.get("is_static")? {
                true => CohortKind::Static,
                false => CohortKind::Dynamic(tree.unwrap_or_default()),
            };
            Ok(CohortDefinition { id: row.get("id")?, kind })
        };
        rows.iter().map(read).collect()
    }

    /// The static cohorts of a person.
    pub async fn static_of_person(
        self,
        project: ProjectId,
        person: PersonNo,
    ) -> Result<HashSet<CohortId>> {
        let mut by_person = self.static_of_range(project, person, person).await?;
        Ok(by_person.remove(&person).unwrap_or_default())
    }

    /// The static cohorts of each person in a range of dense ids.
    pub async fn static_of_range(
        self,
        project: ProjectId,
        first: PersonNo,
        last: PersonNo,
    ) -> Result<HashMap<PersonNo, HashSet<CohortId>>> {
        let sql = "SELECT m.person_no, m.cohort_id FROM cohort_people m \
                   JOIN cohorts h ON h.id = m.cohort_id \
                   WHERE m.project_id = $1 AND m.person_no >= $2 AND m.person_no <= $3 \
                   AND h.is_static AND NOT h.deleted";
        let mut by_person: HashMap<PersonNo, HashSet<CohortId>> = HashMap::new();
        for row in self.core.db.all(sql, args![project, first, last]).await? {
            by_person.entry(row.get("person_no")?).or_default().insert(row.get("cohort_id")?);
        }
        Ok(by_person)
    }

    /// The live cohorts of a project: id, name, whether static.
    pub async fn live(self, project: ProjectId) -> Result<Vec<(CohortId, String, bool)>> {
        let sql = "SELECT id, name, is_static FROM cohorts WHERE project_id = $1 AND NOT deleted";
        let rows = self.core.db.all(sql, args![project]).await?;
        let cohort = |row: &crate::db::Row| {
            let name: Option<String> = row.get("name")?;
            Ok((row.get("id")?, name.unwrap_or_default(), row.get("is_static")?))
        };
        rows.iter().map(cohort).collect()
    }

    /// The version of each cohort whose members are in effect, and whether it is static.
    pub async fn versions(self, project: ProjectId) -> Result<Vec<(CohortId, i64, bool)>> {
        let sql = "SELECT id, COALESCE(version, 0) AS version, is_static FROM cohorts \
                   WHERE project_id = $1 AND NOT deleted";
        let rows = self.core.db.all(sql, args![project]).await?;
        rows.iter()
            .map(|row| Ok((row.get("id")?, row.get("version")?, row.get("is_static")?)))
            .collect()
    }

    /// Members of a cohort after `after`, by dense id, as last calculated.
    pub async fn member_nos(
        self,
        cohort: CohortId,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<PersonNo>> {
        let sql = "SELECT m.person_no FROM cohort_people m JOIN cohorts h ON h.id = m.cohort_id \
                   WHERE m.cohort_id = $1 AND m.version = COALESCE(h.version, 0) \
                   AND m.person_no > $2 ORDER BY m.person_no LIMIT $3";
        let after = after.map_or(-1, |no| i64::from(no.0));
        let rows = self.core.db.all(sql, args![cohort, after, limit]).await?;
        rows.iter().map(|row| row.get("person_no")).collect()
    }
}

/// Locks a live static cohort.
async fn lock_static(tx: &mut Tx, actor: &Actor, id: CohortId) -> Result<Cohort> {
    let cohort = Cohort::lock(tx, actor, id).await?;
    match (cohort.deleted, cohort.is_static) {
        (true, _) => Err(Error::NotFound),
        (false, false) => Err(Error::refused(None, "Only static cohorts are lists of persons.")),
        (false, true) => Ok(cohort),
    }
}

pub(crate) async fn write_members(
    tx: &mut Tx,
    project: ProjectId,
    cohort: CohortId,
    version: i64,
    persons: &[PersonNo],
) -> Result<()> {
    let mut rows = Rows::new(4);
    for person in persons {
        rows.push(args![cohort, version, *person, project]);
    }
    let head = "INSERT INTO cohort_people (cohort_id, version, person_no, project_id)";
    tx.write(head, rows, "ON CONFLICT (cohort_id, version, person_no) DO NOTHING").await
}

/// Moves static memberships of merged persons to the persons they were merged into. Dynamic cohorts
/// are recalculated anyway.
pub(crate) async fn move_merged(
    tx: &mut Tx,
    project: ProjectId,
    ends: &HashMap<PersonNo, PersonNo>,
) -> Result<()> {
    let merged: Vec<Value> = ends.keys().map(|person| (*person).into()).collect();
    let mut moved = static_memberships(tx, project, &merged).await?;
    let lists = lock_cohorts(tx, moved.iter().map(|(cohort, _)| *cohort)).await?;
    for (_, person) in &mut moved {
        *person = ends.get(person).copied().unwrap_or(*person);
    }
    // Sorted, since all writers insert in this order, which prevents deadlocks.
    moved.sort_unstable();
    let mut rows = Rows::new(4);
    for (cohort, person) in moved {
        rows.push(args![cohort, STATIC_VERSION, person, project]);
    }
    let head = "INSERT INTO cohort_people (cohort_id, version, person_no, project_id)";
    tx.write(head, rows, "ON CONFLICT (cohort_id, version, person_no) DO NOTHING").await?;
    delete_static(tx, project, &merged).await?;
    record_lists(tx, project, &lists).await?;
    // If both persons were members, one is left.
    recount_static(tx, &lists).await
}

/// Removes deleted persons from static cohorts.
pub(crate) async fn remove_deleted(
    tx: &mut Tx,
    project: ProjectId,
    persons: &[PersonNo],
) -> Result<()> {
    let person_nos: Vec<Value> = persons.iter().map(|person| (*person).into()).collect();
    let rows = static_memberships(tx, project, &person_nos).await?;
    let lists = lock_cohorts(tx, rows.iter().map(|(cohort, _)| *cohort)).await?;
    delete_static(tx, project, &person_nos).await?;
    record_lists(tx, project, &lists).await?;
    recount_static(tx, &lists).await
}

/// The static cohorts that these persons are members of.
async fn static_memberships(
    tx: &mut Tx,
    project: ProjectId,
    persons: &[Value],
) -> Result<Vec<(CohortId, PersonNo)>> {
    let sql = "SELECT cohort_id, person_no FROM cohort_people \
               WHERE project_id = $1 AND version = $2 AND person_no IN {list}";
    let rows = tx.all_in(sql, args![project, STATIC_VERSION], persons).await?;
    rows.iter().map(|row| Ok((row.get("cohort_id")?, row.get("person_no")?))).collect()
}

/// Locks static cohorts before their members change, as edits do. Dynamic cohorts have no members
/// of this version.
async fn lock_cohorts(
    tx: &mut Tx,
    cohorts: impl Iterator<Item = CohortId>,
) -> Result<BTreeSet<CohortId>> {
    let cohorts: BTreeSet<CohortId> = cohorts.collect();
    let ids: Vec<Value> = cohorts.iter().map(|id| (*id).into()).collect();
    let lock = tx.dialect().for_update();
    let sql =
        format!("SELECT id FROM cohorts WHERE is_static AND id IN {{list}} ORDER BY id{lock}");
    tx.all_in(&sql, args![], &ids).await?;
    Ok(cohorts)
}

async fn record_lists(tx: &mut Tx, project: ProjectId, cohorts: &BTreeSet<CohortId>) -> Result<()> {
    for cohort in cohorts {
        feed::record_cohort(tx, project, (*cohort, STATIC_VERSION)).await?;
    }
    Ok(())
}

async fn delete_static(tx: &mut Tx, project: ProjectId, persons: &[Value]) -> Result<()> {
    let sql = "DELETE FROM cohort_people WHERE project_id = $1 AND version = $2 \
               AND person_no IN {list}";
    tx.run_in(sql, args![project, STATIC_VERSION], persons).await
}

async fn recount_static(tx: &mut Tx, cohorts: &BTreeSet<CohortId>) -> Result<()> {
    let lists: Vec<Value> = cohorts.iter().map(|id| (*id).into()).collect();
    let sql = "UPDATE cohorts SET count = (SELECT COUNT(*) FROM cohort_people m \
               WHERE m.cohort_id = cohorts.id AND m.version = $1) \
               WHERE is_static AND id IN {list}";
    tx.run_in(sql, args![STATIC_VERSION], &lists).await
}
