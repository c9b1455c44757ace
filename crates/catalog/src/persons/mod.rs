//! Persons: listing, filtering and reading them.

pub(crate) mod groups;
pub(crate) mod identities;
pub(crate) mod scans;
mod values;

use std::collections::HashSet;
use std::ops::ControlFlow;

use model::json_object::JsonObject;
use model::person::{Person, PersonNo};
use model::property::{ExternalCondition, Node};
use model::{CohortId, ProjectId, Timestamp, Window};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::dialect::{Dialect, placeholders};
use crate::db::select::Condition;
use crate::db::{Value, args, handle};
use crate::{Error, Result};
use identities::{PERSON_COLUMNS, read_person, read_person_raw};

handle! {
    /// Persons and their distinct ids.
    Persons
}
handle! {
    /// Group types and groups.
    Groups
}

/// Persons per batch of a scan.
const SCAN_ROWS: i64 = 1_000;
/// Persons that one list may scan.
const SCANNED_MAX: usize = 1_000_000;
/// Longer property names get no LIKE prefilter: SQLite limits patterns.
const PREFILTER_BYTES_MAX: usize = 1_000;
/// Cohorts that one list may filter by; each batch of a scan looks all of them up.
const COHORTS_MAX: usize = 20;

/// Filters of a list; an absent filter matches everyone.
#[derive(Debug, Default)]
pub struct PersonFilter {
    pub distinct_id: Option<String>,
    pub email: Option<String>,
    /// A substring of email address or name, or a whole distinct id.
    pub search: Option<String>,
    /// Conditions on properties and cohorts.
    pub properties: Option<Node>,
    pub cohort: Option<CohortId>,
}

/// A user's change to a person, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonActivity {
    Updated,
    PropertyDeleted,
    /// The distinct ids that were split off.
    Split(Vec<String>),
    Deleted,
}

/// A person's id in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonKey {
    No(PersonNo),
    Uuid(Uuid),
}

/// A person and its distinct ids, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonWithIds {
    pub person: Person,
    pub distinct_ids: Vec<String>,
}

const FROM: &str = "persons p";
const ORDER: &str = "p.created_at DESC, p.no DESC";
/// Members of a cohort as last calculated.
const IN_COHORT: &str = "p.no IN (SELECT m.person_no FROM cohort_people m \
     JOIN cohorts h ON h.id = m.cohort_id AND m.version = COALESCE(h.version, 0) \
     WHERE h.project_id = $1 AND h.id = ?)";
const HAS_DISTINCT_ID: &str = "p.no IN (SELECT i.person_no FROM distinct_ids i \
     WHERE i.project_id = $1 AND i.distinct_id = ?)";

impl PersonFilter {
    fn condition(&self, project: ProjectId, dialect: Dialect) -> Condition {
        let mut condition = Condition::new("p.project_id = $1", args![project]);
        let property = |name| dialect.json_text("p.properties", name);
        if let Some(id) = &self.distinct_id {
            condition.and(HAS_DISTINCT_ID, id.as_str());
        }
        if let Some(email) = &self.email {
            condition.and(&format!("{} = ?", property("email")), email.as_str());
        }
        if let Some(search) = &self.search {
            let columns = [property("email"), property("name")];
            condition.and_search_or(&[&columns[0], &columns[1]], search, HAS_DISTINCT_ID);
        }
        let needs = self.properties.as_ref().map(Node::prefilter).unwrap_or_default();
        for cohort in self.cohort.into_iter().chain(needs.cohorts) {
            condition.and(IN_COHORT, cohort);
        }
        for name in needs.properties.into_iter().filter(|name| name.len() <= PREFILTER_BYTES_MAX) {
            condition.and_may_have_member("p.properties", name);
        }
        condition
    }

    /// The cohorts that the property filters reference.
    fn cohorts(&self) -> Vec<CohortId> {
        let mut named = Vec::new();
        self.properties.iter().for_each(|node| node.cohorts(&mut named));
        named.sort_unstable();
        named.dedup();
        named
    }
}

/// The person that a log entry is about.
#[derive(Serialize)]
pub(crate) struct LoggedPerson(PersonNo, Uuid);

impl Logged for LoggedPerson {
    const SCOPE: &'static str = "Person";

    fn item_id(&self) -> String {
        self.0.0.to_string()
    }

    fn item_name(&self) -> Option<String> {
        Some(self.1.to_string())
    }
}

