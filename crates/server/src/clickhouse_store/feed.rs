//! Brings persons, distinct ids, groups and members of cohorts to ClickHouse, before the events that
//! need them become visible there.
//!
//! The catalog records in each transaction what changed (`catalog::Feed`); this reads its state as it is
//! by then and tells it to ClickHouse, which remembers the last change that it was told. A killed process
//! continues after it, and what is told again changes nothing. If ClickHouse lacks changes that the
//! catalog has forgotten, or the catalog was changed by a server without ClickHouse, everything is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use catalog::{Catalog, FedDistinctId, FeedChange, StoredPerson};
use clickhouse::{Told, ToldCohortMember, ToldDistinctId, ToldGroup, ToldPerson, Writer};
use model::group::{GROUP_TYPES_MAX, Group};
use model::person::{DistinctNo, PersonNo, person_uuid};
use model::{CohortId, ProjectId, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::blocking;

/// Changes that are read at once: each is of a batch of the pipeline.
const CHANGES_AT_ONCE: i64 = 16;
/// Rows that are read from the catalog and told at once.
const ROWS_AT_ONCE: usize = 2_000;

/// Cheap to clone; all clones are one feed.
#[derive(Clone)]
pub(super) struct Feed {
    catalog: Catalog,
    writer: Writer,
    /// The last change that was told; none until the feed has begun.
    told: Arc<Mutex<Option<i64>>>,
}

impl Feed {
    pub(super) fn new(catalog: Catalog, writer: Writer) -> Self {
        Self { catalog, writer, told: Arc::default() }
    }

    /// Has the writer wait for the feed before each insert.
    pub(super) fn bring_before_inserts(&self) {
        // The writer calls from threads of other runtimes, or from threads that may block.
        let (feed, requests) = (self.clone(), Handle::current());
        self.writer.before_insert(move || {
            let (send, brought) = std::sync::mpsc::sync_channel(1);
            let feed = feed.clone();
            requests.spawn(async move {
                // Fails only if the writer's thread has gone.
                let _ = send.send(feed.bring().await);
            });
            let brought = brought.recv();
            let brought = brought.unwrap_or_else(|_| Err(anyhow::anyhow!("the server stops")));
            brought.map(drop).map_err(|error| match error.downcast::<clickhouse::Error>() {
                Ok(error) => error,
                Err(error) => clickhouse::Error::Feed { why: format!("{error:#}") },
            })
        });
    }

    /// Brings what was recorded since the last call, if anything was: edits of cohorts do not wait for
    /// the next insert. `again` after a failure.
    pub(super) async fn bring_recorded(&self, again: bool) -> Result<bool> {
        match self.catalog.feed().take_recorded() || again {
            true => self.bring().await,
            false => Ok(false),
        }
    }

    /// Finds out what ClickHouse was told, and tells it everything if it lacks changes that the
    /// catalog does not have any more. Called before the pipeline applies anything.
    pub(super) async fn begin(&self, journal: u128) -> Result<()> {
        let mut told = self.told.lock().await;
        if told.is_none() {
            let writer = self.writer.clone();
            let known = blocking(move || writer.told()).await?;
            let known = known.and_then(|known| i64::try_from(known).ok());
            *told = Some(match known {
                Some(known) if self.continues_at(known).await? => known,
                _ => self.tell_all(journal).await?,
            });
        }
        drop(told);
        self.bring().await.map(drop)
    }

    /// Whether the catalog has all changes after this one.
    async fn continues_at(&self, known: i64) -> Result<bool> {
        let feed = self.catalog.feed();
        let applied = self.catalog.ingest().offset().await?.map(|(_, position)| position);
        let is_recorded = feed.position().await? == applied;
        let has_rest = match feed.bounds().await? {
            Some((first, last)) => first <= known.max(1) && known <= last,
            None => known == 0,
        };
        Ok(is_recorded && has_rest)
    }

    /// Tells the whole catalog, and returns the change after which the feed continues.
    async fn tell_all(&self, journal: u128) -> Result<i64> {
        let feed = self.catalog.feed();
        let position = self.catalog.ingest().offset().await?.map_or(0, |(_, position)| position);
        let after = feed.bounds().await?.map_or(0, |(first, _)| first - 1);
        let projects = feed.projects().await?;
        if !projects.is_empty() {
            tracing::info!(projects = projects.len(), "telling ClickHouse all persons and groups");
        }
        for project in projects {
            self.tell_project(project, position).await?;
        }
        let writer = self.writer.clone();
        blocking(move || writer.drop_untold(position)).await?;
        feed.record_all_cohorts().await?;
        let writer = self.writer.clone();
        blocking(move || writer.set_told_anew(after as u64)).await?;
        if position > 0 {
            feed.set_position(journal, position).await?;
        }
        Ok(after)
    }

    async fn tell_project(&self, project: ProjectId, position: u64) -> Result<()> {
        let rows_max = ROWS_AT_ONCE as i64;
        let mut after = None;
        loop {
            let found = self.catalog.persons().scan(project, after, rows_max).await?;
            let Some(last) = found.last() else { break };
            after = Some(last.no);
            let persons = found.into_iter().map(|one| told_person(project, one, position));
            self.tell(Told { persons: persons.collect(), ..Told::default() }).await?;
        }
        let mut after = None;
        loop {
            let found = self.catalog.feed().scan_distinct_ids(project, after, rows_max).await?;
            let Some(last) = found.last() else { break };
            after = Some(last.no);
            let ids = found.into_iter().map(|one| told_distinct_id(project, one, position));
            self.tell(Told { distinct_ids: ids.collect(), ..Told::default() }).await?;
        }
        for index in 0..GROUP_TYPES_MAX {
            let mut after: Option<String> = None;
            loop {
                let found =
                    self.catalog.groups().scan(project, index, after.as_deref(), rows_max).await?;
                let Some(last) = found.last() else { break };
                after = Some(last.key.clone());
                let groups = found.into_iter().map(|one| told_group(project, one, position));
                self.tell(Told { groups: groups.collect(), ..Told::default() }).await?;
            }
        }
        Ok(())
    }

    /// Tells what was recorded; returns whether there was anything. Does nothing before the feed has
    /// begun.
    pub(super) async fn bring(&self) -> Result<bool> {
        let mut told = self.told.lock().await;
        let Some(mut last) = *told else { return Ok(false) };
        let before = last;
        loop {
            let changes = self.catalog.feed().after(last, CHANGES_AT_ONCE).await?;
            let Some(newest) = changes.last().map(|change| change.id) else { break };
            self.tell_changes(changes).await?;
            last = newest;
        }
        if last == before {
            return Ok(false);
        }
        let writer = self.writer.clone();
        blocking(move || writer.set_told(last as u64)).await?;
        *told = Some(last);
        self.catalog.feed().told(last);
        self.catalog.feed().forget_before(last).await?;
        Ok(true)
    }

    async fn tell_changes(&self, changes: Vec<FeedChange>) -> Result<()> {
        // Of things that changed several times, the last position counts.
        let mut persons: BTreeMap<ProjectId, BTreeMap<PersonNo, u64>> = BTreeMap::new();
        let mut ids: BTreeMap<ProjectId, BTreeMap<DistinctNo, u64>> = BTreeMap::new();
        let mut groups: BTreeMap<ProjectId, BTreeMap<(u8, String), u64>> = BTreeMap::new();
        let mut cohorts: BTreeMap<(ProjectId, CohortId, i64), i64> = BTreeMap::new();
        for FeedChange { id, project, position, changed } in changes {
            let at = |one| (one, position);
            persons.entry(project).or_default().extend(changed.persons.into_iter().map(at));
            let at = |one| (one, position);
            ids.entry(project).or_default().extend(changed.distinct_ids.into_iter().map(at));
            let at = |one| (one, position);
            groups.entry(project).or_default().extend(changed.groups.into_iter().map(at));
            let members = |(cohort, version)| ((project, cohort, version), id);
            cohorts.extend(changed.cohorts.into_iter().map(members));
        }
        for (project, positions) in persons {
            self.tell_persons(project, &positions).await?;
        }
        for (project, positions) in ids {
            let nos: Vec<DistinctNo> = positions.keys().copied().collect();
            for nos in nos.chunks(ROWS_AT_ONCE) {
                let found = self.catalog.feed().distinct_ids(project, nos).await?;
                let told = |one: FedDistinctId| {
                    let position = positions.get(&one.no).copied().unwrap_or_default();
                    told_distinct_id(project, one, position)
                };
                let distinct_ids = found.into_iter().map(told).collect();
                self.tell(Told { distinct_ids, ..Told::default() }).await?;
            }
        }
        for (project, positions) in groups {
            let keys: Vec<(u8, &str)> =
                positions.keys().map(|(index, key)| (*index, key.as_str())).collect();
            for keys in keys.chunks(ROWS_AT_ONCE) {
                let found = self.catalog.groups().by_key(project, keys).await?;
                let told = |one: Group| {
                    let key = (one.index, one.key.clone());
                    let position = positions.get(&key).copied().unwrap_or_default();
                    told_group(project, one, position)
                };
                let groups = found.into_iter().map(told).collect();
                self.tell(Told { groups, ..Told::default() }).await?;
            }
        }
        for ((project, cohort, version), change) in cohorts {
            self.tell_members(project, (cohort, version), change as u64).await?;
        }
        Ok(())
    }

    /// Persons that do not exist any more were merged or deleted.
    async fn tell_persons(
        &self,
        project: ProjectId,
        positions: &BTreeMap<PersonNo, u64>,
    ) -> Result<()> {
        let nos: Vec<PersonNo> = positions.keys().copied().collect();
        for nos in nos.chunks(ROWS_AT_ONCE) {
            let found = self.catalog.feed().persons(project, nos).await?;
            let existing: BTreeSet<PersonNo> = found.iter().map(|one| one.no).collect();
            let position = |no: &PersonNo| positions.get(no).copied().unwrap_or_default();
            let told = |one: StoredPerson| {
                let position = position(&one.no);
                told_person(project, one, position)
            };
            let gone = |no: &PersonNo| ToldPerson {
                project,
                person_no: no.0,
                person_id: Uuid::nil(),
                created_at: Timestamp::from_micros(0),
                is_identified: false,
                is_deleted: true,
                properties: "{}".to_owned(),
                position: position(no),
            };
            let gone = nos.iter().filter(|no| !existing.contains(no)).map(gone);
            let persons = found.into_iter().map(told).chain(gone).collect();
            self.tell(Told { persons, ..Told::default() }).await?;
        }
        Ok(())
    }

    async fn tell_members(
        &self,
        project: ProjectId,
        (cohort, version): (CohortId, i64),
        change: u64,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let rows_max = ROWS_AT_ONCE as i64;
            let found = self.catalog.feed().members((cohort, version), after, rows_max).await?;
            let Some(last) = found.last() else { break };
            after = Some(*last);
            let member = |no: PersonNo| ToldCohortMember {
                project,
                cohort,
                version,
                person_no: no.0,
                is_deleted: false,
                position: change,
            };
            let cohort_members = found.into_iter().map(member).collect();
            self.tell(Told { cohort_members, ..Told::default() }).await?;
        }
        let in_effect = self.catalog.feed().version_in_effect(cohort).await?;
        let writer = self.writer.clone();
        blocking(move || {
            writer.drop_members(project, (cohort, version), change)?;
            match version {
                0 => Ok(()),
                _ => writer.drop_versions(project, cohort, in_effect),
            }
        })
        .await
    }

    async fn tell(&self, told: Told) -> Result<()> {
        let writer = self.writer.clone();
        blocking(move || writer.tell(&told)).await
    }
}

fn told_person(project: ProjectId, person: StoredPerson, position: u64) -> ToldPerson {
    let StoredPerson { no, uuid, properties, is_identified, created_at } = person;
    ToldPerson {
        project,
        person_no: no.0,
        person_id: uuid,
        created_at,
        is_identified,
        is_deleted: false,
        properties,
        position,
    }
}

fn told_distinct_id(project: ProjectId, id: FedDistinctId, position: u64) -> ToldDistinctId {
    let FedDistinctId { no, text, person } = id;
    ToldDistinctId {
        project,
        distinct_no: no.0,
        person_no: person.map(|(no, _)| no.0),
        person_id: person.map_or_else(|| person_uuid(project, &text), |(_, uuid)| uuid),
        distinct_id: text,
        position,
    }
}

fn told_group(project: ProjectId, group: Group, position: u64) -> ToldGroup {
    ToldGroup {
        project,
        group_type: group.index,
        key: group.key,
        created_at: group.created_at,
        is_deleted: false,
        properties: serde_json::Value::Object(group.properties).to_string(),
        position,
    }
}
