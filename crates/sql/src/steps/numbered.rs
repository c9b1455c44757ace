//! Groups by texts that have numbers: a number says where its group's state is, and the table by
//! which the engine would find it is most of what very many groups need.

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

use super::Step;
use super::first::later;

#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    /// The number, and one column for each call.
    pub schema: SchemaRef,
    /// Numbers without gaps, null for none.
    pub key: Arc<dyn PhysicalExpr>,
    pub calls: Vec<Arc<AggregateFunctionExpr>>,
    pub filters: Vec<Option<Arc<dyn PhysicalExpr>>>,
}

/// The place of rows without a text.
const NONE: usize = 0;

struct Groups {
    step: Numbered,
    states: Vec<Box<dyn GroupsAccumulator>>,
    /// Of the rows of a batch.
    places: Vec<usize>,
    total: usize,
    none_met: bool,
    reservation: MemoryReservation,
}

impl Step for Numbered {
    fn name(&self) -> &'static str {
        "groups"
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
            step: self.clone(),
            states: states.collect::<Result<_>>()?,
            places: Vec::new(),
            total: NONE + 1,
            none_met: false,
            reservation: MemoryConsumer::new("groups").register(context.memory_pool()),
        };
        let rows_max = context.session_config().batch_size();
        let schema = self.schema.clone();
        Ok(later(schema.clone(), async move {
            while let Some(batch) = input.next().await {
                groups.add(&batch?)?;
            }
            let all = groups.finish()?;
            let starts = (0..all.num_rows()).step_by(rows_max);
            let part = move |from: usize| {
                // Held as long as there are rows to come.
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
        let numbers = self.step.key.evaluate(batch)?.into_array(rows)?;
        self.places.clear();
        let place = |number: Option<u32>| number.map_or(NONE, |number| NONE + 1 + number as usize);
        self.places.extend(numbers.as_primitive::<UInt32Type>().iter().map(place));
        self.none_met |= numbers.null_count() > 0;
        self.total = self.places.iter().fold(self.total, |total, place| total.max(place + 1));
        let mut bytes = 0;
        for (no, state) in self.states.iter_mut().enumerate() {
            let args = self.step.calls[no].expressions();
            let args = args.iter().map(|arg| arg.evaluate(batch)?.into_array(rows));
            let args: Vec<ArrayRef> = args.collect::<Result<_>>()?;
            let filter = self.step.filters[no].as_ref();
            let filter =
                filter.map(|filter| filter.evaluate(batch)?.into_array(rows)).transpose()?;
            let filter = filter.as_ref().map(|filter| filter.as_boolean());
            state.update_batch(&args, &self.places, filter, self.total)?;
            bytes += state.size();
        }
        self.reservation.try_resize(bytes)
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        if self.total == NONE + 1 && !self.none_met {
            return Ok(RecordBatch::new_empty(self.step.schema.clone()));
        }
        let numbers = (NONE..self.total).map(|place| Some((place - NONE).checked_sub(1)? as u32));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(numbers.collect::<UInt32Array>())];
        for mut state in self.states.drain(..) {
            columns.push(state.evaluate(EmitTo::All)?);
        }
        let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
        self.reservation.try_resize(bytes)?;
        let all = RecordBatch::try_new(self.step.schema.clone(), columns)?;
        let first = usize::from(!self.none_met);
        Ok(all.slice(first, all.num_rows() - first))
    }
}
