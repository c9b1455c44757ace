//! The background tasks of ingestion: one applies the journal to the catalog and the warehouse, one
//! runs maintenance (flush, compaction, retention, journal truncation, dead-letter replay) on a
//! schedule, one scrubs.

mod lag;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use catalog::{Catalog, DefinitionLimits};
use geoip::GeoIp;
use journal::{Batch, Journal, Position};
use model::Timestamp;
use pipeline::{Counters, IngestPacer, Parts, Pipeline};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use query::Store;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};
use warehouse::{Retention, Sink, StoreSize, Warehouse};

pub(crate) use lag::Lag;

use crate::allocator;
use crate::clickhouse_store::{self, ClickHouseStore};
use crate::data_dir::DataDir;
use crate::runtimes::BackgroundRuntimes;
use crate::scrub::Scrubber;
use crate::settings::Settings;
use lag::CaughtUp;

/// Records per batch: enough to write a person with several events once, few enough that other
/// writers of SQLite wait only tens of milliseconds.
const BATCH_RECORDS_MAX: usize = 8_000;
const BATCH_BYTES_MAX: usize = 16 << 20;
/// A backlog of this many records is applied without waiting for [`BATCH_INTERVAL`].
const BATCH_RECORDS_LARGE: usize = 2_000;
/// Minimum time between the starts of two small batches. Each batch costs a transaction whatever its
/// size, so thousands of single events in a second share a few of them.
const BATCH_INTERVAL: Duration = Duration::from_millis(10);
/// Exponential backoff after a batch that could not be applied.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Interval of flush and compaction checks and of journal truncation.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of retention, and of the cleanup of old files, warnings and dead letters.
const PRUNE_INTERVAL: Duration = Duration::from_secs(600);
const DAY_SECONDS: u64 = 86_400;
/// Dead letters replayed per maintenance round.
const REPLAYS_PER_ROUND_MAX: i64 = 100;
/// Compactions per maintenance round; the journal is truncated between rounds.
const COMPACTIONS_PER_ROUND_MAX: usize = 16;
/// How long a start waits for ClickHouse before it goes on without.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

pub(crate) struct Ingest {
    store: Store,
    sink: Arc<dyn Sink>,
    journal: Journal,
    counters: Arc<Counters>,
    caught_up: CaughtUp,
    /// Shared with flags.
    pub geoip: GeoIp,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    /// Of the embedded warehouse.
    scrubber: Option<Scrubber>,
    clickhouse: Option<ClickHouseStore>,
    /// The journal's next position when this server started: the replay ends here.
    replay_end: u64,
}

