//! Every body an SDK may send → JSON text → raw events. Pure: no I/O, no async, no clock.
//!
//! [`decode_text`] climbs the ladder of encodings and is shared by capture, `/flags` and
//! `/decide`; [`parse_events`] and [`parse_v1`] read events from its [`JsonText`], one at a time,
//! so that memory never depends on how many events a body holds. Nothing here judges an event:
//! that is `capture`'s work.

mod events;
mod fields;
mod flags;
mod form;
mod inflate;
mod ladder;
mod lzstring;
mod memory;
mod outline;
mod repair;
mod v1;
mod value;

use thiserror::Error;

pub use events::{DefaultEventName, Element, Elements, Payload, ProjectField, parse_events};
pub use flags::{DISTINCT_ID_CHARS_MAX, FlagsBody, flags_token, parse_flags, validate_json};
pub use ladder::{
    JsonText, Parts, Strictness, decode_text, decode_text_within, decoded_bytes_hint,
};
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
    /// [`MemoryTracker`] refused: nothing is wrong with the payload.
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
