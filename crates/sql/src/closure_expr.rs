//! A closure over columns as a DataFusion physical expression.

use std::fmt::{self, Debug, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use eval::MemoryTracker;

use crate::memory::decode_dictionary;

type Run = dyn Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync;

/// A function of columns, evaluated a batch at a time.
#[derive(Clone)]
pub(crate) struct ClosureExpr {
    label: Arc<str>,
    inputs: Vec<Arc<dyn PhysicalExpr>>,
    ty: DataType,
    run: Arc<Run>,
}

impl ClosureExpr {
    pub(crate) fn expr(
        label: impl Into<Arc<str>>,
        inputs: Vec<Arc<dyn PhysicalExpr>>,
        ty: DataType,
        run: impl Fn(&[ArrayRef], usize) -> Result<ArrayRef> + Send + Sync + 'static,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(Self { label: label.into(), inputs, ty, run: Arc::new(run) })
    }

    /// Decodes a dictionary-encoded column; the copies are tracked.
    pub(crate) fn decode_dictionary(
        input: Arc<dyn PhysicalExpr>,
        ty: DataType,
        memory: &MemoryTracker,
    ) -> Arc<dyn PhysicalExpr> {
        let (to, memory) = (ty.clone(), memory.clone());
        Self::expr("decode", vec![input], ty, move |arrays, _| {
            decode_dictionary(&arrays[0], &to, &memory)
        })
    }

    /// The same value in another Arrow type.
    pub(crate) fn cast(input: Arc<dyn PhysicalExpr>, ty: DataType) -> Arc<dyn PhysicalExpr> {
        let to = ty.clone();
        Self::expr("as", vec![input], ty, move |arrays, _| {
            Ok(arrow::compute::cast(&arrays[0], &to)?)
        })
    }
}

impl Debug for ClosureExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosureExpr")
            .field("label", &self.label)
            .field("inputs", &self.inputs)
            .finish()
    }
}

impl Display for ClosureExpr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl PartialEq for ClosureExpr {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.run, &other.run) && self.inputs == other.inputs
    }
}

impl Eq for ClosureExpr {}

impl Hash for ClosureExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.label.hash(state);
        self.inputs.hash(state);
    }
}

impl PhysicalExpr for ClosureExpr {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.ty.clone())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(true)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let inputs = self.inputs.iter().map(|input| input.evaluate(batch)?.into_array(rows));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array((self.run)(&inputs, rows)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.inputs.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        inputs: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { inputs, ..self.as_ref().clone() }))
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}
