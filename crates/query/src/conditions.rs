//! Translates property filters to HogQL expressions, for `{filters}` and for events and actors
//! queries.

use facts::{IS_CLEANED_PATH_EXACT, PathCleaning, ReadView, Zone, check_pattern, parse_timestamp};
use hogql::ast::{BinaryOp, Call, Expr, ExprKind, Literal, LogicOp, Name, UnaryOp};
use hogql::{Span, parse_expr};
use model::property::{DEPTH_MAX, Operator, text};
use model::{CohortId, Timestamp};
use serde_json::{Map, Value as Json};

use crate::{Error, Result};

/// Property filters of one statement.
const FILTERS_MAX: usize = 100;

pub(crate) struct Conditions<'a> {
    rows: Rows,
    now: Timestamp,
    zone: &'a Zone,
    cleaning: &'a PathCleaning,
}

/// The table whose rows a statement filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Events,
    Persons,
    Groups,
}

impl Rows {
    /// The type of a filter without `type`.
    fn default_filter_type(self) -> &'static str {
        match self {
            Self::Events => "event",
            Self::Persons => "person",
            Self::Groups => "group",
        }
    }
}

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

fn name(text: &str) -> Name {
    Name::new(text, Span::default())
}

pub(crate) fn field(chain: &[&str]) -> Expr {
    expr(ExprKind::Field(chain.iter().map(|part| name(part)).collect()))
}

pub(crate) fn literal(text: &str) -> Expr {
    expr(ExprKind::Literal(Literal::String(text.to_owned())))
}

pub(crate) fn call(function: &str, args: Vec<Expr>) -> Expr {
    let call = Call { name: name(function), parameters: vec![], distinct: false, args, over: None };
    expr(ExprKind::Call(Box::new(call)))
}

fn number(value: f64) -> Expr {
    let literal = expr(ExprKind::Literal(Literal::Float(value.abs())));
    if value.is_sign_negative() {
        return expr(ExprKind::Unary(UnaryOp::Negate, Box::new(literal)));
    }
    literal
}

pub(crate) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    expr(ExprKind::Binary(op, Box::new(left), Box::new(right)))
}

fn not(inner: Expr) -> Expr {
    expr(ExprKind::Unary(UnaryOp::Not, Box::new(inner)))
}

fn is_null(inner: Expr, negated: bool) -> Expr {
    expr(ExprKind::IsNull { expr: Box::new(inner), negated })
}

fn boolean(value: bool) -> Expr {
    expr(ExprKind::Literal(Literal::Bool(value)))
}

pub(crate) fn logic(op: LogicOp, mut parts: Vec<Expr>) -> Expr {
    match parts.len() {
        0 => boolean(op == LogicOp::And),
        1 => parts.remove(0),
        _ => {
            // The parser flattens nested AND and OR; so does this.
            let flat = parts.into_iter().flat_map(|part| match part.kind {
                ExprKind::Logic(inner_op, inner) if inner_op == op => inner,
                _ => vec![part],
            });
            expr(ExprKind::Logic(op, flat.collect()))
        }
    }
}

pub(crate) fn all(parts: Vec<Expr>) -> Expr {
    logic(LogicOp::And, parts)
}

/// A timestamp literal.
pub(crate) fn timestamp(at: Timestamp) -> Expr {
    let digits = expr(ExprKind::Literal(Literal::Int(6)));
    call("toDateTime64", vec![literal(&at.to_string()), digits, literal("UTC")])
}

fn unparsable() -> Error {
    Error::Invalid("Properties are unparsable!".into())
}

impl<'a> Conditions<'a> {
    pub fn new(view: &'a ReadView, rows: Rows) -> Self {
        Self { rows, now: view.now, zone: &view.zone, cleaning: &view.path_cleaning }
    }
}

/// Whether filters can be translated; neither the time nor the zone matters for that.
pub(crate) fn check(filters: &Json, rows: Rows) -> Result<()> {
    let (now, zone) = (Timestamp::from_micros(0), &Zone::named("UTC"));
    Conditions { rows, now, zone, cleaning: &PathCleaning::default() }.read(filters).map(drop)
}

