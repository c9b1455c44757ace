use serde_json::{Value as Json, json};

use super::*;

fn parse(json: Json) -> Result<FilterExpr, InvalidFilter> {
    parse_for(json, FilteredRows::Events)
}

fn parse_for(json: Json, rows: FilteredRows) -> Result<FilterExpr, InvalidFilter> {
    let now = Timestamp::parse("2024-03-14T12:00:00Z").unwrap();
    FilterExpr::parse(&json, rows, now, &Zone::named("America/New_York"))
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

fn not(test: ValueTest) -> ValueTest {
    ValueTest::Not(Box::new(test))
}

#[test]
fn operators_are_lowered_to_tests() {
    use ValueTest as T;
    let midnight = Timestamp::parse("2024-03-01T05:00:00Z").unwrap();
    let number_or_text = |number, text| {
        T::Or(vec![T::And(vec![T::IsNumber, number]), T::And(vec![not(T::IsNumber), text])])
    };
    for (operator, value, test, negated) in [
        ("exact", json!("a"), T::TextIn(texts(&["a"])), false),
        ("is_not", json!([true, "b"]), T::TextIn(texts(&["true", "b"])), true),
        ("exact", json!(5), T::NumberIn(vec![5.0]), false),
        (
            "exact",
            json!("5"),
            number_or_text(T::NumberIn(vec![5.0]), T::TextIn(texts(&["5"]))),
            false,
        ),
        (
            "gt",
            json!("5"),
            number_or_text(
                T::Number(Comparison::Greater, 5.0),
                T::Text(Comparison::Greater, "5".into()),
            ),
            false,
        ),
        ("not_icontains", json!("ΟΔΟΣ"), T::ContainsAny(texts(&["οδοσ"])), true),
        (
            "not_between",
            json!([1, "3"]),
            T::Or(vec![T::Number(Comparison::Less, 1.0), T::Number(Comparison::Greater, 3.0)]),
            false,
        ),
        ("is_not_set", json!(null), T::Present, true),
        ("is_date_after", json!("2024-03-01"), T::Time(Comparison::Greater, midnight), false),
        (IS_CLEANED_PATH_EXACT, json!("/a"), T::CleanedPathIn(texts(&["/a"])), false),
    ] {
        let filter = json!([{"key": "k", "operator": operator, "value": value}]);
        let test = FilterExpr::Test(Field::EventProperty("k".into()), test);
        let expected = if negated { FilterExpr::Not(Box::new(test)) } else { test };
        assert_eq!(parse(filter.clone()), Ok(FilterExpr::And(vec![expected])), "{filter}");
    }
    let empty = json!([{"key": "k", "operator": "is_not", "value": []}]);
    assert_eq!(parse(empty), Ok(FilterExpr::And(vec![FilterExpr::default()])));
}

#[test]
fn types_of_filters_depend_on_the_rows() {
    let test = |field| Ok(FilterExpr::And(vec![FilterExpr::Test(field, ValueTest::Present)]));
    let filter = |kind: Json, key: Json| json!([{"key": key, "type": kind, "operator": "is_set", "group_type_index": 3}]);
    let key = || "k".to_owned();
    for (rows, kind, name, field) in [
        (FilteredRows::Events, json!(null), json!("k"), Field::EventProperty(key())),
        (FilteredRows::Events, json!("event"), json!(7), Field::EventProperty("7".into())),
        (FilteredRows::Events, json!("event_metadata"), json!("person_id"), Field::PersonId),
        (FilteredRows::Events, json!("person"), json!("distinct_id"), Field::DistinctIds),
        (
            FilteredRows::Events,
            json!("group"),
            json!("k"),
            Field::GroupProperty { index: Some(3), key: key() },
        ),
        (FilteredRows::Persons, json!(null), json!("k"), Field::PersonProperty(key())),
        (
            FilteredRows::Groups,
            json!(null),
            json!("k"),
            Field::GroupProperty { index: None, key: key() },
        ),
    ] {
        assert_eq!(parse_for(filter(kind, name), rows), test(field));
    }
    for (rows, kind) in [
        (FilteredRows::Persons, "event"),
        (FilteredRows::Groups, "cohort"),
        (FilteredRows::Groups, "person"),
    ] {
        let refused = parse_for(filter(json!(kind), json!("k")), rows).unwrap_err().to_string();
        assert_eq!(refused, format!("Filters of type '{kind}' cannot be used here."));
    }
}

#[test]
fn stored_times_are_iso_dates_or_unix_seconds() {
    for (text, expected) in [
        ("2024-03-01", Some("2024-03-01T05:00:00Z")),
        ("20240301", Some("2024-03-01T05:00:00Z")),
        ("2024-03-01 10:00", Some("2024-03-01T15:00:00Z")),
        ("2024-03-01T10:00:00.5+01:00", Some("2024-03-01T09:00:00.500000Z")),
        // Daylight saving skips this time.
        ("2024-03-10T02:30:00", Some("2024-03-10T06:30:00Z")),
        ("1700000000", Some("2023-11-14T22:13:20Z")),
        (" 1.5 ", Some("1970-01-01T00:00:01.500000Z")),
        ("2024-13-01", None),
        ("2024-03-01T1000", None),
        ("soon", None),
        ("1e300", None),
    ] {
        let parsed = parse_stored_time(text, &Zone::named("America/New_York"));
        assert_eq!(parsed.map(|at| at.to_string()).as_deref(), expected, "{text}");
    }
}
