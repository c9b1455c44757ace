//! Parses the JSON of property filters and lowers their operators.

use serde_json::{Map, Value as Json};

use super::{
    Comparison, ElementPart, Field, FilterExpr, FilteredRows, InvalidFilter, OperatorTest,
    ValueTest, compile_pattern, fold_case, parse_number,
};
use crate::group::GROUP_TYPES_MAX;
use crate::property::{self, DEPTH_MAX, Operator, PatternQuota, VersionRange, text};
use crate::{CohortId, Timestamp, Zone, parse_timestamp};

/// Filters of one query, in all groups.
const FILTERS_MAX: usize = 100;
/// Values of one filter.
const VALUES_MAX: usize = 1_000;
/// Regular expressions of one filter.
const PATTERNS_MAX: usize = 100;

/// Operator that compares after path cleaning; only queries have it.
pub const IS_CLEANED_PATH_EXACT: &str = "is_cleaned_path_exact";

type Fields = Map<String, Json>;
type Result<T> = std::result::Result<T, InvalidFilter>;

fn invalid<T>(why: impl Into<String>) -> Result<T> {
    Err(InvalidFilter(why.into()))
}

fn unparsable<T>() -> Result<T> {
    invalid("Properties are unparsable!")
}

struct Parser<'a> {
    rows: FilteredRows,
    now: Timestamp,
    zone: &'a Zone,
    left: usize,
}

impl FilterExpr {
    /// Parses a list of filters, which are combined with AND, or one filter group; null and `{}` keep
    /// all rows. Dates relative to now become absolute.
    pub fn parse(json: &Json, rows: FilteredRows, now: Timestamp, zone: &Zone) -> Result<Self> {
        let mut parser = Parser { rows, now, zone, left: FILTERS_MAX };
        match json {
            Json::Array(all) => Ok(Self::And(parser.list(all, 0)?)),
            Json::Object(group) if group.contains_key("values") => parser.group(group, 0),
            Json::Object(empty) if empty.is_empty() => Ok(Self::default()),
            Json::Null => Ok(Self::default()),
            _ => unparsable(),
        }
    }

    /// Whether it keeps all rows, as far as its shape tells.
    pub fn keeps_all(&self) -> bool {
        matches!(self, Self::And(all) if all.iter().all(Self::keeps_all))
    }
}

