//! `LIMIT … WITH TIES`: the first rows of an ordered input, and the rows that equal the last of them.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion_common::Result;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt, stream};

use super::Operator;

#[derive(Debug)]
pub(crate) struct LimitWithTies {
    pub schema: SchemaRef,
    /// The columns that the input is ordered by.
    pub keys: Vec<usize>,
    pub skip: u64,
    pub take: u64,
}

struct State {
    input: SendableRecordBatchStream,
    converter: RowConverter,
    keys: Vec<usize>,
    skip: u64,
    take: u64,
    /// The keys of the last row within the limit.
    last: Option<OwnedRow>,
    done: bool,
}

impl Operator for LimitWithTies {
    fn name(&self) -> &'static str {
        "limit with ties"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        _: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let types = self.keys.iter().map(|key| self.schema.field(*key).data_type().clone());
        let state = State {
            input: inputs.remove(0),
            converter: RowConverter::new(types.map(SortField::new).collect())?,
            keys: self.keys.clone(),
            skip: self.skip,
            take: self.take,
            last: None,
            done: self.take == 0,
        };
        let out = stream::try_unfold(state, |mut state| async move {
            while !state.done
                && let Some(batch) = state.input.next().await.transpose()?
            {
                let out = state.next(batch)?;
                if out.num_rows() > 0 {
                    return Ok(Some((out, state)));
                }
            }
            Ok(None)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

impl State {
    /// The rows of a batch that are within the limit, or tied with its last row.
    fn next(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let skipped = self.skip.min(batch.num_rows() as u64);
        self.skip -= skipped;
        let batch = batch.slice(skipped as usize, batch.num_rows() - skipped as usize);
        if batch.num_rows() == 0 {
            return Ok(batch);
        }
        let within = self.take.min(batch.num_rows() as u64);
        self.take -= within;
        let mut end = within as usize;
        if self.take > 0 {
            return Ok(batch);
        }
        let columns: Vec<ArrayRef> =
            self.keys.iter().map(|key| batch.column(*key).clone()).collect();
        let rows = self.converter.convert_columns(&columns)?;
        if self.last.is_none() {
            self.last = Some(rows.row(end - 1).owned());
        }
        if let Some(last) = &self.last {
            end += (end..rows.num_rows()).take_while(|row| rows.row(*row) == last.row()).count();
        }
        self.done = end < batch.num_rows();
        Ok(batch.slice(0, end))
    }
}
