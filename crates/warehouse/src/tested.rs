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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::value::Value;

    fn dictionary(texts: &[&str]) -> Arc<Dictionary> {
        let mut dictionary = Dictionary::default();
        for text in texts {
            dictionary.push(Value::Text(text));
        }
        Arc::new(dictionary)
    }

    #[test]
    fn an_entry_is_tested_once_and_only_if_a_row_has_it() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let tested = Tested::new(Box::new(move |value| {
            count.fetch_add(usize::from(value.is_some()), Ordering::Relaxed);
            value.is_none_or(|value| value.text() == "b")
        }));
        let dictionaries = [dictionary(&["a", "b", "c"]), dictionary(&["b"]), dictionary(&["a"])];
        let keep = |no: usize, codes: &[u32]| {
            let dictionary = dictionaries[no].clone();
            let kept = tested.keep(&Column { codes: codes.to_vec(), dictionary });
            (kept, asked.load(Ordering::Relaxed))
        };
        assert_eq!(keep(0, &[0, ABSENT, 1, 0]), (vec![false, true, true, false], 2));
        assert_eq!(keep(0, &[1, 0]), (vec![true, false], 2));
        assert_eq!(keep(0, &[2, 2]), (vec![false, false], 3));
        assert_eq!(keep(1, &[0]), (vec![true], 4));
        assert_eq!(keep(0, &[2]), (vec![false], 3 + 1));
        // A third drives out the first, whose entries are tested again.
        assert_eq!(keep(2, &[0]), (vec![false], 5));
        assert_eq!(keep(0, &[2]), (vec![false], 6));
        let nothing = Column::absent(2);
        assert_eq!((tested.keep(&nothing), asked.load(Ordering::Relaxed)), (vec![true; 2], 6));
    }
}
