//! Expressions of a plan to nodes.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, PrimitiveArray, StringArray};
use hogql::Span;
use hogql::functions::Nulls;
use hogql::plan::{Comparison, Expr, ExprKind, Set, Value};
use hogql::types::{Kind, Type};

use crate::column::Args;
use crate::error::{Error, Result};
use crate::functions::{self, Built, Site};
use crate::memory::MemoryCharge;
use crate::meter;
use crate::node::{Call, Node, NodeKind, Run, Test, bytes_of};
use crate::types::nothing;
use crate::{
    CONSTANT_BYTES_MAX, Context, cast, compare, functions::lambdas, functions::properties,
};

pub(crate) struct Compiler<'a> {
    pub context: &'a Arc<Context>,
    pub leaf: &'a mut dyn FnMut(&Expr) -> Option<usize>,
    /// Bytes of constants so far.
    pub spent: usize,
    /// Those that the program keeps.
    pub kept: Vec<MemoryCharge>,
}

/// To compile a node takes as long as to work on so many rows.
const NODE_UNITS: usize = 256;

/// A statement's nodes are bounded, so that smaller constants do not matter.
const SMALL_BYTES: usize = 1024;

impl Compiler<'_> {
    pub fn node(&mut self, expr: &Expr) -> Result<Node> {
        meter::work(NODE_UNITS)?;
        let before = self.kept.len();
        let node = self.by_kind(expr)?.fold(&self.context.cancellation)?;
        if let Some(array) = node.as_constant() {
            let bytes = bytes_of(array)?;
            // Those that it was made of are gone.
            self.kept.truncate(before);
            // Constants stay as long as the program; patterns are counted where they are compiled.
            if bytes > SMALL_BYTES {
                self.kept.extend(meter::keep(bytes)?);
            }
            self.spent = self.spent.saturating_add(bytes);
            if self.spent > CONSTANT_BYTES_MAX {
                let what = "bytes of constants";
                return Err(Error::TooLarge { what, max: CONSTANT_BYTES_MAX, span: node.span });
            }
        }
        Ok(node)
    }

    fn by_kind(&mut self, expr: &Expr) -> Result<Node> {
        let (ty, span) = (&expr.ty, expr.span);
        match &expr.kind {
            ExprKind::Value(value) => Ok(Node::constant(literal(value), ty.clone(), span)),
            ExprKind::Column { .. }
            | ExprKind::Output { .. }
            | ExprKind::Element(..)
            | ExprKind::Key(_)
            | ExprKind::Aggregate(_)
            | ExprKind::Window(_)
            | ExprKind::Query(_)
            | ExprKind::AggregateCall(_)
            | ExprKind::WindowCall(_)
            | ExprKind::Unnested { .. } => self.leaf(expr)?.ok_or_else(|| outside(span)),
            ExprKind::Property { of, path } => {
                if let Some(node) = self.leaf(expr)? {
                    return Ok(node);
                }
                let of = self.node(of)?;
                if of.ty.kind == Kind::Null {
                    return Ok(Node::constant(nothing(ty, 1)?, ty.clone(), span));
                }
                let of = self.cast(of, &Kind::String)?;
                let run = properties::extract(path, ty, span, self.context)?;
                Ok(call(vec![of], run, true, ty, span))
            }
            ExprKind::Param(param) => Ok(Node::new(NodeKind::Param(*param), ty.clone(), span)),
            ExprKind::Lambda { .. } => Err(Error::invalid("A lambda is no value", span)),
            ExprKind::Call { function, args } => self.call(function.0, args, ty, span),
            ExprKind::Compare(comparison, sides) => {
                let left = self.node(&sides[0])?;
                let right = self.node(&sides[1])?;
                self.comparison(*comparison, left, right, span)
            }
            ExprKind::And(parts) => {
                let parts = parts.iter().map(|part| self.node(part)).collect::<Result<_>>()?;
                Ok(Node::new(NodeKind::All(parts), ty.clone(), span))
            }
            ExprKind::Or(parts) => {
                let parts = parts.iter().map(|part| self.node(part)).collect::<Result<_>>()?;
                Ok(Node::new(NodeKind::Any(parts), ty.clone(), span))
            }
            ExprKind::Not(part) => {
                let part = Box::new(self.node(part)?);
                Ok(Node::new(NodeKind::Not(part), ty.clone(), span))
            }
            ExprKind::IsNull { expr, negated } => {
                let part = self.node(expr)?;
                Ok(test(vec![part], compare::is_null(*negated), false, ty, span))
            }
            ExprKind::In { expr: what, set, negated } => {
                if matches!(set, Set::Query(_) | Set::Cohort(_)) {
                    return self.leaf(expr)?.ok_or_else(|| outside(span));
                }
                self.in_set(what, set, *negated, span)
            }
            ExprKind::Cast { expr: inner, or_null } => {
                let is_literal = matches!(inner.kind, ExprKind::Value(_));
                let inner = self.node(inner)?;
                if inner.ty.kind == Kind::Null {
                    return Ok(Node::constant(nothing(ty, 1)?, ty.clone(), span));
                }
                let node = self.cast_to(inner, ty, *or_null, span)?;
                // What is written in the query is refused before anything runs.
                if is_literal && let NodeKind::Call(args, run) = &node.kind {
                    let scope = crate::node::Scope::root(&[], 1, &self.context.cancellation);
                    let columns = scope.eval_all(args)?;
                    let nulls = Args::any_null(&columns, 1);
                    (run.run)(&Args { columns: &columns, rows: 1, nulls })?;
                }
                Ok(node)
            }
            ExprKind::Interval(count, _) => {
                let count = self.node(count)?;
                if count.ty.kind == Kind::Null {
                    return Ok(Node::constant(nothing(ty, 1)?, ty.clone(), span));
                }
                Ok(Node { ty: ty.clone(), ..self.cast(count, &Kind::Int(64))? })
            }
        }
    }

    fn leaf(&mut self, expr: &Expr) -> Result<Option<Node>> {
        let Some(input) = (self.leaf)(expr) else { return Ok(None) };
        let read = match &expr.kind {
            ExprKind::Property { .. } if !expr.ty.kind.is_string() => {
                Some(properties::read(&expr.ty, self.context)?)
            }
            _ => None,
        };
        Ok(Some(Node::new(NodeKind::Input(input, read), expr.ty.clone(), expr.span)))
    }

    fn call(
        &mut self,
        function: &'static hogql::functions::Function,
        args: &[Expr],
        ty: &Type,
        span: Span,
    ) -> Result<Node> {
        if let Some(higher) = lambdas::Higher::named(function.name) {
            return self.higher(higher, args, ty, span);
        }
        let nodes = args.iter().map(|arg| self.node(arg)).collect::<Result<Vec<Node>>>()?;
        let strict = matches!(function.nulls, Nulls::Strict | Nulls::OrNull);
        if strict && nodes.iter().any(|node| node.ty.kind == Kind::Null) {
            return Ok(Node::constant(nothing(ty, 1)?, ty.clone(), span));
        }
        if matches!(function.name, "if" | "multiIf") {
            return self.choose(nodes, ty, span);
        }
        let mut site =
            Site { name: function.name, args: nodes, exprs: args, ty, span, context: self.context };
        let Built { kind, fails } = functions::build(&mut site)?;
        let args = site.args;
        let mut node = match kind {
            functions::BuiltKind::Call(run) => call(args, run, strict, ty, span),
            functions::BuiltKind::Test(run) => test(args, run, strict, ty, span),
        };
        node.fails |= fails;
        Ok(node)
    }

    fn choose(&mut self, nodes: Vec<Node>, ty: &Type, span: Span) -> Result<Node> {
        let mut branches = Vec::new();
        let mut nodes = nodes.into_iter();
        while let Some(when) = nodes.next() {
            let Some(then) = nodes.next() else {
                let otherwise = Box::new(self.cast(when, &ty.kind)?);
                let kind = NodeKind::Choose(branches, otherwise);
                return Ok(Node::new(kind, ty.clone(), span));
            };
            branches.push((when, self.cast(then, &ty.kind)?));
        }
        Err(Error::invalid("A value for the rest is missing", span))
    }

    fn higher(
        &mut self,
        run: lambdas::Higher,
        args: &[Expr],
        ty: &Type,
        span: Span,
    ) -> Result<Node> {
        let (lambda, arrays) = match args.split_first() {
            Some((Expr { kind: ExprKind::Lambda { params, body }, .. }, arrays)) => {
                (Some((params.clone(), Box::new(self.node(body)?))), arrays)
            }
            _ => (None, args),
        };
        let arrays = arrays.iter().map(|array| self.node(array)).collect::<Result<Vec<_>>>()?;
        let element = arrays.first().and_then(|array| array.ty.element());
        let result = lambda.as_ref().map(|(_, body)| &body.ty).or(element);
        if run == lambdas::Higher::Average
            && !result.is_some_and(|ty| ty.kind.is_number() || ty.kind == Kind::Null)
        {
            return Err(Error::invalid("arrayAvg takes numbers", span));
        }
        let fails = run.fails(arrays.len());
        let mut node = Node::new(NodeKind::Higher { run, lambda, arrays }, ty.clone(), span);
        node.fails |= fails;
        Ok(node)
    }

    fn comparison(
        &mut self,
        comparison: Comparison,
        left: Node,
        right: Node,
        span: Span,
    ) -> Result<Node> {
        let ty = Type::from(Kind::UInt(8));
        if let Some(op) = compare::Op::of(comparison) {
            return self.compared(op, left, right, span);
        }
        let (run, fails) = compare::pattern(comparison, right.as_constant(), right.span)?;
        let args = vec![self.cast(left, &Kind::String)?, self.cast(right, &Kind::String)?];
        let mut node = test(args, run, false, &ty, span);
        node.fails |= fails;
        Ok(node)
    }

    pub fn compared(&self, op: compare::Op, left: Node, right: Node, span: Span) -> Result<Node> {
        let ty = Type::from(Kind::UInt(8));
        let (left, right, kinds) = compare::align(left, right, self.context, span)?;
        Ok(test(vec![left, right], compare::test(op, &kinds), false, &ty, span))
    }

    fn in_set(&mut self, what: &Expr, set: &Set, negated: bool, span: Span) -> Result<Node> {
        let ty = Type::from(Kind::UInt(8));
        let what = self.node(what)?;
        match set {
            Set::List(items) => {
                let items = items.iter().map(|item| self.node(item)).collect::<Result<Vec<_>>>()?;
                let common =
                    items.iter().try_fold(what.ty.clone(), |common, item| common.common(&item.ty));
                let Some(common) = common else {
                    return Err(Error::invalid("The elements of IN have no common type", span));
                };
                let kind = common.kind;
                let what = self.cast_key(what, &kind)?;
                let items = items.into_iter().map(|item| self.cast_key(item, &kind));
                let (run, args) =
                    compare::in_list(what, items.collect::<Result<Vec<Node>>>()?, negated);
                Ok(test(args, run, false, &ty, span))
            }
            Set::Array(array) => {
                let array = self.node(array)?;
                let element = array.ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
                let Some(common) = what.ty.common(&element) else {
                    return Err(Error::invalid("The elements of IN have no common type", span));
                };
                let integers = what.ty.kind.is_integer() && element.kind.is_integer();
                let element = if integers { element } else { common.clone() };
                let what = self.cast_key(what, &common.kind)?;
                let array = self.cast(array, &Type::array(element.clone()).kind)?;
                let run = compare::in_array(what.ty.kind.clone(), element.kind, negated);
                Ok(test(vec![what, array], run, false, &ty, span))
            }
            Set::Query(_) | Set::Cohort(_) => Err(outside(span)),
        }
    }

    /// Integers keep their types: their keys are the numbers, and `UInt64` has no common type with
    /// signed ones that holds both.
    fn cast_key(&self, node: Node, kind: &Kind) -> Result<Node> {
        if node.ty.kind.is_integer() && kind.is_integer() {
            return Ok(node);
        }
        self.cast(node, kind)
    }

    fn cast(&self, node: Node, kind: &Kind) -> Result<Node> {
        cast_node(node, kind, self.context)
    }

    fn cast_to(&self, node: Node, ty: &Type, or_null: bool, span: Span) -> Result<Node> {
        let fails = !or_null && cast::may_fail(&node.ty.kind, &ty.kind);
        let Some(cast) = cast::between(&node.ty, ty, or_null, span, self.context)? else {
            return Ok(Node { ty: ty.clone(), ..node });
        };
        let run: Call = Arc::new(move |args: &Args| cast(&args.columns[0].array));
        let mut cast = call(vec![node], run, false, ty, span);
        cast.fails |= fails;
        Ok(cast)
    }
}

