//! `hedgerow serve`: opens the stores, answers until it is told to stop, and closes them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use api::{AppState, ReadTimeouts};
use capture::PoolKind;
use catalog::{Bootstrapped, Catalog, FirstStart};
use flags::Flags;
use model::Clock;
use prometheus_client::registry::Registry;
use query::QueryRunner;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::say;
use crate::config::Effective;
use crate::folder::Folder;
use crate::http::{self, Http};
use crate::ingest::Ingest;
use crate::intake::Intake;
use crate::process::{self, Process};
use crate::runtimes::{Behind, Runtimes};
use crate::settings::Settings;
use crate::values::Switch;
use crate::{logs, memory, stores};

/// How long two servers may believe that they own one PostgreSQL, after a connection broke.
const OWNERSHIP_CHECK: Duration = Duration::from_secs(5);
/// How often old cohorts are looked for, and failures of the catalog are tried again.
const COHORT_CHECK: Duration = Duration::from_secs(60);
/// A statement that hangs must not keep the process from ending.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

pub(crate) fn run(effective: Effective) -> Result<()> {
    let settings = effective.settings()?;
    logs::start(settings.log_format, settings.log_level.0.clone());
    // Only a warning: Kubernetes makes such variables for every service called hedgerow.
    for name in &effective.unknown_variables {
        tracing::warn!(variable = name, "this environment variable is no setting");
    }
    let runtimes = Runtimes::start()?;
    let outcome = runtimes.block_on(serve(&settings, runtimes.behind()));
    runtimes.abandon();
    outcome
}

async fn serve(settings: &Settings, behind: Behind) -> Result<()> {
    let clock = Clock::system();
    let (before, now) = process::raise_descriptor_limit();
    let mut signals = Signals::new()?;
    let folder = Folder::own(&settings.data_dir)?;
    stores::check_versions(&folder)?;
    let listener = TcpListener::bind(settings.listen)
        .await
        .with_context(|| format!("cannot listen on {}; --listen takes another", settings.listen))?;
    let vault = folder.vault(settings)?;
    let file = folder.catalog_file();
    let is_new = settings.catalog_url.is_none() && !file.exists();
    if is_new {
        stores::check_catalog_may_be_new(&folder)?;
    }
    let prepared = is_new.then(|| first_start(settings).prepare());
    let catalog = stores::open_catalog(&folder, settings, vault, clock.clone()).await?;
    let made = match prepared {
        Some(prepared) => catalog.bootstrap_prepared(prepared).await?,
        None => catalog.bootstrap(first_start(settings)).await?,
    };
    match (made, &settings.project_api_key) {
        (Some(made), _) => introduce(&made, settings).context("cannot print the first keys")?,
        (None, Some(key)) if catalog.project_by_token(key.0.reveal()).await?.is_none() => {
            tracing::warn!(
                "no project has the key of --project-api-key: only a first start takes it"
            );
        }
        (None, _) => {}
    }
    let intake = Intake::open(&folder, &catalog, settings).await?;
    let ingest =
        Ingest::open(&folder.warehouse(), &catalog, intake.journal(), settings, behind).await?;
    folder.note_release();
    let mut metrics = Registry::default();
    metrics.register_collector(Box::new(Process { started: clock.now() }));
    intake.measure(&mut metrics);
    ingest.measure(&mut metrics);
    let connections = http::Counts::default();
    connections.register(&mut metrics);
    let (tokens, capture) = (intake.tokens.clone(), intake.capture.clone());
    let connection_room = capture.budget().pool(PoolKind::Connections).clone();
    let flags = Flags::new(catalog.clone(), ingest.geoip.clone());
    let events = query::Events::new(catalog.clone(), ingest.warehouse(), clock.clone());
    let http_settings =
        api::Settings { places_by_db_ip: ingest.geoip.is_built_in(), ..http_settings(settings) };
    let app = AppState::new(
        catalog.clone(),
        tokens,
        flags.clone(),
        capture,
        events,
        http_settings,
        metrics,
    );
    app.watch_replay(ingest.replay_left());
    let mut http =
        Http::new(api::Service::new(app.clone()), settings, connection_room, connections);
    let chores = tokio::spawn(tend_cohorts(catalog.clone(), flags.clone(), app.queries().clone()));
    let tidying = tokio::spawn(memory::tend());
    // Nobody has to listen to this; the log says it too.
    let address = listener.local_addr()?;
    let _ = say(&format!("listening on http://{address}\n"));
    tracing::info!(before, now, "open files and connections that the system allows");
    tracing::info!(version = env!("BUILT_VERSION"), %address, "started");

    let mut lost = None;
    http.accept(&listener, async {
        tokio::select! {
            () = signals.next() => {}
            error = ownership_lost(&catalog) => lost = Some(error),
        }
    })
    .await;

    tracing::info!("stopping");
    app.drain();
    if settings.drain_delay_seconds.0 > 0 && lost.is_none() {
        let delay = tokio::time::sleep(Duration::from_secs(settings.drain_delay_seconds.0));
        http.accept(&listener, async {
            tokio::select! { () = delay => {}, () = signals.next() => {} }
        })
        .await;
    }
    drop(listener);
    let drained = tokio::select! {
        drained = http.drain(settings.drain_seconds_max.0) => drained,
        // Whoever asks twice does not want to wait.
        () = signals.next() => false,
    };
    if !drained {
        tracing::warn!("stopped before every request was answered");
    }
    chores.abort();
    tidying.abort();
    let closing = async {
        intake.close().await;
        ingest.close().await;
        catalog.close().await;
    };
    if tokio::time::timeout(CLOSE_WAIT, closing).await.is_err() {
        tracing::warn!("the stores did not close in time");
    }
    tracing::info!("stopped");
    lost.map_or(Ok(()), |error| Err(error.into()))
}

