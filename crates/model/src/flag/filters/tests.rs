use serde_json::{Value, json};

use super::*;

fn prepared(filters: Value, stored: Option<&Fields>) -> Result<Value> {
    let filters = filters.as_object().unwrap().clone();
    let purpose = Purpose { stored, remote_configuration: false };
    prepare(filters, purpose).map(Value::Object)
}

fn with_property(property: Value) -> Value {
    json!({"groups": [{"properties": [property]}]})
}

fn variants(shares: &[(&str, Value)]) -> Value {
    let variants: Vec<Value> = shares
        .iter()
        .map(|(key, share)| json!({"key": key, "rollout_percentage": share}))
        .collect();
    json!({"groups": [{}], "multivariate": {"variants": variants}})
}

#[test]
fn flag_filters_are_rejected_by_every_validation_rule() {
    let person = |operator: &str, value: Value| {
        with_property(json!({"key": "p", "type": "person", "operator": operator, "value": value}))
    };
    let rollout = |share: Value| json!({"groups": [{"rollout_percentage": share}]});
    let payload = |key: &str, payload: Value| json!({"groups": [{}], "payloads": {key: payload}});
    let depends = |key: &str, operator: &str, value: Value| {
        with_property(json!({"key": key, "type": "flag", "operator": operator, "value": value}))
    };
    let of_group = |property: Value| json!({"aggregation_group_type_index": 0, "groups": [{"properties": [property]}]});
    let rows = [
        ("F0", json!({"groups": [{}], "version": 2})),
        ("F1", json!({"groups": []})),
        ("F1", json!({})),
        ("F2", json!({"groups": {}})),
        ("F2", json!({"groups": [1]})),
        ("F2", json!({"groups": [{"properties": {}}]})),
        ("F2", json!({"groups": [{"properties": ["x"]}]})),
        ("F3", rollout(json!("50"))),
        ("F3", rollout(json!(true))),
        ("F3", rollout(json!(101))),
        ("F3", rollout(json!(-1))),
        ("F4", variants(&[])),
        ("F4", variants(&[("a b", json!(100))])),
        ("F4", variants(&[("", json!(100))])),
        ("F4", variants(&[("a", json!(null))])),
        ("F5", variants(&[("a", json!(50)), ("b", json!(40))])),
        ("F6", variants(&[("a", json!(50)), ("a", json!(50))])),
        ("F7", payload("false", json!("1"))),
        ("F8", payload("true", json!("not json"))),
        ("F9", json!({"groups": [{"variant": "ghost"}]})),
        ("F10", with_property(json!({"type": "person", "value": 1}))),
        ("F10", with_property(json!({"key": "p", "type": "event", "value": 1}))),
        ("F10", with_property(json!({"key": "p", "value": 1}))),
        ("F11", person("foo", json!("x"))),
        (
            "F12",
            with_property(json!({"key": "p", "type": "group", "value": 1, "group_type_index": 0})),
        ),
        ("F12", of_group(json!({"key": "p", "type": "person", "value": 1}))),
        ("F12", of_group(json!({"key": "p", "type": "group", "value": 1, "group_type_index": 1}))),
        ("F13", person("is_date_before", json!("soon"))),
        ("F14", person("regex", json!("("))),
        ("F15", person("icontains", json!(5))),
        ("F15", person("gt", json!(true))),
        ("F15", person("icontains_multi", json!("a"))),
        ("F15", person("semver_gt", json!("one"))),
        ("F16", with_property(json!({"key": "id", "type": "cohort", "value": "x"}))),
        ("F18", depends("1", "exact", json!(true))),
        ("F18", depends("a", "flag_evaluates_to", json!(true))),
        ("F18", depends("1", "flag_evaluates_to", json!(1))),
        ("F21", json!({"groups": [{"description": "x".repeat(FILTERS_BYTES_MAX)}]})),
        ("F22", json!({"groups": [{}], "holdout": {"id": "1", "exclusion_percentage": 1}})),
        ("F22", json!({"groups": [{}], "holdout": {"id": 1, "exclusion_percentage": 101}})),
        ("F22", json!({"groups": [{}], "early_exit": 1})),
        ("F22", json!({"groups": [{}], "aggregation_group_type_index": 5})),
    ];
    for (rule, filters) in rows {
        let refused = prepared(filters.clone(), None).expect_err(rule);
        let code = match rule {
            "F0" => "reserved_config_version",
            "F16" => "cohort_does_not_exist",
            _ => "invalid_input",
        };
        assert_eq!(refused.code, code, "{rule} {filters}");
    }
}