impl Ingest {
    pub(crate) async fn open(
        data_dir: &DataDir,
        catalog: &Catalog,
        journal: &Journal,
        settings: &Settings,
        background: BackgroundRuntimes,
    ) -> Result<Self> {
        catalog.definitions().set_limits(DefinitionLimits {
            events: settings.event_definitions_max.0.cast_signed(),
            properties: settings.property_definitions_max.0.cast_signed(),
        });
        let geoip = match &settings.geoip_db {
            Some(path) => GeoIp::open(&path.0)?,
            None => GeoIp::built_in()?,
        };
        if !geoip.is_enabled() {
            tracing::info!("events get no GeoIP properties: none built in, geoip_db is not set");
        }
        let replay_end = journal.stats().next.as_u64();
        let (stop, stopped) = watch::channel(false);
        let mut ingest = match clickhouse_store::settings_of(settings)? {
            None => {
                let warehouse = open_embedded(data_dir, catalog, journal, settings).await?;
                let sink: Arc<dyn Sink> = Arc::new(warehouse.clone());
                let scrubber = Scrubber::new(&warehouse);
                let scrubbing = background.maintenance.spawn(scrubber.clone().run(stopped.clone()));
                Self {
                    scrubber: Some(scrubber),
                    tasks: vec![scrubbing],
                    ..Self::new(Store::Embedded(warehouse), sink, catalog, journal, geoip, stop)
                }
            }
            Some(of) => {
                let clickhouse = ClickHouseStore::new(of, settings, catalog, journal)?;
                let sink: Arc<dyn Sink> = Arc::new(clickhouse.writer().clone());
                let store = Store::ClickHouse(clickhouse.reader().clone());
                let keeping = clickhouse.clone().keep_visible(stopped.clone());
                Self {
                    clickhouse: Some(clickhouse),
                    tasks: vec![background.maintenance.spawn(keeping)],
                    ..Self::new(store, sink, catalog, journal, geoip, stop)
                }
            }
        };
        ingest.replay_end = replay_end;
        let parts = Parts {
            catalog: catalog.clone(),
            warehouse: ingest.sink.clone(),
            journal: journal.id(),
            geoip: ingest.geoip.clone(),
            counters: ingest.counters.clone(),
        };
        let caught_up = ingest.caught_up.clone();
        let applying = match ingest.clickhouse.clone() {
            None => {
                let (pipeline, reader) = open_pipeline(parts, journal).await?;
                let applying = apply(pipeline, reader, caught_up, stopped.clone());
                background.pipeline.spawn(applying)
            }
            Some(clickhouse) => {
                // Until ClickHouse tells, what the catalog has is taken for applied.
                let offset = catalog.ingest().offset().await?;
                let applied = offset.map_or(Position::START.as_u64(), |(_, position)| position);
                ingest.counters.expect_from(applied);
                let connecting = Connecting {
                    clickhouse,
                    data_dir: DataDir::unlocked(data_dir.path()),
                    parts,
                    journal: journal.clone(),
                };
                let (first, outcome) = oneshot::channel();
                let stopped = stopped.clone();
                let applying = background.pipeline.spawn(async move {
                    let mut stopped = stopped;
                    if let Some((pipeline, reader)) = connecting.run(first, &mut stopped).await {
                        apply(pipeline, reader, caught_up, stopped).await;
                    }
                });
                if let Ok(Ok(Err(error))) = timeout(CONNECT_WAIT, outcome).await {
                    return Err(error);
                }
                applying
            }
        };
        ingest.tasks.push(applying);
        let maintenance = Maintenance {
            catalog: catalog.clone(),
            warehouse: ingest.sink.clone(),
            journal: journal.clone(),
            geoip: ingest.geoip.clone(),
        };
        ingest.tasks.push(background.maintenance.spawn(maintenance.run(stopped)));
        Ok(ingest)
    }

    fn new(
        store: Store,
        sink: Arc<dyn Sink>,
        catalog: &Catalog,
        journal: &Journal,
        geoip: GeoIp,
        stop: watch::Sender<bool>,
    ) -> Self {
        Self {
            store,
            sink,
            journal: journal.clone(),
            counters: Arc::default(),
            caught_up: CaughtUp::new(catalog.clock().clone()),
            geoip,
            stop,
            tasks: Vec::new(),
            scrubber: None,
            clickhouse: None,
            replay_end: 0,
        }
    }

    /// Where queries read what this writes.
    pub(crate) fn store(&self) -> Store {
        self.store.clone()
    }

    /// Where the pipeline writes.
    pub(crate) fn sink(&self) -> Arc<dyn Sink> {
        self.sink.clone()
    }

    /// Returns once queries see what was appended.
    pub(crate) async fn make_visible(&self) -> Result<()> {
        if self.sink.applied_position() < self.counters().applied {
            let sink = self.sink.clone();
            tokio::task::spawn_blocking(move || sink.flush()).await??;
        }
        Ok(())
    }

    /// Why queries cannot be answered.
    pub(crate) fn outage(&self) -> impl Fn() -> Option<api::Outage> + Send + Sync + use<> {
        let clickhouse = self.clickhouse.clone();
        move || clickhouse.as_ref()?.outage()
    }

    pub(crate) fn counters(&self) -> pipeline::Snapshot {
        self.counters.snapshot()
    }

