//! Columns give the same results as constants, and no resolved expression panics.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, UInt32Array};
use eval::{Program, json_value};
use hogql::functions::{Arg, Function, FunctionKind, Lambda, functions};
use hogql::plan::{Expr, ExprKind, Set, Value};

use crate::clickhouse::lines;
use crate::{column, context};

const ROWS: usize = 3;

/// Replaces each literal that need not be constant by an input.
fn with_inputs(expr: &mut Expr, inputs: &mut Vec<Expr>) {
    match &mut expr.kind {
        ExprKind::Value(Value::Null) => {}
        ExprKind::Value(_) => {
            let input = ExprKind::Output { source: 0, column: inputs.len() };
            let value = Expr { kind: input, ty: expr.ty.clone(), span: expr.span };
            inputs.push(std::mem::replace(expr, value));
        }
        ExprKind::Property { of: part, .. }
        | ExprKind::Lambda { body: part, .. }
        | ExprKind::Not(part)
        | ExprKind::IsNull { expr: part, .. }
        | ExprKind::Cast { expr: part, .. }
        | ExprKind::Interval(part, _) => with_inputs(part, inputs),
        ExprKind::Call { function, args } => {
            let function = function.0;
            let fixed = ["toStartOfWeek", "JSONExtract", "tupleElement", "format"];
            let last = args.len() - usize::from(!args.is_empty());
            for (no, arg) in args.iter_mut().enumerate() {
                let constant = matches!(
                    function.arg(no),
                    Some(Arg::Unit | Arg::Zone | Arg::ConstString | Arg::ConstInt)
                );
                if !(constant || no == last && fixed.contains(&function.name)) {
                    with_inputs(arg, inputs);
                }
            }
        }
        ExprKind::Compare(_, sides) => sides.iter_mut().for_each(|one| with_inputs(one, inputs)),
        ExprKind::And(parts) | ExprKind::Or(parts) => {
            parts.iter_mut().for_each(|one| with_inputs(one, inputs));
        }
        ExprKind::In { expr, set, .. } => {
            with_inputs(expr, inputs);
            match set {
                Set::List(items) => items.iter_mut().for_each(|one| with_inputs(one, inputs)),
                Set::Array(array) => with_inputs(array, inputs),
                Set::Query(_) | Set::Cohort(_) => {}
            }
        }
        _ => {}
    }
}

/// The value in a slice of a longer array, so that offsets do not start at 0.
fn repeated(value: &Expr) -> ArrayRef {
    let one = Program::compile(value, &context(), &mut |_| None).unwrap().run(&[], 1).unwrap();
    let again = UInt32Array::from(vec![0; ROWS + 2]);
    arrow_select::take::take(&one, &again, None).unwrap().slice(1, ROWS)
}

/// As dictionary-encoded strings.
fn coded(array: &ArrayRef) -> ArrayRef {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    match array.as_string_opt::<i32>() {
        Some(texts) => {
            let coded: arrow_array::DictionaryArray<Int32Type> = texts.iter().collect();
            Arc::new(coded)
        }
        None => Arc::clone(array),
    }
}

