//! A test of values that remembers what it said of entries of dictionaries.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memmem::Finder;

use crate::columns::{ABSENT, Column, Dictionary};
use crate::read::filter::ValueTest;

/// Dictionaries whose entries are remembered: parts of one row group follow each other, so threads
/// are mostly in the same or in two neighbouring ones.
const DICTIONARIES_MAX: usize = 2;

/// Entries that are searched at once, if at least one in so many of the dictionary may be asked for.
const SEARCHED: usize = 512;
const SEARCHED_OF: usize = 16;
/// Texts of so many entries that come to more are tested one by one: they are searched in a copy.
const SEARCHED_BYTES_MAX: usize = 1 << 20;

const UNKNOWN: u8 = 0;
const FAILS: u8 = 1;
const PASSES: u8 = 2;

type Known = (Arc<Dictionary>, Arc<[AtomicU8]>);

/// What a test does to texts: it looks for any of some parts, which are not empty, in whatever case
/// they are written. To find them in many texts that lie side by side takes a fraction of the time.
#[derive(Clone, Debug)]
pub struct SubstringSearch {
    /// In lower case.
    pub needles: Vec<Finder<'static>>,
    /// Whether texts pass that have one.
    pub pass_if_found: bool,
}

/// Threads share what they find out. Each entry is tested when a row has it, or one beside it that
/// is searched as well, not before.
pub struct MemoizedPredicate {
    test: Box<ValueTest>,
    search: Option<SubstringSearch>,
    known: Mutex<Vec<Known>>,
}

impl MemoizedPredicate {
    /// `search` says the same as the test.
    pub fn new(test: Box<ValueTest>, search: Option<SubstringSearch>) -> MemoizedPredicate {
        MemoizedPredicate { test, search, known: Mutex::default() }
    }

    pub(crate) fn keep(&self, column: &Column) -> Vec<bool> {
        let dictionary = &*column.dictionary;
        let absent = (self.test)(None);
        if dictionary.is_empty() {
            return vec![absent; column.codes.len()];
        }
        let known = self.of(&column.dictionary);
        let is_known = |code: u32| known[code as usize].load(Ordering::Relaxed) != UNKNOWN;
        let many = column.codes.len() * SEARCHED_OF >= dictionary.len();
        let search = self.search.as_ref().filter(|_| many);
        let (mut searched, mut lowered) = (0, Vec::new());
        dictionary.for_each_used(&column.codes, is_known, |code| {
            let at = code as usize;
            if at >= searched
                && let Some(search) = search
            {
                let first = at - at % SEARCHED;
                searched = (first + SEARCHED).min(dictionary.len());
                search.run(dictionary, first..searched, &known, &mut lowered);
            }
            // Another thread may have come before.
            if !is_known(code) {
                let said = if (self.test)(Some(dictionary.get(code))) { PASSES } else { FAILS };
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

impl SubstringSearch {
    /// Finds out about the texts among some entries, unless they are huge or one of them has other
    /// than plain letters: those may become others in lower case.
    fn run(
        &self,
        dictionary: &Dictionary,
        entries: Range<usize>,
        known: &[AtomicU8],
        lowered: &mut Vec<u8>,
    ) {
        let (text, ends) = dictionary.side_by_side(entries.clone());
        if text.len() > SEARCHED_BYTES_MAX || !text.is_ascii() {
            return;
        }
        lowered.clear();
        lowered.extend_from_slice(text.as_bytes());
        lowered.make_ascii_lowercase();
        let mut found = [false; SEARCHED];
        for part in &self.needles {
            let (mut from, mut entry) = (0, 0);
            while let Some(place) = part.find(&lowered[from..]) {
                let place = from + place;
                while ends(entry) <= place {
                    entry += 1;
                }
                let within = place + part.needle().len() <= ends(entry);
                found[entry] |= within;
                from = if within { ends(entry) } else { place + 1 };
            }
        }
        let searched = known[entries.clone()].iter().zip(found);
        for ((known, found), is_text) in searched.zip(dictionary.are_texts(entries)) {
            if is_text {
                let said = if found == self.pass_if_found { PASSES } else { FAILS };
                known.store(said, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use proptest::prelude::*;

    use super::*;
    use crate::columns::Value;

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
        let test = move |value: Option<Value<'_>>| {
            count.fetch_add(usize::from(value.is_some()), Ordering::Relaxed);
            value.is_none_or(|value| value.text() == "b")
        };
        let tested = MemoizedPredicate::new(Box::new(test), None);
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        /// A search says of each entry what the test does.
        #[test]
        fn a_search_is_the_test(
            texts in prop_oneof![
                prop::collection::vec("[abAB/]{0,4}", 1..1_200),
                prop::collection::vec("[aAbé\u{212a}]{0,2}", 1..100),
            ],
            parts in prop::collection::vec("[abkAé]{1,2}", 1..3),
            pass_if_found: bool,
            huge: bool,
        ) {
            let mut dictionary = Dictionary::default();
            if huge {
                dictionary.push(Value::Text(&"/".repeat(SEARCHED_BYTES_MAX + 1)));
            }
            for text in &texts {
                dictionary.push(Value::Text(text));
                if text.len() == 1 {
                    dictionary.push(Value::Json("[\"a\"]"));
                    dictionary.push(Value::Bool(true));
                }
            }
            let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
            let own = parts.clone();
            let test = move |value: Option<Value<'_>>| {
                let text = value.map(|value| value.text().to_lowercase()).unwrap_or_default();
                (!text.is_empty() && own.iter().any(|part| text.contains(part))) == pass_if_found
            };
            let parts = parts.iter().map(|part| Finder::new(part).into_owned()).collect();
            let search = SubstringSearch { needles: parts, pass_if_found };
            let codes: Vec<u32> = (0..dictionary.len() as u32).rev().collect();
            let column = Column { codes, dictionary: Arc::new(dictionary) };
            let expected = MemoizedPredicate::new(Box::new(test.clone()), None).keep(&column);
            prop_assert_eq!(MemoizedPredicate::new(Box::new(test), Some(search)).keep(&column), expected);
        }
    }
}
