//! `hedgerow serve`: opens the stores, then answers until it is told to stop.

use std::env;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use api::AppState;
use axum::extract::Request;
use catalog::{Bootstrapped, Catalog, FirstStart, Location, Secret, Vault};
use model::Clock;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
pub(crate) async fn run(listen: Option<String>, data_dir: Option<PathBuf>) -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let setting = |name: &str| env::var(format!("HEDGEROW_{name}")).ok();
    let secret = |name: &str| setting(name).map(Secret::given);
    let listen = listen.or_else(|| setting("LISTEN")).unwrap_or("127.0.0.1:8000".into());
    let data_dir = data_dir
        .or_else(|| setting("DATA_DIR").map(PathBuf::from))
        .unwrap_or("./hedgerow-data".into());
    fs::create_dir_all(&data_dir)
        .with_context(|| format!("cannot make the data folder {}", data_dir.display()))?;
    let vault = Vault::new(&secret("SECRET_KEY").unwrap_or(Secret::given("development")));
    let url = setting("CATALOG_URL");
    let file = data_dir.join("catalog.sqlite");
    let location = url.as_deref().map_or(Location::Sqlite(&file), Location::Postgres);
    let catalog = Catalog::open(location, vault, Clock::system()).await?;
    let given = FirstStart {
        project_api_key: secret("PROJECT_API_KEY"),
        personal_api_key: secret("PERSONAL_API_KEY"),
        admin_email: setting("ADMIN_EMAIL"),
        admin_password: secret("ADMIN_PASSWORD"),
    };
    if let Some(made) = catalog.bootstrap(given).await? {
        introduce(&made);
    }
    let listener =
        TcpListener::bind(&listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    println!("listening on http://{}", listener.local_addr()?);
    let settings = api::Settings {
        rate_limits: setting("RATE_LIMITS").is_some_and(|value| value == "on"),
        ..api::Settings::default()
    };
    let service = api::service(AppState::new(
        catalog.clone(),
        settings,
        prometheus_client::registry::Registry::default(),
    ));
    let service =
        axum::ServiceExt::<Request>::into_make_service_with_connect_info::<SocketAddr>(service);
    axum::serve(listener, service).with_graceful_shutdown(stopped()).await?;
    catalog.close().await;
    Ok(())
}

/// The only moment these secrets can be read.
fn introduce(made: &Bootstrapped) {
    println!("project {}", made.project);
    println!("project API key    {}", made.project_api_key.reveal());
    println!("personal API key   {}", made.personal_api_key.reveal());
    println!("admin e-mail       {}", made.admin_email);
    println!("admin password     {}", made.admin_password.reveal());
}

async fn stopped() {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
