//! Questions and their answers: computed within limits, remembered for a while, in the background
//! if the asker does not wait.

mod answer;
mod background;
mod cache;
mod cohorts;
mod seen;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use catalog::{Catalog, ProjectRow};
use eval::{Account, Charge, Pool};
use facts::World;
use insights::{Crowd, Hogql};
use model::{ActionId, ObjectKind, ProjectId, Sights};
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, OwnedSemaphorePermit};

pub use answer::Answer;
use background::Background;
pub use background::{QueryStatus, Running};
use cache::Cache;
pub use cohorts::check_behaviour;
use seen::Named;

use crate::names::Names;
use crate::question::{Overrides, Question, Unwrapped, read_filters, unwrap};
use crate::reads::{Turns, beside};
use crate::worlds::Worlds;
use crate::{Error, Result};

/// Insights shown in wrappers of themselves.
const SAVED_MAX: usize = 2;
const ONLY_ITSELF: &str = "The query only names itself.";

/// What one question may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub time: Duration,
    pub memory_bytes: usize,
    /// What all questions together may hold.
    pub all_memory_bytes: usize,
    /// Questions of one project that run at once.
    pub at_once: usize,
    /// How long a question waits for its turn.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(10),
            memory_bytes: 512 << 20,
            all_memory_bytes: 512 << 20,
            at_once: 3,
            wait: Duration::from_secs(30),
        }
    }
}

/// An answer is there once as it was computed and once as it is shown, with its text.
const ANSWER_COPIES: usize = 2;

/// Threads that work on one question.
const THREADS: usize = 2;

/// How old an answer may be, and who waits for a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    Blocking,
    Async,
    LazyAsync,
    ForceBlocking,
    ForceAsync,
    /// Whatever is remembered, or nothing.
    ForceCache,
    AsyncExceptOnCacheMiss,
}

impl Refresh {
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "blocking" => Self::Blocking,
            "async" => Self::Async,
            "lazy_async" => Self::LazyAsync,
            "force_blocking" => Self::ForceBlocking,
            "force_async" => Self::ForceAsync,
            "force_cache" => Self::ForceCache,
            "async_except_on_cache_miss" => Self::AsyncExceptOnCacheMiss,
            _ => return None,
        })
    }
}

#[derive(Clone, Debug)]
pub struct Asked {
    pub query: Json,
    pub refresh: Refresh,
    /// What the asker calls it, to ask for its state or to cancel it.
    pub id: Option<String>,
    /// What lies on top of the question, the lowest layer first: a dashboard's, then a tile's.
    pub filters: Vec<Map<String, Json>>,
    pub variables: Map<String, Json>,
    /// Rows of the answer, where the question does not say how many.
    pub rows: Option<u64>,
    /// What the asker sees of saved insights and actions.
    pub seen: Sights,
    /// Whose question it is: an insight's, maybe as a dashboard shows it.
    pub of: Vec<(ObjectKind, i64)>,
}

impl Asked {
    pub fn new(query: Json, refresh: Refresh, seen: Sights) -> Self {
        let (filters, variables, of) = (Vec::new(), Map::new(), Vec::new());
        Self { query, refresh, id: None, filters, variables, rows: None, seen, of }
    }
}

#[derive(Debug)]
pub enum Reply {
    Answer {
        answer: Arc<Answer>,
        is_cached: bool,
        /// Of the run that will bring a newer one.
        running: Option<Running>,
        /// Memory for a new answer and for what it is shown as, until this is dropped.
        held: Option<Charge>,
    },
    Running(Running),
    /// Nothing is remembered, and nothing else was asked for.
    Unknown,
}

/// Answers questions of all projects; cheap to clone.
#[derive(Clone)]
pub struct Queries(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    worlds: Worlds,
    cache: Cache,
    background: Background,
    turns: Turns,
    crowd: Crowd,
    limits: Limits,
    /// Memory of all that run.
    pool: Pool,
}

