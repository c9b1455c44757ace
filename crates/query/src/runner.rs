//! Runs queries of every kind: limits each in time and memory, caches the result, and runs it in
//! the background where the client does not wait.

mod access;
mod background;
mod behavioral_cohorts;
mod cache;
mod language;
mod objects;
mod result;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use catalog::{Catalog, ProjectRow};
use eval::{MemoryCharge, MemoryTracker, QueryMemoryPool};
use insights::{AdmissionControl, HogqlCompiler};
use model::{ActionId, ObjectKind, ProjectId, Visibilities};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use access::ReferencedObjects;
use background::Background;
pub use background::{QueryRun, QueryStatus};
pub use behavioral_cohorts::check_behavioral_filter;
use cache::ResultCache;
use objects::ObjectRows;
pub use result::QueryResult;

use crate::parse::{Overrides, ParsedQuery, Unwrapped, read_filters, unwrap};
use crate::permits::ProjectPermits;
use crate::read_views::ReadViews;
use crate::referenced_names::ReferencedNames;
use crate::{Error, Result};

/// Saved insights that wrap each other.
const SAVED_MAX: usize = 2;
const ONLY_ITSELF: &str = "The query only names itself.";
const NOT_RUN: &str = "a query about the language is not run";

/// Limits of one query, and of the queries that run concurrently.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeout: Duration,
    pub memory_bytes: usize,
    /// For all running queries together.
    pub total_memory_bytes: usize,
    /// Queries of one project that run at once.
    pub concurrent_max: usize,
    /// How long a query waits for a permit of its project.
    pub queue_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            memory_bytes: 512 << 20,
            total_memory_bytes: 512 << 20,
            concurrent_max: 3,
            queue_timeout: Duration::from_secs(30),
        }
    }
}

/// Copies of a result in memory: the computed one, and the response built from it.
const RESULT_COPIES: usize = 2;

/// Whether a cached result may be returned, and whether the client waits for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    Blocking,
    Async,
    LazyAsync,
    ForceBlocking,
    ForceAsync,
    /// The cached result, however old, or nothing.
    ForceCache,
    AsyncExceptOnCacheMiss,
}

impl Refresh {
    pub(crate) const MODES: [(&str, Self); 7] = [
        ("blocking", Self::Blocking),
        ("async", Self::Async),
        ("lazy_async", Self::LazyAsync),
        ("force_blocking", Self::ForceBlocking),
        ("force_async", Self::ForceAsync),
        ("force_cache", Self::ForceCache),
        ("async_except_on_cache_miss", Self::AsyncExceptOnCacheMiss),
    ];

    pub fn parse(word: &str) -> Option<Self> {
        Self::MODES.into_iter().find(|(name, _)| *name == word).map(|(_, mode)| mode)
    }
}

#[derive(Clone, Debug)]
pub struct QueryRequest {
    pub query: Json,
    pub refresh: Refresh,
    /// The client's id of the run, to poll its status or to cancel it.
    pub client_query_id: Option<String>,
    /// Filters on top of the query's own, lowest layer first: the dashboard's, then the tile's.
    pub filter_layers: Vec<Map<String, Json>>,
    pub variables: Map<String, Json>,
    /// The limit of a query that sets none.
    pub default_limit: Option<u64>,
    /// Which saved insights and actions the caller may view.
    pub visibility: Visibilities,
    /// Saved objects that the query belongs to: an insight, and the dashboard that shows it.
    pub objects: Vec<(ObjectKind, i64)>,
    /// The kinds of objects that the statement may read as `system` tables, by their scopes.
    pub readable: BTreeSet<&'static str>,
}

impl QueryRequest {
    pub fn new(query: Json, refresh: Refresh, visibility: Visibilities) -> Self {
        Self {
            query,
            refresh,
            client_query_id: None,
            filter_layers: Vec::new(),
            variables: Map::new(),
            default_limit: None,
            visibility,
            objects: Vec::new(),
            readable: BTreeSet::new(),
        }
    }
}

#[derive(Debug)]
pub enum QueryResponse {
    Ready {
        result: Arc<QueryResult>,
        is_cached: bool,
        /// The background run that refreshes a stale result.
        running: Option<QueryRun>,
        /// Memory of a new result and of the response built from it, until this is dropped.
        reserved: Option<MemoryCharge>,
    },
    Running(QueryRun),
    /// [`Refresh::ForceCache`] found no cached result.
    NotCached,
}

/// Runs queries of all projects; cheap to clone.
#[derive(Clone)]
pub struct QueryRunner(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    read_views: ReadViews,
    cache: ResultCache,
    background: Background,
    permits: ProjectPermits,
    admission: AdmissionControl,
    limits: Limits,
    /// Memory of all running queries.
    pool: QueryMemoryPool,
}

