//! Opens the write path: the journal, capture in front of it, and the background tasks that store
//! ingestion warnings and probe a failed journal.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use api::Tokens;
use capture::{Capture, Limits, PoolKind};
use catalog::Catalog;
use journal::{Journal, SYNC_BUCKETS_US};
use model::Warning;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::allocator;
use crate::data_dir::DataDir;
use crate::journal_location;
use crate::settings::Settings;
use crate::stores;
use crate::values::Durability;

/// Capacity of the queue of ingestion warnings; capture drops and counts those that find it full.
const WARNINGS_QUEUED_MAX: usize = 4_096;
/// Warnings written in one transaction.
const WARNINGS_PER_TRANSACTION_MAX: usize = 512;
/// Retry interval while the catalog is unavailable.
const CATALOG_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the probes while the journal refuses appends.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Upper bound of a record's size over that of its JSON. The smallest events grow most.
const RECORD_BYTES_PER_BODY_BYTE: usize = 3;
/// Capacity of the journal's queue beyond the largest request.
const QUEUE_HEADROOM_BYTES: usize = 8 << 20;

pub(crate) struct WritePath {
    pub capture: Arc<Capture>,
    pub tokens: Tokens,
    journal: Journal,
    warnings: JoinHandle<()>,
    probing: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl WritePath {
    pub(crate) async fn open(
        data_dir: &DataDir,
        catalog: &Catalog,
        settings: &Settings,
    ) -> Result<Self> {
        let location = journal_location::location(data_dir, settings)?;
        stores::check_journal_present(data_dir, catalog, settings, &location).await?;
        let body_bytes_max = settings.capture_body_bytes_max.0 as usize;
        let limits = Limits {
            body_bytes_max,
            v1_body_bytes_max: Limits::default().v1_body_bytes_max.min(body_bytes_max),
            text_bytes_max: body_bytes_max,
            records_bytes_max: RECORD_BYTES_PER_BODY_BYTE * body_bytes_max,
            in_flight_bytes_max: settings.capture_in_flight_bytes_max.0 as usize,
            ..Limits::default()
        };
        let queue_bytes_max = (limits.records_bytes_max + QUEUE_HEADROOM_BYTES) as u64;
        let journal_settings = journal::Settings {
            durability: match settings.capture_durability {
                Durability::Os => journal::Durability::Os,
                Durability::Fsync | Durability::Replicated => journal::Durability::Fsync,
            },
            segment_bytes: settings.journal_segment_bytes.0,
            record_bytes_max: limits.records_bytes_max as u64,
            queue_bytes_max,
            disk_bytes_max: settings.journal_disk_bytes_max.0,
            purge: allocator::purge,
            ..journal::Settings::default()
        };
        let journal = Journal::open(location.clone(), journal_settings)
            .await
            .map_err(stores::journal_open_error)?;
        stores::check_consistency(data_dir, catalog, &journal, settings, &location).await?;
        let tokens = Tokens::new(catalog.clone());
        let (sender, queued) = channel(WARNINGS_QUEUED_MAX);
        let capture = Capture::new(journal.clone(), Arc::new(tokens.clone()), sender, limits);
        let (stop, stopped) = oneshot::channel();
        let warnings = tokio::spawn(store_warnings(catalog.clone(), queued, stopped));
        let probing = tokio::spawn(probe(journal.clone()));
        Ok(Self { capture: Arc::new(capture), tokens, journal, warnings, probing, stop })
    }

    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        let (capture, journal) = (self.capture.clone(), self.journal.clone());
        registry.register_collector(Box::new(WritePathMetrics { capture, journal }));
    }

    /// Call it after the HTTP server has drained.
    pub(crate) async fn close(self) {
        self.probing.abort();
        self.journal.close().await;
        let _ = self.stop.send(());
        if let Err(error) = self.warnings.await {
            tracing::error!(%error, "the task that stores ingestion warnings failed");
        }
    }
}

/// Probes the journal once at start, and every second while it refuses appends. Without requests
/// (a load balancer sends none to an unready server) nothing else would notice that the disk has
/// space again.
async fn probe(journal: Journal) {
    loop {
        if matches!(journal.probe().await, Err(journal::Error::Closed)) {
            return;
        }
        loop {
            tokio::time::sleep(PROBE_INTERVAL).await;
            if journal.refusal().is_some() {
                break;
            }
        }
    }
}

