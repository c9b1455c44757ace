use std::fs::{self, File};
use std::os::unix::fs::symlink;

use catalog::{Catalog, IngestOutcome, Location, ProjectChanges, Secret, Vault};
use model::group::Group;
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo};
use model::{Clock, Timestamp};
use proptest::prelude::*;
use serde_json::{Map, Value};
use tempfile::TempDir;

use super::reader::LoggedChanges;
use super::*;

const JOURNAL: u128 = 7;
const PROJECT: ProjectId = ProjectId(1);
const OTHER: ProjectId = ProjectId(-2);
/// A few entries per segment.
const SMALL: Limits = Limits { segment_bytes: 400, log_bytes: 1 << 20 };

type ProjectRows = (IdentityChanges, Vec<Group>);

fn open(data: &Path, position: u64) -> IdentityLog {
    IdentityLog::open_with(data, Some((JOURNAL, position)), SMALL)
}

fn batch(from: u64, reach: u64, projects: Vec<(ProjectId, ProjectRows)>) -> IngestBatch {
    let projects = projects.into_iter().map(|(project, (identity, groups))| ProjectChanges {
        project,
        identity,
        group_types: vec![],
        groups,
        first_event: false,
    });
    let projects = projects.collect();
    IngestBatch { journal: JOURNAL, from, reach, projects, ..IngestBatch::default() }
}

/// Changes that differ by `no`.
fn rows(no: u32) -> ProjectRows {
    let properties = Map::from_iter([("größe \"x\"".to_owned(), Value::from(no))]);
    let created_at = Timestamp::from_micros(i64::from(no) - 5);
    let person = Person {
        no: PersonNo(no),
        uuid: Uuid::from_u128(no.into()),
        properties: JsonObject::from(&properties),
        is_identified: no.is_multiple_of(2),
        version: -1,
        created_at,
    };
    let id = DistinctId {
        no: DistinctNo(no),
        text: format!("id\0{no}"),
        person: Some(PersonNo(no)),
        version: 300,
        version_floor: 0,
    };
    let identity = IdentityChanges {
        ids: vec![id],
        persons: vec![person.into()],
        next_person: no + 1,
        ..IdentityChanges::default()
    };
    let key = format!("group {no}");
    (identity, vec![Group { index: 4, key, properties, version: i64::MIN, created_at }])
}

/// A batch of ten positions that changes both projects.
fn tenth(no: u32) -> IngestBatch {
    let from = u64::from(no) * 10;
    batch(from, from + 10, vec![(PROJECT, rows(no)), (OTHER, rows(no + 1_000))])
}

fn commit(log: &IdentityLog, batch: &IngestBatch) {
    log.prepare(batch);
    log.committed();
}

fn logged(batch: &IngestBatch, project: ProjectId) -> Vec<LoggedChanges> {
    let of_project = batch.projects.iter().filter(|changes| changes.project == project);
    let of_project = of_project.map(|changes| LoggedChanges {
        from: batch.from,
        reach: batch.reach,
        identity: changes.identity.clone(),
        groups: changes.groups.clone(),
    });
    of_project.collect()
}

fn read_from(log: &IdentityLog, project: ProjectId, from: u64) -> Result<Vec<LoggedChanges>, Gap> {
    let id = log.start().ok_or_else(|| Gap::new("broken"))?.log;
    log.changes(project, LogPosition { log: id, position: from })?.collect()
}

#[track_caller]
fn check(log: &IdentityLog, start: u64, batches: &[&IngestBatch]) {
    let positions = (log.start().unwrap().position, log.end().unwrap().position);
    assert_eq!(positions, (start, batches.last().map_or(start, |batch| batch.reach)));
    for project in [PROJECT, OTHER, ProjectId(3)] {
        let expected: Vec<_> = batches.iter().flat_map(|batch| logged(batch, project)).collect();
        assert_eq!(read_from(log, project, start).unwrap(), expected);
    }
}