/// A question that was read and can be answered at any time.
#[derive(Clone, Debug)]
struct Ready {
    question: Question,
    overrides: Overrides,
    query: Json,
    key: String,
    /// Actions that the asker does not see: for them, they are gone.
    hidden: BTreeSet<ActionId>,
    /// What the asker sees.
    named: Named,
}

impl Queries {
    pub(crate) fn new(catalog: Catalog, worlds: Worlds, limits: Limits) -> Self {
        Self(Arc::new(Inner {
            catalog,
            worlds,
            cache: Cache::new(),
            background: Background::new(),
            turns: Turns::new(limits.at_once, limits.wait),
            crowd: Crowd::default(),
            limits,
            pool: Pool::new(limits.all_memory_bytes),
        }))
    }

    /// Memory that running questions hold, and that people and groups take beside them.
    pub fn memory_bytes(&self) -> (usize, usize) {
        (self.0.pool.bytes(), self.0.worlds.people_bytes())
    }

    pub async fn ask(&self, project: &ProjectRow, asked: Asked) -> Result<Reply> {
        let inner = &self.0;
        let ready = inner.read(project, &asked).await?;
        let now = inner.catalog.clock().now();
        let known = inner.cache.get(&ready.key);
        let fresh = |answer: &Arc<Answer>| match asked.refresh {
            Refresh::LazyAsync => now < answer.fresh_until_at_leisure(),
            _ => now < answer.fresh_until,
        };
        let answered =
            |answer| Reply::Answer { answer, is_cached: true, running: None, held: None };
        match (asked.refresh, known) {
            (Refresh::ForceAsync, _) => Ok(Reply::Running(self.start(project, ready, asked.id)?)),
            (Refresh::ForceCache, Some(answer)) => Ok(answered(answer)),
            (Refresh::ForceCache, None) => ready.question.check_text().map(|()| Reply::Unknown),
            (Refresh::ForceBlocking, _) => self.wait(project, ready, asked.id).await,
            (_, Some(answer)) if fresh(&answer) => Ok(answered(answer)),
            (Refresh::Blocking, _) | (Refresh::AsyncExceptOnCacheMiss, None) => {
                self.wait(project, ready, asked.id).await
            }
            (_, Some(answer)) => {
                let running = Some(self.start(project, ready, asked.id)?);
                Ok(Reply::Answer { answer, is_cached: true, running, held: None })
            }
            (_, None) => Ok(Reply::Running(self.start(project, ready, asked.id)?)),
        }
    }

    /// Computes it now. Whoever stops waiting stops the work.
    async fn wait(&self, project: &ProjectRow, ready: Ready, id: Option<String>) -> Result<Reply> {
        let cancel = Cancel::default();
        let now = self.0.catalog.clock().now();
        let named = ready.named.clone();
        let listed = self.0.background.list(project.id, id, now, (cancel.clone(), named));
        let (answer, held) = self.0.compute(project, &ready, &cancel).await?;
        drop(listed);
        Ok(Reply::Answer { answer, is_cached: false, running: None, held: Some(held) })
    }

    fn start(&self, project: &ProjectRow, ready: Ready, id: Option<String>) -> Result<Running> {
        let (inner, row) = (self.0.clone(), project.clone());
        let now = inner.catalog.clock().now();
        let (inner_again, named) = (inner.clone(), ready.named.clone());
        inner.background.start(project.id, id, now, named, move |cancel| async move {
            let answer = inner_again.compute(&row, &ready, &cancel).await;
            let answer = answer.map(|(answer, _)| answer);
            (answer, inner_again.catalog.clock().now())
        })
    }

    /// How a run goes that was started earlier, for whoever sees all that it was asked for.
    pub async fn status(
        &self,
        project: ProjectId,
        id: &str,
        seen: &Sights,
    ) -> Result<Option<Running>> {
        let found = self.0.background.get(project, id, self.0.catalog.clock().now());
        let Some((running, named)) = found else { return Ok(None) };
        Ok(named.is_seen(&self.0.catalog, project, seen).await?.then_some(running))
    }

    /// Stops a run, if there is one of this name.
    pub fn cancel(&self, project: ProjectId, id: &str) {
        self.0.background.cancel(project, id);
    }
}