impl Conditions<'_> {
    /// A list of filters, joined by AND, or a filter group; none when it is empty.
    pub fn read(&self, filters: &Json) -> Result<Option<Expr>> {
        let mut left = FILTERS_MAX;
        match filters {
            Json::Null => Ok(None),
            Json::Array(list) if list.is_empty() => Ok(None),
            Json::Object(group) if group.is_empty() => Ok(None),
            Json::Array(list) => Ok(Some(all(self.list(list, 0, &mut left)?))),
            Json::Object(group) => self.group(group, 0, &mut left).map(Some),
            _ => Err(unparsable()),
        }
    }

    fn list(&self, list: &[Json], depth: usize, left: &mut usize) -> Result<Vec<Expr>> {
        let mut parts = Vec::new();
        for filter in list {
            let Json::Object(fields) = filter else { return Err(unparsable()) };
            if fields.contains_key("values") {
                parts.push(self.group(fields, depth + 1, left)?);
            } else if let Some(part) = self.filter(fields, left)? {
                parts.push(part);
            }
        }
        Ok(parts)
    }

    fn group(&self, group: &Map<String, Json>, depth: usize, left: &mut usize) -> Result<Expr> {
        if depth > DEPTH_MAX {
            return Err(Error::Invalid("Property filters are nested too deeply.".into()));
        }
        let Some(Json::Array(values)) = group.get("values") else { return Err(unparsable()) };
        let parts = self.list(values, depth, left)?;
        match group.get("type").and_then(Json::as_str).unwrap_or("AND") {
            "AND" => Ok(all(parts)),
            "OR" if parts.is_empty() => Ok(boolean(true)),
            "OR" => Ok(logic(LogicOp::Or, parts)),
            _ => Err(unparsable()),
        }
    }

    fn filter(&self, fields: &Map<String, Json>, left: &mut usize) -> Result<Option<Expr>> {
        *left = left.checked_sub(1).ok_or_else(|| {
            Error::Invalid(format!("There are more than {FILTERS_MAX} property filters."))
        })?;
        let key = match fields.get("key") {
            Some(Json::String(key)) if !key.is_empty() => key.as_str(),
            _ => return Ok(None),
        };
        let kind =
            fields.get("type").and_then(Json::as_str).unwrap_or(self.rows.default_filter_type());
        let target = match kind {
            "flag" => return Ok(None),
            "hogql" => return Ok(Some(parse_expr(key)?)),
            "cohort" | "static-cohort" if self.rows == Rows::Events => {
                return cohort(field(&["person_id"]), fields).map(Some);
            }
            "cohort" | "static-cohort" if self.rows == Rows::Persons => {
                return cohort(field(&["id"]), fields).map(Some);
            }
            "person" if self.rows == Rows::Persons => field(&["properties", key]),
            "group" if self.rows == Rows::Groups => field(&["properties", key]),
            other if self.rows != Rows::Events => {
                let detail = format!("Filters of type '{other}' cannot be used here.");
                return Err(Error::Invalid(detail));
            }
            "event" => field(&["properties", key]),
            "feature" if key.starts_with("$feature/") => field(&["properties", key]),
            "feature" => field(&["properties", &format!("$feature/{key}")]),
            "event_metadata" => field(&[key]),
            "session" => field(&["session", key]),
            "person" => field(&["person", "properties", key]),
            "group" => {
                let index = fields.get("group_type_index").and_then(Json::as_u64);
                let Some(index @ 0..=4) = index else {
                    let why = "A filter of type 'group' needs a group_type_index from 0 to 4.";
                    return Err(Error::Invalid(why.into()));
                };
                field(&[&format!("group_{index}"), "properties", key])
            }
            other => {
                let detail = format!("Filters of type '{other}' cannot be used here.");
                return Err(Error::Invalid(detail));
            }
        };
        let value = fields.get("value").unwrap_or(&Json::Null);
        let operator = match fields.get("operator") {
            Some(Json::String(word)) if word == IS_CLEANED_PATH_EXACT => {
                let written = call("toString", vec![target]);
                let rules = self.cleaning.rules();
                let cleaned = rules.fold(written, |path, (pattern, alias)| {
                    call("replaceRegexpAll", vec![path, literal(pattern), literal(alias)])
                });
                return self.condition(cleaned, Operator::Exact, value).map(Some);
            }
            None | Some(Json::Null) => Operator::Exact,
            Some(Json::String(word)) => {
                Operator::parse(word).map_err(|why| Error::Invalid(why.to_string()))?
            }
            Some(_) => return Err(unparsable()),
        };
        self.condition(target, operator, value).map(Some)
    }

    fn condition(&self, target: Expr, operator: Operator, value: &Json) -> Result<Expr> {
        use Operator as O;
        let need = |what: &str| {
            Error::Invalid(format!("The operator '{}' needs {what}.", operator.as_str()))
        };
        match operator {
            O::IsSet => return Ok(is_null(target, true)),
            O::IsNotSet => return Ok(is_null(target, false)),
            _ => {}
        }
        let values = match value {
            Json::Null => return Err(need("a value")),
            Json::Array(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        if values.is_empty() {
            return Ok(boolean(true));
        }
        if matches!(operator, O::Regex | O::NotRegex) {
            values.iter().try_for_each(|pattern| check_pattern(&text(pattern)))?;
        }
        let as_text = || call("toString", vec![target.clone()]);
        let as_number = || call("toFloat", vec![call("toString", vec![target.clone()])]);
        let any =
            |test: &dyn Fn(&Json) -> Expr| logic(LogicOp::Or, values.iter().map(test).collect());
        let single = || if let [value] = values { Ok(value) } else { Err(need("one value")) };
        let equal = |value: &Json| {
            let written = text(value);
            let numeric_value =
                written.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            let same = binary(BinaryOp::Equal, as_text(), literal(&written));
            match numeric_value {
                Some(value_number) => {
                    let numeric = binary(BinaryOp::Equal, as_number(), number(value_number));
                    if value.is_number() {
                        numeric
                    } else {
                        logic(LogicOp::Or, vec![same, numeric])
                    }
                }
                None => same,
            }
        };
        let contains = |value: &Json| {
            let part = literal(&text(value).to_lowercase());
            let position = call("position", vec![call("lower", vec![as_text()]), part]);
            binary(BinaryOp::Greater, position, expr(ExprKind::Literal(Literal::Int(0))))
        };
        let regex = |value: &Json| binary(BinaryOp::Match, as_text(), literal(&text(value)));
        let edge = |function: &str| -> Result<Expr> {
            let part = literal(&text(single()?).to_lowercase());
            Ok(call(function, vec![call("lower", vec![as_text()]), part]))
        };
        // A missing property matches no filter, so it matches every negated one.
        let negated =
            |inner: Expr| logic(LogicOp::Or, vec![is_null(target.clone(), false), not(inner)]);
        let compare = |op: BinaryOp| -> Result<Expr> {
            let value = single()?;
            let written = text(value);
            Ok(match written.trim().parse::<f64>() {
                Ok(bound) if bound.is_finite() => binary(op, as_number(), number(bound)),
                _ => binary(op, as_text(), literal(&written)),
            })
        };
        let between = || -> Result<[Expr; 2]> {
            let bounds: Vec<f64> =
                values.iter().filter_map(|bound| text(bound).trim().parse().ok()).collect();
            match bounds[..] {
                [low, high] if low <= high => Ok([
                    binary(BinaryOp::GreaterOrEqual, as_number(), number(low)),
                    binary(BinaryOp::LessOrEqual, as_number(), number(high)),
                ]),
                _ => Err(need("two numbers, the smaller one first")),
            }
        };
        let date = |op: BinaryOp| -> Result<Expr> {
            let at = parse_timestamp(&text(single()?), self.now, self.zone);
            let at = at.ok_or_else(|| need("a date"))?;
            Ok(binary(op, call("toDateTime", vec![as_text()]), timestamp(at)))
        };
        Ok(match operator {
            O::Exact | O::In => any(&equal),
            O::IsNot | O::NotIn => negated(any(&equal)),
            O::IContains | O::IContainsMulti => any(&contains),
            O::NotIContains | O::NotIContainsMulti => negated(any(&contains)),
            O::Regex => any(&regex),
            O::NotRegex => negated(any(&regex)),
            O::StartsWith => edge("startsWith")?,
            O::NotStartsWith => negated(edge("startsWith")?),
            O::EndsWith => edge("endsWith")?,
            O::NotEndsWith => negated(edge("endsWith")?),
            O::Gt => compare(BinaryOp::Greater)?,
            O::Gte => compare(BinaryOp::GreaterOrEqual)?,
            O::Lt => compare(BinaryOp::Less)?,
            O::Lte => compare(BinaryOp::LessOrEqual)?,
            O::Between => all(between()?.into()),
            O::NotBetween => all(vec![is_null(as_number(), true), not(all(between()?.into()))]),
            O::IsDateExact => date(BinaryOp::Equal)?,
            O::IsDateBefore => date(BinaryOp::Less)?,
            O::IsDateAfter => date(BinaryOp::Greater)?,
            other => {
                let detail = format!("The operator '{}' cannot be used here.", other.as_str());
                return Err(Error::Invalid(detail));
            }
        })
    }
}

fn cohort(person: Expr, fields: &Map<String, Json>) -> Result<Expr> {
    // Literals are unsigned.
    let id = fields.get("value").and_then(CohortId::from_filter).filter(|id| id.0 >= 0);
    let id = id.ok_or_else(|| {
        Error::Invalid("A cohort filter needs the id of a cohort as its value.".into())
    })?;
    let negated = match fields.get("operator").and_then(Json::as_str) {
        None | Some("in" | "exact") => false,
        Some("not_in" | "is_not") => true,
        Some(other) => {
            let detail = format!("The operator '{other}' cannot be used with a cohort.");
            return Err(Error::Invalid(detail));
        }
    };
    Ok(in_cohort(person, id, negated))
}

pub(crate) fn in_cohort(person: Expr, id: CohortId, negated: bool) -> Expr {
    let cohort = Box::new(expr(ExprKind::Literal(Literal::Int(id.0.unsigned_abs()))));
    expr(ExprKind::InCohort { expr: Box::new(person), cohort, negated })
}
