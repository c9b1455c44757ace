//! The entry of the write path: decodes a request, authenticates its token, validates its events
//! and appends them to the journal. `Ok` means that the events are durable.
//!
//! The crate knows neither HTTP (`api` maps a [`Rejection`] to a response) nor the meaning of events
//! (`pipeline` applies them). [`TokenLookup`] resolves tokens to projects.

mod accept;
mod budget;
mod capture;
mod counters;
mod limits;
mod outcome;
mod request;
mod tokens;
mod v1;
mod warnings;

pub use budget::{
    BodyReservation, Budget, Busy, OwnedReservation, Pool, PoolKind, Reservation, Sender,
    ValuesReservation,
};
pub use capture::{Capture, DecodeFailure, PreparedBatch, decode_within};
pub use counters::{CountersSnapshot, DropReason};
pub use journal::{Buffer, BufferPool};
pub use limits::Limits;
pub use outcome::{Accepted, Rejection, V1Accepted, V1Rejection, V1Result};
pub use request::{Endpoint, Request, V1Request};
pub use tokens::{KeyOwner, LookupFuture, TokenLookup, TokenOwner};
