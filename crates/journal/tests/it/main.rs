//! The journal from outside, on a real folder.

#![expect(clippy::unwrap_used, reason = "also in what tests share")]

mod appending;
mod killing;
mod reading;
mod recovery;
mod releasing;
mod salvaging;

use journal::{Batch, Inspection, Journal, Position, Settings};

/// Segments of a few records, so that every test rolls.
pub fn tiny() -> Settings {
    Settings {
        segment_bytes: 16 << 10,
        record_bytes_max: 64 << 10,
        queue_bytes_max: 256 << 10,
        disk_bytes_max: 64 << 20,
        ..Settings::default()
    }
}

pub fn batch<R: AsRef<[u8]>>(records: impl IntoIterator<Item = R>) -> Batch {
    let mut batch = Batch::new();
    records.into_iter().for_each(|record| batch.push(record.as_ref()));
    batch
}

/// Everything from `from` to the present end, read in small pieces.
pub async fn read_all(journal: &Journal, from: Position) -> Vec<(Position, Vec<u8>)> {
    let mut reader = journal.reader(from).unwrap();
    let mut found = Vec::new();
    while reader.position() < journal.stats().next {
        let records = reader.next_batch(7, 4096).await.unwrap();
        found.extend(records.iter().map(|one| (one.position, one.bytes.to_vec())));
    }
    found
}

pub fn inspect(folder: &std::path::Path) -> Vec<(Position, Vec<u8>)> {
    Inspection::open(folder).unwrap().collect::<journal::Result<_>>().unwrap()
}