    pub(crate) fn stats(&self) -> IngestStats {
        IngestStats {
            counters: self.counters.clone(),
            caught_up: self.caught_up.clone(),
            journal: self.journal.clone(),
            warehouse: self.sink.clone(),
            replay_end: self.replay_end,
        }
    }

    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        if let Some(scrubber) = &self.scrubber {
            registry.register_collector(Box::new(scrubber.clone()));
        }
        if let Some(clickhouse) = &self.clickhouse {
            registry.register_collector(Box::new(clickhouse.clone()));
        }
        registry.register_collector(Box::new(self.stats()));
    }

    /// Stops after the current batch and flushes. The rest stays in the journal for the next start.
    pub(crate) async fn close(self) {
        self.stop.send_replace(true);
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a background task of ingestion failed");
            }
        }
        let warehouse = self.sink;
        match tokio::task::spawn_blocking(move || warehouse.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "events stay in the journal only"),
            Err(error) => tracing::error!(%error, "flushing the warehouse failed"),
        }
    }
}

async fn open_embedded(
    data_dir: &DataDir,
    catalog: &Catalog,
    journal: &Journal,
    settings: &Settings,
) -> Result<Warehouse> {
    let (dir, id) = (data_dir.warehouse(), journal.id().as_u128());
    let (settings, clock) = (warehouse_settings(settings), catalog.clock().clone());
    let opening = move || Warehouse::open(&dir, id, settings, clock);
    tokio::task::spawn_blocking(opening).await?.context("cannot open the warehouse of events")
}

async fn open_pipeline(parts: Parts, journal: &Journal) -> Result<(Pipeline, journal::Reader)> {
    let pipeline = Pipeline::open(parts).await.context("the stores are inconsistent")?;
    let reader = journal.reader(pipeline.start()).context("the journal lacks events")?;
    Ok((pipeline, reader))
}

/// What it takes to begin ingestion into a ClickHouse that may be away.
struct Connecting {
    clickhouse: ClickHouseStore,
    data_dir: DataDir,
    parts: Parts,
    journal: Journal,
}

impl Connecting {
    /// Connects until it succeeds; none when the server stops before. Reports the first attempt: an
    /// error that only an operator can mend ends the start.
    async fn run(
        self,
        first: oneshot::Sender<Result<()>>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<(Pipeline, journal::Reader)> {
        let (mut first, mut backoff) = (Some(first), BACKOFF_MIN);
        loop {
            let error = match self.attempt().await {
                Ok(opened) => {
                    // Nobody waits if the start has gone on.
                    first.take().map(|first| first.send(Ok(())));
                    return Some(opened);
                }
                Err(error) => error,
            };
            let outcome = match clickhouse_store::is_transient(&error) {
                true => {
                    tracing::debug!(error = format!("{error:#}"), "ClickHouse is away");
                    Ok(())
                }
                false => {
                    tracing::error!(error = format!("{error:#}"), "events cannot be stored");
                    Err(error)
                }
            };
            first.take().map(|first| first.send(outcome));
            if !back_off(&mut backoff, stopped).await {
                return None;
            }
        }
    }

    async fn attempt(&self) -> Result<(Pipeline, journal::Reader)> {
        let catalog = &self.parts.catalog;
        let opening = async {
            self.clickhouse.connect(&self.data_dir, catalog, &self.journal).await?;
            open_pipeline(self.parts.clone(), &self.journal).await
        };
        let opened = opening.await;
        self.clickhouse.note_begun(opened.as_ref().map(drop));
        opened
    }
}

/// Reads the journal in batches and applies them, retrying with backoff.
async fn apply(
    mut pipeline: Pipeline,
    mut reader: journal::Reader,
    caught_up: CaughtUp,
    mut stopped: watch::Receiver<bool>,
) {
    let mut backoff = BACKOFF_MIN;
    let mut pacer = IngestPacer::default();
    loop {
        let waits = reader.position() >= reader.end();
        if waits {
            caught_up.begin();
        }
        let read = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            read = reader.next_batch(BATCH_RECORDS_MAX, BATCH_BYTES_MAX) => read,
        };
        if waits {
            caught_up.end();
        }
        let records = match read {
            Ok(records) => records,
            Err(journal::Error::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "the journal cannot be read");
                if !back_off(&mut backoff, &mut stopped).await {
                    return;
                }
                continue;
            }
        };
        let (started, waiting) = (Instant::now(), reader.waiting());
        while let Err(error) = pipeline.apply(&records).await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "cannot apply a batch, its events wait in the journal");
            if !back_off(&mut backoff, &mut stopped).await {
                return;
            }
        }
        backoff = BACKOFF_MIN;
        let left = reader.waiting();
        let rest = match records.len() {
            BATCH_RECORDS_LARGE.. => {
                let arrived = left.saturating_sub(waiting) as usize;
                pacer.pause_after(started.elapsed(), records.len(), arrived)
            }
            _ => Duration::ZERO,
        };
        let next = match left as usize {
            BATCH_RECORDS_LARGE.. => Instant::now() + rest,
            _ => started + BATCH_INTERVAL,
        };
        reader.reuse(records);
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// Sleeps for `backoff` and doubles it; false when the server stops meanwhile.
async fn back_off(backoff: &mut Duration, stopped: &mut watch::Receiver<bool>) -> bool {
    let stop = tokio::select! {
        _ = stopped.wait_for(|stopped| *stopped) => true,
        () = sleep(*backoff) => false,
    };
    *backoff = (*backoff * 2).min(BACKOFF_MAX);
    !stop
}

