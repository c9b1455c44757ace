//! Memoized predicates: a value test with its results cached per dictionary entry, and a batched
//! substring search that fills the cache.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memmem::Finder;

use crate::columns::{ABSENT, Column, Dictionary};
use crate::read::filter::ValueTest;

/// Dictionaries with cached results. Scan ranges of one row group follow each other, so threads are
/// mostly in the same or in two adjacent row groups.
const DICTIONARIES_MAX: usize = 2;

/// Entries per batch of the substring search.
const SEARCH_ENTRIES: usize = 512;
/// Entries are searched in batches only if at least one in so many of the dictionary may be used.
const SEARCH_ONE_IN: usize = 16;
/// Larger batches are tested entry by entry: the search works on a lowercase copy.
const SEARCH_BYTES_MAX: usize = 1 << 20;

const UNKNOWN: u8 = 0;
const FAILS: u8 = 1;
const PASSES: u8 = 2;

type CachedResults = (Arc<Dictionary>, Arc<[AtomicU8]>);

/// A case-insensitive search for any of several substrings. Searching the concatenated strings of
/// many dictionary entries takes a fraction of the time of searching each.
#[derive(Clone, Debug)]
pub struct SubstringSearch {
    /// In lower case, none empty.
    pub needles: Vec<Finder<'static>>,
    /// Whether strings with a match pass, or those without.
    pub pass_if_found: bool,
}

/// Threads share the cached results. An entry is tested only when a row uses it, or another entry of
/// its search batch.
pub struct MemoizedPredicate {
    test: Box<ValueTest>,
    search: Option<SubstringSearch>,
    results: Mutex<Vec<CachedResults>>,
}

impl MemoizedPredicate {
    /// `search`, if set, must give the same results as `test` for all strings.
    pub fn new(test: Box<ValueTest>, search: Option<SubstringSearch>) -> MemoizedPredicate {
        MemoizedPredicate { test, search, results: Mutex::default() }
    }

    pub(crate) fn mask(&self, column: &Column) -> Vec<bool> {
        let dictionary = &*column.dictionary;
        let absent = (self.test)(None);
        if dictionary.is_empty() {
            return vec![absent; column.codes.len()];
        }
        let results = self.results_of(&column.dictionary);
        let is_tested = |code: u32| results[code as usize].load(Ordering::Relaxed) != UNKNOWN;
        let many = column.codes.len() * SEARCH_ONE_IN >= dictionary.len();
        let search = self.search.as_ref().filter(|_| many);
        let (mut searched, mut lowercase) = (0, Vec::new());
        dictionary.for_each_used(&column.codes, is_tested, |code| {
            let at = code as usize;
            if at >= searched
                && let Some(search) = search
            {
                let first = at - at % SEARCH_ENTRIES;
                searched = (first + SEARCH_ENTRIES).min(dictionary.len());
                search.run(dictionary, first..searched, &results, &mut lowercase);
            }
            // The search, or another thread, may have tested it.
            if !is_tested(code) {
                let result = if (self.test)(Some(dictionary.get(code))) { PASSES } else { FAILS };
                results[code as usize].store(result, Ordering::Relaxed);
            }
        });
        let passes = |code: &u32| match *code {
            ABSENT => absent,
            code => results[code as usize].load(Ordering::Relaxed) == PASSES,
        };
        column.codes.iter().map(passes).collect()
    }

    fn results_of(&self, dictionary: &Arc<Dictionary>) -> Arc<[AtomicU8]> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cached)) =
            results.iter().find(|(tested, _)| Arc::ptr_eq(tested, dictionary))
        {
            return cached.clone();
        }
        if results.len() == DICTIONARIES_MAX {
            results.remove(0);
        }
        let cached: Arc<[AtomicU8]> =
            (0..dictionary.len()).map(|_| AtomicU8::new(UNKNOWN)).collect();
        results.push((dictionary.clone(), cached.clone()));
        cached
    }
}

