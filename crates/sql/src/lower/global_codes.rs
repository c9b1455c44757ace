//! A global dictionary: maps the codes of many dictionaries to dense codes that are equal where the
//! strings are. `GROUP BY` and `uniq` need no more than that, so each string is hashed once for each
//! dictionary that has it, not once for each row.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array};
use arrow::datatypes::{DataType, UInt32Type};
use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_expr::PhysicalExpr;

use super::string_interner::StringInterner;
use crate::closure_expr::ClosureExpr;

/// Dictionaries whose codes are cached: partitions mostly read the same row group or two
/// neighboring ones.
const DICTIONARIES_MAX: usize = 2;
/// An entry without a global code yet. No query has the memory for this many strings.
const UNASSIGNED: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct GlobalCodes {
    state: Mutex<State>,
    reservation: MemoryReservation,
}

#[derive(Debug, Default)]
struct State {
    strings: StringInterner,
    dictionaries: Vec<(ArrayRef, Arc<[AtomicU32]>)>,
}

impl GlobalCodes {
    pub(crate) fn new(reservation: MemoryReservation) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), reservation })
    }

    /// The global code of each string; null for null.
    pub(crate) fn encode(self: &Arc<Self>, coded: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let codes = self.clone();
        ClosureExpr::expr("global code", vec![coded], DataType::UInt32, move |arrays, _| {
            codes.encode_array(&arrays[0])
        })
    }

    /// The strings of global codes.
    pub(crate) fn decode(self: &Arc<Self>, code: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let codes = self.clone();
        ClosureExpr::expr("string", vec![code], DataType::Utf8, move |arrays, _| {
            let state = codes.lock();
            let codes = arrays[0].as_primitive::<UInt32Type>();
            let string = |code: Option<u32>| state.strings.get(code?);
            Ok(Arc::new(codes.iter().map(string).collect::<StringArray>()))
        })
    }

    fn encode_array(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let column = column.as_dictionary::<UInt32Type>();
        let texts = column.values().as_string::<i32>();
        let entries = self.entries(column.values());
        let keys = column.keys();
        let mut unassigned: Vec<u32> = Vec::new();
        // Only strings that rows have get a code: any other would be a group without rows.
        for key in keys.iter().flatten().filter(|key| texts.is_valid(*key as usize)) {
            if entries[key as usize].load(Ordering::Relaxed) == UNASSIGNED {
                unassigned.push(key);
            }
        }
        if !unassigned.is_empty() {
            let mut state = self.lock();
            for key in unassigned {
                let code = state.strings.intern(texts.value(key as usize));
                entries[key as usize].store(code, Ordering::Relaxed);
            }
            self.reservation.try_resize(state.strings.bytes())?;
        }
        let code = |key: Option<u32>| {
            let key = key.filter(|key| texts.is_valid(*key as usize))?;
            Some(entries[key as usize].load(Ordering::Relaxed))
        };
        Ok(Arc::new(keys.iter().map(code).collect::<UInt32Array>()))
    }

    fn entries(&self, values: &ArrayRef) -> Arc<[AtomicU32]> {
        let State { dictionaries, .. } = &mut *self.lock();
        let cached = dictionaries.iter().find(|(dictionary, _)| Arc::ptr_eq(dictionary, values));
        if let Some((_, codes)) = cached {
            return codes.clone();
        }
        if dictionaries.len() == DICTIONARIES_MAX {
            dictionaries.remove(0);
        }
        let codes: Arc<[AtomicU32]> =
            (0..values.len()).map(|_| AtomicU32::new(UNASSIGNED)).collect();
        dictionaries.push((values.clone(), codes.clone()));
        codes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
