//! Reads request bodies as they arrive, bounded in size and time, and by the memory budget that all
//! requests share.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;
use capture::{BodyReservation, Buffer, BufferPool, Sender};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::{AppState, client_address};

/// How much of a rejected body is read and discarded: a client reads no response while it sends,
/// and must learn of a 413 (send less) or a 503 (retry later).
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// While the body's memory pool is contended, a sender may pause for this long,
const CONTENDED_PAUSE_MAX: Duration = Duration::from_secs(1);
/// and from its second second on must sustain this rate.
const CONTENDED_BYTES_PER_SECOND_MIN: usize = 4 << 10;

/// Timeouts for reading a request body.
#[derive(Clone, Copy, Debug)]
pub struct ReadTimeouts {
    /// Longest pause between two bytes.
    pub stall: Duration,
    /// For the whole body.
    pub whole: Duration,
}

impl Default for ReadTimeouts {
    fn default() -> Self {
        Self { stall: Duration::from_secs(15), whole: Duration::from_secs(120) }
    }
}

/// A request whose body has not been read yet.
pub(crate) struct IncomingRequest<B> {
    pub head: Parts,
    pub body: B,
    /// The connection's remote address.
    pub peer: Option<IpAddr>,
}

impl IncomingRequest<Body> {
    /// From the router, which puts the peer's address into the request's extensions.
    pub(crate) fn from_router(request: Request) -> Self {
        let (head, body) = request.into_parts();
        let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map(|ConnectInfo(peer)| peer.ip());
        Self { head, body, peer }
    }
}

impl<B> IncomingRequest<B> {
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn query(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }

    pub(crate) fn client_ip(&self, app: &AppState) -> Option<IpAddr> {
        Some(client_address(&self.head.headers, self.peer?, &app.settings.trusted_proxies))
    }
}

/// A complete body with the reservation for its bytes, which ends when it is dropped.
pub(crate) struct ReceivedBody<'a> {
    pub bytes: BodyBytes,
    pub reservation: BodyReservation<'a>,
}

pub(crate) enum ReadError {
    TooLarge,
    /// A timeout expired.
    Timeout,
    /// The memory budget is exhausted.
    Busy,
    /// The client closed the connection.
    Disconnected,
}

pub(crate) async fn receive<'a, B: HttpBody<Data = Bytes> + Unpin>(
    app: &'a AppState,
    headers: &HeaderMap,
    body: &mut B,
    sender: Sender,
    bytes_max: usize,
) -> Result<ReceivedBody<'a>, ReadError> {
    let declared = declared_bytes(headers);
    let mut reservation = app.capture.budget().receive_body(sender, declared);
    let mut received = BodyBytes::Empty;
    let expects_continue = headers.contains_key(header::EXPECT);
    if declared > bytes_max && (expects_continue || declared > bytes_max + DISCARDED_BYTES_MAX) {
        return Err(ReadError::TooLarge);
    }
    let rate = ReceiveRate::new(app.settings.read_timeouts);
    let mut bytes = 0;
    let mut failure = None;
    loop {
        let Some(data) = next_data(body, &rate, &reservation, bytes).await? else { break };
        if data.is_empty() {
            continue;
        }
        bytes += data.len();
        if bytes > bytes_max {
            failure = Some(ReadError::TooLarge);
        } else if failure.is_none() && reservation.add(data.len()).await.is_err() {
            failure = Some(ReadError::Busy);
        }
        if failure.is_some() {
            received = BodyBytes::Empty;
            reservation.release();
            if bytes > bytes_max + DISCARDED_BYTES_MAX {
                break;
            }
        } else {
            received.add(data, declared, app.capture.buffers());
        }
        if bytes == declared && bytes > 0 {
            break;
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => Ok(ReceivedBody { bytes: received, reservation }),
    }
}

/// Reads and discards the body of a request that was rejected by its head.
pub(crate) async fn discard<B: HttpBody<Data = Bytes> + Unpin>(
    app: &AppState,
    headers: &HeaderMap,
    body: &mut B,
) {
    let _ = receive(app, headers, body, Sender::Public, 0).await;
}

