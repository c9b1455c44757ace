//! Admission control by memory: one byte budget (`capture_in_flight_bytes_max`) for all memory that
//! clients can make the server hold: bodies in flight, decoded and parsed bodies, long headers, read
//! buffers and unread responses. Bytes are reserved before they are allocated.
//!
//! The budget is divided into pools, so that exhausting one does not block requests of another. Small
//! and large public requests have separate lanes: uploads never delay single events. Authenticated
//! and unauthenticated management requests have separate pools. A lane has a pool for bodies and one
//! for decoded data. Deadlock is impossible by lock order: a request waits for decoded bytes while it
//! holds body bytes, and never waits while it holds decoded bytes.
//!
//! Body bytes are reserved as they arrive, not as `Content-Length` announces them: an announcement
//! costs the client nothing. Partially received bodies could then deadlock on each other, so one body
//! at a time may finish in an overflow area of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use journal::BufferPool;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Granularity of a semaphore permit; keeps the number of permits within 32 bits.
const UNIT_BYTES: usize = 1_024;
/// Largest body of the small lane: the limit of `navigator.sendBeacon`.
const SMALL_BYTES: usize = 64 * 1_024;
/// Decoded bytes of a small body; a larger one moves to the large lane.
const SMALL_DECODED_BYTES_MAX: usize = 8 * SMALL_BYTES;
/// Large bodies reserve in these steps: a reservation per frame would be too many.
const STEP_BYTES: usize = 256 * 1_024;

/// One management body may reserve the values' pool divided by this.
const VALUES_DIVISOR: usize = 4;

/// Timeout of small requests: the queue of a full pool must drain before SDKs retry.
const SMALL_WAIT_MAX: Duration = Duration::from_secs(1);
/// Requests that may wait for one pool; further ones are refused at once. A waiting connection cannot
/// be evicted, so clients must not be able to make all connections wait.
const WAITERS_MAX: u32 = 256;

/// No reservation was possible in time.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the memory budget of requests is exhausted")]
pub struct Busy;

/// The class of client, which selects the pool of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// An SDK: capture and flag evaluation.
    Public,
    /// A management request with a valid key or session.
    Member,
    /// A management request without valid credentials.
    Unauthenticated,
}

/// The pools of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    SmallBodies,
    LargeBodies,
    SmallDecoded,
    LargeDecoded,
    MemberBodies,
    UnauthenticatedBodies,
    MemberValues,
    Connections,
    PublicResponses,
    MemberResponses,
}

impl PoolKind {
    pub const ALL: [Self; 10] = [
        Self::SmallBodies,
        Self::LargeBodies,
        Self::SmallDecoded,
        Self::LargeDecoded,
        Self::MemberBodies,
        Self::UnauthenticatedBodies,
        Self::MemberValues,
        Self::Connections,
        Self::PublicResponses,
        Self::MemberResponses,
    ];

    /// The metrics' label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SmallBodies => "small_bodies",
            Self::LargeBodies => "large_bodies",
            Self::SmallDecoded => "small_decoded",
            Self::LargeDecoded => "large_decoded",
            Self::MemberBodies => "member_bodies",
            Self::UnauthenticatedBodies => "stranger_bodies",
            Self::MemberValues => "member_values",
            Self::Connections => "connections",
            Self::PublicResponses => "public_answers",
            Self::MemberResponses => "member_answers",
        }
    }

    /// Share of the budget in 32nds; large bodies get the rest. Responses to members come on top of
    /// the budget: they need a key, and have limits of their own.
    const fn share(self) -> usize {
        match self {
            Self::LargeBodies => 0,
            Self::MemberBodies | Self::UnauthenticatedBodies => 1,
            Self::SmallBodies
            | Self::SmallDecoded
            | Self::MemberValues
            | Self::Connections
            | Self::PublicResponses => 2,
            Self::MemberResponses => 8,
            Self::LargeDecoded => 10,
        }
    }
}

const SHARE_DENOMINATOR: usize = 32;

#[derive(Debug)]
pub struct Budget {
    pools: [Pool; PoolKind::ALL.len()],
    /// Permit of the one large body that may finish outside of its pool.
    overflow: Semaphore,
    overflow_bytes: usize,
    /// Permit of the one management body whose values exceed their part of the pool.
    oversized_values: Semaphore,
    wait_max: Duration,
}

/// A part of the budget; clones share its permits.
#[derive(Clone, Debug)]
pub struct Pool(Arc<PoolInner>);

