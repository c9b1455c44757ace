//! Cache of the persons and groups of the projects that were queried last. It follows the pipeline's
//! changes, and writes a checkpoint when a project has many.

use std::collections::HashMap;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use catalog::{Catalog, IngestOutcome, ProjectChanges, StoredPerson};
use facts::{Groups, PersonFacts, PersonIndex};
use model::ProjectId;
use model::group::{GROUP_TYPES_MAX, Group};
use model::person::IdentityChanges;

use crate::identity_log::LogPosition;
use crate::people::{LoadedIdentities, People, set_group};

/// Rows of one catalog scan. Each connection retains a buffer for as many, and a person takes a few
/// kilobytes.
const SCAN_ROWS: i64 = 512;
/// Projects whose persons and groups are cached.
const PROJECTS_MAX: usize = 16;
/// Memory of the cache; past it the least recently used projects are evicted. The project that a
/// query reads stays, however large it is.
const CACHE_BYTES_MAX: usize = 256 << 20;
/// Changes of persons, distinct ids and groups that queue up between two queries of a project. Past
/// it they are dropped, and read from the log when the project is next read.
const PENDING_ROWS_MAX: usize = 100_000;
/// How often a new checkpoint is loaded again because a query changed the project meanwhile.
const MAP_ATTEMPTS_MAX: usize = 5;
/// How often projects that nobody queries are checked for a due checkpoint.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct IdentityCache {
    catalog: Catalog,
    people: Option<People>,
    cached: Arc<Mutex<CachedProjects>>,
}

/// Persons and groups of the projects that were queried last.
#[derive(Default)]
struct CachedProjects {
    projects: HashMap<ProjectId, CachedProject>,
    /// The logical clock of the LRU eviction.
    uses: u64,
}

#[derive(Default)]
struct CachedProject {
    loaded: Option<Identities>,
    /// Where in the log `loaded` is.
    position: Option<LogPosition>,
    /// Held by the one task that loads the project; the others wait for it.
    loading: Arc<tokio::sync::Mutex<()>>,
    pending: Vec<Pending>,
    pending_rows: usize,
    /// Whether pending changes were dropped since the last load began.
    lost_changes: bool,
    is_checkpointing: bool,
    /// How often pending changes were applied.
    applied: u64,
    /// Incremented by an eviction, so that a load that it overtook is discarded.
    generation: u64,
    used: u64,
    /// Size of `loaded` when it was last read.
    bytes: usize,
}

/// A batch's changes, and the end of the log after it.
struct Pending {
    identity: IdentityChanges,
    groups: Vec<Group>,
    position: Option<LogPosition>,
}

/// A project's persons and groups. Dropping them takes a while, so evicted ones are dropped outside
/// the lock.
pub(crate) type Identities = (Arc<PersonIndex>, Arc<Groups>);

/// Changes with every eviction and with every change that was applied.
type Version = (u64, u64);

impl CachedProject {
    fn version(&self) -> Version {
        (self.generation, self.applied)
    }

    /// Whether the log started over since the project was loaded, so that it has no position any more.
    fn is_detached(&self, people: &People) -> bool {
        let at = self.position.zip(people.position());
        at.is_some_and(|(position, end)| position.log != end.log)
    }

    #[must_use = "dropped outside the lock"]
    fn evict(&mut self) -> Option<Identities> {
        self.pending.clear();
        self.pending_rows = 0;
        self.generation += 1;
        self.bytes = 0;
        self.position = None;
        self.lost_changes = false;
        self.loaded.take()
    }

    #[must_use = "dropped outside the lock"]
    fn enqueue(
        &mut self,
        changes: &ProjectChanges,
        position: Option<LogPosition>,
    ) -> Option<Identities> {
        let ProjectChanges { identity, groups, .. } = changes;
        let moved = identity.merges.len() + identity.deleted.len();
        self.pending_rows += moved + identity.ids.len() + identity.persons.len() + groups.len();
        if self.pending_rows > PENDING_ROWS_MAX {
            if position.is_none() {
                return self.evict();
            }
            self.pending.clear();
            self.pending_rows = 0;
            self.lost_changes = true;
            return None;
        }
        let (identity, groups) = (identity.clone(), groups.clone());
        self.pending.push(Pending { identity, groups, position });
        None
    }

    fn is_current(&self) -> bool {
        self.loaded.is_some() && !self.lost_changes
    }