/// To a type that holds all its values.
pub(crate) fn cast_node(node: Node, kind: &Kind, context: &Arc<Context>) -> Result<Node> {
    let ty = Type { kind: kind.clone(), nullable: false }.or_null(node.ty.nullable);
    let span = node.span;
    if node.ty.kind == Kind::Null {
        let ty = ty.or_null(true);
        return Ok(Node::constant(nothing(&ty, 1)?, ty, span));
    }
    let Some(cast) = cast::between(&node.ty, &ty, false, span, context)? else {
        return Ok(Node { ty, ..node });
    };
    let run: Call = Arc::new(move |args: &Args| cast(&args.columns[0].array));
    call(vec![node], run, false, &ty, span).fold(&context.cancellation)
}

fn outside(span: Span) -> Error {
    Error::invalid("This value cannot be used here", span)
}

pub(crate) fn call(args: Vec<Node>, run: Call, strict: bool, ty: &Type, span: Span) -> Node {
    Node::new(NodeKind::Call(args, Run { run, strict }), ty.clone(), span)
}

pub(crate) fn test(args: Vec<Node>, run: Test, strict: bool, ty: &Type, span: Span) -> Node {
    Node::new(NodeKind::Test(args, Run { run, strict }), ty.clone(), span)
}

fn literal(value: &Value) -> ArrayRef {
    match value {
        Value::Null => Arc::new(PrimitiveArray::<Int64Type>::new_null(1)),
        Value::Bool(flag) => int(i64::from(*flag)),
        Value::UInt(number) => int(*number as i64),
        Value::Int(number) | Value::Timestamp(number) => int(*number),
        Value::Float(number) => Arc::new(Float64Array::from(vec![*number])),
        Value::String(text) => Arc::new(StringArray::from(vec![text.as_str()])),
    }
}

fn int(value: i64) -> ArrayRef {
    Arc::new(Int64Array::from(vec![value]))
}
