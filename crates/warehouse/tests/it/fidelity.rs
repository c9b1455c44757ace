//! Round trips of properties that have no column of their own, and of plain columns.

use std::sync::Arc;

use warehouse::{ColumnKey, EventRow, Filter, Projection, Settings};

use crate::contract::members;
use crate::support::{Store, row};

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
