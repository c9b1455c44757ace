//! Compiles and caches `LIKE` patterns and regular expressions.

use ahash::AHashMap;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use hogql::Span;
use memchr::memmem;
use regex::{Regex, RegexBuilder};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::limits::memory::MemoryCharge;
use crate::limits::meter;

/// Size classes: bytes of a compiled regex, and of the longest string it may search. A search cannot
/// be cancelled and takes time proportional to their product. Property values have at most 1 MiB, and
/// `LIKE` and hand-pattern_string patterns fit the first class.
const REGEX_SIZES: [(usize, usize); 3] =
    [(32 << 10, usize::MAX), (256 << 10, 16 << 20), (2 << 20, 2 << 20)];

/// Bytes of the lazy DFA's cache, per thread, in addition to the compiled regex.
const SEARCH_BYTES_MAX: usize = 512 * 1024;

/// Compiled patterns cached per column; when full, the cache is cleared.
const PATTERNS_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Like,
    ILike,
    Regex,
    CaseInsensitiveRegex,
}

#[derive(Debug)]
pub(crate) enum Matcher {
    Equals(String),
    StartsWith(String),
    EndsWith(String),
    Contains(Box<memmem::Finder<'static>>),
    Regex(Pattern),
}

impl Matcher {
    fn new(syntax: Syntax, pattern: &str, span: Span) -> Result<Self> {
        match syntax {
            Syntax::Like => {
                if let Some(simple) = simple_like(pattern) {
                    return Ok(simple);
                }
                regex(&like_regex(pattern), false, span).map(Self::Regex)
            }
            Syntax::ILike => regex(&like_regex(pattern), true, span).map(Self::Regex),
            Syntax::Regex => regex(pattern, false, span).map(Self::Regex),
            Syntax::CaseInsensitiveRegex => regex(pattern, true, span).map(Self::Regex),
        }
    }

    pub fn is_match(&self, text: &str) -> Result<bool> {
        Ok(match self {
            Self::Equals(expected) => text == expected,
            Self::StartsWith(start) => text.starts_with(start.as_str()),
            Self::EndsWith(end) => text.ends_with(end.as_str()),
            Self::Contains(part) => part.find(text.as_bytes()).is_some(),
            Self::Regex(pattern) => pattern.over(text)?.is_match(text),
        })
    }
}

/// A compiled regular expression and its memory charge.
#[derive(Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    text_bytes_max: usize,
    span: Span,
    _charge: Option<MemoryCharge>,
}

impl Pattern {
    /// The regex, after checking that the string is short enough for its size class.
    pub fn over(&self, text: &str) -> Result<&Regex> {
        if text.len() > self.text_bytes_max {
            let what = "bytes of a text for a regular expression of this size";
            return Err(Error::TooLarge { what, max: self.text_bytes_max, span: self.span });
        }
        // A search costs more per byte than other functions.
        meter::work(1 + text.len() / 4)?;
        Ok(&self.regex)
    }
}

/// Compiles RE2 syntax with ClickHouse's setting that a dot matches newlines.
pub(crate) fn regex(pattern: &str, case_insensitive: bool, span: Span) -> Result<Pattern> {
    let mut too_large = None;
    for (bytes, text_bytes_max) in REGEX_SIZES {
        meter::check()?;
        let search_bytes = SEARCH_BYTES_MAX.min(8 * bytes);
        let room = meter::charge(bytes + search_bytes)?;
        let built = RegexBuilder::new(pattern)
            .case_insensitive(case_insensitive)
            .dot_matches_new_line(true)
            .size_limit(bytes)
            .dfa_size_limit(search_bytes)
            .build();
        match built {
            Ok(regex) => return Ok(Pattern { regex, text_bytes_max, span, _charge: room }),
            Err(error @ regex::Error::CompiledTooBig(_)) => too_large = Some(error),
            Err(other) => return Err(invalid_regex(pattern, &other, span)),
        }
    }
    let too_large = too_large.unwrap_or(regex::Error::CompiledTooBig(0));
    Err(invalid_regex(pattern, &too_large, span))
}

fn invalid_regex(pattern: &str, error: &regex::Error, span: Span) -> Error {
    let why = match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        // The last line has the message; the lines before it draw the position.
        other => other.to_string().lines().last().unwrap_or_default().to_owned(),
    };
    Error::invalid(format!("Bad regular expression '{pattern}': {why}"), span)
}

/// A matcher without a regex, for patterns with `%` only at the ends.
fn simple_like(pattern: &str) -> Option<Matcher> {
    let inner = pattern.trim_matches('%');
    if inner.contains(['%', '_', '\\']) {
        return None;
    }
    let (start, end) = (pattern.starts_with('%'), pattern.ends_with('%'));
    Some(match (start, end) {
        (false, false) => Matcher::Equals(inner.to_owned()),
        (false, true) => Matcher::StartsWith(inner.to_owned()),
        (true, false) => Matcher::EndsWith(inner.to_owned()),
        (true, true) => {
            Matcher::Contains(Box::new(memmem::Finder::new(inner.as_bytes()).into_owned()))
        }
    })
}