#[test]
fn columns_give_the_same_results_as_constants() {
    let mut wrong = Vec::new();
    for line in lines() {
        let Ok(mut expr) = column(&line.ours, "") else { continue };
        let constant = Program::compile(&expr, &context(), &mut |_| None).and_then(|program| {
            Ok(json_value(&program.run(&[], 1)?, program.ty(), 0, &context().zone))
        });
        let mut values = Vec::new();
        with_inputs(&mut expr, &mut values);
        let mut leaf = |expr: &Expr| match expr.kind {
            ExprKind::Output { column, .. } => Some(column),
            _ => None,
        };
        let inputs: Vec<ArrayRef> = values.iter().map(repeated).collect();
        let texts: Vec<ArrayRef> = inputs.iter().map(coded).collect();
        for inputs in [inputs, texts] {
            let result = Program::compile(&expr, &context(), &mut leaf).and_then(|program| {
                let array = program.run(&inputs, ROWS)?;
                let rows =
                    (0..ROWS).map(|row| json_value(&array, program.ty(), row, &context().zone));
                Ok(rows.collect::<Vec<_>>())
            });
            match (&constant, result) {
                (Ok(constant), Ok(result)) if result.iter().all(|one| one == constant) => {}
                (Err(_), Err(_)) => {}
                (constant, result) => {
                    wrong.push(format!("{}: {constant:?}, as a column {result:?}", line.ours));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const ANY: &[&str] = &[
    "1",
    "-1",
    "1.5",
    "'a'",
    "''",
    "'[1,2]'",
    "true",
    "NULL",
    "[1, 2]",
    "['a', NULL]",
    "[]",
    "[[1], []]",
    "(1, 'a')",
    "map('a', 1)",
    "now()",
    "today()",
    "toUUID('0191a3e4-5c9e-7b6a-9f00-0123456789ab')",
    "toDecimal('1.5', 2)",
    "nullIf('a', 'a')",
    "nullIf(1, 1)",
    "18446744073709551615",
    "-9223372036854775808",
    "1 / 0",
    "0 / 0",
    "1e300",
    "interval 1 day",
    "[now()]",
    "[(1, 'a')]",
];
const INTS: &[&str] = &[
    "0",
    "1",
    "-1",
    "300",
    "true",
    "nullIf(1, 1)",
    "-128",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
];
const TIMES: &[&str] = &[
    "now()",
    "today()",
    "nullIf(now(), now())",
    "toDateTime(9223372036854775807)",
    "toDateTime(-9223372036854775808)",
    "cast(-9223372036854775808 as Date)",
    "cast(9223372036854775807 as Date)",
    "toDateTime64('1883-11-18 12:03:58.5', 3, 'America/New_York')",
    "toDate('9999-12-31')",
    "toDate('0001-01-01')",
    "addDays(today(), 9223372036854775807)",
    "addHours(now(), -9223372036854775808)",
    "addYears(now(), 9223372036854775807)",
];

fn samples(function: &Function, no: usize) -> Vec<&'static str> {
    let of = |kinds: &[&'static str]| kinds.to_vec();
    if function.name == "JSONExtract" && no > 0 {
        return of(&["'a'", "1", "'Array(String)'", "'Nullable(Int64)'", "'Tuple(Date, Bool)'"]);
    }
    match function.arg(no) {
        Some(Arg::String) => of(&[
            "'a'",
            "''",
            "'äöü€𝄞'",
            "nullIf('a', 'a')",
            "'{\"a\": [1, {\"b\": null}]}'",
            "'(a)|(b)'",
            "'%_\\\\'",
            "'http://a.b/c?d#e'",
            "'\\0'",
        ]),
        Some(Arg::Int) => of(INTS),
        Some(Arg::Number) => {
            [INTS, &["1.5", "0 / 0", "1 / 0", "-1e300", "toDecimal('1.5', 2)"]].concat()
        }
        Some(Arg::Condition) => of(&["1 = 1", "0", "nullIf(1, 1)", "true"]),
        Some(Arg::Time) => of(TIMES),
        Some(Arg::Interval) => of(&[
            "interval 1 day",
            "interval 0 hour",
            "toIntervalMonth(9223372036854775807)",
            "toIntervalSecond(9223372036854775807)",
            "toIntervalYear(-5)",
            "interval 3 week",
        ]),
        Some(Arg::Array) => of(&[
            "[1, 2]",
            "[]",
            "['a', NULL]",
            "[[1], []]",
            "[1.5, 0 / 0]",
            "[(1, 'a')]",
            "[NULL]",
            "[now()]",
            "[18446744073709551615, 0]",
            "[-9223372036854775808, 1]",
            "[toDecimal('1.5', 2)]",
            "[map('a', 1)]",
        ]),
        Some(Arg::Map) => of(&["map('a', 1)", "map()", "map(1, [2])"]),
        Some(Arg::Tuple) => of(&["(1, 'a')", "tuple(NULL)"]),
        Some(Arg::Unit) => {
            of(&["'day'", "'second'", "'hour'", "'week'", "'month'", "'quarter'", "'year'"])
        }
        Some(Arg::Zone) => of(&["'UTC'", "'America/St_Johns'"]),
        Some(Arg::ConstString) => of(&["'%Y {}'", "'{0}'", "'%Q%z%f%V'", "''"]),
        Some(Arg::ConstInt) => of(&["0", "1", "2", "38"]),
        Some(Arg::Key) => of(&["'a'", "1", "-1", "0", "nullIf('a', 'a')"]),
        _ => of(ANY),
    }
}

/// Calls generated from the signatures, with a maximum per function.
fn calls(function: &'static Function, most: usize) -> Vec<String> {
    let (min, max) = function.arity();
    let mut calls = Vec::new();
    let most_args = max.unwrap_or(min.max(1) + 2);
    for count in min..=most_args {
        let choices: Vec<Vec<&str>> = (0..count).map(|no| samples(function, no)).collect();
        let all: usize = choices.iter().map(Vec::len).product();
        // A step that is coprime to the number of combinations samples all kinds of them.
        let step = (all / most).max(1) | 1;
        for mut number in (0..all).step_by(step) {
            let mut args = Vec::new();
            for choice in &choices {
                args.push(choice[number % choice.len()]);
                number /= choice.len();
            }
            let lambdas: &[&str] = match (function.lambda, count) {
                (Lambda::None, _) => &[""],
                (_, 1) => &["x -> x", "x -> 1", "x -> NULL", "x -> [x]", ""],
                (_, 2) => &["(x, y) -> y"],
                _ => &["(x, y, z) -> x"],
            };
            for lambda in lambdas {
                let comma = if lambda.is_empty() { "" } else { ", " };
                calls.push(format!("{}({lambda}{comma}{})", function.name, args.join(", ")));
            }
        }
    }
    calls
}

fn panics(run: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
}

fn run_both_ways(mut expr: Expr) {
    if let Ok(program) = Program::compile(&expr, &context(), &mut |_| None)
        && let Ok(array) = program.run(&[], 2)
    {
        assert_eq!(array.len(), 2);
        json_value(&array, program.ty(), 1, &context().zone);
    }
    let mut values = Vec::new();
    with_inputs(&mut expr, &mut values);
    let inputs: Vec<ArrayRef> = values.iter().map(repeated).collect();
    let mut leaf = |expr: &Expr| match expr.kind {
        ExprKind::Output { column, .. } => Some(column),
        _ => None,
    };
    let Ok(program) = Program::compile(&expr, &context(), &mut leaf) else { return };
    if let Ok(array) = program.run(&inputs, ROWS) {
        assert_eq!(array.len(), ROWS);
    }
    if let Ok(truth) = program.filter(&inputs, ROWS) {
        assert_eq!(truth.len(), ROWS);
    }
}

#[test]
fn no_function_call_panics() {
    let (mut run, mut wrong) = (0, Vec::new());
    for function in functions().filter(|function| function.kind == FunctionKind::Scalar) {
        // The resolver turns `arrayJoin` into an unnest.
        if function.name == "arrayJoin" {
            continue;
        }
        for call in calls(function, 30) {
            let Ok(expr) = column(&call, "") else { continue };
            run += 1;
            if panics(|| run_both_ways(expr)) {
                wrong.push(call);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 5_000, "{run}");
}

#[test]
fn no_cast_panics() {
    let types = [
        "String",
        "Bool",
        "Float64",
        "Int8",
        "UInt64",
        "Int64",
        "UUID",
        "Date",
        "DateTime",
        "DateTime64(3, 'Asia/Tokyo')",
        "Decimal(38, 30)",
        "Array(Int64)",
        "Array(Array(String))",
        "Nullable(Int32)",
        "Tuple(String, Float64)",
        "Map(String, String)",
    ];
    let (mut run, mut wrong) = (0, Vec::new());
    for value in ANY.iter().chain(INTS).chain(TIMES) {
        for ty in types {
            let call = format!("cast({value} as {ty})");
            let Ok(expr) = column(&call, "") else { continue };
            run += 1;
            if panics(|| run_both_ways(expr)) {
                wrong.push(call);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(run > 300, "{run}");
}
