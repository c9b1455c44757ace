//! A pool of byte buffers for request bodies and records.
//!
//! Page faults of a fresh allocation would cost a tenth of accepting a batch. Large buffers are not
//! pooled; a hook reports when one is freed, so that the server can return memory to the system.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, OnceLock};

use crate::segment::lock;

/// Sizes that are pooled. The allocator caches smaller buffers itself; larger ones are too rare.
const POOLED_BYTES_MIN: usize = 16 << 10;
const POOLED_BYTES_MAX: usize = 256 << 10;
/// With [`POOLED_BYTES_MAX`] this bounds the pool to 8 MiB.
const POOL_BUFFERS_MAX: usize = 32;

/// Freed memory of this size is worth returning to the system at once.
const LARGE_BYTES: usize = 1 << 20;

static ON_LARGE_BUFFER_FREED: OnceLock<fn()> = OnceLock::new();

static POOL: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A `Vec<u8>` whose allocation returns to a process-wide pool on drop.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    pub fn with_capacity(bytes: usize) -> Buffer {
        if (POOLED_BYTES_MIN..=POOLED_BYTES_MAX).contains(&bytes) {
            let pooled = lock(&POOL).pop();
            if let Some(mut pooled) = pooled {
                pooled.reserve(bytes);
                return Buffer(pooled);
            }
        }
        Buffer(Vec::with_capacity(bytes))
    }

    /// Registers a hook that runs whenever a large buffer was freed. Only the first call has an
    /// effect.
    pub fn on_large_buffer_freed(call: fn()) {
        let _ = ON_LARGE_BUFFER_FREED.set(call);
    }

    /// Runs the hook if the caller freed `bytes` of other memory and that is large.
    pub fn report_freed(bytes: usize) {
        if bytes >= LARGE_BYTES {
            ON_LARGE_BUFFER_FREED.get().inspect(|call| call());
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        if bytes.capacity() >= LARGE_BYTES {
            drop(bytes);
            ON_LARGE_BUFFER_FREED.get().inspect(|call| call());
            return;
        }
        if !(POOLED_BYTES_MIN..=POOLED_BYTES_MAX).contains(&bytes.capacity()) {
            return;
        }
        bytes.clear();
        let mut pooled = lock(&POOL);
        if pooled.len() < POOL_BUFFERS_MAX {
            pooled.push(bytes);
        }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooled_buffers_come_back_empty_and_the_pool_is_bounded() {
        let many: Vec<Buffer> = (0..POOL_BUFFERS_MAX + 8)
            .map(|_| {
                let mut buffer = Buffer::with_capacity(POOLED_BYTES_MIN);
                assert!(buffer.is_empty() && buffer.capacity() >= POOLED_BYTES_MIN);
                buffer.extend_from_slice(b"something");
                buffer
            })
            .collect();
        drop(many);
        drop(Buffer::with_capacity(POOLED_BYTES_MAX + 1));
        let pooled = lock(&POOL);
        assert!(pooled.len() <= POOL_BUFFERS_MAX);
        assert!(pooled.iter().all(|bytes| bytes.capacity() <= POOLED_BYTES_MAX));
    }
}
