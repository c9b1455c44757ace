//! Bytes of requests and records, in memory that is used again.
//!
//! Taking a batch's memory anew, page by page, would cost a tenth of taking the batch in. Large
//! ones are not kept, and whoever runs the server is told when one was freed.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, OnceLock};

use crate::segment::lock;

/// Smaller ones the allocator keeps itself, larger ones are too rare to be kept.
const KEPT_BYTES_MIN: usize = 16 << 10;
const KEPT_BYTES_MAX: usize = 256 << 10;
/// With the bound above, 8 MB at most.
const KEPT_MAX: usize = 32;

/// Worth returning to the system at once.
const LARGE_BYTES: usize = 1 << 20;

static WHEN_LARGE_IS_FREED: OnceLock<fn()> = OnceLock::new();

static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A `Vec<u8>` whose memory goes to the next that needs about as much.
#[derive(Debug, Default)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    pub fn with_capacity(bytes: usize) -> Buffer {
        if (KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&bytes) {
            let kept = lock(&KEPT).pop();
            if let Some(mut kept) = kept {
                kept.reserve(bytes);
                return Buffer(kept);
            }
        }
        Buffer(Vec::with_capacity(bytes))
    }

    /// Has `call` called whenever a large buffer was freed. Only the first counts.
    pub fn when_large_is_freed(call: fn()) {
        let _ = WHEN_LARGE_IS_FREED.set(call);
    }

    /// The same for memory that was no buffer.
    pub fn freed_elsewhere(bytes: usize) {
        if bytes >= LARGE_BYTES {
            WHEN_LARGE_IS_FREED.get().inspect(|call| call());
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut bytes = std::mem::take(&mut self.0);
        if bytes.capacity() >= LARGE_BYTES {
            drop(bytes);
            WHEN_LARGE_IS_FREED.get().inspect(|call| call());
            return;
        }
        if !(KEPT_BYTES_MIN..=KEPT_BYTES_MAX).contains(&bytes.capacity()) {
            return;
        }
        bytes.clear();
        let mut kept = lock(&KEPT);
        if kept.len() < KEPT_MAX {
            kept.push(bytes);
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
    fn a_buffer_is_empty_again_and_the_kept_are_bounded() {
        let many: Vec<Buffer> = (0..KEPT_MAX + 8)
            .map(|_| {
                let mut buffer = Buffer::with_capacity(KEPT_BYTES_MIN);
                assert!(buffer.is_empty() && buffer.capacity() >= KEPT_BYTES_MIN);
                buffer.extend_from_slice(b"something");
                buffer
            })
            .collect();
        drop(many);
        drop(Buffer::with_capacity(KEPT_BYTES_MAX + 1));
        let kept = lock(&KEPT);
        assert!(kept.len() <= KEPT_MAX);
        assert!(kept.iter().all(|bytes| bytes.capacity() <= KEPT_BYTES_MAX));
    }
}
