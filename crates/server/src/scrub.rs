//! The scrubber: reads every segment of the warehouse once a week at a limited rate, to detect bit
//! rot while backups are recent, and exports the result as metrics.

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

/// Each segment is read once in this interval, so that backups older than the corruption exist.
const SCRUB_INTERVAL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Rate limit: 100 GB take three and a half hours, and queries keep the disk's bandwidth.
const BYTES_PER_SECOND: u64 = 8 << 20;
/// How often the scrubber checks whether a segment is due.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(crate) struct Scrubber {
    warehouse: Warehouse,
    bytes: Arc<AtomicU64>,
}

impl Scrubber {
    pub(crate) fn new(warehouse: &Warehouse) -> Self {
        Self { warehouse: warehouse.clone(), bytes: Arc::default() }
    }

    pub(crate) async fn run(self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(CHECK_INTERVAL);
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                _ = ticks.tick() => {}
            }
            let (scrubber, stopping) = (self.clone(), stopped.clone());
            let scrubbed = tokio::task::spawn_blocking(move || scrubber.scrub_due(&stopping)).await;
            if let Err(error) = scrubbed {
                tracing::error!(%error, "the scrub of the warehouse failed");
            }
        }
    }

    /// Reads all segments that are due. The warehouse logs and counts corrupted ones.
    fn scrub_due(&self, stopped: &watch::Receiver<bool>) {
        let mut throttle = |bytes: usize| {
            self.bytes.fetch_add(bytes as u64, Relaxed);
            std::thread::sleep(Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND as f64));
            !*stopped.borrow()
        };
        loop {
            match self.warehouse.scrub(SCRUB_INTERVAL, &mut throttle) {
                Ok(Some(done)) => {
                    tracing::debug!(file = done.file, done.bytes, "scrubbed a segment");
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a segment cannot be scrubbed");
                    return;
                }
            }
        }
    }
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrubber")
    }
}

impl Collector for Scrubber {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut show = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            let name = format!("hedgerow_warehouse_{name}");
            metric.encode(encoder.encode_descriptor(&name, help, None, metric.metric_type())?)
        };
        let health = self.warehouse.health();
        let gauge = |count: usize| ConstGauge::new(count as u64);
        let help = "Corrupted segments found since the start";
        show("damaged_segments", help, &gauge(health.damaged.len()))?;
        let help = "Projects whose events cannot be flushed";
        show("failing_projects", help, &gauge(health.failing.len()))?;
        let scrubbed = ConstCounter::new(self.bytes.load(Relaxed));
        show("scrubbed_bytes", "Bytes of segments that the scrubber read", &scrubbed)
    }
}
