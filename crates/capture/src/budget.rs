//! One budget of bytes for everything that strangers make the server hold: bodies on their way,
//! what is decoded of them, what is parsed, large heads, read buffers and answers that nobody
//! reads. Bytes are taken before they are held.
//!
//! It is divided into pools, so that whoever fills one holds up nobody who needs another. Small
//! requests and large ones have lanes of their own, so that uploads never hold up an event; callers
//! with a key and callers without one have pools of their own, so that strangers never hold up a
//! member. A lane has two pools, one for bodies and one for what is made of them. A request waits
//! for the second while it holds the first, and for nothing while it holds the second.
//!
//! The bytes of a body count when they arrive: to announce a large one costs its sender nothing,
//! so it must cost others nothing. Bodies that have arrived in part could then wait for each
//! other; so one that finds no room may always finish, in room that is set aside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use journal::Buffer;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// The unit of the budget: small enough for small requests, large enough for 32 bits.
const UNIT_BYTES: usize = 1_024;
/// The largest body of the small lane: what a browser's beacon may carry.
const SMALL_BYTES: usize = 64 * 1_024;
/// What may be made of a small body, before it has to move to the large lane.
const SMALL_DECODED_BYTES_MAX: usize = 8 * SMALL_BYTES;
/// Large bodies take room in these steps, as frames would be too many.
const STEP_BYTES: usize = 256 * 1_024;

/// One management body takes at most this part of the room for their values.
const VALUES_PARTS: usize = 4;

/// How long a small request waits at most: the queue in front of a full pool must be gone before
/// its sender tries again.
const SMALL_WAIT_MAX: Duration = Duration::from_secs(1);
/// Requests that wait for one pool. More are told at once: a connection that waits cannot be closed
/// for another, so strangers must not make all of them wait.
const WAITING_MAX: u32 = 256;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many bytes are on their way")]
pub struct Busy;

/// Who sends a body, which decides what it is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// An SDK: events and questions about flags.
    Public,
    /// A management request whose key or session is good.
    Member,
    /// A management request that has shown no credentials yet.
    Unauthenticated,
}

/// What bytes are held for, in the words of the metrics.
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

    /// Its share of the budget, in 32nds; large bodies have the rest. Answers to members come on
    /// top, since what a key may ask for has bounds of its own.
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

const SHARES: usize = 32;

#[derive(Debug)]
pub struct Budget {
    pools: [Pool; PoolKind::ALL.len()],
    /// One large body at a time that found no room.
    finishing: Semaphore,
    finishing_bytes: usize,
    /// One management body at a time whose values take more than their part of the pool.
    many_values: Semaphore,
    wait_max: Duration,
}

/// A part of the budget; clones share it.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Share>);

#[derive(Debug)]
struct Share {
    room: Arc<Semaphore>,
    units: u32,
    waiting: AtomicU32,
    refused: AtomicU64,
}

/// One of those that wait.
struct Waiting<'a>(&'a AtomicU32);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes set aside until it is dropped.
#[derive(Debug)]
pub struct Reservation<'a> {
    permit: SemaphorePermit<'a>,
    pool: &'a Pool,
    /// More is not for this pool.
    bytes_max: usize,
    /// The most that was held of it in other memory than buffers, which tell of themselves.
    peak_bytes: usize,
}

/// Room for the values of a management body.
#[derive(Debug)]
pub struct ValuesReservation<'a> {
    _room: Reservation<'a>,
    _turn: Option<SemaphorePermit<'a>>,
}

/// What was decoded is freed before its room is, and returns to the system if it was large.
impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        Buffer::report_freed(self.peak_bytes);
    }
}

/// Bytes set aside until it is dropped, by whoever outlives the borrow of the budget.
#[derive(Debug)]
pub struct OwnedReservation {
    permit: OwnedSemaphorePermit,
}

/// A body on its way in. Its bytes are given back when it is dropped, which is when they are.
#[derive(Debug)]
pub struct BodyReservation<'a> {
    budget: &'a Budget,
    sender: Sender,
    /// It says itself that it is.
    is_large: bool,
    bytes: usize,
    held: Option<Reservation<'a>>,
    finishing: Option<SemaphorePermit<'a>>,
}

impl Budget {
    /// At most `bytes_max` are held. No body has more than `body_bytes_max`.
    pub fn new(bytes_max: usize, body_bytes_max: usize, wait_max: Duration) -> Self {
        let share = |one: PoolKind| bytes_max / SHARES * one.share();
        let others: usize = PoolKind::ALL
            .into_iter()
            .filter(|one| *one != PoolKind::MemberResponses)
            .map(share)
            .sum();
        let rest = bytes_max.saturating_sub(others + body_bytes_max);
        Self {
            pools: PoolKind::ALL.map(|one| match one {
                PoolKind::LargeBodies => Pool::new(rest),
                _ => Pool::new(share(one)),
            }),
            finishing: Semaphore::new(1),
            finishing_bytes: body_bytes_max,
            many_values: Semaphore::new(1),
            wait_max,
        }
    }

