//! Compiles an expression of a plan to nodes.

use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Float64Array, Int64Array, PrimitiveArray, StringArray};
use hogql::Span;
use hogql::functions::Nulls;
use hogql::plan::{Comparison, Expr, ExprKind, Set, Value};
use hogql::types::{Kind, Type};

use crate::error::{Error, Result};
use crate::functions::{self, CallSite, CompiledCall, KernelKind, properties};
use crate::limits::memory::MemoryCharge;
use crate::limits::meter;
use crate::run::compare;
use crate::run::higher_order::HigherOrder;
use crate::run::node::{Kernel, Node, NodeKind, call, cast_node, predicate};
use crate::run::scope::Scope;
use crate::values::cast;
use crate::vector::column::Args;
use crate::vector::gather::bytes_of;
use crate::vector::types::null_or_default;
use crate::{CONSTANT_BYTES_MAX, Context};

pub(crate) struct Compiler<'a> {
    pub context: &'a Arc<Context>,
    /// Maps a leaf of the expression to its input.
    pub input_of: &'a mut dyn FnMut(&Expr) -> Option<usize>,
    /// Bytes of all constants so far.
    pub constant_bytes: usize,
    /// Memory of the constants that the program retains.
    pub charges: Vec<MemoryCharge>,
}

/// Units of work per compiled node: about as expensive as processing this many rows.
const NODE_UNITS: usize = 256;

/// Smaller constants are not charged; `hogql::limits::PLAN_NODES_MAX` bounds their number.
const SMALL_BYTES: usize = 1024;

