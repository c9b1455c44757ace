//! The corpus in `fixtures/hogql`: statements as people write them, over a seeded plant shop.
//!
//! Entries are separated by empty lines. The first line of an entry says what it exercises: `--= …`
//! means that ClickHouse runs it too and the rows are equal, `-- …` that it is answered.

mod plant_shop;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hogql::{Filters, PlaceholderValues};
use insights::{HogqlCompiler, Insight, QueryLimits};
use serde_json::{Value as Json, json};
use testing::clickhouse::{self, Batch};

use super::differential::comparison::same;
use crate::support::{LIMITS, Store, time};
use plant_shop::plant_shop;

/// Fewer statements, or fewer that ClickHouse runs too, would be a corpus that shrank.
const STATEMENTS_MIN: usize = 400;
const COMPARED_MIN: usize = 250;

const INSIGHTS_MIN: usize = 150;
const ANSWERED_MIN: usize = 110;

/// Kinds that only say how their `source` is displayed.
const WRAPPERS: [&str; 3] = ["InsightVizNode", "DataTableNode", "DataVisualizationNode"];

const FILES: [&str; 17] = [
    "agents",
    "aggregates",
    "analysts",
    "arrays",
    "dates",
    "events",
    "extensions",
    "funnels",
    "joins",
    "persons",
    "sessions",
    "text_and_json",
    "windows",
    "placeholders",
    "functions",
    "tutorials",
    "web_analytics",
];

/// What the entries exercise that have no rows on purpose.
const WITHOUT_ROWS: [&str; 3] = [
    "a window without rows",
    "HAVING without GROUP BY",
    "an empty list of rows counted by group, without rows",
];

