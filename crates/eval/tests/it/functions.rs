//! Calls every function of the table as its signature permits.

use eval::Program;
use hogql::functions::{Arg, Function, FunctionKind, Lambda, functions};

use crate::{column, context};

fn sample(function: &Function, no: usize) -> &'static str {
    match (function.name, function.arg(no)) {
        ("length" | "empty" | "notEmpty", _) => "'abc'",
        ("arrayElement", _) if no == 0 => "[1]",
        ("JSONExtract", _) if no > 0 => "'Float64'",
        ("base64Decode", _) => "'YQ=='",
        ("toUUID", _) => "'0191a3e4-5c9e-7b6a-9f00-0123456789ab'",
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

/// Each function with its minimum and maximum number of arguments.
fn calls() -> Vec<String> {
    let mut calls = Vec::new();
    for function in functions().filter(|function| function.kind == FunctionKind::Scalar) {
        // The resolver turns `arrayJoin` into an unnest.
        if function.name == "arrayJoin" {
            continue;
        }
        let (min, max) = function.arity();
        let step = if matches!(function.name, "multiIf" | "map") { 2 } else { 1 };
        for count in [min, max.unwrap_or(min + step)] {
            let mut args: Vec<&str> = (0..count).map(|no| sample(function, no)).collect();
            if function.lambda != Lambda::None {
                args.insert(0, if count == 2 { "(x, y) -> x + y" } else { "x -> x" });
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
        if function.lambda != Lambda::None || function.name == "arrayJoin" {
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
