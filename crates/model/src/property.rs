//! Property filters and their semantics for properties in memory.
//!
//! These are the `flag` semantics of the operators: feature flags, cohorts, blast radius and dry run
//! use them. A filter is compiled once and evaluated many times.

mod behavioral;
mod date;
mod operator;
mod patterns;
mod semver;
mod tree;

use std::borrow::Cow;
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::Timestamp;
pub use behavioral::{BehavioralFilter, Comparison, EventOrAction, Frequency, event_cohorts};
use date::FilterDate;
pub use operator::Operator;
use patterns::Pattern;
pub use patterns::{PatternQuota, Patterns, REGEX_CHARS_MAX};
use semver::Range;
pub use semver::{Identifier, Range as VersionRange, Version};
pub use tree::{DEPTH_MAX, ExternalCondition, Node};

/// How `exact` and `is_not` treat "true" and "false" in a project (`property_matching_version`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booleans {
    /// Version 1: a filter for true or false compares truthiness.
    Truthiness,
    /// Version 2: they are ordinary strings.
    Text,
}

/// A source of the properties of a person or a group.
pub trait Properties {
    fn property(&self, key: &str) -> Option<&Value>;
}

impl Properties for Map<String, Value> {
    fn property(&self, key: &str) -> Option<&Value> {
        self.get(key)
    }
}

/// Project settings that affect matching.
#[derive(Clone, Debug)]
pub struct Dialect {
    pub booleans: Booleans,
    /// Time zone of dates without an offset.
    pub zone: TimeZone,
    pub patterns: Patterns,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { booleans: Booleans::Truthiness, zone: TimeZone::UTC, patterns: Patterns::default() }
    }
}

/// Why a filter is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error("'{0}' is not an operator.")]
    UnknownOperator(String),
    #[error("Operator '{0}' needs {1}.")]
    Value(&'static str, &'static str),
    #[error("Invalid regex: {0}")]
    Regex(String),
    #[error("{0}")]
    Shape(&'static str),
}

/// `exact` compares lists up to this length one by one, without allocating; longer ones by binary
/// search.
const SHORT_LIST: usize = 8;
/// Strings in a filter of `icontains_multi`: each is searched for in turn.
const PARTS_MAX: usize = 1_000;

/// One compiled comparison.
#[derive(Clone, Debug)]
pub struct PropertyFilter {
    pub key: String,
    pub operator: Operator,
    test: Test,
    /// Fallback for a missing `$initial_x`: `$x`, then `x`.
    counterpart: Option<String>,
}

#[derive(Clone, Debug)]
enum Test {
    /// The filter's value cannot be compared with anything: no property matches.
    Nothing,
    /// The filter's value is null: nothing matches, not even a missing property.
    Absent,
    Truthy(bool),
    /// Lower case, sorted, without duplicates.
    Texts(Vec<String>),
    /// ASCII lower case.
    Contains(Vec<String>),
    Starts(String),
    Ends(String),
    Regex(Arc<Pattern>),
    Number(f64),
    Between(f64, f64),
    Set,
    Date(FilterDate, TimeZone),
    Version(Range),
}

impl PropertyFilter {
    /// Never fails: an invalid filter matches nothing, as stored filters may predate the rules.
    /// [`check`] validates a filter before it is stored.
    pub fn compile(key: &str, operator: Operator, value: &Value, dialect: &Dialect) -> Self {
        let counterpart = key.strip_prefix("$initial_").map(|rest| format!("${rest}"));
        let test = Test::compile(operator, value, dialect);
        Self { key: key.to_owned(), operator, test, counterpart }
    }

    /// The properties that it reads, in the order of [`PropertyFilter::find`].
    fn properties(&self) -> impl Iterator<Item = &str> {
        let current = self.counterpart.as_deref();
        let without_dollar = current.map(|current| &current[1..]);
        std::iter::once(self.key.as_str()).chain(current).chain(without_dollar)
    }

