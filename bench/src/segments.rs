//! What the insights cost while the events lie in many files, and while those are merged, against
//! after that: in this process, where merges begin when they are told to.

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use model::{ProjectId, Sights};
use query::{Asked, Events, Limits, Queries, Refresh, Reply};
use serde_json::Value;
use warehouse::Effort;

use crate::queries::insights;
use crate::report::{Bound, Report, Row};
use crate::stores::Stores;

const SEGMENTS: u64 = 50;
const BATCH_RECORDS: usize = 2_000;
const ROUNDS: usize = 5;

pub async fn run(report: &mut Report, events: u64) -> Result<()> {
    report.begin("Insights with many files, against the same after they were merged");
    let folder = tempfile::tempdir()?;
    let mut stores = Stores::open(folder.path(), events).await?;
    let (mut applied, mut flushed) = (0, 0);
    while applied < events {
        applied += stores.apply(BATCH_RECORDS).await?;
        if (applied - flushed) * SEGMENTS >= events {
            flushed = applied;
            stores.warehouse.flush()?;
        }
    }
    stores.warehouse.flush()?;
    let Stores { catalog, warehouse, clock, .. } = stores;
    let project = catalog.project(ProjectId(1)).await?;
    let queries = Events::new(catalog, warehouse.clone(), clock).queries(Limits::default());
    let ask = async |insight: &Value| -> Result<(f64, Value)> {
        let asked = Asked::new(insight.clone(), Refresh::ForceBlocking, Sights::default());
        answered(&queries, &project, asked).await
    };
    let files = || warehouse.files(ProjectId(1)).files.len();
    let many = files();
    ensure!(many as u64 >= SEGMENTS, "only {many} files");

    let insights = insights();
    let (mut before, mut answers) = (Vec::new(), Vec::new());
    for (_, insight) in &insights {
        answers.push(ask(insight).await?.1);
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            best = best.min(ask(insight).await?.0);
        }
        before.push(best);
    }

    let merging = warehouse.clone();
    let merger =
        std::thread::Builder::new().name("upkeep".into()).spawn(move || -> Result<()> {
            threads::stand_back(threads::UPKEEP_NICENESS);
            while merging.compact(Effort::Due)?.is_some() {}
            Ok(())
        })?;
    let mut during = vec![Vec::new(); insights.len()];
    while !merger.is_finished() {
        for (at, (name, insight)) in insights.iter().enumerate() {
            let (took, answer) = ask(insight).await?;
            ensure!(answer == answers[at], "{name} differs while files are merged");
            if !merger.is_finished() {
                during[at].push(took);
            }
        }
    }
    merger.join().ok().context("merging broke")??;

    for (at, (name, insight)) in insights.iter().enumerate() {
        let (_, answer) = ask(insight).await?;
        ensure!(answer == answers[at], "{name} differs after files were merged");
        let mut after = f64::MAX;
        for _ in 0..ROUNDS {
            after = after.min(ask(insight).await?.0);
        }
        let meanwhile = &mut during[at];
        meanwhile.sort_by(f64::total_cmp);
        let middle = meanwhile.get(meanwhile.len() / 2).context("merging was over at once")?;
        for (name, ours, bound) in [
            (format!("{name}, {many} files"), before[at], 1.5),
            (format!("  while they are merged, median of {}", meanwhile.len()), *middle, 2.5),
        ] {
            report.add(Row {
                name,
                unit: "ms",
                ours,
                reference: Some(("merged", after)),
                bound: Bound::RatioAtMost(bound),
            });
        }
    }
    report.add(Row {
        name: "files after merging".into(),
        unit: "",
        ours: files() as f64,
        reference: None,
        bound: Bound::None,
    });
    Ok(())
}

async fn answered(
    queries: &Queries,
    project: &catalog::ProjectRow,
    asked: Asked,
) -> Result<(f64, Value)> {
    let begun = Instant::now();
    match queries.ask(project, asked).await? {
        Reply::Answer { answer, .. } => {
            Ok((begun.elapsed().as_secs_f64() * 1e3, answer.results.clone()))
        }
        _ => bail!("a question that was waited for has no answer"),
    }
}
