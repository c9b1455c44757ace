//! Why a query fails.

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The query is invalid; the message tells the client why.
    #[error("{0}")]
    Invalid(String),
    /// The request does not have the shape of a query.
    #[error("{0}")]
    Parse(String),
    /// A runtime error of a statement, with the code that ClickHouse has for it.
    #[error("{message}")]
    Engine { code: &'static str, message: String },
    #[error("The query was cancelled.")]
    Cancelled,
    #[error(
        "The query ran longer than query_seconds_max allows. Narrow the date range or filter more."
    )]
    Timeout,
    #[error(
        "The query needs more memory than query_memory_bytes_max allows. Group or filter more."
    )]
    MemoryLimit,
    /// All queries together have reached their memory limit.
    #[error("Other queries hold the memory that this one needs. Try again in a moment.")]
    MemoryPressure,
    /// Too many concurrent queries of the project.
    #[error("too many concurrent queries of this project")]
    Throttled,
    #[error("{0}")]
    Internal(String),
    /// Too many concurrent reads or subscriptions; a retry may succeed.
    #[error("too many concurrent reads of events")]
    Busy,
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error("events cannot be read")]
    Warehouse(#[from] warehouse::Error),
    #[error("a read of events panicked")]
    TaskFailed(#[from] tokio::task::JoinError),
}

impl Error {
    /// Whether the client may see the message.
    pub fn is_user_facing(&self) -> bool {
        match self {
            Self::Invalid(_)
            | Self::Parse(_)
            | Self::Engine { .. }
            | Self::Cancelled
            | Self::Timeout
            | Self::MemoryLimit
            | Self::MemoryPressure
            | Self::Throttled
            | Self::Busy => true,
            Self::Internal(_) | Self::Catalog(_) | Self::Warehouse(_) | Self::TaskFailed(_) => {
                false
            }
        }
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

impl From<sql::Error> for Error {
    fn from(error: sql::Error) -> Self {
        match error {
            sql::Error::Invalid { message, .. } => Self::Invalid(message),
            sql::Error::Timeout => Self::Timeout,
            sql::Error::MemoryLimit => Self::MemoryLimit,
            sql::Error::TooLarge(_) => Self::Invalid(error.to_string()),
            sql::Error::Engine { code: sql::UNEXPECTED, message } => Self::Internal(message),
            sql::Error::Engine { code, message } => Self::Engine { code, message },
            sql::Error::Warehouse(_) => Self::Internal(error.to_string()),
        }
    }
}

impl From<insights::Error> for Error {
    fn from(error: insights::Error) -> Self {
        match error {
            insights::Error::Parse(why) => Self::Parse(why),
            insights::Error::Invalid(why) | insights::Error::Missing(why) => Self::Invalid(why),
            insights::Error::Timeout => Self::Timeout,
            insights::Error::MemoryLimit => Self::MemoryLimit,
            insights::Error::Warehouse(error) => Self::Warehouse(error),
        }
    }
}

impl From<facts::Error> for Error {
    fn from(error: facts::Error) -> Self {
        match error {
            facts::Error::Invalid(why) => Self::Invalid(why),
            facts::Error::Warehouse(error) => Self::Warehouse(error),
        }
    }
}
