//! Compares every aggregate, alone and with combinators, with ClickHouse (chDB): over all rows, by
//! group, and over no rows.

use hogql::functions::{Arg, Function, FunctionKind, function_named, functions};
use serde_json::Value as Json;
use testing::clickhouse::{self, Batch, Outcome};

use crate::support::f1;

/// Rows that both engines make: signed and fractional numbers, strings, missing values, arrays, maps.
const ROWS: &str = "(select number as n, number % 2 as g, toInt64(number % 5) - 2 as i, number * 1.5 - 4 as f, \
    toString(number % 3) as s, nullIf(number % 3, 1) as m, range(number % 4) as a, \
    map(toString(number % 2), toInt64(number)) as k from numbers(23))";

/// Results that depend on an order, on estimates or on another engine's types.
const NOT_COMPARED: &[&str] = &[
    // The order of rows decides.
    "any",
    "anyLast",
    "anyHeavy",
    "topK",
    // ClickHouse's is not the weighted mean where the rows are many.
    "avgWeighted",
    // Their arguments are of another kind.
    "windowFunnel",
    "string_agg",
    "sumMap",
    // ClickHouse's bitmaps are bytes, and its line is a tuple with names: `fixtures/hogql` has them.
    "groupBitmapState",
    "groupBitmapAndState",
    "groupBitmapOrState",
    "groupBitmapXorState",
    "simpleLinearRegression",
];

fn argument(function: &Function, no: usize) -> &'static str {
    match (function.name, no, function.arg(no)) {
        ("avgWeighted", 1, _) => "n",
        ("argMin" | "argMax", 1, _) => "n",
        ("maxIntersections" | "maxIntersectionsPosition", 1, _) => "i + 2",
        ("groupBitmapAnd" | "groupBitmapOr" | "groupBitmapXor", ..) => "bitmapBuild(a)",
        (_, 1, Some(Arg::Number)) => "n * n % 7",
        (_, _, Some(Arg::Int)) => "n",
        (_, _, Some(Arg::Any)) => "i",
        _ => "f",
    }
}

/// Calls of an aggregate: each with the names of ClickHouse, which are the same.
fn calls(function: &Function) -> Vec<String> {
    let name = function.name;
    let parameters = match name {
        _ if name.starts_with("quantiles") => "(0.25, 0.9)",
        _ if name.starts_with("quantile") => "(0.75)",
        "groupArrayLast" | "groupArraySorted" => "(3)",
        _ => "",
    };
    let count = function.args.len();
    let args: Vec<&str> = (0..count).map(|no| argument(function, no)).collect();
    let plain = args.join(", ");
    let mut calls = vec![
        format!("{name}{parameters}({plain})"),
        format!("{name}If{parameters}({plain}, n > 3)"),
        format!("{name}If{parameters}({plain}, n > 99)"),
        format!("{name}OrNull{parameters}({plain})"),
        format!("{name}OrNullIf{parameters}({plain}, n > 99)"),
        format!("{name}OrDefault{parameters}({plain})"),
        format!("{name}OrDefaultIf{parameters}({plain}, n > 99)"),
    ];
    if count == 1 {
        calls.push(format!("{name}{parameters}(m)"));
        calls.push(format!("{name}Distinct{parameters}(m)"));
        calls.push(format!("{name}ForEach{parameters}(a)"));
        calls.push(format!("{name}ArgMin{parameters}({plain}, n)"));
        calls.push(format!("{name}ArgMax{parameters}({plain}, n % 4)"));
        // PostHog's `avgArray` and `medianArray` are null for no elements.
        let or_null = if matches!(name, "avg" | "median") { "OrNull" } else { "" };
        calls.push(format!("{name}Array{or_null}{parameters}(a)"));
        // Of no rows it has the bits of the elements' type, which is narrower there.
        if name != "groupBitAnd" {
            calls.push(format!("{name}Array{or_null}If{parameters}(a, n > 99)"));
        }
        calls.push(format!("{name}Map{parameters}(k)"));
    }
    calls
}

/// Sorts arrays: sets have no order, and ClickHouse keeps the last elements in a ring.
fn sort_arrays(value: &mut Json) {
    match value {
        Json::Array(items) => {
            items.iter_mut().for_each(sort_arrays);
            items.sort_by_cached_key(Json::to_string);
        }
        Json::Object(fields) => fields.values_mut().for_each(sort_arrays),
        _ => {}
    }
}

fn same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => {
            let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else { return a == b };
            a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1.0)
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => ours == theirs,
    }
}

#[test]
fn aggregates_and_combinators_agree_with_clickhouse() {
    let aggregates = functions().filter(|function| function.kind == FunctionKind::Aggregate);
    let aggregates = aggregates.filter(|function| !NOT_COMPARED.contains(&function.name));
    let mut texts = Vec::new();
    for call in aggregates.flat_map(calls) {
        texts.push(format!("select {call} as x from {ROWS}"));
        texts.push(format!("select g, {call} as x from {ROWS} group by g order by g"));
    }
    let queries = texts.iter().map(Into::into).collect();
    let batch = Batch { setup: Vec::new(), zone: "UTC", queries };
    let theirs: Vec<Outcome> = clickhouse::run_batches(&[batch]).join().unwrap().remove(0);
    let store = f1();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (text, theirs) in texts.iter().zip(theirs) {
        // ClickHouse refuses some combinations.
        let Ok(mut theirs) = theirs else { continue };
        let is_unordered = text.contains("groupUniqArray") || text.contains("groupArrayLast");
        match store.run(text) {
            Ok(ours) => {
                compared += 1;
                let mut ours = serde_json::json!(ours.rows);
                if is_unordered {
                    sort_arrays(&mut ours);
                    sort_arrays(&mut theirs);
                }
                if !same(&ours, &theirs) {
                    wrong.push(format!("{text}\n    ours   {ours}\n    theirs {theirs}"));
                }
            }
            Err(error) if error.to_string().contains("cannot take") => {}
            Err(error) => wrong.push(format!("{text}\n    {error:?}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 500, "{compared}");
    assert!(function_named("sumForEach").is_none(), "combinators are no functions of their own");
}

#[test]
fn combinators_nest_in_one_order_and_say_what_they_take() {
    let store = f1();
    store.check("select sumArrayIf([1, 2], event = 'a') from events", serde_json::json!([[9]]));
    store.check(
        "select avgWeighted(x, w) from (select arrayJoin([(1, 3), (5, 1)]) as t, t.1 as x, t.2 as w)",
        serde_json::json!([[2.0]]),
    );
    store.check("select countIfOrNull(event = 'none') from events", serde_json::json!([[null]]));
    store.check(
        "select maxOrDefault(length(event)) from events where event = 'none'",
        serde_json::json!([[0]]),
    );
    for text in [
        "select sumArray(1) from events",
        "select sumIfArray([1], [1]) from events",
        "select sumForEachArray([[1]]) from events",
        "select countArgMin(1) from events",
        "select lowerOrNull(event) from events",
    ] {
        assert!(store.run(text).is_err(), "{text}");
    }
}