impl Parser<'_> {
    fn list(&mut self, all: &[Json], depth: usize) -> Result<Vec<FilterExpr>> {
        let mut exprs = Vec::new();
        for one in all {
            let Json::Object(fields) = one else { return unparsable() };
            if fields.contains_key("values") {
                exprs.push(self.group(fields, depth + 1)?);
            } else {
                exprs.extend(self.filter(fields)?);
            }
        }
        Ok(exprs)
    }

    fn group(&mut self, fields: &Fields, depth: usize) -> Result<FilterExpr> {
        if depth > DEPTH_MAX {
            return invalid("Property filters are nested too deeply.");
        }
        let Some(Json::Array(values)) = fields.get("values") else { return unparsable() };
        let exprs = self.list(values, depth)?;
        match fields.get("type").and_then(Json::as_str).unwrap_or("AND") {
            "AND" => Ok(FilterExpr::And(exprs)),
            // An empty OR keeps all rows.
            "OR" if exprs.is_empty() => Ok(FilterExpr::default()),
            "OR" => Ok(FilterExpr::Or(exprs)),
            _ => unparsable(),
        }
    }

    /// None for a filter without a key, which keeps all rows.
    fn filter(&mut self, fields: &Fields) -> Result<Option<FilterExpr>> {
        let Some(left) = self.left.checked_sub(1) else {
            return invalid(format!("There are more than {FILTERS_MAX} property filters."));
        };
        self.left = left;
        let key = match fields.get("key") {
            Some(Json::String(key)) if !key.is_empty() => key.clone(),
            Some(Json::Number(key)) => key.to_string(),
            _ => return Ok(None),
        };
        let default_kind = match self.rows {
            FilteredRows::Events => "event",
            FilteredRows::Persons => "person",
            FilteredRows::Groups => "group",
        };
        let kind = fields.get("type").and_then(Json::as_str).unwrap_or(default_kind);
        match (kind, self.rows) {
            // A condition on other flags, which rows always pass.
            ("flag", _) => return Ok(None),
            ("hogql", _) => return Ok(Some(FilterExpr::Hogql(key))),
            ("cohort" | "static-cohort", FilteredRows::Events | FilteredRows::Persons) => {
                return cohort(fields).map(Some);
            }
            _ => {}
        }
        let field = self.field(kind, key, fields)?;
        let OperatorTest { test, negated } = self.operator_test(fields)?;
        let test = match (test, negated) {
            (ValueTest::Or(none), true) if none.is_empty() => {
                return Ok(Some(FilterExpr::default()));
            }
            (test, _) => FilterExpr::Test(field, test),
        };
        Ok(Some(if negated { FilterExpr::Not(Box::new(test)) } else { test }))
    }

    fn field(&self, kind: &str, key: String, fields: &Fields) -> Result<Field> {
        Ok(match (kind, self.rows) {
            ("person", FilteredRows::Events | FilteredRows::Persons) if key == "distinct_id" => {
                Field::DistinctIds
            }
            ("person", FilteredRows::Events | FilteredRows::Persons) => Field::PersonProperty(key),
            ("group", FilteredRows::Groups) => Field::GroupProperty { index: None, key },
            (other, FilteredRows::Persons | FilteredRows::Groups) => {
                return invalid(format!("Filters of type '{other}' cannot be used here."));
            }
            ("event", _) => Field::EventProperty(key),
            ("feature", _) if key.starts_with("$feature/") => Field::EventProperty(key),
            ("feature", _) => Field::EventProperty(format!("$feature/{key}")),
            ("event_metadata", _) => match key.as_str() {
                "person_id" => Field::PersonId,
                "$session_id" | "$window_id" => Field::EventProperty(key),
                _ => Field::EventColumn(key),
            },
            ("element", _) => Field::Element(element_part(&key, fields)?),
            ("group", _) => Field::GroupProperty { index: Some(group_index(fields)?), key },
            ("session", _) => Field::SessionField(key),
            (other, _) => {
                return invalid(format!(
                    "Filters of type '{other}' cannot be used here; only event, feature, \
                     event_metadata, element, person, group, session, cohort and hogql can."
                ));
            }
        })
    }

    fn operator_test(&self, fields: &Fields) -> Result<OperatorTest> {
        let value = fields.get("value").unwrap_or(&Json::Null);
        let operator = match fields.get("operator") {
            Some(Json::String(word)) if word == IS_CLEANED_PATH_EXACT => {
                return cleaned_path(value);
            }
            None | Some(Json::Null) => Operator::Exact,
            Some(Json::String(word)) => {
                Operator::parse(word).map_err(|why| InvalidFilter(why.to_string()))?
            }
            Some(_) => return unparsable(),
        };
        OperatorTest::lower(operator, value, self.now, self.zone)
    }
}

fn element_part(key: &str, fields: &Fields) -> Result<ElementPart> {
    let plain =
        matches!(fields.get("operator").and_then(Json::as_str), None | Some("exact" | "is_not"));
    match key {
        "text" => Ok(ElementPart::Text),
        "href" => Ok(ElementPart::Href),
        "tag_name" if plain => Ok(ElementPart::TagName),
        "tag_name" => invalid("tag_name can only be compared with exact or is_not."),
        _ => invalid(format!("Elements cannot be filtered by their '{key}' here.")),
    }
}

fn cohort(fields: &Fields) -> Result<FilterExpr> {
    let Some(id) = fields.get("value").and_then(CohortId::from_filter) else {
        return invalid("A cohort is named by its number.");
    };
    let members = FilterExpr::InCohort(id);
    match fields.get("operator").and_then(Json::as_str) {
        None | Some("in" | "exact") => Ok(members),
        Some("not_in" | "is_not") => Ok(FilterExpr::Not(Box::new(members))),
        Some(other) => invalid(format!("The operator '{other}' cannot be used with a cohort.")),
    }
}

