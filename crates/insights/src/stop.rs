//! How long a question may take, and how much memory.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Of questions that hold more there is one at a time: each keeps all processors busy anyway.
const MUCH_BYTES: usize = 8 << 20;
/// Between two looks at the clock while another one does.
const LOOK: Duration = Duration::from_millis(50);

/// Questions that run beside each other.
#[derive(Clone, Debug, Default)]
pub struct Crowd(Arc<(Mutex<bool>, Condvar)>);

impl Crowd {
    /// None if somebody else holds much after all this time.
    fn alone(&self, wait: Duration) -> Option<Alone> {
        let (taken, left) = &*self.0;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = left.wait_timeout_while(taken, wait, |taken| *taken);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        *taken = true;
        Some(Alone(self.clone()))
    }
}

/// The one of a crowd that may hold much.
#[derive(Debug)]
struct Alone(Crowd);

impl Drop for Alone {
    fn drop(&mut self) {
        // Before the next one takes as much.
        warehouse::much_is_freed();
        let (taken, left) = &*self.0.0;
        *taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        left.notify_one();
    }
}

/// Looked at between parts of the events.
#[derive(Debug)]
pub struct Stop {
    deadline: Option<Instant>,
    cancelled: Arc<AtomicBool>,
    memory_bytes_max: usize,
    memory_bytes: AtomicUsize,
    crowd: Crowd,
    /// Once it holds much, until it ends.
    alone: Mutex<Option<Alone>>,
}

impl Stop {
    /// Setting `cancelled` ends the work with [`Error::Time`].
    pub fn new(
        deadline: Option<Instant>,
        cancelled: Arc<AtomicBool>,
        memory_bytes_max: usize,
    ) -> Self {
        let (memory_bytes, crowd, alone) = Default::default();
        Self { deadline, cancelled, memory_bytes_max, memory_bytes, crowd, alone }
    }

    /// One at a time of these holds much, and others wait within their time.
    #[must_use]
    pub fn beside(self, crowd: &Crowd) -> Self {
        Self { crowd: crowd.clone(), ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.cancelled.load(Ordering::Relaxed) || late() { Err(Error::Time) } else { Ok(()) }
    }

    pub(crate) fn hold(&self) -> Held<'_> {
        Held { stop: self, bytes: 0 }
    }

    fn wait_to_hold(&self, bytes: usize) -> Result<()> {
        if bytes > MUCH_BYTES {
            let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
            while alone.is_none() {
                self.check()?;
                *alone = self.crowd.alone(LOOK);
            }
        }
        Ok(())
    }
}

/// Memory that is counted while something big is there.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    stop: &'a Stop,
    bytes: usize,
}

impl Held<'_> {
    /// Says how much it is by now.
    pub fn set(&mut self, bytes: usize) -> Result<()> {
        let counted = &self.stop.memory_bytes;
        let all = if bytes >= self.bytes {
            let more = bytes - self.bytes;
            counted.fetch_add(more, Ordering::Relaxed).saturating_add(more)
        } else {
            counted.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            0
        };
        self.bytes = bytes;
        if all > self.stop.memory_bytes_max {
            return Err(Error::Memory);
        }
        self.stop.wait_to_hold(all)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.stop.memory_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
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
    fn one_at_a_time_holds_much_and_others_wait_within_their_time() {
        let crowd = Crowd::default();
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
