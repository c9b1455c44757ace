//! The journal's record of an accepted event. An on-disk format: a changed layout is a new version,
//! another payload is a new kind, and old ones stay readable.
//!
//! ```text
//! 0   kind        u8   1 = event; 2 = an edit of a person or group, see `edit`
//! 1   version     u8   1
//! 2   project     i64
//! 10  bits        u32  flags, and which of the optional fields follow
//! 14  received_at i64  microseconds since 1970
//! 22  uuid        16 bytes, given or seed
//! 38  client ip   4 or 16 bytes       if IP_V4 or IP_V6
//!     sent_at     text, or i64 ms     if SENT_AT_TEXT or SENT_AT_MILLIS
//!     timestamp   text                if TIME_TEXT or TIME_NUMBER
//!     offset      i64 ms              if OFFSET
//!     name, distinct id, properties   texts
//!     $set, $set_once, $unset         texts, each if its bit is set
//!     lib name, lib version           texts, if V1
//!     session id, window id, tour id  texts, each if its bit is set
//! ```
//! Integers are little-endian. A text is a LEB128 length (at most five bytes), then UTF-8.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;
use uuid::Uuid;

use super::{AcceptedEvent, EventUuid, RawTime, SentAt, V1Extras, V1Options};
use crate::{ProjectId, Timestamp};

pub const KIND_EVENT: u8 = 1;
const VERSION: u8 = 1;

const HISTORICAL: u32 = 1;
const V1: u32 = 1 << 1;
const PERSON_PROCESSING_DISABLED: u32 = 1 << 2;
const UUID_GIVEN: u32 = 1 << 3;
const IP_V4: u32 = 1 << 4;
const IP_V6: u32 = 1 << 5;
const SENT_AT_TEXT: u32 = 1 << 6;
const SENT_AT_MILLIS: u32 = 1 << 7;
const TIME_TEXT: u32 = 1 << 8;
const TIME_NUMBER: u32 = 1 << 9;
const TIME_UNREADABLE: u32 = 1 << 10;
const OFFSET: u32 = 1 << 11;
const SET: u32 = 1 << 12;
const SET_ONCE: u32 = 1 << 13;
const UNSET: u32 = 1 << 14;
const SESSION_ID: u32 = 1 << 15;
const WINDOW_ID: u32 = 1 << 16;
const PRODUCT_TOUR_ID: u32 = 1 << 17;
/// Options take two bits each: present, and the value in the next higher bit.
const COOKIELESS_MODE: u32 = 1 << 18;
const DISABLE_SKEW_CORRECTION: u32 = 1 << 20;
const PROCESS_PERSON_PROFILE: u32 = 1 << 22;
const KNOWN_BITS: u32 = (1 << 24) - 1;