struct Entry {
    exercises: String,
    text: String,
    is_compared: bool,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn entries(file: &str) -> Vec<Entry> {
    let path = root().join(format!("fixtures/hogql/{file}.sql"));
    let text = std::fs::read_to_string(path).unwrap();
    let entry = |entry: &str| {
        let (exercises, text) = entry.split_once('\n').unwrap();
        let exercises = exercises.strip_prefix("--").unwrap();
        let is_compared = exercises.starts_with('=');
        let exercises = exercises.trim_start_matches('=').trim().to_owned();
        Entry { exercises, text: text.to_owned(), is_compared }
    };
    text.trim().split("\n\n").map(entry).collect()
}

fn values() -> PlaceholderValues {
    let variables = json!({
        "wanted": "order paid", "rows": 3, "names": ["order paid", "signed up"], "nothing": null,
        "nested": {"name": "signed up"},
    });
    let object = |json: Json| json.as_object().unwrap().clone().into_iter().collect();
    PlaceholderValues { values: object(json!({"least": 100})), variables: object(variables) }
}

fn run(store: &Store, text: &str) -> Result<Vec<Json>, String> {
    let filters = Filters {
        from: Some(time("2024-03-04T00:00:00Z")),
        to: Some(time("2024-03-18T00:00:00Z")),
        condition: Some(hogql::parse_expr("properties.$browser = 'Firefox'").unwrap()),
    };
    let result = store.run_with(text, &values(), Some(&filters), &LIMITS);
    let rows = result.map_err(|error| format!("{error:?}"))?.rows;
    Ok(json!(rows).as_array().unwrap().clone())
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

/// Whether a statement says in what order its rows come: `ORDER BY` outside of parentheses orders
/// them all, unless the statement is a union.
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
fn statements_as_people_write_them_are_answered_and_agree_with_clickhouse() {
    let dir = tempfile::tempdir().unwrap();
    let (store, setup) = plant_shop(dir.path());
    let all: Vec<Entry> = FILES.iter().flat_map(|file| entries(file)).collect();
    let compared: Vec<&Entry> = all.iter().filter(|entry| entry.is_compared).collect();
    let queries = compared.iter().map(|entry| (&for_clickhouse(&entry.text)).into()).collect();
    let running = clickhouse::run_batches(&[Batch { setup, zone: "UTC", queries }]);
    let mut wrong = Vec::new();
    for entry in &all {
        let has_rows = !WITHOUT_ROWS.contains(&entry.exercises.as_str());
        match run(&store, &entry.text) {
            Ok(rows) if rows.is_empty() == has_rows => {
                wrong.push(format!("{} rows: {}", rows.len(), entry.text));
            }
            Ok(_) => {}
            Err(why) => wrong.push(format!("{why}: {}", entry.text)),
        }
    }
    for (entry, theirs) in compared.iter().zip(running.join().unwrap().remove(0)) {
        let mut ours = run(&store, &entry.text).map(|rows| normalized(&json!(rows)));
        let mut theirs = theirs.map(|rows| normalized(&rows));
        if !is_ordered(&entry.text) {
            ours = ours.as_ref().map(in_any_order).map_err(Clone::clone);
            theirs = theirs.as_ref().map(in_any_order).map_err(Clone::clone);
        }
        if !matches!((&ours, &theirs), (Ok(ours), Ok(theirs)) if same(ours, theirs)) {
            wrong.push(format!("{}\nours {ours:?}\ntheirs {theirs:?}", entry.text));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), all.len(), wrong.join("\n\n"));
    assert!(all.len() >= STATEMENTS_MIN, "{} statements", all.len());
    assert!(compared.len() >= COMPARED_MIN, "{} compared", compared.len());
    let mut texts: Vec<&str> = all.iter().map(|entry| entry.text.as_str()).collect();
    texts.sort_unstable();
    assert!(texts.windows(2).all(|pair| pair[0] != pair[1]), "a statement occurs twice");
}

#[test]
fn refused_statements_name_what_is_not_supported() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = plant_shop(dir.path());
    let differences = std::fs::read_to_string(root().join("docs/DIFFERENCES.md")).unwrap();
    for Entry { exercises: why, text, .. } in entries("refused") {
        let error = run(&store, &text).expect_err(&text);
        assert!(error.contains(&why), "{text}: {error}");
        if let Some(clause) = why.strip_suffix(" is not supported") {
            assert!(differences.contains(clause), "docs/DIFFERENCES.md does not list {clause}");
        }
    }
}

/// `fixtures/insights`: a query a line, with what it exercises; `refused` has the message of an error.
fn insight_queries() -> Vec<Json> {
    let folder = root().join("fixtures/insights");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    let texts = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn insights_as_clients_write_them_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = plant_shop(dir.path());
    let mut view = (*store.view()).clone();
    Arc::make_mut(&mut view.context).now = time("2024-03-25T00:00:00Z");
    view.expressions = Arc::new(HogqlCompiler::new(store.project.clone()));
    let hogql = HogqlCompiler::new(store.project.clone());
    let limits = QueryLimits::new(None, Arc::default(), LIMITS.memory_bytes);
    let all = insight_queries();
    assert!(all.len() >= INSIGHTS_MIN, "{} insights", all.len());
    let (mut answered, mut wrong) = (0, Vec::new());
    for entry in &all {
        let mut query = &entry["query"];
        while WRAPPERS.contains(&query["kind"].as_str().unwrap()) {
            query = &query["source"];
        }
        let Some(insight) = Insight::parse(query["kind"].as_str().unwrap(), query) else {
            // Statements and lists, which the query service answers.
            continue;
        };
        let result = insight.and_then(|insight| insight.run_with(&view, &limits, Some(&hogql)));
        match (result, entry["refused"].as_str()) {
            (Ok(_), None) => answered += 1,
            (Err(error), Some(why)) if error.to_string().contains(why) => {}
            (Ok(_), Some(why)) => wrong.push(format!("answered, not '{why}': {query}")),
            (Err(error), _) => wrong.push(format!("{error}: {query}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(answered >= ANSWERED_MIN, "{answered} answered");
}
