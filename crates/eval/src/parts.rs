//! Long calls, some rows at a time.

use arrow_array::{Array as _, ArrayRef};

use crate::cancellation::{BYTES_PER_CHECK, ROWS_PER_CHECK};
use crate::column::{Args, Column};
use crate::error::Result;
use crate::gather::size_of_values;
use crate::meter;
use crate::node::Scope;

impl Scope<'_> {
    /// Calls a function for some rows at a time, and ends in between if nobody waits any more.
    pub fn in_parts(
        &self,
        columns: &[Column],
        rows: usize,
        strict: bool,
        run: &dyn Fn(&Args) -> Result<ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        self.cancellation.check()?;
        let call = |columns: &[Column], rows: usize| {
            let nulls = strict.then(|| Args::any_null(columns, rows)).flatten();
            run(&Args { columns, rows, nulls })
        };
        // Each row may look at all of a constant, such as a long array.
        let bytes_of = |column: &Column| {
            let bytes = size_of_values(&column.array);
            if column.constant { bytes.saturating_mul(rows) } else { bytes }
        };
        let bytes = columns.iter().map(bytes_of).fold(0, usize::saturating_add);
        let parts = rows.div_ceil(ROWS_PER_CHECK).max(bytes.div_ceil(BYTES_PER_CHECK)).min(rows);
        if parts < 2 {
            return Ok(vec![call(columns, rows)?]);
        }
        let (step, mut found) = (rows.div_ceil(parts), Vec::with_capacity(parts));
        let (mut kept, mut room) = (0, meter::Growing::default());
        for from in (0..rows).step_by(step) {
            self.cancellation.check()?;
            let some = step.min(rows - from);
            let part = |column: &Column| match column.constant {
                true => column.clone(),
                false => Column::full(column.array.slice(from, some)),
            };
            let columns: Vec<Column> = columns.iter().map(part).collect();
            let part = call(&columns, some)?;
            kept += size_of_values(&part);
            room.to(kept)?;
            found.push(part);
        }
        Ok(found)
    }
}
