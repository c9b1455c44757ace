//! Chunked execution of one call, with cancellation checks between the chunks.

use arrow_array::{Array as _, ArrayRef};

use crate::error::Result;
use crate::limits::cancellation::{BYTES_PER_CHECK, ROWS_PER_CHECK};
use crate::limits::meter;
use crate::run::scope::Scope;
use crate::vector::column::{Args, Column};
use crate::vector::gather::size_of_values;

impl Scope<'_> {
    /// Runs a kernel over chunks of the rows and checks for cancellation before each.
    pub fn run_in_chunks(
        &self,
        columns: &[Column],
        rows: usize,
        strict: bool,
        kernel: &dyn Fn(&Args) -> Result<ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        self.cancellation.check()?;
        let call = |columns: &[Column], rows: usize| {
            let nulls = strict.then(|| Args::any_null(columns, rows)).flatten();
            kernel(&Args { columns, rows, nulls })
        };
        // Each row may read all of a constant, such as a long array.
        let bytes_of = |column: &Column| {
            let bytes = size_of_values(&column.array);
            if column.constant { bytes.saturating_mul(rows) } else { bytes }
        };
        let bytes = columns.iter().map(bytes_of).fold(0, usize::saturating_add);
        let chunks = rows.div_ceil(ROWS_PER_CHECK).max(bytes.div_ceil(BYTES_PER_CHECK)).min(rows);
        if chunks < 2 {
            return Ok(vec![call(columns, rows)?]);
        }
        let (chunk_rows, mut results) = (rows.div_ceil(chunks), Vec::with_capacity(chunks));
        let (mut result_bytes, mut charge) = (0, meter::GrowingBuffer::default());
        for from in (0..rows).step_by(chunk_rows) {
            self.cancellation.check()?;
            let len = chunk_rows.min(rows - from);
            let slice = |column: &Column| match column.constant {
                true => column.clone(),
                false => Column::full(column.array.slice(from, len)),
            };
            let columns: Vec<Column> = columns.iter().map(slice).collect();
            let result = call(&columns, len)?;
            result_bytes += size_of_values(&result);
            charge.grow_to(result_bytes)?;
            results.push(result);
        }
        Ok(results)
    }
}
