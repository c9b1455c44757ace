//! The oracle: a client of ClickHouse (chDB), which runs in a Python process.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

/// Where `tools/install-test-deps` puts Python's packages.
fn python() -> PathBuf {
    let dir = std::env::var_os("HEDGEROW_TEST_DEPS").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
        cache.unwrap_or_else(home).join("hedgerow/test-deps")
    });
    dir.join("venv/bin/python")
}

/// Disagreements that a failure prints.
const SHOWN_MAX: usize = 12;

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
pub fn run_batches(batches: &[Batch]) -> std::thread::JoinHandle<Vec<Vec<Outcome>>> {
    let query = |query: &Query| json!([query.tables, query.text]);
    let batch = |batch: &Batch| {
        let queries: Vec<Json> = batch.queries.iter().map(query).collect();
        json!({"setup": batch.setup, "zone": batch.zone, "queries": queries})
    };
    let input = batches.iter().map(batch).collect::<Json>().to_string();
    std::thread::spawn(move || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/differential/oracle.py");
        let mut child = Command::new(python())
            .arg(script)
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

/// Equal, except that floats may differ by a relative 1e-9, and whole floats may be written as
/// integers.
pub fn same(ours: &Json, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Json::Number(a), Json::Number(b)) => {
            let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else { return a == b };
            a == b || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1e-3)
        }
        (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => {
            difference(ours, theirs).is_none()
        }
        _ => ours == theirs,
    }
}

/// The path of the first difference between two results.
pub fn difference(ours: &Json, theirs: &Json) -> Option<String> {
    match (ours, theirs) {
        (Json::Array(a), Json::Array(b)) => {
            let inner = a.iter().zip(b).enumerate();
            let mut inner =
                inner.filter_map(|(at, (a, b))| Some(format!("[{at}]{}", difference(a, b)?)));
            inner.next().or_else(|| {
                let (longer, rest) = match a.len() > b.len() {
                    true => ("first", a.get(b.len())?),
                    false => ("second", b.get(a.len())?),
                };
                Some(format!(": {} and {}, the {longer} has {rest}", a.len(), b.len()))
            })
        }
        (Json::Object(a), Json::Object(b)) if a.len() == b.len() => {
            let member = |(key, a): (&String, &Json)| {
                let b = b.get(key).unwrap_or(&Json::Null);
                Some(format!(".{key}{}", difference(a, b)?))
            };
            a.iter().find_map(member)
        }
        _ => (!same(ours, theirs)).then(|| format!(": {ours} and {theirs}")),
    }
}

/// Why our outcome and ClickHouse's disagree on a statement.
pub fn disagreement(text: &str, ours: &Outcome, theirs: &Outcome) -> Option<String> {
    let why = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => format!("ours and theirs{}", difference(ours, theirs)?),
        // A statement that ClickHouse refuses proves nothing, so the generator must not make it.
        (_, Err(why)) => format!("theirs refuses: {why}"),
        (Err(why), _) => format!("ours refuses: {why}"),
    };
    Some(format!("{why}\n{text}"))
}

/// Prints how many queries were compared, and fails if any differ.
pub fn report(kind: &str, seeds: &Range<u64>, count: usize, wrong: &[String]) {
    println!("{count} {kind}, seeds {seeds:?}, {} differ", wrong.len());
    let shown: Vec<&str> = wrong.iter().take(SHOWN_MAX).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), shown.join("\n\n"));
}
