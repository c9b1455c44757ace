//! What makes identities survive a restart: the identity log, and checkpoints of the person index.
//!
//! Loading a project maps its checkpoint and applies what the log has since. If either is missing,
//! damaged or has a gap, the project is read from the catalog again.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::{Catalog, FIRST_DENSE_ID, IngestOutcome};
use facts::{Checkpoints, GroupFacts, Groups, PersonIndex};
use model::ProjectId;
use model::group::Group;
use model::person::IdentityChanges;

use crate::identity_log::{IdentityLog, LogPosition};
use crate::{Error, Result};

/// Changes that are applied at once while a log is replayed: their merges share one pass over all
/// distinct ids.
const REPLAYED_ROWS: usize = 50_000;
/// A checkpoint is due when this share of persons and distinct ids has changed. A smaller share writes
/// more often, a larger one keeps more changes in memory.
const CHANGED_SHARE: usize = 20;

/// Identities on disk, for the queries of one server.
#[derive(Clone, Debug)]
pub struct People(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    log: IdentityLog,
    checkpoints: Checkpoints,
    changes_min: usize,
    /// Rows that changed since the last checkpoint, by project.
    changed: Mutex<HashMap<ProjectId, usize>>,
    /// Where the log has all persons of a project from the first on.
    origins: Mutex<HashMap<ProjectId, LogPosition>>,
    building: Building,
}

/// Progress of reading persons from the catalog.
#[derive(Debug, Default)]
struct Building {
    /// Persons and distinct ids to read by all running builds; zero if there is none.
    total: AtomicU64,
    done: AtomicU64,
}

/// A project's persons and groups, which include all changes before a position of the log.
#[derive(Debug)]
pub(crate) struct LoadedIdentities {
    pub persons: PersonIndex,
    pub groups: Groups,
    pub position: Option<LogPosition>,
}

impl People {
    /// Opens the identities in a data directory. Must be called before the first batch is ingested.
    /// Projects with fewer changes than `changes_min` have no checkpoint.
    pub async fn open(data_dir: &Path, catalog: &Catalog, changes_min: usize) -> Result<Self> {
        let offset = catalog.ingest().offset().await?;
        let (dir, checkpoints) = (data_dir.to_owned(), Checkpoints::new(data_dir.join("people")));
        let log = tokio::task::spawn_blocking(move || IdentityLog::open(&dir, offset)).await;
        let log = log.map_err(|error| Error::Internal(error.to_string()))?;
        let people = Self(Arc::new(Inner {
            log,
            checkpoints,
            changes_min,
            changed: Mutex::default(),
            origins: Mutex::default(),
            building: Building::default(),
        }));
        let (prepared, applied) = (people.clone(), people.clone());
        let end = Mutex::new(people.position());
        catalog.ingest().on_prepare(move |batch| prepared.0.log.prepare(batch));
        catalog.ingest().on_apply(move |outcome| match outcome {
            IngestOutcome::Unknown => applied.0.log.unknown(),
            IngestOutcome::Committed(projects) => {
                applied.0.log.committed();
                let start = std::mem::replace(&mut *lock(&end), applied.position());
                let (mut changed, mut origins) = (applied.lock_changed(), lock(&applied.0.origins));
                for changes in projects {
                    if let Some(start) = start.filter(|_| is_first(&changes.identity)) {
                        origins.insert(changes.project, start);
                    }
                    let rows = changes.identity.ids.len() + changes.identity.persons.len();
                    let rows = rows + changes.groups.len();
                    *changed.entry(changes.project).or_default() += rows;
                }
            }
        });
        Ok(people)
    }

