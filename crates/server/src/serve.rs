//! `hedgerow serve`: opens the stores, serves requests until a signal, drains and closes.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::{AppState, ReadTimeouts};
use capture::PoolKind;
use catalog::{BootstrapOptions, Bootstrapped, Catalog};
use flags::Flags;
use model::Clock;
use prometheus_client::registry::Registry;
use query::QueryRunner;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::cli::print;
use crate::config::EffectiveConfig;
use crate::data_dir::DataDir;
use crate::http::{self, HttpServer};
use crate::ingest::Ingest;
use crate::instance::InstanceReader;
use crate::process::{self, ProcessMetrics};
use crate::runtimes::{BackgroundRuntimes, Runtimes};
use crate::settings::Settings;
use crate::values::{File, Switch};
use crate::write_path::WritePath;
use crate::{allocator, logs, stores};

/// Interval of the check that this server still holds the PostgreSQL catalog's lock. After a broken
/// connection two servers may believe that they own the catalog for this long.
const OWNERSHIP_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of the check for stale cohorts, and of retries when the catalog fails.
const COHORT_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// A statement that hangs must not keep the process from exiting.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
const PRIVATE_MODE: u32 = 0o600;

pub(crate) fn run(effective: EffectiveConfig) -> Result<()> {
    let settings = effective.settings()?;
    logs::init(settings.log_format, settings.log_level.0.clone());
    // Only a warning: Kubernetes sets such variables for every service named hedgerow.
    for name in &effective.unknown_variables {
        tracing::warn!(variable = name, "environment variable is not a setting");
    }
    let runtimes = Runtimes::start()?;
    let outcome = runtimes.block_on(serve(&effective, &settings, runtimes.background()));
    runtimes.shutdown();
    outcome
}

async fn serve(
    effective: &EffectiveConfig,
    settings: &Settings,
    background: BackgroundRuntimes,
) -> Result<()> {
    let clock = Clock::system();
    let (soft_limit, raised_limit) = process::raise_descriptor_limit();
    let mut signals = Signals::new()?;
    let data_dir = DataDir::acquire(&settings.data_dir)?;
    stores::check_versions(&data_dir)?;
    let listener = TcpListener::bind(settings.listen).await.with_context(|| {
        format!("cannot listen on {}; choose another --listen", settings.listen)
    })?;
    let vault = data_dir.vault(settings)?;
    let file = data_dir.catalog_file();
    let is_new = settings.catalog_url.is_none() && !file.exists();
    if is_new {
        stores::check_new_catalog_allowed(&data_dir)?;
    }
    // Hashes the password while the empty catalog is created, which takes about as long.
    let prepared = is_new.then(|| first_start(settings).prepare());
    let catalog = stores::open_catalog(&data_dir, settings, vault, clock.clone()).await?;
    let bootstrapped = match prepared {
        Some(prepared) => catalog.bootstrap_prepared(prepared).await?,
        None => catalog.bootstrap(first_start(settings)).await?,
    };
    let is_first_start = bootstrapped.is_some();
    match (bootstrapped, &settings.project_api_key) {
        (Some(bootstrapped), _) => {
            print_credentials(&bootstrapped, settings, listener.local_addr()?)
                .context("cannot print the first keys")?;
        }
        (None, Some(key)) if catalog.projects().by_token(key.0.reveal()).await?.is_none() => {
            tracing::warn!(
                "no project has the key in project_api_key: the setting applies to the first \
                 start only"
            );
        }
        (None, _) => {}
    }
    if !is_first_start && let Some(link) = catalog.setup_links().renew_first_start().await? {
        let url = url(listener.local_addr()?, &api::setup_path(&link));
        let text = format!(
            "Nobody has set this instance up yet. Open this link within 24 hours; earlier links \
             have ended:\n  {url}\n"
        );
        reveal(settings, &text).context("cannot print the setup link")?;
    }
    let write_path = WritePath::open(&data_dir, &catalog, settings).await?;
    let checkpoint_changes = settings.person_checkpoint_changes.0 as usize;
    let people = query::People::open(data_dir.path(), &catalog, checkpoint_changes).await?;
    let ingest =
        Ingest::open(&data_dir, &catalog, write_path.journal(), settings, background).await?;
    data_dir.record_release();
    let mut metrics = Registry::default();
    metrics.register_collector(Box::new(ProcessMetrics { started: clock.now() }));
    write_path.register_metrics(&mut metrics);
    ingest.register_metrics(&mut metrics);
    let connections = http::ConnectionMetrics::default();
    connections.register(&mut metrics);
    let (tokens, capture) = (write_path.tokens.clone(), write_path.capture.clone());
    let connection_pool = capture.budget().pool(PoolKind::Connections).clone();
    let flags = Flags::new(catalog.clone(), ingest.geoip.clone());
    let (store, sink) = (ingest.store(), ingest.sink());
    let events = query::Events::new(catalog.clone(), store, sink, clock.clone(), Some(people));
    let maintaining_persons = tokio::spawn(events.maintain_persons());
    let http_settings =
        api::Settings { uses_db_ip: ingest.geoip.is_built_in(), ..http_settings(settings) };
    let app = AppState::new(
        catalog.clone(),
        tokens,
        flags.clone(),
        capture,
        events,
        http_settings,
        metrics,
    );
    let stats = ingest.stats();
    app.watch_replay(move || stats.replay_left());
    app.watch_store(ingest.outage());
    let instance = InstanceReader::new(clock.now(), data_dir.path(), settings, ingest.stats());
    app.report_instance(move || instance.read(), effective.listed());
    let mut http =
        HttpServer::new(api::Service::new(app.clone()), settings, connection_pool, connections);
    let refreshing_cohorts =
        tokio::spawn(refresh_cohorts(catalog.clone(), flags.clone(), app.queries().clone()));
    let purging = tokio::spawn(allocator::purge_periodically());
    // Standard output may be closed; the log has the address as well.
    let address = listener.local_addr()?;
    let _ = print(&format!("listening on http://{address}\n"));
    if !api::web_is_embedded() {
        tracing::warn!(
            "this build has no web interface: run `make assets` with Node 20.19 or newer, then \
             build again"
        );
    }
    tracing::info!(soft_limit, raised_limit, "file descriptor limit (RLIMIT_NOFILE)");
    tracing::info!(version = env!("BUILT_VERSION"), %address, "started");

    let mut ownership_error = None;
    http.accept(&listener, async {
        tokio::select! {
            () = signals.next() => {}
            error = ownership_lost(&catalog) => ownership_error = Some(error),
        }
    })
    .await;

    tracing::info!("stopping");
    app.drain();
    if settings.drain_delay_seconds.0 > 0 && ownership_error.is_none() {
        let delay = tokio::time::sleep(Duration::from_secs(settings.drain_delay_seconds.0));
        http.accept(&listener, async {
            tokio::select! { () = delay => {}, () = signals.next() => {} }
        })
        .await;
    }
    drop(listener);
    let drained = tokio::select! {
        drained = http.drain(settings.drain_seconds_max.0) => drained,
        // A second signal skips the drain.
        () = signals.next() => false,
    };
    if !drained {
        tracing::warn!(
            "stopped before every request was answered; drain_seconds_max allows more time"
        );
    }
    refreshing_cohorts.abort();
    maintaining_persons.abort();
    purging.abort();
    let closing = async {
        write_path.close().await;
        ingest.close().await;
        catalog.close().await;
    };
    if tokio::time::timeout(CLOSE_TIMEOUT, closing).await.is_err() {
        tracing::warn!("the stores did not close in time");
    }
    tracing::info!("stopped");
    ownership_error.map_or(Ok(()), |error| Err(error.into()))
}