    /// Applies the pending changes; none unless the project is loaded and has all changes.
    fn current(&mut self) -> Option<Identities> {
        if !self.is_current() {
            return None;
        }
        let (people, groups) = self.loaded.as_mut()?;
        self.pending_rows = 0;
        let pending = std::mem::take(&mut self.pending);
        let identities = pending.iter().map(|pending| &pending.identity);
        if identities.clone().any(|identity| *identity != IdentityChanges::default()) {
            Arc::make_mut(people).apply_all(identities);
        }
        for changed in pending.iter().map(|pending| &pending.groups).filter(|all| !all.is_empty()) {
            let groups = Arc::make_mut(groups);
            changed.iter().for_each(|group| set_group(groups, group));
        }
        if let Some(last) = pending.last() {
            self.position = last.position;
            self.applied += 1;
        }
        self.bytes = people.bytes() + groups.bytes();
        Some((people.clone(), groups.clone()))
    }
}

impl IdentityCache {
    pub fn new(catalog: Catalog, people: Option<People>) -> Self {
        let cached: Arc<Mutex<CachedProjects>> = Arc::default();
        let (listener, log) = (cached.clone(), people.clone());
        catalog.ingest().on_apply(move |ingested| {
            // `People` confirmed the batch before: its listener was added first.
            let position = log.as_ref().and_then(People::position);
            let mut cached = lock(&listener);
            let evicted: Vec<Identities> = match ingested {
                IngestOutcome::Unknown => {
                    cached.projects.values_mut().filter_map(CachedProject::evict).collect()
                }
                IngestOutcome::Committed(projects) => {
                    let add = |changes: &ProjectChanges| {
                        cached.projects.get_mut(&changes.project)?.enqueue(changes, position)
                    };
                    projects.iter().filter_map(add).collect()
                }
            };
            drop(cached);
            drop(evicted);
        });
        Self { catalog, people, cached }
    }

    /// Why queries of some project wait.
    pub fn progress(&self) -> Option<String> {
        self.people.as_ref()?.progress()
    }

    /// Memory of the cached persons and groups.
    pub fn bytes(&self) -> usize {
        lock(&self.cached).projects.values().map(|entry| entry.bytes).sum()
    }

    /// The project's persons and groups, from the cache or loaded into it.
    pub async fn get(&self, project: ProjectId) -> catalog::Result<Identities> {
        loop {
            let mut evicted_identities = None;
            let (cached, evicted) = {
                let mut cached = lock(&self.cached);
                cached.uses += 1;
                let used = cached.uses;
                let mut evicted = Vec::from_iter(evict_oldest(&mut cached, project));
                let entry = cached.projects.entry(project).or_default();
                entry.used = used;
                if self.people.as_ref().is_some_and(|people| entry.is_detached(people)) {
                    evicted_identities = entry.evict();
                }
                let current = entry.current().ok_or_else(|| entry.loading.clone());
                if let Ok(current) = &current {
                    self.checkpoint_if_due(project, entry, current);
                    evicted.extend(evict_others(&mut cached, project, CACHE_BYTES_MAX));
                }
                (current, evicted)
            };
            // Dropping takes a while, so the lock is released first.
            drop((evicted, evicted_identities));
            let loading = match cached {
                Ok(current) => return Ok(current),
                Err(loading) => loading,
            };
            // A task of its own, which survives the query: the next query would start over, and a
            // large project may take longer to load than any query waits.
            let cache = self.clone();
            let load = tokio::spawn(async move { cache.load_once(project, &loading).await });
            match load.await {
                Ok(loaded) => loaded?,
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(_) => pending().await,
            }
        }
    }

    /// Loads the project unless another task has done so meanwhile.
    async fn load_once(
        &self,
        project: ProjectId,
        loading: &tokio::sync::Mutex<()>,
    ) -> catalog::Result<()> {
        let _exclusive = loading.lock().await;
        let (version, behind) = match lock(&self.cached).projects.get_mut(&project) {
            Some(entry) if !entry.is_current() => {
                // What follows is pending again.
                entry.lost_changes = false;
                (entry.version(), entry.loaded.clone().zip(entry.position))
            }
            _ => return Ok(()),
        };
        let loaded = match self.load_from_disk(project, behind).await {
            Some(loaded) => loaded,
            None => self.build(project).await?,
        };
        self.replace(project, version, loaded);
        Ok(())
    }

    /// From `behind` and the log, or from a checkpoint and the log.
    async fn load_from_disk(
        &self,
        project: ProjectId,
        behind: Option<(Identities, LogPosition)>,
    ) -> Option<LoadedIdentities> {
        let people = self.people.clone()?;
        let load = move || {
            let caught_up = behind.and_then(|((persons, groups), position)| {
                let (persons, groups) = ((*persons).clone(), (*groups).clone());
                people.catch_up(
                    project,
                    LoadedIdentities { persons, groups, position: Some(position) },
                )
            });
            caught_up.or_else(|| people.load(project))
        };
        tokio::task::spawn_blocking(load).await.ok()?
    }

