//! How long a question may take, and how much memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::{Error, Result};

/// Looked at between parts of the events.
#[derive(Debug)]
pub struct Stop {
    deadline: Option<Instant>,
    cancelled: Arc<AtomicBool>,
    memory_bytes_max: usize,
    memory_bytes: AtomicUsize,
}

impl Stop {
    /// Setting `cancelled` ends the work with [`Error::Time`].
    pub fn new(
        deadline: Option<Instant>,
        cancelled: Arc<AtomicBool>,
        memory_bytes_max: usize,
    ) -> Self {
        Self { deadline, cancelled, memory_bytes_max, memory_bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.cancelled.load(Ordering::Relaxed) || late() { Err(Error::Time) } else { Ok(()) }
    }

    pub(crate) fn hold(&self) -> Held<'_> {
        Held { stop: self, bytes: 0 }
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
        if all > self.stop.memory_bytes_max { Err(Error::Memory) } else { Ok(()) }
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
