//! Dictionary-coded inputs: what depends on one of them alone is worked out once for each entry,
//! and batches that share a dictionary share the results.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt32Array};
use arrow_schema::DataType;
use arrow_select::concat::concat;

use crate::error::Result;
use crate::gather::take;
use crate::memory::MemoryCharge;
use crate::meter;
use crate::node::bytes_of;

/// Dictionaries whose results a node keeps: threads may read different segments at a time.
const MEMO_MAX: usize = 4;

/// A dictionary-coded column.
pub(crate) struct Coded {
    /// Numbers of entries; one past the last for null.
    pub keys: UInt32Array,
    pub values: ArrayRef,
}

impl Coded {
    pub fn of(array: &ArrayRef) -> Option<Self> {
        let dictionary = array.as_any_dictionary_opt()?;
        let values = Arc::clone(dictionary.values());
        let null = values.len() as u32;
        if values.is_empty() {
            return Some(Self { keys: UInt32Array::from(vec![null; array.len()]), values });
        }
        let keys = dictionary.keys();
        let numbers = dictionary.normalized_keys().into_iter().enumerate();
        let numbers = numbers.map(|(row, key)| if keys.is_null(row) { null } else { key as u32 });
        Some(Self { keys: UInt32Array::from_iter_values(numbers), values })
    }

    /// The result for each entry, and for null behind the last.
    pub fn entries(&self, eval: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
        let of_null = eval(&arrow_array::new_null_array(self.values.data_type(), 1))?;
        Ok(concat(&[&eval(&self.values)?, &of_null])?)
    }

    pub fn spread(&self, entries: &ArrayRef) -> Result<ArrayRef> {
        take(entries, &self.keys)
    }

    /// The result for each row, without asking about entries that no row has if those are many.
    pub fn rows(&self, eval: impl Fn(&ArrayRef) -> Result<ArrayRef>) -> Result<ArrayRef> {
        if self.keys.len() >= self.values.len() {
            return self.spread(&self.entries(eval)?);
        }
        let null = self.values.len() as u32;
        let keys = self.keys.values().iter().map(|key| (*key != null).then_some(*key));
        eval(&take(&self.values, &keys.collect())?)
    }
}

/// What a node gave for the dictionaries it met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo(Arc<Mutex<Vec<Seen>>>);

#[derive(Debug)]
struct Seen {
    /// Held, so that no other dictionary can come to stand in its place.
    values: ArrayRef,
    rows: usize,
    entries: Option<(ArrayRef, Option<MemoryCharge>)>,
}

impl Memo {
    /// The rows' results by way of the entries. None as long as the rows are fewer than the
    /// entries: then it costs less to work out the rows.
    pub fn by_entry(
        &self,
        coded: &Coded,
        wanted: &DataType,
        eval: impl Fn(&ArrayRef) -> Result<ArrayRef>,
    ) -> Result<Option<ArrayRef>> {
        if let Some(entries) = self.find(coded, wanted) {
            return coded.spread(&entries).map(Some);
        }
        if !self.is_worth(coded) {
            return Ok(None);
        }
        let entries = coded.entries(eval)?;
        let kept = meter::keep(bytes_of(&entries)?)?;
        self.change(coded, |seen| seen.entries = Some((Arc::clone(&entries), kept)));
        coded.spread(&entries).map(Some)
    }

    fn find(&self, coded: &Coded, wanted: &DataType) -> Option<ArrayRef> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = seen.iter().find(|seen| Arc::ptr_eq(&seen.values, &coded.values))?;
        let (entries, _) = found.entries.as_ref()?;
        (entries.data_type() == wanted).then(|| Arc::clone(entries))
    }

    fn is_worth(&self, coded: &Coded) -> bool {
        self.change(coded, |seen| {
            seen.rows += coded.keys.len();
            seen.rows >= seen.values.len()
        })
    }

    fn change<T>(&self, coded: &Coded, change: impl FnOnce(&mut Seen) -> T) -> T {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = seen.iter().position(|seen| Arc::ptr_eq(&seen.values, &coded.values));
        let at = found.unwrap_or_else(|| {
            if seen.len() >= MEMO_MAX {
                seen.remove(0);
            }
            seen.push(Seen { values: Arc::clone(&coded.values), rows: 0, entries: None });
            seen.len() - 1
        });
        change(&mut seen[at])
    }
}
