//! Fidelity of properties: equal values, and numbers with their literals.

use std::collections::BTreeMap;

use ::model::ProjectId;
use proptest::prelude::*;
use serde_json::value::RawValue;
use warehouse::EventRow;

use super::{Adapter, Filled};

fn literal() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1.0".to_owned()),
        Just("1e3".to_owned()),
        Just("-0".to_owned()),
        Just("12345678901234567890".to_owned()),
        Just("0.10".to_owned()),
        Just("1E+2".to_owned()),
        any::<i64>().prop_map(|int| int.to_string()),
        (-1000..1000i64).prop_map(|int| int.to_string()),
        any::<f64>()
            .prop_filter("JSON has no such number", |float| float.is_finite())
            .prop_map(|float| serde_json::to_string(&float).unwrap()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        "[a-c]{0,2}".prop_map(|text| format!("{text:?}")),
        Just(r#""\u00e9\/""#.to_owned()),
        Just(r#""\ud83d""#.to_owned()),
        Just(r#"{"a": [1.50, null, {"b": "\""}]}"#.to_owned()),
        Just("[]".to_owned()),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-e]", any::<String>(), Just("p.a".to_owned()), Just("a.b".to_owned())]
}

fn object() -> impl Strategy<Value = String> {
    prop::collection::vec((name(), literal()), 0..8).prop_map(|members| {
        let member = |(name, json): (String, String)| {
            format!("{}: {json}", serde_json::to_string(&name).unwrap())
        };
        format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(", "))
    })
}

/// Members by name: numbers as their literal, strings as their value.
pub fn members(object: &str) -> BTreeMap<String, String> {
    let raw: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).unwrap();
    let exact = |json: &str| match serde_json::from_str::<String>(json) {
        Ok(text) => serde_json::to_string(&text).unwrap(),
        Err(_) => json.to_owned(),
    };
    raw.into_iter().map(|(name, raw)| (name, exact(raw.get()))).collect()
}

fn check<A: Adapter>(objects: &[String]) {
    let mut filled = Filled::<A>::new();
    let rows: Vec<EventRow> = (0..)
        .zip(objects)
        .map(|(number, object)| EventRow {
            properties: object.clone(),
            ..filled.event(number, number as i64)
        })
        .collect();
    filled.append(rows);
    let check = |filled: &Filled<A>, when: &str| {
        let stored = filled.all(super::PROJECT);
        for (stored, object) in stored.iter().zip(objects) {
            assert_eq!(members(&stored.properties), members(object), "{when}");
        }
        stored.len()
    };
    assert_eq!(check(&filled, "as appended"), objects.len());
    // Other values may change how the store keeps a property.
    let others = filled.event(1 << 100, 60_000_000);
    filled.append([EventRow { properties: r#"{"a":"text","b":{}}"#.into(), ..others }]);
    let filled = filled.restart();
    assert_eq!(check(&filled, "among others"), objects.len() + 1);
}

pub fn properties_come_back_with_equal_values_and_literals<A: Adapter>() {
    proptest!(
        ProptestConfig { cases: 48, ..ProptestConfig::default() },
        |(objects in prop::collection::vec(object(), 1..40))| check::<A>(&objects)
    );
}

pub fn repeated_property_name_keeps_the_last_value<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let cases = [
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{"a":1,"a":null}"#, r#"{"a":null}"#),
        (r#"{"a":null,"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":null,"b":1,"a":null}"#, r#"{"a":null,"b":1}"#),
    ];
    for (number, (sent, _)) in (0..).zip(cases) {
        // Of a project of its own, so that no other event decides how it is kept.
        let project = ProjectId(number + 1);
        let row = filled.event(number as u128, 0);
        filled.append([EventRow { project, properties: sent.into(), ..row }]);
    }
    for _ in 0..2 {
        for (number, (sent, expected)) in (0..).zip(cases) {
            let stored = filled.all(ProjectId(number + 1));
            assert_eq!(members(&stored[0].properties), members(expected), "{sent}");
        }
        filled = filled.restart();
    }
}
