//! The door of the write path: a request → who sent it → which events are fit to keep →
//! records in the journal. An answer other than an error means that the journal has them.
//!
//! It knows nothing of HTTP ([`Rejection`] says what happened, not how it is answered) and nothing
//! of what events mean (that is the pipeline's part). Who owns a token is asked through
//! [`TokenLookup`].

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
pub use journal::Buffer;
pub use limits::Limits;
pub use outcome::{Accepted, Rejection, V1Accepted, V1Rejection, V1Result};
pub use request::{Endpoint, Request, V1Request};
pub use tokens::{KeyOwner, LookupFuture, TokenLookup, TokenOwner};
