//! When nobody waits for an answer any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Long loops without a pause look here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// For expressions, which look at the same flag.
    pub(crate) fn of_eval(&self) -> eval::Stop {
        eval::Stop::new(self.0.clone())
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Time) } else { Ok(()) }
    }
}