/// A parsed query with its overrides and its cache key.
#[derive(Clone, Debug)]
struct PreparedQuery {
    parsed: ParsedQuery,
    overrides: Overrides,
    query: Json,
    key: String,
    names: ReferencedNames,
    /// The actions it references that the caller may view; to the query, others are missing.
    actions: BTreeSet<ActionId>,
    rows: Arc<ObjectRows>,
    referenced: ReferencedObjects,
}

impl QueryRunner {
    pub(crate) fn new(catalog: Catalog, read_views: ReadViews, limits: Limits) -> Self {
        let purge = read_views.purge_hook();
        Self(Arc::new(Inner {
            catalog,
            read_views,
            cache: ResultCache::new(),
            background: Background::new(),
            permits: ProjectPermits::new(limits.concurrent_max, limits.queue_timeout),
            admission: AdmissionControl::new(purge),
            limits,
            pool: QueryMemoryPool::new(limits.total_memory_bytes),
        }))
    }

    /// Memory of the running queries, and of the cached person indexes and groups.
    pub fn memory_bytes(&self) -> (usize, usize) {
        (self.0.pool.bytes(), self.0.read_views.cached_bytes())
    }

    pub async fn run(&self, project: &ProjectRow, request: QueryRequest) -> Result<QueryResponse> {
        let inner = &self.0;
        let prepared = inner.prepare(project, &request).await?;
        if let ParsedQuery::Language(query) = &prepared.parsed {
            return inner.answer_language(project, &prepared, query).await;
        }
        let now = inner.catalog.clock().now();
        let cached = inner.cache.get(&prepared.key);
        let is_fresh = |result: &Arc<QueryResult>| match request.refresh {
            Refresh::LazyAsync => now < result.lazy_fresh_until(),
            _ => now < result.fresh_until,
        };
        let from_cache = |result| QueryResponse::Ready {
            result,
            is_cached: true,
            running: None,
            reserved: None,
        };
        let id = request.client_query_id;
        match (request.refresh, cached) {
            (Refresh::ForceAsync, _) => {
                Ok(QueryResponse::Running(self.run_in_background(project, prepared, id)?))
            }
            (Refresh::ForceCache, Some(result)) => Ok(from_cache(result)),
            (Refresh::ForceCache, None) => {
                prepared.parsed.check_syntax().map(|()| QueryResponse::NotCached)
            }
            (Refresh::ForceBlocking, _) => self.run_blocking(project, prepared, id).await,
            (_, Some(result)) if is_fresh(&result) => Ok(from_cache(result)),
            (Refresh::Blocking, _) | (Refresh::AsyncExceptOnCacheMiss, None) => {
                self.run_blocking(project, prepared, id).await
            }
            (_, Some(result)) => {
                let running = Some(self.run_in_background(project, prepared, id)?);
                Ok(QueryResponse::Ready { result, is_cached: true, running, reserved: None })
            }
            (_, None) => Ok(QueryResponse::Running(self.run_in_background(project, prepared, id)?)),
        }
    }

    /// Computes the result while the caller waits. Dropping the future cancels the query.
    async fn run_blocking(
        &self,
        project: &ProjectRow,
        prepared: PreparedQuery,
        id: Option<String>,
    ) -> Result<QueryResponse> {
        let cancel = Cancel::default();
        let now = self.0.catalog.clock().now();
        let referenced = prepared.referenced.clone();
        let registered =
            self.0.background.register(project.id, id, now, (cancel.clone(), referenced));
        let (result, reserved) = self.0.compute(project, &prepared, &cancel).await?;
        drop(registered);
        Ok(QueryResponse::Ready {
            result,
            is_cached: false,
            running: None,
            reserved: Some(reserved),
        })
    }

    fn run_in_background(
        &self,
        project: &ProjectRow,
        prepared: PreparedQuery,
        id: Option<String>,
    ) -> Result<QueryRun> {
        let (inner, row) = (self.0.clone(), project.clone());
        let now = inner.catalog.clock().now();
        let (spawned, referenced) = (inner.clone(), prepared.referenced.clone());
        inner.background.start(project.id, id, now, referenced, move |cancel| async move {
            let computed = spawned.compute(&row, &prepared, &cancel).await;
            let computed = computed.map(|(result, _)| result);
            (computed, spawned.catalog.clock().now())
        })
    }

