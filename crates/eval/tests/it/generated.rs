//! Compares every scalar function with ClickHouse (chDB), for arguments that are drawn from its
//! signature: empty and missing values, and the edges of types.

use std::collections::BTreeMap;

use hogql::functions::{Arg, Function, FunctionKind, Lambda, functions};
use testing::{Rng, seed_or};

use crate::clickhouse::{has_date_time, same, theirs};
use crate::{compiled, evaluate};

/// Calls of each function.
const CALLS: usize = 10;
/// Calls of those that differ: so many that one shows it.
const CALLS_OF_DIFFERENT: usize = 80;

/// Values of arguments. Each is an expression in both languages.
const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'Hello, World'",
    "'häuser ß €'",
    "'a,b,,c'",
    "'12'",
    "'2024-03-01'",
    "' x '",
    "'https://www.shop.example.co.uk:8080/a/b.html?x=1&y=%20z#part'",
    "'{\"a\": [1, \"b\"]}'",
    "'10.1.2.3'",
    "nullIf('a', 'a')",
];
const INTS: &[&str] =
    &["0", "1", "2", "3", "7", "12", "-1", "-2", "255", "-128", "65536", "nullIf(1, 1)"];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "20",
    "255",
    "1.5",
    "-0.5",
    "0.25",
    "1e10",
    "3000000000",
    "nullIf(1.5, 1.5)",
];
const TIMES: &[&str] = &[
    "toDate('2024-02-29')",
    "toDate('2021-01-03')",
    "toDateTime('2024-03-31 01:30:00')",
    "toDateTime('2024-10-27 02:30:15')",
    "toDateTime('1999-12-31 23:59:59', 'UTC')",
    "toDateTime64('2024-07-05 10:20:30.123456', 6)",
    "nullIf(toDate('2024-01-01'), toDate('2024-01-01'))",
];
const ARRAYS: &[&str] = &["[1, 2, 3]", "[2, 2, 1]", "[1, NULL, 3]", "[1.5, -2.5]", "[300]"];
const STRING_ARRAYS: &[&str] = &["['a', 'b']", "['World', 'x', '']", "['b', 'a', 'b']"];
const MAPS: &[&str] = &["map('a', 1, 'b', 2)", "map('b', 5)"];
const TUPLES: &[&str] = &["(1, 2)", "(3.5, 4)", "(-1, 0)"];
const UNITS: &[&str] =
    &["'second'", "'minute'", "'hour'", "'day'", "'week'", "'month'", "'quarter'", "'year'"];
const INTERVALS: &[&str] =
    &["interval 1 day", "interval 3 hour", "interval 2 month", "interval 15 minute"];

/// Functions of which the calls drawn here are not compared, and why.
const DIFFERENT: &[(&str, &str)] = &include!("different.in");

/// Functions of which ClickHouse runs no call that is drawn here, and why.
const NOT_RUN: &[(&str, &str)] = &include!("not_run.in");

/// What ClickHouse calls a function, if its name there has another meaning or order of arguments.
const THEIR_NAMES: &[(&str, &str)] = &include!("names.in");

