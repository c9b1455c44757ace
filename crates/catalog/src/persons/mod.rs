//! Persons: listing, filtering and reading them.

pub(crate) mod groups;
pub(crate) mod identities;
pub(crate) mod scans;
mod values;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use model::json_object::JsonObject;
use model::person::{Person, PersonNo};
use model::property::{ExternalCondition, Node, text};
use model::{CohortId, ProjectId, Timestamp, Window};
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::select::Condition;
use crate::db::{Value, args, handle};
use crate::{Error, Result};
use identities::{PERSON_COLUMNS, read_person, read_person_raw};
use scans::{PersonProperties, PersonSource};

handle! {
    /// Persons and their distinct ids.
    Persons
}
handle! {
    /// Group types and groups.
    Groups
}

/// Persons per batch of a scan.
const SCAN_ROWS: usize = 1_000;
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
    /// The uuid of the person that was merged into this one.
    Merged(Uuid),
    /// The uuid of the person that this one was merged into.
    MergedInto(Uuid),
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
    fn condition(&self, project: ProjectId) -> Condition {
        let mut condition = Condition::new("p.project_id = $1", args![project]);
        if let Some(id) = &self.distinct_id {
            condition.and(HAS_DISTINCT_ID, id.as_str());
        }
        if let Some(cohort) = self.cohort {
            condition.and(IN_COHORT, cohort);
        }
        condition
    }

    /// Whether it reads properties, which have no database index: [`Persons::search`] evaluates it.
    pub fn reads_properties(&self) -> bool {
        self.email.is_some() || self.search.is_some() || self.properties.is_some()
    }

    /// The properties that it reads.
    fn properties(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.properties.iter().for_each(|node| node.properties(&mut names));
        if self.email.is_some() || self.search.is_some() {
            names.extend(["email", "name"]);
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The cohorts that the property filters reference.
    fn cohorts(&self) -> Vec<CohortId> {
        let mut named = Vec::new();
        self.properties.iter().for_each(|node| node.cohorts(&mut named));
        named.sort_unstable();
        named.dedup();
        named
    }

    /// Everything but distinct ids and the cohort of the list.
    fn matches(
        &self,
        person: &PersonProperties,
        searched: Option<PersonNo>,
        members: &HashSet<(CohortId, PersonNo)>,
        now: Timestamp,
    ) -> Result<bool> {
        let property = |name: &str| person.properties.get(name).map(text);
        if self.email.as_deref().is_some_and(|email| property("email").as_deref() != Some(email)) {
            return Ok(false);
        }
        if let Some(search) = self.search.as_ref().filter(|_| searched != Some(person.no)) {
            let lowered = search.to_lowercase();
            let contains = |value: Cow<'_, str>| value.to_lowercase().contains(&lowered);
            if !["email", "name"].into_iter().filter_map(property).any(contains) {
                return Ok(false);
            }
        }
        let Some(node) = &self.properties else { return Ok(true) };
        let ask = &mut |asked: ExternalCondition<'_>| match asked {
            ExternalCondition::Cohort(id) => Ok(members.contains(&(id, person.no))),
            ExternalCondition::Behavioral(_) => {
                let detail =
                    "Persons cannot be filtered by behavioral filters; create a cohort with them.";
                Err(Error::refused(Some("properties"), detail))
            }
        };
        node.matches(&person.properties, now, ask)
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
    /// more follow. For filters that do not read properties.
    pub async fn list(
        self,
        project: ProjectId,
        filter: &PersonFilter,
        window: Window,
    ) -> Result<Vec<PersonWithIds>> {
        self.check_cohorts(project, filter).await?;
        let more = Window { limit: window.limit + 1, ..window };
        let condition = filter.condition(project);
        let rows = self.core.db.slice(PERSON_COLUMNS, FROM, condition, ORDER, more).await?;
        let persons = rows.iter().map(read_person).collect::<Result<_>>()?;
        self.with_ids(project, persons).await
    }

    /// The number of persons that [`Persons::list`] would return without a window.
    pub async fn count(self, project: ProjectId, filter: &PersonFilter) -> Result<i64> {
        self.check_cohorts(project, filter).await?;
        self.core.db.count(FROM, filter.condition(project)).await
    }

    /// Evaluates the filter for all persons of `source`. Returns the window of [`Persons::list`], and
    /// the number of all matching persons.
    pub async fn search(
        self,
        project: ProjectId,
        filter: &PersonFilter,
        window: Window,
        source: &dyn PersonSource,
    ) -> Result<(Vec<PersonWithIds>, i64)> {
        self.check_cohorts(project, filter).await?;
        let only = match &filter.distinct_id {
            None => None,
            Some(id) => match self.no_by_distinct_id(project, id).await? {
                Some(no) => Some(no),
                None => return Ok((Vec::new(), 0)),
            },
        };
        let searched = match &filter.search {
            Some(search) => self.no_by_distinct_id(project, search).await?,
            None => None,
        };
        let (names, now) = (filter.properties(), self.core.clock.now());
        let mut cohorts = filter.cohorts();
        cohorts.extend(filter.cohort.filter(|cohort| !cohorts.contains(cohort)));
        let offset = usize::try_from(window.offset).unwrap_or(0);
        let last = offset.saturating_add(usize::try_from(window.limit).unwrap_or(0));
        // The newest so far, up to the last of the window and one more.
        let mut newest: BinaryHeap<Reverse<(Timestamp, PersonNo)>> = BinaryHeap::new();
        let (mut total, batch_len) = (0, if only.is_some() { 1 } else { SCAN_ROWS });
        let mut after = only.and_then(|no| no.0.checked_sub(1)).map(PersonNo);
        loop {
            let persons = source.read_properties(after, batch_len, &names);
            let (Some(first), Some(end)) = (persons.first(), persons.last()) else { break };
            after = Some(end.no);
            let members = self.members_within(project, &cohorts, first.no, end.no).await?;
            for person in &persons {
                let is_listed = only.is_none_or(|only| only == person.no)
                    && filter.cohort.is_none_or(|id| members.contains(&(id, person.no)));
                if is_listed && filter.matches(person, searched, &members, now)? {
                    total += 1;
                    newest.push(Reverse((person.created_at, person.no)));
                    if newest.len() > last.saturating_add(1) {
                        newest.pop();
                    }
                }
            }
            if only.is_some() {
                break;
            }
            // Other requests get the thread, and a client that left ends the scan.
            tokio::task::yield_now().await;
        }
        let newest = newest.into_sorted_vec().into_iter().skip(offset);
        let numbers: Vec<PersonNo> = newest.map(|Reverse((_, no))| no).collect();
        let mut persons = self.by_no(project, &numbers).await?;
        persons.sort_by_key(|person| Reverse((person.created_at, person.no)));
        Ok((self.with_ids(project, persons).await?, total))
    }

    async fn no_by_distinct_id(self, project: ProjectId, id: &str) -> Result<Option<PersonNo>> {
        let sql = "SELECT person_no FROM distinct_ids \
                   WHERE project_id = $1 AND distinct_id = $2 AND person_no IS NOT NULL";
        let row = self.core.db.optional(sql, args![project, id]).await?;
        row.map(|row| row.get("person_no")).transpose()
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
    async fn members_within(
        self,
        project: ProjectId,
        cohorts: &[CohortId],
        first: PersonNo,
        last: PersonNo,
    ) -> Result<HashSet<(CohortId, PersonNo)>> {
        if cohorts.is_empty() {
            return Ok(HashSet::new());
        }
        let sql = "SELECT m.cohort_id, m.person_no FROM cohort_people m JOIN cohorts h \
                   ON h.id = m.cohort_id AND m.version = COALESCE(h.version, 0) \
                   WHERE m.project_id = $1 AND m.person_no BETWEEN $2 AND $3 \
                   AND m.cohort_id IN {list}";
        let ids: Vec<Value> = cohorts.iter().map(|id| (*id).into()).collect();
        let rows = self.core.db.all_in(sql, args![project, first, last], &ids).await?;
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
            PersonActivity::Merged(other) => {
                let after = Some(json!({ "person": other }));
                ("people_merged_into", vec![change(ChangeAction::Merged, None, after)])
            }
            PersonActivity::MergedInto(survivor) => {
                let after = Some(json!({ "person": survivor }));
                ("was_merged_into_person", vec![change(ChangeAction::Merged, None, after)])
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
