//! Calls every function of the table as its signature permits.

use hogql::functions::{Arg, Function, FunctionKind, Lambda, functions};
use hogql::{parse, resolve};

use crate::resolve::project;

fn sample(function: &Function, no: usize) -> &'static str {
    match (function.name, function.arg(no)) {
        ("length" | "empty" | "notEmpty", _) => "'abc'",
        ("sumMap", _) => "map('a', 1)",
        ("arrayElement", _) if no == 0 => "[1]",
        ("JSONExtract", _) if no > 0 => "'Float64'",
        (_, None) => "'one too many'",
        (_, Some(arg)) => match arg {
            Arg::Any | Arg::Int | Arg::ConstInt => "1",
            Arg::String | Arg::ConstString | Arg::Key => "'a'",
            Arg::Number => "1.5",
            Arg::Condition => "1 = 1",
            Arg::Time => "now()",
            Arg::Interval => "interval 1 day",
            Arg::Array => "[1]",
            Arg::Map => "map('a', 1)",
            Arg::Tuple => "(1, 2)",
            Arg::Unit => "'day'",
            Arg::Zone => "'UTC'",
        },
    }
}

fn call(function: &Function, args: usize) -> String {
    let mut list: Vec<&str> = (0..args).map(|no| sample(function, no)).collect();
    let lambda = match args {
        2 => "(x, y) -> x + y",
        _ => "x -> x",
    };
    if function.lambda != Lambda::None {
        list.insert(0, lambda);
    }
    let parameters = if function.parameters.0 > 0 { "(1)" } else { "" };
    let over = if function.kind == FunctionKind::Window { " over (order by 1)" } else { "" };
    format!("select {}{parameters}({}){over}", function.name, list.join(", "))
}

fn resolves(text: &str) -> Result<String, String> {
    let plan = parse(text).and_then(|query| resolve(&query, text, &project(), None));
    plan.map(|plan| plan.to_string()).map_err(|error| format!("{text}: {error}"))
}

#[test]
fn functions_accept_exactly_their_signature() {
    let mut wrong = Vec::new();
    for function in functions() {
        let (min, max) = function.arity();
        // Arguments come in pairs, or in pairs and one more.
        let step = if matches!(function.name, "multiIf" | "map") { 2 } else { 1 };
        let most = max.unwrap_or(min + step);
        for count in [min, most] {
            wrong.extend(resolves(&call(function, count)).err());
        }
        let beyond = max.map(|max| max + 1);
        for count in beyond.into_iter().chain(min.checked_sub(1)) {
            match resolves(&call(function, count)) {
                Ok(plan) => wrong.push(format!("{} took {count}: {plan}", function.name)),
                Err(error) if !error.contains("argument(s)") => wrong.push(error),
                Err(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn function_names_are_case_insensitive_and_aggregates_take_the_if_combinator() {
    for (text, expected) in [
        ("select TOSTRING(1)", "toString(1)"),
        ("select Sum(1)", "[sum(1)]"),
        ("select avgif(1, 2 = 2)", "[avg(1) if (2 = 2)]"),
        ("select quantileIf(0.9)(1, 2 = 2)", "[quantile(0.9)(1) if (2 = 2)]"),
        ("select ln(1)", "log(1)"),
        ("select array_agg(1)", "[groupArray(1)]"),
    ] {
        let plan = resolves(text).unwrap_or_else(|error| panic!("{error}"));
        assert!(plan.contains(expected), "{text}: {plan}");
    }
    for text in ["select lowerIf('a', 1)", "select if()", "select sumIf()", "select If(1)"] {
        assert!(resolves(text).is_err(), "{text}");
    }
}
