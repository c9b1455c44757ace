//! ClickHouse (chDB): as an oracle, in a Python process of [`test_deps`], and as a server that
//! `tools/with-clickhouse` starts.

mod database;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value as Json, json};

use crate::test_deps;

pub use database::{Database, clickhouse_available};

/// Statements that create tables, and the queries to run on them.
pub struct Batch {
    pub setup: Vec<String>,
    pub zone: &'static str,
    pub queries: Vec<Query>,
}

/// A statement. CTEs that it reads more than once are tables: ClickHouse would inline them each time.
#[derive(Clone, Debug)]
pub struct Query {
    pub tables: Vec<(String, String)>,
    pub text: String,
}

impl From<&String> for Query {
    fn from(text: &String) -> Self {
        Self { tables: Vec::new(), text: text.clone() }
    }
}

/// The rows, or the error message.
pub type Outcome = Result<Json, String>;

/// Runs the batches concurrently with the caller.
pub fn run_batches(batches: &[Batch]) -> JoinHandle<Vec<Vec<Outcome>>> {
    let query = |query: &Query| json!([query.tables, query.text]);
    let batch = |batch: &Batch| {
        let queries: Vec<Json> = batch.queries.iter().map(query).collect();
        json!({"setup": batch.setup, "zone": batch.zone, "queries": queries})
    };
    let input = batches.iter().map(batch).collect::<Json>().to_string();
    std::thread::spawn(move || {
        let mut child = Command::new(test_deps().join("venv/bin/python"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/clickhouse.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("run tools/install-test-deps first");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "run tools/install-test-deps first");
        let results: Vec<Vec<Json>> = serde_json::from_slice(&output.stdout).unwrap();
        let outcome = |result: Json| match result.get("refusal") {
            Some(why) => Err(why.to_string()),
            None => Ok(result["rows"].clone()),
        };
        results.into_iter().map(|batch| batch.into_iter().map(outcome).collect()).collect()
    })
}
