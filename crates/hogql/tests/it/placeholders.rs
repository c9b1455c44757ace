//! Placeholders filled with values.

use hogql::{PlaceholderValues, fill, parse};
use serde_json::{Value, json};

fn values() -> PlaceholderValues {
    let json = json!({
        "text": "hi' or 1=1 --", "number": -3, "float": -0.5, "none": null, "yes": true,
        "list": [1, ["a"]], "object": {"a": 1},
    });
    let Value::Object(members) = json else { unreachable!() };
    let variables = [("since".to_owned(), json!("2024-01-01"))].into();
    PlaceholderValues { values: members.into_iter().collect(), variables }
}

#[test]
fn placeholder_values_become_literals() {
    for (text, printed) in [
        ("select {text}", "SELECT 'hi\\' or 1=1 --'"),
        ("select {number} + {float}", "SELECT -3 + -0.5"),
        ("select {none}, {yes}, {list}", "SELECT NULL, true, [1, ['a']]"),
        (
            "with (select {number}) as x select a from (select {yes}) where t > {variables.since} \
             and f(a -> a = {number}) limit {number}",
            "WITH (SELECT -3) AS x SELECT a FROM (SELECT true) WHERE t > '2024-01-01' AND \
             f(a -> a = -3) LIMIT -3",
        ),
        ("select 1 union all select {number}", "SELECT 1 UNION ALL SELECT -3"),
        ("select sum(x) over (order by {number})", "SELECT sum(x) OVER (ORDER BY -3)"),
        ("select {object.a}", "SELECT 1"),
        ("select {filters.dateRange.from}", "SELECT {filters.dateRange.`from`}"),
        ("select count() where {filters}", "SELECT count() WHERE {filters}"),
        (
            "select 1 from t join u on {yes} limit 1 by {number}",
            "SELECT 1 FROM t JOIN u ON true LIMIT 1 BY -3",
        ),
    ] {
        let filled = fill(parse(text).unwrap(), text, &values());
        assert_eq!(filled.unwrap().to_string(), printed, "{text}");
    }
}

#[test]
fn unknown_placeholder_is_an_error_at_its_position() {
    for (text, message, byte) in [
        ("select {x}", "Unknown placeholder {x}", 7),
        ("select 1, {variables.x}", "Unknown placeholder {variables.x}", 10),
        ("select {since}", "Unknown placeholder {since}", 7),
        ("select {filters.date}", "Unknown placeholder {filters.date}", 7),
        ("select f({object})", "cannot be an object", 9),
        ("select {object.b}", "Unknown placeholder {object.b}", 7),
    ] {
        let error = fill(parse(text).unwrap(), text, &values()).expect_err(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
        assert_eq!(error.at.map(|at| at.byte), Some(byte), "{text}");
    }
}

#[test]
fn placeholder_values_are_bounded_per_use() {
    let mut values = values();
    values.values.insert("many".to_owned(), json!(vec![0; 1000]));
    values.values.insert("long".to_owned(), json!("a".repeat(1 << 20)));
    let deep = (0..20).fold(json!(1), |inner, _| json!([inner]));
    values.values.insert("deep".to_owned(), deep);
    for (text, what) in [
        ("{many},".repeat(100), "elements of values"),
        ("{long},".repeat(100), "bytes of values"),
        ("{deep},".to_owned(), "levels of lists"),
    ] {
        let text = format!("select {text} 1");
        let error = fill(parse(&text).unwrap(), &text, &values).expect_err(what);
        assert!(error.to_string().contains(what), "{error}");
    }
}
