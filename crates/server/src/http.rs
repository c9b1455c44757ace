//! Connections: accepted up to a bound, slow ones cut off, all of them drained at the end.
//!
//! Connections are what a stranger can take without a key. When there are as many as may be, or as
//! many of one address, a new one takes the place of that whose client has kept us waiting longest:
//! one address cannot keep others out, and probes are answered whatever the others do.

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

use self::connection::{Answer, Connection, Socket, WIDE_BYTES_MAX, Watched};
use crate::settings::Settings;

/// Out of room or of file descriptors, trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often a connection looks at the clock within the shortest time that its client has.
const LOOKS: u32 = 10;
/// Whoever has waited for less is not pushed out: a client needs a moment to send its request.
const EVICTED_AFTER_MS: u64 = 1_000;
/// The part of all connections that is pushed out at once, so that looking for them costs little.
const EVICTED_PART: usize = 64;
/// The part of the file descriptors that connections leave to files.
const FILES_PART: u64 = 4;

pub(crate) struct Http {
    service: api::Service,
    protocol: http1::Builder,
    header_bytes_max: usize,
    look_every: Duration,
    write_within: Duration,
    connections_max: usize,
    per_address_max: usize,
    trusted_proxies: Networks,
    /// Room for what connections hold beside their requests.
    pool: Pool,
    epoch: Instant,
    tasks: JoinSet<()>,
    open: HashMap<Id, Open>,
    by_address: HashMap<IpAddr, usize>,
    stopping: watch::Sender<bool>,
    counts: Counts,
}

struct Open {
    connection: Arc<Connection>,
    task: AbortHandle,
}

#[derive(Clone, Default)]
pub(crate) struct Counts {
    open: Gauge,
    evicted: Counter,
    refused: Counter,
    unread: Counter,
}

impl Counts {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let name = "hedgerow_connections_open";
        registry.register(name, "Connections held", self.open.clone());
        for (name, help, counter) in [
            ("evicted", "Connections closed because a new one needed their place", &self.evicted),
            (
                "refused",
                "Connections closed at once, since their address had too many",
                &self.refused,
            ),
            ("unread", "Connections closed because nobody read their answers", &self.unread),
        ] {
            registry.register(format!("hedgerow_connections_{name}"), help, counter.clone());
        }
    }
}

impl Http {
    pub(crate) fn new(
        service: api::Service,
        settings: &Settings,
        pool: Pool,
        counts: Counts,
    ) -> Self {
        let header_bytes_max = settings.header_bytes_max.0 as usize;
        let head_within = Duration::from_secs(settings.header_seconds_max.0);
        let write_within = Duration::from_secs(settings.write_seconds_max.0);
        let mut protocol = http1::Builder::new();
        protocol
            .timer(Looking)
            .header_read_timeout(head_within)
            .max_header_size(header_bytes_max)
            .max_buf_size(WIDE_BYTES_MAX.max(header_bytes_max));
        Self {
            service,
            protocol,
            header_bytes_max,
            look_every: head_within.min(write_within) / LOOKS,
            write_within,
            connections_max: connections_max(settings.connections_max.0),
            per_address_max: settings.connections_per_address_max.0 as usize,
            trusted_proxies: settings.trusted_proxies.clone(),
            pool,
            epoch: Instant::now(),
            tasks: JoinSet::new(),
            open: HashMap::new(),
            by_address: HashMap::new(),
            stopping: watch::Sender::new(false),
            counts,
        }
    }