    fn lock_changed(&self) -> MutexGuard<'_, HashMap<ProjectId, usize>> {
        lock(&self.0.changed)
    }

    /// The end of the log; none while it is broken.
    pub(crate) fn position(&self) -> Option<LogPosition> {
        self.0.log.end()
    }

    /// The project as of the end of the log, if it has a checkpoint. Blocks on files.
    pub(crate) fn load(&self, project: ProjectId) -> Option<LoadedIdentities> {
        let (start, end) = (self.0.log.start()?, self.0.log.end()?);
        let opened = self.0.checkpoints.open(project, end.log, end.position)?;
        if opened.position < start.position {
            tracing::info!(project.id = %project, "the identity log no longer reaches the checkpoint");
            return None;
        }
        let position = Some(LogPosition { log: end.log, position: opened.position });
        let (persons, groups) = (opened.persons, opened.groups);
        self.catch_up(project, LoadedIdentities { persons, groups, position })
    }

    /// Applies what the log has since the identities' position. Blocks on files.
    pub(crate) fn catch_up(
        &self,
        project: ProjectId,
        mut identities: LoadedIdentities,
    ) -> Option<LoadedIdentities> {
        let from = identities.position?;
        let mut changes = self.0.log.changes(project, from).ok()?;
        identities.position = Some(LogPosition { log: from.log, position: changes.end() });
        let LoadedIdentities { persons, groups, .. } = &mut identities;
        let (mut batches, mut rows) = (Vec::new(), 0);
        for logged in &mut changes {
            let logged = match logged {
                Ok(logged) => logged,
                Err(gap) => {
                    tracing::warn!(project.id = %project, %gap, "cannot replay the identity log");
                    return None;
                }
            };
            logged.groups.iter().for_each(|group| set_group(groups, group));
            let identity = logged.identity;
            rows += identity.ids.len() + identity.persons.len();
            batches.push(identity);
            if rows >= REPLAYED_ROWS {
                persons.apply_all(batches.iter());
                batches.clear();
                rows = 0;
            }
        }
        persons.apply_all(batches.iter());
        Some(identities)
    }

    /// The position from which on the log has all persons of the project, if it does.
    pub(crate) fn origin(&self, project: ProjectId) -> Option<LogPosition> {
        let origin = lock(&self.0.origins).get(&project).copied()?;
        let start = self.0.log.start()?;
        (origin.log == start.log && origin.position >= start.position).then_some(origin)
    }

    pub(crate) fn is_checkpoint_due(&self, persons: &PersonIndex, groups: &Groups) -> bool {
        let (changes, len) = (persons.changes() + groups.changes(), persons.len() + groups.len());
        changes >= self.0.changes_min.max(len / CHANGED_SHARE)
    }

    /// Writes a checkpoint and releases what the log no longer needs. Blocks on files.
    pub(crate) fn checkpoint(
        &self,
        project: ProjectId,
        persons: &PersonIndex,
        groups: &Groups,
        position: LogPosition,
    ) -> io::Result<()> {
        self.lock_changed().remove(&project);
        lock(&self.0.origins).remove(&project);
        // The log must not end before a checkpoint.
        self.0.log.sync()?;
        self.0.checkpoints.write(persons, groups, position.log, position.position)?;
        let positions = self.0.checkpoints.projects();
        let positions =
            positions.iter().filter_map(|project| self.0.checkpoints.position(*project));
        self.0.log.release(positions.min().unwrap_or(position.position))
    }

    /// Projects whose checkpoint is due, most changed first.
    pub(crate) fn due(&self) -> Vec<ProjectId> {
        let changed = self.lock_changed();
        let mut due: Vec<(usize, ProjectId)> = changed
            .iter()
            .filter(|(_, rows)| **rows >= self.0.changes_min)
            .map(|(project, rows)| (*rows, *project))
            .collect();
        due.sort_unstable_by_key(|(rows, project)| (std::cmp::Reverse(*rows), project.0));
        due.into_iter().map(|(_, project)| project).collect()
    }

    /// Forgets the changes of a project whose index does not need a checkpoint yet.
    pub(crate) fn postpone(&self, project: ProjectId) {
        self.lock_changed().remove(&project);
    }

    /// The size from which on a project has a checkpoint.
    pub(crate) fn changes_min(&self) -> usize {
        self.0.changes_min
    }

    /// Removes the checkpoints of projects that `exists` does not accept.
    pub(crate) fn remove_others(&self, exists: impl Fn(ProjectId) -> bool) {
        for project in self.0.checkpoints.projects().into_iter().filter(|project| !exists(*project))
        {
            if let Err(error) = self.0.checkpoints.remove(project) {
                tracing::warn!(project.id = %project, %error, "cannot remove a checkpoint");
            }
        }
    }

    pub(crate) fn checkpointed(&self) -> Vec<ProjectId> {
        self.0.checkpoints.projects()
    }

    /// Reports that a project is being read from the catalog, until the guard is dropped.
    pub(crate) fn building(&self, project: ProjectId, rows: u64) -> BuildingGuard<'_> {
        tracing::info!(project.id = %project, rows, "building the person index from the catalog");
        self.0.building.total.fetch_add(rows, Ordering::Relaxed);
        BuildingGuard { building: &self.0.building, project, rows, done: 0 }
    }

    /// Why queries of some project wait, for readiness probes.
    pub fn progress(&self) -> Option<String> {
        let Building { total, done } = &self.0.building;
        let (total, done) = (total.load(Ordering::Relaxed), done.load(Ordering::Relaxed));
        (total > 0).then(|| {
            format!(
                "the person index is being built from the catalog, {done} of {total} rows are read"
            )
        })
    }
}

/// A running build of a person index.
pub(crate) struct BuildingGuard<'a> {
    building: &'a Building,
    project: ProjectId,
    rows: u64,
    done: u64,
}

/// Rows between two log lines about a build.
const PROGRESS_ROWS: u64 = 500_000;

impl BuildingGuard<'_> {
    pub fn advance(&mut self, rows: usize) {
        let before = self.done;
        self.done += rows as u64;
        self.building.done.fetch_add(rows as u64, Ordering::Relaxed);
        if before / PROGRESS_ROWS != self.done / PROGRESS_ROWS {
            tracing::info!(project.id = %self.project, done = self.done, rows = self.rows,
                "building the person index from the catalog");
        }
    }
}

impl Drop for BuildingGuard<'_> {
    fn drop(&mut self) {
        self.building.total.fetch_sub(self.rows, Ordering::Relaxed);
        self.building.done.fetch_sub(self.done, Ordering::Relaxed);
    }
}

/// Whether the batch has all persons and distinct ids of its project.
fn is_first(changes: &IdentityChanges) -> bool {
    let created = changes.next_distinct.saturating_sub(FIRST_DENSE_ID) as usize;
    created > 0 && changes.ids.len() == created && changes.first_new_person == FIRST_DENSE_ID
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn set_group(groups: &mut Groups, group: &Group) {
    let facts = GroupFacts { created_at: group.created_at, properties: group.properties.clone() };
    groups.set(group.index.into(), &group.key, &facts);
}
