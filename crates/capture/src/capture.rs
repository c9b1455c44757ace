use std::sync::Arc;

use decode::{
    JsonText, MemoryTracker, Strictness, decode_text_within, decoded_bytes_hint, parse_events,
};
use journal::{Batch, Journal};
use model::Warning;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc::Sender;

use crate::accept::{Arrival, Notes, accept};
use crate::budget::{Budget, Busy, Reservation};
use crate::counters::Counters;
use crate::outcome::{Accepted, Rejection};
use crate::request::{Endpoint, Request};
use crate::tokens::{TokenLookup, authenticate};
use crate::warnings::Warnings;
use crate::{CountersSnapshot, Limits};

/// Work on more bytes than this takes milliseconds, which other requests should not wait for.
const HEAVY_BYTES: usize = 1_024 * 1_024;
/// A text, and as much again for the buffers it came through and the records it becomes.
const LARGEST_HELD_TIMES: usize = 2;
/// Coding upon coding may hold several texts at once. What holds more than this many of the largest
/// is no text that anybody sends, and must not grow in room that it has all of.
const DECODING_HELD_TIMES_MAX: usize = 8;
/// Decoders have buffers of their own, however small texts must be.
const DECODING_BYTES_MIN: usize = 1_024 * 1_024;

/// A request that was read, whose events are to be kept.
pub struct PreparedBatch<'c> {
    accepted: Accepted,
    keeping: Option<Keeping<'c>>,
}

struct Keeping<'c> {
    batch: Batch,
    notes: Notes,
    arrival: Arrival,
    _room: Reservation<'c>,
}

/// Takes requests in. One for the whole server.
pub struct Capture {
    pub(crate) journal: Journal,
    pub(crate) tokens: Arc<dyn TokenLookup>,
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    counters: Counters,
    warnings: Warnings,
}

