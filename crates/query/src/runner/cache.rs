//! The cache of query results, bounded in bytes.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync;

use super::QueryResult;

/// Memory of all cached results.
const BYTES_MAX: u64 = 64 << 20;
/// The capacity hint of the cache.
const RESULTS_EXPECTED: usize = 1_024;

#[derive(Clone)]
struct Bytes;

impl Weighter<String, Arc<QueryResult>> for Bytes {
    fn weight(&self, _: &String, result: &Arc<QueryResult>) -> u64 {
        1_024 + result.bytes() as u64
    }
}

pub(super) struct ResultCache(sync::Cache<String, Arc<QueryResult>, Bytes>);

impl ResultCache {
    pub fn new() -> Self {
        Self(sync::Cache::with_weighter(RESULTS_EXPECTED, BYTES_MAX, Bytes))
    }

    pub fn get(&self, key: &str) -> Option<Arc<QueryResult>> {
        self.0.get(key)
    }

    pub fn put(&self, result: Arc<QueryResult>) {
        self.0.insert(result.key.clone(), result);
    }
}
