//! `LIMIT BY`: keeps the first rows of each key. `DISTINCT` keeps one.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt, TryStreamExt, stream};
use hashbrown::HashMap;

use super::Operator;

#[derive(Debug)]
pub(crate) struct LimitBy {
    pub schema: SchemaRef,
    /// The key columns.
    pub keys: Vec<usize>,
    pub skip: u64,
    pub take: u64,
}

impl Operator for LimitBy {
    fn name(&self) -> &'static str {
        "limit by"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = inputs.remove(0);
        let types = self.keys.iter().map(|key| self.schema.field(*key).data_type().clone());
        let mut counts = RowCounts::new(types.collect(), context.memory_pool())?;
        let (keys, skip) = (self.keys.clone(), self.skip);
        let end = self.skip.saturating_add(self.take);
        let out = input.map(move |batch| {
            let batch = batch?;
            let columns: Vec<ArrayRef> =
                keys.iter().map(|key| batch.column(*key).clone()).collect();
            let mut keep = Vec::with_capacity(batch.num_rows());
            counts.add(&columns, |before| keep.push((skip..end).contains(&before)))?;
            Ok(filter_record_batch(&batch, &BooleanArray::from(keep))?)
        });
        let out = out.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

/// A multiset of rows, within the query's memory.
pub(crate) struct RowCounts {
    converter: RowConverter,
    counts: HashMap<Box<[u8]>, u64>,
    key_bytes: usize,
    reservation: MemoryReservation,
}

/// Overhead of a key on top of its bytes: its pointer and length, its count, and the table's slack.
const KEY_OVERHEAD_BYTES: usize = 56;

impl RowCounts {
    pub(crate) fn new(
        types: Vec<arrow::datatypes::DataType>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let converter = RowConverter::new(types.into_iter().map(SortField::new).collect())?;
        let reservation = MemoryConsumer::new("row counts").register(pool);
        Ok(Self { converter, counts: HashMap::new(), key_bytes: 0, reservation })
    }

    /// Adds rows, and calls `visit` for each with the number of equal rows before it.
    pub(crate) fn add(&mut self, columns: &[ArrayRef], mut visit: impl FnMut(u64)) -> Result<()> {
        let rows = self.converter.convert_columns(columns)?;
        for row in &rows {
            let bytes = row.data();
            match self.counts.get_mut(bytes) {
                Some(count) => {
                    visit(*count);
                    *count += 1;
                }
                None => {
                    visit(0);
                    self.key_bytes += bytes.len() + KEY_OVERHEAD_BYTES;
                    self.counts.insert(bytes.into(), 1);
                }
            }
        }
        self.reservation.try_resize(self.key_bytes)
    }

    /// Removes one equal row for each row; returns whether there was one.
    pub(crate) fn remove(&mut self, columns: &[ArrayRef]) -> Result<Vec<bool>> {
        let rows = self.converter.convert_columns(columns)?;
        let removed = rows.iter().map(|row| match self.counts.get_mut(row.data()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        });
        Ok(removed.collect())
    }

    pub(crate) fn contains(&self, columns: &[ArrayRef]) -> Result<Vec<bool>> {
        let rows = self.converter.convert_columns(columns)?;
        Ok(rows.iter().map(|row| self.counts.contains_key(row.data())).collect())
    }
}

impl std::fmt::Debug for RowCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowCounts({})", self.counts.len())
    }
}

/// A stream that a future makes when it is first polled.
pub(crate) fn deferred_stream<F>(schema: SchemaRef, work: F) -> SendableRecordBatchStream
where
    F: Future<Output = Result<SendableRecordBatchStream>> + Send + 'static,
{
    let out = stream::once(work).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, out))
}

pub(crate) fn filter_rows(batch: &RecordBatch, keep: Vec<bool>) -> Result<RecordBatch> {
    Ok(filter_record_batch(batch, &BooleanArray::from(keep))?)
}
