pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not have the shape of its kind.
    #[error("{0}")]
    Parse(String),
    /// It has the shape, and makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// It names what the project does not have.
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
