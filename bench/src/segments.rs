//! Insights over many small segments, and during compaction, against insights after compaction. In this
//! process, so that compaction can be controlled.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use model::{ProjectId, Visibilities};
use query::{Events, Limits, QueryRequest, QueryResponse, QueryRunner, Refresh, Store};
use serde_json::Value;
use warehouse::{CompactionKind, Warehouse};

use crate::queries::insights;
use crate::report::{Bound, Report, Row};
use crate::stores::Stores;

const SEGMENTS: u64 = 50;
const BATCH_RECORDS: usize = 2_000;
const ROUNDS: usize = 5;

pub async fn run(report: &mut Report, events: u64) -> Result<()> {
    report.begin("Insights with many files, against the same after they were merged");
    let dir = tempfile::tempdir()?;
    let mut stores = Stores::open(dir.path(), events).await?;
    let (mut applied, mut flushed) = (0, 0);
    while applied < events {
        applied += stores.apply(BATCH_RECORDS).await?;
        if (applied - flushed) * SEGMENTS >= events {
            flushed = applied;
            stores.warehouse.flush()?;
        }
    }
    stores.warehouse.flush()?;
    let files = |warehouse: &Warehouse| warehouse.files(ProjectId(1)).files.len();
    let many = files(&stores.warehouse);
    ensure!(many as u64 >= SEGMENTS, "only {many} files");
    // Both warehouses exist at once and are queried alternately before compaction: the
    // machine's speed varies over minutes.
    let merged = stores.copy_events(&dir.path().join("merged"))?;
    while merged.compact(CompactionKind::Minor)?.is_some() {}
    let project = stores.catalog.projects().get(ProjectId(1)).await?;
    let over = |warehouse: &Warehouse| {
        let store = Store::Embedded(warehouse.clone());
        let sink = Arc::new(warehouse.clone());
        Events::new(stores.catalog.clone(), store, sink, stores.clock.clone(), None)
            .queries(Limits::default())
    };
    let (ours, reference) = (over(&stores.warehouse), over(&merged));
    let ask = async |queries: &QueryRunner, insight: &Value| -> Result<(f64, Value)> {
        let request =
            QueryRequest::new(insight.clone(), Refresh::ForceBlocking, Visibilities::default());
        run_query(queries, &project, request).await
    };

    let insights = insights();
    let mut before = Vec::new();
    for (name, insight) in &insights {
        let answers = (ask(&ours, insight).await?.1, ask(&reference, insight).await?.1);
        ensure!(answers.0 == answers.1, "{name} differs after files were merged");
        let mut best = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            best.0 = best.0.min(ask(&ours, insight).await?.0);
            best.1 = best.1.min(ask(&reference, insight).await?.0);
        }
        before.push((best, answers.0));
    }

    let merging = stores.warehouse.clone();
    let merger =
        std::thread::Builder::new().name("upkeep".into()).spawn(move || -> Result<()> {
            threads::lower_priority(threads::MAINTENANCE_NICENESS);
            while merging.compact(CompactionKind::Minor)?.is_some() {}
            Ok(())
        })?;
    let mut during = vec![Vec::new(); insights.len()];
    while !merger.is_finished() {
        for (at, (name, insight)) in insights.iter().enumerate() {
            let (took, answer) = ask(&ours, insight).await?;
            ensure!(answer == before[at].1, "{name} differs while files are merged");
            if !merger.is_finished() {
                during[at].push(took);
            }
        }
    }
    merger.join().ok().context("merging broke")??;

    for (at, (name, insight)) in insights.iter().enumerate() {
        let mut after = f64::MAX;
        for _ in 0..=ROUNDS {
            let (took, answer) = ask(&ours, insight).await?;
            ensure!(answer == before[at].1, "{name} differs after files were merged");
            after = after.min(took);
        }
        let ((ours, reference), _) = before[at];
        let meanwhile = &mut during[at];
        meanwhile.sort_by(f64::total_cmp);
        let middle = meanwhile.get(meanwhile.len() / 2).context("merging was over at once")?;
        let while_merged = format!("  while they are merged, median of {}", meanwhile.len());
        for (name, ours, reference, bound) in [
            (format!("{name}, {many} files"), ours, reference, 1.5),
            (while_merged, *middle, after, 2.5),
        ] {
            report.add(Row {
                name,
                unit: "ms",
                ours,
                reference: Some(("merged", reference)),
                bound: Bound::RatioAtMost(bound),
            });
        }
    }
    report.add(Row {
        name: "files after merging".into(),
        unit: "",
        ours: files(&stores.warehouse) as f64,
        reference: None,
        bound: Bound::None,
    });
    Ok(())
}

async fn run_query(
    queries: &QueryRunner,
    project: &catalog::ProjectRow,
    request: QueryRequest,
) -> Result<(f64, Value)> {
    let started = Instant::now();
    match queries.run(project, request).await? {
        QueryResponse::Ready { result, .. } => {
            Ok((started.elapsed().as_secs_f64() * 1e3, result.results.clone()))
        }
        _ => bail!("a query has no result"),
    }
}
