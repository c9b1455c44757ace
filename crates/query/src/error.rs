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
    /// The warehouse cannot answer now; the message says what its operator does about it.
    #[error("{0}")]
    Unavailable(String),
    /// ClickHouse does not run a statement that was printed for it.
    #[error("ClickHouse refuses a statement: {0}")]
    Refused(String),
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
            | Self::Unavailable(_)
            | Self::Busy => true,
            Self::Internal(_)
            | Self::Refused(_)
            | Self::Catalog(_)
            | Self::Warehouse(_)
            | Self::TaskFailed(_) => false,
        }
    }
}

impl Error {
    /// What everybody may read about a ClickHouse that cannot answer now: what its operator does.
    pub fn remedy(error: &clickhouse::Error) -> Option<&'static str> {
        use clickhouse::Error as Cause;
        Some(match error {
            Cause::Away { .. } => {
                "ClickHouse, which stores the events, is away. Check that it runs, and \
                 warehouse_url; events that arrive meanwhile wait in the journal."
            }
            Cause::Busy { .. } => {
                "ClickHouse runs as many queries as it may. Try again in a moment, or raise its \
                 max_concurrent_queries."
            }
            Cause::TooManyParts { .. } => {
                "ClickHouse's merges are behind its inserts. Try again in a moment; give it more \
                 disk throughput or threads for merges (background_pool_size)."
            }
            Cause::Full { .. } => {
                "ClickHouse's disk is full. Free space on it, or shorten retention."
            }
            Cause::ReadOnlyReplica { .. } => {
                "A replica of ClickHouse is read-only. Check its connection to Keeper \
                 (system.replicas)."
            }
            Cause::ReadOnlyUser { .. } | Cause::Denied { .. } => {
                "The user of warehouse_url lacks a privilege that this query needs. GRANT it; the \
                 server's log names it."
            }
            Cause::Unauthenticated { .. } => {
                "ClickHouse refuses the user or the password of warehouse_url. Correct them."
            }
            Cause::Untrusted { .. } => {
                "The certificate of ClickHouse cannot be verified. The server's log says why."
            }
            Cause::Protocol { .. } => {
                "What answers at warehouse_url is not ClickHouse. The server's log says more."
            }
            _ => return None,
        })
    }
}

/// What clients see; the log has what ClickHouse says, which names its server and its settings.
impl From<clickhouse::Error> for Error {
    fn from(error: clickhouse::Error) -> Self {
        use clickhouse::Error as Cause;
        if let Some(remedy) = Self::remedy(&error) {
            tracing::warn!(%error, "ClickHouse does not answer a query");
            return Self::Unavailable(remedy.to_owned());
        }
        match &error {
            Cause::TooMuchMemory { .. } => Self::MemoryLimit,
            Cause::TooSlow { .. } => Self::Timeout,
            Cause::Cancelled => Self::Cancelled,
            Cause::TooManyRows { .. }
            | Cause::TooLarge { .. }
            | Cause::ParametersTooLarge { .. } => Self::Invalid(error.to_string()),
            Cause::Refused { .. } => Self::Refused(error.to_string()),
            _ => Self::Internal(error.to_string()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_clickhouse_say_what_its_operator_does_and_not_where_it_is() {
        let message = || "secret-host".to_owned();
        let (server, why) = (message(), message());
        for (error, remedy) in [
            (clickhouse::Error::Away { server, why }, "Check that it runs"),
            (clickhouse::Error::Busy { message: message() }, "max_concurrent_queries"),
            (clickhouse::Error::TooManyParts { message: message() }, "background_pool_size"),
            (clickhouse::Error::Full { message: message() }, "shorten retention"),
            (clickhouse::Error::ReadOnlyReplica { message: message() }, "system.replicas"),
            (clickhouse::Error::Denied { message: message() }, "GRANT"),
            (clickhouse::Error::Unauthenticated { message: message() }, "warehouse_url"),
        ] {
            let Error::Unavailable(shown) = Error::from(error) else { panic!("{remedy}") };
            assert!(shown.contains(remedy) && !shown.contains("secret-host"), "{shown}");
        }
        let slow = clickhouse::Error::TooSlow { message: message() };
        assert!(matches!(Error::from(slow), Error::Timeout));
        let large = clickhouse::Error::TooMuchMemory { message: message() };
        assert!(matches!(Error::from(large), Error::MemoryLimit));
    }
}
