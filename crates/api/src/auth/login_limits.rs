//! Brute-force protection: limits on failed log-ins and on concurrent password checks.
//!
//! A failed attempt counts against three keys, each with a limit per 15 minutes: the e-mail address
//! and network together, the address over all networks, and the network over all addresses. Only
//! the first applies to a network from which the account has logged in before, so that attackers
//! cannot lock the owner out.
//!
//! Counters have a fixed size (`sketch`), so a flood of addresses evicts none.

mod sketch;

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use catalog::{hash_password, verify_password};
use model::{Clock, Timestamp};
use schemars::SchemaGenerator;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::body::{max_chars, not_blank};
use crate::http::client_address::client_address;
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{AppState, Error, Result};
use sketch::Sketch;

/// Failures of one e-mail address from one network.
const FAILURES_MAX: u32 = 5;
/// Failures of one e-mail address from all unknown networks together: bounds a distributed attack,
/// while an attacker on one network cannot use it up.
const UNKNOWN_NETWORKS_FAILURES_MAX: u32 = 20;
/// Failures of one network over all e-mail addresses; an office shares one IP address.
const NETWORK_FAILURES_MAX: u32 = 100;
const WINDOW_SECONDS: i64 = 15 * 60;
/// RFC 5321's maximum.
pub(crate) const EMAIL_CHARS_MAX: usize = 254;
const PASSWORD_CHARS_MIN: usize = 8;
/// Ours: far above any passphrase, far below what slows hashing down.
pub(crate) const PASSWORD_CHARS_MAX: usize = 1_000;
/// Argon2id takes 19 MiB and a CPU core for the duration of a check.
const CHECKS_AT_ONCE: usize = 2;
/// Reserved for known networks, so that attackers cannot starve them.
const KNOWN_CHECKS_AT_ONCE: usize = 1;
/// Requests waiting for a check. Further ones are rejected at once, since each holds a permit of
/// `requests_at_once_max`.
const CHECKS_WAITING_MAX: usize = 16;

/// Takes the place of the e-mail address in the counters of setup links; no address is blank.
const LINK: &str = "";

pub(crate) struct LoginLimiter {
    failures: Mutex<Failures>,
    unknown: CheckPool,
    known: CheckPool,
}

struct Failures {
    /// By e-mail address and network.
    pairs: Sketch,
    /// The same for known networks; attackers cannot add to it.
    known_pairs: Sketch,
    addresses: Sketch,
    networks: Sketch,
}

/// A concurrency limit for password checks.
struct CheckPool {
    checks: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The network of an attempt, and whether the account has logged in from it before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub network: Network,
    pub is_known: bool,
}

/// A client's IPv4 address or IPv6 /64: within a /64 a client chooses its address freely.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Network(IpAddr);

impl Network {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(prefix(address, 64).into()),
            address => Self(address),
        }
    }

    /// The IPv6 /48: one customer often has thousands of /64s to spray from.
    fn site(self) -> Self {
        match self.0 {
            IpAddr::V6(address) => Self(prefix(address, 48).into()),
            address => Self(address),
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn prefix(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> bits))
}

/// The peer's network, or the one that a trusted proxy forwards. `X-Forwarded-For` from anyone else
/// is ignored: an attacker would forge a new address for each attempt.
impl FromRequestParts<AppState> for Network {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        let peer = parts.extensions.get::<ConnectInfo<std::net::SocketAddr>>();
        let peer = peer.map_or(Ipv6Addr::UNSPECIFIED.into(), |ConnectInfo(peer)| peer.ip());
        let trusted = &app.settings.trusted_proxies;
        Ok(Self::of(match trusted.contains(peer) {
            true => client_address(&parts.headers, peer, trusted),
            false => peer,
        }))
    }
}

impl DescribeRequest for Network {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}

impl LoginLimiter {
    pub(crate) fn new() -> Self {
        let failures = Failures {
            pairs: Sketch::new(FAILURES_MAX, WINDOW_SECONDS),
            known_pairs: Sketch::new(FAILURES_MAX, WINDOW_SECONDS),
            addresses: Sketch::new(UNKNOWN_NETWORKS_FAILURES_MAX, WINDOW_SECONDS),
            networks: Sketch::new(NETWORK_FAILURES_MAX, WINDOW_SECONDS),
        };
        Self {
            failures: Mutex::new(failures),
            unknown: CheckPool::new(CHECKS_AT_ONCE),
            known: CheckPool::new(KNOWN_CHECKS_AT_ONCE),
        }
    }

    /// Verifies a password within the limits. Attempts are counted when their check begins, so that
    /// a flood of requests that never get a permit fills no counter.
    pub(crate) async fn check(
        &self,
        email: &str,
        (password, hash): (String, String),
        from: Origin,
        clock: &Clock,
    ) -> Result<bool> {
        self.check_not_blocked(email, from, clock.now())?;
        let pool = if from.is_known { &self.known } else { &self.unknown };
        let permit = pool.permit().await?;
        self.attempt(email, from, clock.now())?;
        let verified = CheckPool::run(permit, move || verify_password(&password, &hash)).await?;
        if verified {
            self.succeeded(email, from);
        }
        Ok(verified)
    }

