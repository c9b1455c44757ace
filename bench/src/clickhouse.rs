//! ClickHouse from the package `chdb`, over a pipe.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value as Json, json};

use crate::reference::{Reference, Value};

pub struct ClickHouse {
    process: Child,
    give: ChildStdin,
    take: BufReader<ChildStdout>,
}

impl ClickHouse {
    /// `None` if `make test-deps` did not install the package.
    pub fn start(dir: &Path) -> Result<Option<Self>> {
        let Some(python) = python() else { return Ok(None) };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clickhouse.py");
        let mut process = Command::new(python)
            .arg(script)
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let give = process.stdin.take().context("no standard input")?;
        let take = BufReader::new(process.stdout.take().context("no standard output")?);
        Ok(Some(Self { process, give, take }))
    }

    pub fn load(&mut self, events: u64, dir: &Path) -> Result<()> {
        let file = dir.join("events.tsv");
        let columns = write(events, &file)?;
        self.ask(&json!({ "load": file, "columns": columns }))?;
        std::fs::remove_file(file)?;
        Ok(())
    }

    /// Milliseconds and rows.
    pub fn query(&mut self, sql: &str) -> Result<(f64, Json)> {
        let mut answer = self.ask(&json!({ "sql": sql }))?;
        Ok((answer["ms"].as_f64().context("no time")?, answer["rows"].take()))
    }

    fn ask(&mut self, wanted: &Json) -> Result<Json> {
        writeln!(self.give, "{wanted}")?;
        self.give.flush()?;
        let mut line = String::new();
        self.take.read_line(&mut line)?;
        ensure!(!line.is_empty(), "chDB ended");
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn python() -> Option<PathBuf> {
    let dir = match std::env::var_os("HEDGEROW_TEST_DEPS") {
        Some(dir) => PathBuf::from(dir),
        None => {
            let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
            cache.or_else(home)?.join("hedgerow/test-deps")
        }
    };
    Some(dir.join("venv/bin/python")).filter(|python| python.is_file())
}

/// String properties of high cardinality, where a dictionary does not pay.
const WIDE: [&str; 5] = ["$current_url", "$pathname", "$device_id", "$session_id", "$window_id"];
/// The last property, and the only optional one.
const SPARSE: &str = "utm_source";

/// Writes the reference set as TSV; returns its column names and types.
fn write(events: u64, file: &Path) -> Result<Vec<(String, &'static str)>> {
    let mut columns: Vec<(String, &'static str)> = [
        ("event", "LowCardinality(String)"),
        ("timestamp", "DateTime64(6, 'UTC')"),
        ("person", "UInt32"),
        ("distinct_id", "String"),
    ]
    .map(|(name, kind)| (name.to_owned(), kind))
    .into();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut set = Reference::new(events);
    let mut line = String::new();
    let mut first = true;
    while let Some(event) = set.next_event() {
        use std::fmt::Write as _;
        line.clear();
        let (seconds, rest) = (event.micros / 1_000_000, event.micros % 1_000_000);
        let _ = write!(
            line,
            "{}\t{seconds}.{rest:06}\t{}\t{}",
            event.name, event.person, event.distinct_id
        );
        let mut last = "";
        set.properties(&event, |key, value| {
            last = key;
            let kind = match value {
                Value::Text(text) => {
                    let _ = write!(line, "\t{text}");
                    if WIDE.contains(&key) { "String" } else { "LowCardinality(String)" }
                }
                Value::Integer(number) => {
                    let _ = write!(line, "\t{number}");
                    "Int32"
                }
                Value::Decimal(number) => {
                    let _ = write!(line, "\t{number}");
                    "Float64"
                }
            };
            if first && key != SPARSE {
                columns.push((key.to_owned(), kind));
            }
        });
        if last != SPARSE {
            line.push('\t');
        }
        line.push('\n');
        out.write_all(line.as_bytes())?;
        first = false;
    }
    out.flush()?;
    columns.push((SPARSE.to_owned(), "LowCardinality(String)"));
    Ok(columns)
}
