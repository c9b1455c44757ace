//! A budget of bytes for requests on their way.
//!
//! Small requests and large ones have lanes of their own, so that uploads never hold up an event.
//! A lane has two pools, one for bodies and one for what is made of them. A request waits for the
//! second while it holds the first, and for nothing while it holds the second.
//!
//! The bytes of a body count when they arrive: to announce a large one costs its sender nothing,
//! so it must cost others nothing. Bodies that have arrived in part could then wait for each
//! other; so one that finds no room may always finish, in room that is set aside.

use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// The unit of the budget: small enough for small requests, large enough for 32 bits.
const UNIT_BYTES: usize = 1_024;
/// The largest body of the small lane: what a browser's beacon may carry.
const SMALL_BYTES: usize = 64 * 1_024;
/// Large bodies take room in these steps, as frames would be too many.
const STEP_BYTES: usize = 256 * 1_024;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many bytes are on their way")]
pub struct Busy;

#[derive(Debug)]
pub struct InFlight {
    small: Lane,
    large: Lane,
    /// One large body at a time that found no room.
    finishing: Semaphore,
    finishing_bytes: usize,
    wait_max: Duration,
}

#[derive(Debug)]
struct Lane {
    received: Pool,
    decoded: Pool,
}

#[derive(Debug)]
struct Pool {
    room: Semaphore,
    units: u32,
}

/// Bytes set aside until it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    permit: SemaphorePermit<'a>,
    pool: &'a Pool,
}

/// A body on its way in. Its bytes are given back when it is dropped, which is when they are.
#[derive(Debug)]
pub struct Arriving<'a> {
    budget: &'a InFlight,
    bytes: usize,
    held: Option<Reservation<'a>>,
    finishing: Option<SemaphorePermit<'a>>,
}

impl InFlight {
    /// At most `bytes_max` are on their way. No body has more than `body_bytes_max`.
    pub fn new(bytes_max: usize, body_bytes_max: usize, wait_max: Duration) -> Self {
        let (small, decoded) = (bytes_max / 16, bytes_max / 2);
        let received = bytes_max.saturating_sub(2 * small + decoded + body_bytes_max);
        Self {
            small: Lane { received: Pool::new(small), decoded: Pool::new(small) },
            large: Lane { received: Pool::new(received), decoded: Pool::new(decoded) },
            finishing: Semaphore::new(1),
            finishing_bytes: body_bytes_max,
            wait_max,
        }
    }

    /// A body of which nothing has arrived yet.
    pub fn arriving(&self) -> Arriving<'_> {
        Arriving { budget: self, bytes: 0, held: None, finishing: None }
    }

    /// Room for texts and records.
    pub(crate) async fn decode(&self, bytes: usize) -> Result<Reservation<'_>, Busy> {
        let lane = if bytes <= 2 * SMALL_BYTES { &self.small } else { &self.large };
        lane.decoded.reserve(bytes, self.wait_max).await
    }

    /// Bytes set aside now.
    pub fn bytes(&self) -> usize {
        let finishing =
            if self.finishing.available_permits() == 0 { self.finishing_bytes } else { 0 };
        [&self.small, &self.large]
            .into_iter()
            .flat_map(|lane| [&lane.received, &lane.decoded])
            .map(|pool| pool.units as usize - pool.room.available_permits())
            .sum::<usize>()
            * UNIT_BYTES
            + finishing
    }
}

impl Pool {
    fn new(bytes: usize) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
        Self { room: Semaphore::new(units as usize), units }
    }

    /// What is larger than the whole pool gets all of it: it passes, but alone.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.units)
    }

    async fn reserve(&self, bytes: usize, wait_max: Duration) -> Result<Reservation<'_>, Busy> {
        let units = self.units(bytes);
        let permit = match self.room.try_acquire_many(units) {
            Ok(permit) => permit,
            Err(_) => {
                let waiting = self.room.acquire_many(units);
                timeout(wait_max, waiting).await.map_err(|_| Busy)?.map_err(|_| Busy)?
            }
        };
        Ok(Reservation { permit, pool: self })
    }
}

impl Reservation<'_> {
    /// Gives back what is not needed.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let surplus = self.permit.num_permits().saturating_sub(self.pool.units(bytes) as usize);
        drop(self.permit.split(surplus));
    }

    /// Takes more without waiting: it holds something already.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Busy> {
        let missing = self.missing(bytes);
        if missing > 0 {
            let more = self.pool.room.try_acquire_many(missing).map_err(|_| Busy)?;
            self.permit.merge(more);
        }
        Ok(())
    }

    fn missing(&self, bytes: usize) -> u32 {
        self.pool.units(bytes).saturating_sub(self.permit.num_permits() as u32)
    }
}