#[derive(Debug)]
struct PoolInner {
    semaphore: Arc<Semaphore>,
    units: u32,
    waiters: AtomicU32,
    refused: AtomicU64,
    buffers: BufferPool,
}

/// Counts a waiter while it exists.
struct WaiterGuard<'a>(&'a AtomicU32);

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes reserved until it is dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    permit: SemaphorePermit<'a>,
    pool: &'a Pool,
    /// Upper bound of a reservation in this pool.
    bytes_max: usize,
    /// Peak of heap memory outside of [`journal::Buffer`]s, which report their own deallocation.
    peak_bytes: usize,
}

/// Reservation for the parsed values of a management body.
#[derive(Debug)]
pub struct ValuesReservation<'a> {
    _reservation: Reservation<'a>,
    _permit: Option<SemaphorePermit<'a>>,
}

/// Its memory is freed before the reservation; large amounts are returned to the system.
impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.pool.0.buffers.report_freed(self.peak_bytes);
    }
}

/// A [`Reservation`] that does not borrow the budget.
#[derive(Debug)]
pub struct OwnedReservation {
    permit: OwnedSemaphorePermit,
}

/// The reservation of a body that is being received. Drop it together with the body.
#[derive(Debug)]
pub struct BodyReservation<'a> {
    budget: &'a Budget,
    sender: Sender,
    /// By its `Content-Length`.
    is_large: bool,
    bytes: usize,
    held: Option<Reservation<'a>>,
    overflow: Option<SemaphorePermit<'a>>,
}

impl Budget {
    /// A budget of `bytes_max`, for bodies of at most `body_bytes_max`. Large memory that a
    /// reservation freed is reported to `buffers`.
    pub fn new(
        bytes_max: usize,
        body_bytes_max: usize,
        wait_max: Duration,
        buffers: &BufferPool,
    ) -> Self {
        let share = |kind: PoolKind| bytes_max / SHARE_DENOMINATOR * kind.share();
        let others: usize = PoolKind::ALL
            .into_iter()
            .filter(|kind| *kind != PoolKind::MemberResponses)
            .map(share)
            .sum();
        let rest = bytes_max.saturating_sub(others + body_bytes_max);
        Self {
            pools: PoolKind::ALL.map(|kind| match kind {
                PoolKind::LargeBodies => Pool::new(rest, buffers),
                _ => Pool::new(share(kind), buffers),
            }),
            overflow: Semaphore::new(1),
            overflow_bytes: body_bytes_max,
            oversized_values: Semaphore::new(1),
            wait_max,
        }
    }

    pub fn pool(&self, kind: PoolKind) -> &Pool {
        &self.pools[kind as usize]
    }

