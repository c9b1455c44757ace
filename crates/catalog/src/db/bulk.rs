//! Many rows in few statements.

use super::dialect::placeholders;
use super::{Db, Row, Tx, Value};
use crate::{Error, Result};

/// Rows of one statement, largest first. A few fixed sizes, so that engines prepare a handful of
/// statements and not one for every length, and any number of rows takes few of them: to hand one
/// over costs more than most rows do. 256 rows of 17 values stay far below SQLite's 32,766.
const ROWS_PER_STATEMENT: [usize; 9] = [256, 128, 64, 32, 16, 8, 4, 2, 1];
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
    /// Runs `{head} VALUES (…), (…) {tail}` until all rows are written. Head and tail have no values,
    /// and no row depends on another.
    pub(crate) async fn write(&mut self, head: &str, rows: Rows, tail: &str) -> Result<()> {
        self.write_counted(head, rows, tail).await.map(drop)
    }

    /// The same, and tells how many rows changed.
    pub(crate) async fn write_counted(
        &mut self,
        head: &str,
        rows: Rows,
        tail: &str,
    ) -> Result<u64> {
        let Rows { width, values } = rows;
        if values.is_empty() {
            return Ok(0);
        }
        let row = self.dialect().marks(1, width);
        if let Some(here) = self.here().await? {
            return here.run(&format!("{head} VALUES {row} {tail}"), values.chunks(width));
        }
        let (mut left, mut changed) = (values.len() / width, 0);
        let mut values = values.into_iter();
        for size in ROWS_PER_STATEMENT {
            while left >= size {
                let marks: Vec<String> =
                    (0..size).map(|row| self.dialect().marks(row * width + 1, width)).collect();
                let sql = format!("{head} VALUES {} {tail}", marks.join(", "));
                changed += self.run(sql, values.by_ref().take(size * width).collect()).await?;
                left -= size;
            }
        }
        Ok(changed)
    }

    /// Gives `columns` of the rows that have these `keys` other values. A row has first its keys and
    /// then its values. Whoever writes knows that they are there: one that is not is not made.
    pub(crate) async fn update(
        &mut self,
        table: &str,
        keys: &[&str],
        columns: &[&str],
        rows: Rows,
    ) -> Result<()> {
        if rows.values.is_empty() {
            return Ok(());
        }
        let each = |names: &[&str], separator: &str, one: &dyn Fn(usize, &str) -> String| {
            let all: Vec<String> = names.iter().enumerate().map(|(at, own)| one(at, own)).collect();
            all.join(separator)
        };
        let expected = (rows.values.len() / rows.width) as u64;
        let changed = if let Some(here) = self.here().await? {
            let set = each(columns, ", ", &|at, own| format!("{own} = ?{}", keys.len() + at + 1));
            let are = each(keys, " AND ", &|at, own| format!("{own} = ?{}", at + 1));
            let sql = format!("UPDATE {table} SET {set} WHERE {are}");
            here.run(&sql, rows.values.chunks(rows.width))?
        } else {
            let set = each(columns, ", ", &|_, own| format!("{own} = new.{own}"));
            let are = each(keys, " AND ", &|_, own| format!("{table}.{own} = new.{own}"));
            let head = format!("WITH new ({}, {}) AS (", keys.join(", "), columns.join(", "));
            let tail = format!(") UPDATE {table} SET {set} FROM new WHERE {are}");
            self.write_counted(&head, rows, &tail).await?
        };
        if changed == expected { Ok(()) } else { Err(Error::OutOfSync) }
    }
}

/// `sql` with `{list}` in place of an IN list, and its values, for every piece of `wanted` that fits
/// into one. The list comes behind `fixed`.
fn statements(
    sql: &str,
    fixed: &[Value],
    wanted: &[Value],
) -> impl Iterator<Item = (String, Vec<Value>)> {
    wanted.chunks(VALUES_PER_LIST).map(move |piece| {
        let length = piece.len().next_power_of_two();
        let filling = piece.last().into_iter().cycle().take(length - piece.len());
        let values = fixed.iter().chain(piece).chain(filling).cloned().collect();
        (sql.replace("{list}", &placeholders(fixed.len() + 1, length)), values)
    })
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
        for (sql, values) in statements(sql, &fixed, wanted) {
            found.extend(self.all(sql, values).await?);
        }
        Ok(found)
    }

    /// Runs a statement for every piece of `wanted` that fits into its `{list}`.
    pub(crate) async fn run_in(
        &mut self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<()> {
        for (sql, values) in statements(sql, &fixed, wanted) {
            self.run(sql, values).await?;
        }
        Ok(())
    }
}

impl Db {
    /// All rows of a query whose `{list}` is any of `wanted`, beside a transaction.
    pub(crate) async fn all_in(
        &self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        for (sql, values) in statements(sql, &fixed, wanted) {
            found.extend(self.all(sql, values).await?);
        }
        Ok(found)
    }
}

/// Ids as values of an IN list.
pub(crate) fn keys<T: Copy + Into<Value>>(ids: &[T]) -> Vec<Value> {
    ids.iter().map(|id| (*id).into()).collect()
}
