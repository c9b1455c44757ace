//! `hedgerow files`, `export` and `import`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::test_deps;

use crate::durability::reference_stream;
use crate::harness::{Instance, Process, Store, on_both_stores};

on_both_stores! {
    export_and_import_are_lossless_and_idempotent,
    import_restores_persons_groups_and_definitions,
    killed_import_resumes,
}

/// Timeout for an import to start.
const TIMEOUT: Duration = Duration::from_secs(60);
const EVENTS: &str = "/api/projects/1/events/?limit=1000&include_person=true";

fn event(number: usize) -> Value {
    let name = ["$pageview", "paid", "$autocapture"][number % 3];
    json!({
        "event": name,
        "distinct_id": format!("user {}", number % 7),
        "timestamp": format!("2024-0{}-01T12:00:00.{number:06}Z", number % 4 + 1),
        "properties": {
            "number": number, "price": 1.50, "nothing": null, "deep": { "list": [1, "x", { "y": "ü" }] },
            "$elements": [{ "tag_name": "a", "$el_text": "Say \"hi\"", "attr__class": "b c" }],
        },
    })
}

/// A stopped server with these events flushed.
fn filled(store: Store, events: &[Value]) -> (Instance, Value) {
    let server = store.start();
    server.ingest(events);
    let listing = server.get(EVENTS).expect(200).json();
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    (instance, listing)
}

/// A stopped server without events.
fn fresh(store: Store) -> Instance {
    let (status, output, instance) = store.start().stop();
    assert!(status.success(), "{output}");
    instance
}

fn export(instance: &Instance) -> PathBuf {
    export_as(instance, "jsonl")
}

fn export_as(instance: &Instance, format: &str) -> PathBuf {
    let path = instance.data_dir.path().join(format!("exported.{format}"));
    let output = path.to_str().unwrap();
    let (done, printed, logged) = instance.run(&["export", "--format", format, "--output", output]);
    assert!(done && printed.is_empty(), "{printed}{logged}");
    path
}

