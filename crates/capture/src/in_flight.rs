//! A budget of bytes for requests on their way.
//!
//! It has two halves, one for bodies and one for what is made of them. A request waits for the
//! second while it holds the first, and for nothing while it holds the second, so requests
//! cannot block each other for good.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The unit of the budget: small enough for small requests, large enough for 32 bits.
const UNIT_BYTES: usize = 1_024;

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("too many bytes are on their way")]
pub struct Busy;

#[derive(Clone, Debug)]
pub struct InFlight {
    received: Half,
    decoded: Half,
    wait_max: Duration,
}

#[derive(Clone, Debug)]
struct Half {
    room: Arc<Semaphore>,
    units: u32,
}

/// Bytes set aside until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    permit: OwnedSemaphorePermit,
    half: Half,
}

impl InFlight {
    pub fn new(bytes_max: usize, wait_max: Duration) -> Self {
        let half = || {
            let units = u32::try_from(bytes_max / 2 / UNIT_BYTES).unwrap_or(u32::MAX).max(1);
            Half { room: Arc::new(Semaphore::new(units as usize)), units }
        };
        Self { received: half(), decoded: half(), wait_max }
    }

    /// Room for a body, to be asked for before it is read. Without a `Content-Length`, ask for
    /// the largest body allowed and shrink when it is there.
    pub async fn receive(&self, bytes: usize) -> Result<Reservation, Busy> {
        self.received.reserve(bytes, self.wait_max).await
    }

    /// Room for texts and records.
    pub(crate) async fn decode(&self, bytes: usize) -> Result<Reservation, Busy> {
        self.decoded.reserve(bytes, self.wait_max).await
    }

    /// Bytes set aside now.
    pub fn bytes(&self) -> usize {
        [&self.received, &self.decoded]
            .into_iter()
            .map(|half| half.units as usize - half.room.available_permits())
            .sum::<usize>()
            * UNIT_BYTES
    }
}

impl Half {
    /// What is larger than the whole budget gets all of it: it passes, but alone.
    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).clamp(1, self.units)
    }

    async fn reserve(&self, bytes: usize, wait_max: Duration) -> Result<Reservation, Busy> {
        let units = self.units(bytes);
        let permit = match self.room.clone().try_acquire_many_owned(units) {
            Ok(permit) => permit,
            Err(_) => {
                let waiting = self.room.clone().acquire_many_owned(units);
                timeout(wait_max, waiting).await.map_err(|_| Busy)?.map_err(|_| Busy)?
            }
        };
        Ok(Reservation { permit, half: self.clone() })
    }
}

impl Reservation {
    pub fn bytes(&self) -> usize {
        self.permit.num_permits() * UNIT_BYTES
    }

    /// Gives back what is not needed.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.permit.num_permits().saturating_sub(self.half.units(bytes) as usize);
        drop(self.permit.split(surplus));
    }

    /// Takes more without waiting: it holds something already.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Busy> {
        let missing = self.half.units(bytes).saturating_sub(self.permit.num_permits() as u32);
        if missing > 0 {
            let more = self.half.room.clone().try_acquire_many_owned(missing).map_err(|_| Busy)?;
            self.permit.merge(more);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1_024;

    #[tokio::test]
    async fn room_is_given_back_and_a_full_budget_is_busy() {
        let budget = InFlight::new(8 * KIB, Duration::ZERO);
        let mut first = budget.receive(3 * KIB + 1).await.unwrap();
        assert_eq!(budget.bytes(), 4 * KIB);
        assert_eq!(budget.receive(1).await.err(), Some(Busy));

        let mut text = budget.decode(1).await.unwrap();
        text.grow(2 * KIB).unwrap();
        assert_eq!((text.bytes(), budget.bytes()), (2 * KIB, 6 * KIB));
        let other = budget.decode(2 * KIB).await.unwrap();
        assert_eq!(text.grow(3 * KIB), Err(Busy));
        drop((text, other));

        first.shrink(KIB);
        assert_eq!(budget.bytes(), KIB);
        assert_eq!(budget.receive(3 * KIB).await.unwrap().bytes(), 3 * KIB);
        drop(first);
        assert_eq!(budget.bytes(), 0);
    }

    #[tokio::test]
    async fn what_exceeds_the_budget_passes_alone() {
        let budget = InFlight::new(8 * KIB, Duration::ZERO);
        let large = budget.receive(usize::MAX).await.unwrap();
        assert_eq!(large.bytes(), 4 * KIB);
        assert_eq!(budget.receive(1).await.err(), Some(Busy));
    }

    #[tokio::test]
    async fn a_request_waits_for_room() {
        let budget = InFlight::new(8 * KIB, Duration::from_secs(60));
        let first = budget.receive(4 * KIB).await.unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.receive(1).await.is_ok() }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waiting.await.unwrap());
    }
}
