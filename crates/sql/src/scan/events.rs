//! The scan of `events`: partitions take the warehouse's parts one by one, in parallel. It finds the
//! rows first, by the warehouse's filter and by conditions, and then reads columns of those.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion_common::Result as EngineResult;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::stream;
use hogql::plan::Expr;
use warehouse::{Batch, Filter, Projection, ScanRange, SelectedRows};

use super::codes::CodedExpr;
use super::conditions::Condition;
use super::fields::{FieldReader, PreparedBatch, RowIds};
use crate::cancellation::Cancellation;
use crate::error::Result;
use crate::lower::Lowering;
use crate::lower::leaves::Field;
use crate::operators::{Operator, OperatorExec};

/// Rows that are read at a time with the JSON of all properties, which is wide.
pub(super) const WIDE_ROWS_MAX: usize = 4 << 10;

pub(super) struct Events {
    parts: Vec<ScanRange>,
    next: AtomicUsize,
    filter: Filter,
    conditions: Vec<Condition>,
    fields: FieldReader,
    cancellation: Cancellation,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events({} parts)", self.parts.len())
    }
}

impl Lowering {
    /// A scan with these columns, and after them the codes, of the events of a source that pass all
    /// conditions.
    pub(super) fn events(
        &self,
        fields: &[Field],
        codes: &[CodedExpr<'_>],
        source: usize,
        conditions: &[&Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fields = FieldReader::new(self, fields, codes, false)?;
        Ok(self.scan(Arc::new(self.events_scan(fields, source, conditions)?)))
    }

    pub(super) fn events_scan(
        &self,
        fields: FieldReader,
        source: usize,
        conditions: &[&Expr],
    ) -> Result<Events> {
        let (mut filter, rest) = self.pushdown_filter(conditions);
        filter.predicate = self.view.event_filter.clone();
        let conditions = rest.into_iter().map(|condition| self.event_condition(condition, source));
        Ok(Events {
            parts: self.view.events.scan_ranges(&filter)?,
            next: AtomicUsize::new(0),
            filter,
            conditions: conditions.collect::<Result<_>>()?,
            fields,
            cancellation: self.cancellation.clone(),
        })
    }

    pub(super) fn scan(&self, events: Arc<Events>) -> Arc<dyn ExecutionPlan> {
        let schema = events.fields.schema.clone();
        let partitions = self.threads.min(events.parts.len()).max(1);
        OperatorExec::plan(events, Vec::new(), schema, partitions)
    }
}

/// Reads the parts of one partition.
struct PartitionReader {
    scan: Arc<Events>,
    /// The part that is being read, and its rows that are not read yet.
    part: Option<(usize, Vec<SelectedRows>)>,
    batch: Option<(PreparedBatch, RowIds, usize)>,
}

impl PartitionReader {
    async fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        loop {
            if let Some((batch, ids, from)) = &mut self.batch
                && *from < batch.rows()
            {
                let range = *from..batch.rows().min(*from + rows_max);
                *from = range.end;
                return Ok(Some(self.scan.fields.slice(batch, range, ids)?));
            }
            self.batch = None;
            tokio::task::yield_now().await;
            self.scan.cancellation.check()?;
            if let Some((no, chunks)) = &mut self.part
                && let Some(rows) = chunks.pop()
            {
                let ids = self.scan.fields.row_ids(*no, &rows);
                let read = self.scan.parts[*no].read_selected(&rows, &self.scan.fields.columns)?;
                self.batch = Some((self.scan.fields.prepare(read)?, ids, 0));
                continue;
            }
            let no = self.scan.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.scan.parts.get(no) else { return Ok(None) };
            let rows = self.scan.select(part)?;
            let at_once =
                if self.scan.fields.columns.properties { WIDE_ROWS_MAX } else { usize::MAX };
            let mut chunks: Vec<SelectedRows> = rows.chunks(at_once).collect();
            chunks.reverse();
            self.part = Some((no, chunks));
        }
    }
}

impl Events {
    /// Columns of rows of a part, given ascending.
    pub(super) fn read_rows(
        &self,
        part: usize,
        rows: Vec<usize>,
        columns: &Projection,
    ) -> Result<Batch> {
        let part = &self.parts[part];
        Ok(part.read_selected(&SelectedRows::of(rows, part.rows_max()), columns)?)
    }

    /// The rows of a part that pass all conditions.
    fn select(&self, part: &ScanRange) -> Result<SelectedRows> {
        let mut rows = part.select(&self.filter)?;
        for condition in &self.conditions {
            if rows.is_empty() {
                break;
            }
            self.cancellation.check()?;
            condition.retain(part, &mut rows)?;
        }
        part.count_matched(&rows);
        Ok(rows)
    }
}

impl Operator for Arc<Events> {
    fn name(&self) -> &'static str {
        "events"
    }

    fn details(&self) -> String {
        let Events { parts, filter, conditions, fields, .. } = &**self;
        let rows: usize = parts.iter().map(ScanRange::rows_max).sum();
        let mut details = format!("{rows} rows in {} ranges to scan", parts.len());
        if let Some(events) = &filter.events {
            details.push_str(&format!(", of events {events:?}"));
        }
        if !filter.excluded_events.is_empty() {
            details.push_str(&format!(", without events {:?}", filter.excluded_events));
        }
        if filter.after.is_some() || filter.before.is_some() {
            details.push_str(&format!(", after {:?}, before {:?}", filter.after, filter.before));
        }
        let columns = fields.columns.keys.len();
        details.push_str(&format!(", {} conditions, {columns} columns", conditions.len()));
        details
    }

    fn start(
        &self,
        _: usize,
        _: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> EngineResult<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size();
        let schema: SchemaRef = self.fields.schema.clone();
        let reader = PartitionReader { scan: self.clone(), part: None, batch: None };
        let out = stream::try_unfold(reader, move |mut reader| async move {
            Ok(reader.next(rows_max).await?.map(|batch| (batch, reader)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, out)))
    }
}
