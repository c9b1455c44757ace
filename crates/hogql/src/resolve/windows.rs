//! Resolves calls of aggregates and window functions.

use super::Resolver;
use super::call::check_arity;
use super::scope::Clause;
use crate::ast::{self, Bound, ExprKind as Ast, Literal, Over, UnaryOp};
use crate::error::{Checked, Fault, Reason, Span};
use crate::functions::{
    Arg, Combinators, Combined, FUNNEL_MODES, Function, FunctionKind, Nesting, function_named,
};
use crate::plan::{Aggregate, Expr, ExprKind, FunctionRef, Order, Value, WindowCall};
use crate::types::Kind;

pub(super) struct Called<'a> {
    pub function: &'static Function,
    pub combined: Combined,
    pub call: &'a ast::Call,
    pub span: Span,
}

impl Called<'_> {
    /// Without `OVER`, `first_value` and `last_value` are aggregates.
    fn of_rows(self) -> Self {
        let name = match (&self.call.over, self.function.name) {
            (None, "first_value") => "any",
            (None, "last_value") => "anyLast",
            _ => return self,
        };
        match function_named(name) {
            Some(function) => {
                Self { function, combined: Combined { function, ..self.combined }, ..self }
            }
            None => self,
        }
    }
}

impl<'a> Resolver<'a> {
    pub(super) fn aggregate(&mut self, called: Called<'a>) -> Checked<Expr> {
        let called = called.of_rows();
        let Called { function, call, span, .. } = called;
        let name = &call.name.text;
        let outside = self.scope().clause;
        let message = match (outside, &call.over) {
            (Clause::Source | Clause::Row, _) => {
                Some(format!("{name} cannot stand here: rows are not grouped yet"))
            }
            (Clause::Aggregate, _) => Some(format!("{name} cannot stand inside an aggregate")),
            (Clause::Window, Some(_)) => Some(format!("{name} cannot stand inside a window")),
            (_, None) if function.kind == FunctionKind::Window => {
                Some(format!("{name} needs OVER"))
            }
            _ => None,
        };
        if let Some(message) = message {
            return Err(Fault::invalid(message, span));
        }
        self.scope().clause = if call.over.is_some() { Clause::Window } else { Clause::Aggregate };
        // Within a lambda it is the same for all elements: its parameters are not visible.
        let params = std::mem::take(&mut self.scope().params);
        let resolved = self.aggregate_call(called);
        self.scope().params = params;
        self.scope().clause = outside;
        resolved
    }

    fn aggregate_call(&mut self, called: Called<'a>) -> Checked<Expr> {
        let Called { function, combined, call, span } = called;
        let (distinct, combinators) = (call.distinct || combined.distinct, combined.combinators);
        let mut args: &[ast::Expr] = &call.args;
        if let [ast::Expr { kind: Ast::Star(None), .. }, rest @ ..] = args
            && function.name == "count"
            && !distinct
        {
            args = rest;
        }
        let mut filter = None;
        if combined.conditional {
            let Some((last, before)) = args.split_last() else {
                let message = format!("{} takes a condition last", call.name.text);
                return Err(Fault::invalid(message, call.name.span));
            };
            filter = Some(self.condition_of(last)?);
            args = before;
        }
        if distinct && (args.is_empty() || function.kind == FunctionKind::Window) {
            return Err(Fault::invalid("DISTINCT needs something to tell apart", call.name.span));
        }
        let plain = combinators == Combinators::default();
        let args = if let ("sumMap", true, [keys, values]) = (function.name, plain, args) {
            // Arrays of keys and of values are a pair of arrays.
            let pair = vec![self.expr(keys)?, self.expr(values)?];
            vec![self.apply("tuple", pair, span)?]
        } else if plain {
            check_arity(function, args.len(), call.name.span)?;
            self.args(function, args)?
        } else {
            let own = args.len().saturating_sub(usize::from(combinators.extreme.is_some()));
            check_arity(function, own, call.name.span)?;
            self.combined_args(function, combinators, args)?
        };
        let parameters = parameters(function, call)?;
        let aggregate = Aggregate {
            function: FunctionRef(function),
            combinators,
            parameters,
            distinct,
            args,
            filter,
        };
        let Some(ty) = aggregate.ty() else {
            let types = aggregate.args.iter().map(|arg| arg.ty.to_string());
            let types = types.collect::<Vec<_>>().join(" and ");
            return Err(Fault::invalid(format!("{} cannot take {types}", call.name.text), span));
        };
        let kind = match &call.over {
            None => ExprKind::AggregateCall(Box::new(aggregate)),
            Some(over) => ExprKind::WindowCall(Box::new(self.window(aggregate, over)?)),
        };
        Ok(Expr { kind, ty, span })
    }

