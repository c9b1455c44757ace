//! Results that are not compared with ClickHouse: JSON encoding, the project's time zone, nulls,
//! properties, errors and limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, StringArray};
use hogql::plan::{Expr, ExprKind};
use serde_json::{Value, json};

use crate::{NOW, column, compiled, context, evaluate};

fn check(cases: &[(&str, Value)]) {
    let mut wrong = Vec::new();
    for (expr, expected) in cases {
        match evaluate(expr) {
            Ok((result, _)) if result == *expected => {}
            result => wrong.push(format!("{expr}: {result:?} is not {expected}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// contract: query 3.1
#[test]
fn json_encoding_of_values_follows_the_contract() {
    check(&[
        ("toDate('2024-03-01')", json!("2024-03-01")),
        ("toDateTime('2024-03-01 10:00:00')", json!("2024-03-01T10:00:00+01:00")),
        ("toDateTime('2024-07-01 10:00:00')", json!("2024-07-01T10:00:00+02:00")),
        ("toDateTime('2024-03-01 10:00:00', 'UTC')", json!("2024-03-01T10:00:00Z")),
        (
            "toDateTime64('2024-03-01 10:00:00.120', 6, 'America/St_Johns')",
            json!("2024-03-01T10:00:00.12-03:30"),
        ),
        ("toDateTime64('2024-03-01 10:00:00', 6, 'UTC')", json!("2024-03-01T10:00:00Z")),
        ("1 / 0", Value::Null),
        ("0 / 0", Value::Null),
        ("1.5", json!(1.5)),
        ("18446744073709551615", json!(18_446_744_073_709_551_615u64)),
        ("true", json!(true)),
        ("1 = 1", json!(1)),
        ("[1, 2]", json!([1, 2])),
        ("(1, 'a', NULL)", json!([1, "a", null])),
        ("map('a', 1, 'b', 2)", json!({"a": 1, "b": 2})),
        ("map(1, 'x')", json!({"1": "x"})),
        ("[]", json!([])),
        (
            "toUUID('0191A3E4-5C9E-7B6A-9F00-0123456789AB')",
            json!("0191a3e4-5c9e-7b6a-9f00-0123456789ab"),
        ),
        ("toDecimal('1.50', 2)", json!(1.5)),
        ("NULL", Value::Null),
    ]);
}

// contract: query 5.5
#[test]
fn now_and_parsed_times_use_the_project_time_zone() {
    assert_eq!(NOW / 1_000_000, 1_715_985_015);
    check(&[
        ("now()", json!("2024-05-18T00:30:15+02:00")),
        ("now('UTC')", json!("2024-05-17T22:30:15Z")),
        ("today()", json!("2024-05-18")),
        ("yesterday()", json!("2024-05-17")),
        ("toStartOfDay(now())", json!("2024-05-18T00:00:00+02:00")),
        ("toStartOfDay(now('UTC'))", json!("2024-05-17T00:00:00Z")),
        ("toHour(now())", json!(0)),
        ("toHour(toTimeZone(now(), 'UTC'))", json!(22)),
        ("now() > '2024-05-17'", json!(1)),
        ("now() > '2024-05-18 00:30:16'", json!(0)),
        ("now() > '2024-05-17T22:30:16Z'", json!(0)),
        ("toDateTime('2024-03-01T10:00:00-05:00')", json!("2024-03-01T16:00:00+01:00")),
        ("toDate(now())", json!("2024-05-18")),
        ("toStartOfWeek(toDate('2024-05-18'))", json!("2024-05-12")),
        ("toStartOfWeek(toDate('2024-05-18'), 1)", json!("2024-05-13")),
    ]);
}

#[test]
fn week_start_follows_the_project_setting() {
    let context = eval::Context { week_starts_monday: true, ..(*context()).clone() };
    let expr = column("toStartOfWeek(toDate('2024-05-18'))", "").unwrap();
    let program = eval::Program::compile(&expr, &context.into(), &mut |_| None).unwrap();
    let array = program.run(&[], 1).unwrap();
    let result = eval::json_value(&array, program.ty(), 0, &crate::context().zone);
    assert_eq!(result, json!("2024-05-13"));
}

// contract: query 5.1
#[test]
fn logic_is_three_valued_and_comparisons_are_never_null() {
    check(&[
        ("NULL = 1", json!(0)),
        ("1 = NULL", json!(0)),
        ("toInt('x') = toInt('y')", json!(1)),
        ("toInt('x') != toInt('y')", json!(0)),
        ("toInt('x') >= 1", json!(0)),
        ("not (toInt('x') >= 1)", json!(1)),
        ("toInt('x') in (1, NULL)", json!(0)),
        ("NULL in (1)", json!(0)),
        ("1 in (1, NULL)", json!(1)),
        ("nullIf('a', 'a') like 'a'", json!(0)),
        ("nullIf('a', 'a') not like 'a'", json!(1)),
        ("nullIf('a', 'a') =~ 'a'", json!(0)),
        ("nullIf('a', 'a') !~ 'a'", json!(1)),
        ("match(nullIf('a', 'a'), 'a')", Value::Null),
        ("0 / 0 = 0 / 0", json!(0)),
        ("0 / 0 != 0 / 0", json!(1)),
        ("toInt('x') and 0", json!(0)),
        ("toInt('x') and 1", Value::Null),
        ("toInt('x') or 1", json!(1)),
        ("not toInt('x')", Value::Null),
    ]);
}

#[test]
fn unselected_branches_are_not_evaluated() {
    check(&[
        ("1 = 0 and intDiv(1, 0) = 1", json!(0)),
        ("1 = 1 or intDiv(1, 0) = 1", json!(1)),
        ("if(1 = 1, 7, intDiv(1, 0))", json!(7)),
        ("multiIf(1 = 0, 1, 1 = 1, 2, intDiv(1, 0) = 1, 3, intDiv(1, 0))", json!(2)),
        ("arrayMap(x -> if(x = 0, 0, intDiv(10, x)), [0, 2])", json!([0, 5])),
        ("arrayFilter(x -> x != 0 and intDiv(10, x) = 5, [0, 2, 3])", json!([2])),
    ]);
}

#[test]
fn lambdas_capture_enclosing_columns_and_parameters() {
    check(&[
        ("arrayMap(x -> arrayMap(y -> x * 10 + y, [1, 2]), [3, 4])", json!([[31, 32], [41, 42]])),
        ("arrayMap(x -> arrayFilter(y -> y > x, [1, 2, 3]), [1, 2])", json!([[2, 3], [3]])),
        ("arrayMap(x -> length([7, 8]) + x, [1, 2])", json!([3, 4])),
        ("arrayMap(x -> arraySum(y -> x * y, range(x)), [3, 4])", json!([9, 24])),
        ("arrayMap((x, y) -> (y, x), [1], ['a'])", json!([["a", 1]])),
        ("arrayExists(x -> x in (1, 2), [5, 2])", json!(1)),
    ]);
}

#[test]
fn null_strings_split_to_empty_arrays() {
    check(&[
        ("splitByChar(',', nullIf('a', 'a'))", json!([])),
        ("JSONExtractArrayRaw(nullIf('a', 'a'))", json!([])),
        ("length(splitByChar(',', nullIf('a', 'a')))", json!(0)),
        ("extractAll(NULL, 'a')", json!([])),
    ]);
}

#[test]
fn evaluation_errors_have_messages_and_spans() {
    for (expr, message, source) in [
        ("now() > 'yesterday'", "'yesterday' cannot be read as", "'yesterday'"),
        ("toDate('2024-01-01') = '2024-13-01'", "'2024-13-01' cannot be read as", "'2024-13-01'"),
        ("'a' =~ '('", "Bad regular expression '('", "'('"),
        ("match('a', '[')", "Bad regular expression '['", "'['"),
        ("intDiv(1, 0)", "Division by zero", "intDiv(1, 0)"),
        ("cast('abc' as Int64)", "'abc' cannot be read as Int64", "cast('abc' as Int64)"),
        ("format('{', 1)", "Bad pattern of format", "format('{', 1)"),
        ("arrayMap((x, y) -> x, [1], [1, 2])", "different lengths", ""),
    ] {
        let text = format!("select {expr} as x");
        let parsed = column(expr, "").unwrap();
        let refused = eval::Program::compile(&parsed, &context(), &mut |_| None)
            .and_then(|program| program.run(&[], 1))
            .unwrap_err();
        assert!(refused.to_string().contains(message), "{expr}: {refused}");
        let span = refused.span().unwrap();
        let result = &text[span.start as usize..span.end as usize];
        assert!(source.is_empty() || result == source, "{expr}: points at {result}");
    }
}

#[test]
fn deep_expressions_fit_a_small_stack() {
    let deep = |open: &str, inner: &str, close: &str| {
        (0..30).fold(inner.to_owned(), |inner, _| format!("{open}{inner}{close}"))
    };
    let run = move || {
        for (expr, expected) in [
            (deep("(1 + ", "1", ")"), json!(31)),
            (deep("if(1 = 1, ", "'a'", ", 'b')"), json!("a")),
            (deep("not (", "1", ")"), json!(1)),
            (deep("concat('x', ", "''", ")"), json!("x".repeat(30))),
        ] {
            assert_eq!(evaluate(&expr).map(|(result, _)| result), Ok(expected), "{expr}");
        }
        let lambdas = deep("arrayMap(x -> ", "1", ", [1])");
        assert!(evaluate(&lambdas).is_ok(), "{lambdas}");
    };
    std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(run).unwrap().join().unwrap();
}

#[test]
fn result_sizes_are_bounded() {
    for expr in [
        "range(100000000)",
        "range(9223372036854775807)",
        "repeat('abcdefgh', 100000000)",
        "leftPad('a', 2000000000)",
        "arrayMap(x -> range(1000000), range(1000))",
        "replaceAll(repeat('a', 1000000), 'a', repeat('b', 1000000))",
        "replaceRegexpAll(repeat('a', 1000000), 'a', repeat('b', 1000000))",
        "arrayStringConcat(range(1000000), repeat('b', 1000000))",
        "format('{0}{0}{0}{0}{0}{0}{0}{0}', repeat(repeat('b', 10000), 10000))",
        "[range(9000000), range(9000000)]",
        "repeat(repeat('b', 10000), 20000) || repeat(repeat('b', 10000), 20000)",
    ] {
        let parsed = column(expr, "").unwrap();
        let refused = eval::Program::compile(&parsed, &context(), &mut |_| None)
            .and_then(|program| program.run(&[], 1));
        let Err(refused) = refused else { panic!("{expr} is not refused") };
        assert!(matches!(refused, eval::Error::TooLarge { .. }), "{expr}: {refused}");
    }
    let large = format!("match('a', '{}')", "(a{1000}){1000}");
    assert!(compiled(&large).unwrap_err().contains("too large"));
}

#[test]
fn chunked_calls_return_the_same_as_whole_calls() {
    // More elements than one chunk of a call.
    let many = "arrayFilter(x -> x % 2 = 0, range(300000))";
    for (expr, expected) in [
        ("arraySum(x -> x * 2, many)", json!(44_999_700_000_u64)),
        ("arrayMap(x -> concat('n', toString(x)), many)[140000]", json!("n279998")),
        ("arrayMap(x -> [x, x + 1], many)[140000]", json!([279_998, 279_999])),
        ("arraySum(x -> length(arrayConcat(x, [1])), arrayMap(x -> [x, x], many))", json!(450_000)),
        (
            "arrayMap(x -> arrayStringConcat(x, '-'), \
             arrayMap(x -> splitByChar('1', toString(x)), many))[140006]",
            json!("2800-0"),
        ),
        ("arrayCount(x -> x =~ '^1.*8$', arrayMap(x -> toString(x), many))", json!(11_111)),
        ("arrayMap(x -> if(x > 200000, toInt('x'), x), many)[140000]", Value::Null),
        ("arraySort(x -> -x, many)[1]", json!(299_998)),
        ("arrayReverseSort(x -> x % 1000, many)[1]", json!(998)),
        ("arraySort(x -> x % 1000, many)[150]", json!(149_000)),
    ] {
        check(&[(&expr.replace("many", many), expected)]);
    }
}

#[test]
fn cancelled_program_ends_with_an_error() {
    let flag = Arc::new(AtomicBool::new(false));
    let cancellation = eval::Cancellation::new(flag.clone());
    let context = Arc::new(eval::Context { cancellation, ..(*context()).clone() });
    let expr = column("length(event)", " from events").unwrap();
    let mut leaf = |expr: &Expr| matches!(expr.kind, ExprKind::Column { .. }).then_some(0);
    let program = eval::Program::compile(&expr, &context, &mut leaf).unwrap();
    let inputs: [ArrayRef; 1] = [Arc::new(StringArray::from(vec!["a", "bc"]))];
    program.run(&inputs, 2).unwrap();
    flag.store(true, Ordering::Relaxed);
    assert!(matches!(program.run(&inputs, 2), Err(eval::Error::Cancelled)));
}
