//! What callers hold.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use hogql::plan::Expr;
use hogql::types::Type;

use crate::Context;
use crate::cancellation::Cancellation;
use crate::compile::Compiler;
use crate::error::Result;
use crate::gather::take;
use crate::memory::MemoryCharge;
use crate::meter;
use crate::node::{Node, Scope};
use crate::types::{narrow, nothing};

/// An expression, ready to run: constants worked out, patterns and literals read.
#[derive(Clone, Debug)]
pub struct Program {
    root: Arc<Node>,
    cancellation: Cancellation,
    /// What its constants hold.
    _kept: Arc<Vec<MemoryCharge>>,
}

impl Program {
    /// `leaf` says which input holds the value of a node: it is asked about columns, outputs of
    /// queries, elements, keys, aggregates, windows, subqueries, and `IN` a subquery or a cohort.
    ///
    /// It is asked about a property before what it is taken out of; if it has none, the property
    /// is read out of the JSON text. An input that stands for a property may hold its text, which
    /// is then read as the property's type.
    pub fn compile(
        expr: &Expr,
        context: &Arc<Context>,
        leaf: &mut dyn FnMut(&Expr) -> Option<usize>,
    ) -> Result<Self> {
        let _run = meter::enter(&context.cancellation);
        let mut compiler = Compiler { context, leaf, spent: 0, kept: Vec::new() };
        let root = Arc::new(compiler.node(expr)?);
        Ok(Self {
            root,
            cancellation: context.cancellation.clone(),
            _kept: Arc::new(compiler.kept),
        })
    }

    pub fn ty(&self) -> &Type {
        &self.root.ty
    }

    /// Those that it reads.
    pub fn inputs(&self) -> &[usize] {
        &self.root.inputs
    }

    /// Whether it is the same for every row.
    pub fn is_constant(&self) -> bool {
        self.root.inputs.is_empty()
    }

    /// An array of `data_type(ty)` with a row for each of the inputs'.
    pub fn run(&self, inputs: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let _run = meter::enter(&self.cancellation);
        let column = Scope::root(inputs, rows, &self.cancellation).eval(&self.root)?;
        let ty = &self.root.ty;
        let narrow = narrow(&column.array, ty)?;
        if !column.constant {
            return Ok(narrow);
        }
        if rows == 0 {
            return narrow_empty(ty);
        }
        let indices = arrow_array::UInt32Array::from(vec![0; rows]);
        take(&narrow, &indices)
    }

    /// True where the condition holds: not where it is false, null or zero.
    pub fn filter(&self, inputs: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let _run = meter::enter(&self.cancellation);
        let truth = Scope::root(inputs, rows, &self.cancellation).truth(&self.root)?;
        Ok(match truth.nulls() {
            Some(nulls) => BooleanArray::new(truth.values() & nulls.inner(), None),
            None => truth,
        })
    }
}

fn narrow_empty(ty: &Type) -> Result<ArrayRef> {
    narrow(&nothing(ty, 0)?, ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_can_be_shared_by_threads() {
        fn shared<T: Clone + std::fmt::Debug + Send + Sync>() {}
        shared::<Program>();
    }
}