/// What a process that is killed now leaves behind. In memory where that is possible: thousands of
/// copies are opened, and each is synced.
fn copy(data: &Path) -> TempDir {
    let copy = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let from = data.join(DIR);
    let to = copy.path().join(DIR);
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    copy
}

fn files(data: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(data.join(DIR)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn id(log: &IdentityLog) -> u128 {
    log.start().unwrap().log
}

#[test]
fn log_rotates_segments_and_reads_from_every_batch() {
    let data = tempfile::tempdir().unwrap();
    let batches: Vec<IngestBatch> = (0..12).map(tenth).collect();
    let log = open(data.path(), 0);
    batches.iter().for_each(|batch| commit(&log, batch));
    assert!(files(data.path()).len() > 3);
    let reopened = open(copy(data.path()).path(), 120);
    for log in [&log, &reopened] {
        check(log, 0, &batches.iter().collect::<Vec<_>>());
        for from in 0..=12 {
            let expected: Vec<_> =
                batches[from..].iter().flat_map(|batch| logged(batch, OTHER)).collect();
            assert_eq!(read_from(log, OTHER, from as u64 * 10).unwrap(), expected);
        }
        for outside in [5, 119, 121, u64::MAX] {
            assert!(read_from(log, PROJECT, outside).is_err(), "{outside}");
        }
        assert!(log.changes(PROJECT, LogPosition { log: 1, position: 0 }).is_err());
    }
}

#[test]
fn batch_without_changes_is_covered() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    let empty = batch(10, 25, vec![(PROJECT, ProjectRows::default())]);
    let (first, last) = (tenth(0), batch(25, 30, vec![(PROJECT, rows(9))]));
    [&first, &empty, &last].into_iter().for_each(|batch| commit(&log, batch));
    let changes = read_from(&open(data.path(), 30), PROJECT, 0).unwrap();
    assert_eq!(changes, [logged(&first, PROJECT), logged(&last, PROJECT)].concat());
}

#[test]
fn next_batch_confirms_or_truncates_an_entry_of_unknown_outcome() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    let first = tenth(0);
    commit(&log, &first);
    let before = id(&log);
    let second = tenth(1);
    log.prepare(&second);
    log.unknown();
    log.committed();
    check(&log, 0, &[&first]);
    let third = batch(20, 22, vec![(PROJECT, rows(20))]);
    log.prepare(&third);
    check(&log, 0, &[&first, &second]);

    let retried = batch(20, 29, vec![(PROJECT, rows(21))]);
    log.prepare(&retried);
    check(&log, 0, &[&first, &second]);
    log.committed();
    check(&log, 0, &[&first, &second, &retried]);
    assert_eq!(id(&log), before);

    commit(&log, &tenth(4));
    assert_ne!(id(&log), before, "positions 29 to 40 are missing");
    check(&log, 40, &[&tenth(4)]);
    commit(&log, &IngestBatch { journal: 8, ..tenth(5) });
    check(&log, 50, &[&tenth(5)]);
}

#[test]
fn log_reopens_after_a_kill_at_every_step() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    let id = id(&log);
    let batches: Vec<IngestBatch> = (0..8).map(tenth).collect();
    for at in 0..batches.len() {
        let (done, next) = (batches[..at].iter().collect::<Vec<_>>(), &batches[at]);
        let reopened = |position: u64| {
            let copy = copy(data.path());
            let reopened = open(copy.path(), position);
            assert_eq!(super::tests::id(&reopened), id);
            (reopened, copy)
        };
        check(&reopened(next.from).0, 0, &done);
        // A first attempt, whose commit fails.
        log.prepare(&batch(next.from, next.reach - 3, vec![(PROJECT, rows(77))]));
        check(&reopened(next.from).0, 0, &done);
        log.prepare(next);
        let (uncommitted, _copy) = reopened(next.from);
        check(&uncommitted, 0, &done);
        commit(&uncommitted, next);
        let all = [done, vec![next]].concat();
        check(&uncommitted, 0, &all);
        check(&reopened(next.reach).0, 0, &all);
        log.committed();
        check(&reopened(next.reach).0, 0, &all);
    }
}

