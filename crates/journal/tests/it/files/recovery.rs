use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use journal::{Error, Inspection, Journal, Position};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::{batch, inspect, read_all, tiny};

type History = Vec<(Position, Vec<u8>)>;

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "segment")).collect();
    paths.sort();
    paths
}

/// A copy of the directory, as a crash would leave it.
fn copy(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// A journal interrupted by a crash: its directory without the last group, the bytes of the last
/// segment with that group, and the offset of the group.
struct Crashed {
    dir: TempDir,
    history: History,
    last: PathBuf,
    with_group: Vec<u8>,
    group: Range<usize>,
    with_group_history: History,
}

async fn crash(appends: &[(Vec<usize>, bool)], tail: &[usize]) -> Crashed {
    let running = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(running.path(), tiny()).await.unwrap();
    let mut fill = 0u8;
    let mut records = |sizes: &[usize]| {
        fill = fill.wrapping_add(1).max(1);
        sizes.iter().map(|size| vec![fill; *size]).collect::<Vec<_>>()
    };
    for (sizes, reopen) in appends {
        if *reopen {
            journal.close().await;
            journal = Journal::open(running.path(), tiny()).await.unwrap();
        }
        journal.append(batch(records(sizes))).await.unwrap();
    }
    let dir = copy(running.path());
    let history = inspect(dir.path());
    let before = segments(running.path());
    journal.append(batch(records(tail))).await.unwrap();
    assert_eq!(segments(running.path()), before, "the tail must not roll");

    let name = before.last().unwrap().file_name().unwrap();
    let last = dir.path().join(name);
    let (old, new) = (fs::read(&last).unwrap(), fs::read(running.path().join(name)).unwrap());
    let differs: Vec<usize> = (0..new.len()).filter(|at| old[*at] != new[*at]).collect();
    let group = differs[0]..differs[differs.len() - 1] + 1;
    let with_group_history = inspect(running.path());
    Crashed { dir, history, last, with_group: new, group, with_group_history }
}

/// Opens the journal, appends, and reads everything back after another restart.
async fn open_and_go_on(dir: &Path, expected: &History) {
    let journal = Journal::open(dir, tiny()).await.unwrap();
    assert_eq!(&read_all(&journal, Position::START).await, expected);
    let position = journal.append(batch(["goes on"])).await.unwrap();
    drop(journal);
    let journal = Journal::open(dir, tiny()).await.unwrap();
    let mut expected = expected.clone();
    expected.push((position, b"goes on".to_vec()));
    assert_eq!(read_all(&journal, Position::START).await, expected);
}

fn appends() -> impl Strategy<Value = Vec<(Vec<usize>, bool)>> {
    let sizes = prop::collection::vec(prop_oneof![0usize..40, 0usize..2500], 1..5);
    prop::collection::vec((sizes, prop::bool::weighted(0.2)), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn recovery_truncates_a_torn_tail_to_the_acknowledged_records(
        mut appends in appends(),
        tail in prop::collection::vec(1usize..60, 1..4),
    ) {
        // A new segment for the last groups, so that the tail does not roll over.
        appends.push((vec![30, 30], true));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let crashed = runtime.block_on(crash(&appends, &tail));
        let old = fs::read(&crashed.last).unwrap();
        for cut in crashed.group.start..=crashed.group.end {
            let whole = cut == crashed.group.end;
            let expected = if whole { &crashed.with_group_history } else { &crashed.history };
            let torn = [&crashed.with_group[..cut], &old[cut..]].concat();
            fs::write(&crashed.last, &torn).unwrap();
            prop_assert_eq!(&inspect(crashed.dir.path()), expected);
            if cut % 10 == 0 || whole {
                let dir = copy(crashed.dir.path());
                runtime.block_on(open_and_go_on(dir.path(), expected));
            }
        }
    }
}

/// A file is allocated before it is written, so a crash may tear a write but truncates no file.
#[tokio::test]
async fn recovery_refuses_a_file_truncated_in_or_after_its_last_group() {
    let crashed = crash(&[(vec![30, 30], false), (vec![40], false)], &[50, 60]).await;
    let dir = crashed.dir.path();
    let end = crashed.group.end;
    for cut in (crashed.group.start..=end).step_by(7).chain([end, end + 1, end + 31]) {
        fs::write(&crashed.last, &crashed.with_group[..cut]).unwrap();
        let refused = Journal::open(dir, tiny()).await.err().unwrap();
        assert!(
            matches!(refused, Error::Truncated { .. }) && refused.is_corruption(),
            "{cut}: {refused}"
        );
        let inspected = Inspection::open(dir).err().unwrap();
        assert_eq!(inspected.to_string(), refused.to_string());
        assert!(
            refused.to_string().contains(&format!("1.segment ends at byte {cut}")),
            "{refused}"
        );
    }
    // With a full group header of unused space at its end, nothing can be missing.
    fs::write(&crashed.last, &crashed.with_group[..end + 32]).unwrap();
    open_and_go_on(dir, &crashed.with_group_history).await;
}

/// Journals of versions that did not store the allocated length.
#[tokio::test]
async fn journal_without_an_allocated_length_still_opens() {
    let crashed = crash(&[(vec![30, 30], false)], &[50]).await;
    let mut bytes = crashed.with_group[..crashed.group.end].to_vec();
    bytes[64..72].fill(0);
    let checksum = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&crashed.last, bytes).unwrap();
    open_and_go_on(crashed.dir.path(), &crashed.with_group_history).await;
}

#[tokio::test]
async fn recovery_discards_a_last_group_with_any_sector_missing() {
    let crashed = crash(&[(vec![100], false)], &[700, 700, 700]).await;
    let old = fs::read(&crashed.last).unwrap();
    let sectors: Vec<usize> = (crashed.group.start / 512..=crashed.group.end / 512).collect();
    for lost in 1..1u32 << sectors.len() {
        let mut bytes = crashed.with_group.clone();
        for (index, sector) in sectors.iter().enumerate() {
            if lost >> index & 1 == 1 {
                let range = sector * 512..(sector + 1) * 512;
                bytes[range.clone()].copy_from_slice(&old[range]);
            }
        }
        fs::write(&crashed.last, bytes).unwrap();
        assert_eq!(inspect(crashed.dir.path()), crashed.history, "lost {lost:b}");
    }
}

#[tokio::test]
async fn recovery_refuses_a_flipped_byte_before_the_last_group() {
    let appends: Vec<_> = (0..12).map(|n| (vec![900, n * 10, 1500], n == 11)).collect();
    let crashed = crash(&appends, &[300]).await;
    fs::write(&crashed.last, &crashed.with_group).unwrap();
    let dir = crashed.dir.path();
    assert!(segments(dir).len() >= 3);
    for path in segments(dir) {
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        let bytes = fs::read(&path).unwrap();
        let end = if path == crashed.last { crashed.group.start } else { bytes.len() };
        for at in (0..64).chain(4092..4200).chain((64..end).step_by(29)).filter(|at| *at < end) {
            file.write_all_at(&[bytes[at] ^ 0x10], at as u64).unwrap();
            let refused = Journal::open(dir, tiny()).await.err();
            let clear = matches!(refused, Some(Error::Corrupt(_) | Error::Version { .. }));
            assert!(clear, "{} at {at}: {refused:?}", path.display());
            file.write_all_at(&bytes[at..=at], at as u64).unwrap();
        }
    }
    open_and_go_on(dir, &crashed.with_group_history).await;
}

#[tokio::test]
async fn corruption_error_has_offset_position_and_remaining_bytes() {
    let crashed = crash(&[(vec![100, 100], false), (vec![100], false)], &[100]).await;
    fs::write(&crashed.last, &crashed.with_group).unwrap();
    let file = fs::File::options().write(true).open(&crashed.last).unwrap();
    // Inside the second record: after header block, group header, frame, record, frame.
    let offset = 4096 + 32 + 8 + 100;
    file.write_all_at(b"?", offset + 8 + 50).unwrap();
    let refused = Journal::open(crashed.dir.path(), tiny()).await.err().unwrap();
    let Error::Corrupt(damage) = &refused else { panic!("{refused}") };
    assert_eq!((damage.offset, damage.position), (offset, Position::START));
    assert!(damage.expected.starts_with("record checksum "), "{refused}");
    assert!(damage.bytes_after > 100, "{refused}");
    let text = refused.to_string();
    assert!(text.contains("00000000000000000001.segment is damaged at byte 4236"), "{text}");
    let inspected = Inspection::open(crashed.dir.path()).err().unwrap();
    assert_eq!(inspected.to_string(), text);
}

#[tokio::test]
async fn recovery_explains_missing_foreign_and_newer_segments() {
    let appends: Vec<_> = (0..12).map(|_| (vec![900, 1500], false)).collect();
    let other = crash(&appends, &[1]).await;
    type Break = fn(&[PathBuf], &[PathBuf]);
    let cases: [(Break, &str); 6] = [
        (|paths, _| fs::remove_file(&paths[1]).unwrap(), "2.segment is missing, but later ones"),
        (
            |paths, _| {
                let file = fs::File::options().write(true).open(&paths[0]).unwrap();
                file.write_all_at(&7u32.to_le_bytes(), 8).unwrap();
            },
            "has journal format 7, this version knows formats up to 1; a newer version wrote it",
        ),
        (
            |paths, others| fs::rename(&others[1], &paths[1]).unwrap(),
            "2.segment is damaged at byte 0",
        ),
        (|paths, _| fs::rename(&paths[2], &paths[1]).unwrap(), "expected segment number 2"),
        (
            |paths, _| {
                fs::File::options().write(true).open(&paths[0]).unwrap().set_len(9000).unwrap()
            },
            "1.segment is damaged at byte",
        ),
        (|paths, _| fs::write(&paths[2], b"").unwrap(), "expected a segment header of 4096 bytes"),
    ];
    for (damage, sentence) in cases {
        let crashed = crash(&appends, &[1]).await;
        damage(&segments(crashed.dir.path()), &segments(other.dir.path()));
        let refused = Journal::open(crashed.dir.path(), tiny()).await.err().unwrap();
        assert!(refused.to_string().contains(sentence), "{sentence}: {refused}");
    }
}

const LEFT: [&str; 5] =
    ["fresh.tmp", "00000000000000000001.spare", "unrelated", "mine.spare", "1.spare"];

#[tokio::test]
async fn recovery_removes_temporary_files_of_a_crashed_roll() {
    let crashed = crash(&[(vec![900, 1500], false)], &[1]).await;
    let dir = crashed.dir.path();
    for name in LEFT {
        fs::write(dir.join(name), [0; 100]).unwrap();
    }
    open_and_go_on(dir, &crashed.history).await;
    let left: Vec<bool> = LEFT.map(|name| dir.join(name).exists()).into();
    assert_eq!(left, [false, false, true, true, true]);

    let empty = tempfile::tempdir().unwrap();
    fs::write(empty.path().join("fresh.tmp"), [0; 100]).unwrap();
    open_and_go_on(empty.path(), &Vec::new()).await;
}
