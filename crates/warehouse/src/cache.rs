//! Decoded columns, dictionaries, filters and pages, kept while they are used and while there is room.

use std::sync::Arc;

use parquet::bloom_filter::Sbbf;
use quick_cache::sync::{self, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::Result;
use crate::dictionary::Dictionary;
use crate::narrow::Narrow;
use crate::segment::CachedPage;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Column(usize),
    /// Column and number of the page, as it is stored.
    Page(usize, usize),
    /// The same, as readers count it.
    Decoded(usize, usize),
    /// A column whose values stand in its pages.
    Loose(usize),
    Distinct,
    Filter,
}

#[derive(Clone)]
pub(crate) enum Cached {
    Dictionary(Arc<Dictionary>),
    Numbers(Arc<Vec<u32>>),
    Decoded(Arc<Narrow>),
    Loose(Arc<(Narrow, Arc<Dictionary>)>),
    Filter(Arc<Sbbf>),
    Page(Arc<CachedPage>),
}

type Key = (u64, usize, Part);

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Cached> for Bytes {
    fn weight(&self, _: &Key, cached: &Cached) -> u64 {
        let bytes = match cached {
            Cached::Dictionary(dictionary) => dictionary.memory_bytes(),
            Cached::Numbers(numbers) => numbers.len() * 4,
            Cached::Decoded(page) => page.memory_bytes(),
            Cached::Loose(column) => column.0.memory_bytes() + column.1.memory_bytes(),
            Cached::Filter(filter) => filter.num_blocks() * 32,
            Cached::Page(page) => page.bytes.len(),
        };
        64 + bytes as u64
    }
}

pub(crate) struct Cache(sync::Cache<Key, Cached, Bytes>);

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.0.weight(), self.0.capacity())
    }
}

/// How many entries the cache prepares for; it takes more if they are small.
const ENTRIES: usize = 4_096;
/// Parts have their own room each, which is little for dictionaries of megabytes, and the more
/// processors there are, the less: a part that is full throws out what there is room for elsewhere.
const PARTS: usize = 1;

impl Cache {
    pub fn new(bytes_max: u64) -> Cache {
        let mut options = OptionsBuilder::new();
        options.shards(PARTS).estimated_items_capacity(ENTRIES).weight_capacity(bytes_max);
        let options = options.build().expect("what is needed is set");
        let (hashes, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        Cache(sync::Cache::with_options(options, Bytes, hashes, lifecycle))
    }

    pub fn get(
        &self,
        segment: u64,
        group: usize,
        part: Part,
        load: impl FnOnce() -> Result<Cached>,
    ) -> Result<Cached> {
        self.0.get_or_insert_with(&(segment, group, part), load)
    }
}
