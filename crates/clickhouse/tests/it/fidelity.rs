//! Whatever JSON an event has comes back, from columns and from the map of rare properties.

use std::collections::BTreeMap;

use clickhouse::{Client, Compression, Settings};
use model::Timestamp;
use serde_json::{Value as Json, json};
use testing::{Rng, seed};
use warehouse::EventRow;

use crate::support::{PROJECT, Store, row, time};

const HARD: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1.0",
    "1e400",
    "1.50",
    "123456789012345678901234567890",
    "\"\"",
    "\"z\"",
    "\"true\"",
    "\"null\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"a'b`c\\\\d\"",
    "\"\\n\\t\"",
    "[]",
    "{}",
    "[null,\"\",{\"a\":[1.0]}]",
    "{\"a\":{\"b\":null}}",
    "\"😀\"",
];
const NAMES: &[&str] = &[
    "$browser",
    "$current_url",
    "utm_source",
    "rare",
    "",
    "a.b",
    "p.x",
    "rest",
    "it's",
    "a`b",
    "a\\b",
    "{v0:String}",
    "\u{0}",
    "Ünï",
    "\u{202e}x",
    "uuid",
];

/// Equal text for equal JSON, with the literals of numbers.
fn canonical(json: &str) -> BTreeMap<String, String> {
    let mut members = BTreeMap::new();
    warehouse::for_each_json_member(json, |name, value| {
        members.insert(name.to_owned(), value.to_json());
    })
    .unwrap();
    members
}

fn properties(rng: &mut Rng) -> String {
    let count = rng.range(0..6usize);
    let names = rng.pick_some(NAMES, count);
    let member = |name: &&str| format!("{}:{}", json!(name), rng.pick(HARD));
    format!("{{{}}}", names.iter().map(member).collect::<Vec<_>>().join(","))
}

#[test]
fn json_of_any_shape_comes_back() {
    let Some(store) = Store::open() else { return };
    let seed = seed();
    let mut rng = seed.rng();
    let rows: Vec<EventRow> = (0..300)
        .map(|no| EventRow { properties: properties(&mut rng), ..row(no, json!({})) })
        .collect();
    store.append(&rows);
    store.writer.flush().unwrap();
    let read = store.all();
    assert_eq!(read.len(), rows.len());
    for (read, written) in read.iter().zip(&rows) {
        assert_eq!(canonical(&read.properties), canonical(&written.properties));
        let written = EventRow { properties: read.properties.clone(), ..written.clone() };
        assert_eq!(*read, written);
    }
}

#[test]
fn of_a_property_that_repeats_the_last_value_counts() {
    let Some(store) = Store::open() else { return };
    let properties = r#"{"$browser":1,"x":2,"$browser":"b","x":{"y":3}}"#;
    let row = EventRow { properties: properties.to_owned(), ..row(1, json!({})) };
    store.append(std::slice::from_ref(&row));
    store.writer.flush().unwrap();
    assert_eq!(store.all()[0].properties, r#"{"$browser":"b","x":{"y":3}}"#);
}

#[test]
fn ten_thousand_names_and_times_of_all_ages_come_back() {
    let Some(store) = Store::open() else { return };
    let many: serde_json::Map<String, Json> =
        (0..10_000).map(|no| (format!("name {no}"), json!(no))).collect();
    let times = [
        "0001-01-01T00:00:00.000001Z",
        "1899-12-31T23:59:59Z",
        "1969-12-31T23:59:59.999999Z",
        "1999-12-31T23:59:59Z",
        "2024-02-29T12:00:00.123456Z",
        "2150-01-01T00:00:00Z",
        "2299-12-31T23:59:59Z",
        "9999-12-30T12:00:00Z",
    ];
    let mut rows = vec![row(0, Json::Object(many))];
    for (position, text) in (1..).zip(times) {
        rows.push(EventRow { timestamp: time(text), ..row(position, json!({})) });
    }
    rows[1].groups = [Some("a'b".to_owned()), None, Some("x".to_owned()), None, None];
    rows[1].elements_chain = "a:text=\"x\"".to_owned();
    rows[1].historical = true;
    store.append(&rows);
    store.writer.flush().unwrap();
    for row in &rows {
        let read = store.reader.get(PROJECT, row.uuid).unwrap().unwrap();
        assert_eq!(canonical(&read.properties), canonical(&row.properties));
        assert_eq!(read, EventRow { properties: read.properties.clone(), ..row.clone() });
    }
    let oldest: Option<(Timestamp, Timestamp)> = store.reader.span(PROJECT).unwrap();
    assert_eq!(oldest, Some((rows[1].timestamp, rows[8].timestamp)));
}

#[test]
fn rows_come_back_with_every_compression() {
    let Some(mut store) = Store::open() else { return };
    for (no, compression) in (0..).zip([Compression::None, Compression::Lz4, Compression::Zstd]) {
        let mut settings = Settings::from_url(&store.database.url).unwrap();
        settings.compression = compression;
        store.schema = clickhouse::Schema::open(Client::new(settings).unwrap()).unwrap();
        store.reopen();
        let rows: Vec<_> =
            (no * 500..(no + 1) * 500).map(|at| row(at, json!({"a": "x"}))).collect();
        store.append(&rows);
        store.writer.flush().unwrap();
        assert_eq!(store.all().len(), (no as usize + 1) * 500, "{compression:?}");
    }
}