impl Capture {
    /// `warnings` is read by whoever stores them; its capacity bounds those that wait.
    pub fn new(
        journal: Journal,
        tokens: Arc<dyn TokenLookup>,
        warnings: Sender<Warning>,
        limits: Limits,
    ) -> Self {
        Self {
            journal,
            tokens,
            limits,
            budget: Budget::new(
                limits.in_flight_bytes_max,
                limits.body_bytes_max,
                limits.in_flight_wait_max,
            ),
            counters: Counters::default(),
            warnings: Warnings::new(warnings),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What all requests take their memory from.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Why the journal takes no events now; none when it does.
    pub fn refusal(&self) -> Option<journal::Error> {
        self.journal.refusal()
    }

    pub fn counters(&self) -> CountersSnapshot {
        self.counters.snapshot()
    }

    /// Every v0 path. Returns when the journal has the events.
    pub async fn events(&self, request: Request<'_>) -> Result<Accepted, Rejection> {
        self.commit(self.prepare(request).await?).await
    }

    /// The first half of [`Capture::events`]: what it gives needs nothing of the request any more,
    /// whose memory is free while the journal writes.
    pub async fn prepare(&self, request: Request<'_>) -> Result<PreparedBatch<'_>, Rejection> {
        if request.body.len() > self.limits.body_bytes_max {
            return Err(Rejection::TooLarge);
        }
        let parts = request.parts();
        let text_bytes_max = self.limits.text_bytes_max;
        let expected = decoded_bytes_hint(&parts, text_bytes_max);
        // Records, and the text they are made of unless it is the body itself.
        let decode =
            |memory: &mut MemoryTracker<'_>| decode_text_within(&parts, Strictness::Strict, memory);
        let decoded = decode_within(&self.budget, 2 * expected, text_bytes_max, held_bytes, decode);
        let (mut room, text) = decoded.await?;
        room.shrink(held_bytes(&text));

        let payload = parse_events(&text, request.endpoint.unnamed())?;
        let project = authenticate(&*self.tokens, &payload).await?;
        let beacon = text.is_beacon();
        if request.endpoint == Endpoint::Recordings {
            payload.elements().try_for_each(|element| element.map(drop))?;
            let accepted = Accepted { quota_limited: &["recordings"], beacon };
            return Ok(PreparedBatch { accepted, keeping: None });
        }
        let arrival =
            Arrival { project, received_at: request.received_at, client_ip: request.client_ip };
        let (batch, notes) = heavy(text.as_str().len(), || {
            let hold =
                |records: usize| self.budget.enlarge(&mut room, text.owned_bytes() + records);
            accept(&payload, arrival, text.as_str().len(), self.limits.records_bytes_max, hold)
        })?;
        drop(payload);
        drop(text);
        self.budget.enlarge(&mut room, batch.bytes())?;
        room.shrink(batch.bytes());
        let accepted = Accepted { quota_limited: &[], beacon };
        Ok(PreparedBatch {
            accepted,
            keeping: Some(Keeping { batch, notes, arrival, _room: room }),
        })
    }

    /// The second half.
    pub async fn commit(&self, ready: PreparedBatch<'_>) -> Result<Accepted, Rejection> {
        if let Some(Keeping { batch, notes, arrival, _room }) = ready.keeping {
            self.keep(batch, notes, arrival).await?;
        }
        Ok(ready.accepted)
    }

    /// Appends one record that was made elsewhere in this server; answers its position.
    pub async fn append_record(&self, record: &[u8]) -> Result<u64, Rejection> {
        let mut batch = Batch::new();
        batch.push(record);
        let position = self.journal.append(batch).await.map_err(Rejection::JournalUnavailable)?;
        Ok(position.as_u64())
    }

    /// Appends the records; only then are drops counted and warnings told, since a request that
    /// fails here will be sent again.
    pub(crate) async fn keep(
        &self,
        batch: Batch,
        notes: Notes,
        arrival: Arrival,
    ) -> Result<(), journal::Error> {
        let accepted = batch.len() as u64;
        self.journal.append(batch).await?;
        self.counters.add(accepted, &notes.drops);
        self.warnings.tell(arrival.project, arrival.received_at, notes.warnings, &self.counters);
        Ok(())
    }
}

/// Why nothing was decoded.
#[derive(Debug, PartialEq, Eq)]
pub enum DecodeFailure {
    Busy,
    Invalid(decode::Error),
}

impl From<Busy> for DecodeFailure {
    fn from(_: Busy) -> Self {
        Self::Busy
    }
}

impl From<decode::Error> for DecodeFailure {
    fn from(error: decode::Error) -> Self {
        match error {
            decode::Error::OutOfMemory => Self::Busy,
            error => Self::Invalid(error),
        }
    }
}

/// Runs `decode` on memory of the budget, which grows as its output does, and then as what `needed`
/// says of it. What outgrows the room that it was expected to need is decoded again, once there is
/// room for the largest text: whoever waits holds nothing, and what looks small never fills the
/// room of what is.
pub async fn decode_within<'b, T>(
    budget: &'b Budget,
    expected: usize,
    text_bytes_max: usize,
    needed: impl Fn(&T) -> usize,
    mut decode: impl FnMut(&mut MemoryTracker<'_>) -> decode::Result<T>,
) -> Result<(Reservation<'b>, T), DecodeFailure> {
    let mut room = budget.reserve_decoded(expected).await?;
    let mut attempt = |room: &mut Reservation<'_>, bytes: usize| {
        let held_max =
            text_bytes_max.saturating_mul(DECODING_HELD_TIMES_MAX).max(DECODING_BYTES_MIN);
        let mut too_large = false;
        let mut hold = |bytes: usize| {
            too_large |= bytes > held_max;
            !too_large && room.grow(bytes).is_ok()
        };
        let decoded = heavy(bytes, || decode(&mut MemoryTracker::new(text_bytes_max, &mut hold)));
        match decoded {
            Err(decode::Error::OutOfMemory) if too_large => Err(decode::Error::TooLarge),
            Ok(decoded) => match room.take(needed(&decoded)) {
                Ok(()) => Ok(decoded),
                Err(Busy) => Err(decode::Error::OutOfMemory),
            },
            error => error,
        }
    };
    match attempt(&mut room, expected) {
        Err(decode::Error::OutOfMemory) => {}
        decoded => {
            let decoded = decoded?;
            return Ok((room, decoded));
        }
    }
    drop(room);
    let bytes = text_bytes_max.saturating_mul(LARGEST_HELD_TIMES);
    let mut room = budget.reserve_decoded_large(bytes).await?;
    let decoded = attempt(&mut room, bytes)?;
    Ok((room, decoded))
}

/// Memory that a request takes beside its body: records are about as long as their text.
pub(crate) fn held_bytes(text: &JsonText<'_>) -> usize {
    text.owned_bytes() + text.as_str().len()
}

/// Runs `work` on `bytes` bytes, out of the way of other requests if that is many.
pub(crate) fn heavy<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let movable = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if bytes > HEAVY_BYTES && movable() { tokio::task::block_in_place(work) } else { work() }
}