/// The values that one argument of a function may have.
fn values(function: &Function, no: usize) -> &'static [&'static str] {
    let strings = matches!(
        function.name,
        "multiSearchAny"
            | "multiSearchAllPositions"
            | "multiSearchFirstIndex"
            | "multiSearchFirstPosition"
            | "multiMatchAny"
            | "multiMatchAnyIndex"
            | "multiMatchAllIndices"
            | "hasAnyTokens"
            | "hasAllTokens"
            | "arrayStringConcat"
    ) || function.name.starts_with("multiSearch");
    let is_bitmap = function.name.starts_with("bitmap") || function.name == "subBitmap";
    match (function.name, no, function.arg(no)) {
        ("bitmapBuild", ..) => return &["[3, 1, 2, 2]", "[7]", "[9, 9]"],
        ("bitmapTransform", 1, _) => return &["[1, 2]", "[2, 40]"],
        ("bitmapTransform", 2, _) => return &["[20, 30]", "[1, 40]"],
        (name, _, Some(Arg::Array)) if is_bitmap && name.contains("itmap") => {
            return &["bitmapBuild([1, 2, 3])", "bitmapBuild([2, 3, 40])", "bitmapBuild([5])"];
        }
        (_, _, Some(Arg::Int)) if is_bitmap => {
            return &["toUInt32(1)", "toUInt32(2)", "toUInt32(40)"];
        }
        _ => {}
    }
    match (function.name, no) {
        ("JSON_VALUE" | "JSON_QUERY" | "JSON_EXISTS", 0) => {
            return &[
                r#"'{"a": {"b": [1, 2, 3]}, "c": "x y", "d": null}'"#,
                r#"'[{"a": 1}, {"a": "z"}, {"b": true}]'"#,
                "'no json'",
                "''",
            ];
        }
        ("JSON_VALUE" | "JSON_QUERY" | "JSON_EXISTS", 1) => {
            return &[
                "'$'",
                "'$.c'",
                "'$.a.b[1]'",
                "'$.a.b[*]'",
                "'$.a[\"b\"][0 to 2]'",
                "'$[*].a'",
                "'$[0, 2]'",
                "'$.d'",
                "'$.nothing.more'",
            ];
        }
        ("parseDateTime" | "parseDateTimeOrZero", 0) => {
            return &[
                "'2024-01-05 10:11:12'",
                "'05/Jan/2024'",
                "'2024-02-30 00:00:00'",
                "'nothing'",
                "'2024-060'",
                "'5 1 2024 3:07 PM'",
                "'Friday, 5 January 2024'",
            ];
        }
        ("parseDateTime" | "parseDateTimeOrZero", 1) => {
            return &[
                "'%Y-%m-%d %H:%i:%s'",
                "'%F %T'",
                "'%d/%b/%Y'",
                "'%Y-%j'",
                "'%e %c %Y %l:%i %p'",
                "'%W, %e %M %Y'",
            ];
        }
        ("timeSlots", 1) => return &["toUInt32(600)", "toUInt32(5000)"],
        ("timeSlots", 2) => return &["toUInt32(600)", "toUInt32(1800)"],
        ("isIPAddressInRange", 1) => return &["'10.0.0.0/8'", "'10.1.2.0/24'", "'::/0'"],
        ("accurateCastOrNull", 1) => return &["'Int64'", "'Float64'", "'UInt8'"],
        ("dateName", 0) => return &["'year'", "'month'", "'weekday'", "'dayofyear'", "'hour'"],
        ("repeat" | "leftPad" | "rightPad" | "space", _) if function.arg(no) == Some(Arg::Int) => {
            return &["0", "1", "3", "7"];
        }
        (
            "match"
            | "extract"
            | "extractAll"
            | "extractGroups"
            | "extractAllGroups"
            | "extractAllGroupsHorizontal"
            | "countMatches"
            | "countMatchesCaseInsensitive"
            | "regexpExtract"
            | "replaceRegexpOne"
            | "replaceRegexpAll",
            1,
        )
        | ("splitByRegexp", 0) => {
            return &["'([a-z])([a-z])'", "'(\\\\w)(.)'", "'[,/]'", "'l+'", "'(x*)'"];
        }
        ("splitByChar", 0) => return &["','", "'/'", "'l'"],
        ("toUUIDOrZero", 0) => {
            return &["'0191a3e4-5c9e-7b6a-9f00-0123456789ab'", "'a'", "''"];
        }
        (name, 0) if name.starts_with("to") && name.ends_with("OrZero") => return STRINGS,
        ("toUUID" | "toUUIDOrDefault" | "UUIDStringToNum" | "UUIDv7ToDateTime", _) => {
            return &["toUUID('0191a3e4-5c9e-7b6a-9f00-0123456789ab')"];
        }
        ("range", _) => return &["0", "3", "5", "1", "2"],
        ("arrayWithConstant" | "arrayResize" | "arrayRotateLeft" | "arrayRotateRight", _)
            if function.arg(no) == Some(Arg::Int) =>
        {
            return &["0", "1", "2", "5"];
        }
        (
            "bitShiftLeft" | "bitShiftRight" | "bitRotateLeft" | "bitRotateRight" | "bitTest"
            | "bitTestAll" | "bitTestAny",
            1..,
        ) => return &["0", "1", "3", "7"],
        ("formatDateTime", 1) => return &["'%Y-%m-%d'", "'%H:%i:%S'", "'%a %b %j %V'"],
        ("format", 0) => return &["'{} x {}'", "'{1}{0}'", "'{0}'"],
        ("toDecimal" | "toDecimalOrZero", 1) => return &["0", "2", "6"],
        ("toDateTime64" | "toDateTime64OrZero", 1) => return &["3", "6"],
        ("formatReadableTimeDelta", 1) => return &["'hours'", "'days'", "'years'"],
        ("formatReadableTimeDelta", 2) => return &["'seconds'", "'minutes'"],
        ("tupleElement", 1) => return &["1", "2"],
        ("toWeek" | "toYearWeek", 1) => return &["0", "1", "2", "3", "4", "5", "6", "7"],
        ("toDayOfWeek", 1) => return &["0", "1", "2", "3"],
        ("toStartOfWeek" | "toLastDayOfWeek", 1) => return &["0", "1"],
        ("makeDate" | "makeDateTime", 0) => return &["2024", "1999", "1970"],
        ("makeDate" | "makeDateTime", 1..=2) => return &["1", "2", "12", "29"],
        ("arrayStringConcat", 1) => return &["','", "''"],
        ("width_bucket", 3) => return &["1", "5", "10"],
        ("bar", 3) => return &["5", "10"],
        (
            "arrayElement" | "countEqual" | "has" | "indexOf" | "arrayPushBack" | "arrayPushFront",
            0,
        ) => return &["[1, 2, 3]", "[2, 2, 1]"],
        ("arrayElement", 1)
        | ("countEqual" | "has" | "indexOf" | "arrayPushBack" | "arrayPushFront", 1) => {
            return &["1", "2", "9"];
        }
        ("transform", 0) => return &["1", "2", "9"],
        ("transform", 1) => return &["[1, 2]"],
        ("transform", 2) => return &["['x', 'y']", "[10, 20]"],
        ("transform", 3) => return &["'z'", "0"],
        ("in" | "notIn", 0) => return &["1", "2"],
        ("in" | "notIn", 1) => return &["(1, 3)", "[2]"],
        ("mapContains", 1) => return &["'a'", "'z'"],
        ("mapContainsValue", 1) => return &["1", "9"],
        ("mapContainsKeyLike" | "mapExtractKeyLike", 1) => return &["'a%'", "'z'"],
        ("length" | "empty" | "notEmpty" | "reverse", 0) => return STRINGS,
        ("dotProduct" | "cosineDistance", _) => return TUPLES,
        _ => {}
    }
    if no == 0 && function.name.starts_with('L')
        || function.name.contains("Distance") && function.arg(no) == Some(Arg::Any)
    {
        return TUPLES;
    }
    if function.name.starts_with("tuple") && function.arg(no) == Some(Arg::Any) {
        return TUPLES;
    }
    if (function.name.starts_with("Lp")) && no > 0 && function.arg(no) == Some(Arg::Number) {
        return &["1", "2", "3.5"];
    }
    match function.arg(no) {
        Some(Arg::String) => STRINGS,
        Some(Arg::ConstString) => &["'a'", "'-'"],
        Some(Arg::Key) => &["'a'", "1"],
        Some(Arg::Int) => INTS,
        Some(Arg::Number) => NUMBERS,
        Some(Arg::Condition) => &["1 = 1", "1 = 0", "nullIf(1, 1)"],
        Some(Arg::Time) => TIMES,
        Some(Arg::Interval) => INTERVALS,
        Some(Arg::Array) if strings => STRING_ARRAYS,
        Some(Arg::Array) => ARRAYS,
        Some(Arg::Map) => MAPS,
        Some(Arg::Tuple) => TUPLES,
        Some(Arg::Unit) => UNITS,
        Some(Arg::Zone) => &["'UTC'", "'Asia/Tokyo'"],
        Some(Arg::ConstInt) => &["1", "2", "3"],
        Some(Arg::Any) | None => NUMBERS,
    }
}

