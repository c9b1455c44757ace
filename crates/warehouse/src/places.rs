//! Where the events are that memory has, by what makes them the same: of each only a part of its
//! hash and its place, as the rows themselves say the rest.

use std::hash::BuildHasher as _;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::dictionary::Hashing;
use crate::row::Identity;

#[derive(Debug, Default)]
pub(crate) struct Places {
    table: HashTable<Known>,
    hashing: DefaultHashBuilder,
}

#[derive(Debug)]
struct Known {
    part: u32,
    place: u32,
}

impl Known {
    fn hash(&self) -> u64 {
        Hashing::spread(self.part)
    }
}

impl Places {
    pub fn bytes(&self) -> usize {
        self.table.allocation_size()
    }

    fn part(&self, identity: &Identity) -> u32 {
        self.hashing.hash_one(identity) as u32
    }

    /// Where an event is; `is_it` tells whether it is the one at a place.
    pub fn find(&self, identity: &Identity, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.part(identity);
        let is_it = |known: &Known| known.part == part && is_it(known.place);
        self.table.find(Hashing::spread(part), is_it).map(|known| known.place)
    }

    /// Says where an event is now, and where it was before.
    pub fn put(
        &mut self,
        identity: &Identity,
        place: u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let part = self.part(identity);
        let is_it = |known: &Known| known.part == part && is_it(known.place);
        match self.table.entry(Hashing::spread(part), is_it, Known::hash) {
            Entry::Occupied(mut known) => {
                Some(std::mem::replace(&mut known.get_mut().place, place))
            }
            Entry::Vacant(free) => {
                free.insert(Known { part, place });
                None
            }
        }
    }

    /// Forgets where an event is.
    pub fn take(&mut self, identity: &Identity, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let part = self.part(identity);
        let is_it = |known: &Known| known.part == part && is_it(known.place);
        let found = self.table.find_entry(Hashing::spread(part), is_it).ok()?;
        Some(found.remove().0.place)
    }
}
