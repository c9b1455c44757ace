//! Guessing passwords is slow: few tries an address, few checks at once.

use std::collections::HashMap;
use std::sync::Mutex;

use catalog::{hash_password, verify_password};
use model::Timestamp;
use tokio::sync::Semaphore;

use crate::{Error, Result};

const FAILURES_MAX: u32 = 5;
const FORGET_SECONDS: i64 = 15 * 60;
/// Addresses remembered at once; past it the oldest failures are forgotten first.
const ADDRESSES_MAX: usize = 10_000;
/// Each check takes 19 MiB and a core for a while.
const CHECKS_AT_ONCE: usize = 2;

pub(crate) struct Logins {
    failures: Mutex<HashMap<String, (u32, Timestamp)>>,
    checks: Semaphore,
}

impl Logins {
    pub(crate) fn new() -> Self {
        Self { failures: Mutex::default(), checks: Semaphore::new(CHECKS_AT_ONCE) }
    }

    pub(crate) fn check(&self, email: &str, now: Timestamp) -> Result<()> {
        match self.locked().get(&email.to_lowercase()) {
            Some((count, last)) if *count >= FAILURES_MAX => {
                let wait = FORGET_SECONDS - now.seconds_since(*last);
                if wait > 0 { Err(Error::throttled(wait.unsigned_abs())) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn failed(&self, email: &str, now: Timestamp) {
        let mut failures = self.locked();
        if failures.len() >= ADDRESSES_MAX {
            failures.retain(|_, (_, last)| now.seconds_since(*last) < FORGET_SECONDS);
            let oldest = failures.iter().min_by_key(|(_, (_, last))| *last);
            if let Some(oldest) = oldest.map(|(email, _)| email.clone())
                && failures.len() >= ADDRESSES_MAX
            {
                failures.remove(&oldest);
            }
        }
        let entry = failures.entry(email.to_lowercase()).or_insert((0, now));
        if now.seconds_since(entry.1) >= FORGET_SECONDS {
            entry.0 = 0;
        }
        *entry = (entry.0 + 1, now);
    }

    pub(crate) fn succeeded(&self, email: &str) {
        self.locked().remove(&email.to_lowercase());
    }

    pub(crate) async fn verify(&self, password: String, hash: String) -> Result<bool> {
        self.off_thread(move || verify_password(&password, &hash)).await
    }

    pub(crate) async fn hash(&self, password: String) -> Result<String> {
        Ok(self.off_thread(move || hash_password(&password)).await??)
    }

    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let busy = || Error::unavailable("Too many log ins at once.");
        let _permit = self.checks.acquire().await.map_err(|_| busy())?;
        tokio::task::spawn_blocking(work).await.map_err(|_| busy())
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<String, (u32, Timestamp)>> {
        self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
