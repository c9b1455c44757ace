//! ClickHouse from the package `chdb`, over a pipe.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value as Json, json};

use crate::answers::Answer;
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

    /// Creates the tables, anew where they exist.
    pub fn load(&mut self, events: u64, dir: &Path) -> Result<()> {
        let (event_file, person_file) = (dir.join("events.tsv"), dir.join("persons.tsv"));
        let columns = write(events, &event_file, &person_file)?;
        let columns: Vec<String> =
            columns.iter().map(|(name, kind)| format!("`{name}` {kind}")).collect();
        self.run("DROP DATABASE IF EXISTS bench")?;
        self.run("CREATE DATABASE bench")?;
        // Indexes for the columns that the order does not serve.
        self.run(&format!(
            "CREATE TABLE bench.events ({}, INDEX times timestamp TYPE minmax GRANULARITY 1, \
             INDEX ids distinct_id TYPE bloom_filter(0.01) GRANULARITY 1) \
             ENGINE = MergeTree ORDER BY (event, timestamp)",
            columns.join(", ")
        ))?;
        self.run(
            "CREATE TABLE bench.persons (person UInt32, plan LowCardinality(Nullable(String)), \
             browser LowCardinality(String), email Nullable(String)) \
             ENGINE = MergeTree ORDER BY person",
        )?;
        for (table, file) in [("events", &event_file), ("persons", &person_file)] {
            self.run(&format!(
                "INSERT INTO bench.{table} SELECT * FROM file('{}', TabSeparated) \
                 SETTINGS max_threads = 2, max_insert_threads = 1",
                file.display()
            ))?;
            self.run(&format!("OPTIMIZE TABLE bench.{table} FINAL"))?;
            std::fs::remove_file(file)?;
        }
        let tables = include_str!("../sql/tables.sql").lines();
        let tables: String =
            tables.filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
        for table in tables.split(';').map(str::trim).filter(|table| !table.is_empty()) {
            self.run(table)?;
        }
        Ok(())
    }

    fn run(&mut self, sql: &str) -> Result<()> {
        self.ask(&json!({ "run": sql })).map(drop)
    }

    /// Milliseconds and the result.
    pub fn query(&mut self, sql: &str) -> Result<(f64, Answer)> {
        let mut answer = self.ask(&json!({ "sql": sql }))?;
        let ms = answer["ms"].as_f64().context("no time")?;
        let columns = serde_json::from_value(answer["columns"].take())?;
        Ok((ms, Answer { columns, rows: serde_json::from_value(answer["rows"].take())? }))
    }

    fn ask(&mut self, wanted: &Json) -> Result<Json> {
        writeln!(self.give, "{wanted}")?;
        self.give.flush()?;
        let mut line = String::new();
        self.take.read_line(&mut line)?;
        ensure!(!line.is_empty(), "chDB ended");
        let answer: Json = serde_json::from_str(&line)?;
        ensure!(answer["error"].is_null(), "chDB: {}", answer["error"]);
        Ok(answer)
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
/// A missing value in TSV.
const NULL: &str = "\\N";
/// The last property, and the only optional one.
const SPARSE: &str = "utm_source";

/// What a person's properties are at the end.
#[derive(Clone, Default)]
struct Person {
    browser: Option<String>,
    plan: Option<String>,
}

/// Writes the reference set as TSV, and its persons; returns the names and types of an event's columns.
fn write(events: u64, file: &Path, person_file: &Path) -> Result<Vec<(String, &'static str)>> {
    let mut columns: Vec<(String, &'static str)> = [
        ("event", "LowCardinality(String)"),
        ("timestamp", "DateTime64(6, 'UTC')"),
        ("person", "UInt32"),
        ("session", "UInt32"),
        ("distinct_id", "String"),
    ]
    .map(|(name, kind)| (name.to_owned(), kind))
    .into();
    let mut out = BufWriter::with_capacity(1 << 20, File::create(file)?);
    let mut set = Reference::new(events);
    let mut persons = vec![Person::default(); set.persons() as usize];
    let mut line = String::new();
    let mut first = true;
    while let Some(event) = set.next_event() {
        use std::fmt::Write as _;
        line.clear();
        let (seconds, rest) = (event.micros / 1_000_000, event.micros % 1_000_000);
        let _ = write!(
            line,
            "{}\t{seconds}.{rest:06}\t{}\t{}\t{}",
            event.name, event.person, event.visit, event.distinct_id
        );
        let person = &mut persons[event.person as usize];
        let mut last = "";
        set.properties(&event, |key, value| {
            last = key;
            let kind = match value {
                Value::Text(text) => {
                    let _ = write!(line, "\t{text}");
                    match key {
                        "$browser" if person.browser.is_none() => {
                            person.browser = Some(text.into())
                        }
                        "plan" if person.plan.is_none() && event.sets_properties() => {
                            person.plan = Some(text.into());
                        }
                        _ => {}
                    }
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
    let mut out = BufWriter::new(File::create(person_file)?);
    for (number, person) in persons.iter().enumerate() {
        // A person without events does not exist.
        let Some(browser) = &person.browser else { continue };
        let [plan, email] = match &person.plan {
            Some(plan) => [plan.clone(), format!("user_{number}@example.com")],
            None => [NULL.to_owned(), NULL.to_owned()],
        };
        writeln!(out, "{number}\t{plan}\t{browser}\t{email}")?;
    }
    out.flush()?;
    Ok(columns)
}
