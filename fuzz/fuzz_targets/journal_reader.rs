//! Corrupts the files of a journal: reading never panics or hangs, inspection and recovery agree, and
//! a recovered journal continues with the same history.
//!
//! An edit may also recompute a checksum, by the documented format, so that forged content passes
//! verification.

#![no_main]

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use crc32c::{crc32c, crc32c_append};
use journal::{Batch, Inspection, Journal, Position, Settings};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

const EDIT_BYTES: usize = 8;
const EDITS_MAX: usize = 64;

type History = Vec<(Position, Vec<u8>)>;

struct Harness {
    runtime: Runtime,
    directory: tempfile::TempDir,
    /// Names and contents of an intact journal's segments.
    files: Vec<(String, Vec<u8>)>,
}

thread_local! {
    static HARNESS: RefCell<Harness> = RefCell::new(Harness::new());
}

fuzz_target!(|data: &[u8]| HARNESS.with_borrow_mut(|harness| harness.run(data)));

impl Harness {
    fn new() -> Harness {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        // On tmpfs if possible: every input opens a journal several times.
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let directory = tempfile::tempdir_in(parent).expect("a directory");
        let intact = directory.path().join("intact");
        let files = runtime.block_on(async {
            let journal = Journal::open(&intact, settings()).await.expect("a new journal");
            for size in [0, 5, 300, 2000, 40, 5000, 1, 1, 3000, 9] {
                let records = batch(&[vec![size as u8; size], vec![7; 3]]);
                journal.append(records).await.expect("an append");
            }
            // Copied while the journal is open, so without the end marker of a clean shutdown.
            read_files(&intact)
        });
        Harness { runtime, directory, files }
    }

    fn run(&mut self, data: &[u8]) {
        let directory = self.directory.path().join("edited");
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir(&directory).expect("a directory");
        let mut files = self.files.clone();
        data.chunks_exact(EDIT_BYTES).take(EDITS_MAX).for_each(|one| edit(&mut files, one));
        for (name, bytes) in &files {
            fs::write(directory.join(name), bytes).expect("a file");
        }

        let inspected: journal::Result<History> =
            Inspection::open(&directory).and_then(|inspection| inspection.collect());
        let opened = self.runtime.block_on(Journal::open(&directory, settings()));
        match (inspected, opened) {
            (Ok(history), Ok(journal)) => {
                self.runtime.block_on(append_and_reopen(&directory, journal, history))
            }
            (Err(_), Err(_)) => {}
            (inspected, opened) => {
                panic!("inspected {:?}, opened {:?}", inspected.err(), opened.err())
            }
        }
    }
}

async fn append_and_reopen(directory: &Path, journal: Journal, mut history: History) {
    assert!(history.is_sorted_by(|one, next| one.0 < next.0), "duplicate positions");
    assert_eq!(read_all(&journal).await, history);
    if let Ok(position) = journal.append(batch(&[b"goes on".to_vec()])).await {
        history.push((position, b"goes on".to_vec()));
    }
    assert_eq!(read_all(&journal).await, history);
    drop(journal);
    let journal = Journal::open(directory, settings()).await.expect("an opened journal reopens");
    assert_eq!(read_all(&journal).await, history);
}

async fn read_all(journal: &Journal) -> History {
    let stats = journal.stats();
    let mut reader = journal.reader(stats.oldest).expect("the oldest position");
    let mut history = Vec::new();
    while reader.position() < stats.next {
        let records = reader.next_batch(10, 1000).await.expect("records");
        history.extend(records.iter().map(|one| (one.position, one.bytes.to_vec())));
    }
    history
}

/// One edit: a byte, a run of bytes, a truncation, a copied range, or a recomputed checksum.
fn edit(files: &mut [(String, Vec<u8>)], code: &[u8]) {
    let count = files.len();
    let (_, bytes) = &mut files[usize::from(code[0]) % count];
    let at = usize::from(u16::from_le_bytes([code[2], code[3]]));
    let value = [code[4], code[5], code[6], code[7]];
    match code[1] % 9 {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= code[4]),
        1 => bytes.iter_mut().skip(at).zip(value).for_each(|(byte, new)| *byte = new),
        2 => bytes.iter_mut().skip(at).take(usize::from(code[4])).for_each(|byte| *byte = code[5]),
        3 => bytes.truncate(at),
        4 => {
            let from = usize::from(u16::from_le_bytes([code[4], code[5]]));
            let run: Vec<u8> =
                bytes.iter().skip(from).take(usize::from(code[6])).copied().collect();
            bytes.iter_mut().skip(at).zip(run).for_each(|(byte, new)| *byte = new);
        }
        5 => bytes.resize(at, code[4]),
        6 => write_checksum(bytes, 4092, |bytes| bytes.get(..4092).map(crc32c)),
        7 => write_checksum(bytes, at + 4, |bytes| {
            let seed = crc32c_append(salt(bytes)?, &(at as u64).to_le_bytes());
            Some(crc32c_append(seed, bytes.get(at + 8..at + 32)?))
        }),
        _ => write_checksum(bytes, at + 4, |bytes| {
            let len = bytes.get(at..at + 4)?;
            let end = u32::from_le_bytes(len.try_into().ok()?) as usize + at + 8;
            let mut tail = len.to_vec();
            tail.extend(u64::from(code[4]).to_le_bytes());
            tail.extend(salt(bytes)?.to_le_bytes());
            Some(crc32c_append(crc32c(bytes.get(at + 8..end)?), &tail))
        }),
    }
}

fn write_checksum(bytes: &mut [u8], at: usize, checksum: impl Fn(&[u8]) -> Option<u32>) {
    if let Some(checksum) = checksum(bytes)
        && let Some(slot) = bytes.get_mut(at..at + 4)
    {
        slot.copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The checksum salt: journal id and segment number from the header.
fn salt(bytes: &[u8]) -> Option<u32> {
    bytes.get(16..40).map(crc32c)
}

fn read_files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(directory).expect("a directory").flatten();
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let bytes = fs::read(entry.path()).ok()?;
            name.ends_with(".segment").then_some((name, bytes))
        })
        .collect();
    files.sort();
    files
}

fn batch(records: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new();
    records.iter().for_each(|record| batch.push(record));
    batch
}

fn settings() -> Settings {
    Settings {
        segment_bytes: 8192,
        record_bytes_max: 8192,
        queue_bytes_max: 16384,
        disk_bytes_max: 1 << 20,
        ..Settings::default()
    }
}
