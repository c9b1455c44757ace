//! Tables, as far as a query asks for them: only its fields are read, and links to persons,
//! groups and sessions are looked up row by row, without a join.

mod coded;
mod entries;
mod events;
mod persons;
mod push;
mod session_rows;
pub(crate) mod sessions;
mod tables;

pub(crate) use coded::text_type;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, RecordBatch, UInt8Array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::Result as EngineResult;
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use futures_util::stream;
use hogql::plan::Expr;
use hogql::tables::{LazyJoin, Table};

use crate::error::{Error, Result};
use crate::lower::leaves::Field;
use crate::lower::{Lower, schema_of};
use crate::steps::{Step, StepExec};

/// A column of rows that are known by their number.
pub(crate) trait Column: Send + Sync {
    fn ty(&self) -> DataType;
    fn rows(&self, range: Range<usize>) -> Result<ArrayRef>;
}

/// Rows without gaps, made when they are asked for.
struct Known {
    schema: SchemaRef,
    columns: Vec<Box<dyn Column>>,
    rows: usize,
    next: Arc<AtomicUsize>,
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Known({})", self.rows)
    }
}

/// If nothing is asked of the rows, how many there are is still seen.
fn never_empty(mut types: Vec<DataType>) -> Vec<DataType> {
    if types.is_empty() {
        types.push(DataType::UInt8);
    }
    types
}

fn batch(schema: &SchemaRef, mut columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    if columns.is_empty() {
        columns.push(Arc::new(UInt8Array::from(vec![0; rows])));
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

fn known(columns: Vec<Box<dyn Column>>, rows: usize) -> Arc<dyn ExecutionPlan> {
    let types = columns.iter().map(|column| column.ty()).collect();
    let schema = schema_of(never_empty(types));
    let step = Arc::new(Known { schema: schema.clone(), columns, rows, next: Arc::default() });
    StepExec::plan(step, Vec::new(), schema, 1)
}

impl Known {
    fn piece(self: &Arc<Self>, rows_max: usize) -> Result<Option<RecordBatch>> {
        let from = self.next.fetch_add(rows_max, Ordering::Relaxed);
        if from >= self.rows {
            return Ok(None);
        }
        let range = from..self.rows.min(from + rows_max);
        let columns = self.columns.iter().map(|column| column.rows(range.clone()));
        Ok(Some(batch(&self.schema, columns.collect::<Result<_>>()?, range.len())?))
    }
}

impl Step for Arc<Known> {
    fn name(&self) -> &'static str {
        "table"
    }

    fn start(
        &self,
        _: usize,
        _: Vec<SendableRecordBatchStream>,
        context: &Arc<TaskContext>,
    ) -> EngineResult<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size();
        let out = stream::try_unfold(self.clone(), move |known| async move {
            tokio::task::yield_now().await;
            Ok(known.piece(rows_max)?.map(|batch| (batch, known)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

impl Lower {
    /// A plan whose columns are the fields, in their order. Filters hold for every row that is
    /// used; what they allow to leave out is left out, the rest is tested by the caller.
    pub(crate) async fn table(
        &mut self,
        table: Table,
        fields: Vec<Field>,
        filters: &[&Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let by_session = fields.iter().any(|field| field.via.contains(&LazyJoin::Session));
        if by_session || table == Table::Sessions {
            self.read_sessions().await?;
        }
        match table {
            Table::Events => self.events(fields, filters),
            _ => self.known_table(table, fields),
        }
    }
}

fn unsupported(field: &Field) -> Error {
    let via: Vec<String> = field.via.iter().map(|link| format!("{link}.")).collect();
    let message = format!("'{}{}' cannot be read from here", via.concat(), field.name);
    Error::Invalid { message, span: None }
}
