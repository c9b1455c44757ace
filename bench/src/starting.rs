//! What a start on an empty folder and an idle server cost, beside a server that does nothing,
//! measured in turns in the same run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::report::{Bound, Report, Row};
use crate::running::{Running, sibling};

const ROUNDS: usize = 15;
/// Long enough for what a start leaves behind to settle.
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
    // The browser SDK and the database of countries are data, not program.
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets");
    let embedded: u64 = ["static", "geoip"].iter().map(|path| bytes_in(&assets.join(path))).sum();
    report.add(Row {
        name: "size of the program without the data built into it".into(),
        unit: "MB",
        ours: fs::metadata(&ours)?.len().saturating_sub(embedded) as f64 / 1e6,
        reference: None,
        bound: Bound::AtMost(80.0),
    });
    Ok(())
}

/// Bytes of all files below a folder; none when it is not there.
pub fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.filter_map(Result::ok).map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_in(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Milliseconds from start to the first answer that says ready, then megabytes when idle.
fn measure(command: &mut Command) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let running = Running::start(command)?;
    let took = begun.elapsed();
    sleep(IDLE);
    Ok((took.as_secs_f64() * 1e3, running.resident_megabytes()?))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
