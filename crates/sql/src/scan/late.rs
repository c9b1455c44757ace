//! Late materialization: the rows of a page are found by the columns that order them, and only then are
//! the other columns read.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, UInt32Array};
use arrow::compute::{interleave_record_batch, take};
use arrow::datatypes::{SchemaRef, UInt32Type, UInt64Type};
use datafusion_common::Result as EngineResult;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::{StreamExt, stream};
use hogql::plan::{Expr, ExprKind};
use warehouse::{Batch, EventSelection, Filter, Order, Predicate, Snapshot, Window};

use super::conditions::ListPredicate;
use super::events::{Events, WIDE_ROWS_MAX};
use super::fields::FieldReader;
use crate::error::{Error, Result};
use crate::lower::Lowering;
use crate::lower::leaves::Field;
use crate::memory::track_array;
use crate::operators::limit_by::deferred_stream;
use crate::operators::{Operator, OperatorExec};

/// The first events by time.
struct ByTime {
    fields: FieldReader,
    events: Snapshot,
    filter: Filter,
    condition: Option<Arc<ListPredicate>>,
    window: Window,
}

/// The columns of rows by their ids, which are the input's last column.
struct ById {
    fields: FieldReader,
    scan: Arc<Events>,
}

impl Lowering {
    /// The first events by time that pass the conditions, with columns of these fields. Reads the newest
    /// (or oldest) rows first, and stops.
    pub(crate) fn first_events(
        &self,
        fields: &[Field],
        source: usize,
        conditions: &[&Expr],
        order: Order,
        rows: usize,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fields = FieldReader::new(self, fields, &[], false)?;
        let (mut filter, rest) = self.pushdown_filter(conditions);
        let mut condition = None;
        if let Some(first) = rest.first() {
            // All of them, in their order: a condition is not evaluated for a row that another drops.
            let all = match conditions {
                [one] => (*one).clone(),
                all => {
                    let parts = all.iter().map(|condition| (*condition).clone()).collect();
                    Expr { kind: ExprKind::And(parts), ty: first.ty.clone(), span: first.span }
                }
            };
            let all = self.event_condition(&all, source)?;
            condition = Some(Arc::new(ListPredicate::new(all, &self.cancellation)));
        }
        let predicates: Vec<Predicate> = (self.view.event_filter.clone().into_iter())
            .chain(condition.clone().map(|condition| Predicate::Rows(condition)))
            .collect();
        filter.predicate = (!predicates.is_empty()).then_some(Predicate::All(predicates));
        let schema = fields.schema.clone();
        let window = Window { order, limit: rows, ..Window::default() };
        let events = self.view.events.clone();
        let operator = Arc::new(ByTime { fields, events, filter, condition, window });
        Ok(OperatorExec::plan(operator, Vec::new(), schema, 1))
    }

    /// A scan with columns of these fields, and the rows' ids after them.
    pub(crate) fn events_with_ids(
        &self,
        fields: &[Field],
        source: usize,
        conditions: &[&Expr],
    ) -> Result<(Arc<dyn ExecutionPlan>, EventRows)> {
        let fields = FieldReader::new(self, fields, &[], true)?;
        let scan = Arc::new(self.events_scan(fields, source, conditions)?);
        Ok((self.scan(scan.clone()), EventRows(scan)))
    }

    /// Columns of these fields of the rows whose ids are the input's last column.
    pub(crate) fn events_by_id(
        &self,
        input: Arc<dyn ExecutionPlan>,
        rows: EventRows,
        fields: &[Field],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fields = FieldReader::new(self, fields, &[], false)?;
        let schema = fields.schema.clone();
        let operator = Arc::new(ById { fields, scan: rows.0 });
        Ok(OperatorExec::plan(operator, vec![input], schema, 1))
    }
}

/// The scan that ids of rows refer to.
pub(crate) struct EventRows(Arc<Events>);

