//! Status of the whole instance: for its staff in full, for everybody whether events are delayed.

use std::sync::Arc;

use capture::PoolKind;
use model::{Timestamp, Window};
use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::resources::Projects;
use crate::{AccountReader, App, AppState, Error, Json, Reader, Resource, Result, Routes};

/// Queries that are this late count as delayed.
const DELAYED_SECONDS: f64 = 60.0;
/// Share of the journal's bound from which staff are warned.
const JOURNAL_FULL_SHARE: f64 = 0.8;
/// Shares of the disk that are free, below which staff are warned or alarmed.
const DISK_LOW_SHARE: f64 = 0.1;
const DISK_CRITICAL_SHARE: f64 = 0.02;
/// Staff are warned if the disk will be full within this time.
const DISK_DAYS_MIN: f64 = 14.0;
/// A growth measured over less time says nothing about a day.
const GROWTH_SECONDS_MIN: f64 = 3_600.0;
const DAY_SECONDS: f64 = 86_400.0;

enum Instance {}

/// Takes the scope of an organization, as staff's other rights do.
impl Resource for Instance {
    const SCOPE: &'static str = "organization";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/instance_status", status)
        .get("/api/projects/{project_id}/ingestion_status", ingestion_status)
}

/// What the server reports of its stores and its process.
#[derive(Clone, Debug)]
pub struct InstanceFigures {
    pub version: &'static str,
    pub started_at: Timestamp,
    pub journal: JournalFigures,
    pub lag: LagFigures,
    pub events: EventFigures,
    pub disk: DiskFigures,
    pub resident_bytes: Option<u64>,
    pub pipeline: PipelineFigures,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JournalFigures {
    pub disk_bytes: u64,
    /// Past it capture responds with 503.
    pub disk_bytes_max: u64,
    /// Bytes queued and not yet durable.
    pub queue_bytes: u64,
    pub oldest_position: u64,
    pub applied_position: u64,
    pub next_position: u64,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LagFigures {
    /// Records in the journal that are not applied yet.
    pub records: u64,
    /// Age of the last applied record while others wait, at most the time for which any waited.
    pub seconds: f64,
    /// Records of the replay after the start that are not applied yet.
    pub replay_remaining: u64,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EventFigures {
    pub events: u64,
    pub disk_bytes: u64,
    /// Bytes of events that are not flushed yet.
    pub memory_bytes: u64,
    pub segments: u64,
    pub disk_bytes_max: Option<u64>,
    pub days_max: Option<u64>,
}

/// The file system of the data directory.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFigures {
    pub total_bytes: u64,
    /// Available to the server.
    pub free_bytes: u64,
}

/// Counts since the start.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PipelineFigures {
    pub batches: u64,
    pub records: u64,
    pub events: u64,
    pub dead_letters: u64,
    /// Batches that failed and were retried.
    pub failures: u64,
}

/// A setting of the server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InstanceSetting {
    pub key: &'static str,
    pub heading: &'static str,
    /// Null if it is not set, `(hidden)` for a secret.
    pub value: Option<String>,
    /// The flag, variable or file that it comes from, or `default`.
    pub origin: String,
    pub secret: bool,
    pub help: &'static str,
}

/// Reads the figures. Blocks while it asks the file system.
type ReadFigures = dyn Fn() -> InstanceFigures + Send + Sync;

