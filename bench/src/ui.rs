//! The web interface in Chromium, with the reference set: how soon a page shows its largest element, a
//! new range is drawn, and an event is in the chart. Times stand beside those of a bare page.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::pipeline;
use crate::reference::{DAYS, START_MICROS, time_text};
use crate::report::{Bound, Report, Row};
use crate::server_process::{PROJECT_KEY, ServerProcess, hedgerow};

const PASSWORD: &str = "bench-password-1";
const DAY_MICROS: i64 = 86_400_000_000;
/// The bare page's name in the report.
const BARE: &str = "bare page";

pub async fn run(report: &mut Report, data: &Path, events: u64) -> Result<()> {
    report.begin("Web interface");
    // The first start makes the administrator's account.
    ServerProcess::start(hedgerow(data)?.args(["--admin-password", PASSWORD]))?.stop()?;
    pipeline::fill(data, events).await?;
    let server = ServerProcess::start(&mut hedgerow(data)?)?;
    let measured = measure(&server)?;
    server.stop()?;
    let ms = |key: &str| measured[key].as_f64().with_context(|| format!("no {key} in {measured}"));
    let (lcp, frame) = (ms("bare_lcp")?, ms("bare_frame")?);
    for (name, ours, bare, most) in [
        ("largest element painted: chart", ms("insight_lcp")?, lcp, 600.0),
        ("largest element painted: home", ms("home_lcp")?, lcp, 600.0),
        ("new date range until painted", ms("range_change")?, frame, 120.0),
        (
            "resize of 9,960 points until painted, beyond a frame",
            ms("redraw")? - frame,
            frame,
            16.0,
        ),
        ("capture until painted", ms("capture")?, frame, 1_000.0),
    ] {
        let reference = Some((BARE, bare));
        report.add(Row {
            name: name.into(),
            unit: "ms",
            ours,
            reference,
            bound: Bound::AtMost(most),
        });
    }
    Ok(())
}

fn measure(server: &ServerProcess) -> Result<Value> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web");
    let output = Command::new("node")
        .arg("tools/speed.mjs")
        .current_dir(web)
        .env("HEDGEROW_URL", format!("http://{}", server.address()))
        .env("HEDGEROW_PASSWORD", PASSWORD)
        .env("HEDGEROW_PROJECT_KEY", PROJECT_KEY)
        .env("FROM", time_text(START_MICROS))
        .env("TO", time_text(START_MICROS + DAYS * DAY_MICROS))
        .output()
        .context("cannot run node")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "tools/speed.mjs failed: {errors}");
    Ok(serde_json::from_slice(&output.stdout)?)
}