    /// The property that this filter tests.
    pub fn find<'p>(&self, properties: &'p (impl Properties + ?Sized)) -> Option<&'p Value> {
        self.properties().find_map(|name| properties.property(name))
    }

    pub fn matches(&self, properties: &(impl Properties + ?Sized), now: Timestamp) -> bool {
        self.accepts(self.find(properties), now)
    }

    /// Whether a value, or a missing property, matches.
    pub fn accepts(&self, value: Option<&Value>, now: Timestamp) -> bool {
        let negative = self.operator.is_negative();
        match (&self.test, value) {
            (Test::Absent, _) => false,
            (_, None) => negative,
            // If the comparison is undefined, neither an operator nor its negation matches.
            (test, Some(value)) => {
                test.decide(self.operator, value, now).is_some_and(|fits| fits != negative)
            }
        }
    }
}

impl Test {
    fn compile(operator: Operator, value: &Value, dialect: &Dialect) -> Self {
        use Operator as O;
        if matches!(operator, O::IsSet | O::IsNotSet) {
            return Self::Set;
        }
        if value.is_null() {
            return Self::Absent;
        }
        let compiled = match operator {
            O::Exact | O::IsNot => Some(Self::exact(value, dialect.booleans)),
            O::IContains | O::NotIContains => Some(Self::Contains(vec![lowered(value)])),
            O::IContainsMulti | O::NotIContainsMulti => {
                value.as_array().map(|all| Self::Contains(all.iter().map(lowered).collect()))
            }
            O::StartsWith | O::NotStartsWith => Some(Self::Starts(lowered(value))),
            O::EndsWith | O::NotEndsWith => Some(Self::Ends(lowered(value))),
            O::Regex | O::NotRegex => dialect.patterns.compile(&text(value)).ok().map(Self::Regex),
            O::Gt | O::Gte | O::Lt | O::Lte => number(value).map(Self::Number),
            O::Between | O::NotBetween => match value.as_array().map(Vec::as_slice) {
                Some([low, high]) => {
                    number(low).zip(number(high)).map(|(low, high)| Self::Between(low, high))
                }
                _ => None,
            },
            O::IsDateBefore | O::IsDateAfter | O::IsDateExact => {
                FilterDate::parse(&text(value), &dialect.zone)
                    .map(|date| Self::Date(date, dialect.zone.clone()))
            }
            _ => Range::parse(operator, &text(value)).map(Self::Version),
        };
        compiled.unwrap_or(Self::Nothing)
    }

    fn exact(value: &Value, booleans: Booleans) -> Self {
        let mut texts: Vec<String> = match value {
            Value::Array(all) => all.iter().map(lower).collect(),
            one => vec![lower(one)],
        };
        texts.sort_unstable();
        texts.dedup();
        match booleans {
            Booleans::Truthiness if is_boolean(value) => Self::Truthy(is_truthy(value)),
            // Version 2 matches an empty list by truthiness.
            Booleans::Text if texts.is_empty() => Self::Truthy(true),
            _ => Self::Texts(texts),
        }
    }

    fn decide(&self, operator: Operator, value: &Value, now: Timestamp) -> Option<bool> {
        match self {
            Self::Nothing | Self::Absent => None,
            Self::Set => Some(true),
            Self::Truthy(expected) => Some(is_truthy(value) == *expected),
            Self::Texts(expected) => {
                if expected.len() > SHORT_LIST {
                    return Some(expected.binary_search(&lower(value)).is_ok());
                }
                let text = text(value);
                Some(expected.iter().any(|expected| equal_lowered(expected, &text)))
            }
            Self::Contains(expected) => {
                let text = text(value);
                Some(expected.iter().any(|expected| contains_lowered(&text, expected)))
            }
            Self::Starts(expected) => {
                let text = text(value);
                let head = text.as_bytes().get(..expected.len());
                Some(head.is_some_and(|head| head.eq_ignore_ascii_case(expected.as_bytes())))
            }
            Self::Ends(expected) => {
                let text = text(value);
                let tail = text.len().checked_sub(expected.len()).map(|at| &text.as_bytes()[at..]);
                Some(tail.is_some_and(|tail| tail.eq_ignore_ascii_case(expected.as_bytes())))
            }
            Self::Regex(regex) => regex.is_match(text(value).as_ref()).ok(),
            Self::Number(bound) => number(value).and_then(|found| {
                let order = found.partial_cmp(bound)?;
                Some(match operator {
                    Operator::Gt => order.is_gt(),
                    Operator::Gte => order.is_ge(),
                    Operator::Lt => order.is_lt(),
                    _ => order.is_le(),
                })
            }),
            Self::Between(low, high) => number(value).map(|found| *low <= found && found <= *high),
            Self::Date(date, zone) => {
                let order = date::of_property(value, zone)?.cmp(&date.at(now, zone)?);
                Some(match operator {
                    Operator::IsDateBefore => order.is_lt(),
                    Operator::IsDateAfter => order.is_gt(),
                    _ => order.is_eq(),
                })
            }
            Self::Version(range) => range.contains(&text(value)),
        }
    }
}

