//! Validates events and encodes them as journal records; collects drops and ingestion warnings.

use std::net::IpAddr;

use decode::Element;
use decode::Payload;
use journal::{Batch, BufferPool};
use model::event::{AcceptedEvent, EventUuid, RawEvent, RawProperties, RawUuid};
use model::{ProjectId, Timestamp, WarningDetails, WarningKind};

use crate::budget::Busy;
use crate::counters::{DropReason, Drops};
use crate::limits::{DISTINCT_ID_CHARS_MAX, NAME_CHARS_MAX, event_bytes_max};
use crate::outcome::Rejection;

/// Warnings of a kind are throttled to one an hour, so further examples from a request are useless.
const EXAMPLES_PER_KIND_MAX: usize = 4;

/// Values that all events of a request share.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext {
    pub project: ProjectId,
    pub received_at: Timestamp,
    pub client_ip: Option<IpAddr>,
}

/// Drops and warnings of one request, published only once its events are durable.
#[derive(Default)]
pub(crate) struct Diagnostics {
    pub drops: Drops,
    pub warnings: Vec<(WarningKind, WarningDetails)>,
}

impl Diagnostics {
    pub(crate) fn drop(&mut self, reason: DropReason, event: Option<&RawEvent<'_>>) {
        self.drops[reason as usize] += 1;
        if let Some(kind) = reason.warning() {
            self.warn(kind, event);
        }
    }

    pub(crate) fn warn(&mut self, kind: WarningKind, event: Option<&RawEvent<'_>>) {
        let examples = self.warnings.iter().filter(|(other, _)| *other == kind).count();
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
        distinct_id: event
            .distinct_id
            .as_deref()
            .map(|id| truncate(id, DISTINCT_ID_CHARS_MAX).into()),
        event: event.name.as_deref().map(|name| truncate(name, NAME_CHARS_MAX).into()),
        bytes: Some(event.bytes),
        message: None,
    }
}

/// Upper bound of a record's overhead over its event's JSON: frame, ids, timestamps, lengths.
const RECORD_OVERHEAD_BYTES: usize = 512;

/// Reserves memory for records before they are encoded.
pub(crate) struct RecordReservation<H> {
    reserve: H,
    bytes: usize,
}

impl<H: FnMut(usize) -> Result<(), Busy>> RecordReservation<H> {
    /// `bytes` are reserved already; `reserve` gets the new total.
    pub(crate) fn new(bytes: usize, reserve: H) -> Self {
        Self { reserve, bytes }
    }

    /// Reserves for one more event. Twice the need: a growing batch is copied into a larger buffer.
    pub(crate) fn grow_for(&mut self, batch: &Batch, event_bytes: usize) -> Result<(), Busy> {
        let needed = batch.bytes() + event_bytes + RECORD_OVERHEAD_BYTES;
        if needed > self.bytes {
            self.bytes = 2 * needed;
            (self.reserve)(self.bytes)?;
        }
        Ok(())
    }
}

/// Encodes the valid events as records, in order. `reserve` is as in [`RecordReservation::new`].
pub(crate) fn accept(
    payload: &Payload<'_>,
    context: RequestContext,
    text_bytes: usize,
    records_bytes_max: usize,
    buffers: &BufferPool,
    reserve: impl FnMut(usize) -> Result<(), Busy>,
) -> Result<(Batch, Diagnostics), Rejection> {
    let mut reservation = RecordReservation::new(text_bytes + RECORD_OVERHEAD_BYTES, reserve);
    let mut batch = Batch::with_capacity(buffers, 1, text_bytes.min(records_bytes_max));
    let mut diagnostics = Diagnostics::default();
    for element in payload.elements() {
        let event = match element? {
            Element::Event(event) => event,
            Element::NotAnObject => {
                diagnostics.drop(DropReason::NotAnObject, None);
                continue;
            }
        };
        match check(&event, payload, context) {
            Ok(accepted) => {
                reservation.grow_for(&batch, event.bytes)?;
                batch.push_with(|out| accepted.encode(out));
            }
            Err(reason) => {
                diagnostics.drop(reason, Some(&event));
                continue;
            }
        }
        if let Some(id) = &event.distinct_id
            && exceeds_chars(id, DISTINCT_ID_CHARS_MAX)
        {
            diagnostics.warn(WarningKind::DistinctIdTruncated, Some(&event));
        }
        if batch.bytes() > records_bytes_max {
            return Err(Rejection::TooLarge);
        }
    }
    Ok((batch, diagnostics))
}

fn check<'e>(
    event: &'e RawEvent<'_>,
    payload: &'e Payload<'_>,
    context: RequestContext,
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
        project: context.project,
        received_at: context.received_at,
        client_ip: context.client_ip,
        sent_at: payload.sent_at.clone(),
        historical_migration: payload.historical_migration,
        uuid,
        name: truncate(name, NAME_CHARS_MAX),
        distinct_id: truncate(distinct_id, DISTINCT_ID_CHARS_MAX),
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

fn exceeds_chars(text: &str, chars_max: usize) -> bool {
    text.len() > chars_max && text.chars().nth(chars_max).is_some()
}

fn truncate(text: &str, chars_max: usize) -> &str {
    if text.len() <= chars_max {
        return text;
    }
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}