    /// Arguments of an aggregate with combinators: each element must be what the aggregate takes.
    fn combined_args(
        &mut self,
        function: &'static Function,
        combinators: Combinators,
        args: &'a [ast::Expr],
    ) -> Checked<Vec<Expr>> {
        let resolved = args.iter().map(|arg| self.expr(arg)).collect::<Checked<Vec<Expr>>>()?;
        let own = resolved.len().saturating_sub(usize::from(combinators.extreme.is_some()));
        let mut resolved = resolved.into_iter().enumerate().map(|(no, arg)| {
            let wanted = function.arg(no).filter(|_| no < own).unwrap_or(Arg::Any);
            let element = match (combinators.nesting, &arg.ty.kind) {
                _ if no >= own => return Ok(arg),
                (None, _) => return self.coerce(arg, wanted),
                (Some(Nesting::Array | Nesting::ForEach), Kind::Array(element)) => &**element,
                (Some(Nesting::Map), Kind::Map(pair)) => &pair.1,
                (Some(nesting), _) => {
                    let what = if nesting == Nesting::Map { "a map" } else { "an array" };
                    let message = format!("Expected {what}, found {}", arg.ty);
                    return Err(Fault::invalid(message, arg.span));
                }
            };
            // Elements are not cast: only what already fits.
            let probe =
                Expr { kind: ExprKind::Value(Value::Null), ty: element.clone(), span: arg.span };
            self.coerce(probe, wanted)?;
            Ok(arg)
        });
        resolved.by_ref().collect()
    }

    fn window(&mut self, call: Aggregate, over: &'a Over) -> Checked<WindowCall> {
        let window = match over {
            Over::Window(window) => window,
            Over::Named(name) => {
                let windows = self.scope().windows;
                let named = windows.iter().find(|(other, _)| other.text == name.text);
                let Some((_, window)) = named else {
                    let known = windows.iter().map(|(other, _)| other.text.as_str());
                    let suggestion = super::suggest::suggest(&name.text, known);
                    let reason =
                        Reason::Unknown { what: "window", name: name.text.clone(), suggestion };
                    return Err(Fault::new(reason, name.span));
                };
                window
            }
        };
        let partition = window.partition.iter().map(|expr| self.expr(expr));
        let partition = partition.collect::<Checked<Vec<Expr>>>()?;
        let order: Vec<Order> = self.order(&window.order)?;
        let frame = window.frame.map(|frame| (frame.unit, frame.start, frame.end));
        if let Some((_, start, end)) = frame
            && !follows(start, end)
        {
            let span = match over {
                Over::Named(name) => name.span,
                Over::Window(window) => {
                    let parts = window.partition.first();
                    parts
                        .or(window.order.first().map(|order| &order.expr))
                        .map_or_else(Span::default, |expr| expr.span)
                }
            };
            return Err(Fault::invalid("The frame ends before it begins", span));
        }
        Ok(WindowCall { call, partition, order, frame })
    }
}

fn follows(start: Bound, end: Bound) -> bool {
    let rank = |bound: Bound| match bound {
        Bound::UnboundedPreceding => (0, 0),
        Bound::Preceding(rows) => (1, u64::MAX - rows),
        Bound::CurrentRow => (2, 0),
        Bound::Following(rows) => (3, rows),
        Bound::UnboundedFollowing => (4, 0),
    };
    let possible = start != Bound::UnboundedFollowing && end != Bound::UnboundedPreceding;
    possible && rank(start) <= rank(end)
}

fn parameters(function: &Function, call: &ast::Call) -> Checked<Vec<Value>> {
    let (min, max) = function.parameters;
    let count = call.parameters.len();
    if count < min || count > max {
        let message = match max {
            0 => format!("{} takes no parameters before its arguments", function.name),
            _ => format!("{} takes {min} to {max} parameter(s): {0}(…)(…)", function.name),
        };
        return Err(Fault::invalid(message, call.name.span));
    }
    let parameters = call.parameters.iter().enumerate();
    parameters.map(|(no, parameter)| self::parameter(function, no, parameter)).collect()
}

/// Quantile levels are between 0 and 1; other parameters are counts, and the modes of a funnel.
fn parameter(function: &Function, no: usize, parameter: &ast::Expr) -> Checked<Value> {
    if function.name == "windowFunnel" && no > 0 {
        return match &parameter.kind {
            Ast::Literal(Literal::String(mode)) if FUNNEL_MODES.contains(&mode.as_str()) => {
                Ok(Value::String(mode.clone()))
            }
            _ => {
                let modes = FUNNEL_MODES.join(", ");
                let message = format!("After its seconds windowFunnel takes {modes}");
                Err(Fault::invalid(message, parameter.span))
            }
        };
    }
    let levels = function.name.starts_with("quantile");
    match &parameter.kind {
        Ast::Literal(Literal::Float(level)) if levels && (0.0..=1.0).contains(level) => {
            Ok(Value::Float(*level))
        }
        Ast::Literal(Literal::Int(level)) if levels && *level <= 1 => {
            Ok(Value::Float(*level as f64))
        }
        Ast::Literal(Literal::Int(count)) if !levels && *count > 0 => Ok(Value::UInt(*count)),
        Ast::Literal(_) | Ast::Unary(UnaryOp::Negate, _) if levels => {
            Err(Fault::invalid("A level lies between 0 and 1", parameter.span))
        }
        _ => {
            let wanted = if levels { "a level" } else { "a whole number above 0" };
            let message = format!("{} takes {wanted} before its arguments", function.name);
            Err(Fault::invalid(message, parameter.span))
        }
    }
}