/// Translates a `LIKE` pattern. A leading or trailing `%` omits the anchor, which is much faster than
/// matching `.*`.
fn like_regex(pattern: &str) -> String {
    let inner = pattern.trim_start_matches('%');
    let mut regex = String::from(if inner.len() < pattern.len() { "(?:" } else { "^(?:" });
    let open = inner.trim_end_matches('%');
    // An escaped `%` at the end is a literal.
    let escaped = open.len() - open.trim_end_matches('\\').len();
    let (inner, end) = match escaped % 2 {
        0 if open.len() < inner.len() => (open, ")"),
        _ => (inner, ")$"),
    };
    let mut chars = inner.chars();
    let mut literal = [0u8; 4];
    while let Some(one) = chars.next() {
        match one {
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '\\' => match chars.next() {
                Some(next @ ('%' | '_' | '\\')) => {
                    regex.push_str(&regex::escape(next.encode_utf8(&mut literal)));
                }
                // A backslash before another character is a literal backslash.
                Some(next) => {
                    regex.push_str("\\\\");
                    regex.push_str(&regex::escape(next.encode_utf8(&mut literal)));
                }
                None => regex.push_str("\\\\"),
            },
            other => regex.push_str(&regex::escape(other.encode_utf8(&mut literal))),
        }
    }
    regex.push_str(end);
    regex
}

/// One matcher for a constant pattern, or a cache of matchers for a column of patterns.
#[derive(Clone, Debug)]
pub(crate) struct Matchers {
    syntax: Syntax,
    span: Span,
    constant: Option<Arc<Matcher>>,
    cache: AHashMap<String, Arc<Matcher>>,
}

impl Matchers {
    pub fn new(syntax: Syntax, pattern: Option<&ArrayRef>, span: Span) -> Result<Self> {
        let constant = match pattern.filter(|pattern| pattern.is_valid(0)) {
            Some(pattern) => {
                Some(Arc::new(Matcher::new(syntax, pattern.as_string::<i32>().value(0), span)?))
            }
            None => None,
        };
        Ok(Self { syntax, span, constant, cache: AHashMap::new() })
    }

    pub fn may_fail(&self) -> bool {
        self.constant.is_none()
            && matches!(self.syntax, Syntax::Regex | Syntax::CaseInsensitiveRegex)
    }

    pub fn of<'t>(&mut self, pattern: impl FnOnce() -> &'t str) -> Result<&Matcher> {
        if let Some(matcher) = &self.constant {
            return Ok(matcher);
        }
        let pattern = pattern();
        if !self.cache.contains_key(pattern) {
            if self.cache.len() >= PATTERNS_MAX {
                self.cache.clear();
            }
            let matcher = Matcher::new(self.syntax, pattern, self.span)?;
            self.cache.insert(pattern.to_owned(), Arc::new(matcher));
        }
        Ok(&self.cache[pattern])
    }
}

/// As [`Matchers`], but always a regex: for functions that need capture groups.
#[derive(Clone, Debug)]
pub(crate) struct Regexes {
    span: Span,
    constant: Option<Arc<Pattern>>,
    cache: AHashMap<String, Arc<Pattern>>,
}

impl Regexes {
    pub fn new(pattern: Option<&ArrayRef>, span: Span) -> Result<Self> {
        let constant = match pattern.filter(|pattern| pattern.is_valid(0)) {
            Some(pattern) => {
                Some(Arc::new(regex(pattern.as_string::<i32>().value(0), false, span)?))
            }
            None => None,
        };
        Ok(Self { span, constant, cache: AHashMap::new() })
    }

    pub fn may_fail(&self) -> bool {
        self.constant.is_none()
    }

    pub fn of<'t>(&mut self, pattern: impl FnOnce() -> &'t str) -> Result<&Pattern> {
        if let Some(regex) = &self.constant {
            return Ok(regex);
        }
        let pattern = pattern();
        if !self.cache.contains_key(pattern) {
            if self.cache.len() >= PATTERNS_MAX {
                self.cache.clear();
            }
            let compiled = Arc::new(regex(pattern, false, self.span)?);
            self.cache.insert(pattern.to_owned(), compiled);
        }
        Ok(&self.cache[pattern])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation of `LIKE`, character by character.
    fn is_like(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|from| is_like(rest, &text[from..])),
            ['_', rest @ ..] => !text.is_empty() && is_like(rest, &text[1..]),
            ['\\', one @ ('%' | '_' | '\\'), rest @ ..] | [one, rest @ ..] => {
                text.first() == Some(one) && is_like(rest, &text[1..])
            }
        }
    }

    fn all(letters: &[char], length: usize) -> Vec<Vec<char>> {
        let mut groups = vec![Vec::new()];
        for from in 0..length {
            let longer = groups.iter().filter(|one: &&Vec<char>| one.len() == from);
            let longer =
                longer.flat_map(|one| letters.iter().map(|next| [&one[..], &[*next]].concat()));
            let longer: Vec<_> = longer.collect();
            groups.extend(longer);
        }
        groups
    }

    #[test]
    fn like_agrees_with_its_reference_on_every_short_pattern() {
        let strings = all(&['a', '%', '\\', '\n'], 3);
        for pattern in all(&['a', '%', '_', '\\'], 4) {
            let pattern_string: String = pattern.iter().collect();
            for syntax in [Syntax::Like, Syntax::ILike] {
                let matcher = Matcher::new(syntax, &pattern_string, Span::default()).unwrap();
                for text in &strings {
                    let string: String = text.iter().collect();
                    let expected = is_like(&pattern, text);
                    assert_eq!(
                        matcher.is_match(&string).unwrap(),
                        expected,
                        "{pattern_string:?} {string:?}"
                    );
                }
            }
        }
    }
}
