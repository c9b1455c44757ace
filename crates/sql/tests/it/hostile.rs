//! Statements that ask for too much end in an error that says so.

use std::time::Duration;

use hogql::PlaceholderValues;
use serde_json::json;
use sql::{Error, Limits};

use crate::support::{Store, f1};

const TIGHT: Limits =
    Limits { timeout: Duration::from_secs(2), memory_bytes: 32 << 20, threads: 2 };

fn refusal(store: &Store, text: &str) -> Error {
    match store.ask_with(text, &PlaceholderValues::default(), None, &TIGHT) {
        Ok(answer) => panic!("{text} gave {} rows", answer.rows.len()),
        Err(error) => error,
    }
}

#[test]
fn everything_joined_with_everything_runs_out_of_time() {
    let store = f1();
    let numbers = "select count() from numbers(1000000) a cross join numbers(1000000) b \
                   where a.number + b.number = 3";
    assert!(matches!(refusal(&store, numbers), Error::Timeout));
    let rows = "select sum(a.number) from numbers(100000000000) a";
    assert!(matches!(refusal(&store, rows), Error::Timeout));
}

#[test]
fn what_must_be_held_is_bounded_by_memory() {
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
        let error = refusal(&store, text);
        assert!(matches!(error, Error::MemoryLimit | Error::Timeout), "{text}: {error:?}");
    }
}

#[test]
fn a_window_of_many_rows_stops_when_nobody_waits() {
    let store = f1();
    let text =
        "select length(groupArray(number) over (order by number)) from numbers(300000) limit 1";
    assert!(matches!(refusal(&store, text), Error::MemoryLimit | Error::Timeout));
    let patient = Limits { timeout: Duration::from_secs(60), ..TIGHT };
    let asked = store.ask_with(text, &PlaceholderValues::default(), None, &patient);
    assert!(matches!(asked, Err(Error::MemoryLimit)), "{asked:?}");
}

#[test]
fn values_that_are_too_large_end_in_an_error() {
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
        let error = refusal(&store, text);
        assert!(!matches!(error, Error::Warehouse(_)), "{text}: {error:?}");
    }
}

#[test]
fn a_wide_row_may_be_repeated_often() {
    let text = "select count(), sum(length(x)) from (select x, arrayJoin(range(5000)) as n from \
                (select repeat('x', 100000) as x))";
    f1().check(text, json!([[5000, 500000000]]));
}

#[test]
fn patterns_that_explode_do_not() {
    let store = f1();
    let text = "select match(repeat('a', 5000), '(a*)*(a*)*(a*)*b'), match('x', '(')";
    let error = refusal(&store, text);
    assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    store.check("select match(repeat('a', 5000), '(a*)*(a*)*(a*)*b')", json!([[0]]));
}

#[test]
fn nesting_is_bounded_before_it_runs() {
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
fn common_table_expressions_that_double_are_computed_once() {
    let store = f1();
    let mut text = "with t0 as (select 1 as x)".to_owned();
    for no in 1..20 {
        let last = no - 1;
        text += &format!(", t{no} as (select a.x as x from t{last} a cross join t{last} b)");
    }
    store.check(&format!("{text} select count() from t19"), json!([[1]]));
}

#[test]
fn a_subquery_that_stands_for_a_value_has_one_row() {
    let store = f1();
    let error = refusal(&store, "select (select event from events)");
    assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    store.check("select (select event from events where event = 'none')", json!([[null]]));
}

#[test]
fn a_query_that_ran_out_of_time_lets_go_of_its_world() {
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
        let world = store.world();
        let limits =
            Limits { timeout: Duration::from_millis(500), memory_bytes: 1 << 30, threads: 2 };
        let asked = runtime.block_on(sql::run(&plan, &world, &limits));
        assert!(matches!(asked, Err(Error::Timeout | Error::MemoryLimit)), "{text}: {asked:?}");
        // Hangs if it does not.
        while std::sync::Arc::strong_count(&world) > 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn an_answer_that_nobody_waits_for_is_given_up() {
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
        let world = store.world();
        let asked = sql::run(&plan, &world, &limits);
        assert!(tokio::time::timeout(Duration::from_millis(200), asked).await.is_err());
    });
}
