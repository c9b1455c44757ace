//! Metrics of the process (RSS, CPU time, file descriptors) under Prometheus' standard names, and
//! the file descriptor limit.

use std::fmt;
use std::fs;

use model::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[derive(Debug)]
pub(crate) struct ProcessMetrics {
    pub started: Timestamp,
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let mut show = |name: &str, help: &str, metric: &dyn EncodeMetric| {
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        let started = self.started.as_micros() as f64 / 1e6;
        let name = "process_start_time_seconds";
        show(
            name,
            "Start time of the process, in seconds since the Unix epoch",
            &ConstGauge::new(started),
        )?;
        if let Some(bytes) = resident_bytes() {
            let name = "process_resident_memory_bytes";
            show(name, "Resident memory of the process", &ConstGauge::new(bytes))?;
        }
        if let Some(seconds) = cpu_seconds() {
            show(
                "process_cpu_seconds",
                "CPU time of the process, user and system",
                &ConstCounter::new(seconds),
            )?;
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            let count = ConstGauge::new(files.count() as u64);
            show("process_open_fds", "Open file descriptors", &count)?;
        }
        Ok(())
    }
}

/// Raises the soft `RLIMIT_NOFILE` to the hard limit: distributions keep the soft one small only for
/// programs that use `select`. Returns the soft limit before and after.
pub(crate) fn raise_descriptor_limit() -> (Option<u64>, Option<u64>) {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => (before.current, raised.current),
        Err(_) => (before.current, before.current),
    }
}

pub(crate) fn resident_bytes() -> Option<u64> {
    let pages = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = pages.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses, which may contain spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let user: f64 = fields.nth(11)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / rustix::param::clock_ticks_per_second() as f64)
}
