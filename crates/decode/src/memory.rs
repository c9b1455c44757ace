//! Memory that decoding takes, asked for before it is taken.
//!
//! A few kilobytes can become megabytes several times on the way: each step says how much it is
//! about to hold, and whoever runs the decoder may refuse. Buffers that one step leaves to the
//! next are never given back here, so the sum errs on the high side.

use crate::{Error, Result};

/// How much one request's decoding may hold, and what it holds.
pub struct MemoryTracker<'a> {
    /// No step yields more than this.
    pub(crate) bytes_max: usize,
    held: usize,
    hold: &'a mut dyn FnMut(usize) -> bool,
}

impl<'a> MemoryTracker<'a> {
    /// `hold` is told the sum that will be held, and says whether it may.
    pub fn new(bytes_max: usize, hold: &'a mut dyn FnMut(usize) -> bool) -> Self {
        Self { bytes_max, held: 0, hold }
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        self.held = self.held.saturating_add(bytes);
        if (self.hold)(self.held) { Ok(()) } else { Err(Error::OutOfMemory) }
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(bytes);
    }

    /// Room for `more` elements. While a buffer is copied into a larger one, both count.
    pub(crate) fn reserve<T>(&mut self, buffer: &mut Vec<T>, more: usize) -> Result<()> {
        let needed = buffer.len().saturating_add(more);
        if needed <= buffer.capacity() {
            return Ok(());
        }
        let old = buffer.capacity() * size_of::<T>();
        let capacity = needed.max(2 * buffer.capacity());
        self.take(capacity.saturating_mul(size_of::<T>()))?;
        buffer.reserve_exact(capacity - buffer.len());
        self.release(old);
        Ok(())
    }
}
