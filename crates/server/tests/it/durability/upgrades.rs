//! A data directory of a newer release is refused and left unchanged; a backup from before the upgrade
//! restores the old state.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::{Place, Server, Store, both};

both! { data_directory_of_a_newer_release_is_refused_and_unchanged }

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

fn newer_journal(place: &Place) {
    let files = fs::read_dir(place.folder.path().join("journal")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "segment"));
    let file = files.iter().max().unwrap();
    let mut bytes = fs::read(file).unwrap();
    bytes[8..12].copy_from_slice(&1_000_u32.to_le_bytes());
    fs::write(file, bytes).unwrap();
}

fn newer_warehouse(place: &Place) {
    let file = place.folder.path().join("warehouse/manifest");
    let text = fs::read_to_string(&file).unwrap();
    let rest = text.strip_prefix("hedgerow warehouse ").unwrap().split_once(' ').unwrap().1;
    fs::write(&file, format!("hedgerow warehouse 1000 {rest}")).unwrap();
}

fn newer_catalog(place: &Place) {
    place.write("INSERT INTO schema_migrations (version, applied_at) VALUES (1000, 0)");
}

fn data_directory_of_a_newer_release_is_refused_and_unchanged(store: Store) {
    type MakeNewer = fn(&Place);
    let cases: [(&str, MakeNewer); 3] = [
        ("journal format 1000", newer_journal),
        ("warehouse format 1000", newer_warehouse),
        ("schema 1000", newer_catalog),
    ];
    for (format, make_newer) in cases {
        let server = Server::start(store);
        server.ingest(&[json!({ "event": "e", "distinct_id": "d" })]);
        let (_, _, place) = server.stop();
        make_newer(&place);
        // As the newer release would leave it.
        fs::write(place.folder.path().join("release"), "9.9.9\n").unwrap();
        let before = contents(place.folder.path());
        let (started, _, complained) = place.run(&["serve"]);
        assert!(!started, "{format}");
        let folder = place.folder.path().display().to_string();
        for words in [format, &folder, "newer", "hedgerow 9.9.9", "restore a backup"] {
            assert!(complained.contains(words), "{words} is not in {complained}");
        }
        let lines = complained.lines().filter(|line| line.starts_with("hedgerow: "));
        assert_eq!(lines.count(), 1, "{complained}");
        for arguments in [&["verify"][..], &["repair", "--yes"]] {
            let (done, said, complained) = place.run(arguments);
            assert!(!done && (said + &complained).contains(format), "{arguments:?} {complained}");
        }
        assert_eq!(contents(place.folder.path()), before, "{format}");
    }
}

#[test]
fn startup_records_the_release_in_the_data_directory() {
    let server = Server::start(Store::Sqlite);
    let noted = fs::read_to_string(server.file("release")).unwrap();
    let (_, version, _) = server.place().run(&["--version"]);
    assert_eq!(format!("hedgerow {}", noted.trim()), version.trim());
}
