//! Property operators with their `query` semantics, over stored values.
//!
//! They differ from the `flag` semantics on purpose: the empty string counts as absent, strings compare
//! case-sensitively, and a list means any of its values.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem::Finder;
use model::Timestamp;
use model::property::{Dialect, Operator, PatternQuota, PropertyFilter};
use regex::{Regex, RegexBuilder};
use serde_json::Value as Json;
use warehouse::{SubstringSearch, Value};

use crate::dates::{self, Zone};
use crate::path_cleaning::PathCleaning;
use crate::{Error, Result};

/// Values of one filter.
const VALUES_MAX: usize = 1_000;
/// Size limit of a compiled regex.
const REGEX_BYTES_MAX: usize = 1 << 20;
/// Regexes of one filter.
const PATTERNS_MAX: usize = 100;
const REGEX_CHARS_MAX: usize = 10_000;
/// Longest string that is lower-cased on the stack.
const SHORT_BYTES_MAX: usize = 256;

/// A compiled operator and value.
#[derive(Clone, Debug)]
pub struct Matcher {
    negative: bool,
    test: Test,
    zone: Zone,
    cleaning: Arc<PathCleaning>,
}

/// Operator that compares after path cleaning; only queries have it.
pub const IS_CLEANED_PATH_EXACT: &str = "is_cleaned_path_exact";

#[derive(Clone, Debug)]
enum Test {
    /// An empty list matches every value.
    Anything,
    Equal(Vec<Operand>),
    /// Lower-cased needles.
    Contains(Vec<Finder<'static>>),
    Starts(String),
    Ends(String),
    Regex(Vec<Regex>),
    Compare(Comparison, Operand),
    Between {
        low: f64,
        high: f64,
        inside: bool,
    },
    Set,
    Date(Comparison, Timestamp),
    Version(Box<PropertyFilter>),
    Cleaned(Vec<String>),
}

#[derive(Clone, Copy, Debug)]
enum Comparison {
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

/// The filter's value in a comparison.
#[derive(Clone, Debug)]
struct Operand {
    text: String,
    number: Option<f64>,
    /// The client sent a number, so stored strings are parsed as numbers too.
    numeric: bool,
}

/// A stored value that is not absent.
struct Stored<'a> {
    text: Cow<'a, str>,
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
        Some(Self { text: text.into(), is_number })
    }

    fn number(&self) -> Option<f64> {
        self.text.trim().parse().ok().filter(|number: &f64| number.is_finite())
    }
}

impl Operand {
    fn new(value: &Json) -> Self {
        let text = model::property::text(value).into_owned();
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        Self { text, number, numeric: value.is_number() }
    }

    fn compare(&self, stored: &Stored<'_>) -> Option<std::cmp::Ordering> {
        if self.numeric || (stored.is_number && self.number.is_some()) {
            return stored.number()?.partial_cmp(&self.number?);
        }
        Some((*stored.text).cmp(self.text.as_str()))
    }
}

impl Comparison {
    fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
        }
    }
}

impl Matcher {
    pub fn new(operator: Operator, value: &Json, now: Timestamp, zone: &Zone) -> Result<Self> {
        use Operator as O;
        let negative = matches!(
            operator,
            O::IsNot
                | O::NotIn
                | O::NotIContains
                | O::NotIContainsMulti
                | O::NotStartsWith
                | O::NotEndsWith
                | O::NotRegex
                | O::IsNotSet
        );
        let test = Test::new(operator, value, now, zone)?;
        Ok(Self { negative, test, zone: zone.clone(), cleaning: Arc::default() })
    }

