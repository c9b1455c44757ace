//! Reads the warehouse's cold segments again and again, slowly, and shows what it found.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;
use tokio::time::interval;
use warehouse::Warehouse;

/// Each segment is read once in so long: a week's backups are still there when damage is found.
const AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How fast: 100 GB in three and a half hours, and little enough that queries do not notice.
const BYTES_PER_SECOND: u64 = 8 << 20;
/// How often it is looked whether one is due.
const EVERY: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Scrub {
    warehouse: Warehouse,
    bytes: Arc<AtomicU64>,
}

impl Scrub {
    pub(crate) fn of(warehouse: &Warehouse) -> Self {
        Self { warehouse: warehouse.clone(), bytes: Arc::default() }
    }

    pub(crate) async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(EVERY);
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                _ = ticks.tick() => {}
            }
            let (own, stopping) = (self.clone(), stopped.clone());
            let read = tokio::task::spawn_blocking(move || own.read(&stopping)).await;
            if let Err(error) = read {
                tracing::error!(%error, "the scrub of the warehouse failed");
            }
        }
    }

    /// Reads all segments that are due. Damage is told of by the warehouse.
    fn read(&self, stopped: &watch::Receiver<bool>) {
        let mut pace = |bytes: usize| {
            self.bytes.fetch_add(bytes as u64, Relaxed);
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND as f64));
            !*stopped.borrow()
        };
        loop {
            match self.warehouse.scrub(AGE, &mut pace) {
                Ok(Some(done)) => tracing::debug!(file = done.file, done.bytes, "read a segment"),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a segment could not be read");
                    return;
                }
            }
        }
    }
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrub")
    }
}

impl Collector for Scrub {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut show = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            let name = format!("hedgerow_warehouse_{name}");
            metric.encode(encoder.encode_descriptor(&name, help, None, metric.metric_type())?)
        };
        let health = self.warehouse.health();
        let count = |found: usize| ConstGauge::new(found as u64);
        let help = "Segments found damaged since the start";
        show("damaged_segments", help, &count(health.damaged.len()))?;
        let help = "Projects whose events cannot be written";
        show("failing_projects", help, &count(health.failing.len()))?;
        let read = ConstCounter::new(self.bytes.load(Relaxed));
        show("scrubbed_bytes", "Bytes of segments read to find damage", &read)
    }
}