/// Writes queued warnings to the catalog until `stopped`, then drains the queue.
async fn store_warnings(
    catalog: Catalog,
    mut queued: Receiver<Warning>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut batch = Vec::with_capacity(WARNINGS_PER_TRANSACTION_MAX);
    loop {
        tokio::select! {
            count = queued.recv_many(&mut batch, WARNINGS_PER_TRANSACTION_MAX) => {
                if count == 0 {
                    return;
                }
            }
            _ = &mut stopped => {
                queued.close();
                while let Ok(warning) = queued.try_recv() {
                    batch.push(warning);
                }
                if let Err(error) = catalog.warnings().record("capture", &batch).await {
                    tracing::warn!(%error, count = batch.len(), "ingestion warnings were lost");
                }
                return;
            }
        }
        while let Err(error) = catalog.warnings().record("capture", &batch).await {
            tracing::warn!(%error, count = batch.len(), "cannot store ingestion warnings, retrying");
            tokio::select! {
                () = tokio::time::sleep(CATALOG_RETRY_INTERVAL) => {}
                _ = &mut stopped => return,
            }
        }
        batch.clear();
    }
}

struct WritePathMetrics {
    capture: Arc<Capture>,
    journal: Journal,
}

impl fmt::Debug for WritePathMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WritePathMetrics")
    }
}

impl Collector for WritePathMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (captured, journal) = (self.capture.counters(), self.journal.stats());
        let budget = self.capture.budget();
        let in_flight = budget.bytes() as u64;
        for (name, help, value) in [
            ("capture_events", "Events accepted", captured.accepted),
            (
                "capture_warnings_lost",
                "Ingestion warnings dropped because their queue was full",
                captured.warnings_lost,
            ),
            ("journal_records", "Records appended", journal.records),
            ("journal_record_bytes", "Bytes of records appended", journal.record_bytes),
            ("journal_groups", "Group commits", journal.groups),
            ("journal_groups_failed", "Group commits that failed", journal.groups_failed),
            (
                "journal_lost_messages",
                "1 once the journal's servers lost an acknowledged message",
                journal.lost_messages,
            ),
        ] {
            let value = ConstCounter::new(value);
            let name = format!("hedgerow_{name}");
            value.encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)?;
        }
        for (name, help, value) in [
            (
                "capture_in_flight_bytes",
                "Bytes reserved for requests and responses in flight",
                in_flight,
            ),
            (
                "journal_queue_bytes",
                "Bytes queued for the journal and not yet durable",
                journal.queue_bytes,
            ),
            ("journal_disk_bytes", "Bytes of the journal's files", journal.disk_bytes),
            (
                "journal_oldest_position",
                "Position of the oldest retained record",
                journal.oldest.as_u64(),
            ),
            ("journal_next_position", "Position of the next record", journal.next.as_u64()),
        ] {
            let value = ConstGauge::new(value as i64);
            let name = format!("hedgerow_{name}");
            value.encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)?;
        }
        let name = "hedgerow_budget_bytes";
        let help = "Bytes reserved of the memory budget, by pool";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for kind in PoolKind::ALL {
            ConstGauge::new(budget.pool(kind).bytes() as i64)
                .encode(family.encode_family(&[("use", kind.as_str())])?)?;
        }
        let name = "hedgerow_budget_refused";
        let help = "Reservations refused because the pool was exhausted, by pool";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for kind in PoolKind::ALL {
            ConstCounter::new(budget.pool(kind).refused())
                .encode(family.encode_family(&[("use", kind.as_str())])?)?;
        }
        let name = "hedgerow_capture_dropped";
        let help = "Events dropped from accepted requests, by reason";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (reason, count) in captured.dropped {
            ConstCounter::new(count)
                .encode(family.encode_family(&[("reason", reason.as_str())])?)?;
        }
        encode_sync_latency(&mut encoder, &journal)
    }
}

fn encode_sync_latency(
    encoder: &mut DescriptorEncoder,
    stats: &journal::Stats,
) -> Result<(), fmt::Error> {
    let (name, help) = ("hedgerow_journal_sync_seconds", "fsync latency of the journal");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let seconds = |us: u64| us as f64 / 1e6;
    let mut buckets: Vec<(f64, u64)> =
        SYNC_BUCKETS_US.into_iter().map(seconds).zip(stats.sync_buckets).collect();
    let overflow = stats.syncs.saturating_sub(stats.sync_buckets.iter().sum());
    buckets.push((f64::INFINITY, overflow));
    family.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
        seconds(stats.sync_us_total),
        stats.syncs,
        &buckets,
        None,
    )
}
