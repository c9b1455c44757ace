//! Aggregates as functions of all rows of a group.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_common::ScalarValue;
use datafusion_expr::Accumulator;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use hashbrown::HashSet;

use super::{counted, only};
use crate::error::Result;

pub(crate) trait Whole: Debug + Send + Sync + 'static {
    /// Of rows that count.
    fn of(&self, args: &[ArrayRef]) -> Result<ScalarValue>;

    /// Of rows some of which may not count.
    fn value(&self, args: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<ScalarValue> {
        let rows = counted(args, filter)?;
        self.of(&only(args, rows.as_ref())?)
    }
}

/// One of the engine's.
#[derive(Debug)]
pub(crate) struct Engine {
    pub expr: Arc<AggregateFunctionExpr>,
    pub ty: DataType,
}

impl Engine {
    pub(crate) fn start(&self) -> Result<Box<dyn Accumulator>> {
        Ok(self.expr.create_accumulator()?)
    }

    pub(crate) fn sliding(&self) -> Result<Box<dyn Accumulator>> {
        Ok(self.expr.create_sliding_accumulator()?)
    }
}

impl Whole for Engine {
    fn of(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let mut accumulator = self.start()?;
        accumulator.update_batch(args)?;
        Ok(accumulator.evaluate()?.cast_to(&self.ty)?)
    }
}

/// Of each kind of row, the first.
#[derive(Debug)]
pub(crate) struct Distinct(pub Arc<dyn Whole>);

impl Whole for Distinct {
    fn of(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let rows = encoded(args)?;
        let mut seen = HashSet::new();
        let first: BooleanArray = rows.iter().map(|row| Some(seen.insert(row.data()))).collect();
        self.0.of(&only(args, Some(&first))?)
    }
}

/// Rows as bytes that are equal when the rows are, and ordered like them.
pub(crate) fn encoded(args: &[ArrayRef]) -> Result<Rows> {
    let fields = args.iter().map(|arg| SortField::new(arg.data_type().clone()));
    Ok(RowConverter::new(fields.collect())?.convert_columns(args)?)
}
