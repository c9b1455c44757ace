//! Resolves expressions.

use model::CohortId;

use super::Resolver;
use super::suggest::suggest;
use crate::ast::{self, BinaryOp, ExprKind as Ast, Literal, LogicOp, UnaryOp};
use crate::error::{Checked, Fault, Reason, Span};
use crate::functions::{Arg, function_named};
use crate::placeholders::{date_bound, is_filters};
use crate::plan::{Comparison, Expr, ExprKind, FunctionRef, Set, Value};
use crate::types::{Kind, Type, named};

impl<'a> Resolver<'a> {
    pub(super) fn expr(&mut self, expr: &'a ast::Expr) -> Checked<Expr> {
        self.deeper(expr.span, |resolver| resolver.by_kind(expr))
    }

    fn by_kind(&mut self, expr: &'a ast::Expr) -> Checked<Expr> {
        let span = expr.span;
        if self.lacks_date_bound(expr) {
            return Ok(literal_expr(&Literal::Bool(true), span));
        }
        match &expr.kind {
            Ast::Literal(literal) => Ok(literal_expr(literal, span)),
            Ast::Star(_) | Ast::Columns(_) => {
                Err(Fault::invalid("'*' is a column, or the argument of count", span))
            }
            Ast::Alias(inner, name) => {
                self.scope().open.push(&name.text);
                let resolved = self.expr(inner)?;
                self.scope().open.pop();
                Ok(resolved)
            }
            Ast::Field(chain) => self.field(chain, expr),
            Ast::Placeholder(chain) => self.placeholder(chain, span),
            Ast::Member(base, name) => {
                let base = self.expr(base)?;
                self.member(base, name, span)
            }
            Ast::Element(base, index) => {
                let base = self.expr(base)?;
                self.element(base, *index, span)
            }
            Ast::Index(base, index) => self.index(base, index, span),
            Ast::Unary(UnaryOp::Negate, operand) => self.negate(operand, span),
            Ast::Unary(UnaryOp::Not, operand) => self.not(operand, span),
            Ast::Binary(op, left, right) => self.binary(*op, left, right, span),
            Ast::Logic(op, operands) => self.logic(*op, operands, span),
            Ast::IsNull { expr, negated } => {
                let expr = Box::new(self.expr(expr)?);
                Ok(Expr {
                    kind: ExprKind::IsNull { expr, negated: *negated },
                    ty: bool_type(false),
                    span,
                })
            }
            Ast::Between { expr, low, high, negated } => {
                self.between(expr, [low, high], *negated, span)
            }
            Ast::In { expr, set, negated } => self.in_set(expr, set, *negated, span),
            Ast::InCohort { expr, cohort, negated } => {
                let expr = self.expr(expr)?;
                if expr.ty.kind != Kind::Uuid {
                    let message = format!("IN COHORT takes the id of a person, found {}", expr.ty);
                    return Err(Fault::invalid(message, expr.span));
                }
                let set = Set::Cohort(self.cohort(cohort)?);
                Ok(in_expr(expr, set, *negated, span))
            }
            Ast::Ternary(parts) => {
                let [condition, then, otherwise] = &**parts;
                self.conditional([condition, then, otherwise], span)
            }
            Ast::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), span)
            }
            Ast::Cast(inner, to) => self.explicit_cast(inner, to, false, span),
            Ast::TryCast(inner, to) => self.explicit_cast(inner, to, true, span),
            Ast::Interval(count, unit) => {
                let count = self.expr(count)?;
                let count = self.coerce(count, Arg::Int)?;
                let ty = Type::from(Kind::Interval(*unit)).or_null(count.ty.nullable);
                Ok(Expr { kind: ExprKind::Interval(Box::new(count), *unit), ty, span })
            }
            Ast::Lambda(..) => Err(Fault::invalid(
                "A lambda can only be the first argument of an array function",
                span,
            )),
            Ast::Call(call) => self.call(call, span),
            Ast::Array(items) => self.builtin("array", items, span),
            Ast::Tuple(items) => self.builtin("tuple", items, span),
            Ast::Query(query) => {
                let relation = self.query(query)?;
                let [column] = &relation.columns[..] else {
                    return Err(Fault::invalid("A subquery used as a value has one column", span));
                };
                let ty = column.ty.clone().or_null(true);
                Ok(Expr { kind: ExprKind::Query(Box::new(relation)), ty, span })
            }
        }
    }

    fn placeholder(&mut self, chain: &[ast::Name], span: Span) -> Checked<Expr> {
        if is_filters(chain) {
            return self.filters(span);
        }
        if let Some(bound) = date_bound(chain) {
            return self.date_bound(bound, span);
        }
        let names: Vec<&str> = chain.iter().map(|name| name.text.as_str()).collect();
        Err(Fault::new(Reason::Placeholder(names.join(".")), span))
    }

    fn explicit_cast(
        &mut self,
        inner: &'a ast::Expr,
        to: &'a ast::TypeName,
        or_null: bool,
        span: Span,
    ) -> Checked<Expr> {
        let inner = self.expr(inner)?;
        let ty = named(to)?;
        if !inner.ty.casts_to(&ty) {
            let message = format!("{} cannot be cast to {ty}", inner.ty);
            return Err(Fault::invalid(message, span));
        }
        Ok(Expr { span, ..cast(inner, ty, or_null) })
    }

    pub(super) fn condition_of(&mut self, expr: &'a ast::Expr) -> Checked<Expr> {
        let resolved = self.expr(expr)?;
        self.coerce(resolved, Arg::Condition)
    }

    /// The function call that an operator or a bracket abbreviates.
    fn builtin(&mut self, name: &'static str, args: &'a [ast::Expr], span: Span) -> Checked<Expr> {
        let args = args.iter().map(|arg| self.expr(arg)).collect::<Checked<Vec<Expr>>>()?;
        self.apply(name, args, span)
    }

    pub(super) fn apply(&mut self, name: &str, args: Vec<Expr>, span: Span) -> Checked<Expr> {
        let Some(function) = function_named(name) else {
            let reason = Reason::UnknownFunction { name: name.to_owned(), suggestion: None };
            return Err(Fault::new(reason, span));
        };
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.clone()).collect();
        let Some(ty) = function.result(&types) else {
            if let Some(args) = self.with_cast_properties(function.name, &args)? {
                return self.apply(name, args, span);
            }
            let types: Vec<String> = types.iter().map(Type::to_string).collect();
            let message = format!("{name} cannot take {} together", types.join(" and "));
            return Err(Fault::invalid(message, span));
        };
        Ok(Expr { kind: ExprKind::Call { function: FunctionRef(function), args }, ty, span })
    }

    pub(super) fn not(&mut self, operand: &'a ast::Expr, span: Span) -> Checked<Expr> {
        let operand = self.condition_of(operand)?;
        let ty = logic_type(std::slice::from_ref(&operand));
        Ok(Expr { kind: ExprKind::Not(Box::new(operand)), ty, span })
    }

    fn negate(&mut self, operand: &'a ast::Expr, span: Span) -> Checked<Expr> {
        if let Ast::Literal(literal) = &operand.kind {
            let value = match literal {
                Literal::Int(number) => 0i64.checked_sub_unsigned(*number).map(Value::Int),
                Literal::Float(number) => Some(Value::Float(-number)),
                _ => None,
            };
            if let Some(value) = value {
                let kind = match value {
                    Value::Int(number) => Kind::Int(signed_bits(number)),
                    _ => Kind::Float,
                };
                return Ok(Expr { kind: ExprKind::Value(value), ty: kind.into(), span });
            }
        }
        let operand = self.expr(operand)?;
        let operand = self.coerce(operand, Arg::Number)?;
        self.apply("negate", vec![operand], span)
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOp,
        left: &'a ast::Expr,
        right: &'a ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let sides = [self.expr(left)?, self.expr(right)?];
        match op {
            BinaryOp::Add if sides.iter().all(|side| side.ty.kind.is_string()) => {
                self.apply("concat", sides.into(), span)
            }
            BinaryOp::Add => self.arithmetic("plus", sides, span),
            BinaryOp::Subtract => self.arithmetic("minus", sides, span),
            BinaryOp::Multiply => self.arithmetic("multiply", sides, span),
            BinaryOp::Divide => self.arithmetic("divide", sides, span),
            BinaryOp::Modulo => self.arithmetic("modulo", sides, span),
            BinaryOp::Concat => self.apply("concat", sides.into(), span),
            BinaryOp::Coalesce => self.apply("ifNull", sides.into(), span),
            _ => self.compare(op, sides, span),
        }
    }

    /// Arithmetic casts properties without a numeric definition to numbers.
    fn arithmetic(&mut self, name: &str, sides: [Expr; 2], span: Span) -> Checked<Expr> {
        let is_temporal = |expr: &Expr| {
            expr.ty.kind.is_time() || matches!(expr.ty.kind, Kind::Interval(_) | Kind::Null)
        };
        let timely = matches!(name, "plus" | "minus") && sides.iter().any(is_temporal);
        let [left, right] = sides;
        let is_time =
            |side: &Expr| side.ty.kind.is_time() || matches!(side.ty.kind, Kind::Interval(_));
        let args = if timely {
            let with_time = is_time(&left) || is_time(&right);
            let as_time = |resolver: &mut Self, side: Expr| {
                let is_text = side.ty.kind.is_string() && resolver.is_property(&side);
                if with_time && is_text { resolver.coerce(side, Arg::Time) } else { Ok(side) }
            };
            vec![as_time(self, left)?, as_time(self, right)?]
        } else {
            vec![self.coerce(left, Arg::Number)?, self.coerce(right, Arg::Number)?]
        };
        self.apply(name, args, span)
    }

    fn compare(&mut self, op: BinaryOp, sides: [Expr; 2], span: Span) -> Checked<Expr> {
        let comparison = comparison(op);
        let [left, right] = sides;
        // `a = NULL` means `a IS NULL`.
        let for_null = matches!(op, BinaryOp::Equal | BinaryOp::NotEqual);
        if for_null && (is_null(&left) || is_null(&right)) {
            let expr = Box::new(if is_null(&right) { left } else { right });
            let kind = ExprKind::IsNull { expr, negated: op == BinaryOp::NotEqual };
            return Ok(Expr { kind, ty: bool_type(false), span });
        }
        let sides = match comparison {
            Comparison::Equal
            | Comparison::NotEqual
            | Comparison::Less
            | Comparison::LessOrEqual
            | Comparison::Greater
            | Comparison::GreaterOrEqual => self.align(left, right, span)?,
            _ => [self.coerce(left, Arg::String)?, self.coerce(right, Arg::String)?],
        };
        Ok(Expr {
            kind: ExprKind::Compare(comparison, Box::new(sides)),
            ty: bool_type(false),
            span,
        })
    }

    pub(super) fn logic(
        &mut self,
        op: LogicOp,
        operands: &'a [ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let operands = operands.iter().map(|operand| self.condition_of(operand));
        Ok(logic(op, operands.collect::<Checked<_>>()?, span))
    }

    fn between(
        &mut self,
        expr: &'a ast::Expr,
        bounds: [&'a ast::Expr; 2],
        negated: bool,
        span: Span,
    ) -> Checked<Expr> {
        let [low, high] = bounds;
        let at_least = [self.expr(expr)?, self.expr(low)?];
        let at_most = [self.expr(expr)?, self.expr(high)?];
        let both = vec![
            self.compare(BinaryOp::GreaterOrEqual, at_least, span)?,
            self.compare(BinaryOp::LessOrEqual, at_most, span)?,
        ];
        let within = logic(LogicOp::And, both, span);
        if !negated {
            return Ok(within);
        }
        Ok(Expr { kind: ExprKind::Not(Box::new(within)), ty: bool_type(false), span })
    }

    pub(super) fn in_set(
        &mut self,
        expr: &'a ast::Expr,
        set: &'a ast::Expr,
        negated: bool,
        span: Span,
    ) -> Checked<Expr> {
        let left = self.expr(expr)?;
        // For tuples, `((1, 2))` is a list with one element.
        if let Some(items) = list_items(set)
            && (!matches!(left.ty.kind, Kind::Tuple(_))
                || items.iter().all(|item| list_items(item).is_some()))
        {
            let items = items.iter().map(|item| {
                let item = self.expr(item)?;
                self.align_item(&left, item)
            });
            let items = items.collect::<Checked<Vec<Expr>>>()?;
            return Ok(in_expr(left, Set::List(items), negated, span));
        }
        match &set.kind {
            Ast::Query(query) => {
                let relation = self.deeper(set.span, |resolver| resolver.query(query))?;
                let wanted = match &left.ty.kind {
                    Kind::Tuple(items) => &items[..],
                    _ => std::slice::from_ref(&left.ty),
                };
                if relation.columns.len() != wanted.len() {
                    let message = format!("The subquery of IN needs {} column(s)", wanted.len());
                    return Err(Fault::invalid(message, set.span));
                }
                let mut pairs = wanted.iter().zip(&relation.columns);
                if let Some((ty, column)) =
                    pairs.find(|(ty, column)| ty.common(&column.ty).is_none())
                {
                    let message = format!("{ty} cannot be in a list of {}", column.ty);
                    return Err(Fault::invalid(message, set.span));
                }
                Ok(in_expr(left, Set::Query(Box::new(relation)), negated, span))
            }
            _ => {
                let set = self.expr(set)?;
                if let Kind::Array(element) = &set.ty.kind {
                    if left.ty.common(element).is_none() {
                        let message = format!("{} cannot be in a list of {element}", left.ty);
                        return Err(Fault::invalid(message, set.span));
                    }
                    return Ok(in_expr(left, Set::Array(Box::new(set)), negated, span));
                }
                let item = self.align_item(&left, set)?;
                Ok(in_expr(left, Set::List(vec![item]), negated, span))
            }
        }
    }

    fn cohort(&mut self, cohort: &'a ast::Expr) -> Checked<CohortId> {
        let known = &self.project.cohorts;
        let (name, id, suggestion) = match &cohort.kind {
            Ast::Literal(Literal::Int(id)) => {
                let cohort_id = i64::try_from(*id).ok().map(CohortId);
                (id.to_string(), cohort_id.filter(|id| known.contains_key(id)), None)
            }
            Ast::Literal(Literal::String(name)) => {
                let cohort_id = known.iter().find(|(_, other)| *other == name).map(|(id, _)| *id);
                (name.clone(), cohort_id, suggest(name, known.values().map(String::as_str)))
            }
            _ => return Err(Fault::invalid("A cohort is named by its id or name", cohort.span)),
        };
        id.ok_or_else(|| {
            Fault::new(Reason::Unknown { what: "cohort", name, suggestion }, cohort.span)
        })
    }

    fn conditional(&mut self, parts: [&'a ast::Expr; 3], span: Span) -> Checked<Expr> {
        let [condition, then, otherwise] = parts;
        let args = vec![self.condition_of(condition)?, self.expr(then)?, self.expr(otherwise)?];
        self.apply("if", args, span)
    }

    fn case(
        &mut self,
        operand: Option<&'a ast::Expr>,
        branches: &'a [(ast::Expr, ast::Expr)],
        otherwise: Option<&'a ast::Expr>,
        span: Span,
    ) -> Checked<Expr> {
        let mut args = Vec::new();
        for (when, then) in branches {
            args.push(match operand {
                Some(operand) => {
                    let sides = [self.expr(operand)?, self.expr(when)?];
                    self.compare(BinaryOp::Equal, sides, when.span)?
                }
                None => self.condition_of(when)?,
            });
            args.push(self.expr(then)?);
        }
        args.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => literal_expr(&Literal::Null, span),
        });
        self.apply("multiIf", args, span)
    }
}

