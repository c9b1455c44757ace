//! The HTTP API: routes, extractors, permissions, error responses, OpenAPI.
//!
//! On the write path it passes bodies to `capture`; on the read path it calls `catalog`, `flags`
//! and `query`. It knows no database and no file.
//!
//! Each module is an area: `http` and `auth` serve all others, `routes` registers endpoints, `sdk`
//! holds those that SDKs call, and every other area is a resource. `xtask tidy` checks that areas
//! form no import cycle.

mod access_controls;
mod accounts;
mod activity;
mod auth;
mod cohorts;
mod dashboards;
mod data_management;
mod demo;
mod events;
mod fast_path;
mod feature_flags;
mod groups;
mod http;
mod ingestion;
mod insights;
mod instance;
mod management;
mod mcp_tools;
mod ops;
mod persons;
mod queries;
mod router;
mod routes;
mod sdk;
mod search;
mod sharing;
mod web;

use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::capture::Capture;
use axum::extract::State;
use bytes::Bytes;
use catalog::Catalog;
use flags::Flags;
use prometheus_client::registry::Registry;
use schemars::SchemaGenerator;
use tokio::sync::Semaphore;

pub use accounts::setup::setup_path;
pub(crate) use auth::caller::{
    AccountReader, AccountWriter, OrganizationReader, OrganizationWriter, Reader, Resource, Writer,
};
pub use demo::{DemoOptions, DemoProject, create_demo, remove_demo};
pub use fast_path::Service;
pub(crate) use http::body::{Body, Patch};
pub use http::body_reader::ReadTimeouts;
pub use http::client_address::{Networks, client_address};
pub use http::error::Error;
pub(crate) use http::error::Result;
pub(crate) use http::page::{Created, Json, Listing, NoContent, Page, RequestUrl, SoftDeleteOnly};
pub(crate) use http::path::{Id, IdAsUuid, IsPut, Query, StringId, UuidParam};
pub use instance::{
    DiskFigures, EventFigures, InstanceFigures, InstanceSetting, JournalFigures, LagFigures,
    PipelineFigures,
};
pub use router::schema;
pub(crate) use routes::Routes;
pub use sdk::tokens::Tokens;
pub use web::is_embedded as web_is_embedded;

/// Limits and switches of the HTTP API, which the server fills from its settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of a management request; capture has a larger bound of its own.
    pub body_bytes_max: usize,
    pub request_seconds_max: u64,
    pub requests_at_once_max: usize,
    pub rate_limits: bool,
    /// How long a sharing token stays valid after it is replaced.
    pub sharing_grace_seconds: i64,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Networks,
    pub read_timeouts: ReadTimeouts,
    /// Limits of queries.
    pub queries: query::Limits,
    /// Whether GeoIP uses the built-in DB-IP database, whose license requires attribution.
    pub uses_db_ip: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            body_bytes_max: 1 << 20,
            request_seconds_max: 60,
            requests_at_once_max: 512,
            rate_limits: false,
            sharing_grace_seconds: 300,
            trusted_proxies: Networks::default(),
            read_timeouts: ReadTimeouts::default(),
            queries: query::Limits::default(),
            uses_db_ip: false,
        }
    }
}

impl Settings {
    const fn request_time(&self) -> Duration {
        Duration::from_secs(self.request_seconds_max)
    }
}

/// The state that handlers share; cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Shared>);

pub struct Shared {
    catalog: Catalog,
    tokens: Tokens,
    flags: Flags,
    capture: Arc<Capture>,
    events: query::Events,
    queries: query::QueryRunner,
    settings: Settings,
    rate_limits: auth::rate_limits::RateLimits,
    login_limiter: auth::login_limits::LoginLimiter,
    metrics: http::metrics::Metrics,
    /// Admission control of management requests: `requests_at_once_max` permits.
    request_permits: Semaphore,
    /// Held while a demo project is created or removed: one at a time.
    demo: tokio::sync::Mutex<()>,
    draining: AtomicBool,
    replay_remaining: OnceLock<ReplayRemaining>,
    store_outage: OnceLock<StoreOutage>,
    instance: OnceLock<instance::InstanceReport>,
    /// The OpenAPI document, built for the first request of it; all responses share the bytes.
    openapi_json: OnceLock<Bytes>,
}

/// Returns the number of records that are left to replay after the start.
type ReplayRemaining = Box<dyn Fn() -> u64 + Send + Sync>;

/// Returns why the store of events does not answer.
type StoreOutage = Box<dyn Fn() -> Option<Outage> + Send + Sync>;

/// Why the store of events does not answer.
#[derive(Clone, Debug)]
pub struct Outage {
    /// For staff: may name hosts.
    pub detail: String,
    /// For everybody.
    pub shown: &'static str,
}

impl AppState {
    /// `metrics` holds the other crates' metrics; the HTTP API adds its own and exposes all.
    pub fn new(
        catalog: Catalog,
        tokens: Tokens,
        flags: Flags,
        capture: Arc<Capture>,
        events: query::Events,
        settings: Settings,
        metrics: Registry,
    ) -> Self {
        let queries = events.queries(settings.queries);
        Self(Arc::new(Shared {
            rate_limits: auth::rate_limits::RateLimits::new(settings.rate_limits),
            login_limiter: auth::login_limits::LoginLimiter::new(),
            metrics: http::metrics::Metrics::new(metrics, &catalog, &queries),
            request_permits: Semaphore::new(settings.requests_at_once_max),
            queries,
            demo: tokio::sync::Mutex::new(()),
            draining: AtomicBool::new(false),
            replay_remaining: OnceLock::new(),
            store_outage: OnceLock::new(),
            instance: OnceLock::new(),
            openapi_json: OnceLock::new(),
            catalog,
            tokens,
            flags,
            capture,
            events,
            settings,
        }))
    }

    /// The query runner of requests, so that background tasks share its limits.
    pub fn queries(&self) -> &query::QueryRunner {
        &self.queries
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

pub(crate) type App = State<AppState>;

impl http::openapi::DescribeRequest for App {
    fn describe(_: &mut http::openapi::Operation, _: &mut SchemaGenerator) {}
}