#[test]
fn torn_entry_is_truncated_if_not_committed_and_a_gap_otherwise() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    let batches = [tenth(0), tenth(1), tenth(2)];
    let log_files = |batches: &[IngestBatch]| {
        batches.iter().for_each(|batch| commit(&log, batch));
        files(data.path())
    };
    let before = log_files(&batches[..2]);
    let last = before.last().unwrap();
    let (from, same) = (fs::metadata(last).unwrap().len(), log_files(&batches[2..]) == before);
    let last = files(data.path()).pop().unwrap();
    let from = if same { from } else { 0 };
    let len = fs::metadata(&last).unwrap().len();
    for cut in from..len {
        for position in [20, 30] {
            let copy = copy(data.path());
            let torn = copy.path().join(DIR).join(last.file_name().unwrap());
            File::options().write(true).open(torn).unwrap().set_len(cut).unwrap();
            let reopened = open(copy.path(), position);
            if position == 20 {
                assert_eq!(id(&reopened), id(&log), "cut at {cut}");
                check(&reopened, 0, &[&batches[0], &batches[1]]);
            } else {
                assert_ne!(id(&reopened), id(&log), "cut at {cut}");
                check(&reopened, 30, &[]);
            }
            let next = batch(position, 50, vec![(OTHER, rows(5))]);
            commit(&reopened, &next);
            assert_eq!(read_from(&reopened, OTHER, position).unwrap(), logged(&next, OTHER));
        }
    }
}

/// Two segments with a chunk of an edit in the middle.
fn small_log(data: &Path) -> (IdentityLog, Vec<IngestBatch>) {
    let log = open(data, 0);
    let chunk = batch(20, 20, vec![(PROJECT, rows(3))]);
    let batches = vec![tenth(0), tenth(1), chunk, tenth(2)];
    batches.iter().for_each(|batch| commit(&log, batch));
    assert!(files(data).len() > 1);
    (log, batches)
}

#[test]
fn flipped_bit_is_a_gap_and_never_other_changes() {
    let data = tempfile::tempdir().unwrap();
    let (log, batches) = small_log(data.path());
    let expected =
        |project| -> Vec<_> { batches.iter().flat_map(|batch| logged(batch, project)).collect() };
    let mut gaps = 0;
    for file in files(data.path()) {
        let intact = fs::read(&file).unwrap();
        let damaged = File::options().write(true).open(&file).unwrap();
        for bit in 0..intact.len() * 8 {
            let (at, byte) = (bit as u64 / 8, intact[bit / 8]);
            damaged.write_all_at(&[byte ^ (1 << (bit % 8))], at).unwrap();
            for project in [PROJECT, OTHER] {
                match read_from(&log, project, 0) {
                    Ok(changes) => assert_eq!(changes, expected(project), "bit {bit}"),
                    Err(_) => gaps += 1,
                }
            }
            // Reopening syncs, so only one bit of each byte.
            if bit % 8 == bit / 8 % 8 {
                let reopened = open(copy(data.path()).path(), 30);
                match read_from(&reopened, PROJECT, 0) {
                    Ok(changes) => assert_eq!(changes, expected(PROJECT), "bit {bit}"),
                    Err(_) => gaps += 1,
                }
            }
            damaged.write_all_at(&[byte], at).unwrap();
        }
    }
    assert!(gaps > 1_000);
    check(&log, 0, &batches.iter().collect::<Vec<_>>());
}

#[test]
fn chunks_of_an_edit_are_read_at_their_position() {
    let data = tempfile::tempdir().unwrap();
    let (log, batches) = small_log(data.path());
    for log in [&log, &open(copy(data.path()).path(), 30)] {
        check(log, 0, &batches.iter().collect::<Vec<_>>());
        let changes = read_from(log, PROJECT, 20).unwrap();
        let expected = [logged(&batches[2], PROJECT), logged(&batches[3], PROJECT)].concat();
        assert_eq!(changes, expected);
    }
    // An edit that changes nothing in this step needs no entry.
    log.prepare(&batch(30, 30, vec![]));
    log.prepare(&tenth(3));
    log.committed();
    assert_eq!(log.end().unwrap().position, 40);
}

