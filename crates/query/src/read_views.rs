//! Opens read views: a snapshot of a project's events joined with its persons, groups, cohorts and
//! actions. Person indexes and groups are cached in memory, and follow the pipeline's changes.

use std::collections::HashMap;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::{Catalog, Deleted, IngestOutcome, ProjectChanges, ProjectRow, StoredPerson};
use facts::{
    ActionFacts, ActionMatcher, CohortFacts, Cohorts, ConditionCompiler, GroupFacts, Groups, Needs,
    PathCleaning, PersonFacts, PersonIndex, ReadView, Zone,
};
use hogql::Project;
use insights::HogqlCompiler;
use model::group::{GROUP_TYPES_MAX, Group};
use model::person::IdentityChanges;
use model::{ActionId, CohortId, ProjectId};
use warehouse::{DenseIdSet, Predicate, Snapshot, Warehouse};

use crate::Result;
use crate::referenced_names::ReferencedNames;

/// Rows of one catalog scan. Each connection retains a buffer for as many, and a person takes a few
/// kilobytes.
const SCAN_ROWS: i64 = 512;
/// Projects whose persons and groups are cached.
const PROJECTS_MAX: usize = 16;
/// Memory of the cache; past it the least recently used projects are evicted. The project that a
/// query reads stays, however large it is.
const CACHE_BYTES_MAX: usize = 256 << 20;
/// Changes of persons, distinct ids and groups that queue up between two queries of a project. Past
/// it the project is evicted, and loaded again when it is next read.
const PENDING_ROWS_MAX: usize = 100_000;

#[derive(Clone)]
pub(crate) struct ReadViews {
    catalog: Catalog,
    warehouse: Warehouse,
    cache: Arc<Mutex<IdentityCache>>,
}

/// Persons and groups of the projects that were queried last.
#[derive(Default)]
struct IdentityCache {
    projects: HashMap<ProjectId, CachedProject>,
    /// The logical clock of the LRU eviction.
    uses: u64,
}

#[derive(Default)]
struct CachedProject {
    loaded: Option<Identities>,
    /// Held by the one task that loads the project; the others wait for it.
    loading: Arc<tokio::sync::Mutex<()>>,
    pending: Vec<(IdentityChanges, Vec<Group>)>,
    pending_rows: usize,
    /// Incremented by an eviction, so that a load that it overtook is discarded.
    generation: u64,
    used: u64,
    /// Size of `loaded` when it was last read.
    bytes: usize,
}

/// A project's persons and groups. Dropping them takes a while, so evicted ones are dropped outside
/// the lock.
type Identities = (Arc<PersonIndex>, Arc<Groups>);

impl CachedProject {
    #[must_use = "dropped outside the lock"]
    fn evict(&mut self) -> Option<Identities> {
        self.pending.clear();
        self.pending_rows = 0;
        self.generation += 1;
        self.bytes = 0;
        self.loaded.take()
    }

    #[must_use = "dropped outside the lock"]
    fn enqueue(&mut self, changes: &ProjectChanges) -> Option<Identities> {
        let ProjectChanges { identity, groups, .. } = changes;
        let moved = identity.merges.len() + identity.deleted.len();
        self.pending_rows += moved + identity.ids.len() + identity.persons.len() + groups.len();
        if self.pending_rows > PENDING_ROWS_MAX {
            return self.evict();
        }
        self.pending.push((identity.clone(), groups.clone()));
        None
    }

    /// Applies the pending changes; none unless the project is loaded.
    fn current(&mut self) -> Option<Identities> {
        let (people, groups) = self.loaded.as_mut()?;
        self.pending_rows = 0;
        for (identity, changed) in self.pending.drain(..) {
            if identity != IdentityChanges::default() {
                Arc::make_mut(people).apply(&identity);
            }
            if !changed.is_empty() {
                let groups = Arc::make_mut(groups);
                changed.iter().for_each(|group| set_group(groups, group));
            }
        }
        self.bytes = people.bytes() + groups.bytes();
        Some((people.clone(), groups.clone()))
    }
}

fn set_group(groups: &mut Groups, group: &Group) {
    let facts = GroupFacts { created_at: group.created_at, properties: group.properties.clone() };
    groups.set(group.index.into(), &group.key, facts);
}

impl ReadViews {
    pub fn new(catalog: Catalog, warehouse: Warehouse) -> Self {
        let cache: Arc<Mutex<IdentityCache>> = Arc::default();
        let listener = cache.clone();
        catalog.ingest().on_apply(move |ingested| {
            let mut cache = lock(&listener);
            let evicted: Vec<Identities> = match ingested {
                IngestOutcome::Unknown => {
                    cache.projects.values_mut().filter_map(CachedProject::evict).collect()
                }
                IngestOutcome::Committed(projects) => {
                    let add = |changes: &ProjectChanges| {
                        cache.projects.get_mut(&changes.project)?.enqueue(changes)
                    };
                    projects.iter().filter_map(add).collect()
                }
            };
            drop(cache);
            drop(evicted);
        });
        Self { catalog, warehouse, cache }
    }

