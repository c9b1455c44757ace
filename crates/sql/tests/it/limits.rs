//! Limits of a statement: time, memory, the size of values and rows, nesting.

use std::time::Duration;

use hogql::PlaceholderValues;
use serde_json::json;
use sql::{Error, Limits, Paths};

use crate::support::{Store, f1};

const TIGHT: Limits = Limits {
    timeout: Duration::from_secs(2),
    memory_bytes: 32 << 20,
    threads: 2,
    paths: Paths::ALL,
    explain: false,
};

fn error_of(store: &Store, text: &str) -> Error {
    match store.run_with(text, &PlaceholderValues::default(), None, &TIGHT) {
        Ok(result) => panic!("{text} returned {} rows", result.rows.len()),
        Err(error) => error,
    }
}

#[test]
fn cross_joins_and_endless_scans_time_out() {
    let store = f1();
    let numbers = "select count() from numbers(1000000) a cross join numbers(1000000) b \
                   where a.number + b.number = 3";
    assert!(matches!(error_of(&store, numbers), Error::Timeout));
    let rows = "select sum(a.number) from numbers(100000000000) a";
    assert!(matches!(error_of(&store, rows), Error::Timeout));
}

#[test]
fn statements_that_buffer_rows_reach_the_memory_limit() {
    let store = f1();
    for text in [
        "select length(groupArray(number)) from numbers(20000000)",
        "select groupArray(toString(number)) from numbers(20000000)",
        "select number, count() from numbers(20000000) group by number",
        "select uniq(number) from numbers(50000000)",
        "select uniq(toString(number)) from numbers(50000000)",
        "select number from numbers(50000000) order by number % 1000, number desc limit 1 offset 40000000",
        "select distinct number from numbers(50000000) order by number desc limit 1",
        "select count() from numbers(20000000) a inner join numbers(20000000) b on a.number = b.number",
        "select number, row_number() over (order by number) from numbers(50000000) order by 2 desc",
        "with t as (select number from numbers(20000000)) select count() from t a inner join t b on a.number = b.number",
        "select quantile(0.5)(number) from numbers(50000000)",
        "select count() from numbers(10) where number in (select number from numbers(50000000))",
        "select argMax(toString(number), number) from numbers(50000000) group by number",
        "select repeat('x', 1000) as x from numbers(50000) order by x limit 50000",
    ] {
        let error = error_of(&store, text);
        assert!(matches!(error, Error::MemoryLimit | Error::Timeout), "{text}: {error:?}");
    }
}

#[test]
fn window_over_many_rows_reaches_its_limits() {
    let store = f1();
    let text =
        "select length(groupArray(number) over (order by number)) from numbers(300000) limit 1";
    assert!(matches!(error_of(&store, text), Error::MemoryLimit | Error::Timeout));
    let long_timeout = Limits { timeout: Duration::from_secs(60), ..TIGHT };
    let result = store.run_with(text, &PlaceholderValues::default(), None, &long_timeout);
    assert!(matches!(result, Err(Error::MemoryLimit)), "{result:?}");
}

#[test]
fn values_that_are_too_large_fail_the_statement() {
    let store = f1();
    for text in [
        "select repeat('x', 10000000000)",
        "select range(10000000000)",
        "select repeat(repeat('x', 100000), 100000) from numbers(10)",
        "select length(x) from (select repeat('x', 1000000) as x) a cross join numbers(100000) b",
        "select length((select repeat('x', 1000000))) from numbers(100000)",
        "select max(length(f)) from (select first_value(x) over () as f from (select if(number = 0, \
         repeat('x', 1000000), '') as x from numbers(100000)))",
        "select length(repeat(toString(number), 10000)) from numbers(8000)",
        "select count() from numbers(8000) where length(range(1000 + number)) = 0",
        "select max(length(x)) from (select repeat(toString(number), 10000) as x from numbers(8000))",
        "select max(length(x)) from (select repeat(toString(number), 1500) as x from numbers(8000))",
    ] {
        let error = error_of(&store, text);
        assert!(!matches!(error, Error::Warehouse(_)), "{text}: {error:?}");
    }
}

#[test]
fn array_join_may_repeat_a_wide_row_often() {
    let text = "select count(), sum(length(x)) from (select x, arrayJoin(range(5000)) as n from \
                (select repeat('x', 100000) as x))";
    f1().check(text, json!([[5000, 500000000]]));
}

#[test]
fn regex_matching_does_not_backtrack_exponentially() {
    let store = f1();
    let text = "select match(repeat('a', 5000), '(a*)*(a*)*(a*)*b'), match('x', '(')";
    let error = error_of(&store, text);
    assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    store.check("select match(repeat('a', 5000), '(a*)*(a*)*(a*)*b')", json!([[0]]));
}

#[test]
fn nested_subqueries_and_long_expressions_run() {
    let store = f1();
    let mut text = "select 1 as x".to_owned();
    for _ in 0..15 {
        text = format!("select x + 1 as x from ({text})");
    }
    store.check(&text, json!([[16]]));
    let sum = vec!["1"; 60].join(" + ");
    store.check(&format!("select {sum}"), json!([[60]]));
}

#[test]
fn common_table_expressions_that_are_read_twice_are_computed_once() {
    let store = f1();
    let mut text = "with t0 as (select 1 as x)".to_owned();
    for no in 1..20 {
        let last = no - 1;
        text += &format!(", t{no} as (select a.x as x from t{last} a cross join t{last} b)");
    }
    store.check(&format!("{text} select count() from t19"), json!([[1]]));
}

#[test]
fn scalar_subquery_with_several_rows_is_invalid() {
    let store = f1();
    let error = error_of(&store, "select (select event from events)");
    assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    store.check("select (select event from events where event = 'none')", json!([[null]]));
}

#[test]
fn timed_out_query_releases_its_read_view() {
    let store = f1();
    for text in [
        "select count() from numbers(1000000) a cross join numbers(1000000) b where a.number + b.number = 3",
        "select count() from numbers(1000000) a cross join numbers(1000000) b",
        "select count() from numbers(1000000) a inner join numbers(1000000) b on a.number + b.number = 3",
        "select count() from numbers(1000000) a left join numbers(1000000) b on a.number > b.number + 2000000",
        "select count() from (select arrayJoin(range(1000)) from numbers(1000000000))",
        "select max(n) from (select length(groupArray(number) over (order by number rows between 50000 preceding and current row)) as n from numbers(100000))",
    ] {
        let plan = hogql::plan(text, &PlaceholderValues::default(), &store.project, None).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let view = store.view();
        let limits = Limits {
            timeout: Duration::from_millis(500),
            memory_bytes: 1 << 30,
            threads: 2,
            paths: Paths::ALL,
            explain: false,
        };
        let result = runtime.block_on(sql::run(&plan, &view, &limits));
        assert!(matches!(result, Err(Error::Timeout | Error::MemoryLimit)), "{text}: {result:?}");
        // Hangs if the view is never released.
        while std::sync::Arc::strong_count(&view) > 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn dropping_the_future_cancels_the_query() {
    let store = f1();
    let plan = hogql::plan(
        "select count() from numbers(100000000000)",
        &PlaceholderValues::default(),
        &store.project,
        None,
    );
    let plan = plan.unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let limits = Limits { timeout: Duration::from_secs(3600), ..TIGHT };
    runtime.block_on(async {
        let view = store.view();
        let result = sql::run(&plan, &view, &limits);
        assert!(tokio::time::timeout(Duration::from_millis(200), result).await.is_err());
    });
}
