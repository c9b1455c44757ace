//! Memtables: the rows of a project that are not flushed yet, in memory and deduplicated.

pub(crate) mod block;
mod column_builder;
mod dedup_index;

use std::sync::Arc;

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::columns::{EventRow, Identity, NewRow};
use crate::memtable::block::{BLOCK_ROWS_MAX, Block, BlockBuilder};
use crate::memtable::dedup_index::DedupIndex;

/// A block with its dead rows.
#[derive(Clone, Debug)]
pub(crate) struct LiveBlock {
    pub block: Arc<Block>,
    /// Rows that were deleted or replaced.
    pub dead: Arc<RoaringBitmap>,
}

#[derive(Debug)]
pub(crate) struct Memtable {
    project: ProjectId,
    full: Vec<LiveBlock>,
    full_rows: usize,
    full_bytes: usize,
    open: BlockBuilder,
    open_dead: Arc<RoaringBitmap>,
    /// An immutable copy of the open block, until the next append.
    reader_copy: Option<Arc<Block>>,
    /// The live row of each event.
    index: DedupIndex,
    /// The journal position of the first row.
    first_position: Option<u64>,
}

/// The block of a row id and the row in it: the id is block times [`BLOCK_ROWS_MAX`] plus row.
const fn locate(row_id: u32) -> (usize, usize) {
    (row_id as usize / BLOCK_ROWS_MAX, row_id as usize % BLOCK_ROWS_MAX)
}

/// Whether an event is at a row id, in a full block or else in the open one.
fn is_at(
    full: &[LiveBlock],
    open: Option<&BlockBuilder>,
    row_id: u32,
    identity: &Identity,
) -> bool {
    let (block, row) = locate(row_id);
    match full.get(block) {
        Some(full) => full.block.is(row, identity),
        None => open.is_some_and(|open| open.is(row, identity)),
    }
}

impl Memtable {
    pub fn new(project: ProjectId) -> Memtable {
        Memtable {
            project,
            full: Vec::new(),
            full_rows: 0,
            full_bytes: 0,
            open: BlockBuilder::new(project),
            open_dead: Arc::default(),
            reader_copy: None,
            index: DedupIndex::default(),
            first_position: None,
        }
    }

    pub fn row_count(&self) -> usize {
        self.full_rows + self.open.rows()
    }

    /// The journal position of the first row; `None` without rows.
    pub fn first_position(&self) -> Option<u64> {
        self.first_position
    }

    pub fn bytes(&self) -> usize {
        self.full_bytes + self.open.bytes() + self.index.bytes()
    }

    /// The live row of an event.
    pub fn get(&self, identity: &Identity) -> Option<EventRow> {
        let is_event = |row_id| is_at(&self.full, Some(&self.open), row_id, identity);
        let (block, row) = locate(self.index.find(identity, is_event)?);
        Some(match self.full.get(block) {
            Some(full) => full.block.row(row),
            None => self.open.row(row),
        })
    }

    pub fn remove_event(&mut self, identity: &Identity) {
        let (full, open) = (&self.full, &self.open);
        if let Some(row_id) =
            self.index.take(identity, |row_id| is_at(full, Some(open), row_id, identity))
        {
            self.mark_dead(row_id);
        }
    }

    /// Adds a row, which replaces an earlier row of its event.
    pub fn push(&mut self, row: &NewRow<'_>, identity: &Identity) {
        self.open.push(row);
        self.first_position.get_or_insert(row.position);
        self.reader_copy = None;
        let row_id = (self.full.len() * BLOCK_ROWS_MAX + self.open.rows() - 1) as u32;
        let (full, open) = (&self.full, &self.open);
        let replaced =
            self.index.put(identity, row_id, |row_id| is_at(full, Some(open), row_id, identity));
        if let Some(replaced) = replaced {
            self.mark_dead(replaced);
        }
        if self.open.is_full() {
            self.full_rows += self.open.rows();
            self.full_bytes += self.open.bytes();
            let open = std::mem::replace(&mut self.open, BlockBuilder::new(self.project));
            let dead = std::mem::take(&mut self.open_dead);
            self.full.push(LiveBlock { block: Arc::new(open.block()), dead });
        }
    }

