//! Survey and salvage of corrupted journals.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use journal::{Error, Journal, JournalId, Position, SalvageTarget, Survey, salvage, survey};
use tempfile::TempDir;

use crate::{batch, read_all, tiny};

type History = BTreeMap<u64, Vec<u8>>;

const RECORDS: u64 = 60;

/// A journal of several segments after a kill, and its id.
async fn killed() -> (TempDir, JournalId, History) {
    let running = tempfile::tempdir().unwrap();
    let journal = Journal::open(running.path(), tiny()).await.unwrap();
    let mut history = History::new();
    for number in 0..RECORDS / 3 {
        let records: Vec<Vec<u8>> =
            (0..3).map(|part| vec![(number * 3 + part) as u8 + 1; 600]).collect();
        let last = journal.append(batch(&records)).await.unwrap().as_u64();
        history.extend((last - 2..).zip(records));
    }
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(running.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    (dir, journal.id(), history)
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "segment")).collect();
    paths.sort();
    paths
}

fn look(dir: &Path, id: JournalId) -> (Survey, History) {
    let mut found = History::new();
    let survey = survey(dir, Some(id), |position, record| {
        assert_eq!(found.insert(position.as_u64(), record.to_vec()), None);
        Ok(())
    });
    (survey.unwrap(), found)
}

/// Asserts that every appended record is intact or reported as lost.
fn accounted_for(survey: &Survey, found: &History, history: &History) {
    for (position, record) in history {
        let lost = survey.lost.iter().any(|range| range.contains(position));
        match found.get(position) {
            Some(read) => assert!(read == record && !lost, "position {position}"),
            // Without the first header, the journal begins later.
            None => {
                let before = *position < survey.oldest.as_u64();
                assert!(lost || before, "position {position} is neither there nor lost");
            }
        }
    }
    assert!(found.keys().all(|position| history.contains_key(position)));
}

/// Asserts that the salvaged journal opens and continues after all positions.
async fn opens(dir: &Path, wanted: SalvageTarget, expected: &History) {
    let to = tempfile::tempdir().unwrap();
    let to = to.path().join("new");
    let made = salvage(dir, &to, wanted).unwrap();
    assert_eq!(made.records, expected.len() as u64);
    let (again, found) = look(&to, wanted.id);
    assert!(again.faults.is_empty() && &found == expected, "{:?}", again.faults);
    let journal = Journal::open(&to, tiny()).await.unwrap();
    assert_eq!(journal.id(), wanted.id);
    assert_eq!(journal.stats().oldest, wanted.oldest);
    let read = read_all(&journal, wanted.oldest).await;
    let read: History = read.into_iter().map(|(at, record)| (at.as_u64(), record)).collect();
    assert_eq!(&read, expected);
    let next = journal.append(batch(["goes on"])).await.unwrap();
    assert!(next >= wanted.next && next == made.next, "{next:?} {made:?}");
    journal.close().await;
    let journal = Journal::open(&to, tiny()).await.unwrap();
    assert_eq!(read_all(&journal, wanted.oldest).await.len(), expected.len() + 1);
}

fn all(id: JournalId) -> SalvageTarget {
    SalvageTarget { id, oldest: Position::START, next: Position::START }
}

#[tokio::test]
async fn survey_of_an_intact_journal_finds_every_record_and_no_fault() {
    let (dir, id, history) = killed().await;
    assert!(segments(dir.path()).len() > 2);
    let (survey, found) = look(dir.path(), id);
    assert_eq!((found, survey.faults.len(), survey.lost.len()), (history.clone(), 0, 0));
    assert_eq!((survey.oldest, survey.end.as_u64()), (Position::START, RECORDS + 1));
    opens(dir.path(), all(id), &history).await;
    // From the middle on, with a next position beyond the end.
    let next = Position::from_u64(RECORDS + 500);
    let wanted = SalvageTarget { id, oldest: Position::from_u64(20), next };
    opens(dir.path(), wanted, &history.clone().split_off(&20)).await;
    // From an empty journal.
    let nowhere = dir.path().join("nowhere");
    opens(&nowhere, SalvageTarget { id, oldest: next, next }, &History::new()).await;
}