#[test]
fn segment_does_not_end_in_a_chunk() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    let mut batches = vec![tenth(0)];
    batches.extend((0..20).map(|no| batch(10, 10, vec![(PROJECT, rows(no))])));
    batches.extend([tenth(1), tenth(2)]);
    batches.iter().for_each(|batch| commit(&log, batch));
    log.release(10).unwrap();
    let expected: Vec<_> = batches[1..].iter().flat_map(|batch| logged(batch, PROJECT)).collect();
    assert_eq!(read_from(&log, PROJECT, 10).unwrap(), expected);
    assert_eq!(read_from(&open(data.path(), 30), PROJECT, 10).unwrap(), expected);
}

#[test]
fn chunk_of_unknown_outcome_starts_the_log_over() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    commit(&log, &tenth(0));
    let before = id(&log);
    let chunk = batch(10, 10, vec![(PROJECT, rows(3))]);
    log.prepare(&chunk);
    let killed = open(copy(data.path()).path(), 10);
    assert_ne!(id(&killed), before, "it may be committed");
    check(&killed, 10, &[]);
    log.unknown();
    commit(&log, &chunk);
    assert_ne!(id(&log), before);
    assert_eq!(read_from(&log, PROJECT, 10).unwrap(), logged(&chunk, PROJECT));

    let before = id(&log);
    let killed = open(copy(data.path()).path(), 10);
    assert_ne!(id(&killed), before, "another chunk may be missing");
    let file = files(data.path()).pop().unwrap();
    for bit in SEGMENT_HEADER_BYTES * 8..fs::read(&file).unwrap().len() * 8 {
        let copied = copy(data.path());
        let damaged = &files(copied.path())[0];
        let mut bytes = fs::read(damaged).unwrap();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(damaged, bytes).unwrap();
        assert_ne!(id(&open(copied.path(), 10)), before, "bit {bit}");
    }
}

#[test]
fn chunk_in_the_segment_of_a_failed_batch_starts_the_log_over() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    commit(&log, &tenth(0));
    log.prepare(&tenth(1));
    assert_eq!(files(data.path()).len(), 2);
    let copied = copy(data.path());
    assert_eq!(id(&open(copied.path(), 10)), id(&log));
    log.prepare(&batch(10, 10, vec![(PROJECT, rows(3))]));
    assert_eq!(files(data.path()).len(), 2);
    let copied = copy(data.path());
    assert_ne!(id(&open(copied.path(), 10)), id(&log));
}

#[test]
fn log_of_another_journal_or_without_files_starts_over() {
    let data = tempfile::tempdir().unwrap();
    let (log, _) = small_log(data.path());
    let copied = copy(data.path());
    let other = IdentityLog::open_with(copied.path(), Some((8, 30)), SMALL);
    assert_ne!(id(&other), id(&log));
    check(&other, 30, &[]);
    for position in [0, 10, 20, 30, 40, 25, u64::MAX] {
        let copied = copy(data.path());
        let reopened = open(copied.path(), position);
        assert_eq!(reopened.end().unwrap().position, position);
        let known = [0, 10, 30].contains(&position);
        assert_eq!(id(&reopened) == id(&log), known, "{position}");
    }
    let copied = copy(data.path());
    fs::remove_file(files(copied.path()).first().unwrap()).unwrap();
    let reopened = open(copied.path(), 30);
    assert_eq!(id(&reopened), id(&log), "the oldest segments may be released");
    let middle = tempfile::tempdir().unwrap();
    let log = open(middle.path(), 0);
    (0..9).for_each(|no| commit(&log, &tenth(no)));
    fs::remove_file(&files(middle.path())[1]).unwrap();
    check(&open(middle.path(), 90), 90, &[]);
}