fn call(function: &Function, rng: &mut Rng) -> (String, String) {
    let (min, max) = function.arity();
    let step = if matches!(function.name, "multiIf" | "map") { 2 } else { 1 };
    let most = max.unwrap_or(min + step);
    let count = if rng.chance(50) { min } else { most };
    let mut args: Vec<&str> = (0..count).map(|no| rng.pick(values(function, no))).collect();
    if function.lambda != Lambda::None {
        args.insert(
            0,
            match (function.name, count) {
                ("mapFilter", _) => "(k, v) -> v > 1",
                ("mapApply", _) => "(k, v) -> (k, v + 1)",
                ("arrayFold", _) => "(acc, x) -> acc + x",
                (_, 2) => "(x, y) -> x > y",
                ("arrayMap" | "arraySum" | "arraySort", _) => "x -> x * 2",
                _ => "x -> x > 1",
            },
        );
    }
    let args = args.join(", ");
    let theirs = THEIR_NAMES.iter().find(|(ours, _)| *ours == function.name);
    let theirs = theirs.map_or(function.name, |(_, theirs)| theirs);
    let theirs = match theirs.split_once("…") {
        Some((before, after)) => format!("{before}{args}{after}"),
        None => format!("{theirs}({args})"),
    };
    (format!("{}({args})", function.name), theirs)
}

