//! When nobody waits for an answer any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use eval::Account;

use crate::error::{Error, Result};

/// Long loops without a pause look here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    inner: eval::Stop,
}

impl Stop {
    pub(crate) fn new(deadline: Option<Instant>, account: Account) -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        let inner = eval::Stop::new(flag.clone()).within(account);
        let inner = match deadline {
            Some(deadline) => inner.until(deadline),
            None => inner,
        };
        Self { flag, inner }
    }

    pub(crate) fn now(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// For expressions, which look at the same flag.
    pub(crate) fn of_eval(&self) -> eval::Stop {
        self.inner.clone()
    }

    pub(crate) fn account(&self) -> &Account {
        self.inner.account()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.inner.check().map_err(|_| Error::Timeout)
    }
}