    /// Starts the reservation of a body; `declared` is its `Content-Length`, or 0.
    pub fn receive_body(&self, sender: Sender, declared: usize) -> BodyReservation<'_> {
        let is_large = declared > SMALL_BYTES;
        BodyReservation { budget: self, sender, is_large, bytes: 0, held: None, overflow: None }
    }

    /// Reserves decoded bytes (JSON, records, values), waiting if necessary. The holder must not wait
    /// for another reservation.
    pub async fn reserve_decoded(&self, bytes: usize) -> Result<Reservation<'_>, Busy> {
        if bytes > 2 * SMALL_BYTES {
            return self.reserve_decoded_large(bytes).await;
        }
        let small = self.pool(PoolKind::SmallDecoded);
        let mut reservation = small.reserve(bytes, self.wait_max.min(SMALL_WAIT_MAX)).await?;
        reservation.bytes_max = SMALL_DECODED_BYTES_MAX;
        Ok(reservation)
    }

    /// Reserves in the large lane, for a body that decoded to more than expected.
    pub async fn reserve_decoded_large(&self, bytes: usize) -> Result<Reservation<'_>, Busy> {
        self.pool(PoolKind::LargeDecoded).reserve(bytes, self.wait_max).await
    }

    /// Grows a reservation of decoded bytes without waiting. If it outgrows the small lane, it moves
    /// to the large one.
    pub(crate) fn grow_or_switch_lane<'b>(
        &'b self,
        reservation: &mut Reservation<'b>,
        bytes: usize,
    ) -> Result<(), Busy> {
        if reservation.grow_buffers(bytes).is_ok() {
            return Ok(());
        }
        let large = self.pool(PoolKind::LargeDecoded);
        if !reservation.is_small() {
            return Err(Busy);
        }
        let permit = large.0.semaphore.try_acquire_many(large.units(bytes));
        reservation.permit = permit.map_err(|_| large.refuse())?;
        (reservation.pool, reservation.bytes_max) = (large, usize::MAX);
        Ok(())
    }

    /// Reserves the parsed values of a management body, until its response. One body reserves at most
    /// its part of the pool, so that a slow request does not block other members; of bodies with
    /// larger values one is admitted at a time.
    pub async fn reserve_values(&self, bytes: usize) -> Result<ValuesReservation<'_>, Busy> {
        let pool = self.pool(PoolKind::MemberValues);
        let part = pool.0.units as usize / VALUES_DIVISOR * UNIT_BYTES;
        let permit = match bytes > part {
            true => Some(pool.wait(self.wait_max, self.oversized_values.acquire()).await?),
            false => None,
        };
        let mut reservation = pool.reserve(bytes.min(part), self.wait_max).await?;
        reservation.peak_bytes = bytes;
        Ok(ValuesReservation { _reservation: reservation, _permit: permit })
    }

    /// Reserves a response to a member.
    pub async fn reserve_response(&self, bytes: usize) -> Result<OwnedReservation, Busy> {
        let pool = self.pool(PoolKind::MemberResponses);
        let permit = pool.0.semaphore.clone().acquire_many_owned(pool.units(bytes));
        Ok(OwnedReservation { permit: pool.wait(self.wait_max, permit).await? })
    }

    /// Bytes reserved by requests and responses now, without the buffers of connections.
    pub fn bytes(&self) -> usize {
        let overflow = if self.overflow.available_permits() == 0 { self.overflow_bytes } else { 0 };
        let requests = PoolKind::ALL.into_iter().filter(|kind| *kind != PoolKind::Connections);
        requests.map(|kind| self.pool(kind).bytes()).sum::<usize>() + overflow
    }
}

impl Pool {
    fn new(bytes: usize, buffers: &BufferPool) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let semaphore = Arc::new(Semaphore::new(units as usize));
        Self(Arc::new(PoolInner {
            semaphore,
            units,
            waiters: AtomicU32::new(0),
            refused: AtomicU64::new(0),
            buffers: buffers.clone(),
        }))
    }

    /// Bytes reserved now.
    pub fn bytes(&self) -> usize {
        (self.0.units as usize - self.0.semaphore.available_permits()) * UNIT_BYTES
    }

    /// Reservations refused since the start.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Reserves without waiting.
    pub fn try_reserve(&self, bytes: usize) -> Result<OwnedReservation, Busy> {
        let permit = self.0.semaphore.clone().try_acquire_many_owned(self.units(bytes));
        permit.map(|permit| OwnedReservation { permit }).map_err(|_| self.refuse())
    }

    /// Whether holders other than that of `own` units use more than half of the pool, or wait.
    fn is_contended(&self, own: usize) -> bool {
        self.0.semaphore.available_permits() + own < self.0.units as usize / 2
            || self.0.waiters.load(Ordering::Relaxed) > 0
    }

    async fn wait<T, E>(
        &self,
        wait_max: Duration,
        permit: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Busy> {
        let before = self.0.waiters.fetch_add(1, Ordering::Relaxed);
        let _guard = WaiterGuard(&self.0.waiters);
        if before >= WAITERS_MAX {
            return Err(self.refuse());
        }
        match timeout(wait_max, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(self.refuse()),
        }
    }

    fn refuse(&self) -> Busy {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        Busy
    }

    /// Clamped to the pool: a larger request reserves all of it and runs alone.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.0.units)
    }

    async fn reserve(&self, bytes: usize, wait_max: Duration) -> Result<Reservation<'_>, Busy> {
        let units = self.units(bytes);
        let permit = match self.0.semaphore.try_acquire_many(units) {
            Ok(permit) => permit,
            Err(_) => self.wait(wait_max, self.0.semaphore.acquire_many(units)).await?,
        };
        Ok(Reservation { permit, pool: self, bytes_max: usize::MAX, peak_bytes: 0 })
    }
}

impl OwnedReservation {
    /// Merges a reservation of the same pool.
    pub fn merge(&mut self, other: Self) {
        self.permit.merge(other.permit);
    }
}

