//! Startup time and idle memory, alternating with a bare server in the same
//! run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::report::{Bound, Report, Row};
use crate::server_process::{ServerProcess, sibling};

const ROUNDS: usize = 15;
/// Long enough for the startup's memory to be released.
const IDLE: Duration = Duration::from_millis(500);

pub fn run(report: &mut Report) -> Result<()> {
    report.begin("Start and footprint");
    let (ours, bare) = (sibling("hedgerow")?, sibling("bare")?);
    let (mut starts, mut sizes) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in 0..ROUNDS {
        let data = tempfile::tempdir()?;
        let (start, size) = measure(
            Command::new(&ours).arg("serve").arg("--data-dir").arg(data.path().join("data")),
        )?;
        starts.0.push(start);
        sizes.0.push(size);
        let (start, size) = measure(&mut Command::new(&bare))?;
        starts.1.push(start);
        sizes.1.push(size);
    }
    report.add(Row {
        name: "start on an empty folder until ready, median".into(),
        unit: "ms",
        ours: median(starts.0),
        reference: Some(("bare axum", median(starts.1))),
        bound: Bound::AtMost(200.0),
    });
    report.add(Row {
        name: "resident memory, idle, median".into(),
        unit: "MB",
        ours: median(sizes.0),
        reference: Some(("bare axum", median(sizes.1))),
        bound: Bound::AtMost(40.0),
    });
    // The embedded browser SDK, web interface and GeoIP database do not count as program.
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets");
    let embedded: u64 =
        ["static", "geoip", "web"].iter().map(|path| bytes_in(&assets.join(path))).sum();
    report.add(Row {
        name: "size of the program without the data built into it".into(),
        unit: "MB",
        ours: fs::metadata(&ours)?.len().saturating_sub(embedded) as f64 / 1e6,
        reference: None,
        bound: Bound::AtMost(85.0),
    });
    Ok(())
}

/// Bytes of all files below a directory; 0 if it does not exist.
pub fn bytes_in(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_in(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Milliseconds from start to readiness, then resident megabytes when idle.
fn measure(command: &mut Command) -> Result<(f64, f64)> {
    let started = Instant::now();
    let running = ServerProcess::start(command)?;
    let took = started.elapsed();
    sleep(IDLE);
    Ok((took.as_secs_f64() * 1e3, running.resident_megabytes()?))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
