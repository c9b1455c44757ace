//! Builds a snapshot of rows that another engine stores.

use std::sync::Arc;

use model::ProjectId;

use crate::columns::NewRow;
use crate::memtable::LiveBlock;
use crate::memtable::block::{Block, BlockBuilder};
use crate::read::snapshot::Snapshot;

/// Collects rows in memory, as a memtable does. Every row counts: the caller has deduplicated them.
#[derive(Debug)]
pub struct SnapshotBuilder {
    project: ProjectId,
    full: Vec<LiveBlock>,
    full_bytes: usize,
    open: BlockBuilder,
}

impl SnapshotBuilder {
    pub fn new(project: ProjectId) -> Self {
        Self { project, full: Vec::new(), full_bytes: 0, open: BlockBuilder::new(project) }
    }

    pub fn push(&mut self, row: &NewRow<'_>) {
        self.open.push(row);
        if self.open.is_full() {
            self.full_bytes += self.open.bytes();
            let open = std::mem::replace(&mut self.open, BlockBuilder::new(self.project));
            self.full.push(live(open.block()));
        }
    }

    /// An estimate of the memory used.
    pub fn bytes(&self) -> usize {
        self.full_bytes + self.open.bytes()
    }

    pub fn finish(mut self) -> Snapshot {
        if self.open.rows() > 0 {
            self.full.push(live(self.open.block()));
        }
        Snapshot::new(self.project, 0, Arc::default(), self.full)
    }
}

fn live(block: Block) -> LiveBlock {
    LiveBlock { block: Arc::new(block), dead: Arc::default() }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::read::filter::Filter;

    #[test]
    fn a_snapshot_has_every_row_that_was_pushed() {
        const ROWS: u64 = 20_000;
        let mut builder = SnapshotBuilder::new(ProjectId(1));
        for no in 0..ROWS {
            let properties = format!(r#"{{"n":{no}}}"#);
            builder.push(&NewRow {
                project: ProjectId(1),
                uuid: Uuid::from_u128(u128::from(no)),
                event: "e",
                distinct_id: "d",
                distinct_no: 0,
                timestamp: Timestamp::from_micros(no as i64),
                created_at: Timestamp::from_micros(0),
                elements_chain: "",
                groups: Default::default(),
                properties: &properties,
                position: no,
                historical: false,
            });
        }
        assert!(builder.bytes() > ROWS as usize);
        let snapshot = builder.finish();
        assert_eq!(snapshot.count(&Filter::default()).unwrap(), ROWS);
        let last = snapshot.get(Uuid::from_u128(u128::from(ROWS - 1))).unwrap().unwrap();
        assert_eq!(last.properties, format!(r#"{{"n":{}}}"#, ROWS - 1));
    }
}
