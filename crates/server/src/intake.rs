//! The write path's parts: the journal, capture in front of it, and the task that keeps what
//! capture warns about.

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

use crate::folder::Folder;
use crate::settings::Settings;
use crate::stores;
use crate::values::Durability;

/// Warnings on their way to the catalog; when more wait, capture drops and counts them.
const WARNINGS_WAITING_MAX: usize = 4_096;
/// Written in one transaction.
const WARNINGS_AT_ONCE_MAX: usize = 512;
/// While the catalog is away, it is asked again this often.
const CATALOG_PAUSE: Duration = Duration::from_secs(1);
/// How soon a journal that failed is tried again.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// The smallest events grow most on their way into the journal, to less than this many times.
const RECORDS_PER_BODY_BYTE: usize = 3;
/// What may wait in the journal's queue beside the largest request.
const QUEUE_SPARE_BYTES: usize = 8 << 20;

pub(crate) struct Intake {
    pub capture: Arc<Capture>,
    pub tokens: Tokens,
    journal: Journal,
    warnings: JoinHandle<()>,
    probing: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Intake {
    pub(crate) async fn open(
        folder: &Folder,
        catalog: &Catalog,
        settings: &Settings,
    ) -> Result<Self> {
        stores::check_journal_is_here(folder, catalog).await?;
        let body_bytes_max = settings.capture_body_bytes_max.0 as usize;
        let limits = Limits {
            body_bytes_max,
            v1_body_bytes_max: Limits::default().v1_body_bytes_max.min(body_bytes_max),
            text_bytes_max: body_bytes_max,
            records_bytes_max: RECORDS_PER_BODY_BYTE * body_bytes_max,
            in_flight_bytes_max: settings.capture_in_flight_bytes_max.0 as usize,
            ..Limits::default()
        };
        let queue_bytes_max = (limits.records_bytes_max + QUEUE_SPARE_BYTES) as u64;
        let settings = journal::Settings {
            durability: match settings.capture_durability {
                Durability::Fsync => journal::Durability::Fsync,
                Durability::Os => journal::Durability::Os,
            },
            segment_bytes: settings.journal_segment_bytes.0,
            record_bytes_max: limits.records_bytes_max as u64,
            queue_bytes_max,
            disk_bytes_max: settings.journal_disk_bytes_max.0,
            ..journal::Settings::default()
        };
        let journal =
            Journal::open(folder.journal(), settings).await.map_err(stores::with_remedy)?;
        stores::check(folder, catalog, &journal).await?;
        let tokens = Tokens::new(catalog.clone());
        let (sender, waiting) = channel(WARNINGS_WAITING_MAX);
        let capture = Capture::new(journal.clone(), Arc::new(tokens.clone()), sender, limits);
        let (stop, stopped) = oneshot::channel();
        let warnings = tokio::spawn(keep_warnings(catalog.clone(), waiting, stopped));
        let probing = tokio::spawn(probe(journal.clone()));
        Ok(Self { capture: Arc::new(capture), tokens, journal, warnings, probing, stop })
    }

    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) fn measure(&self, registry: &mut Registry) {
        let (capture, journal) = (self.capture.clone(), self.journal.clone());
        registry.register_collector(Box::new(Measured { capture, journal }));
    }

    /// Call it when no more requests come.
    pub(crate) async fn close(self) {
        self.probing.abort();
        self.journal.close().await;
        let _ = self.stop.send(());
        if let Err(error) = self.warnings.await {
            tracing::error!(%error, "keeping warnings failed");
        }
    }
}

/// Finds out whether the journal takes events before anybody sends one, and again for as long as it
/// does not: a server that a load balancer sends nothing to must notice that its disk has room.
async fn probe(journal: Journal) {
    loop {
        if matches!(journal.probe().await, Err(journal::Error::Closed)) {
            return;
        }
        loop {
            tokio::time::sleep(PROBE_EVERY).await;
            if journal.refusal().is_some() {
                break;
            }
        }
    }
}