#[test]
fn log_without_an_offset_starts_with_the_first_batch() {
    let data = tempfile::tempdir().unwrap();
    let log = IdentityLog::open(data.path(), None);
    assert_eq!((log.start(), log.end(), log.sync().unwrap()), (None, None, None));
    assert!(log.changes(PROJECT, LogPosition { log: 0, position: 0 }).is_err());
    commit(&log, &tenth(1));
    check(&log, 10, &[&tenth(1)]);
    assert_eq!(log.sync().unwrap(), log.end());
}

#[test]
fn release_removes_whole_segments_and_readers_keep_theirs() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    let batches: Vec<IngestBatch> = (0..12).map(tenth).collect();
    batches.iter().for_each(|batch| commit(&log, batch));
    let mut reader = log.changes(PROJECT, log.start().unwrap()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), logged(&batches[0], PROJECT)[0]);
    let (id, count) = (id(&log), files(data.path()).len());
    log.release(0).unwrap();
    assert_eq!(files(data.path()).len(), count);
    log.release(55).unwrap();
    let start = log.start().unwrap().position;
    assert!((1..=55).contains(&start) && files(data.path()).len() < count);
    assert!(read_from(&log, PROJECT, start - 10).is_err());
    let kept: Vec<_> = batches.iter().filter(|batch| batch.from >= start).collect();
    check(&log, start, &kept);
    log.release(u64::MAX).unwrap();
    assert_eq!(files(data.path()).len(), 1);
    log.sync().unwrap();
    commit(&log, &tenth(12));
    assert_eq!(super::tests::id(&open(data.path(), 130)), id);
    assert_eq!(reader.end(), 120);
    assert_eq!(reader.map(Result::unwrap).count(), 11);
}

#[test]
fn log_past_its_size_loses_the_oldest_segments() {
    let data = tempfile::tempdir().unwrap();
    let limits = Limits { segment_bytes: 400, log_bytes: 2_000 };
    let log = IdentityLog::open_with(data.path(), Some((JOURNAL, 0)), limits);
    let (first, batches) = (id(&log), (0..40).map(tenth).collect::<Vec<_>>());
    batches.iter().for_each(|batch| commit(&log, batch));
    let bytes: u64 = files(data.path()).iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes <= 2_000);
    let start = log.start().unwrap().position;
    check(&log, start, &batches.iter().filter(|batch| batch.from >= start).collect::<Vec<_>>());
    assert!(start > 0 && id(&log) == first);
    let many = (0..30).map(|no| (PROJECT, rows(no))).collect();
    commit(&log, &batch(400, 401, many));
    assert_eq!(log.end(), None);
    commit(&log, &batch(401, 410, vec![]));
    check(&log, 401, &[&batch(401, 410, vec![])]);
}

#[test]
fn unknown_files_are_left() {
    let data = tempfile::tempdir().unwrap();
    let (log, _) = small_log(data.path());
    let names = ["notes.txt", "1.idlog", "x0000000000000000000.idlog", "00000000000000000000idlog"];
    let dir = data.path().join(DIR);
    names.iter().for_each(|name| fs::write(dir.join(name), "kept").unwrap());
    log.release(u64::MAX).unwrap();
    let reopened = open(data.path(), 77);
    check(&reopened, 77, &[]);
    assert_eq!(files(data.path()).len(), names.len() + 1);
    names.iter().for_each(|name| assert_eq!(fs::read(dir.join(name)).unwrap(), b"kept"));
}

#[test]
fn failed_append_breaks_the_log_until_the_next_batch() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    commit(&log, &tenth(0));
    // Every write to the next segment fails as on a full disk.
    let full = segments::path(&data.path().join(DIR), 10);
    symlink("/dev/full", &full).unwrap();
    commit(&log, &tenth(1));
    assert_eq!((log.start(), log.end()), (None, None));
    assert_eq!(files(data.path()).len(), 0);
    log.release(5).unwrap();
    commit(&log, &tenth(2));
    check(&log, 20, &[&tenth(2)]);
}