impl<'a> Arriving<'a> {
    /// Counts `bytes` more. Waits for their room, so that the sender has to.
    pub async fn add(&mut self, bytes: usize) -> Result<(), Busy> {
        self.bytes += bytes;
        if self.finishing.is_some() {
            return Ok(());
        }
        let budget = self.budget;
        let (pool, wanted) = match self.bytes <= SMALL_BYTES {
            true => (&budget.small.received, self.bytes),
            false => (&budget.large.received, self.bytes.next_multiple_of(STEP_BYTES)),
        };
        // On its way from the small lane to the large one it holds room in both.
        let here = self.held.take_if(|held| std::ptr::eq(held.pool, pool));
        let missing = here.as_ref().map_or(pool.units(wanted), |held| held.missing(wanted));
        let more = match pool.room.try_acquire_many(missing) {
            Ok(more) => Some(more),
            Err(_) => self.wait(pool, missing).await?,
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
            None => Reservation { permit: more, pool },
        });
        Ok(())
    }

    /// Gives all of it back: the body is not kept.
    pub fn forget(&mut self) {
        (self.held, self.finishing) = (None, None);
    }

    /// None when it may go on without room of its own.
    async fn wait(
        &mut self,
        pool: &'a Pool,
        missing: u32,
    ) -> Result<Option<SemaphorePermit<'a>>, Busy> {
        let large = std::ptr::eq(pool, &self.budget.large.received);
        let room = async {
            tokio::select! {
                room = pool.room.acquire_many(missing) => room.map(Some),
                turn = self.budget.finishing.acquire(), if large => {
                    self.finishing = Some(turn?);
                    Ok(None)
                }
            }
        };
        timeout(self.budget.wait_max, room).await.map_err(|_| Busy)?.map_err(|_| Busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1_024;
    const MIB: usize = 1_024 * KIB;

    #[tokio::test]
    async fn room_is_given_back_and_a_full_budget_is_busy() {
        let budget = InFlight::new(64 * KIB, MIB, Duration::ZERO);
        let mut first = budget.arriving();
        first.add(3 * KIB).await.unwrap();
        first.add(1).await.unwrap();
        assert_eq!(budget.bytes(), 4 * KIB);
        assert_eq!(budget.arriving().add(1).await, Err(Busy));

        let mut text = budget.decode(1).await.unwrap();
        text.grow(2 * KIB).unwrap();
        assert_eq!(budget.bytes(), 6 * KIB);
        let other = budget.decode(2 * KIB).await.unwrap();
        assert_eq!(text.grow(3 * KIB), Err(Busy));
        drop(other);
        text.grow(4 * KIB).unwrap();
        text.shrink(KIB);
        assert_eq!(budget.bytes(), 5 * KIB);
        drop((text, first));
        assert_eq!(budget.bytes(), 0);
        budget.arriving().add(1).await.unwrap();
    }

    #[tokio::test]
    async fn what_exceeds_a_pool_passes_alone() {
        let budget = InFlight::new(64 * KIB, MIB, Duration::ZERO);
        let large = budget.decode(usize::MAX / 2).await.unwrap();
        assert_eq!(budget.bytes(), 32 * KIB);
        assert_eq!(budget.decode(200 * KIB).await.err(), Some(Busy));
        drop(large);
        budget.decode(200 * KIB).await.unwrap();
    }

    #[tokio::test]
    async fn uploads_never_hold_up_events() {
        let budget = InFlight::new(16 * MIB, 4 * MIB, Duration::ZERO);
        let mut uploads: Vec<Arriving<'_>> = Vec::new();
        loop {
            let mut upload = budget.arriving();
            if upload.add(MIB).await.is_err() {
                break;
            }
            uploads.push(upload);
        }
        assert!(uploads.len() > 1);
        budget.arriving().add(SMALL_BYTES).await.unwrap();
    }

    #[tokio::test]
    async fn of_bodies_that_fill_the_budget_one_after_the_other_finishes() {
        const BODY: usize = 4 * MIB;
        let budget = InFlight::new(16 * MIB, BODY, Duration::from_secs(60));
        let upload = || async {
            let mut body = budget.arriving();
            for _ in 0..BODY / STEP_BYTES {
                body.add(STEP_BYTES).await.unwrap();
                tokio::task::yield_now().await;
            }
            assert!(budget.bytes() <= 16 * MIB);
        };
        let all = async {
            tokio::join!(upload(), upload(), upload(), upload(), upload(), upload(), upload())
        };
        timeout(Duration::from_secs(30), all).await.expect("uploads block each other");
        assert_eq!(budget.bytes(), 0);
    }
}
