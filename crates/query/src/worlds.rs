//! Who is who and which groups there are, kept in memory as the pipeline changes them, and put
//! beside a snapshot of the events.

use std::collections::HashMap;
use std::future::pending;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::{Among, Catalog, Ingested, ProjectChanges, ProjectRow, StoredPerson};
use facts::{
    ActionFacts, ActionTest, CohortFacts, Cohorts, Expressions, GroupFacts, Groups, Needs,
    PathCleaning, People, PersonFacts, World, Zone,
};
use hogql::Project;
use insights::Hogql;
use model::group::{GROUP_TYPES_MAX, Group};
use model::person::IdentityChanges;
use model::{ActionId, CohortId, ProjectId};
use warehouse::{Numbers, Predicate, Snapshot, Warehouse};

use crate::Result;
use crate::names::Names;

/// Rows that are read from the catalog in one go. Each connection keeps the memory of as many, and
/// persons take a few kilobytes.
const SCAN_ROWS: i64 = 512;
/// Projects that are remembered.
const PROJECTS_MAX: usize = 16;
/// Memory of all of them; past it, those that were not asked about for longest are forgotten. The
/// one that is asked about stays, however large it is.
const PEOPLE_BYTES_MAX: usize = 256 << 20;
/// Changes of persons, ids and groups that wait until somebody asks; with more, all is read again.
const WAITING_MAX: usize = 100_000;

#[derive(Clone)]
pub(crate) struct Worlds {
    catalog: Catalog,
    warehouse: Warehouse,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    projects: HashMap<ProjectId, Slot>,
    /// Counts uses, to find the project that was not used for longest.
    uses: u64,
}

/// A project that somebody asked for.
#[derive(Default)]
struct Slot {
    loaded: Option<Loaded>,
    /// One reads it for all who wait.
    loading: Arc<tokio::sync::Mutex<()>>,
    waiting: Vec<(IdentityChanges, Vec<Group>)>,
    waiting_rows: usize,
    /// Differs after changes were lost count of.
    reading: u64,
    used: u64,
    /// Of what is loaded, when it was last asked for.
    bytes: usize,
}

/// What was forgotten, to be dropped once nobody waits for the lock: it takes a while.
type Loaded = (Arc<People>, Arc<Groups>);

impl Slot {
    #[must_use = "it is dropped outside of the lock"]
    fn forget(&mut self) -> Option<Loaded> {
        self.waiting.clear();
        self.waiting_rows = 0;
        self.reading += 1;
        self.bytes = 0;
        self.loaded.take()
    }

    #[must_use = "it is dropped outside of the lock"]
    fn add(&mut self, changes: &ProjectChanges) -> Option<Loaded> {
        let ProjectChanges { identity, groups, .. } = changes;
        let moved = identity.moves.len() + identity.deleted.len();
        self.waiting_rows += moved + identity.ids.len() + identity.persons.len() + groups.len();
        if self.waiting_rows > WAITING_MAX {
            return self.forget();
        }
        self.waiting.push((identity.clone(), groups.clone()));
        None
    }

