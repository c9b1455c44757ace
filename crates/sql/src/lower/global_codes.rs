//! A global dictionary: dense codes that are equal where the strings are, for the entries of many
//! dictionaries. `GROUP BY` and `uniq` need no more than that, so each string is hashed once for each
//! dictionary that has it, not once for each row.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array};
use arrow::datatypes::UInt32Type;
use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;

use super::string_interner::StringInterner;

/// Dictionaries whose codes are cached: partitions mostly read the same row group or two
/// neighboring ones.
const DICTIONARIES_MAX: usize = 2;
/// The code of null. No query has the memory for this many strings.
pub(crate) const NULL_CODE: u32 = u32::MAX - 1;
/// An entry without a global code yet.
const UNASSIGNED: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct GlobalCodes {
    state: Mutex<State>,
    reservation: MemoryReservation,
}

#[derive(Debug, Default)]
struct State {
    strings: StringInterner,
    /// Codes by entry, of Arrow dictionaries.
    dictionaries: Vec<(ArrayRef, Vec<u32>)>,
}

impl GlobalCodes {
    pub(crate) fn new(reservation: MemoryReservation) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), reservation })
    }

    /// The codes of some strings; [`NULL_CODE`] for none.
    pub(crate) fn intern_all<S: AsRef<str>>(
        &self,
        strings: impl Iterator<Item = Option<S>>,
    ) -> Result<Vec<u32>> {
        let mut state = self.lock();
        let code = |string: Option<S>| match string {
            Some(string) => state.strings.intern(string.as_ref()),
            None => NULL_CODE,
        };
        let codes = strings.map(code).collect();
        self.reservation.try_resize(state.strings.bytes())?;
        Ok(codes)
    }

    /// The code of each row of a string column, dictionary-encoded or not.
    pub(crate) fn encode(&self, column: &ArrayRef) -> Result<Vec<u32>> {
        let Some(column) = column.as_dictionary_opt::<UInt32Type>() else {
            return self.intern_all(column.as_string::<i32>().iter());
        };
        let texts = column.values().as_string::<i32>();
        let mut state = self.lock();
        let State { strings, dictionaries } = &mut *state;
        let known = dictionaries.iter().position(|(of, _)| Arc::ptr_eq(of, column.values()));
        let at = known.unwrap_or_else(|| {
            if dictionaries.len() == DICTIONARIES_MAX {
                dictionaries.remove(0);
            }
            dictionaries.push((column.values().clone(), vec![UNASSIGNED; texts.len()]));
            dictionaries.len() - 1
        });
        let by_entry = &mut dictionaries[at].1;
        // Only strings that rows have get a code: any other would be a group without rows.
        let code = |key: Option<u32>| match key {
            Some(key) if texts.is_valid(key as usize) => match by_entry[key as usize] {
                UNASSIGNED => {
                    let code = strings.intern(texts.value(key as usize));
                    by_entry[key as usize] = code;
                    code
                }
                code => code,
            },
            _ => NULL_CODE,
        };
        let codes = column.keys().iter().map(code).collect();
        self.reservation.try_resize(state.strings.bytes())?;
        Ok(codes)
    }

    /// The strings of codes.
    pub(crate) fn decode(&self, codes: &UInt32Array) -> StringArray {
        let state = self.lock();
        codes.iter().map(|code| state.strings.get(code?)).collect()
    }

    /// The mean size of a string, with its share of the hash table.
    pub(crate) fn mean_bytes(&self) -> usize {
        let state = self.lock();
        state.strings.bytes() / state.strings.len().max(1)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
