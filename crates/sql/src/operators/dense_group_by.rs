//! `GROUP BY` a key of dense codes: the code is the index of the group's state. With very many groups,
//! most of the memory of DataFusion's grouping is the hash table that this saves.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt, stream};

use super::Operator;
use super::limit_by::deferred_stream;

#[derive(Clone, Debug)]
pub(crate) struct DenseGroupBy {
    /// The code, and one column for each aggregate.
    pub schema: SchemaRef,
    /// Dense codes; null for null.
    pub key: Arc<dyn PhysicalExpr>,
    pub calls: Vec<Arc<AggregateFunctionExpr>>,
    pub filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
}

/// The group of rows whose key is null.
const NULL_GROUP: usize = 0;

struct Groups {
    operator: DenseGroupBy,
    states: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of a batch.
    indexes: Vec<usize>,
    total: usize,
    has_null_group: bool,
    reservation: MemoryReservation,
}

impl Operator for DenseGroupBy {
    fn name(&self) -> &'static str {
        "dense group by"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut input = inputs.remove(0);
        let states = self.calls.iter().map(|call| call.create_groups_accumulator());
        let mut groups = Groups {
            operator: self.clone(),
            states: states.collect::<Result<_>>()?,
            indexes: Vec::new(),
            total: NULL_GROUP + 1,
            has_null_group: false,
            reservation: MemoryConsumer::new("groups").register(context.memory_pool()),
        };
        let rows_max = context.session_config().batch_size();
        let schema = self.schema.clone();
        Ok(deferred_stream(schema.clone(), async move {
            while let Some(batch) = input.next().await {
                groups.add(&batch?)?;
            }
            let all = groups.finish()?;
            let starts = (0..all.num_rows()).step_by(rows_max);
            let part = move |from: usize| {
                // Keeps the reservation for as long as rows are emitted.
                let _ = &groups.reservation;
                Ok(all.slice(from, rows_max.min(all.num_rows() - from)))
            };
            let out = stream::iter(starts.map(part));
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)) as SendableRecordBatchStream)
        }))
    }
}

impl Groups {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let codes = self.operator.key.evaluate(batch)?.into_array(rows)?;
        self.indexes.clear();
        let index =
            |code: Option<u32>| code.map_or(NULL_GROUP, |code| NULL_GROUP + 1 + code as usize);
        self.indexes.extend(codes.as_primitive::<UInt32Type>().iter().map(index));
        self.has_null_group |= codes.null_count() > 0;
        self.total = self.indexes.iter().fold(self.total, |total, index| total.max(index + 1));
        let mut bytes = 0;
        for (no, state) in self.states.iter_mut().enumerate() {
            let args = self.operator.calls[no].expressions();
            let args = args.iter().map(|arg| arg.evaluate(batch)?.into_array(rows));
            let args: Vec<ArrayRef> = args.collect::<Result<_>>()?;
            let filter = self.operator.filters[no].as_ref();
            let filter =
                filter.map(|filter| filter.evaluate(batch)?.into_array(rows)).transpose()?;
            let filter = filter.as_ref().map(|filter| filter.as_boolean());
            state.update_batch(&args, &self.indexes, filter, self.total)?;
            bytes += state.size();
        }
        self.reservation.try_resize(bytes)
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        if self.total == NULL_GROUP + 1 && !self.has_null_group {
            return Ok(RecordBatch::new_empty(self.operator.schema.clone()));
        }
        let codes =
            (NULL_GROUP..self.total).map(|index| Some((index - NULL_GROUP).checked_sub(1)? as u32));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(codes.collect::<UInt32Array>())];
        for mut state in self.states.drain(..) {
            columns.push(state.evaluate(EmitTo::All)?);
        }
        let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
        self.reservation.try_resize(bytes)?;
        let all = RecordBatch::try_new(self.operator.schema.clone(), columns)?;
        let first = usize::from(!self.has_null_group);
        Ok(all.slice(first, all.num_rows() - first))
    }
}
