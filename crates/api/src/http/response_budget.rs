//! Answers that wait for their readers. To ask costs little, and not to read costs nothing; so what
//! is held for whoever is slow comes out of the budget.

use ::capture::{OwnedReservation, PoolKind, Rejection};
use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::http::public_error::Refusal;
use crate::{AppState, Error};

/// Smaller ones are as many as there are connections.
const SMALL_BYTES: u64 = 16 << 10;

/// Who asked, as far as the path tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Public,
    /// Most of these have shown a key. They wait for room, and share more of it.
    Member,
}

/// Marks an answer whose bytes are there once for all who ask.
#[derive(Clone)]
pub(crate) struct SharedBytes;

pub(crate) fn is_small(response: &Response) -> bool {
    // One without an end is read as it is made.
    response.body().size_hint().exact().is_none_or(|bytes| bytes <= SMALL_BYTES)
}

/// The answer, in room that it gives back when its last byte is sent.
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
            Audience::Public => Refusal::from(Rejection::Busy).into_response(),
            Audience::Member => Error::busy().into_response(),
        };
    };
    let (head, body) = response.into_parts();
    // All of it is in memory, or its length would not be known.
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
