//! The rows of a project that no segment has yet.

pub(crate) mod block;
mod column_builder;
mod dedup_index;

use std::sync::Arc;

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::columns::{EventRow, Identity, NewRow};
use crate::memtable::block::{BLOCK_ROWS_MAX, Block, BlockBuilder};
use crate::memtable::dedup_index::DedupIndex;

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
    /// The open block as readers last saw it, until rows are added.
    copy: Option<Arc<Block>>,
    /// Where the live copy of an event is.
    rows: DedupIndex,
    /// The journal position of the first row.
    first: Option<u64>,
}

/// The block and the row of a place: it is block times [`BLOCK_ROWS_MAX`] plus row.
const fn parts(place: u32) -> (usize, usize) {
    (place as usize / BLOCK_ROWS_MAX, place as usize % BLOCK_ROWS_MAX)
}

/// Whether an event is at a place among blocks, or else in the open one.
fn is_at(full: &[LiveBlock], open: Option<&BlockBuilder>, place: u32, identity: &Identity) -> bool {
    let (block, row) = parts(place);
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
            copy: None,
            rows: DedupIndex::default(),
            first: None,
        }
    }

    pub fn row_count(&self) -> usize {
        self.full_rows + self.open.rows()
    }

    /// Every row's journal position is this one or behind it; `None` without rows.
    pub fn first(&self) -> Option<u64> {
        self.first
    }

    pub fn bytes(&self) -> usize {
        self.full_bytes + self.open.bytes() + self.rows.bytes()
    }

    /// The live copy of an event.
    pub fn get(&self, identity: &Identity) -> Option<EventRow> {
        let is_it = |place| is_at(&self.full, Some(&self.open), place, identity);
        let (block, row) = parts(self.rows.find(identity, is_it)?);
        Some(match self.full.get(block) {
            Some(full) => full.block.row(row),
            None => self.open.row(row),
        })
    }

    pub fn forget(&mut self, identity: &Identity) {
        let (full, open) = (&self.full, &self.open);
        if let Some(place) =
            self.rows.take(identity, |place| is_at(full, Some(open), place, identity))
        {
            self.mark_dead(place);
        }
    }

    /// Adds a row, which becomes the live copy of its event.
    pub fn push(&mut self, row: &NewRow<'_>, identity: &Identity) {
        self.open.push(row);
        self.first.get_or_insert(row.position);
        self.copy = None;
        let place = (self.full.len() * BLOCK_ROWS_MAX + self.open.rows() - 1) as u32;
        let (full, open) = (&self.full, &self.open);
        let replaced =
            self.rows.put(identity, place, |place| is_at(full, Some(open), place, identity));
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

    fn mark_dead(&mut self, place: u32) {
        let (block, row) = parts(place);
        let dead = self.full.get_mut(block).map_or(&mut self.open_dead, |full| &mut full.dead);
        Arc::make_mut(dead).insert(row as u32);
    }

    /// Forgets the live rows that `doomed` picks from a block; returns how many.
    pub fn remove(&mut self, doomed: impl Fn(&Block) -> Vec<u32>) -> u64 {
        let mut removed = 0;
        for (at, live) in self.blocks().into_iter().enumerate() {
            for row in doomed(&live.block) {
                if !live.dead.contains(row) {
                    let place = (at * BLOCK_ROWS_MAX) as u32 + row;
                    self.rows.take(&live.block.identity(row as usize), |own| own == place);
                    self.mark_dead(place);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// All rows as readers see them.
    pub fn blocks(&mut self) -> Vec<LiveBlock> {
        let mut blocks = self.full.clone();
        if self.open.rows() > 0 {
            let open = &self.open;
            let block = self.copy.get_or_insert_with(|| Arc::new(open.block())).clone();
            blocks.push(LiveBlock { block, dead: self.open_dead.clone() });
        }
        blocks
    }

    pub fn freeze(mut self) -> FrozenMemtable {
        let blocks = self.blocks();
        let at_freeze = blocks.iter().map(|live| live.dead.clone()).collect();
        FrozenMemtable { blocks, at_freeze, rows: self.rows, first: self.first }
    }
}

/// Rows on their way into segments. Their order is fixed, but they may still die.
#[derive(Debug)]
pub(crate) struct FrozenMemtable {
    pub blocks: Vec<LiveBlock>,
    /// What was dead when the way began, by block.
    pub at_freeze: Vec<Arc<RoaringBitmap>>,
    rows: DedupIndex,
    /// The journal position of the first row.
    pub first: Option<u64>,
}

impl FrozenMemtable {
    pub fn get(&self, identity: &Identity) -> Option<EventRow> {
        let is_it = |place| is_at(&self.blocks, None, place, identity);
        let (block, row) = parts(self.rows.find(identity, is_it)?);
        Some(self.blocks[block].block.row(row))
    }

    /// The event has a newer copy elsewhere.
    pub fn replace(&mut self, identity: &Identity) {
        let is_it = |place| is_at(&self.blocks, None, place, identity);
        if let Some(place) = self.rows.take(identity, is_it) {
            let (block, row) = parts(place);
            self.mark_dead(block, row as u32);
        }
    }

    fn mark_dead(&mut self, block: usize, row: u32) {
        Arc::make_mut(&mut self.blocks[block].dead).insert(row);
    }

    pub fn remove(&mut self, doomed: impl Fn(&Block) -> Vec<u32>) -> u64 {
        let mut removed = 0;
        for at in 0..self.blocks.len() {
            let live = self.blocks[at].clone();
            for row in doomed(&live.block) {
                if !live.dead.contains(row) {
                    let place = (at * BLOCK_ROWS_MAX) as u32 + row;
                    self.rows.take(&live.block.identity(row as usize), |own| own == place);
                    self.mark_dead(at, row);
                    removed += 1;
                }
            }
        }
        removed
    }

    /// Events that died since the way into segments began.
    pub fn died_since(&self) -> Vec<Identity> {
        let mut died = Vec::new();
        for (live, before) in self.blocks.iter().zip(&self.at_freeze) {
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

    /// Of three events each two have the same uuid, and each two the same name.
    fn identity(of: u32) -> Identity {
        Identity {
            uuid: Uuid::from_u128(u128::from(of / 2)),
            event: if of.is_multiple_of(2) { "even" } else { "odd" }.into(),
            distinct_no: of % 7,
        }
    }

    fn push(memory: &mut Memtable, of: u32, says: u32) {
        let (identity, properties) = (identity(of), format!(r#"{{"n":{of},"says":{says}}}"#));
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
        memory.push(&row, &identity);
    }

    fn says(found: Option<EventRow>) -> Option<String> {
        found.map(|row| row.properties)
    }

    /// Those that are alive, as readers see them.
    fn alive(blocks: &[LiveBlock]) -> Vec<String> {
        let rows = blocks.iter().flat_map(|live| {
            let rows = (0..live.block.rows()).filter(|row| !live.dead.contains(*row as u32));
            rows.map(|row| live.block.row(row).properties)
        });
        let mut all: Vec<String> = rows.collect();
        all.sort();
        all
    }

    #[test]
    fn the_last_copy_of_an_event_is_the_one_that_lives() {
        let mut memory = Memtable::new(ProjectId(1));
        (0..ROWS).for_each(|of| push(&mut memory, of, 1));
        // Of every block, the open one with them.
        let (replaced, forgotten) = ([5, 9_000, ROWS - 1], [6, 9_001, ROWS - 2]);
        replaced.iter().for_each(|of| push(&mut memory, *of, 2));
        forgotten.iter().for_each(|of| memory.forget(&identity(*of)));
        let doomed = |block: &Block| {
            let third = |row: &u32| block.row(*row as usize).properties.starts_with(r#"{"n":700"#);
            (0..block.rows() as u32).filter(third).collect()
        };
        let said = |of: u32| match of {
            _ if forgotten.contains(&of) || of.to_string().starts_with("700") => None,
            _ => Some(format!(r#"{{"n":{of},"says":{}}}"#, 1 + u32::from(replaced.contains(&of)))),
        };
        let mut expected: Vec<String> = (0..ROWS).filter_map(said).collect();
        expected.sort();
        assert_eq!(memory.remove(doomed), u64::from(ROWS) - 3 - expected.len() as u64);
        for of in 0..ROWS {
            assert_eq!(says(memory.get(&identity(of))), said(of), "{of}");
        }
        assert_eq!(alive(&memory.blocks()), expected);

        let mut frozen = memory.freeze();
        for of in 0..ROWS {
            assert_eq!(says(frozen.get(&identity(of))), said(of), "{of}");
        }
        let gone = [7, 9_000, ROWS - 1];
        gone.iter().for_each(|of| frozen.replace(&identity(*of)));
        let mut died = frozen.died_since();
        died.sort_by_key(|one| one.uuid);
        assert_eq!(died, gone.map(identity));
        assert!(gone.iter().all(|of| frozen.get(&identity(*of)).is_none()));
        assert_eq!(alive(&frozen.blocks).len(), expected.len() - gone.len());
        assert_eq!(
            frozen.remove(|block| (0..block.rows() as u32).collect()) as usize,
            expected.len() - 3
        );
        assert!(frozen.get(&identity(8)).is_none() && alive(&frozen.blocks).is_empty());
    }
}
