//! Cancellation of a query: by its deadline, or when the caller has gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use eval::MemoryTracker;

use crate::error::{Error, Result};

/// Long loops that never yield check this.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation {
    flag: Arc<AtomicBool>,
    inner: eval::Cancellation,
}

impl Cancellation {
    pub(crate) fn new(deadline: Option<Instant>, memory: MemoryTracker) -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        let inner = eval::Cancellation::new(flag.clone()).with_memory(memory);
        let inner = match deadline {
            Some(deadline) => inner.with_deadline(deadline),
            None => inner,
        };
        Self { flag, inner }
    }

    pub(crate) fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// For expressions, which check the same flag.
    pub(crate) fn for_eval(&self) -> eval::Cancellation {
        self.inner.clone()
    }

    pub(crate) fn memory(&self) -> &MemoryTracker {
        self.inner.memory()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.inner.check().map_err(|_| Error::Timeout)
    }
}
