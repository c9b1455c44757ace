//! Errors of an insight query, by what the caller can do about them.

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query does not have the shape of its kind.
    #[error("{0}")]
    Parse(String),
    /// The query has the right shape but is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The query references a name that the project does not have.
    #[error("{0}")]
    Missing(String),
    #[error("The query took too long.")]
    Timeout,
    #[error("The query needs more memory than it may have.")]
    MemoryLimit,
    #[error("events cannot be read")]
    Warehouse(#[source] warehouse::Error),
}

impl Error {
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::Invalid(detail.into())
    }
}

impl From<hogql::Error> for Error {
    fn from(error: hogql::Error) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<hogql::filter::Error> for Error {
    fn from(error: hogql::filter::Error) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl From<warehouse::Error> for Error {
    fn from(error: warehouse::Error) -> Self {
        match error {
            warehouse::Error::Condition(why) => Self::Invalid(why),
            other => Self::Warehouse(other),
        }
    }
}

impl From<facts::Error> for Error {
    fn from(error: facts::Error) -> Self {
        match error {
            facts::Error::Invalid(why) => Self::Invalid(why),
            facts::Error::Warehouse(error) => error.into(),
        }
    }
}
