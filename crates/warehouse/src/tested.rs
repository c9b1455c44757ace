//! A test of values that remembers what it said of entries of dictionaries.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::dictionary::{ABSENT, Column, Dictionary};
use crate::filter::Test;

/// Dictionaries whose entries are remembered: parts of one row group follow each other, so threads
/// are mostly in the same or in two neighbouring ones.
const DICTIONARIES_MAX: usize = 2;

const UNKNOWN: u8 = 0;
const FAILS: u8 = 1;
const PASSES: u8 = 2;

type Known = (Arc<Dictionary>, Arc<[AtomicU8]>);

/// Threads share what they find out. Each entry is tested when a row has it, not before.
pub struct Tested {
    test: Box<Test>,
    known: Mutex<Vec<Known>>,
}

impl Tested {
    pub fn new(test: Box<Test>) -> Tested {
        Tested { test, known: Mutex::default() }
    }

    pub(crate) fn keep(&self, column: &Column) -> Vec<bool> {
        let dictionary = &*column.dictionary;
        let absent = (self.test)(None);
        if dictionary.is_empty() {
            return vec![absent; column.codes.len()];
        }
        let known = self.of(&column.dictionary);
        let is_known = |code: u32| known[code as usize].load(Ordering::Relaxed) != UNKNOWN;
        dictionary.for_each_met(&column.codes, is_known, |code, value| {
            // Another thread may have come before.
            if !is_known(code) {
                let said = if (self.test)(Some(value)) { PASSES } else { FAILS };
                known[code as usize].store(said, Ordering::Relaxed);
            }
        });
        let keep = |code: &u32| match *code {
            ABSENT => absent,
            code => known[code as usize].load(Ordering::Relaxed) == PASSES,
        };
        column.codes.iter().map(keep).collect()
    }

    fn of(&self, dictionary: &Arc<Dictionary>) -> Arc<[AtomicU8]> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, own)) = known.iter().find(|(one, _)| Arc::ptr_eq(one, dictionary)) {
            return own.clone();
        }
        if known.len() == DICTIONARIES_MAX {
            known.remove(0);
        }
        let own: Arc<[AtomicU8]> = (0..dictionary.len()).map(|_| AtomicU8::new(UNKNOWN)).collect();
        known.push((dictionary.clone(), own.clone()));
        own
    }
}
