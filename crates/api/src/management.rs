//! Layers around management requests: content negotiation, body reading within bounds, admission
//! control and the request deadline.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use capture::{BodyReservation, Sender, ValuesReservation};
use decode::parsed_bytes_max;
use tokio::time::{Instant, timeout, timeout_at};

use crate::auth::credentials;
use crate::http::body::{RequestBody, is_json};
use crate::http::body_reader::{ReadError, receive};
use crate::http::normalize::is_management;
use crate::{AppState, Error, Result, ops};

/// How long a request waits for a permit before it is rejected: long enough for a short burst.
const PERMIT_WAIT: Duration = Duration::from_secs(1);

/// Bounds size, time and concurrency of management requests. The body is read before the request
/// takes a permit, so that slow senders hold none.
pub(crate) async fn within_bounds(
    State(app): State<AppState>,
    request: Request,
    next: Next,
) -> Response {
    let deadline = Instant::now() + app.settings.request_time();
    let (request, _reservations) = match timeout_at(deadline, read_body(&app, request)).await {
        Ok(Ok(read)) => read,
        Ok(Err(error)) => return error.into_response(),
        Err(_) => return Error::read_timeout().into_response(),
    };
    // Probes need no permit: an orchestrator must not restart a server for being overloaded.
    let permit = match ops::is_probe(request.uri().path()) {
        true => Ok(None),
        false => {
            timeout(PERMIT_WAIT, app.request_permits.acquire()).await.map(std::result::Result::ok)
        }
    };
    let Ok(_permit) = permit else {
        app.metrics.refused();
        return Error::busy().into_response();
    };
    match timeout_at(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Error::timed_out().into_response(),
    }
}

/// Body limit of log-in requests, which come from unauthenticated clients.
const LOG_IN_BYTES_MAX: usize = 16 << 10;
const LOG_IN: [&str; 3] = ["/api/login", "/api/logout", "/api/setup"];
/// Parsed values up to this size are not charged to the budget: permits bound their number.
const UNCOUNTED_VALUES_BYTES: usize = 16 << 10;

/// The memory that a management request reserves until its response.
#[derive(Default)]
pub(crate) struct MemoryReservations<'a> {
    _body: Option<BodyReservation<'a>>,
    _values: Option<ValuesReservation<'a>>,
}

/// Reads the body of a management request into its extensions. A body that is too large is only
/// marked: an unauthorized caller must get its 401 or 403 first.
///
/// Authenticates by the head where possible, since unauthenticated senders share a small pool.
pub(crate) async fn read_body(
    app: &AppState,
    request: Request,
) -> Result<(Request, MemoryReservations<'_>)> {
    if request.body().is_end_stream() {
        return Ok((request, MemoryReservations::default()));
    }
    let (mut parts, mut body) = request.into_parts();
    let sender = credentials::sender(&mut parts, app).await;
    let limit_bytes = match LOG_IN.contains(&parts.uri.path()) {
        true => LOG_IN_BYTES_MAX.min(app.settings.body_bytes_max),
        false => app.settings.body_bytes_max,
    };
    let mut reservations = MemoryReservations::default();
    let received = match receive(app, &parts.headers, &mut body, sender, limit_bytes).await {
        Ok(received) => {
            reservations._body = Some(received.reservation);
            RequestBody::Complete(received.bytes.into_bytes())
        }
        Err(ReadError::TooLarge) => RequestBody::TooLarge { limit_bytes },
        Err(ReadError::Disconnected) => RequestBody::Truncated,
        Err(ReadError::Timeout) => return Err(Error::read_timeout()),
        Err(ReadError::Busy) => return Err(Error::busy()),
    };
    if let RequestBody::Complete(bytes) = &received {
        let values = parsed_bytes_max(bytes);
        let parsed = sender == Sender::Member || credentials::may_contain_key(bytes);
        if parsed && values > UNCOUNTED_VALUES_BYTES {
            let values = app.capture.budget().reserve_values(values).await;
            reservations._values = Some(values.map_err(|_| Error::busy())?);
        }
    }
    parts.extensions.insert(Arc::new(received));
    Ok((Request::from_parts(parts, Body::empty()), reservations))
}

/// 406 for clients that do not accept JSON, the only format of most responses. Formats that some
/// resources offer pass.
pub(crate) async fn negotiate_content(request: Request, next: Next) -> Response {
    let accepts = request.headers().get_all(header::ACCEPT);
    let mut ranges = accepts.iter().flat_map(|value| value.to_str().unwrap_or("*/*").split(','));
    let path = request.uri().path().trim_end_matches('/');
    let is_events = path.contains("/events");
    let is_stream = is_events || path.ends_with("/pulse");
    let fits = |range: &str| {
        let media = range.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let other = match media.as_str() {
            "text/csv" => is_events,
            "text/event-stream" | "text/*" => is_stream,
            _ => false,
        };
        other || matches!(media.as_str(), "" | "*/*" | "*" | "application/*") || is_json(&media)
    };
    let unbound = accepts.iter().next().is_none() || !is_management(request.uri().path());
    if unbound || ranges.any(fits) {
        return next.run(request).await;
    }
    Error::not_acceptable().into_response()
}
