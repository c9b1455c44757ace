//! Bodies of public requests, read as they arrive: bounded in size, in time, and in what all of
//! them hold together.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use capture::{Arriving, Capture};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

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

/// A body that is here. Its bytes count as in flight until it is dropped.
pub(crate) struct Received<'a> {
    pub bytes: Bytes,
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

pub(crate) async fn receive<'a>(
    capture: &'a Capture,
    patience: Patience,
    headers: &HeaderMap,
    mut body: Body,
    bytes_max: usize,
) -> Result<Received<'a>, Missed> {
    let mut counted = capture.in_flight().arriving();
    let mut gathered = Gathered::Nothing;
    let declared = declared_bytes(headers);
    let asks_first = headers.contains_key(header::EXPECT);
    if declared > bytes_max && (asks_first || declared > bytes_max + DISCARDED_BYTES_MAX) {
        return Err(Missed::TooLarge);
    }
    let deadline = Instant::now() + patience.whole;
    let mut bytes = 0;
    let mut missed = None;
    loop {
        let patient_until = deadline.min(Instant::now() + patience.stall);
        let frame = match timeout_at(patient_until, body.frame()).await {
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
        None => Ok(Received { bytes: gathered.into_bytes(), _counted: counted }),
    }
}

/// What the head says; hyper holds the sender to it. Zero when it says nothing.
fn declared_bytes(headers: &HeaderMap) -> usize {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Most bodies are one piece and are never copied.
enum Gathered {
    Nothing,
    One(Bytes),
    Many(Vec<u8>),
}

impl Gathered {
    fn add(&mut self, data: Bytes, declared: usize) {
        match self {
            Self::Nothing => *self = Self::One(data),
            Self::One(first) => {
                // Room for all of it is only touched, and so only taken, as it is filled.
                let mut all = Vec::with_capacity(declared.max(first.len() + data.len()));
                all.extend_from_slice(first);
                all.extend_from_slice(&data);
                *self = Self::Many(all);
            }
            Self::Many(all) => all.extend_from_slice(&data),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Nothing => Bytes::new(),
            Self::One(data) => data,
            Self::Many(all) => Bytes::from(all),
        }
    }
}
