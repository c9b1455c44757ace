//! The memtable's deduplication index: event identity → row number. An entry holds only half of the
//! identity's hash; lookups compare with the row itself, so identities are not stored twice.

use std::hash::BuildHasher as _;

use hashbrown::hash_table;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::columns::{Identity, ValueHasher};

#[derive(Debug, Default)]
pub(crate) struct DedupIndex {
    table: HashTable<Entry>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Entry {
    half_hash: u32,
    row: u32,
}

impl Entry {
    fn hash(&self) -> u64 {
        ValueHasher::expand(self.half_hash)
    }
}

impl DedupIndex {
    pub fn bytes(&self) -> usize {
        self.table.allocation_size()
    }

    fn half_hash(&self, identity: &Identity) -> u32 {
        self.hasher.hash_one(identity) as u32
    }

    /// The row of an event. `is_event` compares the event with the row of a candidate.
    pub fn find(&self, identity: &Identity, is_event: impl Fn(u32) -> bool) -> Option<u32> {
        let half_hash = self.half_hash(identity);
        let is_match = |entry: &Entry| entry.half_hash == half_hash && is_event(entry.row);
        self.table.find(ValueHasher::expand(half_hash), is_match).map(|entry| entry.row)
    }

    /// Sets the row of an event and returns its previous row.
    pub fn put(
        &mut self,
        identity: &Identity,
        row: u32,
        is_event: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let half_hash = self.half_hash(identity);
        let is_match = |entry: &Entry| entry.half_hash == half_hash && is_event(entry.row);
        match self.table.entry(ValueHasher::expand(half_hash), is_match, Entry::hash) {
            hash_table::Entry::Occupied(mut entry) => {
                Some(std::mem::replace(&mut entry.get_mut().row, row))
            }
            hash_table::Entry::Vacant(slot) => {
                slot.insert(Entry { half_hash, row });
                None
            }
        }
    }

    /// Removes an event and returns its row.
    pub fn take(&mut self, identity: &Identity, is_event: impl Fn(u32) -> bool) -> Option<u32> {
        let half_hash = self.half_hash(identity);
        let is_match = |entry: &Entry| entry.half_hash == half_hash && is_event(entry.row);
        let removed = self.table.find_entry(ValueHasher::expand(half_hash), is_match).ok()?;
        Some(removed.remove().0.row)
    }
}