    /// A matcher for [`IS_CLEANED_PATH_EXACT`].
    pub(crate) fn cleaned(value: &Json, zone: &Zone) -> Result<Self> {
        let need = |what: &str| {
            Error::Invalid(format!("The operator '{IS_CLEANED_PATH_EXACT}' needs {what}."))
        };
        let all = match value {
            Json::Null => return Err(need("a value")),
            Json::Array(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        if all.len() > VALUES_MAX {
            return Err(need(&format!("at most {VALUES_MAX} values")));
        }
        let texts = all.iter().map(|value| model::property::text(value).into_owned()).collect();
        let test = if all.is_empty() { Test::Anything } else { Test::Cleaned(texts) };
        Ok(Self { negative: false, test, zone: zone.clone(), cleaning: Arc::default() })
    }

    pub(crate) fn with_cleaning(&self, rules: &Arc<PathCleaning>) -> Self {
        Self { cleaning: rules.clone(), ..self.clone() }
    }

    /// The substring search that this matcher performs, if it is one.
    pub(crate) fn search(&self) -> Option<SubstringSearch> {
        let Test::Contains(parts) = &self.test else { return None };
        let all_have_letters = parts.iter().all(|part| !part.needle().is_empty());
        let search = || SubstringSearch { needles: parts.clone(), pass_if_found: !self.negative };
        all_have_letters.then(search)
    }

    /// Whether a stored value matches; `None` is an absent value.
    pub fn accepts(&self, value: Option<Value<'_>>) -> bool {
        if matches!(self.test, Test::Anything) {
            return true;
        }
        let holds = |stored: Stored<'_>| match &self.test {
            Test::Cleaned(any) => {
                let cleaned = self.cleaning.clean(&stored.text);
                any.iter().any(|text| *text == cleaned)
            }
            test => test.holds(&stored, &self.zone),
        };
        Stored::read(value).is_some_and(holds) != self.negative
    }
}

impl Test {
    fn new(operator: Operator, value: &Json, now: Timestamp, zone: &Zone) -> Result<Self> {
        use Operator as O;
        let need = |what: &str| {
            Error::Invalid(format!("The operator '{}' needs {what}.", operator.as_str()))
        };
        if matches!(operator, O::IsSet | O::IsNotSet) {
            return Ok(Self::Set);
        }
        let all = match value {
            Json::Null => return Err(need("a value")),
            Json::Array(all) => all.as_slice(),
            one => std::slice::from_ref(one),
        };
        if all.len() > VALUES_MAX {
            return Err(need(&format!("at most {VALUES_MAX} values")));
        }
        let compare = |comparison| match all {
            [one] => Ok(Self::Compare(comparison, Operand::new(one))),
            _ => Err(need("one value")),
        };
        let lowered = |value: &Json| model::property::text(value).to_lowercase();
        let one = || match all {
            [one] => Ok(lowered(one)),
            _ => Err(need("one value")),
        };
        Ok(match operator {
            O::Between | O::NotBetween => return Self::between(operator, all, &need),
            _ if all.is_empty() => Self::Anything,
            O::Exact | O::IsNot | O::In | O::NotIn => {
                Self::Equal(all.iter().map(Operand::new).collect())
            }
            O::IContains | O::NotIContains | O::IContainsMulti | O::NotIContainsMulti => {
                let finder = |value: &Json| Finder::new(&lowered(value)).into_owned();
                Self::Contains(all.iter().map(finder).collect())
            }
            O::StartsWith | O::NotStartsWith => Self::Starts(one()?),
            O::EndsWith | O::NotEndsWith => Self::Ends(one()?),
            O::Regex | O::NotRegex if all.len() > PATTERNS_MAX => {
                return Err(need(&format!("at most {PATTERNS_MAX} patterns")));
            }
            O::Regex | O::NotRegex => Self::Regex(all.iter().map(regex).collect::<Result<_>>()?),
            O::Gt => compare(Comparison::Greater)?,
            O::Gte => compare(Comparison::GreaterOrEqual)?,
            O::Lt => compare(Comparison::Less)?,
            O::Lte => compare(Comparison::LessOrEqual)?,
            O::IsDateExact | O::IsDateBefore | O::IsDateAfter => {
                let comparison = match operator {
                    O::IsDateBefore => Comparison::Less,
                    O::IsDateAfter => Comparison::Greater,
                    _ => Comparison::Equal,
                };
                let [one] = all else { return Err(need("one date")) };
                let timestamp = dates::parse_timestamp(&model::property::text(one), now, zone);
                Self::Date(comparison, timestamp.ok_or_else(|| need("a date, or one such as -7d"))?)
            }
            O::FlagEvaluatesTo => return Err(need("a flag, which events have none of")),
            _ => {
                model::property::check(operator, value, &mut PatternQuota::default())
                    .map_err(|why| Error::Invalid(why.to_string()))?;
                let filter = PropertyFilter::compile("", operator, value, &Dialect::default());
                Self::Version(Box::new(filter))
            }
        })
    }

    fn between(operator: Operator, all: &[Json], need: &dyn Fn(&str) -> Error) -> Result<Self> {
        let numbers: Vec<f64> = all.iter().filter_map(|value| Operand::new(value).number).collect();
        match numbers.as_slice() {
            [low, high] if all.len() == 2 && low <= high => {
                Ok(Self::Between { low: *low, high: *high, inside: operator == Operator::Between })
            }
            _ => Err(need("two numbers, the lower one first")),
        }
    }

    fn holds(&self, stored: &Stored<'_>, zone: &Zone) -> bool {
        let text = &*stored.text;
        match self {
            Self::Anything | Self::Set => true,
            Self::Cleaned(any) => any.iter().any(|value| value == text),
            Self::Equal(any) => any
                .iter()
                .any(|operand| operand.compare(stored).is_some_and(std::cmp::Ordering::is_eq)),
            Self::Contains(any) => {
                in_lower_case(text, |text| any.iter().any(|part| part.find(text).is_some()))
            }
            Self::Starts(part) => in_lower_case(text, |text| text.starts_with(part.as_bytes())),
            Self::Ends(part) => in_lower_case(text, |text| text.ends_with(part.as_bytes())),
            Self::Regex(any) => any.iter().any(|regex| regex.is_match(text)),
            Self::Compare(comparison, operand) => {
                operand.compare(stored).is_some_and(|order| comparison.holds(order))
            }
            Self::Between { low, high, inside } => {
                stored.number().is_some_and(|number| (*low <= number && number <= *high) == *inside)
            }
            Self::Date(comparison, timestamp) => {
                date(stored, zone).is_some_and(|date| comparison.holds(date.cmp(timestamp)))
            }
            Self::Version(filter) => {
                let text = Json::String(text.to_owned());
                filter.accepts(Some(&text), Timestamp::from_micros(0))
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
    each(text.to_lowercase().as_bytes())
}

/// A stored date: ISO 8601, or Unix seconds.
fn date(stored: &Stored<'_>, zone: &Zone) -> Option<Timestamp> {
    dates::absolute(&stored.text, zone).or_else(|| {
        let micros = stored.number()? * 1e6;
        (micros.abs() < i64::MAX as f64).then(|| Timestamp::from_micros(micros as i64))
    })
}

fn regex(value: &Json) -> Result<Regex> {
    compile(&model::property::text(value))
}

/// Validates a regex for use in filters.
pub fn check_pattern(pattern: &str) -> Result<()> {
    compile(pattern).map(drop)
}

pub(crate) fn compile(pattern: &str) -> Result<Regex> {
    let invalid = |why: &str| Error::Invalid(format!("Invalid regex: {why}"));
    if pattern.chars().count() > REGEX_CHARS_MAX {
        return Err(invalid(&format!("longer than {REGEX_CHARS_MAX} characters")));
    }
    let built = RegexBuilder::new(pattern).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|why| invalid(&why.to_string()))
}

#[cfg(test)]
mod tests;
