//! Programs over batches: inputs, properties, dictionaries, filters.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, StringArray, TimestampMicrosecondArray,
};
use eval::{Program, json_value};
use hogql::plan::{Expr, ExprKind};
use serde_json::{Value, json};

use crate::{column, context};

const PROPERTIES: [Option<&str>; 6] = [
    Some(
        r#"{"plan":"pro","amount":12.50,"paid":true,"due":"2024-03-01 10:00:00","tags":["a","b"]}"#,
    ),
    Some(r#"{"plan":"","amount":"7","paid":"false","due":1709287200,"cart":{"total": 5}}"#),
    Some(r#"{"plan":null,"amount":"x","paid":"x","due":"x","big":1e400}"#),
    Some(r#"{"pl\u0061n":"escaped \"q\"","amount":1e3}"#),
    Some("not json"),
    None,
];

/// Inputs: `$session_id` (nullable) is the first, `properties` the second, `timestamp` the third.
fn leaf(expr: &Expr) -> Option<usize> {
    match &expr.kind {
        ExprKind::Column { name: "$session_id", .. } => Some(0),
        ExprKind::Column { name: "properties", .. } => Some(1),
        ExprKind::Column { name: "timestamp", .. } => Some(2),
        _ => None,
    }
}

fn program(expr: &str) -> Program {
    let expr = expr.replace("event", "$session_id");
    let expr = column(&expr, " from events").unwrap_or_else(|error| panic!("{expr}: {error}"));
    Program::compile(&expr, &context(), &mut leaf).unwrap_or_else(|error| panic!("{error}"))
}

fn rows(program: &Program, inputs: &[ArrayRef]) -> Vec<Value> {
    let count = inputs[0].len();
    let array = program.run(inputs, count).unwrap();
    assert_eq!(array.data_type(), &eval::data_type(program.ty()));
    (0..count).map(|row| json_value(&array, program.ty(), row, &context().zone)).collect()
}

fn events() -> [Option<&'static str>; 6] {
    [Some("a"), Some("b"), None, Some("a"), Some("Bär"), Some("b")]
}

fn inputs() -> Vec<ArrayRef> {
    let time = |hour: i64| 1_711_846_800_000_000 + hour * 3_600_000_000;
    vec![
        Arc::new(StringArray::from(events().to_vec())),
        Arc::new(StringArray::from(PROPERTIES.to_vec())),
        Arc::new(TimestampMicrosecondArray::from(
            vec![-1, 0, 1, 24, 48, 7000].into_iter().map(time).collect::<Vec<_>>(),
        )),
    ]
}

/// The same, with the event dictionary-encoded; no row uses one of the entries.
fn coded() -> Vec<ArrayRef> {
    let mut inputs = inputs();
    let keys =
        arrow_array::Int32Array::from(vec![Some(1), Some(0), None, Some(1), Some(2), Some(0)]);
    let values = StringArray::from(vec!["b", "a", "Bär", "0"]);
    inputs[0] = Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values)));
    inputs
}

// contract: query 5.2
#[test]
fn properties_are_strings_unless_defined_otherwise() {
    for (expr, expected) in [
        ("properties.plan", json!(["pro", null, null, "escaped \"q\"", null, null])),
        ("properties.amount", json!([12.5, 7.0, null, 1000.0, null, null])),
        ("properties.paid", json!([true, false, null, null, null, null])),
        (
            "properties.due",
            json!([
                "2024-03-01T10:00:00+01:00",
                "2024-03-01T11:00:00+01:00",
                null,
                null,
                null,
                null
            ]),
        ),
        ("properties.tags", json!(["[\"a\",\"b\"]", null, null, null, null, null])),
        ("properties.tags.2", json!(["b", null, null, null, null, null])),
        ("properties.tags[3]", json!([null, null, null, null, null, null])),
        ("properties.cart.total", json!([null, "5", null, null, null, null])),
        ("properties.big", json!([null, null, "1e400", null, null, null])),
        ("properties.amount > 10", json!([1, 0, 0, 1, 0, 0])),
        ("properties.plan = 'pro'", json!([1, 0, 0, 0, 0, 0])),
        ("properties.plan != 'pro'", json!([0, 1, 1, 1, 1, 1])),
        ("properties.plan is null", json!([0, 1, 1, 0, 1, 1])),
    ] {
        assert_eq!(json!(rows(&program(expr), &inputs())), expected, "{expr}");
    }
}

