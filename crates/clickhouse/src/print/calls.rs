//! Calls of functions. The function table of `hogql` is the closed set of names; what ClickHouse
//! computes otherwise than HogQL is printed otherwise, or not at all.

use hogql::ast::Unit;
use hogql::functions::{Function, Nulls};
use hogql::plan::{Expr, ExprKind};
use hogql::types::{Kind, Type};

use model::Timestamp;

use super::expressions::check_pattern;
use super::selects::Scope;
use super::{Printer, functions, unsupported};
use crate::client::Parameter;
use crate::error::Result;

impl Printer<'_> {
    pub fn call(
        &mut self,
        scope: &mut Scope,
        function: &Function,
        args: &[Expr],
        ty: &Type,
    ) -> Result<String> {
        let name = function.name;
        if let Some(at) = pattern_of(name)
            && let Some(pattern) = args.get(at)
        {
            check_pattern(pattern)?;
        }
        if let Some(printed) = self.own_form(scope, name, args, ty)? {
            return Ok(printed);
        }
        let Some(theirs) = functions::name_of(name) else {
            return Err(unsupported(format!("the function {name}")));
        };
        let texts = args.iter().map(|arg| self.expr(scope, arg)).collect::<Result<Vec<_>>>()?;
        let is_list = matches!(ty.kind, Kind::Array(_) | Kind::Tuple(_) | Kind::Map(_));
        let is_strict = matches!(function.nulls, Nulls::Strict | Nulls::OrNull);
        let is_nullable = |arg: &Expr| arg.ty.nullable;
        // An array cannot be null: it is empty where an argument is.
        if is_list && is_strict && args.iter().any(is_nullable) {
            let nulls = args.iter().zip(&texts).filter(|(arg, _)| arg.ty.nullable);
            let nulls: Vec<String> = nulls.map(|(_, text)| format!("isNull({text})")).collect();
            let assumed = args.iter().zip(&texts).map(|(arg, text)| match arg.ty.nullable {
                true => format!("assumeNotNull({text})"),
                false => text.clone(),
            });
            let assumed = assumed.collect::<Vec<_>>().join(", ");
            let ty = self.type_name(ty);
            return Ok(format!(
                "if({}, CAST([] AS {ty}), {theirs}({assumed}))",
                nulls.join(" OR ")
            ));
        }
        Ok(format!("{theirs}({})", texts.join(", ")))
    }

    /// Functions that ClickHouse names or computes otherwise.
    fn own_form(
        &mut self,
        scope: &mut Scope,
        name: &str,
        args: &[Expr],
        ty: &Type,
    ) -> Result<Option<String>> {
        let first = args.first();
        let first_kind = first.map(|arg| arg.ty.kind.clone());
        let texts = |printer: &mut Self, scope: &mut Scope| {
            args.iter().map(|arg| printer.expr(scope, arg)).collect::<Result<Vec<String>>>()
        };
        Ok(Some(match (name, args) {
            ("now", []) => {
                let now = self.now();
                let zone = self.zone();
                format!("toDateTime(toTimeZone({now}, {zone}))")
            }
            ("today", []) => {
                let now = self.now();
                let zone = self.zone();
                format!("toDate(toTimeZone({now}, {zone}))")
            }
            ("yesterday", []) => {
                let now = self.now();
                let zone = self.zone();
                format!("(toDate(toTimeZone({now}, {zone})) - 1)")
            }
            ("length", [arg]) => {
                let function = if arg.ty.kind.is_string() { "lengthUTF8" } else { "length" };
                format!("{function}({})", self.expr(scope, arg)?)
            }
            ("reverse", [arg]) => {
                let is_text = arg.ty.kind.is_string();
                let function = if is_text { "reverseUTF8" } else { "arrayReverse" };
                format!("{function}({})", self.expr(scope, arg)?)
            }
            ("trim" | "trimLeft" | "trimRight", [arg]) => {
                let function = if name == "trim" { "trimBoth" } else { name };
                format!("{function}({})", self.expr(scope, arg)?)
            }
            // Its type is an enumeration.
            ("JSONType", _) => format!("toString(JSONType({}))", texts(self, scope)?.join(", ")),
            ("fromUnixTimestamp", [seconds]) => {
                let zone = self.zone();
                format!("toDateTime({}, {zone})", self.expr(scope, seconds)?)
            }
            ("concat", _) => {
                let parts = texts(self, scope)?;
                let part = |text: &String| format!("ifNull(toString({text}), '')");
                format!("concat({})", parts.iter().map(part).collect::<Vec<_>>().join(", "))
            }
            ("dateAdd" | "dateSub", [unit, count, time]) => {
                let ExprKind::Value(hogql::plan::Value::String(unit)) = &unit.kind else {
                    return Err(unsupported("a unit of time that varies"));
                };
                let known =
                    Unit::ALL.into_iter().find(|known| unit.eq_ignore_ascii_case(known.as_str()));
                let Some(unit) = known else {
                    return Err(unsupported("an abbreviated unit of time"));
                };
                let sign = if name == "dateAdd" { '+' } else { '-' };
                let (count, time) = (self.expr(scope, count)?, self.expr(scope, time)?);
                format!("({time} {sign} toInterval{}({count}))", capitalized(unit.as_str()))
            }
            ("assumeNotNull", [arg]) => {
                // ClickHouse's gives anything for null.
                let text = self.expr(scope, arg)?;
                match arg.ty.nullable {
                    true => {
                        let ty = self.type_name(ty);
                        format!("ifNull({text}, defaultValueOfTypeName('{}'))", quoted(&ty))
                    }
                    false => text,
                }
            }
            ("tupleElement", [tuple, index]) => {
                let (ExprKind::Value(hogql::plan::Value::UInt(index)), Kind::Tuple(_)) =
                    (&index.kind, &tuple.ty.kind)
                else {
                    return Err(unsupported("an element of a tuple by another index"));
                };
                format!("tupleElement({}, {index})", self.expr(scope, tuple)?)
            }
            ("toStartOfWeek", [time]) => {
                let mode = u8::from(self.context.week_starts_monday);
                format!("toStartOfWeek({}, {mode})", self.expr(scope, time)?)
            }
            ("toStartOfWeek" | "toDayOfWeek", _) => {
                format!("{name}({})", texts(self, scope)?.join(", "))
            }
            ("toString", [arg]) => {
                let text = self.expr(scope, arg)?;
                self.cast(&text, &arg.ty, &Type::from(Kind::String), true)?
            }
            (
                "toInt" | "toInt64" | "toInt32" | "toInt16" | "toInt8" | "toUInt64" | "toUInt32"
                | "toUInt16" | "toUInt8" | "toFloat64" | "toUUID" | "toDate" | "toDateTime",
                [arg],
            ) if convertible(first_kind.as_ref(), &ty.kind) => {
                let text = self.expr(scope, arg)?;
                let same = Type { nullable: arg.ty.nullable, ..ty.clone() };
                match arg.ty.kind == same.kind {
                    true => text,
                    false => self.cast(&text, &arg.ty, &same, true)?,
                }
            }
            ("toDateTime64", [text, _precision, zone]) if instant(text, zone).is_some() => {
                let at = instant(text, zone).unwrap_or(self.context.now);
                self.parameters.add(Parameter::Timestamp(at.as_micros()))
            }
            ("toDateTime64", [arg, _precision, zone]) if arg.ty.kind.is_string() => {
                let (text, zone) = (self.expr(scope, arg)?, self.expr(scope, zone)?);
                format!("parseDateTime64BestEffortOrNull({text}, 6, {zone})")
            }
            ("toDateTime", [arg, zone]) if arg.ty.kind.is_string() => {
                let (text, zone) = (self.expr(scope, arg)?, self.expr(scope, zone)?);
                format!("parseDateTime64BestEffortOrNull({text}, 0, {zone})")
            }
            ("parseDateTimeBestEffort", [arg]) | ("toDateTime64", [arg] | [arg, _])
                if arg.ty.kind.is_string() =>
            {
                let text = self.expr(scope, arg)?;
                self.cast(&text, &arg.ty, ty, true)?
            }
            ("JSONExtract", [json, path @ .., wanted])
                if matches!(&wanted.kind, ExprKind::Value(hogql::plan::Value::String(name))
                    if name == "Array(String)")
                    && path.is_empty() =>
            {
                let json = self.expr(scope, json)?;
                format!("JSONExtract(ifNull({json}, ''), 'Array(String)')")
            }
            _ => return Ok(None),
        }))
    }

    fn now(&mut self) -> String {
        self.parameters.add(Parameter::Timestamp(self.context.now.as_micros()))
    }
}

