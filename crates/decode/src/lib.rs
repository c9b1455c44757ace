//! Decodes request bodies of all SDKs to JSON and parses raw events. Pure: no I/O, no async, no clock.
//!
//! [`decode_text`] undoes compression, forms and base64; capture, `/flags` and `/decide` share it.
//! [`parse_events`] and [`parse_v1`] iterate the events of its [`JsonText`] one at a time, so that
//! memory does not depend on the number of events. `capture` validates them.

mod encodings;
mod events;
mod fields;
mod flags;
mod form;
mod inflate;
mod lzstring;
mod memory;
mod outline;
mod repair;
mod v1;
mod value;

use thiserror::Error;

pub use encodings::{
    JsonText, Parts, Strictness, decode_text, decode_text_within, decoded_bytes_hint,
};
pub use events::{DefaultEventName, Element, Elements, Payload, ProjectField, parse_events};
pub use flags::{DISTINCT_ID_CHARS_MAX, FlagsBody, flags_token, parse_flags, validate_json};
pub use memory::MemoryTracker;
pub use model::json::DEPTH_MAX;
pub use v1::{
    V1Batch, V1Element, V1Encoding, V1Event, V1Events, V1OptionsField, decode_v1_text,
    decode_v1_text_within, is_rfc3339, parse_v1,
};
pub use value::parsed_bytes_max;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    #[error("The request has no payload.")]
    Empty,
    #[error("The payload could not be decompressed: {0}.")]
    Encoding(&'static str),
    #[error("The form has no field named data.")]
    Form,
    #[error("The payload is not valid UTF-8.")]
    Utf8,
    #[error("The payload is not valid JSON.")]
    Json,
    #[error("The payload is nested more than {DEPTH_MAX} levels deep.")]
    TooDeep,
    #[error("The payload must be an event, a list of events or a batch.")]
    Shape,
    #[error("The batch is empty.")]
    EmptyBatch,
    #[error("The payload is too large.")]
    TooLarge,
    /// [`MemoryTracker`] refused a reservation; the payload may be valid.
    #[error("There is no memory for the payload now.")]
    OutOfMemory,
}

impl From<model::json::JsonError> for Error {
    fn from(fault: model::json::JsonError) -> Self {
        match fault {
            model::json::JsonError::Malformed => Self::Json,
            model::json::JsonError::TooDeep => Self::TooDeep,
        }
    }
}
