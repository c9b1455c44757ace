//! Fault injection: a disk that fails, fills up or loses power.

mod disk;
mod failures;
mod histories;

use crate::files::Journal;
use crate::{Batch, Position, Settings};

/// Segments of a few records, so that every test rolls over.
fn tiny() -> Settings {
    Settings {
        segment_bytes: 16 << 10,
        record_bytes_max: 16 << 10,
        queue_bytes_max: 64 << 10,
        disk_bytes_max: 64 << 20,
        ..Settings::default()
    }
}

fn batch<R: AsRef<[u8]>>(records: impl IntoIterator<Item = R>) -> Batch {
    let mut batch = Batch::new();
    records.into_iter().for_each(|record| batch.push(record.as_ref()));
    batch
}

async fn read_all(journal: &Journal) -> Vec<(Position, Vec<u8>)> {
    let stats = journal.stats();
    let mut reader = journal.reader(stats.oldest).unwrap();
    let mut found = Vec::new();
    while reader.position() < stats.next {
        let records = reader.next_batch(100, 10_000).await.unwrap();
        found.extend(records.iter().map(|one| (one.position, one.bytes.to_vec())));
    }
    found
}
