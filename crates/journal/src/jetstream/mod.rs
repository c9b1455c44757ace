//! The journal in a stream of NATS JetStream.
//!
//! One lane is one stream. A message holds the records of the requests that waited together, packed and
//! compressed; every request is answered when the stream has acknowledged its message. A record's
//! position is computed from its message's sequence, see [`message::Sequence`].
//!
//! - `address`: where the servers are, and how to connect. `stream`: what the stream must be.
//! - `requirements`: why a server refuses to start on a cluster that cannot keep what capture promises.
//! - `message`: the format of a message. `publisher`: packs, publishes, repeats.
//! - `reader`: reads in order; a hole is an error. `gaps`: which messages must have come before.
//! - `owner`: one server at a time uses a journal.

mod address;
mod gaps;
mod journal;
mod message;
mod owner;
mod publisher;
mod queue;
mod reader;
mod requirements;
mod stream;

pub use address::{Address, Durability};

pub(crate) use journal::Journal;
pub(crate) use reader::Reader;
