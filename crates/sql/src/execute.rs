//! Executes one query, from its plan to rows of JSON.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_plan::display::DisplayableExecutionPlan;
use datafusion_physical_plan::{ExecutionPlan, execute_stream};
use eval::{MemoryTracker, QueryMemoryPool};
use facts::ReadView;
use futures_util::StreamExt;
use hogql::plan::Plan;
use hogql::types::Type;
use serde_json::Value as Json;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use warehouse::CacheReservation;

use crate::cancellation::Cancellation;
use crate::error::{Error, Result, UNEXPECTED};
use crate::lower::{Demand, Lowering, single_partition};
use crate::memory::TrackedPool;

/// Limits of one query.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeout: Duration,
    pub memory_bytes: usize,
    /// Worker threads.
    pub threads: usize,
    pub paths: Paths,
    /// Whether the result has the physical plan.
    pub explain: bool,
}

/// Which rewrites a plan may use. They change no result; tests turn them off to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Keys and arguments of groupings as codes.
    pub codes: bool,
    /// Columns of ordered pages after their rows.
    pub late: bool,
    /// Conditions evaluated by the scan of events.
    pub conditions: bool,
    /// Sessions of stored events cached between queries.
    pub sessions: bool,
}

impl Paths {
    pub const ALL: Self = Self { codes: true, late: true, conditions: true, sessions: true };
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResultSet {
    pub columns: Vec<String>,
    pub types: Vec<Type>,
    /// The rows of the plan's page.
    pub rows: Vec<Vec<Json>>,
    /// Whether there are more rows, if the statement has no limit of its own.
    pub has_more: bool,
    /// The lines of the physical plan, with what its operators did, if the limits ask for it.
    pub plan: Vec<String>,
}

/// Rows of one batch.
const BATCH_ROWS: usize = 8 * 1024;

/// Stack of the query's threads: plans are traversed recursively.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// Lines of a physical plan that are shown, and characters of each.
const EXPLAINED_LINES_MAX: usize = 1_000;
const EXPLAINED_CHARS_MAX: usize = 500;

/// How much more memory JSON takes than the columns it is made from.
const JSON_OVERHEAD: usize = 4;

/// Runs a plan. Dropping the future cancels the query.
pub async fn run(plan: &Plan, view: &Arc<ReadView>, limits: &Limits) -> Result<ResultSet> {
    let memory = QueryMemoryPool::new(usize::MAX).tracker(limits.memory_bytes);
    run_within(plan, view, limits, memory, ()).await
}

/// The same, with the query's memory tracked in `memory`. `held` is dropped when the last of its
/// threads has ended, which may be after the result, or after the caller has gone.
pub async fn run_within(
    plan: &Plan,
    view: &Arc<ReadView>,
    limits: &Limits,
    memory: MemoryTracker,
    held: impl Send + 'static,
) -> Result<ResultSet> {
    let (plan, view, limits) = (Arc::new(plan.clone()), view.clone(), *limits);
    let cancellation = Cancellation::new(Instant::now().checked_add(limits.timeout), memory);
    let (caller, caller_gone) = oneshot::channel::<()>();
    let guard = CancelOnDrop { cancellation: cancellation.clone(), _caller: caller };
    let (send, result) = oneshot::channel();
    let work = move || {
        let work = || run_on_workers(plan, view, limits, cancellation, caller_gone);
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(work));
        let panicked = || (Err(Error::engine(UNEXPECTED, "the query panicked")), None);
        let (outcome, runtime) = outcome.unwrap_or_else(|_| panicked());
        // Fails if the caller has gone.
        drop(send.send(outcome));
        // Waits for the workers: each ends at its next check.
        drop(runtime);
        drop(held);
    };
    // The thread spawns the workers, which inherit its priority.
    if let Err(error) = threads::spawn_query_thread("sql", STACK_BYTES, work) {
        return Err(Error::engine(
            UNEXPECTED,
            format!("cannot start a thread for the query: {error}"),
        ));
    }
    let outcome = tokio::time::timeout(limits.timeout, result).await;
    drop(guard);
    match outcome {
        Err(_) => Err(Error::Timeout),
        Ok(Err(_)) => Err(Error::engine(UNEXPECTED, "the query panicked")),
        Ok(Ok(outcome)) => outcome,
    }
}

