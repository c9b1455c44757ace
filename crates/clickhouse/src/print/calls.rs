//! Calls of functions. The function table of `hogql` is the closed set of names; what ClickHouse
//! computes otherwise than HogQL is printed otherwise, or not at all.

use hogql::ast::Unit;
use hogql::functions::{Function, Nulls};
use hogql::plan::{Expr, ExprKind};
use hogql::types::{Kind, Type};

use super::selects::Scope;
use super::{Printer, unsupported};
use crate::client::Parameter;
use crate::error::Result;

/// Those with the same name and meaning.
const SAME: &[&str] = &[
    "URLHierarchy",
    "URLPathHierarchy",
    "abs",
    "acos",
    "acosh",
    "addDays",
    "addHours",
    "addMinutes",
    "addMonths",
    "addQuarters",
    "addSeconds",
    "addWeeks",
    "addYears",
    "age",
    "array",
    "arrayAll",
    "arrayAvg",
    "arrayCompact",
    "arrayConcat",
    "arrayCount",
    "arrayCumSum",
    "arrayCumSumNonNegative",
    "arrayDifference",
    "arrayDistinct",
    "arrayElement",
    "arrayEnumerate",
    "arrayEnumerateDense",
    "arrayEnumerateUniq",
    "arrayExists",
    "arrayFill",
    "arrayFilter",
    "arrayFirst",
    "arrayFirstIndex",
    "arrayFlatten",
    "arrayFold",
    "arrayIntersect",
    "arrayLast",
    "arrayLastIndex",
    "arrayMap",
    "arrayMax",
    "arrayMin",
    "arrayPopBack",
    "arrayPopFront",
    "arrayProduct",
    "arrayPushBack",
    "arrayPushFront",
    "arrayReverse",
    "arrayReverseFill",
    "arrayReverseSort",
    "arrayReverseSplit",
    "arrayRotateLeft",
    "arrayRotateRight",
    "arraySlice",
    "arraySort",
    "arraySplit",
    "arrayStringConcat",
    "arraySum",
    "arrayUniq",
    "arrayZip",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "base64Encode",
    "bitAnd",
    "bitCount",
    "bitNot",
    "bitOr",
    "bitXor",
    "cbrt",
    "ceil",
    "coalesce",
    "cos",
    "cosh",
    "countEqual",
    "countMatches",
    "countMatchesCaseInsensitive",
    "countSubstrings",
    "cutFragment",
    "cutQueryString",
    "cutQueryStringAndFragment",
    "cutToFirstSignificantSubdomain",
    "cutURLParameter",
    "cutWWW",
    "dateDiff",
    "dateTrunc",
    "decodeURLComponent",
    "degrees",
    "divide",
    "domain",
    "domainWithoutWWW",
    "e",
    "empty",
    "encodeURLComponent",
    "endsWith",
    "exp",
    "exp10",
    "exp2",
    "extract",
    "extractAll",
    "extractURLParameter",
    "extractURLParameterNames",
    "extractURLParameters",
    "firstSignificantSubdomain",
    "floor",
    "formatDateTime",
    "fragment",
    "gcd",
    "greatest",
    "has",
    "hasAll",
    "hasAny",
    "hasSubstr",
    "hypot",
    "if",
    "ifNotFinite",
    "ifNull",
    "indexOf",
    "intDiv",
    "intDivOrZero",
    "isFinite",
    "isInfinite",
    "isNaN",
    "isNotNull",
    "isNull",
    "lcm",
    "least",
    "log",
    "log10",
    "log1p",
    "log2",
    "map",
    "mapFromArrays",
    "mapKeys",
    "mapValues",
    "match",
    "max2",
    "min2",
    "minus",
    "modulo",
    "monthName",
    "multiIf",
    "multiMatchAny",
    "multiSearchAny",
    "multiSearchAnyCaseInsensitive",
    "multiSearchFirstIndex",
    "multiply",
    "negate",
    "netloc",
    "notEmpty",
    "nullIf",
    "path",
    "pathFull",
    "pi",
    "plus",
    "positiveModulo",
    "pow",
    "protocol",
    "queryString",
    "queryStringAndFragment",
    "radians",
    "range",
    "replaceAll",
    "replaceOne",
    "replaceRegexpAll",
    "replaceRegexpOne",
    "repeat",
    "round",
    "sign",
    "sin",
    "sinh",
    "splitByChar",
    "splitByRegexp",
    "splitByString",
    "sqrt",
    "startsWith",
    "subtractDays",
    "subtractHours",
    "subtractMinutes",
    "subtractMonths",
    "subtractQuarters",
    "subtractSeconds",
    "subtractWeeks",
    "subtractYears",
    "tan",
    "tanh",
    "timeSlot",
    "toDayOfMonth",
    "toDayOfYear",
    "toHour",
    "toISOWeek",
    "toISOYear",
    "toIntervalDay",
    "toIntervalHour",
    "toIntervalMinute",
    "toIntervalMonth",
    "toIntervalQuarter",
    "toIntervalSecond",
    "toIntervalWeek",
    "toIntervalYear",
    "toLastDayOfMonth",
    "toMinute",
    "toMonday",
    "toMonth",
    "toNullable",
    "toQuarter",
    "toSecond",
    "toStartOfDay",
    "toStartOfFifteenMinutes",
    "toStartOfFiveMinutes",
    "toStartOfHour",
    "toStartOfISOYear",
    "toStartOfInterval",
    "toStartOfMinute",
    "toStartOfMonth",
    "toStartOfQuarter",
    "toStartOfSecond",
    "toStartOfTenMinutes",
    "toStartOfYear",
    "toTimeZone",
    "toUnixTimestamp",
    "toUnixTimestamp64Micro",
    "toUnixTimestamp64Milli",
    "toYYYYMM",
    "toYYYYMMDD",
    "toYear",
    "topLevelDomain",
    "transform",
    "trunc",
    "tuple",
    "xor",
    "JSONExtractArrayRaw",
    "JSONExtractBool",
    "JSONExtractFloat",
    "JSONExtractInt",
    "JSONExtractKeys",
    "JSONExtractRaw",
    "JSONExtractString",
    "JSONExtractUInt",
    "JSONHas",
    "JSONLength",
];

/// HogQL counts characters, ClickHouse's functions with plain names bytes.
const OF_CHARACTERS: &[(&str, &str)] = &[
    ("left", "leftUTF8"),
    ("leftPad", "leftPadUTF8"),
    ("lengthUTF8", "lengthUTF8"),
    ("lower", "lowerUTF8"),
    ("position", "positionUTF8"),
    ("positionCaseInsensitive", "positionCaseInsensitiveUTF8"),
    ("right", "rightUTF8"),
    ("rightPad", "rightPadUTF8"),
    ("substring", "substringUTF8"),
    ("upper", "upperUTF8"),
];

impl Printer<'_> {
    pub fn call(
        &mut self,
        scope: &mut Scope,
        function: &Function,
        args: &[Expr],
        ty: &Type,
    ) -> Result<String> {
        let name = function.name;
        if let Some(printed) = self.own_form(scope, name, args, ty)? {
            return Ok(printed);
        }
        let renamed = OF_CHARACTERS.iter().find(|(own, _)| *own == name).map(|(_, theirs)| *theirs);
        let theirs = match renamed {
            Some(theirs) => theirs,
            None if SAME.contains(&name) => name,
            None => return Err(unsupported(format!("the function {name}"))),
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
            (
                "parseDateTimeBestEffort" | "toDateTime64" | "parseDateTime64BestEffort",
                [arg, ..],
            ) if arg.ty.kind.is_string() && args.len() == 1 => {
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