/// Keeps cohorts current: at once when somebody changed one, and again when they have grown old.
async fn tend_cohorts(catalog: Catalog, flags: Flags, queries: QueryRunner) {
    loop {
        let tended =
            async { Ok(flags.fill_due_cohort().await? || queries.calculate_due_cohort().await?) };
        match tended.await {
            Ok(true) => continue,
            Ok(false) => {}
            Err::<_, catalog::Error>(error) => {
                tracing::warn!(%error, "cannot calculate a cohort");
            }
        }
        // Nobody wanting one for a while is as good a reason to look.
        let _ = tokio::time::timeout(COHORT_CHECK, catalog.cohort_wanted()).await;
    }
}

/// Waits until another server has the catalog. While it cannot be reached, nobody has it.
async fn ownership_lost(catalog: &Catalog) -> catalog::Error {
    loop {
        tokio::time::sleep(OWNERSHIP_CHECK).await;
        match catalog.keep().await {
            Ok(()) => {}
            Err(error @ catalog::Error::Owned) => return error,
            Err(error) => tracing::warn!(%error, "cannot see who owns the catalog"),
        }
    }
}

fn first_start(settings: &Settings) -> FirstStart {
    FirstStart {
        project_api_key: settings.project_api_key.as_ref().map(|key| key.0.clone()),
        personal_api_key: settings.personal_api_key.clone(),
        admin_email: Some(settings.admin_email.0.clone()),
        admin_password: settings.admin_password.as_ref().map(|password| password.0.clone()),
    }
}

fn http_settings(settings: &Settings) -> api::Settings {
    api::Settings {
        body_bytes_max: settings.body_bytes_max.0 as usize,
        request_seconds_max: settings.request_seconds_max.0,
        requests_at_once_max: settings.requests_at_once_max.0 as usize,
        rate_limits: settings.rate_limits == Switch::On,
        sharing_grace_seconds: settings.sharing_grace_seconds.0.cast_signed(),
        trusted_proxies: settings.trusted_proxies.clone(),
        queries: query::Limits {
            timeout: Duration::from_secs(settings.query_seconds_max.0),
            memory_bytes: settings.query_memory_bytes_max.0 as usize,
            total_memory_bytes: settings.queries_memory_bytes_max.0 as usize,
            concurrent_max: settings.queries_at_once_max.0 as usize,
            ..query::Limits::default()
        },
        read_timeouts: ReadTimeouts {
            stall: Duration::from_secs(settings.capture_stall_seconds_max.0),
            whole: Duration::from_secs(settings.capture_body_seconds_max.0),
        },
        ..api::Settings::default()
    }
}

/// The only moment these secrets can be read; what the operator chose is not repeated.
fn introduce(made: &Bootstrapped, settings: &Settings) -> Result<()> {
    let shown =
        |given: bool, value: &str| if given { "(as given)".into() } else { value.to_owned() };
    say(&format!(
        "This is the first start. What follows is shown only now:\n\
         \x20 project             {}\n\
         \x20 project API key     {}\n\
         \x20 personal API key    {}\n\
         \x20 admin               {}\n\
         \x20 admin password      {}\n",
        made.project,
        made.project_api_key.reveal(),
        shown(settings.personal_api_key.is_some(), made.personal_api_key.reveal()),
        made.admin_email,
        shown(settings.admin_password.is_some(), made.admin_password.reveal()),
    ))
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Self { terminate: listen(terminate)?, interrupt: listen(interrupt)? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
