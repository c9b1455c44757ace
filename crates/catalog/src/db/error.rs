//! The crate's errors, by what the caller can do about them.

use model::flag::filters::InvalidFilters;
use rusqlite::ffi;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not found")]
    NotFound,
    /// A unique constraint failed; `rule` is the constraint or its columns, as the engine names
    /// them.
    #[error("already exists: {rule}")]
    Duplicate { rule: String },
    /// A change that breaks a rule. `field` is none if no single field is at fault.
    #[error("{detail}")]
    Refused { field: Option<&'static str>, detail: String },
    /// Like `Refused`, with an error code that clients distinguish.
    #[error("{detail}")]
    Invalid { field: &'static str, code: &'static str, detail: String },
    /// Optimistic concurrency control failed: somebody else changed the same object meanwhile.
    #[error("{0}")]
    Stale(String),
    /// A name that another object already has.
    #[error("{detail}")]
    Taken { field: &'static str, detail: String },
    #[error("{0}")]
    Forbidden(&'static str),
    /// The database is unreachable; a retry may succeed.
    #[error("the catalog is unavailable")]
    Unavailable(#[source] Cause),
    /// A journal batch does not start at the stored offset, or updates a missing row.
    #[error("the journal batch does not match the stored offset or rows")]
    OutOfSync,
    #[error("another server owns this catalog; stop it first, or give this one its own")]
    Owned,
    #[error(
        "the catalog has schema {found}, newer than this program's {known}; start a newer hedgerow"
    )]
    NewerSchema { found: i64, known: i64 },
    #[error(
        "the catalog has schema {found}, older than this program's {known}; start the server once to migrate it"
    )]
    OlderSchema { found: i64, known: i64 },
    #[error(
        "the catalog was made with another secret key; set secret_key, or restore secret.key, to that one"
    )]
    WrongSecretKey,
    #[error("migration {version} failed")]
    Migration { version: i64, source: Box<Error> },
    #[error("{what} is not readable: {why}")]
    Corrupt { what: &'static str, why: String },
    #[error("the catalog failed")]
    Backend(#[source] Cause),
}

/// The error of the driver.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Cause {
    Driver(sqlx::Error),
    /// From a statement that bypassed sqlx.
    Sqlite(rusqlite::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::RowNotFound => Self::NotFound,
            sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::Io(_)
            // A connection that breaks while it is established ends in one of these two.
            | sqlx::Error::Protocol(_)
            | sqlx::Error::Tls(_) => Self::Unavailable(Cause::Driver(error)),
            sqlx::Error::Database(ref cause) if cause.is_unique_violation() => {
                Self::Duplicate { rule: cause.constraint().unwrap_or(cause.message()).to_owned() }
            }
            sqlx::Error::Database(ref cause) if code(&**cause).is_transient() => {
                Self::Unavailable(Cause::Driver(error))
            }
            other => Self::Backend(Cause::Driver(other)),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match &error {
            rusqlite::Error::SqliteFailure(cause, message) if is_duplicate(cause) => {
                Self::Duplicate { rule: message.clone().unwrap_or_else(|| cause.to_string()) }
            }
            rusqlite::Error::SqliteFailure(cause, _) if Code::of(cause).is_transient() => {
                Self::Unavailable(Cause::Sqlite(error))
            }
            _ => Self::Backend(Cause::Sqlite(error)),
        }
    }
}

fn is_duplicate(cause: &ffi::Error) -> bool {
    [ffi::SQLITE_CONSTRAINT_UNIQUE, ffi::SQLITE_CONSTRAINT_PRIMARYKEY]
        .contains(&cause.extended_code)
}

/// An engine's error code.
enum Code {
    /// The primary result code.
    Sqlite(i32),
    /// SQLSTATE.
    Postgres(String),
}

/// Mask of the primary code in an extended result code.
const PRIMARY: i32 = 0xff;

