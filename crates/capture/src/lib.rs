//! The door of the write path: a request → who sent it → which events are fit to keep →
//! records in the journal. An answer other than an error means that the journal has them.
//!
//! It knows nothing of HTTP ([`Refused`] says what happened, not how it is answered) and nothing
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

pub use budget::{Arriving, Budget, Busy, Held, Pool, Reservation, Sender, Use, Values};
pub use capture::{Capture, Ready, Undecoded, decode_within};
pub use counters::{CountersSnapshot, DropReason};
pub use journal::Buffer;
pub use limits::Limits;
pub use outcome::{Accepted, Refused, V1Accepted, V1Refused, V1Result};
pub use request::{Endpoint, Request, V1Request};
pub use tokens::{KeyOwner, Looking, TokenLookup, TokenOwner};
