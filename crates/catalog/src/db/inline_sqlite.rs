//! Runs SQLite statements on the caller's thread, through rusqlite on sqlx's connection.
//!
//! A pipeline batch runs the same short statements many times. Passing each row to the driver's
//! worker thread costs more than executing it.

use std::sync::Arc;

use rusqlite::types::{FromSql, ToSqlOutput, Value as Stored, ValueRef};
use rusqlite::{Connection, Statement, ToSql};
use sqlx::sqlite::{LockedSqliteHandle, SqliteConnection};

use super::{Row, Value};
use crate::{Error, Result};

/// Exclusive use of a connection's SQLite handle; sqlx's worker is locked out meanwhile.
pub(crate) struct InlineSqlite<'c> {
    connection: Connection,
    /// Declared after the connection, so that statements are finalized before the lock is released.
    _lock: LockedSqliteHandle<'c>,
}

impl<'c> InlineSqlite<'c> {
    #[allow(unsafe_code, reason = "all that the driver gives is a pointer")]
    pub(super) async fn of(driver: &'c mut SqliteConnection) -> Result<Self> {
        let mut lock = driver.lock_handle().await?;
        let handle = lock.as_raw_handle().as_ptr();
        // SAFETY: the handle is open, and the lock excludes every other user of it.
        let connection = unsafe { Connection::from_handle(handle) }?;
        Ok(Self { connection, _lock: lock })
    }

    /// Runs a statement once per row, and returns the number of rows changed.
    pub(crate) fn run<'v>(
        &self,
        sql: &str,
        rows: impl Iterator<Item = &'v [Value]>,
    ) -> Result<u64> {
        let mut statement = self.connection.prepare(sql)?;
        let mut changed = 0;
        for row in rows {
            bind(&mut statement, 1, row)?;
            changed += statement.raw_execute()? as u64;
        }
        Ok(changed)
    }

    /// The rows of a query for each of `wanted`, whose parameter follows `fixed`.
    pub(super) fn find(&self, sql: &str, fixed: &[Value], wanted: &[Value]) -> Result<Vec<Row>> {
        // One read transaction for all lookups: beginning and ending one costs as much as a lookup.
        let read = self.connection.unchecked_transaction()?;
        let rows_read = self.find_each(sql, fixed, wanted)?;
        read.finish()?;
        Ok(rows_read)
    }

    fn find_each(&self, sql: &str, fixed: &[Value], wanted: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.connection.prepare(sql)?;
        let names: Arc<[String]> =
            statement.column_names().into_iter().map(str::to_owned).collect();
        let mut rows_read = Vec::new();
        bind(&mut statement, 1, fixed)?;
        for value in wanted {
            bind(&mut statement, fixed.len() + 1, std::slice::from_ref(value))?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                let values =
                    (0..names.len()).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?;
                rows_read.push(Row::Inline(InlineRow { names: names.clone(), values }));
            }
        }
        Ok(rows_read)
    }
}

fn bind(statement: &mut Statement<'_>, first: usize, values: &[Value]) -> Result<()> {
    for (at, value) in values.iter().enumerate() {
        value.check()?;
        statement.raw_bind_parameter(first + at, value)?;
    }
    Ok(())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Int(Some(int)) => ValueRef::Integer(*int),
            Self::Bool(Some(bool)) => ValueRef::Integer(i64::from(*bool)),
            Self::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Self::Int(None) | Self::Bool(None) | Self::Text(None) | Self::Bytes(None) => {
                ValueRef::Null
            }
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

/// A row that was read inline.
pub(crate) struct InlineRow {
    names: Arc<[String]>,
    values: Vec<Stored>,
}

impl InlineRow {
    pub(super) fn get<T: FromSql>(&self, name: &str) -> Result<T> {
        let mut columns = self.names.iter().zip(&self.values);
        let Some((_, value)) = columns.find(|(own, _)| *own == name) else {
            return Err(rusqlite::Error::InvalidColumnName(name.to_owned()).into());
        };
        let read = T::column_result(ValueRef::from(value));
        read.map_err(|why| Error::corrupt("a column", format!("{name}: {why}")))
    }
}
