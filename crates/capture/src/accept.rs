//! Which events are fit to keep, and what a request leaves behind of those that are not.

use std::net::IpAddr;

use decode::Element;
use decode::Payload;
use journal::Batch;
use model::event::{AcceptedEvent, EventUuid, RawEvent, RawProperties, RawUuid};
use model::{ProjectId, Timestamp, WarningDetails, WarningKind};

use crate::budget::Busy;
use crate::counters::{DropReason, Drops};
use crate::limits::{DISTINCT_ID_CHARS_MAX, NAME_CHARS_MAX, event_bytes_max};
use crate::outcome::Rejection;

/// A project is told once an hour, so more examples of a kind from one request are of no use.
const EXAMPLES_PER_KIND_MAX: usize = 4;

/// What all events of a request share.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub project: ProjectId,
    pub received_at: Timestamp,
    pub client_ip: Option<IpAddr>,
}

/// Drops and warnings of one request, told only when its events are safe.
#[derive(Default)]
pub(crate) struct Notes {
    pub drops: Drops,
    pub warnings: Vec<(WarningKind, WarningDetails)>,
}

impl Notes {
    pub(crate) fn drop(&mut self, reason: DropReason, event: Option<&RawEvent<'_>>) {
        self.drops[reason as usize] += 1;
        if let Some(kind) = reason.warning() {
            self.warn(kind, event);
        }
    }

    pub(crate) fn warn(&mut self, kind: WarningKind, event: Option<&RawEvent<'_>>) {
        let examples = self.warnings.iter().filter(|(noted, _)| *noted == kind).count();
        if examples < EXAMPLES_PER_KIND_MAX {
            self.warnings.push((kind, event.map(details).unwrap_or_default()));
        }
    }
}

fn details(event: &RawEvent<'_>) -> WarningDetails {
    WarningDetails {
        event_uuid: match event.uuid {
            RawUuid::Given(uuid) => Some(uuid),
            RawUuid::Absent | RawUuid::Invalid => None,
        },
        distinct_id: event.distinct_id.as_deref().map(|id| cut(id, DISTINCT_ID_CHARS_MAX).into()),
        event: event.name.as_deref().map(|name| cut(name, NAME_CHARS_MAX).into()),
        bytes: Some(event.bytes),
        message: None,
    }
}

/// What a record has beside the text of its event, at most: its frame, ids, times and lengths.
const RECORD_EXTRA_BYTES: usize = 512;

/// Room for records, taken before they are made.
pub(crate) struct RecordRoom<H> {
    hold: H,
    bytes: usize,
}

impl<H: FnMut(usize) -> Result<(), Busy>> RecordRoom<H> {
    pub(crate) fn new(bytes: usize, hold: H) -> Self {
        Self { hold, bytes }
    }

    /// Before one more event becomes a record. A batch that grows is copied into twice its room.
    pub(crate) fn before(&mut self, batch: &Batch, event_bytes: usize) -> Result<(), Busy> {
        let needed = batch.bytes() + event_bytes + RECORD_EXTRA_BYTES;
        if needed > self.bytes {
            self.bytes = 2 * needed;
            (self.hold)(self.bytes)?;
        }
        Ok(())
    }
}

/// Records of the events that are fit to keep, in their order.
pub(crate) fn accept(
    payload: &Payload<'_>,
    arrival: Arrival,
    text_bytes: usize,
    records_bytes_max: usize,
    hold: impl FnMut(usize) -> Result<(), Busy>,
) -> Result<(Batch, Notes), Rejection> {
    let mut room = RecordRoom::new(text_bytes + RECORD_EXTRA_BYTES, hold);
    let mut batch = Batch::with_capacity(1, text_bytes.min(records_bytes_max));
    let mut notes = Notes::default();
    for element in payload.elements() {
        let event = match element? {
            Element::Event(event) => event,
            Element::NotAnObject => {
                notes.drop(DropReason::NotAnObject, None);
                continue;
            }
        };
        match check(&event, payload, arrival) {
            Ok(accepted) => {
                room.before(&batch, event.bytes)?;
                batch.push_with(|out| accepted.encode(out));
            }
            Err(reason) => {
                notes.drop(reason, Some(&event));
                continue;
            }
        }
        if let Some(id) = &event.distinct_id
            && is_longer(id, DISTINCT_ID_CHARS_MAX)
        {
            notes.warn(WarningKind::DistinctIdTruncated, Some(&event));
        }
        if batch.bytes() > records_bytes_max {
            return Err(Rejection::TooLarge);
        }
    }
    Ok((batch, notes))
}

fn check<'e>(
    event: &'e RawEvent<'_>,
    payload: &'e Payload<'_>,
    arrival: Arrival,
) -> Result<AcceptedEvent<'e>, DropReason> {
    let name = event.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Err(DropReason::MissingName);
    }
    let distinct_id = event.distinct_id.as_deref().unwrap_or_default();
    if distinct_id.trim().is_empty() {
        return Err(DropReason::MissingDistinctId);
    }
    let uuid = match event.uuid {
        RawUuid::Given(uuid) => EventUuid::Given(uuid),
        RawUuid::Absent => EventUuid::Seed(rand::random()),
        RawUuid::Invalid => return Err(DropReason::InvalidUuid),
    };
    let properties = properties(event)?;
    if event.bytes > event_bytes_max(name) {
        return Err(DropReason::TooLarge);
    }
    Ok(AcceptedEvent {
        project: arrival.project,
        received_at: arrival.received_at,
        client_ip: arrival.client_ip,
        sent_at: payload.sent_at.clone(),
        historical_migration: payload.historical_migration,
        uuid,
        name: cut(name, NAME_CHARS_MAX),
        distinct_id: cut(distinct_id, DISTINCT_ID_CHARS_MAX),
        timestamp: event.timestamp.clone(),
        offset_ms: event.offset_ms,
        properties,
        set: event.set,
        set_once: event.set_once,
        unset: event.unset,
        v1: None,
    })
}

pub(crate) fn properties<'e>(event: &RawEvent<'e>) -> Result<&'e str, DropReason> {
    match event.properties {
        RawProperties::Object(json) => Ok(json),
        RawProperties::Absent => Ok("{}"),
        RawProperties::NotAnObject => Err(DropReason::InvalidProperties),
    }
}

fn is_longer(text: &str, chars_max: usize) -> bool {
    text.len() > chars_max && text.chars().nth(chars_max).is_some()
}

fn cut(text: &str, chars_max: usize) -> &str {
    if text.len() <= chars_max {
        return text;
    }
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}