    /// Accepts connections until `stop` is there.
    pub(crate) async fn accept(&mut self, listener: &TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            // A few are taken beyond the bound, so that there is a choice whom to push out.
            let full =
                self.open.len() >= self.connections_max + self.connections_max / EVICTED_PART;
            tokio::select! {
                () = &mut stop => return,
                Some(ended) = self.tasks.join_next_with_id() => self.forget(ended),
                accepted = listener.accept(), if !full => match accepted {
                    Ok((stream, peer)) => self.admit(stream, peer),
                    // The client was gone before it was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections");
                        self.evict(|_| true);
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = tokio::time::sleep(ACCEPT_PAUSE), if full => self.evict(|_| true),
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, peer: SocketAddr) {
        let address = self.accountable(peer.ip());
        let of_address = self.by_address.get(&address).copied().unwrap_or_default();
        if of_address >= self.per_address_max && !self.is_exempt(peer.ip()) {
            self.evict(|connection| connection.address == address);
            let left = self.by_address.get(&address).copied().unwrap_or_default();
            if left >= self.per_address_max {
                self.counts.refused.inc();
                return;
            }
        }
        if self.open.len() >= self.connections_max {
            self.evict(|_| true);
        }
        self.serve(stream, peer, address);
    }

    /// Behind a proxy everybody has its address; one on this machine needs no setting.
    fn is_exempt(&self, peer: IpAddr) -> bool {
        peer.to_canonical().is_loopback() || self.trusted_proxies.contains(peer)
    }

    /// Whoever has one address of IPv6 has 2^64 of them.
    fn accountable(&self, peer: IpAddr) -> IpAddr {
        match peer.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from_bits(network))
            }
            address => address,
        }
    }

    /// Closes those whose clients have kept us waiting longest, those of the address that has most
    /// connections first. One that is being worked for is never closed.
    fn evict(&mut self, among: impl Fn(&Connection) -> bool) {
        let now = Instant::now();
        let share = self.connections_max / 2;
        let crowded = |connection: &Connection| {
            self.by_address.get(&connection.address).is_some_and(|count| *count > share)
        };
        let idle = |open: &Open| {
            let idle = open.connection.idle_ms(now).filter(|ms| *ms >= EVICTED_AFTER_MS)?;
            among(&open.connection).then(|| (crowded(&open.connection), idle))
        };
        let mut waiting: Vec<_> =
            self.open.iter().filter_map(|(id, open)| Some((Reverse(idle(open)?), *id))).collect();
        let count = (self.connections_max / EVICTED_PART).clamp(1, waiting.len().max(1));
        if waiting.len() > count {
            waiting.select_nth_unstable_by_key(count - 1, |(longest, _)| *longest);
        }
        for (_, id) in waiting.into_iter().take(count) {
            if let Some(open) = self.remove(id) {
                open.task.abort();
                self.counts.evicted.inc();
            }
        }
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        self.remove(id);
    }

    fn remove(&mut self, id: Id) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.counts.open.dec();
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
        let (service, watched) = (self.service.clone(), shared.clone());
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let watched = watched.clone();
            watched.begin();
            let request = request.map(|body| Watched::new(body, watched.clone()));
            let answer = service.clone().respond(request, peer);
            async move {
                let answer = answer.await;
                let is_whole = answer.body().size_hint().exact().is_some()
                    || answer.headers().contains_key(CONTENT_LENGTH);
                watched.answer(is_whole);
                Ok::<_, Infallible>(answer.map(|body| Answer::new(body, watched)))
            }
        });
        let socket = Socket::new(stream, shared.clone(), self.pool.clone(), self.header_bytes_max);
        let connection = self.protocol.serve_connection(TokioIo::new(socket), service);
        let mut stopping = self.stopping.subscribe();
        let (look_every, write_within) = (self.look_every, self.write_within);
        let (watched, unread) = (shared.clone(), self.counts.unread.clone());
        let task = self.tasks.spawn(async move {
            let mut connection = pin!(connection);
            let mut told = pin!(async { drop(stopping.wait_for(|stopping| *stopping).await) });
            let mut stopping = false;
            let mut look = pin!(tokio::time::sleep(look_every));
            let outcome = loop {
                tokio::select! {
                    biased;
                    outcome = connection.as_mut() => break outcome,
                    () = told.as_mut(), if !stopping => {
                        stopping = true;
                        connection.as_mut().graceful_shutdown();
                    }
                    () = look.as_mut() => {
                        if watched.is_unread(Instant::now(), write_within) {
                            unread.inc();
                            return;
                        }
                        look.as_mut().reset(tokio::time::Instant::now() + look_every);
                    }
                }
            };
            // Clients go away as they please.
            if let Err(error) = outcome {
                tracing::trace!(%error, "connection ended");
            }
        });
        self.counts.open.inc();
        *self.by_address.entry(address).or_default() += 1;
        self.open.insert(task.id(), Open { connection: shared, task });
    }

    /// Lets requests in flight finish, for at most `seconds_max`; true when all of them did.
    pub(crate) async fn drain(mut self, seconds_max: u64) -> bool {
        self.stopping.send_replace(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let drained = tokio::time::timeout(Duration::from_secs(seconds_max), all).await.is_ok();
        self.tasks.shutdown().await;
        drained
    }
}

/// As many as are wanted, unless files would find no descriptor then.
fn connections_max(wanted: u64) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = files - files / FILES_PART;
    if most < wanted {
        tracing::warn!(files, connections = most, "too few file descriptors for connections_max");
    }
    wanted.min(most).max(1) as usize
}

/// hyper wants a timer for every head that it waits for, and to enter and leave the runtime's for
/// each request costs more than reading the head. These only look at the clock when they are
/// polled; a connection is polled every so often.
#[derive(Clone, Copy)]
struct Looking;

impl Timer for Looking {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Until(deadline))
    }
}

struct Until(Instant);

impl Future for Until {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if Instant::now() < self.0 { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Sleep for Until {}
