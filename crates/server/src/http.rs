//! The HTTP server: accepts connections up to a limit, closes slow ones, drains all at shutdown.
//!
//! Connections need no credentials, so they are the cheapest resource to exhaust. At
//! `connections_max`, or at `connections_per_address_max` for one address, a new connection evicts
//! the one whose client has been idle longest. One address cannot lock others out, and health
//! probes are served under load.

mod connection;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use api::Networks;
use capture::Pool;
use hyper::body::{Body as _, Incoming};
use hyper::header::CONTENT_LENGTH;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

use self::connection::{BUFFER_BYTES_MAX, Connection, RequestBody, ResponseBody, Socket};
use crate::settings::Settings;

/// Backoff when the limit is reached or `accept` fails, for example without file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// A connection checks its deadlines this often within the shortest timeout.
const POLLS_PER_TIMEOUT: u32 = 10;
/// Connections that have been idle for less are not evicted: a client needs time to send a request.
const EVICTION_IDLE_MS_MIN: u64 = 1_000;
/// One eviction closes `connections_max` divided by this, which amortizes its scan.
const EVICTION_DIVISOR: usize = 64;
/// Connections leave the file descriptor limit divided by this to files.
const FILES_DIVISOR: u64 = 4;

pub(crate) struct HttpServer {
    service: api::Service,
    protocol: http1::Builder,
    header_bytes_max: usize,
    poll_interval: Duration,
    write_timeout: Duration,
    connections_max: usize,
    per_address_max: usize,
    trusted_proxies: Networks,
    /// Memory for read buffers and long request heads.
    pool: Pool,
    epoch: Instant,
    tasks: JoinSet<()>,
    open: HashMap<Id, OpenConnection>,
    by_address: HashMap<IpAddr, usize>,
    stopping: watch::Sender<bool>,
    metrics: ConnectionMetrics,
}

struct OpenConnection {
    connection: Arc<Connection>,
    task: AbortHandle,
}

#[derive(Clone, Default)]
pub(crate) struct ConnectionMetrics {
    open: Gauge,
    evicted: Counter,
    refused: Counter,
    unread: Counter,
}

impl ConnectionMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let name = "hedgerow_connections_open";
        registry.register(name, "Open connections", self.open.clone());
        for (name, help, counter) in [
            ("evicted", "Idle connections closed to make room for new ones", &self.evicted),
            ("refused", "Connections refused at connections_per_address_max", &self.refused),
            ("unread", "Connections closed because the client did not read", &self.unread),
        ] {
            registry.register(format!("hedgerow_connections_{name}"), help, counter.clone());
        }
    }
}

impl HttpServer {
    pub(crate) fn new(
        service: api::Service,
        settings: &Settings,
        pool: Pool,
        metrics: ConnectionMetrics,
    ) -> Self {
        let header_bytes_max = settings.header_bytes_max.0 as usize;
        let header_timeout = Duration::from_secs(settings.header_seconds_max.0);
        let write_timeout = Duration::from_secs(settings.write_seconds_max.0);
        let mut protocol = http1::Builder::new();
        protocol
            .timer(PolledTimer)
            .header_read_timeout(header_timeout)
            .max_header_size(header_bytes_max)
            .max_buf_size(BUFFER_BYTES_MAX.max(header_bytes_max));
        Self {
            service,
            protocol,
            header_bytes_max,
            poll_interval: header_timeout.min(write_timeout) / POLLS_PER_TIMEOUT,
            write_timeout,
            connections_max: connections_max(settings.connections_max.0),
            per_address_max: settings.connections_per_address_max.0 as usize,
            trusted_proxies: settings.trusted_proxies.clone(),
            pool,
            epoch: Instant::now(),
            tasks: JoinSet::new(),
            open: HashMap::new(),
            by_address: HashMap::new(),
            stopping: watch::Sender::new(false),
            metrics,
        }
    }