    /// Of the warehouse; see [`warehouse::Settings::purge`].
    pub fn purge_hook(&self) -> fn() {
        self.warehouse.purge_hook()
    }

    /// A view for filters that read nothing but events.
    pub fn events_only(&self, project: &ProjectRow) -> ReadView {
        let people = Arc::new(PersonIndex::new(project.id));
        self.assemble(project, self.warehouse.snapshot(project.id), people, Arc::default())
    }

    /// Memory of the cached persons and groups.
    pub fn cached_bytes(&self) -> usize {
        lock(&self.cache).projects.values().map(|entry| entry.bytes).sum()
    }

    /// Opens a read view, and the project that HogQL resolves names against. `names` are those that
    /// the query may use; `cancellation` bounds the time and memory of HogQL expressions in filters.
    pub async fn open(
        &self,
        project: &ProjectRow,
        needs: &Needs,
        mut names: ReferencedNames,
        cancellation: &eval::Cancellation,
    ) -> Result<(ReadView, Project)> {
        // The snapshot comes first: the pipeline announces a batch's distinct ids before its events
        // can be read, so the person index knows every dense id of the snapshot.
        let events = self.warehouse.snapshot(project.id);
        let (people, groups) = self.identities(project.id).await?;
        let mut view = self.assemble(project, events, people, groups);
        let actions = self.actions(&view, needs).await?;
        let mut needs = needs.clone();
        // Test account filters that an older build accepted fail only the queries that use them.
        if let Ok(filters) = view.test_accounts() {
            filters.needs(&mut needs);
        }
        // All names, not only those in expressions: `EventsQuery` turns the filters into HogQL.
        names.add(&view.test_account_filters);
        actions.values().for_each(|action| action.matcher.needs(&mut needs));
        view.cohorts = Arc::new(self.cohorts(project.id, &needs).await?);
        view.actions = Arc::new(actions);
        needs.expressions.iter().for_each(|text| names.add_text(text));
        let schema = self.hogql_project(project, &names).await?;
        view.expressions =
            Arc::new(HogqlCompiler::new(schema.clone()).with_cancellation(cancellation.clone()));
        Ok((view, schema))
    }

    fn assemble(
        &self,
        project: &ProjectRow,
        events: Snapshot,
        people: Arc<PersonIndex>,
        groups: Arc<Groups>,
    ) -> ReadView {
        let settings = &project.settings;
        ReadView {
            project: project.id,
            events,
            persons: people,
            groups,
            cohorts: Arc::default(),
            actions: Arc::default(),
            sessions: Arc::default(),
            path_cleaning: Arc::new(PathCleaning::read(&settings.path_cleaning_filters())),
            event_filter: None,
            zone: Zone::named(&project.timezone),
            now: self.catalog.clock().now(),
            week_starts_monday: settings.week_starts_monday(),
            test_account_filters: settings.test_account_filters().into_owned(),
            expressions: Arc::new(NoExpressions),
        }
    }

    /// What HogQL resolves a statement against that uses these names.
    async fn hogql_project(
        &self,
        project: &ProjectRow,
        names: &ReferencedNames,
    ) -> Result<Project> {
        let (groups, cohorts) = tokio::try_join!(
            self.catalog.groups().types(project.id),
            self.catalog.cohorts().live(project.id),
        )?;
        let of_groups = !groups.is_empty();
        let properties = self
            .catalog
            .property_definitions()
            .non_string_types(project.id, names.iter(), of_groups)
            .await?;
        Ok(Project {
            id: project.id,
            zone: project.timezone.clone(),
            groups: groups.into_iter().map(|kind| (kind.name, kind.index)).collect(),
            properties,
            cohorts: cohorts.into_iter().map(|(id, name, _)| (id, name)).collect(),
        })
    }

    /// The project's persons and groups, from the cache or loaded into it.
    async fn identities(&self, project: ProjectId) -> Result<Identities> {
        loop {
            let (cached, evicted) = {
                let mut cache = lock(&self.cache);
                cache.uses += 1;
                let used = cache.uses;
                let mut evicted = Vec::from_iter(evict_oldest(&mut cache, project));
                let entry = cache.projects.entry(project).or_default();
                entry.used = used;
                let cached = entry.current().ok_or_else(|| entry.loading.clone());
                if cached.is_ok() {
                    evicted.extend(evict_others(&mut cache, project, CACHE_BYTES_MAX));
                }
                (cached, evicted)
            };
            // Dropping takes a while, so the lock is released first.
            drop(evicted);
            let loading = match cached {
                Ok(current) => return Ok(current),
                Err(loading) => loading,
            };
            // A task of its own, which survives the query: the next query would start over, and a
            // large project may take longer to load than any query waits.
            let views = self.clone();
            let load = tokio::spawn(async move { views.load_once(project, &loading).await });
            match load.await {
                Ok(loaded) => loaded?,
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(_) => pending().await,
            }
        }
    }

