//! A data directory of a newer release is refused and left unchanged; a backup from before the upgrade
//! restores the old state.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Instance, Store, on_both_stores};

on_both_stores! { data_directory_of_a_newer_release_is_refused_and_unchanged }

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if name != "lock" && !name.starts_with("catalog.sqlite") {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn newer_journal(instance: &Instance) {
    let files = fs::read_dir(instance.data_dir.path().join("journal")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "segment"));
    let file = files.iter().max().unwrap();
    let mut bytes = fs::read(file).unwrap();
    bytes[8..12].copy_from_slice(&1_000_u32.to_le_bytes());
    fs::write(file, bytes).unwrap();
}

fn newer_warehouse(instance: &Instance) {
    let file = instance.data_dir.path().join("warehouse/manifest");
    let text = fs::read_to_string(&file).unwrap();
    let rest = text.strip_prefix("hedgerow warehouse ").unwrap().split_once(' ').unwrap().1;
    fs::write(&file, format!("hedgerow warehouse 1000 {rest}")).unwrap();
}

fn newer_catalog(instance: &Instance) {
    instance.write("INSERT INTO schema_migrations (version, applied_at) VALUES (1000, 0)");
}

fn data_directory_of_a_newer_release_is_refused_and_unchanged(store: Store) {
    type MakeNewer = fn(&Instance);
    let cases: [(&str, MakeNewer); 3] = [
        ("journal format 1000", newer_journal),
        ("warehouse format 1000", newer_warehouse),
        ("schema 1000", newer_catalog),
    ];
    for (format, make_newer) in cases {
        let server = store.start();
        server.ingest(&[json!({ "event": "e", "distinct_id": "d" })]);
        let (_, _, instance) = server.stop();
        make_newer(&instance);
        // As the newer release would leave it.
        fs::write(instance.data_dir.path().join("release"), "9.9.9\n").unwrap();
        let before = contents(instance.data_dir.path());
        let (started, _, stderr) = instance.run(&["serve"]);
        assert!(!started, "{format}");
        let dir = instance.data_dir.path().display().to_string();
        for words in [format, &dir, "newer", "hedgerow 9.9.9", "restore a backup"] {
            assert!(stderr.contains(words), "{words} is not in {stderr}");
        }
        let lines = stderr.lines().filter(|line| line.starts_with("hedgerow: "));
        assert_eq!(lines.count(), 1, "{stderr}");
        for arguments in [&["verify"][..], &["repair", "--yes"]] {
            let (done, said, stderr) = instance.run(arguments);
            assert!(!done && (said + &stderr).contains(format), "{arguments:?} {stderr}");
        }
        assert_eq!(contents(instance.data_dir.path()), before, "{format}");
    }
}

#[test]
fn startup_records_the_release_in_the_data_directory() {
    let server = Store::Sqlite.start();
    let noted = fs::read_to_string(server.file("release")).unwrap();
    let (_, version, _) = server.instance().run(&["--version"]);
    assert_eq!(format!("hedgerow {}", noted.trim()), version.trim());
}
