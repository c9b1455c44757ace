//! Opens read views: a snapshot of a project's events joined with its persons, groups, cohorts and
//! actions. Person indexes and groups are cached in memory, and follow the pipeline's changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use catalog::{Catalog, Deleted, ProjectRow};
use facts::{
    ActionFacts, ActionMatcher, CohortFacts, Cohorts, ConditionCompiler, Groups, Needs,
    PathCleaning, PersonIndex, ReadView, Zone,
};
use hogql::{ActionSchema, Project};
use insights::HogqlCompiler;
use model::{ActionId, CohortId, ProjectId};
use warehouse::{DenseIdSet, Predicate, Snapshot, Warehouse};

use crate::Result;
use crate::conditions::{Conditions, Rows};
use crate::identities::IdentityCache;
use crate::people::People;
use crate::person_scan::PersonScan;
use crate::referenced_names::ReferencedNames;

/// Rows of one catalog scan.
const SCAN_ROWS: i64 = 512;

#[derive(Clone)]
pub(crate) struct ReadViews {
    catalog: Catalog,
    warehouse: Warehouse,
    identities: IdentityCache,
}

impl ReadViews {
    pub fn new(catalog: Catalog, warehouse: Warehouse, people: Option<People>) -> Self {
        let identities = IdentityCache::new(catalog.clone(), people);
        Self { catalog, warehouse, identities }
    }

    pub async fn maintain_persons(self) {
        self.identities.maintain().await;
    }

    pub fn persons_progress(&self) -> Option<String> {
        self.identities.progress()
    }

    pub async fn scan_persons(&self, project: ProjectId) -> catalog::Result<PersonScan> {
        Ok(PersonScan::new(self.identities.get(project).await?.0))
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
        self.identities.bytes()
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
        let (people, groups) = self.identities.get(project.id).await?;
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
        for action in view.actions.values() {
            action.matcher.steps().for_each(|(step, _)| names.add(&serde_json::json!(step)));
        }
        let mut schema = self.hogql_project(project, &names).await?;
        schema.actions = action_schemas(&view)?;
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

    /// What HogQL resolves a statement against that uses these names and actions.
    pub async fn schema(
        &self,
        project: &ProjectRow,
        names: &ReferencedNames,
        actions: &BTreeSet<ActionId>,
    ) -> Result<Project> {
        let mut view = self.events_only(project);
        let needs = Needs { actions: actions.iter().copied().collect(), ..Needs::default() };
        view.actions = Arc::new(self.actions(&view, &needs).await?);
        let mut schema = self.hogql_project(project, names).await?;
        schema.actions = action_schemas(&view)?;
        Ok(schema)
    }

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
            actions: BTreeMap::new(),
            objects: BTreeMap::new(),
        })
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

/// The conditions of the view's actions.
fn action_schemas(view: &ReadView) -> Result<BTreeMap<ActionId, ActionSchema>> {
    let conditions = Conditions::new(view, Rows::Events);
    let schema = |(id, action): (&ActionId, &ActionFacts)| -> Result<(ActionId, ActionSchema)> {
        let steps = action.matcher.steps();
        let steps = steps.map(|(step, filters)| conditions.of_step(step, filters));
        let condition = hogql::build::any(steps.collect::<Result<_>>()?);
        Ok((*id, ActionSchema { name: action.name.clone(), condition }))
    };
    view.actions.iter().map(schema).collect()
}

/// For views that evaluate no HogQL expressions.
#[derive(Debug)]
struct NoExpressions;

impl ConditionCompiler for NoExpressions {
    fn condition(&self, _: &ReadView, text: &str) -> facts::Result<Predicate> {
        Err(facts::Error::Invalid(format!("'{text}' cannot be used here.")))
    }
}
