//! Segment files of the warehouse that are missing, corrupted or numerous.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Server, Store};

const COUNT: &str = "select count() from events";

fn event(number: usize) -> Value {
    json!({ "event": "counted", "distinct_id": "d", "properties": { "number": number } })
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let Ok(files) = fs::read_dir(dir.join("warehouse/1")) else { return Vec::new() };
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "parquet"));
    files.sort();
    files
}

fn count(server: &Server) -> crate::harness::Response {
    let query = json!({ "kind": "HogQLQuery", "query": COUNT });
    let body = json!({ "query": query, "refresh": "force_blocking" });
    server.post("/api/projects/1/query/", body)
}

#[test]
fn missing_manifest_refuses_to_start_and_deletes_nothing() {
    let server = Store::Sqlite.start();
    server.ingest(&(0..20).map(event).collect::<Vec<_>>());
    let (_, _, instance) = server.stop();
    let manifest = instance.data_dir.path().join("warehouse/manifest");
    let kept = fs::read(&manifest).unwrap();
    fs::remove_file(&manifest).unwrap();
    let before = segments(instance.data_dir.path());
    assert!(!before.is_empty());
    let (started, _, stderr) = instance.run(&["serve"]);
    assert!(!started && stderr.contains("no manifest"), "{stderr}");
    assert!(stderr.contains("hedgerow restore"), "{stderr}");
    assert_eq!(segments(instance.data_dir.path()), before);
    fs::write(&manifest, kept).unwrap();
    let server = instance.serve();
    assert_eq!(count(&server).expect(200).json()["results"], json!([[20]]));
}

#[test]
fn corrupted_segment_fails_queries_and_new_events_are_stored() {
    let server = Store::Sqlite.start();
    server.ingest(&(0..20).map(event).collect::<Vec<_>>());
    let (_, _, instance) = server.stop();
    let file = segments(instance.data_dir.path()).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let server = instance.serve();
    let list = "/api/projects/1/events/?limit=100";
    let response = server.get(list);
    assert!(response.status >= 500, "{}", response.text());
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let remedy = format!("hedgerow repair --drop-segment 1/{name}");
    assert!(server.process().wait_for(&remedy).is_some(), "{}", server.output());
    let metrics = server.call("GET", "/metrics").no_key().send().expect(200).text();
    assert!(metrics.contains("hedgerow_warehouse_damaged_segments 1"), "{metrics}");
    server.ingest(&[event(21)]);
    server.call("GET", "/_livez").no_key().send().expect(200);
}

#[test]
fn flush_bounds_the_files_of_1100_months() {
    let server = Store::Sqlite.start();
    let dated = |month: usize| {
        let (year, month) = (1934 + month / 12, month % 12 + 1);
        json!({ "event": "dated", "distinct_id": "d", "timestamp": format!("{year}-{month:02}-10T12:00:00Z") })
    };
    server.ingest(&(0..1_100).map(dated).collect::<Vec<_>>());
    let (_, _, instance) = server.stop();
    let files = segments(instance.data_dir.path()).len();
    assert!(files <= 15, "{files} files");
    let server = instance.serve();
    assert_eq!(count(&server).expect(200).json()["results"], json!([[1_100]]));
    let limit = "file descriptor limit (RLIMIT_NOFILE)";
    assert!(server.process().wait_for(limit).is_some(), "{}", server.output());
}
