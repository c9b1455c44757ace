//! Patterns that several filters share: compiled once and held in memory once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fancy_regex::{Regex, RegexBuilder};

use super::FilterError;

/// Steps a pattern with look-around may take on one value; past it the value does not match.
const REGEX_STEPS_MAX: usize = 20_000;
/// Bytes a compiled pattern may take.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// Longer patterns are programs, not filters.
pub const REGEX_CHARS_MAX: usize = 10_000;
/// Past it all are forgotten; filters keep those they have.
const REMEMBERED_MAX: usize = 1_000;

/// Clones remember together.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Arc<Mutex<HashMap<String, Arc<Regex>>>>);

impl Patterns {
    pub(super) fn compile(&self, pattern: &str) -> Result<Arc<Regex>, FilterError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = known.get(pattern) {
            return Ok(regex.clone());
        }
        let regex = Arc::new(regex(pattern)?);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }
}

pub(super) fn regex(pattern: &str) -> Result<Regex, FilterError> {
    if pattern.chars().count() > REGEX_CHARS_MAX {
        return Err(FilterError::Regex(format!("longer than {REGEX_CHARS_MAX} characters")));
    }
    RegexBuilder::new(pattern)
        .backtrack_limit(REGEX_STEPS_MAX)
        .delegate_size_limit(REGEX_BYTES_MAX)
        .build()
        .map_err(|why| FilterError::Regex(why.to_string()))
}
