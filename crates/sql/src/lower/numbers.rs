//! Texts behind codes as numbers that are the same for all dictionaries, for steps that only ask
//! which texts are equal: a text is looked at once for each dictionary that has it, not for each row.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array};
use arrow::datatypes::{DataType, UInt32Type};
use datafusion_common::Result;
use datafusion_execution::memory_pool::MemoryReservation;
use datafusion_physical_expr::PhysicalExpr;

use super::texts::Texts;
use crate::apply::Apply;

/// Dictionaries whose entries are remembered: partitions are mostly in the same or in two
/// neighbouring row groups.
const DICTIONARIES_MAX: usize = 2;
/// An entry without a number yet. There is no memory for so many texts.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Numbers {
    known: Mutex<Known>,
    reservation: MemoryReservation,
}

#[derive(Debug, Default)]
struct Known {
    texts: Texts,
    dictionaries: Vec<(ArrayRef, Arc<[AtomicU32]>)>,
}

impl Numbers {
    pub(crate) fn new(reservation: MemoryReservation) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), reservation })
    }

    /// The number of each text; null for none.
    pub(crate) fn of(self: &Arc<Self>, coded: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let own = self.clone();
        Apply::expr("number", vec![coded], DataType::UInt32, move |arrays, _| {
            own.numbers(&arrays[0])
        })
    }

    /// Numbers as the texts they stand for.
    pub(crate) fn texts(self: &Arc<Self>, number: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let own = self.clone();
        Apply::expr("text", vec![number], DataType::Utf8, move |arrays, _| {
            let known = own.lock();
            let numbers = arrays[0].as_primitive::<UInt32Type>();
            let text = |number: Option<u32>| known.texts.get(number?);
            Ok(Arc::new(numbers.iter().map(text).collect::<StringArray>()))
        })
    }

    fn numbers(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let column = column.as_dictionary::<UInt32Type>();
        let texts = column.values().as_string::<i32>();
        let entries = self.entries(column.values());
        let keys = column.keys();
        let mut met: Vec<u32> = Vec::new();
        // A number that no row has would be a group without rows.
        for key in keys.iter().flatten().filter(|key| texts.is_valid(*key as usize)) {
            if entries[key as usize].load(Ordering::Relaxed) == UNKNOWN {
                met.push(key);
            }
        }
        if !met.is_empty() {
            let mut known = self.lock();
            for key in met {
                let number = known.texts.number(texts.value(key as usize));
                entries[key as usize].store(number, Ordering::Relaxed);
            }
            self.reservation.try_resize(known.texts.bytes())?;
        }
        let number = |key: Option<u32>| {
            let key = key.filter(|key| texts.is_valid(*key as usize))?;
            Some(entries[key as usize].load(Ordering::Relaxed))
        };
        Ok(Arc::new(keys.iter().map(number).collect::<UInt32Array>()))
    }

    fn entries(&self, values: &ArrayRef) -> Arc<[AtomicU32]> {
        let Known { dictionaries, .. } = &mut *self.lock();
        if let Some((_, own)) = dictionaries.iter().find(|(one, _)| Arc::ptr_eq(one, values)) {
            return own.clone();
        }
        if dictionaries.len() == DICTIONARIES_MAX {
            dictionaries.remove(0);
        }
        let own: Arc<[AtomicU32]> = (0..values.len()).map(|_| AtomicU32::new(UNKNOWN)).collect();
        dictionaries.push((values.clone(), own.clone()));
        own
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
