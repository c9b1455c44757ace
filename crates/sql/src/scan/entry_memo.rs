//! Memoizes a function of a dictionary column: it is computed once for each entry that a row uses, and
//! all threads share the results.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use eval::{MemoryCharge, MemoryTracker};
use warehouse::{ABSENT, Column, Dictionary, Value};

use crate::error::{Error, Result};

/// Dictionaries whose results are cached: partitions mostly read the same row group or two neighboring
/// ones.
const DICTIONARIES_MAX: usize = 2;
/// Entries that are computed at a time.
const ENTRIES_MAX: usize = 16 * 1024;

/// The result of an entry that is not computed yet. No function returns it.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct EntryMemo {
    dictionaries: Mutex<Vec<Known>>,
    absent: OnceLock<u32>,
    memory: MemoryTracker,
}

/// A dictionary, and the results of its entries.
#[derive(Clone, Debug)]
struct Known(Arc<Dictionary>, Arc<Results>);

#[derive(Debug)]
struct Results {
    by_entry: Box<[AtomicU32]>,
    _charge: MemoryCharge,
}

/// A function of dictionary entries: a result below `u32::MAX` for each.
pub(super) trait EntryFunction {
    fn compute(&self, dictionary: &Dictionary, entries: &[u32]) -> Result<Vec<u32>>;
    /// The result for a row without a value.
    fn absent(&self) -> Result<u32>;
}

impl EntryMemo {
    pub(super) fn new(memory: &MemoryTracker) -> Self {
        let memory = memory.clone();
        Self { dictionaries: Mutex::default(), absent: OnceLock::new(), memory }
    }

    /// The result of each row.
    pub(super) fn rows(&self, column: &Column, function: &dyn EntryFunction) -> Result<Vec<u32>> {
        let dictionary = &column.dictionary;
        let absent = match self.absent.get() {
            Some(absent) => *absent,
            None if column.codes.contains(&ABSENT) => {
                let absent = function.absent()?;
                *self.absent.get_or_init(|| absent)
            }
            None => UNKNOWN,
        };
        if dictionary.is_empty() {
            return Ok(vec![absent; column.codes.len()]);
        }
        let results = self.results_of(dictionary)?;
        let results = &results.by_entry;
        let is_known = |code: u32| results[code as usize].load(Ordering::Relaxed) != UNKNOWN;
        let mut used = Vec::new();
        dictionary.for_each_used(&column.codes, is_known, |code| used.push(code));
        for entries in used.chunks(ENTRIES_MAX) {
            // The strings are copied.
            let mut charge = self.memory.charge();
            if !charge.set(entries.iter().map(|entry| text_bytes(dictionary.get(*entry))).sum()) {
                return Err(Error::MemoryLimit);
            }
            for (entry, result) in entries.iter().zip(function.compute(dictionary, entries)?) {
                results[*entry as usize].store(result, Ordering::Relaxed);
            }
        }
        let row = |code: &u32| match *code {
            ABSENT => absent,
            code => results[code as usize].load(Ordering::Relaxed),
        };
        Ok(column.codes.iter().map(row).collect())
    }

    fn results_of(&self, dictionary: &Arc<Dictionary>) -> Result<Arc<Results>> {
        let mut known = self.dictionaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Known(_, results)) =
            known.iter().find(|known| Arc::ptr_eq(&known.0, dictionary))
        {
            return Ok(results.clone());
        }
        let mut charge = self.memory.charge();
        if !charge.set(dictionary.len() * size_of::<AtomicU32>()) {
            return Err(Error::MemoryLimit);
        }
        if known.len() == DICTIONARIES_MAX {
            known.remove(0);
        }
        let by_entry = (0..dictionary.len()).map(|_| AtomicU32::new(UNKNOWN)).collect();
        let results = Arc::new(Results { by_entry, _charge: charge });
        known.push(Known(dictionary.clone(), results.clone()));
        Ok(results)
    }
}

fn text_bytes(value: Value<'_>) -> usize {
    match value {
        Value::Text(text) | Value::Number(text) | Value::Json(text) => text.len(),
        Value::Null | Value::Bool(_) => 0,
    }
}
