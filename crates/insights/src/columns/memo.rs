//! Memoization by dictionary entry: a function of a column's value runs once per entry, not per row.

use std::sync::Arc;

use warehouse::{ABSENT, Column, Dictionary, Value};

use super::interner::StringInterner;

/// Memoized results for the entries of one dictionary, filled when a row first uses an entry.
#[derive(Debug)]
pub(crate) struct DictionaryMemo<T> {
    dictionary: Option<Arc<Dictionary>>,
    results: Vec<Option<T>>,
}

impl<T> Default for DictionaryMemo<T> {
    fn default() -> Self {
        Self { dictionary: None, results: Vec::new() }
    }
}

impl<T: Copy> DictionaryMemo<T> {
    /// Clears the results unless the dictionary is the same; parts of one row group share theirs.
    fn switch_to(&mut self, dictionary: &Arc<Dictionary>) {
        let same = self.dictionary.as_ref().is_some_and(|current| Arc::ptr_eq(current, dictionary));
        if !same {
            self.dictionary = Some(dictionary.clone());
            self.results.clear();
            self.results.resize(dictionary.len(), None);
        }
    }

    /// For each row the result of `compute` for its value, or `absent` if it has none.
    pub fn each_row(
        &mut self,
        column: &Column,
        absent: T,
        mut compute: impl FnMut(Value<'_>) -> T,
    ) -> Vec<T> {
        self.switch_to(&column.dictionary);
        let mut computed = Vec::new();
        let known = |code: u32| self.results[code as usize].is_some();
        let dictionary = &*column.dictionary;
        dictionary.for_each_used(&column.codes, known, |code| {
            computed.push((code, compute(dictionary.get(code))));
        });
        computed.into_iter().for_each(|(code, result)| self.results[code as usize] = Some(result));
        self.rows(column, absent)
    }

    fn rows(&self, column: &Column, absent: T) -> Vec<T> {
        let row = |code: &u32| match *code {
            ABSENT => absent,
            code => self.results[code as usize].unwrap_or(absent),
        };
        column.codes.iter().map(row).collect()
    }
}

impl DictionaryMemo<u32> {
    /// For each row `first` plus the interned id of its string, or `absent` if it has none.
    pub fn each_text(
        &mut self,
        column: &Column,
        absent: u32,
        (interner, first): (&StringInterner, u32),
        text: impl Fn(Value<'_>) -> Option<&str>,
    ) -> Vec<u32> {
        self.switch_to(&column.dictionary);
        let (mut new, mut without) = (Vec::new(), Vec::new());
        let known = |code: u32| self.results[code as usize].is_some();
        let dictionary = &*column.dictionary;
        dictionary.for_each_used(&column.codes, known, |code| match text(dictionary.get(code)) {
            Some(text) => new.push((code, text)),
            None => without.push(code),
        });
        without.into_iter().for_each(|code| self.results[code as usize] = Some(absent));
        interner.intern_all(&new, |code, id| self.results[code as usize] = Some(first + id));
        self.rows(column, absent)
    }
}