    /// The status of an earlier run; none unless the caller may view every object it references.
    pub async fn status(
        &self,
        project: ProjectId,
        id: &str,
        visibility: &Visibilities,
    ) -> Result<Option<QueryRun>> {
        let run = self.0.background.get(project, id, self.0.catalog.clock().now());
        let Some((run, referenced)) = run else { return Ok(None) };
        Ok(referenced.can_view(&self.0.catalog, project, visibility).await?.then_some(run))
    }

    /// Cancels the run with this id; does nothing where there is none.
    pub fn cancel(&self, project: ProjectId, id: &str) {
        self.0.background.cancel(project, id);
    }
}

/// The cancellation flag of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel {
    pub flag: Arc<AtomicBool>,
    notify: Arc<Notify>,
}

impl Cancel {
    pub fn now(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.flag, &other.flag)
    }

    /// Returns once the run is cancelled. Wakes a single waiter.
    pub async fn wait(&self) {
        while !self.flag.load(Ordering::SeqCst) {
            self.notify.notified().await;
        }
    }
}

/// Cancels the run on drop.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.now();
    }
}

impl Inner {
    /// Parses a query, resolves saved insights, and derives the cache key from the project, the
    /// query, its overrides and the settings that change its meaning.
    async fn prepare(&self, project: &ProjectRow, request: &QueryRequest) -> Result<PreparedQuery> {
        let mut query = request.query.clone();
        let mut fields = None;
        let mut referenced = ReferencedObjects::new(&request.objects);
        for _ in 0..SAVED_MAX {
            let short_id = match unwrap(&query)? {
                Unwrapped::Query(query) => {
                    fields = Some(query.clone());
                    break;
                }
                Unwrapped::Saved(short_id) => short_id.to_owned(),
            };
            let (insight, saved) =
                self.saved_insight(project.id, short_id, &request.visibility).await?;
            referenced.add(ObjectKind::Insight, insight.0);
            query = saved;
        }
        let fields = fields.ok_or_else(|| Error::Parse(ONLY_ITSELF.into()))?;
        let overrides = Overrides::new(request.filter_layers.clone(), request.variables.clone());
        let mut parsed = ParsedQuery::parse(&fields)?;
        let layers = overrides.filters.iter().map(read_filters).collect::<Result<Vec<_>>>()?;
        if let Some(limit) = request.default_limit {
            parsed.set_default_limit(limit);
        }
        if let Some(insight) = parsed.insight_mut() {
            insight.set_path_cleaning(&project.settings.path_cleaning_filters());
        }
        layers.iter().for_each(|layer| parsed.apply_filters(layer));
        if let ParsedQuery::Statement(query) = &mut parsed
            && query.wants_actions()
        {
            query.set_actions(self.goals(project.id, &request.visibility).await?);
        }
        let mut variable_defaults = None;
        if let Some(statement) = parsed.statement_with_variables() {
            statement.variable_defaults =
                self.catalog.insight_variables().defaults(project.id).await?;
            variable_defaults = Some(statement.variable_defaults.clone());
        }
        let query = Json::Object(fields);
        let mut names = ReferencedNames::of(&query);
        let layers = overrides.filters.iter().chain([&overrides.variables]);
        layers.flat_map(|layer| layer.values()).for_each(|value| names.add(value));
        let mut actions = self.referenced_actions(project.id, &parsed, &names).await?;
        let hidden = self.hidden_actions(project.id, &actions, &request.visibility).await?;
        actions.retain(|id| !hidden.contains(id));
        actions.iter().for_each(|id| referenced.add(ObjectKind::Action, id.0));
        let rows = self.object_rows(project, &names, request, &mut referenced).await?;
        let [week_start_day, test_account_filters, path_cleaning_filters] =
            project.settings.result_cache_key();
        let parts = serde_json::json!([
            project.id,
            query,
            overrides.filters,
            overrides.variables,
            variable_defaults,
            request.default_limit,
            actions,
            project.timezone,
            week_start_day,
            test_account_filters,
            path_cleaning_filters,
            hidden,
            rows,
        ]);
        let hash = Sha256::digest(parts.to_string());
        let key = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
        let key = format!("cache_{key}");
        Ok(PreparedQuery {
            parsed,
            overrides,
            query,
            key,
            names,
            actions,
            rows: Arc::new(rows),
            referenced,
        })
    }

