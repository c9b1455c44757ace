//! Table scans. They read only the fields that a query uses, and resolve lazy joins to persons,
//! groups and sessions by lookup, row by row.

pub(crate) mod codes;
mod conditions;
mod derived_entries;
mod dictionary_strings;
mod entry_expr;
mod entry_memo;
mod events;
mod fields;
mod late;
mod persons;
mod pushdown;
mod session_parts;
pub(crate) mod sessions;
mod tables;

use codes::CodedExpr;
pub(crate) use dictionary_strings::dictionary_string_type;

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
use crate::lower::leaves::{Field, Leaf, leaves};
use crate::lower::{Lowering, schema_of};
use crate::operators::{Operator, OperatorExec};

/// A column of an in-memory table.
pub(crate) trait Column: Send + Sync {
    fn ty(&self) -> DataType;
    fn rows(&self, range: Range<usize>) -> Result<ArrayRef>;
}

/// A table in memory, whose batches are built when they are read.
struct InMemoryTable {
    schema: SchemaRef,
    columns: Vec<Box<dyn Column>>,
    rows: usize,
    next: Arc<AtomicUsize>,
}

impl std::fmt::Debug for InMemoryTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "InMemoryTable({})", self.rows)
    }
}

/// A scan without columns gets a placeholder, which carries the number of rows.
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

fn in_memory_table(columns: Vec<Box<dyn Column>>, rows: usize) -> Arc<dyn ExecutionPlan> {
    let types = columns.iter().map(|column| column.ty()).collect();
    let schema = schema_of(never_empty(types));
    let operator =
        Arc::new(InMemoryTable { schema: schema.clone(), columns, rows, next: Arc::default() });
    OperatorExec::plan(operator, Vec::new(), schema, 1)
}

impl InMemoryTable {
    fn next_batch(self: &Arc<Self>, rows_max: usize) -> Result<Option<RecordBatch>> {
        let from = self.next.fetch_add(rows_max, Ordering::Relaxed);
        if from >= self.rows {
            return Ok(None);
        }
        let range = from..self.rows.min(from + rows_max);
        let columns = self.columns.iter().map(|column| column.rows(range.clone()));
        Ok(Some(batch(&self.schema, columns.collect::<Result<_>>()?, range.len())?))
    }
}

impl Operator for Arc<InMemoryTable> {
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
        let out = stream::try_unfold(self.clone(), move |table| async move {
            tokio::task::yield_now().await;
            Ok(table.next_batch(rows_max)?.map(|batch| (batch, table)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), out)))
    }
}

impl Lowering {
    pub(crate) async fn load_sessions_for(
        &mut self,
        fields: &[Field],
        conditions: &[&Expr],
        always: bool,
    ) -> Result<()> {
        let mut by_session = fields.iter().any(|field| field.via.contains(&LazyJoin::Session));
        for condition in conditions {
            leaves(condition, &mut |leaf| {
                if let Leaf::Field { field, .. } = leaf {
                    by_session |= field.via.contains(&LazyJoin::Session);
                }
            });
        }
        if by_session || always {
            self.load_sessions().await?;
        }
        Ok(())
    }

    /// A scan of a source whose columns are the fields, in their order, and the codes. Of events, only
    /// those that pass the conditions; the caller has to apply them to other tables.
    pub(crate) async fn table(
        &mut self,
        table: Table,
        source: usize,
        fields: &[Field],
        codes: &[CodedExpr<'_>],
        conditions: &[&Expr],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.load_sessions_for(fields, conditions, table == Table::Sessions).await?;
        match table {
            Table::Events => self.events(fields, codes, source, conditions),
            _ => self.memory_table(table, fields.to_vec()),
        }
    }
}

fn unsupported(field: &Field) -> Error {
    let via: Vec<String> = field.via.iter().map(|link| format!("{link}.")).collect();
    let message = format!("'{}{}' cannot be read from this table", via.concat(), field.name);
    Error::Invalid { message, span: None }
}