/// Set once nobody wants the answer any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel {
    flag: Arc<AtomicBool>,
    told: Arc<Notify>,
}

impl Cancel {
    pub fn now(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.told.notify_one();
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.flag, &other.flag)
    }

    /// Returns once it is told; one may wait.
    async fn wait(&self) {
        while !self.flag.load(Ordering::SeqCst) {
            self.told.notified().await;
        }
    }
}

/// Stops the work when its future is dropped.
struct Guard(Cancel);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.now();
    }
}

impl Inner {
    async fn read(&self, project: &ProjectRow, asked: &Asked) -> Result<Ready> {
        let mut query = asked.query.clone();
        let mut fields = None;
        let mut named = Named::new(&asked.of);
        for _ in 0..SAVED_MAX {
            let saved = match unwrap(&query)? {
                Unwrapped::Query(found) => {
                    fields = Some(found.clone());
                    break;
                }
                Unwrapped::Saved(short) => short.to_owned(),
            };
            let (insight, found) = self.saved(project.id, saved, &asked.seen).await?;
            named.add(ObjectKind::Insight, insight.0);
            query = found;
        }
        let fields = fields.ok_or_else(|| Error::Parse(ONLY_ITSELF.into()))?;
        let overrides = Overrides::new(asked.filters.clone(), asked.variables.clone());
        let mut question = Question::parse(&fields)?;
        let layers = overrides.filters.iter().map(read_filters).collect::<Result<Vec<_>>>()?;
        if let Some(rows) = asked.rows {
            question.want_rows(rows);
        }
        if let Some(insight) = question.insight_mut() {
            insight.set_path_cleaning(&project.settings.get("path_cleaning_filters"));
            layers.iter().for_each(|layer| insight.apply_filters(layer));
        }
        let hidden = self.hidden(project.id, &question, &asked.seen).await?;
        let shown = question.actions().into_iter().filter(|id| !hidden.contains(id));
        shown.for_each(|id| named.add(ObjectKind::Action, id.0));
        let query = Json::Object(fields);
        let parts = serde_json::json!([
            project.id,
            query,
            overrides.filters,
            overrides.variables,
            asked.rows,
            project.timezone,
            project.settings.get("week_start_day"),
            project.settings.get("test_account_filters"),
            project.settings.get("path_cleaning_filters"),
            hidden,
        ]);
        let hash = Sha256::digest(parts.to_string());
        let key = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
        Ok(Ready { question, overrides, query, key: format!("cache_{key}"), hidden, named })
    }

    async fn compute(
        &self,
        project: &ProjectRow,
        ready: &Ready,
        cancel: &Cancel,
    ) -> Result<(Arc<Answer>, Charge)> {
        let turn = Arc::new(self.turns.of(project.id).await?);
        let account = self.pool.account(self.limits.memory_bytes);
        let work = Work { turn, account: account.clone(), cancel };
        let answer = self.answer(project, ready, &work).await;
        // What others hold may be free in a moment; what it holds itself stays too much.
        answer.map_err(|error| match error {
            Error::Memory if account.was_crowded_out() => Error::Crowded,
            other => other,
        })
    }

