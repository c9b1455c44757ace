//! What a start on an empty folder and an idle server cost, beside a server that does nothing,
//! measured in turns in the same run.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use bench::{Running, beside};

const ROUNDS: usize = 15;
/// Long enough for what a start leaves behind to settle.
const IDLE: Duration = Duration::from_millis(500);

struct Measured {
    name: &'static str,
    unit: &'static str,
    ours: f64,
    reference: f64,
    bound: f64,
}

fn main() -> Result<ExitCode> {
    let (ours, bare) = (beside("hedgerow")?, beside("bare")?);
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
    let rows = [
        Measured {
            name: "start on an empty folder until ready, median",
            unit: "ms",
            ours: median(starts.0),
            reference: median(starts.1),
            bound: 200.0,
        },
        Measured {
            name: "resident memory, idle, median",
            unit: "MB",
            ours: median(sizes.0),
            reference: median(sizes.1),
            bound: 40.0,
        },
    ];
    Ok(report(&rows, &ours))
}

fn report(rows: &[Measured], program: &Path) -> ExitCode {
    println!("{:46} {:>9} {:>9} {:>7} {:>9}", "", "hedgerow", "bare axum", "ratio", "bound");
    let mut held = true;
    for row in rows {
        let holds = row.ours < row.bound;
        held &= holds;
        println!(
            "{:46} {:>6.1} {} {:>6.1} {} {:>7.1} {:>6} {} {}",
            row.name,
            row.ours,
            row.unit,
            row.reference,
            row.unit,
            row.ours / row.reference,
            row.bound,
            row.unit,
            if holds { "holds" } else { "BROKEN" },
        );
    }
    if let Ok(size) = fs::metadata(program).map(|file| file.len()) {
        println!("{:46} {:>6.1} MB", "size of the program", size as f64 / 1e6);
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
