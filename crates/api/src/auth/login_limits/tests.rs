use super::*;

const HOME: &str = "192.0.2.1";

fn attempt(logins: &LoginLimiter, email: &str, at: i64) -> bool {
    attempt_from(logins, email, unknown_network(HOME), at)
}

fn attempt_from(logins: &LoginLimiter, email: &str, from: Origin, at: i64) -> bool {
    logins.attempt(email, from, Timestamp::from_micros(at * 1_000_000)).is_ok()
}

fn unknown_network(address: &str) -> Origin {
    Origin { network: Network::of(address.parse().unwrap()), is_known: false }
}

fn known_network(address: &str) -> Origin {
    Origin { is_known: true, ..unknown_network(address) }
}

/// A distinct network for each number.
fn nth_network(number: u32) -> Origin {
    Origin { network: Network::of(std::net::Ipv4Addr::from_bits(number).into()), is_known: false }
}

#[test]
fn login_is_blocked_for_15_minutes_after_five_failures() {
    let logins = LoginLimiter::new();
    for second in 0..5 {
        assert!(attempt(&logins, "a@example.com", second));
    }
    assert!(!attempt(&logins, "A@example.com", 5));
    assert!(attempt(&logins, "b@example.com", 5));
    assert!(!attempt(&logins, "a@example.com", 4 + WINDOW_SECONDS - 1));
    assert!(attempt(&logins, "a@example.com", 4 + WINDOW_SECONDS));
}

#[test]
fn successful_login_resets_failures() {
    let logins = LoginLimiter::new();
    for _ in 0..20 {
        assert!(attempt(&logins, "a@example.com", 0));
        logins.succeeded("a@example.com", unknown_network(HOME));
    }
    for _ in 0..2 {
        for _ in 0..FAILURES_MAX {
            assert!(attempt(&logins, "a@example.com", 0));
        }
        logins.succeeded("a@example.com", unknown_network(HOME));
    }
}

#[test]
fn flood_of_addresses_does_not_evict_failure_counts() {
    let logins = LoginLimiter::new();
    for _ in 0..FAILURES_MAX {
        assert!(attempt(&logins, "guessed@example.com", 0));
    }
    // More than the CPU can check within the window.
    let refused = (0..60_000)
        .filter(|number| {
            !attempt_from(&logins, &format!("{number}@example.com"), nth_network(*number + 1), 1)
        })
        .count();
    assert!(refused < 60, "{refused} of 60000 share their cells with others");
    assert!(!attempt(&logins, "guessed@example.com", 2));
}

#[test]
fn attackers_cannot_lock_out_a_known_network() {
    let logins = LoginLimiter::new();
    for number in 0..1_000 {
        attempt_from(&logins, "a@example.com", nth_network(number), 0);
        // An attacker in the owner's own network.
        attempt_from(&logins, &format!("{number}@example.com"), unknown_network(HOME), 0);
    }
    assert!(!attempt_from(&logins, "a@example.com", unknown_network("198.51.100.7"), 1));
    assert!(!attempt_from(&logins, "a@example.com", unknown_network(HOME), 1));
    for _ in 0..FAILURES_MAX {
        assert!(attempt_from(&logins, "a@example.com", known_network(HOME), 1));
    }
    assert!(
        !attempt_from(&logins, "a@example.com", known_network(HOME), 1),
        "failures from a known network count"
    );
}

#[test]
fn unknown_networks_share_a_limit_per_address() {
    let logins = LoginLimiter::new();
    for _ in 0..1_000 {
        attempt(&logins, "a@example.com", 0);
    }
    let fresh = unknown_network("198.51.100.7");
    assert!(attempt_from(&logins, "a@example.com", fresh, 1));
    logins.succeeded("a@example.com", fresh);
    let guesses =
        (0..1_000).filter(|number| attempt_from(&logins, "a@example.com", nth_network(*number), 1));
    assert_eq!(guesses.count() as u32, UNKNOWN_NETWORKS_FAILURES_MAX - FAILURES_MAX);
    assert!(!attempt_from(&logins, "a@example.com", fresh, 1));
}

#[test]
fn failures_are_limited_per_network_and_ipv6_site() {
    let logins = LoginLimiter::new();
    let sprayed = (0..1_000).filter(|number| attempt(&logins, &format!("{number}@example.com"), 0));
    assert_eq!(sprayed.count() as u32, NETWORK_FAILURES_MAX);
    let logins = LoginLimiter::new();
    let sprayed = (0..1_000).filter(|number| {
        // A different /64 of one /48 each time.
        let from = unknown_network(&format!("2001:db8:1:{number:x}::{number:x}"));
        attempt_from(&logins, &format!("{number}@example.com"), from, 0)
    });
    assert_eq!(sprayed.count() as u32, NETWORK_FAILURES_MAX);
}

#[test]
fn ipv6_clients_are_grouped_by_64_bit_prefix() {
    let network = |text: &str| Network::of(text.parse().unwrap());
    assert_eq!(network("2001:db8:1:2::1"), network("2001:db8:1:2:ffff::9"));
    assert_ne!(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
    assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
}

#[tokio::test]
async fn concurrent_password_checks_are_bounded_after_cancellation() {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    let pool = Arc::new(CheckPool::new(CHECKS_AT_ONCE));
    let (started, starts) = mpsc::sync_channel(64);
    let mut ends = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..CHECKS_AT_ONCE + CHECKS_WAITING_MAX {
        let (end, ended) = mpsc::sync_channel::<()>(1);
        ends.push(end);
        let (pool, started) = (pool.clone(), started.clone());
        tasks.push(tokio::spawn(async move {
            let work = move || {
                RUNNING.fetch_add(1, Ordering::SeqCst);
                started.send(()).unwrap();
                let _ = ended.recv();
                RUNNING.fetch_sub(1, Ordering::SeqCst);
            };
            CheckPool::run(pool.permit().await?, work).await
        }));
        tokio::task::yield_now().await;
    }
    for _ in 0..CHECKS_AT_ONCE {
        starts.recv().unwrap();
    }
    assert_eq!(pool.waiting.load(Ordering::Relaxed), CHECKS_WAITING_MAX);
    assert!(pool.permit().await.is_err(), "the queue of waiting checks is full");
    // Cancelled requests leave their work running, which keeps its permit.
    for task in tasks {
        task.abort();
        let _ = task.await;
    }
    assert_eq!(pool.checks.available_permits(), 0);
    assert_eq!(RUNNING.load(Ordering::SeqCst), CHECKS_AT_ONCE);
    drop(ends);
    let _all = pool.checks.clone().acquire_many_owned(CHECKS_AT_ONCE as u32).await.unwrap();
    assert_eq!(RUNNING.load(Ordering::SeqCst), 0);
}
