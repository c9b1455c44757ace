//! The task that applies the journal to the stores, and the timetable of what the stores need.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use catalog::{Catalog, DefinitionLimits};
use geoip::GeoIp;
use journal::{Journal, Position};
use model::Clock;
use pipeline::{Burst, Counters, Parts, Pipeline};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep};
use warehouse::{Effort, Retention, Warehouse};

use crate::runtimes::Behind;
use crate::scrub::Scrub;
use crate::settings::Settings;

/// Records of one batch: so many that a person who is met several times is written once, and few
/// enough that others who write to SQLite wait for some tens of milliseconds.
const BATCH_RECORDS_MAX: usize = 8_000;
const BATCH_BYTES_MAX: usize = 16 << 20;
/// From here on a batch is large, and as many that wait are not kept waiting.
const BATCH_RECORDS_LARGE: usize = 2_000;
/// How soon another batch begins if few records wait. Each costs a transaction, however small it is;
/// events that come one by one, thousands in a second, share one.
const BATCH_EVERY: Duration = Duration::from_millis(10);
/// The pause after a batch that could not be applied, doubled each time up to the longest.
const PAUSE_SHORTEST: Duration = Duration::from_millis(100);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// How often the warehouse is asked whether something is due, and the journal whether it can be
/// shortened.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How often old things are thrown away.
const PRUNE_EVERY: Duration = Duration::from_secs(600);
const DAY_SECONDS: u64 = 86_400;
/// Dead letters sent again in one round.
const REPLAYS_AT_ONCE_MAX: i64 = 100;
/// Merges done in a row before the journal is looked after again.
const MERGES_AT_ONCE_MAX: usize = 16;

pub(crate) struct Ingest {
    warehouse: Warehouse,
    journal: Journal,
    counters: Arc<Counters>,
    clock: Clock,
    /// Shared with flags.
    pub geoip: GeoIp,
    stop: watch::Sender<bool>,
    applying: JoinHandle<()>,
    upkeep: JoinHandle<()>,
    scrub: Scrub,
    scrubbing: JoinHandle<()>,
    /// Where the journal ended when this server started.
    replayed_at: u64,
}

impl Ingest {
    pub(crate) async fn open(
        folder: &Path,
        catalog: &Catalog,
        journal: &Journal,
        settings: &Settings,
        behind: Behind,
    ) -> Result<Self> {
        catalog.set_definition_limits(DefinitionLimits {
            events: settings.event_definitions_max.0.cast_signed(),
            properties: settings.property_definitions_max.0.cast_signed(),
        });
        let clock = catalog.clock().clone();
        let (folder, id) = (folder.to_owned(), journal.id().as_u128());
        let (warehouse_settings, own_clock) = (warehouse_settings(settings), clock.clone());
        let opening = move || Warehouse::open(&folder, id, warehouse_settings, own_clock);
        let warehouse = tokio::task::spawn_blocking(opening)
            .await?
            .context("cannot open the warehouse of events")?;
        let geoip = match &settings.geoip_db {
            Some(path) => GeoIp::open(&path.0)?,
            None => GeoIp::built_in()?,
        };
        if !geoip.is_on() {
            tracing::info!("events are not located: no GeoIP database was built in or set");
        }
        let parts = Parts {
            catalog: catalog.clone(),
            warehouse: warehouse.clone(),
            journal: journal.id(),
            geoip: geoip.clone(),
        };
        let pipeline = Pipeline::open(parts).await.context("the stores do not fit together")?;
        let counters = pipeline.counters();
        let reader = journal.reader(pipeline.start()).context("the journal lacks events")?;
        let replayed_at = journal.stats().next.as_u64();
        let (stop, stopped) = watch::channel(false);
        let applying = behind.pipeline.spawn(apply(pipeline, reader, stopped.clone()));
        let chores = Chores {
            catalog: catalog.clone(),
            warehouse: warehouse.clone(),
            journal: journal.clone(),
            geoip: geoip.clone(),
        };
        let upkeep = behind.upkeep.spawn(chores.run(stopped.clone()));
        let scrub = Scrub::of(&warehouse);
        let scrubbing = behind.upkeep.spawn(scrub.clone().run(stopped));
        let journal = journal.clone();
        Ok(Self {
            warehouse,
            journal,
            counters,
            clock,
            geoip,
            stop,
            applying,
            upkeep,
            scrub,
            scrubbing,
            replayed_at,
        })
    }

