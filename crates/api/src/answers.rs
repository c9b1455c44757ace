//! Answers that wait for their readers. To ask costs little, and not to read costs nothing; so what
//! is held for whoever is slow comes out of the budget.

use ::capture::{OwnedReservation, PoolKind, Rejection};
use axum::body::{Body, HttpBody as _};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::refusal::Refusal;
use crate::{AppState, Error};

/// Smaller ones are as many as there are connections.
const SMALL_BYTES: u64 = 16 << 10;

/// Who asked, as far as the path tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Anybody,
    /// Most of these have shown a key. They wait for room, and share more of it.
    Member,
}

/// Marks an answer whose bytes are there once for all who ask.
#[derive(Clone)]
pub(crate) struct Shared;

pub(crate) fn is_small(response: &Response) -> bool {
    // One without an end is read as it is made.
    response.body().size_hint().exact().is_none_or(|bytes| bytes <= SMALL_BYTES)
}

/// The answer, in room that it gives back when its last byte is sent.
pub(crate) async fn hold(app: &AppState, response: Response, to: To) -> Response {
    if is_small(&response) || response.extensions().get::<Shared>().is_some() {
        return response;
    }
    let budget = app.capture.budget();
    let bytes = response.body().size_hint().lower() as usize;
    let held = match to {
        To::Anybody => budget.pool(PoolKind::PublicResponses).try_reserve(bytes),
        To::Member => budget.reserve_response(bytes).await,
    };
    let Ok(held) = held else {
        return match to {
            To::Anybody => Refusal::from(Rejection::Busy).into_response(),
            To::Member => Error::busy().into_response(),
        };
    };
    let (head, body) = response.into_parts();
    // All of it is in memory, or its length would not be known.
    match body.collect().await {
        Ok(body) => {
            let body = Bytes::from_owner(HeldBytes { bytes: body.to_bytes(), _held: held });
            Response::from_parts(head, Body::from(body))
        }
        Err(_) => Error::busy().into_response(),
    }
}

struct HeldBytes {
    bytes: Bytes,
    _held: OwnedReservation,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
