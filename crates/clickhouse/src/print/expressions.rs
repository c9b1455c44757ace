//! Expressions.

use hogql::plan::{Comparison, Expr, ExprKind, Set, Step, Value};
use hogql::types::{Kind, Type};

use super::calls::capitalized;
use super::selects::{Demand, Scope, is_constant};
use super::{Printer, unsupported};
use crate::client::Parameter;
use crate::error::Result;

impl Printer<'_> {
    pub fn expr(&mut self, scope: &mut Scope, expr: &Expr) -> Result<String> {
        match &expr.kind {
            ExprKind::Value(value) => Ok(self.value(value, &expr.ty)),
            ExprKind::Column { source, via, name } => {
                Ok(scope.leaf(*source, via, name, &[], false))
            }
            ExprKind::Property { of, path } => {
                let text = self.property_text(scope, of, path)?;
                Ok(self.typed_property(&text, &expr.ty))
            }
            ExprKind::Output { source, column } => {
                scope.outputs[*source].insert(*column);
                Ok(format!("s{}_{source}.c{column}", scope.id))
            }
            ExprKind::Element(unnest, array) => Ok(format!("e{}_{unnest}_{array}", scope.id)),
            ExprKind::Key(no) => Ok(format!("g{}.k{no}", scope.id)),
            ExprKind::Aggregate(no) => Ok(format!("g{}.a{no}", scope.id)),
            ExprKind::Window(no) => Ok(scope.windows[*no].clone()),
            ExprKind::Param(no) => Ok(format!("p{no}")),
            ExprKind::Lambda { params, body } => {
                let params: Vec<String> = params.iter().map(|no| format!("p{no}")).collect();
                Ok(format!("({}) -> {}", params.join(", "), self.expr(scope, body)?))
            }
            ExprKind::Call { function, args } => self.call(scope, function.0, args, &expr.ty),
            ExprKind::Compare(comparison, sides) => self.compare(scope, *comparison, sides),
            ExprKind::And(parts) => self.logic(scope, "and", parts),
            ExprKind::Or(parts) => self.logic(scope, "or", parts),
            ExprKind::Not(part) => Ok(format!("not({})", self.expr(scope, part)?)),
            ExprKind::IsNull { expr, negated } => {
                let name = if *negated { "isNotNull" } else { "isNull" };
                // Never null, which isNull of an array cannot know.
                match expr.ty.kind {
                    Kind::Array(_) | Kind::Tuple(_) | Kind::Map(_) => {
                        Ok(if *negated { "true".to_owned() } else { "false".to_owned() })
                    }
                    _ => Ok(format!("{name}({})", self.expr(scope, expr)?)),
                }
            }
            ExprKind::In { expr, set, negated } => {
                let is_in = self.is_in(scope, expr, set)?;
                Ok(if *negated { format!("not({is_in})") } else { is_in })
            }
            ExprKind::Cast { expr: inner, or_null } => {
                let value = self.expr(scope, inner)?;
                self.cast(&value, &inner.ty, &expr.ty, *or_null)
            }
            ExprKind::Interval(count, unit) => {
                let count = self.expr(scope, count)?;
                Ok(format!("toInterval{}({count})", capitalized(unit.as_str())))
            }
            ExprKind::Query(relation) => Ok(format!("({})", self.relation(relation, Demand::All)?)),
            ExprKind::AggregateCall(_) | ExprKind::WindowCall(_) | ExprKind::Unnested { .. } => {
                Err(unsupported("what no plan contains"))
            }
        }
    }

    fn logic(&mut self, scope: &mut Scope, name: &str, parts: &[Expr]) -> Result<String> {
        match parts {
            [] => Ok("true".to_owned()),
            [one] => self.expr(scope, one),
            parts => Ok(format!("{name}({})", self.exprs(scope, parts)?)),
        }
    }

    fn value(&mut self, value: &Value, ty: &Type) -> String {
        let mut cast = |parameter| {
            let text = self.parameters.add(parameter);
            format!("CAST({text} AS {})", ty.name(&self.plan.zone))
        };
        match value {
            Value::Null => "NULL".to_owned(),
            Value::Bool(true) => "true".to_owned(),
            Value::Bool(false) => "false".to_owned(),
            Value::UInt(number) => cast(Parameter::UInt(*number)),
            Value::Int(number) => cast(Parameter::Int(*number)),
            Value::Float(number) => self.parameters.add(Parameter::Float(*number)),
            Value::String(text) => self.string(text),
            Value::Timestamp(micros) => self.parameters.add(Parameter::Timestamp(*micros)),
        }
    }

    fn property_text(&mut self, scope: &mut Scope, of: &Expr, path: &[Step]) -> Result<String> {
        if let (ExprKind::Column { source, via, name }, [Step::Key(_), ..]) = (&of.kind, path) {
            return Ok(scope.leaf(*source, via, name, path, false));
        }
        let json = self.expr(scope, of)?;
        self.json_at(&format!("ifNull({json}, '')"), path)
    }

    /// A property's text as the type of its definition; null if it cannot be read.
    fn typed_property(&mut self, text: &str, ty: &Type) -> String {
        match ty.kind {
            Kind::Float => format!("toFloat64OrNull({text})"),
            Kind::Bool => boolean(text),
            Kind::DateTime(_) => {
                let zone = self.zone();
                format!("parseDateTime64BestEffortOrNull({text}, 6, {zone})")
            }
            _ => text.to_owned(),
        }
    }

    fn compare(
        &mut self,
        scope: &mut Scope,
        comparison: Comparison,
        sides: &[Expr; 2],
    ) -> Result<String> {
        let is_pattern = matches!(
            comparison,
            Comparison::Match | Comparison::NotMatch | Comparison::IMatch | Comparison::NotIMatch
        );
        if is_pattern {
            check_pattern(&sides[1])?;
        }
        let uuids = sides.iter().all(|side| side.ty.kind == Kind::Uuid);
        let mut texts = Vec::new();
        for side in sides {
            texts.push(match &side.kind {
                // Instants compare alike in every zone, and the table's own can use its indexes.
                ExprKind::Column { source, via, name }
                    if via.is_empty() && matches!(side.ty.kind, Kind::DateTime(_)) =>
                {
                    scope.leaf(*source, via, name, &[], true)
                }
                _ => self.expr(scope, side)?,
            });
        }
        let [left, right] = &texts[..] else { return Err(unsupported("a comparison")) };
        let may_be_null = sides.iter().any(|side| side.ty.nullable);
        let false_if_null = |text: String| match may_be_null {
            true => format!("ifNull({text}, false)"),
            false => text,
        };
        let true_if_null = |text: String| match may_be_null {
            true => format!("ifNull(not({text}), true)"),
            false => format!("not({text})"),
        };
        let ordered = |operator: &str| match uuids {
            true => format!("toString({left}) {operator} toString({right})"),
            false => format!("{left} {operator} {right}"),
        };
        let case_insensitive = format!("match({left}, concat('(?i)', {right}))");
        Ok(match comparison {
            Comparison::Equal if may_be_null => format!("({left} <=> {right})"),
            Comparison::NotEqual if may_be_null => format!("not({left} <=> {right})"),
            Comparison::Equal => format!("({left} = {right})"),
            Comparison::NotEqual => format!("({left} != {right})"),
            Comparison::Less => false_if_null(format!("({})", ordered("<"))),
            Comparison::LessOrEqual => false_if_null(format!("({})", ordered("<="))),
            Comparison::Greater => false_if_null(format!("({})", ordered(">"))),
            Comparison::GreaterOrEqual => false_if_null(format!("({})", ordered(">="))),
            Comparison::Like => false_if_null(format!("like({left}, {right})")),
            Comparison::NotLike => true_if_null(format!("like({left}, {right})")),
            Comparison::ILike => false_if_null(format!("ilike({left}, {right})")),
            Comparison::NotILike => true_if_null(format!("ilike({left}, {right})")),
            Comparison::Match => false_if_null(format!("match({left}, {right})")),
            Comparison::NotMatch => true_if_null(format!("match({left}, {right})")),
            Comparison::IMatch => false_if_null(case_insensitive),
            Comparison::NotIMatch => true_if_null(case_insensitive),
        })
    }

    /// Never null.
    fn is_in(&mut self, scope: &mut Scope, expr: &Expr, set: &Set) -> Result<String> {
        let value = self.expr(scope, expr)?;
        Ok(match set {
            Set::List(items) if items.is_empty() => "false".to_owned(),
            Set::List(items) if items.iter().all(is_constant) => {
                format!("ifNull({value} IN ({}), false)", self.exprs(scope, items)?)
            }
            Set::List(items) => {
                let each = items.iter().map(|item| {
                    let item = self.expr(scope, item)?;
                    Ok(format!("ifNull({value} = {item}, false)"))
                });
                format!("({})", each.collect::<Result<Vec<_>>>()?.join(" OR "))
            }
            Set::Array(array) => {
                let array = self.expr(scope, array)?;
                match expr.ty.nullable {
                    true => format!("if(isNull({value}), false, has({array}, {value}))"),
                    false => format!("has({array}, {value})"),
                }
            }
            Set::Query(relation) => {
                format!("ifNull({value} IN ({}), false)", self.relation(relation, Demand::All)?)
            }
            Set::Cohort(cohort) => {
                let project = self.parameters.add(Parameter::Int(self.plan.project.0));
                let id = self.parameters.add(Parameter::Int(cohort.0));
                let version = self.context.cohorts.get(cohort).map(|version| {
                    format!(" AND version = {}", self.parameters.add(Parameter::Int(*version)))
                });
                if version.is_none() && !self.context.static_cohorts.contains(cohort) {
                    return Ok("false".to_owned());
                }
                let version = version.unwrap_or_default();
                format!(
                    "ifNull({value} IN (SELECT p.person_id FROM (SELECT person_no FROM \
                     cohort_members FINAL WHERE project_id = {project} AND cohort_id = {id}{version} \
                     AND NOT is_deleted) AS m INNER JOIN (SELECT person_no, person_id FROM persons \
                     FINAL WHERE project_id = {project} AND NOT is_deleted) AS p ON p.person_no = \
                     m.person_no), false)"
                )
            }
        })
    }

    pub fn cast(&mut self, value: &str, from: &Type, to: &Type, or_null: bool) -> Result<String> {
        if from.kind == to.kind {
            return Ok(value.to_owned());
        }
        if from.kind.is_string() {
            return self.parsed(value, &to.kind, or_null);
        }
        let to = to.clone().or_null(from.nullable);
        Ok(match (&from.kind, &to.kind) {
            (Kind::Null, _) => "NULL".to_owned(),
            (_, Kind::String | Kind::Json(_)) => format!("toString({value})"),
            (Kind::Bool | Kind::UInt(_) | Kind::Int(_), Kind::Float)
            | (
                Kind::Bool | Kind::UInt(_) | Kind::Int(_),
                Kind::Bool | Kind::UInt(_) | Kind::Int(_),
            )
            | (Kind::Date, Kind::DateTime(_))
            | (Kind::DateTime(_), Kind::Date)
            | (Kind::DateTime(_), Kind::DateTime(_)) => {
                format!("CAST({value} AS {})", self.type_name(&to))
            }
            (Kind::Float, Kind::Int(_) | Kind::UInt(_)) => {
                format!("CAST({value} AS {})", self.type_name(&to))
            }
            (from, to) => return Err(unsupported(format!("a cast from {from:?} to {to:?}"))),
        })
    }

    /// Reads a string as another type. Whatever the plan says, what cannot be read is null here: a
    /// literal that is an error was refused before.
    fn parsed(&mut self, value: &str, to: &Kind, or_null: bool) -> Result<String> {
        let suffix = if or_null { "OrNull" } else { "" };
        Ok(match to {
            Kind::String | Kind::Json(_) => value.to_owned(),
            Kind::Float => format!("toFloat64OrNull({value})"),
            Kind::Int(bits) => format!("toInt{bits}OrNull({value})"),
            Kind::UInt(bits) => format!("toUInt{bits}OrNull({value})"),
            Kind::Bool => boolean(value),
            Kind::Uuid => format!("toUUIDOrNull({value})"),
            Kind::Date => {
                let zone = self.zone();
                format!("toDate(parseDateTime64BestEffort{suffix}({value}, 6, {zone}))")
            }
            Kind::DateTime(date_time) => {
                let zone = match &date_time.zone {
                    Some(zone) => self.string(zone),
                    None => self.zone(),
                };
                let precision = date_time.precision;
                format!("parseDateTime64BestEffort{suffix}({value}, {precision}, {zone})")
            }
            kind => return Err(unsupported(format!("a cast of a string to {kind:?}"))),
        })
    }
}

/// What means another set of characters to ClickHouse: classes of words, digits and spaces are of ASCII
/// only, and sets have no operators and no sets within.
const OTHER_PATTERNS: &[&str] =
    &["\\w", "\\W", "\\d", "\\D", "\\s", "\\S", "\\b", "\\B", "&&", "--", "~~", "[["];

/// Whether a regular expression surely means the same to ClickHouse.
pub(super) fn check_pattern(pattern: &Expr) -> Result<()> {
    match &pattern.kind {
        ExprKind::Value(Value::String(text))
            if !OTHER_PATTERNS.iter().any(|other| text.contains(other)) =>
        {
            Ok(())
        }
        ExprKind::Value(Value::Null) => Ok(()),
        ExprKind::Call { function, args } if function.0.name == "array" => {
            args.iter().try_for_each(check_pattern)
        }
        _ => Err(unsupported("a regular expression that ClickHouse may read otherwise")),
    }
}

fn boolean(text: &str) -> String {
    format!(
        "transform(lower({text}), ['true', '1', 'false', '0'], \
         CAST([true, true, false, false] AS Array(Nullable(Bool))), NULL)"
    )
}
