//! One query, from its plan to rows of JSON.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion_execution::TaskContext;
use datafusion_execution::config::SessionConfig;
use datafusion_execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::runtime_env::RuntimeEnvBuilder;
use datafusion_physical_plan::execute_stream;
use eval::{MemoryTracker, QueryMemoryPool};
use facts::ReadView;
use futures_util::StreamExt;
use hogql::plan::Plan;
use hogql::types::Type;
use serde_json::Value as Json;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use warehouse::Loan;

use crate::error::{Error, Result, UNEXPECTED};
use crate::lower::{Lower, one};
use crate::memory::Memory;
use crate::stop::Stop;

/// What a query may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub timeout: Duration,
    pub memory_bytes: usize,
    /// That read and compute at once.
    pub threads: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResultSet {
    pub columns: Vec<String>,
    pub types: Vec<Type>,
    /// At most as many as the plan's page.
    pub rows: Vec<Vec<Json>>,
    /// Whether there are more, if the statement had no limit of its own.
    pub has_more: bool,
}

/// Rows of one batch: what is computed at once.
const BATCH_ROWS: usize = 8 * 1024;

/// Everything that walks a plan does so by recursion.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// JSON takes more room than the columns it is made of.
const JSON_COPIES: usize = 4;

/// Dropping the future ends the query.
pub async fn run(plan: &Plan, world: &Arc<ReadView>, limits: &Limits) -> Result<ResultSet> {
    let account = QueryMemoryPool::new(usize::MAX).tracker(limits.memory_bytes);
    run_within(plan, world, limits, account, ()).await
}

/// What the query holds is counted in its account; `held` is dropped when the last of its threads
/// has ended, which may be after the answer, or after the caller has gone.
pub async fn run_within(
    plan: &Plan,
    world: &Arc<ReadView>,
    limits: &Limits,
    account: MemoryTracker,
    held: impl Send + 'static,
) -> Result<ResultSet> {
    let (plan, world, limits) = (Arc::new(plan.clone()), world.clone(), *limits);
    let stop = Stop::new(Instant::now().checked_add(limits.timeout), account);
    let (waits, gone) = oneshot::channel::<()>();
    let waiting = Waiting { stop: stop.clone(), _waits: waits };
    let (send, answer) = oneshot::channel();
    let work = move || {
        let work = || on_threads(plan, world, limits, stop, gone);
        let found = std::panic::catch_unwind(AssertUnwindSafe(work));
        let broken = || (Err(Error::engine(UNEXPECTED, "the query broke")), None);
        let (found, runtime) = found.unwrap_or_else(|_| broken());
        // Nobody is there to hear it if the caller is gone.
        drop(send.send(found));
        // Waits for the workers: each ends at its next look.
        drop(runtime);
        drop(held);
    };
    // The workers are started by it, and stand back as it does.
    if let Err(error) = threads::spawn_query_thread("sql", STACK_BYTES, work) {
        return Err(Error::engine(UNEXPECTED, format!("no thread for the query: {error}")));
    }
    let found = tokio::time::timeout(limits.timeout, answer).await;
    drop(waiting);
    match found {
        Err(_) => Err(Error::Timeout),
        Ok(Err(_)) => Err(Error::engine(UNEXPECTED, "the query broke")),
        Ok(Ok(found)) => found,
    }
}

/// Held while somebody waits for the answer.
struct Waiting {
    stop: Stop,
    _waits: oneshot::Sender<()>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.stop.now();
    }
}

/// The answer, and the workers, of which some may still be on their way to an end.
fn on_threads(
    plan: Arc<Plan>,
    world: Arc<ReadView>,
    limits: Limits,
    stop: Stop,
    gone: oneshot::Receiver<()>,
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
            return (Err(Error::engine(UNEXPECTED, format!("no threads: {error}"))), None);
        }
    };
    let found = runtime.block_on(async {
        tokio::select! {
            found = answer(&plan, world, &limits, stop) => found,
            _ = gone => Err(Error::Timeout),
        }
    });
    (found, Some(runtime))
}

fn task(limits: &Limits, stop: &Stop, loan: Loan) -> Result<Arc<TaskContext>> {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(Memory::new(stop.account().clone(), loan)))
        .with_disk_manager_builder(disk)
        .build_arc()?;
    let config = SessionConfig::new()
        .with_batch_size(BATCH_ROWS)
        .with_target_partitions(limits.threads.max(1))
        .with_extension(Arc::new(stop.clone()));
    let task = TaskContext::default().with_session_config(config);
    Ok(Arc::new(task.with_runtime(runtime)))
}

async fn answer(
    plan: &Arc<Plan>,
    world: Arc<ReadView>,
    limits: &Limits,
    stop: Stop,
) -> Result<ResultSet> {
    let context = eval::Context {
        zone: world.zone.time_zone().clone(),
        now: world.now.as_micros(),
        week_starts_monday: world.week_starts_monday,
        cancellation: stop.of_eval(),
    };
    let task = task(limits, &stop, world.events.loan())?;
    let mut rows = Rows {
        types: plan.root.columns.iter().map(|column| column.ty.clone()).collect(),
        zone: context.zone.clone(),
        skip: plan.page.offset,
        left: plan.page.limit.saturating_add(u64::from(!plan.page.has_limit || plan.page.capped)),
        rows: Vec::new(),
        reservation: MemoryConsumer::new("answer").register(task.memory_pool()),
        stop: stop.clone(),
    };
    let mut lower = Lower::new(plan, world, context, task.clone(), stop, limits.threads.max(1));
    let fetch = plan.page.offset.saturating_add(rows.left);
    let stage = lower.relation(&plan.root, Some(fetch)).await?;
    let mut stream = execute_stream(one(stage.plan), task)?;
    while rows.left > 0 {
        let Some(batch) = stream.next().await.transpose()? else { break };
        rows.take(&batch)?;
    }
    let Rows { types, mut rows, .. } = rows;
    let limit = usize::try_from(plan.page.limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let columns = plan.root.columns.iter().map(|column| column.name.clone()).collect();
    Ok(ResultSet { columns, types, rows, has_more })
}

/// The page, as it fills.
struct Rows {
    types: Vec<Type>,
    zone: jiff::tz::TimeZone,
    skip: u64,
    left: u64,
    rows: Vec<Vec<Json>>,
    reservation: MemoryReservation,
    stop: Stop,
}

impl Rows {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let skipped = self.skip.min(batch.num_rows() as u64) as usize;
        self.skip -= skipped as u64;
        let taken =
            (batch.num_rows() - skipped).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= taken as u64;
        let batch = batch.slice(skipped, taken);
        for column in batch.columns() {
            let bytes = column.to_data().get_slice_memory_size()?;
            self.reservation.try_grow(bytes * JSON_COPIES)?;
        }
        for row in 0..taken {
            self.stop.check()?;
            let columns = batch.columns().iter().zip(&self.types);
            let row = columns.map(|(column, ty)| eval::json_value(column, ty, row, &self.zone));
            self.rows.push(row.collect());
        }
        Ok(())
    }
}