    /// Publishes loaded identities, unless the project was evicted or changed since. The pending
    /// changes stay: applying one twice changes nothing.
    fn replace(&self, project: ProjectId, version: Version, loaded: LoadedIdentities) -> bool {
        let LoadedIdentities { persons, groups, position } = loaded;
        let identities = (Arc::new(persons), Arc::new(groups));
        let (is_published, replaced) = match lock(&self.cached).projects.get_mut(&project) {
            Some(entry) if entry.version() == version => {
                entry.position = position;
                (true, entry.loaded.replace(identities))
            }
            _ => (false, Some(identities)),
        };
        drop(replaced);
        is_published
    }

    /// Maps what a checkpoint wrote in place of the changes in memory.
    fn map_checkpoint(&self, people: &People, project: ProjectId) {
        for _ in 0..MAP_ATTEMPTS_MAX {
            let Some(version) =
                lock(&self.cached).projects.get(&project).map(CachedProject::version)
            else {
                return;
            };
            let Some(loaded) = people.load(project) else { return };
            // A query that applied pending changes meanwhile is ahead of what was loaded.
            if self.replace(project, version, loaded) {
                return;
            }
        }
    }

    fn checkpoint_if_due(&self, project: ProjectId, entry: &mut CachedProject, now: &Identities) {
        let (Some(people), Some(position)) = (&self.people, entry.position) else { return };
        if entry.is_checkpointing || !people.is_checkpoint_due(&now.0, &now.1) {
            return;
        }
        entry.is_checkpointing = true;
        let (cache, people, (persons, groups)) = (self.clone(), people.clone(), now.clone());
        tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            match people.checkpoint(project, &persons, &groups, position) {
                Ok(()) => {
                    let (rows, duration_ms) = (persons.len(), begun.elapsed().as_millis() as u64);
                    tracing::info!(project.id = %project, rows, duration_ms, "checkpointed persons");
                    drop((persons, groups));
                    cache.map_checkpoint(&people, project);
                }
                Err(error) => {
                    tracing::warn!(project.id = %project, %error, "cannot checkpoint persons");
                }
            }
            if let Some(entry) = lock(&cache.cached).projects.get_mut(&project) {
                entry.is_checkpointing = false;
            }
        });
    }

    /// Reads all groups from the catalog, and all persons from the log if it has them, otherwise from
    /// the catalog.
    async fn build(&self, project: ProjectId) -> catalog::Result<LoadedIdentities> {
        // Before the first row: later changes are in the log.
        let position = self.people.as_ref().and_then(People::position);
        let groups = self.read_groups(project).await?;
        let origin = self.people.as_ref().and_then(|people| people.origin(project));
        if let Some((people, origin)) = self.people.clone().zip(origin) {
            let (groups, position) = (groups.clone(), Some(origin));
            let persons = PersonIndex::new(project);
            let empty = LoadedIdentities { persons, groups, position };
            let replay = tokio::task::spawn_blocking(move || people.catch_up(project, empty));
            if let Ok(Some(loaded)) = replay.await {
                return Ok(loaded);
            }
        }
        let persons = self.read_persons(project).await?;
        Ok(LoadedIdentities { persons, groups, position })
    }

    async fn read_persons(&self, project: ProjectId) -> catalog::Result<PersonIndex> {
        let next = self.catalog.persons().next_dense_ids(&[project]).await?;
        let rows =
            next.get(&project).map_or(0, |next| u64::from(next.distinct) + u64::from(next.person));
        let large = self.people.as_ref().filter(|people| rows >= people.changes_min() as u64);
        let mut progress = large.map(|people| people.building(project, rows));
        let mut read =
            |rows: usize| progress.iter_mut().for_each(|progress| progress.advance(rows));
        let (mut index, mut after) = (PersonIndex::new(project), None);
        loop {
            let persons = self.catalog.persons().scan(project, after, SCAN_ROWS).await?;
            let Some(last) = persons.last() else { break };
            after = Some(last.no);
            read(persons.len());
            for StoredPerson { no, uuid, properties, is_identified, created_at } in &persons {
                let (uuid, created_at) = (*uuid, *created_at);
                let facts = PersonFacts { uuid, created_at, is_identified: *is_identified };
                index.set_person(*no, facts, properties);
            }
        }
        let mut after = None;
        loop {
            let ids = self.catalog.persons().scan_distinct_ids(project, after, SCAN_ROWS).await?;
            let Some((last, ..)) = ids.last() else { break };
            after = Some(*last);
            read(ids.len());
            ids.iter().for_each(|(no, text, person)| index.set_distinct_id(*no, text, *person));
        }
        Ok(index)
    }

    async fn read_groups(&self, project: ProjectId) -> catalog::Result<Groups> {
        let mut groups = Groups::default();
        for index in 0..GROUP_TYPES_MAX {
            let mut after: Option<String> = None;
            loop {
                let page = self.catalog.groups().scan(project, index, after.as_deref(), SCAN_ROWS);
                let page = page.await?;
                let Some(last) = page.last() else { break };
                after = Some(last.key.clone());
                page.iter().for_each(|group| set_group(&mut groups, group));
            }
        }
        Ok(groups)
    }

    /// Keeps checkpoints current while nobody queries, and removes those of deleted projects. Loads
    /// large projects at the start.
    pub async fn maintain(self) {
        let Some(people) = self.people.clone() else { return };
        if let Err(error) = self.load_large(&people).await {
            tracing::warn!(%error, "cannot load the person indexes");
        }
        loop {
            tokio::time::sleep(CHECKPOINT_INTERVAL).await;
            for project in people.due() {
                match self.get(project).await {
                    Ok((persons, groups)) if !people.is_checkpoint_due(&persons, &groups) => {
                        people.postpone(project);
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::warn!(project.id = %project, %error, "cannot load a person index");
                    }
                }
            }
        }
    }

    async fn load_large(&self, people: &People) -> catalog::Result<()> {
        let checkpointed = people.checkpointed();
        let existing = self.catalog.ingest().rules(&checkpointed).await?;
        people.remove_others(|project| existing.contains_key(&project));
        let large = self.catalog.persons().large_projects(people.changes_min() as i64).await?;
        for project in large.into_iter().take(PROJECTS_MAX) {
            self.get(project).await?;
        }
        Ok(())
    }
}

