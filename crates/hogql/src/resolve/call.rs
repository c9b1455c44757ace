//! Resolves function calls.

use super::scope::Clause;
use super::suggest::suggest;
use super::{Resolver, windows};
use crate::ast::{self, ExprKind as Ast, Literal, LogicOp, Unit};
use crate::error::{Checked, Fault, Reason, Span};
use crate::functions::scalars::time_plus_interval;
use crate::functions::{Arg, Function, FunctionKind, Lambda, function_named, functions};
use crate::parse::parse_type;
use crate::plan::{Expr, ExprKind, FunctionRef, Step, Value};
use crate::resolve::expr::logic;
use crate::types::{DateTimeType, Kind, Type, named};
use crate::visit::exprs_of_expr;

/// Functions whose lambda is a predicate.
const PREDICATES: &[&str] =
    &["arrayAll", "arrayCount", "arrayExists", "arrayFilter", "arrayFirst", "arrayLast"];

impl<'a> Resolver<'a> {
    pub(super) fn call(&mut self, call: &'a ast::Call, span: Span) -> Checked<Expr> {
        let (function, conditional) = named_function(&call.name)?;
        if function.kind != FunctionKind::Scalar {
            return self.aggregate(windows::Called { function, conditional, call, span });
        }
        let name = function.name;
        let refused = [
            (call.over.is_some(), "OVER"),
            (call.distinct, "DISTINCT"),
            (!call.parameters.is_empty(), "parameters before its arguments"),
        ];
        if let Some((_, what)) = refused.into_iter().find(|(applies, _)| *applies) {
            return Err(Fault::invalid(format!("{name} takes no {what}"), call.name.span));
        }
        if function.lambda != Lambda::None {
            return self.with_lambda(function, call, span);
        }
        check_arity(function, call.args.len(), call.name.span)?;
        let args = self.args(function, &call.args)?;
        self.special(function, args, span)
    }

    pub(super) fn args(
        &mut self,
        function: &'static Function,
        args: &'a [ast::Expr],
    ) -> Checked<Vec<Expr>> {
        let args = args.iter().enumerate().map(|(no, arg)| {
            let wanted = function.arg(no).unwrap_or(Arg::Any);
            if wanted == Arg::Unit {
                return unit(arg);
            }
            let arg = self.expr(arg)?;
            self.coerce(arg, wanted)
        });
        args.collect()
    }

    /// Functions whose result type depends on more than their argument types.
    fn special(
        &mut self,
        function: &'static Function,
        mut args: Vec<Expr>,
        span: Span,
    ) -> Checked<Expr> {
        match function.name {
            "and" => return Ok(logic(LogicOp::And, args, span)),
            "or" => return Ok(logic(LogicOp::Or, args, span)),
            "arrayJoin" => return self.array_join_call(args, span),
            "nullIf" => {
                if let Some(property) = stored_property(&args, span) {
                    return Ok(property);
                }
            }
            "tupleElement" => {
                let index = args.pop().map(|index| index.kind);
                if let (Some(base), Some(ExprKind::Value(Value::UInt(index)))) = (args.pop(), index)
                {
                    return self.element(base, index, span);
                }
                return Err(Fault::invalid("Elements are counted from 1", span));
            }
            "multiIf" => {
                let last = args.len() - 1;
                let conditions = args.into_iter().enumerate().map(|(no, arg)| {
                    let wanted = if no < last && no % 2 == 0 { Arg::Condition } else { Arg::Any };
                    self.coerce(arg, wanted)
                });
                args = conditions.collect::<Checked<_>>()?;
            }
            _ => {}
        }
        let override_kind = special_kind(function, &args, span)?;
        let result = self.apply(function.name, args, span)?;
        Ok(match override_kind {
            Some(ty) => Expr { ty: ty.or_null(result.ty.nullable), ..result },
            None => result,
        })
    }

    fn array_join_call(&mut self, mut args: Vec<Expr>, span: Span) -> Checked<Expr> {
        self.reject_in_lambda("arrayJoin", span)?;
        if matches!(self.scope().clause, Clause::Window | Clause::Source) {
            return Err(Fault::invalid("arrayJoin cannot stand in a window or a join", span));
        }
        let array = args.pop().filter(|array| array.ty.element().is_some());
        let Some(array) = array else {
            return Err(Fault::invalid("arrayJoin takes an array", span));
        };
        let ty = array.ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
        Ok(Expr { kind: ExprKind::Unnested { array: Box::new(array) }, ty, span })
    }

