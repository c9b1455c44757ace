//! Charges buffered responses to the memory budget until they are sent, so that clients that
//! request much and read slowly cannot exhaust memory.

use ::capture::{OwnedReservation, PoolKind, Rejection};
use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::http::public_error::PublicError;
use crate::{AppState, Error};

/// Smaller responses are not charged: the number of connections bounds them.
const SMALL_BYTES: u64 = 16 << 10;

/// The kind of client, as far as the path tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Public,
    /// Usually authenticated. Waits for capacity and has a larger pool.
    Member,
}

/// Marks a response whose bytes are shared between all requests.
#[derive(Clone)]
pub(crate) struct SharedBytes;

pub(crate) fn is_small(response: &Response) -> bool {
    // A streamed body has no exact size and is not buffered.
    response.body().size_hint().exact().is_none_or(|bytes| bytes <= SMALL_BYTES)
}

/// Attaches a memory reservation to the response, which ends when its last byte is sent.
pub(crate) async fn reserve(app: &AppState, response: Response, audience: Audience) -> Response {
    if is_small(&response) || response.extensions().get::<SharedBytes>().is_some() {
        return response;
    }
    let budget = app.capture.budget();
    let bytes = response.body().size_hint().lower() as usize;
    let reservation = match audience {
        Audience::Public => budget.pool(PoolKind::PublicResponses).try_reserve(bytes),
        Audience::Member => budget.reserve_response(bytes).await,
    };
    let Ok(reservation) = reservation else {
        return match audience {
            Audience::Public => PublicError::from(Rejection::Busy).into_response(),
            Audience::Member => Error::busy().into_response(),
        };
    };
    let (head, body) = response.into_parts();
    // A body of known length is in memory already.
    match body.collect().await {
        Ok(body) => {
            let body = Bytes::from_owner(ReservedBytes {
                bytes: body.to_bytes(),
                _reservation: reservation,
            });
            Response::from_parts(head, Body::from(body))
        }
        Err(_) => Error::busy().into_response(),
    }
}

struct ReservedBytes {
    bytes: Bytes,
    _reservation: OwnedReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
