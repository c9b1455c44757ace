//! Memory accounting: one pool for all queries of the process, one tracker per query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// One part in this many of the pool is reserved for small queries, so that a few large queries
/// cannot make the pool refuse all others.
const RESERVED_FRACTION: usize = 8;
/// A query is small while it holds at most one part in this many of the pool.
const SMALL_QUERY_FRACTION: usize = 16;

/// Bounds the memory of all queries together; cheap to clone.
#[derive(Clone, Debug)]
pub struct QueryMemoryPool(Arc<Counter>);

#[derive(Debug)]
struct Counter {
    bytes_max: usize,
    bytes: AtomicUsize,
    peak: AtomicUsize,
}

impl Default for Counter {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Counter {
    const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    fn grow(&self, more: usize, bytes_max: usize) -> bool {
        let grown = |bytes: usize| bytes.checked_add(more).filter(|total| *total <= bytes_max);
        let before = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown);
        if let Ok(before) = before {
            self.peak.fetch_max(before + more, Ordering::Relaxed);
        }
        before.is_ok()
    }

    fn shrink(&self, less: usize) {
        self.bytes.fetch_sub(less, Ordering::Relaxed);
    }
}

impl QueryMemoryPool {
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Counter::new(bytes_max)))
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// The high-water mark of [`Self::bytes`].
    pub fn peak_bytes(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    pub fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// A tracker for one query, which may hold at most `bytes_max` of the pool.
    pub fn tracker(&self, bytes_max: usize) -> MemoryTracker {
        let query = Counter::new(bytes_max);
        let (refused, refused_by_pool) = Default::default();
        MemoryTracker(Arc::new(Shared { pool: self.clone(), query, refused, refused_by_pool }))
    }
}

/// Counts the memory of one query on all its threads; cheap to clone.
#[derive(Clone, Debug)]
pub struct MemoryTracker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: QueryMemoryPool,
    query: Counter,
    /// Whether any request was refused.
    refused: AtomicBool,
    /// Whether a request was refused only because other queries filled the pool.
    refused_by_pool: AtomicBool,
}

impl Default for MemoryTracker {
    /// Unbounded.
    fn default() -> Self {
        QueryMemoryPool::new(usize::MAX).tracker(usize::MAX)
    }
}

impl MemoryTracker {
    /// Reserves this many bytes more; call it before allocating them. Returns false, and reserves
    /// nothing, if that would exceed the limit of the query or of the pool.
    #[must_use]
    pub fn try_grow(&self, bytes: usize) -> bool {
        let Shared { pool, query, refused, refused_by_pool } = &*self.0;
        if !query.grow(bytes, query.bytes_max) {
            refused.store(true, Ordering::Relaxed);
            return false;
        }
        let pool_max = pool.0.bytes_max;
        let query_bytes = query.bytes.load(Ordering::Relaxed);
        let small = query_bytes <= pool_max / SMALL_QUERY_FRACTION;
        let bytes_max = if small { pool_max } else { pool_max - pool_max / RESERVED_FRACTION };
        let fits = pool.0.grow(bytes, bytes_max);
        if !fits {
            query.shrink(bytes);
            refused.store(true, Ordering::Relaxed);
            // It would have fitted into an empty pool.
            refused_by_pool.fetch_or(query_bytes <= bytes_max, Ordering::Relaxed);
        }
        fits
    }

    /// Counts bytes that are already allocated; ignores both limits.
    pub fn grow(&self, bytes: usize) {
        self.0.query.grow(bytes, usize::MAX);
        self.0.pool.0.grow(bytes, usize::MAX);
    }

    pub fn shrink(&self, bytes: usize) {
        self.0.query.shrink(bytes);
        self.0.pool.0.shrink(bytes);
    }

    pub fn bytes(&self) -> usize {
        self.0.query.bytes.load(Ordering::Relaxed)
    }

    /// The high-water mark of [`Self::bytes`].
    pub fn peak_bytes(&self) -> usize {
        self.0.query.peak.load(Ordering::Relaxed)
    }

    pub fn bytes_max(&self) -> usize {
        self.0.query.bytes_max
    }

    /// Whether a request was refused because other queries held the pool: a retry may succeed.
    pub fn was_refused_by_pool(&self) -> bool {
        self.0.refused_by_pool.load(Ordering::Relaxed)
    }

    /// Whether any request was refused.
    pub fn was_refused(&self) -> bool {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// An empty charge against this tracker.
    pub fn charge(&self) -> MemoryCharge {
        MemoryCharge { tracker: self.clone(), bytes: 0 }
    }
}

/// Bytes charged to a tracker until this guard is dropped.
#[derive(Debug)]
pub struct MemoryCharge {
    tracker: MemoryTracker,
    bytes: usize,
}

impl MemoryCharge {
    /// Resizes the charge to `bytes`. Returns false, and changes nothing, past a limit.
    #[must_use]
    pub fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.tracker.try_grow(bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.tracker.shrink(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.tracker.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn try_grow_refuses_past_the_limit_of_the_query_and_of_the_pool() {
        let pool = QueryMemoryPool::new(1_600);
        let (first, second) = (pool.tracker(1_000), pool.tracker(1_000));
        assert!(!first.try_grow(1_001) && !first.was_refused_by_pool());
        assert!(first.try_grow(900) && second.try_grow(400));
        assert!(!second.try_grow(500) && second.was_refused_by_pool());
        assert_eq!((pool.bytes(), first.bytes(), second.bytes()), (1_300, 900, 400));
        first.shrink(900);
        assert!(second.try_grow(500));
        assert_eq!((pool.bytes(), pool.peak_bytes()), (900, 1_300));
    }

    #[test]
    fn pool_reserves_its_last_eighth_for_small_queries() {
        let pool = QueryMemoryPool::new(1_600);
        let (large, small) = (pool.tracker(1_600), pool.tracker(1_600));
        assert!(large.try_grow(1_400) && !large.try_grow(1));
        assert!(small.try_grow(100) && !small.try_grow(1));
    }

    #[test]
    fn dropping_a_charge_releases_its_bytes() {
        let tracker = QueryMemoryPool::new(100).tracker(50);
        let mut charge = tracker.charge();
        assert!(charge.set(40) && !charge.set(60) && charge.set(30));
        assert_eq!((charge.bytes(), tracker.bytes()), (30, 30));
        drop(charge);
        assert_eq!((tracker.bytes(), tracker.peak_bytes()), (0, 40));
    }
}
