//! Decoded columns, dictionaries, filters and pages, entries while they are used and while there is room.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use parquet::bloom_filter::Sbbf;
use quick_cache::sync::{self, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter, Weighter};

use crate::columns::Dictionary;
use crate::segment::CachedPage;
use crate::segment::packed_ints::PackedInts;
use crate::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CacheItem {
    Column(usize),
    /// Column and number of the page, as it is stored.
    Page(usize, usize),
    /// The same, as readers count it.
    Decoded(usize, usize),
    /// A column whose values stand in its pages.
    PlainColumn(usize),
    Distinct,
    Filter,
}

#[derive(Clone)]
pub(crate) enum Cached {
    Dictionary(Arc<Dictionary>),
    DistinctNos(Arc<Vec<u32>>),
    Decoded(Arc<PackedInts>),
    PlainColumn(Arc<(PackedInts, Arc<Dictionary>)>),
    Filter(Arc<Sbbf>),
    Page(Arc<CachedPage>),
}

type CacheKey = (u64, usize, CacheItem);

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<CacheKey, Cached> for ByteWeighter {
    fn weight(&self, _: &CacheKey, cached: &Cached) -> u64 {
        let bytes = match cached {
            Cached::Dictionary(dictionary) => dictionary.memory_bytes(),
            Cached::DistinctNos(numbers) => numbers.len() * 4,
            Cached::Decoded(page) => page.memory_bytes(),
            Cached::PlainColumn(column) => column.0.memory_bytes() + column.1.memory_bytes(),
            Cached::Filter(filter) => filter.num_blocks() * 32,
            Cached::Page(page) => page.bytes.len(),
        };
        64 + bytes as u64
    }
}

pub(crate) struct Cache {
    entries: sync::Cache<CacheKey, Cached, ByteWeighter>,
    bytes_max: u64,
    reserved: Mutex<u64>,
    /// Open segments by their ids.
    files: sync::Cache<u64, Arc<File>>,
    /// Segments that were found damaged since the start, and how.
    damaged: Mutex<BTreeMap<u64, String>>,
}

/// Room that the cache gives up for as long as somebody needs it for something else.
#[derive(Debug, Default)]
pub struct CacheReservation {
    cache: Option<Arc<Cache>>,
    bytes: u64,
}

/// What questions need without anything being thrown out for it.
const UNCHARGED_BYTES: u64 = 16 << 20;
/// Looking for what to throw out is not worth it for less.
const RESERVATION_STEP_BYTES: u64 = 8 << 20;
/// The part that is entries whatever is asked for.
const RETAINED_SHARE: u64 = 4;

static ON_MEMORY_RELEASED: OnceLock<fn()> = OnceLock::new();

/// Has `call` called whenever the cache gave up room, what was borrowed is free again, or somebody
/// says so. Only the first counts.
pub fn on_memory_released(call: fn()) {
    let _ = ON_MEMORY_RELEASED.set(call);
}

pub fn memory_released() {
    ON_MEMORY_RELEASED.get().inspect(|call| call());
}

impl CacheReservation {
    pub(crate) fn new(cache: Option<Arc<Cache>>) -> Self {
        Self { cache, bytes: 0 }
    }

