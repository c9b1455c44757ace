//! Integration tests of the journal: its contract on every engine, then what only one of them does.

#![expect(clippy::unwrap_used, reason = "also in what tests share")]

mod contract;
mod files;
mod jetstream;

use journal::{Batch, Inspection, Journal, Position, Settings};

/// Segments of a few records, so that every test rolls over.
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

/// Reads everything from `from` to the current end in small batches.
pub async fn read_all(journal: &Journal, from: Position) -> Vec<(Position, Vec<u8>)> {
    let mut reader = journal.reader(from).unwrap();
    let mut found = Vec::new();
    while reader.position() < journal.stats().next {
        let records = reader.next_batch(7, 4096).await.unwrap();
        found.extend(records.iter().map(|one| (one.position, one.bytes.to_vec())));
    }
    found
}

pub fn inspect(dir: &std::path::Path) -> Vec<(Position, Vec<u8>)> {
    Inspection::open(dir).unwrap().collect::<journal::Result<_>>().unwrap()
}