/// Evicts the least recently used project, unless the cache has a slot for this one.
fn evict_oldest(cache: &mut CachedProjects, project: ProjectId) -> Option<CachedProject> {
    if cache.projects.len() < PROJECTS_MAX || cache.projects.contains_key(&project) {
        return None;
    }
    let oldest = cache.projects.iter().min_by_key(|(_, entry)| entry.used).map(|(id, _)| *id);
    oldest.and_then(|id| cache.projects.remove(&id))
}

/// Evicts the least recently used projects, except this one, until the rest fits.
fn evict_others(
    cache: &mut CachedProjects,
    project: ProjectId,
    bytes_max: usize,
) -> Vec<CachedProject> {
    let mut evicted = Vec::new();
    let mut bytes: usize = cache.projects.values().map(|entry| entry.bytes).sum();
    while bytes > bytes_max {
        let others = cache.projects.iter().filter(|(id, entry)| **id != project && entry.bytes > 0);
        let oldest = others.min_by_key(|(_, entry)| entry.used).map(|(id, _)| *id);
        let Some(oldest) = oldest.and_then(|id| cache.projects.remove(&id)) else { break };
        bytes -= oldest.bytes;
        evicted.push(oldest);
    }
    evicted
}

fn lock(cache: &Mutex<CachedProjects>) -> MutexGuard<'_, CachedProjects> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use catalog::{Location, Secret, Vault};
    use model::Clock;

    use super::*;

    #[test]
    fn identity_cache_evicts_least_recently_used_projects_past_its_bound() {
        let entry = |used, bytes| CachedProject { used, bytes, ..CachedProject::default() };
        let projects =
            [(1, entry(1, 40)), (2, entry(3, 40)), (3, entry(2, 40)), (4, entry(4, 200))];
        let projects = projects.into_iter().map(|(id, entry)| (ProjectId(id), entry)).collect();
        let mut cache = CachedProjects { projects, uses: 4 };
        let remaining = |cache: &CachedProjects| {
            let mut remaining: Vec<i64> = cache.projects.keys().map(|id| id.0).collect();
            remaining.sort_unstable();
            remaining
        };
        let evicted = evict_others(&mut cache, ProjectId(4), 250);
        assert_eq!(evicted.iter().map(|entry| entry.used).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(remaining(&cache), [2, 4]);
        evict_others(&mut cache, ProjectId(4), 100);
        assert_eq!(remaining(&cache), [4], "the project that is read stays");
    }

    #[tokio::test]
    async fn identity_load_continues_after_the_caller_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (file, vault) = (dir.path().join("catalog"), Vault::new(&Secret::given("secret")));
        let catalog = Catalog::open(Location::Sqlite(&file), vault, Clock::system()).await.unwrap();
        let cache = IdentityCache::new(catalog, None);
        let project = ProjectId(1);
        {
            let load = std::pin::pin!(cache.get(project));
            assert!(load.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let is_loaded = || lock(&cache.cached).projects[&project].loaded.is_some();
        assert!(!is_loaded());
        for _ in 0..1_000 {
            if is_loaded() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the project was not loaded");
    }
}
