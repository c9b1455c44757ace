//! The rows of a project that no segment has yet.

use std::sync::Arc;

use hashbrown::HashMap;
use model::ProjectId;
use roaring::RoaringBitmap;

use crate::block::{BLOCK_ROWS_MAX, Block, Builder};
use crate::row::{EventRow, Identity, NewRow};
use crate::slab::LiveBlock;

/// What remembering a row's identity costs.
const IDENTITY_BYTES: usize = 96;

#[derive(Debug)]
pub(crate) struct Memory {
    project: ProjectId,
    full: Vec<LiveBlock>,
    full_rows: usize,
    full_bytes: usize,
    open: Builder,
    open_dead: Arc<RoaringBitmap>,
    /// The open block as readers last saw it, until rows are added.
    copy: Option<Arc<Block>>,
    /// Where the live copy of an event is: block times [`BLOCK_ROWS_MAX`] plus row.
    rows: HashMap<Identity, u32>,
}

impl Memory {
    pub fn new(project: ProjectId) -> Memory {
        Memory {
            project,
            full: Vec::new(),
            full_rows: 0,
            full_bytes: 0,
            open: Builder::new(project),
            open_dead: Arc::default(),
            copy: None,
            rows: HashMap::new(),
        }
    }

    pub fn row_count(&self) -> usize {
        self.full_rows + self.open.rows()
    }

    pub fn bytes(&self) -> usize {
        self.full_bytes + self.open.bytes() + self.rows.len() * IDENTITY_BYTES
    }

    /// The live copy of an event.
    pub fn get(&self, identity: &Identity) -> Option<EventRow> {
        let place = *self.rows.get(identity)? as usize;
        let (block, row) = (place / BLOCK_ROWS_MAX, place % BLOCK_ROWS_MAX);
        Some(match self.full.get(block) {
            Some(full) => full.block.row(row),
            None => self.open.row(row),
        })
    }

    pub fn forget(&mut self, identity: &Identity) {
        if let Some(place) = self.rows.remove(identity) {
            self.bury(place);
        }
    }

    /// Adds a row, which becomes the live copy of its event.
    pub fn push(&mut self, row: &NewRow<'_>, identity: Identity) {
        self.open.push(row);
        self.copy = None;
        let place = self.full.len() * BLOCK_ROWS_MAX + self.open.rows() - 1;
        if let Some(replaced) = self.rows.insert(identity, place as u32) {
            self.bury(replaced);
        }
        if self.open.is_full() {
            self.full_rows += self.open.rows();
            self.full_bytes += self.open.bytes();
            let open = std::mem::replace(&mut self.open, Builder::new(self.project));
            let dead = std::mem::take(&mut self.open_dead);
            self.full.push(LiveBlock { block: Arc::new(open.block()), dead });
        }
    }

    fn bury(&mut self, place: u32) {
        let (block, row) = (place as usize / BLOCK_ROWS_MAX, place as usize % BLOCK_ROWS_MAX);
        let dead = self.full.get_mut(block).map_or(&mut self.open_dead, |full| &mut full.dead);
        Arc::make_mut(dead).insert(row as u32);
    }

    /// Forgets the live rows that `doomed` picks from a block; returns how many.
    pub fn remove(&mut self, doomed: impl Fn(&Block) -> Vec<u32>) -> u64 {
        let mut removed = 0;
        for (at, live) in self.blocks().into_iter().enumerate() {
            for row in doomed(&live.block) {
                if !live.dead.contains(row) {
                    self.rows.remove(&live.block.row(row as usize).identity());
                    self.bury((at * BLOCK_ROWS_MAX) as u32 + row);
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

    pub fn freeze(mut self) -> Frozen {
        let blocks = self.blocks();
        let at_freeze = blocks.iter().map(|live| live.dead.clone()).collect();
        Frozen { blocks, at_freeze, rows: self.rows }
    }
}

/// Rows on their way into segments. Their order is fixed, but they may still die.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub blocks: Vec<LiveBlock>,
    /// What was dead when the way began, by block.
    pub at_freeze: Vec<Arc<RoaringBitmap>>,
    rows: HashMap<Identity, u32>,
}

impl Frozen {
    pub fn get(&self, identity: &Identity) -> Option<EventRow> {
        let place = *self.rows.get(identity)? as usize;
        Some(self.blocks[place / BLOCK_ROWS_MAX].block.row(place % BLOCK_ROWS_MAX))
    }

    /// The event has a newer copy elsewhere.
    pub fn replace(&mut self, identity: &Identity) {
        if let Some(place) = self.rows.remove(identity) {
            self.bury(place as usize / BLOCK_ROWS_MAX, place % BLOCK_ROWS_MAX as u32);
        }
    }

    fn bury(&mut self, block: usize, row: u32) {
        Arc::make_mut(&mut self.blocks[block].dead).insert(row);
    }

    pub fn remove(&mut self, doomed: impl Fn(&Block) -> Vec<u32>) -> u64 {
        let mut removed = 0;
        for at in 0..self.blocks.len() {
            let live = self.blocks[at].clone();
            for row in doomed(&live.block) {
                if !live.dead.contains(row) {
                    self.rows.remove(&live.block.row(row as usize).identity());
                    self.bury(at, row);
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
            died.extend(rows.iter().map(|row| live.block.row(row as usize).identity()));
        }
        died
    }
}