    pub(crate) fn warehouse(&self) -> Warehouse {
        self.warehouse.clone()
    }

    pub(crate) fn counters(&self) -> pipeline::Snapshot {
        self.counters.snapshot()
    }

    /// Says how many records that the journal had at the start are still to be applied: until there
    /// are none, reads lack events that were there before the restart.
    pub(crate) fn replay_left(&self) -> impl Fn() -> u64 + Send + Sync + 'static {
        let (counters, end) = (self.counters.clone(), self.replayed_at);
        move || end.saturating_sub(counters.snapshot().applied)
    }

    pub(crate) fn measure(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.scrub.clone()));
        registry.register_collector(Box::new(Measured {
            counters: self.counters.clone(),
            journal: self.journal.clone(),
            clock: self.clock.clone(),
        }));
    }

    /// Ends after the batch at hand. What is left waits in the journal for the next start.
    pub(crate) async fn close(self) {
        self.stop.send_replace(true);
        for task in [self.applying, self.upkeep, self.scrubbing] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the pipeline failed");
            }
        }
        let warehouse = self.warehouse;
        match tokio::task::spawn_blocking(move || warehouse.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "events stay in the journal only"),
            Err(error) => tracing::error!(%error, "flushing the warehouse failed"),
        }
    }
}

/// Applies what the journal has, at once when it grows after a while.
async fn apply(
    mut pipeline: Pipeline,
    mut reader: journal::Reader,
    mut stopped: watch::Receiver<bool>,
) {
    let mut pause = PAUSE_SHORTEST;
    let mut burst = Burst::default();
    loop {
        let read = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            read = reader.next_batch(BATCH_RECORDS_MAX, BATCH_BYTES_MAX) => read,
        };
        let records = match read {
            Ok(records) => records,
            Err(journal::Error::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "the journal cannot be read");
                if !rest(&mut pause, &mut stopped).await {
                    return;
                }
                continue;
            }
        };
        let (begun, end) = (Instant::now(), reader.end());
        while let Err(error) = pipeline.apply(&records).await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(%error, cause, "events wait in the journal");
            if !rest(&mut pause, &mut stopped).await {
                return;
            }
        }
        pause = PAUSE_SHORTEST;
        // The end may be told of a moment after what stands before it can be read.
        let to_end = |from: Position| reader.end().as_u64().saturating_sub(from.as_u64()) as usize;
        let rest = match records.len() {
            BATCH_RECORDS_LARGE.. => burst.rest(begun.elapsed(), records.len(), to_end(end)),
            _ => Duration::ZERO,
        };
        let next = match to_end(reader.position()) {
            BATCH_RECORDS_LARGE.. => Instant::now() + rest,
            _ => begun + BATCH_EVERY,
        };
        reader.reuse(records);
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => return,
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

/// Pauses, longer each time; false when it is time to stop.
async fn rest(pause: &mut Duration, stopped: &mut watch::Receiver<bool>) -> bool {
    let stop = tokio::select! {
        _ = stopped.wait_for(|stopped| *stopped) => true,
        () = sleep(*pause) => false,
    };
    *pause = (*pause * 2).min(PAUSE_LONGEST);
    !stop
}

fn warehouse_settings(settings: &Settings) -> warehouse::Settings {
    let age_max = settings.events_days_max.map(|days| Duration::from_secs(days.0 * DAY_SECONDS));
    let disk_bytes_max = settings.events_disk_bytes_max.map(|bytes| bytes.0);
    warehouse::Settings {
        cache_bytes_max: settings.column_cache_bytes_max.0,
        retention: Retention { age_max, disk_bytes_max },
        ..warehouse::Settings::default()
    }
}

/// What the stores need now and then.
struct Chores {
    catalog: Catalog,
    warehouse: Warehouse,
    journal: Journal,
    geoip: GeoIp,
}