/// How the API learns about the instance.
pub(crate) struct InstanceReport {
    figures: Arc<ReadFigures>,
    settings: Vec<InstanceSetting>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Severity {
    Ok,
    Warning,
    Critical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ProblemCode {
    CaptureRefused,
    JournalFull,
    Lag,
    Replay,
    StoreUnavailable,
    DiskLow,
    DiskForecast,
    DeadLetters,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Problem {
    code: ProblemCode,
    severity: Severity,
    detail: String,
}

#[derive(Serialize, JsonSchema)]
struct InstanceStatus {
    version: &'static str,
    started_at: Timestamp,
    uptime_seconds: f64,
    /// The worst of the problems.
    severity: Severity,
    problems: Vec<Problem>,
    journal: Journal,
    lag: LagFigures,
    events: EventFigures,
    disk: Disk,
    memory: Memory,
    capture: CaptureCounts,
    pipeline: PipelineFigures,
    dead_letters: DeadLetterCount,
    settings: Vec<InstanceSetting>,
}

#[derive(Serialize, JsonSchema)]
struct Journal {
    #[serde(flatten)]
    figures: JournalFigures,
    /// Why events are refused; null if they are accepted.
    refusal: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Disk {
    total_bytes: u64,
    free_bytes: u64,
    /// Growth of the stored events; null during the first hour after a start.
    growth_bytes_per_day: Option<u64>,
    /// The time that the growth was measured over: since the start.
    growth_seconds: f64,
    full_in_days: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
struct Memory {
    resident_bytes: Option<u64>,
    /// Requests and responses in flight.
    in_flight_bytes: u64,
    query_bytes: u64,
    query_bytes_max: u64,
    /// Cached indexes of persons and groups.
    persons_bytes: u64,
    pools: Vec<Pool>,
}

/// A part of the memory budget of requests.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MemoryPool")]
struct Pool {
    #[serde(rename = "use")]
    kind: &'static str,
    bytes: u64,
    /// Reservations refused since the start.
    refused: u64,
}

/// Counts since the start.
#[derive(Serialize, JsonSchema)]
struct CaptureCounts {
    accepted: u64,
    dropped: Vec<Dropped>,
    warnings_lost: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DroppedEvents")]
struct Dropped {
    reason: &'static str,
    count: u64,
}

#[derive(Serialize, JsonSchema)]
struct DeadLetterCount {
    /// Not replayed yet, of all projects.
    waiting: i64,
}

async fn status(caller: AccountReader<Instance>, app: App) -> Result<Json<InstanceStatus>> {
    if !caller.user.is_staff {
        return Err(Error::forbidden("Only the instance's staff may see its status."));
    }
    let figures = figures(&app).await?;
    let disk = Disk::of(&app, &figures);
    let dead_letters = dead_letters(&app).await?;
    let problems = problems(&app, &figures, &disk, dead_letters);
    let counters = app.capture.counters();
    let dropped = counters.dropped.into_iter();
    let dropped = dropped.map(|(reason, count)| Dropped { reason: reason.as_str(), count });
    let settings = app.instance.get().map(|report| report.settings.clone());
    Ok(Json(InstanceStatus {
        version: figures.version,
        started_at: figures.started_at,
        uptime_seconds: uptime_seconds(&app, &figures),
        severity: worst(&problems),
        problems,
        memory: Memory::of(&app, &figures),
        journal: Journal { figures: figures.journal, refusal: refusal(&app) },
        lag: figures.lag,
        events: figures.events,
        disk,
        capture: CaptureCounts {
            accepted: counters.accepted,
            dropped: dropped.filter(|dropped| dropped.count > 0).collect(),
            warnings_lost: counters.warnings_lost,
        },
        pipeline: figures.pipeline,
        dead_letters: DeadLetterCount { waiting: dead_letters },
        settings: settings.unwrap_or_default(),
    }))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum IngestionState {
    Ok,
    /// Events are accepted, and queries see them late.
    Delayed,
    /// Events are refused.
    Stopped,
}

#[derive(Serialize, JsonSchema)]
struct IngestionStatus {
    status: IngestionState,
    lag_seconds: f64,
    /// A sentence for users; null if there is nothing to say.
    detail: Option<&'static str>,
    /// The instance's problems, for its staff; null for others.
    problems: Option<Vec<Problem>>,
}

/// Whether events of the project are delayed or refused, for the header of every page.
async fn ingestion_status(caller: Reader<Projects>, app: App) -> Result<Json<IngestionStatus>> {
    let figures = figures(&app).await?;
    let lag = figures.lag;
    let is_late = lag.seconds >= DELAYED_SECONDS || lag.replay_remaining > 0;
    let (status, detail) = match (app.capture.refusal().is_some(), is_late) {
        (true, _) => (IngestionState::Stopped, Some("Events are not accepted at the moment.")),
        (false, true) => {
            (IngestionState::Delayed, Some("Events are accepted and will show up late."))
        }
        (false, false) => (IngestionState::Ok, None),
    };
    // The problems are the instance's.
    let problems = match caller.may_see_instance() {
        true => {
            let disk = Disk::of(&app, &figures);
            Some(problems(&app, &figures, &disk, dead_letters(&app).await?))
        }
        false => None,
    };
    Ok(Json(IngestionStatus { status, lag_seconds: lag.seconds, detail, problems }))
}

async fn figures(app: &AppState) -> Result<InstanceFigures> {
    let starting = || Error::unavailable("The server is starting.");
    let read = app.instance.get().map(|report| report.figures.clone()).ok_or_else(starting)?;
    tokio::task::spawn_blocking(move || read()).await.map_err(|error| Error::internal(&error))
}

/// Dead letters that wait for a replay, of all projects.
async fn dead_letters(app: &AppState) -> Result<i64> {
    Ok(app.catalog.dead_letters().list(None, Window { limit: 1, offset: 0 }).await?.1)
}

fn refusal(app: &AppState) -> Option<String> {
    app.capture.refusal().map(|why| why.to_string())
}

fn uptime_seconds(app: &AppState, figures: &InstanceFigures) -> f64 {
    let micros = app.catalog.clock().now().as_micros() - figures.started_at.as_micros();
    micros.max(0) as f64 / 1e6
}

fn worst(problems: &[Problem]) -> Severity {
    problems.iter().map(|problem| problem.severity).max().unwrap_or(Severity::Ok)
}

impl Disk {
    /// The growth is that of the stored events: what was written since the start, at their average
    /// size on disk.
    fn of(app: &AppState, figures: &InstanceFigures) -> Self {
        let DiskFigures { total_bytes, free_bytes } = figures.disk;
        let growth_seconds = uptime_seconds(app, figures);
        let events = &figures.events;
        let known = growth_seconds >= GROWTH_SECONDS_MIN && events.events > 0;
        let per_day = known.then(|| {
            let event_bytes = events.disk_bytes as f64 / events.events as f64;
            event_bytes * figures.pipeline.events as f64 / growth_seconds * DAY_SECONDS
        });
        // Retention by size ends the growth before the disk is full.
        let room = events.disk_bytes_max.map(|max| max.saturating_sub(events.disk_bytes));
        let is_bounded = room.is_some_and(|room| room <= free_bytes);
        let full_in_days = per_day.filter(|bytes| *bytes >= 1.0 && !is_bounded);
        Self {
            total_bytes,
            free_bytes,
            growth_bytes_per_day: per_day.map(|bytes| bytes as u64),
            growth_seconds,
            full_in_days: full_in_days.map(|bytes| free_bytes as f64 / bytes),
        }
    }
}

impl Memory {
    fn of(app: &AppState, figures: &InstanceFigures) -> Self {
        let (query_bytes, persons_bytes) = app.queries.memory_bytes();
        let budget = app.capture.budget();
        let pool = |kind: PoolKind| Pool {
            kind: kind.as_str(),
            bytes: budget.pool(kind).bytes() as u64,
            refused: budget.pool(kind).refused(),
        };
        Self {
            resident_bytes: figures.resident_bytes,
            in_flight_bytes: budget.bytes() as u64,
            query_bytes: query_bytes as u64,
            query_bytes_max: app.settings.queries.total_memory_bytes as u64,
            persons_bytes: persons_bytes as u64,
            pools: PoolKind::ALL.into_iter().map(pool).collect(),
        }
    }
}

fn problems(
    app: &AppState,
    figures: &InstanceFigures,
    disk: &Disk,
    dead_letters: i64,
) -> Vec<Problem> {
    let (journal, lag) = (&figures.journal, &figures.lag);
    let mut problems = Vec::new();
    let mut add = |code, severity, detail| problems.push(Problem { code, severity, detail });
    if let Some(why) = refusal(app) {
        let detail = format!("Events are refused: {why}.");
        add(ProblemCode::CaptureRefused, Severity::Critical, detail);
    }
    let share = journal.disk_bytes as f64 / journal.disk_bytes_max.max(1) as f64;
    if share >= JOURNAL_FULL_SHARE {
        let detail = format!(
            "The journal is at {:.0}% of journal_disk_bytes_max; at 100% events are refused.",
            share * 100.0
        );
        add(ProblemCode::JournalFull, Severity::Warning, detail);
    }
    if let Some(outage) = app.store_outage.get().and_then(|outage| outage()) {
        let detail = format!("Queries of events cannot be answered: {}.", outage.detail);
        add(ProblemCode::StoreUnavailable, Severity::Critical, detail);
    }
    if lag.replay_remaining > 0 {
        let detail = format!(
            "{} records that the journal had at the start are still being replayed.",
            lag.replay_remaining
        );
        add(ProblemCode::Replay, Severity::Warning, detail);
    } else if lag.seconds >= DELAYED_SECONDS {
        let detail = format!("Queries are {:.0} seconds behind capture.", lag.seconds);
        add(ProblemCode::Lag, Severity::Warning, detail);
    }
    let free = disk.free_bytes as f64 / disk.total_bytes.max(1) as f64;
    if disk.total_bytes > 0 && free < DISK_LOW_SHARE {
        let severity =
            if free < DISK_CRITICAL_SHARE { Severity::Critical } else { Severity::Warning };
        let detail = format!("{:.1}% of the data directory's disk is free.", free * 100.0);
        add(ProblemCode::DiskLow, severity, detail);
    }
    if let Some(days) = disk.full_in_days.filter(|days| *days < DISK_DAYS_MIN) {
        let detail = format!("At the present rate the disk is full in {days:.1} days.");
        add(ProblemCode::DiskForecast, Severity::Warning, detail);
    }
    if dead_letters > 0 {
        let detail = format!("{dead_letters} records could not be applied and wait for a replay.");
        add(ProblemCode::DeadLetters, Severity::Warning, detail);
    }
    problems
}

impl AppState {
    /// How the API reads the figures of the instance, and the server's settings.
    pub fn report_instance(
        &self,
        figures: impl Fn() -> InstanceFigures + Send + Sync + 'static,
        settings: Vec<InstanceSetting>,
    ) {
        // A server has one process, so this is set once.
        let figures = Arc::new(figures);
        let _ = self.instance.set(InstanceReport { figures, settings });
    }
}
