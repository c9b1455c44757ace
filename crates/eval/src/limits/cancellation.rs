//! Cancellation of a running evaluation: a flag, a deadline, and the memory tracker of its query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::limits::memory::MemoryTracker;

/// Rows that a call processes between two cancellation checks.
pub(crate) const ROWS_PER_CHECK: usize = 64 * 1024;
/// Bytes of strings and arrays that a call reads between two cancellation checks.
pub(crate) const BYTES_PER_CHECK: usize = 16 * 1024 * 1024;

/// Once the flag is set or the deadline has passed, a running program ends with
/// [`Error::Cancelled`].
///
/// Every loop checks after an amount of work, not after an amount of time: cancellation points are
/// deterministic and tests can count them.
#[derive(Clone, Debug, Default)]
pub struct Cancellation {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
    checks: Arc<AtomicUsize>,
    /// For tests: the number of the check that sets the flag.
    cancel_at: Option<usize>,
    memory: MemoryTracker,
}

impl Cancellation {
    pub fn new(flag: Arc<AtomicBool>) -> Self {
        Self { flag, ..Self::default() }
    }

    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Charges everything that programs allocate to this tracker.
    #[must_use]
    pub fn with_memory(self, memory: MemoryTracker) -> Self {
        Self { memory, ..self }
    }

    /// Sets the flag at this check, so that a test can count how much work follows.
    #[must_use]
    pub fn cancel_at_check(self, check: usize) -> Self {
        Self { cancel_at: Some(check), ..self }
    }

    /// How many checks were made so far.
    pub fn checks(&self) -> usize {
        self.checks.load(Ordering::Relaxed)
    }

    pub fn memory(&self) -> &MemoryTracker {
        &self.memory
    }

    pub fn check(&self) -> Result<()> {
        let check = self.checks.fetch_add(1, Ordering::Relaxed);
        if self.cancel_at.is_some_and(|cancel_at| check >= cancel_at) {
            self.flag.store(true, Ordering::Relaxed);
        }
        let expired = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let cancelled = self.flag.load(Ordering::Relaxed) || expired();
        if cancelled { Err(Error::Cancelled) } else { Ok(()) }
    }
}