    pub fn pool(&self, of: PoolKind) -> &Pool {
        &self.pools[of as usize]
    }

    /// A body of which nothing has arrived yet, and of which its head announces `declared` bytes.
    pub fn receive_body(&self, sender: Sender, declared: usize) -> BodyReservation<'_> {
        let is_large = declared > SMALL_BYTES;
        BodyReservation { budget: self, sender, is_large, bytes: 0, held: None, finishing: None }
    }

    /// Room for texts, records and values. Waits for it, so nothing else may be waited for while
    /// it is held.
    pub async fn reserve_decoded(&self, bytes: usize) -> Result<Reservation<'_>, Busy> {
        if bytes > 2 * SMALL_BYTES {
            return self.reserve_decoded_large(bytes).await;
        }
        let small = self.pool(PoolKind::SmallDecoded);
        let mut reservation = small.reserve(bytes, self.wait_max.min(SMALL_WAIT_MAX)).await?;
        reservation.bytes_max = SMALL_DECODED_BYTES_MAX;
        Ok(reservation)
    }

    /// Room for what turned out to be larger than it looked.
    pub async fn reserve_decoded_large(&self, bytes: usize) -> Result<Reservation<'_>, Busy> {
        self.pool(PoolKind::LargeDecoded).reserve(bytes, self.wait_max).await
    }

    /// More room for what was decoded already, without waiting: what outgrows the small lane moves
    /// to the large one.
    pub(crate) fn enlarge<'b>(
        &'b self,
        room: &mut Reservation<'b>,
        bytes: usize,
    ) -> Result<(), Busy> {
        if room.take(bytes).is_ok() {
            return Ok(());
        }
        let large = self.pool(PoolKind::LargeDecoded);
        if !room.is_small() {
            return Err(Busy);
        }
        let permit = large.0.room.try_acquire_many(large.units(bytes));
        room.permit = permit.map_err(|_| large.refuse())?;
        (room.pool, room.bytes_max) = (large, usize::MAX);
        Ok(())
    }

    /// Room for what is parsed of a management body, which is held until it is answered. One body
    /// takes no more than its part, so that a slow answer does not hold up those to other members;
    /// of those whose values are larger there is one at a time.
    pub async fn reserve_values(&self, bytes: usize) -> Result<ValuesReservation<'_>, Busy> {
        let pool = self.pool(PoolKind::MemberValues);
        let part = pool.0.units as usize / VALUES_PARTS * UNIT_BYTES;
        let turn = match bytes > part {
            true => Some(pool.wait(self.wait_max, self.many_values.acquire()).await?),
            false => None,
        };
        let mut room = pool.reserve(bytes.min(part), self.wait_max).await?;
        room.peak_bytes = bytes;
        Ok(ValuesReservation { _room: room, _turn: turn })
    }

    /// Room for an answer to a member.
    pub async fn reserve_response(&self, bytes: usize) -> Result<OwnedReservation, Busy> {
        let pool = self.pool(PoolKind::MemberResponses);
        let room = pool.0.room.clone().acquire_many_owned(pool.units(bytes));
        Ok(OwnedReservation { permit: pool.wait(self.wait_max, room).await? })
    }

    /// Bytes set aside for requests and answers now; what connections hold stays with them.
    pub fn bytes(&self) -> usize {
        let finishing =
            if self.finishing.available_permits() == 0 { self.finishing_bytes } else { 0 };
        let requests = PoolKind::ALL.into_iter().filter(|one| *one != PoolKind::Connections);
        requests.map(|one| self.pool(one).bytes()).sum::<usize>() + finishing
    }
}

