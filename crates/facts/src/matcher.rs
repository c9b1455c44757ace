//! Compiles tests of stored values: the `query` semantics of property operators, which
//! [`model::filter_expr`] defines.

use std::cmp::Ordering;
use std::sync::Arc;

use memchr::memmem::Finder;
use model::filter_expr::{
    Comparison, OperatorTest, ValueTest, compile_pattern, fold_case, parse_number,
    parse_stored_time,
};
use model::property::{Operator, VersionRange};
use model::{Timestamp, Zone};
use regex::Regex;
use serde_json::Value as Json;
use warehouse::{SubstringSearch, Value};

use crate::Result;
use crate::path_cleaning::PathCleaning;

/// Longest string that is lower-cased on the stack.
const SHORT_BYTES_MAX: usize = 256;

/// A compiled test of a field's values.
#[derive(Clone, Debug)]
pub struct Matcher {
    negated: bool,
    test: Test,
    zone: Zone,
    cleaning: Arc<PathCleaning>,
}

/// A compiled [`ValueTest`].
#[derive(Clone, Debug)]
enum Test {
    Present,
    And(Vec<Test>),
    Or(Vec<Test>),
    Not(Box<Test>),
    IsNumber,
    TextIn(Vec<String>),
    Text(Comparison, String),
    NumberIn(Vec<f64>),
    Number(Comparison, f64),
    ContainsAny(Vec<Finder<'static>>),
    StartsWith(String),
    EndsWith(String),
    MatchesAny(Vec<Regex>),
    Time(Comparison, Timestamp),
    Version(VersionRange),
    CleanedPathIn(Vec<String>),
}

/// A stored value that is not absent.
struct Stored<'a> {
    text: &'a str,
    is_number: bool,
}

impl<'a> Stored<'a> {
    /// Null and the empty string are absent.
    fn read(value: Option<Value<'a>>) -> Option<Self> {
        let (text, is_number) = match value? {
            Value::Null | Value::Text("") => return None,
            Value::Bool(true) => ("true", false),
            Value::Bool(false) => ("false", false),
            Value::Number(literal) => (literal, true),
            Value::Text(text) | Value::Json(text) => (text, false),
        };
        Some(Self { text, is_number })
    }
}

impl Matcher {
    pub fn new(operator: Operator, value: &Json, now: Timestamp, zone: &Zone) -> Result<Self> {
        let OperatorTest { test, negated } = OperatorTest::lower(operator, value, now, zone)?;
        Self::compile(&test, negated, zone)
    }

    /// `negated` accepts what the test does not, absent values too.
    pub(crate) fn compile(test: &ValueTest, negated: bool, zone: &Zone) -> Result<Self> {
        let test = Test::compile(test)?;
        Ok(Self { negated, test, zone: zone.clone(), cleaning: Arc::default() })
    }

    pub(crate) fn with_cleaning(&self, rules: &Arc<PathCleaning>) -> Self {
        Self { cleaning: rules.clone(), ..self.clone() }
    }

    /// The substring search that this matcher performs, if it is one.
    pub(crate) fn search(&self) -> Option<SubstringSearch> {
        let Test::ContainsAny(parts) = &self.test else { return None };
        let all_have_letters = parts.iter().all(|part| !part.needle().is_empty());
        let search = || SubstringSearch { needles: parts.clone(), pass_if_found: !self.negated };
        all_have_letters.then(search)
    }

    /// Whether a stored value matches; `None` is an absent value.
    pub fn accepts(&self, value: Option<Value<'_>>) -> bool {
        Stored::read(value).is_some_and(|stored| self.test.passes(&stored, self)) != self.negated
    }
}