    /// Accepts connections until `stop` resolves.
    pub(crate) async fn accept(&mut self, listener: &TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            // Slightly more than the limit: evictions close connections asynchronously.
            let full =
                self.open.len() >= self.connections_max + self.connections_max / EVICTION_DIVISOR;
            tokio::select! {
                () = &mut stop => return,
                Some(ended) = self.tasks.join_next_with_id() => self.on_task_end(ended),
                accepted = listener.accept(), if !full => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer),
                    // The client closed the connection before it was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections");
                        self.evict(|_| true);
                        tokio::time::sleep(ACCEPT_BACKOFF).await;
                    }
                },
                () = tokio::time::sleep(ACCEPT_BACKOFF), if full => self.evict(|_| true),
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        let address = self.quota_key(peer.ip());
        let of_address = self.by_address.get(&address).copied().unwrap_or_default();
        if of_address >= self.per_address_max && !self.is_exempt(peer.ip()) {
            self.evict(|connection| connection.address == address);
            let left = self.by_address.get(&address).copied().unwrap_or_default();
            if left >= self.per_address_max {
                self.metrics.refused.inc();
                return;
            }
        }
        if self.open.len() >= self.connections_max {
            self.evict(|_| true);
        }
        self.serve(stream, peer, address);
    }

    /// All clients of a proxy share its address. Loopback needs no setting.
    fn is_exempt(&self, peer: IpAddr) -> bool {
        peer.to_canonical().is_loopback() || self.trusted_proxies.contains(peer)
    }

    /// The key of the per-address limit: an IPv6 client owns a whole /64.
    fn quota_key(&self, peer: IpAddr) -> IpAddr {
        match peer.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            address => address,
        }
    }

    /// Closes the connections that have been idle longest; those of an address with more than half of
    /// all connections first. A connection with a request in progress is never evicted.
    fn evict(&mut self, eligible: impl Fn(&Connection) -> bool) {
        let now = Instant::now();
        let half = self.connections_max / 2;
        let dominates = |connection: &Connection| {
            self.by_address.get(&connection.address).is_some_and(|count| *count > half)
        };
        let priority = |open: &OpenConnection| {
            let idle = open.connection.idle_ms(now).filter(|ms| *ms >= EVICTION_IDLE_MS_MIN)?;
            eligible(&open.connection).then(|| (dominates(&open.connection), idle))
        };
        let mut candidates: Vec<_> = self
            .open
            .iter()
            .filter_map(|(id, open)| Some((Reverse(priority(open)?), *id)))
            .collect();
        let count = (self.connections_max / EVICTION_DIVISOR).clamp(1, candidates.len().max(1));
        if candidates.len() > count {
            candidates.select_nth_unstable_by_key(count - 1, |(priority, _)| *priority);
        }
        for (_, id) in candidates.into_iter().take(count) {
            if let Some(open) = self.remove(id) {
                open.task.abort();
                self.metrics.evicted.inc();
            }
        }
    }

    fn on_task_end(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.remove(id);
    }

    fn remove(&mut self, id: Id) -> Option<OpenConnection> {
        let open = self.open.remove(&id)?;
        self.metrics.open.dec();
        let address = open.connection.address;
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
        Some(open)
    }

    fn serve(&mut self, stream: TcpStream, peer: SocketAddr, address: IpAddr) {
        let _ = stream.set_nodelay(true);
        let shared = Connection::new(address, self.epoch);
        let (service, tracked) = (self.service.clone(), shared.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let tracked = tracked.clone();
            tracked.begin();
            let request = request.map(|body| RequestBody::new(body, tracked.clone()));
            let response = service.clone().respond(request, peer);
            async move {
                let response = response.await;
                let length_known = response.body().size_hint().exact().is_some()
                    || response.headers().contains_key(CONTENT_LENGTH);
                tracked.respond(length_known);
                Ok::<_, Infallible>(response.map(|body| ResponseBody::new(body, tracked)))
            }
        });
        let socket = Socket::new(stream, shared.clone(), self.pool.clone(), self.header_bytes_max);
        let connection = self.protocol.serve_connection(TokioIo::new(socket), service);
        let mut stopping = self.stopping.subscribe();
        let (poll_interval, write_timeout) = (self.poll_interval, self.write_timeout);
        let (tracked, unread) = (shared.clone(), self.metrics.unread.clone());
        let task = self.tasks.spawn(async move {
            let mut connection = pin!(connection);
            let mut shutdown = pin!(async { drop(stopping.wait_for(|stopping| *stopping).await) });
            let mut stopping = false;
            let mut poll = pin!(tokio::time::sleep(poll_interval));
            let outcome = loop {
                tokio::select! {
                    biased;
                    outcome = connection.as_mut() => break outcome,
                    () = shutdown.as_mut(), if !stopping => {
                        stopping = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    () = poll.as_mut() => {
                        if tracked.is_unread(Instant::now(), write_timeout) {
                            unread.inc();
                            return;
                        }
                        poll.as_mut().reset(tokio::time::Instant::now() + poll_interval);
                    }
                }
            };
            // Usually a client that disconnected.
            if let Err(error) = outcome {
                tracing::trace!(%error, "connection ended");
            }
        });
        self.metrics.open.inc();
        *self.by_address.entry(address).or_default() += 1;
        self.open.insert(task.id(), OpenConnection { connection: shared, task });
    }

    /// Waits up to `seconds_max` for requests in flight; true when all of them finished.
    pub(crate) async fn drain(mut self, seconds_max: u64) -> bool {
        self.stopping.send_replace(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let drained = tokio::time::timeout(Duration::from_secs(seconds_max), all).await.is_ok();
        self.tasks.shutdown().await;
        drained
    }
}

/// The setting, lowered so that descriptors remain for files.
fn connections_max(configured: u64) -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = descriptors - descriptors / FILES_DIVISOR;
    if limit < configured {
        tracing::warn!(
            descriptors,
            connections = limit,
            "too few file descriptors for connections_max; raise RLIMIT_NOFILE"
        );
    }
    configured.min(limit).max(1) as usize
}

/// Timer for hyper's header timeout. Registering one with tokio's timer wheel per request costs more
/// than reading the headers. These only compare the clock when polled; each connection is polled
/// every `poll_interval`.
#[derive(Clone, Copy)]
struct PolledTimer;

impl Timer for PolledTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(PolledSleep(deadline))
    }
}

struct PolledSleep(Instant);

impl Future for PolledSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if Instant::now() < self.0 { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Sleep for PolledSleep {}
