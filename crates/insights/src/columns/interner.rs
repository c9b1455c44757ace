//! A string interner that all threads of a scan share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use warehouse::{Interner, Value, ValueHasher};

/// Enough shards that threads seldom contend for the same lock.
const SHARDS: usize = 16;

/// Assigns dense ids to strings. Ids are small but have gaps: shard `s` assigns `n * SHARDS + s`.
#[derive(Debug, Default)]
pub(crate) struct StringInterner {
    hashing: ValueHasher,
    shards: [Mutex<Interner>; SHARDS],
}

impl StringInterner {
    pub fn intern(&self, text: &str) -> u32 {
        let (hash, shard) = self.locate(text);
        let code = self.shard(shard).intern_hashed(hash, Value::Text(text));
        code * SHARDS as u32 + shard as u32
    }

    /// Interns many strings and calls `each` with the key that came with a string and its id.
    /// Locks each shard once, and lets the CPU overlap the cache misses of one shard's lookups.
    pub fn intern_all<K: Copy>(&self, texts: &[(K, &str)], mut each: impl FnMut(K, u32)) {
        let mut by_shard: [Vec<(u64, u32)>; SHARDS] = Default::default();
        for (at, (_, text)) in texts.iter().enumerate() {
            let (hash, shard) = self.locate(text);
            by_shard[shard].push((hash, at as u32));
        }
        for (shard, hashed) in by_shard.iter().enumerate() {
            let mut interner = self.shard(shard);
            for (hash, at) in hashed {
                let (key, text) = texts[*at as usize];
                let code = interner.intern_hashed(*hash, Value::Text(text));
                each(key, code * SHARDS as u32 + shard as u32);
            }
        }
    }

    /// The id of a string that was interned before.
    pub fn find(&self, text: &str) -> Option<u32> {
        let (hash, shard) = self.locate(text);
        let code = self.shard(shard).find_hashed(hash, Value::Text(text))?;
        Some(code * SHARDS as u32 + shard as u32)
    }

    /// Hash and shard of a string. The shard comes from the upper bits, because the shard's own
    /// table uses the lower ones.
    fn locate(&self, text: &str) -> (u64, usize) {
        let hash = self.hashing.hash(Value::Text(text));
        (hash, hash as usize >> 32 & (SHARDS - 1))
    }

    /// Exclusive upper bound of all ids.
    pub fn len(&self) -> usize {
        let lens = (0..SHARDS).map(|shard| self.shard(shard).dictionary.len());
        lens.max().unwrap_or(0) * SHARDS
    }

    pub fn bytes(&self) -> usize {
        let bytes = |shard| {
            let dictionary = &self.shard(shard).dictionary;
            dictionary.memory_bytes() + dictionary.len() * 16
        };
        (0..SHARDS).map(bytes).sum()
    }

    /// The string of an id; empty for an id that was never assigned.
    pub fn get(&self, id: u32) -> String {
        let (code, shard) = (id / SHARDS as u32, id as usize % SHARDS);
        let dictionary = &self.shard(shard).dictionary;
        match ((code as usize) < dictionary.len()).then(|| dictionary.get(code)) {
            Some(Value::Text(text)) => text.to_owned(),
            _ => String::new(),
        }
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Interner> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
