pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The question makes no sense; the text says why, for whoever asked.
    #[error("{0}")]
    Refused(String),
    /// It does not have the shape of a question.
    #[error("{0}")]
    Parse(String),
    /// A mistake that shows while it runs, by the engine's name for it.
    #[error("{message}")]
    Engine { code: &'static str, message: String },
    #[error("The query was cancelled.")]
    Cancelled,
    #[error("The query took longer than it may.")]
    Time,
    #[error("The query needs more memory than it may have.")]
    Memory,
    /// All questions together have as much memory as they may.
    #[error("Other queries hold the memory that this one needs. Try again in a moment.")]
    Crowded,
    /// Too many questions of the project at once.
    #[error("too many questions at once")]
    Throttled,
    #[error("{0}")]
    Failed(String),
    /// Too many questions at once: ask again in a moment.
    #[error("too many reads of events at once")]
    Busy,
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error("events cannot be read")]
    Warehouse(#[from] warehouse::Error),
    #[error("a read of events ended half-way")]
    Broken(#[from] tokio::task::JoinError),
}

impl Error {
    /// Whether its text is for whoever asked.
    pub fn is_for_asker(&self) -> bool {
        match self {
            Self::Refused(_)
            | Self::Parse(_)
            | Self::Engine { .. }
            | Self::Cancelled
            | Self::Time
            | Self::Memory
            | Self::Crowded
            | Self::Throttled
            | Self::Busy => true,
            Self::Failed(_) | Self::Catalog(_) | Self::Warehouse(_) | Self::Broken(_) => false,
        }
    }
}

impl From<hogql::Error> for Error {
    fn from(error: hogql::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<sql::Error> for Error {
    fn from(error: sql::Error) -> Self {
        match error {
            sql::Error::Invalid { message, .. } => Self::Refused(message),
            sql::Error::Time => Self::Time,
            sql::Error::Memory => Self::Memory,
            sql::Error::TooLarge(_) => Self::Refused(error.to_string()),
            sql::Error::Engine { code: sql::UNEXPECTED, message } => Self::Failed(message),
            sql::Error::Engine { code, message } => Self::Engine { code, message },
            sql::Error::Warehouse(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<insights::Error> for Error {
    fn from(error: insights::Error) -> Self {
        match error {
            insights::Error::Parse(why) => Self::Parse(why),
            insights::Error::Invalid(why) | insights::Error::Missing(why) => Self::Refused(why),
            insights::Error::Time => Self::Time,
            insights::Error::Memory => Self::Memory,
            insights::Error::Warehouse(error) => Self::Warehouse(error),
        }
    }
}

impl From<facts::Error> for Error {
    fn from(error: facts::Error) -> Self {
        match error {
            facts::Error::Refused(why) => Self::Refused(why),
            facts::Error::Warehouse(error) => Self::Warehouse(error),
        }
    }
}
