use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::*;
use crate::CohortId;

const NOW: &str = "2026-01-15T12:00:00Z";

fn now() -> Timestamp {
    Timestamp::parse(NOW).unwrap()
}

fn filter(operator: &str, value: Value) -> PropertyFilter {
    let operator = Operator::parse(operator).unwrap();
    PropertyFilter::compile("p", operator, &value, &Dialect::default())
}

fn properties(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// Rows of (operator, filter's value, properties, expected).
fn check_all(rows: &[(&str, Value, Value, bool)]) {
    for (operator, value, stored, expected) in rows {
        let matches = filter(operator, value.clone()).matches(&properties(stored.clone()), now());
        assert_eq!(matches, *expected, "{operator} {value} on {stored}");
    }
}

// contract: flags 59
#[test]
fn property_filter_reproduces_every_recorded_comparison() {
    let recorded = include_str!("../../../../fixtures/flags/flag_hash.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let rows = recorded["property_matches"].as_array().unwrap();
    assert_eq!(rows.len(), 330);
    for row in rows {
        let property = &row["property"];
        let operator = property["operator"].as_str().unwrap_or("exact");
        let booleans = match row["property_matching_version"].as_i64() {
            Some(2) => Booleans::Text,
            _ => Booleans::Truthiness,
        };
        let dialect = Dialect { booleans, ..Dialect::default() };
        let operator = Operator::parse(operator).unwrap();
        let filter = PropertyFilter::compile("p", operator, &property["value"], &dialect);
        let expected = row.get("server_expected").unwrap_or(&row["expected"]);
        let matches = filter.matches(row["properties"].as_object().unwrap(), now());
        assert_eq!(Value::Bool(matches), *expected, "{row}");
    }
}

// contract: flags 68-70, 72
#[test]
fn operators_follow_the_table_for_missing_null_and_mixed_types() {
    let missing = json!({});
    let mut rows = Vec::new();
    for (positive, negative, value) in [
        ("exact", "is_not", json!("x")),
        ("icontains", "not_icontains", json!("x")),
        ("icontains_multi", "not_icontains_multi", json!(["x"])),
        ("starts_with", "not_starts_with", json!("x")),
        ("ends_with", "not_ends_with", json!("x")),
        ("regex", "not_regex", json!("x")),
        ("between", "not_between", json!([1, 2])),
        ("is_set", "is_not_set", json!(null)),
    ] {
        rows.push((positive, value.clone(), missing.clone(), false));
        rows.push((negative, value, missing.clone(), true));
    }
    rows.extend([
        ("is_set", json!(null), json!({"p": null}), true),
        ("is_not_set", json!(null), json!({"p": null}), false),
        ("exact", json!("null"), json!({"p": null}), true),
        ("exact", json!(null), json!({"p": null}), false),
        ("is_not", json!(null), json!({}), false),
        ("gt", json!("10"), json!({"p": "9"}), false),
        ("gt", json!(10), json!({"p": "11"}), true),
        ("gt", json!(10), json!({"p": " 11"}), false),
        ("exact", json!("true"), json!({"p": true}), true),
        ("exact", json!("true"), json!({"p": "TRUE"}), true),
        ("exact", json!("true"), json!({"p": 1}), false),
        ("exact", json!(["a", 5]), json!({"p": 5}), true),
        ("between", json!([1, "5"]), json!({"p": "5"}), true),
        ("between", json!([1]), json!({"p": 1}), false),
        ("not_between", json!([1]), json!({"p": 1}), false),
        ("not_between", json!([1, 5]), json!({"p": 6}), true),
        ("icontains_multi", json!(["zz", "B"]), json!({"p": "abc"}), true),
        ("not_icontains_multi", json!(["zz", "B"]), json!({"p": "abc"}), false),
        ("icontains", json!("É"), json!({"p": "é"}), false),
        ("exact", json!("É"), json!({"p": "é"}), true),
        ("regex", json!("^(?!bot).*$"), json!({"p": "bot-1"}), false),
        ("regex", json!("^(?!bot).*$"), json!({"p": "user"}), true),
        ("is_date_before", json!("2024-01-01"), json!({"p": 1_700_000_000}), true),
        ("is_date_before", json!("2024-01-01"), json!({"p": "1700000000.5"}), true),
        ("is_date_exact", json!("2024-01-01"), json!({"p": "2024-01-01T02:00:00+02:00"}), true),
    ]);
    check_all(&rows);
}

// contract: flags 71
#[test]
fn relative_dates_lie_before_now_with_either_sign() {
    let rows = [
        ("-7d", "2026-01-14T12:00:00Z", true),
        ("-7d", "2026-01-07T12:00:00Z", false),
        ("7d", "2026-01-14T12:00:00Z", true),
        ("7d", "2026-01-07T12:00:00Z", false),
        ("-24h", "2026-01-14T12:00:01Z", true),
        ("-1m", "2025-12-15T12:00:00Z", false),
        ("-1m", "2025-12-15T12:00:01Z", true),
        ("-1y", "2025-01-15T12:00:01Z", true),
        ("10000d", "2026-01-14", false),
        ("-7D", "2026-01-14", false),
        ("d", "2026-01-14", false),
    ];
    for (value, property, expected) in rows {
        let filter = filter("is_date_after", json!(value));
        let matches = filter.matches(&properties(json!({ "p": property })), now());
        assert_eq!(matches, expected, "{property} after {value}");
    }
    let clamped = FilterDate::parse("1m", &TimeZone::UTC).unwrap();
    let end_of_march = Timestamp::parse("2026-03-31T00:00:00Z").unwrap();
    let then = clamped.at(end_of_march, &TimeZone::UTC).unwrap();
    assert_eq!(then.to_string(), "2026-02-28T00:00:00Z");
}

#[test]
fn dates_without_an_offset_are_in_the_projects_zone() {
    let zone = TimeZone::get("America/New_York").unwrap();
    let dialect = Dialect { zone, ..Dialect::default() };
    let value = json!("2026-01-01");
    let filter = PropertyFilter::compile("p", Operator::IsDateExact, &value, &dialect);
    for (property, expected) in [
        ("2026-01-01T05:00:00Z", true),
        ("2026-01-01", true),
        ("2026-01-01 00:00", true),
        ("2026-01-01T00:00:00Z", false),
    ] {
        let matches = filter.matches(&properties(json!({ "p": property })), now());
        assert_eq!(matches, expected, "{property}");
    }
}

// contract: flags 73
#[test]
fn semver_operators_follow_semver_precedence() {
    check_all(&[
        ("semver_gt", json!("1.2.3"), json!({"p": "1.10.0"}), true),
        ("semver_gt", json!("1.2.3"), json!({"p": "abc"}), false),
        ("semver_neq", json!("1.2.3"), json!({"p": "abc"}), false),
        ("semver_lt", json!("1.2.3"), json!({"p": "1.2.3-alpha"}), true),
        ("semver_lt", json!("1.2.3-alpha.2"), json!({"p": "1.2.3-alpha.1"}), true),
        ("semver_lt", json!("1.2.3-alpha.10"), json!({"p": "1.2.3-alpha.9"}), true),
        ("semver_lt", json!("1.2.3-beta"), json!({"p": "1.2.3-1"}), true),
        ("semver_eq", json!("1.2"), json!({"p": "v01.2.0+build.5"}), true),
        ("semver_caret", json!("0.0.3"), json!({"p": "0.0.4"}), false),
        ("semver_wildcard", json!("1.2.*"), json!({"p": "1.2.99"}), true),
        ("semver_wildcard", json!("1.2.3"), json!({"p": "1.2.3"}), false),
        ("semver_eq", json!("1.2.3.4"), json!({"p": "1.2.3"}), false),
        ("semver_eq", json!("99999999999999999999.0.0"), json!({"p": "1.2.3"}), false),
    ]);
}

#[test]
fn missing_initial_property_falls_back_to_the_current_one() {
    let initial = |stored: Value| {
        PropertyFilter::compile(
            "$initial_utm_source",
            Operator::Exact,
            &json!("ad"),
            &Dialect::default(),
        )
        .matches(&properties(stored), now())
    };
    assert!(initial(json!({"$utm_source": "ad"})));
    assert!(initial(json!({"utm_source": "ad"})));
    assert!(!initial(json!({"$initial_utm_source": "x", "utm_source": "ad"})));
    assert!(!initial(json!({})));
}

#[test]
fn check_rejects_values_that_do_not_suit_the_operator() {
    for (operator, good, bad) in [
        ("exact", json!(["a"]), json!(null)),
        ("icontains", json!("a"), json!(5)),
        ("icontains_multi", json!(["a"]), json!("a")),
        ("regex", json!("a(?=b)"), json!("(")),
        ("regex", json!("a"), json!(5)),
        ("regex", json!("a"), json!("a".repeat(REGEX_CHARS_MAX + 1))),
        ("regex", json!("a"), json!("((a{1000}){1000}){1000}")),
        ("gt", json!(5), json!(true)),
        ("gt", json!("5"), json!([5])),
        ("between", json!([1, 2]), json!([2, 1])),
        ("between", json!(["1", 2]), json!(["x", 2])),
        ("is_date_before", json!("-7d"), json!("soon")),
        ("is_date_after", json!("2024-01-01 10:00"), json!("2024-13-01")),
        ("semver_gt", json!("1.2"), json!("one")),
        ("semver_wildcard", json!("1.*"), json!("1.2.3")),
    ] {
        let operator = Operator::parse(operator).unwrap();
        assert_eq!(
            check(operator, &good, &mut PatternQuota::default()),
            Ok(()),
            "{operator:?} {good}"
        );
        assert!(check(operator, &bad, &mut PatternQuota::default()).is_err(), "{operator:?} {bad}");
    }
    assert_eq!(Operator::parse("min"), Ok(Operator::Gte));
    assert!(Operator::parse("foo").is_err());
}

#[test]
fn regex_backtracking_is_bounded() {
    let slow = filter("regex", json!(r"^(?=(a+)+$)\1b"));
    assert!(!slow.matches(&properties(json!({ "p": "a".repeat(5_000) })), now()));
}

#[test]
fn filter_trees_combine_negate_and_reference_cohorts() {
    let tree = json!({"type": "OR", "values": [
        {"type": "AND", "values": [
            {"key": "plan", "type": "person", "value": "pro"},
            {"key": "email", "type": "person", "operator": "icontains", "value": "@x", "negation": true},
        ]},
        {"type": "cohort", "key": "id", "value": "7"},
    ]});
    let node = Node::parse(&tree, &Dialect::default()).unwrap();
    for (stored, member, expected) in [
        (json!({"plan": "pro"}), false, true),
        (json!({"plan": "pro", "email": "a@x"}), false, false),
        (json!({}), true, true),
        (json!({}), false, false),
    ] {
        let matches = node.matches::<()>(&properties(stored.clone()), now(), &mut |condition| {
            assert_eq!(condition, ExternalCondition::Cohort(CohortId(7)));
            Ok(member)
        });
        assert_eq!(matches, Ok(expected), "{stored} {member}");
    }
    let everyone = Node::parse(&json!({}), &Dialect::default()).unwrap();
    assert_eq!(everyone.matches::<()>(&Map::new(), now(), &mut |_| Ok(false)), Ok(true));
    let behaviour = json!({"type": "behavioral", "key": "$pageview"});
    assert!(Node::parse(&behaviour, &Dialect::default()).is_err());
    let did = json!({"type": "behavioral", "key": "$pageview", "value": "performed_event",
        "event_type": "events", "time_value": 7, "time_interval": "day", "negation": true});
    let did = Node::parse(&did, &Dialect::default()).unwrap();
    assert!(did.has_behavioral_filters() && !node.has_behavioral_filters());
    assert_eq!(did.matches::<()>(&Map::new(), now(), &mut |_| Ok(false)), Ok(true));
    let deep =
        (0..=DEPTH_MAX).fold(json!({}), |inner, _| json!({"type": "AND", "values": [inner]}));
    assert!(Node::parse(&deep, &Dialect::default()).is_err());
}

#[test]
fn tree_names_every_property_that_it_reads() {
    let leaf = |key: &str| json!({ "type": "person", "key": key, "value": "x" });
    let not = |key: &str| json!({ "type": "person", "key": key, "value": "x", "negation": true });
    let tree = json!({ "type": "AND", "values": [
        leaf("a"),
        { "type": "OR", "values": [leaf("b"), not("$initial_c")] },
        { "type": "cohort", "key": "id", "value": 1 },
    ] });
    let (node, mut names) = (Node::parse(&tree, &Dialect::default()).unwrap(), Vec::new());
    node.properties(&mut names);
    assert_eq!(names, ["a", "b", "$initial_c", "$c", "c"]);
    for name in names {
        let person = json!({ "a": "x", "b": "y", "$initial_c": "x", name: "x" });
        let person = properties(person);
        assert_eq!(node.matches::<()>(&person, now(), &mut |_| Ok(true)), Ok(name == "b"));
    }
}
