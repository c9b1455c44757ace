//! Accounting of the memory of decoding, reserved before it is allocated.
//!
//! A few kilobytes can expand to megabytes in several layers. Each layer reserves its output, and the
//! caller of the decoder may refuse. Buffers passed from one layer to the next are never released
//! here, so the sum is an upper bound.

use crate::{Error, Result};

/// The memory of decoding one request.
pub struct MemoryTracker<'a> {
    /// Upper bound of the output of one layer.
    pub(crate) bytes_max: usize,
    held: usize,
    reserve: &'a mut dyn FnMut(usize) -> bool,
}

impl<'a> MemoryTracker<'a> {
    /// `reserve` gets the new total in bytes and returns whether it is granted.
    pub fn new(bytes_max: usize, reserve: &'a mut dyn FnMut(usize) -> bool) -> Self {
        Self { bytes_max, held: 0, reserve }
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        self.held = self.held.saturating_add(bytes);
        if (self.reserve)(self.held) { Ok(()) } else { Err(Error::OutOfMemory) }
    }

    pub(crate) fn release(&mut self, bytes: usize) {
        self.held = self.held.saturating_sub(bytes);
    }

    /// Reserves and allocates `more` elements. While a buffer is reallocated, both copies count.
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
