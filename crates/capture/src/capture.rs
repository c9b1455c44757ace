//! The capture service: decode within the budget, authenticate, validate, append.

use std::sync::Arc;

use decode::{
    JsonText, MemoryTracker, Strictness, decode_text_within, decoded_bytes_hint, parse_events,
};
use journal::{Batch, BufferPool, Journal};
use model::Warning;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc::Sender;

use crate::accept::{Diagnostics, RequestContext, accept};
use crate::budget::{Budget, Busy, Reservation};
use crate::counters::Counters;
use crate::outcome::{Accepted, Rejection};
use crate::request::{Endpoint, Request};
use crate::tokens::{TokenLookup, authenticate};
use crate::warnings::Warnings;
use crate::{CountersSnapshot, Limits};

/// Decoding more bytes than this takes milliseconds and leaves the async worker.
const CPU_HEAVY_BYTES: usize = 1_024 * 1_024;
/// Bytes reserved for the retry in the large lane, over the largest decoded body: the JSON, and as
/// much for intermediate buffers and records.
const LARGE_RETRY_FACTOR: usize = 2;
/// Nested encodings hold several buffers at once. Decoding may hold this many times the largest body;
/// more is an attack, not an SDK.
const DECODING_FACTOR_MAX: usize = 8;
/// Decoders have fixed buffers, however small the limit of bodies is.
const DECODING_BYTES_MIN: usize = 1_024 * 1_024;

/// A validated request whose records are ready to append. It borrows nothing from the request.
pub struct PreparedBatch<'c> {
    accepted: Accepted,
    pending: Option<PendingAppend<'c>>,
}

struct PendingAppend<'c> {
    batch: Batch,
    diagnostics: Diagnostics,
    context: RequestContext,
    _reservation: Reservation<'c>,
}

/// The capture service; one per server.
pub struct Capture {
    pub(crate) journal: Journal,
    pub(crate) tokens: Arc<dyn TokenLookup>,
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    counters: Counters,
    warnings: Warnings,
}

