//! Bulk statements: many rows per INSERT or UPDATE, long IN lists in chunks.

use sqlx::postgres::{PgArguments, PgPool};
use sqlx::{Arguments as _, AssertSqlSafe};

use super::dialect::placeholders;
use super::{Db, Row, Tx, TxInner, Value};
use crate::{Error, Result};

/// Rows per statement and bytes of their strings on PostgreSQL, which takes each column as one array.
const ARRAY_ROWS_MAX: usize = 8_192;
const ARRAY_BYTES_MAX: usize = 16 << 20;
/// Rows per statement on SQLite, largest first. With a few fixed sizes it prepares a handful of
/// statements. 256 rows of 17 values are far below its limit of 32,766 parameters.
const ROWS_PER_STATEMENT: [usize; 9] = [256, 128, 64, 32, 16, 8, 4, 2, 1];
/// Values per IN list. Shorter lists are padded to a power of two by repeating the last value, so
/// that few distinct statements are prepared.
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
    /// Runs `{head} VALUES (…), (…) {tail}` until all rows are written. Head and tail have no
    /// parameters, and no row depends on another.
    pub(crate) async fn write(&mut self, head: &str, rows: Rows, tail: &str) -> Result<()> {
        self.write_counted(head, rows, tail).await.map(drop)
    }

    /// Like [`Tx::write`]; returns the number of rows changed.
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
        let row = self.dialect().row_placeholders(1, width);
        if let Some(inline) = self.inline().await? {
            return inline.run(&format!("{head} VALUES {row} {tail}"), values.chunks(width));
        }
        if let TxInner::Postgres(tx) = &mut self.inner {
            values.iter().try_for_each(Value::check)?;
            let mut changed = 0;
            let mut left = values.into_iter();
            while left.len() > 0 {
                let columns = Arrays::take(&mut left, width);
                let sql = format!("{head} SELECT * FROM {} {tail}", columns.table(1));
                let mut arguments = PgArguments::default();
                columns.add_to(&mut arguments)?;
                let query = sqlx::query_with(AssertSqlSafe(sql), arguments);
                changed += query.execute(&mut **tx).await?.rows_affected();
            }
            return Ok(changed);
        }
        let (mut left, mut changed) = (values.len() / width, 0);
        let mut values = values.into_iter();
        for size in ROWS_PER_STATEMENT {
            while left >= size {
                let marks: Vec<String> = (0..size)
                    .map(|row| self.dialect().row_placeholders(row * width + 1, width))
                    .collect();
                let sql = format!("{head} VALUES {} {tail}", marks.join(", "));
                changed += self.run(sql, values.by_ref().take(size * width).collect()).await?;
                left -= size;
            }
        }
        Ok(changed)
    }

    /// Updates `columns` of the rows with these `keys`. Each row has its keys first, then its
    /// values. All rows must exist: [`Error::OutOfSync`] if one does not.
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
            let all: Vec<String> =
                names.iter().enumerate().map(|(at, name)| one(at, name)).collect();
            all.join(separator)
        };
        let expected = (rows.values.len() / rows.width) as u64;
        let changed = if let Some(inline) = self.inline().await? {
            let set = each(columns, ", ", &|at, name| format!("{name} = ?{}", keys.len() + at + 1));
            let matches_keys = each(keys, " AND ", &|at, name| format!("{name} = ?{}", at + 1));
            let sql = format!("UPDATE {table} SET {set} WHERE {matches_keys}");
            inline.run(&sql, rows.values.chunks(rows.width))?
        } else {
            let set = each(columns, ", ", &|_, name| format!("{name} = new.{name}"));
            let matches_keys =
                each(keys, " AND ", &|_, name| format!("{table}.{name} = new.{name}"));
            let head = format!("WITH new ({}, {}) AS (", keys.join(", "), columns.join(", "));
            let tail = format!(") UPDATE {table} SET {set} FROM new WHERE {matches_keys}");
            self.write_counted(&head, rows, &tail).await?
        };
        if changed == expected { Ok(()) } else { Err(Error::OutOfSync) }
    }
}

/// Some rows as one array per column, for PostgreSQL: one prepared statement for any number of rows.
struct Arrays(Vec<Array>);

