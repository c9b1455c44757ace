//! Resolves function calls.

use super::scope::Clause;
use super::suggest::suggest;
use super::{Resolver, windows};
use crate::ast::{self, ExprKind as Ast, Literal, Unit};
use crate::error::{Checked, Fault, Reason, Span};
use crate::functions::scalars::time_plus_interval;
use crate::functions::{
    Arg, Combined, Function, FunctionKind, Lambda, Nulls, Operator, REDUCERS, definition,
    functions, operator, reducer,
};
use crate::parse::parse_type;
use crate::plan::{Expr, ExprKind, FunctionRef, Step, Value};
use crate::resolve::expr::cast;
use crate::types::{DateTimeType, Kind, Type, named};
use crate::visit::exprs_of_expr;

/// Functions whose lambda is a predicate.
const PREDICATES: &[&str] = &[
    "arrayAll",
    "arrayCount",
    "arrayExists",
    "arrayFill",
    "arrayFilter",
    "arrayFirst",
    "arrayFirstIndex",
    "arrayLast",
    "arrayLastIndex",
    "arrayReverseFill",
    "arrayReverseSplit",
    "arraySplit",
    "mapFilter",
];

impl<'a> Resolver<'a> {
    pub(super) fn call(&mut self, call: &'a ast::Call, span: Span) -> Checked<Expr> {
        let combined = named_function(&call.name)?;
        let function = combined.function;
        if function.kind != FunctionKind::Scalar {
            return self.aggregate(windows::Called { function, combined, call, span });
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
        if let ("dateAdd" | "dateSub", [time, by]) = (function.name, &call.args[..])
            && is_interval(by)
        {
            let add = function.name == "dateAdd";
            let op = if add { ast::BinaryOp::Add } else { ast::BinaryOp::Subtract };
            return self.binary(op, time, by, span);
        }
        if function.name == "arrayFold" {
            return self.fold(function, call, span);
        }
        if function.lambda != Lambda::None {
            return self.with_lambda(function, call, span);
        }
        check_arity(function, call.args.len(), call.name.span)?;
        if let Some(operator) = operator(function.name) {
            return self.operator(operator, &call.args, span);
        }
        if let ("matchesAction", [action]) = (function.name, &call.args[..]) {
            return self.matches_action(action, span);
        }
        if is_chance(function) {
            return self.chance(function, &call.args, span);
        }
        if function.name == "arrayReduce" {
            return self.reduce(function, &call.args, span);
        }
        if let Some(body) = definition(function, call.args.len()) {
            return self.defined(function, body, &call.args, span);
        }
        let args = self.args(function, &call.args)?;
        self.special(function, args, span)
    }

    fn operator(&mut self, operator: Operator, args: &'a [ast::Expr], span: Span) -> Checked<Expr> {
        match (operator, args) {
            (Operator::Binary(op), [left, right]) => self.binary(op, left, right, span),
            (Operator::In { negated }, [expr, set]) => self.in_set(expr, set, negated, span),
            (Operator::Logic(op), operands) => self.logic(op, operands, span),
            (Operator::Not, [operand]) => self.not(operand, span),
            _ => Err(Fault::invalid("An operator with other arguments than its own", span)),
        }
    }

    /// `rand()`: of the columns that tell rows apart, so that a row has one number wherever the
    /// statement asks for it.
    fn chance(
        &mut self,
        function: &'static Function,
        args: &'a [ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let mut args = self.args(function, args)?;
        let identity = self.row_identity(span);
        self.charge(identity.len(), span)?;
        args.extend(identity);
        self.apply(function.name, args, span)
    }

    /// `arrayReduce('sum', array)`
    fn reduce(
        &mut self,
        function: &'static Function,
        args: &'a [ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let body = match args.first().map(|name| &name.kind) {
            Some(Ast::Literal(Literal::String(name))) => reducer(name),
            _ => None,
        };
        let Some(body) = body else {
            let names: Vec<&str> = REDUCERS.iter().map(|(name, _)| *name).collect();
            let message = format!("{} takes one of {}", function.name, names.join(", "));
            return Err(Fault::invalid(message, span));
        };
        let array = self.measured(|resolver| {
            let array = resolver.expr(&args[1])?;
            resolver.coerce(array, Arg::Array)
        })?;
        self.arguments.push(vec![array]);
        let resolved = self.expr(body).map_err(|fault| fault.at(span));
        self.arguments.pop();
        Ok(Expr { span, ..resolved? })
    }