fn group_index(fields: &Fields) -> Result<usize> {
    let index = fields.get("group_type_index").and_then(Json::as_u64);
    match index.filter(|index| *index < u64::from(GROUP_TYPES_MAX)) {
        Some(index) => Ok(index as usize),
        None => invalid("A filter of type 'group' needs a group_type_index from 0 to 4."),
    }
}

fn need(operator: &str, what: &str) -> InvalidFilter {
    InvalidFilter(format!("The operator '{operator}' needs {what}."))
}

/// The values of a filter: a list, or one.
fn values<'v>(operator: &str, value: &'v Json) -> Result<&'v [Json]> {
    let all = match value {
        Json::Null => return Err(need(operator, "a value")),
        Json::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    match all.len() > VALUES_MAX {
        true => Err(need(operator, &format!("at most {VALUES_MAX} values"))),
        false => Ok(all),
    }
}

fn cleaned_path(value: &Json) -> Result<OperatorTest> {
    let texts = values(IS_CLEANED_PATH_EXACT, value)?.iter().map(|one| text(one).into_owned());
    let texts: Vec<String> = texts.collect();
    Ok(match texts.is_empty() {
        true => OperatorTest::ALWAYS,
        false => OperatorTest { test: ValueTest::CleanedPathIn(texts), negated: false },
    })
}

