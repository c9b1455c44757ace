//! Files that are not as they were written: answers are right or refused, never others.

use std::fs;
use std::path::{Path, PathBuf};

use ::model::{ProjectId, Timestamp};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use warehouse::{
    ColumnKey, CompactionKind, DeleteSelection, Error, EventRow, Filter, ReadOnlyWarehouse,
    Settings, Warehouse, quarantine_segment, verify,
};

use crate::support::{JOURNAL, PROJECT, Store, all, at, day, small, uuids};

/// Three segments, one of them with dead rows.
fn filled() -> Store {
    let store = Store::with(Settings { merge_segments_min: 100, ..small() });
    for flush in 0..3u128 {
        let row = |n: u128| EventRow {
            event: if n.is_multiple_of(3) { "$pageview" } else { "signed up" }.into(),
            distinct_no: (n % 5) as u32,
            properties: format!(r#"{{"n":{n},"plan":"p{}","nested":{{"a":[{n}]}}}}"#, n % 4),
            ..at(flush * 100 + n, (n * 1_000) as i64)
        };
        store.append(&mut (0..40).map(row).collect::<Vec<_>>());
        store.warehouse.flush().unwrap();
    }
    let doomed = DeleteSelection::Uuids((0..9).map(|n| at(n * 2, 0).uuid).collect());
    store.warehouse.delete(PROJECT, &doomed, 1_000).unwrap();
    store
}

/// Everything that is asked of a store.
fn answers(dir: &Path) -> warehouse::Result<Vec<String>> {
    let archive = ReadOnlyWarehouse::open(dir)?;
    let snapshot = archive.snapshot(PROJECT);
    let mut said = vec![format!("{:?}", snapshot.totals().events)];
    let window = warehouse::Window { limit: 1_000, ..warehouse::Window::default() };
    said.push(format!("{:?}", snapshot.list(&Filter::default(), &window)?.events));
    said.push(format!("{:?}", snapshot.count(&Filter::default())?));
    for number in [0u128, 3, 107, 239, 900] {
        said.push(format!("{:?}", snapshot.get(uuid::Uuid::from_u128(number))?));
    }
    for name in ["n", "plan", "nested"] {
        let key = ColumnKey::Property(name.into());
        said.push(format!("{:?}", snapshot.values(&key, &Filter::default(), &|_| true, 50)?));
    }
    Ok(said)
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

fn flip(path: &Path, bit: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_gives_the_right_answer_or_an_error_that_names_the_file() {
    let store = filled();
    let dir = store.dir.path();
    let expected = answers(dir).unwrap();
    let mut random = StdRng::seed_from_u64(24);
    let (mut refused, mut right) = (0, 0);
    for file in files_below(dir) {
        let bits = fs::read(&file).unwrap().len() * 8;
        if bits == 0 {
            continue;
        }
        // The ends are footers and first lines.
        let ends = (0..64).chain(bits.saturating_sub(64)..bits).filter(|bit| *bit < bits);
        let drawn: Vec<usize> = (0..60).map(|_| random.random_range(0..bits)).chain(ends).collect();
        for bit in drawn {
            flip(&file, bit);
            match answers(dir) {
                Ok(said) => {
                    assert_eq!(said, expected, "bit {bit} of {}", file.display());
                    right += 1;
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains(&file.display().to_string()), "{said}");
                    refused += 1;
                }
            }
            flip(&file, bit);
        }
    }
    // Some bits stand in parts that no question read, or say the same in another way.
    assert!(refused > 10 * right, "{refused} refused, {right} right");
    assert_eq!(answers(dir).unwrap(), expected);
}

#[test]
fn verify_finds_every_flipped_bit_of_segments_and_names_the_column() {
    let store = filled();
    let dir = store.dir.path();
    let mut heard = 0;
    let sound = verify(dir, &mut |progress| heard = progress.bytes_done).unwrap();
    assert_eq!((sound.segments, sound.segments_unchecked, sound.rows), (3, 0, 120));
    assert!(sound.damage.is_empty() && heard == sound.bytes, "{sound:?}");
    let mut random = StdRng::seed_from_u64(25);
    for file in files_below(dir) {
        let name = file.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
        if !name.contains('/') || sound.unlisted.contains(&name) {
            continue;
        }
        for _ in 0..20 {
            let bit = random.random_range(0..fs::read(&file).unwrap().len() * 8);
            flip(&file, bit);
            let found = verify(dir, &mut |_| ()).unwrap().damage;
            assert!(
                found.iter().any(|damage| damage.file == file),
                "bit {bit} of {name}: {found:?}"
            );
            flip(&file, bit);
        }
    }
    let segment = store.warehouse.files(PROJECT).files[1].path.clone();
    flip(&segment, 8 * 60);
    let found = verify(dir, &mut |_| ()).unwrap().damage;
    assert!(found[0].what.contains("column uuid of row group 0"), "{found:?}");
    assert_eq!((found[0].project, found[0].events), (PROJECT, 40));
}

#[test]
fn a_damaged_segment_is_set_aside_and_the_rest_stays_readable() {
    let store = filled();
    let files = store.warehouse.files(PROJECT).files;
    let damaged = files.iter().find(|file| file.dead.is_some()).unwrap().clone();
    let dir = store.dir.path().to_owned();
    let name = damaged.path.strip_prefix(&dir).unwrap().to_string_lossy().into_owned();
    assert!(matches!(quarantine_segment(&dir, &name), Err(Error::Locked { .. })));
    flip(&damaged.path, 8 * 100);
    let error = answers(&dir).unwrap_err().to_string();
    assert!(error.contains(&format!("hedgerow repair --drop-segment {name}")), "{error}");
    let (bytes, dead) = (fs::read(&damaged.path), fs::read(damaged.dead.unwrap()));
    let Store { dir: kept, clock, settings, warehouse } = store;
    drop(warehouse);
    let done = quarantine_segment(&dir, &name).unwrap();
    assert_eq!((done.project, done.events), (PROJECT, 31));
    assert_eq!(fs::read(&done.kept[0]).unwrap(), bytes.unwrap());
    assert_eq!(fs::read(&done.kept[1]).unwrap(), dead.unwrap());
    assert!(done.kept.iter().all(|file| file.parent() == Some(&dir.join("damaged"))));
    assert!(matches!(quarantine_segment(&dir, &name), Err(Error::NoSegment { .. })));
    assert!(verify(&dir, &mut |_| ()).unwrap().damage.is_empty());
    let warehouse = crate::support::open(&dir, &settings, &clock);
    let store = Store { dir: kept, clock, settings, warehouse };
    assert_eq!(store.all().len(), 80);
    store.clock.advance_seconds(30 * 86_400);
    store.warehouse.sweep().unwrap();
    assert!(store.reopen().dir.path().join("damaged").read_dir().unwrap().count() == 2);
}

#[test]
fn new_events_and_deletes_do_not_wait_for_a_damaged_segment() {
    let store = filled();
    let damaged = store.warehouse.files(PROJECT).files[1].path.clone();
    let length = fs::read(&damaged).unwrap().len();
    flip(&damaged, (length - 20) * 8);
    let store = store.reopen();
    let other = ProjectId(2);
    let mut rows = [at(105, 3), at(900, 4), EventRow { project: other, ..at(901, 5) }];
    // The first is in the damaged segment already, as nobody can know.
    store.append(&mut rows);
    store.warehouse.flush().unwrap();
    assert_eq!(store.warehouse.snapshot(other).totals().events, 1);
    let error = store.warehouse.snapshot(PROJECT).count(&Filter::default()).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    // Deleted wherever it can be read, and still an error.
    let doomed = DeleteSelection::Uuids([at(900, 0).uuid].into());
    assert!(store.warehouse.delete(PROJECT, &doomed, 1_000).is_err());
    assert_eq!(store.warehouse.health().damaged.len(), 1);
    // Merges leave it alone, and go on with the others.
    while store.warehouse.compact(CompactionKind::Major).unwrap().is_some() {}
    assert_eq!(store.warehouse.files(PROJECT).files.len(), 2);
    // All of its events grow too old, which the manifest says.
    let Store { dir, clock, settings, warehouse } = store;
    drop(warehouse);
    let retention = warehouse::Retention { age_max: Some(day(1)), disk_bytes_max: None };
    let settings = Settings { retention, ..settings };
    clock.advance_seconds(10 * 86_400);
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    warehouse.apply_retention().unwrap();
    assert_eq!(warehouse.snapshot(PROJECT).count(&Filter::default()).unwrap(), 0);
}

/// The store as a version before checksums left it.
fn without_checksums(store: Store) -> Store {
    let manifest = store.dir.path().join("manifest");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut body: serde_json::Value =
        serde_json::from_str(text.split_once('\n').unwrap().1).unwrap();
    for segment in body["segments"].as_array_mut().unwrap() {
        let segment = segment.as_object_mut().unwrap();
        assert!(segment.remove("checks").is_some());
        if let Some(dead) = segment.get_mut("dead") {
            assert!(dead.as_object_mut().unwrap().remove("crc").is_some());
        }
    }
    let body = serde_json::to_string(&body).unwrap();
    let old = format!("hedgerow warehouse 1 {:08x}\n{body}", crc32c::crc32c(body.as_bytes()));
    let Store { dir, clock, settings, warehouse } = store;
    drop(warehouse);
    fs::write(&manifest, old).unwrap();
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    Store { dir, clock, settings, warehouse }
}

#[test]
fn segments_of_older_versions_are_read_and_get_checksums_with_the_next_merge() {
    let store = filled();
    let expected = store.all();
    let store = without_checksums(store);
    let report = verify(store.dir.path(), &mut |_| ()).unwrap();
    assert_eq!((report.segments_unchecked, report.damage.len(), report.rows), (3, 0, 120));
    assert_eq!(store.all(), expected);
    store.compact_fully();
    assert_eq!(store.all(), expected);
    let report = verify(store.dir.path(), &mut |_| ()).unwrap();
    assert_eq!((report.segments, report.segments_unchecked), (1, 0));
}

#[test]
fn damage_without_checksums_ends_neither_appends_nor_merges_with_a_panic() {
    let mut random = StdRng::seed_from_u64(29);
    for _ in 0..40 {
        let store = without_checksums(filled());
        let damaged = store.warehouse.files(PROJECT).files[1].path.clone();
        let bits = fs::read(&damaged).unwrap().len() * 8;
        for _ in 0..8 {
            flip(&damaged, random.random_range(0..bits));
        }
        // Copies of events in the damaged segment, and new ones.
        store.append(&mut [at(105, 3), at(117, 4), at(900, 5)]);
        let _ = store.warehouse.flush();
        let doomed = DeleteSelection::Uuids([at(106, 0).uuid, at(900, 0).uuid].into());
        let _ = store.warehouse.delete(PROJECT, &doomed, 1_000);
        for _ in 0..4 {
            let _ = store.warehouse.compact(CompactionKind::Major);
        }
        assert_eq!(store.warehouse.applied_position(), 123);
    }
}

#[test]
fn a_file_that_the_system_does_not_let_us_read_is_not_damaged() {
    let store = filled();
    let dead = store.warehouse.files(PROJECT).files.iter().find_map(|file| file.dead.clone());
    let dead = dead.unwrap();
    fs::remove_file(&dead).unwrap();
    fs::create_dir(&dead).unwrap();
    let report = verify(store.dir.path(), &mut |_| ()).unwrap();
    assert_eq!((report.damage.len(), report.unreadable.len()), (0, 1), "{report:?}");
    assert!(report.unreadable[0].what.contains(&dead.display().to_string()), "{report:?}");
}

#[test]
fn a_start_does_not_fail_for_what_a_crash_left_behind() {
    let store = filled();
    let dir = store.dir.path().to_owned();
    let whole = fs::read(&store.warehouse.files(PROJECT).files[0].path).unwrap();
    // As on a full disk, nothing can be moved.
    fs::write(dir.join("unlisted"), "in the way").unwrap();
    let (half, orphan) =
        (dir.join("1/2026-03-000000000098.parquet"), dir.join("1/2026-03-000000000099.parquet"));
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    fs::write(dir.join("1/2026-03-000000000097.parquet"), "").unwrap();
    fs::write(&orphan, &whole).unwrap();
    let store = store.reopen();
    assert_eq!(store.all().len(), 111);
    assert!(!half.exists() && !dir.join("1/2026-03-000000000097.parquet").exists());
    assert_eq!(fs::read(&orphan).unwrap(), whole);
}

#[test]
fn a_folder_without_its_manifest_is_refused_and_left_as_it_is() {
    let store = filled();
    let Store { dir, clock, settings, warehouse } = store;
    drop(warehouse);
    let manifest = fs::read(dir.path().join("manifest")).unwrap();
    fs::remove_file(dir.path().join("manifest")).unwrap();
    let before = files_below(dir.path());
    let open = || Warehouse::open(dir.path(), JOURNAL, settings.clone(), clock.clone());
    let error = open().unwrap_err();
    assert!(matches!(error, Error::NoManifest { .. }));
    let said = error.to_string();
    assert!(said.contains("hedgerow restore") && said.contains(".parquet"), "{said}");
    assert_eq!(files_below(dir.path()), before);
    fs::write(dir.path().join("manifest"), manifest).unwrap();
    assert_eq!(all(&open().unwrap().snapshot(PROJECT)).len(), 111);
}

#[test]
fn what_the_store_did_not_make_stays_and_unlisted_segments_are_set_aside() {
    let store = filled();
    let dir = store.dir.path().to_owned();
    let segment = store.warehouse.files(PROJECT).files[0].path.clone();
    fs::create_dir(dir.join("notes")).unwrap();
    let foreign =
        ["1/mine.parquet", "1/2026-03-7.dead", "1/readme", "notes/2026-03-000000000099.parquet"];
    foreign.iter().for_each(|name| fs::write(dir.join(name), "mine").unwrap());
    fs::copy(&segment, dir.join("1/2026-03-000000000099.parquet")).unwrap();
    fs::write(dir.join("1/mixed-000000000098.spill"), "spilled").unwrap();
    let store = store.reopen();
    assert_eq!(store.all().len(), 111);
    foreign.iter().for_each(|name| assert!(dir.join(name).is_file(), "{name}"));
    assert!(!dir.join("1/mixed-000000000098.spill").exists());
    let aside = dir.join("unlisted/1-2026-03-000000000099.parquet.kept");
    assert_eq!(fs::read(&aside).unwrap(), fs::read(&segment).unwrap());
    let report = verify(&dir, &mut |_| ()).unwrap();
    assert!(report.unlisted.contains(&"unlisted/1-2026-03-000000000099.parquet.kept".into()));
    // For a week, and then it goes.
    store.warehouse.sweep().unwrap();
    assert!(aside.is_file());
    store.clock.advance_seconds(8 * 86_400);
    store.warehouse.sweep().unwrap();
    assert!(!aside.exists());
}

#[test]
fn a_scrub_reads_each_segment_once_and_finds_what_is_damaged() {
    let store = filled();
    // Files have the machine's time; in the year 2100 all are due.
    let settings = store.settings.clone();
    let Store { dir, warehouse, .. } = store;
    drop(warehouse);
    let clock = ::model::Clock::at(Timestamp::from_micros(4_102_444_800_000_000));
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    let damaged = warehouse.files(PROJECT).files[2].path.clone();
    // Also what was read before and is in memory now.
    assert_eq!(warehouse.snapshot(PROJECT).count(&Filter::default()).unwrap(), 111);
    flip(&damaged, fs::read(&damaged).unwrap().len() * 8 - 100);
    let mut read = 0;
    let mut found = Vec::new();
    let mut pace = |bytes: usize| {
        read += bytes as u64;
        true
    };
    while let Some(done) = warehouse.scrub(day(7), &mut pace).unwrap() {
        found.push(done);
        assert!(found.len() <= 3);
    }
    assert_eq!(found.iter().filter(|done| done.damaged).count(), 1);
    let total: u64 = warehouse.files(PROJECT).files.iter().map(|file| file.bytes).sum();
    assert!(read > total / 4 && read <= total, "{read} of {total}");
    assert!(warehouse.health().damaged[0].contains(&damaged.display().to_string()));
    // A restart does not begin again; a week later it does, and a mended file is found mended.
    drop(warehouse);
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    assert_eq!(warehouse.scrub(day(7), &mut |_| true).unwrap(), None);
    clock.advance_seconds(8 * 86_400);
    assert!(warehouse.scrub(day(7), &mut |_| false).unwrap().is_none(), "told to stop");
    flip(&damaged, fs::read(&damaged).unwrap().len() * 8 - 100);
    let mut again = 0;
    while let Some(done) = warehouse.scrub(day(7), &mut |_| true).unwrap() {
        assert!(!done.damaged);
        again += 1;
    }
    assert_eq!((again, warehouse.health().damaged.len()), (3, 0));
    assert_eq!(uuids(&all(&warehouse.snapshot(PROJECT))).len(), 111);
}

#[test]
fn a_copy_of_a_damaged_segment_is_refused() {
    let store = filled();
    let to = tempfile::tempdir().unwrap();
    ReadOnlyWarehouse::open(store.dir.path()).unwrap().copy_to(&to.path().join("sound")).unwrap();
    assert_eq!(answers(&to.path().join("sound")).unwrap(), answers(store.dir.path()).unwrap());
    let damaged = store.warehouse.files(PROJECT).files[2].path.clone();
    let bits = fs::read(&damaged).unwrap().len() * 8;
    for (at, bit) in [8 * 20, bits / 2, bits - 9].into_iter().enumerate() {
        flip(&damaged, bit);
        let archive = ReadOnlyWarehouse::open(store.dir.path()).unwrap();
        let error = archive.copy_to(&to.path().join(at.to_string())).unwrap_err().to_string();
        assert!(error.contains(&damaged.display().to_string()), "{error}");
        flip(&damaged, bit);
    }
}
