//! SQLite asked where the caller is, not on the driver's thread: what a batch of the pipeline reads
//! and writes is one short statement many times over, and to hand rows over costs more than they do.

use std::sync::Arc;

use rusqlite::types::{FromSql, ToSqlOutput, Value as Stored, ValueRef};
use rusqlite::{Connection, Statement, ToSql};
use sqlx::sqlite::{LockedSqliteHandle, SqliteConnection};

use super::{Row, Value};
use crate::{Error, Result};

/// A connection from which its driver stays away meanwhile.
pub(crate) struct Here<'c> {
    connection: Connection,
    /// Behind the connection, whose statements end first.
    _held: LockedSqliteHandle<'c>,
}

impl<'c> Here<'c> {
    #[allow(unsafe_code, reason = "all that the driver gives is a pointer")]
    pub(super) async fn of(driven: &'c mut SqliteConnection) -> Result<Self> {
        let mut held = driven.lock_handle().await?;
        let handle = held.as_raw_handle().as_ptr();
        // SAFETY: it is open, and nobody else uses it while it is held.
        let connection = unsafe { Connection::from_handle(handle) }?;
        Ok(Self { connection, _held: held })
    }

    /// Runs a statement once for each of `rows`, and tells how many it changed.
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

    /// The rows of a query for each of `wanted`, which comes behind `fixed`.
    pub(super) fn find(&self, sql: &str, fixed: &[Value], wanted: &[Value]) -> Result<Vec<Row>> {
        // One look at the file for all of them: to begin and to end one costs as much as to find.
        let look = self.connection.unchecked_transaction()?;
        let found = self.find_each(sql, fixed, wanted)?;
        look.finish()?;
        Ok(found)
    }

    fn find_each(&self, sql: &str, fixed: &[Value], wanted: &[Value]) -> Result<Vec<Row>> {
        let mut statement = self.connection.prepare(sql)?;
        let names: Arc<[String]> =
            statement.column_names().into_iter().map(str::to_owned).collect();
        let mut found = Vec::new();
        bind(&mut statement, 1, fixed)?;
        for value in wanted {
            bind(&mut statement, fixed.len() + 1, std::slice::from_ref(value))?;
            let mut rows = statement.raw_query();
            while let Some(row) = rows.next()? {
                let values =
                    (0..names.len()).map(|at| row.get(at)).collect::<rusqlite::Result<_>>()?;
                found.push(Row::Here(Found { names: names.clone(), values }));
            }
        }
        Ok(found)
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

/// A row that was found here.
pub(crate) struct Found {
    names: Arc<[String]>,
    values: Vec<Stored>,
}

impl Found {
    pub(super) fn get<T: FromSql>(&self, name: &str) -> Result<T> {
        let mut columns = self.names.iter().zip(&self.values);
        let Some((_, value)) = columns.find(|(own, _)| *own == name) else {
            return Err(rusqlite::Error::InvalidColumnName(name.to_owned()).into());
        };
        let read = T::column_result(ValueRef::from(value));
        read.map_err(|why| Error::corrupt("a column", format!("{name}: {why}")))
    }
}
