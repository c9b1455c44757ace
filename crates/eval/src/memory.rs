//! Memory that queries hold: one pool for all queries of the process, one account for each query.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The last part of a pool is for accounts that hold little, so that a few large queries cannot
/// refuse all others.
const RESERVED_PART: usize = 8;
/// An account that holds less than this part of the pool holds little.
const LITTLE_PART: usize = 16;

/// What all queries together may hold; cheap to clone.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    bytes_max: usize,
    bytes: AtomicUsize,
    peak: AtomicUsize,
}

impl Default for Counted {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Counted {
    const fn new(bytes_max: usize) -> Self {
        Self { bytes_max, bytes: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    fn grow(&self, more: usize, bytes_max: usize) -> bool {
        let grown = |bytes: usize| bytes.checked_add(more).filter(|all| *all <= bytes_max);
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

impl Pool {
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Counted::new(bytes_max)))
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// The most that was held at a time.
    pub fn peak_bytes(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    pub fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// For one query, which may hold this much of it.
    pub fn account(&self, bytes_max: usize) -> Account {
        let own = Counted::new(bytes_max);
        let (refused, crowded_out) = Default::default();
        Account(Arc::new(Shared { pool: self.clone(), own, refused, crowded_out }))
    }
}

/// What one query holds, on all its threads; cheap to clone.
#[derive(Clone, Debug)]
pub struct Account(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: Pool,
    own: Counted,
    /// Whether more was asked for than it may have.
    refused: AtomicBool,
    /// Whether the pool was full when more was asked for.
    crowded_out: AtomicBool,
}

impl Default for Account {
    /// Without a bound.
    fn default() -> Self {
        Pool::new(usize::MAX).account(usize::MAX)
    }
}

impl Account {
    /// Counts so many bytes more, before they are allocated. False past a bound.
    #[must_use]
    pub fn try_grow(&self, bytes: usize) -> bool {
        let Shared { pool, own, refused, crowded_out } = &*self.0;
        if !own.grow(bytes, own.bytes_max) {
            refused.store(true, Ordering::Relaxed);
            return false;
        }
        let all = pool.0.bytes_max;
        let held = own.bytes.load(Ordering::Relaxed);
        let little = held <= all / LITTLE_PART;
        let bytes_max = if little { all } else { all - all / RESERVED_PART };
        let fits = pool.0.grow(bytes, bytes_max);
        if !fits {
            own.shrink(bytes);
            refused.store(true, Ordering::Relaxed);
            // Alone it would have fitted.
            crowded_out.fetch_or(held <= bytes_max, Ordering::Relaxed);
        }
        fits
    }

    /// Counts what is there already, past every bound.
    pub fn grow(&self, bytes: usize) {
        self.0.own.grow(bytes, usize::MAX);
        self.0.pool.0.grow(bytes, usize::MAX);
    }

    pub fn shrink(&self, bytes: usize) {
        self.0.own.shrink(bytes);
        self.0.pool.0.shrink(bytes);
    }

    pub fn bytes(&self) -> usize {
        self.0.own.bytes.load(Ordering::Relaxed)
    }

    pub fn peak_bytes(&self) -> usize {
        self.0.own.peak.load(Ordering::Relaxed)
    }

    pub fn bytes_max(&self) -> usize {
        self.0.own.bytes_max
    }

    /// Whether other queries held what it asked for: later there may be room.
    pub fn was_crowded_out(&self) -> bool {
        self.0.crowded_out.load(Ordering::Relaxed)
    }

    /// Whether it ever asked for more than there was.
    pub fn was_refused(&self) -> bool {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Nothing yet.
    pub fn charge(&self) -> Charge {
        Charge { account: self.clone(), bytes: 0 }
    }
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    bytes: usize,
}

impl Charge {
    /// Says how much it is from now on. False past a bound, and then it stays as it was.
    #[must_use]
    pub fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.account.try_grow(bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.account.shrink(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }

    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_refused_past_its_own_bound_and_past_the_bound_of_all() {
        let pool = Pool::new(1_600);
        let (first, second) = (pool.account(1_000), pool.account(1_000));
        assert!(!first.try_grow(1_001) && !first.was_crowded_out());
        assert!(first.try_grow(900) && second.try_grow(400));
        assert!(!second.try_grow(500) && second.was_crowded_out());
        assert_eq!((pool.bytes(), first.bytes(), second.bytes()), (1_300, 900, 400));
        first.shrink(900);
        assert!(second.try_grow(500));
        assert_eq!((pool.bytes(), pool.peak_bytes()), (900, 1_300));
    }

    #[test]
    fn large_queries_leave_the_last_of_the_pool_to_small_ones() {
        let pool = Pool::new(1_600);
        let (large, small) = (pool.account(1_600), pool.account(1_600));
        assert!(large.try_grow(1_400) && !large.try_grow(1));
        assert!(small.try_grow(100) && !small.try_grow(1));
    }

    #[test]
    fn a_charge_is_given_back_when_it_is_dropped() {
        let account = Pool::new(100).account(50);
        let mut charge = account.charge();
        assert!(charge.set(40) && !charge.set(60) && charge.set(30));
        assert_eq!((charge.bytes(), account.bytes()), (30, 30));
        drop(charge);
        assert_eq!((account.bytes(), account.peak_bytes()), (0, 40));
    }
}