/// Validates a filter's value for its operator. Regular expressions count against `patterns`.
pub fn check(
    operator: Operator,
    value: &Value,
    patterns: &mut PatternQuota,
) -> Result<(), FilterError> {
    use Operator as O;
    let need = |fits: bool, what: &'static str| match fits {
        true => Ok(()),
        false => Err(FilterError::Value(operator.as_str(), what)),
    };
    match operator {
        O::IsSet | O::IsNotSet => Ok(()),
        O::Exact | O::IsNot | O::In | O::NotIn | O::FlagEvaluatesTo => {
            need(!value.is_null(), "a value")
        }
        O::IContainsMulti | O::NotIContainsMulti => {
            let parts = value.as_array().map(Vec::len);
            need(parts.is_some_and(|parts| parts <= PARTS_MAX), "a list of at most 1000 texts")
        }
        O::Between | O::NotBetween => {
            let ends = value.as_array().map(Vec::as_slice);
            let fits = matches!(ends, Some([low, high]) if number(low) <= number(high) && number(low).is_some());
            need(fits, "a list of two numbers, the lower one first")
        }
        O::Gt | O::Gte | O::Lt | O::Lte => {
            need(value.is_string() || value.is_number(), "a number or text")
        }
        O::IsDateBefore | O::IsDateAfter | O::IsDateExact => {
            let text = value.as_str();
            let fits = text.is_some_and(|text| FilterDate::parse(text, &TimeZone::UTC).is_some());
            need(fits, "a date, or a time before now such as -7d")
        }
        O::Regex | O::NotRegex => match value.as_str() {
            Some(pattern) => patterns.add(pattern),
            None => need(false, "text"),
        },
        O::IContains
        | O::NotIContains
        | O::StartsWith
        | O::NotStartsWith
        | O::EndsWith
        | O::NotEndsWith => need(value.is_string(), "text"),
        _ => {
            let range = value.as_str().and_then(|text| Range::parse(operator, text));
            need(range.is_some(), "a version such as 1.2.3")
        }
    }
}

/// The string that operators compare: a string itself, any other value as compact JSON.
pub fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Null => Cow::Borrowed("null"),
        other => Cow::Owned(other.to_string()),
    }
}

fn lower(value: &Value) -> String {
    text(value).to_lowercase()
}

fn lowered(value: &Value) -> String {
    text(value).to_ascii_lowercase()
}

fn equal_lowered(lowered: &str, text: &str) -> bool {
    if text.is_ascii() {
        lowered.eq_ignore_ascii_case(text)
    } else {
        lowered == text.to_lowercase()
    }
}

fn contains_lowered(text: &str, needle: &str) -> bool {
    let (text, needle) = (text.as_bytes(), needle.as_bytes());
    needle.is_empty()
        || text.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle))
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn is_boolean(value: &Value) -> bool {
    match value {
        Value::Bool(_) => true,
        Value::String(text) => {
            text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
        }
        Value::Array(all) => all.iter().all(is_boolean),
        _ => false,
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Bool(truth) => *truth,
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        Value::Array(all) => all.iter().all(is_truthy),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