#[test]
fn valid_flag_filters_are_normalized_idempotently() {
    for (sent, stored) in [
        (
            json!({"groups": [{"properties": null, "rollout_percentage": 0.5, "x": 1}]}),
            json!({"aggregation_group_type_index": null, "groups": [{
                "properties": [], "rollout_percentage": 0.5, "x": 1,
                "aggregation_group_type_index": null,
            }]}),
        ),
        (
            json!({"aggregation_group_type_index": 0,
                "groups": [{}, {"aggregation_group_type_index": null}]}),
            json!({"aggregation_group_type_index": null, "groups": [
                {"properties": [], "aggregation_group_type_index": 0},
                {"properties": [], "aggregation_group_type_index": null},
            ]}),
        ),
        (
            json!({"groups": [{}], "payloads": {"true": {"a": 1}}, "super_groups": [],
                "holdout_groups": []}),
            json!({"aggregation_group_type_index": null, "payloads": {"true": "{\"a\":1}"},
                "groups": [{"properties": [], "aggregation_group_type_index": null}]}),
        ),
        (
            with_property(json!({"key": 5, "type": "person", "operator": "min", "value": "5"})),
            json!({"aggregation_group_type_index": null, "groups": [{
                "aggregation_group_type_index": null,
                "properties": [{"key": "5", "type": "person", "operator": "gte", "value": "5"}],
            }]}),
        ),
    ] {
        assert_eq!(prepared(sent.clone(), None).unwrap(), stored, "{sent}");
        let again = prepared(stored.clone(), stored.as_object()).unwrap();
        assert_eq!(again, stored, "preparing twice changes nothing");
    }
    let thirds = [("a", json!(33.33)), ("b", json!(33.33)), ("c", json!(33.34))];
    assert!(prepared(variants(&thirds), None).is_ok());
}

#[test]
fn stored_patterns_are_not_validated_again() {
    let broken =
        with_property(json!({"key": "p", "type": "person", "operator": "regex", "value": "("}));
    assert!(prepared(broken.clone(), None).is_err());
    assert!(prepared(broken.clone(), broken.as_object()).is_ok());
    let cleared = prepared(json!({"groups": []}), broken.as_object());
    assert!(cleared.is_ok(), "a change may clear the targeting");
}

#[test]
fn remote_configuration_flags_serve_all_persons() {
    let purpose = Purpose { stored: None, remote_configuration: true };
    for (groups, shares) in [
        (json!([]), json!([100])),
        (json!([{"rollout_percentage": 0}, {}, {"rollout_percentage": 5}]), json!([100, 100, 5])),
    ] {
        let filters = json!({ "groups": groups }).as_object().unwrap().clone();
        let prepared = prepare(filters, purpose).unwrap();
        let found: Value = super::groups(&prepared)
            .iter()
            .map(|group| group["rollout_percentage"].clone())
            .collect();
        assert_eq!(found, shares);
    }
}

#[test]
fn merge_of_filters_is_shallow() {
    let stored = json!({"groups": [{}], "payloads": {"a": "1", "b": "2"}});
    let sent = json!({"payloads": {"a": "3"}});
    let merged = merged(stored.as_object().unwrap(), sent.as_object().unwrap());
    assert_eq!(Value::Object(merged), json!({"groups": [{}], "payloads": {"a": "3"}}));
}