impl SubstringSearch {
    /// Searches the strings among some entries, unless they are too large or not all ASCII: lower case
    /// changes the length of some other characters.
    fn run(
        &self,
        dictionary: &Dictionary,
        entries: Range<usize>,
        results: &[AtomicU8],
        lowercase: &mut Vec<u8>,
    ) {
        let (text, ends) = dictionary.concatenated(entries.clone());
        if text.len() > SEARCH_BYTES_MAX || !text.is_ascii() {
            return;
        }
        lowercase.clear();
        lowercase.extend_from_slice(text.as_bytes());
        lowercase.make_ascii_lowercase();
        let mut contains = [false; SEARCH_ENTRIES];
        for needle in &self.needles {
            let (mut from, mut entry) = (0, 0);
            while let Some(start) = needle.find(&lowercase[from..]) {
                let start = from + start;
                while ends(entry) <= start {
                    entry += 1;
                }
                let matches = start + needle.needle().len() <= ends(entry);
                contains[entry] |= matches;
                from = if matches { ends(entry) } else { start + 1 };
            }
        }
        let searched = results[entries.clone()].iter().zip(contains);
        for ((results, contains), is_text) in searched.zip(dictionary.are_strings(entries)) {
            if is_text {
                let result = if contains == self.pass_if_found { PASSES } else { FAILS };
                results.store(result, Ordering::Relaxed);
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
    fn memoized_predicate_tests_an_entry_once_and_only_if_used() {
        let tests = Arc::new(AtomicUsize::new(0));
        let count = tests.clone();
        let test = move |value: Option<Value<'_>>| {
            count.fetch_add(usize::from(value.is_some()), Ordering::Relaxed);
            value.is_none_or(|value| value.text() == "b")
        };
        let predicate = MemoizedPredicate::new(Box::new(test), None);
        let dictionaries = [dictionary(&["a", "b", "c"]), dictionary(&["b"]), dictionary(&["a"])];
        let mask_of = |no: usize, codes: &[u32]| {
            let dictionary = dictionaries[no].clone();
            let mask = predicate.mask(&Column { codes: codes.to_vec(), dictionary });
            (mask, tests.load(Ordering::Relaxed))
        };
        assert_eq!(mask_of(0, &[0, ABSENT, 1, 0]), (vec![false, true, true, false], 2));
        assert_eq!(mask_of(0, &[1, 0]), (vec![true, false], 2));
        assert_eq!(mask_of(0, &[2, 2]), (vec![false, false], 3));
        assert_eq!(mask_of(1, &[0]), (vec![true], 4));
        assert_eq!(mask_of(0, &[2]), (vec![false], 3 + 1));
        // A third dictionary evicts the first, whose entries are tested again.
        assert_eq!(mask_of(2, &[0]), (vec![false], 5));
        assert_eq!(mask_of(0, &[2]), (vec![false], 6));
        let nothing = Column::absent(2);
        assert_eq!((predicate.mask(&nothing), tests.load(Ordering::Relaxed)), (vec![true; 2], 6));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn substring_search_agrees_with_the_test(
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
                dictionary.push(Value::Text(&"/".repeat(SEARCH_BYTES_MAX + 1)));
            }
            for text in &texts {
                dictionary.push(Value::Text(text));
                if text.len() == 1 {
                    dictionary.push(Value::Json("[\"a\"]"));
                    dictionary.push(Value::Bool(true));
                }
            }
            let parts: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
            let cached = parts.clone();
            let test = move |value: Option<Value<'_>>| {
                let text = value.map(|value| value.text().to_lowercase()).unwrap_or_default();
                (!text.is_empty() && cached.iter().any(|part| text.contains(part))) == pass_if_found
            };
            let parts = parts.iter().map(|part| Finder::new(part).into_owned()).collect();
            let search = SubstringSearch { needles: parts, pass_if_found };
            let codes: Vec<u32> = (0..dictionary.len() as u32).rev().collect();
            let column = Column { codes, dictionary: Arc::new(dictionary) };
            let expected = MemoizedPredicate::new(Box::new(test.clone()), None).mask(&column);
            prop_assert_eq!(MemoizedPredicate::new(Box::new(test), Some(search)).mask(&column), expected);
        }
    }
}
