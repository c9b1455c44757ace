//! Nodes of a compiled expression, and constant folding.

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use hogql::Span;
use hogql::types::{Kind, Type};

use crate::Context;
use crate::error::{Error, Result};
use crate::limits::cancellation::Cancellation;
use crate::run::higher_order::HigherOrder;
use crate::run::scope::Scope;
use crate::values::cast;
use crate::vector::column::Args;
use crate::vector::dictionary::Memo;
use crate::vector::types::null_or_default;

/// Computes a column from the arguments of one batch.
pub(crate) type Kernel = Arc<dyn Fn(&Args) -> Result<ArrayRef> + Send + Sync>;
/// As [`Kernel`], for functions that return a boolean.
pub(crate) type Predicate = Arc<dyn Fn(&Args) -> Result<BooleanArray> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Node {
    pub kind: NodeKind,
    pub ty: Type,
    pub span: Span,
    /// Indices of the inputs it reads, sorted.
    pub inputs: Vec<usize>,
    /// Parameters of enclosing lambdas that it reads, sorted.
    pub params: Vec<usize>,
    /// Whether it can fail for some values. A fallible node is evaluated only for the rows that
    /// need its value.
    pub fallible: bool,
    pub memo: Memo,
}

#[derive(Clone)]
pub(crate) enum NodeKind {
    Constant(ArrayRef),
    /// By index. The kernel, if any, parses an input that holds the string of a value.
    Input(usize, Option<Kernel>),
    Param(usize),
    Call(Vec<Node>, Function<Kernel>),
    Predicate(Vec<Node>, Function<Predicate>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    /// Branches (condition, value) and the `ELSE` value; all values have the node's type.
    Case(Vec<(Node, Node)>, Box<Node>),
    HigherOrder {
        function: HigherOrder,
        lambda: Option<(Vec<usize>, Box<Node>)>,
        arrays: Vec<Node>,
    },
}

#[derive(Clone)]
pub(crate) struct Function<F> {
    pub kernel: F,
    /// Whether the result is null where an argument is.
    pub strict: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.kind {
            NodeKind::Constant(_) => "Constant",
            NodeKind::Input(..) => "Input",
            NodeKind::Param(_) => "Param",
            NodeKind::Call(..) => "Call",
            NodeKind::Predicate(..) => "Predicate",
            NodeKind::And(_) => "And",
            NodeKind::Or(_) => "Or",
            NodeKind::Not(_) => "Not",
            NodeKind::Case(..) => "Case",
            NodeKind::HigherOrder { .. } => "HigherOrder",
        };
        let mut debug = f.debug_struct(name);
        debug.field("type", &self.ty.to_string()).field("inputs", &self.inputs);
        if let NodeKind::Constant(array) = &self.kind {
            debug.field("value", array);
        }
        for child in self.children() {
            debug.field("child", child);
        }
        debug.finish()
    }
}

impl Node {
    pub fn new(kind: NodeKind, ty: Type, span: Span) -> Self {
        let mut node = Self {
            kind,
            ty,
            span,
            inputs: vec![],
            params: vec![],
            fallible: false,
            memo: Memo::default(),
        };
        let (mut inputs, mut params, mut fallible) = (Vec::new(), Vec::new(), false);
        for child in node.children() {
            inputs.extend_from_slice(&child.inputs);
            params.extend_from_slice(&child.params);
            fallible |= child.fallible;
        }
        match &node.kind {
            NodeKind::Input(input, _) => inputs.push(*input),
            NodeKind::Param(param) => params.push(*param),
            NodeKind::HigherOrder { lambda: Some((bound, body)), .. } => {
                inputs.extend_from_slice(&body.inputs);
                params.extend(body.params.iter().filter(|param| !bound.contains(param)));
                fallible |= body.fallible;
            }
            _ => {}
        }
        inputs.sort_unstable();
        inputs.dedup();
        params.sort_unstable();
        params.dedup();
        node.inputs = inputs;
        node.params = params;
        node.fallible = fallible;
        node
    }

    pub fn constant(array: ArrayRef, ty: Type, span: Span) -> Self {
        Self::new(NodeKind::Constant(array), ty, span)
    }

    pub fn as_constant(&self) -> Option<&ArrayRef> {
        match &self.kind {
            NodeKind::Constant(array) => Some(array),
            _ => None,
        }
    }

    /// Direct operands, without the body of a lambda.
    fn children(&self) -> Vec<&Self> {
        match &self.kind {
            NodeKind::Constant(_) | NodeKind::Input(..) | NodeKind::Param(_) => Vec::new(),
            NodeKind::Call(parts, _)
            | NodeKind::Predicate(parts, _)
            | NodeKind::And(parts)
            | NodeKind::Or(parts)
            | NodeKind::HigherOrder { arrays: parts, .. } => parts.iter().collect(),
            NodeKind::Not(part) => vec![part],
            NodeKind::Case(branches, otherwise) => {
                let branches = branches.iter().flat_map(|(when, then)| [when, then]);
                branches.chain([&**otherwise]).collect()
            }
        }
    }

    /// Constant folding: evaluates a node that reads no input. A node that fails stays as it is,
    /// since no row may ever need its value.
    pub fn fold(self, cancellation: &Cancellation) -> Result<Self> {
        let independent = self.inputs.is_empty() && self.params.is_empty();
        if !independent || self.as_constant().is_some() {
            return Ok(self);
        }
        match Scope::root(&[], 1, cancellation).eval(&self) {
            Ok(column) => Ok(Self::constant(column.array, self.ty, self.span)),
            Err(error @ (Error::Cancelled | Error::MemoryLimit)) => Err(error),
            Err(_) => Ok(self),
        }
    }
}

/// Casts a node to a kind that can represent all its values.
pub(crate) fn cast_node(node: Node, kind: &Kind, context: &Arc<Context>) -> Result<Node> {
    let ty = Type { kind: kind.clone(), nullable: false }.or_null(node.ty.nullable);
    let span = node.span;
    if node.ty.kind == Kind::Null {
        let ty = ty.or_null(true);
        return Ok(Node::constant(null_or_default(&ty, 1)?, ty, span));
    }
    let Some(cast) = cast::between(&node.ty, &ty, false, span, context)? else {
        return Ok(Node { ty, ..node });
    };
    let kernel: Kernel = Arc::new(move |args: &Args| cast(&args.columns[0].array));
    call(vec![node], kernel, false, &ty, span).fold(&context.cancellation)
}

pub(crate) fn call(args: Vec<Node>, kernel: Kernel, strict: bool, ty: &Type, span: Span) -> Node {
    Node::new(NodeKind::Call(args, Function { kernel, strict }), ty.clone(), span)
}

pub(crate) fn predicate(
    args: Vec<Node>,
    kernel: Predicate,
    strict: bool,
    ty: &Type,
    span: Span,
) -> Node {
    Node::new(NodeKind::Predicate(args, Function { kernel, strict }), ty.clone(), span)
}
