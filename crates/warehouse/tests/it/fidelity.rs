//! Round trips of properties.

use proptest::prelude::*;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;
use warehouse::{ColumnKey, EventRow, Filter, Projection, Settings};

use crate::support::{Store, row};

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
fn members(object: &str) -> BTreeMap<String, String> {
    let raw: BTreeMap<String, Box<RawValue>> = serde_json::from_str(object).unwrap();
    let exact = |json: &str| match serde_json::from_str::<String>(json) {
        Ok(text) => serde_json::to_string(&text).unwrap(),
        Err(_) => json.to_owned(),
    };
    raw.into_iter().map(|(name, raw)| (name, exact(raw.get()))).collect()
}

fn check(objects: &[String]) {
    let mut store = Store::new();
    let mut rows: Vec<EventRow> = objects
        .iter()
        .enumerate()
        .map(|(at, object)| EventRow { properties: object.clone(), ..row(at as u128) })
        .collect();
    store.append(&mut rows);
    let look = |store: &Store, when: &str| {
        for (stored, object) in store.all().iter().zip(objects) {
            assert_eq!(members(&stored.properties), members(object), "{when}");
        }
    };
    look(&store, "in memory");
    store.warehouse.flush().unwrap();
    look(&store, "flushed");
    // A merge with other values may change the type of a column.
    let mut more = vec![EventRow { properties: r#"{"a":"text","b":{}}"#.into(), ..row(1 << 100) }];
    store.append(&mut more);
    store.warehouse.flush().unwrap();
    store.compact_fully();
    store = store.reopen();
    assert_eq!(store.all().len(), objects.len() + 1);
    look(&store, "compacted");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn properties_round_trip_with_equal_values_and_literals(
        objects in prop::collection::vec(object(), 1..40)
    ) {
        check(&objects);
    }
}

#[test]
fn repeated_property_name_keeps_the_last_value() {
    for (sent, expected) in [
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{"a":1,"a":null}"#, r#"{"a":null}"#),
        (r#"{"a":null,"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":null,"b":1,"a":null}"#, r#"{"a":null,"b":1}"#),
    ] {
        let store = Store::new();
        store.append(&mut [EventRow { properties: sent.into(), ..row(1) }]);
        store.warehouse.flush().unwrap();
        assert_eq!(members(&store.all()[0].properties), members(expected), "{sent}");
    }
}

#[test]
fn properties_beyond_the_column_limit_round_trip() {
    let store = Store::new();
    for value in ["null", "1"] {
        let all: Vec<String> = (0..50_000).map(|at| format!(r#""p{at}":{value}"#)).collect();
        // The last value of a repeated name counts, also without a column.
        let sent = format!(r#"{{"p49999":2,{},"p49998":3}}"#, all.join(","));
        store.append(&mut [EventRow { properties: sent.clone(), ..row(value.len() as u128) }]);
        let stored = store.all().into_iter().find(|row| row.uuid.as_u128() == value.len() as u128);
        assert!(members(&stored.unwrap().properties) == members(&sent), "{value}");
    }
}

#[test]
fn rare_properties_share_a_column_and_round_trip() {
    let store = Store::with(warehouse::Settings {
        memory_rows_max: 10_000,
        row_group_rows: 1_000,
        segment_rows_max: 10_000,
        ..crate::support::small()
    });
    let wide: Vec<String> = (0..600).map(|at| format!(r#""wide {at}":{at}"#)).collect();
    let mut objects: Vec<String> = vec![format!("{{{}}}", wide.join(","))];
    objects.extend((0..3_000).map(|at| match at % 1_500 {
        0 => format!(r#"{{"common":{at},"rare":{at}.0}}"#),
        _ => format!(r#"{{"common":{at}}}"#),
    }));
    let mut rows: Vec<EventRow> = objects
        .iter()
        .enumerate()
        .map(|(at, object)| EventRow { properties: object.clone(), ..row(at as u128) })
        .collect();
    let (first, second) = rows.split_at_mut(1_500);
    store.append(first);
    store.warehouse.flush().unwrap();
    store.append(second);
    let look = || {
        let stored = store.all();
        assert_eq!(stored.len(), objects.len());
        for (stored, object) in stored.iter().zip(&objects) {
            assert_eq!(members(&stored.properties), members(object));
        }
        let rare = warehouse::ColumnKey::Property("rare".into());
        let values = store.snapshot().values(&rare, &Default::default(), &|_| true, 10).unwrap();
        let mut values: Vec<String> = values.into_iter().map(|value| value.json).collect();
        values.sort();
        assert_eq!(values, ["0.0", "1500.0"]);
    };
    look();
    store.warehouse.flush().unwrap();
    look();
    store.compact_fully();
    assert_eq!(store.snapshot().totals().files, 1);
    look();
}

#[test]
fn plain_column_is_decoded_once() {
    // With fewer, the column has a dictionary.
    const ROWS: u128 = 2_000;
    let store = Store::with(Settings::default());
    let of = |at: u128| format!(r#"{{"id":"text {at}"}}"#);
    let mut rows: Vec<EventRow> =
        (0..ROWS).map(|at| EventRow { properties: of(at), ..row(at) }).collect();
    store.append(&mut rows);
    store.warehouse.flush().unwrap();
    let columns =
        Projection { keys: vec![ColumnKey::Property("id".into())], ..Projection::default() };
    let read = || {
        let parts = store.snapshot().scan_ranges(&Filter::default()).unwrap();
        assert_eq!(parts.len(), 1);
        parts[0].read(&Filter::default(), &columns).unwrap().columns.remove(0)
    };
    let (first, again) = (read(), read());
    assert!(Arc::ptr_eq(&first.dictionary, &again.dictionary));
    let text = |at: u128| again.value(at as usize).unwrap().to_json();
    let mut texts: Vec<String> = (0..ROWS).map(text).collect();
    let mut sent: Vec<String> = (0..ROWS).map(|at| format!("\"text {at}\"")).collect();
    texts.sort_unstable();
    sent.sort_unstable();
    assert_eq!(texts, sent);
}
