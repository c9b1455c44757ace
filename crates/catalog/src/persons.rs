//! Persons, as people look for them.

use model::person::{DistinctId, Person, PersonNo};
use model::property::Node;
use model::{ProjectId, Timestamp, Window};
use uuid::Uuid;

use crate::db::{Value, args};
use crate::dialect::Dialect;
use crate::ingest::{PERSON_COLUMNS, read_person};
use crate::select::Condition;
use crate::{Catalog, Error, Result};

/// Persons read at once while their properties are looked at.
const SCAN_ROWS: i64 = 1_000;
/// Persons that one list looks at before it gives up.
const SCANNED_MAX: usize = 1_000_000;

/// Which persons are asked for; absent filters let everybody through.
#[derive(Debug, Default)]
pub struct PersonFilter {
    pub distinct_id: Option<String>,
    pub email: Option<String>,
    /// Part of the e-mail address or name, or a whole distinct id.
    pub search: Option<String>,
    /// Conditions on properties; cohorts are not looked up here.
    pub properties: Option<Node>,
}

/// How a person is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonKey {
    No(PersonNo),
    Uuid(Uuid),
}

/// A person and all its ids, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonWithIds {
    pub person: Person,
    pub distinct_ids: Vec<String>,
}

const FROM: &str = "persons p";
const ORDER: &str = "p.created_at DESC, p.no DESC";
const OF_ID: &str = "p.no IN (SELECT i.person_no FROM distinct_ids i \
     WHERE i.project_id = $1 AND i.distinct_id = ?)";

impl PersonFilter {
    fn condition(&self, project: ProjectId, dialect: Dialect) -> Condition {
        let mut condition = Condition::new("p.project_id = $1", args![project]);
        let property = |name| dialect.json_text("p.properties", name);
        if let Some(id) = &self.distinct_id {
            condition.and(OF_ID, id.as_str());
        }
        if let Some(email) = &self.email {
            condition.and(&format!("{} = ?", property("email")), email.as_str());
        }
        if let Some(search) = &self.search {
            let columns = [property("email"), property("name")];
            condition.and_found_or(&[&columns[0], &columns[1]], search, OF_ID);
        }
        condition
    }
}

impl Catalog {
    /// Newest first; `window.limit` persons at most, and one more if there are more.
    pub async fn persons(
        &self,
        project: ProjectId,
        filter: &PersonFilter,
        window: Window,
    ) -> Result<Vec<PersonWithIds>> {
        let persons = match &filter.properties {
            Some(node) => self.persons_scanned(project, filter, node, window).await?,
            None => {
                let more = Window { limit: window.limit + 1, ..window };
                let condition = filter.condition(project, self.db.dialect());
                let rows = self.db.slice(PERSON_COLUMNS, FROM, condition, ORDER, more).await?;
                rows.iter().map(read_person).collect::<Result<_>>()?
            }
        };
        self.with_ids(project, persons).await
    }

    /// How many persons the filter finds, whatever the window.
    pub async fn persons_count(&self, project: ProjectId, filter: &PersonFilter) -> Result<i64> {
        if let Some(node) = &filter.properties {
            let everybody = Window { limit: SCANNED_MAX as i64, offset: 0 };
            return Ok(self.persons_scanned(project, filter, node, everybody).await?.len() as i64);
        }
        self.db.count(FROM, filter.condition(project, self.db.dialect())).await
    }

    /// Looks at everybody's properties, in the order of the list.
    async fn persons_scanned(
        &self,
        project: ProjectId,
        filter: &PersonFilter,
        node: &Node,
        window: Window,
    ) -> Result<Vec<Person>> {
        let wanted = usize::try_from(window.limit + 1).unwrap_or(0);
        let mut skip = window.offset;
        let (mut found, mut scanned) = (Vec::new(), 0);
        let mut last: Option<(Timestamp, PersonNo)> = None;
        let now = self.clock.now();
        loop {
            let mut condition = filter.condition(project, self.db.dialect());
            if let Some((at, no)) = last {
                condition.and_before(("p.created_at", at.into()), ("p.no", no.into()));
            }
            let slice = Window { limit: SCAN_ROWS, offset: 0 };
            let rows = self.db.slice(PERSON_COLUMNS, FROM, condition, ORDER, slice).await?;
            for row in &rows {
                let person = read_person(row)?;
                last = Some((person.created_at, person.no));
                let is_member = &mut |_| Err(Error::refused(Some("properties"), COHORTS));
                if !node.matches(&person.properties, now, is_member)? {
                    continue;
                }
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                found.push(person);
                if found.len() == wanted {
                    return Ok(found);
                }
            }
            scanned += rows.len();
            if (rows.len() as i64) < SCAN_ROWS {
                return Ok(found);
            }
            if scanned >= SCANNED_MAX {
                let detail = "Too many persons to look at; narrow the list by another filter.";
                return Err(Error::refused(Some("properties"), detail));
            }
        }
    }

    pub async fn person(&self, project: ProjectId, key: PersonKey) -> Result<PersonWithIds> {
        let (column, value): (&str, Value) = match key {
            PersonKey::No(no) => ("no", no.into()),
            PersonKey::Uuid(uuid) => ("uuid", uuid.into()),
        };
        let sql = format!(
            "SELECT {PERSON_COLUMNS} FROM persons p WHERE p.project_id = $1 AND p.{column} = $2"
        );
        let row = self.db.one(sql, vec![project.into(), value]).await?;
        let found = self.with_ids(project, vec![read_person(&row)?]).await?;
        found.into_iter().next().ok_or(Error::NotFound)
    }

    /// Those of the persons that are there.
    pub async fn person_numbers_by_uuid(
        &self,
        project: ProjectId,
        uuids: &[Uuid],
    ) -> Result<Vec<PersonNo>> {
        let sql = "SELECT p.no FROM persons p WHERE p.project_id = $1 AND p.uuid IN {list}";
        let wanted: Vec<Value> = uuids.iter().map(|uuid| (*uuid).into()).collect();
        let rows = self.db.all_in(sql, args![project], &wanted).await?;
        rows.iter().map(|row| row.get("no")).collect()
    }

    async fn with_ids(
        &self,
        project: ProjectId,
        persons: Vec<Person>,
    ) -> Result<Vec<PersonWithIds>> {
        let numbers: Vec<PersonNo> = persons.iter().map(|person| person.no).collect();
        let ids = self.distinct_ids_of(project, &numbers).await?;
        let own = |no: PersonNo| {
            let own = ids.iter().filter(move |id: &&DistinctId| id.person == Some(no));
            own.map(|id| id.text.clone()).collect()
        };
        let with = |person: Person| PersonWithIds { distinct_ids: own(person.no), person };
        Ok(persons.into_iter().map(with).collect())
    }
}

const COHORTS: &str = "Persons are filtered here by their properties, not by cohorts.";