impl Pool {
    pub fn new(bytes: usize) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        let room = Arc::new(Semaphore::new(units as usize));
        Self(Arc::new(Share {
            room,
            units,
            waiting: AtomicU32::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Bytes set aside now.
    pub fn bytes(&self) -> usize {
        (self.0.units as usize - self.0.room.available_permits()) * UNIT_BYTES
    }

    /// How often there was no room, since the start.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Takes without waiting.
    pub fn try_reserve(&self, bytes: usize) -> Result<OwnedReservation, Busy> {
        let room = self.0.room.clone().try_acquire_many_owned(self.units(bytes));
        room.map(|permit| OwnedReservation { permit }).map_err(|_| self.refuse())
    }

    /// Others than the one that holds `own` units have taken more than half of it, or wait for it.
    fn is_contended(&self, own: usize) -> bool {
        self.0.room.available_permits() + own < self.0.units as usize / 2
            || self.0.waiting.load(Ordering::Relaxed) > 0
    }

    async fn wait<T, E>(
        &self,
        wait_max: Duration,
        room: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Busy> {
        let before = self.0.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.0.waiting);
        if before >= WAITING_MAX {
            return Err(self.refuse());
        }
        match timeout(wait_max, room).await {
            Ok(Ok(room)) => Ok(room),
            _ => Err(self.refuse()),
        }
    }

    fn refuse(&self) -> Busy {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        Busy
    }

    /// What is larger than the whole pool gets all of it: it passes, but alone.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.0.units)
    }

    async fn reserve(&self, bytes: usize, wait_max: Duration) -> Result<Reservation<'_>, Busy> {
        let units = self.units(bytes);
        let permit = match self.0.room.try_acquire_many(units) {
            Ok(permit) => permit,
            Err(_) => self.wait(wait_max, self.0.room.acquire_many(units)).await?,
        };
        Ok(Reservation { permit, pool: self, bytes_max: usize::MAX, peak_bytes: 0 })
    }
}

impl OwnedReservation {
    /// Adds what was taken from the same pool.
    pub fn merge(&mut self, other: Self) {
        self.permit.merge(other.permit);
    }
}

impl Reservation<'_> {
    /// Gives back what is not needed.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.permit.num_permits().saturating_sub(self.pool.units(bytes) as usize);
        drop(self.permit.split(surplus));
    }

    /// Whether it is room of the small lane, which what outgrows it may leave.
    pub fn is_small(&self) -> bool {
        self.bytes_max != usize::MAX
    }

    /// Takes more without waiting, as it holds something already, for other memory than buffers.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Busy> {
        self.take(bytes)?;
        self.peak_bytes = self.peak_bytes.max(bytes);
        Ok(())
    }

    /// The same for buffers.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Busy> {
        let missing = self.missing(bytes);
        if bytes > self.bytes_max {
            return Err(self.pool.refuse());
        }
        if missing > 0 {
            let more = self.pool.0.room.try_acquire_many(missing);
            self.permit.merge(more.map_err(|_| self.pool.refuse())?);
        }
        Ok(())
    }

    fn missing(&self, bytes: usize) -> u32 {
        self.pool.units(bytes).saturating_sub(self.permit.num_permits() as u32)
    }
}

impl<'a> BodyReservation<'a> {
    /// Counts `bytes` more. Waits for their room, so that the sender has to.
    pub async fn add(&mut self, bytes: usize) -> Result<(), Busy> {
        self.bytes += bytes;
        if self.finishing.is_some() {
            return Ok(());
        }
        let budget = self.budget;
        let small = self.bytes <= SMALL_BYTES;
        let wanted = if small { self.bytes } else { self.bytes.next_multiple_of(STEP_BYTES) };
        let (of, wanted) = match self.sender {
            Sender::Public if small && !self.is_large => (PoolKind::SmallBodies, wanted),
            Sender::Public => (PoolKind::LargeBodies, wanted),
            Sender::Member => (PoolKind::MemberBodies, self.bytes),
            Sender::Unauthenticated => (PoolKind::UnauthenticatedBodies, self.bytes),
        };
        let pool = budget.pool(of);
        // On its way from the small lane to the large one it holds room in both, and does not wait.
        let here = self.held.take_if(|held| std::ptr::eq(held.pool, pool));
        let missing = here.as_ref().map_or(pool.units(wanted), |held| held.missing(wanted));
        let more = match pool.0.room.try_acquire_many(missing) {
            Ok(more) => Some(more),
            Err(_) => self.wait(of, missing).await?,
        };
        let Some(more) = more else {
            self.held = here;
            return Ok(());
        };
        self.held = Some(match here {
            Some(mut held) => {
                held.permit.merge(more);
                held
            }
            // Bodies are buffers, which tell of themselves.
            None => Reservation { permit: more, pool, bytes_max: usize::MAX, peak_bytes: 0 },
        });
        Ok(())
    }

    /// Whether others may need its room soon, so that it must not be slow.
    pub fn is_contended(&self) -> bool {
        let is_contended =
            |held: &Reservation<'_>| held.pool.is_contended(held.permit.num_permits());
        self.finishing.is_some() || self.held.as_ref().is_some_and(is_contended)
    }

    /// Gives all of it back: the body is not kept.
    pub fn release(&mut self) {
        (self.held, self.finishing) = (None, None);
    }

    /// None when it may go on without room of its own.
    async fn wait(
        &mut self,
        of: PoolKind,
        missing: u32,
    ) -> Result<Option<SemaphorePermit<'a>>, Busy> {
        let (budget, large) = (self.budget, of == PoolKind::LargeBodies);
        let pool = budget.pool(of);
        if self.held.is_some() && large {
            // What it holds belongs to small bodies, so it must not wait with it.
            self.finishing = Some(budget.finishing.try_acquire().map_err(|_| pool.refuse())?);
            return Ok(None);
        }
        let room = async {
            tokio::select! {
                room = pool.0.room.acquire_many(missing) => room.map(Some),
                turn = budget.finishing.acquire(), if large => {
                    self.finishing = Some(turn?);
                    Ok(None)
                }
            }
        };
        let wait_max = match of {
            PoolKind::SmallBodies => budget.wait_max.min(SMALL_WAIT_MAX),
            _ => budget.wait_max,
        };
        pool.wait(wait_max, room).await
    }
}

#[cfg(test)]
mod tests;
