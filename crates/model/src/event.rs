//! The stages of an event, each made only by the one before:
//! [`RawEvent`] (as sent) → [`AcceptedEvent`] (in the journal) → the pipeline's stages.
//!
//! Both borrow from the request or from the record, so that a batch costs no allocation per event.

mod record;

use std::borrow::Cow;
use std::net::IpAddr;

use uuid::Uuid;

use crate::{ProjectId, Timestamp};

pub use record::{KIND_EVENT, RecordError, project_of};

/// One event as an SDK sent it: fields collected from every location that SDKs use, not validated.
/// Made by `decode`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawEvent<'a> {
    /// From the event or its properties; not filled from the batch's token.
    pub token: Option<Cow<'a, str>>,
    pub name: Option<Cow<'a, str>>,
    pub distinct_id: Option<Cow<'a, str>>,
    pub uuid: RawUuid,
    pub timestamp: Option<RawTime<'a>>,
    /// Milliseconds between the event and its sending, from SDKs that send no timestamp.
    pub offset_ms: Option<i64>,
    pub properties: RawProperties<'a>,
    /// JSON of the top-level members `$set`, `$set_once` and `$unset`.
    pub set: Option<&'a str>,
    pub set_once: Option<&'a str>,
    pub unset: Option<&'a str>,
    /// Length of the event's own JSON text.
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RawUuid {
    #[default]
    Absent,
    Given(Uuid),
    Invalid,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RawProperties<'a> {
    #[default]
    Absent,
    /// JSON text of an object.
    Object(&'a str),
    NotAnObject,
}

/// A timestamp as sent. Only the pipeline interprets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawTime<'a> {
    Text(Cow<'a, str>),
    /// The literal of a JSON number.
    Number(&'a str),
    /// Neither a string nor a number: the pipeline warns and uses the receive time.
    Unreadable,
}

/// When the client sent the request, by its own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentAt<'a> {
    Text(Cow<'a, str>),
    /// From the query string: milliseconds since 1970.
    Millis(i64),
}

/// An event's uuid, or the seed it is derived from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventUuid {
    Given(Uuid),
    /// Drawn by capture, so that the stored row is a pure function of its record.
    Seed([u8; 16]),
}

impl EventUuid {
    /// The given uuid, or a UUIDv7 of the event's time and the seed.
    pub fn at(self, event_time: Timestamp) -> Uuid {
        match self {
            Self::Given(uuid) => uuid,
            Self::Seed(seed) => {
                // UUIDv7 cannot encode a time before 1970.
                let millis = u64::try_from(event_time.as_micros().div_euclid(1_000)).unwrap_or(0);
                let mut tail = [0; 10];
                tail.copy_from_slice(&seed[..10]);
                uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
            }
        }
    }
}

/// One accepted event, as the journal stores it. Made by `capture`.
///
/// `properties`, `set`, `set_once` and `unset` are valid JSON (RFC 8259) within `decode`'s depth
/// limit, without U+0000 and without lone surrogates. Numbers are as sent: they may exceed the range
/// of `f64`. Keys may repeat; the last one wins.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedEvent<'a> {
    pub project: ProjectId,
    pub received_at: Timestamp,
    pub client_ip: Option<IpAddr>,
    pub sent_at: Option<SentAt<'a>>,
    pub historical_migration: bool,
    pub uuid: EventUuid,
    pub name: &'a str,
    pub distinct_id: &'a str,
    pub timestamp: Option<RawTime<'a>>,
    pub offset_ms: Option<i64>,
    pub properties: &'a str,
    pub set: Option<&'a str>,
    pub set_once: Option<&'a str>,
    pub unset: Option<&'a str>,
    /// Set for events of the capture v1 endpoint.
    pub v1: Option<V1Extras<'a>>,
}

/// Fields that only capture v1 sends outside of `properties`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct V1Extras<'a> {
    pub lib_name: &'a str,
    pub lib_version: &'a str,
    pub session_id: Option<&'a str>,
    pub window_id: Option<&'a str>,
    pub options: V1Options<'a>,
    /// The distinct id is a placeholder ("undefined"): the event is stored without a person.
    pub person_processing_disabled: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct V1Options<'a> {
    pub cookieless_mode: Option<bool>,
    /// Take the timestamp as sent: no clock-skew correction, no limit on the future.
    pub disable_skew_correction: Option<bool>,
    pub process_person_profile: Option<bool>,
    /// JSON of a string or an integer.
    pub product_tour_id: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_uuid_is_version_7_and_carries_the_event_time() {
        let seed = EventUuid::Seed([0xff; 16]);
        for (micros, expected) in [
            (1_700_000_000_123_456, "018bcfe5-687b-7fff-bfff-ffffffffffff"),
            (-1, "00000000-0000-7fff-bfff-ffffffffffff"),
        ] {
            let uuid = seed.at(Timestamp::from_micros(micros));
            assert_eq!(uuid.to_string(), expected);
        }
        let given = Uuid::from_u128(7);
        assert_eq!(EventUuid::Given(given).at(Timestamp::from_micros(0)), given);
    }
}
