//! Metrics of the process (RSS, CPU time, file descriptors) under Prometheus' standard names, and
//! the file descriptor limit.

use std::fmt;
use std::fs;
use std::path::Path;
use std::ptr;

use model::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::mm::{Advice, madvise};
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

/// Unmaps the program's code: most of what a start runs (migrations, passwords, routes) is not run
/// again. The page cache still has the pages, and maps those that are.
#[allow(unsafe_code, reason = "no safe API unmaps the pages of a running program")]
pub(crate) fn unmap_code() {
    let Ok(program) = fs::read_link("/proc/self/exe") else { return };
    let Ok(mappings) = fs::read_to_string("/proc/self/maps") else { return };
    for (start, end) in mappings.lines().filter_map(|line| code_range(line, &program)) {
        // SAFETY: the range is a private mapping of a file that can be read and executed, but not
        // written: each page has the file's bytes, and the next access reads them again.
        let unmapped = unsafe {
            madvise(ptr::without_provenance_mut(start), end - start, Advice::LinuxDontNeed)
        };
        if let Err(error) = unmapped {
            tracing::debug!(%error, "cannot unmap the program's code");
        }
    }
}

/// The addresses of a line of `/proc/self/maps` that maps the program's code.
fn code_range(line: &str, program: &Path) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    if fields.next()? != "r-xp" || Path::new(fields.nth(3)?) != program {
        return None;
    }
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
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