#[test]
fn log_in_an_unusable_directory_is_broken() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("people"), "a file").unwrap();
    let log = open(data.path(), 10);
    commit(&log, &tenth(1));
    assert_eq!(log.end(), None);
    fs::remove_file(data.path().join("people")).unwrap();
    commit(&log, &tenth(2));
    check(&log, 20, &[&tenth(2)]);
}

#[test]
fn queries_read_while_batches_are_retried_and_segments_released() {
    let data = tempfile::tempdir().unwrap();
    let log = open(data.path(), 0);
    let batches: Vec<IngestBatch> = (0..200).map(tenth).collect();
    std::thread::scope(|scope| {
        let (log, batches) = (&log, &batches);
        scope.spawn(move || {
            for (at, next) in batches.iter().enumerate() {
                log.prepare(&batch(next.from, next.reach + 5, vec![(PROJECT, rows(7))]));
                log.prepare(next);
                log.committed();
                if at % 20 == 0 {
                    log.release(next.from.saturating_sub(100)).unwrap();
                }
            }
        });
        loop {
            let start = log.start().unwrap();
            let Ok(changes) = log.changes(PROJECT, start) else { continue };
            let end = changes.end();
            let changes: Vec<_> = changes.map(Result::unwrap).collect();
            let read = start.position as usize / 10..end as usize / 10;
            let expected: Vec<_> =
                batches[read].iter().flat_map(|batch| logged(batch, PROJECT)).collect();
            assert_eq!(changes, expected);
            if end == 2_000 {
                break;
            }
        }
    });
}

#[tokio::test]
async fn log_follows_the_batches_of_a_catalog() {
    let data = tempfile::tempdir().unwrap();
    let (file, vault) = (data.path().join("catalog"), Vault::new(&Secret::given("secret")));
    let catalog = Catalog::open(Location::Sqlite(&file), vault, Clock::system()).await.unwrap();
    let log = Arc::new(open(data.path(), 0));
    let (preparing, confirming) = (log.clone(), log.clone());
    catalog.ingest().on_prepare(move |batch| preparing.prepare(batch));
    catalog.ingest().on_apply(move |outcome| match outcome {
        IngestOutcome::Committed(_) => confirming.committed(),
        IngestOutcome::Unknown => confirming.unknown(),
    });
    for (from, reach, is_applied) in [(0, 4, true), (2, 5, false), (4, 9, true)] {
        let applied = catalog.ingest().apply(&batch(from, reach, vec![])).await;
        assert_eq!(applied.is_ok(), is_applied);
    }
    assert_eq!((log.start().unwrap().position, log.end().unwrap().position), (0, 9));
    let reopened = IdentityLog::open_with(
        copy(data.path()).path(),
        catalog.ingest().offset().await.unwrap(),
        SMALL,
    );
    assert_eq!(reopened.end(), log.end());
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[a-z]{0,300}", Just("\0\u{feff}\u{10ffff}\"\\".to_owned())]
}

fn properties() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
        prop::collection::vec(text(), 0..3).prop_map(Value::from),
    ];
    prop::collection::vec((text(), value), 0..4).prop_map(|all| all.into_iter().collect())
}

fn person_no() -> impl Strategy<Value = PersonNo> {
    any::<u32>().prop_map(PersonNo)
}

prop_compose! {
    fn person()(
        no in person_no(),
        uuid in any::<u128>(),
        properties in properties(),
        is_identified in any::<bool>(),
        version in any::<i64>(),
        created_at in any::<i64>(),
    ) -> Arc<Person<JsonObject>> {
        let (uuid, properties) = (Uuid::from_u128(uuid), JsonObject::from(&properties));
        let created_at = Timestamp::from_micros(created_at);
        Arc::new(Person { no, uuid, properties, is_identified, version, created_at })
    }
}

prop_compose! {
    fn distinct_id()(
        no in any::<u32>(),
        text in text(),
        person in prop::option::of(person_no()),
        version in any::<i64>(),
        version_floor in any::<i64>(),
    ) -> DistinctId {
        DistinctId { no: DistinctNo(no), text, person, version, version_floor }
    }
}

