//! Memory tracking: concurrent statements share one pool, and release all before the caller's guard
//! is dropped, after the last thread has ended.

use std::sync::mpsc;
use std::time::Duration;

use eval::{MemoryTracker, QueryMemoryPool};
use hogql::PlaceholderValues;
use sql::{Error, Limits, Paths};

use crate::support::f1;

const MEBI: usize = 1 << 20;

/// Reports on drop how much memory the query still holds.
struct ReportOnDrop(MemoryTracker, mpsc::SyncSender<usize>);

impl Drop for ReportOnDrop {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.bytes());
    }
}

fn run(
    text: &str,
    pool: &QueryMemoryPool,
    limits: &Limits,
) -> (Result<sql::ResultSet, Error>, MemoryTracker) {
    let store = f1();
    let plan = hogql::plan(text, &PlaceholderValues::default(), &store.project, None);
    let plan = plan.unwrap_or_else(|error| panic!("{text}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let memory = pool.tracker(limits.memory_bytes);
    let (sender, ended) = mpsc::sync_channel(1);
    let held = ReportOnDrop(memory.clone(), sender);
    let view = store.view();
    let query = sql::run_within(&plan, &view, limits, memory.clone(), held);
    let result = runtime.block_on(query);
    // Arrives when all threads have ended, with or without a result; hangs if they never do.
    assert_eq!(ended.recv(), Ok(0), "{text}: all memory is released before the guard");
    (result, memory)
}

#[test]
fn wide_projection_fails_at_its_memory_limit() {
    let columns = |one: &dyn Fn(usize) -> String| (0..1_500).map(one).collect::<Vec<_>>().join(",");
    let limits = Limits {
        timeout: Duration::from_secs(120),
        memory_bytes: 24 * MEBI,
        threads: 2,
        paths: Paths::ALL,
        explain: false,
    };
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
        let (result, memory) = run(&text, &pool, &limits);
        assert!(matches!(result, Err(Error::MemoryLimit)), "{}: {result:?}", &text[..60]);
        let peak = memory.peak_bytes();
        assert!(peak > MEBI && peak <= 24 * MEBI, "{}: {peak}", &text[..60]);
    }
}

#[test]
fn timed_out_statements_release_their_memory_and_guard() {
    let limits = Limits {
        timeout: Duration::from_millis(300),
        memory_bytes: 512 * MEBI,
        threads: 2,
        paths: Paths::ALL,
        explain: false,
    };
    for text in [
        "select sum(indexOf(range(1000000), number + 2000000)) from numbers(1000000)",
        "select sum(position(repeat('a', 2000000), toString(number))) from numbers(1000000)",
        "select sum(arrayCount(x -> x % 7 = number % 7, range(1000))) from numbers(100000000)",
        "select count() from numbers(1000000) where match(toString(number), concat('^', toString(number), '[a-z]{9}'))",
    ] {
        let pool = QueryMemoryPool::new(512 * MEBI);
        let (result, _) = run(text, &pool, &limits);
        assert!(matches!(result, Err(Error::Timeout)), "{text}: {result:?}");
        assert_eq!(pool.bytes(), 0, "{text}");
    }
}

#[test]
fn concurrent_queries_share_the_pool_and_report_its_exhaustion() {
    let limits = Limits {
        timeout: Duration::from_secs(60),
        memory_bytes: 24 * MEBI,
        threads: 2,
        paths: Paths::ALL,
        explain: false,
    };
    let pool = QueryMemoryPool::new(32 * MEBI);
    let other = pool.tracker(usize::MAX);
    assert!(other.try_grow(26 * MEBI));
    let text = "select length(groupArray(number)) from numbers(1000000)";
    let (result, memory) = run(text, &pool, &limits);
    assert!(matches!(result, Err(Error::MemoryLimit)), "{result:?}");
    assert!(memory.was_refused_by_pool());
    let (result, _) = run("select count() from events", &pool, &limits);
    assert!(result.is_ok(), "a small query still fits: {result:?}");
    other.shrink(26 * MEBI);
    let (result, memory) = run(text, &pool, &limits);
    assert!(result.is_ok() && !memory.was_refused_by_pool(), "{result:?}");
}
