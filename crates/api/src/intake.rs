//! Bodies of public requests, read as they arrive: bounded in size, in time, and in what all of
//! them hold together.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use bytes::Bytes;
use capture::{Arriving, Buffer};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use crate::{AppState, client_address};

/// More of a body that is not taken is read and forgotten: a sender that is still sending does
/// not read the answer, and one that is told 413 sends less next time, one told 503 later.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// How patient we are with senders.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Without a single byte.
    pub stall: Duration,
    /// For a whole body.
    pub whole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { stall: Duration::from_secs(15), whole: Duration::from_secs(120) }
    }
}

/// A request whose body is still on the way.
pub(crate) struct Arrived<B> {
    pub head: Parts,
    pub body: B,
    /// The other end of the connection.
    pub peer: Option<IpAddr>,
}

impl Arrived<Body> {
    /// By the router, to whose requests the peer was added.
    pub(crate) fn routed(request: Request) -> Self {
        let (head, body) = request.into_parts();
        let peer = head.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = peer.map(|ConnectInfo(peer)| peer.ip());
        Self { head, body, peer }
    }
}

impl<B> Arrived<B> {
    pub(crate) fn text(&self, name: HeaderName) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn query(&self) -> &str {
        self.head.uri.query().unwrap_or_default()
    }

    pub(crate) fn client_ip(&self, app: &AppState) -> Option<IpAddr> {
        Some(client_address(&self.head.headers, self.peer?, &app.settings.trusted_proxies))
    }
}

/// A body that is here. Its bytes count as in flight until it is dropped.
pub(crate) struct Received<'a> {
    pub bytes: Gathered,
    _counted: Arriving<'a>,
}

pub(crate) enum Missed {
    TooLarge,
    /// Too slow.
    Stalled,
    /// There was no room for it.
    Busy,
    /// The sender went away.
    CutShort,
}

pub(crate) async fn receive<'a, B: HttpBody<Data = Bytes> + Unpin>(
    app: &'a AppState,
    sent: &mut Arrived<B>,
    bytes_max: usize,
) -> Result<Received<'a>, Missed> {
    let patience = app.settings.patience;
    let mut counted = app.capture.in_flight().arriving();
    let mut gathered = Gathered::Nothing;
    let declared = declared_bytes(&sent.head.headers);
    let asks_first = sent.head.headers.contains_key(header::EXPECT);
    if declared > bytes_max && (asks_first || declared > bytes_max + DISCARDED_BYTES_MAX) {
        return Err(Missed::TooLarge);
    }
    let deadline = Instant::now() + patience.whole;
    let mut bytes = 0;
    let mut missed = None;
    loop {
        let patient_until = deadline.min(Instant::now() + patience.stall);
        let frame = match timeout_at(patient_until, sent.body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) => return Err(Missed::CutShort),
            Ok(None) => break,
            Err(_) => return Err(Missed::Stalled),
        };
        let Ok(data) = frame.into_data() else { continue };
        bytes += data.len();
        if bytes > bytes_max {
            missed = Some(Missed::TooLarge);
        } else if missed.is_none() && counted.add(data.len()).await.is_err() {
            missed = Some(Missed::Busy);
        }
        if missed.is_some() {
            gathered = Gathered::Nothing;
            counted.forget();
            if bytes > bytes_max + DISCARDED_BYTES_MAX {
                break;
            }
        } else {
            gathered.add(data, declared);
        }
        if bytes == declared && bytes > 0 {
            break;
        }
    }
    match missed {
        Some(missed) => Err(missed),
        None => Ok(Received { bytes: gathered, _counted: counted }),
    }
}

/// What the head says; hyper holds the sender to it. Zero when it says nothing.
fn declared_bytes(headers: &HeaderMap) -> usize {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Most bodies are one piece and are never copied.
pub(crate) enum Gathered {
    Nothing,
    One(Bytes),
    Many(Buffer),
}

impl Gathered {
    fn add(&mut self, data: Bytes, declared: usize) {
        match self {
            Self::Nothing => *self = Self::One(data),
            Self::One(first) => {
                // Room for all of it is only touched, and so only taken, as it is filled.
                let mut all = Buffer::with_capacity(declared.max(first.len() + data.len()));
                all.extend_from_slice(first);
                all.extend_from_slice(&data);
                *self = Self::Many(all);
            }
            Self::Many(all) => all.extend_from_slice(&data),
        }
    }
}

impl Deref for Gathered {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Nothing => &[],
            Self::One(data) => data,
            Self::Many(all) => all,
        }
    }
}
