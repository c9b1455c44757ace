//! The meaning of property filters in queries, as an expression tree.
//!
//! A filter is parsed and validated once ([`FilterExpr::parse`]) and its operator lowered: lists,
//! negation, absent values, numbers, dates and letter case become nodes. `facts` compiles the tree to
//! predicates over columns and `query` prints it as HogQL; both must keep the same rows. Flags and
//! cohorts of persons have another meaning on purpose ([`crate::property`]).
//!
//! A stored value is a JSON value. Null and the empty string count as absent. Every other value has a
//! string: a JSON string itself, anything else its JSON text.

mod parse;

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::property::VersionRange;
use crate::{CohortId, Timestamp, Zone};
pub use parse::IS_CLEANED_PATH_EXACT;

/// Size limit of a compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;
const REGEX_CHARS_MAX: usize = 10_000;

/// A condition on rows.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterExpr {
    /// All rows if it is empty.
    And(Vec<FilterExpr>),
    /// No row if it is empty.
    Or(Vec<FilterExpr>),
    Not(Box<FilterExpr>),
    /// Rows in which some value of the field passes the test. An absent value passes no test.
    Test(Field, ValueTest),
    /// Rows of the cohort's members.
    InCohort(CohortId),
    /// Rows for which a HogQL expression is true.
    Hogql(String),
}

impl Default for FilterExpr {
    fn default() -> Self {
        Self::And(Vec::new())
    }
}

/// What a filter compares.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    EventProperty(String),
    /// A column of `events` that is no property.
    EventColumn(String),
    /// A part of each element in the event's chain.
    Element(ElementPart),
    PersonProperty(String),
    /// The UUID of the person.
    PersonId,
    /// Each distinct id of the person.
    DistinctIds,
    GroupProperty {
        /// The group type; none if the rows are groups themselves.
        index: Option<usize>,
        key: String,
    },
    SessionField(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementPart {
    Text,
    Href,
    TagName,
}

/// A condition on one stored value that is not absent.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueTest {
    /// Every value passes.
    Present,
    And(Vec<ValueTest>),
    /// No value passes if it is empty.
    Or(Vec<ValueTest>),
    Not(Box<ValueTest>),
    /// The value is a JSON number.
    IsNumber,
    /// The string is one of these.
    TextIn(Vec<String>),
    /// Compares the string's bytes.
    Text(Comparison, String),
    /// The number, see [`parse_number`], is one of these.
    NumberIn(Vec<f64>),
    /// Compares the number; a value that is none does not pass.
    Number(Comparison, f64),
    /// The string without case, see [`fold_case`], contains one of these.
    ContainsAny(Vec<String>),
    /// The string without case starts with this.
    StartsWith(String),
    /// The string without case ends with this.
    EndsWith(String),
    /// One of these regular expressions matches, see [`compile_pattern`].
    MatchesAny(Vec<String>),
    /// Compares the time, see [`parse_stored_time`]; a value that is none does not pass.
    Time(Comparison, Timestamp),
    /// The string is a version in this range.
    Version(VersionRange),
    /// After path cleaning the string is one of these.
    CleanedPathIn(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// An operator with its value, lowered: which values of a field pass.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorTest {
    pub test: ValueTest,
    /// Rows pass in which no value passes the test.
    pub negated: bool,
}

impl OperatorTest {
    /// Every row passes.
    const ALWAYS: Self = Self { test: ValueTest::Or(Vec::new()), negated: true };
}

/// The table whose rows are filtered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilteredRows {
    Events,
    Persons,
    Groups,
}

/// A filter that queries cannot use; the message is meant for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidFilter(pub String);

/// Folds case: each character alone, so that a string contains its parts whatever follows them.
pub fn fold_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// The number that a string is, without the spaces around it. Infinities are none.
pub fn parse_number(text: &str) -> Option<f64> {
    text.trim_matches(' ').parse().ok().filter(|number: &f64| number.is_finite())
}

/// The strings that [`parse_stored_time`] parses as dates: ISO 8601.
pub const STORED_DATE_PATTERN: &str = concat!(
    "^([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "([T ][0-9]{2}:[0-9]{2}(:[0-5][0-9]([.][0-9]{1,9})?)?",
    "(Z|[+-](0[0-9]|1[0-8]):?[0-5][0-9])?)?)$",
);

static STORED_DATE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(STORED_DATE_PATTERN).ok());

/// The time that a stored string is: a date of [`STORED_DATE_PATTERN`], in the project's zone unless
/// it has an offset, or else Unix seconds.
pub fn parse_stored_time(text: &str, zone: &Zone) -> Option<Timestamp> {
    if STORED_DATE.as_ref().is_some_and(|pattern| pattern.is_match(text)) {
        return crate::dates::stored(text, zone);
    }
    let micros = parse_number(text)? * 1e6;
    (micros.abs() < i64::MAX as f64).then(|| Timestamp::from_micros(micros as i64))
}

/// Compiles a regular expression of a filter: RE2's syntax, and as in ClickHouse a dot matches line
/// ends too.
pub fn compile_pattern(pattern: &str) -> Result<Regex, InvalidFilter> {
    let invalid = |why: &str| InvalidFilter(format!("Invalid regex: {why}"));
    if pattern.chars().count() > REGEX_CHARS_MAX {
        return Err(invalid(&format!("longer than {REGEX_CHARS_MAX} characters")));
    }
    let built =
        RegexBuilder::new(pattern).dot_matches_new_line(true).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|why| invalid(&why.to_string()))
}

#[cfg(test)]
mod tests;
