//! Opens read views: a snapshot of a project's events joined with its persons, groups, cohorts and
//! actions. Person indexes and groups are cached in memory, and follow the pipeline's changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use catalog::{Catalog, Deleted, ProjectRow};
use facts::{
    ActionExpr, ActionMatcher, CohortFacts, Cohorts, NamedAction, Needs, PathCleaning,
    QueryContext, ReadView, Zone,
};
use hogql::{ActionSchema, Project};
use insights::HogqlCompiler;
use model::{ActionId, CohortId, ProjectId, Timestamp};
use warehouse::{DenseIdSet, Snapshot};

use crate::Result;
use crate::conditions::{Conditions, Rows};
use crate::identities::IdentityCache;
use crate::people::People;
use crate::person_scan::PersonScan;
use crate::referenced_names::ReferencedNames;
use crate::store::clickhouse::{ClickHouseView, print_context};
use crate::store::embedded::assemble;
use crate::store::{Store, View};

/// Rows of one catalog scan.
const SCAN_ROWS: i64 = 512;

#[derive(Clone)]
pub(crate) struct ReadViews {
    catalog: Catalog,
    store: Store,
    identities: IdentityCache,
}

impl ReadViews {
    pub fn new(catalog: Catalog, store: Store, people: Option<People>) -> Self {
        let identities = IdentityCache::new(catalog.clone(), people);
        Self { catalog, store, identities }
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

    /// See [`Store::purge_hook`].
    pub fn purge_hook(&self) -> fn() {
        self.store.purge_hook()
    }

    /// A view for filters that read nothing but events.
    pub fn events_only(&self, project: &ProjectRow) -> View {
        self.store.events_view(self.context(project))
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
    ) -> Result<(View, Project)> {
        // The snapshot comes first: the pipeline announces a batch's distinct ids before its events
        // can be read, so the person index knows every dense id of the snapshot.
        let events = match &self.store {
            Store::Embedded(warehouse) => warehouse.snapshot(project.id),
            // Each statement reads ClickHouse's tables as they are then.
            Store::ClickHouse(_) => Snapshot::empty(project.id),
        };
        let (people, groups) = self.identities.get(project.id).await?;
        let mut context = self.context(project);
        if needs.earliest {
            context.earliest = match &self.store {
                Store::Embedded(_) => events.time_range().map(|(from, _)| from),
                Store::ClickHouse(reader) => first_event(reader, project.id).await?,
            };
        }
        context.actions = self.actions(&context, needs).await?;
        let mut needs = needs.clone();
        // Test account filters that an older build accepted fail only the queries that use them.
        if let Ok(filters) = context.test_accounts() {
            needs.add_filters(&filters);
        }
        // All names, not only those in expressions: `EventsQuery` turns the filters into HogQL.
        names.add(&context.test_account_filters);
        context.actions.values().for_each(|action| needs.add_action(&action.events));
        let cohorts = self.cohorts(project.id, &needs).await?;
        context.cohorts = cohorts.iter().map(|(id, facts)| (id, facts.name.clone())).collect();
        needs.expressions.iter().for_each(|text| names.add_text(text));
        for action in context.actions.values() {
            action.events.steps.iter().for_each(|(step, _)| names.add(&serde_json::json!(step)));
        }
        let mut schema = self.hogql_project(project, &names).await?;
        schema.actions = action_schemas(&context)?;
        let matcher = |action: &NamedAction| ActionMatcher::compile(&action.events, &context.zone);
        let actions = context.actions.iter().map(|(id, action)| Ok((*id, matcher(action)?)));
        let actions = Arc::new(actions.collect::<Result<_>>()?);
        let hogql = HogqlCompiler::new(schema.clone()).with_cancellation(cancellation.clone());
        let view = ReadView {
            cohorts: Arc::new(cohorts),
            actions,
            expressions: Arc::new(hogql),
            ..assemble(context, events, people, groups)
        };
        let view = match &self.store {
            Store::Embedded(_) => View::Embedded(Arc::new(view)),
            Store::ClickHouse(reader) => {
                let mut stored = print_context(&view.context);
                for (id, version, is_static) in self.catalog.cohorts().versions(project.id).await? {
                    match is_static {
                        true => drop(stored.static_cohorts.insert(id)),
                        false => drop(stored.cohorts.insert(id, version)),
                    }
                }
                let schema = Arc::new(schema.clone());
                View::ClickHouse(ClickHouseView::new(reader.clone(), view, stored, schema))
            }
        };
        Ok((view, schema))
    }

    /// Without the objects that a query references.
    fn context(&self, project: &ProjectRow) -> QueryContext {
        let settings = &project.settings;
        let zone = Zone::named(&project.timezone);
        QueryContext {
            week_starts_monday: settings.week_starts_monday(),
            test_account_filters: settings.test_account_filters().into_owned(),
            path_cleaning: Arc::new(PathCleaning::read(&settings.path_cleaning_filters())),
            ..QueryContext::new(project.id, zone, self.catalog.clock().now())
        }
    }

    /// What HogQL resolves a statement against that uses these names and actions.
    pub async fn schema(
        &self,
        project: &ProjectRow,
        names: &ReferencedNames,
        actions: &BTreeSet<ActionId>,
    ) -> Result<Project> {
        let mut context = self.context(project);
        let needs = Needs { actions: actions.iter().copied().collect(), ..Needs::default() };
        context.actions = self.actions(&context, &needs).await?;
        let mut schema = self.hogql_project(project, names).await?;
        schema.actions = action_schemas(&context)?;
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
        context: &QueryContext,
        needs: &Needs,
    ) -> Result<BTreeMap<ActionId, NamedAction>> {
        let mut actions = BTreeMap::new();
        for id in &needs.actions {
            let stored = self.catalog.actions().get(context.project, *id, Deleted::Exclude).await;
            let action = match stored {
                Ok(action) => action,
                Err(catalog::Error::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            let events = ActionExpr::parse(&action.steps, context.now, &context.zone)?;
            actions.insert(*id, NamedAction { name: action.name, events });
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

/// The time of a project's first event in ClickHouse.
async fn first_event(
    reader: &::clickhouse::Reader,
    project: ProjectId,
) -> Result<Option<Timestamp>> {
    let reader = reader.clone();
    let span = tokio::task::spawn_blocking(move || reader.span(project)).await??;
    Ok(span.map(|(from, _)| from))
}

/// The conditions of the context's actions.
pub(crate) fn action_schemas(context: &QueryContext) -> Result<BTreeMap<ActionId, ActionSchema>> {
    let conditions = Conditions::new(context, Rows::Events);
    let schema = |(id, action): (&ActionId, &NamedAction)| -> Result<(ActionId, ActionSchema)> {
        let steps = action.events.steps.iter();
        let steps = steps.map(|(step, filters)| conditions.of_step(step, filters));
        let condition = hogql::build::any(steps.collect::<Result<_>>()?);
        Ok((*id, ActionSchema { name: action.name.clone(), condition }))
    };
    context.actions.iter().map(schema).collect()
}