impl Chores {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(UPKEEP_EVERY);
        // What ran before may have kept more.
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
            self.replay().await;
            let geoip = self.geoip.clone();
            match tokio::task::spawn_blocking(move || geoip.refresh()).await {
                Ok(Ok(true)) => tracing::info!("read the GeoIP database again"),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the old GeoIP database stays in use"),
                Err(error) => tracing::error!(%error, "reading the GeoIP database failed"),
            }
            for _ in 0..MERGES_AT_ONCE_MAX {
                let warehouse = self.warehouse.clone();
                let merged = self.blocking("compact", move || warehouse.compact(Effort::Due)).await;
                if *stopped.borrow() || !matches!(merged, Some(Some(_))) {
                    break;
                }
            }
            if pruned.elapsed() >= PRUNE_EVERY {
                pruned = Instant::now();
                self.prune().await;
            }
        }
    }

    /// Lets go of records that both stores have for good.
    async fn release(&self) {
        let before = Pipeline::releasable(&self.catalog, &self.warehouse);
        if let Err(error) = self.journal.release(before).await {
            tracing::warn!(%error, "the journal could not be shortened");
        }
    }

    /// Sends dead letters again that an operator asked for.
    async fn replay(&self) {
        let wanted = match self.catalog.replays_wanted(REPLAYS_AT_ONCE_MAX).await {
            Ok(wanted) => wanted,
            Err(error) => {
                tracing::warn!(%error, "cannot look for dead letters to send again");
                return;
            }
        };
        for (id, record) in wanted {
            let mut batch = journal::Batch::new();
            batch.push(&record);
            if let Err(error) = self.journal.append(batch).await {
                tracing::warn!(%error, "a dead letter could not be sent again");
                return;
            }
            // One that is sent twice for want of this note is the same event once more.
            if let Err(error) = self.catalog.dead_letter_replayed(id).await {
                tracing::warn!(%error, "a dead letter is sent again, but not noted");
                return;
            }
            tracing::info!(dead_letter.id = %id, "sent a dead letter again");
        }
    }

    async fn retain(&self) {
        let warehouse = self.warehouse.clone();
        self.blocking("apply retention", move || warehouse.retain()).await;
    }

    async fn prune(&self) {
        self.retain().await;
        let warehouse = self.warehouse.clone();
        self.blocking("remove old files", move || warehouse.sweep()).await;
        // Records that gave no row leave nothing in memory that would make a flush due.
        let warehouse = self.warehouse.clone();
        self.blocking("flush", move || warehouse.flush()).await;
        for (what, pruned) in [
            ("warnings", self.catalog.prune_warnings().await),
            ("dead letters", self.catalog.prune_dead_letters().await),
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
            Ok(Err(error)) => {
                tracing::warn!(what, %error, "upkeep of the warehouse failed");
                None
            }
            Err(error) => {
                tracing::error!(what, %error, "upkeep of the warehouse failed");
                None
            }
        }
    }
}

struct Measured {
    counters: Arc<Counters>,
    journal: Journal,
    clock: Clock,
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Measured")
    }
}

impl Collector for Measured {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (done, next) = (self.counters.snapshot(), self.journal.stats().next.as_u64());
        let mut show = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            let name = format!("hedgerow_pipeline_{name}");
            metric.encode(encoder.encode_descriptor(&name, help, None, metric.metric_type())?)
        };
        for (name, help, value) in [
            ("batches", "Batches of records applied", done.batches),
            ("records", "Records applied", done.records),
            ("events", "Events handed to the warehouse", done.events),
            ("dead_letters", "Records set aside", done.dead_letters),
            ("failures", "Batches that had to be tried again", done.failures),
        ] {
            show(name, help, &ConstCounter::new(value))?;
        }
        let lag = next.saturating_sub(done.applied);
        // Before the first batch nobody knows when the records that wait came.
        let known = lag > 0 && done.applied_received_at > 0;
        let behind = self.clock.now().as_micros() - done.applied_received_at;
        let seconds = if known { behind as f64 / 1e6 } else { 0.0 };
        show("lag_records", "Records that wait in the journal", &ConstGauge::new(lag))?;
        show("lag_seconds", "Age of the last record applied", &ConstGauge::new(seconds))
    }
}