pub(crate) const fn days(days: u64) -> Duration {
    Duration::from_secs(days * DAY_SECONDS)
}

fn warehouse_settings(settings: &Settings) -> warehouse::Settings {
    let age_max = settings.events_days_max.map(|all| days(all.0));
    let disk_bytes_max = settings.events_disk_bytes_max.map(|bytes| bytes.0);
    warehouse::Settings {
        cache_bytes_max: settings.column_cache_bytes_max.0,
        retention: Retention { age_max, disk_bytes_max },
        purge: allocator::purge,
        ..warehouse::Settings::default()
    }
}

/// Periodic maintenance of the stores.
struct Maintenance {
    catalog: Catalog,
    warehouse: Arc<dyn Sink>,
    journal: Journal,
    geoip: GeoIp,
}

impl Maintenance {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(MAINTENANCE_INTERVAL);
        // The retention settings may be stricter than those of the last run.
        self.retain().await;
        let mut pruned = Instant::now();
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                _ = ticks.tick() => {}
            }
            let warehouse = self.warehouse.clone();
            self.blocking("flush", move || warehouse.flush_due()).await;
            self.release().await;
            self.replay_dead_letters().await;
            let geoip = self.geoip.clone();
            match tokio::task::spawn_blocking(move || geoip.reload_if_changed()).await {
                Ok(Ok(true)) => tracing::info!("reloaded the GeoIP database"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot reload the GeoIP database, the old one is used");
                }
                Err(error) => tracing::error!(%error, "reloading the GeoIP database failed"),
            }
            for _ in 0..COMPACTIONS_PER_ROUND_MAX {
                let warehouse = self.warehouse.clone();
                let more_due = self.blocking("compact", move || warehouse.tidy()).await;
                if *stopped.borrow() || more_due != Some(true) {
                    break;
                }
            }
            if pruned.elapsed() >= PRUNE_INTERVAL {
                pruned = Instant::now();
                self.prune().await;
            }
        }
    }

    /// Truncates the journal before the position that both stores have durably.
    async fn release(&self) {
        let before = Pipeline::releasable(&self.catalog, &*self.warehouse);
        if let Err(error) = self.journal.release(before).await {
            tracing::warn!(%error, "cannot truncate the journal");
        }
    }

    /// Appends the dead letters to the journal again whose replay was requested.
    async fn replay_dead_letters(&self) {
        let requested =
            match self.catalog.dead_letters().replays_requested(REPLAYS_PER_ROUND_MAX).await {
                Ok(requested) => requested,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the dead letters to replay");
                    return;
                }
            };
        for (id, record) in requested {
            let mut batch = Batch::with_capacity(self.journal.buffers(), 1, record.len());
            batch.push(&record);
            if let Err(error) = self.journal.append(batch).await {
                tracing::warn!(%error, "cannot replay a dead letter");
                return;
            }
            // If this fails the record is replayed twice, which is idempotent: it keeps its uuid.
            if let Err(error) = self.catalog.dead_letters().mark_replayed(id).await {
                tracing::warn!(%error, "replayed a dead letter, but cannot mark it as replayed");
                return;
            }
            tracing::info!(dead_letter.id = %id, "replayed a dead letter");
        }
    }

    async fn retain(&self) {
        let warehouse = self.warehouse.clone();
        self.blocking("apply retention", move || warehouse.apply_retention()).await;
    }

    async fn prune(&self) {
        self.retain().await;
        let warehouse = self.warehouse.clone();
        self.blocking("remove old files", move || warehouse.sweep()).await;
        // Records without a row (identity changes) never make a flush due, but advance the position.
        let warehouse = self.warehouse.clone();
        self.blocking("flush", move || warehouse.flush()).await;
        for (what, pruned) in [
            ("warnings", self.catalog.warnings().prune().await),
            ("dead letters", self.catalog.dead_letters().prune().await),
        ] {
            match pruned {
                Ok(0) => {}
                Ok(rows) => tracing::info!(what, rows, "pruned"),
                Err(error) => tracing::warn!(what, %error, "pruning failed"),
            }
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce() -> warehouse::Result<T> + Send + 'static,
    ) -> Option<T> {
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(done)) => Some(done),
            // The outage is reported once, by who notices it first.
            Ok(Err(error)) if clickhouse_store::is_outage(&error) => None,
            Ok(Err(error)) => {
                tracing::warn!(what, %error, "maintenance of the warehouse failed");
                None
            }
            Err(error) => {
                tracing::error!(what, %error, "maintenance of the warehouse failed");
                None
            }
        }
    }
}