#[derive(Debug, Error, PartialEq, Eq)]
pub enum RecordError {
    #[error("record of unknown kind {0}")]
    UnknownKind(u8),
    #[error("event record of unknown version {0}")]
    UnknownVersion(u8),
    #[error("edit of an unknown kind: a newer release wrote it, and can apply it")]
    UnknownEdit,
    #[error("event record is corrupted: {0}")]
    Corrupted(&'static str),
}

/// The project id, at the same offset in records of every kind.
pub fn project_of(record: &[u8]) -> Option<ProjectId> {
    let number = record.get(2..10)?.try_into().ok()?;
    Some(ProjectId(i64::from_le_bytes(number)))
}

impl<'a> AcceptedEvent<'a> {
    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[KIND_EVENT, VERSION]);
        out.extend_from_slice(&self.project.0.to_le_bytes());
        out.extend_from_slice(&self.bits().to_le_bytes());
        out.extend_from_slice(&self.received_at.as_micros().to_le_bytes());
        match &self.uuid {
            EventUuid::Given(uuid) => out.extend_from_slice(uuid.as_bytes()),
            EventUuid::Seed(seed) => out.extend_from_slice(seed),
        }
        match self.client_ip {
            Some(IpAddr::V4(ip)) => out.extend_from_slice(&ip.octets()),
            Some(IpAddr::V6(ip)) => out.extend_from_slice(&ip.octets()),
            None => {}
        }
        match &self.sent_at {
            Some(SentAt::Text(text)) => put_text(out, text),
            Some(SentAt::Millis(millis)) => out.extend_from_slice(&millis.to_le_bytes()),
            None => {}
        }
        match &self.timestamp {
            Some(RawTime::Text(text)) => put_text(out, text),
            Some(RawTime::Number(text)) => put_text(out, text),
            Some(RawTime::Unreadable) | None => {}
        }
        if let Some(offset) = self.offset_ms {
            out.extend_from_slice(&offset.to_le_bytes());
        }
        for text in [self.name, self.distinct_id, self.properties] {
            put_text(out, text);
        }
        for text in [self.set, self.set_once, self.unset].into_iter().flatten() {
            put_text(out, text);
        }
        if let Some(v1) = &self.v1 {
            put_text(out, v1.lib_name);
            put_text(out, v1.lib_version);
            for text in
                [v1.session_id, v1.window_id, v1.options.product_tour_id].into_iter().flatten()
            {
                put_text(out, text);
            }
        }
    }

    fn bits(&self) -> u32 {
        let mut bits = 0;
        let mut mark = |bit: u32, on: bool| bits |= if on { bit } else { 0 };
        mark(HISTORICAL, self.historical_migration);
        mark(UUID_GIVEN, matches!(self.uuid, EventUuid::Given(_)));
        mark(IP_V4, matches!(self.client_ip, Some(IpAddr::V4(_))));
        mark(IP_V6, matches!(self.client_ip, Some(IpAddr::V6(_))));
        mark(SENT_AT_TEXT, matches!(self.sent_at, Some(SentAt::Text(_))));
        mark(SENT_AT_MILLIS, matches!(self.sent_at, Some(SentAt::Millis(_))));
        mark(TIME_TEXT, matches!(self.timestamp, Some(RawTime::Text(_))));
        mark(TIME_NUMBER, matches!(self.timestamp, Some(RawTime::Number(_))));
        mark(TIME_UNREADABLE, matches!(self.timestamp, Some(RawTime::Unreadable)));
        mark(OFFSET, self.offset_ms.is_some());
        mark(SET, self.set.is_some());
        mark(SET_ONCE, self.set_once.is_some());
        mark(UNSET, self.unset.is_some());
        if let Some(v1) = &self.v1 {
            mark(V1, true);
            mark(PERSON_PROCESSING_DISABLED, v1.person_processing_disabled);
            mark(SESSION_ID, v1.session_id.is_some());
            mark(WINDOW_ID, v1.window_id.is_some());
            mark(PRODUCT_TOUR_ID, v1.options.product_tour_id.is_some());
            for (bit, option) in [
                (COOKIELESS_MODE, v1.options.cookieless_mode),
                (DISABLE_SKEW_CORRECTION, v1.options.disable_skew_correction),
                (PROCESS_PERSON_PROFILE, v1.options.process_person_profile),
            ] {
                mark(bit, option.is_some());
                mark(bit << 1, option == Some(true));
            }
        }
        bits
    }

    /// Decodes a record without copying its strings.
    pub fn decode(record: &'a [u8]) -> Result<Self, RecordError> {
        let mut rest = Reader(record);
        match rest.take(2)? {
            [KIND_EVENT, VERSION] => {}
            [KIND_EVENT, version, ..] => return Err(RecordError::UnknownVersion(*version)),
            [kind, ..] => return Err(RecordError::UnknownKind(*kind)),
            [] => return Err(RecordError::Corrupted("empty")),
        }
        let project = ProjectId(rest.i64()?);
        let bits = Bits(u32::from_le_bytes(rest.array()?));
        bits.check()?;
        let received_at = Timestamp::from_micros(rest.i64()?);
        let uuid = match bits.has(UUID_GIVEN) {
            true => EventUuid::Given(Uuid::from_bytes(rest.array()?)),
            false => EventUuid::Seed(rest.array()?),
        };
        let event = Self {
            project,
            received_at,
            uuid,
            historical_migration: bits.has(HISTORICAL),
            client_ip: rest.ip(bits)?,
            sent_at: rest.sent_at(bits)?,
            timestamp: rest.time(bits)?,
            offset_ms: if bits.has(OFFSET) { Some(rest.i64()?) } else { None },
            name: rest.text()?,
            distinct_id: rest.text()?,
            properties: rest.text()?,
            set: rest.text_if(bits.has(SET))?,
            set_once: rest.text_if(bits.has(SET_ONCE))?,
            unset: rest.text_if(bits.has(UNSET))?,
            v1: if bits.has(V1) { Some(rest.v1(bits)?) } else { None },
        };
        match rest.0 {
            [] => Ok(event),
            _ => Err(RecordError::Corrupted("bytes after the last field")),
        }
    }
}

