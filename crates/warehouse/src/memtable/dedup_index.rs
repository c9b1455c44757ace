//! Where the events are that memory has, by what makes them the same: of each only a part of its
//! hash and its place, as the rows themselves say the rest.

use std::hash::BuildHasher as _;

use hashbrown::hash_table;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::columns::Identity;
use crate::columns::ValueHasher;

#[derive(Debug, Default)]
pub(crate) struct DedupIndex {
    table: HashTable<Entry>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug)]
struct Entry {
    part: u32,
    place: u32,
}

impl Entry {
    fn hash(&self) -> u64 {
        ValueHasher::expand(self.part)
    }
}

impl DedupIndex {
    pub fn bytes(&self) -> usize {
        self.table.allocation_size()
    }

    fn part(&self, identity: &Identity) -> u32 {
        self.hasher.hash_one(identity) as u32
    }

    /// Where an event is; `is_it` tells whether it is the one at a place.
    pub fn find(&self, identity: &Identity, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.part(identity);
        let is_it = |known: &Entry| known.part == part && is_it(known.place);
        self.table.find(ValueHasher::expand(part), is_it).map(|known| known.place)
    }

    /// Says where an event is now, and where it was before.
    pub fn put(
        &mut self,
        identity: &Identity,
        place: u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let part = self.part(identity);
        let is_it = |known: &Entry| known.part == part && is_it(known.place);
        match self.table.entry(ValueHasher::expand(part), is_it, Entry::hash) {
            hash_table::Entry::Occupied(mut known) => {
                Some(std::mem::replace(&mut known.get_mut().place, place))
            }
            hash_table::Entry::Vacant(free) => {
                free.insert(Entry { part, place });
                None
            }
        }
    }

    /// Forgets where an event is.
    pub fn take(&mut self, identity: &Identity, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.part(identity);
        let is_it = |known: &Entry| known.part == part && is_it(known.place);
        let found = self.table.find_entry(ValueHasher::expand(part), is_it).ok()?;
        Some(found.remove().0.place)
    }
}
