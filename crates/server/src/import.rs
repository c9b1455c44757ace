//! `hedgerow import`: events from a file, through the same journal and pipeline as all others.
//!
//! The server must not run meanwhile: the pipeline has one owner. An import that was cut short
//! goes on where it ended, and what is sent twice is stored once, as every event has a uuid.

mod exported;
mod lines;
mod report;
mod rows;
mod source;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use capture::{Endpoint, Rejection, Request};
use clap::ArgMatches;
use model::{Clock, ProjectId};

use crate::folder::Folder;
use crate::ingest::Ingest;
use crate::intake::Intake;
use crate::runtimes::{Behind, Runtimes};
use crate::settings::Settings;
use crate::{logs, stores};
use report::{Progress, Report};
use source::{Next, Source};

/// Events taken in at once, and their bytes: far below what one request may have.
const EVENTS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 4 << 20;
/// How often somebody who watches is told.
const TELL_EVERY: Duration = Duration::from_secs(2);
/// While the journal is full, it is asked again this often, and for this long.
const FULL_PAUSE: Duration = Duration::from_millis(500);
const FULL_PATIENCE: Duration = Duration::from_secs(600);
const APPLIED_PAUSE: Duration = Duration::from_millis(10);

pub(crate) fn run(given: &ArgMatches, settings: &Settings) -> Result<()> {
    logs::start(settings.log_format, settings.log_level.0.clone());
    let runtimes = Runtimes::start()?;
    let outcome = runtimes.block_on(import(given, settings, runtimes.behind()));
    runtimes.abandon();
    outcome
}

async fn import(given: &ArgMatches, settings: &Settings, behind: Behind) -> Result<()> {
    let file = PathBuf::from(given.get_one::<String>("file").context("which file?")?);
    let project = ProjectId(given.get_one::<i64>("project").copied().unwrap_or(1));
    let source = Source::open(&file)?;
    // Only a folder that was served before has projects to import into.
    drop(Folder::join(settings)?);
    let folder = Folder::own(&settings.data_dir)?;
    let vault = folder.vault(settings)?;
    stores::check_versions(&folder)?;
    let catalog = stores::open_catalog(&folder, settings, vault, Clock::system()).await?;
    let row =
        catalog.project(project).await.with_context(|| format!("there is no project {project}"))?;
    let token = row.api_token;
    let intake = Intake::open(&folder, &catalog, settings).await?;
    let ingest =
        Ingest::open(&folder.warehouse(), &catalog, intake.journal(), settings, behind).await?;
    let import = Import { intake, ingest, project, token, clock: Clock::system() };
    let progress = Progress::of(&file, project, &folder.imports())?;
    let outcome = import.run(source, progress).await;
    let Import { intake, ingest, .. } = import;
    intake.close().await;
    ingest.close().await;
    catalog.close().await;
    outcome?.tell()
}

struct Import {
    intake: Intake,
    ingest: Ingest,
    project: ProjectId,
    token: String,
    clock: Clock,
}

impl Import {
    async fn run(&self, mut lines: Source, mut progress: Progress) -> Result<Report> {
        // What an earlier life left in the journal is none of this file's.
        self.applied().await;
        let before = self.stored();
        let mut report = Report::default();
        report.resumed_behind = progress.lines;
        let counted = (self.intake.capture.counters(), self.ingest.counters());
        lines.skip(progress.lines)?;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut told = Instant::now();
        loop {
            let next = lines.next()?;
            match &next {
                Next::Event(event) => {
                    bytes += event.len();
                    batch.push(event.clone());
                }
                Next::Refused(why) => report.refuse(lines.number(), why),
                Next::End => {}
            }
            let ended = matches!(next, Next::End);
            if ended || batch.len() >= EVENTS_AT_ONCE || bytes >= BYTES_AT_ONCE {
                self.send(&std::mem::take(&mut batch), &mut report).await?;
                bytes = 0;
                progress.reach(lines.number())?;
            }
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                eprintln!("hedgerow: {} lines, {} % of the file", lines.number(), lines.percent());
            }
            if ended {
                break;
            }
        }
        self.applied().await;
        report.lines = lines.number() - report.resumed_behind;
        report.count(counted, (self.intake.capture.counters(), self.ingest.counters()));
        report.new = self.stored().saturating_sub(before);
        progress.finish()?;
        Ok(report)
    }

    fn stored(&self) -> u64 {
        self.ingest.warehouse().snapshot(self.project).totals().events
    }

    /// Waits until both stores have what the journal has.
    async fn applied(&self) {
        let reach = self.intake.journal().stats().next.as_u64();
        while self.ingest.counters().applied < reach {
            tokio::time::sleep(APPLIED_PAUSE).await;
        }
    }

    /// One event that cannot be read must not take its neighbours with it, so they are sent one
    /// by one then.
    async fn send(&self, events: &[String], report: &mut Report) -> Result<()> {
        if events.is_empty() || self.take(events).await?.is_none() {
            return Ok(());
        }
        for event in events {
            if let Some(why) = self.take(std::slice::from_ref(event)).await? {
                report.refuse_event(&why.to_string());
            }
        }
        Ok(())
    }

    /// None when the journal has the events; otherwise why they are refused.
    async fn take(&self, events: &[String]) -> Result<Option<Rejection>> {
        let token = serde_json::to_string(&self.token)?;
        let events = events.join(",");
        let body =
            format!(r#"{{"api_key":{token},"historical_migration":true,"batch":[{events}]}}"#);
        let begun = Instant::now();
        loop {
            let request = Request {
                endpoint: Endpoint::Events,
                query: "",
                content_type: Some("application/json"),
                content_encoding: None,
                body: body.as_bytes(),
                // Whoever imports did not send the events.
                client_ip: None,
                received_at: self.clock.now(),
            };
            match self.intake.capture.events(request).await {
                Ok(_) => return Ok(None),
                Err(refused @ (Rejection::InvalidPayload(_) | Rejection::TooLarge)) => {
                    return Ok(Some(refused));
                }
                Err(refused) if begun.elapsed() > FULL_PATIENCE => {
                    bail!("the events cannot be taken in: {refused}");
                }
                Err(_) => tokio::time::sleep(FULL_PAUSE).await,
            }
        }
    }
}
