//! The corpus in `fixtures/hogql`.

use std::path::Path;

use hogql::{Filters, PlaceholderValues};
use serde_json::{Value as Json, json};
use testing::clickhouse::{self, Batch};

use crate::comparison::same;
use crate::plant_shop::plant_shop;
use crate::support::{Written, time};

/// Of the statements that ClickHouse runs as they are written. The rest is not printed: `Unsupported`.
const PRINTED_MIN: usize = 360;

const FILES: [&str; 12] = [
    "aggregates",
    "arrays",
    "dates",
    "events",
    "extensions",
    "functions",
    "funnels",
    "joins",
    "persons",
    "sessions",
    "text_and_json",
    "windows",
];

/// The statements of a file that ClickHouse runs too.
fn statements(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hogql");
    let text = std::fs::read_to_string(path.join(format!("{file}.sql"))).unwrap();
    let entries = text.trim().split("\n\n").map(|entry| entry.split_once('\n').unwrap());
    let compared = entries.filter(|(exercises, _)| exercises.starts_with("--="));
    compared.map(|(_, text)| text.to_owned()).collect()
}

fn values() -> PlaceholderValues {
    let variables = json!({"wanted": "order paid", "rows": 3});
    let object = |json: Json| json.as_object().unwrap().clone().into_iter().collect();
    PlaceholderValues { values: object(json!({"least": 100})), variables: object(variables) }
}

/// ClickHouse needs quotes around names with a dollar sign, and no semicolon.
fn for_clickhouse(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.trim_end_matches(';').chars().peekable();
    let mut in_string = false;
    while let Some(one) = chars.next() {
        in_string ^= one == '\'';
        if one != '$' || in_string {
            out.push(one);
            continue;
        }
        let mut name = String::from('$');
        while let Some(next) = chars.next_if(|next| next.is_alphanumeric() || *next == '_') {
            name.push(next);
        }
        out.push_str(&format!("`{name}`"));
    }
    out
}

/// Times without the separators in which the formats differ.
fn normalized(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(normalized).collect(),
        Json::String(text) if text.len() >= 19 && text.as_bytes()[4] == b'-' => {
            let plain = text.replacen('T', " ", 1);
            let plain = plain.trim_end_matches('Z').trim_end_matches("+00:00");
            json!(if plain.contains('.') {
                plain.trim_end_matches('0').trim_end_matches('.')
            } else {
                plain
            })
        }
        other => other.clone(),
    }
}

fn is_ordered(text: &str) -> bool {
    let mut depth = 0;
    let mut outside = text.to_lowercase();
    outside.retain(|one| {
        depth += i32::from(one == '(') - i32::from(one == ')');
        depth == 0
    });
    outside.contains("order by") && !outside.contains("union")
}

fn in_any_order(rows: &Json) -> Json {
    let mut rows = rows.as_array().unwrap().clone();
    rows.sort_by_key(Json::to_string);
    json!(rows)
}

#[test]
fn printed_statements_agree_with_clickhouse_as_people_write_them() {
    let dir = tempfile::tempdir().unwrap();
    let (store, setup) = plant_shop(dir.path());
    let Some(written) = Written::new(store) else { return };
    let all: Vec<String> = FILES.iter().flat_map(|file| statements(file)).collect();
    let queries = all.iter().map(|text| (&for_clickhouse(text)).into()).collect();
    let running = clickhouse::run_batches(&[Batch { setup, zone: "UTC", queries }]);
    let filters = Filters {
        from: Some(time("2024-03-04T00:00:00Z")),
        to: Some(time("2024-03-18T00:00:00Z")),
        condition: Some(hogql::parse_expr("properties.$browser = 'Firefox'").unwrap()),
    };
    let ours: Vec<_> =
        all.iter().map(|text| written.run(text, &values(), Some(&filters))).collect();
    let (mut printed, mut unsupported, mut wrong) = (0, Vec::new(), Vec::new());
    for (text, (ours, theirs)) in all.iter().zip(ours.iter().zip(running.join().unwrap().remove(0)))
    {
        if let Err(why) = ours
            && why.ends_with("cannot be computed by ClickHouse")
        {
            unsupported.push(why.as_str());
            continue;
        }
        printed += 1;
        let mut ours = ours.as_ref().map(|rows| normalized(&json!(rows))).map_err(Clone::clone);
        let mut theirs = theirs.map(|rows| normalized(&rows));
        if !is_ordered(text) {
            ours = ours.map(|rows| in_any_order(&rows));
            theirs = theirs.map(|rows| in_any_order(&rows));
        }
        if !matches!((&ours, &theirs), (Ok(ours), Ok(theirs)) if same(ours, theirs)) {
            wrong.push(format!("{text}\nours {ours:?}\ntheirs {theirs:?}"));
        }
    }
    unsupported.sort_unstable();
    println!("{printed} of {} printed; not: {unsupported:#?}", all.len());
    assert!(wrong.is_empty(), "{} of {printed}:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(printed >= PRINTED_MIN, "{printed} printed");
}
