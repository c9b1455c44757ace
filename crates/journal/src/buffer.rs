//! A pool of byte buffers for request bodies and records.
//!
//! Page faults of a fresh allocation would cost a tenth of accepting a batch. Large buffers are not
//! pooled: when one is freed, the pool purges the allocator.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use crate::lock;

/// Sizes that are pooled. The allocator caches smaller buffers itself; larger ones are too rare.
const POOLED_BYTES_MIN: usize = 16 << 10;
const POOLED_BYTES_MAX: usize = 256 << 10;
/// With [`POOLED_BYTES_MAX`] this bounds the pool to 8 MiB.
const POOL_BUFFERS_MAX: usize = 32;

/// Freed memory of this size is worth returning to the system at once.
const LARGE_BYTES: usize = 1 << 20;

/// The pool of one journal, shared with those who append to it. Clones share its buffers.
#[derive(Clone, Debug)]
pub struct BufferPool(Arc<PoolInner>);

#[derive(Debug)]
struct PoolInner {
    buffers: Mutex<Vec<Vec<u8>>>,
    purge: fn(),
}

impl Default for BufferPool {
    fn default() -> BufferPool {
        BufferPool::new(|| {})
    }
}

impl BufferPool {
    /// `purge` is [`crate::Settings::purge`].
    pub fn new(purge: fn()) -> BufferPool {
        BufferPool(Arc::new(PoolInner { buffers: Mutex::default(), purge }))
    }

    pub fn buffer(&self, capacity_bytes: usize) -> Buffer {
        let bytes =
            self.0.take(capacity_bytes).unwrap_or_else(|| Vec::with_capacity(capacity_bytes));
        Buffer { bytes, pool: Some(self.clone()) }
    }

    /// Purges the allocator if the caller freed `bytes` of other memory and that is large.
    pub fn report_freed(&self, bytes: usize) {
        if bytes >= LARGE_BYTES {
            (self.0.purge)();
        }
    }
}

impl PoolInner {
    fn take(&self, capacity_bytes: usize) -> Option<Vec<u8>> {
        if !(POOLED_BYTES_MIN..=POOLED_BYTES_MAX).contains(&capacity_bytes) {
            return None;
        }
        let mut pooled = lock(&self.buffers).pop()?;
        pooled.reserve(capacity_bytes);
        Some(pooled)
    }

    fn put(&self, mut bytes: Vec<u8>) {
        if !(POOLED_BYTES_MIN..=POOLED_BYTES_MAX).contains(&bytes.capacity()) {
            return;
        }
        bytes.clear();
        let mut pooled = lock(&self.buffers);
        if pooled.len() < POOL_BUFFERS_MAX {
            pooled.push(bytes);
        }
    }
}

/// A `Vec<u8>` whose allocation returns to its pool on drop. The default has no pool.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    pool: Option<BufferPool>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        let bytes = std::mem::take(&mut self.bytes);
        let capacity = bytes.capacity();
        pool.0.put(bytes);
        pool.report_freed(capacity);
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooled_buffers_come_back_empty_and_the_pool_is_bounded() {
        let pool = BufferPool::default();
        let many: Vec<Buffer> = (0..POOL_BUFFERS_MAX + 8)
            .map(|_| {
                let mut buffer = pool.buffer(POOLED_BYTES_MIN);
                assert!(buffer.is_empty() && buffer.capacity() >= POOLED_BYTES_MIN);
                buffer.extend_from_slice(b"something");
                buffer
            })
            .collect();
        drop(many);
        drop(pool.buffer(POOLED_BYTES_MAX + 1));
        let pooled = lock(&pool.0.buffers);
        assert_eq!(pooled.len(), POOL_BUFFERS_MAX);
        assert!(pooled.iter().all(|bytes| bytes.capacity() <= POOLED_BYTES_MAX));
    }
}
