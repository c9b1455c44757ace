//! Calls every function of the table as its signature permits.

use eval::Program;
use hogql::functions::{Arg, Function, FunctionKind, Lambda, functions};

use crate::{column, context};

/// Functions that stand for fields of events.
const READ_EVENTS: [&str; 3] =
    ["matchesAction", "getSurveyResponse", "uniqueSurveySubmissionsFilter"];

fn sample(function: &Function, no: usize) -> &'static str {
    match (function.name, function.arg(no)) {
        ("length" | "empty" | "notEmpty" | "reverse", _) => "'abc'",
        ("arrayElement", _) if no == 0 => "[1]",
        ("JSONExtract" | "JSONExtractKeysAndValues", _) if no > 0 => "'Float64'",
        ("JSON_VALUE" | "JSON_QUERY" | "JSON_EXISTS", _) if no > 0 => "'$.a'",
        ("accurateCastOrNull", _) if no > 0 => "'Float64'",
        ("dateName", _) if no == 0 => "'month'",
        ("matchesElements", _) if no > 0 => "'{}'",
        ("formatReadableTimeDelta", _) if no > 0 => "'seconds'",
        ("isIPAddressInRange", _) if no > 0 => "'10.0.0.0/8'",
        ("in" | "notIn", _) if no > 0 => "[1]",
        ("mapContains", _) if no > 0 => "'a'",
        (
            "extractGroups" | "extractAllGroups" | "extractAllGroupsHorizontal" | "regexpExtract",
            _,
        ) if no == 1 => "'(a)'",
        ("transform", _) if no == 3 => "1",
        (name, Some(Arg::Any)) if is_on_tuples(name) => "(1, 2)",
        (name, _)
            if no == 1 && (name.starts_with("multiSearch") || name.starts_with("multiMatch")) =>
        {
            "['a']"
        }
        ("hasAnyTokens" | "hasAllTokens", _) if no == 1 => "['a']",
        ("base64Decode", _) => "'YQ=='",
        (name, _) if no == 0 && (name.starts_with("toUUID") || name == "UUIDv7ToDateTime") => {
            "'0191a3e4-5c9e-7b6a-9f00-0123456789ab'"
        }
        ("toUUIDOrDefault", _) => "'0191a3e4-5c9e-7b6a-9f00-0123456789ab'",
        (_, Some(Arg::String | Arg::ConstString | Arg::Key)) => "'a'",
        (_, Some(Arg::Number)) => "1.5",
        (_, Some(Arg::Condition)) => "1 = 1",
        (_, Some(Arg::Time)) => "now()",
        (_, Some(Arg::Interval)) => "interval 1 day",
        (_, Some(Arg::Array)) => "[1]",
        (_, Some(Arg::Map)) => "map('a', 1)",
        (_, Some(Arg::Tuple)) => "(1, 2)",
        (_, Some(Arg::Unit)) => "'day'",
        (_, Some(Arg::Zone)) => "'UTC'",
        _ => "1",
    }
}

/// Functions on vectors, which are tuples or arrays.
fn is_on_tuples(name: &str) -> bool {
    name.starts_with("tuple")
        || name.ends_with("Norm")
        || name.ends_with("Distance") && !name.starts_with("great") && !name.starts_with("geo")
        || name == "dotProduct"
}

/// Each function with its minimum and maximum number of arguments.
fn calls() -> Vec<String> {
    let mut calls = Vec::new();
    for function in functions().filter(|function| function.kind == FunctionKind::Scalar) {
        // The resolver turns these into an unnest, an expression, a window and aggregates.
        if matches!(
            function.name,
            "arrayJoin" | "arrayReduce" | "rowNumberInAllBlocks" | "json_agg" | "every"
        ) || READ_EVENTS.contains(&function.name)
        {
            continue;
        }
        let (min, max) = function.arity();
        let step = if matches!(function.name, "multiIf" | "map") { 2 } else { 1 };
        for count in [min, max.unwrap_or(min + step)] {
            let mut args: Vec<&str> = (0..count).map(|no| sample(function, no)).collect();
            if function.name == "arrayFold" {
                // All but the last argument are arrays.
                args[..count - 1].fill("[1]");
            }
            if function.lambda != Lambda::None {
                let lambda = match (function.name, count) {
                    ("mapApply", _) => "(x, y) -> (x, y)",
                    ("mapFilter", _) => "(x, y) -> y > 0",
                    ("arrayFold", 2) => "(x, y) -> x + y",
                    ("arrayFold", _) => "(x, y, z) -> x + y + z",
                    (_, 2) => "(x, y) -> x + y",
                    _ => "x -> x",
                };
                args.insert(0, lambda);
            }
            calls.push(format!("{}({})", function.name, args.join(", ")));
        }
    }
    calls
}

#[test]
fn every_scalar_function_is_implemented() {
    let mut wrong = Vec::new();
    for call in calls() {
        let expr = column(&call, "").unwrap_or_else(|error| panic!("{call}: {error}"));
        let run = Program::compile(&expr, &context(), &mut |_| None)
            .and_then(|program| Ok((program.run(&[], 3)?, program)));
        match run {
            Ok((array, program)) => {
                assert_eq!(array.len(), 3, "{call}");
                assert_eq!(array.data_type(), &eval::data_type(program.ty()), "{call}");
            }
            Err(error) => wrong.push(format!("{call}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn untyped_null_is_accepted_for_every_argument() {
    for function in functions().filter(|function| function.kind == FunctionKind::Scalar) {
        let is_aggregate = matches!(function.name, "json_agg" | "every");
        if function.lambda != Lambda::None || function.name == "arrayJoin" || is_aggregate {
            continue;
        }
        let (min, _) = function.arity();
        for null in 0..min {
            let args = (0..min).map(|no| if no == null { "NULL" } else { sample(function, no) });
            let call = format!("{}({})", function.name, args.collect::<Vec<_>>().join(", "));
            // Some arguments must be constants.
            let Ok(expr) = column(&call, "") else { continue };
            let run = Program::compile(&expr, &context(), &mut |_| None)
                .and_then(|program| program.run(&[], 2));
            assert!(run.is_ok(), "{call}: {run:?}");
        }
    }
}
