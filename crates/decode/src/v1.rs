//! Parses bodies of capture v1: one shape, strictly validated.

use std::borrow::Cow;
use std::collections::HashSet;

use model::event::{RawEvent, RawTime, RawUuid, V1Options};
use uuid::Uuid;

use crate::encodings::{Envelope, JsonText};
use crate::events::{InnerToken, next_fields, non_empty, raw_event};
use crate::fields::Fields;
use crate::memory::MemoryTracker;
use crate::outline::Outline;
use crate::{Error, Result, encodings, inflate, value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V1Encoding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl V1Encoding {
    /// `None` for an unsupported coding.
    pub fn of(content_encoding: Option<&str>) -> Option<Self> {
        Some(match content_encoding.map(|name| name.trim().to_ascii_lowercase()).as_deref() {
            None | Some("" | "identity") => Self::Identity,
            Some("gzip") => Self::Gzip,
            Some("deflate") => Self::Deflate,
            Some("br") => Self::Brotli,
            Some("zstd") => Self::Zstd,
            Some(_) => return None,
        })
    }
}

/// Decodes a v1 body. Nothing is sniffed: `Content-Encoding` is authoritative.
pub fn decode_v1_text(body: &[u8], encoding: V1Encoding, bytes_max: usize) -> Result<JsonText<'_>> {
    decode_v1_text_within(body, encoding, &mut MemoryTracker::new(bytes_max, &mut |_| true))
}

/// As [`decode_v1_text`], with memory that `memory` may refuse.
pub fn decode_v1_text_within<'a>(
    body: &'a [u8],
    encoding: V1Encoding,
    memory: &mut MemoryTracker<'_>,
) -> Result<JsonText<'a>> {
    if body.is_empty() {
        return Err(Error::Empty);
    }
    let payload = match encoding {
        V1Encoding::Identity => Cow::Borrowed(body),
        V1Encoding::Gzip => Cow::Owned(inflate::gunzip(body, memory)?),
        V1Encoding::Deflate => Cow::Owned(inflate::inflate(body, memory)?),
        V1Encoding::Brotli => Cow::Owned(inflate::unbrotli(body, memory)?),
        V1Encoding::Zstd => Cow::Owned(inflate::unzstd(body, memory)?),
    };
    encodings::to_text(payload, encodings::Strictness::Strict, Envelope::default(), memory)
}

/// The fields of a v1 body.
#[derive(Clone, Debug)]
pub struct V1Batch<'t> {
    /// `None` if it is missing or not RFC 3339: capture rejects the batch.
    pub created_at: Option<String>,
    pub historical_migration: bool,
    list: &'t str,
}

#[derive(Clone, Debug, PartialEq)]
pub enum V1Element<'t> {
    Event(Box<V1Event<'t>>),
    MissingUuid,
    InvalidUuid,
    DuplicateUuid,
}

/// An event with its uuid, and the fields that v1 has outside of the properties.
#[derive(Clone, Debug, PartialEq)]
pub struct V1Event<'t> {
    pub uuid: Uuid,
    pub raw: RawEvent<'t>,
    pub session_id: Option<Cow<'t, str>>,
    pub window_id: Option<Cow<'t, str>>,
    pub options: V1OptionsField<'t>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V1OptionsField<'t> {
    Valid(V1Options<'t>),
    /// A value has the wrong type.
    Invalid,
}

pub fn parse_v1<'t>(text: &'t JsonText<'_>) -> Result<V1Batch<'t>> {
    let json = text.as_str();
    let Outline::Object { batch: Some(batch), .. } = &text.outline else {
        return Err(Error::Shape);
    };
    let list = &json[batch.clone()];
    if !list.starts_with('[') {
        return Err(Error::Shape);
    }
    let frame = [&json[..batch.start], "[]", &json[batch.end..]].concat();
    let fields = Fields::read(&frame)?;
    let created_at = fields.created_at.and_then(value::string).filter(|text| is_rfc3339(text));
    Ok(V1Batch {
        created_at: created_at.map(Cow::into_owned),
        historical_migration: fields.is_historical(),
        list: non_empty(list)?,
    })
}

impl<'t> V1Batch<'t> {
    /// Iterates the events in order. Anything but an event invalidates the request.
    pub fn events(&self) -> V1Events<'t> {
        V1Events { list: self.list, at: 1, uuids: HashSet::new() }
    }
}

