//! Implicit casts.
//!
//! A string literal is cast to the type it is compared with. A property has the type of its
//! definition, which may be missing: it is cast to the expected type as well, and is null where that
//! fails. So is what only passes a property on, such as `coalesce` and the column of a subquery.
//! Nothing else is cast implicitly.

use super::Resolver;
use super::expr::{cast, is_null};
use super::scope::Columns;
use crate::error::{Checked, Fault, Span};
use crate::functions::{Arg, Combinators};
use crate::plan::{Aggregate, Expr, ExprKind, Value};
use crate::types::{Kind, Type};

/// Aggregates and window functions whose result is one of the values.
const PICKS: [&str; 11] = [
    "any",
    "anyHeavy",
    "anyLast",
    "argMax",
    "argMin",
    "first_value",
    "lag",
    "lagInFrame",
    "last_value",
    "lead",
    "leadInFrame",
];

impl Resolver<'_> {
    /// Whether a value is a property, or one of several.
    pub(super) fn is_property(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Property { .. } => true,
            ExprKind::Output { source, column } => {
                let source = self.scopes.last().and_then(|scope| scope.sources.get(*source));
                let Some(Columns::Outputs(outputs)) = source.map(|source| &source.columns) else {
                    return false;
                };
                outputs.get(*column).is_some_and(|output| output.is_property)
            }
            ExprKind::AggregateCall(call) => self.picks_property(call),
            ExprKind::WindowCall(window) => self.picks_property(&window.call),
            ExprKind::Call { function, args } => {
                let values = match (function.0.name, &args[..]) {
                    ("assumeNotNull" | "toNullable" | "nullIf", [value, ..]) => vec![value],
                    ("coalesce" | "if" | "ifNull" | "multiIf", _) => {
                        values_of(function.0.name, args)
                    }
                    _ => return false,
                };
                let is_one = |value: &&Expr| is_null(value) || self.is_property(value);
                values.iter().all(is_one) && !values.iter().all(|value| is_null(value))
            }
            _ => false,
        }
    }

    fn picks_property(&self, call: &Aggregate) -> bool {
        let picks = PICKS.contains(&call.function.0.name);
        let is_plain = call.combinators == Combinators::default();
        picks && is_plain && call.args.first().is_some_and(|value| self.is_property(value))
    }

    /// Whether a value is cast to what is expected of it: also the least or greatest of a property,
    /// which is then found among the values that are cast.
    fn is_cast(&self, expr: &Expr) -> bool {
        let extreme = |call: &Aggregate| {
            matches!(call.function.0.name, "min" | "max")
                && call.combinators == Combinators::default()
                && call.args.first().is_some_and(|value| self.is_property(value))
        };
        match &expr.kind {
            ExprKind::AggregateCall(call) if extreme(call) => true,
            ExprKind::WindowCall(window) if extreme(&window.call) => true,
            _ => self.is_property(expr),
        }
    }

    /// The arguments with their properties cast to the type of the other values, where a function needs
    /// values of one type.
    pub(super) fn with_cast_properties(
        &mut self,
        function: &str,
        args: &[Expr],
    ) -> Checked<Option<Vec<Expr>>> {
        let values = values_of(function, args);
        let is_text = |value: &Expr| value.ty.kind.is_string() && self.is_cast(value);
        let typed = values.iter().find(|value| !is_text(value) && !is_null(value));
        let wanted = match typed.map(|value| &value.ty.kind) {
            Some(Kind::Bool) => Arg::Condition,
            Some(kind) if kind.is_number() => Arg::Number,
            Some(kind) if kind.is_time() => Arg::Time,
            _ => return Ok(None),
        };
        let texts: Vec<bool> = args
            .iter()
            .map(|arg| values.iter().any(|value| std::ptr::eq(*value, arg)) && is_text(arg))
            .collect();
        if !texts.contains(&true) {
            return Ok(None);
        }
        let cast = args.iter().zip(texts).map(|(arg, is_text)| match is_text {
            true => self.coerce(arg.clone(), wanted),
            false => Ok(arg.clone()),
        });
        cast.collect::<Checked<Vec<Expr>>>().map(Some)
    }

    /// Casts both sides of a comparison to comparable types.
    pub(super) fn align(&mut self, left: Expr, right: Expr, span: Span) -> Checked<[Expr; 2]> {
        if left.ty.common(&right.ty).is_some() {
            return Ok([left, right]);
        }
        if let Some(kind) = self.implicit_kind(&left, &right) {
            return Ok([left, cast_implicitly(right, kind)]);
        }
        if let Some(kind) = self.implicit_kind(&right, &left) {
            return Ok([cast_implicitly(left, kind), right]);
        }
        Err(Fault::invalid(format!("{} cannot be compared with {}", left.ty, right.ty), span))
    }

    /// Casts an element of an `IN` list to the type of `left`, which stays as it is.
    pub(super) fn align_item(&mut self, left: &Expr, item: Expr) -> Checked<Expr> {
        if left.ty.common(&item.ty).is_some() {
            return Ok(item);
        }
        if let Some(kind) = self.implicit_kind(left, &item) {
            return Ok(cast_implicitly(item, kind));
        }
        let literal = matches!(item.kind, ExprKind::Value(_));
        if left.ty.kind.is_string() && literal {
            return Ok(cast(item, Kind::String.into(), false));
        }
        Err(Fault::invalid(format!("{} cannot be in a list of {}", left.ty, item.ty), item.span))
    }

    /// The array that a property holds; empty if it holds none.
    fn array_of(&mut self, property: Expr) -> Checked<Expr> {
        let (span, ty) = (property.span, Type::array(Kind::String.into()));
        let kind = ExprKind::Value(Value::String(ty.to_string()));
        let name = Expr { kind, ty: Kind::String.into(), span };
        let array = self.apply("JSONExtract", vec![property, name], span)?;
        Ok(Expr { ty, ..array })
    }

    /// Casts an argument to what its function requires.
    pub(super) fn coerce(&mut self, expr: Expr, wanted: Arg) -> Checked<Expr> {
        let kind = &expr.ty.kind;
        let fits = match wanted {
            Arg::Any => true,
            Arg::String => kind.is_string(),
            Arg::Int | Arg::Condition => kind.is_integer(),
            Arg::Number => kind.is_number(),
            Arg::Time => kind.is_time(),
            Arg::Interval => matches!(kind, Kind::Interval(_)),
            Arg::Array => matches!(kind, Kind::Array(_)),
            Arg::Map => matches!(kind, Kind::Map(_)),
            Arg::Tuple => matches!(kind, Kind::Tuple(_)),
            Arg::Key => kind.is_string() || kind.is_integer(),
            Arg::Unit | Arg::ConstString => matches!(expr.kind, ExprKind::Value(Value::String(_))),
            Arg::Zone => match &expr.kind {
                ExprKind::Value(Value::String(zone)) if model::is_time_zone(zone) => true,
                ExprKind::Value(Value::String(zone)) => {
                    return Err(Fault::invalid(format!("Unknown time zone '{zone}'"), expr.span));
                }
                _ => false,
            },
            Arg::ConstInt => {
                matches!(expr.kind, ExprKind::Value(Value::UInt(_) | Value::Int(_)))
            }
        };
        let may_be_null = !matches!(
            wanted,
            Arg::Array
                | Arg::Map
                | Arg::Tuple
                | Arg::Unit
                | Arg::ConstString
                | Arg::Zone
                | Arg::ConstInt
        );
        if fits || (*kind == Kind::Null && may_be_null) {
            return Ok(expr);
        }
        let property = self.is_cast(&expr);
        if property && wanted == Arg::Array {
            return self.array_of(expr);
        }
        let literal = matches!(expr.kind, ExprKind::Value(Value::String(_)));
        let reread_as = match wanted {
            Arg::String if property => Some(Kind::String),
            Arg::Int if property => Some(Kind::Int(64)),
            Arg::Number if property => Some(Kind::Float),
            Arg::Condition if property => Some(Kind::Bool),
            Arg::Time if (property || literal) && kind.is_string() => Some(Kind::TIMESTAMP),
            _ => None,
        };
        match reread_as {
            Some(kind) if property => Ok(cast_property(expr, &kind)),
            Some(kind) => Ok(cast(expr, kind.into(), false)),
            None => {
                let message = format!("Expected {}, found {}", expected_name(wanted), expr.ty);
                Err(Fault::invalid(message, expr.span))
            }
        }
    }
}