impl Compiler<'_> {
    pub fn node(&mut self, expr: &Expr) -> Result<Node> {
        meter::work(NODE_UNITS)?;
        let before = self.charges.len();
        let node = self.by_kind(expr)?.fold(&self.context.cancellation)?;
        if let Some(array) = node.as_constant() {
            let bytes = bytes_of(array)?;
            // Folding dropped the constants it was made of.
            self.charges.truncate(before);
            // Constants live as long as the program; patterns are charged where they are compiled.
            if bytes > SMALL_BYTES {
                self.charges.extend(meter::charge(bytes)?);
            }
            self.constant_bytes = self.constant_bytes.saturating_add(bytes);
            if self.constant_bytes > CONSTANT_BYTES_MAX {
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
            | ExprKind::Unnested { .. } => self.leaf(expr)?.ok_or_else(|| not_an_input(span)),
            ExprKind::Property { of, path } => {
                if let Some(node) = self.leaf(expr)? {
                    return Ok(node);
                }
                let of = self.node(of)?;
                if of.ty.kind == Kind::Null {
                    return Ok(Node::constant(null_or_default(ty, 1)?, ty.clone(), span));
                }
                let of = self.cast(of, &Kind::String)?;
                let kernel = properties::extract(path, ty, span, self.context)?;
                Ok(call(vec![of], kernel, true, ty, span))
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
                Ok(Node::new(NodeKind::And(parts), ty.clone(), span))
            }
            ExprKind::Or(parts) => {
                let parts = parts.iter().map(|part| self.node(part)).collect::<Result<_>>()?;
                Ok(Node::new(NodeKind::Or(parts), ty.clone(), span))
            }
            ExprKind::Not(part) => {
                let part = Box::new(self.node(part)?);
                Ok(Node::new(NodeKind::Not(part), ty.clone(), span))
            }
            ExprKind::IsNull { expr, negated } => {
                let part = self.node(expr)?;
                Ok(predicate(vec![part], compare::is_null(*negated), false, ty, span))
            }
            ExprKind::In { expr: needle, set, negated } => {
                if matches!(set, Set::Query(_) | Set::Cohort(_)) {
                    return self.leaf(expr)?.ok_or_else(|| not_an_input(span));
                }
                self.in_set(needle, set, *negated, span)
            }
            ExprKind::Cast { expr: inner, or_null } => {
                let is_literal = matches!(inner.kind, ExprKind::Value(_));
                let inner = self.node(inner)?;
                if inner.ty.kind == Kind::Null {
                    return Ok(Node::constant(null_or_default(ty, 1)?, ty.clone(), span));
                }
                let node = self.cast_to(inner, ty, *or_null, span)?;
                // A literal that cannot be cast is an error before anything runs.
                if is_literal && let NodeKind::Call(args, function) = &node.kind {
                    let scope = Scope::root(&[], 1, &self.context.cancellation);
                    let columns = scope.eval_all(args)?;
                    let nulls = Args::any_null(&columns, 1);
                    (function.kernel)(&Args { columns: &columns, rows: 1, nulls })?;
                }
                Ok(node)
            }
            ExprKind::Interval(count, _) => {
                let count = self.node(count)?;
                if count.ty.kind == Kind::Null {
                    return Ok(Node::constant(null_or_default(ty, 1)?, ty.clone(), span));
                }
                Ok(Node { ty: ty.clone(), ..self.cast(count, &Kind::Int(64))? })
            }
        }
    }

    fn leaf(&mut self, expr: &Expr) -> Result<Option<Node>> {
        let Some(input) = (self.input_of)(expr) else { return Ok(None) };
        let parse = match &expr.kind {
            ExprKind::Property { .. } if !expr.ty.kind.is_string() => {
                Some(properties::parse(&expr.ty, self.context)?)
            }
            _ => None,
        };
        Ok(Some(Node::new(NodeKind::Input(input, parse), expr.ty.clone(), expr.span)))
    }

    fn call(
        &mut self,
        function: &'static hogql::functions::Function,
        args: &[Expr],
        ty: &Type,
        span: Span,
    ) -> Result<Node> {
        if let Some(function) = HigherOrder::named(function.name) {
            return self.higher_order(function, args, ty, span);
        }
        let nodes = args.iter().map(|arg| self.node(arg)).collect::<Result<Vec<Node>>>()?;
        let strict = matches!(function.nulls, Nulls::Strict | Nulls::OrNull);
        if strict && nodes.iter().any(|node| node.ty.kind == Kind::Null) {
            return Ok(Node::constant(null_or_default(ty, 1)?, ty.clone(), span));
        }
        if matches!(function.name, "if" | "multiIf") {
            return self.case(nodes, ty, span);
        }
        let mut site = CallSite {
            name: function.name,
            args: nodes,
            exprs: args,
            ty,
            span,
            context: self.context,
            compile_constant,
        };
        let CompiledCall { kind, fallible } = functions::build(&mut site)?;
        let args = site.args;
        let mut node = match kind {
            KernelKind::Values(kernel) => call(args, kernel, strict, ty, span),
            KernelKind::Predicate(kernel) => predicate(args, kernel, strict, ty, span),
        };
        node.fallible |= fallible;
        Ok(node)
    }

    fn case(&mut self, nodes: Vec<Node>, ty: &Type, span: Span) -> Result<Node> {
        let mut branches = Vec::new();
        let mut nodes = nodes.into_iter();
        while let Some(when) = nodes.next() {
            let Some(then) = nodes.next() else {
                let otherwise = Box::new(self.cast(when, &ty.kind)?);
                let kind = NodeKind::Case(branches, otherwise);
                return Ok(Node::new(kind, ty.clone(), span));
            };
            branches.push((when, self.cast(then, &ty.kind)?));
        }
        Err(Error::invalid("A value for the rest is missing", span))
    }

    fn higher_order(
        &mut self,
        function: HigherOrder,
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
        if matches!(function, HigherOrder::Average | HigherOrder::Product)
            && !result.is_some_and(|ty| ty.kind.is_number() || ty.kind == Kind::Null)
        {
            return Err(Error::invalid("This function takes numbers", span));
        }
        let fallible = function.fallible(arrays.len())
            || lambda
                .as_ref()
                .is_some_and(|(_, body)| body.fallible && function == HigherOrder::Fold);
        let mut node =
            Node::new(NodeKind::HigherOrder { function, lambda, arrays }, ty.clone(), span);
        node.fallible |= fallible;
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
        let (kernel, fallible) = compare::pattern(comparison, right.as_constant(), right.span)?;
        let args = vec![self.cast(left, &Kind::String)?, self.cast(right, &Kind::String)?];
        let mut node = predicate(args, kernel, false, &ty, span);
        node.fallible |= fallible;
        Ok(node)
    }

    pub fn compared(&self, op: compare::Op, left: Node, right: Node, span: Span) -> Result<Node> {
        let ty = Type::from(Kind::UInt(8));
        let (left, right, kinds) = compare::align(left, right, self.context, span)?;
        Ok(predicate(vec![left, right], compare::predicate(op, &kinds), false, &ty, span))
    }

    fn in_set(&mut self, needle: &Expr, set: &Set, negated: bool, span: Span) -> Result<Node> {
        let ty = Type::from(Kind::UInt(8));
        let needle = self.node(needle)?;
        match set {
            Set::List(items) => {
                let items = items.iter().map(|item| self.node(item)).collect::<Result<Vec<_>>>()?;
                let common = items
                    .iter()
                    .try_fold(needle.ty.clone(), |common, item| common.common(&item.ty));
                let Some(common) = common else {
                    return Err(Error::invalid("The elements of IN have no common type", span));
                };
                let kind = common.kind;
                let needle = self.cast_key(needle, &kind)?;
                let items = items.into_iter().map(|item| self.cast_key(item, &kind));
                let (kernel, args) =
                    compare::in_list(needle, items.collect::<Result<Vec<Node>>>()?, negated);
                Ok(predicate(args, kernel, false, &ty, span))
            }
            Set::Array(array) => {
                let array = self.node(array)?;
                let element = array.ty.element().cloned().unwrap_or_else(|| Kind::Null.into());
                let Some(common) = needle.ty.common(&element) else {
                    return Err(Error::invalid("The elements of IN have no common type", span));
                };
                let integers = needle.ty.kind.is_integer() && element.kind.is_integer();
                let element = if integers { element } else { common.clone() };
                let needle = self.cast_key(needle, &common.kind)?;
                let array = self.cast(array, &Type::array(element.clone()).kind)?;
                let kernel = compare::in_array(needle.ty.kind.clone(), element.kind, negated);
                Ok(predicate(vec![needle, array], kernel, false, &ty, span))
            }
            Set::Query(_) | Set::Cohort(_) => Err(not_an_input(span)),
        }
    }

    /// Casts a value to be a set key. Integers keep their types: their keys are the numbers, and no
    /// common type holds both `UInt64` and signed integers.
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
        let fallible = !or_null && cast::may_fail(&node.ty.kind, &ty.kind);
        let Some(cast) = cast::between(&node.ty, ty, or_null, span, self.context)? else {
            return Ok(Node { ty: ty.clone(), ..node });
        };
        let kernel: Kernel = Arc::new(move |args: &Args| cast(&args.columns[0].array));
        let mut cast = call(vec![node], kernel, false, ty, span);
        cast.fallible |= fallible;
        Ok(cast)
    }
}

fn compile_constant(expr: &Expr, context: &Arc<Context>) -> Result<Node> {
    let mut input_of = |_: &Expr| None;
    Compiler { context, input_of: &mut input_of, constant_bytes: 0, charges: Vec::new() }.node(expr)
}

fn not_an_input(span: Span) -> Error {
    Error::invalid("This value cannot be used here", span)
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