    fn check_not_blocked(&self, email: &str, from: Origin, now: Timestamp) -> Result<()> {
        match self.failures().wait(&email.to_lowercase(), from, second(now)) {
            0 => Ok(()),
            wait => Err(Error::throttled(wait.unsigned_abs())),
        }
    }

    /// Counts an attempt as failed until it succeeds, so that concurrent attempts count too.
    fn attempt(&self, email: &str, from: Origin, now: Timestamp) -> Result<()> {
        let (email, second) = (email.to_lowercase(), second(now));
        let mut failures = self.failures();
        let wait = failures.wait(&email, from, second);
        if wait > 0 {
            return Err(Error::throttled(wait.unsigned_abs()));
        }
        failures.pairs_of(from).add(&(email.as_str(), from.network), second);
        if !from.is_known {
            failures.addresses.add(&email, second);
            failures.networks.add(&from.network.site(), second);
        }
        Ok(())
    }

    /// Resets the failures of the address from this network. The counters over all networks and all
    /// addresses only lose this attempt: the rest may be an attacker's.
    fn succeeded(&self, email: &str, from: Origin) {
        let email = email.to_lowercase();
        let mut failures = self.failures();
        failures.pairs_of(from).reset(&(email.as_str(), from.network));
        if !from.is_known {
            failures.addresses.decrement(&email);
            failures.networks.decrement(&from.network.site());
        }
    }

    /// Counts an attempt to use a setup link as failed until it succeeds. Attempts from other
    /// networks do not count: a token cannot be guessed, and an attacker could use them up.
    pub(crate) fn attempt_link(&self, from: Network, now: Timestamp) -> Result<LinkAttempt<'_>> {
        let second = second(now);
        let mut failures = self.failures();
        let pair = failures.pairs.wait(&(LINK, from), second);
        let wait = pair.max(failures.networks.wait(&from.site(), second));
        if wait > 0 {
            return Err(Error::throttled(wait.unsigned_abs()));
        }
        failures.pairs.add(&(LINK, from), second);
        failures.networks.add(&from.site(), second);
        Ok(LinkAttempt { limiter: self, from })
    }

    pub(crate) async fn hash(&self, password: String) -> Result<String> {
        let permit = self.known.permit().await?;
        Ok(CheckPool::run(permit, move || hash_password(&password)).await??)
    }

    fn failures(&self) -> std::sync::MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A counted attempt to use a setup link.
#[must_use]
pub(crate) struct LinkAttempt<'a> {
    limiter: &'a LoginLimiter,
    from: Network,
}

impl LinkAttempt<'_> {
    pub(crate) fn succeeded(self) {
        let mut failures = self.limiter.failures();
        failures.pairs.reset(&(LINK, self.from));
        failures.networks.decrement(&self.from.site());
    }
}

impl AppState {
    /// Whether the account with this e-mail address has logged in from the network before.
    pub(crate) async fn origin_of(&self, network: Network, email: &str) -> Result<Origin> {
        let is_known = self.catalog.sessions().knows_network(email, &network.to_string()).await?;
        Ok(Origin { network, is_known })
    }
}

impl CheckPool {
    fn new(at_once: usize) -> Self {
        Self { checks: Arc::new(Semaphore::new(at_once)), waiting: AtomicUsize::new(0) }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        let _waiting = Waiting::enter(&self.waiting).ok_or_else(busy)?;
        self.checks.clone().acquire_owned().await.map_err(|_| busy())
    }

    /// The work holds the permit: it continues after its request is cancelled.
    async fn run<T: Send + 'static>(
        permit: OwnedSemaphorePermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let work = move || {
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| busy())
    }
}

fn busy() -> Error {
    Error::unavailable("Too many concurrent log-ins. Try again in a moment.")
}

impl Failures {
    fn pairs_of(&mut self, from: Origin) -> &mut Sketch {
        if from.is_known { &mut self.known_pairs } else { &mut self.pairs }
    }

    /// Seconds until the next attempt is allowed.
    fn wait(&mut self, email: &str, from: Origin, second: i64) -> i64 {
        let pair = self.pairs_of(from).wait(&(email, from.network), second);
        if from.is_known {
            return pair;
        }
        let address = self.addresses.wait(&email, second);
        pair.max(address).max(self.networks.wait(&from.network.site(), second))
    }
}

fn second(now: Timestamp) -> i64 {
    now.as_micros().div_euclid(1_000_000)
}

/// Counts a waiting request until dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Option<Self> {
        let one = Self(count);
        // Dropping the guard decrements the count again.
        (count.fetch_add(1, Ordering::Relaxed) < CHECKS_WAITING_MAX).then_some(one)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Validates an e-mail address and trims it.
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

#[cfg(test)]
mod tests;
