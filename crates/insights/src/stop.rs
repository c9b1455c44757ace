//! How long a question may take, and how much memory.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use eval::{MemoryCharge, MemoryTracker, QueryMemoryPool};

use crate::scan::THREADS;
use crate::{Error, Result};

/// Of questions that hold more, only as many go on as there are processors for their threads.
const MUCH_BYTES: usize = 8 << 20;
/// Between two looks at the clock while another one does.
const LOOK: Duration = Duration::from_millis(50);

/// Questions that run beside each other, with how many more may hold much.
#[derive(Clone, Debug)]
pub struct Crowd(Arc<(Mutex<usize>, Condvar)>);

impl Default for Crowd {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::of((processors / THREADS).max(1))
    }
}

impl Crowd {
    fn of(places: usize) -> Self {
        Self(Arc::new((Mutex::new(places), Condvar::new())))
    }

    /// None if all places are still taken after this time.
    fn place(&self, wait: Duration) -> Option<Taken> {
        let (places, left) = &*self.0;
        let places = places.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = left.wait_timeout_while(places, wait, |places| *places == 0);
        let (mut places, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        *places -= 1;
        Some(Taken(self.clone()))
    }
}

/// The place of one that may hold much.
#[derive(Debug)]
struct Taken(Crowd);

impl Drop for Taken {
    fn drop(&mut self) {
        // Before the next one takes as much.
        warehouse::much_is_freed();
        let (places, left) = &*self.0.0;
        *places.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        left.notify_one();
    }
}

/// Looked at between parts of the events.
#[derive(Debug)]
pub struct Stop {
    deadline: Option<Instant>,
    cancelled: Arc<AtomicBool>,
    account: MemoryTracker,
    crowd: Crowd,
    /// Once it holds much, until it ends.
    place: Mutex<Option<Taken>>,
}

impl Stop {
    /// Setting `cancelled` ends the work with [`Error::Time`].
    pub fn new(
        deadline: Option<Instant>,
        cancelled: Arc<AtomicBool>,
        memory_bytes_max: usize,
    ) -> Self {
        let account = QueryMemoryPool::new(usize::MAX).tracker(memory_bytes_max);
        let (crowd, place) = Default::default();
        Self { deadline, cancelled, account, crowd, place }
    }

    /// What it holds is counted here, within the account's bound.
    #[must_use]
    pub fn within(self, account: MemoryTracker) -> Self {
        Self { account, ..self }
    }

    /// Few of these hold much at a time, and others wait within their own.
    #[must_use]
    pub fn beside(self, crowd: &Crowd) -> Self {
        Self { crowd: crowd.clone(), ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.cancelled.load(Ordering::Relaxed) || late() { Err(Error::Time) } else { Ok(()) }
    }

    pub(crate) fn hold(&self) -> Held<'_> {
        Held { stop: self, charge: self.account.charge() }
    }

    fn wait_to_hold(&self, bytes: usize) -> Result<()> {
        if bytes > MUCH_BYTES {
            let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            while place.is_none() {
                self.check()?;
                *place = self.crowd.place(LOOK);
            }
        }
        Ok(())
    }
}

/// Memory that is counted while something big is there.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    stop: &'a Stop,
    charge: MemoryCharge,
}

impl Held<'_> {
    /// Says how much it is by now.
    pub fn set(&mut self, bytes: usize) -> Result<()> {
        let more = bytes > self.charge.bytes();
        if !self.charge.set(bytes) {
            return Err(Error::Memory);
        }
        if more { self.stop.wait_to_hold(self.stop.account.bytes()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_while_it_is_held() {
        let stop = Stop::new(None, Arc::default(), 100);
        let mut first = stop.hold();
        first.set(60).unwrap();
        let mut second = stop.hold();
        assert!(matches!(second.set(50), Err(Error::Memory)));
        drop(first);
        second.set(90).unwrap();
        second.set(10).unwrap();
        stop.hold().set(90).unwrap();
    }

    #[test]
    fn few_at_a_time_hold_much_and_others_wait_within_their_time() {
        let crowd = Crowd::of(1);
        let soon = || Some(Instant::now() + LOOK);
        let stop = |deadline| Stop::new(deadline, Arc::default(), usize::MAX).beside(&crowd);
        let first = stop(None);
        let mut held = first.hold();
        held.set(MUCH_BYTES + 1).unwrap();
        held.set(MUCH_BYTES).unwrap();
        stop(None).hold().set(MUCH_BYTES).unwrap();
        let second = stop(soon());
        assert!(matches!(second.hold().set(MUCH_BYTES + 1), Err(Error::Time)));
        drop(held);
        drop(first);
        stop(None).hold().set(MUCH_BYTES + 1).unwrap();
    }

    #[test]
    fn a_deadline_that_is_over_and_a_cancelled_question_stop() {
        let past = Stop::new(Some(Instant::now()), Arc::default(), 0);
        assert!(matches!(past.check(), Err(Error::Time)));
        let cancelled = Arc::new(AtomicBool::new(false));
        let stop = Stop::new(None, cancelled.clone(), 0);
        stop.check().unwrap();
        cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(stop.check(), Err(Error::Time)));
    }
}
