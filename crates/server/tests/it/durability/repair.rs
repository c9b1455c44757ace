//! Corrupted or inconsistent stores: a server refuses to start, `hedgerow verify` lists the problems, and
//! `hedgerow repair` makes the stores consistent and salvages every readable
//! record.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Instance, Server, Store, on_both_stores};

on_both_stores! {
    store_ahead_of_its_journal_refuses_to_start_and_repair_loses_no_new_event,
    missing_or_foreign_journal_refuses_to_start_until_repaired,
    catalog_behind_its_warehouse_is_refused_and_not_repaired,
}

const EVENTS: &str = "/api/projects/1/events/?limit=1000";

fn event(number: u64) -> Value {
    json!({
        "event": "counted", "distinct_id": format!("d{}", number % 7),
        "timestamp": "2024-05-01T10:00:00Z",
        "properties": { "number": number, "$set": { "last": number } },
    })
}

fn ingest(server: &Server, numbers: std::ops::Range<u64>) {
    // Several group commits of the journal.
    for from in numbers.clone().step_by(10) {
        let to = (from + 10).min(numbers.end);
        server.ingest(&(from..to).map(event).collect::<Vec<_>>());
    }
}

fn numbers(server: &Server) -> Vec<u64> {
    server.wait_until_applied();
    let listing = server.get(EVENTS).expect(200).json();
    let events = listing["results"].as_array().unwrap();
    let mut numbers: Vec<u64> =
        events.iter().map(|event| event["properties"]["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

fn stop(server: Server) -> Instance {
    let (status, output, instance) = server.stop();
    assert!(status.success(), "{output}");
    instance
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Every file with its content, except locks and SQLite's WAL files.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if name != "lock" && !name.starts_with("catalog.sqlite-") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[track_caller]
fn refused(instance: &Instance, arguments: &[&str], words: &[&str]) {
    let (ok, said, stderr) = instance.run(arguments);
    assert!(!ok, "{said}");
    for words in words {
        let told = stderr.contains(words) || said.contains(words);
        assert!(told, "{words} is not in\n{said}\n{stderr}");
    }
}

#[track_caller]
fn done(instance: &Instance, arguments: &[&str], words: &[&str]) {
    let (ok, said, stderr) = instance.run(arguments);
    assert!(ok, "{said}{stderr}");
    for words in words {
        assert!(said.contains(words), "{words} is not in\n{said}");
    }
}

fn kept(instance: &Instance) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(instance.data_dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("repair-");
    entries.filter(named).collect()
}

/// A data directory with 200 events whose journal is an older copy with 50.
fn instance_with_an_older_journal(store: Store) -> Instance {
    let server = store.start();
    ingest(&server, 0..50);
    let instance = stop(server);
    let (journal, older) =
        (instance.data_dir.path().join("journal"), instance.data_dir.path().join("older"));
    copy_dir(&journal, &older);
    let server = instance.serve();
    ingest(&server, 50..200);
    let instance = stop(server);
    fs::remove_dir_all(&journal).unwrap();
    fs::rename(older, journal).unwrap();
    instance
}

fn store_ahead_of_its_journal_refuses_to_start_and_repair_loses_no_new_event(store: Store) {
    let instance = instance_with_an_older_journal(store);
    let before = contents(instance.data_dir.path());
    let both = ["up to position 201", "ends at position 51", "hedgerow repair"];
    refused(&instance, &["serve"], &both);
    refused(&instance, &["verify"], &both);
    for arguments in [&["repair"][..], &["repair", "--dry-run", "--yes"]] {
        done(
            &instance,
            arguments,
            &["problems:", "continues at position 201", "nothing was changed"],
        );
    }
    assert_eq!(contents(instance.data_dir.path()), before);
    done(&instance, &["repair", "--yes"], &["continues at position 201", "done"]);
    let [kept] = &kept(&instance)[..] else { panic!("nothing was kept") };
    assert!(fs::read_dir(kept.join("journal")).unwrap().next().is_some());

    done(&instance, &["verify"], &["is intact"]);
    done(&instance, &["repair"], &["nothing is to be repaired"]);
    if store == Store::Sqlite {
        let to = instance.data_dir.path().join("copy").display().to_string();
        done(&instance, &["backup", "--to", &to], &["copied everything"]);
    }
    let server = instance.serve();
    assert_eq!(numbers(&server), (0..200).collect::<Vec<_>>());
    ingest(&server, 200..400);
    assert_eq!(numbers(&server), (0..400).collect::<Vec<_>>());
    let server = server.restart();
    assert_eq!(numbers(&server), (0..400).collect::<Vec<_>>());
    let persons = server.get("/api/projects/1/persons/").expect(200).json();
    assert_eq!(persons["results"].as_array().unwrap().len(), 7);
}

fn missing_or_foreign_journal_refuses_to_start_until_repaired(store: Store) {
    let server = store.start();
    ingest(&server, 0..30);
    let instance = stop(server);
    let journal = instance.data_dir.path().join("journal");
    fs::remove_dir_all(&journal).unwrap();
    refused(&instance, &["serve"], &["position 31", "the journal is missing", "hedgerow repair"]);
    assert!(!journal.exists(), "a new journal was made");
    refused(&instance, &["verify"], &["the journal is missing", "hedgerow repair"]);
    done(&instance, &["repair", "--yes"], &["continues at position 31"]);
    let server = instance.serve();
    ingest(&server, 30..60);
    assert_eq!(numbers(&server), (0..60).collect::<Vec<_>>());
    let instance = stop(server);

    let other = Store::Sqlite.start();
    ingest(&other, 500..520);
    let other = stop(other);
    fs::remove_dir_all(&journal).unwrap();
    copy_dir(&other.data_dir.path().join("journal"), &journal);
    refused(&instance, &["serve"], &["was filled from journal", "hedgerow repair"]);
    done(
        &instance,
        &["repair", "--yes"],
        &["continues at position 61", "the 20 records of journal"],
    );
    assert_eq!(kept(&instance).len(), 2);
    let server = instance.serve();
    ingest(&server, 60..90);
    assert_eq!(numbers(&server), (0..90).collect::<Vec<_>>());
}

fn catalog_behind_its_warehouse_is_refused_and_not_repaired(store: Store) {
    let server = store.start();
    ingest(&server, 0..20);
    let instance = stop(server);
    instance.write("UPDATE journal_offsets SET position = 11");
    let why = ["up to position 11", "up to 21", "from one backup"];
    refused(&instance, &["serve"], &why);
    refused(&instance, &["verify"], &why);
    refused(&instance, &["repair", "--yes"], &[&why[..], &["cannot be repaired"]].concat());
    assert!(kept(&instance).is_empty());
}

#[test]
fn missing_catalog_secret_key_or_warehouse_is_not_recreated() {
    let server = Store::Sqlite.start();
    ingest(&server, 0..20);
    let instance = stop(server);
    let file = |name: &str| instance.data_dir.path().join(name);
    fs::rename(file("secret.key"), file("away")).unwrap();
    refused(&instance, &["serve"], &["there is no secret.key", "restore"]);
    assert!(!file("secret.key").exists());
    fs::rename(file("away"), file("secret.key")).unwrap();

    fs::rename(file("catalog.sqlite"), file("away")).unwrap();
    refused(
        &instance,
        &["serve"],
        &["there is no", "catalog.sqlite", "up to position 21", "restore"],
    );
    refused(&instance, &["verify"], &["catalog.sqlite is missing", "hedgerow restore"]);
    refused(&instance, &["repair", "--yes"], &["there is no", "catalog.sqlite"]);
    assert!(!file("catalog.sqlite").exists());
    fs::rename(file("away"), file("catalog.sqlite")).unwrap();

    // Rebuilding from the journal would resurrect deleted rows.
    fs::rename(file("warehouse"), file("away")).unwrap();
    let why = ["up to position 21", "the warehouse is missing", "from one backup"];
    for arguments in [&["serve"][..], &["verify"], &["repair", "--yes"]] {
        refused(&instance, arguments, &why);
    }
    assert!(!file("warehouse").exists());
    fs::rename(file("away"), file("warehouse")).unwrap();
    assert_eq!(numbers(&instance.serve()), (0..20).collect::<Vec<_>>());
}

/// The journal segment that contains `text`, its content, and the offset of `text`.
fn find(instance: &Instance, text: &str) -> (PathBuf, Vec<u8>, usize) {
    let files = fs::read_dir(instance.data_dir.path().join("journal")).unwrap();
    for path in files.map(|entry| entry.unwrap().path()) {
        let bytes = fs::read(&path).unwrap();
        let found = bytes.windows(text.len()).position(|window| window == text.as_bytes());
        if let Some(at) = found {
            return (path, bytes, at);
        }
    }
    panic!("the journal has no {text}");
}

#[test]
fn corrupted_journal_record_loses_only_that_event() {
    let server = Store::Sqlite.start();
    ingest(&server, 0..10);
    // A clean stop: the warehouse has the first ten events.
    let server = server.restart();
    ingest(&server, 10..20);
    server.ingest(&[json!({ "event": "needle", "distinct_id": "d1" })]);
    ingest(&server, 20..40);
    let instance = server.kill();
    let (path, mut bytes, at) = find(&instance, "needle");
    bytes[at] = b'N';
    fs::write(&path, &bytes).unwrap();
    let shown = path.display().to_string();
    refused(&instance, &["serve"], &[shown.as_str(), "is corrupted", "hedgerow repair"]);
    refused(&instance, &["verify"], &[shown.as_str(), "record checksum", "hedgerow repair"]);
    let lost = "position 21: persons, groups and definitions are applied";
    done(&instance, &["repair"], &[lost, "takes over 30 records", "nothing was changed"]);
    done(&instance, &["repair", "--yes"], &["holds 30 records and continues at position 42"]);
    done(&instance, &["verify"], &["is intact"]);
    assert_eq!(
        fs::read(kept(&instance)[0].join("journal").join(path.file_name().unwrap())).unwrap(),
        bytes
    );
    let server = instance.serve();
    ingest(&server, 40..50);
    assert_eq!(numbers(&server), (0..50).collect::<Vec<_>>());
}

#[test]
fn truncated_journal_segment_is_detected_and_repaired() {
    let server = Store::Sqlite.start();
    ingest(&server, 0..20);
    server.ingest(&[json!({ "event": "needle", "distinct_id": "d1" })]);
    let instance = server.kill();
    let (path, bytes, at) = find(&instance, "needle");
    fs::write(&path, &bytes[..at]).unwrap();
    refused(&instance, &["serve"], &["shorter than it was made", "hedgerow repair"]);
    refused(&instance, &["verify"], &["shorter than it was made", "hedgerow repair"]);
    done(&instance, &["repair", "--yes"], &["position 21: persons", "continues at position 22"]);
    let server = instance.serve();
    ingest(&server, 20..30);
    assert_eq!(numbers(&server), (0..30).collect::<Vec<_>>());
}

#[test]
fn verify_reads_all_stores_with_and_without_a_running_server() {
    let server = Store::Sqlite.start();
    ingest(&server, 0..30);
    let instance = server.instance();
    done(instance, &["verify"], &["30 records", "position 31", "is intact"]);
    refused(instance, &["repair"], &["another server", "is using the data directory"]);
    let instance = stop(server);
    let before = contents(instance.data_dir.path());
    let (ok, said, _) = instance.run(&["verify", "--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert!(ok && report["healthy"] == true && report["problems"] == json!([]), "{said}");
    assert_eq!(
        (&report["journal"]["records"], &report["catalog"]["position"]),
        (&json!(30), &json!(31))
    );
    assert_eq!(contents(instance.data_dir.path()), before);

    let file = instance.data_dir.path().join("catalog.sqlite");
    let mut bytes = fs::read(&file).unwrap();
    let pages = bytes.len() / 4096;
    for page in pages / 2..pages / 2 + 8 {
        bytes[page * 4096..page * 4096 + 64].fill(0xff);
    }
    fs::write(&file, bytes).unwrap();
    let (ok, said, _) = instance.run(&["verify", "--json"]);
    let report: Value = serde_json::from_str(&said).unwrap();
    assert!(!ok && report["healthy"] == false, "{said}");
    let problem = &report["problems"][0];
    assert_eq!(problem["store"], "catalog", "{said}");
    assert!(problem["remedy"].as_str().unwrap().contains("hedgerow restore"), "{said}");
    refused(&instance, &["repair", "--yes"], &["restore a backup"]);
}

#[test]
fn corrupted_segment_is_listed_by_verify_and_dropped_by_repair() {
    let server = Store::Sqlite.start();
    ingest(&server, 0..30);
    let server = server.restart();
    server.ingest(&[
        json!({ "event": "other", "distinct_id": "d", "timestamp": "2024-07-01T10:00:00Z" }),
    ]);
    let instance = stop(server);
    let (_, said, _) = instance.run(&["files", "--json"]);
    let listed: Value = serde_json::from_str(&said).unwrap();
    let files = listed["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["rows"] == 30).unwrap()["path"].as_str().unwrap();
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0x10;
    fs::write(file, &bytes).unwrap();
    let name = Path::new(file).file_name().unwrap().to_str().unwrap();
    let drop = format!("1/{name}");
    let remedy = format!("hedgerow repair --drop-segment {drop}");
    refused(&instance, &["verify"], &[file, "30 events", &remedy]);
    done(&instance, &["repair"], &["nothing is to be repaired"]);
    let told = format!("the segment {drop} is dropped");
    done(&instance, &["repair", "--drop-damaged"], &[&told, "nothing was changed"]);
    refused(
        &instance,
        &["repair", "--yes", "--drop-segment", "1/none.parquet"],
        &["1/none.parquet"],
    );
    assert_eq!(fs::read(file).unwrap(), bytes);
    done(&instance, &["repair", "--yes", "--drop-segment", &drop], &["30 events of project 1"]);
    let kept = fs::read_dir(instance.data_dir.path().join("warehouse/damaged")).unwrap();
    assert!(kept.map(|file| fs::read(file.unwrap().path()).unwrap()).any(|kept| kept == bytes));
    done(&instance, &["verify"], &["is intact"]);
    let server = instance.serve();
    let left = server.get(EVENTS).expect(200).json();
    assert_eq!(left["results"].as_array().unwrap().len(), 1, "{left}");
}

#[test]
fn repair_with_an_invalid_marker_is_refused_and_removes_nothing() {
    let instance = instance_with_an_older_journal(Store::Sqlite);
    let dir = instance.data_dir.path();
    fs::create_dir(dir.join("journal.repaired")).unwrap();
    for marker in ["", "repair-none\n\n"] {
        fs::write(dir.join("repairing"), marker).unwrap();
        refused(&instance, &["repair", "--yes"], &["names no directory", "nothing was changed"]);
        assert!(dir.join("journal.repaired").is_dir() && dir.join("journal").is_dir());
    }
}

#[test]
fn interrupted_repair_is_rolled_back_and_restarted() {
    let instance = instance_with_an_older_journal(Store::Sqlite);
    let dir = instance.data_dir.path();
    let backup_dir = dir.join("repair-before");
    fs::create_dir(&backup_dir).unwrap();
    fs::rename(dir.join("journal"), backup_dir.join("journal")).unwrap();
    fs::create_dir(dir.join("journal.repaired")).unwrap();
    fs::write(dir.join("repairing"), backup_dir.display().to_string()).unwrap();
    refused(&instance, &["serve"], &["a repair", "was interrupted", "hedgerow repair --yes"]);
    refused(&instance, &["repair"], &["a repair was interrupted"]);
    refused(&instance, &["verify"], &["a repair was interrupted", "hedgerow repair --yes"]);
    done(&instance, &["repair", "--yes"], &["continues at position 201", "done"]);
    let server = instance.serve();
    ingest(&server, 200..210);
    assert_eq!(numbers(&server), (0..210).collect::<Vec<_>>());
}