impl Test {
    fn compile(test: &ValueTest) -> Result<Self> {
        let all = |tests: &[ValueTest]| tests.iter().map(Self::compile).collect::<Result<_>>();
        let finder = |part: &String| Finder::new(part).into_owned();
        Ok(match test {
            ValueTest::Present => Self::Present,
            ValueTest::And(tests) => Self::And(all(tests)?),
            ValueTest::Or(tests) => Self::Or(all(tests)?),
            ValueTest::Not(test) => Self::Not(Box::new(Self::compile(test)?)),
            ValueTest::IsNumber => Self::IsNumber,
            ValueTest::TextIn(texts) => Self::TextIn(texts.clone()),
            ValueTest::Text(comparison, bound) => Self::Text(*comparison, bound.clone()),
            ValueTest::NumberIn(numbers) => Self::NumberIn(numbers.clone()),
            ValueTest::Number(comparison, bound) => Self::Number(*comparison, *bound),
            ValueTest::ContainsAny(parts) => Self::ContainsAny(parts.iter().map(finder).collect()),
            ValueTest::StartsWith(part) => Self::StartsWith(part.clone()),
            ValueTest::EndsWith(part) => Self::EndsWith(part.clone()),
            ValueTest::MatchesAny(patterns) => {
                let patterns = patterns.iter().map(|pattern| compile_pattern(pattern));
                Self::MatchesAny(patterns.collect::<std::result::Result<_, _>>()?)
            }
            ValueTest::Time(comparison, bound) => Self::Time(*comparison, *bound),
            ValueTest::Version(range) => Self::Version(range.clone()),
            ValueTest::CleanedPathIn(texts) => Self::CleanedPathIn(texts.clone()),
        })
    }

    fn passes(&self, stored: &Stored<'_>, of: &Matcher) -> bool {
        let text = stored.text;
        match self {
            Self::Present => true,
            Self::And(tests) => tests.iter().all(|test| test.passes(stored, of)),
            Self::Or(tests) => tests.iter().any(|test| test.passes(stored, of)),
            Self::Not(test) => !test.passes(stored, of),
            Self::IsNumber => stored.is_number,
            Self::TextIn(texts) => texts.iter().any(|one| one == text),
            Self::Text(comparison, bound) => comparison.holds(text.cmp(bound.as_str())),
            Self::NumberIn(numbers) => {
                parse_number(text).is_some_and(|number| numbers.contains(&number))
            }
            Self::Number(comparison, bound) => {
                let order = |number: f64| number.partial_cmp(bound);
                let order: Option<Ordering> = parse_number(text).and_then(order);
                order.is_some_and(|order| comparison.holds(order))
            }
            Self::ContainsAny(parts) => {
                in_lower_case(text, |text| parts.iter().any(|part| part.find(text).is_some()))
            }
            Self::StartsWith(part) => in_lower_case(text, |text| text.starts_with(part.as_bytes())),
            Self::EndsWith(part) => in_lower_case(text, |text| text.ends_with(part.as_bytes())),
            Self::MatchesAny(patterns) => patterns.iter().any(|pattern| pattern.is_match(text)),
            Self::Time(comparison, bound) => {
                let time = parse_stored_time(text, &of.zone);
                time.is_some_and(|time| comparison.holds(time.cmp(bound)))
            }
            Self::Version(range) => range.contains(text) == Some(true),
            Self::CleanedPathIn(texts) => {
                let cleaned = of.cleaning.clean(text);
                texts.iter().any(|text| *text == cleaned)
            }
        }
    }
}

/// Calls `each` with the lower-cased string. Short ASCII strings, which are most, are not allocated.
fn in_lower_case<T>(text: &str, each: impl FnOnce(&[u8]) -> T) -> T {
    let mut short = [0; SHORT_BYTES_MAX];
    if let Some(buffer) = short.get_mut(..text.len())
        && text.is_ascii()
    {
        buffer.copy_from_slice(text.as_bytes());
        buffer.make_ascii_lowercase();
        return each(buffer);
    }
    each(fold_case(text).as_bytes())
}

/// Validates a regex for use in filters.
pub fn check_pattern(pattern: &str) -> Result<()> {
    compile_pattern(pattern)?;
    Ok(())
}

#[cfg(test)]
mod tests;