/// Which argument of a function is a regular expression.
fn pattern_of(function: &str) -> Option<usize> {
    match function {
        "match"
        | "extract"
        | "extractAll"
        | "extractGroups"
        | "regexpExtract"
        | "replaceRegexpAll"
        | "replaceRegexpOne"
        | "countMatches"
        | "countMatchesCaseInsensitive"
        | "multiMatchAny" => Some(1),
        "splitByRegexp" => Some(0),
        _ => None,
    }
}

/// The instant that a literal names in UTC.
fn instant(text: &Expr, zone: &Expr) -> Option<Timestamp> {
    use hogql::plan::Value;
    match (&text.kind, &zone.kind) {
        (ExprKind::Value(Value::String(text)), ExprKind::Value(Value::String(zone)))
            if zone == "UTC" =>
        {
            Timestamp::parse(text)
        }
        _ => None,
    }
}

/// Whether `Printer::cast` means the same as a conversion function.
fn convertible(from: Option<&Kind>, to: &Kind) -> bool {
    let Some(from) = from else { return false };
    match to {
        Kind::Uuid => from.is_string(),
        Kind::Date | Kind::DateTime(_) => from.is_string() || from.is_time(),
        _ => from.is_string() || from.is_integer() || *from == Kind::Float && to != &Kind::Bool,
    }
}

pub(super) fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    format!("{}{rest}", first.to_ascii_uppercase())
}

/// Type names hold quotes, but only those of zones.
fn quoted(text: &str) -> String {
    text.replace('\'', "\\'")
}
