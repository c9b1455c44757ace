//! Request metrics, and the OpenMetrics exposition of all metrics.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use axum::http::Method;
use catalog::Catalog;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::http::observe::method_label;

/// Histogram buckets, from a cached read to the longest allowed request.
const SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    refused: Counter,
}

impl Metrics {
    /// Adds the HTTP metrics to those that other crates have registered.
    pub(crate) fn new(
        mut registry: Registry,
        catalog: &Catalog,
        queries: &query::QueryRunner,
    ) -> Self {
        let requests = Family::default();
        let seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let (in_flight, refused) = (Gauge::default(), Counter::default());
        registry.register(
            "hedgerow_http_requests",
            "Responses by route, method and status",
            requests.clone(),
        );
        registry.register(
            "hedgerow_http_request_seconds",
            "Latency from a request's head to its response",
            seconds.clone(),
        );
        registry.register("hedgerow_http_in_flight", "Requests in flight", in_flight.clone());
        registry.register(
            "hedgerow_http_refused",
            "Requests rejected with 503 because requests_at_once_max were in flight",
            refused.clone(),
        );
        registry.register(
            "hedgerow_build",
            "Version of the running server",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register_collector(Box::new(CatalogMetrics(catalog.clone())));
        registry.register_collector(Box::new(QueryMemory(queries.clone())));
        Self { registry, requests, seconds, in_flight, refused }
    }

    pub(crate) fn responded(
        &self,
        method: &'static str,
        route: String,
        status: u16,
        took: Duration,
    ) {
        let labels = RouteLabels { method, route: route.clone() };
        self.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    }

    /// The request counters of one public route.
    pub(crate) fn counters(&self, route: &'static str) -> RouteCounters {
        let counters = [const { [const { OnceLock::new() }; STATUSES.len()] }; METHODS.len()];
        RouteCounters { route, requests: self.requests.clone(), counters }
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// Counts a request as in flight until the guard is dropped.
    pub(crate) fn enter(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn encode(&self) -> String {
        let mut shown = String::new();
        match text::encode(&mut shown, &self.registry) {
            Ok(()) => shown,
            Err(fmt::Error) => {
                tracing::error!("could not encode metrics");
                shown
            }
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// Methods and statuses with preallocated counters; others look theirs up in the family.
const METHODS: [Method; 4] = [Method::GET, Method::POST, Method::OPTIONS, Method::HEAD];
const STATUSES: [u16; 12] = [200, 204, 304, 400, 401, 404, 405, 408, 413, 415, 500, 503];

/// Request counters of one route by method and status. Each is looked up once: the family's lock
/// and hashing are too slow for every event.
pub(crate) struct RouteCounters {
    route: &'static str,
    requests: Family<RequestLabels, Counter>,
    counters: [[OnceLock<Counter>; STATUSES.len()]; METHODS.len()],
}

impl RouteCounters {
    pub(crate) fn count(&self, method: &Method, status: u16) {
        let labels =
            || RequestLabels { method: method_label(method), route: self.route.into(), status };
        let row = METHODS.iter().position(|known| known == method);
        let column = STATUSES.iter().position(|known| *known == status);
        match row.zip(column) {
            Some((row, column)) => {
                let counter = &self.counters[row][column];
                counter.get_or_init(|| self.requests.get_or_create_owned(&labels())).inc();
            }
            None => {
                self.requests.get_or_create(&labels()).inc();
            }
        }
    }
}

pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

struct CatalogMetrics(Catalog);

impl fmt::Debug for CatalogMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CatalogMetrics")
    }
}

impl Collector for CatalogMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let count = ConstCounter::new(self.0.statements());
        let (name, help) = ("hedgerow_catalog_statements", "Read statements of the catalog");
        count.encode(encoder.encode_descriptor(name, help, None, count.metric_type())?)?;
        let count = ConstCounter::new(self.0.definitions().names_skipped());
        let name = "hedgerow_definitions_left_out";
        let help =
            "Event and property names without a definition because the project reached its limit";
        count.encode(encoder.encode_descriptor(name, help, None, count.metric_type())?)
    }
}

/// Memory of queries and of the identity index.
struct QueryMemory(query::QueryRunner);

impl fmt::Debug for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryMemory")
    }
}

impl Collector for QueryMemory {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (queries, people) = self.0.memory_bytes();
        for (name, help, bytes) in [
            ("memory", "Memory reserved by running queries", queries),
            ("people", "Memory of the cached person and group indexes", people),
        ] {
            let (name, bytes) = (format!("hedgerow_query_{name}_bytes"), bytes as i64);
            let gauge = ConstGauge::new(bytes);
            gauge.encode(encoder.encode_descriptor(&name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
