//! The cache of decoded columns, dictionaries, bloom filters, pages and open files of all segments.

use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use parquet::bloom_filter::Sbbf;
use quick_cache::sync::{self, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, UnitWeighter, Weighter};

use crate::columns::Dictionary;
use crate::segment::CachedPage;
use crate::segment::packed_ints::PackedInts;
use crate::{Error, Result};

thread_local! {
    /// Lookups of this thread that found an entry.
    static HITS: Cell<u64> = const { Cell::new(0) };
}

/// Cache hits of this thread so far: a scan reads a range on one thread and takes the difference.
pub(crate) fn thread_hits() -> u64 {
    HITS.get()
}

/// Which part of a row group an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CacheItem {
    /// The dictionary of a column.
    Dictionary(usize),
    /// A decompressed page, by column and index of the page.
    Page(usize, usize),
    /// A decoded page, by column and index of the page.
    Decoded(usize, usize),
    /// A whole column in PLAIN encoding, which has no dictionary page.
    PlainColumn(usize),
    /// The dictionary of `distinct_no`.
    DistinctNos,
    /// The bloom filter over `uuid`.
    Filter,
    /// What a reader derived from all segments of a project, by the project's id.
    Derived(i64),
}

/// The value of an entry.
#[derive(Clone)]
pub(crate) enum Cached {
    Dictionary(Arc<Dictionary>),
    DistinctNos(Arc<Vec<u32>>),
    Decoded(Arc<PackedInts>),
    PlainColumn(Arc<(PackedInts, Arc<Dictionary>)>),
    Filter(Arc<Sbbf>),
    Page(Arc<CachedPage>),
    /// With its size in bytes.
    Derived(Arc<dyn Any + Send + Sync>, usize),
}

/// Segment id, row group and item.
type CacheKey = (u64, usize, CacheItem);

/// Derived values belong to no segment.
const fn derived_key(project: i64) -> CacheKey {
    (0, 0, CacheItem::Derived(project))
}

/// Memory that an entry takes in the cache's own tables.
const ENTRY_OVERHEAD_BYTES: u64 = 64;
/// Parquet's split-block bloom filter has blocks of 256 bits.
const FILTER_BLOCK_BYTES: usize = 32;

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<CacheKey, Cached> for ByteWeighter {
    fn weight(&self, _: &CacheKey, cached: &Cached) -> u64 {
        let bytes = match cached {
            Cached::Dictionary(dictionary) => dictionary.memory_bytes(),
            Cached::DistinctNos(distinct_nos) => distinct_nos.len() * size_of::<u32>(),
            Cached::Decoded(page) => page.memory_bytes(),
            Cached::PlainColumn(column) => column.0.memory_bytes() + column.1.memory_bytes(),
            Cached::Filter(filter) => filter.num_blocks() * FILTER_BLOCK_BYTES,
            Cached::Page(page) => page.bytes.len(),
            Cached::Derived(_, bytes) => *bytes,
        };
        ENTRY_OVERHEAD_BYTES + bytes as u64
    }
}

pub(crate) struct Cache {
    entries: sync::Cache<CacheKey, Cached, ByteWeighter>,
    bytes_max: u64,
    /// The sum of all reservations, in bytes.
    reserved: Mutex<u64>,
    /// Open segment files by segment id.
    files: sync::Cache<u64, Arc<File>>,
    /// Segments in which corruption was found since the start, with the error.
    corrupt: Mutex<BTreeMap<u64, String>>,
    /// [`crate::Settings::purge`].
    purge: fn(),
}

/// Memory that a query takes from the cache's capacity while it runs. The cache evicts entries to
/// make space for it, so that cache and queries together stay within one bound.
#[derive(Debug, Default)]
pub struct CacheReservation {
    cache: Option<Arc<Cache>>,
    bytes: u64,
}

/// Evict nothing while all reservations together stay below this.
const UNCHARGED_BYTES: u64 = 16 << 20;
/// Reservations grow in steps of this size: eviction is not worth its cost for less.
const RESERVATION_STEP_BYTES: u64 = 8 << 20;
/// The cache keeps one part in so many of its capacity, however much is reserved.
const RETAINED_ONE_IN: u64 = 4;

impl CacheReservation {
    pub(crate) fn new(cache: Option<Arc<Cache>>) -> Self {
        Self { cache, bytes: 0 }
    }

