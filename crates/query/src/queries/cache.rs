//! Answers that were computed, while there is room.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync;

use super::Answer;

/// Bytes of all answers together, in memory.
const BYTES_MAX: u64 = 64 << 20;
/// How many answers the cache prepares for.
const ANSWERS: usize = 1_024;

#[derive(Clone)]
struct Bytes;

impl Weighter<String, Arc<Answer>> for Bytes {
    fn weight(&self, _: &String, answer: &Arc<Answer>) -> u64 {
        1_024 + answer.bytes() as u64
    }
}

pub(super) struct Cache(sync::Cache<String, Arc<Answer>, Bytes>);

impl Cache {
    pub fn new() -> Self {
        Self(sync::Cache::with_weighter(ANSWERS, BYTES_MAX, Bytes))
    }

    pub fn get(&self, key: &str) -> Option<Arc<Answer>> {
        self.0.get(key)
    }

    pub fn put(&self, answer: Arc<Answer>) {
        self.0.insert(answer.key.clone(), answer);
    }
}