#[derive(Debug)]
pub struct V1Events<'t> {
    list: &'t str,
    at: usize,
    uuids: HashSet<Uuid>,
}

impl<'t> Iterator for V1Events<'t> {
    type Item = Result<V1Element<'t>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (fields, bytes) = match next_fields(self.list, &mut self.at)? {
            Ok(Some(element)) => element,
            Ok(None) => return Some(Err(Error::Shape)),
            Err(error) => return Some(Err(error)),
        };
        let raw = raw_event(&fields, bytes, InnerToken::Ignored);
        let uuid = match raw.uuid {
            RawUuid::Given(uuid) => uuid,
            RawUuid::Absent => return Some(Ok(V1Element::MissingUuid)),
            RawUuid::Invalid => return Some(Ok(V1Element::InvalidUuid)),
        };
        if !self.uuids.insert(uuid) {
            return Some(Ok(V1Element::DuplicateUuid));
        }
        Some(Ok(V1Element::Event(Box::new(V1Event {
            uuid,
            raw,
            session_id: fields.session_id.map(value::text),
            window_id: fields.window_id.map(value::text),
            options: options(fields.options),
        }))))
    }
}

impl V1Event<'_> {
    pub fn has_strict_timestamp(&self) -> bool {
        matches!(&self.raw.timestamp, Some(RawTime::Text(text)) if is_rfc3339(text))
    }
}

fn options(raw: Option<&str>) -> V1OptionsField<'_> {
    let Some(raw) = raw else { return V1OptionsField::Valid(V1Options::default()) };
    read_options(raw).map_or(V1OptionsField::Invalid, V1OptionsField::Valid)
}

fn read_options(raw: &str) -> Option<V1Options<'_>> {
    let mut options = V1Options::default();
    let mut valid = raw.starts_with('{');
    let walked = crate::outline::walk_object(raw, 0, |key, range| {
        let raw = &raw[range];
        if raw == "null" {
            return;
        }
        let slot = match key {
            "cookieless_mode" => &mut options.cookieless_mode,
            "disable_skew_correction" => &mut options.disable_skew_correction,
            "process_person_profile" => &mut options.process_person_profile,
            "product_tour_id" => {
                valid &= raw.starts_with('"') || raw.parse::<i64>().is_ok();
                options.product_tour_id = Some(raw);
                return;
            }
            _ => return,
        };
        *slot = boolean(raw);
        valid &= slot.is_some();
    });
    (valid && walked.is_ok()).then_some(options)
}

fn boolean(raw: &str) -> Option<bool> {
    if value::is_number(raw) {
        return Some(raw.parse::<f64>().ok()? != 0.0);
    }
    match &*value::text(raw).to_ascii_lowercase() {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// Whether it is a complete RFC 3339 timestamp.
pub fn is_rfc3339(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = |from: usize, pattern: &[u8]| {
        bytes.get(from..from + pattern.len()).is_some_and(|part| {
            part.iter().zip(pattern).all(|(byte, expected)| match expected {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't' | b' '),
                b'+' => matches!(byte, b'+' | b'-'),
                expected => byte == expected,
            })
        })
    };
    if !shape(0, b"0000-00-00T00:00:00") {
        return false;
    }
    let mut zone = 19;
    if bytes.get(zone) == Some(&b'.') {
        let digits = bytes[zone + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        zone += 1 + digits;
    }
    let zoned = match &bytes[zone..] {
        b"Z" | b"z" => true,
        rest => rest.len() == 6 && shape(zone, b"+00:00"),
    };
    // RFC 3339 allows more digits than nanoseconds; validate the date without the fraction.
    let without_fraction = format!("{}{}", &text[..19], &text[zone..]);
    zoned && without_fraction.parse::<jiff::Timestamp>().is_ok()
}
