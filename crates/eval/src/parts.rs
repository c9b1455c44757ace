//! Long calls, some rows at a time.

use arrow_array::{Array as _, ArrayRef};

use crate::column::{Args, Column};
use crate::error::Result;
use crate::gather::size_of_values;
use crate::node::Scope;
use crate::stop::{BYTES_A_LOOK, ROWS_A_LOOK};

impl Scope<'_> {
    /// Calls a function for some rows at a time, and ends in between if nobody waits any more.
    pub fn in_parts(
        &self,
        columns: &[Column],
        rows: usize,
        strict: bool,
        run: &dyn Fn(&Args) -> Result<ArrayRef>,
    ) -> Result<Vec<ArrayRef>> {
        self.stop.check()?;
        let call = |columns: &[Column], rows: usize| {
            let nulls = strict.then(|| Args::any_null(columns, rows)).flatten();
            run(&Args { columns, rows, nulls })
        };
        let own = columns.iter().filter(|column| !column.constant);
        let bytes: usize = own.map(|column| size_of_values(&column.array)).sum();
        let parts = rows.div_ceil(ROWS_A_LOOK).max(bytes.div_ceil(BYTES_A_LOOK)).min(rows);
        if parts < 2 {
            return Ok(vec![call(columns, rows)?]);
        }
        let (step, mut found) = (rows.div_ceil(parts), Vec::with_capacity(parts));
        for from in (0..rows).step_by(step) {
            self.stop.check()?;
            let some = step.min(rows - from);
            let part = |column: &Column| match column.constant {
                true => column.clone(),
                false => Column::full(column.array.slice(from, some)),
            };
            let columns: Vec<Column> = columns.iter().map(part).collect();
            found.push(call(&columns, some)?);
        }
        Ok(found)
    }
}