    /// Loads the project unless another task has done so meanwhile.
    async fn load_once(&self, project: ProjectId, loading: &tokio::sync::Mutex<()>) -> Result<()> {
        let _exclusive = loading.lock().await;
        let generation = match lock(&self.cache).projects.get(&project) {
            Some(entry) if entry.loaded.is_none() => entry.generation,
            _ => return Ok(()),
        };
        let loaded = self.load(project).await?;
        if let Some(entry) = lock(&self.cache).projects.get_mut(&project)
            && entry.generation == generation
        {
            entry.loaded = Some(loaded);
        }
        Ok(())
    }

    async fn load(&self, project: ProjectId) -> Result<Identities> {
        let (mut people, mut groups) = (PersonIndex::new(project), Groups::default());
        let mut after = None;
        loop {
            let persons = self.catalog.persons().scan(project, after, SCAN_ROWS).await?;
            let Some(last) = persons.last() else { break };
            after = Some(last.no);
            for StoredPerson { no, uuid, properties, is_identified, created_at } in &persons {
                let (uuid, created_at) = (*uuid, *created_at);
                let facts = PersonFacts { uuid, created_at, is_identified: *is_identified };
                people.set_person(*no, facts, properties);
            }
        }
        let mut after = None;
        loop {
            let ids = self.catalog.persons().scan_distinct_ids(project, after, SCAN_ROWS).await?;
            let Some((last, ..)) = ids.last() else { break };
            after = Some(*last);
            ids.iter().for_each(|(no, text, person)| people.set_distinct_id(*no, text, *person));
        }
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
        Ok((Arc::new(people), Arc::new(groups)))
    }

    async fn actions(
        &self,
        view: &ReadView,
        needs: &Needs,
    ) -> Result<HashMap<ActionId, ActionFacts>> {
        let mut actions = HashMap::new();
        for id in &needs.actions {
            let action = match self.catalog.actions().get(view.project, *id, Deleted::Exclude).await
            {
                Ok(action) => action,
                Err(catalog::Error::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            let matcher = ActionMatcher::new(&action.steps, view.now, &view.zone)?;
            actions.insert(*id, ActionFacts { name: action.name, matcher });
        }
        Ok(actions)
    }

    async fn cohorts(&self, project: ProjectId, needs: &Needs) -> Result<Cohorts> {
        if needs.cohorts.is_empty() && !needs.all_cohorts {
            return Ok(Cohorts::default());
        }
        let mut cohorts = Vec::new();
        for (id, name, is_static) in self.catalog.cohorts().live(project).await? {
            if needs.all_cohorts || needs.cohorts.contains(&id) {
                let members = self.members(id).await?;
                cohorts.push((id, CohortFacts { name, is_static, members }));
            }
        }
        Ok(cohorts.into_iter().collect())
    }

    async fn members(&self, cohort: CohortId) -> Result<DenseIdSet> {
        let mut members = DenseIdSet::new();
        let mut after = None;
        loop {
            let page = self.catalog.cohorts().member_nos(cohort, after, SCAN_ROWS).await?;
            let Some(last) = page.last() else { return Ok(members) };
            after = Some(*last);
            members.extend(page.iter().map(|no| no.0));
        }
    }
}

/// For views that evaluate no HogQL expressions.
#[derive(Debug)]
struct NoExpressions;

impl ConditionCompiler for NoExpressions {
    fn condition(&self, _: &ReadView, text: &str) -> facts::Result<Predicate> {
        Err(facts::Error::Invalid(format!("'{text}' cannot be used here.")))
    }
}

/// Evicts the least recently used project, unless the cache has a slot for this one.
fn evict_oldest(cache: &mut IdentityCache, project: ProjectId) -> Option<CachedProject> {
    if cache.projects.len() < PROJECTS_MAX || cache.projects.contains_key(&project) {
        return None;
    }
    let oldest = cache.projects.iter().min_by_key(|(_, entry)| entry.used).map(|(id, _)| *id);
    oldest.and_then(|id| cache.projects.remove(&id))
}

/// Evicts the least recently used projects, except this one, until the rest fits.
fn evict_others(
    cache: &mut IdentityCache,
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

fn lock(cache: &Mutex<IdentityCache>) -> MutexGuard<'_, IdentityCache> {
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
        let mut cache = IdentityCache { projects, uses: 4 };
        let remaining = |cache: &IdentityCache| {
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
        let clock = Clock::system();
        let catalog = Catalog::open(Location::Sqlite(&file), vault, clock.clone()).await.unwrap();
        let settings = warehouse::Settings::default();
        let events = Warehouse::open(&dir.path().join("events"), 1, settings, clock).unwrap();
        let views = ReadViews::new(catalog, events);
        let project = ProjectId(1);
        {
            let load = std::pin::pin!(views.identities(project));
            assert!(load.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let is_loaded = || lock(&views.cache).projects[&project].loaded.is_some();
        assert!(!is_loaded());
        for _ in 0..1_000 {
            if is_loaded() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the project was not loaded");
    }
}
