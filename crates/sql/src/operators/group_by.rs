//! `GROUP BY`: each partition groups its rows by codes, and the partitions' groups are merged at the
//! end. Keys are numbers: dense ids of persons and of strings, days, integers. Only the keys of the
//! groups of the result become values.

mod keys;
mod states;
mod table;

use std::mem::take;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::take as take_rows;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::Result;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures_util::{StreamExt, stream};

pub(crate) use keys::GroupKey;
use states::GroupStates;
use table::GroupTable;

use super::limit_by::deferred_stream;
use super::{Operator, OperatorExec};
use crate::lower::single_partition;

/// One aggregate of the groups.
#[derive(Clone, Debug)]
pub(crate) struct GroupCall {
    pub call: Arc<AggregateFunctionExpr>,
    /// The types of its arguments.
    pub types: Vec<DataType>,
    pub filter: Option<Arc<dyn PhysicalExpr>>,
}

/// Of the groups, only the first by an aggregate are needed, and those that equal the last of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopGroups {
    pub aggregate: usize,
    pub descending: bool,
    pub rows: usize,
}

#[derive(Debug)]
pub(crate) struct Grouping {
    /// The keys, then the aggregates.
    pub schema: SchemaRef,
    pub keys: Vec<GroupKey>,
    pub calls: Vec<GroupCall>,
    pub top: Option<TopGroups>,
}

/// The groups of the partitions that have ended.
type Finished = Arc<Mutex<Vec<Groups>>>;

pub(crate) fn group_by(
    input: Arc<dyn ExecutionPlan>,
    grouping: Grouping,
) -> Arc<dyn ExecutionPlan> {
    let (grouping, finished) = (Arc::new(grouping), Finished::default());
    let schema = grouping.schema.clone();
    let partitions = input.output_partitioning().partition_count();
    let partial = Partial { grouping: grouping.clone(), finished: finished.clone() };
    let partial = OperatorExec::plan(partial, vec![input], schema.clone(), partitions);
    let merged = Merged { grouping, finished };
    OperatorExec::plan(merged, vec![single_partition(partial)], schema, 1)
}

/// Groups the rows of one partition. It has no output: the groups go to [`Merged`].
#[derive(Debug)]
struct Partial {
    grouping: Arc<Grouping>,
    finished: Finished,
}

#[derive(Debug)]
struct Merged {
    grouping: Arc<Grouping>,
    finished: Finished,
}

struct Groups {
    grouping: Arc<Grouping>,
    table: GroupTable,
    states: GroupStates,
    has_rows: bool,
    /// The group of each row of a batch.
    indexes: Vec<usize>,
    reservation: MemoryReservation,
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Groups({})", self.table.groups())
    }
}

impl Operator for Partial {
    fn name(&self) -> &'static str {
        "group by"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut input = inputs.remove(0);
        let mut groups = Groups::new(&self.grouping, context)?;
        let (schema, finished) = (self.grouping.schema.clone(), self.finished.clone());
        Ok(deferred_stream(schema.clone(), async move {
            while let Some(batch) = input.next().await {
                groups.add(&batch?)?;
            }
            finished.lock().unwrap_or_else(PoisonError::into_inner).push(groups);
            let none = stream::empty();
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, none)) as SendableRecordBatchStream)
        }))
    }
}

impl Operator for Merged {
    fn name(&self) -> &'static str {
        "merge groups"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut input = inputs.remove(0);
        let mut all = Groups::new(&self.grouping, context)?;
        let (schema, finished) = (self.grouping.schema.clone(), self.finished.clone());
        let rows_max = context.session_config().batch_size();
        Ok(deferred_stream(schema.clone(), async move {
            while let Some(batch) = input.next().await {
                batch?;
            }
            let mut parts = take(&mut *finished.lock().unwrap_or_else(PoisonError::into_inner));
            parts.retain(|part| part.has_rows);
            // The largest takes in the others.
            parts.sort_by_key(|part| part.table.groups());
            all = parts.pop().unwrap_or(all);
            for part in parts {
                tokio::task::yield_now().await;
                all.merge(part)?;
            }
            let batch = all.finish()?;
            let starts = (0..batch.num_rows()).step_by(rows_max);
            let slice = move |from: usize| {
                // Keeps the reservation for as long as rows are emitted.
                let _ = &all.reservation;
                Ok(batch.slice(from, rows_max.min(batch.num_rows() - from)))
            };
            let out = stream::iter(starts.map(slice));
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)) as SendableRecordBatchStream)
        }))
    }
}