#[test]
fn unpaired_surrogates_in_json_become_replacement_characters() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        r#"{"a":"x\ud800y\n\ud83d\ude00\udc00"}"#,
        r#"{"a":"\u0041\/\\"}"#,
    ]));
    let inputs = vec![Arc::clone(&texts), texts];
    let result = rows(&program("properties.a"), &inputs);
    assert_eq!(result, [json!("x\u{fffd}y\n😀\u{fffd}"), json!("A/\\")]);
}

#[test]
fn property_may_be_an_input() {
    let ask = |expr: &str| {
        let expr = column(expr, " from events").unwrap();
        let mut asked = Vec::new();
        let mut leaf = |expr: &Expr| {
            asked.push(matches!(expr.kind, ExprKind::Property { .. }));
            matches!(expr.kind, ExprKind::Property { .. }).then_some(0)
        };
        let program = Program::compile(&expr, &context(), &mut leaf).unwrap();
        (program, asked)
    };
    let (program, asked) = ask("properties.amount + 1");
    assert_eq!(asked, [true], "what it is taken out of is not asked about");
    assert_eq!(program.inputs(), [0]);
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
    assert_eq!(rows(&program, &[floats]), [json!(2.5), Value::Null]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("1.5"), Some("x")]));
    assert_eq!(rows(&program, &[texts]), [json!(2.5), Value::Null]);
    let words: DictionaryArray<Int32Type> =
        [Some("7"), None, Some("x"), Some("7")].into_iter().collect();
    let words: ArrayRef = Arc::new(words);
    let expected = [json!(8.0), Value::Null, Value::Null, json!(8.0)];
    assert_eq!(rows(&program, &[words]), expected);
}

#[test]
fn dictionary_inputs_give_the_same_results_as_plain_strings() {
    for expr in [
        "event",
        "upper(event)",
        "event = 'a'",
        "event != 'a'",
        "event is null",
        "event in ('a', 'c')",
        "event not in ('a', 'c')",
        "event like 'b%' or event = 'Bär'",
        "length(event) + 1",
        "if(event = 'a', 'first', event)",
        "multiIf(event = 'a', 1, event = 'b', 2, 3)",
        "coalesce(event, 'none')",
        "concat(event, properties.plan)",
        "event = 'a' and properties.amount > 5",
        "arrayMap(x -> concat(x, event), ['<', '>'])",
        "splitByString('', coalesce(event, ''))",
        "intDiv(10, length(event))",
        "toDateTime(event)",
        "(event, length(event))",
        "map(coalesce(event, ''), 1)",
        "event || toString(timestamp)",
    ] {
        let program = program(expr);
        let expected = rows(&program, &inputs());
        assert_eq!(rows(&program, &coded()), expected, "{expr}");
        // Now from the memoized entries.
        assert_eq!(rows(&program, &coded()), expected, "{expr}");
    }
}

#[test]
fn memo_is_shared_by_batches_with_one_dictionary() {
    let program = program("upper(event)");
    let inputs = coded();
    let whole = program.run(&inputs, 6).unwrap();
    for row in 0..6 {
        let one: Vec<ArrayRef> = inputs.iter().map(|input| input.slice(row, 1)).collect();
        let result = program.run(&one, 1).unwrap();
        let (result, whole) = (result.as_string::<i32>(), whole.as_string::<i32>());
        assert_eq!(result.is_null(0), whole.is_null(row));
        assert_eq!(result.value(0), whole.value(row));
    }
    let other = DictionaryArray::<Int32Type>::from_iter([Some("x"), None]);
    let other: Vec<ArrayRef> = vec![Arc::new(other)];
    assert_eq!(rows(&program, &other), [json!("X"), Value::Null]);
}

#[test]
fn fallible_calls_skip_unused_dictionary_entries() {
    let program = program("10 % toIntOrZero(event)");
    let values: ArrayRef = Arc::new(StringArray::from(vec!["0", "3"]));
    let keys = arrow_array::Int32Array::from(vec![1, 1, 1]);
    let input: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
    assert_eq!(rows(&program, &[input]), [json!(1), json!(1), json!(1)]);
}

