//! Dictionary-encoded inputs. A node that depends on one of them alone is evaluated once per entry,
//! and batches that share a dictionary share the results.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use arrow_select::concat::concat;

use crate::error::Result;
use crate::limits::memory::MemoryCharge;
use crate::limits::meter;
use crate::vector::gather::{bytes_of, take};

/// Dictionaries whose results a node memoizes: threads may read different segments at a time.
const MEMO_MAX: usize = 4;

/// A dictionary-encoded column.
pub(crate) struct DictionaryColumn {
    /// Index of each row's entry; `values.len()` stands for null.
    pub keys: UInt32Array,
    pub values: ArrayRef,
}

impl DictionaryColumn {
    pub fn of(array: &ArrayRef) -> Option<Self> {
        let dictionary = array.as_any_dictionary_opt()?;
        let values = Arc::clone(dictionary.values());
        let null = values.len() as u32;
        if values.is_empty() {
            return Some(Self { keys: UInt32Array::from(vec![null; array.len()]), values });
        }
        let keys = dictionary.keys();
        let keys = match keys.as_primitive_opt::<UInt32Type>() {
            Some(keys) if keys.null_count() == 0 => keys.clone(),
            Some(keys) => {
                let keys = keys.iter().map(|key| key.unwrap_or(null));
                UInt32Array::from_iter_values(keys)
            }
            None => {
                let indices = dictionary.normalized_keys().into_iter().enumerate();
                UInt32Array::from_iter_values(
                    indices.map(|(row, key)| if keys.is_null(row) { null } else { key as u32 }),
                )
            }
        };
        Some(Self { keys, values })
    }

    /// The result for each entry, followed by the result for null.
    pub fn entries(&self, eval: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
        let of_null = eval(&arrow_array::new_null_array(self.values.data_type(), 1))?;
        Ok(concat(&[&eval(&self.values)?, &of_null])?)
    }

    /// Expands the results of [`Self::entries`] to rows.
    pub fn expand(&self, entries: &ArrayRef) -> Result<ArrayRef> {
        take(entries, &self.keys)
    }

    /// The result for each row: evaluates per entry, or per row if the entries outnumber the rows.
    pub fn rows(&self, eval: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
        if self.keys.len() >= self.values.len() {
            return self.expand(&self.entries(eval)?);
        }
        let null = self.values.len() as u32;
        let keys = self.keys.values().iter().map(|key| (*key != null).then_some(*key));
        eval(&take(&self.values, &keys.collect())?)
    }
}

/// Results of one node per dictionary, at most [`MEMO_MAX`]; evicts the oldest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo(Arc<Mutex<Vec<MemoEntry>>>);

#[derive(Debug)]
struct MemoEntry {
    /// Identifies the dictionary by its address; holding it prevents the reuse of that address.
    values: ArrayRef,
    rows: usize,
    results: Option<(ArrayRef, Option<MemoryCharge>)>,
}

impl Memo {
    /// Evaluates per entry and expands to rows. Returns None while the node has met fewer rows than
    /// the dictionary has entries: then it is cheaper to evaluate the rows.
    pub fn by_entry(
        &self,
        dictionary: &DictionaryColumn,
        wanted: &DataType,
        eval: impl Fn(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<Option<ArrayRef>> {
        if let Some(results) = self.find(dictionary, wanted) {
            return dictionary.expand(&results).map(Some);
        }
        if !self.is_worthwhile(dictionary) {
            return Ok(None);
        }
        let results = dictionary.entries(eval)?;
        let charge = meter::charge(bytes_of(&results)?)?;
        self.update(dictionary, |entry| entry.results = Some((Arc::clone(&results), charge)));
        dictionary.expand(&results).map(Some)
    }

    fn find(&self, dictionary: &DictionaryColumn, wanted: &DataType) -> Option<ArrayRef> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.iter().find(|entry| Arc::ptr_eq(&entry.values, &dictionary.values))?;
        let (results, _) = entry.results.as_ref()?;
        (results.data_type() == wanted).then(|| Arc::clone(results))
    }

    fn is_worthwhile(&self, dictionary: &DictionaryColumn) -> bool {
        self.update(dictionary, |entry| {
            entry.rows += dictionary.keys.len();
            entry.rows >= entry.values.len()
        })
    }

    fn update<T>(
        &self,
        dictionary: &DictionaryColumn,
        update: impl FnOnce(&mut MemoEntry) -> T,
    ) -> T {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = entries.iter().position(|entry| Arc::ptr_eq(&entry.values, &dictionary.values));
        let index = known.unwrap_or_else(|| {
            if entries.len() >= MEMO_MAX {
                entries.remove(0);
            }
            entries.push(MemoEntry {
                values: Arc::clone(&dictionary.values),
                rows: 0,
                results: None,
            });
            entries.len() - 1
        });
        update(&mut entries[index])
    }
}
