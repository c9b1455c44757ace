//! Guessing passwords is slow: few tries an address, few checks at once.

use std::collections::HashMap;
use std::sync::Mutex;

use catalog::{hash_password, verify_password};
use model::Timestamp;
use tokio::sync::Semaphore;

use crate::body::{max_chars, not_blank};
use crate::{Error, Result};

const FAILURES_MAX: u32 = 5;
const FORGET_SECONDS: i64 = 15 * 60;
/// Addresses remembered at once; past it those with the fewest failures are forgotten first.
const ADDRESSES_MAX: usize = 10_000;
/// Longer addresses cannot receive mail (RFC 5321), and the throttle remembers them.
pub(crate) const EMAIL_CHARS_MAX: usize = 254;
const PASSWORD_CHARS_MIN: usize = 8;
/// Ours: far above any passphrase, far below what makes hashing slow.
pub(crate) const PASSWORD_CHARS_MAX: usize = 1_000;
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

    /// Counts a try as failed until it succeeds, so that tries side by side are counted too.
    pub(crate) fn attempt(&self, email: &str, now: Timestamp) -> Result<()> {
        let mut failures = self.locked();
        let email = email.to_lowercase();
        if !failures.contains_key(&email) {
            make_room(&mut failures, now);
        }
        let (count, last) = failures.entry(email).or_insert((0, now));
        let wait = FORGET_SECONDS - now.seconds_since(*last);
        if wait <= 0 {
            *count = 0;
        }
        if *count >= FAILURES_MAX {
            return Err(Error::throttled(wait.unsigned_abs()));
        }
        (*count, *last) = (*count + 1, now);
        Ok(())
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

/// An address as it is kept, once it looks like one.
pub(crate) fn check_email(text: &str) -> Result<String> {
    let email = text.trim();
    not_blank("email", email)?;
    max_chars("email", email, EMAIL_CHARS_MAX)?;
    let plain = !email.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    let parts = email.rsplit_once('@').filter(|(name, host)| {
        !name.is_empty() && !host.is_empty() && !host.starts_with('.') && !host.ends_with('.')
    });
    if !plain || parts.is_none() {
        return Err(Error::invalid("email", "invalid_input", "Enter a valid email address."));
    }
    Ok(email.to_owned())
}

pub(crate) fn check_password(attr: &str, password: &str) -> Result<()> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        let detail = format!("Ensure this field has at least {PASSWORD_CHARS_MIN} characters.");
        return Err(Error::invalid(attr, "min_length", detail));
    }
    max_chars(attr, password, PASSWORD_CHARS_MAX)
}

/// Few failures go before many: naming other addresses must not clear a guessed one.
fn make_room(failures: &mut HashMap<String, (u32, Timestamp)>, now: Timestamp) {
    if failures.len() < ADDRESSES_MAX {
        return;
    }
    failures.retain(|_, (_, last)| now.seconds_since(*last) < FORGET_SECONDS);
    let least = failures.iter().min_by_key(|(_, failed)| **failed).map(|(email, _)| email.clone());
    if let Some(least) = least
        && failures.len() >= ADDRESSES_MAX
    {
        failures.remove(&least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(logins: &Logins, email: &str, at: i64) -> bool {
        logins.attempt(email, Timestamp::from_micros(at * 1_000_000)).is_ok()
    }

    #[test]
    fn the_sixth_try_waits_a_quarter_of_an_hour_after_the_fifth() {
        let logins = Logins::new();
        for second in 0..5 {
            assert!(tries(&logins, "a@example.com", second));
        }
        assert!(!tries(&logins, "A@example.com", 5));
        assert!(tries(&logins, "b@example.com", 5));
        assert!(!tries(&logins, "a@example.com", 4 + FORGET_SECONDS - 1));
        assert!(tries(&logins, "a@example.com", 4 + FORGET_SECONDS));
    }

    #[test]
    fn success_forgets_the_failures_before_it() {
        let logins = Logins::new();
        for _ in 0..20 {
            assert!(tries(&logins, "a@example.com", 0));
            logins.succeeded("a@example.com");
        }
    }

    #[test]
    fn a_flood_of_addresses_keeps_the_one_that_is_guessed() {
        let logins = Logins::new();
        for _ in 0..FAILURES_MAX {
            assert!(tries(&logins, "guessed@example.com", 0));
        }
        for number in 0..ADDRESSES_MAX + 10 {
            assert!(tries(&logins, &format!("{number}@example.com"), 1));
        }
        assert!(logins.locked().len() <= ADDRESSES_MAX);
        assert!(!tries(&logins, "guessed@example.com", 2));
    }
}