impl Reservation<'_> {
    /// Releases what exceeds `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.permit.num_permits().saturating_sub(self.pool.units(bytes) as usize);
        drop(self.permit.split(surplus));
    }

    /// Whether it belongs to the small lane.
    pub fn is_small(&self) -> bool {
        self.bytes_max != usize::MAX
    }

    /// Grows to `bytes` of heap memory, without waiting.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Busy> {
        self.grow_buffers(bytes)?;
        self.peak_bytes = self.peak_bytes.max(bytes);
        Ok(())
    }

    /// Grows to `bytes` of [`journal::Buffer`]s, without waiting.
    pub(crate) fn grow_buffers(&mut self, bytes: usize) -> Result<(), Busy> {
        let missing = self.missing(bytes);
        if bytes > self.bytes_max {
            return Err(self.pool.refuse());
        }
        if missing > 0 {
            let more = self.pool.0.semaphore.try_acquire_many(missing);
            self.permit.merge(more.map_err(|_| self.pool.refuse())?);
        }
        Ok(())
    }

    fn missing(&self, bytes: usize) -> u32 {
        self.pool.units(bytes).saturating_sub(self.permit.num_permits() as u32)
    }
}

impl<'a> BodyReservation<'a> {
    /// Reserves `bytes` more. Waiting here is the backpressure on the client.
    pub async fn add(&mut self, bytes: usize) -> Result<(), Busy> {
        self.bytes += bytes;
        if self.overflow.is_some() {
            return Ok(());
        }
        let budget = self.budget;
        let small = self.bytes <= SMALL_BYTES;
        let target_bytes = if small { self.bytes } else { self.bytes.next_multiple_of(STEP_BYTES) };
        let (kind, target_bytes) = match self.sender {
            Sender::Public if small && !self.is_large => (PoolKind::SmallBodies, target_bytes),
            Sender::Public => (PoolKind::LargeBodies, target_bytes),
            Sender::Member => (PoolKind::MemberBodies, self.bytes),
            Sender::Unauthenticated => (PoolKind::UnauthenticatedBodies, self.bytes),
        };
        let pool = budget.pool(kind);
        // While it moves from the small lane to the large one it holds both, and does not wait.
        let in_pool = self.held.take_if(|held| std::ptr::eq(held.pool, pool));
        let missing =
            in_pool.as_ref().map_or(pool.units(target_bytes), |held| held.missing(target_bytes));
        let more = match pool.0.semaphore.try_acquire_many(missing) {
            Ok(more) => Some(more),
            Err(_) => self.wait(kind, missing).await?,
        };
        let Some(more) = more else {
            self.held = in_pool;
            return Ok(());
        };
        self.held = Some(match in_pool {
            Some(mut held) => {
                held.permit.merge(more);
                held
            }
            // Bodies are `Buffer`s, so there is no heap peak.
            None => Reservation { permit: more, pool, bytes_max: usize::MAX, peak_bytes: 0 },
        });
        Ok(())
    }

    /// Whether other bodies compete for the pool; a slow client is then given up.
    pub fn is_contended(&self) -> bool {
        let is_contended =
            |held: &Reservation<'_>| held.pool.is_contended(held.permit.num_permits());
        self.overflow.is_some() || self.held.as_ref().is_some_and(is_contended)
    }

    /// Releases everything: the body is discarded.
    pub fn release(&mut self) {
        (self.held, self.overflow) = (None, None);
    }

    /// `None` if the body may finish in the overflow area.
    async fn wait(
        &mut self,
        kind: PoolKind,
        missing: u32,
    ) -> Result<Option<SemaphorePermit<'a>>, Busy> {
        let (budget, large) = (self.budget, kind == PoolKind::LargeBodies);
        let pool = budget.pool(kind);
        if self.held.is_some() && large {
            // It must not wait while it holds permits of the small lane.
            self.overflow = Some(budget.overflow.try_acquire().map_err(|_| pool.refuse())?);
            return Ok(None);
        }
        let permit = async {
            tokio::select! {
                permit = pool.0.semaphore.acquire_many(missing) => permit.map(Some),
                permit = budget.overflow.acquire(), if large => {
                    self.overflow = Some(permit?);
                    Ok(None)
                }
            }
        };
        let wait_max = match kind {
            PoolKind::SmallBodies => budget.wait_max.min(SMALL_WAIT_MAX),
            _ => budget.wait_max,
        };
        pool.wait(wait_max, permit).await
    }
}

#[cfg(test)]
mod tests;