    pub(super) fn reject_in_lambda(&mut self, name: &str, span: Span) -> Checked<()> {
        if self.scope().params.is_empty() {
            return Ok(());
        }
        Err(Fault::invalid(format!("{name} cannot stand in a lambda"), span))
    }

    fn with_lambda(
        &mut self,
        function: &'static Function,
        call: &'a ast::Call,
        span: Span,
    ) -> Checked<Expr> {
        let name = function.name;
        let (lambda, arrays) = match call.args.split_first() {
            Some((first, rest)) if matches!(first.kind, Ast::Lambda(..)) => (Some(first), rest),
            _ => (None, &call.args[..]),
        };
        if lambda.is_none() && function.lambda == Lambda::Required {
            let message = format!("{name} takes a lambda first: x -> …");
            return Err(Fault::invalid(message, call.name.span));
        }
        check_arity(function, arrays.len(), call.name.span)?;
        let arrays = self.args(function, arrays)?;
        let elements: Vec<Type> =
            arrays.iter().filter_map(|array| array.ty.element().cloned()).collect();
        let mut types = vec![elements.first().cloned().unwrap_or_else(|| Kind::Null.into())];
        let mut args = Vec::new();
        if let Some(lambda) = lambda {
            let lambda = self.lambda(function, lambda, elements)?;
            types[0] = lambda.ty.clone();
            args.push(lambda);
        }
        types.extend(arrays.iter().map(|array| array.ty.clone()));
        args.extend(arrays);
        let Some(ty) = function.result(&types) else {
            return Err(Fault::invalid(format!("{name} cannot take these arguments"), span));
        };
        Ok(Expr { kind: ExprKind::Call { function: FunctionRef(function), args }, ty, span })
    }

    fn lambda(
        &mut self,
        function: &'static Function,
        lambda: &'a ast::Expr,
        elements: Vec<Type>,
    ) -> Checked<Expr> {
        let Ast::Lambda(names, body) = &lambda.kind else {
            return Err(Fault::invalid("Expected a lambda", lambda.span));
        };
        if names.len() != elements.len() {
            let message = format!(
                "The lambda takes {} parameter(s) for {} array(s)",
                names.len(),
                elements.len()
            );
            return Err(Fault::invalid(message, lambda.span));
        }
        let mut params = Vec::new();
        for (name, ty) in names.iter().zip(elements) {
            let scope = self.scope();
            // Numbered by depth: resolving the same lambda again for an alias gives an equal plan.
            let id = scope.params.len();
            params.push(id);
            scope.params.push((&name.text, id, ty));
        }
        let mut body = self.expr(body)?;
        let scope = self.scope();
        let outside = scope.params.len() - params.len();
        scope.params.truncate(outside);
        if PREDICATES.contains(&function.name) {
            body = self.coerce(body, Arg::Condition)?;
        }
        let ty = body.ty.clone();
        let kind = ExprKind::Lambda { params, body: Box::new(body) };
        Ok(Expr { kind, ty, span: lambda.span })
    }
}

/// `nullIf(JSONExtractString(properties, 'x'), '')` is the string of a property and
/// `nullIf(JSONType(properties, 'x'), 'Null')` its JSON type, both whatever the property's definition
/// says. As a [`ExprKind::Property`] they read one property instead of the whole object.
fn stored_property(args: &[Expr], span: Span) -> Option<Expr> {
    let [Expr { kind: ExprKind::Call { function, args }, .. }, missing] = args else { return None };
    let ExprKind::Value(Value::String(missing)) = &missing.kind else { return None };
    let [of, Expr { kind: ExprKind::Value(Value::String(key)), .. }] = &args[..] else {
        return None;
    };
    let is_column = matches!(of.kind, ExprKind::Column { .. });
    if !is_column || !matches!(of.ty.kind, Kind::Json(_)) {
        return None;
    }
    let mut path = vec![Step::Key(key.clone())];
    match (function.0.name, missing.as_str()) {
        ("JSONExtractString", "") => {}
        ("JSONType", "Null") => path.push(Step::JsonType),
        _ => return None,
    }
    let kind = ExprKind::Property { of: Box::new(of.clone()), path };
    Some(Expr { kind, ty: Type::from(Kind::String).or_null(true), span })
}

/// Whether an expression contains an aggregate: such conditions belong into `HAVING`.
pub fn has_aggregate(expr: &ast::Expr) -> bool {
    fn visit(expr: &mut ast::Expr) -> Result<(), ()> {
        match &expr.kind {
            Ast::Query(_) => Ok(()),
            Ast::Call(call) if call.over.is_none() && is_aggregate(&call.name) => Err(()),
            _ => exprs_of_expr(expr, &mut visit),
        }
    }
    visit(&mut expr.clone()).is_err()
}