prop_compose! {
    fn group()(
        index in any::<u8>(),
        key in text(),
        properties in properties(),
        version in any::<i64>(),
        created_at in any::<i64>(),
    ) -> Group {
        let created_at = Timestamp::from_micros(created_at);
        Group { index, key, properties, version, created_at }
    }
}

prop_compose! {
    fn any_rows()(
        merges in prop::collection::vec((person_no(), person_no()), 0..4),
        deleted in prop::collection::vec(person_no(), 0..4),
        ids in prop::collection::vec(distinct_id(), 0..4),
        persons in prop::collection::vec(person(), 0..4),
        rekeyed in prop::collection::vec(person_no(), 0..4),
        (first_new_person, next_distinct, next_person) in any::<(u32, u32, u32)>(),
        groups in prop::collection::vec(group(), 0..4),
    ) -> ProjectRows {
        let identity = IdentityChanges {
            merges,
            deleted,
            ids,
            persons,
            rekeyed,
            first_new_person,
            next_distinct,
            next_person,
        };
        (identity, groups)
    }
}

fn section(rows: &ProjectRows) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode(&mut bytes, &rows.0, &rows.1).unwrap();
    bytes
}

proptest! {
    #[test]
    fn section_round_trips_and_no_part_of_it_decodes(
        rows in any_rows(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 20),
    ) {
        let bytes = section(&rows);
        for cut in cuts {
            prop_assert!(codec::decode(&bytes[..cut.index(bytes.len())]).is_none());
        }
        prop_assert!(codec::decode(&[&bytes[..], &[0]].concat()).is_none());
        prop_assert_eq!(codec::decode(&bytes), Some(rows));
    }

    #[test]
    fn any_bytes_decode_without_a_panic(
        rows in any_rows(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
    ) {
        codec::decode(&bytes);
        let mut mixed = section(&rows);
        let at = at.index(mixed.len());
        let len = bytes.len().min(mixed.len() - at);
        mixed[at..at + len].copy_from_slice(&bytes[..len]);
        codec::decode(&mixed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn log_round_trips(batches in prop::collection::vec(
        (1..1_000_u64, prop::collection::vec((-2..3_i64, any_rows()), 0..4)), 1..8,
    )) {
        let data = tempfile::tempdir().unwrap();
        let log = open(data.path(), 5);
        let mut from = 5;
        let batches = batches.into_iter().map(|(positions, projects)| {
            let projects = projects.into_iter().map(|(id, rows)| (ProjectId(id), rows)).collect();
            let batch = batch(from, from + positions, projects);
            from = batch.reach;
            batch
        });
        let batches: Vec<IngestBatch> = batches.collect();
        batches.iter().for_each(|batch| commit(&log, batch));
        for log in [&log, &open(data.path(), from)] {
            check(log, 5, &batches.iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn any_file_opens_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let data = tempfile::tempdir().unwrap();
        let (dir, header) = (data.path().join(DIR), SegmentHeader { log: 1, journal: JOURNAL, first: 3 });
        fs::create_dir_all(&dir).unwrap();
        for head in [&[][..], &header.encode(), &[&header.encode()[..], b"BTCH"].concat()] {
            for position in [3, 4] {
                fs::write(segments::path(&dir, 3), [head, &bytes].concat()).unwrap();
                let log = open(data.path(), position);
                prop_assert_eq!(log.end().unwrap().position, position);
                prop_assert_eq!(read_from(&log, PROJECT, position).unwrap(), []);
            }
        }
    }
}

#[test]
fn oversized_counts_and_lengths_allocate_nothing() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for zeros in 0..9 {
        assert!(codec::decode(&[&vec![0; zeros][..], &huge].concat()).is_none());
        assert!(codec::decode(&[&vec![0; zeros][..], &huge, &[7; 64]].concat()).is_none());
    }
    let mut header = [0; format::ENTRY_HEADER_BYTES];
    header[..4].copy_from_slice(format::BATCH_MAGIC);
    header[24..].fill(0xff);
    assert!(format::announced_sections(&header).is_err());
}
