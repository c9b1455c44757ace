//! When nobody waits for an answer any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Rows that a call works on between two looks.
pub(crate) const ROWS_A_LOOK: usize = 64 * 1024;
/// Bytes of texts and arrays that it is given between two looks.
pub(crate) const BYTES_A_LOOK: usize = 16 * 1024 * 1024;

/// Once its flag is set, a program that runs ends with [`Error::Stopped`], soon.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn new(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }
}