fn is_aggregate(name: &ast::Name) -> bool {
    named_function(name).is_ok_and(|(function, _)| function.kind == FunctionKind::Aggregate)
}

/// The function, and whether the name has the `If` combinator.
fn named_function(name: &ast::Name) -> Checked<(&'static Function, bool)> {
    let text = name.text.as_str();
    if let Some(function) = function_named(text) {
        return Ok((function, false));
    }
    let base = text.len().checked_sub(2).filter(|at| text.is_char_boundary(*at));
    if let Some((base, suffix)) = base.map(|at| text.split_at(at))
        && suffix.eq_ignore_ascii_case("if")
        && let Some(function) = function_named(base)
        && function.kind == FunctionKind::Aggregate
    {
        return Ok((function, true));
    }
    let suggestion = suggest(text, functions().map(|function| function.name));
    Err(Fault::new(Reason::UnknownFunction { name: text.to_owned(), suggestion }, name.span))
}

pub(super) fn check_arity(function: &Function, count: usize, span: Span) -> Checked<()> {
    let (min, max) = function.arity();
    if count >= min && max.is_none_or(|max| count <= max) {
        return Ok(());
    }
    let wanted = match max {
        Some(max) if max == min => format!("{min}"),
        Some(max) => format!("{min} to {max}"),
        None => format!("at least {min}"),
    };
    let message = format!("{} takes {wanted} argument(s), found {count}", function.name);
    Err(Fault::invalid(message, span))
}

/// A unit of time: a string or a bare word.
fn unit(arg: &ast::Expr) -> Checked<Expr> {
    let word = match &arg.kind {
        Ast::Literal(Literal::String(text)) => Some(text.as_str()),
        Ast::Field(chain) if chain.len() == 1 => Some(chain[0].text.as_str()),
        _ => None,
    };
    let Some(unit) = word.and_then(Unit::parse) else {
        let units: Vec<&str> = Unit::ALL.iter().map(|unit| unit.as_str()).collect();
        let message = format!("Expected a unit of time: {}", units.join(", "));
        return Err(Fault::invalid(message, arg.span));
    };
    let kind = ExprKind::Value(Value::String(unit.as_str().to_owned()));
    Ok(Expr { kind, ty: Kind::String.into(), span: arg.span })
}

/// The result type, where constant arguments determine it.
fn special_kind(function: &Function, args: &[Expr], span: Span) -> Checked<Option<Type>> {
    let text = |no: usize| match args.get(no).map(|arg| &arg.kind) {
        Some(ExprKind::Value(Value::String(text))) => Some(text.clone()),
        _ => None,
    };
    let digits = |no: usize, max: u64| match args.get(no).map(|arg| &arg.kind) {
        Some(ExprKind::Value(Value::UInt(digits))) if *digits <= max => Ok(*digits as u8),
        _ => Err(Fault::invalid(format!("Expected a number of digits up to {max}"), span)),
    };
    let date_time = |precision, zone| Some(Kind::DateTime(DateTimeType { precision, zone }).into());
    Ok(match function.name {
        "now" => date_time(0, text(0)),
        "dateTrunc" => match text(0).as_deref().and_then(Unit::parse) {
            Some(Unit::Week | Unit::Month | Unit::Quarter | Unit::Year) => Some(Kind::Date.into()),
            _ => None,
        },
        "dateAdd" | "dateSub" => {
            let unit = text(0).as_deref().and_then(Unit::parse);
            unit.zip(args.get(2))
                .map(|(unit, time)| time_plus_interval(&time.ty.kind, &Kind::Interval(unit)))
        }
        "toDateTime" | "parseDateTimeBestEffort" => date_time(0, text(1)),
        "toDateTime64" => date_time(digits(1, 9)?, text(2)),
        "toTimeZone" => match args.first().map(|time| &time.ty.kind) {
            Some(Kind::DateTime(of)) => date_time(of.precision, text(1)),
            _ => date_time(0, text(1)),
        },
        "toDecimal" => Some(Kind::Decimal(digits(1, 38)?).into()),
        "JSONExtract" => {
            let name = text(args.len().saturating_sub(1)).and_then(|name| parse_type(&name).ok());
            let Some(name) = name else {
                return Err(Fault::invalid("The last argument of JSONExtract names a type", span));
            };
            Some(named(&name).map_err(|fault| fault.at(span))?)
        }
        _ => None,
    })
}