    async fn answer(
        &self,
        project: &ProjectRow,
        ready: &Ready,
        work: &Work<'_>,
    ) -> Result<(Arc<Answer>, Charge)> {
        let started = Instant::now();
        let mut needs = ready.question.needs(&ready.overrides);
        needs.actions.retain(|id| !ready.hidden.contains(id));
        let mut names = Names::of(&ready.query);
        let layers = ready.overrides.filters.iter().chain([&ready.overrides.variables]);
        layers.flat_map(|layer| layer.values()).for_each(|value| names.add(value));
        SEARCHED.iter().for_each(|name| names.add_text(name));
        let stop = eval::Stop::new(work.cancel.flag.clone())
            .until(started + self.limits.time)
            .within(work.account.clone());
        let (world, own) = self.worlds.world(project, &needs, names, &stop).await?;
        let world = Arc::new(world);
        let hogql = |own: &hogql::Project| Hogql::new(own.clone()).within(stop.clone());
        let guard = Guard(work.cancel.clone());
        let mut answer = match &ready.question {
            Question::Insight(insight) => self.insight(insight, &world, hogql(&own), work).await?,
            Question::Hogql(query) => {
                let plan = query.plan(&ready.overrides, &own, &world)?;
                let found = self.sql(&plan, &world, work).await?;
                Answer::of_hogql(&query.query, &plan, found)
            }
            Question::Events(query) => {
                let plan = query.plan(&ready.overrides, &own, &world)?;
                let found = self.sql(&plan.plan, &query.seen(world.clone())?, work).await?;
                Answer::of_events(&plan, found, &world)
            }
            Question::Actors(query) => {
                let behind = match &query.behind {
                    None => None,
                    Some((insight, point)) => {
                        let (insight, point) = (insight.clone(), point.clone());
                        let hogql = hogql(&own);
                        let run = move |world: &World, stop: &insights::Stop| {
                            insight.behind(world, stop, Some(&hogql), &point)
                        };
                        Some(self.look(&world, work, run).await?)
                    }
                };
                let plan = query.plan(&ready.overrides, own, &world, behind)?;
                let found = self.sql(&plan.plan, &plan.world, work).await?;
                Answer::of_actors(&plan, found)
            }
        };
        drop(guard);
        answer.finish(ready, project, started.elapsed(), world.now);
        let mut held = work.account.charge();
        if !held.set(ANSWER_COPIES * answer.bytes()) {
            return Err(Error::Memory);
        }
        let answer = Arc::new(answer);
        self.cache.put(answer.clone());
        Ok((answer, held))
    }

    async fn sql(
        &self,
        plan: &hogql::plan::Plan,
        world: &Arc<World>,
        work: &Work<'_>,
    ) -> Result<sql::Answer> {
        let Limits { time, memory_bytes, .. } = self.limits;
        let limits = sql::Limits { time, memory_bytes, threads: THREADS };
        let (account, turn) = (work.account.clone(), work.turn.clone());
        tokio::select! {
            found = sql::run_within(plan, world, &limits, account, turn) => Ok(found?),
            () = work.cancel.wait() => Err(Error::Cancelled),
        }
    }

    async fn insight(
        &self,
        insight: &insights::Insight,
        world: &Arc<World>,
        hogql: Hogql,
        work: &Work<'_>,
    ) -> Result<Answer> {
        let insight = insight.clone();
        let run =
            move |world: &World, stop: &insights::Stop| insight.run_with(world, stop, Some(&hogql));
        Ok(Answer::of_insight(self.look(world, work, run).await?))
    }

    /// Looks through events on a thread that may block, within the limits.
    async fn look<T: Send + 'static>(
        &self,
        world: &Arc<World>,
        work: &Work<'_>,
        run: impl FnOnce(&World, &insights::Stop) -> insights::Result<T> + Send + 'static,
    ) -> Result<T> {
        let deadline = Instant::now() + self.limits.time;
        let cancelled = work.cancel.flag.clone();
        let stop = insights::Stop::new(Some(deadline), cancelled, self.limits.memory_bytes)
            .within(work.account.clone())
            .beside(&self.crowd);
        let world = world.clone();
        let found = beside(work.turn.clone(), move || run(&world, &stop)).await?;
        if work.cancel.flag.load(Ordering::SeqCst) {
            return Err(Error::Cancelled);
        }
        match found {
            // A condition in HogQL ends with a text, whatever ended it.
            Err(insights::Error::Invalid(_)) if Instant::now() >= deadline => Err(Error::Time),
            Err(insights::Error::Invalid(_)) if work.account.was_refused() => Err(Error::Memory),
            found => Ok(found?),
        }
    }
}

/// What a question that runs has: its threads hold the turn until they have ended, also when
/// nobody waits any more.
struct Work<'a> {
    turn: Arc<OwnedSemaphorePermit>,
    account: Account,
    cancel: &'a Cancel,
}

/// Properties that a search of actors looks at.
const SEARCHED: [&str; 2] = ["email", "name"];