impl OperatorTest {
    /// Lowers an operator and its value.
    pub fn lower(operator: Operator, value: &Json, now: Timestamp, zone: &Zone) -> Result<Self> {
        use Operator as O;
        let negated = matches!(
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
        if matches!(operator, O::IsSet | O::IsNotSet) {
            return Ok(Self { test: ValueTest::Present, negated });
        }
        let need = |what: &str| need(operator.as_str(), what);
        let all = values(operator.as_str(), value)?;
        let is_between = matches!(operator, O::Between | O::NotBetween);
        if all.is_empty() && !is_between {
            return Ok(Self::ALWAYS);
        }
        let one = |what: &str| if let [one] = all { Ok(one) } else { Err(need(what)) };
        let folded = |value: &Json| fold_case(&text(value));
        let compared = |comparison| Ok(ordered(comparison, one("one value")?));
        let test = match operator {
            O::Exact | O::IsNot | O::In | O::NotIn => equal_any(all),
            O::IContains | O::NotIContains | O::IContainsMulti | O::NotIContainsMulti => {
                ValueTest::ContainsAny(all.iter().map(folded).collect())
            }
            O::StartsWith | O::NotStartsWith => ValueTest::StartsWith(folded(one("one value")?)),
            O::EndsWith | O::NotEndsWith => ValueTest::EndsWith(folded(one("one value")?)),
            O::Regex | O::NotRegex if all.len() > PATTERNS_MAX => {
                return Err(need(&format!("at most {PATTERNS_MAX} patterns")));
            }
            O::Regex | O::NotRegex => {
                let patterns: Vec<String> = all.iter().map(|one| text(one).into_owned()).collect();
                patterns.iter().try_for_each(|pattern| compile_pattern(pattern).map(drop))?;
                ValueTest::MatchesAny(patterns)
            }
            O::Gt => compared(Comparison::Greater)?,
            O::Gte => compared(Comparison::GreaterOrEqual)?,
            O::Lt => compared(Comparison::Less)?,
            O::Lte => compared(Comparison::LessOrEqual)?,
            O::Between | O::NotBetween => {
                let numbers: Vec<f64> =
                    all.iter().filter_map(|bound| parse_number(&text(bound))).collect();
                let [low, high] = numbers[..] else {
                    return Err(need("two numbers, the lower one first"));
                };
                if all.len() != 2 || low > high {
                    return Err(need("two numbers, the lower one first"));
                }
                between(low, high, operator == O::Between)
            }
            O::IsDateExact => time(Comparison::Equal, one("one date")?, now, zone, &need)?,
            O::IsDateBefore => time(Comparison::Less, one("one date")?, now, zone, &need)?,
            O::IsDateAfter => time(Comparison::Greater, one("one date")?, now, zone, &need)?,
            O::FlagEvaluatesTo => return Err(need("a flag, which events have none of")),
            O::SemverEq
            | O::SemverNeq
            | O::SemverGt
            | O::SemverGte
            | O::SemverLt
            | O::SemverLte
            | O::SemverTilde
            | O::SemverCaret
            | O::SemverWildcard => {
                property::check(operator, value, &mut PatternQuota::default())
                    .map_err(|why| InvalidFilter(why.to_string()))?;
                let range = VersionRange::parse(operator, &text(value));
                ValueTest::Version(range.ok_or_else(|| need("a version such as 1.2.3"))?)
            }
            O::IsSet | O::IsNotSet => ValueTest::Present,
        };
        Ok(Self { test, negated })
    }
}

/// A value of a filter is a number if the client sent one. A string that is a number, such as `"5"`,
/// means one only where the stored value is a JSON number.
fn equal_any(values: &[Json]) -> ValueTest {
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    let (mut number_texts, mut text_numbers) = (Vec::new(), Vec::new());
    for value in values {
        let text = text(value).into_owned();
        match (value.is_number(), parse_number(&text)) {
            (true, number) => numbers.extend(number),
            (false, None) => texts.push(text),
            (false, Some(number)) => {
                number_texts.push(text);
                text_numbers.push(number);
            }
        }
    }
    let mut any = Vec::new();
    if !texts.is_empty() {
        any.push(ValueTest::TextIn(texts));
    }
    if !numbers.is_empty() {
        any.push(ValueTest::NumberIn(numbers));
    }
    if !number_texts.is_empty() {
        any.extend(by_stored_type(
            ValueTest::NumberIn(text_numbers),
            ValueTest::TextIn(number_texts),
        ));
    }
    match any.len() {
        1 => any.remove(0),
        _ => ValueTest::Or(any),
    }
}

fn ordered(comparison: Comparison, value: &Json) -> ValueTest {
    let text = text(value).into_owned();
    match (value.is_number(), parse_number(&text)) {
        (true, Some(number)) => ValueTest::Number(comparison, number),
        (true, None) => ValueTest::Or(Vec::new()),
        (false, None) => ValueTest::Text(comparison, text),
        (false, Some(number)) => ValueTest::Or(by_stored_type(
            ValueTest::Number(comparison, number),
            ValueTest::Text(comparison, text),
        )),
    }
}

/// One test for JSON numbers, another one for all other values.
fn by_stored_type(number: ValueTest, other: ValueTest) -> Vec<ValueTest> {
    let not_a_number = ValueTest::Not(Box::new(ValueTest::IsNumber));
    vec![
        ValueTest::And(vec![ValueTest::IsNumber, number]),
        ValueTest::And(vec![not_a_number, other]),
    ]
}

fn between(low: f64, high: f64, inside: bool) -> ValueTest {
    let number = ValueTest::Number;
    match inside {
        true => ValueTest::And(vec![
            number(Comparison::GreaterOrEqual, low),
            number(Comparison::LessOrEqual, high),
        ]),
        // A value that is no number is neither inside nor outside.
        false => {
            ValueTest::Or(vec![number(Comparison::Less, low), number(Comparison::Greater, high)])
        }
    }
}

fn time(
    comparison: Comparison,
    value: &Json,
    now: Timestamp,
    zone: &Zone,
    need: &dyn Fn(&str) -> InvalidFilter,
) -> Result<ValueTest> {
    let time = parse_timestamp(&text(value), now, zone);
    Ok(ValueTest::Time(comparison, time.ok_or_else(|| need("a date, or one such as -7d"))?))
}