#[tokio::test]
async fn salvage_of_a_corrupted_record_loses_only_that_record() {
    let (dir, id, mut history) = killed().await;
    let path = &segments(dir.path())[1];
    let mut bytes = fs::read(path).unwrap();
    bytes[4096 + 32 + 8 + 300] ^= 1;
    fs::write(path, bytes).unwrap();
    let refused = Journal::open(dir.path(), tiny()).await.err().unwrap();
    assert!(refused.is_corruption(), "{refused}");
    let (survey, found) = look(dir.path(), id);
    accounted_for(&survey, &found, &history);
    let [Error::Corrupt(damage)] = &survey.faults[..] else { panic!("{:?}", survey.faults) };
    let position = damage.position.as_u64();
    let lost = position..position + 1;
    assert_eq!((damage.offset, &survey.lost[..]), (4096 + 32, std::slice::from_ref(&lost)));
    history.remove(&position);
    opens(dir.path(), all(id), &history).await;
}

#[tokio::test]
async fn salvage_without_a_header_loses_nothing_and_without_a_file_its_records() {
    let (dir, id, history) = killed().await;
    let paths = segments(dir.path());
    let file = fs::File::options().write(true).open(&paths[1]).unwrap();
    file.write_all_at(&[0; 64], 0).unwrap();
    let (survey, found) = look(dir.path(), id);
    assert_eq!((survey.faults.len(), &survey.lost, &found), (1, &Vec::new(), &history));
    opens(dir.path(), all(id), &history).await;

    fs::remove_file(&paths[1]).unwrap();
    let (survey, found) = look(dir.path(), id);
    accounted_for(&survey, &found, &history);
    assert!(matches!(survey.faults[..], [Error::Missing { .. }]), "{:?}", survey.faults);
    assert_eq!(survey.lost.len(), 1);
    opens(dir.path(), all(id), &found).await;
}

#[tokio::test]
async fn salvage_keeps_records_before_a_truncation() {
    let (dir, id, history) = killed().await;
    let last = segments(dir.path()).pop().unwrap();
    let bytes = fs::read(&last).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    // In the third record of the last group.
    fs::write(&last, &bytes[..end - 100]).unwrap();
    assert!(matches!(Journal::open(dir.path(), tiny()).await.err(), Some(Error::Truncated { .. })));
    let (survey, found) = look(dir.path(), id);
    accounted_for(&survey, &found, &history);
    assert_eq!(survey.lost, vec![RECORDS..RECORDS + 1]);
    assert!(matches!(survey.faults[..], [Error::Truncated { .. }]), "{:?}", survey.faults);
    opens(dir.path(), all(id), &found).await;
}

/// Under random corruption a position never gets another record than the one appended.
#[tokio::test]
async fn survey_reports_each_record_as_intact_or_lost_under_random_corruption() {
    let (dir, id, history) = killed().await;
    let paths = segments(dir.path());
    let originals: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let seed = testing::seed_or(24);
    let mut rng = seed.rng();
    for _ in 0..300 {
        let which = rng.range(0..paths.len() - 1);
        let mut bytes = originals[which].clone();
        for _ in 0..=rng.range(0..3) {
            let (at, length) = (rng.range(0..bytes.len()), rng.range(1..=200));
            bytes.iter_mut().skip(at).take(length).for_each(|byte| *byte ^= 0x55);
        }
        fs::write(&paths[which], &bytes).unwrap();
        let (survey, found) = look(dir.path(), id);
        accounted_for(&survey, &found, &history);
        fs::write(&paths[which], &originals[which]).unwrap();
    }
}

#[tokio::test]
async fn survey_and_salvage_reject_a_newer_format() {
    let (dir, id, _) = killed().await;
    let file = fs::File::options().write(true).open(&segments(dir.path())[0]).unwrap();
    file.write_all_at(&9u32.to_le_bytes(), 8).unwrap();
    assert!(matches!(survey(dir.path(), Some(id), |_, _| Ok(())), Err(Error::Version { .. })));
    assert!(matches!(journal::check_version(dir.path()), Err(Error::Version { .. })));
}