impl Persons<'_> {
    /// Newest first. Returns up to `window.limit + 1` persons, so that the caller knows whether
    /// more follow.
    pub async fn list(
        self,
        project: ProjectId,
        filter: &PersonFilter,
        window: Window,
    ) -> Result<Vec<PersonWithIds>> {
        self.check_cohorts(project, filter).await?;
        let Some(node) = &filter.properties else {
            let more = Window { limit: window.limit + 1, ..window };
            let condition = filter.condition(project, self.core.db.dialect());
            let rows = self.core.db.slice(PERSON_COLUMNS, FROM, condition, ORDER, more).await?;
            let persons = rows.iter().map(read_person).collect::<Result<_>>()?;
            return self.with_ids(project, persons).await;
        };
        let limit = usize::try_from(window.limit + 1).unwrap_or(0);
        let (mut skip, mut persons) = (window.offset, Vec::new());
        self.scan_matching(project, filter, node, |person| {
            if skip > 0 {
                skip -= 1;
            } else {
                persons.push(person);
            }
            if persons.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await?;
        self.with_ids(project, persons).await
    }

    /// The number of matching persons, regardless of the window.
    pub async fn count(self, project: ProjectId, filter: &PersonFilter) -> Result<i64> {
        self.check_cohorts(project, filter).await?;
        let Some(node) = &filter.properties else {
            return self
                .core
                .db
                .count(FROM, filter.condition(project, self.core.db.dialect()))
                .await;
        };
        let mut count = 0;
        self.scan_matching(project, filter, node, |_| {
            count += 1;
            ControlFlow::Continue(())
        })
        .await?;
        Ok(count)
    }

    /// Evaluates the filters on all persons in list order, and passes matches to `visit` until it
    /// breaks.
    async fn scan_matching(
        self,
        project: ProjectId,
        filter: &PersonFilter,
        node: &Node,
        mut visit: impl FnMut(Person) -> ControlFlow<()>,
    ) -> Result<()> {
        let (cohorts, now) = (filter.cohorts(), self.core.clock.now());
        let mut last: Option<(Timestamp, PersonNo)> = None;
        let mut scanned = 0;
        loop {
            let mut condition = filter.condition(project, self.core.db.dialect());
            if let Some((at, no)) = last {
                condition.and_before(("p.created_at", at.into()), ("p.no", no.into()));
            }
            let slice = Window { limit: SCAN_ROWS, offset: 0 };
            let rows = self.core.db.slice(PERSON_COLUMNS, FROM, condition, ORDER, slice).await?;
            let persons = rows.iter().map(read_person).collect::<Result<Vec<_>>>()?;
            last = persons.last().map(|person| (person.created_at, person.no));
            let members = self.members_among(project, &cohorts, &persons).await?;
            for person in persons {
                let ask = &mut |asked: ExternalCondition<'_>| match asked {
                    ExternalCondition::Cohort(id) => Ok(members.contains(&(id, person.no))),
                    ExternalCondition::Behavioral(_) => {
                        let detail = "Persons cannot be filtered by behavioral filters; create a cohort with them.";
                        Err(Error::refused(Some("properties"), detail))
                    }
                };
                let fits = node.matches(&person.properties, now, ask);
                if fits? && visit(person).is_break() {
                    return Ok(());
                }
            }
            scanned += rows.len();
            if (rows.len() as i64) < SCAN_ROWS {
                return Ok(());
            }
            if scanned >= SCANNED_MAX {
                let detail = "Too many persons to scan; narrow the list by another filter.";
                return Err(Error::refused(Some("properties"), detail));
            }
        }
    }

    /// Refuses filters by missing cohorts, which would silently match nobody.
    async fn check_cohorts(self, project: ProjectId, filter: &PersonFilter) -> Result<()> {
        let referenced = filter.cohorts();
        if referenced.len() > COHORTS_MAX {
            let detail = format!("A list may ask for at most {COHORTS_MAX} cohorts.");
            return Err(Error::refused(Some("properties"), detail));
        }
        let id_values: Vec<Value> =
            referenced.iter().copied().chain(filter.cohort).map(Into::into).collect();
        let sql = "SELECT id FROM cohorts WHERE project_id = $1 AND NOT deleted AND id IN {list}";
        let rows = self.core.db.all_in(sql, args![project], &id_values).await?;
        let existing: HashSet<CohortId> =
            rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
        let missing =
            |field| Error::refused(Some(field), "There is no such cohort in this project.");
        if !referenced.iter().all(|id| existing.contains(id)) {
            return Err(missing("properties"));
        }
        match filter.cohort.filter(|id| !existing.contains(id)) {
            Some(_) => Err(missing("cohort")),
            None => Ok(()),
        }
    }

    /// Which persons are members of which cohorts, as last calculated.
    async fn members_among(
        self,
        project: ProjectId,
        cohorts: &[CohortId],
        persons: &[Person],
    ) -> Result<HashSet<(CohortId, PersonNo)>> {
        if cohorts.is_empty() {
            return Ok(HashSet::new());
        }
        let mut fixed = args![project];
        let marks = placeholders(fixed.len() + 1, cohorts.len());
        fixed.extend(cohorts.iter().map(|id| Value::from(*id)));
        let sql = format!(
            "SELECT m.cohort_id, m.person_no FROM cohort_people m JOIN cohorts h \
             ON h.id = m.cohort_id AND m.version = COALESCE(h.version, 0) \
             WHERE m.project_id = $1 AND m.cohort_id IN {marks} AND m.person_no IN {{list}}"
        );
        let numbers: Vec<Value> = persons.iter().map(|person| person.no.into()).collect();
        let rows = self.core.db.all_in(&sql, fixed, &numbers).await?;
        rows.iter().map(|row| Ok((row.get("cohort_id")?, row.get("person_no")?))).collect()
    }

    /// The live cohorts of a person, with names and sizes.
    pub async fn cohorts(
        self,
        project: ProjectId,
        person: PersonNo,
    ) -> Result<Vec<(CohortId, Option<String>, Option<i64>)>> {
        let sql = "SELECT h.id, h.name, h.count FROM cohort_people m JOIN cohorts h \
                   ON h.id = m.cohort_id AND m.version = COALESCE(h.version, 0) \
                   WHERE m.project_id = $1 AND m.person_no = $2 AND NOT h.deleted ORDER BY h.id";
        let rows = self.core.db.all(sql, args![project, person]).await?;
        rows.iter().map(|row| Ok((row.get("id")?, row.get("name")?, row.get("count")?))).collect()
    }

    /// Logs a user's change to some persons. The journal carries the change itself.
    pub async fn log(
        self,
        actor: &Actor,
        persons: &[Person],
        activity: PersonActivity,
    ) -> Result<()> {
        let change = |action, field: Option<&str>, after| Change {
            scope: LoggedPerson::SCOPE.into(),
            action,
            field: field.map(str::to_owned),
            before: None,
            after,
        };
        let properties = || vec![change(ChangeAction::Changed, Some("properties"), None)];
        let (word, changes) = match activity {
            PersonActivity::Updated => ("updated", properties()),
            PersonActivity::PropertyDeleted => ("delete_property", properties()),
            PersonActivity::Split(ids) => {
                let after = Some(json!({ "distinct_ids": ids }));
                ("split_person", vec![change(ChangeAction::Split, None, after)])
            }
            PersonActivity::Deleted => ("deleted", Vec::new()),
        };
        let mut tx = self.core.db.begin().await?;
        for person in persons {
            let logged = LoggedPerson(person.no, person.uuid);
            tx.log(actor, word, &logged, changes.clone(), self.core.clock.now()).await?;
        }
        tx.commit().await
    }

    pub async fn get(self, project: ProjectId, key: PersonKey) -> Result<PersonWithIds> {
        let (column, value): (&str, Value) = match key {
            PersonKey::No(no) => ("no", no.into()),
            PersonKey::Uuid(uuid) => ("uuid", uuid.into()),
        };
        let sql = format!(
            "SELECT {PERSON_COLUMNS} FROM persons p WHERE p.project_id = $1 AND p.{column} = $2"
        );
        let row = self.core.db.one(sql, vec![project.into(), value]).await?;
        let persons = self.with_ids(project, vec![read_person(&row)?]).await?;
        persons.into_iter().next().ok_or(Error::NotFound)
    }

    /// Persons after `after` that may have a property, by dense id. The caller checks the property.
    pub async fn candidates_with_property(
        self,
        project: ProjectId,
        property: &str,
        after: Option<PersonNo>,
        limit: i64,
    ) -> Result<Vec<Person<JsonObject>>> {
        let mut condition = Condition::new("p.project_id = $1", args![project]);
        condition.and("p.no > ?", after.map_or(-1, |no| i64::from(no.0)));
        condition.and_may_have_member("p.properties", property);
        let slice = Window { limit, offset: 0 };
        let rows = self.core.db.slice(PERSON_COLUMNS, FROM, condition, "p.no", slice).await?;
        rows.iter().map(read_person_raw).collect()
    }

    /// The persons that exist, by dense id, with their distinct ids.
    pub async fn with_distinct_ids(
        self,
        project: ProjectId,
        numbers: &[PersonNo],
    ) -> Result<Vec<PersonWithIds>> {
        let mut persons = self.by_no(project, numbers).await?;
        persons.sort_by_key(|person| person.no);
        self.with_ids(project, persons).await
    }

    /// The dense ids of the persons that exist.
    pub async fn nos_by_uuid(self, project: ProjectId, uuids: &[Uuid]) -> Result<Vec<PersonNo>> {
        let sql = "SELECT p.no FROM persons p WHERE p.project_id = $1 AND p.uuid IN {list}";
        let id_values: Vec<Value> = uuids.iter().map(|uuid| (*uuid).into()).collect();
        let rows = self.core.db.all_in(sql, args![project], &id_values).await?;
        rows.iter().map(|row| row.get("no")).collect()
    }

    async fn with_ids(
        self,
        project: ProjectId,
        persons: Vec<Person>,
    ) -> Result<Vec<PersonWithIds>> {
        let numbers: Vec<PersonNo> = persons.iter().map(|person| person.no).collect();
        let mut ids = self.first_distinct_ids(project, &numbers).await?;
        let with = |person: Person| {
            let distinct_ids = ids.remove(&person.no).unwrap_or_default();
            PersonWithIds { distinct_ids, person }
        };
        Ok(persons.into_iter().map(with).collect())
    }
}