    /// Says how much it is by now.
    pub fn resize(&mut self, bytes: usize) {
        let bytes = (bytes as u64).next_multiple_of(RESERVATION_STEP_BYTES);
        if bytes != self.bytes
            && let Some(cache) = &self.cache
        {
            cache.change_reserved(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for CacheReservation {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.entries.weight(), self.entries.capacity())
    }
}

/// How many entries the cache prepares for; it takes more if they are small.
const ESTIMATED_ENTRIES: usize = 4_096;
/// Parts have their own room each, which is little for dictionaries of megabytes, and the more
/// processors there are, the less: a part that is full throws out what there is room for elsewhere.
const SHARDS: usize = 1;

/// Descriptors entries for segments. One that is needed beyond them is opened in place of another.
pub(crate) const OPEN_FILES_MAX: usize = 128;

impl Cache {
    pub fn new(bytes_max: u64) -> Cache {
        let mut options = OptionsBuilder::new();
        options
            .shards(SHARDS)
            .estimated_items_capacity(ESTIMATED_ENTRIES)
            .weight_capacity(bytes_max);
        let options = options.build().expect("what is needed is set");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let entries = sync::Cache::with_options(options, ByteWeighter, hashes, lifecycle);
        let mut options = OptionsBuilder::new();
        options.shards(SHARDS).estimated_items_capacity(OPEN_FILES_MAX);
        options.weight_capacity(OPEN_FILES_MAX as u64);
        let options = options.build().expect("what is needed is set");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let files = sync::Cache::with_options(options, UnitWeighter, hashes, lifecycle);
        Cache { entries, bytes_max, reserved: Mutex::default(), files, damaged: Mutex::default() }
    }

    fn change_reserved(&self, before: u64, now: u64) {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        *reserved = *reserved - before + now;
        let given = reserved
            .saturating_sub(UNCHARGED_BYTES)
            .min(self.bytes_max - self.bytes_max / RETAINED_SHARE);
        let capacity = self.bytes_max - given;
        let changes = self.entries.capacity() != capacity;
        self.entries.set_capacity(capacity);
        drop(reserved);
        if changes {
            memory_released();
        }
    }

    pub fn get(
        &self,
        segment: u64,
        group: usize,
        part: CacheItem,
        load: impl FnOnce() -> Result<Cached>,
    ) -> Result<Cached> {
        self.entries.get_or_insert_with(&(segment, group, part), load)
    }

    /// The open file of a segment.
    pub fn file(&self, segment: u64, path: &Path) -> Result<Arc<File>> {
        let open = || File::open(path).map(Arc::new);
        self.files.get_or_insert_with(&segment, open).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::corrupt(path, "it is missing"),
            _ => Error::io("open a segment")(error),
        })
    }

    /// Whoever reads the segment again opens it again.
    pub fn close_file(&self, segment: u64) {
        self.files.remove(&segment);
    }

    /// Notes that a segment is damaged; says so once.
    pub fn record_corruption(&self, segment: u64, error: &Error) {
        let Error::Corrupt { file, .. } = error else { return };
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        if damaged.insert(segment, error.to_string()).is_none() {
            tracing::error!(file = %file.display(), %error, "a segment is damaged");
        }
    }

    /// The segment was read from end to end.
    pub fn clear_corruption(&self, segment: u64) {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment);
    }

    pub fn is_corrupt(&self, segment: u64) -> bool {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&segment)
    }

    /// Of those that `live` names; others are gone.
    pub fn damaged(&self, live: &BTreeSet<u64>) -> Vec<String> {
        let mut damaged = self.damaged.lock().unwrap_or_else(PoisonError::into_inner);
        damaged.retain(|segment, _| live.contains(segment));
        damaged.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_up_while_others_need_it() {
        let cache = Arc::new(Cache::new(256 << 20));
        let numbers = || Ok(Cached::DistinctNos(Arc::new(vec![0; 1 << 20])));
        let fill = || {
            for segment in 0..60 {
                cache.get(segment, 0, CacheItem::Distinct, numbers).unwrap();
            }
            cache.entries.weight() >> 20
        };
        assert_eq!(fill(), 240);
        let mut reservation = CacheReservation::new(Some(cache.clone()));
        reservation.resize(14 << 20);
        assert_eq!(cache.entries.weight() >> 20, 240);
        reservation.resize(100 << 20);
        assert!(cache.entries.weight() <= (256 - 104 + 16) << 20);
        let mut other = CacheReservation::new(Some(cache.clone()));
        other.resize(1 << 40);
        assert!(cache.entries.weight() <= 64 << 20 && cache.entries.weight() > 32 << 20);
        drop((reservation, other));
        fill();
        assert_eq!(fill(), 240);
        CacheReservation::default().resize(1 << 30);
    }
}