/// The rate at which a body arrives.
struct ReceiveRate {
    timeouts: ReadTimeouts,
    began: Instant,
}

impl ReceiveRate {
    fn new(timeouts: ReadTimeouts) -> Self {
        Self { timeouts, began: Instant::now() }
    }

    /// Whether a body has been below the rate that a contended pool requires.
    fn is_slow(&self, now: Instant, bytes: usize) -> bool {
        let seconds = now.duration_since(self.began).as_secs() as usize;
        seconds > 1 && bytes < seconds * CONTENDED_BYTES_PER_SECOND_MIN
    }
}

/// The next frame of a body; none at its end. A slow sender keeps its reservation until the pool is
/// contended, and then is the first to be rejected.
async fn next_data<B: HttpBody<Data = Bytes> + Unpin>(
    body: &mut B,
    rate: &ReceiveRate,
    reservation: &BodyReservation<'_>,
    bytes: usize,
) -> Result<Option<Bytes>, ReadError> {
    let mut now = if bytes == 0 { rate.began } else { Instant::now() };
    let deadline = (rate.began + rate.timeouts.whole).min(now + rate.timeouts.stall);
    let mut next = body.frame();
    loop {
        let check_at = deadline.min(now + CONTENDED_PAUSE_MAX);
        match timeout_at(check_at, &mut next).await {
            Ok(Some(Ok(_)))
                if reservation.is_contended() && rate.is_slow(Instant::now(), bytes) =>
            {
                return Err(ReadError::Busy);
            }
            Ok(Some(Ok(frame))) => return Ok(Some(frame.into_data().unwrap_or_default())),
            Ok(Some(Err(_))) => return Err(ReadError::Disconnected),
            Ok(None) => return Ok(None),
            Err(_) if check_at >= deadline => return Err(ReadError::Timeout),
            Err(_) if reservation.is_contended() => return Err(ReadError::Busy),
            Err(_) => now = check_at,
        }
    }
}

/// The `Content-Length`, which hyper enforces; 0 without one.
fn declared_bytes(headers: &HeaderMap) -> usize {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// From this size on, allocate the declared length at once: fresh pages become resident only as
/// they are filled. A smaller allocation may reuse pages that are resident already.
const PREALLOCATE_BYTES_MIN: usize = 64 << 10;

/// The bytes of a body. Most bodies arrive in one frame and are never copied.
pub(crate) enum BodyBytes {
    Empty,
    Frame(Bytes),
    Copied(Buffer),
}

impl BodyBytes {
    /// Copies a frame unless it is the whole body: a frame is a slice of the connection's read
    /// buffer and would keep all of that buffer alive.
    fn add(&mut self, data: Bytes, declared: usize, buffers: &BufferPool) {
        match self {
            Self::Empty if data.len() == declared => *self = Self::Frame(data),
            Self::Empty => {
                let capacity =
                    match declared > PREALLOCATE_BYTES_MIN && data.len() > PREALLOCATE_BYTES_MIN {
                        true => declared,
                        false => data.len(),
                    };
                let mut all = buffers.buffer(capacity);
                all.extend_from_slice(&data);
                *self = Self::Copied(all);
            }
            Self::Frame(first) => {
                let mut all = buffers.buffer(first.len() + data.len());
                all.extend_from_slice(first);
                all.extend_from_slice(&data);
                *self = Self::Copied(all);
            }
            Self::Copied(all) => {
                let whole = all.len() + data.len();
                if whole > all.capacity() && whole > PREALLOCATE_BYTES_MIN && declared > whole {
                    let more = declared - all.len();
                    all.reserve_exact(more);
                }
                all.extend_from_slice(&data);
            }
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::Frame(data) => data,
            Self::Copied(all) => Bytes::from_owner(Owner(all)),
        }
    }
}

struct Owner(Buffer);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for BodyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Frame(data) => data,
            Self::Copied(all) => all,
        }
    }
}
