//! ClickHouse, asked in a process of its own.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value as Json, json};

/// Where `tools/install-test-deps` puts Python's packages.
fn python() -> PathBuf {
    let folder = std::env::var_os("HEDGEROW_TEST_DEPS").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
        cache.unwrap_or_else(home).join("hedgerow/test-deps")
    });
    folder.join("venv/bin/python")
}

/// Differences that are shown of all.
const SHOWN_MAX: usize = 12;

/// Statements that make tables, and what is asked of them.
pub struct Lot {
    pub setup: Vec<String>,
    pub zone: &'static str,
    pub queries: Vec<Query>,
}

/// A statement, after the parts that it reads more than once: ClickHouse would work them out
/// every time.
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

/// Rows, or why it refuses.
pub type Reply = Result<Json, String>;

/// Runs beside whoever asked.
pub fn ask(lots: &[Lot]) -> std::thread::JoinHandle<Vec<Vec<Reply>>> {
    let query = |query: &Query| json!([query.tables, query.text]);
    let lot = |lot: &Lot| {
        let queries: Vec<Json> = lot.queries.iter().map(query).collect();
        json!({"setup": lot.setup, "zone": lot.zone, "queries": queries})
    };
    let input = lots.iter().map(lot).collect::<Json>().to_string();
    std::thread::spawn(move || {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/oracle.py");
        let mut child = Command::new(python())
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("run tools/install-test-deps first");
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "run tools/install-test-deps first");
        let answers: Vec<Vec<Json>> = serde_json::from_slice(&output.stdout).unwrap();
        let one = |one: Json| match one.get("refusal") {
            Some(why) => Err(why.to_string()),
            None => Ok(one["rows"].clone()),
        };
        answers.into_iter().map(|lot| lot.into_iter().map(one).collect()).collect()
    })
}

/// Equal, but for the last digits of floats and how whole ones are written.
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

/// Where two answers first differ.
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

/// Why ours and theirs do not agree on a text.
pub fn disagreement(text: &str, ours: &Reply, theirs: &Reply) -> Option<String> {
    let why = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => format!("ours and theirs{}", difference(ours, theirs)?),
        // A statement of ours that is none of theirs proves nothing.
        (_, Err(why)) => format!("theirs refuses: {why}"),
        (Err(why), _) => format!("ours refuses: {why}"),
    };
    Some(format!("{why}\n{text}"))
}

/// Says how many were compared, and how many differ.
pub fn report(kind: &str, seeds: &Range<u64>, count: usize, wrong: &[String]) {
    println!("{count} {kind}, seeds {seeds:?}, {} differ", wrong.len());
    let shown: Vec<&str> = wrong.iter().take(SHOWN_MAX).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), shown.join("\n\n"));
}