#[test]
fn filter_is_false_for_null_and_zero() {
    for (condition, expected) in [
        ("event = 'a'", [true, false, false, true, false, false]),
        ("event like '%'", [true, true, false, true, true, true]),
        ("not (properties.amount > 10)", [false, true, true, false, true, true]),
        ("properties.paid", [true, false, false, false, false, false]),
        ("properties.paid or event = 'b'", [true, true, false, false, false, true]),
        ("length(event)", [true, true, false, true, true, true]),
        ("timestamp >= '2024-03-31 03:00:00'", [false, true, true, true, true, true]),
        ("1", [true; 6]),
        ("NULL", [false; 6]),
    ] {
        for inputs in [inputs(), coded()] {
            let result = program(condition).filter(&inputs, 6).unwrap();
            assert_eq!(result.null_count(), 0);
            assert_eq!(
                result.iter().map(|one| one.unwrap()).collect::<Vec<_>>(),
                expected,
                "{condition}"
            );
        }
    }
}

// contract: query 5.5
#[test]
fn timestamps_truncate_in_the_project_time_zone() {
    for (expr, expected) in [
        ("toHour(timestamp)", json!([1, 3, 4, 3, 3, 18])),
        (
            "toStartOfDay(timestamp)",
            json!([
                "2024-03-31T00:00:00+01:00",
                "2024-03-31T00:00:00+01:00",
                "2024-03-31T00:00:00+01:00",
                "2024-04-01T00:00:00+02:00",
                "2024-04-02T00:00:00+02:00",
                "2025-01-16T00:00:00+01:00",
            ]),
        ),
        ("toDate(timestamp) - toDate('2024-03-31')", json!([0, 0, 0, 1, 2, 291])),
        (
            "dateDiff('hour', toDateTime('2024-03-31 00:00:00'), timestamp)",
            json!([1, 2, 3, 26, 50, 7002]),
        ),
    ] {
        assert_eq!(json!(rows(&program(expr), &inputs())), expected, "{expr}");
    }
}

#[test]
fn captured_columns_repeat_per_element() {
    for (expr, expected) in [
        (
            "arrayMap(x -> concat(x, coalesce(event, '-')), ['1', '2'])",
            json!([
                ["1a", "2a"],
                ["1b", "2b"],
                ["1-", "2-"],
                ["1a", "2a"],
                ["1Bär", "2Bär"],
                ["1b", "2b"]
            ]),
        ),
        (
            "arrayFilter(x -> x > length(event), range(4))",
            json!([[2, 3], [2, 3], [], [2, 3], [], [2, 3]]),
        ),
        (
            "arrayMap(x -> length(x), splitByChar('a', coalesce(event, '')))",
            json!([[0, 0], [1], [0], [0, 0], [3], [1]]),
        ),
    ] {
        assert_eq!(json!(rows(&program(expr), &inputs())), expected, "{expr}");
        assert_eq!(json!(rows(&program(expr), &coded())), expected, "{expr}");
    }
}

#[test]
fn empty_batches_give_empty_results() {
    let empty: Vec<ArrayRef> = inputs().iter().map(|input| input.slice(0, 0)).collect();
    for expr in ["1", "event", "[event]", "event = 'a'", "intDiv(1, 0)", "arrayMap(x -> x, [1])"] {
        assert_eq!(program(expr).run(&empty, 0).unwrap().len(), 0, "{expr}");
        assert_eq!(program(expr).filter(&empty, 0).map_or(0, |result| result.len()), 0, "{expr}");
    }
}

#[test]
fn expression_without_inputs_is_constant() {
    assert!(program("1 + length('abc')").is_constant());
    assert!(!program("1 + length(event)").is_constant());
    assert_eq!(program("event = 'a' or timestamp > now()").inputs(), [0, 2]);
}

#[test]
fn input_of_another_type_is_an_error() {
    let numbers: Vec<ArrayRef> = vec![Arc::new(Float64Array::from(vec![1.0]))];
    let refused = program("upper(event)").run(&numbers, 1).unwrap_err();
    assert!(matches!(refused, eval::Error::InputType { .. }), "{refused}");
}