fn code(cause: &dyn DatabaseError) -> Code {
    let code = cause.code().unwrap_or_default();
    match (cause.try_downcast_ref::<SqliteError>(), code.parse::<i32>()) {
        (Some(_), Ok(extended)) => Code::Sqlite(extended & PRIMARY),
        _ => Code::Postgres(code.into_owned()),
    }
}

impl Code {
    fn of(cause: &ffi::Error) -> Self {
        Self::Sqlite(cause.extended_code & PRIMARY)
    }

    /// Whether the error is transient: a retry may succeed without other values.
    fn is_transient(&self) -> bool {
        match self {
            // busy, locked, no memory, read-only, interrupted, I/O, full, cannot open, protocol
            Self::Sqlite(code) => matches!(code, 5..=10 | 13..=15),
            // Classes 53 (insufficient resources), 57P (shutdown), 58 (I/O), 08 (connection), 40
            // (deadlock, serialization), 55 (lock not available), and 25006 (read-only).
            Self::Postgres(state) => {
                let classes = ["53", "57P", "58", "08", "40", "55", "25006"];
                classes.iter().any(|class| state.starts_with(class))
            }
        }
    }

    /// Whether the disk of the database has no space left.
    fn is_disk_full(&self) -> bool {
        match self {
            Self::Sqlite(code) => *code == ffi::SQLITE_FULL,
            Self::Postgres(state) => state == "53100",
        }
    }

    /// Whether the engine rejected the values of the statement.
    fn is_data_error(&self) -> bool {
        match self {
            // too big, constraint, mismatch
            Self::Sqlite(code) => matches!(code, 18..=20),
            // Classes 22 (data), 23 (constraint), 44 (check option), 54 (limit), P0 (trigger).
            Self::Postgres(state) => {
                ["22", "23", "44", "54", "P0"].iter().any(|class| state.starts_with(class))
            }
        }
    }
}

impl Cause {
    /// Whether the disk of the database has no space left: reads go on, and the operator has to act.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Driver(sqlx::Error::Database(cause)) => code(&**cause).is_disk_full(),
            Self::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) => {
                Code::of(cause).is_disk_full()
            }
            _ => false,
        }
    }

    fn is_data_error(&self) -> bool {
        match self {
            Self::Driver(sqlx::Error::Database(cause)) => code(&**cause).is_data_error(),
            Self::Driver(cause) => matches!(
                cause,
                sqlx::Error::Encode(_) | sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. }
            ),
            Self::Sqlite(rusqlite::Error::SqliteFailure(cause, _)) => {
                Code::of(cause).is_data_error()
            }
            Self::Sqlite(cause) => matches!(
                cause,
                rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::ToSqlConversionFailure(_)
                    | rusqlite::Error::Utf8Error(..)
            ),
        }
    }
}

impl Error {
    /// Whether the values are at fault: other values would have worked. Any other error concerns
    /// the catalog itself and may be transient.
    pub fn is_data_error(&self) -> bool {
        match self {
            Self::NotFound
            | Self::Duplicate { .. }
            | Self::Refused { .. }
            | Self::Invalid { .. }
            | Self::Stale(_)
            | Self::Taken { .. }
            | Self::Forbidden(_)
            | Self::Corrupt { .. } => true,
            Self::Backend(cause) => cause.is_data_error(),
            Self::Unavailable(_)
            | Self::OutOfSync
            | Self::Owned
            | Self::NewerSchema { .. }
            | Self::OlderSchema { .. }
            | Self::WrongSecretKey
            | Self::Migration { .. } => false,
        }
    }

    pub(crate) fn corrupt(what: &'static str, why: impl std::fmt::Display) -> Self {
        Self::Corrupt { what, why: why.to_string() }
    }

    pub(crate) fn refused(field: Option<&'static str>, detail: impl Into<String>) -> Self {
        Self::Refused { field, detail: detail.into() }
    }

    /// Invalid conditions of a flag or cohort, with their error code.
    pub(crate) fn invalid_filters(refused: InvalidFilters) -> Self {
        Self::Invalid { field: "filters", code: refused.code, detail: refused.detail }
    }
}