/// Runs a Python script on events; returns its output.
fn python(script: &str, arguments: &[&str]) -> Vec<u8> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/files");
    let output = Command::new(test_deps().join("venv/bin/python"))
        .arg(scripts.join(script))
        .args(arguments)
        .output()
        .unwrap_or_else(|why| panic!("{why}: tools/install-test-deps brings Python's packages"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The summary of an import.
fn import(instance: &Instance, file: &Path) -> String {
    let (done, printed, logged) = instance.run(&["import", file.to_str().unwrap()]);
    assert!(done, "{printed}{logged}");
    printed
}

fn export_and_import_are_lossless_and_idempotent(store: Store) {
    let events: Vec<Value> = (0..60).map(event).collect();
    let (instance, listed) = filled(store, &events);
    let file = export(&instance);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().count(), 60);
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["timestamp"], "2024-01-01T12:00:00Z");
    assert_eq!((&line["team_id"], &line["distinct_id"]), (&json!(1), &json!("user 0")));
    assert!(line["person_id"].is_string() && line["created_at"].is_string());
    assert!(text.contains(r#""price":1.5"#));
    // An export never overwrites a file.
    assert!(!instance.run(&["export", "--output", file.to_str().unwrap()]).0);
    // A failed export leaves no partial file.
    let none = instance.data_dir.path().join("none.jsonl");
    let unknown = instance.run(&["export", "--project", "7", "--output", none.to_str().unwrap()]);
    assert!(!unknown.0 && unknown.2.contains("there is no project 7"), "{unknown:?}");
    assert!(!none.exists());

    let other = fresh(store);
    let compressed = other.data_dir.path().join("events.jsonl.gz");
    let gz = fs::File::create(&compressed).unwrap();
    let mut gz = flate2::write::GzEncoder::new(gz, flate2::Compression::fast());
    gz.write_all(text.as_bytes()).unwrap();
    let others = [
        "",
        "nonsense",
        r#"{"event":"x"}"#,
        r#"{"event":"x","distinct_id":"a","timestamp":"soon"}"#,
        r#"{"event":"x","distinct_id":"","timestamp":"2026-01-02T03:04:05Z"}"#,
    ];
    gz.write_all((others.join("\n") + "\n").as_bytes()).unwrap();
    gz.finish().unwrap();
    let report = import(&other, &compressed);
    for expected in [
        "read       65 lines",
        "rejected   1 line: it is empty",
        "rejected   1 line: it is not valid JSON\n",
        "rejected   1 line: it is not an event: missing field `distinct_id`",
        "rejected   1 line: it has no valid timestamp",
        "the first are 61, 62, 63, 64",
        "dropped    1 event: missing_distinct_id",
        "stored     60 events",
        "known      0 events",
    ] {
        assert!(report.contains(expected), "{expected} is missing in:\n{report}");
    }
    let again = import(&other, &file);
    assert!(
        again.contains("stored     0 events") && again.contains("known      60 events"),
        "{again}"
    );
    assert_eq!(fs::read_to_string(export(&other)).unwrap().lines().count(), 60);
    let server = other.serve();
    let imported = server.get(EVENTS).expect(200).json();
    assert_eq!(imported, listed);
    let refused = server.instance().run(&["import", file.to_str().unwrap()]);
    assert!(!refused.0 && refused.2.contains("another server"), "{refused:?}");
}

fn import_restores_persons_groups_and_definitions(store: Store) {
    let server = store.start();
    let events: Vec<Value> = (0..70).map(reference_stream::event).collect();
    server.ingest(&events);
    let (expected, listed) =
        (reference_stream::facts(&server), reference_stream::listed(&server, EVENTS));
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    for format in ["jsonl", "parquet"] {
        let file = export_as(&instance, format);
        let other = fresh(store);
        // Duplicates are stored once.
        let report = import(&other, &file);
        assert!(report.contains("stored     63 events"), "{report}");
        let again = import(&other, &file);
        assert!(again.contains("known      63 events"), "{again}");
        let server = other.serve();
        assert_eq!(reference_stream::listed(&server, EVENTS), listed, "{format}");
        for ((what, found), (_, expected)) in reference_stream::facts(&server).iter().zip(&expected)
        {
            assert!(!expected.is_empty(), "no {what}");
            assert_eq!(found, expected, "{what} by {format}");
        }
    }
}

#[test]
fn foreign_parquet_files_are_imported() {
    let mut events: Vec<Value> = (0..60).map(event).collect();
    for (n, event) in events.iter_mut().enumerate() {
        // At the precision of the coarsest format.
        event["timestamp"] = json!(format!("2024-02-01T12:00:00.{n:03}Z"));
    }
    let (instance, listed) = filled(Store::Sqlite, &events);
    let file = export(&instance);
    let other = fresh(Store::Sqlite);
    let dir = other.data_dir.path();
    python("exported.py", &[file.to_str().unwrap(), dir.to_str().unwrap()]);
    for shape in ["as-exported", "snappy-ms", "gzip-ns", "lz4-text", "plain-bytes", "dictionaries"]
    {
        let report = import(&other, &dir.join(format!("{shape}.parquet")));
        let stored =
            report.contains("read       10 lines") && report.contains("stored     10 events");
        assert!(stored, "{shape}:\n{report}");
    }
    let again = import(&other, &dir.join("as-exported.parquet"));
    assert!(again.contains("known      10 events"), "{again}");
    fs::write(dir.join("none.parquet"), "PAR1 and nothing more").unwrap();
    let refused = other.run(&["import", dir.join("none.parquet").to_str().unwrap()]);
    assert!(!refused.0 && refused.2.contains("cannot read"), "{refused:?}");
    let server = other.serve();
    assert_eq!(server.get(EVENTS).expect(200).json(), listed);
}

fn killed_import_resumes(store: Store) {
    let instance = fresh(store);
    let file = instance.data_dir.path().join("events.jsonl");
    let mut text = String::new();
    for number in 0..20_000 {
        // Without uuids, so that each line must get a deterministic one.
        let line = json!({ "event": "a", "distinct_id": format!("d{}", number % 50), "timestamp": "2026-01-02T03:04:05Z", "properties": { "n": number } });
        text.push_str(&format!("{line}\n"));
    }
    fs::write(&file, &text).unwrap();
    goes_on(&instance, &file);
    if store == Store::Sqlite {
        let instance = fresh(store);
        let dir = instance.data_dir.path();
        python("exported.py", &[file.to_str().unwrap(), dir.to_str().unwrap()]);
        goes_on(&instance, &dir.join("nameless.parquet"));
    }
}

fn goes_on(instance: &Instance, file: &Path) {
    let imports = instance.data_dir.path().join("imports");
    let kept = |file: std::io::Result<fs::DirEntry>| {
        file.unwrap().path().extension() == Some("lines".as_ref())
    };
    let progressed = || fs::read_dir(&imports).is_ok_and(|mut files| files.any(kept));
    let running = Process::start(instance.command(&["import", file.to_str().unwrap()]));
    let deadline = Instant::now() + TIMEOUT;
    while !progressed() {
        assert!(Instant::now() < deadline, "no progress:\n{}", running.output());
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(running);
    let report = import(instance, file);
    assert!(report.contains("resumed after line"), "{report}");
    assert!(!progressed(), "an import that ended needs no progress");
    let again = import(instance, file);
    assert!(
        again.contains("stored     0 events") && again.contains("known      20000 events"),
        "{again}"
    );
    assert_eq!(fs::read_to_string(export(instance)).unwrap().lines().count(), 20_000);
}

#[test]
fn polars_reads_the_event_files() {
    let events: Vec<Value> = (0..90).map(event).collect();
    let server = Store::Sqlite.start();
    server.ingest(&events[..50]);
    // The second run writes further files.
    let server = server.restart();
    server.ingest(&events[50..]);
    let counted = |name: &str| {
        let path = format!("/api/projects/1/events/?limit=1000&event={name}");
        server.get(&path).expect(200).json()["results"].as_array().unwrap().len()
    };
    let expected = json!({
        "$pageview": counted("%24pageview"), "paid": counted("paid"), "$autocapture": counted("%24autocapture"),
    });
    let server = server.restart();
    // While the server runs.
    let (done, printed, logged) = server.instance().run(&["files", "--json"]);
    assert!(done, "{logged}");
    let files: Value = serde_json::from_str(&printed).unwrap();
    assert!(files["files"].as_array().unwrap().len() > 1, "{files}");
    let counted = python("count.py", &[&printed]);
    let read: Value = serde_json::from_slice(&counted).unwrap();
    assert_eq!(read["events"], expected);
    let numbers: f64 = (0..90).sum::<usize>() as f64;
    assert_eq!(read["sum"].as_f64(), Some(numbers), "properties are columns");
    let (_, printed, _) = server.instance().run(&["files"]);
    assert!(printed.lines().all(|line| line.ends_with(".parquet") && Path::new(line).is_file()));
}
