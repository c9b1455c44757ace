//! Regular expressions of filters: compiled once, held in memory once, and within budgets.
//!
//! A compiled pattern may be ten thousand times as large as its text (`\w{20}` takes 1 MiB). So each
//! is compiled within the smallest of a few sizes that it fits into, and charged that size for as
//! long as a filter or the cache holds it. What is past the budget of its project matches nothing,
//! like a pattern that cannot be compiled; what is written is refused before ([`PatternQuota`]).

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fancy_regex::{Regex, RegexBuilder};

use super::FilterError;

/// Steps a pattern with look-around may take on one value; past it the value does not match.
const REGEX_STEPS_MAX: usize = 20_000;
/// Bytes a compiled pattern may take, and the lazy DFA that is built while it is used.
const SIZES: [Size; 5] = [
    Size { compiled_bytes: 16 << 10, dfa_bytes: 256 << 10 },
    Size { compiled_bytes: 32 << 10, dfa_bytes: 256 << 10 },
    Size { compiled_bytes: 64 << 10, dfa_bytes: 512 << 10 },
    Size { compiled_bytes: 128 << 10, dfa_bytes: 512 << 10 },
    Size { compiled_bytes: 1 << 20, dfa_bytes: 2 << 20 },
];
/// Longer patterns are programs, not filters.
pub const REGEX_CHARS_MAX: usize = 10_000;
/// Past it those that no filter uses are forgotten.
const REMEMBERED_MAX: usize = 1_000;
/// Of all patterns of one project; some thousand of the usual sizes.
const PROJECT_BYTES_MAX: usize = 64 << 20;
/// Different patterns in one flag or cohort that is written, and their bytes.
const WRITTEN_MAX: usize = 100;
const WRITTEN_BYTES_MAX: usize = 8 << 20;

#[derive(Clone, Copy)]
struct Size {
    compiled_bytes: usize,
    dfa_bytes: usize,
}

/// The patterns of one project. Clones remember together, and share one budget.
#[derive(Clone, Debug)]
pub struct Patterns {
    known: Arc<Mutex<HashMap<String, Arc<Pattern>>>>,
    budget: Arc<MemoryBudget>,
}

/// A compiled pattern, charged to a budget until it is dropped.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    bytes: usize,
    budget: Arc<MemoryBudget>,
}

#[derive(Debug)]
struct MemoryBudget {
    left_bytes: AtomicUsize,
    /// Times that there was no room for a pattern.
    rejected: AtomicUsize,
}

impl Default for Patterns {
    fn default() -> Self {
        Self::with_bytes_max(PROJECT_BYTES_MAX)
    }
}

impl Patterns {
    fn with_bytes_max(bytes_max: usize) -> Self {
        let budget =
            MemoryBudget { left_bytes: AtomicUsize::new(bytes_max), rejected: AtomicUsize::new(0) };
        Self { known: Arc::default(), budget: Arc::new(budget) }
    }

    /// How often a pattern was past the budget until now; a filter with such a one matches nothing.
    pub fn rejected(&self) -> usize {
        self.budget.rejected.load(Ordering::Relaxed)
    }

    pub(super) fn compile(&self, pattern: &str) -> Result<Arc<Pattern>, FilterError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(compiled) = known.get(pattern) {
            return Ok(compiled.clone());
        }
        if known.len() >= REMEMBERED_MAX {
            forget_unused(&mut known);
        }
        for size in SIZES {
            // Taken before it is compiled, which holds as much.
            if !self.budget.take(size.compiled_bytes) {
                forget_unused(&mut known);
                if !self.budget.take(size.compiled_bytes) {
                    self.budget.rejected.fetch_add(1, Ordering::Relaxed);
                    return Err(FilterError::Regex("the project's patterns are too large".into()));
                }
            }
            match compile(pattern, size) {
                Ok(regex) => {
                    let (bytes, budget) = (size.compiled_bytes, self.budget.clone());
                    let compiled = Arc::new(Pattern { regex, bytes, budget });
                    if known.len() < REMEMBERED_MAX {
                        known.insert(pattern.to_owned(), compiled.clone());
                    }
                    return Ok(compiled);
                }
                Err(why) => {
                    self.budget.give_back(size.compiled_bytes);
                    if size.compiled_bytes == SIZES[SIZES.len() - 1].compiled_bytes
                        || !is_too_large(&why)
                    {
                        return Err(FilterError::Regex(why.to_string()));
                    }
                }
            }
        }
        Err(FilterError::Regex("it is too large".into()))
    }
}

