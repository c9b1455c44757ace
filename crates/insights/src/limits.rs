//! Per-query limits: deadline, cancellation, memory, and admission control across queries.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use eval::{MemoryCharge, MemoryTracker, QueryMemoryPool};

use crate::{Error, Result};

/// Threads of one scan. Low, because several queries run at once.
pub(crate) const SCAN_THREADS: usize = 2;
/// A query that reserves more than this needs a permit of [`AdmissionControl`].
const MEMORY_HEAVY_BYTES: usize = 8 << 20;
/// How often a query that waits for a permit checks its deadline and its cancellation flag.
const PERMIT_POLL: Duration = Duration::from_millis(50);

/// Semaphore shared by all queries: at most N memory-heavy insights run at once. The default N is
/// the number of CPU cores divided by the threads of one scan, at least 1.
#[derive(Clone, Debug)]
pub struct AdmissionControl(Arc<AdmissionInner>);

#[derive(Debug)]
struct AdmissionInner {
    permits: Mutex<usize>,
    released: Condvar,
    purge: fn(),
}

impl Default for AdmissionControl {
    fn default() -> Self {
        Self::new(|| {})
    }
}

impl AdmissionControl {
    /// `purge` returns free pages of the allocator to the system; it runs when a memory-heavy query
    /// has ended, before the next one allocates as much.
    pub fn new(purge: fn()) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self::with_permits((cores / SCAN_THREADS).max(1), purge)
    }

    fn with_permits(permits: usize, purge: fn()) -> Self {
        let (permits, released) = (Mutex::new(permits), Condvar::new());
        Self(Arc::new(AdmissionInner { permits, released, purge }))
    }

    /// None if no permit becomes free within `timeout`.
    fn acquire(&self, timeout: Duration) -> Option<Permit> {
        let AdmissionInner { permits, released, .. } = &*self.0;
        let permits = permits.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = released.wait_timeout_while(permits, timeout, |permits| *permits == 0);
        let (mut permits, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        *permits -= 1;
        Some(Permit(self.clone()))
    }
}

/// Permit of one memory-heavy query, released on drop.
#[derive(Debug)]
struct Permit(AdmissionControl);

impl Drop for Permit {
    fn drop(&mut self) {
        let AdmissionInner { permits, released, purge } = &*self.0.0;
        purge();
        *permits.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        released.notify_one();
    }
}

/// Limits of one query. Scans check the deadline and the flag before each part of the events.
#[derive(Debug)]
pub struct QueryLimits {
    deadline: Option<Instant>,
    cancelled: Arc<AtomicBool>,
    memory: MemoryTracker,
    admission: AdmissionControl,
    /// Acquired when the query first becomes memory-heavy, and held until the query ends.
    permit: Mutex<Option<Permit>>,
}

impl QueryLimits {
    /// Setting `cancelled` ends the query with [`Error::Timeout`].
    pub fn new(
        deadline: Option<Instant>,
        cancelled: Arc<AtomicBool>,
        memory_bytes_max: usize,
    ) -> Self {
        let memory = QueryMemoryPool::new(usize::MAX).tracker(memory_bytes_max);
        let (admission, permit) = Default::default();
        Self { deadline, cancelled, memory, admission, permit }
    }

    /// Charges reservations to `memory` and its limit instead of `memory_bytes_max`.
    #[must_use]
    pub fn with_memory(self, memory: MemoryTracker) -> Self {
        Self { memory, ..self }
    }

    /// Shares the permits for memory-heavy queries with all queries that use `admission`.
    #[must_use]
    pub fn with_admission(self, admission: &AdmissionControl) -> Self {
        Self { admission: admission.clone(), ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.cancelled.load(Ordering::Relaxed) || late() { Err(Error::Timeout) } else { Ok(()) }
    }

    pub(crate) fn reserve(&self) -> MemoryReservation<'_> {
        MemoryReservation { limits: self, charge: self.memory.charge() }
    }

    /// Blocks until the query has a permit, if it holds more than [`MEMORY_HEAVY_BYTES`].
    fn admit(&self, reserved_bytes: usize) -> Result<()> {
        if reserved_bytes > MEMORY_HEAVY_BYTES {
            let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
            while permit.is_none() {
                self.check()?;
                *permit = self.admission.acquire(PERMIT_POLL);
            }
        }
        Ok(())
    }
}

/// Memory of one data structure, charged to the query until dropped.
#[derive(Debug)]
pub(crate) struct MemoryReservation<'a> {
    limits: &'a QueryLimits,
    charge: MemoryCharge,
}

impl MemoryReservation<'_> {
    /// Sets the reservation to `bytes`. Growth may block in admission control.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        let grows = bytes > self.charge.bytes();
        if !self.charge.set(bytes) {
            return Err(Error::MemoryLimit);
        }
        if grows { self.limits.admit(self.limits.memory.bytes()) } else { Ok(()) }
    }

    /// The charge alone, which may outlive the limits.
    pub fn into_charge(self) -> MemoryCharge {
        self.charge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_charged_until_they_are_dropped() {
        let limits = QueryLimits::new(None, Arc::default(), 100);
        let mut first = limits.reserve();
        first.resize(60).unwrap();
        let mut second = limits.reserve();
        assert!(matches!(second.resize(50), Err(Error::MemoryLimit)));
        drop(first);
        second.resize(90).unwrap();
        second.resize(10).unwrap();
        limits.reserve().resize(90).unwrap();
    }

    #[test]
    fn memory_heavy_query_waits_for_a_permit_until_its_deadline() {
        let admission = AdmissionControl::with_permits(1, || {});
        let soon = || Some(Instant::now() + PERMIT_POLL);
        let limits = |deadline| {
            QueryLimits::new(deadline, Arc::default(), usize::MAX).with_admission(&admission)
        };
        let first = limits(None);
        let mut reservation = first.reserve();
        reservation.resize(MEMORY_HEAVY_BYTES + 1).unwrap();
        reservation.resize(MEMORY_HEAVY_BYTES).unwrap();
        limits(None).reserve().resize(MEMORY_HEAVY_BYTES).unwrap();
        let second = limits(soon());
        assert!(matches!(second.reserve().resize(MEMORY_HEAVY_BYTES + 1), Err(Error::Timeout)));
        drop(reservation);
        drop(first);
        limits(None).reserve().resize(MEMORY_HEAVY_BYTES + 1).unwrap();
    }

    #[test]
    fn past_deadline_and_cancellation_flag_end_the_query() {
        let past = QueryLimits::new(Some(Instant::now()), Arc::default(), 0);
        assert!(matches!(past.check(), Err(Error::Timeout)));
        let cancelled = Arc::new(AtomicBool::new(false));
        let limits = QueryLimits::new(None, cancelled.clone(), 0);
        limits.check().unwrap();
        cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(limits.check(), Err(Error::Timeout)));
    }
}
