//! Hostile names and values change no statement's shape, and other projects' rows are out of reach.

use hogql::PlaceholderValues;
use model::ProjectId;
use serde_json::json;

use crate::support::{PROJECT, Store, Written, time};

const HOSTILE: &[&str] = &[
    "a'b",
    "a`b",
    "a\\",
    "\\'",
    "a\"b",
    "a\0b",
    "{v0:String}",
    "'; DROP TABLE events; --",
    "a]b",
    "e.event",
    "f0",
    "c0",
    "ａ",
    "\u{202e}x",
    "a\nb",
    "%s",
    "p.$browser",
    "rest['x']",
];

fn store() -> Store {
    let mut store = Store::new();
    store.person_since(time("2024-01-01T00:00:00Z"), 0, &["ann"], json!({"plan": "pro"}));
    let at = time("2024-01-02T00:00:00Z");
    let mut rows = Vec::new();
    for (no, text) in HOSTILE.iter().enumerate() {
        let properties = json!({*text: format!("value {no}"), "text": text});
        rows.push(store.row(
            PROJECT,
            text,
            "ann",
            at.plus_seconds(no as i64),
            properties,
            Default::default(),
        ));
    }
    let other = ProjectId(2);
    let properties = json!({"text": "secret"});
    rows.push(store.row(other, "theirs", "ann", at, properties, Default::default()));
    store.append(rows);
    store
}

fn literal(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
    format!("'{}'", escaped.replace('\0', "\\0"))
}

#[test]
fn hostile_names_and_values_are_values() {
    let Some(written) = Written::new(store()) else { return };
    for (no, text) in HOSTILE.iter().enumerate() {
        let quoted = literal(text);
        let expected = json!([[text, format!("value {no}"), text]]);
        for statement in [
            format!(
                "select event, properties[{quoted}], properties.text from events where event = {quoted}"
            ),
            format!(
                "select event, properties[{quoted}], {quoted} from events where properties.text in ({quoted}, 'x')"
            ),
            format!(
                "select event, properties[{quoted}], any(properties.text) from events where \
                     isNotNull(properties[{quoted}]) group by event, properties[{quoted}]"
            ),
        ] {
            let rows = written.run(&statement, &PlaceholderValues::default(), None);
            assert_eq!(json!(rows.unwrap()), expected, "{statement}");
        }
    }
}

#[test]
fn other_projects_are_out_of_reach() {
    let Some(written) = Written::new(store()) else { return };
    for statement in [
        "select count() from events where team_id = 2",
        "select count() from events where team_id != 1",
        "select count() from events where properties.text = 'secret' or event = 'theirs'",
        "select count() from (select * from events) where event = 'theirs'",
        "with x as (select event from events) select count() from x where event = 'theirs'",
        "select count() from events e join events f on e.distinct_id = f.distinct_id where f.event = 'theirs'",
        "select count() from events where event in (select event from events where team_id = 2)",
    ] {
        let rows = written.run(statement, &PlaceholderValues::default(), None);
        assert_eq!(json!(rows.unwrap()), json!([[0]]), "{statement}");
    }
}

#[test]
fn properties_of_events_persons_and_groups_come_as_json() {
    let mut store = Store::new();
    store.person_since(time("2024-01-01T00:00:00Z"), 0, &["ann"], json!({"plan": "pro", "n": 1}));
    store.group(0, "acme", json!({"tier": "a\"b"}));
    let groups = [Some("acme".to_owned()), None, None, None, None];
    let properties = json!({"$browser": "Firefox", "z/x": [1, null], "a": null, "b": true});
    let at = time("2024-01-02T00:00:00Z");
    let row = store.row(PROJECT, "opened", "ann", at, properties, groups);
    store.append(vec![row]);
    let row = store.row(PROJECT, "opened", "nobody", at, json!({}), Default::default());
    store.append(vec![row]);
    let Some(written) = Written::new(store) else { return };
    let statement =
        "select properties, person.properties, group_0.properties from events order by distinct_id";
    let rows = written.run(statement, &PlaceholderValues::default(), None).unwrap();
    let all = r#"{"$browser":"Firefox","a":null,"b":true,"z/x":[1,null]}"#;
    let expected =
        json!([[all, r#"{"n":1,"plan":"pro"}"#, r#"{"tier":"a\"b"}"#], ["{}", null, null],]);
    assert_eq!(json!(rows), expected);
}
