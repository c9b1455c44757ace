//! Regular expressions of filters: compiled once per project, shared, and bounded in memory.
//!
//! A compiled pattern can be ten thousand times the size of its source (`\w{20}` takes 1 MiB). So
//! each is compiled in the smallest size class that it fits, and charged for that size while a
//! filter or the cache holds it. A pattern beyond its project's budget matches nothing, like an
//! invalid one. [`PatternQuota`] rejects such patterns before they are stored.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fancy_regex::{Regex, RegexBuilder};

use super::FilterError;

/// Backtracking steps of a pattern with look-around on one value; beyond it the value does not match.
const REGEX_STEPS_MAX: usize = 20_000;
/// Size classes: bytes of the compiled pattern, and of the lazy DFA that matching builds.
const SIZES: [Size; 5] = [
    Size { compiled_bytes: 16 << 10, dfa_bytes: 256 << 10 },
    Size { compiled_bytes: 32 << 10, dfa_bytes: 256 << 10 },
    Size { compiled_bytes: 64 << 10, dfa_bytes: 512 << 10 },
    Size { compiled_bytes: 128 << 10, dfa_bytes: 512 << 10 },
    Size { compiled_bytes: 1 << 20, dfa_bytes: 2 << 20 },
];
/// Characters in the source of a pattern. Our bound.
pub const REGEX_CHARS_MAX: usize = 10_000;
/// Patterns in a project's cache; when full, those that no filter uses are evicted.
const REMEMBERED_MAX: usize = 1_000;
/// Budget of a project's compiled patterns: some thousands of typical size.
const PROJECT_BYTES_MAX: usize = 64 << 20;
/// Distinct new patterns in one flag or cohort, and their compiled bytes.
const WRITTEN_MAX: usize = 100;
const WRITTEN_BYTES_MAX: usize = 8 << 20;

#[derive(Clone, Copy)]
struct Size {
    compiled_bytes: usize,
    dfa_bytes: usize,
}

/// The pattern cache of one project. Clones share it and its budget.
#[derive(Clone, Debug)]
pub struct Patterns {
    known: Arc<Mutex<HashMap<String, Arc<Pattern>>>>,
    budget: Arc<MemoryBudget>,
}

/// A compiled pattern; holds its share of the budget until it is dropped.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    bytes: usize,
    budget: Arc<MemoryBudget>,
}

#[derive(Debug)]
struct MemoryBudget {
    left_bytes: AtomicUsize,
    /// Patterns that were over budget, counted at each attempt.
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

    /// How often a pattern was over budget. Filters with such a pattern match nothing.
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
            // Reserved first: compiling itself takes that much memory.
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

/// Counts the patterns of one flag or cohort against the limits while it is validated.
#[derive(Debug, Default)]
pub struct PatternQuota {
    patterns: HashSet<String>,
    bytes: usize,
    /// Whether one of them is new.
    has_new: bool,
    /// Accept every pattern.
    is_unlimited: bool,
}

impl PatternQuota {
    /// Rejects a pattern that is invalid or exceeds a limit.
    pub(super) fn add(&mut self, pattern: &str) -> Result<(), FilterError> {
        if self.is_unlimited || self.patterns.contains(pattern) {
            return Ok(());
        }
        if self.patterns.len() >= WRITTEN_MAX {
            return Err(too_many());
        }
        self.bytes += bytes(pattern)?;
        if self.bytes > WRITTEN_BYTES_MAX {
            let most = format!("together they take more than {} MiB", WRITTEN_BYTES_MAX >> 20);
            return Err(FilterError::Regex(most));
        }
        self.patterns.insert(pattern.to_owned());
        self.has_new = true;
        Ok(())
    }

    /// For filters that are stored already.
    pub fn unlimited() -> Self {
        Self { is_unlimited: true, ..Self::default() }
    }

    /// Counts a stored pattern, without validating it again.
    pub fn add_stored(&mut self, pattern: &str) {
        self.patterns.insert(pattern.to_owned());
    }

    /// Rejects new patterns when they and the stored ones exceed the limit.
    pub fn check(&self) -> Result<(), FilterError> {
        match self.has_new && self.patterns.len() > WRITTEN_MAX {
            true => Err(too_many()),
            false => Ok(()),
        }
    }
}

fn too_many() -> FilterError {
    FilterError::Regex(format!("there are more than {WRITTEN_MAX} different ones"))
}

/// The size class of a pattern in bytes, or why it cannot be compiled.
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

/// Whether a larger size class may help; a syntax error fails in all of them.
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

/// Upper bound of the parts that fancy-regex compiles separately, each with a limit of its own:
/// look-around, back references and the like split a pattern. One without any of these.
fn parts_max(pattern: &str) -> usize {
    const CUTS: [&str; 12] =
        ["(?=", "(?!", "(?<", "(?>", "(?(", "(?P", "(?R", "(?&", "*+", "++", "?+", "}+"];
    let cuts: usize = CUTS.iter().map(|cut| pattern.matches(cut).count()).sum();
    // Back references, `\K` and `\G`.
    let escapes = pattern.as_bytes().windows(2).filter(|pair| {
        pair[0] == b'\\' && (pair[1].is_ascii_digit() || b"kKgGh".contains(&pair[1]))
    });
    // Each split adds a part inside and one after it.
    1 + 2 * (cuts + escapes.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pattern of the largest size class.
    fn large(number: usize) -> String {
        format!(r"^\w{{12}}{number}$")
    }

    #[test]
    fn pattern_budget_is_released_when_a_pattern_is_dropped() {
        let patterns = Patterns::with_bytes_max(2 << 20);
        let used = patterns.compile(&large(1)).unwrap();
        // Unused patterns are evicted.
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
    fn two_thousand_patterns_stay_within_the_project_budget() {
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
    fn pattern_quota_bounds_count_and_size() {
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
    fn parts_of_a_look_around_pattern_share_its_size_limit() {
        let many = r"(?=\w{12})".repeat(500);
        assert!(compile(&many, SIZES[SIZES.len() - 1]).is_err(), "500 parts of 1 MiB");
        for usual in [r"^(?!.*@test\.com$).+@corp\.com$", r"(?<=@)\w+(?=\.com)", r"(\w)\1"] {
            assert!(bytes(usual).is_ok(), "{usual}: {:?}", bytes(usual));
        }
    }

    #[test]
    fn invalid_pattern_is_an_error() {
        for broken in ["(", "["] {
            assert!(bytes(broken).is_err(), "{broken}");
        }
        assert!(bytes(&"a".repeat(REGEX_CHARS_MAX + 1)).is_err());
    }
}
