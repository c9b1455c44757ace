//! What can go wrong, by what the caller can do about it.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not found")]
    NotFound,
    /// A unique rule was broken; `rule` is the constraint or the columns, as the engine names them.
    #[error("already exists: {rule}")]
    Duplicate { rule: String },
    /// A change that the rules refuse. `field` is null when no single field is to blame.
    #[error("{detail}")]
    Refused { field: Option<&'static str>, detail: String },
    /// The same where clients tell the rules apart by a code.
    #[error("{detail}")]
    Unfit { field: &'static str, code: &'static str, detail: String },
    /// Somebody else changed the same thing meanwhile.
    #[error("{0}")]
    Stale(String),
    /// A name that something else here has already.
    #[error("{detail}")]
    Taken { field: &'static str, detail: String },
    #[error("{0}")]
    Forbidden(&'static str),
    /// The database cannot be reached now; trying again may help.
    #[error("the catalog is unavailable")]
    Unavailable(#[source] sqlx::Error),
    /// A batch of the journal that does not continue where the catalog stands.
    #[error("the catalog has applied another part of the journal")]
    OutOfStep,
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
    OtherKey,
    #[error("migration {version} failed")]
    Migration { version: i64, source: Box<Error> },
    #[error("{what} is not readable: {why}")]
    Corrupt { what: &'static str, why: String },
    #[error("the catalog failed")]
    Backend(#[source] sqlx::Error),
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
            // A connection that is cut while it is being made ends in one of these two.
            | sqlx::Error::Protocol(_)
            | sqlx::Error::Tls(_) => Self::Unavailable(error),
            sqlx::Error::Database(ref cause) if cause.is_unique_violation() => {
                Self::Duplicate { rule: cause.constraint().unwrap_or(cause.message()).to_owned() }
            }
            // PostgreSQL's classes 53 (no resources), 57P (shut down), 08 (connection) and 40
            // (rolled back in favour of others).
            sqlx::Error::Database(ref cause)
                if cause.code().is_some_and(|code| {
                    ["53", "57P", "08", "40"].iter().any(|class| code.starts_with(class))
                }) =>
            {
                Self::Unavailable(error)
            }
            other => Self::Backend(other),
        }
    }
}

impl Error {
    pub(crate) fn corrupt(what: &'static str, why: impl std::fmt::Display) -> Self {
        Self::Corrupt { what, why: why.to_string() }
    }

    pub(crate) fn refused(field: Option<&'static str>, detail: impl Into<String>) -> Self {
        Self::Refused { field, detail: detail.into() }
    }
}
