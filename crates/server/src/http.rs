//! Connections: accepted up to a bound, slow ones cut off, all of them drained at the end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::settings::Settings;

/// Bodies are read in pieces of at most this, unless heads may be larger still.
const READ_BYTES_MAX: usize = 400 << 10;
/// Out of file descriptors, trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(250);
/// How often a connection looks at the clock within the time that it has for a head.
const LOOKS: u32 = 10;

pub(crate) struct Http {
    service: api::Service,
    protocol: http1::Builder,
    look_every: Duration,
    room: Arc<Semaphore>,
    connections: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

impl Http {
    pub(crate) fn new(service: api::Service, settings: &Settings) -> Self {
        let header_bytes_max = settings.header_bytes_max.0 as usize;
        let head_within = Duration::from_secs(settings.header_seconds_max.0);
        let mut protocol = http1::Builder::new();
        protocol
            .timer(Looking)
            .header_read_timeout(head_within)
            .max_header_size(header_bytes_max)
            .max_buf_size(READ_BYTES_MAX.max(header_bytes_max));
        Self {
            service,
            protocol,
            look_every: head_within / LOOKS,
            room: Arc::new(Semaphore::new(settings.connections_max.0 as usize)),
            connections: JoinSet::new(),
            stopping: watch::Sender::new(false),
        }
    }

    /// Accepts connections until `stop` is there.
    pub(crate) async fn accept(&mut self, listener: &TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            let next = next(listener, Arc::clone(&self.room));
            tokio::select! {
                () = &mut stop => return,
                Some(_) = self.connections.join_next() => {}
                accepted = next => match accepted {
                    Ok((stream, peer, room)) => self.serve(stream, peer, room),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
    }

    fn serve(&mut self, stream: TcpStream, peer: SocketAddr, room: OwnedSemaphorePermit) {
        let _ = stream.set_nodelay(true);
        let service = self.service.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let answer = service.clone().answer(request, peer);
            async { Ok::<_, Infallible>(answer.await) }
        });
        let connection = self.protocol.serve_connection(TokioIo::new(stream), service);
        let mut stopping = self.stopping.subscribe();
        let look_every = self.look_every;
        self.connections.spawn(async move {
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
                        look.as_mut().reset(tokio::time::Instant::now() + look_every);
                    }
                }
            };
            // Clients go away as they please.
            if let Err(error) = outcome {
                tracing::trace!(%error, "connection ended");
            }
            drop(room);
        });
    }

    /// Lets requests in flight finish, for at most `seconds_max`; true when all of them did.
    pub(crate) async fn drain(mut self, seconds_max: u64) -> bool {
        self.stopping.send_replace(true);
        let all = async { while self.connections.join_next().await.is_some() {} };
        let drained = tokio::time::timeout(Duration::from_secs(seconds_max), all).await.is_ok();
        self.connections.shutdown().await;
        drained
    }
}

/// A new connection, once there is room for one.
async fn next(
    listener: &TcpListener,
    room: Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let room = room.acquire_owned().await.map_err(io::Error::other)?;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return Ok((stream, peer, room)),
            // The client was gone before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
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