/// The values of a column, which have one type.
enum Array {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<String>>),
    Bool(Vec<Option<bool>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Array {
    fn of(value: Value) -> Self {
        match value {
            Value::Int(int) => Self::Int(vec![int]),
            Value::Text(text) => Self::Text(vec![text]),
            Value::Bool(bool) => Self::Bool(vec![bool]),
            Value::Bytes(bytes) => Self::Bytes(vec![bytes]),
        }
    }

    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Int(all), Value::Int(int)) => all.push(int),
            (Self::Text(all), Value::Text(text)) => all.push(text),
            (Self::Bool(all), Value::Bool(bool)) => all.push(bool),
            (Self::Bytes(all), Value::Bytes(bytes)) => all.push(bytes),
            _ => unreachable!("a column's values are made from one type"),
        }
    }
}

/// Like [`Db::all_in`] on PostgreSQL, with the list as one array. Without statistics, as while a new
/// catalog is filled, the plan of an IN list of parameters compares every row of the table with
/// every value; a list that is a table is joined.
pub(super) async fn all_in_array(
    pool: &PgPool,
    sql: &str,
    fixed: Vec<Value>,
    wanted: &[Value],
) -> Result<Vec<Row>> {
    wanted.iter().try_for_each(Value::check)?;
    let mut rows = Vec::new();
    let mut left = wanted.iter().cloned();
    while left.len() > 0 {
        let list = Arrays::take(&mut left, 1);
        let first = fixed.len() + 1;
        let sql = sql.replace("{list}", &format!("(SELECT * FROM {})", list.table(first)));
        let mut arguments = super::arguments::<PgArguments>(fixed.clone())?;
        list.add_to(&mut arguments)?;
        let query = sqlx::query_with(AssertSqlSafe(sql), arguments);
        rows.extend(query.fetch_all(pool).await?.into_iter().map(Row::Postgres));
    }
    Ok(rows)
}

impl Arrays {
    /// Takes rows up to one of the bounds, but at least one.
    fn take(values: &mut impl ExactSizeIterator<Item = Value>, width: usize) -> Self {
        let (mut columns, mut rows, mut bytes) = (Vec::with_capacity(width), 0, 0);
        while values.len() > 0 && rows < ARRAY_ROWS_MAX && bytes < ARRAY_BYTES_MAX {
            for (at, value) in values.by_ref().take(width).enumerate() {
                bytes += value.bytes();
                match columns.get_mut(at) {
                    None => columns.push(Array::of(value)),
                    Some(column) => column.push(value),
                }
            }
            rows += 1;
        }
        Self(columns)
    }

    /// The arrays as a table, whose columns have the names of those of a `VALUES` list. The first is
    /// the parameter `$first`.
    fn table(&self, first: usize) -> String {
        let parameter = |(at, column): (usize, &Array)| {
            let of = match column {
                Array::Int(_) => "BIGINT",
                Array::Text(_) => "TEXT",
                Array::Bool(_) => "BOOLEAN",
                Array::Bytes(_) => "BYTEA",
            };
            format!("CAST(${} AS {of}[])", first + at)
        };
        let parameters: Vec<String> = self.0.iter().enumerate().map(parameter).collect();
        let names: Vec<String> = (1..=self.0.len()).map(|at| format!("column{at}")).collect();
        format!("UNNEST({}) AS listed ({})", parameters.join(", "), names.join(", "))
    }

    fn add_to(self, arguments: &mut PgArguments) -> Result<()> {
        for column in self.0 {
            match column {
                Array::Int(all) => arguments.add(all),
                Array::Text(all) => arguments.add(all),
                Array::Bool(all) => arguments.add(all),
                Array::Bytes(all) => arguments.add(all),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok(())
    }
}

/// The statements for all chunks of `wanted`, with `{list}` expanded. The list's parameters follow
/// `fixed`.
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
    /// All rows of a query with an IN list of any length in place of `{list}`.
    pub(crate) async fn all_in(
        &mut self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (sql, values) in statements(sql, &fixed, wanted) {
            rows.extend(self.all(sql, values).await?);
        }
        Ok(rows)
    }

    /// Runs a statement with an IN list of any length in place of `{list}`, chunk by chunk.
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
    /// Like [`Tx::all_in`], outside of a transaction.
    pub(crate) async fn all_in(
        &self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (sql, values) in statements(sql, &fixed, wanted) {
            rows.extend(self.all(sql, values).await?);
        }
        Ok(rows)
    }
}

/// Ids as values of an IN list.
pub(crate) fn id_values<T: Copy + Into<Value>>(ids: &[T]) -> Vec<Value> {
    ids.iter().map(|id| (*id).into()).collect()
}