/// Held by the caller's future: cancels the query on drop.
struct CancelOnDrop {
    cancellation: Cancellation,
    _caller: oneshot::Sender<()>,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

/// The result, and the runtime whose workers may not all have ended yet.
fn run_on_workers(
    plan: Arc<Plan>,
    view: Arc<ReadView>,
    limits: Limits,
    cancellation: Cancellation,
    caller_gone: oneshot::Receiver<()>,
) -> (Result<ResultSet>, Option<Runtime>) {
    let threads = limits.threads.max(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("sql-worker")
        .thread_stack_size(STACK_BYTES)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            return (
                Err(Error::engine(UNEXPECTED, format!("cannot start worker threads: {error}"))),
                None,
            );
        }
    };
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = execute(&plan, view, &limits, cancellation) => outcome,
            _ = caller_gone => Err(Error::Timeout),
        }
    });
    (outcome, Some(runtime))
}

fn task_context(
    limits: &Limits,
    cancellation: &Cancellation,
    reservation: CacheReservation,
) -> Result<Arc<TaskContext>> {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(TrackedPool::new(cancellation.memory().clone(), reservation)))
        .with_disk_manager_builder(disk)
        .build_arc()?;
    let config = SessionConfig::new()
        .with_batch_size(BATCH_ROWS)
        .with_target_partitions(limits.threads.max(1))
        .with_extension(Arc::new(cancellation.clone()));
    let task = TaskContext::default().with_session_config(config);
    Ok(Arc::new(task.with_runtime(runtime)))
}

async fn execute(
    plan: &Arc<Plan>,
    view: Arc<ReadView>,
    limits: &Limits,
    cancellation: Cancellation,
) -> Result<ResultSet> {
    let context = eval::Context {
        zone: view.context.zone.time_zone().clone(),
        now: view.context.now.as_micros(),
        week_starts_monday: view.context.week_starts_monday,
        cancellation: cancellation.for_eval(),
    };
    let task = task_context(limits, &cancellation, view.events.cache_reservation())?;
    let mut page = Page {
        types: plan.root.columns.iter().map(|column| column.ty.clone()).collect(),
        zone: context.zone.clone(),
        skip: plan.page.offset,
        left: plan.page.limit.saturating_add(u64::from(!plan.page.has_limit || plan.page.capped)),
        rows: Vec::new(),
        reservation: MemoryConsumer::new("result").register(task.memory_pool()),
        cancellation: cancellation.clone(),
    };
    let mut lowering = Lowering::new(plan, view, context, task.clone(), cancellation, limits);
    let fetch = plan.page.offset.saturating_add(page.left);
    let stage = lowering.relation(&plan.root, Demand::rows(fetch)).await?;
    let root = single_partition(stage.plan);
    let mut stream = execute_stream(root.clone(), task)?;
    while page.left > 0 {
        let Some(batch) = stream.next().await.transpose()? else { break };
        page.add(&batch)?;
    }
    lowering.explain("result", &root);
    let lines = lowering.explained.iter().flat_map(explained).take(EXPLAINED_LINES_MAX).collect();
    let Page { types, mut rows, .. } = page;
    let limit = usize::try_from(plan.page.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let columns = plan.root.columns.iter().map(|column| column.name.clone()).collect();
    Ok(ResultSet { columns, types, rows, has_more, plan: lines })
}

/// The lines of an executed plan.
fn explained((title, plan): &(&'static str, Arc<dyn ExecutionPlan>)) -> Vec<String> {
    let text = DisplayableExecutionPlan::with_metrics(&**plan).indent(false).to_string();
    let line =
        |line: &str| format!("  {}", line.chars().take(EXPLAINED_CHARS_MAX).collect::<String>());
    std::iter::once(format!("{title}:")).chain(text.lines().map(line)).collect()
}

/// The page of rows, as it fills.
struct Page {
    types: Vec<Type>,
    zone: jiff::tz::TimeZone,
    skip: u64,
    left: u64,
    rows: Vec<Vec<Json>>,
    reservation: MemoryReservation,
    cancellation: Cancellation,
}

impl Page {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let skipped = self.skip.min(batch.num_rows() as u64) as usize;
        self.skip -= skipped as u64;
        let taken =
            (batch.num_rows() - skipped).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= taken as u64;
        let batch = batch.slice(skipped, taken);
        for column in batch.columns() {
            let bytes = column.to_data().get_slice_memory_size()?;
            self.reservation.try_grow(bytes * JSON_OVERHEAD)?;
        }
        for row in 0..taken {
            self.cancellation.check()?;
            let columns = batch.columns().iter().zip(&self.types);
            let row = columns.map(|(column, ty)| eval::json_value(column, ty, row, &self.zone));
            self.rows.push(row.collect());
        }
        Ok(())
    }
}