    /// Sets the size of the reservation, rounded up to 8 MiB.
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

/// Entries that the cache allocates tables for. It takes more if they are small.
const ESTIMATED_ENTRIES: usize = 4_096;
/// Each shard has a fixed share of the capacity, and a full shard evicts while others have space.
/// Dictionaries of megabytes would not fit one of many shards.
const SHARDS: usize = 1;

/// File descriptors kept open for segments. Opening one more closes another.
pub(crate) const OPEN_FILES_MAX: usize = 128;

impl Cache {
    pub fn new(bytes_max: u64, purge: fn()) -> Cache {
        let mut options = OptionsBuilder::new();
        options
            .shards(SHARDS)
            .estimated_items_capacity(ESTIMATED_ENTRIES)
            .weight_capacity(bytes_max);
        let options = options.build().expect("capacity and weight are set");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let entries = sync::Cache::with_options(options, ByteWeighter, hashes, lifecycle);
        let mut options = OptionsBuilder::new();
        options.shards(SHARDS).estimated_items_capacity(OPEN_FILES_MAX);
        options.weight_capacity(OPEN_FILES_MAX as u64);
        let options = options.build().expect("capacity and weight are set");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let files = sync::Cache::with_options(options, UnitWeighter, hashes, lifecycle);
        let (reserved, corrupt) = Default::default();
        Cache { entries, bytes_max, reserved, files, corrupt, purge }
    }

    /// Changes the capacity after a reservation went from `before` to `now` bytes.
    fn change_reserved(&self, before: u64, now: u64) {
        let mut reserved = self.reserved.lock().unwrap_or_else(PoisonError::into_inner);
        *reserved = *reserved - before + now;
        let yielded = reserved
            .saturating_sub(UNCHARGED_BYTES)
            .min(self.bytes_max - self.bytes_max / RETAINED_ONE_IN);
        let capacity = self.bytes_max - yielded;
        let changes = self.entries.capacity() != capacity;
        self.entries.set_capacity(capacity);
        drop(reserved);
        if changes {
            (self.purge)();
        }
    }

    pub fn get(
        &self,
        segment: u64,
        group: usize,
        part: CacheItem,
        load: impl FnOnce() -> Result<Cached>,
    ) -> Result<Cached> {
        let mut is_hit = true;
        let load = || {
            is_hit = false;
            load()
        };
        let cached = self.entries.get_or_insert_with(&(segment, group, part), load)?;
        HITS.set(HITS.get() + u64::from(is_hit));
        Ok(cached)
    }

    pub fn derived(&self, project: i64) -> Option<Arc<dyn Any + Send + Sync>> {
        match self.entries.get(&derived_key(project))? {
            Cached::Derived(value, _) => Some(value),
            _ => None,
        }
    }

    /// Replaces what was derived before; does nothing if it is larger than the cache.
    pub fn put_derived(&self, project: i64, value: Arc<dyn Any + Send + Sync>, bytes: usize) {
        self.entries.insert(derived_key(project), Cached::Derived(value, bytes));
    }

    /// The open file of a segment.
    pub fn file(&self, segment: u64, path: &Path) -> Result<Arc<File>> {
        let open = || File::open(path).map(Arc::new);
        self.files.get_or_insert_with(&segment, open).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::corrupt(path, "it is missing"),
            _ => Error::io("open a segment")(error),
        })
    }

    /// Closes the file; the next read opens it again.
    pub fn close_file(&self, segment: u64) {
        self.files.remove(&segment);
    }

    /// Records that a segment is corrupted, and logs it the first time.
    pub fn record_corruption(&self, segment: u64, error: &Error) {
        let Error::Corrupt { file, .. } = error else { return };
        let mut corrupt = self.corrupt.lock().unwrap_or_else(PoisonError::into_inner);
        if corrupt.insert(segment, error.to_string()).is_none() {
            tracing::error!(file = %file.display(), %error, "a segment is damaged");
        }
    }

    /// Clears the record: a scrub found the segment intact.
    pub fn clear_corruption(&self, segment: u64) {
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).remove(&segment);
    }

    pub fn is_corrupt(&self, segment: u64) -> bool {
        self.corrupt.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&segment)
    }

    /// Errors of the corrupted segments in `live`; forgets those of other segments.
    pub fn corrupt_segments(&self, live: &BTreeSet<u64>) -> Vec<String> {
        let mut corrupt = self.corrupt.lock().unwrap_or_else(PoisonError::into_inner);
        corrupt.retain(|segment, _| live.contains(segment));
        corrupt.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_evicts_for_reservations_and_keeps_a_quarter() {
        let cache = Arc::new(Cache::new(256 << 20, || {}));
        let distinct_nos = || Ok(Cached::DistinctNos(Arc::new(vec![0; 1 << 20])));
        let fill = || {
            for segment in 0..60 {
                cache.get(segment, 0, CacheItem::DistinctNos, distinct_nos).unwrap();
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
