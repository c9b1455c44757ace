//! When nobody waits for an answer any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use eval::MemoryTracker;

use crate::error::{Error, Result};

/// Long loops without a pause look here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    inner: eval::Cancellation,
}

impl Stop {
    pub(crate) fn new(deadline: Option<Instant>, account: MemoryTracker) -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        let inner = eval::Cancellation::new(flag.clone()).with_memory(account);
        let inner = match deadline {
            Some(deadline) => inner.with_deadline(deadline),
            None => inner,
        };
        Self { flag, inner }
    }

    pub(crate) fn now(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// For expressions, which look at the same flag.
    pub(crate) fn of_eval(&self) -> eval::Cancellation {
        self.inner.clone()
    }

    pub(crate) fn account(&self) -> &MemoryTracker {
        self.inner.memory()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.inner.check().map_err(|_| Error::Timeout)
    }
}
