//! Window functions, over an input that is sorted by partition and order.

mod call;
mod frame;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, partition, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt, stream};

use call::CallLimits;
pub(crate) use call::{Call, Function};
pub(crate) use frame::Frame;

use super::Operator;
use crate::cancellation::Cancellation;

#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The input's columns, and one for each call.
    pub schema: SchemaRef,
    pub partition: Vec<usize>,
    /// Columns, and whether each is descending.
    pub order: Vec<(usize, bool)>,
    pub calls: Vec<Call>,
    pub cancellation: Cancellation,
}

struct State {
    window: Window,
    input: SendableRecordBatchStream,
    input_schema: SchemaRef,
    ended: bool,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    pending_bytes: usize,
    /// Rows of `pending` that belong to complete partitions.
    complete: usize,
    last: Option<OwnedRow>,
    converter: RowConverter,
    ready: Option<(RecordBatch, usize)>,
    rows_max: usize,
    reservation: MemoryReservation,
    /// Memory of the results of a block.
    results: MemoryReservation,
}

/// Copies of a block in memory: its batches, their concatenation, and the output.
const COPIES: usize = 3;

impl Operator for Window {
    fn name(&self) -> &'static str {
        "window"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = inputs.remove(0);
        let input_schema = input.schema();
        let fields = self.partition.iter();
        let fields =
            fields.map(|column| SortField::new(input_schema.field(*column).data_type().clone()));
        let state = State {
            window: self.clone(),
            converter: RowConverter::new(fields.collect())?,
            input,
            input_schema,
            ended: false,
            pending: Vec::new(),
            pending_rows: 0,
            pending_bytes: 0,
            complete: 0,
            last: None,
            ready: None,
            rows_max: context.session_config().batch_size(),
            reservation: MemoryConsumer::new("window").register(context.memory_pool()),
            results: MemoryConsumer::new("window results").register(context.memory_pool()),
        };
        let out = stream::try_unfold(state, |mut state| async move {
            Ok(state.next().await?.map(|batch| (batch, state)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

impl State {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((block, from)) = &mut self.ready {
                let rows = (block.num_rows() - *from).min(self.rows_max);
                if rows > 0 {
                    // A copy: the memory of a slice is measured as that of the whole block.
                    let indexes = *from as u64..(*from + rows) as u64;
                    let batch = take_record_batch(block, &UInt64Array::from_iter_values(indexes))?;
                    *from += rows;
                    return Ok(Some(batch));
                }
                self.ready = None;
            }
            if self.ended && self.pending_rows == 0 {
                return Ok(None);
            }
            match self.input.next().await.transpose()? {
                Some(batch) => self.add(batch)?,
                None => (self.ended, self.complete) = (true, self.pending_rows),
            }
            if self.complete >= self.rows_max || (self.ended && self.complete > 0) {
                self.flush()?;
            }
        }
    }

    fn add(&mut self, batch: RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if !self.window.partition.is_empty() {
            let keys = columns(&batch, &self.window.partition);
            let ranges = partition(&keys)?.ranges();
            let key_at = |row: usize| -> Result<OwnedRow> {
                let key: Vec<ArrayRef> = keys.iter().map(|key| key.slice(row, 1)).collect();
                Ok(self.converter.convert_columns(&key)?.row(0).owned())
            };
            if let [_, .., last] = &ranges[..] {
                self.complete = self.pending_rows + last.start;
            } else if self
                .last
                .as_ref()
                .is_some_and(|last| key_at(0).is_ok_and(|first| first != *last))
            {
                self.complete = self.pending_rows;
            }
            self.last = Some(key_at(batch.num_rows() - 1)?);
        }
        self.pending_rows += batch.num_rows();
        self.pending_bytes += batch.get_array_memory_size();
        self.pending.push(batch);
        self.reservation.try_resize(self.pending_bytes * COPIES)
    }

    fn flush(&mut self) -> Result<()> {
        let all = concat_batches(&self.input_schema, &self.pending)?;
        let block = all.slice(0, self.complete);
        let rest = all.slice(self.complete, all.num_rows() - self.complete);
        self.results.free();
        self.ready = Some((self.window.block(&block, &self.results)?, 0));
        self.pending_rows = rest.num_rows();
        self.pending_bytes = if self.ended { 0 } else { rest.get_array_memory_size() };
        self.pending = if rest.num_rows() > 0 { vec![rest] } else { Vec::new() };
        self.complete = 0;
        Ok(())
    }
}

impl Window {
    fn block(&self, block: &RecordBatch, reservation: &MemoryReservation) -> Result<RecordBatch> {
        let partitions = match self.partition.is_empty() {
            true => std::iter::once(0..block.num_rows()).collect(),
            false => partition(&columns(block, &self.partition))?.ranges(),
        };
        let order: Vec<usize> = self.order.iter().map(|(column, _)| *column).collect();
        let groups = frame::RowGroups::new(partitions, &columns(block, &order), block.num_rows())?;
        let mut out = block.columns().to_vec();
        let limits = CallLimits { cancellation: &self.cancellation, reservation };
        for call in &self.calls {
            self.cancellation.check()?;
            let ranges = call.frame.ranges(&groups, block, &self.order)?;
            out.push(call.run(block, &groups, &ranges, limits)?);
        }
        Ok(RecordBatch::try_new(self.schema.clone(), out)?)
    }
}

fn columns(batch: &RecordBatch, columns: &[usize]) -> Vec<ArrayRef> {
    columns.iter().map(|column| batch.column(*column).clone()).collect()
}