    /// `arrayFold((accumulated, element) -> …, array, start)`: the type of what is accumulated holds
    /// both the start and the lambda's result.
    fn fold(
        &mut self,
        function: &'static Function,
        call: &'a ast::Call,
        span: Span,
    ) -> Checked<Expr> {
        check_arity(function, call.args.len().saturating_sub(1), call.name.span)?;
        let [lambda, arrays @ .., start] = &call.args[..] else {
            return Err(Fault::invalid("arrayFold takes a lambda, arrays and a start", span));
        };
        if !matches!(lambda.kind, Ast::Lambda(..)) || arrays.is_empty() {
            return Err(Fault::invalid("arrayFold takes a lambda, arrays and a start", span));
        }
        let start = self.expr(start)?;
        let arrays = arrays.iter().map(|array| {
            let array = self.expr(array)?;
            self.coerce(array, Arg::Array)
        });
        let arrays = arrays.collect::<Checked<Vec<Expr>>>()?;
        let elements = arrays.iter().filter_map(|array| array.ty.element().cloned());
        let mut types = vec![start.ty.clone()];
        types.extend(elements);
        let first = self.lambda(function, lambda, types.clone())?;
        let Some(ty) = first.ty.common(&start.ty).map(widest_number) else {
            let message = format!("arrayFold cannot make {} of {}", first.ty, start.ty);
            return Err(Fault::invalid(message, span));
        };
        types[0] = ty.clone();
        let mut lambda = self.lambda(function, lambda, types)?;
        if !lambda.ty.casts_to(&ty) {
            let message = format!("arrayFold cannot make {} of {ty}", lambda.ty);
            return Err(Fault::invalid(message, span));
        }
        if let ExprKind::Lambda { body, .. } = &mut lambda.kind {
            **body = cast((**body).clone(), ty.clone(), false);
            body.ty = ty.clone();
        }
        lambda.ty = ty.clone();
        let start = Expr { ty: ty.clone(), ..cast(start, ty.clone(), false) };
        let mut args = vec![lambda, start];
        args.extend(arrays);
        Ok(Expr { kind: ExprKind::Call { function: FunctionRef(function), args }, ty, span })
    }