/// The items of a list: `(a, b)`, `[a, b]`, `tuple(a, b)` or `array(a, b)`.
fn list_items(set: &ast::Expr) -> Option<&[ast::Expr]> {
    match &set.kind {
        Ast::Tuple(items) | Ast::Array(items) => Some(items),
        Ast::Call(call) if matches!(call.name.text.as_str(), "tuple" | "array") => Some(&call.args),
        _ => None,
    }
}

pub(super) fn literal_expr(literal: &Literal, span: Span) -> Expr {
    let (value, kind) = match literal {
        Literal::Null => (Value::Null, Kind::Null),
        Literal::Bool(value) => (Value::Bool(*value), Kind::Bool),
        Literal::Int(value) => (Value::UInt(*value), Kind::UInt(unsigned_bits(*value))),
        Literal::Float(value) => (Value::Float(*value), Kind::Float),
        Literal::String(value) => (Value::String(value.clone()), Kind::String),
    };
    Expr { kind: ExprKind::Value(value), ty: kind.into(), span }
}

/// The narrowest integer type that fits, as in ClickHouse.
fn unsigned_bits(value: u64) -> u8 {
    match 64 - value.leading_zeros() {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

fn signed_bits(value: i64) -> u8 {
    match value {
        -0x80..=0x7f => 8,
        -0x8000..=0x7fff => 16,
        -0x8000_0000..=0x7fff_ffff => 32,
        _ => 64,
    }
}

pub(super) fn is_null(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Value(Value::Null))
}

pub(super) fn bool_type(nullable: bool) -> Type {
    Type::from(Kind::UInt(8)).or_null(nullable)
}

pub(super) fn cast(expr: Expr, ty: Type, or_null: bool) -> Expr {
    let ty = ty.or_null(or_null || expr.ty.nullable);
    let span = expr.span;
    Expr { kind: ExprKind::Cast { expr: Box::new(expr), or_null }, ty, span }
}

pub(super) fn logic(op: LogicOp, operands: Vec<Expr>, span: Span) -> Expr {
    let ty = logic_type(&operands);
    let kind = match op {
        LogicOp::And => ExprKind::And(operands),
        LogicOp::Or => ExprKind::Or(operands),
    };
    Expr { kind, ty, span }
}

/// The result type of logic: Bool for booleans, otherwise a number.
fn logic_type(operands: &[Expr]) -> Type {
    let all_bool = operands.iter().all(|operand| operand.ty.kind == Kind::Bool);
    let kind = if all_bool { Kind::Bool } else { Kind::UInt(8) };
    Type::from(kind).or_null(operands.iter().any(|operand| operand.ty.nullable))
}

fn in_expr(expr: Expr, set: Set, negated: bool, span: Span) -> Expr {
    Expr { kind: ExprKind::In { expr: Box::new(expr), set, negated }, ty: bool_type(false), span }
}

fn comparison(op: BinaryOp) -> Comparison {
    match op {
        BinaryOp::NotEqual => Comparison::NotEqual,
        BinaryOp::Less => Comparison::Less,
        BinaryOp::LessOrEqual => Comparison::LessOrEqual,
        BinaryOp::Greater => Comparison::Greater,
        BinaryOp::GreaterOrEqual => Comparison::GreaterOrEqual,
        BinaryOp::Like => Comparison::Like,
        BinaryOp::NotLike => Comparison::NotLike,
        BinaryOp::ILike => Comparison::ILike,
        BinaryOp::NotILike => Comparison::NotILike,
        BinaryOp::Match => Comparison::Match,
        BinaryOp::NotMatch => Comparison::NotMatch,
        BinaryOp::IMatch => Comparison::IMatch,
        BinaryOp::NotIMatch => Comparison::NotIMatch,
        _ => Comparison::Equal,
    }
}
