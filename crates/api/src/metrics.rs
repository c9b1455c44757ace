//! Counts of requests, and the text in which all counts are read.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::public::Answers;

/// From a cached read to the longest request that is allowed.
const SECONDS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: &'static str,
    route: String,
}

pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram, fn() -> Histogram>,
    in_flight: Gauge,
    refused: Counter,
    public: Arc<Answers>,
}

impl Metrics {
    /// Adds the HTTP side's own metrics to those the other parts have registered.
    pub(crate) fn new(mut registry: Registry, catalog: &Catalog) -> Self {
        let requests = Family::default();
        let seconds = Family::new_with_constructor(histogram as fn() -> Histogram);
        let (in_flight, refused) = (Gauge::default(), Counter::default());
        registry.register(
            "hedgerow_http_requests",
            "Requests answered, by route, method and status",
            requests.clone(),
        );
        registry.register(
            "hedgerow_http_request_seconds",
            "Time from a request's head to its answer",
            seconds.clone(),
        );
        registry.register("hedgerow_http_in_flight", "Requests being worked on", in_flight.clone());
        registry.register(
            "hedgerow_http_refused",
            "Requests turned away because too many were in flight",
            refused.clone(),
        );
        registry.register(
            "hedgerow_build",
            "What is running",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register_collector(Box::new(Statements(catalog.clone())));
        let public = Arc::new(Answers::default());
        registry.register_collector(Box::new(PublicAnswers(public.clone())));
        Self { registry, requests, seconds, in_flight, refused, public }
    }

    pub(crate) fn answered(
        &self,
        method: &'static str,
        route: String,
        status: u16,
        took: Duration,
    ) {
        let asked = Asked { method, route: route.clone() };
        self.seconds.get_or_create(&asked).observe(took.as_secs_f64());
        self.requests.get_or_create(&Answered { method, route, status }).inc();
    }

    /// Where answers on public paths are counted.
    pub(crate) fn public_answers(&self) -> Arc<Answers> {
        self.public.clone()
    }

    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// Counts a request as in flight until the guard is dropped, answered or not.
    pub(crate) fn enter(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    pub(crate) fn text(&self) -> String {
        let mut shown = String::new();
        match text::encode(&mut shown, &self.registry) {
            Ok(()) => shown,
            Err(fmt::Error) => {
                tracing::error!("a metric could not be shown");
                shown
            }
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

pub(crate) struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

struct Statements(Catalog);

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Statements")
    }
}

impl Collector for Statements {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let count = ConstCounter::new(self.0.statements());
        let (name, help) = ("hedgerow_catalog_statements", "Reads the catalog has been asked for");
        count.encode(encoder.encode_descriptor(name, help, None, count.metric_type())?)
    }
}

struct PublicAnswers(Arc<Answers>);

impl fmt::Debug for PublicAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicAnswers")
    }
}

impl Collector for PublicAnswers {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (name, help) = ("hedgerow_public_requests", "Requests of SDKs answered, by status");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (status, count) in self.0.counted() {
            let labels = [("status", status.to_string())];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
