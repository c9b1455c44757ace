//! When nobody waits for an answer any more, and what its work may hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::{Error, Result};
use crate::memory::Account;

/// Rows that a call works on between two looks.
pub(crate) const ROWS_A_LOOK: usize = 64 * 1024;
/// Bytes of texts and arrays that it is given between two looks.
pub(crate) const BYTES_A_LOOK: usize = 16 * 1024 * 1024;

/// Once its flag is set, or its deadline is over, a program that runs ends with
/// [`Error::Stopped`]: every loop looks here each time it has done some work, not some time.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    deadline: Option<Instant>,
    looks: Arc<AtomicUsize>,
    /// For tests: the look that sets the flag.
    last_look: Option<usize>,
    account: Account,
}

impl Stop {
    pub fn new(flag: Arc<AtomicBool>) -> Self {
        Self { flag, ..Self::default() }
    }

    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// What is worked out is counted here.
    #[must_use]
    pub fn within(self, account: Account) -> Self {
        Self { account, ..self }
    }

    /// Sets the flag itself at this look, so that a test can count how much work follows.
    #[must_use]
    pub fn at_look(self, look: usize) -> Self {
        Self { last_look: Some(look), ..self }
    }

    /// How often it was looked at.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }

    pub fn account(&self) -> &Account {
        &self.account
    }

    pub fn check(&self) -> Result<()> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed);
        if self.last_look.is_some_and(|last| look >= last) {
            self.flag.store(true, Ordering::Relaxed);
        }
        let late = || self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.flag.load(Ordering::Relaxed) || late() { Err(Error::Stopped) } else { Ok(()) }
    }
}