fn expected_name(wanted: Arg) -> &'static str {
    match wanted {
        Arg::Any => "a value",
        Arg::String => "a text",
        Arg::Int => "a whole number",
        Arg::Number => "a number",
        Arg::Condition => "a condition",
        Arg::Time => "a date or a date-time",
        Arg::Interval => "an interval",
        Arg::Array => "an array",
        Arg::Map => "a map",
        Arg::Tuple => "a tuple",
        Arg::Unit => "a unit of time",
        Arg::Zone => "the name of a time zone",
        Arg::ConstString => "a text written in the query",
        Arg::ConstInt => "a whole number written in the query",
        Arg::Key => "a name or a number",
    }
}

impl Resolver<'_> {
    /// The kind to which `other` must be cast to be compared with `one`, if possible.
    fn implicit_kind(&self, one: &Expr, other: &Expr) -> Option<Kind> {
        let literal = matches!(other.kind, ExprKind::Value(Value::String(_)));
        let property = self.is_cast(other);
        let one_is_property = self.is_cast(one);
        match &one.ty.kind {
            kind if kind.is_time() && other.ty.kind.is_string() && (literal || property) => {
                Some(Kind::TIMESTAMP)
            }
            Kind::Uuid if other.ty.kind.is_string() => Some(Kind::Uuid),
            // A boolean property without a definition holds the string `true`.
            kind if kind.is_string() && one_is_property && other.ty.kind == Kind::Bool => {
                Some(Kind::String)
            }
            Kind::Bool if one_is_property && literal => Some(Kind::Bool),
            Kind::Bool => None,
            kind if kind.is_number() && property && other.ty.kind.is_string() => Some(Kind::Float),
            kind if kind.is_number() && one_is_property && literal => Some(Kind::Float),
            _ => None,
        }
    }
}

