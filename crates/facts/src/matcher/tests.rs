use serde_json::json;

use super::*;

fn now() -> Timestamp {
    Timestamp::parse("2024-03-14T12:00:00Z").unwrap()
}

fn matcher(operator: &str, value: Json) -> Result<Matcher> {
    Matcher::new(Operator::parse(operator).unwrap(), &value, now(), &Zone::named("UTC"))
}

const NOTHING: Option<Value<'static>> = None;

fn text(text: &'static str) -> Option<Value<'static>> {
    Some(Value::Text(text))
}

fn number(literal: &'static str) -> Option<Value<'static>> {
    Some(Value::Number(literal))
}

/// Longer than the stack buffer for lower-casing.
const LONG: &str = concat!(
    "https://example.com/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789",
    "/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456",
    "/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456789/0123456",
    "/End",
);

#[test]
fn operators_have_query_semantics() {
    let yes = Some(Value::Bool(true));
    for (operator, value, accepted, refused) in [
        ("exact", json!("Pro"), vec![text("Pro")], vec![text("pro"), text(""), NOTHING]),
        ("exact", json!(["a", "b"]), vec![text("a"), text("b")], vec![text("c"), NOTHING]),
        ("exact", json!(5), vec![number("5"), number("5.0"), text("5")], vec![text("five")]),
        ("exact", json!("5"), vec![number("5"), number("5.0"), text("5")], vec![text("5.0")]),
        ("exact", json!(true), vec![yes, text("true")], vec![text("True"), number("1")]),
        ("exact", json!([]), vec![text("a"), NOTHING], vec![]),
        ("is_not", json!("a"), vec![text("b"), text(""), NOTHING], vec![text("a")]),
        ("is_not", json!(["a", "b"]), vec![text("c"), NOTHING], vec![text("a"), text("b")]),
        ("icontains", json!("RO"), vec![text("pro")], vec![text("p_o"), NOTHING]),
        ("icontains", json!(["x", "ö"]), vec![text("KÖLN")], vec![text("koln")]),
        ("icontains", json!("END"), vec![text(LONG)], vec![text("en d")]),
        ("icontains", json!("k"), vec![text("\u{212a}"), text("éK")], vec![text("é")]),
        ("icontains", json!("ΟΔΟΣ"), vec![text("ΟΔΟΣΑ")], vec![text("ΟΔΟ")]),
        ("icontains", json!("%"), vec![text("5%")], vec![text("pro")]),
        ("not_icontains", json!("ro"), vec![text("p"), NOTHING], vec![text("PRO")]),
        ("regex", json!("^a.c$"), vec![text("abc")], vec![text("Abc"), text("abcd"), NOTHING]),
        ("regex", json!("^a.c$"), vec![text("a\nc")], vec![text("a\nbc")]),
        ("regex", json!(["^a", "z$"]), vec![text("ab"), text("yz")], vec![text("m")]),
        ("not_regex", json!("a"), vec![text("b"), NOTHING], vec![text("a")]),
        ("gt", json!(5), vec![number("6"), text("10")], vec![number("5"), text("x"), NOTHING]),
        ("gt", json!("5"), vec![number("10"), text("6")], vec![number("4"), text("10"), NOTHING]),
        ("gte", json!(5), vec![number("5")], vec![number("4.9")]),
        ("min", json!(5), vec![number("5")], vec![number("4.9")]),
        ("lt", json!(5), vec![number("-6e2")], vec![number("5"), NOTHING]),
        ("lte", json!(5), vec![number("5")], vec![number("5.1")]),
        ("max", json!(5), vec![number("5")], vec![number("5.1")]),
        ("between", json!([1, 3]), vec![number("1"), number("3")], vec![number("4"), NOTHING]),
        ("not_between", json!([1, 3]), vec![number("4")], vec![number("2"), NOTHING]),
        ("is_set", json!(null), vec![text("a"), yes], vec![text(""), Some(Value::Null), NOTHING]),
        ("is_not_set", json!("x"), vec![text(""), Some(Value::Null), NOTHING], vec![text("a")]),
        (
            "is_date_before",
            json!("-7d"),
            vec![text("2024-03-01"), number("1700000000")],
            vec![text("2024-03-14"), text("soon"), NOTHING],
        ),
        ("is_date_after", json!("2024-03-01"), vec![text("2024-03-01T00:00:01")], vec![NOTHING]),
        ("is_date_exact", json!("2024-03-01"), vec![text("2024-03-01")], vec![text("2024-03-02")]),
        ("in", json!(["a"]), vec![text("a")], vec![text("b")]),
        ("not_in", json!(["a"]), vec![text("b"), NOTHING], vec![text("a")]),
        ("semver_gte", json!("1.2.0"), vec![text("1.10.0")], vec![text("1.1.9"), NOTHING]),
        ("starts_with", json!("Ab"), vec![text("abc")], vec![text("cab")]),
        ("not_ends_with", json!("c"), vec![text("ab"), NOTHING], vec![text("abC")]),
    ] {
        let compiled = matcher(operator, value.clone()).unwrap();
        for stored in accepted {
            assert!(compiled.accepts(stored), "{operator} {value} refused {stored:?}");
        }
        for stored in refused {
            assert!(!compiled.accepts(stored), "{operator} {value} accepted {stored:?}");
        }
    }
}

#[test]
fn values_that_an_operator_cannot_use_are_rejected() {
    for (operator, value, why) in [
        ("exact", json!(null), "needs a value"),
        ("regex", json!("("), "Invalid regex"),
        ("gt", json!([1, 2]), "needs one value"),
        ("between", json!([3, 1]), "the lower one first"),
        ("between", json!(3), "two numbers"),
        ("is_date_before", json!("soon"), "needs a date"),
        ("semver_gt", json!("x"), "needs a version"),
        ("exact", json!(vec![1; 1_001]), "at most 1000 values"),
    ] {
        let refused = matcher(operator, value).unwrap_err().to_string();
        assert!(refused.contains(why), "{operator}: {refused}");
    }
}