/// Writes warnings down until there are none and it was told to stop.
async fn keep_warnings(
    catalog: Catalog,
    mut waiting: Receiver<Warning>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut taken = Vec::with_capacity(WARNINGS_AT_ONCE_MAX);
    loop {
        tokio::select! {
            count = waiting.recv_many(&mut taken, WARNINGS_AT_ONCE_MAX) => {
                if count == 0 {
                    return;
                }
            }
            // What still waits is read; after that, nothing comes.
            _ = &mut stopped => {
                waiting.close();
                while let Ok(warning) = waiting.try_recv() {
                    taken.push(warning);
                }
                if let Err(error) = catalog.record_warnings("capture", &taken).await {
                    tracing::warn!(%error, count = taken.len(), "warnings were lost");
                }
                return;
            }
        }
        while let Err(error) = catalog.record_warnings("capture", &taken).await {
            tracing::warn!(%error, count = taken.len(), "warnings cannot be kept yet");
            tokio::select! {
                () = tokio::time::sleep(CATALOG_PAUSE) => {}
                _ = &mut stopped => return,
            }
        }
        taken.clear();
    }
}

struct Measured {
    capture: Arc<Capture>,
    journal: Journal,
}

impl fmt::Debug for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Measured")
    }
}

impl Collector for Measured {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (captured, kept) = (self.capture.counters(), self.journal.stats());
        let budget = self.capture.budget();
        let in_flight = budget.bytes() as u64;
        for (name, help, value) in [
            ("capture_events", "Events accepted", captured.accepted),
            (
                "capture_warnings_lost",
                "Warnings that found their queue full",
                captured.warnings_lost,
            ),
            ("journal_records", "Records appended", kept.records),
            ("journal_record_bytes", "Bytes of records appended", kept.record_bytes),
            ("journal_groups", "Groups of records written together", kept.groups),
            ("journal_groups_failed", "Groups that could not be written", kept.groups_failed),
        ] {
            let value = ConstCounter::new(value);
            let name = format!("hedgerow_{name}");
            value.encode(encoder.encode_descriptor(&name, help, None, MetricType::Counter)?)?;
        }
        for (name, help, value) in [
            ("capture_in_flight_bytes", "Bytes set aside for requests and answers", in_flight),
            ("journal_queue_bytes", "Bytes handed over and not yet durable", kept.queue_bytes),
            ("journal_disk_bytes", "Bytes of the journal's files", kept.disk_bytes),
            ("journal_oldest_position", "The oldest record that is kept", kept.oldest.as_u64()),
            ("journal_next_position", "Where the next record will stand", kept.next.as_u64()),
        ] {
            let value = ConstGauge::new(value as i64);
            let name = format!("hedgerow_{name}");
            value.encode(encoder.encode_descriptor(&name, help, None, MetricType::Gauge)?)?;
        }
        let (name, help) = ("hedgerow_budget_bytes", "Bytes set aside for requests, by use");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for of in PoolKind::ALL {
            ConstGauge::new(budget.pool(of).bytes() as i64)
                .encode(family.encode_family(&[("use", of.as_str())])?)?;
        }
        let (name, help) = ("hedgerow_budget_refused", "How often there was no room, by use");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for of in PoolKind::ALL {
            ConstCounter::new(budget.pool(of).refused())
                .encode(family.encode_family(&[("use", of.as_str())])?)?;
        }
        let name = "hedgerow_capture_dropped";
        let help = "Events left out of accepted requests, by reason";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (reason, count) in captured.dropped {
            ConstCounter::new(count)
                .encode(family.encode_family(&[("reason", reason.as_str())])?)?;
        }
        encode_syncs(&mut encoder, &kept)
    }
}

fn encode_syncs(encoder: &mut DescriptorEncoder, kept: &journal::Stats) -> Result<(), fmt::Error> {
    let (name, help) = ("hedgerow_journal_sync_seconds", "How long the disk took to be sure");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    let seconds = |us: u64| us as f64 / 1e6;
    let mut buckets: Vec<(f64, u64)> =
        SYNC_BUCKETS_US.into_iter().map(seconds).zip(kept.sync_buckets).collect();
    let longer = kept.syncs.saturating_sub(kept.sync_buckets.iter().sum());
    buckets.push((f64::INFINITY, longer));
    family.encode_histogram::<prometheus_client::encoding::NoLabelSet>(
        seconds(kept.sync_us_total),
        kept.syncs,
        &buckets,
        None,
    )
}