impl Capture {
    /// `warnings` is the bounded queue to the task that stores them.
    pub fn new(
        journal: Journal,
        tokens: Arc<dyn TokenLookup>,
        warnings: Sender<Warning>,
        limits: Limits,
    ) -> Self {
        Self {
            budget: Budget::new(
                limits.in_flight_bytes_max,
                limits.body_bytes_max,
                limits.in_flight_wait_max,
                journal.buffers(),
            ),
            journal,
            tokens,
            limits,
            counters: Counters::default(),
            warnings: Warnings::new(warnings),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The memory budget of all requests.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// The buffers of request bodies.
    pub fn buffers(&self) -> &BufferPool {
        self.journal.buffers()
    }

    /// Why the journal refuses appends; `None` if it accepts them.
    pub fn refusal(&self) -> Option<journal::Error> {
        self.journal.refusal()
    }

    pub fn counters(&self) -> CountersSnapshot {
        self.counters.snapshot()
    }

    /// Handles every v0 path. Returns when the events are durable.
    pub async fn events(&self, request: Request<'_>) -> Result<Accepted, Rejection> {
        self.commit(self.prepare(request).await?).await
    }

    /// The first half of [`Capture::events`]: decodes and validates. The caller can free the request's
    /// body before [`Capture::commit`] waits for the journal.
    pub async fn prepare(&self, request: Request<'_>) -> Result<PreparedBatch<'_>, Rejection> {
        if request.body.len() > self.limits.body_bytes_max {
            return Err(Rejection::TooLarge);
        }
        let parts = request.parts();
        let text_bytes_max = self.limits.text_bytes_max;
        let expected = decoded_bytes_hint(&parts, text_bytes_max);
        // Twice: the records, and the decoded JSON unless it borrows the body.
        let decode =
            |memory: &mut MemoryTracker<'_>| decode_text_within(&parts, Strictness::Strict, memory);
        let decoded = decode_within(&self.budget, 2 * expected, text_bytes_max, held_bytes, decode);
        let (mut reservation, text) = decoded.await?;
        reservation.shrink(held_bytes(&text));

        let payload = parse_events(&text, request.endpoint.default_event_name())?;
        let project = authenticate(&*self.tokens, &payload).await?;
        let beacon = text.is_beacon();
        if request.endpoint == Endpoint::Recordings {
            payload.elements().try_for_each(|element| element.map(drop))?;
            let accepted = Accepted { quota_limited: &["recordings"], beacon };
            return Ok(PreparedBatch { accepted, pending: None });
        }
        let context = RequestContext {
            project,
            received_at: request.received_at,
            client_ip: request.client_ip,
        };
        let (batch, diagnostics) = run_cpu_heavy(text.as_str().len(), || {
            let reserve = |records: usize| {
                self.budget.grow_or_switch_lane(&mut reservation, text.owned_bytes() + records)
            };
            let (text_bytes, records_bytes_max) =
                (text.as_str().len(), self.limits.records_bytes_max);
            accept(&payload, context, text_bytes, records_bytes_max, self.buffers(), reserve)
        })?;
        drop(payload);
        drop(text);
        self.budget.grow_or_switch_lane(&mut reservation, batch.bytes())?;
        reservation.shrink(batch.bytes());
        let accepted = Accepted { quota_limited: &[], beacon };
        Ok(PreparedBatch {
            accepted,
            pending: Some(PendingAppend { batch, diagnostics, context, _reservation: reservation }),
        })
    }

    /// The second half of [`Capture::events`]: appends to the journal.
    pub async fn commit(&self, prepared: PreparedBatch<'_>) -> Result<Accepted, Rejection> {
        if let Some(PendingAppend { batch, diagnostics, context, _reservation }) = prepared.pending
        {
            self.append(batch, diagnostics, context).await?;
        }
        Ok(prepared.accepted)
    }

    /// The position that the next record of the journal gets.
    pub fn next_position(&self) -> u64 {
        self.journal.stats().next.as_u64()
    }

    /// Appends one record that the server itself produced (an edit of a person or group); returns its
    /// position.
    pub async fn append_record(&self, record: &[u8]) -> Result<u64, Rejection> {
        let mut batch = Batch::with_capacity(self.buffers(), 1, record.len());
        batch.push(record);
        let position = self.journal.append(batch).await.map_err(Rejection::JournalUnavailable)?;
        Ok(position.as_u64())
    }

    /// Appends the records, then publishes drops and warnings: a request that fails here is retried
    /// and must not count twice.
    pub(crate) async fn append(
        &self,
        batch: Batch,
        diagnostics: Diagnostics,
        context: RequestContext,
    ) -> Result<(), journal::Error> {
        let accepted = batch.len() as u64;
        self.journal.append(batch).await?;
        self.counters.add(accepted, &diagnostics.drops);
        self.warnings.send(
            context.project,
            context.received_at,
            diagnostics.warnings,
            &self.counters,
        );
        Ok(())
    }
}

/// Why a body could not be decoded.
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

/// Runs `decode` within the budget: the reservation grows with the output, and at the end to what
/// `needed` returns. If the output outgrows the pool of its expected size, the reservation is released
/// and `decode` runs again with a reservation for the largest body. So a waiting request holds
/// nothing, and a decompression bomb never fills the small lane.
pub async fn decode_within<'b, T>(
    budget: &'b Budget,
    expected: usize,
    text_bytes_max: usize,
    needed: impl Fn(&T) -> usize,
    mut decode: impl FnMut(&mut MemoryTracker<'_>) -> decode::Result<T>,
) -> Result<(Reservation<'b>, T), DecodeFailure> {
    let mut reservation = budget.reserve_decoded(expected).await?;
    let mut attempt = |reservation: &mut Reservation<'_>, bytes: usize| {
        let held_max = text_bytes_max.saturating_mul(DECODING_FACTOR_MAX).max(DECODING_BYTES_MIN);
        let mut too_large = false;
        let mut reserve = |bytes: usize| {
            too_large |= bytes > held_max;
            !too_large && reservation.grow(bytes).is_ok()
        };
        let decoded =
            run_cpu_heavy(bytes, || decode(&mut MemoryTracker::new(text_bytes_max, &mut reserve)));
        match decoded {
            Err(decode::Error::OutOfMemory) if too_large => Err(decode::Error::TooLarge),
            Ok(decoded) => match reservation.grow_buffers(needed(&decoded)) {
                Ok(()) => Ok(decoded),
                Err(Busy) => Err(decode::Error::OutOfMemory),
            },
            error => error,
        }
    };
    match attempt(&mut reservation, expected) {
        Err(decode::Error::OutOfMemory) => {}
        decoded => {
            let decoded = decoded?;
            return Ok((reservation, decoded));
        }
    }
    drop(reservation);
    let bytes = text_bytes_max.saturating_mul(LARGE_RETRY_FACTOR);
    let mut reservation = budget.reserve_decoded_large(bytes).await?;
    let decoded = attempt(&mut reservation, bytes)?;
    Ok((reservation, decoded))
}

/// Memory of a request besides its body: records are about as long as their JSON.
pub(crate) fn held_bytes(text: &JsonText<'_>) -> usize {
    text.owned_bytes() + text.as_str().len()
}

/// Runs CPU-bound `work` on `bytes` bytes; above [`CPU_HEAVY_BYTES`] with `block_in_place`, so that
/// other requests of the worker thread continue.
pub(crate) fn run_cpu_heavy<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let movable = || Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if bytes > CPU_HEAVY_BYTES && movable() { tokio::task::block_in_place(work) } else { work() }
}