#[test]
fn every_function_agrees_with_clickhouse_on_drawn_arguments() {
    let seed = seed_or(28);
    let scalars = functions().filter(|function| function.kind == FunctionKind::Scalar);
    let mut calls = Vec::new();
    for function in scalars.filter(|function| {
        !matches!(
            function.name,
            "arrayJoin" | "arrayReduce" | "rowNumberInAllBlocks" | "json_agg" | "every"
        )
    }) {
        // Draws of one function do not depend on the others.
        let hash = |hash: u64, byte: u8| hash.wrapping_mul(31).wrapping_add(byte.into());
        let mut rng = Rng::new(function.name.bytes().fold(*seed, hash));
        let differs = DIFFERENT.iter().any(|(name, _)| *name == function.name);
        for _ in 0..if differs { CALLS_OF_DIFFERENT } else { CALLS } {
            let (mut ours, mut theirs) = call(function, &mut rng);
            if compiled(&ours).is_ok_and(|program| has_date_time(program.ty())) {
                (ours, theirs) = (format!("toString({ours})"), format!("toString({theirs})"));
            }
            calls.push((function.name, ours, theirs));
        }
    }
    let texts: Vec<String> = calls.iter().map(|(.., theirs)| theirs.clone()).collect();
    let mut wrong = Vec::new();
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    let mut different: BTreeMap<&str, usize> = BTreeMap::new();
    for ((name, ours, text), theirs) in calls.iter().zip(theirs(&texts)) {
        let count = compared.entry(name).or_default();
        let result = evaluate(ours).map(|(value, _)| value);
        let agree = match (&result, &theirs) {
            (Ok(ours), Ok(theirs)) => {
                *count += 1;
                same(ours, theirs)
            }
            // ClickHouse takes fewer types of arguments, and refuses what we answer with null.
            (_, Err(_)) => true,
            (Err(_), Ok(_)) => false,
        };
        if agree {
            continue;
        }
        if DIFFERENT.iter().any(|(other, _)| other == name) {
            *different.entry(name).or_default() += 1;
            continue;
        }
        wrong.push(format!("{ours}  [{text}]\n    ours   {result:?}\n    theirs {theirs:?}"));
    }
    let never = compared.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name);
    let is_listed = |name: &&str| DIFFERENT.iter().chain(NOT_RUN).any(|(other, _)| other == name);
    let never = never.filter(|name| !is_listed(name));
    let never: Vec<&str> = never.collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), calls.len(), wrong.join("\n"));
    assert!(never.is_empty(), "never compared: {never:?}");
    if *seed == 28 {
        let same =
            |(name, _): &&(&str, &str)| compared[*name] > 0 && !different.contains_key(*name);
        let stale: Vec<_> = DIFFERENT.iter().filter(same).collect();
        assert!(stale.is_empty(), "no difference any more: {stale:?}");
    }
}
