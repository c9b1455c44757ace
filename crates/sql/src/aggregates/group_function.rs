//! Aggregates that are evaluated once over all rows of a group, not incrementally.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_common::ScalarValue;
use datafusion_expr::Accumulator;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use hashbrown::HashSet;

use super::{counted_rows, filter_arrays};
use crate::error::Result;

pub(crate) trait GroupFunction: Debug + Send + Sync + 'static {
    /// The value for rows without nulls.
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue>;

    /// The value for the rows that pass the filter and have no null.
    fn evaluate_filtered(
        &self,
        args: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<ScalarValue> {
        let rows = counted_rows(args, filter)?;
        self.evaluate(&filter_arrays(args, rows.as_ref())?)
    }
}

/// One of DataFusion's aggregates.
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

impl GroupFunction for Engine {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let mut accumulator = self.start()?;
        accumulator.update_batch(args)?;
        Ok(accumulator.evaluate()?.cast_to(&self.ty)?)
    }
}

/// An aggregate over distinct rows.
#[derive(Debug)]
pub(crate) struct Distinct(pub Arc<dyn GroupFunction>);

impl GroupFunction for Distinct {
    fn evaluate(&self, args: &[ArrayRef]) -> Result<ScalarValue> {
        let rows = encoded(args)?;
        let mut unique = HashSet::new();
        let first: BooleanArray = rows.iter().map(|row| Some(unique.insert(row.data()))).collect();
        self.0.evaluate(&filter_arrays(args, Some(&first))?)
    }
}

/// Rows encoded as bytes that compare like the rows.
pub(crate) fn encoded(args: &[ArrayRef]) -> Result<Rows> {
    let fields = args.iter().map(|arg| SortField::new(arg.data_type().clone()));
    Ok(RowConverter::new(fields.collect())?.convert_columns(args)?)
}
