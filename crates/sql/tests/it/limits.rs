//! What statements hold is counted in one pool, and what a caller lends them is held until the last
//! thread has ended.

use std::sync::mpsc;
use std::time::Duration;

use eval::{MemoryTracker, QueryMemoryPool};
use hogql::PlaceholderValues;
use sql::{Error, Limits};

use crate::support::f1;

const MEBI: usize = 1 << 20;

/// Says what the query still held when it was let go.
struct Held(MemoryTracker, mpsc::SyncSender<usize>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.bytes());
    }
}

fn ask(
    text: &str,
    pool: &QueryMemoryPool,
    limits: &Limits,
) -> (Result<sql::ResultSet, Error>, MemoryTracker) {
    let store = f1();
    let plan = hogql::plan(text, &PlaceholderValues::default(), &store.project, None);
    let plan = plan.unwrap_or_else(|error| panic!("{text}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let account = pool.tracker(limits.memory_bytes);
    let (sender, ended) = mpsc::sync_channel(1);
    let held = Held(account.clone(), sender);
    let world = store.world();
    let asked = sql::run_within(&plan, &world, limits, account.clone(), held);
    let found = runtime.block_on(asked);
    // Comes when all threads have ended, with or without an answer; hangs if they never do.
    assert_eq!(ended.recv(), Ok(0), "{text}: all is given back before its permit is");
    (found, account)
}

#[test]
fn a_wide_projection_is_refused_before_it_outgrows_its_account() {
    let columns = |one: &dyn Fn(usize) -> String| (0..1_500).map(one).collect::<Vec<_>>().join(",");
    let limits = Limits { timeout: Duration::from_secs(120), memory_bytes: 24 * MEBI, threads: 2 };
    for text in [
        format!(
            "select {} from numbers(1000)",
            columns(&|no| format!("repeat(toString(number), {})", 100 + no))
        ),
        format!("select {}", columns(&|no| format!("repeat('x', {})", 100_000 + no))),
        format!(
            "select {} from numbers(1000) order by 1",
            columns(&|no| format!("range(number + {no})"))
        ),
        format!("select {} from numbers(9000)", columns(&|no| format!("number + {no}"))),
        format!(
            "select {} from events",
            columns(&|no| format!("match(event, '([a-z]{{20}}|{no}){{9}}')"))
        ),
    ] {
        let pool = QueryMemoryPool::new(64 * MEBI);
        let (found, account) = ask(&text, &pool, &limits);
        assert!(matches!(found, Err(Error::MemoryLimit)), "{}: {found:?}", &text[..60]);
        let peak = account.peak_bytes();
        assert!(peak > MEBI && peak <= 24 * MEBI, "{}: {peak}", &text[..60]);
    }
}

#[test]
fn statements_that_never_end_let_go_of_all_they_were_lent_when_their_time_is_over() {
    let limits =
        Limits { timeout: Duration::from_millis(300), memory_bytes: 512 * MEBI, threads: 2 };
    for text in [
        "select sum(indexOf(range(1000000), number + 2000000)) from numbers(1000000)",
        "select sum(position(repeat('a', 2000000), toString(number))) from numbers(1000000)",
        "select sum(arrayCount(x -> x % 7 = number % 7, range(1000))) from numbers(100000000)",
        "select count() from numbers(1000000) where match(toString(number), concat('^', toString(number), '[a-z]{9}'))",
    ] {
        let pool = QueryMemoryPool::new(512 * MEBI);
        let (found, _) = ask(text, &pool, &limits);
        assert!(matches!(found, Err(Error::Timeout)), "{text}: {found:?}");
        assert_eq!(pool.bytes(), 0, "{text}");
    }
}

#[test]
fn queries_together_are_refused_past_the_pool_and_are_told_who_was_in_the_way() {
    let limits = Limits { timeout: Duration::from_secs(60), memory_bytes: 24 * MEBI, threads: 2 };
    let pool = QueryMemoryPool::new(32 * MEBI);
    let other = pool.tracker(usize::MAX);
    assert!(other.try_grow(26 * MEBI));
    let text = "select length(groupArray(number)) from numbers(1000000)";
    let (found, account) = ask(text, &pool, &limits);
    assert!(matches!(found, Err(Error::MemoryLimit)), "{found:?}");
    assert!(account.was_refused_by_pool());
    let (found, _) = ask("select count() from events", &pool, &limits);
    assert!(found.is_ok(), "a small query still fits: {found:?}");
    other.shrink(26 * MEBI);
    let (found, account) = ask(text, &pool, &limits);
    assert!(found.is_ok() && !account.was_refused_by_pool(), "{found:?}");
}