impl Groups {
    fn new(grouping: &Arc<Grouping>, context: &Arc<TaskContext>) -> Result<Self> {
        Ok(Self {
            grouping: grouping.clone(),
            table: GroupTable::new(&grouping.keys),
            states: GroupStates::new(&grouping.calls, grouping.keys.is_empty())?,
            has_rows: false,
            indexes: Vec::new(),
            reservation: MemoryConsumer::new("groups").register(context.memory_pool()),
        })
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let keys = self.grouping.keys.iter().map(|key| key.words(batch));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        self.has_rows = true;
        self.indexes.clear();
        self.table.assign(&keys, rows, &mut self.indexes);
        for (no, GroupCall { call, filter, .. }) in self.grouping.calls.iter().enumerate() {
            let args = call.expressions();
            let args = args.iter().map(|arg| arg.evaluate(batch)?.into_array(rows));
            let args: Vec<ArrayRef> = args.collect::<Result<_>>()?;
            let filter = filter.as_ref();
            let filter =
                filter.map(|filter| filter.evaluate(batch)?.into_array(rows)).transpose()?;
            let filter = filter.as_ref().map(|filter| filter.as_boolean());
            self.states.update(no, &args, &self.indexes, filter, self.table.groups())?;
        }
        self.reserve()
    }

    fn reserve(&mut self) -> Result<()> {
        self.reservation.try_resize(self.table.bytes() + self.states.bytes())
    }

    fn merge(&mut self, other: Self) -> Result<()> {
        // A copy of its keys, and its groups here.
        let copies = other.table.bytes() + other.table.groups() * size_of::<usize>();
        self.reservation.try_grow(copies)?;
        let keys = other.table.keys();
        let mut groups = Vec::new();
        self.table.assign(&keys, other.table.groups(), &mut groups);
        self.states.merge(other.states, &groups, self.table.groups())?;
        self.reserve()
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let groups = self.table.groups();
        if groups == 0 {
            return Ok(RecordBatch::new_empty(self.grouping.schema.clone()));
        }
        // A copy of the keys, and their order.
        self.reservation.try_grow(self.table.bytes() + groups * size_of::<u64>())?;
        let mut aggregates = match self.has_rows {
            true => self.states.evaluate(groups)?,
            // Without keys there is a group even if there are no rows.
            false => {
                let calls = self.grouping.calls.iter();
                let none = calls.map(|one| one.call.create_accumulator()?.evaluate()?.to_array());
                none.collect::<Result<_>>()?
            }
        };
        let top = self.grouping.top.and_then(|top| top.rows(&aggregates[top.aggregate]));
        let keys = self.table.keys();
        if let Some(top) = &top {
            for column in &mut aggregates {
                *column = take_rows(column, top, None)?;
            }
        }
        let decoded = self.grouping.keys.iter().zip(keys);
        let decoded = decoded.map(|(key, words)| match &top {
            Some(top) => key.values(&words.take(top)),
            None => key.values(&words),
        });
        let mut columns = decoded.collect::<Result<Vec<ArrayRef>>>()?;
        columns.append(&mut aggregates);
        let bytes = columns.iter().map(|column| column.get_array_memory_size()).sum();
        self.reservation.try_resize(bytes)?;
        let options = arrow::array::RecordBatchOptions::new();
        let rows = top.map_or(groups, |top| top.len());
        let options = options.with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.grouping.schema.clone(), columns, &options)?)
    }
}

impl TopGroups {
    /// The first groups and those that equal the last of them; none if that is not known.
    fn rows(&self, column: &ArrayRef) -> Option<UInt32Array> {
        use arrow::datatypes::{Float64Type, Int64Type, UInt64Type};
        if column.null_count() > 0 || column.len() <= self.rows {
            return None;
        }
        // Numbers whose order is that of the values.
        const SIGN: u64 = 1 << 63;
        let rank: Box<dyn Fn(usize) -> u64 + '_> =
            if let Some(numbers) = column.as_primitive_opt::<UInt64Type>() {
                Box::new(|row| numbers.value(row))
            } else if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
                Box::new(|row| numbers.value(row) as u64 ^ SIGN)
            } else {
                let numbers = column.as_primitive_opt::<Float64Type>()?;
                if numbers.values().iter().any(|number| number.is_nan() || *number == 0.0) {
                    return None;
                }
                Box::new(|row| {
                    let bits = numbers.value(row).to_bits();
                    if bits & SIGN == 0 { bits ^ SIGN } else { !bits }
                })
            };
        let mut sorted: Vec<u64> = (0..column.len()).map(&rank).collect();
        let at = self.rows.checked_sub(1)?;
        let last = match self.descending {
            true => *sorted.select_nth_unstable_by(at, |a, b| b.cmp(a)).1,
            false => *sorted.select_nth_unstable(at).1,
        };
        let is_first = |rank: u64| if self.descending { rank >= last } else { rank <= last };
        let rows = (0..column.len()).filter(|row| is_first(rank(*row)));
        Some(rows.map(|row| row as u32).collect())
    }
}
