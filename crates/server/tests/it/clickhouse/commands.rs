//! Commands that read or copy events.

use serde_json::Value;

use super::{Fixture, capture, events, wait_for_events};

#[test]
fn commands_read_clickhouse_or_say_where_the_events_are() {
    let Some(Fixture { database, instance }) = Fixture::new() else { return };
    let server = instance.serve();
    capture(&server, &events(0..30));
    wait_for_events(&database, 30);
    let run = |arguments: &[&str]| server.instance().run(arguments);

    let (ok, exported, said) = run(&["export"]);
    assert!(ok, "{said}");
    let lines: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 30);
    let mut numbers: Vec<u64> =
        lines.iter().map(|line| line["properties"]["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..30).collect::<Vec<_>>());
    assert!(said.contains("exported 30 events"), "{said}");

    let (ok, _, said) = run(&["files"]);
    assert!(!ok && said.contains("ClickHouse") && said.contains(&database.name), "{said}");
    let (ok, report, said) = run(&["verify"]);
    assert!(ok && report.contains("ClickHouse"), "{report}{said}");

    let backup = tempfile::tempdir().unwrap();
    let to = backup.path().display().to_string();
    let (ok, report, said) = run(&["backup", "--to", &to]);
    assert!(ok && report.contains("ClickHouse"), "{report}{said}");

    let (_, _, instance) = server.stop();
    let (ok, _, said) = instance.run(&["repair"]);
    assert!(!ok && said.contains("ClickHouse"), "{said}");
    let file = instance.data_dir.path().join("events.jsonl");
    std::fs::write(
        &file,
        r#"{"event":"imported","distinct_id":"ann","timestamp":"2024-05-01T10:00:00Z"}"#,
    )
    .unwrap();
    let (ok, report, said) = instance.run(&["import", &file.display().to_string()]);
    assert!(ok, "{report}{said}");
    wait_for_events(&database, 31);
}