    async fn compute(
        &self,
        project: &ProjectRow,
        prepared: &PreparedQuery,
        cancel: &Cancel,
    ) -> Result<(Arc<QueryResult>, MemoryCharge)> {
        let permit = Arc::new(self.permits.acquire(project.id).await?);
        let memory = self.pool.tracker(self.limits.memory_bytes);
        let resources = RunResources {
            permit,
            memory: memory.clone(),
            cancel,
            time_max: self.limits.timeout,
            memory_bytes: self.limits.memory_bytes,
            admission: self.admission.clone(),
            explains: matches!(&prepared.parsed, ParsedQuery::Hogql(query) if query.explains()),
        };
        let computed = self.compute_within(project, prepared, &resources).await;
        // Memory that other queries hold may be free on a retry; the query's own limit is not.
        computed.map_err(|error| match error {
            Error::MemoryLimit if memory.was_refused_by_pool() => Error::MemoryPressure,
            other => other,
        })
    }

    async fn compute_within(
        &self,
        project: &ProjectRow,
        prepared: &PreparedQuery,
        resources: &RunResources<'_>,
    ) -> Result<(Arc<QueryResult>, MemoryCharge)> {
        let started = Instant::now();
        let mut needs = prepared.parsed.needs(&prepared.overrides);
        needs.actions = prepared.actions.iter().copied().collect();
        let mut names = prepared.names.clone();
        SEARCHED_PROPERTIES.iter().for_each(|name| names.add_text(name));
        let cancellation = eval::Cancellation::new(resources.cancel.flag.clone())
            .with_deadline(started + self.limits.timeout)
            .with_memory(resources.memory.clone());
        let (view, mut schema) =
            self.read_views.open(project, &needs, names, &cancellation).await?;
        schema.objects = (*prepared.rows).clone();
        let context = view.context();
        let hogql = |schema: &hogql::Project| {
            HogqlCompiler::new(schema.clone()).with_cancellation(cancellation.clone())
        };
        let guard = CancelOnDrop(resources.cancel.clone());
        let mut result = match &prepared.parsed {
            ParsedQuery::Insight(insight) => {
                let (result, statement) = view.insight(insight, hogql(&schema), resources).await?;
                let statement = statement.inspect_err(|why| {
                    tracing::debug!(error = %why, "insight has no HogQL");
                });
                QueryResult::of_insight(result, statement.ok())
            }
            ParsedQuery::Statement(query) => {
                let statement = query.to_hogql(context)?;
                let plan = hogql::resolve(&statement, "", &schema, None)?;
                let rows = view.statement(&plan, resources).await?.rows;
                let result = query.result_of_rows(context, rows)?;
                QueryResult::of_statement(result, statement.to_string())
            }
            ParsedQuery::Hogql(query) => {
                let plan = query.plan(&prepared.overrides, &schema, context)?;
                let rows = view.statement(&plan, resources).await?;
                QueryResult::of_hogql(&query.query, &plan, rows)
            }
            ParsedQuery::Events(query) => {
                let counted = match &query.source {
                    None => None,
                    Some(point) => {
                        Some(view.counted_events(point, hogql(&schema), resources).await?)
                    }
                };
                let plan = query.plan(&prepared.overrides, &schema, context, counted.as_ref())?;
                let filtered = view.restrict_to_events(query.action_id(), counted)?;
                let rows = filtered.statement(&plan.plan, resources).await?;
                QueryResult::of_events(&plan, rows, context)
            }
            // Answered without a run.
            ParsedQuery::Language(_) => return Err(Error::Internal(NOT_RUN.into())),
            ParsedQuery::Actors(query) => {
                let actors = match &query.source {
                    None => None,
                    Some(point) => Some(view.actors(point, hogql(&schema), resources).await?),
                };
                let plan = query.plan(&prepared.overrides, schema, &view, actors)?;
                let rows = plan.view.statement(&plan.plan, resources).await?;
                QueryResult::of_actors(&plan, rows)
            }
        };
        drop(guard);
        let peak = resources.memory.peak_bytes();
        result.finish(prepared, project, started.elapsed(), &view, peak);
        let mut reserved = resources.memory.charge();
        if !reserved.set(RESULT_COPIES * result.bytes()) {
            return Err(Error::MemoryLimit);
        }
        let result = Arc::new(result);
        self.cache.put(result.clone());
        Ok((result, reserved))
    }
}

/// What a running query holds. Its threads keep the permit until they have ended, also after the
/// caller has gone.
pub(crate) struct RunResources<'a> {
    pub permit: Arc<OwnedSemaphorePermit>,
    pub memory: MemoryTracker,
    pub cancel: &'a Cancel,
    /// Of a statement or a scan.
    pub time_max: Duration,
    pub memory_bytes: usize,
    pub admission: AdmissionControl,
    /// Whether the result shows the physical plan.
    pub explains: bool,
}

/// Person properties that an actors query's `search` reads.
const SEARCHED_PROPERTIES: [&str; 2] = ["email", "name"];