    /// Resolves the expression that a function stands for, with the arguments in place.
    fn defined(
        &mut self,
        function: &'static Function,
        body: &'a ast::Expr,
        args: &'a [ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let args = args.iter().enumerate().map(|(no, arg)| {
            let wanted = function.arg(no).unwrap_or(Arg::Any);
            self.measured(|resolver| {
                if wanted == Arg::Unit {
                    return unit(arg);
                }
                let arg = resolver.expr(arg)?;
                resolver.coerce(arg, wanted)
            })
        });
        let args = args.collect::<Checked<Vec<_>>>()?;
        self.arguments.push(args);
        let resolved = self.expr(body).map_err(|fault| fault.at(span));
        self.arguments.pop();
        Ok(Expr { span, ..resolved? })
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
            // A strict function is null for null, also in place of an array.
            let is_null = arg.ty.kind == Kind::Null && wanted == Arg::Array;
            if is_null && function.nulls == Nulls::Strict {
                return Ok(arg);
            }
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
            "arrayJoin" => return self.array_join_call(args, span),
            "nullIf" => {
                if let Some(property) = stored_property(&args, span) {
                    return Ok(property);
                }
                if let [value, other] = &args[..]
                    && value.ty.common(&other.ty).is_none()
                    && let Some(cast) = self.with_cast_properties(function.name, &args)?
                {
                    args = cast;
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
            "accurateCastOrNull" => {
                let name = match args.pop().map(|name| name.kind) {
                    Some(ExprKind::Value(Value::String(name))) => parse_type(&name).ok(),
                    _ => None,
                };
                let (Some(name), Some(value)) = (name, args.pop()) else {
                    return Err(Fault::invalid("The last argument names a type", span));
                };
                let ty = named(&name).map_err(|fault| fault.at(span))?;
                if !value.ty.casts_to(&ty) {
                    let message = format!("{} cannot be cast to {ty}", value.ty);
                    return Err(Fault::invalid(message, span));
                }
                return Ok(Expr { span, ..cast(value, ty, true) });
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
        let elements: Vec<Type> = arrays.iter().flat_map(|array| elements(&array.ty)).collect();
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

/// `dateAdd(time, INTERVAL 1 DAY)` takes an interval in place of a unit and a count.
fn is_interval(expr: &ast::Expr) -> bool {
    match &expr.kind {
        Ast::Interval(..) => true,
        Ast::Call(call) => call.name.text.to_ascii_lowercase().starts_with("tointerval"),
        _ => false,
    }
}

/// What a lambda receives from an array, or from a map.
fn elements(ty: &Type) -> Vec<Type> {
    match &ty.kind {
        Kind::Array(element) => vec![(**element).clone()],
        Kind::Map(pair) => vec![pair.0.clone(), pair.1.clone()],
        _ => Vec::new(),
    }
}

/// Integers with 64 bits, so that repeated sums fit.
fn widest_number(ty: Type) -> Type {
    let kind = match ty.kind {
        Kind::UInt(_) => Kind::UInt(64),
        Kind::Int(_) => Kind::Int(64),
        kind => kind,
    };
    Type { kind, ..ty }
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

/// Whether a function gives numbers by chance.
pub(super) fn is_chance(function: &Function) -> bool {
    matches!(function.name, "rand" | "rand64")
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

pub(super) fn is_aggregate(name: &ast::Name) -> bool {
    named_function(name).is_ok_and(|Combined { function, .. }| {
        function.kind == FunctionKind::Aggregate
            || definition(function, function.args.len()).is_some_and(has_aggregate)
    })
}

fn named_function(name: &ast::Name) -> Checked<Combined> {
    let text = name.text.as_str();
    Combined::named(text).ok_or_else(|| {
        let suggestion = suggest(text, functions().map(|function| function.name));
        Fault::new(Reason::UnknownFunction { name: text.to_owned(), suggestion }, name.span)
    })
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
            _ => match (args.get(1).map(|time| &time.ty.kind), text(2)) {
                (Some(Kind::DateTime(_)), Some(zone)) => date_time(0, Some(zone)),
                _ => None,
            },
        },
        "toStartOfDay" => text(1).and_then(|zone| date_time(0, Some(zone))),
        "toStartOfInterval" => match args.get(1).map(|interval| &interval.ty.kind) {
            Some(Kind::Interval(Unit::Week | Unit::Month | Unit::Quarter | Unit::Year)) => None,
            _ => text(2).and_then(|zone| date_time(0, Some(zone))),
        },
        "dateAdd" | "dateSub" => {
            let unit = text(0).as_deref().and_then(Unit::parse);
            unit.zip(args.get(2))
                .map(|(unit, time)| time_plus_interval(&time.ty.kind, &Kind::Interval(unit)))
        }
        "toDateTime" | "parseDateTimeBestEffort" => date_time(0, text(1)),
        "fromUnixTimestamp" => date_time(0, text(1)),
        "fromUnixTimestamp64Milli" => date_time(3, text(1)),
        "fromUnixTimestamp64Micro" => date_time(6, text(1)),
        "fromUnixTimestamp64Second" => date_time(0, text(1)),
        "UUIDv7ToDateTime" => date_time(3, text(1)),
        "makeDateTime" => date_time(0, text(6)),
        // Milliseconds, unless the call says otherwise.
        "toDateTime64" | "toDateTime64OrZero" if args.len() < 2 => date_time(3, None),
        "toDateTime64" | "toDateTime64OrZero" => date_time(digits(1, 9)?, text(2)),
        "toTimeZone" => match args.first().map(|time| &time.ty.kind) {
            Some(Kind::DateTime(of)) => date_time(of.precision, text(1)),
            _ => date_time(0, text(1)),
        },
        "parseDateTime" | "parseDateTimeOrZero" => date_time(0, text(2)),
        "toDecimal" | "toDecimalOrZero" => Some(Kind::Decimal(digits(1, 38)?).into()),
        "JSONExtract" | "JSONExtractKeysAndValues" => {
            let name = text(args.len().saturating_sub(1)).and_then(|name| parse_type(&name).ok());
            let Some(name) = name else {
                let message = format!("The last argument of {} names a type", function.name);
                return Err(Fault::invalid(message, span));
            };
            let ty = named(&name).map_err(|fault| fault.at(span))?;
            Some(match function.name {
                "JSONExtract" => ty,
                _ => Type::array(Kind::Tuple(vec![Kind::String.into(), ty]).into()),
            })
        }
        _ => None,
    })
}