fn forget_unused(known: &mut HashMap<String, Arc<Pattern>>) {
    known.retain(|_, pattern| Arc::strong_count(pattern) > 1);
}

impl Deref for Pattern {
    type Target = Regex;

    fn deref(&self) -> &Regex {
        &self.regex
    }
}

impl Drop for Pattern {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

impl MemoryBudget {
    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What the patterns of one flag or cohort come to, while it is checked before it is stored.
#[derive(Debug, Default)]
pub struct PatternQuota {
    seen: HashSet<String>,
    bytes: usize,
    /// Whether one of them was not stored before.
    has_new: bool,
    /// Whether nothing is refused.
    is_unlimited: bool,
}

impl PatternQuota {
    /// Refuses a pattern that cannot be compiled, and one more than fits.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), FilterError> {
        if self.is_unlimited || self.seen.contains(pattern) {
            return Ok(());
        }
        if self.seen.len() >= WRITTEN_MAX {
            return Err(too_many());
        }
        self.bytes += bytes(pattern)?;
        if self.bytes > WRITTEN_BYTES_MAX {
            let most = format!("together they take more than {} MiB", WRITTEN_BYTES_MAX >> 20);
            return Err(FilterError::Regex(most));
        }
        self.seen.insert(pattern.to_owned());
        self.has_new = true;
        Ok(())
    }

    /// For what is stored already.
    pub fn unlimited() -> Self {
        Self { is_unlimited: true, ..Self::default() }
    }

    /// A pattern that is stored already is not judged again; it counts beside new ones.
    pub fn add_stored(&mut self, pattern: &str) {
        self.seen.insert(pattern.to_owned());
    }