/// The same rows, with dictionaries of no more strings than there are rows: sessions have one for all
/// rows.
fn compacted(batch: RecordBatch) -> Result<RecordBatch> {
    let compact = |column: &ArrayRef| -> Result<ArrayRef> {
        let rows = column.len();
        let Some(coded) = column.as_dictionary_opt::<UInt32Type>() else {
            return Ok(column.clone());
        };
        if coded.values().len() <= rows {
            return Ok(column.clone());
        }
        let strings = take(coded.values(), coded.keys(), None)?;
        let nulls = coded.keys().nulls().cloned();
        let keys = UInt32Array::new((0..rows as u32).collect(), nulls);
        Ok(Arc::new(DictionaryArray::try_new(keys, strings)?))
    };
    let columns = batch.columns().iter().map(compact).collect::<Result<_>>()?;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

/// Reads batches, each with the places of its rows, in the order of the places.
fn assemble(
    fields: &FieldReader,
    parts: Vec<(Vec<usize>, Batch)>,
    rows: usize,
) -> Result<RecordBatch> {
    let mut places = vec![(0, 0); rows];
    let mut batches = Vec::with_capacity(parts.len());
    for (part, (events, read)) in parts.into_iter().enumerate() {
        events.iter().enumerate().for_each(|(row, place)| places[*place] = (part, row));
        let prepared = fields.prepare(read)?;
        batches.push(compacted(fields.slice(&prepared, 0..prepared.rows(), &Vec::new())?)?);
    }
    let batches: Vec<&RecordBatch> = batches.iter().collect();
    let mut copies = fields.memory().charge();
    if !copies.set(batches.iter().map(|batch| batch.get_array_memory_size()).sum()) {
        return Err(Error::MemoryLimit);
    }
    let all = interleave_record_batch(&batches, &places)?;
    drop(copies);
    let columns = all.columns().iter().map(|column| track_array(column.clone(), fields.memory()));
    Ok(RecordBatch::try_new(all.schema(), columns.collect::<EngineResult<_>>()?)?)
}

impl ByTime {
    fn select(&self) -> Result<EventSelection> {
        let selection = self.events.select(&self.filter, &self.window);
        let failed = self.condition.as_ref().and_then(|condition| {
            condition.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(selection?),
        }
    }

    fn batch(&self, selection: &EventSelection, from: usize) -> Result<RecordBatch> {
        let to = selection.len().min(from + WIDE_ROWS_MAX);
        let parts = selection.read_columns(from..to, &self.fields.columns)?.into_iter();
        let parts = parts
            .map(|part| (part.events.into_iter().map(|event| event - from).collect(), part.batch));
        assemble(&self.fields, parts.collect(), to - from)
    }
}

impl std::fmt::Debug for ByTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ByTime({:?} {})", self.window.order, self.window.limit)
    }
}

impl std::fmt::Debug for ById {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ById")
    }
}

impl Operator for Arc<ByTime> {
    fn name(&self) -> &'static str {
        "events by time"
    }

    fn start(
        &self,
        _: usize,
        _: Vec<SendableRecordBatchStream>,
        _: &Arc<TaskContext>,
    ) -> EngineResult<SendableRecordBatchStream> {
        let (events, schema) = (self.clone(), self.fields.schema.clone());
        Ok(deferred_stream(schema.clone(), async move {
            let selection = events.select()?;
            let starts = (0..selection.len()).step_by(WIDE_ROWS_MAX);
            let out = stream::iter(starts).map(move |from| Ok(events.batch(&selection, from)?));
            Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)) as SendableRecordBatchStream)
        }))
    }
}

impl ById {
    fn batches(&self, input: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let ids = input.column(input.num_columns() - 1).as_primitive::<UInt64Type>();
        let chunk = |from: usize| {
            let ids = ids.slice(from, WIDE_ROWS_MAX.min(ids.len() - from));
            let mut by_part: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
            for (place, id) in ids.values().iter().enumerate() {
                let (part, row) = ((id >> 32) as usize, (id & u64::from(u32::MAX)) as usize);
                by_part.entry(part).or_default().push((row, place));
            }
            let mut parts = Vec::with_capacity(by_part.len());
            for (part, mut rows) in by_part {
                rows.sort_unstable();
                let (rows, places) = rows.into_iter().unzip();
                parts.push((places, self.scan.read_rows(part, rows, &self.fields.columns)?));
            }
            assemble(&self.fields, parts, ids.len())
        };
        (0..ids.len()).step_by(WIDE_ROWS_MAX).map(chunk).collect()
    }
}

impl Operator for Arc<ById> {
    fn name(&self) -> &'static str {
        "events by id"
    }

    fn start(
        &self,
        _: usize,
        mut inputs: Vec<SendableRecordBatchStream>,
        _: &Arc<TaskContext>,
    ) -> EngineResult<SendableRecordBatchStream> {
        let (events, schema): (_, SchemaRef) = (self.clone(), self.fields.schema.clone());
        let out = inputs.remove(0).flat_map(move |batch| {
            let batches = batch.and_then(|batch| Ok(events.batches(&batch)?));
            stream::iter(match batches {
                Ok(batches) => batches.into_iter().map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)))
    }
}
