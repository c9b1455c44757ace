//! Many duplicates of stored events in one append.

use std::collections::HashMap;

use model::Timestamp;
use serde_json::{Map, Value, json};
use warehouse::{EventRow, Settings};

use crate::support::{Store, at, small};

/// So many rows that a property of one of them is rare, and has no column of its own.
const ROWS: u128 = 2_400;
const RARE: u128 = 77;

fn properties(number: u128) -> Map<String, Value> {
    let mut all = json!({
        "url": format!("https://example.com/{number}"),
        "n": number as u64 % 7,
        "ok": number.is_multiple_of(2),
        "list": [number as u64 % 3, { "a": "\u{e9}\"" }],
    });
    if number.is_multiple_of(3) {
        all["plan"] = json!("pro");
    }
    if number.is_multiple_of(50) {
        all["gone"] = Value::Null;
    }
    if number == RARE {
        all["rare"] = json!(1.5);
    }
    all.as_object().unwrap().clone()
}

fn stored(number: u128) -> EventRow {
    let mut row = at((number << 64) | (number * 0x9e37_79b9 % 1_009), number as i64 * 1_000);
    row.event = ["a", "b", "c", "d", "e"][number as usize % 5].into();
    row.distinct_no = 1 + number as u32 % 11;
    row.groups[1] = number.is_multiple_of(4).then(|| format!("group {}", number % 8));
    row.properties = Value::Object(properties(number)).to_string();
    row
}

/// The row sent again in one of thirteen ways, and whether its content changed.
fn duplicate(number: u128) -> (EventRow, bool) {
    let mut row = stored(number);
    row.created_at = Timestamp::from_micros(row.created_at.as_micros() + 1);
    let mut members = properties(number);
    let with = |first: &str, rest: &str| format!("{{{first},{}", &rest[1..]);
    let mut changed = true;
    match number % 13 {
        1 => {
            let reversed = members.iter().rev().map(|(name, value)| format!("{:?}:{value}", name));
            row.properties = format!("{{{}}}", reversed.collect::<Vec<_>>().join(" , "));
            changed = false;
        }
        2 => {
            row.properties = with(r#""n":"other""#, &row.properties);
            changed = false;
        }
        3 => {
            let end = row.properties.len() - 1;
            row.properties.replace_range(end.., r#","n":"other"}"#);
        }
        4 => drop(members.remove("url")),
        5 => drop(members.insert("more".into(), json!(1))),
        6 => drop(members.insert("n".into(), json!(number.to_string()))),
        7 => row.timestamp = Timestamp::from_micros(row.timestamp.as_micros() + 1),
        8 => row.elements_chain = "button".into(),
        9 => row.groups[1] = Some("other".into()),
        10 => drop(members.insert("url".into(), Value::Null)),
        11 => drop(members.insert("list".into(), json!([]))),
        _ => changed = false,
    }
    if [4, 5, 6, 10, 11].contains(&(number % 13)) {
        row.properties = Value::Object(members).to_string();
    }
    (row, changed)
}

#[test]
fn of_many_duplicates_only_changed_ones_replace_their_stored_rows() {
    let settings = Settings { row_group_rows: 900, memory_rows_max: 1 << 20, ..small() };
    let settings = Settings { segment_rows_max: 1 << 20, ..settings };
    let store = Store::with(settings);
    let mut rows: Vec<EventRow> = (0..ROWS).map(stored).collect();
    store.append(&mut rows);
    store.warehouse.flush().unwrap();
    let (mut again, changed): (Vec<EventRow>, Vec<bool>) = (0..ROWS).map(duplicate).unzip();
    // Not in the order in which they are stored.
    again.reverse();
    store.append(&mut again);
    again.reverse();
    for flushed in [false, true] {
        if flushed {
            store.warehouse.flush().unwrap();
        }
        let found = store.all();
        assert_eq!(found.len(), ROWS as usize);
        let found: HashMap<_, EventRow> = found.into_iter().map(|row| (row.uuid, row)).collect();
        for (number, changed) in changed.iter().enumerate() {
            let expected = if *changed { &again[number] } else { &rows[number] };
            let row = &found[&expected.uuid];
            assert_eq!(row.position, expected.position, "row {number}");
            assert_eq!(row.created_at, expected.created_at, "row {number}");
        }
    }
    let files = store.warehouse.files(crate::support::PROJECT).files;
    let dead: u64 = files.iter().map(|file| file.dead_rows).sum();
    assert_eq!(dead, changed.iter().filter(|changed| **changed).count() as u64);
}
