//! Corrupted files: results are right or an error, never wrong.

use std::fs;
use std::path::{Path, PathBuf};

use ::model::{ProjectId, Timestamp};
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
    let selection = DeleteSelection::Uuids((0..9).map(|n| at(n * 2, 0).uuid).collect());
    store.warehouse.delete(PROJECT, &selection, 1_000).unwrap();
    store
}

/// The results of every kind of read.
fn answers(dir: &Path) -> warehouse::Result<Vec<String>> {
    let read_only = ReadOnlyWarehouse::open(dir)?;
    let snapshot = read_only.snapshot(PROJECT);
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
fn flipped_bit_gives_the_right_result_or_an_error_naming_the_file() {
    let store = filled();
    let dir = store.dir.path();
    let expected = answers(dir).unwrap();
    let seed = testing::seed_or(24);
    let mut rng = seed.rng();
    let (mut refused, mut right) = (0, 0);
    for file in files_below(dir) {
        let bits = fs::read(&file).unwrap().len() * 8;
        if bits == 0 {
            continue;
        }
        // Footers and first lines are at the ends.
        let ends = (0..64).chain(bits.saturating_sub(64)..bits).filter(|bit| *bit < bits);
        let drawn: Vec<usize> = (0..60).map(|_| rng.range(0..bits)).chain(ends).collect();
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
    // Some bits are in parts that no read uses, or do not change the result.
    assert!(refused > 10 * right, "{refused} refused, {right} right");
    assert_eq!(answers(dir).unwrap(), expected);
}

#[test]
fn verify_finds_every_flipped_bit_and_names_the_column() {
    let store = filled();
    let dir = store.dir.path();
    let mut bytes_done = 0;
    let report = verify(dir, &mut |progress| bytes_done = progress.bytes_done).unwrap();
    assert_eq!((report.segments, report.segments_unchecked, report.rows), (3, 0, 120));
    assert!(report.damage.is_empty() && bytes_done == report.bytes, "{report:?}");
    let seed = testing::seed_or(25);
    let mut rng = seed.rng();
    for file in files_below(dir) {
        let name = file.strip_prefix(dir).unwrap().to_string_lossy().into_owned();
        if !name.contains('/') || report.unlisted.contains(&name) {
            continue;
        }
        for _ in 0..20 {
            let bit = rng.range(0..fs::read(&file).unwrap().len() * 8);
            flip(&file, bit);
            let corrupt = verify(dir, &mut |_| ()).unwrap().damage;
            assert!(
                corrupt.iter().any(|damage| damage.file == file),
                "bit {bit} of {name}: {corrupt:?}"
            );
            flip(&file, bit);
        }
    }
    let segment = store.warehouse.files(PROJECT).files[1].path.clone();
    flip(&segment, 8 * 60);
    let corrupt = verify(dir, &mut |_| ()).unwrap().damage;
    assert!(corrupt[0].what.contains("column uuid of row group 0"), "{corrupt:?}");
    assert_eq!((corrupt[0].project, corrupt[0].events), (PROJECT, 40));
}

#[test]
fn quarantined_segment_leaves_the_rest_readable() {
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
    let Store { dir: temp_dir, clock, settings, warehouse } = store;
    drop(warehouse);
    let done = quarantine_segment(&dir, &name).unwrap();
    assert_eq!((done.project, done.events), (PROJECT, 31));
    assert_eq!(fs::read(&done.kept[0]).unwrap(), bytes.unwrap());
    assert_eq!(fs::read(&done.kept[1]).unwrap(), dead.unwrap());
    assert!(done.kept.iter().all(|file| file.parent() == Some(&dir.join("damaged"))));
    assert!(matches!(quarantine_segment(&dir, &name), Err(Error::NoSegment { .. })));
    assert!(verify(&dir, &mut |_| ()).unwrap().damage.is_empty());
    let warehouse = crate::support::open(&dir, &settings, &clock);
    let store = Store { dir: temp_dir, clock, settings, warehouse };
    assert_eq!(store.all().len(), 80);
    store.clock.advance_seconds(30 * 86_400);
    store.warehouse.sweep().unwrap();
    assert!(store.reopen().dir.path().join("damaged").read_dir().unwrap().count() == 2);
}

#[test]
fn corrupted_segment_does_not_block_appends_or_deletes() {
    let store = filled();
    let damaged = store.warehouse.files(PROJECT).files[1].path.clone();
    let length = fs::read(&damaged).unwrap().len();
    flip(&damaged, (length - 20) * 8);
    let store = store.reopen();
    let other = ProjectId(2);
    let mut rows = [at(105, 3), at(900, 4), EventRow { project: other, ..at(901, 5) }];
    // The first is a duplicate of an event in the corrupted segment, which cannot be detected.
    store.append(&mut rows);
    store.warehouse.flush().unwrap();
    assert_eq!(store.warehouse.snapshot(other).totals().events, 1);
    let error = store.warehouse.snapshot(PROJECT).count(&Filter::default()).unwrap_err();
    assert!(error.to_string().contains("is damaged"), "{error}");
    // Deletes in every readable segment, and still returns an error.
    let selection = DeleteSelection::Uuids([at(900, 0).uuid].into());
    assert!(store.warehouse.delete(PROJECT, &selection, 1_000).is_err());
    assert_eq!(store.warehouse.health().damaged.len(), 1);
    // Merges skip it and continue with the others.
    while store.warehouse.compact(CompactionKind::Major).unwrap().is_some() {}
    assert_eq!(store.warehouse.files(PROJECT).files.len(), 2);
    // The manifest shows that all of its events are beyond the retention.
    let Store { dir, clock, settings, warehouse } = store;
    drop(warehouse);
    let retention = warehouse::Retention { age_max: Some(day(1)), disk_bytes_max: None };
    let settings = Settings { retention, ..settings };
    clock.advance_seconds(10 * 86_400);
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    warehouse.apply_retention().unwrap();
    assert_eq!(warehouse.snapshot(PROJECT).count(&Filter::default()).unwrap(), 0);
}

/// A store as written by a version without checksums.
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
fn segments_without_checksums_are_read_and_get_them_by_compaction() {
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
fn corruption_without_checksums_panics_neither_appends_nor_merges() {
    let seed = testing::seed_or(29);
    let mut rng = seed.rng();
    for _ in 0..40 {
        let store = without_checksums(filled());
        let damaged = store.warehouse.files(PROJECT).files[1].path.clone();
        let bits = fs::read(&damaged).unwrap().len() * 8;
        for _ in 0..8 {
            flip(&damaged, rng.range(0..bits));
        }
        // Duplicates of events in the corrupted segment, and new ones.
        store.append(&mut [at(105, 3), at(117, 4), at(900, 5)]);
        let _ = store.warehouse.flush();
        let selection = DeleteSelection::Uuids([at(106, 0).uuid, at(900, 0).uuid].into());
        let _ = store.warehouse.delete(PROJECT, &selection, 1_000);
        for _ in 0..4 {
            let _ = store.warehouse.compact(CompactionKind::Major);
        }
        assert_eq!(store.warehouse.applied_position(), 123);
    }
}

#[test]
fn unreadable_file_is_not_reported_as_corrupted() {
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
fn open_succeeds_if_orphans_cannot_be_moved() {
    let store = filled();
    let dir = store.dir.path().to_owned();
    let whole = fs::read(&store.warehouse.files(PROJECT).files[0].path).unwrap();
    // Nothing can be moved, as on a full disk.
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
fn directory_without_a_manifest_is_refused_unchanged() {
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
fn open_keeps_foreign_files_and_moves_unlisted_segments() {
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
    let moved = dir.join("unlisted/1-2026-03-000000000099.parquet.kept");
    assert_eq!(fs::read(&moved).unwrap(), fs::read(&segment).unwrap());
    let report = verify(&dir, &mut |_| ()).unwrap();
    assert!(report.unlisted.contains(&"unlisted/1-2026-03-000000000099.parquet.kept".into()));
    // It is removed after a week.
    store.warehouse.sweep().unwrap();
    assert!(moved.is_file());
    store.clock.advance_seconds(8 * 86_400);
    store.warehouse.sweep().unwrap();
    assert!(!moved.exists());
}

#[test]
fn scrub_reads_each_segment_once_and_finds_corruption() {
    let store = filled();
    // Files have the wall clock's time; in the year 2100 all are due.
    let settings = store.settings.clone();
    let Store { dir, warehouse, .. } = store;
    drop(warehouse);
    let clock = ::model::Clock::at(Timestamp::from_micros(4_102_444_800_000_000));
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    let damaged = warehouse.files(PROJECT).files[2].path.clone();
    // Also segments that were read before and are cached.
    assert_eq!(warehouse.snapshot(PROJECT).count(&Filter::default()).unwrap(), 111);
    flip(&damaged, fs::read(&damaged).unwrap().len() * 8 - 100);
    let mut read = 0;
    let mut scrubbed = Vec::new();
    let mut pace = |bytes: usize| {
        read += bytes as u64;
        true
    };
    while let Some(done) = warehouse.scrub(day(7), &mut pace).unwrap() {
        scrubbed.push(done);
        assert!(scrubbed.len() <= 3);
    }
    assert_eq!(scrubbed.iter().filter(|done| done.damaged).count(), 1);
    let total: u64 = warehouse.files(PROJECT).files.iter().map(|file| file.bytes).sum();
    assert!(read > total / 4 && read <= total, "{read} of {total}");
    assert!(warehouse.health().damaged[0].contains(&damaged.display().to_string()));
    // A restart does not start over. A week later all are due again, and a restored file is intact.
    drop(warehouse);
    let warehouse = crate::support::open(dir.path(), &settings, &clock);
    assert_eq!(warehouse.scrub(day(7), &mut |_| true).unwrap(), None);
    clock.advance_seconds(8 * 86_400);
    assert!(warehouse.scrub(day(7), &mut |_| false).unwrap().is_none(), "pace stopped it");
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
fn backup_of_a_corrupted_segment_is_refused() {
    let store = filled();
    let to = tempfile::tempdir().unwrap();
    ReadOnlyWarehouse::open(store.dir.path()).unwrap().copy_to(&to.path().join("intact")).unwrap();
    assert_eq!(answers(&to.path().join("intact")).unwrap(), answers(store.dir.path()).unwrap());
    let damaged = store.warehouse.files(PROJECT).files[2].path.clone();
    let bits = fs::read(&damaged).unwrap().len() * 8;
    for (at, bit) in [8 * 20, bits / 2, bits - 9].into_iter().enumerate() {
        flip(&damaged, bit);
        let read_only = ReadOnlyWarehouse::open(store.dir.path()).unwrap();
        let error = read_only.copy_to(&to.path().join(at.to_string())).unwrap_err().to_string();
        assert!(error.contains(&damaged.display().to_string()), "{error}");
        flip(&damaged, bit);
    }
}
