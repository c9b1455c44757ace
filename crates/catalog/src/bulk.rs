//! Many rows in few statements.

use crate::Result;
use crate::db::{Db, Row, Tx, Value};
use crate::dialect::placeholders;

/// Rows of one statement, largest first. A few fixed sizes, so that engines prepare a handful of
/// statements and not one for every length; 256 rows of 17 values stay far below SQLite's 32,766.
const ROWS_PER_STATEMENT: [usize; 4] = [256, 32, 4, 1];
/// Values of one IN list; shorter lists are filled up to a power of two by repeating the last.
const VALUES_PER_LIST: usize = 1_024;

/// Rows to write, all of the same width.
pub(crate) struct Rows {
    width: usize,
    values: Vec<Value>,
}

impl Rows {
    pub(crate) fn new(width: usize) -> Self {
        Self { width, values: Vec::new() }
    }

    pub(crate) fn push(&mut self, row: Vec<Value>) {
        debug_assert_eq!(row.len(), self.width);
        self.values.extend(row);
    }
}

impl Tx {
    /// Runs `{head} VALUES (…), (…) {tail}` until all rows are written.
    pub(crate) async fn write(&mut self, head: &str, rows: Rows, tail: &str) -> Result<()> {
        let Rows { width, values } = rows;
        let mut left = values.len() / width;
        let mut values = values.into_iter();
        for size in ROWS_PER_STATEMENT {
            while left >= size {
                let marks: Vec<String> =
                    (0..size).map(|row| placeholders(row * width + 1, width)).collect();
                let sql = format!("{head} VALUES {} {tail}", marks.join(", "));
                self.run(sql, values.by_ref().take(size * width).collect()).await?;
                left -= size;
            }
        }
        Ok(())
    }
}

/// `wanted` in pieces that fit into one IN list.
fn lists(wanted: &[Value]) -> impl Iterator<Item = Vec<Value>> {
    wanted.chunks(VALUES_PER_LIST).map(|piece| {
        let mut list = piece.to_vec();
        if let Some(last) = piece.last() {
            list.resize(piece.len().next_power_of_two(), last.clone());
        }
        list
    })
}

/// `sql` with `{list}` in place of the IN list, whose first value comes behind `fixed`.
fn statement(sql: &str, fixed: &[Value], list: Vec<Value>) -> (String, Vec<Value>) {
    let marks = placeholders(fixed.len() + 1, list.len());
    (sql.replace("{list}", &marks), fixed.iter().cloned().chain(list).collect())
}

impl Tx {
    /// All rows of a query whose `{list}` is any of `wanted`.
    pub(crate) async fn all_in(
        &mut self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        for list in lists(wanted) {
            let (sql, values) = statement(sql, &fixed, list);
            found.extend(self.all(sql, values).await?);
        }
        Ok(found)
    }
}

impl Db {
    /// The same beside a transaction.
    pub(crate) async fn all_in(
        &self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        for list in lists(wanted) {
            let (sql, values) = statement(sql, &fixed, list);
            found.extend(self.all(sql, values).await?);
        }
        Ok(found)
    }
}

impl Tx {
    /// Runs a statement for every piece of `wanted` that fits into its `{list}`.
    pub(crate) async fn run_in(
        &mut self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<()> {
        for list in lists(wanted) {
            let (sql, values) = statement(sql, &fixed, list);
            self.run(sql, values).await?;
        }
        Ok(())
    }
}
