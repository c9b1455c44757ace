//! Calls every function of the table as its signature permits.

use hogql::functions::{Arg, Function, FunctionKind, Lambda, functions};
use hogql::{parse, resolve};

use crate::resolve::project;

fn sample(function: &Function, no: usize) -> &'static str {
    match (function.name, function.arg(no)) {
        ("length" | "empty" | "notEmpty" | "reverse", _) => "'abc'",
        ("sumMap", _) => "map('a', 1)",
        ("arrayReduce", _) if no == 0 => "'sum'",
        ("accurateCastOrNull", _) if no > 0 => "'Float64'",
        ("mapContains", _) if no > 0 => "'a'",
        ("hasAnyTokens" | "hasAllTokens", _) if no == 1 => "['a']",
        (name, Some(Arg::Any)) if is_on_tuples(name) => "(1, 2)",
        ("arrayElement", _) if no == 0 => "[1]",
        ("JSONExtract" | "JSONExtractKeysAndValues", _) if no > 0 => "'Float64'",
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

/// Functions that read fields of events.
const READ_EVENTS: [&str; 3] =
    ["matchesAction", "getSurveyResponse", "uniqueSurveySubmissionsFilter"];

/// Functions on vectors, which are tuples or arrays.
fn is_on_tuples(name: &str) -> bool {
    name.starts_with("tuple")
        || name.ends_with("Norm")
        || name.ends_with("Distance") && !name.starts_with("great") && !name.starts_with("geo")
        || name == "dotProduct"
}

fn call(function: &Function, args: usize) -> String {
    let mut list: Vec<&str> = (0..args).map(|no| sample(function, no)).collect();
    if function.name == "arrayFold"
        && let Some((_, arrays)) = list.split_last_mut()
    {
        arrays.fill("[1]");
    }
    if (function.name, args) == ("sumMap", 2) {
        list = vec!["['a']", "[1]"];
    }
    let lambda = match (function.name, args) {
        ("mapApply", _) => "(x, y) -> (x, y)",
        ("mapFilter", _) => "(x, y) -> y > 0",
        ("arrayFold", 3) => "(x, y, z) -> x + y + z",
        (_, 2) => "(x, y) -> x + y",
        _ => "x -> x",
    };
    if function.lambda != Lambda::None {
        list.insert(0, lambda);
    }
    let parameters = if function.parameters.0 > 0 { "(1)" } else { "" };
    let over = if function.kind == FunctionKind::Window { " over (order by 1)" } else { "" };
    let from = if READ_EVENTS.contains(&function.name) { " from events" } else { "" };
    format!("select {}{parameters}({}){over}{from}", function.name, list.join(", "))
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
        // An operator: what follows in parentheses is no list of arguments.
        if function.name == "not" {
            continue;
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