    /// Up to date, if it was read.
    fn current(&mut self) -> Option<Loaded> {
        let (people, groups) = self.loaded.as_mut()?;
        self.waiting_rows = 0;
        for (identity, changed) in self.waiting.drain(..) {
            if identity != IdentityChanges::default() {
                Arc::make_mut(people).change(&identity);
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

impl Worlds {
    pub fn new(catalog: Catalog, warehouse: Warehouse) -> Self {
        let known: Arc<Mutex<Known>> = Arc::default();
        let listener = known.clone();
        catalog.on_ingest(move |ingested| {
            let mut known = lock(&listener);
            let forgotten: Vec<Loaded> = match ingested {
                Ingested::Unsure => known.projects.values_mut().filter_map(Slot::forget).collect(),
                Ingested::Changes(projects) => {
                    let add = |changes: &ProjectChanges| {
                        known.projects.get_mut(&changes.project)?.add(changes)
                    };
                    projects.iter().filter_map(add).collect()
                }
            };
            drop(known);
            drop(forgotten);
        });
        Self { catalog, warehouse, known }
    }

    /// For questions that look at nothing but events.
    pub fn of_events(&self, project: &ProjectRow) -> World {
        let people = Arc::new(People::new(project.id));
        self.put_together(project, self.warehouse.snapshot(project.id), people, Arc::default())
    }

    /// What people and groups take in memory.
    pub fn people_bytes(&self) -> usize {
        lock(&self.known).projects.values().map(|slot| slot.bytes).sum()
    }

    /// And what statements mean in it. `names` are those that the question may use; expressions in
    /// it end, and hold, as `stop` says.
    pub async fn world(
        &self,
        project: &ProjectRow,
        needs: &Needs,
        mut names: Names,
        stop: &eval::Stop,
    ) -> Result<(World, Project)> {
        // Events first: their distinct ids were told of before they could be read.
        let events = self.warehouse.snapshot(project.id);
        let (people, groups) = self.people(project.id).await?;
        let mut world = self.put_together(project, events, people, groups);
        let actions = self.actions(&world, needs).await?;
        let mut needs = needs.clone();
        // What an older build let pass fails whoever asks for it, and nobody else.
        if let Ok(filters) = world.test_accounts() {
            filters.needs(&mut needs);
        }
        // Not only their expressions: `EventsQuery` makes one of all of them.
        names.add(&world.test_account_filters);
        actions.values().for_each(|action| action.test.needs(&mut needs));
        world.cohorts = Arc::new(self.cohorts(project.id, &needs).await?);
        world.actions = Arc::new(actions);
        needs.expressions.iter().for_each(|text| names.add_text(text));
        let meaning = self.project(project, &names).await?;
        world.expressions = Arc::new(Hogql::new(meaning.clone()).within(stop.clone()));
        Ok((world, meaning))
    }

    fn put_together(
        &self,
        project: &ProjectRow,
        events: Snapshot,
        people: Arc<People>,
        groups: Arc<Groups>,
    ) -> World {
        let setting = |name: &str| project.settings.get(name);
        World {
            project: project.id,
            events,
            people,
            groups,
            cohorts: Arc::default(),
            actions: Arc::default(),
            sessions: Arc::default(),
            path_cleaning: Arc::new(PathCleaning::read(&setting("path_cleaning_filters"))),
            only: None,
            zone: Zone::named(&project.timezone),
            now: self.catalog.clock().now(),
            week_starts_monday: setting("week_start_day") == 1,
            test_account_filters: setting("test_account_filters"),
            expressions: Arc::new(NoExpressions),
        }
    }

    /// What the meaning of a statement depends on that uses these names.
    async fn project(&self, project: &ProjectRow, names: &Names) -> Result<Project> {
        let (groups, cohorts) = tokio::try_join!(
            self.catalog.group_types(project.id),
            self.catalog.live_cohorts(project.id),
        )?;
        let of_groups = !groups.is_empty();
        let properties = self.catalog.typed_properties(project.id, names.iter(), of_groups).await?;
        Ok(Project {
            id: project.id,
            zone: project.timezone.clone(),
            groups: groups.into_iter().map(|kind| (kind.name, kind.index)).collect(),
            properties,
            cohorts: cohorts.into_iter().map(|(id, name, _)| (id, name)).collect(),
        })
    }

    async fn people(&self, project: ProjectId) -> Result<(Arc<People>, Arc<Groups>)> {
        loop {
            let (found, forgotten) = {
                let mut known = lock(&self.known);
                known.uses += 1;
                let used = known.uses;
                let mut forgotten = Vec::from_iter(make_room(&mut known, project));
                let slot = known.projects.entry(project).or_default();
                slot.used = used;
                let found = slot.current().ok_or_else(|| slot.loading.clone());
                if found.is_ok() {
                    forgotten.extend(forget_others(&mut known, project, PEOPLE_BYTES_MAX));
                }
                (found, forgotten)
            };
            // Not before the lock is free: others wait for it, and this takes a while.
            drop(forgotten);
            let loading = match found {
                Ok(current) => return Ok(current),
                Err(loading) => loading,
            };
            // Goes on when its asker has left: the next one would begin it anew, and a large project
            // may take longer to read than anybody waits.
            let own = self.clone();
            let read = tokio::spawn(async move { own.read(project, &loading).await });
            match read.await {
                Ok(read) => read?,
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(_) => pending().await,
            }
        }
    }

    async fn read(&self, project: ProjectId, loading: &tokio::sync::Mutex<()>) -> Result<()> {
        let _alone = loading.lock().await;
        let reading = match lock(&self.known).projects.get(&project) {
            Some(slot) if slot.loaded.is_none() => slot.reading,
            _ => return Ok(()),
        };
        let loaded = self.load(project).await?;
        if let Some(slot) = lock(&self.known).projects.get_mut(&project)
            && slot.reading == reading
        {
            slot.loaded = Some(loaded);
        }
        Ok(())
    }

    async fn load(&self, project: ProjectId) -> Result<(Arc<People>, Arc<Groups>)> {
        let (mut people, mut groups) = (People::new(project), Groups::default());
        let mut after = None;
        loop {
            let persons = self.catalog.all_persons(project, after, SCAN_ROWS).await?;
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
            let ids = self.catalog.all_distinct_ids(project, after, SCAN_ROWS).await?;
            let Some((last, ..)) = ids.last() else { break };
            after = Some(*last);
            ids.iter().for_each(|(no, text, person)| people.set_id(*no, text, *person));
        }
        for index in 0..GROUP_TYPES_MAX {
            let mut after: Option<String> = None;
            loop {
                let page = self.catalog.all_groups(project, index, after.as_deref(), SCAN_ROWS);
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
        world: &World,
        needs: &Needs,
    ) -> Result<HashMap<ActionId, ActionFacts>> {
        let mut actions = HashMap::new();
        for id in &needs.actions {
            let action = match self.catalog.action(world.project, *id, Among::Live).await {
                Ok(action) => action,
                Err(catalog::Error::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            let test = ActionTest::new(&action.steps, world.now, &world.zone)?;
            actions.insert(*id, ActionFacts { name: action.name, test });
        }
        Ok(actions)
    }

    async fn cohorts(&self, project: ProjectId, needs: &Needs) -> Result<Cohorts> {
        if needs.cohorts.is_empty() && !needs.all_cohorts {
            return Ok(Cohorts::default());
        }
        let mut found = Vec::new();
        for (id, name, is_static) in self.catalog.live_cohorts(project).await? {
            if needs.all_cohorts || needs.cohorts.contains(&id) {
                let members = self.members(id).await?;
                found.push((id, CohortFacts { name, is_static, members }));
            }
        }
        Ok(found.into_iter().collect())
    }

    async fn members(&self, cohort: CohortId) -> Result<Numbers> {
        let mut members = Numbers::new();
        let mut after = None;
        loop {
            let page = self.catalog.cohort_numbers(cohort, after, SCAN_ROWS).await?;
            let Some(last) = page.last() else { return Ok(members) };
            after = Some(*last);
            members.extend(page.iter().map(|no| no.0));
        }
    }
}

/// For questions without expressions.
#[derive(Debug)]
struct NoExpressions;

impl Expressions for NoExpressions {
    fn condition(&self, _: &World, text: &str) -> facts::Result<Predicate> {
        Err(facts::Error::Refused(format!("'{text}' cannot be used here.")))
    }
}

/// Forgets whoever was not asked for longest, unless the project has its place already.
fn make_room(known: &mut Known, project: ProjectId) -> Option<Slot> {
    if known.projects.len() < PROJECTS_MAX || known.projects.contains_key(&project) {
        return None;
    }
    let oldest = known.projects.iter().min_by_key(|(_, slot)| slot.used).map(|(id, _)| *id);
    oldest.and_then(|id| known.projects.remove(&id))
}

/// Forgets whoever was not asked for longest until the rest fits, but not this one.
fn forget_others(known: &mut Known, project: ProjectId, bytes_max: usize) -> Vec<Slot> {
    let mut forgotten = Vec::new();
    let mut bytes: usize = known.projects.values().map(|slot| slot.bytes).sum();
    while bytes > bytes_max {
        let others = known.projects.iter().filter(|(id, slot)| **id != project && slot.bytes > 0);
        let oldest = others.min_by_key(|(_, slot)| slot.used).map(|(id, _)| *id);
        let Some(oldest) = oldest.and_then(|id| known.projects.remove(&id)) else { break };
        bytes -= oldest.bytes;
        forgotten.push(oldest);
    }
    forgotten
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use catalog::{Location, Secret, Vault};
    use model::Clock;

    use super::*;

    #[test]
    fn projects_that_were_not_asked_about_for_longest_are_forgotten_past_the_bound() {
        let slot = |used, bytes| Slot { used, bytes, ..Slot::default() };
        let projects = [(1, slot(1, 40)), (2, slot(3, 40)), (3, slot(2, 40)), (4, slot(4, 200))];
        let projects = projects.into_iter().map(|(id, slot)| (ProjectId(id), slot)).collect();
        let mut known = Known { projects, uses: 4 };
        let left = |known: &Known| {
            let mut left: Vec<i64> = known.projects.keys().map(|id| id.0).collect();
            left.sort_unstable();
            left
        };
        let forgotten = forget_others(&mut known, ProjectId(4), 250);
        assert_eq!(forgotten.iter().map(|slot| slot.used).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(left(&known), [2, 4]);
        forget_others(&mut known, ProjectId(4), 100);
        assert_eq!(left(&known), [4], "the one that is asked about stays");
    }

    #[tokio::test]
    async fn reading_goes_on_when_whoever_asked_has_left() {
        let folder = tempfile::tempdir().unwrap();
        let (file, vault) = (folder.path().join("catalog"), Vault::new(&Secret::given("secret")));
        let clock = Clock::system();
        let catalog = Catalog::open(Location::Sqlite(&file), vault, clock.clone()).await.unwrap();
        let settings = warehouse::Settings::default();
        let events = Warehouse::open(&folder.path().join("events"), 1, settings, clock).unwrap();
        let worlds = Worlds::new(catalog, events);
        let project = ProjectId(1);
        {
            let asking = std::pin::pin!(worlds.people(project));
            assert!(asking.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let is_read = || lock(&worlds.known).projects[&project].loaded.is_some();
        assert!(!is_read());
        for _ in 0..1_000 {
            if is_read() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("nobody reads it");
    }
}