    /// Refuses new patterns beside too many that are stored.
    pub fn check(&self) -> Result<(), FilterError> {
        match self.has_new && self.seen.len() > WRITTEN_MAX {
            true => Err(too_many()),
            false => Ok(()),
        }
    }
}

fn too_many() -> FilterError {
    FilterError::Regex(format!("there are more than {WRITTEN_MAX} different ones"))
}

/// The size that a pattern fits into, or why it cannot be compiled.
fn bytes(pattern: &str) -> Result<usize, FilterError> {
    let mut refused = None;
    for size in SIZES {
        match compile(pattern, size) {
            Ok(_) => return Ok(size.compiled_bytes),
            Err(why) if is_too_large(&why) => refused = Some(why),
            Err(why) => return Err(FilterError::Regex(why.to_string())),
        }
    }
    let why = refused.map_or_else(String::new, |why| why.to_string());
    Err(FilterError::Regex(why))
}

/// Whether more room may help; what is wrong with the text is wrong at any size.
fn is_too_large(why: &Refused) -> bool {
    matches!(why, Refused::Compile(fancy_regex::Error::CompileError(_)))
}

#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("longer than {REGEX_CHARS_MAX} characters")]
    Long,
    #[error(transparent)]
    Compile(#[from] fancy_regex::Error),
}

fn compile(pattern: &str, size: Size) -> Result<Regex, Refused> {
    if pattern.chars().count() > REGEX_CHARS_MAX {
        return Err(Refused::Long);
    }
    Ok(RegexBuilder::new(pattern)
        .backtrack_limit(REGEX_STEPS_MAX)
        .delegate_size_limit(size.compiled_bytes / parts_max(pattern))
        .delegate_dfa_size_limit(size.dfa_bytes)
        .delegate_dfa_skip_cache_capacity_check(false)
        .build()?)
}

/// Into how many parts look-around and its like may cut a pattern; each is compiled by itself, with
/// a limit of its own. One where there is nothing of the kind.
fn parts_max(pattern: &str) -> usize {
    const CUTS: [&str; 12] =
        ["(?=", "(?!", "(?<", "(?>", "(?(", "(?P", "(?R", "(?&", "*+", "++", "?+", "}+"];
    let cuts: usize = CUTS.iter().map(|cut| pattern.matches(cut).count()).sum();
    // Back references, `\K` and `\G`.
    let escapes = pattern.as_bytes().windows(2).filter(|pair| {
        pair[0] == b'\\' && (pair[1].is_ascii_digit() || b"kKgGh".contains(&pair[1]))
    });
    // A cut has a part before it, one within and one behind.
    1 + 2 * (cuts + escapes.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the largest of the sizes.
    fn large(number: usize) -> String {
        format!(r"^\w{{12}}{number}$")
    }

    #[test]
    fn a_pattern_is_charged_while_it_is_used() {
        let patterns = Patterns::with_bytes_max(2 << 20);
        let used = patterns.compile(&large(1)).unwrap();
        // What no filter uses makes room.
        for number in 2..50 {
            let compiled = patterns.compile(&large(number)).unwrap();
            assert!(compiled.is_match(&format!("abcdefghijkl{number}")).unwrap());
        }
        let second = patterns.compile(&large(50)).unwrap();
        assert_eq!(patterns.rejected(), 0);
        assert!(patterns.compile(&large(51)).is_err());
        assert_eq!(patterns.rejected(), 1);
        assert!(patterns.compile(r"^a+$").is_err(), "nothing is left");
        drop(second);
        assert!(patterns.compile(r"^a+$").unwrap().is_match("aa").unwrap());
        assert!(used.is_match("abcdefghijkl1").unwrap());
    }

    #[test]
    fn two_thousand_patterns_stay_within_the_budget_of_a_project() {
        let patterns = Patterns::default();
        let compiled: Vec<_> =
            (0..2_000).filter_map(|number| patterns.compile(&large(number)).ok()).collect();
        let bytes: usize = compiled.iter().map(|pattern| pattern.bytes).sum();
        assert!(!compiled.is_empty() && bytes <= PROJECT_BYTES_MAX, "{bytes}");
        let patterns = Patterns::default();
        let usual: Vec<_> = (0..2_000)
            .filter_map(|number| patterns.compile(&format!(r"@team{number}\.example\.com$")).ok())
            .collect();
        assert_eq!(usual.len(), 2_000);
        let patterns = Patterns::default();
        let words: Vec<_> = (0..1_000)
            .filter_map(|number| patterns.compile(&format!(r"^\w+@team{number}\.com$")).ok())
            .collect();
        assert_eq!((words.len(), patterns.rejected()), (1_000, 0));
    }

    #[test]
    fn what_is_written_is_bounded_in_number_and_size() {
        let mut quota = PatternQuota::default();
        for number in 0..WRITTEN_MAX {
            quota.add(&format!("^a{number}$")).unwrap();
            quota.add(&format!("^a{number}$")).unwrap();
        }
        assert!(quota.add("^one more$").is_err());
        let mut quota = PatternQuota::default();
        let fit = (0..WRITTEN_MAX).take_while(|number| quota.add(&large(*number)).is_ok()).count();
        assert_eq!(fit, WRITTEN_BYTES_MAX >> 20);
    }

    #[test]
    fn look_around_shares_the_room_of_its_pattern() {
        let many = r"(?=\w{12})".repeat(500);
        assert!(compile(&many, SIZES[SIZES.len() - 1]).is_err(), "500 parts of 1 MiB");
        for usual in [r"^(?!.*@test\.com$).+@corp\.com$", r"(?<=@)\w+(?=\.com)", r"(\w)\1"] {
            assert!(bytes(usual).is_ok(), "{usual}: {:?}", bytes(usual));
        }
    }

    #[test]
    fn a_broken_pattern_says_why() {
        for broken in ["(", "["] {
            assert!(bytes(broken).is_err(), "{broken}");
        }
        assert!(bytes(&"a".repeat(REGEX_CHARS_MAX + 1)).is_err());
    }
}
