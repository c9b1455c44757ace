//! The public entry point: a compiled expression.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray};
use hogql::plan::Expr;
use hogql::types::Type;

use crate::Context;
use crate::compile::Compiler;
use crate::error::Result;
use crate::limits::cancellation::Cancellation;
use crate::limits::memory::MemoryCharge;
use crate::limits::meter;
use crate::run::node::Node;
use crate::run::scope::Scope;
use crate::vector::gather::take;
use crate::vector::types::{narrow, null_or_default};

/// A compiled expression: constants are folded, patterns and literals parsed.
#[derive(Clone, Debug)]
pub struct Program {
    root: Arc<Node>,
    cancellation: Cancellation,
    /// Memory of its constants.
    _charges: Arc<Vec<MemoryCharge>>,
}

impl Program {
    /// `input_of` maps a leaf of the expression to the index of the input that holds its value.
    /// Leaves are columns, outputs of queries, elements, keys, aggregates, windows, subqueries, and
    /// `IN` a subquery or a cohort.
    ///
    /// It is called for a property before the object that contains it. If it returns None, the
    /// program extracts the property from the JSON string. An input for a property may hold its
    /// string, which the program parses as the property's type.
    pub fn compile(
        expr: &Expr,
        context: &Arc<Context>,
        input_of: &mut dyn FnMut(&Expr) -> Option<usize>,
    ) -> Result<Self> {
        let _run = meter::enter(&context.cancellation);
        let mut compiler = Compiler { context, input_of, constant_bytes: 0, charges: Vec::new() };
        let root = Arc::new(compiler.node(expr)?);
        Ok(Self {
            root,
            cancellation: context.cancellation.clone(),
            _charges: Arc::new(compiler.charges),
        })
    }

    pub fn ty(&self) -> &Type {
        &self.root.ty
    }

    /// Indices of the inputs it reads, sorted.
    pub fn inputs(&self) -> &[usize] {
        &self.root.inputs
    }

    /// Whether the value is the same for every row.
    pub fn is_constant(&self) -> bool {
        self.root.inputs.is_empty()
    }

    /// Evaluates one batch; returns an array of `data_type(ty)` with `rows` rows.
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

    /// The filter mask of one batch: false where the condition is false, null or zero.
    pub fn filter(&self, inputs: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let _run = meter::enter(&self.cancellation);
        let bools = Scope::root(inputs, rows, &self.cancellation).eval_bools(&self.root)?;
        Ok(match bools.nulls() {
            Some(nulls) => BooleanArray::new(bools.values() & nulls.inner(), None),
            None => bools,
        })
    }
}

fn narrow_empty(ty: &Type) -> Result<ArrayRef> {
    narrow(&null_or_default(ty, 0)?, ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_send_and_sync() {
        fn shared<T: Clone + std::fmt::Debug + Send + Sync>() {}
        shared::<Program>();
    }
}
