//! The first rows of each kind: `DISTINCT` keeps one, `LIMIT BY` some.

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

use super::Step;

#[derive(Debug)]
pub(crate) struct First {
    pub schema: SchemaRef,
    /// Columns that make rows of one kind.
    pub keys: Vec<usize>,
    pub skip: u64,
    pub take: u64,
}

impl Step for First {
    fn name(&self) -> &'static str {
        "first"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = inputs.remove(0);
        let types = self.keys.iter().map(|key| self.schema.field(*key).data_type().clone());
        let mut seen = Seen::new(types.collect(), context.memory_pool())?;
        let (keys, skip) = (self.keys.clone(), self.skip);
        let end = self.skip.saturating_add(self.take);
        let out = input.map(move |batch| {
            let batch = batch?;
            let columns: Vec<ArrayRef> =
                keys.iter().map(|key| batch.column(*key).clone()).collect();
            let mut keep = Vec::with_capacity(batch.num_rows());
            seen.count(&columns, |before| keep.push((skip..end).contains(&before)))?;
            Ok(filter_record_batch(&batch, &BooleanArray::from(keep))?)
        });
        let out = out.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

/// How often each kind of row was met, within the memory that a query has.
pub(crate) struct Seen {
    converter: RowConverter,
    counts: HashMap<Box<[u8]>, u64>,
    key_bytes: usize,
    reservation: MemoryReservation,
}

/// Of a key beside its own bytes: its pointer and length, its count, and the table's slack.
const KEY_OVERHEAD_BYTES: usize = 56;

impl Seen {
    pub(crate) fn new(
        types: Vec<arrow::datatypes::DataType>,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let converter = RowConverter::new(types.into_iter().map(SortField::new).collect())?;
        let reservation = MemoryConsumer::new("rows by kind").register(pool);
        Ok(Self { converter, counts: HashMap::new(), key_bytes: 0, reservation })
    }

    /// Tells of each row how many of its kind were before it.
    pub(crate) fn count(&mut self, columns: &[ArrayRef], mut tell: impl FnMut(u64)) -> Result<()> {
        let rows = self.converter.convert_columns(columns)?;
        for row in &rows {
            let bytes = row.data();
            match self.counts.get_mut(bytes) {
                Some(count) => {
                    tell(*count);
                    *count += 1;
                }
                None => {
                    tell(0);
                    self.key_bytes += bytes.len() + KEY_OVERHEAD_BYTES;
                    self.counts.insert(bytes.into(), 1);
                }
            }
        }
        self.reservation.try_resize(self.key_bytes)
    }

    /// Of each row, whether one of its kind was left, which it then takes.
    pub(crate) fn take(&mut self, columns: &[ArrayRef]) -> Result<Vec<bool>> {
        let rows = self.converter.convert_columns(columns)?;
        let taken = rows.iter().map(|row| match self.counts.get_mut(row.data()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                true
            }
            _ => false,
        });
        Ok(taken.collect())
    }

    pub(crate) fn has(&self, columns: &[ArrayRef]) -> Result<Vec<bool>> {
        let rows = self.converter.convert_columns(columns)?;
        Ok(rows.iter().map(|row| self.counts.contains_key(row.data())).collect())
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Seen({})", self.counts.len())
    }
}

/// A stream that begins with work of its own.
pub(crate) fn later<F>(schema: SchemaRef, work: F) -> SendableRecordBatchStream
where
    F: Future<Output = Result<SendableRecordBatchStream>> + Send + 'static,
{
    let out = stream::once(work).try_flatten();
    Box::pin(RecordBatchStreamAdapter::new(schema, out))
}

pub(crate) fn keep(batch: &RecordBatch, keep: Vec<bool>) -> Result<RecordBatch> {
    Ok(filter_record_batch(batch, &BooleanArray::from(keep))?)
}