    fn mark_dead(&mut self, row_id: u32) {
        let (block, row) = locate(row_id);
        let dead = self.full.get_mut(block).map_or(&mut self.open_dead, |full| &mut full.dead);
        Arc::make_mut(dead).insert(row as u32);
    }

    /// Removes the live rows that `select` picks from each block; returns how many.
    pub fn remove_rows(&mut self, select: impl Fn(&Block) -> Vec<u32>) -> u64 {
        let mut removed = 0;
        for (at, live) in self.blocks().into_iter().enumerate() {
            for row in select(&live.block) {
                if !live.dead.contains(row) {
                    let row_id = (at * BLOCK_ROWS_MAX) as u32 + row;
                    self.index.take(&live.block.identity(row as usize), |other| other == row_id);
                    self.mark_dead(row_id);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// All blocks as readers see them.
    pub fn blocks(&mut self) -> Vec<LiveBlock> {
        let mut blocks = self.full.clone();
        if self.open.rows() > 0 {
            let open = &self.open;
            let block = self.reader_copy.get_or_insert_with(|| Arc::new(open.block())).clone();
            blocks.push(LiveBlock { block, dead: self.open_dead.clone() });
        }
        blocks
    }

    pub fn freeze(mut self) -> FrozenMemtable {
        let blocks = self.blocks();
        let dead_at_freeze = blocks.iter().map(|live| live.dead.clone()).collect();
        FrozenMemtable {
            blocks,
            dead_at_freeze,
            index: self.index,
            first_position: self.first_position,
        }
    }
}

/// An immutable memtable that a flush is writing. Its rows may still die.
#[derive(Debug)]
pub(crate) struct FrozenMemtable {
    pub blocks: Vec<LiveBlock>,
    /// Dead rows by block at the time of the freeze: the flush writes all others.
    pub dead_at_freeze: Vec<Arc<RoaringBitmap>>,
    index: DedupIndex,
    /// The journal position of the first row.
    pub first_position: Option<u64>,
}

impl FrozenMemtable {
    pub fn get(&self, identity: &Identity) -> Option<EventRow> {
        let is_event = |row_id| is_at(&self.blocks, None, row_id, identity);
        let (block, row) = locate(self.index.find(identity, is_event)?);
        Some(self.blocks[block].block.row(row))
    }

    /// Marks the event's row dead: the active memtable has a newer one.
    pub fn replace(&mut self, identity: &Identity) {
        let is_event = |row_id| is_at(&self.blocks, None, row_id, identity);
        if let Some(row_id) = self.index.take(identity, is_event) {
            let (block, row) = locate(row_id);
            self.mark_dead(block, row as u32);
        }
    }

    fn mark_dead(&mut self, block: usize, row: u32) {
        Arc::make_mut(&mut self.blocks[block].dead).insert(row);
    }

    pub fn remove_rows(&mut self, select: impl Fn(&Block) -> Vec<u32>) -> u64 {
        let mut removed = 0;
        for at in 0..self.blocks.len() {
            let live = self.blocks[at].clone();
            for row in select(&live.block) {
                if !live.dead.contains(row) {
                    let row_id = (at * BLOCK_ROWS_MAX) as u32 + row;
                    self.index.take(&live.block.identity(row as usize), |other| other == row_id);
                    self.mark_dead(at, row);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// Events whose rows died after the freeze, and which the flush has written.
    pub fn died_since_freeze(&self) -> Vec<Identity> {
        let mut died = Vec::new();
        for (live, before) in self.blocks.iter().zip(&self.dead_at_freeze) {
            let rows = &*live.dead - &**before;
            died.extend(rows.iter().map(|row| live.block.identity(row as usize)));
        }
        died
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use uuid::Uuid;

    use super::*;

    const ROWS: u32 = 2 * BLOCK_ROWS_MAX as u32 + 100;

    /// Events `2n` and `2n + 1` share a uuid but not a name; all even ones share a name.
    fn identity(event_no: u32) -> Identity {
        Identity {
            uuid: Uuid::from_u128(u128::from(event_no / 2)),
            event: if event_no.is_multiple_of(2) { "even" } else { "odd" }.into(),
            distinct_no: event_no % 7,
        }
    }

    fn push(memtable: &mut Memtable, event_no: u32, version: u32) {
        let (identity, properties) =
            (identity(event_no), format!(r#"{{"n":{event_no},"version":{version}}}"#));
        let row = NewRow {
            project: ProjectId(1),
            uuid: identity.uuid,
            event: &identity.event,
            distinct_id: "d",
            distinct_no: identity.distinct_no,
            timestamp: Timestamp::from_micros(0),
            created_at: Timestamp::from_micros(0),
            elements_chain: "",
            groups: Default::default(),
            properties: &properties,
            position: 0,
            historical: false,
        };
        memtable.push(&row, &identity);
    }

    fn properties(row: Option<EventRow>) -> Option<String> {
        row.map(|row| row.properties)
    }

    /// Live rows, as readers see them.
    fn live_rows(blocks: &[LiveBlock]) -> Vec<String> {
        let rows = blocks.iter().flat_map(|live| {
            let rows = (0..live.block.rows()).filter(|row| !live.dead.contains(*row as u32));
            rows.map(|row| live.block.row(row).properties)
        });
        let mut all: Vec<String> = rows.collect();
        all.sort();
        all
    }

    #[test]
    fn memtable_keeps_the_last_row_of_each_event() {
        let mut memtable = Memtable::new(ProjectId(1));
        (0..ROWS).for_each(|event_no| push(&mut memtable, event_no, 1));
        // From every block, the open one included.
        let (replaced, removed) = ([5, 9_000, ROWS - 1], [6, 9_001, ROWS - 2]);
        replaced.iter().for_each(|event_no| push(&mut memtable, *event_no, 2));
        removed.iter().for_each(|event_no| memtable.remove_event(&identity(*event_no)));
        let select = |block: &Block| {
            let selected =
                |row: &u32| block.row(*row as usize).properties.starts_with(r#"{"n":700"#);
            (0..block.rows() as u32).filter(selected).collect()
        };
        let expected_row = |event_no: u32| match event_no {
            _ if removed.contains(&event_no) || event_no.to_string().starts_with("700") => None,
            _ => Some(format!(
                r#"{{"n":{event_no},"version":{}}}"#,
                1 + u32::from(replaced.contains(&event_no))
            )),
        };
        let mut expected: Vec<String> = (0..ROWS).filter_map(expected_row).collect();
        expected.sort();
        assert_eq!(memtable.remove_rows(select), u64::from(ROWS) - 3 - expected.len() as u64);
        for event_no in 0..ROWS {
            assert_eq!(
                properties(memtable.get(&identity(event_no))),
                expected_row(event_no),
                "{event_no}"
            );
        }
        assert_eq!(live_rows(&memtable.blocks()), expected);

        let mut frozen = memtable.freeze();
        for event_no in 0..ROWS {
            assert_eq!(
                properties(frozen.get(&identity(event_no))),
                expected_row(event_no),
                "{event_no}"
            );
        }
        let replaced_later = [7, 9_000, ROWS - 1];
        replaced_later.iter().for_each(|event_no| frozen.replace(&identity(*event_no)));
        let mut died = frozen.died_since_freeze();
        died.sort_by_key(|identity| identity.uuid);
        assert_eq!(died, replaced_later.map(identity));
        assert!(replaced_later.iter().all(|event_no| frozen.get(&identity(*event_no)).is_none()));
        assert_eq!(live_rows(&frozen.blocks).len(), expected.len() - replaced_later.len());
        assert_eq!(
            frozen.remove_rows(|block| (0..block.rows() as u32).collect()) as usize,
            expected.len() - 3
        );
        assert!(frozen.get(&identity(8)).is_none() && live_rows(&frozen.blocks).is_empty());
    }
}
