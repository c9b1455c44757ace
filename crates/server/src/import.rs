//! `hedgerow import`: ingests events from a file through the same journal and pipeline as capture.
//!
//! Needs the data directory for itself, so the server must not run. An interrupted import resumes
//! after the last batch in the journal. Import is idempotent: every event has a uuid.

mod exported;
mod jsonl;
mod parquet_rows;
mod report;
mod source;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use capture::{Endpoint, Rejection, Request};
use clap::ArgMatches;
use model::{Clock, ProjectId};

use crate::data_dir::DataDir;
use crate::ingest::Ingest;
use crate::runtimes::{BackgroundRuntimes, Runtimes};
use crate::settings::Settings;
use crate::write_path::WritePath;
use crate::{logs, stores};
use report::{Progress, Report};
use source::{ReadItem, Source};

/// Bounds of a batch, far below the limits of one capture request.
const BATCH_EVENTS_MAX: usize = 500;
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Interval of the progress lines on standard error.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);
/// Retry interval and timeout while the journal is full.
const JOURNAL_FULL_RETRY: Duration = Duration::from_millis(500);
const JOURNAL_FULL_TIMEOUT: Duration = Duration::from_secs(600);
const APPLIED_POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) fn run(args: &ArgMatches, settings: &Settings) -> Result<()> {
    logs::init(settings.log_format, settings.log_level.0.clone());
    let runtimes = Runtimes::start()?;
    let outcome = runtimes.block_on(import(args, settings, runtimes.background()));
    runtimes.shutdown();
    outcome
}

async fn import(
    args: &ArgMatches,
    settings: &Settings,
    background: BackgroundRuntimes,
) -> Result<()> {
    let file = PathBuf::from(args.get_one::<String>("file").context("no file was given")?);
    let project = ProjectId(args.get_one::<i64>("project").copied().unwrap_or(1));
    let source = Source::open(&file)?;
    // Fails unless the directory has a catalog, and so projects to import into.
    drop(DataDir::attach(settings)?);
    let data_dir = DataDir::acquire(&settings.data_dir)?;
    let vault = data_dir.vault(settings)?;
    stores::check_versions(&data_dir)?;
    let catalog = stores::open_catalog(&data_dir, settings, vault, Clock::system()).await?;
    let row = catalog
        .projects()
        .get(project)
        .await
        .with_context(|| format!("there is no project {project}"))?;
    let token = row.api_token;
    let write_path = WritePath::open(&data_dir, &catalog, settings).await?;
    let ingest =
        Ingest::open(&data_dir, &catalog, write_path.journal(), settings, background).await?;
    let import = Import { write_path, ingest, project, token, clock: Clock::system() };
    let progress = Progress::of(&file, project, &data_dir.imports())?;
    let outcome = import.run(source, progress).await;
    let Import { write_path, ingest, .. } = import;
    write_path.close().await;
    ingest.close().await;
    catalog.close().await;
    outcome?.print()
}

struct Import {
    write_path: WritePath,
    ingest: Ingest,
    project: ProjectId,
    token: String,
    clock: Clock,
}

impl Import {
    async fn run(&self, mut lines: Source, mut progress: Progress) -> Result<Report> {
        // Events that an earlier run left in the journal must not count for this file.
        self.wait_until_applied().await;
        let before = self.stored().await?;
        let mut report = Report::default();
        report.resumed_after = progress.lines;
        let counted = (self.write_path.capture.counters(), self.ingest.counters());
        lines.skip(progress.lines)?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut last_progress = Instant::now();
        loop {
            let next = lines.next()?;
            match &next {
                ReadItem::Event(event) => {
                    bytes += event.len();
                    batch.push(event.clone());
                }
                ReadItem::Invalid(why) => report.reject(lines.number(), why),
                ReadItem::End => {}
            }
            let ended = matches!(next, ReadItem::End);
            if ended || batch.len() >= BATCH_EVENTS_MAX || bytes >= BATCH_BYTES_MAX {
                self.send(&std::mem::take(&mut batch), &mut report).await?;
                bytes = 0;
                progress.reach(lines.number())?;
            }
            if last_progress.elapsed() >= PROGRESS_INTERVAL {
                last_progress = Instant::now();
                eprintln!("hedgerow: {} lines, {} % of the file", lines.number(), lines.percent());
            }
            if ended {
                break;
            }
        }
        self.wait_until_applied().await;
        report.lines = lines.number() - report.resumed_after;
        report.count(counted, (self.write_path.capture.counters(), self.ingest.counters()));
        report.new = self.stored().await?.saturating_sub(before);
        progress.finish()?;
        Ok(report)
    }

    async fn stored(&self) -> Result<u64> {
        self.ingest.make_visible().await?;
        let (store, project) = (self.ingest.store(), self.project);
        Ok(tokio::task::spawn_blocking(move || store.event_count(project)).await??)
    }

    /// Waits until the pipeline has applied the whole journal.
    async fn wait_until_applied(&self) {
        let reach = self.write_path.journal().stats().next.as_u64();
        while self.ingest.counters().applied < reach {
            tokio::time::sleep(APPLIED_POLL_INTERVAL).await;
        }
    }

    /// Sends a batch. If capture rejects it, sends its events one by one, so that only the invalid
    /// ones are rejected.
    async fn send(&self, events: &[String], report: &mut Report) -> Result<()> {
        if events.is_empty() || self.append(events).await?.is_none() {
            return Ok(());
        }
        for event in events {
            if let Some(why) = self.append(std::slice::from_ref(event)).await? {
                report.reject_event(&why.to_string());
            }
        }
        Ok(())
    }

    /// `None` when the events are in the journal, otherwise why capture rejected them.
    async fn append(&self, events: &[String]) -> Result<Option<Rejection>> {
        let token = serde_json::to_string(&self.token)?;
        let events = events.join(",");
        let body =
            format!(r#"{{"api_key":{token},"historical_migration":true,"batch":[{events}]}}"#);
        let started = Instant::now();
        loop {
            let request = Request {
                endpoint: Endpoint::Events,
                query: "",
                content_type: Some("application/json"),
                content_encoding: None,
                body: body.as_bytes(),
                // The importing host is not the client that sent the events.
                client_ip: None,
                received_at: self.clock.now(),
            };
            match self.write_path.capture.events(request).await {
                Ok(_) => return Ok(None),
                Err(rejection @ (Rejection::InvalidPayload(_) | Rejection::TooLarge)) => {
                    return Ok(Some(rejection));
                }
                Err(rejection) if started.elapsed() > JOURNAL_FULL_TIMEOUT => {
                    bail!("the journal takes no events: {rejection}");
                }
                Err(_) => tokio::time::sleep(JOURNAL_FULL_RETRY).await,
            }
        }
    }
}