/// Recalculates cohorts: immediately after a change, and when their membership is stale.
async fn refresh_cohorts(catalog: Catalog, flags: Flags, queries: QueryRunner) {
    loop {
        let persons_of = async |project| queries.scan_persons(project).await;
        let refreshed = async {
            Ok(flags.fill_due_cohort(persons_of).await? || queries.calculate_due_cohort().await?)
        };
        match refreshed.await {
            Ok(true) => continue,
            Ok(false) => {}
            Err::<_, catalog::Error>(error) => {
                tracing::warn!(%error, "cannot calculate a cohort");
            }
        }
        // Without a request, check again after the interval.
        let _ =
            tokio::time::timeout(COHORT_CHECK_INTERVAL, catalog.cohorts().calculation_requested())
                .await;
    }
}

/// Returns when another server holds the catalog's lock. While PostgreSQL is unreachable, no server
/// can take it.
async fn ownership_lost(catalog: &Catalog) -> catalog::Error {
    loop {
        tokio::time::sleep(OWNERSHIP_CHECK_INTERVAL).await;
        match catalog.renew_ownership().await {
            Ok(()) => {}
            Err(error @ catalog::Error::Owned) => return error,
            Err(error) => tracing::warn!(%error, "cannot check the ownership of the catalog"),
        }
    }
}

fn first_start(settings: &Settings) -> BootstrapOptions {
    BootstrapOptions {
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

/// Prints the generated credentials; later starts cannot read them. Configured ones are not echoed.
fn print_credentials(
    bootstrapped: &Bootstrapped,
    settings: &Settings,
    address: SocketAddr,
) -> Result<()> {
    let unless_configured = |configured: bool, value: &str| {
        if configured { "(as given)".into() } else { value.to_owned() }
    };
    let access = match &bootstrapped.setup_link {
        None => "  admin password      (as given)\n".to_owned(),
        Some(link) => format!(
            "Open this link within 24 hours to set a password; it works once:\n  {}\n",
            url(address, &api::setup_path(link))
        ),
    };
    let text = format!(
        "This is the first start. What follows is shown only now:\n\
         \x20 project             {}\n\
         \x20 project API key     {}\n\
         \x20 personal API key    {}\n\
         \x20 admin               {}\n{access}",
        bootstrapped.project,
        bootstrapped.project_api_key.reveal(),
        unless_configured(
            settings.personal_api_key.is_some(),
            bootstrapped.personal_api_key.reveal()
        ),
        bootstrapped.admin_email,
    );
    reveal(settings, &text)
}

/// Prints secrets, or appends them to the file of `first_start_output`: what a service manager collects
/// from standard output is readable by more accounts than may manage the instance.
fn reveal(settings: &Settings, text: &str) -> Result<()> {
    let Some(File(path)) = &settings.first_start_output else { return print(text) };
    let append = || -> std::io::Result<()> {
        let mut options = fs::OpenOptions::new();
        let mut file = options.append(true).create(true).mode(PRIVATE_MODE).open(path)?;
        // The mode above applies to a new file only.
        file.set_permissions(fs::Permissions::from_mode(PRIVATE_MODE))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    append().with_context(|| format!("cannot write {}", path.display()))?;
    print(&format!("the keys or the setup link are in {}\n", path.display()))
}

/// The address of a page for a browser on this machine.
pub(crate) fn url(listen: SocketAddr, path: &str) -> String {
    match listen.ip().is_unspecified() {
        true => format!("http://localhost:{}{path}", listen.port()),
        false => format!("http://{listen}{path}"),
    }
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