/// The state of ingestion, for metrics and for the instance's status.
#[derive(Clone)]
pub(crate) struct IngestStats {
    counters: Arc<Counters>,
    caught_up: CaughtUp,
    journal: Journal,
    warehouse: Arc<dyn Sink>,
    replay_end: u64,
}

impl IngestStats {
    pub(crate) fn applied(&self) -> pipeline::Snapshot {
        self.counters.snapshot()
    }

    pub(crate) fn journal(&self) -> journal::Stats {
        self.journal.stats()
    }

    pub(crate) fn store(&self) -> StoreSize {
        self.warehouse.size()
    }

    pub(crate) fn lag(&self) -> Lag {
        let done = self.applied();
        let records = self.journal.waiting(Position::from_u64(done.applied));
        Lag::new(records, Timestamp::from_micros(done.applied_received_at), &self.caught_up)
    }

    /// How many of the records that the journal held at the start are not applied yet. Until it is
    /// zero, queries miss events that were visible before the restart.
    pub(crate) fn replay_left(&self) -> u64 {
        let (applied, end) = (self.applied().applied, self.replay_end);
        if applied >= end {
            return 0;
        }
        let waiting = |from: u64| self.journal.waiting(Position::from_u64(from));
        waiting(applied).saturating_sub(waiting(end)).max(1)
    }
}

impl fmt::Debug for IngestStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IngestStats")
    }
}

impl Collector for IngestStats {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (done, lag) = (self.applied(), self.lag());
        let mut show = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            let name = format!("hedgerow_pipeline_{name}");
            metric.encode(encoder.encode_descriptor(&name, help, None, metric.metric_type())?)
        };
        for (name, help, value) in [
            ("batches", "Batches of records applied", done.batches),
            ("records", "Records applied", done.records),
            ("events", "Events handed to the warehouse", done.events),
            ("dead_letters", "Records stored as dead letters", done.dead_letters),
            ("failures", "Failed attempts to apply a batch", done.failures),
        ] {
            show(name, help, &ConstCounter::new(value))?;
        }
        show(
            "lag_records",
            "Records in the journal that are not applied yet",
            &ConstGauge::new(lag.records),
        )?;
        show("lag_seconds", lag::SECONDS_HELP, &ConstGauge::new(lag.seconds))
    }
}