#[derive(Clone, Copy)]
struct Bits(u32);

impl Bits {
    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    fn option(self, bit: u32) -> Option<bool> {
        self.has(bit).then(|| self.has(bit << 1))
    }

    fn check(self) -> Result<(), RecordError> {
        let at_most_one = |bits: u32| (self.0 & bits).count_ones() <= 1;
        let value_without_option =
            [COOKIELESS_MODE, DISABLE_SKEW_CORRECTION, PROCESS_PERSON_PROFILE]
                .into_iter()
                .any(|bit| self.has(bit << 1) && !self.has(bit));
        let only_v1 = PERSON_PROCESSING_DISABLED
            | SESSION_ID
            | WINDOW_ID
            | PRODUCT_TOUR_ID
            | COOKIELESS_MODE
            | DISABLE_SKEW_CORRECTION
            | PROCESS_PERSON_PROFILE;
        if self.0 & !KNOWN_BITS != 0 {
            return Err(RecordError::Corrupted("unknown bits"));
        }
        if !at_most_one(IP_V4 | IP_V6)
            || !at_most_one(SENT_AT_TEXT | SENT_AT_MILLIS)
            || !at_most_one(TIME_TEXT | TIME_NUMBER | TIME_UNREADABLE)
            || value_without_option
            || (!self.has(V1) && self.0 & only_v1 != 0)
        {
            return Err(RecordError::Corrupted("bits that exclude each other"));
        }
        Ok(())
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text.as_bytes());
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or(RecordError::Corrupted("cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (taken, rest) =
            self.0.split_first_chunk().ok_or(RecordError::Corrupted("cut short"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn i64(&mut self) -> Result<i64, RecordError> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<&'a str, RecordError> {
        let mut length = 0usize;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            length |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return simdutf8::basic::from_utf8(self.take(length)?)
                    .map_err(|_| RecordError::Corrupted("text is not UTF-8"));
            }
        }
        Err(RecordError::Corrupted("length of a text"))
    }

    fn text_if(&mut self, present: bool) -> Result<Option<&'a str>, RecordError> {
        if present { self.text().map(Some) } else { Ok(None) }
    }

    fn ip(&mut self, bits: Bits) -> Result<Option<IpAddr>, RecordError> {
        Ok(match (bits.has(IP_V4), bits.has(IP_V6)) {
            (true, _) => Some(IpAddr::V4(Ipv4Addr::from(self.array::<4>()?))),
            (_, true) => Some(IpAddr::V6(Ipv6Addr::from(self.array::<16>()?))),
            _ => None,
        })
    }

    fn sent_at(&mut self, bits: Bits) -> Result<Option<SentAt<'a>>, RecordError> {
        Ok(match (bits.has(SENT_AT_TEXT), bits.has(SENT_AT_MILLIS)) {
            (true, _) => Some(SentAt::Text(Cow::Borrowed(self.text()?))),
            (_, true) => Some(SentAt::Millis(self.i64()?)),
            _ => None,
        })
    }

    fn time(&mut self, bits: Bits) -> Result<Option<RawTime<'a>>, RecordError> {
        Ok(match (bits.has(TIME_TEXT), bits.has(TIME_NUMBER)) {
            (true, _) => Some(RawTime::Text(Cow::Borrowed(self.text()?))),
            (_, true) => Some(RawTime::Number(self.text()?)),
            _ => bits.has(TIME_UNREADABLE).then_some(RawTime::Unreadable),
        })
    }

    fn v1(&mut self, bits: Bits) -> Result<V1Extras<'a>, RecordError> {
        Ok(V1Extras {
            lib_name: self.text()?,
            lib_version: self.text()?,
            session_id: self.text_if(bits.has(SESSION_ID))?,
            window_id: self.text_if(bits.has(WINDOW_ID))?,
            options: V1Options {
                cookieless_mode: bits.option(COOKIELESS_MODE),
                disable_skew_correction: bits.option(DISABLE_SKEW_CORRECTION),
                process_person_profile: bits.option(PROCESS_PERSON_PROFILE),
                product_tour_id: self.text_if(bits.has(PRODUCT_TOUR_ID))?,
            },
            person_processing_disabled: bits.has(PERSON_PROCESSING_DISABLED),
        })
    }
}

#[cfg(test)]
mod tests;