/// The arguments that give the result of a function whose values have one type.
fn values_of<'e>(function: &str, args: &'e [Expr]) -> Vec<&'e Expr> {
    let last = args.len().saturating_sub(1);
    match function {
        "if" => args.iter().skip(1).collect(),
        "multiIf" => {
            let values = args.iter().enumerate().filter(|(no, _)| no % 2 == 1 || *no == last);
            values.map(|(_, value)| value).collect()
        }
        "coalesce" | "greatest" | "ifNull" | "least" | "max2" | "min2" | "nullIf" => {
            args.iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Casts a property; null where that fails. What an aggregate picks is cast before it is picked.
fn cast_property(expr: Expr, kind: &Kind) -> Expr {
    let Expr { kind: value, ty, span } = expr;
    let call = |mut call: Aggregate| {
        if let Some(first) = call.args.first_mut() {
            *first = cast_property(first.clone(), kind);
        }
        call
    };
    let value = match value {
        ExprKind::AggregateCall(picked) => ExprKind::AggregateCall(Box::new(call(*picked))),
        ExprKind::WindowCall(window) => {
            let mut window = *window;
            window.call = call(window.call);
            ExprKind::WindowCall(Box::new(window))
        }
        other => return cast(Expr { kind: other, ty, span }, kind.clone().into(), true),
    };
    Expr { kind: value, ty: Type::from(kind.clone()).or_null(true), span }
}

/// Casts implicitly. A string literal that is not a time is an error; a property becomes null.
fn cast_implicitly(expr: Expr, kind: Kind) -> Expr {
    if matches!(expr.kind, ExprKind::AggregateCall(_) | ExprKind::WindowCall(_)) {
        return cast_property(expr, &kind);
    }
    let is_literal = matches!(expr.kind, ExprKind::Value(_));
    let or_null = !(is_literal && (kind.is_time() || kind == Kind::String));
    cast(expr, Type::from(kind), or_null)
}
